// The plan: all arrays of the model on one picture to scale, with the way that the numbers take from one to the next.
//
// A row of the plan is a part of the page (input, a layer, output). A column holds a value, with the weights that enter
// it above. What comes from another row stands again at the left end of this one. Arrows point forward; when the page
// shows gradients, the plan does too, and its arrows point back.

"use strict";

const GAP = 20, LABEL = 19, LANE = 7, NARROW = 700, THINNEST = 5;  // pixels

class Plan {
  // figures: key -> {figure, maps}; go(key): what a press on an array does
  constructor(model, figures, go) {
    Object.assign(this, { model, figures, go });
    this.canvas = made("canvas", { "aria-hidden": "true" });
    this.lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.lines.setAttribute("aria-hidden", "true");
    this.buttons = made("div", {});
    this.inner = made("div", { class: "plan-inner" }, this.canvas, this.lines, this.buttons);
    this.element = made("div", { class: "plan", role: "toolbar", "aria-label": "The whole model; arrow keys go through its arrays, Enter goes to a map" }, this.inner);
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  // The rows: {title, columns: [{value, weights, again}], edges: [{from, to, key, output, stream}], shared}. from and to
  // are places of columns, key and output their arrays; shared are the weights of other rows. A row that has `enough`
  // values ends with its section.
  arranged(enough) {
    const rows = [], rowOf = new Map();
    let section = null;
    for (const v of this.model.variables.values()) {
      const { part } = v, goesOn = rows.at(-1)?.part === part;
      if (!goesOn || (rows.at(-1).values >= enough && v.section !== section)) rows.push({ part, values: 0,
        title: goesOn ? `${part}, ${v.section.toLowerCase()}` : part, columns: [], edges: [], at: new Map(), shared: new Set() });
      rowOf.set(v.key, rows.at(-1));
      if (v.weight === null) rows.at(-1).values++;
      section = v.section;
    }
    const isWeight = (key) => this.model.variables.get(key).weight !== null;
    for (const row of rows) {
      const own = this.model.operations.filter((o) => rowOf.get(o.output) === row);
      const column = (key, weights, again) => {
        row.at.set(key, row.columns.length);
        row.columns.push({ value: key, weights, again });
      };
      const foreign = new Set(own.flatMap((o) => o.inputs).filter((key) => rowOf.get(key) !== row));
      for (const key of foreign) if (isWeight(key)) row.shared.add(key); else column(key, [], true);
      for (const o of own) {
        column(o.output, o.inputs.filter(isWeight), false);
        o.inputs.forEach((key, slot) => {
          if (!isWeight(key)) row.edges.push({ from: row.at.get(key), to: row.at.get(o.output), key, output: o.output, stream: o.op === "add" && slot === 0 });
        });
      }
    }
    return rows.filter((row) => row.columns.length);
  }

  // Width and height of an array in cells, its heads beside each other, or in a square if they are square themselves.
  size(key, arrays) {
    const array = arrays[key];
    if (!array) return null;
    const [w, h] = turned(array) ? [array.rows, array.columns] : [array.columns, array.rows];
    const square = this.model.variables.get(key).letters.join() === "H,n,n";
    const across = square ? Math.ceil(Math.sqrt(array.heads)) : array.heads, down = Math.ceil(array.heads / across);
    return { w, h, across, down };
  }

  // Draw everything anew. arrays: the values by key; back: do gradients flow?; of: the maps to copy from.
  draw(arrays, back) {
    const wide = this.element.clientWidth - 4;
    const signature = [wide, ...Object.keys(arrays).map((key) => arrays[key].data.length)].join();
    if (this.signature !== signature) {
      this.signature = signature;
      this.rows = this.arranged(wide < NARROW ? 4 : Infinity);
      this.lay(arrays, wide);
    }
    this.element.classList.toggle("back", back);
    const ratio = window.devicePixelRatio || 1, context = this.canvas.getContext("2d");
    [this.canvas.width, this.canvas.height] = [this.width * ratio, this.height * ratio];
    context.scale(ratio, ratio);
    for (const { key, panes } of this.boxes) {
      const maps = this.figures.get(key).maps, from = maps[back ? "gradient" : "value"]?.querySelectorAll("canvas") ?? [];
      panes.forEach(({ x, y, w, h }, head) => {
        context.imageSmoothingEnabled = !from[head] || w < from[head].width;
        if (from[head]?.width) context.drawImage(from[head], x, y, w, h);
      });
    }
  }

  // Places for all arrays.
  lay(arrays, wide) {
    const least = wide < NARROW ? GAP / 2 : GAP, sizes = new Map(this.rows.flatMap((row) => row.columns.flatMap((c) => [c.value, ...c.weights])).map((key) => [key, this.size(key, arrays)]));
    const cells = (key) => { const s = sizes.get(key); return s.w * s.across; };
    const columnCells = (c) => Math.max(...[c.value, ...c.weights].map(cells));
    const room = this.rows.map((row) => (wide - least * (row.columns.length + 1)) / row.columns.reduce((n, c) => n + columnCells(c), 0));
    this.scale = Math.min(2, ...room.map((r) => r * 0.97));
    this.boxes = [];
    this.width = wide;
    this.buttons.replaceChildren();
    let top = 0;
    const paths = [];
    for (const row of this.rows) top = this.layRow(row, top, sizes, columnCells, paths);
    this.height = top;
    Object.assign(this.inner.style, { width: `${wide}px`, height: `${top}px` });
    this.lines.setAttribute("viewBox", `0 0 ${wide} ${top}`);
    this.lines.innerHTML = `<defs>${["", "-on"].map((on) => `<marker id="tip${on}" class="tip${on}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker>`).join("")}</defs>`
      + paths.map(({ d, from, to, stream }) => `<path d="${d}" data-from="${escapeText(from)}" data-to="${escapeText(to)}"${stream ? ' class="stream"' : ""}/>`).join("");
    this.buttons.firstElementChild?.setAttribute("tabindex", "0");
  }

  layRow(row, top, sizes, columnCells, paths) {
    const s = this.scale, high = (key) => { const z = sizes.get(key); return Math.max(THINNEST, z.h * z.down * s + (z.down - 1)); };
    const broad = (key) => { const z = sizes.get(key); return Math.max(THINNEST, z.w * z.across * s + (z.across - 1)); };
    this.buttons.append(Object.assign(made("span", { class: "plan-title" }, row.title), { style: `top:${top}px` }));
    const above = Math.max(0, ...row.columns.map((c) => c.weights.reduce((n, key) => n + high(key) + LABEL + 6, 0)));
    const values = top + 26 + above + (above ? 6 : 0), tallest = Math.max(...row.columns.map((c) => high(c.value)));
    const needed = row.columns.map((c) => Math.max(14, columnCells(c) * s, ...[c.value, ...c.weights].map(broad)));
    const gap = Math.min(2.2 * GAP, (this.width - needed.reduce((a, b) => a + b, 0)) / (row.columns.length + 1));
    const middle = values + Math.min(...row.columns.map((c) => high(c.value))) / 2;
    let x = gap / 2 + 2;
    const places = row.columns.map((c, i) => {
      const w = needed[i], own = { x: x + (w - broad(c.value)) / 2, w: broad(c.value), h: high(c.value), y: values };
      this.box(c.value, own, sizes.get(c.value), c.again, false);
      let y = values - 6;
      for (const key of [...c.weights].reverse()) {
        y -= high(key);
        this.box(key, { x: x + (w - broad(key)) / 2, y, w: broad(key), h: high(key) }, sizes.get(key), row.shared.has(key), true);
        paths.push({ d: `M${x + w / 2} ${y + high(key)}V${y + high(key) + 6}`, from: key, to: c.value, short: true });
        y -= LABEL + 6;
      }
      x += w + gap;
      return own;
    });
    const lanes = [], under = values + tallest + LABEL + 5;
    const groups = new Map();  // what leaves one array below goes on one lane
    for (const edge of row.edges) {
      const a = places[edge.from], b = places[edge.to];
      if (edge.to === edge.from + 1) paths.push({ d: `M${a.x + a.w + 2} ${middle}H${b.x - 2}`, from: edge.key, to: edge.output, stream: edge.stream });
      else groups.set(edge.from, [...(groups.get(edge.from) ?? []), edge]);
    }
    for (const [from, edges] of [...groups].sort(([a], [b]) => a - b)) {
      const end = Math.max(...edges.map((e) => e.to));
      let lane = lanes.findIndex((last) => last < from);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = end;
      const y = under + 5 + lane * LANE, a = places[from];
      for (const e of edges) {
        const b = places[e.to], begin = a.x + a.w - Math.min(5, a.w / 3), goal = b.x + Math.min(5, b.w / 3);
        paths.push({ d: `M${begin} ${a.y + a.h + 2}V${y}H${goal}V${b.y + b.h + 3}`, from: e.key, to: e.output, stream: e.stream });
      }
    }
    return under + 5 + lanes.length * LANE + 14;
  }

  // A place for an array: its panes on the canvas, and a button over it.
  box(key, { x, y, w, h }, { w: columns, h: rows, across, down }, again, weight) {
    const pw = (w - (across - 1)) / across, ph = (h - (down - 1)) / down, panes = [];
    for (let i = 0; i < across * down; i++) panes.push({ x: x + (i % across) * (pw + 1), y: y + Math.floor(i / across) * (ph + 1), w: pw, h: ph });
    this.boxes.push({ key, panes });
    const v = this.model.variables.get(key), said = `${name(v)}${again ? ", again" : ""}: ${shapeOf(v)}`;
    const button = made("button", { type: "button", class: `${weight ? "weight" : ""}${again ? " again" : ""}`, "data-key": key, title: said, tabindex: "-1", onclick: () => this.go(key) }, formula(v.tex, "tex"), made("span", { class: "hidden" }, said));
    button.style.cssText = `left:${x}px;top:${y}px;width:${w}px;height:${h}px`;
    this.buttons.append(button);
  }

  // Frame the array of the chosen cell and those it comes from, with the arrows between them.
  light(chosen, met, back) {
    for (const button of this.buttons.querySelectorAll("button")) {
      button.classList.toggle("here", button.dataset.key === chosen);
      button.classList.toggle("met", met.has(button.dataset.key) && button.dataset.key !== chosen);
    }
    for (const path of this.lines.querySelectorAll("path[data-from]"))
      path.classList.toggle("on", chosen !== undefined && (back ? path.dataset.from : path.dataset.to) === chosen);
  }

  key(event) {
    const all = [...this.buttons.querySelectorAll("button")], here = all.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? all[0] : event.key === "End" ? all.at(-1) : step && all[here + step];
    if (!to || here < 0) return;
    event.preventDefault();
    event.stopPropagation();
    for (const button of all) button.tabIndex = button === to ? 0 : -1;
    to.focus();
  }
}

const escapeText = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
