// Attention in ten pictures: the figures of the site's first page. Each computes in the browser, with attention.js; what
// is proved is not computed here, but said with the command that proves it.

import { bfloat16, ceiling, gaussian, hull, isInside, output, scores, softmax, uniform } from "./attention.js";
import { drawing, movable } from "./drawing.js";
import { element, fill, shape } from "./parts.js";

const STEP = { left: [-0.05, 0], right: [0.05, 0], up: [0, 0.05], down: [0, -0.05] };
const norm = (vector) => Math.hypot(...vector);
const digits = (value, places = 2) => value.toFixed(places).replace(/^-(0\.?0*)$/, "$1");
const clamp = (value, most) => Math.max(-most, Math.min(most, value));

/** A plane with points that one can drag; `draw(plane)` is called after every movement. */
function plane({ label, reach, points, draw }) {
  const picture = drawing({ label, left: -reach, right: reach, bottom: -reach, top: reach, size: 420 });
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const made = { picture, points, say: (...parts) => fill(words, parts) };
  picture.put("axes", [
    picture.line([-reach, 0], [reach, 0], { class: "axis" }),
    picture.line([0, -reach], [0, reach], { class: "axis" }),
  ]);
  picture.layer("below");
  for (const point of points) {
    const group = shape("g", { class: "point " + point.kind, "data-mark": point.mark, role: "button" });
    group.setAttribute("aria-label", `${point.name}: drag it, or move it with the arrow keys`);
    point.show = (radius) => {
      const [x, y] = [picture.x(point.at[0]), picture.y(point.at[1])];
      const arrow = point.kind === "query" ? [picture.arrow([0, 0], point.at, { class: "query-arrow" })] : [];
      group.replaceChildren(
        ...arrow,
        shape("circle", { cx: x, cy: y, r: 20, class: "grip" }),
        shape("circle", { cx: x, cy: y, r: radius }),
        shape("text", { x: x + 12, y: y - 12 }, point.name),
      );
    };
    picture.layer("points").append(group);
    if (point.still) continue;
    const move = (x, y) => {
      point.at = (point.keep ?? ((at) => at))([clamp(x, reach), clamp(y, reach)]);
      draw(made);
    };
    movable(picture, group, {
      place: () => point.at,
      onMove: move,
      onNudge: (word) => move(point.at[0] + reach * STEP[word][0], point.at[1] + reach * STEP[word][1]),
    });
  }
  draw(made);
  return [picture.svg, words];
}

const keyPoints = (places) => places.map((at, i) => ({ name: "k" + i, mark: "k" + i, kind: "key", at }));
const bigger = (weight) => 5 + 16 * Math.sqrt(weight);

function attend() {
  const points = [
    ...keyPoints([
      [1.2, 0.4],
      [-0.6, 1.1],
      [-0.3, -1.2],
    ]),
    { name: "q", mark: "q", kind: "query", at: [1.1, 1.0] },
  ];
  const draw = ({ picture, say }) => {
    const keys = points.slice(0, 3).map((one) => one.at);
    const query = points[3].at;
    const score = scores(keys, query);
    const weights = softmax(score);
    const mean = output(weights, keys);
    const along = (key) => {
      const share = scores([key], query)[0] / Math.max(norm(query) ** 2, 1e-12);
      return [share * query[0], share * query[1]];
    };
    picture.put("below", [
      ...keys.map((key) => picture.line(key, along(key), { class: "perpendicular", "data-mark": "score" })),
      ...keys.map((key, i) =>
        picture.line(mean, key, { class: "pull", "data-mark": "weight", "stroke-width": 1 + 5 * weights[i] }),
      ),
      picture.disc(mean, 8, { class: "output", "data-mark": "c" }),
    ]);
    for (const [i, one] of points.entries()) one.show(i < 3 ? bigger(weights[i]) : 6);
    say("scores ", score.map((s) => digits(s)).join(", "), " → weights ", weights.map((w) => digits(w)).join(", "));
  };
  return plane({ label: "Three keys, a query and the output", reach: 2, points, draw });
}

const COPIED = [
  [1, 0],
  [0, 1],
  [1, 1],
];

function copy() {
  const points = [
    ...keyPoints(COPIED).map((one) => ({ ...one, still: true })),
    { name: "q", mark: "q", kind: "query", at: [4.6, 1.8] },
  ];
  const enlarge = (at) => [at[0] * 4, at[1] * 4]; // keys are drawn four times as far out as they are
  for (const one of points.slice(0, 3)) one.at = enlarge(one.at);
  const draw = ({ picture, say }) => {
    const query = points[3].at;
    const weights = softmax(scores(COPIED, query));
    const enough = weights[2] >= 1 / 1.01;
    picture.put("below", [
      picture.disc([0, 0], (7.492 * 420) / 18, { class: "proved", fill: "none", "data-mark": "norm" }),
    ]);
    for (const [i, one] of points.entries()) one.show(i < 3 ? bigger(weights[i]) : 6);
    say(
      `k2 gets ${digits(weights[2], 4)} with a query of norm ${digits(norm(query), 3)}: `,
      element("strong", {}, enough ? "enough" : "not yet 1/(1 + 0.01) = 0.9901"),
    );
  };
  return plane({ label: "A query that copies key 2", reach: 9, points, draw });
}

function hullAndCeiling() {
  const points = keyPoints([
    [1.4, 1.2],
    [1.3, -1.3],
    [-1.2, 1.4],
    [-1.4, -1.1],
    [0.4, 0.3],
  ]);
  const draw = ({ picture, say }) => {
    const others = points.slice(0, 4).map((one) => one.at);
    const own = points[4].at;
    const most = ceiling(own, others);
    picture.put("below", [picture.outline(hull(others), { class: "hull", "data-mark": "hull" })]);
    for (const [i, one] of points.entries()) one.show(i < 4 ? 7 : bigger(most));
    say(
      isInside(own, others)
        ? `inside: no query gives k4 more than ${digits(Math.ceil(most * 1e4) / 1e4, 4)}`
        : "outside: some query gives k4 nearly all",
    );
  };
  return plane({ label: "A key, the hull of the others, and the most it can get", reach: 2, points, draw });
}

function share() {
  const points = [
    ...keyPoints([
      [1, 0],
      [0, 1],
      [-0.7, -0.7],
    ]).map((one) => ({ ...one, still: true })),
    { name: "q", mark: "q", kind: "query", at: [3, 2.4] },
  ];
  for (const one of points.slice(0, 3)) one.at = one.at.map((x) => 2 * x); // drawn twice as far out
  const draw = ({ picture, say }) => {
    const query = points[3].at;
    const weights = softmax(
      scores(
        points.slice(0, 3).map((one) => one.at.map((x) => x / 2)),
        query,
      ),
    );
    picture.put("below", [picture.line([-5, -5], [5, 5], { class: "bisector", "data-mark": "bisector" })]);
    for (const [i, one] of points.entries()) one.show(i < 3 ? bigger(weights[i]) : 6);
    say(
      `k0 gets ${digits(weights[0], 3)}, k1 gets ${digits(weights[1], 3)}: `,
      `k0 / k1 = ${digits(weights[0] / weights[1], 2)}`,
    );
  };
  return plane({ label: "Sharing two keys", reach: 5, points, draw });
}

/** A slider with its label; `draw(value)` is called at once and after every movement. */
function slide({ label, mark = null, least, most, step = 1, value }, draw) {
  const shown = element("output", {}, String(value));
  const input = element("input", { type: "range", min: least, max: most, step, "aria-label": label });
  input.value = value;
  const change = () => {
    shown.textContent = input.value;
    draw(Number(input.value));
  };
  input.addEventListener("input", change);
  draw(value);
  return element("label", { class: "slide", "data-mark": mark }, label + " ", input, " ", shown);
}

function noise() {
  const picture = drawing({
    label: "Where the output lands",
    left: -1.25,
    right: 1.25,
    bottom: -0.9,
    top: 0.9,
    size: 420,
  });
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const draw = (scale) => {
    const next = uniform(7);
    const places = [[], []];
    for (let n = 0; n < 400; n++) {
      const keys = Array.from({ length: 10 }, () => [0.1 * gaussian(next), 0.1 * gaussian(next)]);
      keys[0][0] = 1 + Math.sqrt(0.51) * gaussian(next);
      keys[1][1] += 1;
      const one = softmax(scores(keys, [scale, scale]));
      const [first, second] = [softmax(scores(keys, [scale, 0])), softmax(scores(keys, [0, scale]))];
      places[0].push(one[0] - one[1]);
      places[1].push((first[0] + second[0] - first[1] - second[1]) / 2);
    }
    const row = (which, height) => places[which].map((x, n) => [x, height + 0.24 * (((n * 0.618) % 1) - 0.5)]);
    picture.put("below", [
      picture.line([-1, 0.45], [1, 0.45], { class: "axis" }),
      picture.line([-1, -0.45], [1, -0.45], { class: "axis" }),
      picture.line([0, -0.8], [0, 0.8], { class: "bisector", "data-mark": "target" }),
      picture.dots(row(0, 0.45), { class: "dots one", "data-mark": "one" }),
      picture.dots(row(1, -0.45), { class: "dots two", "data-mark": "two" }),
      picture.text([-1.22, 0.74], "one head", { class: "label" }),
      picture.text([-1.22, -0.16], "two heads, averaged", { class: "label" }),
      picture.text([-1.22, -0.84], "second value", { class: "label" }),
      picture.text([0.82, -0.84], "first value", { class: "label" }),
    ]);
    const far = (which) => Math.round(places[which].filter((x) => Math.abs(x) > 0.8).length / 4);
    fill(words, [`of 400 draws, one head lands on one value in ${far(0)} %, two heads in ${far(1)} %`]);
  };
  return [picture.svg, slide({ label: "length of the query", least: 1, most: 40, value: 20 }, draw), words];
}

/** A square of numbers between 0 and 1 as shades, with names at its rows and columns. */
function shades(numbers, { rows, columns = rows, hot = () => false, label }) {
  const cell = 300 / Math.max(rows.length, columns.length);
  const [left, above] = rows.some(Boolean) ? [84, 84] : [2, 2]; // room for the names
  const svg = shape("svg", {
    viewBox: `${-left} ${-above} ${columns.length * cell + left + 36} ${rows.length * cell + above + 6}`,
    role: "img",
    "aria-label": label,
  });
  for (const [i, row] of numbers.entries()) {
    for (const [j, value] of row.entries()) {
      const kind = hot(i, j) ? "shade hot" : "shade";
      const at = { x: j * cell, y: i * cell, width: cell, height: cell, class: kind, "fill-opacity": value.toFixed(4) };
      if (hot(i, j)) at["data-mark"] = "hot";
      svg.append(shape("rect", at, shape("title", {}, `${rows[i]} reads ${columns[j]}: ${digits(value, 3)}`)));
    }
    svg.append(shape("text", { x: -8, y: (i + 0.62) * cell, class: "row", "data-mark": "row" }, rows[i]));
  }
  for (const [j, name] of columns.entries()) {
    const transform = `translate(${(j + 0.62) * cell} -8) rotate(-50)`;
    svg.append(shape("text", { class: "column", "data-mark": "column", transform }, name));
  }
  return svg;
}

const WORDS = { the: [0.3, -0.2, 0.5], dog: [1.4, 0.6, -0.4], bit: [-0.5, 1.5, 0.3], man: [0.9, -1.2, 0.7] };

function order() {
  let swapped = false;
  const holder = element("div");
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const draw = () => {
    const sentence = ["the", swapped ? "man" : "dog", "bit", "the", swapped ? "dog" : "man"];
    const rows = sentence.map((word) => WORDS[word]);
    const weights = rows.map((row) => softmax(scores(rows, row)));
    const dog = output(weights[sentence.indexOf("dog")], rows);
    fill(holder, [shades(weights, { rows: sentence, label: "What each word reads" })]);
    fill(words, [`“${sentence.join(" ")}”: the output of “dog” is (${dog.map((x) => digits(x, 3)).join(", ")})`]);
  };
  const turn = () => {
    swapped = !swapped;
    draw();
  };
  draw();
  return [holder, element("button", { type: "button", onclick: turn, "data-mark": "swap" }, "swap dog and man"), words];
}

function positions() {
  const picture = drawing({
    label: "Positions on the circle",
    left: -1.3,
    right: 1.3,
    bottom: -1.3,
    top: 1.3,
    size: 420,
  });
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const place = (t) => [Math.sin(t), Math.cos(t)];
  const draw = (t) => {
    const [own, first] = [place(t), place(1)];
    const [rounded, kept] = [own.map(bfloat16), first.map(bfloat16)];
    const same = rounded.every((value, i) => value === kept[i]);
    picture.put("below", [
      picture.disc([0, 0], 420 / 2.6, { class: "axis", fill: "none" }),
      picture.disc(first, 11, { class: "place first", "data-mark": "first" }),
      picture.disc(own, 6, { class: "place own", "data-mark": "own" }),
    ]);
    fill(words, [
      `position ${t} in bfloat16: (${rounded.join(", ")}); position 1: (${kept.join(", ")}). `,
      element("strong", {}, t === 1 ? "The same position." : same ? "Bit for bit the same." : "Different."),
    ]);
  };
  const control = slide({ label: "position t", least: 0, most: 1000, value: 711 }, draw);
  return [picture.svg, control, words];
}

function rank(data) {
  const holder = element("div");
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const { left, values, right } = data.rank; // A = left diag(values) right
  const names = left.map(() => "");
  const product = (k) =>
    left.map((row) =>
      right[0].map((_, j) => row.slice(0, k).reduce((sum, x, m) => sum + x * values[m] * right[m][j], 0)),
    );
  const top = Math.max(...product(values.length).flat().map(Math.abs));
  const size = norm(values);
  const draw = (k) => {
    const shown = product(k).map((row) => row.map((x) => Math.min(1, Math.abs(x) / top)));
    fill(holder, [shades(shown, { rows: names, columns: right[0].map(() => ""), label: `The matrix at rank ${k}` })]);
    const error = values[k] ?? 0;
    fill(words, [
      `rank ${k}: `,
      element("span", { "data-mark": "error" }, `error ${digits(error, 3)}`),
      `, at most the Frobenius norm / √${k + 1} = ${digits(size / Math.sqrt(k + 1), 3)}`,
    ]);
  };
  return [holder, slide({ label: "rank", mark: "rank", least: 1, most: values.length - 1, value: 3 }, draw), words];
}

function heads(data) {
  const holder = element("div");
  const { rows, columns, weights } = data.heads;
  const draw = (head) => fill(holder, [shades(weights[head - 1], { rows, columns, label: `Head ${head}` })]);
  return [holder, slide({ label: "head", mark: "head", least: 1, most: weights.length, value: 1 }, draw)];
}

const TALK = ["I", "met", "a", "man", "who", "bit", "dogs"];

function future() {
  let leaks = true;
  const holder = element("div");
  const words = element("p", { class: "reading", "aria-live": "polite" });
  const next = uniform(3);
  const rows = TALK.map(() => [gaussian(next), gaussian(next), gaussian(next)]);
  let changed = 5;
  const outputs = (given) => {
    const isAllowed = (i, j) => j <= i + (leaks ? 1 : 0); // off by one
    const weights = given.map((row, i) => softmax(scores(given, row).map((s, j) => (isAllowed(i, j) ? s : -Infinity))));
    return { weights, rows: weights.map((weight) => output(weight, given)) };
  };
  const draw = () => {
    const before = outputs(rows);
    const after = outputs(rows.map((row, i) => (i === changed ? row.map((x) => x + 1) : row)));
    const moved = TALK.filter((_, i) => i < changed && norm(before.rows[i].map((x, m) => x - after.rows[i][m])) > 0);
    const hot = (i, j) => j > i && before.weights[i][j] > 0;
    fill(holder, [shades(before.weights, { rows: TALK, hot, label: "What each word reads" })]);
    fill(words, [
      `“${TALK[changed]}” is changed: `,
      element(
        "strong",
        { "data-mark": "moved" },
        moved.length ? `the output at “${moved.join(", ")}” moves, before it was read` : "no earlier output moves",
      ),
    ]);
  };
  const mend = element("button", { type: "button" }, "mend the mask");
  mend.addEventListener("click", () => {
    leaks = !leaks;
    mend.textContent = leaks ? "mend the mask" : "break it again";
    draw();
  });
  const control = slide({ label: "word that is changed", mark: "changed", least: 2, most: 7, value: 6 }, (n) => {
    changed = n - 1;
    draw();
  });
  return [holder, control, mend, words];
}

const FIGURES = { attend, copy, ceiling: hullAndCeiling, share, noise, order, positions, rank, heads, future };

/** Draw every figure of the page; words light their marks, and marks their words. */
export function begin(data) {
  for (const place of document.querySelectorAll("[data-figure]"))
    place.replaceChildren(...FIGURES[place.dataset.figure](data));
  const light = (event, lit) => {
    const marked = event.target.closest?.("[data-mark]");
    const scene = marked?.closest(".scene");
    if (!scene) return;
    for (const one of scene.querySelectorAll(`[data-mark="${marked.dataset.mark}"]`)) one.classList.toggle("lit", lit);
  };
  for (const [start, end] of [
    ["mouseover", "mouseout"],
    ["focusin", "focusout"],
  ]) {
    document.addEventListener(start, (event) => light(event, true));
    document.addEventListener(end, (event) => light(event, false));
  }
}
