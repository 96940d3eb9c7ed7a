// A word that is pinned or pointed at, and what it reads (or who reads it), the most first.

import { digits, element } from "./parts.js";

const LISTED = 12;

export function makeReadings() {
  const title = element("h2"),
    list = element("ol"),
    note = element("p", { class: "look-soft" });
  const whole = element(
    "section",
    { class: "look-readings", "aria-label": "What is read", "aria-live": "polite" },
    title,
    list,
    note,
  );

  function show({ head, focus, pinned, measure, queries, keys, tone, outside }) {
    if (!focus) {
      title.textContent = "What a word reads";
      list.replaceChildren();
      note.textContent =
        outside ?? "Point at a word to see what it reads; click it to pin it. Press ? for what the keyboard does.";
      return;
    }
    const reads = focus.side === "query";
    const words = reads ? keys : queries,
      word = (reads ? queries : keys)[focus.place];
    title.replaceChildren(
      element("span", { class: "look-word" }, element("bdi", {}, word)),
      element(
        "span",
        { class: "look-soft" },
        " at " + focus.place + (reads ? " reads" : " is read by") + (pinned ? " · pinned" : ""),
      ),
    );
    const found = words.map((_other, place) => [
      reads ? head.value(focus.place, place, measure) : head.value(place, focus.place, measure),
      place,
    ]);
    const known = found
      .filter(([value]) => value !== null)
      .sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    const most = known[0]?.[0] || 1;
    const rows = known.slice(0, LISTED).map(([value, place]) => {
      const bar = element("span", { class: "look-bar" });
      bar.style.width = (100 * value) / most + "%";
      bar.style.background = tone.colour(Math.max(value, tone.top * 0.15));
      return element(
        "li",
        { "data-place": place, "data-value": value },
        element("bdi", { class: "look-word" }, words[place]),
        element("span", { class: "look-soft" }, String(place)),
        element("span", { class: "look-track" }, bar),
        element("span", { class: "look-number" }, digits(value)),
      );
    });
    list.replaceChildren(...rows);
    const sum = known.reduce((total, [value]) => total + value, 0),
      rest = known.slice(LISTED).reduce((total, [value]) => total + value, 0);
    const more = known.length > LISTED ? known.length - LISTED + " more: " + digits(rest) + " together. " : "";
    const kind = measure === "influence" ? "influence" : "weight";
    note.textContent =
      more +
      "Sum: " +
      digits(sum) +
      (reads ? "" : " (how much it is read in all)") +
      ", " +
      kind +
      " of head " +
      head.number +
      "." +
      (known.length < words.length ? " Words outside of the stored window are not counted." : "");
  }
  return { whole, show };
}
