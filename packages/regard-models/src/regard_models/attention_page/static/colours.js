// From a weight to a colour: what share of the scale's end it is, bent or not, looked up on the ramp of the theme.

const STEPS = 1024;

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** A ramp as STEPS colours, each four bytes in one number, as ImageData wants them. */
export function makeRamp(stops) {
  const ends = stops.map(channels);
  const ramp = new Uint32Array(STEPS);
  for (let i = 0; i < STEPS; i++) {
    const at = (i / (STEPS - 1)) * (ends.length - 1),
      first = Math.min(ends.length - 2, Math.floor(at));
    const [r, g, b] = ends[first].map((low, c) => Math.round(low + (at - first) * (ends[first + 1][c] - low)));
    ramp[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return ramp;
}

export function css(packed) {
  const hex = (n) => (n & 255).toString(16).padStart(2, "0");
  return "#" + hex(packed) + hex(packed >> 8) + hex(packed >> 16);
}

/** What a value looks like: top is the value at the end of the scale; below `least` of it nothing is drawn. */
export class Tone {
  constructor({ ramp, top, curve, least }) {
    Object.assign(this, { ramp, top: top || 1, curve, least });
  }

  /** From the square root of a share of the top (what the codes are) to a place on the ramp. */
  place(root) {
    const share = root * root;
    if (share < this.least) return 0;
    return Math.min(STEPS - 1, Math.round((this.curve === "root" ? root : share) * (STEPS - 1)));
  }

  colour(value) {
    return css(this.ramp[this.place(Math.sqrt(value / this.top))]);
  }

  /** The value that has this place, 0 to 1, on the ramp. */
  valueAt(place) {
    return this.top * (this.curve === "root" ? place * place : place);
  }
}

function blank(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

function paintPixels(width, height, fill) {
  const canvas = blank(width, height),
    pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  fill(new Uint32Array(image.data.buffer));
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** A head as a picture, a pixel for a weight. */
export function paintHead(head, measure, tone) {
  const { codes, largest, across } = head;
  const columns = new Float64Array(across).fill(1);
  if (measure === "influence") for (let j = 0; j < across; j++) columns[j] = Math.sqrt(head.norms[head.left + j]);
  return paintPixels(across, largest.length, (pixels) => {
    for (let i = 0, at = 0; i < largest.length; i++) {
      const row = Math.sqrt(largest[i] / tone.top) / 255;
      for (let j = 0; j < across; j++, at++) pixels[at] = tone.ramp[tone.place(codes[at] * row * columns[j])];
    }
  });
}

/** A small picture, all of whose codes are measured by one number, its peak. */
export function paintSmall(codes, [height, width], peak, tone) {
  const scale = Math.sqrt(peak / tone.top) / 255;
  return paintPixels(width, height, (pixels) => {
    for (let at = 0; at < codes.length; at++) pixels[at] = tone.ramp[tone.place(codes[at] * scale)];
  });
}

/** The ramp itself, for a scale. */
export function paintRamp(ramp) {
  return paintPixels(256, 1, (pixels) => {
    for (let i = 0; i < 256; i++) pixels[i] = ramp[Math.round((i / 255) * (STEPS - 1))];
  });
}
