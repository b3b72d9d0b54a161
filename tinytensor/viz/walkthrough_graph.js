// The picture of a walkthrough: it draws a scene (which groups are open, are views boxes), lights what is known at a
// step, and is zoomed, moved, and looked over on a small map. All places were computed when the page was written.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

const picture = { open: data.open, views: "", scale: 1, scene: null };

/** The closed group that a value is hidden in, or null. */
function closedGroup(key) {
  if (picture.open === "all" || key === null) return null;
  const isOpen = (group) => group === picture.open || isAround(group, picture.open);
  return data.values[key].groups.find((group) => !isOpen(group)) ?? null;
}

/** Is the group `outer` around the group `inner`? */
function isAround(outer, inner) {
  for (let group = data.groups[inner]?.parent; group; group = data.groups[group].parent) {
    if (group === outer) return true;
  }
  return false;
}

/** Is the value left out, as a view that is a mark on a line? */
const isHidden = (key) => key !== null && !picture.views && data.values[key].view;

// ------------------------------------------------------------------------------------------------------- drawing

/** Draw the scene anew; `pick` is called with the key of a box or group that was chosen. */
function draw(pick) {
  const svg = document.querySelector("#graph svg"), scene = data.scenes[picture.views][picture.open];
  picture.scene = scene;
  const [width, height] = scene.size;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const uses = data.uses[picture.views];
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const frames = scene.frames.map(([key, x, y, w, h]) => {
    const title = escape(data.groups[key].title), width = title.length * 7.4 + 30;
    return `<g class="frame" transform="translate(${x} ${y})"><rect width="${w}" height="${h}" rx="8"/>` +
      `<g class="title" data-group="${key}"><rect x="4" y="4" width="${width}" height="19" rx="4"/>` +
      `<text x="10" y="18">▾ ${title}</text></g></g>`;
  });
  const lines = scene.lines.map(([path, down, up, x, y, used], i) => {
    const [, , , label, mark, words] = uses[used[0]], alone = used.length === 1;
    const text = (kind, down, inside) => `<text class="${kind}" x="${x}" y="${y - down}">${inside}</text>`;
    const marked = mark && alone ? text("mark", 13, `${mark}<title>${words}</title>`) : "";
    const share = label && alone ? text("share", 0, escape(label)) : "";
    return `<g class="edge" data-line="${i}"><path d="${path}"/><path class="tip" d="${down}"/>` +
      `<path class="tip up" d="${up}"/>${marked}${share}</g>`;
  });
  const boxes = scene.boxes.map(([key, x, y]) =>
    data.boxes[key].replace("<g ", `<g transform="translate(${x} ${y})" `));
  svg.innerHTML = [...frames, ...lines, ...boxes].join("");
  for (const box of svg.querySelectorAll("g[id]")) box.addEventListener("click", () => pick(box.id));
  for (const title of svg.querySelectorAll(".title")) {
    asButton(title, `${data.groups[title.dataset.group].path}: close it`, true, () => pick(title.dataset.group));
  }
  for (const box of svg.querySelectorAll(".fold")) {
    asButton(box, `${data.groups[box.id].path}: open it`, false);
  }
  zoom(picture.scale);
  drawMap();
}

/** An element of the picture that is opened and closed by keys, too. */
function asButton(element, label, expanded, click) {
  const attributes = { role: "button", tabindex: "0", "aria-label": label, "aria-expanded": String(expanded) };
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (click) element.addEventListener("click", click);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    element.dispatchEvent(new MouseEvent("click"));
  });
}

/** Show what is known at a time: values once computed, gradients as they grow, lines the way of what they carry. */
function light(time, current, group) {
  const back = current !== null && time >= data.turn;
  find("graph").classList.toggle("backward", back);
  const inStep = (key) => key === current || (group !== null && data.values[key].groups.includes(group));
  for (const box of document.querySelectorAll("#graph g[id]")) {
    const value = data.values[data.groups[box.id]?.output ?? box.id];
    const todo = time < value.known[0], grown = value.sums.filter(([when]) => when <= time).pop();
    box.classList.toggle("todo", todo);
    box.classList.toggle("now", box.id === (group ?? current));
    box.querySelector(".value")?.classList.toggle("unknown", todo);
    const gradient = box.querySelector(".gradient");
    if (gradient) {
      gradient.classList.toggle("unknown", !grown);
      gradient.textContent = (grown ?? value.sums[value.sums.length - 1])[1];
      gradient.classList.toggle("part", Boolean(grown) && time < value.known[1]);
    }
  }
  for (const edge of document.querySelectorAll("#graph .edge")) {
    const uses = picture.scene.lines[edge.dataset.line][5].map((i) => data.uses[picture.views][i]);
    const sent = uses.some(([, , when]) => when >= 0 && when <= time);
    const here = current !== null && uses.some(([, to]) => inStep(to));
    edge.classList.toggle("todo", uses.every(([, to]) => time < data.values[to].known[0]));
    edge.classList.toggle("back", sent);
    edge.classList.toggle("flow", here && (sent || !back));
    edge.querySelector(".share")?.classList.toggle("unknown", !sent);
  }
  drawWindow();
}

// ------------------------------------------------------------------------------------------------- zoom and moves

const graph = find("graph");

/** Set the size of the picture; the point of the window at (x, y) stays where it is. */
function zoom(scale, x = graph.clientWidth / 2, y = graph.clientHeight / 2) {
  const svg = document.querySelector("#graph svg"), [width, height] = picture.scene.size;
  const before = svg.getBoundingClientRect(), window_ = graph.getBoundingClientRect();
  const right = (x + window_.left - before.left) / (before.width || 1);
  const down = (y + window_.top - before.top) / (before.height || 1);
  picture.scale = Math.min(4, Math.max(0.1, scale));
  svg.style.width = `${width * picture.scale}px`;
  svg.style.height = `${height * picture.scale}px`;
  const after = svg.getBoundingClientRect();
  graph.scrollLeft += after.left + right * after.width - window_.left - x;
  graph.scrollTop += after.top + down * after.height - window_.top - y;
  drawWindow();
}

/** The scale at which the picture fits into the window, each way. */
const fitting = () => [graph.clientWidth / picture.scene.size[0], graph.clientHeight / picture.scene.size[1]];

find("larger").addEventListener("click", () => zoom(picture.scale * 1.25));
find("smaller").addEventListener("click", () => zoom(picture.scale / 1.25));
find("fit").addEventListener("click", () => zoom(Math.min(1, ...fitting())));

graph.addEventListener("wheel", (event) => {
  if (event.shiftKey || !event.deltaY) return; // these scroll sideways
  event.preventDefault();
  const window_ = graph.getBoundingClientRect();
  const times = Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)); // with Ctrl: two fingers on a touchpad
  zoom(picture.scale * times, event.clientX - window_.left, event.clientY - window_.top);
}, { passive: false });

// A mouse drags the picture; one finger scrolls it, and two fingers zoom.
let held = null, dragged = false;
graph.addEventListener("pointerdown", (event) => {
  dragged = false;
  if (event.pointerType !== "mouse" || event.button !== 0) return;
  held = [event.clientX, event.clientY, graph.scrollLeft, graph.scrollTop];
});
window.addEventListener("pointermove", (event) => {
  if (!held) return;
  const [x, y, left, top_] = held;
  dragged ||= Math.hypot(event.clientX - x, event.clientY - y) > 4;
  if (!dragged) return;
  graph.scrollLeft = left + x - event.clientX;
  graph.scrollTop = top_ + y - event.clientY;
});
window.addEventListener("pointerup", () => { held = null; });
graph.addEventListener("click", (event) => { if (dragged) event.stopPropagation(); }, true);

let pinch = null;
graph.addEventListener("touchmove", (event) => {
  if (event.touches.length !== 2) { pinch = null; return; }
  event.preventDefault();
  const [a, b] = event.touches, window_ = graph.getBoundingClientRect();
  const width = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  pinch ??= { width, scale: picture.scale };
  const [x, y] = [(a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2];
  zoom(pinch.scale * width / pinch.width, x - window_.left, y - window_.top);
}, { passive: false });
graph.addEventListener("touchend", () => { pinch = null; });

// --------------------------------------------------------------------------------------------------------- the map

const MAP = innerWidth > 760 ? 150 : 80; // pixels of its longer side

/** A small picture of the whole graph. */
function drawMap() {
  const map = find("map"), [width, height] = picture.scene.size, scale = MAP / Math.max(width, height);
  map.setAttribute("viewBox", `0 0 ${width} ${height}`);
  map.style.width = `${width * scale}px`;
  map.style.height = `${height * scale}px`;
  const rects = [["frame", picture.scene.frames], ["box", picture.scene.boxes]].flatMap(([kind, all]) =>
    all.map(([key, x, y, width, height]) =>
      `<rect class="${kind}" data-key="${key}" x="${x}" y="${y}" width="${width}" height="${height}"/>`));
  map.innerHTML = `${rects.join("")}<rect class="window"/>`;
}

/** The part of the graph that stands in the window, on the map; without a map if that is all of it. */
function drawWindow() {
  const map = find("map"), svg = document.querySelector("#graph svg"), scale = picture.scale;
  const frame = map.querySelector(".window");
  if (!frame) return;
  const most = 1.15; // of the window; what is a little larger needs no map
  const fits = svg.clientWidth < most * find("picture").clientWidth && svg.clientHeight < most * graph.clientHeight;
  map.toggleAttribute("hidden", fits);
  const at = { x: graph.scrollLeft, y: graph.scrollTop, width: graph.clientWidth, height: graph.clientHeight };
  for (const [name, value] of Object.entries(at)) frame.setAttribute(name, value / scale);
  const now = document.querySelector("#graph .now")?.id;
  for (const rect of map.querySelectorAll("rect")) rect.classList.toggle("now", rect.dataset.key === now);
}

graph.addEventListener("scroll", drawWindow);
function lookAt(event) {
  const map = find("map").getBoundingClientRect(), scale = picture.scale * picture.scene.size[0] / map.width;
  graph.scrollLeft = (event.clientX - map.left) * scale - graph.clientWidth / 2;
  graph.scrollTop = (event.clientY - map.top) * scale - graph.clientHeight / 2;
}
find("map").addEventListener("pointerdown", (event) => {
  lookAt(event);
  find("map").setPointerCapture(event.pointerId);
});
find("map").addEventListener("pointermove", (event) => { if (event.buttons) lookAt(event); });

/** Bring a box into the middle of the window. */
function scrollTo(id) {
  const box = id && find(id);
  if (!box) return;
  const here = box.getBoundingClientRect(), window_ = graph.getBoundingClientRect();
  graph.scrollLeft += here.left + here.width / 2 - window_.left - window_.width / 2;
  graph.scrollTop += here.top + here.height / 2 - window_.top - window_.height / 2;
}
