// A table of numbers between -1 and 1 as colours: blue below 0, orange above, the paper's own at 0.

import { element } from "./parts.js";

const colour = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** A canvas of one pixel per number, scaled up without smoothing; `set(rows, label)` paints. */
export function heat(attributes = {}) {
  const canvas = element("canvas", { role: "img", ...attributes, class: "heat " + (attributes.class ?? "") });
  let rows = null;
  const paint = () => {
    if (!rows) return;
    const [paper, above, below] = ["paper", "orange", "blue"].map((name) => parts(colour(name)));
    canvas.width = rows[0].length;
    canvas.height = rows.length;
    const image = new ImageData(canvas.width, canvas.height);
    rows.flat().forEach((value, at) => {
      const [end, share] = [value > 0 ? above : below, Math.min(1, Math.abs(value))];
      paper.forEach((from, i) => (image.data[4 * at + i] = from + (end[i] - from) * share));
      image.data[4 * at + 3] = 255;
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  document.addEventListener("themechange", paint);
  return {
    canvas,
    set(fresh, label) {
      rows = fresh;
      canvas.setAttribute("aria-label", label);
      paint();
    },
  };
}
