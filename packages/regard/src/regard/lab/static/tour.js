// The tour: a strip at the foot of the window with one card of the tutorial: what to do, that it was done, and why.
// The cards' texts, and whether a task is done, come from Python; which tasks were done, and where one is, stay in this
// browser. The strip lies over the page's foot, so that nothing moves when it grows. A copy without Python has the same
// cards; what it cannot notice waits for Next.

import { button, element, fill } from "./parts.js";

const KEPT = "tour"; // the name in the browser's own storage
const MARK = "#tour-"; // a link that ends in it and a card's name opens that card

export function makeTour(lab) {
  const place = document.getElementById("tour");
  const opener = document.getElementById("tour-open");
  const stored = window.regardStored;
  const cards = stored ? stored.cards : JSON.parse(document.getElementById("cards").textContent);
  if (!cards.length) opener.hidden = true; // a teacher has hidden what they explain
  if (!cards.length) return { show() {} };
  const told = element("div", { class: "told", "aria-live": "polite" });
  let progress = loadProgress(cards);
  let unfolded = ""; // the card whose outcome is read before it is seen

  const storeProgress = (change) => {
    progress = { ...progress, ...change };
    try {
      localStorage.setItem(KEPT, JSON.stringify(progress));
    } catch {
      // a browser that lets a frame keep nothing: the tour lasts as long as the page
    }
  };
  const doneTasks = (card) => progress.done[card.name] ?? [];
  const isFinished = (card) => doneTasks(card).length === card.tasks.length;

  const draw = () => {
    const at = cards.findIndex((card) => card.name === progress.at);
    const done = cards.filter(isFinished).length;
    place.hidden = !progress.open;
    document.body.dataset.tour = progress.open ? "open" : "closed";
    opener.setAttribute("aria-expanded", progress.open);
    opener.textContent = done ? `Tour ${done}/${cards.length}` : "Tour";
    if (progress.open) fill(place, [head(at), ...body(cards[at])]);
    makeRoom();
  };
  const makeRoom = () => document.body.style.setProperty("--tour", (progress.open ? place.offsetHeight : 0) + "px");
  const head = (at) => {
    const card = cards[at];
    const title = element("b", { class: "title" }, `${card.step}. ${card.title}`);
    const count = element("span", { class: "aside" }, `card ${at + 1} of ${cards.length}`);
    const [before, after] = [cards[at - 1], cards[at + 1]];
    const moves = [
      before ? link(before, "← Back", { id: "tour-back" }) : "",
      after
        ? link(after, "Next →", { id: "tour-next", class: isFinished(card) ? "ready" : "", title: after.title })
        : "",
      !after && isFinished(card) ? button("Begin again", restart, { id: "tour-again" }) : "",
      button("×", close, {
        id: "tour-close",
        "aria-label": "Close the tour",
        title: "Close; it goes on from here next time",
      }),
    ];
    return element("div", { class: "head" }, title, count, element("span", { class: "buttons" }, ...moves));
  };
  const body = (card) => {
    if (card.page !== lab.page.name)
      return [element("p", {}, "This card is on another page. ", link(card, "Go there", { id: "tour-go" }))];
    const done = isFinished(card);
    const said = done
      ? [
          element("p", { class: "seen" }, element("b", {}, "You did it. "), card.seen),
          element("p", {}, element("b", {}, "Why? "), card.why),
        ]
      : [];
    if (told.textContent !== said.map((one) => one.textContent).join("")) fill(told, said); // read out once
    const tasks = element("ol", {}, ...card.tasks.map((task, i) => line(card, task, i)));
    const set = element("p", { class: "aside" }, link(card, "Set this card up again", { id: "tour-restart" }));
    return [tasks, told, ...(done ? [] : [set, ...(stored ? outcome(card) : [])])];
  };
  /** What comes out, for whoever has seen it where this copy has not. */
  const outcome = (card) => {
    const whole = element(
      "details",
      { open: unfolded === card.name },
      element("summary", {}, "What comes out, and why"),
      element("p", {}, card.seen),
      element("p", {}, card.why),
    );
    whole.addEventListener("toggle", () => {
      unfolded = whole.open ? card.name : "";
      makeRoom();
    });
    const note = "Without Python not everything can be done or noticed here: go on when you like.";
    return [whole, element("p", { class: "aside" }, note)];
  };
  const line = (card, task, i) => {
    const done = doneTasks(card).includes(i);
    const show = button("Show me", () => act(task.shown), { id: "tour-show-" + i, class: "show" });
    const state = element(
      "span",
      { class: "tick", role: "img", "aria-label": done ? "done" : "to do" },
      done ? "☑" : "☐",
    );
    const help = done || !task.shown ? [] : [show]; // a copy shows what it holds
    return element("li", { class: done ? "done" : "" }, state, " " + task.do + " ", ...help);
  };

  /** Do what the task asks for: an action, and words of the state. */
  const act = ({ do: action, ...words }) => {
    if (action) lab.do(action);
    if (Object.keys(words).length) lab.set(words);
  };
  const close = () => {
    storeProgress({ open: false });
    draw();
    opener.focus();
  };
  const restart = () => {
    storeProgress({ done: {}, at: cards[0].name });
    location.href = cards[0].address + MARK + cards[0].name;
  };
  const arrive = () => {
    const named = cards.find((card) => location.hash.endsWith(MARK + card.name));
    if (named) storeProgress({ open: true, at: named.name });
    draw();
    if (named) place.focus({ preventScroll: true });
  };

  opener.addEventListener("click", () => {
    if (progress.open) return close();
    storeProgress({ open: true });
    const card = cards.find((one) => one.name === progress.at);
    if (card.page === lab.page.name && !doneTasks(card).length) location.href = card.address + MARK + card.name; // its own keys and query: a task speaks of them
    draw();
    place.focus({ preventScroll: true });
  });
  place.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser's own
    if (event.key === "Escape") close();
    const way = { ArrowLeft: "tour-back", ArrowRight: "tour-next" }[event.key];
    if (way) document.getElementById(way)?.click();
  });
  addEventListener("hashchange", arrive);
  addEventListener("resize", draw);
  arrive();

  return {
    /** What the page's present state fulfils, by card; what was done once stays done. */
    show(fulfilled) {
      const fresh = (fulfilled?.[progress.at] ?? []).filter((i) => !(progress.done[progress.at] ?? []).includes(i));
      if (!progress.open || !fresh.length) return;
      storeProgress({ done: { ...progress.done, [progress.at]: [...(progress.done[progress.at] ?? []), ...fresh] } });
      draw();
    },
  };
}

const link = (card, words, attributes) => element("a", { href: card.address + MARK + card.name, ...attributes }, words);

/** Where the tour was left; from the start where that cannot be read. */
function loadProgress(cards) {
  const fresh = { open: false, at: cards[0].name, done: {} };
  try {
    const progress = { ...fresh, ...JSON.parse(localStorage.getItem(KEPT)) };
    return cards.some((card) => card.name === progress.at) ? progress : fresh;
  } catch {
    return fresh;
  }
}
