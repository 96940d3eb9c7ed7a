// The mathematics of attention for figures that compute by themselves: the one place in the lab with arithmetic.
// Every function is tested against Python to 1e-12; nothing here is a proof, and figures say so.

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

/** The scores k_i . q. */
export function scores(keys, query) {
  return keys.map((key) => dot(key, query));
}

/** ln sum e^s, without overflow. */
export function logSumExp(values) {
  const top = Math.max(...values);
  return top + Math.log(values.reduce((sum, value) => sum + Math.exp(value - top), 0));
}

/** The weights e^{s_i} / sum e^{s_l}. */
export function softmax(values) {
  const top = Math.max(...values);
  const raised = values.map((value) => Math.exp(value - top));
  const total = raised.reduce((sum, value) => sum + value, 0);
  return raised.map((value) => value / total);
}

/** The output sum_i alpha_i v_i. */
export function output(weights, values) {
  return values[0].map((_, i) => weights.reduce((sum, weight, n) => sum + weight * values[n][i], 0));
}

const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);

/** The corners of the convex hull of points in the plane, counter-clockwise. */
export function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const chain = (given) => {
    const made = [];
    for (const point of given) {
      while (made.length > 1 && turn(made.at(-2), made.at(-1), point) <= 0) made.pop();
      made.push(point);
    }
    return made.slice(0, -1);
  };
  return [...chain(sorted), ...chain(sorted.reverse())];
}

/** Whether a point lies strictly inside the hull of others. */
export function isInside(point, others) {
  const corners = hull(others);
  return corners.length > 2 && corners.every((a, i) => turn(a, corners[(i + 1) % corners.length], point) > 0);
}

/**
 * The most attention that a key in the plane can get from any query: 1 outside the hull of the others, else
 * 1 / (1 + e^H) with the largest entropy H of weights on the others whose mean is the key, the least of
 * ln sum_i e^{(k_i - k) . q} over q: Newton's method with halved steps.
 */
export function ceiling(key, others) {
  if (!isInside(key, others)) return 1;
  const rows = others.map((other) => [other[0] - key[0], other[1] - key[1]]);
  let query = [0, 0];
  for (let round = 0; round < 100; round++) {
    const value = logSumExp(scores(rows, query));
    const weights = softmax(scores(rows, query));
    const mean = output(weights, rows);
    const second = (i, j) =>
      weights.reduce((sum, w, n) => sum + w * (rows[n][i] - mean[i]) * (rows[n][j] - mean[j]), 0);
    const [a, b, d] = [second(0, 0), second(0, 1), second(1, 1)];
    const size = a * d - b * b;
    const step = [(d * mean[0] - b * mean[1]) / size, (a * mean[1] - b * mean[0]) / size];
    const gain = dot(mean, step);
    if (!(gain > 1e-30)) break;
    let length = 1;
    const nextQuery = () => [query[0] - length * step[0], query[1] - length * step[1]];
    while (length > 1e-9 && logSumExp(scores(rows, nextQuery())) > value - 0.25 * length * gain + 1e-15) length /= 2;
    query = nextQuery();
  }
  return 1 / (1 + Math.exp(logSumExp(scores(rows, query))));
}

/** The nearest number that bfloat16 holds (8 binary digits), ties to even. */
export function bfloat16(value) {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  const bits = view.getUint32(0);
  view.setUint32(0, (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
  return view.getFloat32(0);
}

/** Numbers that look random and are the same each time: uniform in (0, 1) from a seed (mulberry32). */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 0.5) / 4294967296;
  };
}

/** A normal number from two uniform ones. */
export function gaussian(next) {
  return Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());
}
