// The page: its state, what is drawn for it, and how hand and keyboard change it.

import { makeRamp, Tone } from "./colours.js";
import { makeChips, makeControls, makeHelp } from "./controls.js";
import { makeGrid } from "./grid.js";
import { drawMap, layMap, placeOnMap, wordOnMap } from "./heatmap.js";
import { chosenLines, drawLines, layLines, wordOnLines } from "./lines.js";
import { digits, element, save } from "./parts.js";
import { CanvasPen, SvgPen } from "./pens.js";
import { makeReadings } from "./readings.js";
import { drawScores, layScores, sentenceOnScores } from "./scores.js";
import { Store } from "./streams.js";

const MANY = 600; // words on a side of the lines
// A tall picture stands on several canvases; those out of sight are drawn so many ms later. Canvases as high as this show no
// seam: a browser halves lines that are longer than some 500 pixels, and where all are halved at one height, it is seen.
const TILE = 512,
  LATER = 150;

/** Draw a page into `root`; `letters(name)` gives a stream. `outerTheme()`: light or dark, where somebody else decides it; `begin`: a state to go on from. */
export function mount(root, facts, letters, { outerTheme = null, begin = {} } = {}) {
  const store = new Store(facts, letters);
  const ramps = { light: makeRamp(facts.ramps.light), dark: makeRamp(facts.ramps.dark) };
  const state = {
    layer: facts.striking.layer,
    place: facts.striking.place,
    view: facts.view,
    measure: "weights",
    reach: "own",
    curve: "root",
    slid: 0,
    kind: "all",
    pinned: null,
    hover: null,
    cell: null,
    lit: new Set([0]),
    views: new Map(),
  };
  for (const word of ["view", "measure", "reach", "curve"]) state[word] = begin[word] ?? state[word];
  state.layer = Math.min(begin.layer ?? state.layer, store.layers.length - 1);
  state.place = Math.min(begin.place ?? state.place, store.layers[state.layer].heads.length - 1);
  const places = store.layers[state.layer].heads.map((_, place) => place);
  if (begin.lit?.size > 1) state.lit = new Set(places.filter((place) => begin.lit.has(place)));
  else state.lit = new Set(!begin.lit && facts.view === "lines" ? places : [state.place]);
  const pictures = [];
  let at = null; // where everything is on the stage
  let heads = []; // what is drawn there
  let turn = 0;

  // What the state means

  const layerNow = () => store.layers[state.layer];
  /** What is drawn: the map, where a head has no queries and keys to show. */
  const viewNow = () => (state.view === "scores" && !store.hasVectors(state.layer, state.place) ? "map" : state.view);
  const queries = () => facts.words[layerNow().queries];
  const keys = () => facts.words[layerNow().keys];

  /** The part in view, [from, to), of the queries ("rows") or of the keys ("columns"). */
  function part(side) {
    const layer = layerNow(),
      words = side === "rows" ? layer.queries : layer.keys;
    const known = state.views.get(side + words);
    if (known) return known;
    const [from, to] = layer.wide ? layer[side] : [0, layer.shape[side === "rows" ? 0 : 1]];
    return viewNow() === "map" ? [from, to] : [from, Math.min(to, from + MANY)];
  }

  function setPart(side, [from, to]) {
    const layer = layerNow(),
      length = layer.shape[side === "rows" ? 0 : 1];
    const size = Math.max(1, Math.min(Math.round(to - from), length, viewNow() === "map" ? length : MANY));
    const first = Math.max(0, Math.min(Math.round(from), length - size));
    state.views.set(side + (side === "rows" ? layer.queries : layer.keys), [first, first + size]);
  }

  function topOf(layer, place) {
    if (state.reach === "own") return layer.peaks[measureOf(layer)][place];
    return measureOf(layer) === "weights" ? Math.max(1, layer.peaks.weights[place]) : strongest;
  }
  const strongest = Math.max(0, ...store.layers.flatMap((layer) => layer.peaks.influence ?? []));
  const measureOf = (layer) => (layer.norms ? state.measure : "weights");

  function toneOf(number, place) {
    const layer = store.layers[number];
    return new Tone({ ramp: ramps[theme()], top: topOf(layer, place), curve: state.curve, least: state.slid ** 2 });
  }

  // Parts of the page

  const act = { move, goTo, showKind, zoom, reach, saveSvg, savePng, help: () => help.showModal() };
  const controls = makeControls(store, { set, act });
  const grid = makeGrid(store, (layer, place) => goTo(layer, place));
  const readings = makeReadings();
  const chips = makeChips(light);
  const help = makeHelp();
  const base = element("div", { class: "look-base", role: "img" }); // its canvases one above the other
  const over = element("canvas", { class: "look-over", tabindex: "-1" });
  const tip = element("div", { class: "look-tip", hidden: true });
  const stage = element(
    "div",
    { class: "look-stage", tabindex: "0", role: "group", "aria-label": "Picture" },
    base,
    over,
    tip,
  );
  const status = element("p", { class: "look-status look-soft", role: "status" });
  const themeButton = element("button", {
    type: "button",
    title: "Light or dark (t)",
    "aria-label": "Light or dark",
    onclick: toggleTheme,
  });
  root.classList.add("look");
  root.replaceChildren(
    element(
      "header",
      { class: "look-head" },
      element(
        "div",
        {},
        element("h1", {}, element("bdi", {}, facts.title)),
        element("p", { class: "look-soft" }, summary()),
        facts.striking.sentence ? element("p", { class: "look-striking" }, facts.striking.sentence) : null,
      ),
      element(
        "div",
        { class: "look-actions" },
        element(
          "button",
          { type: "button", id: "look-svg", title: "Save the view as SVG (s)", onclick: saveSvg },
          "SVG",
        ),
        element(
          "button",
          { type: "button", id: "look-png", title: "Save the view as PNG (p)", onclick: savePng },
          "PNG",
        ),
        outerTheme ? null : themeButton,
        element(
          "button",
          {
            type: "button",
            title: "What the keyboard does (?)",
            "aria-label": "What the keyboard does",
            onclick: act.help,
          },
          "?",
        ),
      ),
    ),
    controls.tools,
    element(
      "div",
      { class: "look-body" },
      element("section", { class: "look-side", "aria-label": "All layers and heads" }, grid.whole, readings.whole),
      element("section", { class: "look-view", "aria-label": "The chosen head" }, chips.whole, stage, status),
    ),
    element("footer", { class: "look-foot look-soft" }, ...footer().map((line) => element("p", {}, line))),
    help,
  );

  function summary() {
    const lengths = [...new Set(store.layers.map((layer) => layer.shape.join(" × ")))];
    const count = store.layers.reduce((sum, layer) => sum + layer.heads.length, 0);
    const many = (n, what) => n + " " + what + (n === 1 ? "" : "s");
    return (
      many(store.layers.length, "layer") +
      ", " +
      many(count, "head") +
      " in all; queries × keys: " +
      lengths.slice(0, 4).join(", ")
    );
  }

  function footer() {
    const off =
      "Stored as square roots in 8 bits, each row by its largest: no weight is off by more than " +
      facts.off[0] +
      ", no row by more than " +
      facts.off[1] +
      " of its mass.";
    const stored = store.layers.find((layer) => layer.wide);
    const windowed = stored
      ? [
          "Queries " +
            stored.rows[0] +
            " to " +
            (stored.rows[1] - 1) +
            " and keys " +
            stored.columns[0] +
            " to " +
            (stored.columns[1] - 1) +
            " are stored in full; elsewhere each block shows its largest weight.",
        ]
      : [];
    const said = facts.remarks.map((remark) => remark[0].toUpperCase() + remark.slice(1) + ".");
    return [
      off,
      ...windowed,
      ...said,
      "A weight says what was read, not what it was good for: attention is not explanation.",
    ];
  }

  // Light and dark

  function theme() {
    return root.dataset.theme === "dark" ? "dark" : "light";
  }

  function storedTheme(word) {
    try {
      // a page in a frame may have no memory
      if (word) localStorage.setItem("regard-look-theme", word);
      return localStorage.getItem("regard-look-theme");
    } catch {
      return word ?? null;
    }
  }

  const system = matchMedia("(prefers-color-scheme: dark)");
  function setTheme(word) {
    root.dataset.theme = word;
    if (!outerTheme) document.documentElement.dataset.theme = word;
    themeButton.textContent = word === "dark" ? "☀" : "☾";
    draw();
  }
  function toggleTheme() {
    if (!outerTheme) setTheme(storedTheme(theme() === "dark" ? "light" : "dark"));
  }
  function colours() {
    const style = getComputedStyle(root),
      of = (name) => style.getPropertyValue("--look-" + name).trim();
    return Object.fromEntries(
      ["ink", "soft", "grid", "line", "paper", "accent", "blue"].map((name) => [name, of(name)]),
    );
  }

  // Changes

  function set(changes) {
    Object.assign(state, changes);
    draw();
  }

  function goTo(number, place) {
    const layer = store.layers[number ?? state.layer];
    const changed = number !== null && number !== state.layer;
    const next = Math.max(0, Math.min(layer.heads.length - 1, place ?? state.place));
    const solo = state.lit.size === 1;
    if (changed) {
      const before = layerNow();
      if (before.queries !== layer.queries || before.keys !== layer.keys) state.pinned = state.hover = null;
      state.lit = new Set([...state.lit].filter((one) => one < layer.heads.length));
    }
    if (solo || !state.lit.size) state.lit = new Set([next]);
    set({ layer: number ?? state.layer, place: next, hover: null, cell: null });
  }

  function shownLayers() {
    return store.layers.map((_, n) => n).filter((n) => state.kind === "all" || store.layers[n].kind === state.kind);
  }

  function move(down, right) {
    const rows = shownLayers(),
      row = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(state.layer) + down))];
    goTo(row, state.place + right);
  }

  function showKind(kind) {
    state.kind = kind;
    const rows = shownLayers();
    goTo(rows.includes(state.layer) ? null : rows[0], null);
  }

  function light(what, place) {
    const all = layerNow().heads.map((_, n) => n);
    if (what === "all") state.lit = new Set(state.lit.size === all.length ? [state.place] : all);
    else if (what === "only") state.lit = new Set([place]);
    else {
      const lit = new Set(state.lit);
      if (!lit.delete(what)) lit.add(what);
      state.lit = lit.size ? lit : new Set([what]);
    }
    const place_ = state.lit.has(state.place) ? state.place : Math.min(...state.lit);
    set({ place: place_ });
  }

  function zoom(factor, about = null) {
    state.cell = null;
    for (const side of ["rows", "columns"]) {
      const [from, to] = part(side);
      if (factor === 0) {
        const length = layerNow().shape[side === "rows" ? 0 : 1];
        setPart(side, [0, length]);
        continue;
      }
      const centre = about ? about[side] : (from + to) / 2,
        size = Math.max(2, (to - from) * factor);
      const share = (centre - from) / (to - from);
      setPart(side, [centre - share * size, centre + (1 - share) * size]);
    }
    draw();
  }

  function pan(down, right) {
    for (const [side, step] of [
      ["rows", down],
      ["columns", right],
    ]) {
      const [from, to] = part(side),
        by = step * Math.max(1, Math.round((to - from) / 8));
      setPart(side, [from + by, to + by]);
    }
    draw();
  }

  function reach(which, value) {
    const side = which < 2 ? "rows" : "columns",
      [from, to] = part(side);
    if (Number.isFinite(value))
      setPart(side, which % 2 ? [Math.min(from, value), value + 1] : [value, Math.max(to, value + 1)]);
    draw();
  }

  function pin(focus) {
    const same = state.pinned && focus && state.pinned.side === focus.side && state.pinned.place === focus.place;
    set({ pinned: same ? null : focus });
  }

  function pinNext(by) {
    const [from, to] = part(state.pinned?.side === "key" ? "columns" : "rows");
    const place = state.pinned ? state.pinned.place + by : by > 0 ? from : to - 1;
    set({ pinned: { side: state.pinned?.side ?? "query", place: Math.max(from, Math.min(to - 1, place)) } });
  }

  // Drawing

  const focusNow = () => state.hover ?? state.pinned;

  function scene() {
    const layer = layerNow();
    return {
      measure: measureOf(layer),
      tone: toneOf(state.layer, state.place),
      queries: queries(),
      keys: keys(),
      theme: colours(),
      pinned: state.pinned,
      focus: focusNow(),
      head: heads[0],
      heads,
      colours:
        state.lit.size > 1
          ? [...state.lit].sort((a, b) => a - b).map((place) => facts.colours[place % facts.colours.length])
          : [blue()],
    };
  }
  const cssColour = (name) =>
    getComputedStyle(root)
      .getPropertyValue("--look-" + name)
      .trim();
  const accent = () => cssColour("accent"),
    blue = () => cssColour("blue");

  /** Many heads share one scale in the lines: that of the largest. */
  function sharedTone() {
    const tones = [...state.lit].map((place) => toneOf(state.layer, place));
    return tones.reduce((one, other) => (other.top > one.top ? other : one));
  }

  function layOut() {
    const width = Math.max(300, stage.clientWidth - 2),
      room = innerHeight - stage.getBoundingClientRect().top - scrollY - 40;
    const sizes = {
      width,
      height: Math.max(360, Math.min(room, 1100)),
      rows: part("rows"),
      columns: part("columns"),
      queries: queries(),
      keys: keys(),
      count: state.lit.size,
    };
    return { map: layMap, lines: layLines, scores: layScores }[viewNow()](sizes);
  }

  /** How the view is drawn with a pen, and what is said about it. */
  function view(where, paper = false) {
    if (viewNow() !== "lines") {
      const what = { ...scene(), paper };
      if (viewNow() === "map") return { draw: (pen) => drawMap(pen, where, what), cut: "" };
      return { draw: (pen) => drawScores(pen, where, what), cut: sentenceOnScores(what.head) };
    }
    const what = { ...scene(), tone: sharedTone(), paper },
      chosen = chosenLines(where, what),
      drawn = chosen.found.length;
    const few = drawn < chosen.all,
      many = (n) => n.toLocaleString("en");
    const cut = few
      ? "The " + many(drawn) + " heaviest of " + many(chosen.all) + " lines are drawn; hide more, or point at a word."
      : "";
    return { draw: (pen) => drawLines(pen, where, { ...what, chosen }), cut };
  }

  async function draw() {
    const mine = ++turn;
    root.dataset.busy = "yes";
    const layer = layerNow();
    const places = viewNow() === "lines" ? [...state.lit].sort((a, b) => a - b) : [state.place];
    const read = await Promise.all(places.map((place) => store.head(state.layer, place)));
    if (mine !== turn) return; // something newer is under way
    heads = read;
    chips.show(layer, state.lit, facts.colours, viewNow() === "lines");
    controls.show(state, {
      layer,
      rows: part("rows"),
      columns: part("columns"),
      tone: toneOf(state.layer, state.place),
    });
    at = layOut();
    paintStage();
    drawGrid();
    root.dataset.drawn = [viewNow(), state.layer, state.place, measureOf(layer), [...state.lit].join("+")].join(" ");
    root.dataset.busy = "no";
  }

  function paintStage() {
    const now = view(at),
      layer = layerNow();
    const tiles = fittingTiles(viewNow() === "map" ? at.height : TILE);
    over.style.width = at.width + "px";
    over.style.height = at.height + "px";
    const above = base.getBoundingClientRect().top;
    const paint = (tile) =>
      now.draw(new CanvasPen(tile.canvas, at.width, tile.height, devicePixelRatio || 1, tile.top));
    const seen = tiles.filter(({ top, height }) => above + top < innerHeight && above + top + height > 0);
    seen.forEach(paint);
    clearTimeout(later);
    const rest = tiles.filter((tile) => !seen.includes(tile));
    root.dataset.whole = rest.length ? "no" : "yes";
    paintRest = () => {
      clearTimeout(later);
      paintRest = () => {};
      rest.forEach(paint);
      root.dataset.whole = "yes";
    };
    later = setTimeout(() => paintRest(), LATER);
    base.setAttribute("aria-label", "Layer " + layer.label + ", head " + heads.map((head) => head.number).join(", "));
    const notes = layer.notes.length ? " " + layer.notes.join("; ") + "." : "";
    status.textContent = (layer.module ? layer.module + ". " : "") + now.cut + notes;
    point();
  }

  let later = null,
    paintRest = () => {};
  addEventListener("scroll", () => paintRest(), { capture: true, passive: true });

  /** The canvases that the picture needs, each so high at most. */
  function fittingTiles(most) {
    const tiles = [];
    for (let top = 0; top < at.height; top += most) {
      const canvas = base.children[tiles.length] ?? base.appendChild(element("canvas")),
        height = Math.min(most, at.height - top);
      canvas.style.width = at.width + "px";
      canvas.style.height = height + "px";
      tiles.push({ canvas, top, height });
    }
    while (base.children.length > tiles.length) base.lastChild.remove();
    return tiles;
  }

  function drawGrid() {
    const { ink } = colours(); // none until the styles are there
    const look = [state.measure, state.reach, state.curve, state.slid, ink, pictures.filter(Boolean).length].join();
    const now = [look, state.layer, state.place, state.kind, grid.whole.clientWidth].join();
    if (now === drawGrid.last) return;
    drawGrid.last = now;
    grid.draw({
      rows: shownLayers(),
      measure: state.measure,
      tone: toneOf,
      look,
      pictures,
      chosen: state,
      theme: colours(),
    });
  }

  /** What is under the pointer, or pinned: a cross on the map, and the list beside it. */
  function point(cell = over.matches(":hover") ? state.cell : null) {
    const used = viewNow() === "map"; // over lines nothing is drawn, and a canvas as large as theirs takes time
    const pen = new CanvasPen(over, used ? at.width : 1, used ? at.height : 1, devicePixelRatio || 1);
    if (cell && (cell.query >= at.rows[1] || cell.key >= at.columns[1])) cell = null;
    const ink = accent(),
      focus = cell ? { side: "query", place: cell.query } : focusNow();
    if (viewNow() === "map") {
      const row = (place) => [at.x - 1, at.y + (place - at.rows[0]) * at.cell, at.w + 2, at.cell];
      const column = (place) => [at.x + (place - at.columns[0]) * at.cell, at.y - 1, at.cell, at.h + 2];
      const inside = (side, place) => place >= at[side][0] && place < at[side][1];
      if (cell) {
        pen.frame(...row(cell.query), ink, 1);
        pen.frame(...column(cell.key), ink, 1);
      } else if (focus && inside(focus.side === "query" ? "rows" : "columns", focus.place)) {
        pen.frame(...(focus.side === "query" ? row : column)(focus.place), ink, 2);
      }
    }
    const head = viewNow() === "map" ? heads[0] : (heads.find((one) => one.place === state.place) ?? heads[0]);
    const pinned = focus && state.pinned && focus.side === state.pinned.side && focus.place === state.pinned.place;
    readings.show({
      head,
      focus,
      pinned,
      measure: measureOf(layerNow()),
      queries: queries(),
      keys: keys(),
      tone: toneOf(state.layer, head.place),
    });
  }

  function showTip(cell, x, y) {
    tip.hidden = !cell;
    if (!cell) return;
    const head = heads[0],
      weight = head.value(cell.query, cell.key, "weights");
    const numbers =
      weight === null
        ? "at most " + digits(head.atMost(cell.query, cell.key) ?? 0) + " in its block"
        : digits(weight) + (head.norms ? ", influence " + digits(head.value(cell.query, cell.key, "influence")) : "");
    tip.replaceChildren(
      element("bdi", {}, queries()[cell.query]),
      " reads ",
      element("bdi", {}, keys()[cell.key]),
      ": " + numbers,
    );
    tip.style.left = Math.min(x + 14, Math.max(0, at.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = (y + 30 > at.height ? y - 34 : y + 16) + "px";
  }

  // Hand

  let band = null; // where a drag over the map began, and where it is
  const spot = (event) => {
    const box = over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const wordAt = (x, y) => (viewNow() === "map" ? wordOnMap(at, x, y) : wordOnLines(at, x, y));

  over.addEventListener("pointermove", (event) => {
    if (!at || !heads.length) return;
    const [x, y] = spot(event);
    if (band) return drawBand(x, y);
    const word = wordAt(x, y),
      cell = viewNow() === "map" ? placeOnMap(at, x, y) : null;
    over.style.cursor = word ? "pointer" : cell ? "crosshair" : "default";
    const changed = JSON.stringify(word) !== JSON.stringify(state.hover);
    state.hover = word;
    state.cell = cell;
    showTip(cell, x, y);
    if (changed && viewNow() !== "map") paintStage();
    else point(cell);
  });
  over.addEventListener("pointerleave", () => {
    tip.hidden = true;
    const had = state.hover;
    state.hover = state.cell = null;
    if (at && heads.length) had && viewNow() !== "map" ? paintStage() : point();
  });
  over.addEventListener("pointerdown", (event) => {
    const [x, y] = spot(event),
      cell = viewNow() === "map" && placeOnMap(at, x, y);
    if (cell && event.button === 0) {
      band = { x, y, cell };
      over.setPointerCapture(event.pointerId);
    }
  });
  over.addEventListener("pointerup", (event) => {
    const [x, y] = spot(event),
      word = wordAt(x, y);
    const began = band;
    band = null;
    if (!began) return word && pin(word);
    const clamp = (v, low, high) => Math.max(low, Math.min(high, v));
    const end = placeOnMap(at, clamp(x, at.x, at.x + at.w - 0.01), clamp(y, at.y, at.y + at.h - 0.01));
    if (!end || Math.hypot(x - began.x, y - began.y) < 8) return pin({ side: "query", place: began.cell.query });
    setPart("rows", [Math.min(began.cell.query, end.query), Math.max(began.cell.query, end.query) + 1]);
    setPart("columns", [Math.min(began.cell.key, end.key), Math.max(began.cell.key, end.key) + 1]);
    draw();
  });
  over.addEventListener("dblclick", () => viewNow() === "map" && zoom(0));
  over.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page
      event.preventDefault();
      const [x, y] = spot(event),
        cell = viewNow() === "map" ? placeOnMap(at, x, y) : null;
      zoom(event.deltaY > 0 ? 1.25 : 0.8, cell && { rows: cell.query, columns: cell.key });
    },
    { passive: false },
  );

  function drawBand(x, y) {
    const pen = new CanvasPen(over, at.width, at.height, devicePixelRatio || 1);
    const ink = accent();
    pen.rect(Math.min(x, band.x), Math.min(y, band.y), Math.abs(x - band.x), Math.abs(y - band.y), ink, 0.15);
    pen.frame(Math.min(x, band.x), Math.min(y, band.y), Math.abs(x - band.x), Math.abs(y - band.y), ink, 1.5);
    tip.hidden = true;
  }

  // Keyboard

  const hasInfluence = () => layerNow().norms;
  const actions = {
    ArrowLeft: () => move(0, -1),
    ArrowRight: () => move(0, 1),
    ArrowUp: () => move(-1, 0),
    ArrowDown: () => move(1, 0),
    m: () => set({ view: "map" }),
    l: () => set({ view: "lines" }),
    q: () => store.hasVectors(state.layer, state.place) && set({ view: "scores" }),
    w: () => set({ measure: "weights" }),
    i: () => hasInfluence() && set({ measure: "influence" }),
    a: () => {
      if (viewNow() === "lines") light("all");
    },
    n: () => pinNext(1),
    b: () => pinNext(-1),
    Escape: () => set({ pinned: null, hover: null }),
    ",": () => set({ slid: Math.max(0, state.slid - 0.05) }),
    ".": () => set({ slid: Math.min(1, state.slid + 0.05) }),
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6),
    0: () => zoom(0),
    t: toggleTheme,
    s: saveSvg,
    p: savePng,
    "?": act.help,
  };
  const pans = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  function press(event) {
    const typing = event.target.closest?.("input, select, textarea, [contenteditable], dialog");
    if (!root.isConnected) return document.removeEventListener("keydown", press);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = event.shiftKey && pans[event.key] ? () => pan(...pans[event.key]) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
  document.addEventListener("keydown", press);

  // Files

  const caption = () =>
    facts.title +
    " · layer " +
    layerNow().label +
    " · head " +
    heads.map((head) => head.number).join(", ") +
    " · " +
    (viewNow() === "scores" ? "q·k" : measureOf(layerNow()));
  const fileName = (ending) =>
    (facts.title
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .replace(/^-+|-+$/g, "")
      .slice(-40) || "attention") +
    "-layer" +
    layerNow().label.replace(/\W+/g, "-") +
    "-head" +
    heads[0].number +
    ending;

  function drawFile(make) {
    const where = { ...at, height: at.height + 24 };
    const pen = make(where.width, where.height),
      hover = state.hover;
    state.hover = null; // a file shows what is pinned, not what the mouse is on
    view(where, true).draw(pen);
    pen.text(caption(), 10, where.height - 12, { size: 11, fill: colours().soft });
    state.hover = hover;
    return pen;
  }
  function saveSvg() {
    save(new Blob([drawFile((w, h) => new SvgPen(w, h)).toSvg()], { type: "image/svg+xml" }), fileName(".svg"));
  }
  function savePng() {
    const canvas = document.createElement("canvas");
    drawFile((w, h) => new CanvasPen(canvas, w, h, 2));
    canvas.toBlob((blob) => save(blob, fileName(".png")), "image/png");
  }

  // Begin

  const first = outerTheme ? outerTheme() : (storedTheme() ?? (system.matches ? "dark" : "light"));
  setTheme(first);
  system.addEventListener("change", () => {
    if (!outerTheme && !storedTheme()) setTheme(system.matches ? "dark" : "light");
  });
  let width = root.clientWidth; // the height changes with every sentence
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      draw();
    }
  }).observe(root);
  addEventListener("resize", () => root.isConnected && draw());
  Promise.all(
    store.layers.map(async (_, number) => {
      pictures[number] = await store.small(number);
    }),
  ).then(() => {
    drawGrid();
    root.dataset.complete = "yes";
  });
  return { set, setTheme, state };
}
