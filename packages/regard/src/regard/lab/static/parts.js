// Pieces that pages are made of: elements, sliders, choices, code with a copy button.

/** An HTML element with attributes and children; attributes that start with "on" are listeners. */
export function element(name, attributes = {}, ...children) {
  return withAttributes(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function shape(name, attributes = {}, ...children) {
  return withAttributes(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function withAttributes(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Replace everything inside an element; whoever has the focus there keeps it, found again by its id. */
export function fill(parent, children) {
  const held = parent.contains(document.activeElement) ? document.activeElement.id : "";
  parent.replaceChildren(...children);
  if (held) document.getElementById(held)?.focus({ preventScroll: true });
}

/** A formula, which Python writes as MathML. */
export function formula(mathml) {
  return document.importNode(new DOMParser().parseFromString(mathml, "text/xml").documentElement, true);
}

/**
 * A text with its formulas set, where Python has set any: `typeset` has the parts of a text, each with whether it is MathML.
 * A bracket before a formula and a mark behind it stay on its line.
 */
export function prose(text, typeset) {
  const parts = typeset[text] ?? [[text, false]];
  const shown = [];
  let [before, kept] = ["", 0]; // what of this text goes along with the formula behind it, and with the one before it
  for (const [i, [part, isFormula]] of parts.entries()) {
    const [next, nextIsFormula] = parts[i + 1] ?? ["", false];
    if (isFormula) {
      const mark = nextIsFormula ? "" : next.match(/^[.,;:!?)\]]*/)[0];
      shown.push(before || mark ? element("span", { class: "together" }, before, formula(part), mark) : formula(part));
      [before, kept] = ["", mark.length];
    } else {
      before = nextIsFormula ? part.slice(kept).match(/[([]*$/)[0] : "";
      shown.push(part.slice(kept, part.length - before.length));
      kept = 0;
    }
  }
  return shown;
}

/** Numbers beside the picture, those with a column as a table, the others as a list; every digit is in data-value. */
export function numberParts(numbers) {
  const cell = (kind, one) => element(kind, { "data-number": one.name, "data-value": String(one.value) }, one.text);
  const single = numbers.filter((one) => !one.column);
  const list = element(
    "dl",
    {},
    ...single.map((one) => element("div", {}, element("dt", {}, one.label), cell("dd", one))),
  );
  const tabled = numbers.filter((one) => one.column);
  if (!tabled.length) return [list];
  const columns = [...new Set(tabled.map((one) => one.column))];
  const head = element("tr", {}, element("td"), ...columns.map((word) => element("th", { scope: "col" }, word)));
  const rows = [...new Set(tabled.map((one) => one.label))].map((label) => {
    const cells = columns.map((word) => tabled.find((one) => one.label === label && one.column === word));
    const shown = cells.map((one) => (one ? cell("td", one) : element("td")));
    return element("tr", {}, element("th", { scope: "row" }, label), ...shown);
  });
  return [element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)), list];
}

/** A slider with its name and value; `onChange(word, lasting)` hears every movement, and the last one with lasting true. */
export function slider({ name, label, least, most, step, format = (word) => word }, onChange) {
  const input = element("input", { type: "range", id: "slide-" + name, name, min: least, max: most, step });
  const output = element("output", { for: input.id });
  const showValue = (text = format(input.value)) => {
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  for (const [event, settled] of [
    ["input", false],
    ["change", true],
  ])
    input.addEventListener(event, () => {
      showValue();
      onChange(input.value, settled);
    });
  const whole = element("div", { class: "slider" }, element("label", { for: input.id }, label), input, output);
  return {
    whole,
    input,
    /** Follow the state, but never pull the knob out of a hand. `text`: the true number, where it is no step of the slider's. */
    set(word, text = format(word)) {
      if (input.matches(":active")) return;
      input.value = word;
      showValue(text);
    },
  };
}

/** A list to choose from; `groups` maps a heading to the words under it. */
export function choice({ name, label, groups, first }, onChange) {
  const select = element("select", { id: "choose-" + name, name });
  const offer = (groups) => {
    const none = first ? [element("option", { value: "" }, first)] : [];
    const option = (word) => element("option", { value: word }, word);
    const group = ([heading, words]) => element("optgroup", { label: heading }, ...words.map(option));
    select.replaceChildren(...none, ...Object.entries(groups).map(group));
  };
  offer(groups);
  select.addEventListener("change", () => onChange(select.value));
  const whole = element("div", { class: "choice" }, element("label", { for: select.id }, label), select);
  return { whole, offer, set: (word) => (select.value = word) };
}

/** An entry of a legend, its line drawn as in the chart: a colour (a CSS variable's name) and the chart's dashes. */
export function lineKey(colour, dash, words) {
  const line = shape("line", {
    x1: 0,
    y1: 3,
    x2: 34,
    y2: 3,
    stroke: `var(--${colour})`,
    "stroke-dasharray": dash?.join(" ") ?? null,
  });
  return element(
    "span",
    { class: "line-key" },
    shape("svg", { viewBox: "0 0 34 6", "aria-hidden": "true" }, line),
    words,
  );
}

/** A button. */
export function button(label, onPress, attributes = {}) {
  return element("button", { type: "button", onclick: onPress, ...attributes }, label);
}

/** Lines of code in several languages, one shown at a time, with a copy button: `codeBlock({python: "Python"})`. */
export function codeBlock(languages) {
  const codes = {};
  const tabs = {};
  const choose = (wanted) => {
    for (const name of Object.keys(languages)) {
      tabs[name].setAttribute("aria-pressed", name === wanted);
      codes[name].parentElement.hidden = name !== wanted;
    }
  };
  const copy = button(
    "Copy",
    async () => {
      const shown = Object.values(codes).find((code) => !code.parentElement.hidden);
      try {
        await navigator.clipboard.writeText(shown.textContent);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(shown); // a browser that does not let us: the user's own keys will do
        copy.textContent = "Press Ctrl-C";
      }
      setTimeout(() => (copy.textContent = "Copy"), 1200);
    },
    { id: "copy-lines" },
  );
  const head = element("div", { class: "head" });
  const whole = element("div", { class: "block" }, head);
  for (const [name, label] of Object.entries(languages)) {
    tabs[name] = button(label, () => choose(name), { id: "tab-" + name, class: "tab" });
    codes[name] = element("code", { id: "lines-" + name });
    head.append(tabs[name]);
    whole.append(element("pre", { tabindex: 0 }, codes[name]));
  }
  head.append(copy);
  choose(Object.keys(languages)[0]);
  return { whole, set: (name, text) => codes[name].textContent === text || (codes[name].textContent = text) };
}
