// Copy and share: the keys and queries as points and arrows, the weights as a table.

import { drawing, movable } from "../drawing.js";
import { button, choice, element, fill, shape, slider } from "../parts.js";

const ORIGIN = [0, 0];
const PIXELS = 5; // of a drag that turn the sphere by one step
const TURNS = { ArrowLeft: "-3 0", ArrowRight: "3 0", ArrowUp: "0 3", ArrowDown: "0 -3" };
const LABELS = {
  plane: "Keys and queries; every point can be moved with the arrow keys",
  sphere: "Keys and queries on a sphere; arrow keys turn it, and move a point that has the focus",
};

export function build(lab) {
  let tools = null;
  let canvas = null;
  return (answer) => {
    const picture = answer.picture;
    tools ??= makeTools(lab, picture);
    canvas ??= makeCanvas(lab, picture);
    tools.show(picture);
    canvas.show(picture);
    fill(lab.more, [table(lab, picture)]);
  };
}

function makeTools(lab, picture) {
  const names = (space) => Object.keys(picture.starts).filter((name) => picture.starts[name] === space);
  const groups = { "in the plane": names("plane"), "on the sphere": names("sphere") };
  const start = choice(
    { name: "start", label: "Keys", groups, first: "start from …" },
    (name) => name && lab.do("start " + name),
  );
  const allowed = {
    name: "eps",
    label: "eps",
    least: 0,
    most: picture.eps.length - 1,
    step: 1,
    format: (i) => picture.eps[i],
  };
  const eps = slider(allowed, (i, lasting) => lab.set({ eps: picture.eps[i] }, { lasting }));
  const reach = {
    name: "norm",
    label: "norm of q",
    least: 0,
    most: picture.longest,
    step: 0.1,
    format: (word) => Number(word).toFixed(2),
  };
  const norm = slider(reach, (size, lasting) => lab.do("norm " + size, { lasting }));
  const row = element(
    "div",
    { class: "buttons needs-python" },
    button("Take the shortest query", () => lab.do("use shortest"), { id: "use-shortest" }),
    button("Add a key", () => lab.do("add")),
    button("Remove one", () => lab.do("remove")),
  );
  lab.controls.append(start.whole, eps.whole, norm.whole, row);
  return {
    show(fresh) {
      start.set("");
      row.firstChild.hidden = !fresh.answers; // a teacher has hidden the shortest query
      norm.input.max = fresh.longest;
      norm.set(fresh.norm);
      eps.set(nearest(fresh.eps, Number(lab.state.eps)), lab.state.eps);
    },
  };
}

/** The place of the number that is nearest by ratio. */
const nearest = (words, wanted) =>
  words.reduce(
    (best, word, i) => (Math.abs(Math.log(word / wanted)) < Math.abs(Math.log(words[best] / wanted)) ? i : best),
    0,
  );

function makeCanvas(lab, { window: edge }) {
  const box = { left: -edge, right: edge, bottom: -edge, top: edge };
  const view = drawing({ label: LABELS.plane, ...box });
  for (const name of ["ground", "hull", "working", "points", "arrows", "output", "ruler"]) view.layer(name);
  const legend = element("p", { class: "legend" });
  lab.picture.append(view.svg, legend);
  const points = new Map();

  const point = (id) => {
    if (!points.has(id)) points.set(id, makePoint(lab, view, id));
    return points.get(id);
  };
  turnable(lab, view);
  let latest = null;
  document.addEventListener("stepchange", () => {
    view.put("working", working(view, latest, stepNow()));
    view.put("output", [diamond(view, latest.output, stepNow() === 4 && !STILL.matches ? latest.sums : [])]);
  });

  return {
    show(picture) {
      latest = picture;
      view.put("working", working(view, picture, stepNow()));
      view.svg.dataset.space = picture.space;
      view.svg.setAttribute("aria-label", LABELS[picture.space]);
      view.svg.setAttribute("tabindex", picture.space === "sphere" ? 0 : -1);
      view.put("ground", ground(view, picture, edge));
      view.put("hull", hull(view, picture));
      view.put(
        "arrows",
        picture.arrows.map((one) => stem(view, one)),
      );
      view.put("output", [diamond(view, picture.output)]);
      view.put("ruler", ruler(view, picture, edge));
      const own = picture.arrows.at(-1);
      const shown = picture.keys.map((key) => point(String(key.key)).show(key, keyLabel(key), reach(key.weight)));
      shown.push(point("q").show(own, `your query, ${own.text}, norm ${own.norm.toFixed(2)}; arrow keys move it`, 7));
      for (const [id, one] of points)
        if (!shown.includes(one)) {
          one.group.remove();
          points.delete(id);
        }
      fill(legend, describe(picture));
    },
  };
}

/** The user's own query ends in its handle, the others in an arrowhead. */
const stem = (view, one) => {
  const as = { class: one.kind + behind(one) };
  if (one.kind !== "own") return view.arrow(ORIGIN, [one.x, one.y], as);
  return shape("g", as, view.line(ORIGIN, [one.x, one.y], {}));
};
const behind = (one) => (one.behind ? " behind" : "");
const reach = (weight) => 8 + 18 * Math.sqrt(weight); // a larger disc has more weight; one of weight 0 can still be seen
const keyLabel = (key) =>
  `key ${key.key} at ${key.place}, weight ${key.weight.toFixed(3)}${key.chosen ? ", chosen" : ""}; ` +
  "arrow keys move it, space chooses it";

function makePoint(lab, view, id) {
  const ring = shape("circle", { class: "focus-ring" });
  const disc = shape("circle", { class: "disc" });
  const name = shape("text", { class: "name" }, id === "q" ? "q" : id);
  const group = shape(
    "g",
    { id: "point-" + id, role: "button", class: id === "q" ? "point query" : "point" },
    ring,
    disc,
    name,
  );
  view.layer("points").append(group);
  let here = ORIGIN;
  const at = (x, y) => {
    here = [x, y];
    group.setAttribute("transform", `translate(${view.x(x)} ${view.y(y)})`);
  };
  movable(view, group, {
    place: () => here,
    onMove(x, y, lasting) {
      if (view.svg.dataset.space === "plane") at(x, y); // the hand is faster than the answer
      lab.do(`move ${id} ${x.toFixed(4)} ${y.toFixed(4)}`, { lasting });
    },
    onNudge: (word) => lab.do(`nudge ${id} ${word}`),
    onPress: id === "q" ? null : () => lab.do("choose " + id),
  });
  const made = {
    group,
    show(one, label, radius) {
      at(one.x, one.y);
      disc.setAttribute("r", radius);
      ring.setAttribute("r", Math.max(radius + 5, 15));
      name.setAttribute("x", id === "q" ? 12 : 0);
      name.setAttribute("y", id === "q" ? -10 : 5);
      group.setAttribute("aria-label", label);
      group.classList.toggle("chosen", one.chosen ?? false);
      group.classList.toggle("inside", one.inside ?? false);
      group.classList.toggle("behind", one.behind);
      if (id !== "q") group.setAttribute("aria-pressed", one.chosen);
      return made;
    },
  };
  return made;
}

function ground(view, picture, edge) {
  if (picture.space === "sphere") {
    const rings = picture.circles.map((points) => view.path(points, { class: "ring" }));
    return [view.disc(ORIGIN, picture.radius * view.scale, { class: "globe" }), ...rings];
  }
  const lines = [];
  for (let at = -Math.floor(edge); at <= edge; at++) {
    const kind = at === 0 ? "axis" : "grid";
    lines.push(
      view.line([at, -edge], [at, edge], { class: kind }),
      view.line([-edge, at], [edge, at], { class: kind }),
    );
    if (at !== 0)
      lines.push(
        view.text([at, 0], at, { class: "tick", dy: 14 }),
        view.text([0, at], at, { class: "tick", dx: -12, dy: 4 }),
      );
  }
  return lines;
}

/** Queries are long beside keys and have a scale of their own: a bar that is a query of norm 5. */
function ruler(view, picture, edge) {
  const [left, right, height] = [-edge + 0.12, -edge + 0.12 + 5 * picture.scale, -edge + 0.14];
  const ends = [left, right].map((x) => view.line([x, height - 0.05], [x, height + 0.05], {}));
  return [
    view.line([left, height], [right, height], {}),
    ...ends,
    view.text([(left + right) / 2, height + 0.09], "queries: norm 5", {}),
  ];
}

function hull(view, picture) {
  return picture.edges.map(([i, j]) => {
    const [a, b] = [picture.keys[i], picture.keys[j]];
    return view.line([a.x, a.y], [b.x, b.y], { class: a.behind && b.behind ? "behind" : "" });
  });
}

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const BAR = 70; // pixels of the bar of the largest e^s
const stepNow = () => Number(document.body.dataset.step ?? 0);

/** A step of the computation in the picture: perpendiculars onto the query, bars e^s, weights, and their sum end to end. */
function working(view, { keys, feet, sums, arrows, window: edge }, step) {
  if (!step || !feet) return [];
  if (step === 4) {
    const parts = sums.map((to, i) => [sums[i - 1] ?? ORIGIN, to]).filter((_, i) => keys[i].weight > 0.005);
    return parts.map(([from, to]) => view.arrow(from, to, { class: "part" }));
  }
  const own = arrows.at(-1);
  const far = (size) => [size * own.x, size * own.y].map((x) => x / (Math.hypot(own.x, own.y) || 1));
  const ray = view.line(far(-4), far(4), { class: "ray" });
  const onto = keys.map(({ x, y }, i) => view.line([x, y], feet[i], { class: "perpendicular" }));
  if (step === 1) {
    const said = keys.map(({ x, y, score }, i) => {
      const [across, down] = [view.x(feet[i][0]) - view.x(x), view.y(feet[i][1]) - view.y(y)];
      const away = 18 / (Math.hypot(across, down) || 1); // on the side where the key is not
      return view.text(feet[i], score.toFixed(2), { class: "said", dx: away * across, dy: 5 + away * down });
    });
    return [ray, ...onto, ...feet.map((foot) => view.disc(foot, 3.5, { class: "foot" })), ...said];
  }
  const top = Math.max(...keys.map((key) => key.weight));
  return keys.flatMap(({ x, y, weight }) => {
    const tall = step === 2 ? (BAR * weight) / top : BAR * weight; // e^s over its largest is a weight over its largest
    const isRight = x > 0.6 * edge; // there the words would be cut
    const left = isRight ? view.x(x) - reach(weight) - 17 : view.x(x) + reach(weight) + 6;
    const foot = view.y(y) + 10;
    const bar = shape("rect", { class: "power", x: left, y: foot - tall, width: 11, height: Math.max(tall, 1) });
    const frame = shape("rect", { class: "frame", x: left, y: foot - BAR, width: 11, height: BAR });
    const words = step === 2 ? (weight / top).toPrecision(2) : weight.toFixed(2);
    const place = isRight ? { class: "said end", x: left - 4 } : { class: "said start", x: left + 15 };
    const said = shape("text", { ...place, y: foot }, words);
    return step === 2 ? [bar, said] : [frame, bar, said];
  });
}

/** The output; with `path`, it slides along these sums to its place. */
function diamond(view, output, path = []) {
  const mark = shape("path", {
    d: "M0 -8L8 0L0 8L-8 0Z",
    transform: `translate(${view.x(output.x)} ${view.y(output.y)})`,
  });
  mark.append(shape("title", {}, "output " + output.text));
  if (path.length) {
    const way = [ORIGIN, ...path].map(([x, y]) => [view.x(x) - view.x(output.x), view.y(y) - view.y(output.y)]);
    const d = "M" + way.map((point) => point.join(" ")).join("L");
    const slide = shape("animateMotion", { path: d, dur: "1.6s", begin: "indefinite", calcMode: "linear" });
    mark.append(slide);
    requestAnimationFrame(() => slide.beginElement());
  }
  return mark;
}

/** On the sphere, dragging the background turns it, and so do the arrow keys when the drawing itself has the focus. */
function turnable(lab, view) {
  view.svg.addEventListener("keydown", (event) => {
    if (event.target !== view.svg || !TURNS[event.key]) return;
    event.preventDefault();
    lab.do("turn " + TURNS[event.key]);
  });
  let last = null; // the pixels that have been turned into steps so far; what is left over waits for the next movement
  let turned = false;
  view.svg.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    if (view.svg.dataset.space === "sphere") view.svg.setPointerCapture(event.pointerId);
  });
  const end = () => {
    if (turned) lab.do("turn 0 0"); // the hand has let go: this is a step of the history
    last = null;
    turned = false;
  };
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  view.svg.addEventListener("pointermove", (event) => {
    if (!last || view.svg.dataset.space !== "sphere") return;
    const [across, upwards] = [
      Math.trunc((event.clientX - last[0]) / PIXELS),
      Math.trunc((event.clientY - last[1]) / PIXELS),
    ];
    if (!across && !upwards) return;
    last = [last[0] + PIXELS * across, last[1] + PIXELS * upwards];
    turned = true;
    lab.do(`turn ${-across} ${upwards}`, { lasting: false });
  });
}

function describe(picture) {
  const arrows = picture.arrows.map((one) => {
    const size = one.norm.toFixed(2) + (one.cut ? ", longer than the picture" : "");
    return element("span", { class: "key-" + one.kind }, `${one.name} (norm ${size})`);
  });
  const output = element("span", { class: "key-output" }, "output " + picture.output.text);
  return [
    ...arrows,
    output,
    element(
      "span",
      { class: "aside" },
      "values are the keys; queries have the scale of the bar; a larger disc has more weight",
    ),
  ];
}

function table(lab, picture) {
  const head = ["key", picture.space === "plane" ? "at" : "longitude, latitude", "score", "weight", "", "ceiling"];
  const rows = picture.keys.map((key) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = 100 * key.weight + "%";
    const kind = (key.chosen ? "chosen " : "") + (key.inside ? "inside" : "");
    const choose = element("input", {
      type: "checkbox",
      id: "choose-" + key.key,
      "aria-label": "choose key " + key.key,
    });
    choose.checked = key.chosen;
    choose.addEventListener("change", () => lab.do("choose " + key.key));
    const cells = [
      element("th", { scope: "row" }, element("label", {}, choose, " " + key.key)),
      element("td", { title: key.exactly }, key.place),
      element("td", {}, key.score.toFixed(2)),
      element("td", { "data-weight": key.key, "data-value": String(key.weight) }, key.weight.toFixed(4)),
      element("td", { class: "bars" }, bar),
      element("td", { "data-ceiling": key.key, "data-value": String(key.ceiling) }, key.most),
    ];
    const row = element("tr", { class: kind }, ...cells);
    row.addEventListener("click", (event) => event.target.closest("label, input") || lab.do("choose " + key.key));
    return row;
  });
  const header = element(
    "tr",
    {},
    ...head.map((word) => (word ? element("th", { scope: "col" }, word) : element("td"))),
  );
  return element("table", { class: "keys" }, element("thead", {}, header), element("tbody", {}, ...rows));
}
