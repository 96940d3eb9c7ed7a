// The frame around every page: which page, its state in the address, one question at a time, and what all answers share.
// No mathematics here: Python computes, this draws.

import { codeBlock, element, fill, formula, numberParts } from "./parts.js";
import { savePicture } from "./saving.js";
import { makeTour } from "./tour.js";

const find = (id) => document.getElementById(id);
const listed = JSON.parse(find("listed").textContent);
const stored = window.regardStored ?? null; // a copy without Python: answers that were computed before (see stored.js)
const embed = stored ? null : new URLSearchParams(location.search).get("embed"); // the pass of a page in a frame
const page = listed.find((one) => one.name === (stored ? stored.page : location.pathname.slice(1))) ?? listed[0];
document.body.dataset.page = page.name;
if (stored) Object.assign(page.start, stored.start);
if (embed) document.body.dataset.embedded = ""; // no tour there: its links carry no pass

const lab = {
  page,
  picture: find("picture"),
  controls: find("controls"),
  more: find("more"),
  state: fromAddress(),

  /** Change words of the state and ask anew; `lasting: false` while a hand still moves, so that history keeps the end. */
  set(words, { lasting = true } = {}) {
    const fresh = Object.fromEntries(Object.entries(words).filter(([name, word]) => this.state[name] !== word)); // a slider that is let go says its last place once more
    this.state = { ...this.state, ...fresh };
    if (underway) since = { ...since, ...fresh };
    ask({ lasting });
  },

  /** Ask the same once more: something was under way in Python. */
  askAgain() {
    ask({ lasting: !moving, again: true });
  },

  /**
   * Something that Python does to the state, such as "move 2 0.1 0.5". Actions wait in a queue while a question is under
   * way, and the next question takes them all along, in order: none is ever dropped, however slow the answers.
   */
  do(action, { lasting = true } = {}) {
    if (actions.length && overrules(action, actions.at(-1))) actions.pop();
    actions.push(action);
    ask({ lasting });
  },

  /** The page as it was before anybody touched it. */
  reset() {
    actions = [];
    since = {};
    visit += 1;
    answered = ""; // asked anew, so that the address of a link that could not be read goes too
    this.state = { ...page.start };
    ask({ lasting: true });
  },
};

let actions = []; // done by the hand, not yet told to Python
let since = {}; // words that were set while a question was under way: its answer must not take them back
let visit = 0; // counts the times that the state came from elsewhere: an older question's answer is not for it

/** A place or a length makes the one before it pointless: "move 2 ..." after "move 2 ...", "norm ..." after "norm ...". */
function overrules(action, earlier) {
  const target = (words) =>
    words[0] === "norm" ? "norm" : words[0] === "move" && words.length === 4 ? "move " + words[1] : null;
  const [now, then] = [action.split(" "), earlier.split(" ")].map(target);
  return now !== null && now === then;
}

// The state and the address

function fromAddress() {
  const { embed: _, ...words } = Object.fromEntries(
    new URLSearchParams(stored ? location.hash.split("#")[1] : location.search), // behind a second # stands a card of the tour
  );
  return { ...page.start, ...words };
}

/** A question to Python, or to what it answered before this copy was made. */
async function replyTo(words) {
  if (stored) return stored.reply(words);
  const question = { method: "POST", body: JSON.stringify(words), headers: embed ? { "X-Regard-Embed": embed } : {} };
  const reply = await fetch("/ask/" + page.name, question).catch((error) => {
    throw new Error(
      "The lab does not answer: start it again with `regard lab`. What you do here is kept until then. (" +
        error.message +
        ")",
    );
  });
  const answer = await reply.json();
  if (reply.status === 403) throw new Error(answer.error); // a lab that was started anew: it does not know this browser yet
  return { ok: reply.ok, answer };
}

function address(words) {
  const lasting = Object.entries(words).filter(([name]) => name !== "do"); // an action is not a state
  const words_ = [...lasting, ...(embed ? [["embed", embed]] : [])]
    .map(([name, word]) => name + "=" + readable(word))
    .join("&");
  return stored ? "#" + words_ : "/" + page.name + "?" + words_;
}

function readable(word) {
  return encodeURIComponent(word.replaceAll("; ", ";")).replaceAll("%2C", ",").replaceAll("%3B", ";");
}

let moving = false; // a hand is on something: its first step made an entry in the history, the next ones replace it

/** Take over the state that Python answered with. */
function settle(words) {
  lab.state = { ...lab.state, ...words, ...since, ...("do" in page.start ? { do: "" } : {}) };
  since = {};
}

let entries = []; // of the history, not yet made: that takes a browser as long as drawing, so the picture comes first

/** Put the state into the address, as soon as its picture is on the screen. */
function keepInAddress({ lasting, arriving = false }) {
  entries.push([moving || arriving ? "replaceState" : "pushState", address(lab.state)]);
  moving = !lasting;
}

function makeEntries() {
  for (const [how, place] of entries.splice(0)) {
    const here = stored ? location.hash : location.pathname + location.search;
    if (location.protocol !== "about:" && place !== here) history[how](null, "", place);
  }
}

// One question is under way at most; while it is, what the hand does waits and goes along with the next one: a drag stays
// fluid, and nothing is lost.

let underway = false;
let waiting = null;
let answered = ""; // the address whose answer is on the screen

async function ask(options) {
  if (underway) {
    waiting = options;
    return;
  }
  if (!actions.length && address(lab.state) === answered && !options.again) {
    moving = !options.lasting; // the hand has let go, and nothing is new
    showBusy();
    return;
  }
  clearTimeout(trying);
  trying = null;
  underway = true;
  showBusy();
  let reached = true;
  try {
    await exchange(options);
  } catch (error) {
    reached = false;
    trouble(error.message);
  }
  underway = false;
  const next = waiting;
  waiting = null;
  if (!reached) tryLater({ ...options, ...next });
  else if (next) ask(next);
  else showBusy();
}

const LATER = 1500; // milliseconds until a lab that did not answer is asked again
let trying = null;

/** The lab was stopped, or started anew: what the hand did is kept, and told as soon as it answers again. */
function tryLater(options) {
  trying = setTimeout(() => ask({ ...options, again: true }), LATER);
  showBusy();
}

/** Whoever watches the page, such as a test, hears whether anything is still to come. */
function showBusy() {
  document.body.dataset.busy = underway || later || trying ? "yes" : "no";
}

async function exchange(options) {
  const [asked, told, from] = [lab.state, actions, visit];
  actions = [];
  since = {};
  const words = told.length ? { ...asked, do: told.join("; ") } : asked;
  const { ok, answer } = await replyTo(words).catch((error) => {
    if (visit === from) actions = [...told, ...actions];
    throw error;
  });
  if (visit !== from) return; // Back, Forward or Reset in the meantime
  if (!ok) return showRefusal(answer.error, options);
  const fresh = !Object.keys(since).length && !actions.length;
  settle(answer.state);
  answered = fresh ? address(lab.state) : "";
  const draw = await drawn;
  keepInAddress({ ...options, lasting: options.lasting && fresh });
  show(answer, draw);
}

/** A link that cannot be read shows the page as it begins, under the sentence that says why; an action that failed is over. */
async function showRefusal(sentence, { arriving }) {
  trouble(sentence);
  if (stored && latest) {
    lab.state = { ...lab.state, ...latest.state }; // the hand has moved something that a copy does not hold: back with it
    show(latest, await drawn);
    return trouble(sentence);
  }
  if (!arriving || latest) return;
  lab.state = { ...page.start };
  const { ok, answer } = await replyTo(lab.state);
  if (!ok) return;
  answered = address(lab.state);
  show(answer, await drawn);
  trouble(sentence + " The page is shown as it begins.");
}

// What every page shows

let latest = null; // the answer that is drawn

let later = false; // the rest of an answer waits until its picture is on the screen

/** The picture and its numbers at once, so that they follow the hand; formulas and lines, which take as long, one frame later. */
function show(answer, draw) {
  latest = answer;
  trouble("");
  draw(answer);
  fill(find("numbers"), numberParts(answer.numbers));
  if (!later) afterTheFrame(() => showRest(latest));
  later = true;
}

/** As soon as a frame is drawn; where none is, because nobody looks, all the same. */
function afterTheFrame(then) {
  let done = false;
  const once = () => {
    if (!done) then();
    done = true;
  };
  requestAnimationFrame(() => setTimeout(once));
  setTimeout(once, 150);
}

let written = ""; // the formulas that are on the page

function showRest(answer) {
  later = false;
  makeEntries();
  const said = answer.say.map((sentence) => element("p", {}, sentence));
  if (find("say").textContent !== answer.say.join("")) fill(find("say"), said); // a page that polls is not read out anew
  if (written !== answer.formulas.join("")) fill(find("formulas"), answer.formulas.map(formula));
  written = answer.formulas.join("");
  reasons(answer.why);
  stepByStep(answer.steps);
  explain(document.querySelector("main"));
  tour.show(answer.tour);
  lines.set("python", answer.python);
  lines.set("shell", answer.shell);
  find("code").hidden = !answer.python; // a teacher may have hidden the lines
  showBusy();
}

// Why? and step by step: what is spoken of lights up in the page

const light = (name) => (name ? (document.body.dataset.lit = name) : delete document.body.dataset.lit);

function reasons(why) {
  const asked = why.map((one) => one.question).join();
  if (find("why").dataset.asked === asked) return; // an opened one stays open while a hand moves
  find("why").dataset.asked = asked;
  fill(
    find("why"),
    why.map((one) => {
      const whole = element(
        "details",
        { class: "why" },
        element("summary", {}, one.question),
        element("p", {}, one.because),
      );
      whole.addEventListener("toggle", () => light(whole.open ? one.lit : ""));
      return whole;
    }),
  );
}

let step = 0; // how many steps are shown; the numbers in them follow the hand

function stepByStep(steps) {
  const place = find("steps");
  place.hidden = !steps.length;
  if (!steps.length) return;
  const move = (to) => {
    step = to;
    light(step ? steps[step - 1].lit : "");
    document.body.dataset.step = step;
    stepByStep(steps);
    document.dispatchEvent(new Event("stepchange")); // the picture shows it, too
  };
  const next = step < steps.length ? `${step + 1}. ${steps[step].title}` : "Begin again";
  const press = element(
    "button",
    { type: "button", id: "step", onclick: () => move(step < steps.length ? step + 1 : 0) },
    step ? next : "Step by step: " + next,
  );
  const shown = steps.slice(0, step).map((one, i) => {
    const head = element("p", { class: "aside" }, `${i + 1}. ${one.title}`);
    return element("div", { class: i === step - 1 ? "step now" : "step" }, head, ...one.formulas.map(formula));
  });
  fill(place, [press, ...shown]); // the button stays where it is
}

function trouble(sentence) {
  if (find("trouble").textContent !== sentence) find("trouble").textContent = sentence; // the same is not read out twice
  find("trouble").hidden = !sentence;
  if (sentence) document.body.dataset.running = "no"; // nobody looks again for what has failed
}

// What a sign of a formula means: under the pointer, and for every sign on the page in a list that opens by keyboard

const MEANINGS = JSON.parse(find("signs").textContent);
const plainLetter = (sign) => sign.normalize("NFKD").replaceAll("ϵ", "ε").replaceAll("~", "∼"); // italic letters of mathematics are letters of their own

function explain(place) {
  const signs = [...place.querySelectorAll("math :is(mi, mo, msqrt)")].map((one) =>
    one.localName === "msqrt" ? "√" : plainLetter(one.textContent.trim()),
  );
  const known = [...new Set(signs)].filter((sign) => MEANINGS[sign]);
  find("symbols").hidden = !known.length;
  const entries = known.flatMap((sign) => [element("dt", {}, sign), element("dd", {}, MEANINGS[sign])]);
  if (find("meanings").textContent !== known.map((sign) => sign + MEANINGS[sign]).join(""))
    fill(find("meanings"), entries);
}

document.querySelector("main").addEventListener("pointerover", (event) => {
  const meaning =
    event.target.closest("math") && MEANINGS[plainLetter(event.target.closest("mi, mo")?.textContent.trim() ?? "")];
  find("tip").hidden = !meaning;
  if (!meaning) return;
  const box = event.target.getBoundingClientRect();
  find("tip").textContent = meaning;
  find("tip").style.left = Math.max(4, Math.min(box.left, innerWidth - find("tip").offsetWidth - 8)) + "px";
  find("tip").style.top = box.bottom + 6 + "px";
});

const tour = makeTour(lab);
const lines = codeBlock({ python: "Python", shell: "Shell" });
find("code").append(lines.whole);
find("code").hidden = true; // until there is something to copy

/** Where a page is: on the server, with the pass where it stands in a frame, or a file beside this one. */
function placeOf(name) {
  if (stored) return (name || "index") + ".html";
  return "/" + name + (embed ? "?embed=" + encodeURIComponent(embed) : "");
}

for (const one of listed) {
  const here = one === page ? { "aria-current": "page" } : {};
  find("pages").append(element("a", { href: placeOf(one.name), ...here }, one.title));
}
document.querySelector(".mark").href = placeOf("");
find("trouble").addEventListener("click", () => trouble("")); // read, and out of the way
const ownAddress = () => location.href.replace(/[?&]embed=[^&]*/, ""); // a link carries no pass
find("copy-link").addEventListener("click", async () => {
  const told = find("copy-link");
  try {
    await navigator.clipboard.writeText(ownAddress());
    told.textContent = "Copied";
  } catch {
    told.textContent = "Copy it from the address bar";
  }
  setTimeout(() => (told.textContent = "Copy link"), 1500);
});
for (const kind of ["svg", "png"])
  find("save-" + kind).addEventListener("click", () => {
    const said = [document.querySelector("#more .verdict"), find("say")];
    savePicture([find("title"), find("picture"), ...said], ownAddress(), page.name, kind);
  });
find("skip").addEventListener("click", (event) => {
  event.preventDefault(); // a copy keeps its state behind the #
  find("left").focus();
});
find("reset").addEventListener("click", () => lab.reset());
document.title = page.title + " · Regard";
find("title").textContent = page.title;
find("hint").textContent = stored
  ? "A copy without Python: what is proved was computed before; points in the plane go where you move them."
  : page.hint;

// Light and dark

const system = matchMedia("(prefers-color-scheme: dark)");
let ownTheme = null; // where a browser lets a frame keep nothing, the choice lasts as long as the page
const storedTheme = (word) => {
  try {
    if (word) localStorage.setItem("theme", word);
    return localStorage.getItem("theme");
  } catch {
    return (ownTheme = word ?? ownTheme);
  }
};
const theme = () => storedTheme() ?? (system.matches ? "dark" : "light");

function applyTheme() {
  document.documentElement.dataset.theme = theme();
  find("theme").textContent = theme() === "dark" ? "☀" : "☾";
  document.dispatchEvent(new Event("themechange"));
}

find("theme").addEventListener("click", () => {
  storedTheme(theme() === "dark" ? "light" : "dark");
  applyTheme();
});
system.addEventListener("change", applyTheme);
applyTheme();

// Begin: the page's own script and the first answer come at the same time

addEventListener("popstate", () => {
  actions = [];
  entries = [];
  since = {};
  visit += 1;
  lab.state = fromAddress();
  ask({ lasting: true, arriving: true });
});

const drawn = import("/pages/" + page.name + ".js").then(({ build }) => build(lab));
ask({ lasting: true, arriving: true });
