// Heat maps on canvas: a pixel for each number, which the style enlarges. Blue is negative, orange is positive.

"use strict";

const LIGHT = { low: [0, 90, 160], zero: [255, 255, 255], high: [205, 80, 0], none: [196, 198, 202] };
const DARK = { low: [86, 180, 233], zero: [23, 25, 28], high: [255, 154, 87], none: [74, 78, 86] };
const SHADES = 255;  // on each side of 0

// 2 SHADES + 2 colours as the numbers that an image's memory holds: from -1 over 0 to 1, and the one for "no number".
function palette(dark) {
  const { low, zero, high, none } = dark ? DARK : LIGHT, colours = new Uint32Array(2 * SHADES + 2);
  const packed = (rgb) => new Uint32Array(new Uint8ClampedArray([...rgb, 255]).buffer)[0];
  for (let s = -SHADES; s <= SHADES; s++) {
    const end = s < 0 ? low : high, t = Math.abs(s) / SHADES;
    colours[s + SHADES] = packed(zero.map((z, c) => z + t * (end[c] - z)));
  }
  colours[2 * SHADES + 1] = packed(none);
  return colours;
}

const largestOf = new WeakMap();

// The largest of the finite numbers of an array, without its sign.
function largest(array) {
  if (largestOf.has(array)) return largestOf.get(array);
  let most = 0;
  for (const x of array.data) { const a = Math.abs(x); if (a > most && a !== Infinity) most = a; }
  largestOf.set(array, most);
  return most;
}

// The shade of a number: the square root of its part of the largest, so that small numbers are seen too.
function shade(x, most) {
  if (!Number.isFinite(x)) return 2 * SHADES + 1;
  const part = most ? Math.sqrt(Math.abs(x) / most) : 0;
  return SHADES + Math.sign(x) * Math.round(SHADES * Math.min(1, part));
}

// Draw one head of an array; on its side if `turned`: a row of the array is then a column of the picture.
function paint(canvas, array, head, most, turned, colours) {
  const { rows, columns, data } = array;
  [canvas.width, canvas.height] = turned ? [rows, columns] : [columns, rows];
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer), from = head * rows * columns;
  for (let i = 0, k = from; i < rows; i++) for (let j = 0; j < columns; j++, k++)
    pixels[turned ? j * rows + i : k - from] = colours[shade(data[k], most)];
  context.putImageData(image, 0, 0);
}

// Cells as few rectangles: {top, left, height, width} of runs in rows, joined downwards.
function rectangles(cells) {
  const runs = [], sorted = [...cells].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [i, j] of sorted) {
    const last = runs[runs.length - 1];
    if (last && last.top === i && j <= last.left + last.width) last.width = Math.max(last.width, j + 1 - last.left);
    else runs.push({ top: i, left: j, height: 1, width: 1 });
  }
  const joined = [];
  for (const run of runs) {
    const above = joined.find((r) => r.top + r.height === run.top && r.left === run.left && r.width === run.width);
    if (above) above.height++;
    else joined.push(run);
  }
  return joined;
}
