// A copy of a page without Python: its answers were computed before, and this finds the one that is asked for.
// A script of the old kind, because browsers load no modules from files; `regard lab export` puts it before the others.

(() => {
  const plain = (words) =>
    Object.fromEntries(Object.entries(words).map(([name, word]) => [name, word.replaceAll("; ", ";")])); // as in addresses
  const held = JSON.parse(document.getElementById("stored").textContent.replaceAll("; ", ";")); // page, actions, grids
  const arrived = new Map(); // the answers of a grid, once its script has come
  const waiting = new Map();
  const NOT_HELD =
    "This copy of the page has no Python behind it and holds only what was computed before; with your own numbers: regard lab.";
  let before = null; // the words of the last answer

  const numbers = (word) => word.split(/[,;]/).map(Number);
  const distance = (a, b) => (a.length === b.length ? Math.hypot(...a.map((x, i) => x - b[i])) : NaN);

  let pressed = 0; // the direction of an arrow key on a slider: it goes on to the next state that is held; 0 while a hand drags
  const ARROWS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
  addEventListener("keydown", (event) => (pressed = (event.target.type === "range" && ARROWS[event.key]) || 0), true);
  for (const other of ["pointerdown", "popstate"]) addEventListener(other, () => (pressed = 0), true);

  /** The place of a word on an axis: itself, or the nearest number; -1 where there is neither. `last`: where it was. */
  function nearestValue(values, word, last) {
    const [places, wanted] = [values.map(numbers), numbers(word)];
    if (last !== undefined && last !== word) {
      const further = nearestAhead(places, numbers(last), wanted);
      if (further >= 0) return further;
    }
    const exact = values.indexOf(word);
    return exact >= 0 ? exact : nearest(places, wanted);
  }

  /** Of single numbers, the nearest one that lies where an arrow key points from the last one; -1 without either. */
  function nearestAhead(places, last, wanted) {
    const beyond = (place) => place.length === 1 && pressed * (place[0] - last[0]) > 0;
    return last.length === 1 && pressed
      ? nearest(
          places.map((place) => (beyond(place) ? place : [])),
          wanted,
        )
      : -1;
  }

  function nearest(places, wanted) {
    const gaps = places.map((place) => distance(place, wanted));
    return gaps.reduce((best, gap, i) => (!Number.isNaN(gap) && (best < 0 || gap < gaps[best]) ? i : best), -1);
  }

  /** The words after one action of the hand. */
  function applyAction(words, action) {
    if (held.actions[action]) return { ...words, ...held.actions[action] };
    const known = held.grids.flatMap((grid) =>
      Object.entries(grid.actions)
        .filter(([name]) => action === name || action.startsWith(name + " "))
        .map(([name, how]) => ({ grid, name, how })),
    );
    if (!known.length) return null;
    const strange = ({ grid }) => Object.entries(grid.fixed).filter(([name, word]) => words[name] !== word).length;
    const { grid, name, how } = known.reduce((best, one) => (strange(one) < strange(best) ? one : best));
    const values = grid.axes.find((axis) => axis.word === how.word).values;
    const said = action.slice(name.length).trim().split(" ").filter(Boolean).map(Number);
    if (how.next) return how.next[words[how.word]] ? { ...words, [how.word]: how.next[words[how.word]] } : null;
    if (how.any) return { ...words, [how.word]: values[said[0] % values.length] };
    const same = how.like?.[nearestValue(values, words[how.word])]; // of queries, those in the same direction
    const allowed = how.numbers.map((one, i) => (same === undefined || how.like[i] === same ? one : []));
    const onwards = nearestAhead(allowed, how.numbers[nearestValue(values, words[how.word])] ?? [], said);
    const place = onwards >= 0 ? onwards : nearest(allowed, said);
    return place < 0 ? null : { ...words, [how.word]: values[place] };
  }

  /** How badly a grid serves these words: what was changed and cannot be had counts most. */
  function cost(grid, words) {
    let total = 0;
    for (const [name, word] of Object.entries(words)) {
      const axis = grid.axes.find((one) => one.word === name);
      const had = axis ? nearestValue(axis.values, word) >= 0 : grid.fixed[name] === word;
      if (!had) total += before === null || before[name] !== word ? 1000 : 1;
      else if (axis && !axis.values.includes(word)) total += 0.01;
    }
    return total;
  }

  function answersOf(index) {
    if (!waiting.has(index)) {
      waiting.set(
        index,
        new Promise((resolve, reject) => {
          arrived.set(index, resolve);
          const inside = document.getElementById("answers-" + index);
          if (inside) return window.regardStored.put(index, inside.textContent);
          const script = document.createElement("script");
          script.src = `data/${held.page}-${index}.js`;
          script.onerror = () => reject(new Error("a file of this copy is missing"));
          document.head.append(script);
        }),
      );
    }
    return waiting.get(index);
  }

  async function unpack(letters) {
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  /** An answer is kept as what differs from the first one of its grid. */
  function mergeChange(base, change) {
    if (change === null) return base;
    if ("v" in change) return change.v;
    return {
      ...base,
      ...Object.fromEntries(Object.entries(change.k).map(([name, one]) => [name, mergeChange(base[name], one)])),
    };
  }

  const holds = (grid, words, name) =>
    grid.fixed[name] === words[name] || grid.axes.find((axis) => axis.word === name)?.values.includes(words[name]);

  /** A stored answer about these keys and this demand, whatever the query; with none, the first of the page. */
  async function frameFor(words) {
    const has = (grid, name) => holds(grid, words, name);
    const index = held.grids.findIndex((grid) => ["space", "keys", "to", "eps"].every((name) => has(grid, name)));
    const grid = held.grids[Math.max(index, 0)];
    const at = ({ word, values }) => Math.max(0, values.indexOf(words[word]));
    const place = grid.axes.reduce((sum, axis) => sum * axis.values.length + at(axis), 0);
    const { base, changes } = await answersOf(Math.max(index, 0));
    const isExact = index >= 0 && has(grid, "q");
    return { frame: mergeChange(base, changes[place]), isProved: index >= 0, isExact };
  }

  /** Points in the plane go wherever a hand moves them; null where the stored answers do. */
  async function freeReply(words, actions) {
    const own = held.page === "copy" && words.space === "plane" && modules["/copy_offline.js"]; // of the bundle
    if (!own) return null;
    const { frame } = await frameFor(words);
    let wanted = words;
    for (const action of actions) {
      wanted = wanted && own.applyAction(wanted, action, frame.picture);
      if (!wanted) return null;
    }
    const found = await frameFor(wanted);
    const isOld = (name) => before?.[name] === wanted[name];
    const isServed = (grid) =>
      holds(grid, wanted, "keys") && ["q", "to"].every((n) => isOld(n) || holds(grid, wanted, n));
    const isMoved = actions.length > 0 || !held.grids.some(isServed); // by a hand, or by a link to where one left it
    if (found.isExact || !isMoved) return null;
    before = plain(wanted);
    return { ok: true, answer: own.freeAnswer(found.frame, wanted, found.isProved) };
  }

  const refusal = { ok: false, answer: { error: NOT_HELD } };

  window.regardStored = {
    page: held.page,
    start: {
      ...held.grids[0].fixed,
      ...Object.fromEntries(held.grids[0].axes.map(({ word, values }) => [word, values[0]])),
    },
    put: (index, letters) => unpack(letters).then(arrived.get(index)),

    async reply({ do: said = "", ...words }) {
      let wanted = plain(words);
      const actions = said
        .split(";")
        .map((one) => one.trim())
        .filter(Boolean);
      const free = await freeReply(wanted, actions);
      if (free) return free;
      for (const action of actions) wanted = wanted && applyAction(wanted, action);
      if (!wanted) return refusal;
      const costs = held.grids.map((grid) => cost(grid, wanted));
      const index = costs.indexOf(Math.min(...costs));
      if (costs[index] >= 1000) return refusal;
      const grid = held.grids[index];
      let place = 0;
      const state = { ...grid.fixed };
      for (const { word, values } of grid.axes) {
        const at = Math.max(0, nearestValue(values, wanted[word], before?.[word]));
        place = place * values.length + at;
        state[word] = values[at];
      }
      const { base, changes } = await answersOf(index);
      const answer = mergeChange(base, changes[place]);
      before = plain({ ...state, ...answer.state });
      return { ok: true, answer: { ...answer, state: { ...state, ...answer.state } } };
    },
  };
})();
