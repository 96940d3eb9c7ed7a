// Claims: the statement, its picture as Python drew it, its parameters, and its verdict once asked for.

import { button, choice, element, fill, prose } from "../parts.js";

const AGAIN = 300; // milliseconds until the page looks again for what is under way
const MARKS = { HOLDS: "✓", REFUTED: "✗", "NOT REFUTED": "?", EXPLAINED: "✎", MEASURED: "≈", UNDECIDED: "…" };
const PARTS = [
  ["because", ""],
  ["counterexample", "Counterexample: "],
  ["region", "It holds: "],
  ["correction", "Corrected: "],
  ["tightness", "Tightness: "],
];

export function build(lab) {
  const statement = element("p", { class: "statement" });
  const sources = element("p", { class: "aside" });
  const complete = element("div", { class: "checklist" });
  const holder = element("div", { class: "claim-picture" });
  lab.picture.append(statement, sources, holder, complete);
  let tools = null;
  let svg = null;
  let ticked = "";
  let later = null;
  return ({ picture }) => {
    tools ??= makeTools(lab, picture);
    tools(picture);
    fill(statement, prose(picture.statement, picture.typeset));
    fill(sources, [picture.sources.join(" · ")]);
    if (ticked !== JSON.stringify(picture.checklists))
      fill(
        complete,
        picture.checklists.flatMap((one) => checklist(one, picture.typeset)),
      );
    ticked = JSON.stringify(picture.checklists); // what was ticked stays so
    if (picture.drawn && picture.drawn.svg !== svg) {
      svg = picture.drawn.svg;
      fill(holder, [svg ? parseSvg(svg, picture.statement) : element("p", {}, picture.drawn.why)]);
    }
    holder.classList.toggle("stale", !picture.drawn);
    fill(
      lab.more,
      picture.verdict ? [...guessResult(lab, picture.verdict), ...verdicts(picture.verdict, picture.typeset)] : [],
    );
    clearTimeout(later);
    if (picture.running) later = setTimeout(() => lab.askAgain(), AGAIN);
    document.body.dataset.running = picture.running ? "yes" : "no";
  };
}

let guess = null; // what was guessed, of which claim

/** Whether the guess was right; nothing where there was none, or where the verdict is neither yes nor no. */
function guessResult(lab, { readings }) {
  if (guess?.claim !== lab.state.claim) return [];
  const truth = { HOLDS: "holds", REFUTED: "fails", "NOT REFUTED": "holds" }[readings[0].status];
  if (!truth)
    return [
      element("p", { class: "guess" }, `You guessed that it ${guess.word}; this one asks for a figure or for words.`),
    ];
  const right = truth === guess.word;
  return [
    element(
      "p",
      { class: "guess", "data-right": String(right) },
      right
        ? `You guessed that it ${guess.word}: right.`
        : `You guessed that it ${guess.word}: it ${truth}. The reason is below.`,
    ),
  ];
}

function parseSvg(text, label) {
  const drawn = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", "Picture of the claim: " + label);
  return drawn;
}

/** First the reader's own words; then what a complete answer contains, to tick, with what each should come to. The words
and the ticks are the reader's own and are kept nowhere. */
function checklist({ question, asks, points, items, full }, typeset) {
  const words = element("textarea", { id: `words-${question}`, rows: "4", placeholder: "Your answer, in words" });
  const sum = element("p", { class: "sum", "aria-live": "polite" });
  const boxes = items.map((_, at) => element("input", { type: "checkbox", id: `item-${question}-${at}` }));
  const line = (item, at) =>
    element(
      "li",
      {},
      boxes[at],
      element("label", { for: boxes[at].id }, " ", ...prose(item.text, typeset), ` (${item.worth})`),
      element("div", { class: "aside" }, ...prose(item.key, typeset)),
    );
  const marking = element("div", { hidden: "" }, element("ul", {}, ...items.map(line)), sum);
  if (full)
    marking.append(
      element(
        "details",
        {},
        element("summary", {}, "An answer that earns the marks"),
        element("p", {}, ...prose(full, typeset)),
      ),
    );
  const add = () => {
    const got = items.reduce((total, item, at) => total + (boxes[at].checked ? item.points : 0), 0);
    fill(sum, [`${got} of ${points} points, as you marked it.`]);
  };
  for (const box of boxes) box.addEventListener("change", add);
  const ready = button("I have written it: let me mark it", () => {
    marking.hidden = false;
    ready.hidden = true;
    add();
  });
  ready.disabled = true;
  words.addEventListener("input", () => {
    ready.disabled = !words.value.trim();
  });
  return [
    element("p", {}, element("b", {}, `Your answer to ${question}. `), ...prose(asks, typeset)),
    element("label", { for: words.id, class: "aside" }, "Write it first; then mark it point by point."),
    words,
    ready,
    marking,
  ];
}

function makeTools(lab, picture) {
  let names = [];
  const showClaim = (claim) => claim && lab.set({ claim, set: "", show: "picture" });
  const sets = choice(
    { name: "of", label: "Problem set", groups: { "Problem sets": picture.sets }, first: "all of them" },
    (of) => lab.set({ of, question: "", set: "", show: "picture" }),
  );
  const questions = choice({ name: "question", label: "Question", groups: {}, first: "all of them" }, (question) =>
    lab.set({ question, set: "", show: "picture" }),
  );
  const chosen = choice({ name: "claim", label: "Claim", groups: picture.topics }, showClaim);
  const showNext = (step) => showClaim(names[(names.indexOf(lab.state.claim) + step + names.length) % names.length]);
  const inputs = element("div", { class: "parameters" });
  const check = button("Check it", () => lab.set({ show: lab.state.show === "picture" ? "verdict" : "picture" }), {
    id: "check",
  });
  const prove = button("Prove it", () => lab.set({ show: lab.state.show === "proof" ? "verdict" : "proof" }), {
    id: "prove",
  });
  const bet = (word) =>
    button(
      word === "holds" ? "I guess: it holds" : "I guess: it fails",
      () => {
        guess = { claim: lab.state.claim, word };
        lab.set({ show: "verdict" });
      },
      { id: "guess-" + word },
    );
  const bets = element("div", { class: "buttons" }, bet("holds"), bet("fails"));
  const row = element(
    "div",
    { class: "buttons" },
    check,
    prove,
    button("← Previous", () => showNext(-1), { id: "previous" }),
    button("Next →", () => showNext(1), { id: "next" }),
  );
  for (const one of [sets.whole, questions.whole, inputs]) one.classList.add("needs-python");
  lab.controls.append(sets.whole, questions.whole, chosen.whole, inputs, bets, row);
  let made = "";
  let offered = "";
  return (fresh) => {
    if (offered !== JSON.stringify(fresh.topics)) {
      offered = JSON.stringify(fresh.topics);
      names = [...new Set(Object.values(fresh.topics).flat())];
      chosen.offer(fresh.topics);
    }
    if (questions.whole.dataset.of !== lab.state.of) questions.offer({ Questions: fresh.questions });
    questions.whole.dataset.of = lab.state.of;
    questions.whole.hidden = !lab.state.of;
    sets.set(lab.state.of);
    questions.set(lab.state.question);
    chosen.set(lab.state.claim);
    const wanted = lab.state.claim + fresh.parameters.map((one) => one.name).join();
    if (made !== wanted)
      fill(
        inputs,
        fresh.parameters.flatMap((one) => parameter(lab, one, fresh.typeset)),
      );
    made = wanted;
    for (const one of fresh.parameters) {
      const input = inputs.querySelector(`[name="${one.name}"]`);
      if (document.activeElement !== input) input.value = one.value;
    }
    bets.hidden = lab.state.show !== "picture" || !fresh.answers; // a guess is worth something before the verdict only
    check.hidden = prove.hidden = !fresh.answers; // a teacher has hidden them
    check.setAttribute("aria-pressed", lab.state.show !== "picture");
    prove.setAttribute("aria-pressed", lab.state.show === "proof");
  };
}

function parameter(lab, { name, value, meaning, rule }, typeset) {
  const input = element("input", {
    type: "text",
    inputmode: "decimal",
    id: "parameter-" + name,
    name,
    value,
    title: rule,
  });
  input.addEventListener("change", () => {
    const others = lab.state.set.split(",").filter((pair) => pair && !pair.startsWith(name + "="));
    lab.set({ set: [...others, `${name}=${input.value}`].join(",") });
  });
  return [element("label", { for: input.id }, element("b", {}, name), " ", ...prose(meaning, typeset)), input];
}

function verdicts({ readings, proof, sets }, typeset) {
  const cards = readings.map((one) => {
    const badge = element(
      "span",
      { class: "badge " + one.status.toLowerCase().replace(" ", "-") },
      `${MARKS[one.status] ?? ""} ${one.status}`,
    );
    const head = element(
      "p",
      {},
      badge,
      " ",
      element("b", {}, one.reading),
      " ",
      element("span", { class: "aside" }, `by ${one.by}`),
    );
    const lines = PARTS.filter(([part]) => one[part]).map(([part, label]) =>
      element("p", {}, element("i", {}, label), ...prose(one[part], typeset)),
    );
    return element(
      "div",
      { class: "verdict", "data-status": one.status },
      head,
      element("p", { class: "aside" }, ...prose(one.statement, typeset)),
      ...lines,
    );
  });
  if (new Set(sets.map((one) => one.reading)).size > 1) {
    const rows = sets.map((one) =>
      element(
        "tr",
        {},
        ...[one.set, one.questions.join(" and "), one.reading, one.status].map((cell) => element("td", {}, cell)),
      ),
    );
    const head = element(
      "tr",
      {},
      ...["set", "question", "its premise", "verdict"].map((cell) => element("th", {}, cell)),
    );
    cards.unshift(element("table", { class: "by-set" }, head, ...rows));
  }
  if (!proof) return cards;
  const steps = proof.split("\n\n").map((step) => element("p", {}, ...prose(step, typeset)));
  return [...cards, element("div", { class: "proof" }, element("p", {}, element("b", {}, "Proof")), ...steps)];
}
