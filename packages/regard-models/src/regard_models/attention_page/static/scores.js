// Query times key: for one word the products of its entries with every other word's, which add up to scores.

import { drawSide, HEAD, layLines } from "./lines.js";
import { digits } from "./parts.js";

const MARGIN = 12,
  NARROW = 300; // between the words

/** Where everything is: words as in the lines, and between them a row of cells, the score and the weight. */
export function layScores(sizes) {
  return layLines({ ...sizes, count: 0 });
}

/** A score with two digits behind the point, and a minus sign of its own. */
const twoDigits = (score) => score.toFixed(2).replace("-", "−");

/** The word that is read for: the one pointed at or pinned, or else the query in the middle. */
const wordInFocus = (at, focus) =>
  focus ?? { side: "query", place: Math.floor((at.rows[0] + Math.min(at.rows[1], at.rows[0] + 12)) / 2) };

export function drawScores(pen, at, { head, queries, keys, focus, theme, paper }) {
  if (paper) pen.rect(0, 0, at.width, at.height, theme.paper);
  const { side, place: chosen } = wordInFocus(at, focus);
  const reads = side === "query",
    range = reads ? at.columns : at.rows,
    scale = head.layer.scale ?? 1;
  const own = reads ? head.query(chosen) : head.key(chosen);
  const rows = [];
  for (let place = range[0]; place < range[1]; place++) {
    const products = (reads ? head.key(place) : head.query(place)).map((entry, m) => entry * own[m]);
    const weight = reads ? head.value(chosen, place, "weights") : head.value(place, chosen, "weights");
    rows.push({ place, products, score: scale * products.reduce((sum, one) => sum + one, 0), weight });
  }
  const most = Math.max(...rows.map(({ products }) => Math.max(...products.map(Math.abs)))) || 1;
  const isNarrow = at.x2 - at.x1 < NARROW,
    [number, bar] = isNarrow ? [54, 24] : [56, 60]; // the widths of a score and of the largest weight
  const start = at.x1 + MARGIN,
    end = at.x2 - MARGIN - bar - number,
    cell = (end - start) / own.length,
    high = at.step * 0.7;
  const y = (place, first) => HEAD + (place - first + 0.5) * at.step,
    [top, bottom] = pen.band;
  for (const { place, products, score, weight } of rows) {
    const middle = y(place, range[0]);
    if (middle < top - at.step || middle > bottom + at.step) continue;
    products.forEach((product, m) => {
      const opacity = Math.abs(product) / most,
        colour = product > 0 ? theme.accent : theme.blue;
      pen.rect(start + m * cell, middle - high / 2, Math.max(0.5, cell - 0.5), high, colour, opacity);
    });
    pen.frame(start - 0.5, middle - high / 2 - 0.5, end - start + 0.5, high + 1, theme.grid);
    pen.text(twoDigits(score), end + number - 10, middle, { size: at.size, align: "right", fill: theme.ink });
    pen.rect(end + number, middle - high / 2, Math.max(0.5, bar * weight), high, theme.blue);
  }
  const label = { size: 11, fill: theme.soft };
  if (!isNarrow) pen.text("products", start, 11, label);
  pen.text("score", end + number - 10, 11, { ...label, align: "right" });
  pen.text(isNarrow ? "α" : "weight", end + number, 11, label);
  const shown = { side, place: chosen };
  drawSide(pen, at, { side: "query", words: queries, range: at.rows, focus: shown, theme, y });
  drawSide(pen, at, { side: "key", words: keys, range: at.columns, focus: shown, theme, y });
}

/** What the picture is, in a sentence. */
export function sentenceOnScores(head) {
  const { scale } = head.layer;
  return (
    "A cell is one entry of the query times the same entry of the key, orange above 0 and blue below; " +
    "a score is their sum" +
    (scale ? ` times ${digits(scale)}` : "; by what it is scaled is not known") +
    ". What a mask or a bias adds is not in it. Point at a word to choose it."
  );
}
