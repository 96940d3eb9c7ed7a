// Derivation: a text to write in, and its relations, typeset, each with its mark.

import { button, choice, element, fill, formula } from "../parts.js";

const SIGNS = { follows: "✓", "true, but say why": "?", false: "✗", "not read": "–", definition: ":=" };
const COLOURS = {
  follows: "green",
  "true, but say why": "gold",
  false: "orange",
  "not read": "soft",
  definition: "blue",
};

export function build(lab) {
  const summary = element("p", { class: "statement", "aria-live": "polite" });
  const table = element("table", { class: "derivation" });
  const remarks = element("ul", {});
  const given = element("pre", {});
  const about = element("details", {}, element("summary", {}, "What is given, and what is to be shown"), given);
  lab.picture.append(about, summary, element("div", { class: "derivation-lines" }, table), remarks);
  let tools = null;
  return ({ picture }) => {
    tools ??= makeTools(lab, picture);
    tools();
    fill(given, [picture.problem]);
    fill(summary, [picture.summary]);
    fill(table, picture.lines.map(row));
    fill(
      remarks,
      picture.remarks.map((one) => element("li", {}, one)),
    );
  };
}

function makeTools(lab, picture) {
  const text = element("textarea", { id: "text", name: "text", rows: "14", spellcheck: "false" });
  const take = () => lab.set({ text: text.value });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) take();
  });
  const claim = choice({ name: "claim", label: "Claim", groups: { claims: picture.claims } }, (name) =>
    lab.set({ claim: name, text: text.value }),
  );
  const hints = choice({ name: "hints", label: "Hint", groups: { hints: ["0", "1", "2"] } }, (word) =>
    lab.set({ hints: word }),
  );
  const field = element(
    "div",
    { class: "field needs-python" },
    element("label", { for: "text" }, "Your derivation"),
    text,
  );
  const press = element("div", { class: "buttons needs-python" }, button("Check", take, { id: "check" }));
  lab.controls.append(claim.whole, field, press, hints.whole);
  return () => {
    if (document.activeElement !== text) text.value = lab.state.text;
    claim.set(lab.state.claim);
    hints.set(lab.state.hints);
  };
}

function row({ line, text, mathml, mark, why }) {
  const shown = mathml ? formula(mathml) : element("pre", {}, text);
  return element(
    "tr",
    { "data-mark": mark },
    element("td", { class: "aside" }, String(line)),
    element("td", { class: "mark-" + COLOURS[mark] }, `${SIGNS[mark]} ${mark}`),
    element("td", {}, shown, element("div", { class: "aside" }, why)),
  );
}
