// The page on copying without Python: points go wherever a hand moves them. Scores, weights, output and hull are
// computed here; what was proved is kept where it was stored for these keys, and left out where it was not.

import { ceiling, hull, output, scores, softmax } from "./attention.js";

const STEPS = { left: [-1, 0], right: [1, 0], up: [0, 1], down: [0, -1] };
const NOT_PROVED =
  "Computed by this page, not proved: a ceiling with ≈ is no bound. With Python, the line below proves it.";

const rowsOf = (word) => word.split(";").map((row) => row.split(",").map(Number));
const wordOf = (rows) => rows.map((row) => row.join(",")).join(";");
const round = (value, places = 2) => Number(value.toFixed(places));
const vector = (values) => "(" + values.map((x) => String(Number(x.toPrecision(3)))).join(", ") + ")";

/** The words after one action in the plane; null where it is none of a hand's. */
export function applyAction(words, action, { window: edge, scale }) {
  const [name, item, ...rest] = action.split(" ");
  const inside = (values) => values.map((value) => round(Math.max(-edge, Math.min(edge, value))));
  const [keys, [query]] = [rowsOf(words.keys), rowsOf(words.q)];
  if (name === "choose" && keys[item]) {
    const chosen = new Set(words.to.split(",").filter(Boolean));
    if (!chosen.delete(item)) chosen.add(item);
    return { ...words, to: [...chosen].sort((a, b) => a - b).join(",") };
  }
  if (name === "norm") {
    const now = Math.hypot(...query);
    return now > 0 ? { ...words, q: wordOf([query.map((x) => round((item * x) / now, 4))]) } : words;
  }
  if (!["move", "nudge"].includes(name) || (item !== "q" && !keys[item])) return null;
  const old = item === "q" ? query.map((x) => scale * x) : keys[item];
  const step = STEPS[rest[0]]?.map((x, i) => old[i] + 0.05 * x);
  const place = inside(name === "move" ? rest.map(Number) : step);
  if (item === "q") return { ...words, q: wordOf([place.map((x) => round(x / scale))]) };
  return { ...words, keys: wordOf(keys.map((key, i) => (i === Number(item) ? place : key))) };
}

/** The answer at these words. `frame` is a stored one: for the same keys and demand if `isProved`, else any. */
export function freeAnswer(frame, words, isProved) {
  const [keys, [query]] = [rowsOf(words.keys), rowsOf(words.q)];
  const chosen = words.to.split(",").filter(Boolean).map(Number);
  const score = scores(keys, query);
  const weights = softmax(score);
  const before = frame.picture;
  const most = (key, i) => {
    if (isProved || !before.answers)
      return before.answers ? before.keys[i] : { ceiling: null, most: "?", inside: false };
    const computed = ceiling(
      key,
      keys.filter((_, l) => l !== i),
    );
    return { ceiling: computed, most: computed === 1 ? "≈ 1" : "≈ " + computed.toPrecision(4), inside: computed < 0.5 };
  };
  const rows = keys.map((key, i) => ({
    ...{ key: i, place: key.join(", "), exactly: key.join(", "), x: key[0], y: key[1], behind: false },
    ...{ chosen: chosen.includes(i), score: score[i], weight: weights[i] },
    ...(({ ceiling, most, inside }) => ({ ceiling, most, inside }))(most(key, i)),
  }));
  const mean = output(weights, keys);
  return {
    ...frame,
    picture: {
      ...before,
      ...{ keys: rows, edges: isProved ? before.edges : edges(keys), norm: Math.hypot(...query) },
      ...{ feet: null, sums: null }, // no steps here
      ...{ output: { x: mean[0], y: mean[1], behind: false, text: vector(mean) } },
      ...{ arrows: [...(isProved ? before.arrows.slice(0, -1) : []), arrow(query, before)] },
    },
    ...{ numbers: numbers(frame, query, weights, chosen, isProved), say: isProved ? frame.say : [NOT_PROVED] },
    ...{ formulas: isProved ? frame.formulas.slice(1) : [], why: isProved ? frame.why : [], steps: [] },
    ...{ tour: tasksDone(score, weights, Math.hypot(...query), isProved ? before.keys : []) },
    ...lines(keys, query, chosen, words.eps, before.answers),
    state: words,
  };
}

function edges(keys) {
  const corners = hull(keys).map((corner) => keys.indexOf(corner));
  return corners.map((i, n) => [i, corners[(n + 1) % corners.length]]);
}

function arrow(query, { window: edge, scale }) {
  const place = query.map((x) => scale * x);
  const cut = Math.min(1, (0.97 * edge) / Math.max(...place.map(Math.abs), 1e-9));
  const [x, y] = place.map((value) => cut * value);
  return {
    kind: "own",
    name: "your query",
    norm: Math.hypot(...query),
    behind: false,
    cut: cut < 1,
    x,
    y,
    text: vector(query),
  };
}

/** What of the tour's tasks is done, where scores and weights alone say so; lab/tour.py says it of everything else. */
function tasksDone(score, weights, norm, proved) {
  const lead = score.length === 2 ? score[0] - score[1] : 0;
  const done = {
    "one-key": [score.length === 1 && score[0] < 0],
    differences: [norm > 5 && Math.abs(lead - 2) <= 0.4, lead < 0],
    ceiling: [weights[3] >= 0.24 && proved[3]?.ceiling < 0.5],
  };
  const places = (tasks) => tasks.flatMap((isDone, i) => (isDone ? [i] : []));
  return Object.fromEntries(Object.entries(done).map(([card, tasks]) => [card, places(tasks)]));
}

function numbers(frame, query, weights, chosen, isProved) {
  const size = Math.hypot(...query);
  const own = [{ name: "own-norm", label: "norm of your query", value: size, text: size.toPrecision(4), column: "" }];
  if (chosen.length) {
    const least = Math.min(...chosen.map((i) => weights[i]));
    const label = chosen.length === 1 ? "attention it gives" : "least attention it gives";
    own.push({ name: "own-attention", label, value: least, text: least.toPrecision(6), column: "" });
  }
  return [...own, ...(isProved ? frame.numbers.filter((one) => !one.name.startsWith("own-")) : [])];
}

/** The lines that prove it, for a shell and for Python. */
function lines(keys, query, chosen, eps, answers) {
  const rows = JSON.stringify(keys);
  const [verb, which] = chosen.length === 1 ? ["copy", chosen[0]] : ["share", JSON.stringify(chosen)];
  const shown = [
    `keys = ${rows}`,
    `query = ${JSON.stringify(query)}`,
    "print(attend(query, keys, keys).weights.tolist())",
  ];
  const typed = keys.map((key) => key.join(",")).join("; ");
  const shell = [`regard design ceiling --keys "${typed}" --all-rows`];
  if (chosen.length) {
    shown.push(`print(design.${verb}(keys, ${which}, eps=${eps}).details())`);
    shell.unshift(`regard design ${verb} --keys "${typed}" ${chosen.join(" ")} --eps ${eps} --details`);
  }
  const attend = `python -c "from regard import attend; k = ${rows}; print(attend(${JSON.stringify(query)}, k, k).weights)"`;
  const python = ["from regard import attend, design", ...(answers ? shown : shown.slice(0, 3))];
  return { python: python.join("\n"), shell: [...(answers ? shell : []), attend].join("\n") };
}
