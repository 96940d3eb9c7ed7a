"use strict";
// One answer at a time; every key does one thing, and everything can be done with keys.
const data = JSON.parse(document.getElementById("data").textContent);
const store = "regard-marking-" + data.assignment + "-" + data.version;
const byId = (id) => document.getElementById(id);
let marks = Object.assign({}, data.marks),
  edits = {},
  past = [], // what undo brings back: lists of [item, what was decided before]
  sending = Promise.resolve(),
  at = 0,
  allPages = false,
  problem = "";
// What was decided in this browser, each with what the page said before; where it says something else now, that came later.
try {
  if (data.served) throw new Error("by-hand.json has them");
  for (const [name, edit] of Object.entries(JSON.parse(localStorage.getItem(store) || "{}")))
    if (JSON.stringify(edit.before) === JSON.stringify(data.marks[name])) {
      edits[name] = edit;
      marks[name] = edit.after || edit;
    }
} catch {
  /* a page from disk may have no store */
}
const keyOf = (item) => item.student + "\u0000" + item.question;
const mark = (item) => marks[keyOf(item)] || {}; // {ticks, points, reason, was}: what was decided, each only if it was
const ticks = (item) => mark(item).ticks || null;
const isOverruled = (item) => mark(item).points !== undefined;
const isDecided = (item) => Boolean(ticks(item)) || isOverruled(item);

/** The answer; prose without the line breaks of a narrow editor, which would stand in the middle of our lines. */
function shownAnswer(item) {
  return item.checklist.length ? item.answer.replace(/(.{60,})\n(?=[^\s\d#*+>|-])/g, "$1 ") : item.answer;
}

function show() {
  const item = data.items[at],
    set = ticks(item) || item.checklist.map(() => false),
    own = mark(item);
  byId("where").textContent =
    `${at + 1} of ${data.items.length}: ${item.student}, ${item.question}` +
    (item.waits && !isDecided(item) ? " (not marked yet)" : isOverruled(item) ? " (overruled)" : "");
  byId("text").textContent = item.text;
  byId("check").textContent = item.check || "";
  byId("check").hidden = !item.check;
  byId("answer").textContent = shownAnswer(item) || "(nothing was found for this question)";
  byId("answer").classList.toggle("code", Boolean(item.code && item.answer));
  byId("answer").hidden = Boolean(item.pages) && !item.answer;
  showPages(item);
  byId("points").value = isOverruled(item) ? own.points : "";
  byId("points").max = item.of;
  byId("of").textContent = `of ${item.of}`;
  byId("reason").value = own.reason || "";
  byId("list").replaceChildren(
    ...item.checklist.map((line, i) => {
      const label = document.createElement("label"),
        box = document.createElement("input"),
        hint = document.createElement("kbd");
      label.className = "item";
      box.type = "checkbox";
      box.checked = set[i];
      hint.textContent = i < 9 ? String(i + 1) : "";
      box.addEventListener("change", () => {
        toggle(i);
        byId("list").querySelectorAll("input")[i].focus();
      });
      label.append(box, " ", hint, " " + line);
      if (item.keys[i]) {
        const key = document.createElement("div");
        key.className = "soft";
        key.textContent = item.keys[i];
        label.append(key);
      }
      return label;
    }),
  );
  showProgress();
}
// The pages of the PDF are pictures that we drew: nothing of the file itself is here.
function showPages(item) {
  const sheet = byId("sheet"),
    some = (item.mine || []).length < (item.pages || []).length;
  sheet.hidden = !item.pages;
  if (sheet.hidden) return;
  const shown = allPages ? item.pages.map((_, i) => i) : item.mine;
  const numbers = (shown.length === 1 ? "page " : "pages ") + shown.map((i) => i + 1).join(", ");
  byId("which").textContent =
    (item.pages.length ? `PDF, ${numbers} of ${item.pages.length}` : "The PDF is not shown") +
    (some && !allPages ? "; g shows all of them." : ".") +
    (item.trouble ? ` The reason: ${item.trouble}` : "");
  byId("pages").replaceChildren(
    ...shown.map((i) => {
      const picture = document.createElement("img");
      picture.src = item.pages[i];
      picture.alt = `page ${i + 1}`;
      picture.loading = "lazy";
      return picture;
    }),
  );
}
function showProgress() {
  const item = data.items[at],
    set = ticks(item) || [],
    waiting = data.items.filter((one) => one.waits);
  const here = item.checklist.length ? `; this one: ${set.filter(Boolean).length} of ${item.checklist.length}` : "";
  byId("done").textContent =
    (problem ? problem + " " : "") +
    `${waiting.filter(isDecided).length} of ${waiting.length} that wait are marked${here}.`;
}
function storeDecision(changes) {
  storeAll([[data.items[at], Object.assign({}, mark(data.items[at]), changes)]]);
}
function storeAll(decisions, undoing) {
  if (!undoing) past.push(decisions.map(([item]) => [item, mark(item)]));
  for (const [item, all] of decisions) {
    for (const name of Object.keys(all)) if (all[name] === undefined) delete all[name];
    marks[keyOf(item)] = all;
    edits[keyOf(item)] = { before: data.marks[keyOf(item)], after: all };
  }
  problem = "";
  if (data.served) send(decisions);
  else keepInBrowser();
  show();
}
function undo() {
  const before = past.pop();
  if (!before) return say("There is nothing to undo.");
  at = data.items.indexOf(before[0][0]);
  storeAll(before, true);
}
function markBlanks() {
  const blanks = data.items.filter((one) => one.blank && !isDecided(one));
  if (!blanks.length) return say("No blank answer waits.");
  storeAll(blanks.map((one) => [one, { ticks: one.checklist.map(() => false) }]));
  say(`${blanks.length} blank ${blanks.length === 1 ? "answer" : "answers"} got 0; u undoes it.`);
}
function say(sentence) {
  problem = sentence;
  showProgress();
}
// The desk: a decision goes into by-hand.json at once, one after the other, and the class below follows.
async function ask(name, words) {
  const answer = await fetch(`/ask/${name}`, { method: "POST", body: JSON.stringify(words) });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}
function send(decisions) {
  const rows = decisions.map(([item, all]) => ({
    student: item.student,
    question: item.question,
    ticks: null,
    points: null,
    ...all,
  }));
  document.body.dataset.busy = "yes";
  sending = sending
    .then(() => ask("decide", { rows }))
    .then(() => ask("class", {}))
    .then(showClass)
    .catch((error) => say(`NOT SAVED: ${error.message} Reload the page.`))
    .finally(() => (document.body.dataset.busy = "no"));
}
function showClass(said) {
  byId("class").innerHTML = said.html; // the server escaped what students wrote
}
function publish() {
  byId("published").textContent = "Writing.";
  sending = sending
    .then(() => ask("publish", { open: byId("open").checked }))
    .then((said) => {
      showClass(said);
      byId("published").textContent = said.said;
    })
    .catch((error) => (byId("published").textContent = error.message));
}
function showAddressed() {
  const [student, question] = location.hash.replace(/^#at=/, "").split("/").map(decodeURIComponent);
  const place = data.items.findIndex((one) => one.student === student && one.question === question);
  if (place < 0) return;
  showItem(place);
  byId("where").scrollIntoView();
}
function keepInBrowser() {
  try {
    localStorage.setItem(store, JSON.stringify(edits));
  } catch {
    /* the file that is saved has them */
  }
}
function toggle(i) {
  const item = data.items[at],
    set = [...(ticks(item) || item.checklist.map(() => false))];
  if (i < set.length) {
    set[i] = !set[i];
    storeDecision({ ticks: set });
  }
}
function tickAll(value) {
  const lines = data.items[at].checklist;
  if (lines.length) storeDecision({ ticks: lines.map(() => value) });
}
// Points and a reason belong together: half of it is kept nowhere, and the line below says what is missing.
function overrule() {
  const item = data.items[at],
    points = byId("points").value,
    reason = byId("reason").value.trim(),
    number = Number(points);
  if (points === "" && reason === "")
    return isOverruled(item) ? storeDecision({ points: undefined, reason: undefined, was: undefined }) : showProgress();
  if (points === "" || !(number >= 0 && number <= item.of)) problem = `Not kept: give points from 0 to ${item.of}.`;
  else if (reason === "") problem = "Not kept: give a reason, which the student reads.";
  else return storeDecision({ points: number, reason, was: item.was });
  showProgress();
}
function showItem(to) {
  at = (to + data.items.length) % data.items.length;
  problem = "";
  show();
}
function showNextWaiting() {
  const later = data.items.findIndex((one, i) => i > at && one.waits && !isDecided(one));
  showItem(
    later >= 0
      ? later
      : Math.max(
          data.items.findIndex((one) => one.waits && !isDecided(one)),
          0,
        ),
  );
}
function find() {
  const wanted = byId("find").value.trim().toLowerCase();
  const place = wanted
    ? data.items.findIndex((one) => `${one.student}, ${one.question}`.toLowerCase().includes(wanted))
    : -1;
  if (place >= 0) showItem(place);
}
function rows(from) {
  const decided = data.items.filter((one) => Object.keys(from[keyOf(one)] || {}).length);
  return [
    ...decided.map((one) => ({ student: one.student, question: one.question, ...from[keyOf(one)] })),
    ...data.others,
  ];
}
function save() {
  const link = document.createElement("a"),
    saved = { assignment: data.assignment, marks: rows(marks), base: rows(data.marks) };
  link.href = URL.createObjectURL(new Blob([JSON.stringify(saved, null, 1)], { type: "application/json" }));
  link.download = "written.json";
  link.click();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (["find", "points", "reason"].includes(event.target.id)) {
    // letters are text there
    if (event.key === "Enter" && event.target.id !== "find") overrule();
    if (event.key === "Escape" && event.target.id !== "find") {
      problem = "";
      show();
    } // as it was
    if (event.key === "Enter" || event.key === "Escape") {
      event.target.blur();
      event.preventDefault();
    }
    return;
  }
  const action = {
    j: () => showItem(at + 1),
    ArrowRight: () => showItem(at + 1),
    k: () => showItem(at - 1),
    ArrowLeft: () => showItem(at - 1),
    a: () => tickAll(true),
    0: () => tickAll(false),
    n: showNextWaiting,
    g: () => {
      allPages = !allPages;
      show();
    },
    s: data.served ? undefined : save,
    u: undo,
    b: markBlanks,
    f: () => byId("find").select(),
    p: () => byId("points").select(),
    x: () => isOverruled(data.items[at]) && storeDecision({ points: undefined, reason: undefined, was: undefined }),
  }[event.key];
  if (/^[1-9]$/.test(event.key)) {
    toggle(Number(event.key) - 1);
    event.preventDefault();
  } else if (action) {
    action();
    event.preventDefault();
  }
});
byId("find").addEventListener("input", find);
byId("points").addEventListener("change", overrule);
byId("reason").addEventListener("change", overrule);
if (data.served) {
  byId("publish").addEventListener("click", publish);
  window.addEventListener("hashchange", showAddressed);
} else byId("save").addEventListener("click", save);
show();
if (data.served) showAddressed();
