// Two pens that draw the same: on a canvas for the screen and for PNG, and as SVG for a file.

export class CanvasPen {
  /** A canvas that shows a picture from the height `top` on. */
  constructor(canvas, width, height, scale, top = 0) {
    const size = [width, height].map((side) => Math.round(side * scale));
    if (canvas.width !== size[0]) canvas.width = size[0];
    if (canvas.height !== size[1]) canvas.height = size[1];
    this.pen = canvas.getContext("2d");
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.clearRect(0, 0, ...size);
    this.pen.setTransform(scale, 0, 0, scale, 0, -Math.round(top * scale));
    this.scale = scale;
    this.band = [top, top + height]; // what is outside of it need not be drawn
  }

  rect(x, y, width, height, fill, opacity = 1) {
    this.pen.globalAlpha = opacity;
    this.pen.fillStyle = fill;
    this.pen.fillRect(x, y, width, height);
    this.pen.globalAlpha = 1;
  }

  frame(x, y, width, height, stroke, thickness = 1) {
    this.pen.strokeStyle = stroke;
    this.pen.lineWidth = thickness;
    this.pen.strokeRect(x, y, width, height);
  }

  /** Many lines of one colour, each [x1, y1, x2, y2]. */
  lines(many, stroke, opacity = 1, thickness = 1) {
    this.pen.globalAlpha = opacity;
    this.pen.strokeStyle = stroke;
    this.pen.lineWidth = thickness;
    for (let first = 0; first < many.length; first += 400) {
      // long paths are slow to draw
      this.pen.beginPath();
      for (const [x1, y1, x2, y2] of many.slice(first, first + 400)) {
        this.pen.moveTo(x1, y1);
        this.pen.lineTo(x2, y2);
      }
      this.pen.stroke();
    }
    this.pen.globalAlpha = 1;
  }

  text(words, x, y, { size = 12, align = "left", fill, turn = 0, bold = false }) {
    const pen = this.pen;
    pen.save();
    pen.translate(x, y);
    if (turn) pen.rotate((turn * Math.PI) / 180);
    pen.font = fontOf(size, bold);
    pen.textAlign = align;
    pen.textBaseline = "middle";
    pen.fillStyle = fill;
    pen.fillText(words, 0, 0);
    pen.restore();
  }

  /** A part of a picture, every pixel of it a rectangle. */
  image(picture, [sx, sy, sw, sh], [x, y, w, h]) {
    this.pen.imageSmoothingEnabled = w * this.scale < sw || h * this.scale < sh; // sharp when it grows
    this.pen.imageSmoothingQuality = "high";
    this.pen.drawImage(picture, sx, sy, sw, sh, x, y, w, h);
  }
}

const RECTANGLES = 10000; // more than these go into an SVG as one embedded picture

export class SvgPen {
  constructor(width, height) {
    this.size = [width, height];
    this.band = [0, height];
    this.parts = [];
  }

  rect(x, y, width, height, fill, opacity = 1) {
    const faint = opacity < 1 ? ` fill-opacity="${short(opacity)}"` : "";
    this.parts.push(
      `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${fill}"${faint}/>`,
    );
  }

  frame(x, y, width, height, stroke, thickness = 1) {
    this.parts.push(
      `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="none" stroke="${stroke}" stroke-width="${thickness}"/>`,
    );
  }

  lines(many, stroke, opacity = 1, thickness = 1) {
    const path = many
      .map((ends) => {
        const [a, b, c, d] = ends.map(short);
        return `M${a} ${b}L${c} ${d}`;
      })
      .join("");
    if (path)
      this.parts.push(
        `<path d="${path}" stroke="${stroke}" stroke-opacity="${short(opacity)}" stroke-width="${thickness}" fill="none"/>`,
      );
  }

  text(words, x, y, { size = 12, align = "left", fill, turn = 0, bold = false }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const turned = turn ? ` transform="rotate(${turn} ${short(x)} ${short(y)})"` : "";
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" font-size="${size}" text-anchor="${anchor}" dominant-baseline="central" fill="${fill}"${bold ? ' font-weight="650"' : ""}${turned}>${escapeText(words)}</text>`,
    );
  }

  image(picture, [sx, sy, sw, sh], [x, y, w, h]) {
    if (sw * sh > RECTANGLES) {
      const part = document.createElement("canvas");
      part.width = sw;
      part.height = sh;
      part.getContext("2d").drawImage(picture, sx, sy, sw, sh, 0, 0, sw, sh);
      this.parts.push(
        `<image x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${part.toDataURL()}"/>`,
      );
      return;
    }
    const pixels = picture.getContext("2d").getImageData(sx, sy, sw, sh).data;
    const hex = (at) => "#" + [0, 1, 2].map((c) => pixels[at + c].toString(16).padStart(2, "0")).join("");
    for (let i = 0; i < sh; i++) {
      for (let j = 0, end; j < sw; j = end) {
        // neighbours of one colour are one rectangle
        const colour = hex(4 * (i * sw + j));
        for (end = j + 1; end < sw && hex(4 * (i * sw + end)) === colour; ) end++;
        this.rect(x + (j * w) / sw, y + (i * h) / sh, ((end - j) * w) / sw, h / sh, colour);
      }
    }
  }

  toSvg() {
    const [width, height] = this.size.map(Math.ceil);
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">${this.parts.join("\n")}</svg>\n`;
  }
}

export function fontOf(size, bold) {
  return (bold ? "650 " : "") + size + "px system-ui, -apple-system, 'Segoe UI', sans-serif";
}

const measuring = document.createElement("canvas").getContext("2d");

export function widthOf(words, size) {
  measuring.font = fontOf(size, true); // a pinned word is bold
  return measuring.measureText(words).width;
}

function short(number) {
  return String(Math.round(number * 100) / 100);
}

function escapeText(words) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return words
    .replace(/[^\t\n\r\x20-\uFFFD\u{10000}-\u{10FFFF}]/gu, "\uFFFD")
    .replace(/[&<>"]/g, (sign) => names[sign]);
}
