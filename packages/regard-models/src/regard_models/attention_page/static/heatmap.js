// One head as a heat map: queries down, keys across, words where there is room, and a scale with numbers.

import { paintHead, paintRamp, paintSmall } from "./colours.js";
import { digits } from "./parts.js";
import { widthOf } from "./pens.js";

const LARGEST = 44,
  WORD = 12,
  LONGEST = 132,
  SCALE = 46,
  TURN = -55;

/** Where everything is: the part of the head in view, [from, to) of queries and keys, fitted into width x height. */
export function layMap({ width, height, rows, columns, queries, keys }) {
  const across = columns[1] - columns[0],
    down = rows[1] - rows[0];
  const size = (words, [from, to]) =>
    Math.min(LONGEST, Math.max(14, ...words.slice(from, Math.min(to, from + 400)).map((w) => widthOf(w, WORD)))) + 16;
  const left = Math.max(size(queries, rows), widthOf("queries", 11) + 12),
    turned = size(keys, columns); // the axis has its name there
  const slope = Math.abs(Math.sin((TURN * Math.PI) / 180)),
    run = Math.cos((TURN * Math.PI) / 180);
  const top = turned * slope + 26,
    right = Math.max(16, turned * run * 0.9);
  const cell = Math.min(LARGEST, (width - left - right) / across, (height - top - SCALE) / down);
  const w = Math.max(1, cell * across),
    h = Math.max(1, cell * down);
  const x = left;
  return { x, y: top, w, h, cell, left, top, rows, columns, width, height: top + h + SCALE };
}

/** The query and key under a point, or null. */
export function placeOnMap(at, x, y) {
  const key = Math.floor((x - at.x) / at.cell) + at.columns[0],
    query = Math.floor((y - at.y) / at.cell) + at.rows[0];
  const inside = x >= at.x && y >= at.y && query < at.rows[1] && key < at.columns[1];
  return inside ? { query, key } : null;
}

/** The word on an axis under a point: {side, place}, or null. */
export function wordOnMap(at, x, y) {
  if (x < at.x && y >= at.y && y < at.y + at.h)
    return { side: "query", place: at.rows[0] + Math.floor((y - at.y) / at.cell) };
  if (y < at.y && y > 22 && x >= at.x) {
    // the words lean to the right
    const back = (at.y - y) / Math.tan((-TURN * Math.PI) / 180);
    const key = at.columns[0] + Math.floor((x - back - at.x) / at.cell);
    if (key >= at.columns[0] && key < at.columns[1]) return { side: "key", place: key };
  }
  return null;
}

export function drawMap(pen, at, { head, measure, tone, queries, keys, pinned, theme, paper }) {
  if (paper) pen.rect(0, 0, at.width, at.height, theme.paper);
  const [r0, r1] = at.rows,
    [c0, c1] = at.columns;
  if (head.wide && measure === "weights") {
    // blocks first, what is stored in full over them
    const [high, wide] = head.wide.size,
      [n, m] = head.layer.shape;
    const blocks = paintSmall(head.wide.codes, [high, wide], head.layer.peaks.weights[head.place], tone);
    pen.image(
      blocks,
      [(c0 * wide) / m, (r0 * high) / n, ((c1 - c0) * wide) / m, ((r1 - r0) * high) / n],
      [at.x, at.y, at.w, at.h],
    );
  }
  const top = Math.max(r0, head.top),
    bottom = Math.min(r1, head.bottom),
    left = Math.max(c0, head.left),
    right = Math.min(c1, head.right);
  if (bottom > top && right > left) {
    const place = [
      at.x + (left - c0) * at.cell,
      at.y + (top - r0) * at.cell,
      (right - left) * at.cell,
      (bottom - top) * at.cell,
    ];
    pen.image(paintHead(head, measure, tone), [left - head.left, top - head.top, right - left, bottom - top], place);
    if (head.wide) pen.frame(...place, theme.accent, 1);
  }
  drawGridLines(pen, at, theme);
  pen.frame(at.x - 0.5, at.y - 0.5, at.w + 1, at.h + 1, theme.line);
  drawWords(pen, at, queries, keys, pinned, theme);
  pen.text("keys: what is read", at.x, 10, { size: 11, fill: theme.soft });
  pen.text("queries", at.x - 8, at.y - 9, { size: 11, align: "right", fill: theme.soft });
  const label = measure === "influence" ? "influence |α v W_O|" : "weight α";
  const room = at.width - at.x - widthOf(label, 11) - 14; // the label stands behind the bar
  drawScale(pen, at.x, at.y + at.h + 14, Math.max(120, Math.min(300, Math.max(150, at.w), room)), tone, label, theme);
}

function drawGridLines(pen, at, theme) {
  if (at.cell < 9) return;
  const lines = [];
  for (let i = 1; i < at.rows[1] - at.rows[0]; i++)
    lines.push([at.x, at.y + i * at.cell, at.x + at.w, at.y + i * at.cell]);
  for (let j = 1; j < at.columns[1] - at.columns[0]; j++)
    lines.push([at.x + j * at.cell, at.y, at.x + j * at.cell, at.y + at.h]);
  pen.lines(lines, theme.grid, 0.7, 0.5);
}

function drawWords(pen, at, queries, keys, pinned, theme) {
  const size = Math.max(9, Math.min(WORD, at.cell * 0.92)),
    every = Math.max(1, Math.ceil((size + 1.5) / at.cell));
  const look = (side, place) => {
    const on = pinned && pinned.side === side && pinned.place === place;
    return { size, fill: on ? theme.accent : theme.ink, bold: on };
  };
  const isDrawn = (side, place, first) =>
    (place - first) % every === 0 || (pinned?.side === side && pinned.place === place);
  for (let i = at.rows[0]; i < at.rows[1]; i++) {
    if (isDrawn("query", i, at.rows[0]))
      pen.text(clipWord(queries[i], size), at.x - 7, at.y + (i - at.rows[0] + 0.5) * at.cell, {
        ...look("query", i),
        align: "right",
      });
  }
  for (let j = at.columns[0]; j < at.columns[1]; j++) {
    if (isDrawn("key", j, at.columns[0]))
      pen.text(clipWord(keys[j], size), at.x + (j - at.columns[0] + 0.5) * at.cell, at.y - 7, {
        ...look("key", j),
        turn: TURN,
      });
  }
}

export function clipWord(word, size) {
  if (word.length < 9 || widthOf(word, size) <= LONGEST) return word; // measuring takes time
  const signs = [...word];
  while (signs.length > 1 && widthOf(signs.join("") + "…", size) > LONGEST) signs.pop();
  return signs.join("") + "…";
}

function drawScale(pen, x, y, width, tone, label, theme) {
  pen.image(paintRamp(tone.ramp), [0, 0, 256, 1], [x, y, width, 9]);
  pen.frame(x - 0.5, y - 0.5, width + 1, 10, theme.line);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    pen.lines([[x + share * width, y + 10, x + share * width, y + 13]], theme.soft);
    pen.text(digits(tone.valueAt(share)), x + share * width, y + 20, {
      size: 10.5,
      align: share === 0 ? "left" : share === 1 ? "right" : "center",
      fill: theme.ink,
    });
  }
  const cut = tone.least * tone.top;
  if (cut > 0)
    pen.lines(
      [
        [
          x + Math.sqrt(tone.least) * (tone.curve === "root" ? 1 : Math.sqrt(tone.least)) * width,
          y - 3,
          x + Math.sqrt(tone.least) * (tone.curve === "root" ? 1 : Math.sqrt(tone.least)) * width,
          y + 11,
        ],
      ],
      theme.accent,
      1,
      2,
    );
  pen.text(label, x + width + 10, y + 4.5, { size: 11, fill: theme.soft });
}
