// Steps through a backward pass. All content stands in the page as JSON; this script only puts it in its place.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const last = data.frames.length - 1;
let at = 0;

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
  const bytes = atob(array.heat), middle = (CELL - 1) / 2;
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

function table(rows) {
  const element = document.createElement("table");
  for (const row of rows) {
    const line = element.insertRow();
    for (const number of row) line.insertCell().textContent = number;
  }
  return element;
}

/** Put the arrays and the mathematics into a fragment, where it has places for them. */
function fill(fragment) {
  for (const place of fragment.querySelectorAll("[data-math]")) place.innerHTML = data.math[place.dataset.math];
  for (const place of fragment.querySelectorAll("[data-array]")) {
    const array = data.arrays[place.dataset.array];
    place.append(array.heat ? heatMap(array) : table(array.numbers));
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

const boxes = [...document.querySelectorAll("#graph .op, #graph .leaf")];
const edges = [...document.querySelectorAll("#graph .edge")];

/** The part of the graph that is known at this step: values once computed, gradients once their node is visited. */
function light(frame) {
  for (const box of boxes) {
    const [forward, backward] = data.known[box.id];
    box.classList.toggle("todo", at < forward);
    box.classList.toggle("now", frame.at === box.id);
    box.querySelector(".gradient")?.classList.toggle("unknown", at < backward);
    box.querySelector(".value")?.classList.toggle("unknown", at < forward);
  }
  for (const edge of edges) {
    const here = edge.dataset.to === frame.at;
    edge.classList.toggle("todo", at < data.known[edge.dataset.to][0]);
    edge.classList.toggle("flow", here);
    edge.classList.toggle("back", here && Boolean(frame.backward));
    edge.querySelector(".share")?.classList.toggle("unknown", at < data.known[edge.dataset.to][1]);
  }
}

/** Bring the node of this step into the middle of the graph's window. */
function scrollTo(id) {
  const box = id && find(id);
  if (!box) return;
  const graph = find("graph"), here = box.getBoundingClientRect(), window_ = graph.getBoundingClientRect();
  graph.scrollLeft += here.left + here.width / 2 - window_.left - window_.width / 2;
  graph.scrollTop += here.top + here.height / 2 - window_.top - window_.height / 2;
}

function show(number) {
  at = Math.max(0, Math.min(last, number));
  const frame = data.frames[at];
  const panel = find("panel");
  panel.innerHTML = frame.html;
  fill(panel);
  panel.scrollTop = 0;
  light(frame);
  scrollTo(frame.at);
  find("slider").value = at;
  find("slider").setAttribute("aria-valuetext", frame.title);
  find("count").textContent = `${at + 1} / ${last + 1}`;
  find("said").textContent = frame.title;
  for (const name of ["first", "back"]) find(name).disabled = at === 0;
  for (const name of ["next", "end"]) find(name).disabled = at === last;
}

const go = { first: () => show(0), back: () => show(at - 1), next: () => show(at + 1), end: () => show(last),
  turn: () => show(data.turn) };
for (const [name, action] of Object.entries(go)) find(name).addEventListener("click", action);
find("slider").addEventListener("input", (event) => show(Number(event.target.value)));
for (const box of boxes) {
  box.addEventListener("click", () => show(at < data.turn ? data.known[box.id][0] : data.known[box.id][1]));
}

const keys = { ArrowRight: "next", ArrowLeft: "back", ArrowDown: "next", ArrowUp: "back", Home: "first", End: "end",
  PageDown: "next", PageUp: "back" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
  if (event.target.id === "slider") return; // the slider handles these keys itself
  // With the focus in the panel or the graph, keys that scroll keep scrolling.
  const scrolls = event.target.closest?.("#panel, #graph") && !/^Arrow(Left|Right)$/.test(event.key);
  if (scrolls) return;
  event.preventDefault();
  go[keys[event.key]]();
});

// A print has all steps, numbered; they are made when printing begins. Its graph is at no step.
window.addEventListener("afterprint", () => show(at));
window.addEventListener("beforeprint", () => {
  light({ at: null });
  if (find("print").childElementCount) return;
  for (const frame of data.frames) {
    const item = document.createElement("li");
    item.innerHTML = frame.html;
    find("print").append(fill(item));
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(at));
window.addEventListener("resize", () => scrollTo(data.frames[at].at));

// A link may lead to a step, by the number that the page shows: backward.html#15.
const linked = () => show((parseInt(location.hash.slice(1), 10) || 1) - 1);
window.addEventListener("hashchange", linked);
linked();
document.documentElement.dataset.ready = "yes";
