// Steps through a backward pass. All content stands in the page as JSON; this script only puts it in its place.

// ------------------------------------------------------------------------------------------------------- arrays

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Red, green and blue of "#rgb" or "#rrggbb". */
function rgb(hex) {
  const h = hex.length === 4 ? [...hex.slice(1)].map((c) => c + c).join("") : hex.slice(1);
  return [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16));
}

const CELL = 7; // pixels of the picture for a number, each way

/** A heat map: each number is a byte, 1 to 255 with 0 at 128; byte 0 is NaN. Towards 0 the colour fades into the paper.
 *  A number below 0 has a bar, like a minus sign, and NaN is checkered, so the picture reads without colours. */
function heatMap(array) {
  const canvas = document.createElement("canvas"), width = array.columns * CELL;
  canvas.width = width;
  canvas.height = array.rows * CELL;
  canvas.style.width = `${array.columns > 30 ? width : 2 * width}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", array.text);
  const paint = canvas.getContext("2d");
  const image = paint.createImageData(width, canvas.height);
  const [paper, low, high] = ["--paper", "--low", "--high"].map((name) => rgb(colour(name)));
  const bytes = array.bytes, middle = (CELL - 1) / 2;
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < width; x++) {
      const byte = bytes.charCodeAt(Math.floor(y / CELL) * array.columns + Math.floor(x / CELL));
      const [down, right] = [y % CELL, x % CELL], v = (byte - 128) / 127, end = v < 0 ? low : high;
      const bar = v < 0 && down === middle && right > 0 && right < CELL - 1;
      const strength = byte ? (bar ? 0 : Math.abs(v)) : (down + right) % 2;
      for (let c = 0; c < 3; c++) {
        image.data[4 * (y * width + x) + c] = paper[c] + ((byte ? end[c] : 128) - paper[c]) * strength;
      }
      image.data[4 * (y * width + x) + 3] = 255;
    }
  }
  paint.putImageData(image, 0, 0);
  return canvas;
}

/** A table of numbers, with words at its rows and columns where there are some. */
function table(rows, words) {
  const element = document.createElement("table");
  const head = (line, text, scope) => {
    const cell = document.createElement("th");
    cell.scope = scope;
    cell.textContent = text;
    line.append(cell);
  };
  if (words.columns) {
    const line = element.insertRow();
    if (words.rows) line.insertCell().className = "corner";
    for (const word of words.columns) head(line, word, "col");
  }
  rows.forEach((row, i) => {
    const line = element.insertRow();
    if (words.rows) head(line, words.rows[i], "row");
    for (const number of row) line.insertCell().textContent = number;
  });
  return element;
}

/** The matrices of an array, beside each other with their names, or the one that it is. */
function matrices(array) {
  const words = array.words ?? {}, n = words.apart?.length ?? 1;
  const one = (i) => {
    if (!array.heat) {
      const rows = array.numbers.length / n;
      return table(array.numbers.slice(i * rows, (i + 1) * rows), words);
    }
    const rows = array.rows / n, size = rows * array.columns;
    return heatMap({ ...array, rows, bytes: atob(array.heat).slice(i * size, (i + 1) * size) });
  };
  if (n === 1) return one(0);
  const element = document.createElement("div");
  element.className = "apart";
  words.apart.forEach((name, i) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    caption.textContent = name;
    figure.append(one(i), caption);
    element.append(figure);
  });
  return element;
}

/** Put the arrays and the mathematics into a fragment, where it has places for them. */
function fill(fragment) {
  for (const place of fragment.querySelectorAll("[data-math]")) place.innerHTML = data.math[place.dataset.math];
  for (const place of fragment.querySelectorAll("[data-array]")) {
    const array = data.arrays[place.dataset.array];
    place.append(matrices(array));
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = array.text;
    if (array.heat) {
      const swatches = [["low", "below 0"], ["high", "above 0"]].map(([name, words]) => {
        const swatch = document.createElement("span");
        swatch.className = `swatch ${name}`;
        return [swatch, ` ${words} `];
      });
      note.append(" · ", ...swatches.flat());
    }
    if (array.text) place.append(note);
  }
  return fragment;
}

// -------------------------------------------------------------------------------------------------------- steps

let order = []; // the steps: each is a frame, and the closed group whose last frame it is, or null
let at = 0;

/** The steps of the scene: hidden views are none, and a closed group is one, shown by the last of its frames. */
function steps() {
  const found = [];
  data.frames.forEach(({ at: key }, frame) => {
    if (isHidden(key)) return;
    const group = closedGroup(key), before = found[found.length - 1], back = frame >= data.turn;
    if (group && before?.group === group && back === before.frame >= data.turn) before.frame = frame;
    else found.push({ frame, group });
  });
  return found;
}

/** The last frame that belongs to a step: what hidden views do happens in the step before. */
const timeOf = (step) => (step + 1 < order.length ? order[step + 1].frame - 1 : data.frames.length - 1);

/** The step in which a frame happens. */
const stepOf = (frame) => Math.max(0, order.findIndex((_, step) => frame <= timeOf(step)));

/** The first step of the backward pass. */
const turn = () => order.findIndex((step) => step.frame >= data.turn);

/** The title of a step: Forward, 2 of 3. */
function phaseOf(step) {
  if (step === order.length - 1) return "The end";
  const first = turn();
  if (step < first) return `Forward, ${step + 1} of ${first}`;
  return `Backward, ${step + 1 - first} of ${order.length - 1 - first}`;
}

/** A step as an element for the panel, or for print. */
function content(step, element) {
  const { frame, group } = order[step], { what, html, group: inside } = data.frames[frame];
  element.innerHTML = `<p class="phase"></p><h2></h2><p class="closed"></p>${html}`;
  element.querySelector(".phase").textContent = phaseOf(step);
  element.querySelector(".phase").classList.toggle("backward", frame >= data.turn);
  element.querySelector("h2").textContent = what;
  const path = group && data.groups[group].path;
  element.querySelector(".closed").textContent = group
    ? `${path} is closed: its operations are one step, and the last of them stands here. Open it in the picture.`
    : inside ? `in ${inside}` : "";
  return fill(element);
}

/** Show a step, counted from 0. */
function show(number) {
  at = Math.max(0, Math.min(order.length - 1, number));
  const { frame, group } = order[at], { at: key, what, said } = data.frames[frame], last = order.length - 1;
  content(at, find("panel"));
  find("panel").scrollTop = 0;
  light(timeOf(at), key, group);
  if (key === null) find("graph").scrollTop = 0; // the leaves stand there
  scrollTo(group ?? key);
  const words = `${phaseOf(at)}: ${said ?? what}`;
  find("slider").max = last;
  find("slider").value = at;
  find("slider").setAttribute("aria-valuetext", words);
  find("count").textContent = `${at + 1} / ${last + 1}`;
  find("said").textContent = words;
  for (const name of ["first", "back"]) find(name).disabled = at === 0;
  for (const name of ["next", "end"]) find(name).disabled = at === last;
  if (at === last) play(false);
  link();
}

/** Draw another scene, and stay at the same frame. */
function change(open, views) {
  const frame = order.length ? order[at].frame : 0;
  picture.open = open;
  picture.views = views;
  find("views").checked = Boolean(views);
  find("all").checked = open === "all";
  draw(pick);
  order = steps();
  show(stepOf(frame));
}

/** A click on a box goes to its step; on a group it opens the group, or closes it. */
function pick(key) {
  const group = data.groups[key];
  if (!group) return show(stepOf(data.values[key].known[at < turn() ? 0 : 1]));
  const isOpen = picture.open === "all" || picture.open === key || isAround(key, picture.open);
  change(isOpen ? group.parent : key, picture.views);
  return document.querySelector(`[data-group="${key}"], #${key}`)?.focus();
}

const go = {
  first: () => show(0),
  back: () => show(at - 1),
  next: () => show(at + 1),
  end: () => show(order.length - 1),
  turn: () => show(turn()),
};
for (const [name, action] of Object.entries(go)) {
  find(name).addEventListener("click", () => {
    play(false);
    action();
  });
}
find("slider").addEventListener("input", (event) => {
  play(false);
  show(Number(event.target.value));
});
find("views").addEventListener("change", (event) => change(picture.open, event.target.checked ? "views" : ""));
find("all").addEventListener("change", (event) => change(event.target.checked ? "all" : "", picture.views));
find("views-label").hidden = !("views" in data.scenes);
find("all-label").hidden = !Object.keys(data.groups).length;

let playing = null;
function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => show(at + 1), 2000) : null;
  find("play").setAttribute("aria-pressed", String(on));
  find("play").textContent = on ? "stop" : "play";
}
find("play").addEventListener("click", () => {
  if (playing === null && at === order.length - 1) show(0);
  play(playing === null);
});

const keys = { ArrowRight: "next", ArrowLeft: "back", ArrowDown: "next", ArrowUp: "back", Home: "first", End: "end",
  PageDown: "next", PageUp: "back", "+": "larger", "=": "larger", "-": "smaller", 0: "fit", p: "play" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
  if (event.target.id === "slider" && event.key.length > 1) return; // the slider handles these keys itself
  // With the focus in the panel or the graph, keys that scroll keep scrolling.
  const scrolls = event.target.closest?.("#panel, #graph") && /^(Arrow(Up|Down)|Home|End|Page)/.test(event.key);
  if (scrolls) return;
  event.preventDefault();
  find(keys[event.key]).click();
});

// A print has all steps, numbered; they are made when printing begins. Its graph is at no step.
window.addEventListener("afterprint", () => show(at));
window.addEventListener("beforeprint", () => {
  light(data.frames.length, null, null);
  find("print").replaceChildren(...order.map((_, step) => content(step, document.createElement("li"))));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(at));
window.addEventListener("resize", () => scrollTo(document.querySelector("#graph .now")?.id));

// ------------------------------------------------------------------------------------------------------ addresses

// The address follows the step, so that a link leads to it: backward.html#step=12, and the number alone does, too.
// The open group and the views stand in it if they are not those that the page begins with.

let linking = null;
function link() {
  clearTimeout(linking);
  linking = setTimeout(() => { // once when the reader pauses: browsers refuse many changes in a row
    const parts = [`step=${at + 1}`];
    const name = picture.open in data.groups ? data.groups[picture.open].path : picture.open || "none";
    if (picture.open !== data.open) parts.push(`open=${encodeURIComponent(name)}`);
    if (picture.views) parts.push("views");
    try {
      history.replaceState(null, "", `#${parts.join("&")}`);
    } catch {
      // a page that stands inside another one may not have an address
    }
  }, 200);
}

function follow() {
  clearTimeout(linking);
  const hash = location.hash.slice(1), asked = new URLSearchParams(/^\d+$/.test(hash) ? `step=${hash}` : hash);
  const named = asked.get("open"), group = Object.keys(data.groups).find((key) => data.groups[key].path === named);
  const open = named === null ? data.open : named === "all" ? "all" : group ?? "";
  change(open in data.scenes[""] ? open : data.open, asked.has("views") && "views" in data.scenes ? "views" : "");
  show((parseInt(asked.get("step"), 10) || 1) - 1);
}
window.addEventListener("hashchange", follow);
picture.scene = data.scenes[""][data.open];
zoom(1);
const [across, down] = fitting(), least = 0.7; // the text stays readable
picture.scale = Math.min(1, Math.max(least, Math.min(across, down) < least ? across : down));
follow();
document.documentElement.dataset.ready = "yes";
