// The words that a run knows: offered while one types, all of them in a list, and the nearest ones for a word it does not know.

import { button, element, fill } from "./parts.js";

const SHOWN = 8;
const INVITATION = "words that it knows are offered while you type";

/** Offers for a text field; `onChange()` is called when a word was put in. */
export function knownWords(text, onChange) {
  const offers = element("div", { class: "offers", "aria-label": "words it knows" });
  const summary = element("summary");
  const list = element("div", { class: "all-words" });
  const all = element("details", { class: "vocabulary", hidden: true }, summary, list);
  const whole = element("div", { class: "known" }, offers, all);
  let words = [];
  const wordAtCursor = () => text.value.slice(0, text.selectionStart ?? text.value.length).match(/[\p{L}-]*$/u)[0];
  const insert = (word) => {
    const at = text.selectionStart ?? text.value.length;
    const before = text.value.slice(0, at - wordAtCursor().length);
    const after = text.value
      .slice(at)
      .replace(/^[\p{L}-]+/u, "")
      .replace(/^ ?/, " ");
    text.value = before + word + after;
    text.focus();
    text.setSelectionRange(before.length + word.length + 1, before.length + word.length + 1);
    show();
    onChange();
  };
  const offer = (word, attributes = {}) =>
    button(word, () => insert(word), {
      class: "word-offer",
      onpointerdown: (event) => event.preventDefault(),
      ...attributes,
    });
  const invitation = () => (words.length ? [element("span", { class: "aside" }, INVITATION)] : []);
  const show = () => {
    const start = wordAtCursor().toLowerCase();
    const found = start ? words.filter((word) => word.toLowerCase().startsWith(start)) : [];
    const none = words.length && start && !found.length;
    if (!start) return fill(offers, invitation());
    fill(
      offers,
      none
        ? [element("span", { class: "aside" }, `it knows no word that begins with “${start}”`)]
        : found
            .filter((word) => word !== start)
            .slice(0, SHOWN)
            .map((word) => offer(word)),
    );
  };
  text.addEventListener("input", show);
  all.addEventListener("toggle", () => {
    const sorted = [...words].sort((a, b) => a.localeCompare(b));
    if (all.open)
      fill(
        list,
        sorted.map((word) => offer(word)),
      );
  });
  return {
    whole,
    set(fresh) {
      if (fresh.length === words.length && fresh[0] === words[0]) return;
      words = fresh;
      if (document.activeElement !== text) fill(offers, invitation());
      all.open = false;
      all.hidden = !words.length;
      summary.textContent = `The ${words.length.toLocaleString("en")} words it knows`;
    },
  };
}

/** One line for each unknown word, with the nearest known ones to put in its place. */
export function unknownLines(near, replace) {
  return Object.entries(near).map(([word, others]) => {
    const offers = others.map((other) => button(other, () => replace(word, other), { class: "word-offer" }));
    return element(
      "p",
      { class: "unknown-word" },
      element("span", { class: "unknown" }, word),
      " is not a word it knows",
      ...(others.length ? ["; it knows ", ...offers] : ["."]),
    );
  });
}
