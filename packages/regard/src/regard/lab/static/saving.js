// Take a picture along as an SVG or PNG file of its own: the page's title, everything that it draws with its captions and
// legends, the sentences that say what is proved, and the address where it is found again.

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
const MARGIN = 16;
const TOOLS = "select, [type=range], .needs-python, .choice, .vocabulary, .offers, .look-tools, .look-actions"; // of the page, not of its picture
const SANS = "system-ui, sans-serif"; // a file has no fonts of its own: those of whoever opens it

/** Save `blocks`, elements that stand one below the other in the file, above an address: NAME.svg or NAME.png. */
export async function savePicture(blocks, address, name, kind) {
  const { text, width, height } = drawSheet(blocks, address);
  const made = kind === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await paintPng(text, width, height);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(made);
  link.download = `regard-${name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** An SVG that needs no style sheet: each block as it looks on the screen. */
function drawSheet(blocks, address) {
  const shown = blocks.filter((one) => one?.checkVisibility() && one.getBoundingClientRect().height);
  const width = 2 * MARGIN + Math.ceil(Math.max(...shown.map((one) => one.getBoundingClientRect().width)));
  const sheet = svg("svg", { xmlns: SVG, width });
  const paper = svg("rect", { width, fill: getComputedStyle(document.body).backgroundColor });
  sheet.append(paper);
  let top = MARGIN;
  for (const block of shown) {
    const box = block.getBoundingClientRect();
    sheet.append(svg("g", { transform: `translate(${MARGIN - box.left} ${top - box.top})` }, ...copyBlock(block)));
    top += box.height + MARGIN / 2;
  }
  const soft = getComputedStyle(document.getElementById("hint")).color;
  const letters = Math.floor((width - 2 * MARGIN) / 6.8);
  for (const line of address.match(new RegExp(`.{1,${letters}}`, "g"))) {
    top += 14;
    sheet.append(svg("text", { x: MARGIN, y: top, "font-size": 11, "font-family": "monospace", fill: soft }, line));
  }
  const height = Math.ceil(top + MARGIN);
  for (const one of [sheet, paper]) one.setAttribute("height", height);
  sheet.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { text: new XMLSerializer().serializeToString(sheet), width, height };
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Everything that an element shows, where it stands on the screen: drawings, charts, boxes and words. */
function copyBlock(block) {
  const made = [];
  const walk = (one) => {
    if (one.nodeType === Node.TEXT_NODE) return made.push(...copyWords(one));
    if (one.nodeType !== Node.ELEMENT_NODE || one.matches(TOOLS)) return;
    if (!one.checkVisibility({ visibilityProperty: true })) return;
    const box = one.getBoundingClientRect();
    const drawing = { svg: themedCopy, canvas: bitmap }[one.localName]?.(one);
    if (drawing) {
      for (const [key, value] of Object.entries({ x: box.left, y: box.top, width: box.width, height: box.height }))
        drawing.setAttribute(key, value);
      if (box.width && box.height) made.push(drawing);
      return;
    }
    made.push(...copyBox(one, box), ...copyMark(one, box));
    if (one.localName === "input" && one.type === "text") made.push(word(one.value, one, box, box.left + 10));
    one.childNodes.forEach(walk);
  };
  walk(block);
  return made;
}

const isSeen = (colour) => !/^transparent|^rgba\(.*, 0\)$|\/ 0\)$/.test(colour);

/** The background and the frame of an element; of a fraction and a root the line. */
function copyBox(one, box) {
  const looks = getComputedStyle(one);
  const place = { x: box.left, y: box.top, width: box.width, height: box.height };
  const line = (x1, y1, x2, y2) => svg("line", { x1, y1, x2, y2, stroke: looks.color });
  if (one.localName === "mfrac") {
    const [above, below] = [...one.children].map((part) => part.getBoundingClientRect());
    return [line(box.left, (above.bottom + below.top) / 2, box.right, (above.bottom + below.top) / 2)];
  }
  if (one.localName === "msqrt") {
    const [left, inner] = [box.left, one.firstElementChild.getBoundingClientRect().left];
    const points = `${left},${box.bottom - 5} ${left + 3},${box.bottom - 7} ${inner - 4},${box.bottom} ${inner - 1},${box.top + 1} ${box.right},${box.top + 1}`;
    return [svg("polyline", { points, fill: "none", stroke: looks.color })];
  }
  const ramp = looks.backgroundImage.match(/^linear-gradient\(90deg, (rgb[^)]*\)), (rgb[^)]*\))\)$/);
  if (ramp) {
    const steps = 64; // of the ramp, so that the file needs no names
    const shade = (i) => ({ fill: ramp[2], "fill-opacity": i / (steps - 1), x: box.left + (i * box.width) / steps });
    return [...Array(steps).keys()].map((i) => svg("rect", { ...place, ...shade(i), width: box.width / steps }));
  }
  const made = [];
  if (isSeen(looks.backgroundColor)) made.push(svg("rect", { ...place, rx: 3, fill: looks.backgroundColor }));
  for (const [side, ends] of [
    ["Bottom", [box.left, box.bottom, box.right, box.bottom]],
    ["Left", [box.left, box.top, box.left, box.bottom]],
  ])
    if (parseFloat(looks[`border${side}Width`]) && one.localName !== "button") {
      made.push(line(...ends));
      made.at(-1).setAttribute("stroke", looks[`border${side}Color`]);
    }
  return made;
}

/** The sign before an entry of a legend. */
function copyMark(one, box) {
  const looks = getComputedStyle(one, "::before");
  const [width, height] = [parseFloat(looks.width), parseFloat(looks.height)];
  if (looks.content !== '""' || !width || !height || looks.display === "none") return [];
  const place = { x: box.left, y: box.top + (box.height - height) / 2, width, height };
  if (parseFloat(looks.borderTopWidth)) {
    const turn = `rotate(45 ${place.x + width / 2} ${place.y + height / 2})`;
    return [svg("rect", { ...place, fill: "none", stroke: looks.borderTopColor, "stroke-width": 2, transform: turn })];
  }
  if (looks.borderRadius === "50%") return [svg("rect", { ...place, rx: width / 2, fill: looks.backgroundColor })];
  if (isSeen(looks.backgroundColor)) return [svg("rect", { ...place, fill: looks.backgroundColor })];
  const dashes = looks.backgroundImage.match(/rgba?\([^)]*\)/g)?.find(isSeen);
  const middle = place.y + height / 2;
  const ends = { x1: box.left, x2: box.left + width, y1: middle, y2: middle };
  return dashes ? [svg("line", { ...ends, stroke: dashes, "stroke-width": height, "stroke-dasharray": "3 3" })] : [];
}

/** The words of a text, each line of the screen a text of its own. */
function copyWords(node) {
  const range = document.createRange();
  const lines = [];
  for (const { index, 0: letters } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + letters.length);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const line = lines.at(-1);
    if (line && Math.abs(line.box.top - box.top) < 2) line.words += " " + letters;
    else lines.push({ words: letters, box });
  }
  return lines.map(({ words, box }) => word(words, node.parentElement, box, box.left));
}

const ruler = document.createElement("canvas").getContext("2d"); // measures how far below its box's top a text stands

function word(words, parent, box, left) {
  const looks = getComputedStyle(parent);
  const isMath = parent.closest("math") !== null;
  ruler.font = `${looks.fontStyle} ${looks.fontWeight} ${looks.fontSize} ${looks.fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = ruler.measureText(words);
  const isItalic = parent.localName === "mi" && [...words].length === 1;
  const width = isMath ? { textLength: box.width, lengthAdjust: "spacingAndGlyphs" } : {}; // another font has other widths
  const made = svg(
    "text",
    { ...width, x: left, y: box.top + (box.height - up - down) / 2 + up, fill: looks.color },
    words,
  );
  for (const [key, value] of Object.entries({
    "font-size": looks.fontSize,
    "font-weight": looks.fontWeight,
    "font-style": isItalic ? "italic" : looks.fontStyle,
    "font-family": isMath ? "STIX Two Math, serif" : SANS,
  }))
    made.setAttribute(key, value);
  return made;
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
  image.setAttribute("image-rendering", getComputedStyle(canvas).imageRendering);
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
