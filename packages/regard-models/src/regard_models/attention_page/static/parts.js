// Elements: everything that a person reads is put in as text, never as HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A number as a person reads it: three digits that count. */
export function digits(value) {
  if (value === 0) return "0";
  if (value >= 0.001 && value < 1000) return String(Number(value.toPrecision(3)));
  const [front, power] = value.toExponential(1).split("e");
  return (
    front +
    "·10" +
    Number(power)
      .toString()
      .replace(/[-0-9]/g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻")
  );
}

/** Buttons of which one is pressed. */
export function choice(label, options, onchoose) {
  const buttons = options.map(([word, title, hint]) =>
    element("button", { type: "button", "data-word": word, title: hint, onclick: () => onchoose(word) }, title),
  );
  const whole = element("div", { class: "look-choice", role: "group", "aria-label": label }, ...buttons);
  return {
    whole,
    show(word) {
      for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.word === word));
    },
    setEnabled(word, can, why) {
      const one = buttons.find((button) => button.dataset.word === word);
      one.disabled = !can;
      if (!can) one.title = why;
    },
  };
}

/** A list to choose from; `fill` changes it. */
export function select(label, onchoose, id) {
  const list = element("select", { id, onchange: () => onchoose(list.value) });
  const whole = element("label", { class: "look-field" }, element("span", {}, label), list);
  let listed = "";
  return {
    whole,
    fill(options, chosen) {
      const now = JSON.stringify(options);
      if (now !== listed)
        list.replaceChildren(...options.map(([word, title]) => element("option", { value: word }, title)));
      listed = now;
      list.value = chosen;
    },
  };
}

/** A file that the browser saves. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
