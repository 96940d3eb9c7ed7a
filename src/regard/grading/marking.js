"use strict";
// One answer at a time; every key does one thing, and everything can be done with keys.
const data = JSON.parse(document.getElementById("data").textContent);
const store = "regard-marking-" + data.assignment + "-" + data.version;
let marks = Object.assign({}, data.marks), at = 0;
try { marks = Object.assign(marks, JSON.parse(localStorage.getItem(store) || "{}")); } catch { /* a page from disk may have no store */ }
const key = item => item.student + "\u0000" + item.question;
const ticks = item => marks[key(item)] || null;

function show() {
  const item = data.items[at], list = document.getElementById("list"), set = ticks(item) || item.checklist.map(() => false);
  document.getElementById("where").textContent = `${at + 1} of ${data.items.length}: ${item.student}, ${item.question}` + (ticks(item) ? "" : " (not marked yet)");
  document.getElementById("text").textContent = item.text;
  document.getElementById("answer").textContent = item.answer || "(nothing was found for this question)";
  list.replaceChildren(...item.checklist.map((line, i) => {
    const label = document.createElement("label"), box = document.createElement("input"), hint = document.createElement("kbd");
    label.className = "item"; box.type = "checkbox"; box.checked = set[i]; hint.textContent = i < 9 ? String(i + 1) : "";
    box.addEventListener("change", () => toggle(i));
    label.append(box, " ", hint, " " + line);
    if (item.keys[i]) { const key = document.createElement("div"); key.className = "soft"; key.textContent = item.keys[i]; label.append(key); }
    return label;
  }));
  const done = data.items.filter(ticks).length;
  document.getElementById("done").textContent = `${done} of ${data.items.length} marked; this one: ${set.filter(Boolean).length} of ${set.length}.`;
}
function keep(set) {
  marks[key(data.items[at])] = set;
  try { localStorage.setItem(store, JSON.stringify(marks)); } catch { /* the file that is saved has them */ }
  show();
}
function toggle(i) {
  const item = data.items[at], set = [...(ticks(item) || item.checklist.map(() => false))];
  if (i < set.length) { set[i] = !set[i]; keep(set); }
}
function go(step) { at = (at + step + data.items.length) % data.items.length; show(); }
function save() {
  const out = { assignment: data.assignment, marks: data.items.filter(ticks).map(i => ({ student: i.student, question: i.question, ticks: ticks(i) })) };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(out, null, 1)], { type: "application/json" }));
  link.download = "written.json"; link.click();
}
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = data.items[at], does = {
    j: () => go(1), ArrowRight: () => go(1), k: () => go(-1), ArrowLeft: () => go(-1),
    a: () => keep(item.checklist.map(() => true)), 0: () => keep(item.checklist.map(() => false)), s: save,
    n: () => { const next = data.items.findIndex((one, i) => i > at && !ticks(one)); at = next >= 0 ? next : Math.max(data.items.findIndex(one => !ticks(one)), 0); show(); },
  }[event.key];
  if (/^[1-9]$/.test(event.key)) { toggle(Number(event.key) - 1); event.preventDefault(); }
  else if (does) { does(); event.preventDefault(); }
});
document.getElementById("save").addEventListener("click", save);
show();
