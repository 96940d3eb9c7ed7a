// Translator: a sentence through the chosen run and what each written word read; curves of runs as they train.

import { chart } from "../chart.js";
import { knownWords, unknownLines } from "../known.js";
import { button, choice, element, fill, lineKey } from "../parts.js";
import { reading } from "../reading.js";

const AGAIN = 40; // milliseconds until the page looks again for a translation
const LIVE = 2000; // and for what a run has written
const COLOURS = ["blue", "orange", "green", "gold", "ink", "purple"];
const DASHES = [undefined, [9, 4], [3, 3], [9, 3, 2, 3], [6, 6], [2, 5]];

/** A run keeps its colour and its dashes whatever else is drawn: they follow from its number. */
const look = (number) => ({ colour: COLOURS[number % 6], dash: DASHES[(number + Math.floor(number / 6)) % 6] });

export function build(lab) {
  const tools = makeTools(lab);
  const translation = makeTranslation(lab, tools);
  const curves = makeCurves(lab);
  let later = null;
  let listed = "";
  return ({ picture }) => {
    tools.set(picture);
    translation(picture);
    curves(picture.curves);
    const news = JSON.stringify([picture.runs, picture.chosen]);
    if (news !== listed) fill(lab.more, [table(lab, picture)]); // a hand or a focus in it must not lose its place
    listed = news;
    clearTimeout(later);
    if (picture.running || picture.live) later = setTimeout(() => lab.askAgain(), picture.running ? AGAIN : LIVE);
    document.body.dataset.running = picture.running ? "yes" : "no";
  };
}

function makeTools(lab) {
  const text = element("input", {
    type: "text",
    id: "text",
    name: "text",
    "aria-label": "Sentence",
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "a sentence in the language it reads",
  });
  const ask = () => lab.set({ text: text.value });
  text.addEventListener("change", ask);
  const known = knownWords(text, () => {});
  text.readOnly = Boolean(window.regardStored); // a copy without Python has its own sentences only
  known.whole.classList.add("needs-python");
  const press = button("Translate", ask, { id: "translate", class: "needs-python" });
  const direction = element("div", { class: "direction" });
  const tools = element("div", { class: "ask" }, direction, text, press, known.whole);
  lab.picture.append(tools); // above what it brings, so that a telephone shows both
  let examples = null;
  return {
    replace(word, other) {
      const place = text.value.toLowerCase().indexOf(word.toLowerCase());
      if (place >= 0) text.value = text.value.slice(0, place) + other + text.value.slice(place + word.length);
      ask();
    },
    set(picture) {
      if (document.activeElement !== text) text.value = lab.state.text;
      known.set(picture.words);
      direction.textContent = picture.direction;
      if (picture.examples.length && !examples) {
        examples = choice(
          {
            name: "example",
            label: "or take",
            groups: { "the grammar's": picture.examples },
            first: "one of its own …",
          },
          (word) => word && lab.set({ text: word }),
        );
        tools.append(examples.whole);
      }
      examples?.set("");
    },
  };
}

/** A chart's lines are fixed, so another choice of runs is another chart. */
function makeCurves(lab) {
  const holder = element("div");
  const key = element("p", { class: "legend" });
  const caption = element(
    "figcaption",
    {},
    "Validation perplexity after each epoch, and the training loss of the chosen run as it goes",
  );
  const whole = element("figure", { hidden: true }, caption, holder, key);
  lab.picture.append(whole);
  let made = null;
  let names = "";
  const make = (curves) => {
    const box = element("div");
    fill(holder, [box]);
    const runs = curves.names.map((name, i) => ({
      label: name,
      ...look(curves.numbers[i]),
      points: true,
      joined: true,
    }));
    const training = { label: "training", colour: "soft", thin: true, joined: true };
    made = chart(box, {
      label: "perplexity of runs",
      x: "step",
      counted: true,
      y: "perplexity",
      log: { y: true },
      series: [training, ...runs],
    });
    const keys = curves.names.map((name, i) =>
      lineKey(look(curves.numbers[i]).colour, look(curves.numbers[i]).dash, name),
    );
    fill(key, [...keys, element("span", { class: "key-training" }, "training, " + curves.names[0])]);
    names = curves.names.join() + curves.numbers.join();
  };
  return (curves) => {
    whole.hidden = curves.steps.length === 0;
    if (whole.hidden) return;
    if (names !== curves.names.join() + curves.numbers.join()) make(curves);
    made.set([curves.steps, curves.training, ...curves.validation]);
  };
}

function table(lab, { runs, chosen }) {
  const shown = runs.filter((one) => one.drawn).map((one) => one.name);
  const rows = runs.map((one) => {
    const here = one.name === chosen;
    const open = button(one.label, () => lab.set({ run: one.name }), {
      id: "open-" + one.name,
      title: one.label,
      class: "open",
      "aria-pressed": here,
    });
    const box = element("input", { type: "checkbox", id: "show-" + one.name, "aria-label": "show " + one.name });
    box.checked = one.drawn;
    box.disabled = here;
    box.addEventListener("change", () =>
      lab.set({ with: (box.checked ? [...shown, one.name] : shown.filter((name) => name !== one.name)).join(",") }),
    );
    const number = (value, digits) => element("td", {}, value === null ? "–" : value.toFixed(digits));
    const cells = [
      element("th", { scope: "row" }, box, " ", lineKey(look(one.number).colour, look(one.number).dash, ""), open),
      element("td", {}, one.epochs + (one.finished ? " ✓" : " …")),
      number(one.perplexity, 2),
      number(one.bleu, 1),
    ];
    return element("tr", { class: here ? "here" : "", "data-run": one.name }, ...cells);
  });
  const head = element(
    "tr",
    {},
    ...["run", "epochs", "best perplexity", "BLEU"].map((word) => element("th", { scope: "col" }, word)),
  );
  return element(
    "div",
    { class: "runs" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}

function makeTranslation(lab, tools) {
  const line = element("p", { class: "translation", "aria-live": "polite" });
  const unknown = element("div");
  const heads = reading((layer, head) => lab.set({ layer: String(layer), head: String(head) }));
  lab.picture.append(line, unknown, heads.whole);
  let last = "";
  return ({ said, running }) => {
    const news = JSON.stringify([said, running]);
    if (news === last) return;
    last = news;
    line.classList.toggle("stale", running);
    if (running) fill(line, ["…"]);
    else fill(line, said ? [element("span", { id: "translation" }, said.target || "(nothing)")] : []);
    fill(unknown, said ? unknownLines(said.near, tools.replace) : []);
    heads.set(said);
  };
}
