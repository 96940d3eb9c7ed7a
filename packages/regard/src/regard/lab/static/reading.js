// What each written word read of a sentence: all heads as thumbnails, and of one head its arcs and its heat map, on one scale.

import { heat } from "./heat.js";
import { element, fill, shape } from "./parts.js";

const FAINT = 0.04; // weights below this share of the scale are not drawn as arcs

/** Thumbnails, arcs, heat map and scale; `onChoose(layer, head)` hears a press, a pointer over a thumbnail only looks. */
export function reading(onChoose) {
  const thumbs = element("div", { class: "thumbs" });
  const caption = element("figcaption");
  const arcs = element("div", { class: "arcs" });
  const map = element("div", { class: "attention" });
  const scale = element("p", { class: "scale" });
  const pair = element("div", { class: "pair reading" }, arcs, map);
  const whole = element("figure", { hidden: true }, thumbs, caption, pair, scale);
  let said = null;
  let small = [];
  const draw = (layer, head) => {
    const here = layer === said.layer && head === said.head;
    const weights = here ? said.weights : said.heads[layer][head];
    fill(caption, [
      `Layer ${layer}, head ${head}: what each written word (rows) read of the sentence (columns); point at a word for its own lines`,
    ]);
    fill(arcs, [arcDrawing(said, weights, (lit) => light(whole, lit))]);
    fill(map, [heatMap(said, weights, (lit) => light(whole, lit))]);
  };
  const remake = () => {
    small = said.heads.flatMap((heads, layer) =>
      heads.map((_weights, head) =>
        thumbnail({ layer, head }, { look: draw, away: () => draw(said.layer, said.head), onChoose }),
      ),
    );
    const heads = said.heads[0].length;
    thumbs.style.setProperty("--heads", Math.ceil(heads / Math.ceil(heads / 8))); // in a row of a telephone's
    fill(
      thumbs,
      small.map((one) => one.whole),
    );
  };
  return {
    whole,
    set(fresh) {
      const shape = (one) => one && [one.heads.length, one.heads[0].length].join();
      const other = shape(said) !== shape(fresh);
      said = fresh;
      whole.hidden = !said;
      if (!said) return;
      if (other) remake();
      for (const one of small) one.set(said);
      fill(scale, scaleParts(said.darkest));
      draw(said.layer, said.head);
    },
  };
}

/** One head, small: a pointer or the focus on it shows it large, a press keeps it there. */
function thumbnail({ layer, head }, { look, away, onChoose }) {
  const picture = heat({ class: "thumb" });
  const whole = element(
    "button",
    { type: "button", id: `head-${layer}-${head}`, title: `layer ${layer}, head ${head}` },
    picture.canvas,
    element("span", {}, `${layer}.${head}`),
  );
  whole.addEventListener("pointerenter", () => look(layer, head));
  whole.addEventListener("focus", () => look(layer, head));
  whole.addEventListener("pointerleave", away);
  whole.addEventListener("blur", away);
  whole.addEventListener("click", () => onChoose(layer, head));
  return {
    whole,
    set(said) {
      whole.setAttribute("aria-pressed", said.layer === layer && said.head === head);
      picture.set(
        said.heads[layer][head].map((row) => row.map((weight) => -weight / said.darkest)),
        `layer ${layer}, head ${head}`,
      );
    },
  };
}

/** The numbers of the colours: from nothing to the largest weight of any head. */
function scaleParts(darkest) {
  const bar = element("span", {
    class: "bar-scale",
    role: "img",
    "aria-label": `colours from 0 to ${darkest.toFixed(2)}`,
  });
  return [
    "weight ",
    element("span", {}, "0"),
    bar,
    element("span", {}, darkest.toFixed(2)),
    element("span", { class: "aside" }, " the largest of all heads"),
  ];
}

/** Light up what belongs to one written word ("row 2") or to one word of the sentence ("column 3"); "" lets go. */
function light(place, lit) {
  const [kind, index] = lit.split(" ");
  place.classList.toggle("pointed", lit !== "");
  for (const one of place.querySelectorAll("[data-row], [data-column]")) {
    one.classList.toggle("lit", lit !== "" && one.dataset[kind] === index);
  }
}

const pointerListeners = (lit, name) => ({ onpointerenter: () => lit(name), onpointerleave: () => lit("") });

/** The sentence on the left, what was written on the right, and a line for every weight that can be seen. */
function arcDrawing({ rows, columns, missed, darkest }, weights, lit) {
  const [step, top] = [26, 18];
  const longest = (words) => 8.2 * Math.max(...words.map((word) => word.length));
  const [left, gap] = [longest(columns) + 8, 150];
  const right = left + gap;
  const [width, height] = [right + longest(rows) + 8, top + step * Math.max(rows.length, columns.length)];
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    class: "map arc-map",
    "aria-label": `lines from ${rows.length} written words to the ${columns.length} words they read`,
  });
  const y = (place) => top + step * place;
  rows.forEach((word, r) =>
    weights[r].forEach((weight, c) => {
      if (weight < FAINT * darkest) return;
      const bend = gap / 2;
      const path = `M${right - 4} ${y(r) - 4} C${right - bend} ${y(r) - 4} ${left + bend} ${y(c) - 4} ${left + 4} ${y(c) - 4}`;
      const line = shape("path", {
        d: path,
        class: "arc",
        "stroke-opacity": (weight / darkest).toFixed(3),
        "stroke-width": (0.8 + 3.2 * (weight / darkest)).toFixed(2),
        "data-row": r,
        "data-column": c,
      });
      line.append(shape("title", {}, `${word} read ${columns[c]}: ${weight.toFixed(3)}`));
      svg.append(line);
    }),
  );
  columns.forEach((word, c) =>
    svg.append(
      sourceWord(word, missed[c], {
        x: left,
        y: y(c),
        class: "end",
        "data-column": c,
        ...pointerListeners(lit, `column ${c}`),
      }),
    ),
  );
  rows.forEach((word, r) =>
    svg.append(shape("text", { x: right, y: y(r), "data-row": r, ...pointerListeners(lit, `row ${r}`) }, word)),
  );
  return svg;
}

/** A word of the sentence; one that the run does not know is marked where it stands. */
function sourceWord(word, missed, attributes) {
  const text = shape(
    "text",
    { ...attributes, class: [attributes.class, missed ? "unknown" : ""].join(" ").trim() },
    word,
  );
  if (missed)
    text.append(
      shape("title", {}, `${word} is not in its vocabulary: it reads only that some unknown word stands here`),
    );
  return text;
}

/** A square for each weight, with the words on both axes. */
function heatMap({ rows, columns, missed, darkest }, weights, lit) {
  const longest = (words) => Math.max(...words.map((word) => word.length));
  const [size, left, top] = [30, 9 * longest(rows) + 14, 6.6 * longest(columns) + 16];
  const [width, height] = [left + size * columns.length + 0.72 * top, top + size * rows.length + 4];
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `attention, ${rows.length} written by ${columns.length} read words`,
    class: "map heat-map",
  });
  columns.forEach((word, c) => {
    const [x, y] = [left + size * (c + 0.55), top - 7];
    svg.append(
      sourceWord(word, missed[c], {
        x,
        y,
        transform: `rotate(-45 ${x} ${y})`,
        "data-column": c,
        ...pointerListeners(lit, `column ${c}`),
      }),
    );
  });
  rows.forEach((word, r) => {
    svg.append(
      shape(
        "text",
        { x: left - 8, y: top + size * (r + 0.66), class: "end", "data-row": r, ...pointerListeners(lit, `row ${r}`) },
        word,
      ),
    );
    columns.forEach((read, c) => {
      const weight = weights[r][c];
      const cell = shape("rect", {
        x: left + size * c,
        y: top + size * r,
        width: size - 1.5,
        height: size - 1.5,
        "fill-opacity": (weight / darkest).toFixed(3),
        "data-weight": weight,
        "data-row": r,
        "data-column": c,
        ...pointerListeners(lit, `row ${r}`),
      });
      cell.append(shape("title", {}, `${word} read ${read}: ${weight.toFixed(3)}`));
      svg.append(cell);
    });
  });
  return svg;
}
