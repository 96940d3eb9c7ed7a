// Ordinary charts, by uPlot (from the Python package uplot-python; a script of its own, loaded before this one).

const colour = (name) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();

/** Marks of a logarithmic axis, however small; uPlot itself would write 0. */
const formatMarks = (_, marks) =>
  marks.map((mark) =>
    mark === null ? "" : mark < 0.001 ? mark.toExponential(0) : String(Number(mark.toPrecision(3))),
  );

const WHOLE = [1, 2, 5]
  .flatMap((first) => [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map((size) => first * size))
  .sort((a, b) => a - b);

/**
 * A chart that follows its box (class "chart": its height is a matter of style) and the theme. `series`: {label, colour (a CSS variable's name), steps, fill, dash, thin, points}.
 * `set(columns)` draws: the first column is x, then one a series. `counted`: x is a whole number.
 */
export function chart(box, { label, x, y, series, range = {}, log = {}, counted = false }) {
  let plot = null;
  let columns = null;
  const em = () => parseFloat(getComputedStyle(document.documentElement).fontSize); // grows with the window
  const axis = (title, values) => ({
    label: title,
    labelSize: 1.4 * em(),
    labelFont: 0.86 * em() + "px system-ui, sans-serif",
    font: 0.8 * em() + "px system-ui, sans-serif",
    stroke: colour("ink"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { stroke: colour("grid"), width: 1, size: 4 },
    ...(values ? { values } : {}),
  });
  const size = () => ({ width: Math.max(box.clientWidth, 100), height: Math.max(box.clientHeight, 80) });
  const options = () => ({
    ...size(),
    legend: { show: false },
    cursor: { show: false },
    padding: [10, 12, 0, 0],
    scales: {
      x: { time: false, range: range.x, distr: log.x ? 3 : 1 },
      y: { range: range.y, distr: log.y ? 3 : 1 },
    },
    axes: [
      { ...axis(x), size: 2 * em(), ...(counted ? { incrs: WHOLE } : {}) },
      { ...axis(y, log.y && formatMarks), size: 3.3 * em() },
    ],
    series: [{}, ...series.map(line)],
  });
  const line = (one) => ({
    label: one.label,
    stroke: colour(one.colour),
    width: one.thin ? 1.2 : 2,
    dash: one.dash,
    spanGaps: one.joined ?? false,
    fill: one.fill ? colour(one.colour) + "22" : undefined,
    paths: one.steps ? uPlot.paths.stepped({ align: 1 }) : one.bars ? uPlot.paths.bars({ size: [0.7] }) : undefined,
    points: { show: one.points ?? false, size: 6, fill: colour(one.colour) },
  });
  const remake = () => {
    plot?.destroy();
    plot = columns && new uPlot(options(), columns, box);
  };
  box.classList.add("chart");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", label);
  document.addEventListener("themechange", remake);
  new ResizeObserver(() => plot && (plot.width !== size().width || plot.height !== size().height) && remake()).observe(
    box,
  );
  return {
    set(fresh, description = label) {
      columns = fresh;
      box.setAttribute("aria-label", description);
      if (plot) plot.setData(fresh);
      else remake();
    },
  };
}
