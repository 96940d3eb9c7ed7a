// Models: the page of `regard model look`, with a field for the text. Its scripts are the same files.

import { mount } from "/look/look.js";
import { button, element, shape } from "../parts.js";

const AGAIN = 300; // milliseconds until the page looks again

export function build(lab) {
  const styles = element("link", { rel: "stylesheet", href: "/look/look.css" });
  styles.addEventListener("load", () => page?.setTheme(theme())); // what was drawn before had no colours
  document.head.append(styles);
  const text = element("input", {
    type: "text",
    id: "text",
    name: "text",
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "a few words for the model to read",
  });
  const ask = () => lab.set({ text: text.value });
  text.addEventListener("change", ask);
  const field = element(
    "div",
    { class: "field model-text" },
    element("label", { for: "text" }, "Text"),
    text,
    button("Look", ask, { id: "ask" }),
  );
  field.querySelector("button").classList.add("needs-python");
  text.readOnly = Boolean(window.regardStored); // a copy without Python has one sentence
  let page = null;
  const empty = emptyFrame();
  const holder = element("div");
  lab.picture.append(field, empty, holder);
  document.addEventListener("themechange", () => page?.setTheme(theme()));
  let shown = "";
  let later = null;
  return ({ picture }) => {
    field.hidden = !picture.model;
    empty.toggleAttribute("hidden", Boolean(picture.facts) || page !== null);
    if (picture.facts && shown !== picture.text) {
      const root = element("div"); // a fresh one: the listeners of the old one end with it
      holder.replaceChildren(root);
      page = mount(root, picture.facts, (name) => picture.streams[name], { outerTheme: theme, begin: page?.state });
      shown = picture.text;
    }
    if (picture.facts && document.activeElement !== text) text.value = picture.text;
    holder.classList.toggle("stale", picture.running);
    clearTimeout(later);
    if (picture.running) later = setTimeout(() => lab.askAgain(), AGAIN);
    document.body.dataset.running = picture.running ? "yes" : "no";
  };
}

const theme = () => document.documentElement.dataset.theme;

/** Where the heads will be. */
function emptyFrame() {
  const border = shape("rect", { x: 2, y: 2, width: 596, height: 136, rx: 10 });
  return shape(
    "svg",
    { viewBox: "0 0 600 140", class: "empty", role: "img", "aria-label": "no model yet" },
    border,
    shape("text", { x: 300, y: 75 }, "the heads of your model appear here"),
  );
}
