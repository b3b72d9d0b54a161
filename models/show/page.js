// What the reader sees and does. `page` holds the state; everything that is shown follows from it.

"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// An element: its name, its attributes, and its children, of which strings become text.
function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// A typeset formula, which Python wrote.
function formula(number, kind = "formula") {
  const span = made("span", { class: kind });
  span.innerHTML = data.table.math[number];
  return span;
}

const tokenizer = new Tokenizer(data.tokenizer);
const variables = data.table.variables, sizes = data.table.sizes;
const weightKeys = variables.filter((v) => v.weight !== null).map((v) => v.key);
const LARGE = 1e7;  // weights times tokens, from which on a worker computes: about a tenth of a second
const weightCount = weightKeys.reduce((n, key) => n + data.shapes[key].reduce((a, b) => a * b), 0);
const causal = data.table.operations.some((o) => o.op === "mask");
const pair = data.table.pair;  // of a translator: its first and last token (pair.js); null for a decoder
const READ = { n: "tokens", n_output: "tokens", n_input: "source" };  // whose positions a letter of a shape counts
const longest = pair ? sizes.n_max : sizes.C;  // tokens that the model reads at once
const work = new Work(data.table, weightCount * longest > LARGE, byId("program").textContent);

const page = {
  model: new Model(data.table, {}),
  at: data.models.length - 1,  // the place of the weights among data.models
  weights: null, moments: {}, history: [], last: null, trail: undefined,  // the last step of learning, and the losses so far
  tokens: [], source: null, state: null, losses: [], view: "values", size: 3,
  follow: null, side: "tokens",  // the position that is followed, in the tokens or in the source
  chosen: null, pinned: null,  // {key, of: "value" | "gradient" | "change", at: [head, row, column]}
  colours: null, busy: 0,
};

// ------------------------------------------------------------------------------------------------------- the weights

const decoded = new Map();

// The weights of one of the stored models, as arrays by key.
function weightsOf(number) {
  if (decoded.has(number)) return decoded.get(number);
  const { type, weights } = data.models[number];
  const bytes = Uint8Array.fromBase64?.(weights) ?? Uint8Array.from(atob(weights), (c) => c.charCodeAt(0));
  const numbers = type === "float32" ? new Float32Array(bytes.buffer) : halves(new Uint16Array(bytes.buffer));
  const found = {};
  let from = 0;
  for (const key of weightKeys) {
    const [heads, rows, columns] = data.shapes[key], count = heads * rows * columns;
    found[key] = { heads, rows, columns, data: numbers.slice(from, from + count) };
    from += count;
  }
  decoded.set(number, found);
  return found;
}

// 16-bit floating-point numbers: a sign, 5 bits of exponent, 10 of fraction.
function halves(bits) {
  return Float32Array.from(bits, (b) => {
    const sign = b >> 15 ? -1 : 1, exponent = (b >> 10) & 31, fraction = b & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * fraction / 1024);
  });
}

// ---------------------------------------------------------------------------------------------------------- computing

// What the model reads, as `run` takes it.
const read = (tokens, source = page.source) => [tokens, source];

// Everything anew, for the weights and tokens that `page` has with the changes of `next`. They hold once the numbers are
// there; `then` is called at the end.
function compute(next = {}, then = () => {}) {
  const { weights, tokens, source } = { ...page, ...next };
  ask({ kind: "run", weights, read: read(tokens, source) }, ({ state }) => {
    Object.assign(page, next, { state });
    showAll();
    then();
  });
}

function showAll() {
  if (page.chosen && !within(page.chosen)) page.chosen = page.pinned = null;
  if (page.follow !== null && page.follow >= page[page.side].length) page.follow = null;
  drawMaps();
  showTokens();
  showNext();
  showLearning();
  showTraining();
  showCell();
  showStop();
  remember();
  write();
}

// A job that changes what the page shows.
function ask(job, then) {
  page.busy++;
  const told = setTimeout(() => { byId("busy").textContent = "computing …"; }, 150);
  work.ask(job, (result) => {
    clearTimeout(told);
    byId("busy").textContent = "";
    try { then(result); } finally { page.busy--; }
    if (!page.busy && later.size) {
      const [kind, action] = later.entries().next().value;
      later.delete(kind);
      action();
    }
  });
}

const later = new Map();  // what waits for the numbers that were asked for

// Do something now, or after what is being computed; of several things of one kind the last is done.
function whenFree(kind, action) {
  if (page.busy) later.set(kind, action);
  else action();
}

function loss() { return page.state.values.loss.data[0]; }

// Is a cell there?
function within({ key, of, at }) {
  const array = arrayOf(key, of);
  return array && at[0] < array.heads && at[1] < array.rows && at[2] < array.columns && at.every((x) => x >= 0);
}

// The array of a map: the value of a variable, its gradient, or what the last step added to it.
function arrayOf(key, of) {
  if (of === "value") return page.state.values[key];
  if (of === "gradient") return page.tokens.length > 1 ? page.state.gradients[key] : undefined;
  return page.last?.changes[key];
}

// Take a text, and do `then`; or say why not, and nothing is lost.
function take(text, then) {
  if (pair) return takePair(byId("source").value, text, then);
  const tokens = tokenizer.encode(text);
  if (!tokens.length) return notice("The text is empty: type at least one character.");
  if (tokens.length > sizes.C)
    return notice(`This text has ${tokens.length} tokens, but the context holds C = ${sizes.C}. Shorten it; `
      + "the page still shows the text before.");
  const missing = tokenizer.missing(text);
  notice(missing.length ? `Not in the vocabulary: ${missing.slice(0, 8).map((c) => `“${c}”`).join(", ")}`
    + `${missing.length > 8 ? " …" : ""}. The unknown token stands in their place.` : "");
  compute({ tokens, losses: [] }, then);
  return true;
}

function notice(text) { byId("notice").textContent = text; return false; }

// -------------------------------------------------------------------------------------------------------------- maps

const figures = new Map();  // key -> {figure, about, body, maps}
let plan = null;

function build() {
  const flow = byId("flow");
  let part = null, stage = null, before = {};
  flow.append(legend());
  for (const v of variables) {
    if (v.part !== before.part) {
      part = made("div", { class: "stages" });
      flow.append(made("section", {}, made("h2", {}, v.part), part));
    }
    if (v.section !== before.section || v.part !== before.part) {
      stage = made("div", { class: "stage" }, made("h3", {}, v.section));
      part.append(stage);
    }
    before = v;
    const about = made("small"), body = made("div", { class: "body" });
    const caption = made("figcaption", {}, made("span", { class: "eq" }, v.equation), formula(v.formula), about);
    const figure = made("figure", { class: v.weight === null ? "" : "weight", "data-key": v.key }, caption, body);
    stage.append(figure);
    figures.set(v.key, { figure, about, body, maps: {} });
  }
  plan = new Plan(page.model, figures, goToMap);
  const summary = made("section", { id: "whole" }, made("h2", {}, "The whole model, to scale"),
    made("p", { class: "soft", id: "whole-said" }), plan.element);
  flow.prepend(summary);
  addEventListener("resize", () => { if (page.state) { drawPlan(); drawCurve(); } });
  byId("letters").append(made("p", {}, `The letters are those of document ${pair ? "004" : "003"}, in which some stand for several things: arrays, sizes and indices.`), ...data.table.letters.map(({ tex, means }) => made("p", {}, formula(tex, "tex"), ...means.map(([, meaning, size], i) => (
    `${i ? "; " : " "}${size === null ? "" : `as a size, ${size.toLocaleString("en")}: `}${meaning}`)))));
}

// Scroll to the map of an array, and put the focus on it.
function goToMap(key) {
  const { figure, maps } = figures.get(key);
  figure.scrollIntoView({ block: "center" });
  Object.values(maps)[0]?.focus({ preventScroll: true });
}

// The plan shows the gradients where the maps show nothing else.
function drawPlan() {
  const back = page.view === "gradients" && page.tokens.length > 1;
  plan.draw(page.state.values, back);
  byId("whole-said").textContent = (back ? "Gradients: follow the arrows from the loss back to the weights. "
    : "Each row is a part of the model; follow the arrows, the thick ones carry the residual stream. ")
    + "Above a value stand the weights that enter it. A dashed frame: this array comes from another row. "
    + `The side of a number is ${short(plan.scale)} pixels, but no array is thinner than ${THINNEST}. Press an array to go to its map.`;
}

const WORDS = { gradient: "its gradient", change: "the change by the last step" };

// The shape of a variable, in letters and in sizes.
function shapeOf(v) {
  const array = page.state.values[v.key];
  const counts = [array.heads, array.rows, array.columns].slice(3 - v.letters.length);
  if (!v.letters.length) return "a number";
  const letters = v.letters.join(" × ");
  return v.letters.length === 1 && v.letters[0].length > 1 ? `${letters} = ${counts[0]}` : `${letters} = ${counts.join(" × ")}`;
}

function shown() {
  return page.view === "values" ? ["value"] : page.view === "gradients" ? ["gradient", "change"]
    : ["value", "gradient", "change"];
}

function drawMaps() {
  for (const v of variables) {
    const entry = figures.get(v.key);
    const kinds = shown().filter((of) => arrayOf(v.key, of) || (of === "gradient" && page.view === "gradients"));
    const wide = kinds.length && turned(page.state.values[v.key]) && page.state.values[v.key].rows * page.size > byId("flow").clientWidth - 60;
    const signature = kinds.map((of) => of + shapeKey(arrayOf(v.key, of))).join() + page.size + page.view + words(v, page.state.values[v.key]);
    if (entry.signature !== signature) {
      entry.maps = Object.fromEntries(kinds.map((of) => [of, frame(v, of)]));
      entry.body.replaceChildren(...Object.values(entry.maps));
      entry.signature = signature;
    }
    const most = [];
    for (const of of kinds) {
      const array = arrayOf(v.key, of);
      if (!array) continue;
      const top = largest(array), maps = entry.maps[of];
      most.push(`${of === "value" ? "largest" : of === "gradient" ? "largest gradient" : "largest change"} ${short(top)}`);
      if (maps.painted === array && maps.colours === page.colours) continue;  // as it was
      Object.assign(maps, { painted: array, colours: page.colours });
      maps.setAttribute("aria-label", `${name(v)}, ${of === "value" ? "values" : WORDS[of]}: ${shapeOf(v)}, `
        + `none larger than ${short(top)}. Arrow keys choose a cell.`);
      maps.querySelectorAll("canvas").forEach((c, head) => paint(c, array, head, top, turned(array), page.colours));
      maps.querySelectorAll(".number").forEach((n) => { n.textContent = short(array.data[0]); });
    }
    const parts = [shapeOf(v), ...most, turned(page.state.values[v.key]) ? `on its side${wide ? ", scrolls" : ""}` : ""].filter(Boolean);
    entry.about.replaceChildren(...parts.flatMap((part, i) => [i ? " " : "", made("span", {}, part)]));
  }
  page.scale();
  drawPlan();
  light();
}

const shapeKey = (array) => (array ? `${array.heads},${array.rows},${array.columns}` : "-");
const turned = (array) => array.rows > 128 && array.rows > 2 * array.columns;
const WORDY = 12, LARGE_CELL = 22;  // an attention map of at most so many words has them at its sides, in large cells
const FINGER = 8;  // so many pixels of a cell of attention a finger can hit

// The words at the sides of a short attention map, as {rows, columns}; null for other maps.
function wordsOf(v, array) {
  const [rows, columns] = v.letters.slice(-2).map((letter) => page[READ[letter]]);
  if (v.letters.length < 3 || !rows || !columns || Math.max(array.rows, array.columns) > WORDY) return null;
  return { rows: rows.slice(0, array.rows).map(word), columns: columns.slice(0, array.columns).map(word) };
}

const words = (v, array) => JSON.stringify(wordsOf(v, array));

// Width and height of a cell on the screen. A single row is drawn higher.
function cellSize(v, array) {
  const least = wordsOf(v, array) ? LARGE_CELL : READ[v.letters[2]] && matchMedia("(pointer: coarse), (max-width: 900px)").matches ? FINGER : 0;
  if (least) return [Math.max(least, page.size), Math.max(least, page.size)];
  return [page.size, array.rows === 1 ? Math.max(12, page.size) : page.size];
}

// The frame of one map: a pane for each head.
function frame(v, of) {
  const array = arrayOf(v.key, of);
  const maps = made("div", { class: "maps", "data-of": of });
  if (of !== "value" || page.view === "both")
    maps.append(made("span", { class: "what" }, { value: "", gradient: "∂𝓛/∂", change: "the step’s change of " }[of], formula(v.tex, "tex")));
  if (!array) {
    maps.append(made("span", { class: "soft" }, page.tokens.length > 1
      ? "none: the loss does not read it" : "none: one token has no loss"));
    return maps;
  }
  maps.tabIndex = 0;
  maps.setAttribute("role", "group");
  maps.setAttribute("aria-roledescription", "heat map");
  for (let head = 0; head < array.heads; head++) {
    const pane = made("div", { class: "pane", "data-head": head });
    if (v.letters.length > 2) pane.append(made("span", { class: "head" }, `head ${head + 1}`));
    if (!v.letters.length) pane.append(made("div", { class: "number" }));
    else {
      const canvas = made("canvas"), [w, h] = turned(array) ? [array.rows, array.columns] : [array.columns, array.rows];
      const [wide, high] = cellSize(v, array), map = made("div", { class: "pane" }, canvas);
      canvas.style.width = `${w * wide}px`;
      canvas.style.height = `${h * high}px`;
      pane.append(worded(map, wordsOf(v, array), wide));
    }
    maps.append(pane);
  }
  return maps;
}

// A map with the words of its rows and columns beside it.
function worded(map, words, size) {
  if (!words) return map;
  const list = (name) => made("div", { class: name }, ...words[name].map((text) => made("span", {}, text)));
  const element = made("div", { class: "worded", "aria-hidden": "true" }, list("columns"), list("rows"), map);
  element.style.setProperty("--cell", `${size}px`);
  return element;
}

// The cell of a map under the pointer, or null.
function under(event) {
  const target = event.target.closest?.("canvas, .number"), maps = target?.closest(".maps");
  if (!maps) return null;
  const key = maps.closest("figure").dataset.key, of = maps.dataset.of, array = arrayOf(key, of);
  const head = Number(target.closest("[data-head]").dataset.head), box = target.getBoundingClientRect();
  if (target.className === "number") return { key, of, at: [0, 0, 0] };
  const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
  const part = (t, n) => Math.min(n - 1, Math.max(0, Math.floor(t * n)));
  const at = turned(array) ? [head, part(x, array.rows), part(y, array.columns)] : [head, part(y, array.rows), part(x, array.columns)];
  return { key, of, at };
}

// Choose a cell: `pin` keeps it when the pointer leaves; `go` scrolls to it.
function choose(cell, { pin = false, go = false } = {}) {
  if (pin) { page.pinned = cell; byId("cell").classList.remove("shut"); }
  page.chosen = cell;
  light();
  showCell();
  if (pin) remember();
  const maps = cell && figures.get(cell.key).maps[cell.of];
  if (go && maps) bring(maps);
}

// Scroll to a map, and in it to the chosen cell: into the part of the window that the bar and the panels leave free.
function bring(maps) {
  const bounds = (element) => element.getBoundingClientRect(), cell = maps.querySelector(".lit.chosen") ?? maps;
  maps.scrollLeft += bounds(cell).left + bounds(cell).width / 2 - bounds(maps).left - maps.clientWidth / 2;
  const side = bounds(byId("side")), bar = getComputedStyle(byId("bar")).position === "sticky" ? byId("bar").offsetHeight : 0;
  const below = side.left > 0 || !side.height ? innerHeight : side.top, figure = maps.closest("figure") ?? maps;
  const { top, height } = bounds(bounds(figure).height < below - bar ? figure : cell);
  scrollBy(0, top + height / 2 - (bar + below) / 2);
}

// Frame the chosen cell, those that meet in it, and the row of the token that is followed.
function light() {
  document.querySelectorAll(".lit").forEach((old) => old.remove());
  if (!page.state) return;
  plan.light(page.chosen?.key, new Set(page.chosen ? sources(page.chosen).map((cell) => cell.key) : []), page.chosen?.of === "gradient");
  if (page.follow !== null) for (const v of variables) {
    const inRows = READ[v.letters.at(-2)] === page.side, inColumns = READ[v.letters.at(-1)] === page.side;
    if (!inRows && !inColumns) continue;
    for (const of of shown()) {
      const array = arrayOf(v.key, of);
      if (!array || page.follow >= (inRows ? array.rows : array.columns)) continue;
      const cells = inRows ? termsOf(array.columns, (j) => [page.follow, j]) : termsOf(array.rows, (i) => [i, page.follow]);
      for (let h = 0; h < array.heads; h++) mark(v.key, of, h, cells, "follow");
    }
  }
  if (!page.chosen) return;
  const groups = new Map();
  for (const cell of sources(page.chosen)) {
    const of = cell.gradient ? "gradient" : "value", id = `${cell.key}|${of}|${cell.at[0]}`;
    if (!groups.has(id)) groups.set(id, { key: cell.key, of, head: cell.at[0], cells: [] });
    groups.get(id).cells.push([cell.at[1], cell.at[2]]);
  }
  for (const { key, of, head, cells } of groups.values()) mark(key, of, head, cells, "");
  const { key, of, at } = page.chosen;
  mark(key, of, at[0], [[at[1], at[2]]], "chosen");
}

// The cells that a cell is computed from.
function sources({ key, of, at }) {
  if (of === "value") return page.model.explain(page.state, key, at)?.terms.flatMap((t) => t.cells) ?? [];
  if (of === "gradient") return page.model.explainGradient(page.state, key, at).flatMap((part) => part.terms.flatMap((t) => t.cells));
  return [{ key, gradient: true, at }];
}

function mark(key, of, head, cells, kind) {
  const maps = figures.get(key).maps[of], array = arrayOf(key, of);
  const pane = maps?.querySelectorAll("[data-head]")[head]?.querySelector(".pane");
  if (!pane) return;
  const side = turned(array), [wide, high] = cellSize(variable(key), array);
  for (const r of rectangles(side ? cells.map(([i, j]) => [j, i]) : cells)) {
    const box = made("div", { class: `lit ${kind}` });
    Object.assign(box.style, { left: `${r.left * wide}px`, top: `${r.top * high}px`, width: `${r.width * wide}px`, height: `${r.height * high}px` });
    pane.append(box);
  }
}

// ------------------------------------------------------------------------------------------------------ the chosen cell

const variable = (key) => page.model.variables.get(key);
const tokenAt = (letter, i) => `“${word(page[READ[letter]][i])}”`;

function name(v) { return v.of ? `${v.said} of ${v.of}` : v.said; }

// An index in words.
function index(letter, i) {
  if (READ[letter]) return `position ${i + 1} ${tokenAt(letter, i)}${pair ? ` of the ${READ[letter] === "source" ? "source" : "target"}` : ""}`;
  if (letter === "V" || letter === "n_vol") return `token “${word(i)}”`;
  if (letter === "C") return `position ${i + 1}`;
  return `${letter === "F" || letter === "d_ff" ? "inner component" : "component"} ${i + 1}`;
}

// A cell in words, in full or short.
function where(key, [h, i, j], brief = false) {
  const v = variable(key), letters = v.letters;
  if (brief) {
    const places = [letters.length > 2 ? h + 1 : null, letters.length > 1 ? i + 1 : null, letters.length ? j + 1 : null];
    return places.filter((x) => x !== null).join(", ");
  }
  const parts = letters.length > 2 ? [`head ${h + 1}`] : [];
  if (letters.length > 1) parts.push(`row: ${index(letters.at(-2), i)}`);
  if (letters.length) parts.push(`column: ${index(letters.at(-1), j)}`);
  return parts.join("; ");
}

// A link to a cell: its name and its indices.
function link(cell) {
  const v = variable(cell.key), of = cell.gradient ? "gradient" : "value";
  const go = () => {
    if (!shown().includes(of)) setView("both");
    choose({ key: cell.key, of, at: cell.at }, { pin: true, go: true });
  };
  const title = `${of === "gradient" ? "gradient of " : ""}${name(v)}, ${where(cell.key, cell.at)}`;
  const button = made("button", { type: "button", onclick: go, title });
  button.append(cell.gradient ? "∂" : "", formula(v.tex, "tex"), made("sub", {}, where(cell.key, cell.at, true)), made("span", { class: "hidden" }, ` ${title}`));
  return button;
}

const MOST = 6;  // so many terms are written out

// A number as a factor: a negative one in parentheses if it is not the first.
const factor = (x, first) => (x < 0 && !first ? `(${short(x)})` : short(x));

// A term: its cells, and its numbers.
function written(term) {
  if (term.how === "mean") return [["− the mean of the row"], ""];
  if (term.how === "exp")
    return [["exp(", link(term.cells[0]), " − most)"], `exp(${difference(term.cells[0].value, term.shift)})`];
  const cells = term.cells.flatMap((c, i) => (i ? [" · ", link(c)] : [link(c)]));
  const numbers = term.cells.map((c, i) => factor(c.value, i === 0 && term.factor === 1));
  if (term.factor === -1) return [["− ", ...cells], `− ${numbers.join(" × ")}`];
  if (term.factor !== 1) numbers.unshift(short(term.factor));
  return [cells, numbers.length > 1 ? numbers.join(" × ") : ""];
}

// The terms of a sum, the largest ones written out, and their sum.
function sumTable(terms, sum) {
  const table = made("table"), order = [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const count = terms.length === MOST + 1 ? MOST + 1 : MOST;  // "1 more term" takes a line, too
  const row = (kind, ...cells) => table.append(made("tr", { class: kind }, ...cells.map((c) => made("td", {}, ...[c].flat()))));
  for (const term of order.slice(0, count)) {
    const [cells, numbers] = written(term);
    row("", cells, numbers, short(term.value));
  }
  const rest = order.slice(count);
  if (rest.length) row("", `+ ${rest.length} more terms`, "", short(rest.reduce((s, t) => s + t.value, 0)));
  if (terms.length > 1) row("sum", "the sum", "", short(sum));
  return table;
}

// Does a sum agree with its cell, as far as 32-bit numbers do?
function agrees(found, cell, terms) {
  if (found === cell || (Number.isNaN(cell) && Number.isNaN(found))) return true;
  const large = Math.max(Math.abs(cell), ...terms.map((t) => Math.abs(t.value)));
  return Math.abs(found - cell) <= 1e-5 * large;
}

function verdict(found, cell, terms) {
  return made("p", { class: "agrees" }, agrees(found, cell, terms) ? "✓ This is the number in the map." : `✗ The map has ${short(cell)}.`);
}

function showCell() {
  const panel = byId("cell"), cell = page.chosen;
  panel.replaceChildren(made("button", { id: "close", type: "button", onclick: () => choose(null, { pin: true }) || panel.classList.add("shut") }, "close"));
  if (!cell) { panel.append(...help()); return; }
  const v = variable(cell.key), value = arrayOf(cell.key, cell.of).data[place(arrayOf(cell.key, cell.of), ...cell.at)];
  const title = made("h2", {}, cell.of === "gradient" ? "∂𝓛/∂" : cell.of === "change" ? "change of " : "", formula(v.tex, "tex"),
    v.of ? `, ${v.of} ` : " ", made("span", { class: "eq" }, v.equation));
  panel.append(title, made("p", { class: "soft" }, where(cell.key, cell.at) || "one number"), made("p", { class: "value" }, short(value)));
  if (cell.of === "value") showValue(panel, v, cell, value);
  else if (cell.of === "gradient") showGradient(panel, v, cell, value);
  else showChange(panel, v, cell, value);
  const other = cell.of === "value" ? "gradient" : "value";
  if (arrayOf(cell.key, other)) panel.append(made("p", {}, made("button", { type: "button", onclick: () => {
    if (page.view !== "both") setView("both");
    choose({ ...cell, of: other }, { pin: true });
  } }, other === "gradient" ? "Show its gradient" : "Show its value")));
}

// A weight of attention, as a sentence.
function attention(v, [h, i, m], value) {
  if (!v.key.endsWith("weights")) return null;
  const [, rows, columns] = v.letters, other = rows !== columns ? " of the source" : "";
  const next = pair && rows === "n_output" && page.tokens[i + 1], about = next ? `, after which ${tokenAt(rows, i + 1)} is to be predicted,` : "";
  return made("p", {}, `${tokenAt(rows, i)} (position ${i + 1})${about} gives ${short(100 * value)} % of its attention in head ${h + 1} to `
    + `${tokenAt(columns, m)} (position ${m + 1}${other}).`);
}

function showValue(panel, v, cell, value) {
  panel.append(formula(v.formula));
  const meeting = attention(v, cell.at, value);
  if (meeting) panel.append(meeting);
  if (v.weight !== null) {
    panel.append(made("p", {}, `A weight: training found it, no operation computes it.`));
    return;
  }
  const found = page.model.explain(page.state, cell.key, cell.at);
  if (found.terms.length) panel.append(made("h3", {}, "Where it comes from"), sumTable(found.terms, found.sum));
  if (found.finish?.words) panel.append(made("p", {}, `${found.terms.length ? "then " : ""}${found.finish.words}`
    + `${found.terms.length ? `: ${short(found.value)}` : ""}.`));
  if (found.finish?.kind !== "none") panel.append(verdict(found.value, value, found.terms));
}

function showGradient(panel, v, cell, value) {
  panel.append(made("p", {}, `If this number grew by 0.001, the loss would change by about ${short(value * 1e-3)}.`));
  if (cell.key === "loss") { panel.append(made("p", {}, "Here the way back begins: ∂𝓛/∂𝓛 = 1.")); return; }
  const parts = page.model.explainGradient(page.state, cell.key, cell.at), terms = parts.flatMap((p) => p.terms);
  for (const { operation, slot, terms: own, sum } of parts) {
    const to = variable(operation.output);
    panel.append(made("h3", {}, "from ", formula(to.tex, "tex"), to.of ? ` of ${to.of}, ` : ", ", made("span", { class: "eq" }, pair ? `back through ${to.equation}` : `(17) through ${/^\(/.test(to.equation) ? "" : "the norm "}${to.equation}`)),
      formula(operation.backward[slot]));
    if (own.length) panel.append(sumTable(own, sum));
    else panel.append(made("p", { class: "soft" }, "nothing: this cell takes no part"));
  }
  const total = parts.reduce((s, p) => s + p.sum, 0);
  if (parts.length > 1) panel.append(made("p", {}, `Together: ${parts.map((p) => short(p.sum)).join(" + ")} = ${short(total)}`.replaceAll("+ −", "− ")));
  panel.append(verdict(total, value, terms));
}

function showChange(panel, v, cell, value) {
  const { how, gradients, before, moments, earlier, clip } = page.last, at = place(before[cell.key], ...cell.at);
  const g = gradients[cell.key].data[at], w = before[cell.key].data[at], rows = [["gradient g", short(g)]];
  if (clip < 1) rows.push([`g, all gradients scaled by ${short(clip)}`, short(g * clip)]);
  let change = -how.lr * (g * clip + how.weight_decay * w);
  if (how.optimizer === "adamw") {
    const m = moments[cell.key].m[at], s = moments[cell.key].v[at], t = moments.step, [b1, b2] = how.betas;
    const mean = m / (1 - b1 ** t), size = s / (1 - b2 ** t);
    rows.push([`m = ${b1} × ${short(earlier[cell.key]?.m[at] ?? 0)} + ${short(1 - b1)} g`, short(m)],
      [`v = ${b2} × ${short(earlier[cell.key]?.v[at] ?? 0)} + ${short(1 - b2)} g²`, short(s)],
      [`m̂ = m / (1 − ${b1}${raised(t)})`, short(mean)], [`v̂ = v / (1 − ${b2}${raised(t)})`, short(size)],
      [`−ρ m̂ / (√v̂ + ε), ρ = ${short(how.lr)}`, short(-how.lr * mean / (Math.sqrt(size) + how.eps))],
      [`−ρ × decay ${how.weight_decay} × ${short(w)}`, short(-how.lr * how.weight_decay * w)]);
    change = -how.lr * mean / (Math.sqrt(size) + how.eps) - how.lr * how.weight_decay * w;
  } else rows.push([`−ρ g, ρ = ${short(how.lr)}: equation (18)`, short(change)]);
  panel.append(made("h3", {}, how.optimizer === "adamw" ? "What AdamW did" : "What (18) did"),
    made("table", {}, ...rows.map(([a, b]) => made("tr", {}, made("td", {}, a), made("td", {}, b)))),
    verdict(change, value, [{ value: w }]));
}

// The scale of all maps.
function legend() {
  const shades = Float32Array.from({ length: 121 }, (_, i) => Math.sign(i - 60) * ((i - 60) / 60) ** 2);
  const scale = made("canvas", { role: "img", "aria-label": "blue: negative; orange: positive" });
  page.scale = () => paint(scale, { rows: 1, columns: 121, data: shades }, 0, 1, false, page.colours);
  return made("div", { class: "legend" }, "− largest", scale, "+ largest",
    made("span", {}, "Blue is negative, orange positive, grey no number. The largest number of each map is written above it; "
      + "a shade is the square root of the part of that. A square is a number, in every map; a single row is drawn higher, and a short attention map larger, with its words."));
}

function help() {
  return [made("h2", {}, "Every number explains itself"),
    made("p", {}, "Point at a cell of a map, or tap it: the cells that meet in it are framed, and the sum is written here. "
      + "A click keeps it, and the names in the sum lead to their cells."),
    made("p", {}, "With the keyboard: Tab to a map, then the arrow keys. Page Down goes to the next map, Escape lets go.")];
}

// -------------------------------------------------------------------------------------------------------------- tokens

function showTokens() {
  const strip = byId("tokens"), { losses: { data: losses }, q } = page.state.values, first = pair ? "y₀, which begins every target" : "the first token";
  strip.replaceChildren(...page.tokens.map((t, i) => {
    const own = i ? losses[i - 1] : NaN, told = i ? `loss ${short(own)}: predicted with ${short(100 * q.data[place(q, 0, i - 1, t)])} %` : first;
    const button = made("button", { type: "button", title: told, "aria-label": `${word(t)}, ${told}`, "aria-pressed": String(followed("tokens", i)) }, word(t));
    button.style.setProperty("--loss", i ? Math.min(1, own / 6).toFixed(3) : 0);
    button.addEventListener("click", () => { followToken("tokens", i); strip.querySelectorAll("button")[i].focus(); });
    return button;
  }));
  const labels = page.tokens.map(word), blank = labels.includes("␣") ? "␣ is a blank, here a token of its own. " : labels.some((t) => t[0] === "␣") ? "␣ is the blank before a word. " : "";
  byId("tokens-about").textContent = `${page.tokens.length} of C = ${sizes.C} tokens. ${blank}The bar under a token is the loss of predicting it. `
    + (page.follow === null ? "Choose one to follow its row through all maps." : `Position ${page.follow + 1} is followed: its row is dashed in all maps.`);
  byId("loss-said").textContent = page.tokens.length > 1 ? loss().toFixed(3) : "–";
  if (pair) showSource();
}

const followed = (side, i) => page.side === side && page.follow === i;

// Follow a token through the maps, or let go of it.
function followToken(side, i) {
  Object.assign(page, { follow: followed(side, i) ? null : i, side });
  showTokens();
  light();
}

// The model's own continuation of the first quarter of the text, likeliest token by likeliest token, a token at a time
// so that the page stays alive.
let writing = 0;
function write() {
  if (pair) return writeTranslation();
  const own = ++writing, begin = page.tokens.slice(0, Math.max(1, Math.ceil(page.tokens.length / 4)));
  const tokens = [...begin], end = Math.min(sizes.C, Math.max(begin.length + 12, page.tokens.length));
  const said = byId("writes"), { weights } = page;
  const go = () => {
    if (own !== writing) return;
    if (tokens.length >= end) {
      said.replaceChildren("After ", made("b", {}, tokenizer.decode(begin)), " this model writes: ", made("b", {}, tokenizer.decode(tokens.slice(begin.length))));
      compareSteps(own);
      return;
    }
    work.ask({ kind: "forward", weights, read: read(tokens) }, ({ logits }) => {
      tokens.push(sampled(known(logits), 0, 0, 0));
      setTimeout(go);
    });
  };
  setTimeout(go, 30);
}

const lastRow = (L) => L.data.slice((L.rows - 1) * L.columns);
// The unknown token and special tokens are never written, except STOP.
function known(logits) {
  return Float32Array.from(logits, (x, t) => (t > tokenizer.unknown || t === pair?.stop ? x : -Infinity));
}

// ------------------------------------------------------------------------------------------------------ the next token

const temperature = () => Number(byId("temperature").value), topK = () => Number(byId("top-k").value);

function showNext() {
  if (!page.state) return;
  const logits = known(lastRow(page.state.values.L)), heat = temperature(), k = topK();
  byId("temperature-said").textContent = heat.toFixed(1);
  byId("top-k-said").textContent = k || "all";
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  const kept = heat === 0 ? order.slice(0, 1) : k ? order.filter((t) => logits[t] >= logits[order[Math.min(k, order.length) - 1]]) : order;
  const weights = kept.map((t) => (heat === 0 ? 1 : Math.exp((logits[t] - logits[order[0]]) / heat)));
  const total = weights.reduce((s, w) => s + w, 0), full = unended(page.tokens).length >= longest;
  byId("bars").replaceChildren(...kept.slice(0, 6).map((t, i) => {
    const p = weights[i] / total, piece = word(t);
    const bar = made("i");
    bar.style.setProperty("--p", p.toFixed(4));
    return made("li", {}, made("button", { type: "button", disabled: full, title: "Append it", onclick: () => whenFree("append", () => append([t])) },
      made("span", {}, piece), bar, made("em", {}, `${(100 * p).toFixed(1)} %`)));
  }));
  byId("append").disabled = byId("append-ten").disabled = full;
}

// Tokens after those of the text, or after others; then `then`.
function append(added, begun = unended(page.tokens), then = () => {}) {
  const tokens = [...begun, ...added];
  byId("text").value = pair ? tokenizer.decode(tokens).trim() : tokenizer.decode(tokens);
  notice(unended(tokens).length < longest ? "" : pair ? `The target is as long as the model takes: n_max = ${longest}.` : `The context is full: C = ${longest} tokens.`);
  compute({ tokens, losses: [] }, then);
}

// So many tokens by chance, or the likeliest at temperature 0; none after STOP.
function appendSampled(count, tokens = []) {
  const begun = unended(page.tokens);
  if (!count || begun.length + tokens.length >= longest || (pair && tokens.at(-1) === pair.stop)) { append(tokens); return; }
  ask({ kind: "forward", weights: page.weights, read: read([...begun, ...tokens]) }, ({ logits }) => {
    appendSampled(count - 1, [...tokens, sampled(known(logits), temperature(), topK(), Math.random())]);
  });
}

// ------------------------------------------------------------------------------------------------------------ learning

// The settings of a step, as the controls say.
function how() {
  const optimizer = byId("optimizer").value, own = data.settings, same = optimizer === own.optimizer;
  const middle = same ? own.lr / 2 : optimizer === "sgd" ? 0.05 : 0.0075;  // half of the training's largest rate
  const lr = middle * 10 ** (4 * (Number(byId("rate").value) - 0.5));
  if (optimizer === "sgd") return { optimizer, lr, weight_decay: same ? own.weight_decay : 0, clip: same ? own.clip : 0 };
  return { ...own, optimizer, lr, weight_decay: same ? own.weight_decay : 0.1 };
}

function learnSteps(count, then = () => {}) {
  if (page.tokens.length < 2) return notice(pair ? "The target has no word, and so no loss: type one, then the model can learn it."
    : "One token has no loss: type a longer text, then the model can learn it.");
  const begun = { at: page.at, weights: page.weights, moments: page.moments, last: page.last, trail: page.trail };
  const { weights, moments, state } = page, trail = page.trail ?? [loss()];
  ask({ kind: "learn", weights, moments, state, how: how(), count, read: read(page.tokens) }, (found) => {
    if (found.stopped) notice("This step would make a weight infinite: choose a smaller rate ρ. Nothing was changed by it.");
    if (!found.losses.length) return;
    page.history.push(begun);
    if (page.history.length > 50) page.history.shift();
    Object.assign(page, { weights: found.weights, moments: found.moments, last: found.last, state: found.state, trail: [...trail, ...found.losses] });
    if (page.view === "values") setView("both", false);
    keepingPlace(showAll);
    then();
  });
  return true;
}

function undo(then) {
  if (!page.history.length) return;
  const before = page.history.pop();
  byId("step").value = before.at;
  compute(before, then);
}

function showLearning() {
  byId("rate-said").textContent = short(how().lr);
  byId("undo").disabled = !page.history.length;
  const told = (page.trail ?? []).slice(-12).map((x) => x.toFixed(2)).join(" → ");
  byId("learned").textContent = page.trail ? `Loss of the ${pair ? "pair" : "text"}: ${told}` : "No step yet. The maps then show each weight’s change, too.";
}

// ---------------------------------------------------------------------------------------------------- through training

function goTo(number) {
  if (number === page.at && !page.trail) return;
  page.history.push({ at: page.at, weights: page.weights, moments: page.moments, last: page.last, trail: page.trail });
  compute({ at: number, weights: weightsOf(number), moments: {}, last: null, trail: undefined });
}

function showTraining() {
  const { step } = data.models[page.at], words = step.toLocaleString("en");
  byId("step-said").textContent = page.trail ? `${words} + ${page.trail.length - 1}` : words;
  byId("step").setAttribute("aria-valuetext", `after ${words} steps of training`);
  drawCurve();
}

// The loss of this text for each stored model, computed while nothing else happens.
function compareSteps(own) {
  if (page.tokens.length < 2 || page.losses.length === data.models.length) return;
  work.ask({ kind: "forward", weights: weightsOf(page.losses.length), read: read(page.tokens) }, (result) => {
    if (own !== writing) return;
    page.losses.push(result.loss);
    if (page.losses.length === data.models.length) drawCurve();
    else setTimeout(() => own === writing && compareSteps(own));
  });
}

function drawCurve() {
  const svg = byId("curve"), last = Math.max(1, ...data.models.map((m) => m.step), ...data.losses.map((p) => p[0]));
  const wide = svg.clientWidth || 300, high = svg.clientHeight || 120, left = 26, bottom = high - 18;
  svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  const top = 1.05 * Math.max(1, ...data.losses.map((p) => p[1]), ...page.losses);
  const x = (step) => left + (wide - left - 24) * Math.log1p(step) / Math.log1p(last), y = (value) => bottom - (bottom - 4) * value / top;
  const line = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const svgElement = (name, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, v);
    element.textContent = text;
    return element;
  };
  const drawn = (d, attributes) => svgElement("path", { d, ...attributes });
  const number = (x, y, text, anchor) => svgElement("text", { x, y, "text-anchor": anchor }, text), at = x(data.models[page.at].step);
  const losses = termsOf(4, (i) => Math.ceil(top / 4) * i).filter((value) => value < top), steps = [0];
  for (let step = wide < 500 && last > 1000 ? 10 : 1; step <= last; step *= 10) steps.push(step);
  svg.replaceChildren(...losses.map((value) => number(left - 6, y(value) + 4, value, "end")), ...steps.map((step) => number(x(step), high - 4, step.toLocaleString("en"), "middle")),
    number(left + 4, 12, "loss", "start"), number(wide - 4, bottom - 4, "step", "end"), drawn(`M${left} 0V${bottom}H${wide}`, { class: "kept" }),
    ...data.models.map((m) => drawn(`M${x(m.step)} ${bottom}v-6`, { class: "kept" })), drawn(line(data.losses), {}),
    ...(page.losses.length === data.models.length ? [drawn(line(data.models.map((m, i) => [m.step, page.losses[i]])), { "stroke-dasharray": "4 3", class: "own" })] : []),
    drawn(`M${at} 0V${bottom}`, { class: "cursor" }));
  const own = page.losses.length === data.models.length && data.models.length > 1 ? ` This ${pair ? "pair" : "text"}’s loss, dashed: ${short(page.losses[0])} at step ${data.models[0].step}, ${short(page.losses.at(-1))} at the end.` : "";
  const said = data.losses.length ? `The loss of training against the step (logarithmic, from ${data.losses[0][0]} to ${last.toLocaleString("en")}); the upright line is where the weights are from.` : "The page holds no losses of training.";
  byId("curve-said").textContent = `${said}${own}`;
  svg.setAttribute("aria-label", `${said}${own}`);
}

// --------------------------------------------------------------------------------------------------------- the address

let remembering = 0;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const parts = { step: data.models[page.at].step, text: tokenizer.decode(page.tokens), view: page.view };
    if (pair) Object.assign(parts, { source: tokenizer.decode(page.source).trim(), text: parts.text.trim() });
    if (pair && unended(page.tokens) === page.tokens) parts.ended = "no";
    if (tour.at) parts.tour = tour.at;
    else if (page.pinned) parts.cell = [page.pinned.key, page.pinned.of, ...page.pinned.at.map((i) => i + 1)].join(":");
    const address = "#" + new URLSearchParams(parts);
    if (address !== location.hash) try { history.replaceState(null, "", address); } catch { /* a page without an address */ }
  }, 150);
}

// Go where the address says; what it names and the page lacks is said, and left out.
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1)), faults = [];
  if (tour.at) Object.assign(page, { follow: null });
  tour.at = 0;
  if (asked.has("step")) {
    const number = data.models.findIndex((m) => String(m.step) === asked.get("step"));
    if (number < 0) faults.push(`The page has no weights of step ${asked.get("step")}.`);
    else { Object.assign(page, { at: number, weights: weightsOf(number), moments: {}, last: null, trail: undefined }); byId("step").value = number; }
  }
  if (["values", "gradients", "both"].includes(asked.get("view"))) setView(asked.get("view"), false);
  if (asked.has("text")) byId("text").value = asked.get("text");
  if (pair) byId("source").value = asked.get("source") ?? byId("source").value;
  const last = () => goToCell(asked, faults);
  const taken = take(byId("text").value, () => {
    if (pair && asked.get("ended") === "no" && page.tokens.length > 1) append([], undefined, last);  // without STOP
    else last();
  });
  if (taken) return;
  faults.push(byId("notice").textContent);
  if (pair) byId("source").value = page.source ? tokenizer.decode(page.source).trim() : data.source;
  if (page.tokens.length) { compute({}, last); return; }
  byId("text").value = data.text;
  take(data.text, last);
}

function goToCell(asked, faults) {
  if (asked.has("cell")) {
    const [key, of, ...at] = asked.get("cell").split(":"), cell = { key, of, at: at.map((i) => Number(i) - 1) };
    const there = variable(key) && ["value", "gradient", "change"].includes(of) && at.length === 3 && cell.at.every(Number.isInteger) && within(cell);
    if (there) {
      if (!shown().includes(of)) setView("both");
      choose(cell, { pin: true, go: true });
    } else faults.push(`There is no cell ${asked.get("cell")}.`);
  }
  if (asked.has("tour") && !openStop(Number(asked.get("tour")))) faults.push(`There is no stop ${asked.get("tour")}.`);
  if (faults.length) notice(faults.join(" "));
}

// -------------------------------------------------------------------------------------------------------------- events

function setView(view, draw = true) {
  page.view = view;
  document.querySelector(`input[name=view][value=${view}]`).checked = true;
  if (draw && page.state) { keepingPlace(drawMaps); remember(); }
}

// Do something that changes the sizes of maps, so that the first map on the screen stays where it is.
function keepingPlace(change) {
  const top = byId("bar").getBoundingClientRect().bottom;
  const first = [...figures.values()].find(({ figure }) => figure.getBoundingClientRect().bottom > top)?.figure;
  const before = first?.getBoundingClientRect().top;
  change();
  if (first && before < innerHeight) scrollBy(0, first.getBoundingClientRect().top - before);
}

// An arrow key moves the chosen cell of a map; head by head to the left and right.
function moved(event) {
  const maps = event.target.closest(".maps");
  if (tour.at && tourKey(event)) return;
  if (event.key === "Escape") { choose(null, { pin: true }); return; }
  if (!maps || maps.tabIndex < 0) return;
  if (event.key === "PageDown" || event.key === "PageUp") {
    const all = [...document.querySelectorAll(".maps[tabindex]")], to = all[all.indexOf(maps) + (event.key === "PageDown" ? 1 : -1)];
    if (to) { to.focus(); to.scrollIntoView({ block: "center" }); event.preventDefault(); }
    return;
  }
  const key = maps.closest("figure").dataset.key, of = maps.dataset.of, array = arrayOf(key, of);
  const here = page.chosen?.key === key && page.chosen.of === of ? [...page.chosen.at] : null;
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!steps) return;
  event.preventDefault();
  let at = here ?? [0, 0, 0];
  if (here) {
    const [down, right] = turned(array) ? [steps[1], steps[0]] : steps;
    at[1] += down;
    at[2] += right;
    if (at[2] >= array.columns && at[0] + 1 < array.heads) { at[0]++; at[2] = 0; }
    if (at[2] < 0 && at[0] > 0) { at[0]--; at[2] = array.columns - 1; }
    at[1] = Math.min(array.rows - 1, Math.max(0, at[1]));
    at[2] = Math.min(array.columns - 1, Math.max(0, at[2]));
  }
  choose({ key, of, at }, { pin: true });
}

function listen() {
  const submit = () => whenFree("text", () => take(byId("text").value));
  let presses = 0;  // each press learns
  const flow = byId("flow"), dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => { page.colours = palette(dark.matches); drawMaps(); });
  let waiting = null;  // the last place of the pointer, looked at once a frame
  flow.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    if (!waiting) requestAnimationFrame(() => {
      const cell = under(waiting) ?? page.pinned, old = page.chosen;
      waiting = null;
      if (JSON.stringify(cell) !== JSON.stringify(old)) choose(cell);
    });
    waiting = event;
  });
  flow.addEventListener("pointerleave", () => { if (page.chosen !== page.pinned) choose(page.pinned); });
  flow.addEventListener("click", (event) => {
    const cell = under(event);
    if (cell) { choose(cell, { pin: true }); event.target.closest(".maps").focus({ preventScroll: true }); }
  });
  addEventListener("keydown", moved);
  byId("text-form").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  byId("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); submit(); } });
  byId("append").addEventListener("click", () => whenFree("append", () => appendSampled(1)));
  byId("append-ten").addEventListener("click", () => whenFree("append", () => appendSampled(pair ? longest : 10)));
  for (const id of ["temperature", "top-k"]) byId(id).addEventListener("input", showNext);
  for (const id of ["rate", "optimizer"]) byId(id).addEventListener("input", showLearning);
  byId("optimizer").addEventListener("change", () => { page.moments = {}; });
  byId("learn").addEventListener("click", () => whenFree(`learn ${++presses}`, () => learnSteps(1)));
  byId("learn-ten").addEventListener("click", () => whenFree(`learn ${++presses}`, () => learnSteps(10)));
  byId("undo").addEventListener("click", () => whenFree("undo", () => undo()));
  byId("step").addEventListener("input", () => whenFree("step", () => goTo(Number(byId("step").value))));
  for (const radio of document.querySelectorAll("input[name=view]")) radio.addEventListener("change", () => setView(radio.value));
  byId("size").addEventListener("input", () => { page.size = Number(byId("size").value); keepingPlace(drawMaps); });
  addEventListener("hashchange", () => whenFree("address", follow));
}

function begin() {
  page.colours = palette(matchMedia("(prefers-color-scheme: dark)").matches);
  page.weights = weightsOf(page.at);
  build();
  page.size = innerWidth > 900 ? 5 : 4;
  byId("size").value = page.size;
  byId("step").max = data.models.length - 1;
  byId("step").value = page.at;
  byId("text").value = data.text;
  byId("optimizer").value = data.settings.optimizer;
  const letters = Object.entries(sizes).map(([s, size]) => `${s} = ${size.toLocaleString("en")}`).join(", ");
  const model = pair ? "The encoder-decoder of documents 000 and 004" : "The decoder of document 003, equations (1) to (18)";
  const n = pair ? "n_input and n_output are the numbers of tokens of the source and of what the decoder reads" : "n is the number of tokens of the text";
  byId("about").textContent = `${model}: ${letters}; ${weightCount.toLocaleString("en")} weights${causal ? "" : "; without the mask"}. `
    + `It computes in this page, without dropout; ${n}.`;
  if (pair) buildPair();
  if (data.models.length === 1) document.querySelector(".steps").hidden = true;
  if (data.models.length === 1 && !data.losses.length) byId("training-card").hidden = true;
  if (innerWidth <= 900) byId("cell").classList.add("shut");
  listen();
  follow();
}

begin();
