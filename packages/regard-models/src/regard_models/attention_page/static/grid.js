// All layers by all heads at a glance: small pictures, the chosen one framed. One canvas, drawn anew when tones change.

import { paintSmall } from "./colours.js";
import { element } from "./parts.js";
import { CanvasPen } from "./pens.js";

const GAP = 3,
  LEAST = 12,
  MOST = 58,
  TOP = 18;

export function makeGrid(store, onchoose) {
  const canvas = element("canvas", { role: "img" });
  const tip = element("div", { class: "look-tip", hidden: true });
  const whole = element("div", { class: "look-grid" }, canvas, tip);
  const painted = element("canvas"); // the small pictures alone, as long as they stay as they are
  let shown = { rows: [], cell: 0, left: 0, chosen: null },
    kept = "";

  function placeAt(event) {
    const box = canvas.getBoundingClientRect();
    const step = shown.cell + GAP;
    const row = Math.floor((event.clientY - box.top - TOP) / step),
      column = Math.floor((event.clientX - box.left - shown.left) / step);
    const layer = shown.rows[row];
    if (layer === undefined || column < 0 || column >= store.layers[layer].heads.length) return null;
    return { layer, place: column, x: shown.left + column * step, y: TOP + row * step };
  }
  canvas.addEventListener("click", (event) => {
    const at = placeAt(event);
    if (at) onchoose(at.layer, at.place);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = placeAt(event);
    canvas.style.cursor = at ? "pointer" : "default";
    tip.hidden = !at;
    if (!at) return;
    const layer = store.layers[at.layer];
    tip.textContent =
      "layer " + layer.label + ", head " + layer.heads[at.place] + (layer.module ? " · " + layer.module : "");
    tip.style.left = Math.min(at.x, Math.max(0, whole.clientWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top = at.y + shown.cell + 4 + "px";
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));

  const names = { encoder: "enc ", decoder: "dec ", cross: "cross ", self: "" };

  /** `tone(layer, place)` gives how a head is coloured, `look` a name for all of that; `pictures` are what the store has of small ones. */
  function draw({ rows, measure, tone, look, pictures, chosen, theme }) {
    const most = Math.max(1, ...rows.map((row) => store.layers[row].heads.length));
    const left =
      Math.max(...rows.map((row) => (names[store.layers[row].kind] + store.layers[row].label).length), 1) * 6.6 + 10;
    const width = Math.max(160, whole.clientWidth - 2);
    const high = (0.46 * innerHeight) / rows.length; // room below it for what is read
    const cell = Math.max(
      LEAST,
      Math.min(MOST, Math.floor((width - left) / most) - GAP, Math.max(22, Math.floor(high) - GAP)),
    );
    shown = { rows, cell, left, chosen };
    const height = TOP + rows.length * (cell + GAP) + 2,
      across = Math.max(left + most * (cell + GAP) + 2, 60);
    const pen = new CanvasPen(canvas, across, height, devicePixelRatio || 1);
    canvas.style.width = across + "px";
    canvas.style.height = height + "px";
    const now = JSON.stringify([look, rows, across, height, devicePixelRatio]);
    if (now !== kept) paint({ rows, measure, tone, pictures }, across, height);
    kept = now;
    pen.image(painted, [0, 0, painted.width, painted.height], [0, 0, across, height]);
    const every = Math.ceil(17 / (cell + GAP)); // numbers that would touch are left out
    for (let n = 0; n < most; n += every) {
      const number = store.layers[rows[0]]?.heads[n] ?? n;
      pen.text(String(number), left + n * (cell + GAP) + cell / 2, TOP / 2, {
        size: 10.5,
        align: "center",
        fill: theme.soft,
        bold: n === chosen.place,
      });
    }
    rows.forEach((row, at) => {
      const layer = store.layers[row],
        y = TOP + at * (cell + GAP);
      if (at % every === 0 || row === chosen.layer) {
        const on = row === chosen.layer;
        pen.text(names[layer.kind] + layer.label, left - 7, y + cell / 2, {
          size: 10.5,
          align: "right",
          fill: on ? theme.ink : theme.soft,
          bold: on,
        });
      }
      layer.heads.forEach((_, place) => {
        const x = left + place * (cell + GAP);
        pen.frame(x + 0.5, y + 0.5, cell - 1, cell - 1, theme.grid);
        if (row === chosen.layer && place === chosen.place)
          pen.frame(x - 0.5, y - 0.5, cell + 1, cell + 1, theme.accent, 2.5);
      });
    });
    canvas.setAttribute("aria-label", rows.length + " layers by " + most + " heads, each a small heat map");
  }

  function paint({ rows, measure, tone, pictures }, across, height) {
    const pen = new CanvasPen(painted, across, height, devicePixelRatio || 1),
      { cell, left } = shown;
    rows.forEach((row, at) => {
      const layer = store.layers[row],
        codes = pictures[row]?.[measure] ?? [];
      const [high, wide] = layer.small,
        longer = Math.max(high, wide, 1);
      const w = (cell * wide) / longer,
        h = (cell * high) / longer; // cross-attention keeps its shape
      const stretch = Math.max(1, 8 / Math.min(w, h));
      const [dw, dh] = [Math.min(cell, w * stretch), Math.min(cell, h * stretch)];
      codes.forEach((one, place) => {
        const x = left + place * (cell + GAP) + (cell - dw) / 2,
          y = TOP + at * (cell + GAP) + (cell - dh) / 2;
        pen.image(
          paintSmall(one, layer.small, layer.peaks[measure][place], tone(row, place)),
          [0, 0, wide, high],
          [x, y, dw, dh],
        );
      });
    });
  }
  return { whole, draw };
}
