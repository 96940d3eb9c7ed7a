// The row of controls over the view: what is shown, how it is coloured, and which part of it.

import { choice, digits, element, select } from "./parts.js";

const KINDS = [
  ["all", "all"],
  ["encoder", "encoder"],
  ["decoder", "decoder"],
  ["cross", "cross"],
  ["self", "self"],
];

export const KEYS = [
  ["← →", "the head before, the head after"],
  ["↑ ↓", "the layer before, the layer after"],
  ["m  l  q", "heat map, lines, query times key"],
  ["w  i", "weights, influence"],
  ["a", "lines: all heads, or the chosen one only"],
  ["n  b", "pin the next word, the one before"],
  ["Esc", "let go of the pinned word"],
  [",  .", "hide less, hide more"],
  ["+  −  0", "zoom in, out, all"],
  ["Shift + arrows", "move the part in view"],
  ["t", "light or dark"],
  ["s  p", "save the view as SVG, as PNG"],
  ["?", "this list"],
];

function step(label, title, onclick) {
  return element("button", { type: "button", class: "look-step", "aria-label": title, title, onclick }, label);
}

/** `set` changes the state, `act` has the actions: move, goTo, showKind, zoom, reach, saveSvg, savePng, help. */
export function makeControls(store, { set, act }) {
  const view = choice(
    "View",
    [
      ["map", "Map", "heat map (m)"],
      ["lines", "Lines", "lines from words to words (l)"],
      ["scores", "q·k", "query times key, entry by entry (q)"],
    ],
    (word) => set({ view: word }),
  );
  const measure = choice(
    "Measure",
    [
      ["weights", "Weights", "α, what the softmax gave (w)"],
      ["influence", "Influence", "|α v W_O|, how long a vector arrives (i)"],
    ],
    (word) => set({ measure: word }),
  );
  const layer = select("Layer", (word) => act.goTo(Number(word), null), "look-layer");
  const head = select("Head", (word) => act.goTo(null, Number(word)), "look-head");
  const scale = select(
    "Scale",
    (word) => {
      const [reach, curve] = word.split(" ");
      set({ reach, curve });
    },
    "look-scale",
  );
  const kind = select("Layers of the", (word) => act.showKind(word), "look-kind");
  const least = element("input", {
    type: "range",
    min: 0,
    max: 1,
    step: 0.01,
    id: "look-least",
    oninput: () => set({ slid: Number(least.value) }),
  });
  const below = element("output", { for: "look-least" });
  const range = ["rows from", "rows to", "columns from", "columns to"].map((label, n) =>
    element("input", {
      type: "number",
      min: 0,
      "aria-label": label,
      id: "look-" + label.replace(" ", "-"),
      onchange: () => act.reach(n, Number(range[n].value)),
    }),
  );
  const kinds = KINDS.filter(([word]) => word === "all" || store.layers.some((one) => one.kind === word));

  const tools = element(
    "div",
    { class: "look-tools", role: "toolbar", "aria-label": "What is shown" },
    view.whole,
    measure.whole,
    element(
      "span",
      { class: "look-pair" },
      layer.whole,
      step("↑", "the layer before", () => act.move(-1, 0)),
      step("↓", "the layer after", () => act.move(1, 0)),
    ),
    element(
      "span",
      { class: "look-pair" },
      head.whole,
      step("←", "the head before", () => act.move(0, -1)),
      step("→", "the head after", () => act.move(0, 1)),
    ),
    kinds.length > 2 ? kind.whole : null,
    scale.whole,
    element("label", { class: "look-field" }, element("span", {}, "Hide below"), least, below),
    element(
      "span",
      { class: "look-window" },
      element("span", { class: "look-field" }, element("span", {}, "Queries"), range[0], "–", range[1]),
      element("span", { class: "look-field" }, element("span", {}, "Keys"), range[2], "–", range[3]),
      element(
        "span",
        { class: "look-pair" },
        step("+", "zoom in", () => act.zoom(0.6)),
        step("−", "zoom out", () => act.zoom(1 / 0.6)),
        step("All", "all words", () => act.zoom(0)),
      ),
    ),
  );
  const why = store.facts.remarks.find((remark) => remark.startsWith("influence")) ?? "not known for this layer";

  function show(state, { layer: chosen, rows, columns, tone }) {
    view.show(state.view);
    view.setEnabled("scores", store.hasVectors(state.layer, state.place), "the queries and keys are not on this page");
    measure.show(state.measure);
    measure.setEnabled("influence", chosen.norms, why);
    const visible = store.layers
      .map((one, n) => [one, n])
      .filter(([one]) => state.kind === "all" || one.kind === state.kind);
    layer.fill(
      visible.map(([one, n]) => [String(n), one.label + (one.kind === "self" ? "" : " " + one.kind)]),
      String(state.layer),
    );
    head.fill(
      chosen.heads.map((number, n) => [String(n), String(number)]),
      String(state.place),
    );
    const common = state.measure === "influence" ? "largest of all heads" : "0 to 1";
    scale.fill(
      [
        ["own root", "0 to largest, √"],
        ["own linear", "0 to largest"],
        ["common root", common + ", √"],
        ["common linear", common],
      ],
      state.reach + " " + state.curve,
    );
    kind.fill(kinds, state.kind);
    least.value = String(state.slid);
    below.textContent = digits(tone.least * tone.top);
    [rows[0], rows[1] - 1, columns[0], columns[1] - 1].forEach((value, n) => {
      range[n].value = String(value);
      range[n].max = String(chosen.shape[n < 2 ? 0 : 1] - 1);
    });
  }
  return { tools, show };
}

/** The heads of a layer as buttons in their colours: which of them have lines. */
export function makeChips(onset) {
  const whole = element("div", { class: "look-chips", role: "group", "aria-label": "Heads with lines" });
  let listed = "";
  return {
    whole,
    show(layer, lit, colours, visible) {
      whole.hidden = !visible;
      const now = layer.label + layer.heads.join() + colours.join();
      if (now !== listed) {
        whole.replaceChildren(
          element("button", { type: "button", class: "look-all-heads", onclick: () => onset("all") }, "all"),
          ...layer.heads.map((number, place) => {
            const chip = element(
              "button",
              {
                type: "button",
                title: "head " + number + "; double click: only this one",
                onclick: () => onset(place),
                ondblclick: () => onset("only", place),
              },
              String(number),
            );
            chip.style.setProperty("--chip", colours[place % colours.length]);
            return chip;
          }),
        );
        listed = now;
      }
      [...whole.children].slice(1).forEach((chip, place) => chip.setAttribute("aria-pressed", String(lit.has(place))));
    },
  };
}

export function makeHelp() {
  const close = element("button", { type: "button", onclick: () => whole.close() }, "Close");
  const rows = KEYS.map(([key, what]) => element("tr", {}, element("th", {}, key), element("td", {}, what)));
  const mouse =
    "Drag over the map to zoom into a part; double click for all. Click a word to pin it. Ctrl and the wheel zoom.";
  const whole = element(
    "dialog",
    { class: "look-help" },
    element("h2", {}, "Keyboard"),
    element("table", {}, element("tbody", {}, ...rows)),
    element("p", {}, mouse),
    close,
  );
  return whole;
}
