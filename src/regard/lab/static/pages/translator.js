// Translator: curves of runs as they train, a sentence through the chosen one, and what each written word read.

import { chart } from "../chart.js";
import { button, choice, element, fill, lineKey, shape, slider } from "../parts.js";

const AGAIN = 300; // milliseconds until the page looks again for a translation
const LIVE = 2000; // and for what a run has written
const COLOURS = ["blue", "orange", "green", "gold", "ink", "purple"];
const DASHES = [undefined, [9, 4], [3, 3], [9, 3, 2, 3], [6, 6], [2, 5]];

export function build(lab) {
  const curves = makeCurves(lab);
  const reading = makeReading(lab);
  const empty = emptyFrame();
  lab.picture.append(empty);
  let tools = null;
  let later = null;
  let listed = "";
  return ({ picture }) => {
    empty.toggleAttribute("hidden", picture.runs.length > 0);
    if (picture.runs.length) {
      tools ??= makeTools(lab);
      tools(picture);
      curves(picture.curves);
      const news = JSON.stringify([picture.runs, picture.chosen]);
      if (news !== listed) fill(lab.more, [table(lab, picture)]); // a hand or a focus in it must not lose its place
      listed = news;
    }
    reading(picture);
    clearTimeout(later);
    if (picture.running || picture.live) later = setTimeout(() => lab.again(), picture.running ? AGAIN : LIVE);
    document.body.dataset.running = picture.running ? "yes" : "no";
  };
}

/** Where the curves will be. */
function emptyFrame() {
  const border = shape("rect", { x: 2, y: 2, width: 596, height: 216, rx: 10 });
  return shape("svg", { viewBox: "0 0 600 220", class: "empty", role: "img", "aria-label": "no runs yet" }, border, shape("text", { x: 300, y: 115 }, "the curves of your runs appear here"));
}

function makeTools(lab) {
  const text = element("input", { type: "text", id: "text", name: "text", spellcheck: "false", autocomplete: "off", placeholder: "a sentence in the language it reads" });
  const ask = () => lab.set({ text: text.value });
  text.addEventListener("change", ask);
  const field = element("div", { class: "field" }, element("label", { for: "text" }, "Sentence"), text);
  const row = element("div", { class: "buttons" }, button("Translate", ask, { id: "translate" }));
  const head = slider({ name: "head", label: "head", least: 0, most: 0, step: 1 }, (word, lasting) => lab.set({ head: word }, { lasting }));
  const layer = slider({ name: "layer", label: "layer", least: 0, most: 0, step: 1 }, (word, lasting) => lab.set({ layer: word }, { lasting }));
  lab.controls.append(field, row, layer.whole, head.whole);
  let examples = null;
  return (picture) => {
    if (document.activeElement !== text) text.value = lab.state.text;
    if (picture.examples.length && !examples) {
      examples = choice({ name: "example", label: "or", groups: { "the grammar's": picture.examples }, first: "one of its own …" }, (word) => word && lab.set({ text: word }));
      row.before(examples.whole);
    }
    examples?.set("");
    const [layers, heads] = picture.shape ?? [1, 1];
    for (const [one, count, word] of [[layer, layers, lab.state.layer], [head, heads, lab.state.head]]) {
      one.whole.hidden = count < 2;
      one.whole.querySelector("input").max = count - 1;
      one.set(word);
    }
  };
}

/** A chart's lines are fixed, so another choice of runs is another chart. */
function makeCurves(lab) {
  const holder = element("div");
  const key = element("p", { class: "legend" });
  const caption = element("figcaption", {}, "Validation perplexity after each epoch, and the training loss of the chosen run as it goes");
  const whole = element("figure", { hidden: true }, caption, holder, key);
  lab.picture.append(whole);
  let made = null;
  let names = "";
  const make = (curves) => {
    const box = element("div");
    fill(holder, [box]);
    const runs = curves.names.map((name, i) => ({ label: name, colour: COLOURS[i], dash: DASHES[i], points: true, joined: true }));
    const training = { label: "training", colour: "soft", thin: true, joined: true };
    made = chart(box, { label: "perplexity of runs", x: "step", counted: true, y: "perplexity", log: { y: true }, series: [training, ...runs] });
    const keys = curves.names.map((name, i) => lineKey(COLOURS[i], DASHES[i], name));
    fill(key, [...keys, element("span", { class: "key-training" }, "training, " + curves.names[0])]);
    names = curves.names.join();
  };
  return (curves) => {
    whole.hidden = curves.steps.length === 0;
    if (whole.hidden) return;
    if (names !== curves.names.join()) make(curves);
    made.set([curves.steps, curves.training, ...curves.validation]);
  };
}

function table(lab, { runs, chosen }) {
  const shown = runs.filter((one) => one.drawn).map((one) => one.name);
  const rows = runs.map((one) => {
    const here = one.name === chosen;
    const open = button(one.label, () => lab.set({ run: one.name }), { id: "open-" + one.name, title: one.label, class: "open", "aria-pressed": here });
    const box = element("input", { type: "checkbox", id: "show-" + one.name, "aria-label": "show " + one.name });
    box.checked = one.drawn;
    box.disabled = here;
    box.addEventListener("change", () => lab.set({ with: (box.checked ? [...shown, one.name] : shown.filter((name) => name !== one.name)).join(",") }));
    const number = (value, digits) => element("td", {}, value === null ? "–" : value.toFixed(digits));
    const cells = [element("th", { scope: "row" }, box, " ", open), element("td", {}, one.epochs + (one.finished ? " ✓" : " …")), number(one.perplexity, 2), number(one.bleu, 1)];
    return element("tr", { class: here ? "here" : "", "data-run": one.name }, ...cells);
  });
  const head = element("tr", {}, ...["run", "epochs", "best perplexity", "BLEU"].map((word) => element("th", { scope: "col" }, word)));
  return element("div", { class: "runs" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function makeReading(lab) {
  const line = element("p", { class: "translation", "aria-live": "polite" });
  const map = element("div", { class: "attention" });
  const caption = element("figcaption");
  const whole = element("figure", { hidden: true }, caption, map);
  lab.picture.append(line, whole);
  let last = "";
  return ({ said, running }) => {
    const news = JSON.stringify([said, running]);
    if (news === last) return;
    last = news;
    whole.hidden = !said;
    line.classList.toggle("stale", running);
    if (running) fill(line, ["…"]);
    else fill(line, said ? [element("span", { id: "translation" }, said.target || "(nothing)")] : []);
    if (!said) return;
    fill(caption, [`What each written word (rows) read of the source (columns); the strongest is ${said.darkest.toFixed(2)}`]);
    fill(map, [attention(said)]);
  };
}

/** A square a weight, with the words on both axes. */
function attention({ rows, columns, weights, shades }) {
  const longest = (words) => Math.max(...words.map((word) => word.length));
  const [size, left, top] = [30, 9 * longest(rows) + 14, 6.6 * longest(columns) + 16];
  const [width, height] = [left + size * columns.length + 0.72 * top, top + size * rows.length + 4];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `attention, ${rows.length} written by ${columns.length} read words`, class: "map" });
  columns.forEach((word, c) => {
    const [x, y] = [left + size * (c + 0.55), top - 7];
    svg.append(shape("text", { x, y, transform: `rotate(-45 ${x} ${y})` }, word));
  });
  rows.forEach((word, r) => {
    svg.append(shape("text", { x: left - 8, y: top + size * (r + 0.66), class: "end" }, word));
    columns.forEach((read, c) => {
      const weight = weights[r][c];
      const cell = shape("rect", { x: left + size * c, y: top + size * r, width: size - 1.5, height: size - 1.5, "fill-opacity": shades[r][c].toFixed(3), "data-weight": weight });
      cell.append(shape("title", {}, `${word} read ${read}: ${weight.toFixed(3)}`));
      svg.append(cell);
    });
  });
  return svg;
}
