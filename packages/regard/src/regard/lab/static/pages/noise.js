// Noise and heads: the law of the weight as a chart, the cloud of keys and the outputs as drawings.

import { chart } from "../chart.js";
import { drawing } from "../drawing.js";
import { element, slider } from "../parts.js";

const SLIDERS = [
  { name: "spread", label: "spread of key 0 along its mean", least: 0, most: 4, step: 0.05 },
  { name: "iso", label: "noise a of every key", least: 0.005, most: 0.5, step: 0.005 },
  { name: "scale", label: "scale T of the queries", least: 1, most: 60, step: 1 },
  { name: "keys", label: "number of keys", least: 2, most: 20, step: 1 },
];

export function build(lab) {
  const sliders = SLIDERS.map((one) => {
    const made = slider(one, (word, lasting) => lab.set({ [one.name]: word }, { lasting }));
    lab.controls.append(made.whole);
    return { name: one.name, set: made.set };
  });
  const law = makeLaw(lab);
  const two = element("div", { class: "pair" });
  lab.picture.append(two);
  const cloud = makeCloud(two);
  const outputs = makeOutputs(two);
  return ({ picture, numbers }) => {
    for (const one of sliders) one.set(lab.state[one.name]);
    const said = Object.fromEntries(numbers.map((number) => [number.name, number.text]));
    law(picture, said);
    cloud(picture);
    outputs(picture);
  };
}

function figure(parent, title, ...parts) {
  parent.append(element("figure", {}, element("figcaption", {}, title), ...parts));
}

function makeLaw(lab) {
  const box = element("div", { class: "tall" });
  const key = element(
    "p",
    { class: "legend" },
    element("span", { class: "key-one" }, "one head"),
    element("span", { class: "key-two" }, "two heads, mean"),
  );
  figure(lab.picture, "Where the weight of key 0 lies: computed probabilities of 20 intervals", box, key);
  const made = chart(box, {
    label: "law of the weight of key 0",
    x: "weight of key 0, which is the output along v₀",
    y: "probability",
    range: { x: [0, 1], y: (_, __, most) => [0, Math.max(0.1, 1.08 * most)] },
    series: [
      { label: "one head", colour: "one", steps: true, fill: true },
      { label: "two heads", colour: "two", steps: true, fill: true },
    ],
  });
  const closeSteps = (bins) => [...bins, bins.at(-1)]; // a step needs its right end
  return (picture, said) => {
    const spoken = `mean squared error ${said["one-error"]} with one head, ${said["two-error"]} with two`;
    made.set([picture.edges, closeSteps(picture.one), closeSteps(picture.two)], spoken);
  };
}

function makeCloud(parent) {
  const view = drawing({ label: "Draws of key 0", left: -1.6, right: 3.2, bottom: -1.6, top: 1.6, size: 380 });
  figure(parent, "120 draws of k₀, negative scores marked ×", view.svg);
  for (const name of ["ground", "rays", "cloud", "draws", "mean"]) view.layer(name);
  view.put("ground", [
    view.outline(
      [
        [-1.6, -1.6],
        [0, -1.6],
        [0, 1.6],
        [-1.6, 1.6],
      ],
      { class: "wrong" },
    ),
    view.line([-1.6, 0], [3.2, 0], { class: "axis" }),
    view.line([0, -1.6], [0, 1.6], { class: "axis" }),
    view.text([3.15, -1.5], "along μ₀ →", { class: "tick end" }),
    view.text([0, 1.5], "across ↑", { class: "tick start", dx: 6, dy: 4 }),
  ]);
  view.put("mean", [
    view.arrow([0, 0], [1, 0], { class: "mean" }),
    view.text([1, 0], "μ₀", { class: "name", dx: 4, dy: 26 }),
  ]);
  return (picture) => {
    const [good, bad] = splitBySign(picture.keys, picture.negative);
    view.put("rays", [view.rays([0, 0], good, {}), view.rays([0, 0], bad, { class: "negative" })]);
    view.put("cloud", [view.outline(picture.cloud, {})]);
    view.put("draws", [view.dots(good, { class: "key" }), view.crosses(bad, { class: "key negative" })]);
  };
}

function makeOutputs(parent) {
  const view = drawing({
    label: "Outputs of one head and of two",
    left: -0.24,
    right: 1.32,
    bottom: -0.12,
    top: 1.08,
    size: 340,
  });
  figure(parent, "The outputs: computed, and of these draws", view.svg);
  for (const name of ["ground", "draws", "deviation", "means", "target"]) view.layer(name);
  view.put("ground", [
    view.outline(
      [
        [0, 0],
        [1, 0],
        [0, 1],
      ],
      { class: "triangle" },
    ),
    view.text([1, 0], "v₀", { class: "name start", dx: 8, dy: 5 }),
    view.text([0, 1], "v₁", { class: "name end", dx: -8, dy: 5 }),
    view.text([0, 0], "the others", { class: "tick", dy: 18 }),
  ]);
  const goal = view.text([0.5, 0.5], "target", { class: "tick start", dx: 14, dy: -6 });
  view.put("target", [view.disc([0.5, 0.5], 10, {}), goal]);
  const kinds = ["one", "two"];
  return (picture) => {
    const drawn = picture.outputs.flatMap((one, h) => {
      const [good, bad] = splitBySign(one.draws, picture.negative);
      return [view.dots(good, { class: kinds[h] }), view.crosses(bad, { class: kinds[h] + " negative" })];
    });
    view.put("draws", drawn);
    view.put(
      "deviation",
      picture.outputs.map((one, h) => view.outline(one.deviation, { class: kinds[h] })),
    );
    view.put(
      "means",
      picture.outputs.map((one, h) => view.disc(one.mean, 6, { class: kinds[h] })),
    );
  };
}

/** The draws with a positive score, and those with a negative one. */
const splitBySign = (draws, negative) => [false, true].map((wanted) => draws.filter((_, i) => negative[i] === wanted));
