// Order: words one can drag or move with the arrow keys, their outputs as colours, and the chart of nearest positions.

import { chart } from "../chart.js";
import { heat } from "../heat.js";
import { button, choice, element, fill, slider } from "../parts.js";

const DIMS = ["2", "4", "6", "8"]; // the lines of the chart beside the chosen dimension's
const COLOURS = ["orange", "gold", "green", "blue"];

export function build(lab) {
  let tools = null;
  let line = null;
  let nearest = null;
  return ({ picture }) => {
    tools ??= makeTools(lab, picture);
    line ??= makeSentence(lab);
    nearest ??= makeChart(lab, picture);
    tools(picture);
    line(picture);
    nearest(picture);
  };
}

function makeTools(lab, picture) {
  const text = element("input", { type: "text", id: "text", name: "text", spellcheck: "false", autocomplete: "off" });
  text.addEventListener("change", () => lab.set({ text: text.value, order: "" }));
  const said = element("div", { class: "field needs-python" }, element("label", { for: "text" }, "Sentence"), text);
  const start = choice(
    {
      name: "sentence",
      label: window.regardStored ? "Sentence" : "or",
      groups: { "start from": picture.sentences },
      first: "start from …",
    },
    (word) => word && lab.set({ text: word, order: "" }),
  );
  const positions = element("input", { type: "checkbox", id: "positions" });
  positions.addEventListener("change", () => lab.set({ positions: positions.checked ? "on" : "off" }));
  const row = element(
    "div",
    { class: "buttons" },
    button("Shuffle", () => lab.do("shuffle " + Math.floor(Math.random() * 1e6)), { id: "shuffle" }),
    button("Reverse", () => lab.do("reverse"), { id: "reverse" }),
    button("First order", () => lab.do("restore"), { id: "restore" }),
    element("label", { class: "switch" }, positions, " positions added"),
  );
  const steps = (name, label, values) =>
    slider(
      { name, label, least: 0, most: values.length - 1, step: 1, format: (i) => values[i].toLocaleString("en") },
      (i, lasting) => lab.set({ [name]: String(values[i]) }, { lasting }),
    );
  const dim = steps("dim", "dimension", picture.dims);
  const length = steps("length", "positions in the chart", picture.lengths);
  const format = choice(
    { name: "format", label: "number format", groups: { "the table is in": picture.formats } },
    (word) => lab.set({ format: word }),
  );
  start.whole.classList.add("needs-python");
  lab.controls.append(said, start.whole, row, dim.whole, length.whole, format.whole);
  return () => {
    if (document.activeElement !== text) text.value = lab.state.text;
    start.set("");
    positions.checked = lab.state.positions === "on";
    dim.set(picture.dims.indexOf(Number(lab.state.dim)));
    length.set(picture.lengths.indexOf(Number(lab.state.length)));
    format.set(lab.state.format);
  };
}

/** The words in their order, each with its two outputs; the words are kept while dragged, so that the hand holds one. */
function makeSentence(lab) {
  const row = element("div", { class: "sentence", role: "list", "aria-label": "The sentence; arrow keys move a word" });
  const caption = element("figcaption", {});
  const key = element(
    "p",
    { class: "legend" },
    element("span", { class: "key-below" }, "below 0"),
    element("span", { class: "key-above" }, "above 0"),
    element("span", { class: "aside" }, "drag a word, or move it with ← and →"),
  );
  lab.picture.append(element("figure", {}, caption, row, key));
  const cards = [];
  const make = (place) => {
    const card = makeCard(lab, place, () => cards);
    row.append(card.whole);
    return card;
  };
  return (picture) => {
    while (cards.length > picture.words.length) cards.pop().whole.remove();
    while (cards.length < picture.words.length) cards.push(make(cards.length));
    cards.forEach((card, place) => card.show(picture, place));
    fill(caption, [`Each word's output (${picture.shown} of its numbers): above in the first order, below in yours`]);
  };
}

function makeCard(lab, place, cards) {
  const word = button("", () => {}, { id: "word-" + place, class: "word" });
  const [first, second] = [heat({ class: "strip" }), heat({ class: "strip" })];
  const gap = element("span", { class: "gap" });
  const whole = element("div", { class: "card", role: "listitem" }, word, first.canvas, second.canvas, gap);
  const move = (to) => {
    if (to === place || to < 0 || to >= cards().length) return;
    lab.do(`move ${place} ${to}`);
    cards()[to].word.focus();
  };
  word.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    move(place + step);
  });
  let from = null;
  word.addEventListener("pointerdown", (event) => {
    from = event.clientX;
    word.setPointerCapture(event.pointerId);
    whole.classList.add("held");
  });
  word.addEventListener(
    "pointermove",
    (event) => from !== null && (whole.style.transform = `translateX(${event.clientX - from}px)`),
  );
  const release = (event) => {
    if (from === null) return;
    from = null;
    whole.style.transform = "";
    whole.classList.remove("held");
    const over = cards().findIndex((card) => event.clientX <= card.whole.getBoundingClientRect().right);
    move(over < 0 ? cards().length - 1 : over);
  };
  word.addEventListener("pointerup", release);
  word.addEventListener("pointercancel", release);
  return {
    whole,
    word,
    show(picture) {
      word.textContent = picture.words[place];
      word.setAttribute(
        "aria-label",
        `${picture.words[place]}, place ${place}, differs by ${picture.differences[place]}`,
      );
      const upright = (numbers) => numbers.map((value) => [value]);
      first.set(upright(picture.first[place]), "output in the first order");
      second.set(upright(picture.second[place]), "output in your order");
      gap.textContent = picture.differs[place] ? "≠ " + picture.differences[place] : "same";
      gap.title = picture.differs[place]
        ? "the largest difference of a number"
        : `but for ${picture.differences[place]}, which is rounding`;
      whole.classList.toggle("differs", picture.differs[place]);
      gap.dataset.difference = picture.differences[place];
    },
  };
}

function makeChart(lab, picture) {
  const box = element("div");
  const key = element("p", { class: "legend" });
  lab.picture.append(
    element(
      "figure",
      { class: "positions" },
      element("figcaption", {}, "How near the nearest two positions are: proved, in real arithmetic"),
      box,
      key,
    ),
  );
  const lines = DIMS.map((dim, i) => ({ label: "dimension " + dim, colour: COLOURS[i], steps: true }));
  const made = chart(box, {
    label: "distance of the nearest two positions",
    x: "number of positions",
    y: "nearest distance",
    log: { x: true, y: true },
    range: { x: [9, 150000], y: [1e-5, 10] },
    series: [
      ...lines,
      { label: "chosen", colour: "ink", steps: true, dash: [2, 3] },
      { label: "rounding", colour: "soft", dash: [8, 5] },
      { label: "here", colour: "ink", points: true },
    ],
  });
  return (fresh) => {
    const none = picture.lengths.map(() => null);
    made.set([picture.lengths, ...fresh.lines, fresh.chosen, fresh.rounding ?? none, fresh.here]);
    const names = DIMS.map((dim, i) => element("span", { class: "key-" + COLOURS[i] }, "dimension " + dim));
    const chosen = element("span", { class: "key-chosen" }, `chosen: dimension ${lab.state.dim}`);
    const rounding = element("span", { class: "key-rounding" }, `below: ${lab.state.format} may round two into one`);
    fill(key, [...names, chosen, ...(fresh.rounding ? [rounding] : [])]);
  };
}
