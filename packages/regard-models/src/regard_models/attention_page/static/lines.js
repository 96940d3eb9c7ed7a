// Words on the left read words on the right: a line for every weight, the heavier the darker, a colour for every head.

import { clipWord } from "./heatmap.js";
import { widthOf } from "./pens.js";

const LEAST = 12,
  MOST = 26,
  LEVELS = 24,
  ENOUGH = 4000,
  BINS = 2048,
  MARGIN = 12;
export const HEAD = 26; // the height of what stands above the words

/** Where everything is. The height grows with the words. */
export function layLines({ width, height, rows, columns, queries, keys, count }) {
  const longer = Math.max(rows[1] - rows[0], columns[1] - columns[0]);
  const step = Math.max(LEAST, Math.min(MOST, (height - HEAD - MARGIN) / longer));
  const size = Math.max(9, Math.min(13.5, step * 0.82));
  const room = (words, [from, to]) =>
    Math.min(150, Math.max(20, ...words.slice(from, Math.min(to, from + 600)).map((word) => widthOf(word, size))));
  const blocks = Math.min(6, Math.max(2, 36 / Math.max(1, count))) * count + 4; // beside each word, a mark for every head
  const left = room(queries, rows) + blocks + 14,
    right = room(keys, columns) + blocks + 14;
  const middle = Math.min(560, Math.max(120, width - left - right - 16));
  const x1 = Math.max(left, (width - middle - left - right) / 2 + left);
  return { width, height: HEAD + longer * step + MARGIN, step, size, x1, x2: x1 + middle, blocks, rows, columns };
}

export function wordOnLines(at, x, y) {
  const row = Math.floor((y - HEAD) / at.step);
  if (row < 0) return null;
  if (x < at.x1 + 12 && row < at.rows[1] - at.rows[0]) return { side: "query", place: at.rows[0] + row };
  if (x > at.x2 - 12 && row < at.columns[1] - at.columns[0]) return { side: "key", place: at.columns[0] + row };
  return null;
}

/**
 * Calls `take(which, i, row)` for every row in view. Code j of a row is `row.codes[row.first + j]`; times `row.roots[j]` and
 * `row.scale` it is the square root of the value's share of the top, in bins: no value is squared to be compared.
 */
function eachRow(at, { heads, measure, tone, focus }, take) {
  const pick = (side, range) => (focus && focus.side === side ? [focus.place, focus.place + 1] : range);
  const [r0, r1] = pick("query", at.rows),
    [c0, c1] = pick("key", at.columns);
  heads.forEach((head, which) => {
    const roots = measure === "influence" ? head.norms.map(Math.sqrt) : new Float32Array(head.right).fill(1);
    const row = {
      codes: head.codes,
      roots,
      left: Math.max(c0, head.left),
      right: Math.min(c1, head.right),
      first: 0,
      scale: 0,
    };
    for (let i = Math.max(r0, head.top); i < Math.min(r1, head.bottom); i++) {
      row.first = (i - head.top) * head.across - head.left;
      row.scale = (Math.sqrt(head.largest[i - head.top] / tone.top) / 255) * BINS;
      take(which, i, row);
    }
  });
}

function countRow({ codes, first, left, right, scale, roots }, least, bins) {
  const enough = least / scale;
  for (let j = left; j < right; j++) {
    const code = codes[first + j] * roots[j];
    if (code >= enough) bins[Math.min(BINS, code * scale) | 0]++;
  }
}

/** The weights that get a line: those above what is hidden, or than a screen can show; if there are too many the heaviest, found by counting. */
export function chosenLines(at, what) {
  const bins = new Uint32Array(BINS + 1),
    least = Math.sqrt(Math.max(what.tone.least, 1 / 255)) * BINS;
  eachRow(at, what, (_which, _i, row) => countRow(row, least, bins));
  const all = bins.reduce((sum, count) => sum + count, 0);
  let cut = BINS,
    kept = bins[BINS];
  while (cut > 0 && kept + bins[cut - 1] <= ENOUGH) kept += bins[--cut];
  const found = [];
  let more = ENOUGH - kept; // of the bin below the cut
  const lowest = Math.max(least, cut - 1);
  eachRow(at, what, (which, i, { codes, first, left, right, scale, roots }) => {
    const enough = lowest / scale;
    for (let j = left; j < right; j++) {
      const code = codes[first + j] * roots[j];
      if (code < enough) continue;
      const bin = Math.min(BINS, code * scale);
      if (bin >= cut || more-- > 0) found.push({ which, i, j, share: (bin / BINS) ** 2 });
    }
  });
  return { found, all };
}

/** `chosen` are the lines of :chosenLines; of all that, what the pen's band shows. */
export function drawLines(pen, at, { chosen, heads, measure, tone, queries, keys, focus, theme, colours, paper }) {
  if (paper) pen.rect(0, 0, at.width, at.height, theme.paper);
  const y = (place, first) => HEAD + (place - first + 0.5) * at.step,
    [top, bottom] = pen.band;
  const levels = new Map(); // lines of one colour and about one opacity are drawn together
  for (const { which, i, j, share } of chosen.found) {
    const from = y(i, at.rows[0]),
      to = y(j, at.columns[0]);
    if (Math.max(from, to) < top - 2 || Math.min(from, to) > bottom + 2) continue;
    const level = Math.max(1, Math.ceil(Math.min(1, share) * LEVELS)),
      name = which * 100 + level;
    if (!levels.has(name)) levels.set(name, []);
    levels.get(name).push([at.x1, from, at.x2, to]);
  }
  const thick = chosen.found.length < 400 ? 1.8 : 1; // one pixel is drawn several times as fast as more
  for (const [name, many] of [...levels].sort(([a], [b]) => (a % 100) - (b % 100))) {
    pen.lines(many, colours[Math.floor(name / 100) % colours.length], (name % 100) / LEVELS, thick);
  }
  if (focus) drawMarks(pen, at, heads, measure, tone, focus, colours, y);
  drawSide(pen, at, { side: "query", words: queries, range: at.rows, focus, theme, y });
  drawSide(pen, at, { side: "key", words: keys, range: at.columns, focus, theme, y });
}

export function drawSide(pen, at, { side, words, range, focus, theme, y }) {
  const left = side === "query",
    x = left ? at.x1 - at.blocks - 8 : at.x2 + at.blocks + 8,
    [top, bottom] = pen.band;
  pen.text(left ? "queries read" : "keys", left ? at.x1 : at.x2, 11, {
    size: 11,
    align: left ? "right" : "left",
    fill: theme.soft,
  });
  for (let place = range[0]; place < range[1]; place++) {
    const height = y(place, range[0]);
    if (height < top - MOST || height > bottom + MOST) continue;
    const on = focus && focus.side === side && focus.place === place;
    pen.text(clipWord(words[place], at.size), x, height, {
      size: at.size,
      align: left ? "right" : "left",
      fill: on ? theme.accent : theme.ink,
      bold: on,
    });
  }
}

/** Beside every word on the other side, how much of each head goes there. */
function drawMarks(pen, at, heads, measure, tone, focus, colours, y) {
  const from = focus.side === "query",
    range = from ? at.columns : at.rows;
  const wide = (at.blocks - 4) / heads.length;
  for (let place = range[0]; place < range[1]; place++) {
    heads.forEach((head, which) => {
      const value = from ? head.value(focus.place, place, measure) : head.value(place, focus.place, measure);
      if (value === null || value < tone.least * tone.top || value <= 0) return;
      const x = from ? at.x2 + 4 + which * wide : at.x1 - 4 - at.blocks + 4 + which * wide;
      pen.rect(
        x,
        y(place, range[0]) - at.step * 0.42,
        Math.max(1, wide - 0.5),
        at.step * 0.84,
        colours[which % colours.length],
        Math.min(1, value / tone.top),
      );
    });
  }
}
