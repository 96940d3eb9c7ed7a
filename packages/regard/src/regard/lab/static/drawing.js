// A square drawing in SVG with points one can drag or move by the arrow keys. Only what no chart library does.

import { shape } from "./parts.js";

const ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

/** An SVG whose units are the picture's own: x to the right, y upwards, from low to high. */
export function drawing({ label, left, right, bottom, top, size = 500 }) {
  const scale = size / (right - left);
  const x = (value) => (value - left) * scale;
  const y = (value) => (top - value) * scale;
  const height = (top - bottom) * scale;
  const svg = shape("svg", { viewBox: `0 0 ${size} ${height}`, role: "group", "aria-label": label, class: "drawing" });
  const layers = {};
  const layer = (name) => {
    if (!layers[name]) svg.append((layers[name] = shape("g", { class: name })));
    return layers[name];
  };
  const marks = (points, path, attributes) =>
    shape("path", {
      d: points.map((p) => path([x(p[0]).toFixed(1), y(p[1]).toFixed(1)].map(Number))).join(""),
      ...attributes,
    });
  return {
    svg,
    layer,
    x,
    y,
    scale,
    /** Replace what a layer holds. */
    put: (name, shapes) => layer(name).replaceChildren(...shapes),
    /** Where an event is, in the picture's own units. */
    where(event) {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [left + at.x / scale, top - at.y / scale];
    },
    line: (from, to, attributes) =>
      shape("line", { x1: x(from[0]), y1: y(from[1]), x2: x(to[0]), y2: y(to[1]), ...attributes }),
    disc: (at, radius, attributes) => shape("circle", { cx: x(at[0]), cy: y(at[1]), r: radius, ...attributes }),
    outline: (points, attributes) =>
      shape("polygon", { points: points.map((p) => x(p[0]) + "," + y(p[1])).join(" "), ...attributes }),
    path: (points, attributes) =>
      shape("polyline", { points: points.map((p) => x(p[0]) + "," + y(p[1])).join(" "), fill: "none", ...attributes }),
    text: (at, words, attributes) => shape("text", { x: x(at[0]), y: y(at[1]), ...attributes }, words),
    // Many small marks as one path each, which draws far quicker than one shape per mark
    dots: (points, attributes) => marks(points, ([a, b]) => `M${a} ${b}h0`, attributes),
    crosses: (points, attributes) => marks(points, ([a, b]) => `M${a - 4} ${b - 4}l8 8m0 -8l-8 8`, attributes),
    rays: (from, points, attributes) => marks(points, ([a, b]) => `M${x(from[0])} ${y(from[1])}L${a} ${b}`, attributes),
    arrow: (from, to, attributes) => arrow([x(from[0]), y(from[1])], [x(to[0]), y(to[1])], attributes),
  };
}

function arrow([x1, y1], [x2, y2], attributes) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 1) return shape("g", attributes);
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const head = Math.min(13, length);
  const [bx, by] = [x2 - head * ux, y2 - head * uy];
  const wing = head * 0.42;
  const tip = `${x2},${y2} ${bx - wing * uy},${by + wing * ux} ${bx + wing * uy},${by - wing * ux}`;
  return shape("g", attributes, shape("line", { x1, y1, x2: bx, y2: by }), shape("polygon", { points: tip }));
}

/**
 * A group that one can drag (`onMove(x, y, lasting)`), nudge with the arrow keys (`onNudge(word)`) and press (`onPress`).
 * `place()` says where it is, so that it does not jump to the hand that takes it off its centre.
 */
export function movable(picture, group, { place, onMove, onNudge, onPress }) {
  let from = null;
  let travelled = false;
  let off = [0, 0];
  const follow = (event, lasting) => {
    const [x, y] = picture.where(event);
    onMove(x - off[0], y - off[1], lasting);
  };
  group.setAttribute("tabindex", 0);
  group.classList.add("movable");
  group.addEventListener("pointerdown", (event) => {
    const [hand, centre] = [picture.where(event), place()];
    from = [event.clientX, event.clientY];
    off = [hand[0] - centre[0], hand[1] - centre[1]];
    travelled = false;
    group.setPointerCapture(event.pointerId);
    group.focus({ preventScroll: true });
    event.preventDefault();
    event.stopPropagation();
  });
  group.addEventListener("pointermove", (event) => {
    if (!from) return;
    travelled ||= Math.abs(event.clientX - from[0]) + Math.abs(event.clientY - from[1]) > 3;
    if (travelled) follow(event, false);
  });
  group.addEventListener("pointerup", (event) => {
    if (from && travelled) follow(event, true);
    else if (from && onPress) onPress();
    from = null;
  });
  group.addEventListener("keydown", (event) => {
    if (ARROWS[event.key]) onNudge(ARROWS[event.key]);
    else if ((event.key === " " || event.key === "Enter") && onPress) onPress();
    else return;
    event.preventDefault();
  });
}
