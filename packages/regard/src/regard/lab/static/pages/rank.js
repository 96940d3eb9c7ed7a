// Rank: the spectrum with the coursework's bound over it, the energy kept, and the matrix beside its approximation.

import { chart } from "../chart.js";
import { heat } from "../heat.js";
import { button, choice, element, fill, slider } from "../parts.js";

export function build(lab) {
  let tools = null;
  let pictures = null;
  return ({ picture }) => {
    tools ??= makeTools(lab, picture);
    pictures ??= makePictures(lab);
    tools(picture);
    pictures(picture);
  };
}

function makeTools(lab, picture) {
  const matrix = element("textarea", {
    id: "matrix",
    name: "matrix",
    rows: 2,
    spellcheck: "false",
    placeholder: "3,0; 0,2 or weights.safetensors:NAME",
  });
  const take = () => lab.set({ matrix: matrix.value });
  matrix.addEventListener("change", take);
  matrix.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) take();
  });
  const field = element("div", { class: "field needs-python" }, element("label", { for: "matrix" }, "Matrix"), matrix);
  const names = { "example:": picture.examples };
  const start = choice(
    { name: "example", label: window.regardStored ? "Matrix" : "or", groups: names, first: "start from …" },
    (name) => name && lab.set({ matrix: "example:" + name }),
  );
  const rank = { name: "rank", label: "rank", least: 1, most: picture.most, step: 1 };
  const cut = slider(rank, (word, lasting) => lab.set({ rank: word }, { lasting }));
  const input = cut.whole.querySelector("input");
  const note = element(
    "p",
    { class: "aside" },
    "Numbers, an example, or a file: .npy, .npz:NAME, .csv, .safetensors:NAME",
  );
  const read = element("div", { class: "buttons needs-python" }, button("Read it", take, { id: "read" }), note);
  lab.controls.append(field, read, start.whole, cut.whole);
  return (fresh) => {
    if (document.activeElement !== matrix) matrix.value = lab.state.matrix;
    start.set("");
    input.max = fresh.most;
    cut.set(lab.state.rank);
  };
}

function makePictures(lab) {
  const [box, other] = [element("div"), element("div")];
  const span = (kind, words) => element("span", { class: "key-" + kind }, words);
  const key = element(
    "p",
    { class: "legend" },
    span("kept", "σ kept"),
    span("dropped", "σ cut off"),
    span("promise", "promise: Frobenius norm / √k"),
  );
  const tables = ["A", "its rank-k approximation B", "A − B"].map((name) => ({
    name,
    painted: heat(),
    caption: element("figcaption", {}, name),
  }));
  const three = element(
    "div",
    { class: "three" },
    ...tables.map((one) => element("figure", {}, one.caption, one.painted.canvas)),
  );
  lab.picture.append(
    element(
      "div",
      { class: "pair" },
      element("figure", {}, element("figcaption", {}, "Singular values and the promise"), box, key),
      element(
        "figure",
        {},
        element("figcaption", {}, "Energy kept"),
        other,
        element("p", { class: "legend" }, span("green", "of every rank"), span("dot", "of yours")),
      ),
    ),
    three,
    element(
      "p",
      { class: "legend" },
      span("below", "below 0"),
      span("above", "above 0"),
      element("span", { class: "aside" }, "one scale for the three tables"),
    ),
  );
  const spectrum = chart(box, {
    label: "spectrum",
    x: "k",
    y: "σₖ",
    log: { y: true },
    counted: true,
    range: { x: (_, _least, most) => [0.5, most + 0.5] },
    series: [
      { label: "promise", colour: "gold", dash: [7, 4] },
      { label: "kept", colour: "blue", points: true },
      { label: "cut off", colour: "orange", points: true },
    ],
  });
  const energy = chart(other, {
    label: "energy",
    x: "rank",
    y: "% of the squared Frobenius norm",
    counted: true,
    range: { x: (_, _least, most) => [0.5, most + 0.5], y: [0, 104] },
    series: [
      { label: "energy", colour: "green", points: true },
      { label: "here", colour: "ink", points: true },
    ],
  });
  return (picture) => {
    spectrum.set(
      [picture.k, picture.bound, picture.kept, picture.dropped],
      `${picture.most} singular values, cut at rank ${lab.state.rank}`,
    );
    energy.set([picture.k, picture.energy, picture.at]);
    const [rows, columns] = picture.shape;
    tables.forEach((one, i) => one.painted.set(picture.tables[i], one.name));
    fill(tables[0].caption, [`A, ${rows} × ${columns}${picture.corner ? " (a corner)" : ""}`]);
    fill(tables[1].caption, [`B, rank ${lab.state.rank}`]);
  };
}
