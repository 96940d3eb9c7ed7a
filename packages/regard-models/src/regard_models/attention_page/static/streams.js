// Weights as they are stored: a stream of letters for every head, opened when the head is looked at.
// Nothing is fetched: letters become bytes, the browser's own inflater opens them.

const KEPT = 96; // opened heads that are kept, the last ones used

function bytesOf(letters) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(letters); // browsers since 2025
  return Uint8Array.from(atob(letters), (sign) => sign.charCodeAt(0));
}

async function inflate(letters) {
  const inflater = new DecompressionStream("deflate-raw"),
    pen = inflater.writable.getWriter();
  const written = Promise.all([pen.write(bytesOf(letters)), pen.close()]);
  const parts = [];
  for (let reader = inflater.readable.getReader(), part; !(part = await reader.read()).done; ) parts.push(part.value);
  await written;
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Numbers of 16 bits (IEEE's binary16, all of them finite) as they are. */
function fromHalves(bytes) {
  return Float32Array.from(new Uint16Array(bytes.buffer), (half) => {
    const power = (half >> 10) & 31,
      rest = (half & 1023) / 1024;
    const size = power ? 2 ** (power - 15) * (1 + rest) : 2 ** -14 * rest;
    return half & 0x8000 ? -size : size;
  });
}

/** One head: rows x columns of codes (the stored part of queries x keys), and the largest weight of every row. */
export class Head {
  constructor(layer, place, bytes, norms, wide, vectors) {
    this.layer = layer;
    this.place = place;
    this.number = layer.heads[place];
    [this.top, this.bottom] = layer.rows;
    [this.left, this.right] = layer.columns;
    this.across = this.right - this.left;
    const count = this.bottom - this.top;
    this.largest = new Float32Array(bytes.buffer.slice(0, 4 * count));
    this.codes = bytes.subarray(4 * count);
    this.norms = norms; // of every key, also of those outside
    this.wide = wide; // {codes, size}: all of the head in blocks, where only a part is stored in full
    this.vectors = vectors; // of every query, then of every key; null where they are not stored
    this.width = vectors && vectors.length / (layer.shape[0] + layer.shape[1]);
  }

  query(place) {
    return this.vectors.subarray(place * this.width, (place + 1) * this.width);
  }

  key(place) {
    return this.query(this.layer.shape[0] + place);
  }

  holds(query, key) {
    return query >= this.top && query < this.bottom && key >= this.left && key < this.right;
  }

  /** The weight, or the influence: a weight times the length of what the key adds. Null outside of what is stored. */
  value(query, key, measure) {
    if (!this.holds(query, key)) return null;
    const code = this.codes[(query - this.top) * this.across + key - this.left] / 255;
    const weight = this.largest[query - this.top] * code * code;
    return measure === "influence" ? weight * this.norms[key] : weight;
  }

  /** The largest weight of the block that a place outside of what is stored belongs to. */
  atMost(query, key) {
    if (!this.wide) return null;
    const [high, wide] = this.wide.size;
    const row = blockOf(query, this.layer.shape[0], high),
      column = blockOf(key, this.layer.shape[1], wide);
    const code = this.wide.codes[row * wide + column] / 255;
    return this.layer.peaks.weights[this.place] * code * code;
  }
}

/** Block b of `size` begins at floor(b length / size): the inverse of that. */
export function blockOf(place, length, size) {
  let block = Math.min(size - 1, Math.floor((place * size) / length));
  while (block + 1 < size && Math.floor(((block + 1) * length) / size) <= place) block++;
  return block;
}

/** All heads of a page; `letters(name)` gives a stream. */
export class Store {
  constructor(facts, letters) {
    this.facts = facts;
    this.letters = letters;
    this.heads = new Map();
    this.norms = new Map();
    this.layers = facts.layers.map((layer) => ({
      ...layer,
      shape: [facts.words[layer.queries].length, facts.words[layer.keys].length],
    }));
  }

  async head(number, place) {
    const name = number + "-" + place;
    const known = this.heads.get(name);
    this.heads.delete(name);
    const head = known ?? this.read(number, place);
    this.heads.set(name, head); // the last one used is the last one to go
    if (this.heads.size > KEPT) this.heads.delete(this.heads.keys().next().value);
    return head;
  }

  async read(number, place) {
    const layer = this.layers[number];
    const [bytes, norms, wide, vectors] = await Promise.all([
      inflate(this.letters("head-" + number + "-" + place)),
      layer.norms ? this.normsOf(number) : null,
      layer.wide ? inflate(this.letters("wide-" + number + "-" + place)) : null,
      this.hasVectors(number, place) ? inflate(this.letters("vectors-" + number + "-" + place)).then(fromHalves) : null,
    ]);
    const keys = layer.shape[1];
    const own = norms?.subarray(place * keys, (place + 1) * keys);
    return new Head(layer, place, bytes, own, wide && { codes: wide, size: layer.wide }, vectors);
  }

  /** Whether the page has the queries and keys of a head. */
  hasVectors(number, place) {
    return this.facts.vectors.includes("vectors-" + number + "-" + place);
  }

  async normsOf(number) {
    if (!this.norms.has(number)) {
      this.norms.set(
        number,
        inflate(this.letters("norms-" + number)).then((bytes) => new Float32Array(bytes.buffer)),
      );
    }
    return this.norms.get(number);
  }

  /** Small pictures of all heads of a layer: {weights: [codes, ...], influence: [codes, ...] or null}. */
  async small(number) {
    const layer = this.layers[number];
    const bytes = await inflate(this.letters("small-" + number));
    const size = layer.small[0] * layer.small[1],
      count = layer.heads.length;
    const part = (first) => layer.heads.map((_, n) => bytes.subarray((first + n) * size, (first + n + 1) * size));
    return { weights: part(0), influence: layer.norms ? part(count) : null };
  }
}
