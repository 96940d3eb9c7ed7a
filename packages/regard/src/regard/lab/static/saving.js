// Take a picture along: everything that a page draws, one below the other, as an SVG or PNG file of its own.

const LOOKS = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "font-style",
  "text-anchor",
  "paint-order",
  "display",
  "visibility",
];
const SVG = "http://www.w3.org/2000/svg";
const FINER = 2; // pixels of a PNG for each pixel of the screen

/** Save what `place` shows as NAME.svg or NAME.png. */
export async function savePicture(place, name, kind) {
  const { text, width, height } = joinDrawings(place);
  const made = kind === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await paintPng(text, width, height);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(made);
  link.download = `regard-${name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** All drawings and charts of a place as one SVG that needs no style sheet, where they stand on the screen. */
function joinDrawings(place) {
  const frame = place.getBoundingClientRect();
  const [width, height] = [Math.ceil(frame.width), Math.ceil(frame.height)];
  const sheet = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` }))
    sheet.setAttribute(key, value);
  const paper = document.createElementNS(SVG, "rect");
  paper.setAttribute("width", width);
  paper.setAttribute("height", height);
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  sheet.append(paper);
  for (const one of place.querySelectorAll("svg, canvas")) {
    if (one.parentElement.closest("svg")) continue; // a part of one that is taken already
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const copy = one.localName === "svg" ? themedCopy(one) : bitmap(one);
    for (const [key, value] of [
      ["x", box.left - frame.left],
      ["y", box.top - frame.top],
      ["width", box.width],
      ["height", box.height],
    ])
      copy.setAttribute(key, value);
    sheet.append(copy);
  }
  return { text: new XMLSerializer().serializeToString(sheet), width, height };
}

/** A copy of a drawing with the looks that its style sheet gave it. */
function themedCopy(drawing) {
  const copy = drawing.cloneNode(true);
  const [old, fresh] = [
    [drawing, ...drawing.querySelectorAll("*")],
    [copy, ...copy.querySelectorAll("*")],
  ];
  old.forEach((one, i) => {
    const looks = getComputedStyle(one);
    for (const name of LOOKS) fresh[i].setAttribute(name, looks.getPropertyValue(name));
    fresh[i].removeAttribute("class");
  });
  return copy;
}

function bitmap(canvas) {
  const image = document.createElementNS(SVG, "image");
  image.setAttribute("href", canvas.toDataURL("image/png"));
  image.setAttribute("preserveAspectRatio", "none");
  return image;
}

function paintPng(text, width, height) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [FINER * width, FINER * height];
      const pen = canvas.getContext("2d");
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser made no picture"))), "image/png");
    };
    image.onerror = () => reject(new Error("the browser could not draw the picture"));
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  });
}
