// The operations of the page: each forward, backward, and cell by cell.
//
// An array has heads, rows and columns: {heads, rows, columns, data}. A cell is [head, row, column]. Sums are formed in
// doubles; results are stored as 32-bit numbers, as the engine does.
//
//   shape(x, text)             [heads, rows, columns] of the result
//   forward(x, y, o, text)     fills y.data
//   backward(x, y, dy, dx, o, text)   adds to dx[i], a Float64Array, the derivatives with respect to input i
//   terms(x, y, at, o, text)   where a cell comes from: {terms, finish}
//   sent(i, x, y, at, o, text) where the gradient of a cell of input i comes from, as far as this operation sends it
//
// A term is {factor, of}: a number times the cells `of`, each [array, head, row, column], in which the array is the
// number of an input, "y", or "dy". A term may be {factor, of, how: "exp" | "mean"} too: factor times exp(the one cell -
// shift), or times the mean of the cells. `finish` says what becomes of the sum of the terms (see `finished`).

"use strict";

const place = (a, h, i, j) => (h * a.rows + i) * a.columns + j;

function termsOf(count, make) {
  const all = [];
  for (let k = 0; k < count; k++) all.push(make(k));
  return all;
}

// What becomes of the sum of a cell's terms.
function finished(sum, finish) {
  if (!finish) return sum;
  if (finish.kind === "scale") return sum * finish.factor + finish.shift;
  if (finish.kind === "quotient") return finish.numerator / sum;
  if (finish.kind === "log") return Math.log(sum) + finish.shift;
  if (finish.kind === "relu") return Math.max(0, sum);
  if (finish.kind === "gelu") return sum * normal(sum);
  if (finish.kind === "masked") return -Infinity;
  if (finish.kind === "given") return finish.value;
  throw new Error(`finish: ${finish.kind} is not known`);
}

// The error function: its power series near 0, a continued fraction far from it.
function erf(x) {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let term = a, sum = a;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= -a * a / n;
      sum += term / (2 * n + 1);
    }
    return Math.sign(x) * 2 / Math.sqrt(Math.PI) * sum;
  }
  let fraction = a;
  for (let n = 60; n > 0; n--) fraction = a + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / fraction);
}

const normal = (x) => (1 + erf(x / Math.SQRT2)) / 2;  // the normal distribution, and its density
const density = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);

// The mean and 1 / sqrt(variance + eps) of a row; RMS takes no mean away.
function spread(x, i, o) {
  const D = x.columns, data = x.data;
  let mean = 0, square = 0;
  if (!o.rms) {
    for (let j = 0; j < D; j++) mean += data[i * D + j];
    mean /= D;
  }
  for (let j = 0; j < D; j++) square += (data[i * D + j] - mean) ** 2;
  return [mean, 1 / Math.sqrt(square / D + o.eps)];
}

// log(sum of exp) of row i: its largest entry is taken away first, so that no exp overflows.
function logarithm(x, i) {
  const V = x.columns, data = x.data;
  let most = -Infinity, sum = 0;
  for (let j = 0; j < V; j++) most = Math.max(most, data[i * V + j]);
  for (let j = 0; j < V; j++) sum += Math.exp(data[i * V + j] - most);
  return [most, sum];
}

const sinusoid = (i, j, D) => (j % 2 ? Math.cos : Math.sin)(i / 10000 ** ((j - j % 2) / D));

// The mean of the logits of row i.
function average(x, i) {
  const row = x.data.subarray(i * x.columns, (i + 1) * x.columns);
  return row.reduce((sum, one) => sum + one, 0) / x.columns;
}

// Products of matrices, added to C from place c on; A and B begin at the places a and b. Inner loops go along rows, as
// memory does, and take four rows of B at once, so that each number of C is read and written a quarter as often.

// C (n, E) += A (n, D) B (D, E), of A the entry (i, j) stands at a + i down + j along.
function addStrided(C, c, A, a, down, along, B, b, n, D, E) {
  for (let i = 0; i < n; i++) {
    const to = c + i * E;
    let j = 0, at = a + i * down, from = b;
    for (; j + 3 < D; j += 4, at += 4 * along, from += 4 * E) {
      const x = A[at], y = A[at + along], z = A[at + 2 * along], w = A[at + 3 * along];
      for (let e = 0; e < E; e++)
        C[to + e] += x * B[from + e] + y * B[from + E + e] + z * B[from + 2 * E + e] + w * B[from + 3 * E + e];
    }
    for (; j < D; j++, at += along, from += E) for (let e = 0; e < E; e++) C[to + e] += A[at] * B[from + e];
  }
}

// C (n, E) += A (n, D) B (D, E)
const addProduct = (C, c, A, a, B, b, n, D, E) => addStrided(C, c, A, a, D, 1, B, b, n, D, E);

// C (D, E) += the transpose of A (n, D) times B (n, E)
const addTransposedTimes = (C, c, A, a, B, b, n, D, E) => addStrided(C, c, A, a, 1, D, B, b, D, n, E);

// C (n, D) += A (n, E) times the transpose of B (D, E)
function addTimesTransposed(C, c, A, a, B, b, n, E, D) {
  for (let i = 0; i < n; i++) {
    const left = a + i * E;
    let j = 0, from = b, to = c + i * D;
    for (; j + 3 < D; j += 4, from += 4 * E, to += 4) {
      let x = 0, y = 0, z = 0, w = 0;
      for (let e = 0; e < E; e++) {
        const own = A[left + e];
        x += own * B[from + e];
        y += own * B[from + E + e];
        z += own * B[from + 2 * E + e];
        w += own * B[from + 3 * E + e];
      }
      C[to] += x;
      C[to + 1] += y;
      C[to + 2] += z;
      C[to + 3] += w;
    }
    for (; j < D; j++, from += E, to++) for (let e = 0; e < E; e++) C[to] += A[left + e] * B[from + e];
  }
}

// A matrix (n, E) of doubles whose rows are the bias b (from place at on), or 0.
function rowsOf(b, at, n, E) {
  const sums = new Float64Array(n * E);
  if (b) for (let i = 0; i < n; i++) sums.set(b.data.subarray(at, at + E), i * E);
  return sums;
}

const OPERATIONS = {
  // E (V, D) and the tokens, or those of the source, give (n, D). `scaled` is a factor; the token `blank` has a row of 0.
  rows: {
    shape: ([E], text, o) => [1, text[o.read ?? "tokens"].length, E.columns],
    forward([E], y, o, text) {
      const D = E.columns, factor = o.scaled ?? 1;
      text[o.read ?? "tokens"].forEach((t, i) => {
        if (t !== o.blank) for (let j = 0; j < D; j++) y.data[i * D + j] = factor * E.data[t * D + j];
      });
    },
    backward([E], y, dy, [dE], o, text) {
      const D = E.columns, factor = o.scaled ?? 1;
      text[o.read ?? "tokens"].forEach((t, i) => {
        if (t !== o.blank) for (let j = 0; j < D; j++) dE[t * D + j] += factor * dy[i * D + j];
      });
    },
    terms(x, y, [h, i, j], o, text) {
      const t = text[o.read ?? "tokens"][i];
      if (t === o.blank) return { terms: [], finish: { kind: "given", value: 0, words: "no word stands here yet: y₀ is the zero vector" } };
      return { terms: [{ factor: o.scaled ?? 1, of: [[0, 0, t, j]] }] };
    },
    sent(slot, x, y, [h, v, j], o, text) {
      const terms = [];
      text[o.read ?? "tokens"].forEach((t, i) => {
        if (t === v && t !== o.blank) terms.push({ factor: o.scaled ?? 1, of: [["dy", 0, i, j]] });
      });
      return terms;
    },
  },

  // The positional encoding (n, D): nothing enters it but the position i and the component j, both from 0.
  sinusoids: {
    shape: (x, text, o) => [1, text[o.read].length, o.columns],
    forward(x, y) {
      const D = y.columns;
      for (let i = 0; i < y.rows; i++) for (let j = 0; j < D; j++) y.data[i * D + j] = sinusoid(i, j, D);
    },
    backward() {},
    terms(x, y, [h, i, j]) {
      const D = y.columns, words = `${j % 2 ? "cos" : "sin"}(${i} / 10000^(${j - j % 2} / ${D})) for position ${i} and component ${j}, `
        + "both counted from 0: nothing else enters";
      return { terms: [], finish: { kind: "given", value: sinusoid(i, j, D), words } };
    },
    sent: () => [],
  },

  // a (n, D) + the first n rows of b.
  add: {
    shape: ([a]) => [a.heads, a.rows, a.columns],
    forward([a, b], y) { for (let k = 0; k < y.data.length; k++) y.data[k] = a.data[k] + b.data[k]; },
    backward(x, y, dy, [da, db]) { for (let k = 0; k < dy.length; k++) { da[k] += dy[k]; db[k] += dy[k]; } },
    terms: (x, y, at) => ({ terms: [{ factor: 1, of: [[0, ...at]] }, { factor: 1, of: [[1, ...at]] }] }),
    sent: (slot, x, y, [h, i, j]) => (i < y.rows ? [{ factor: 1, of: [["dy", h, i, j]] }] : []),
  },

  // Rows of Z (n, D), minus their mean, over their deviation; then times gamma, plus delta, if they are there.
  norm: {
    shape: ([Z]) => [1, Z.rows, Z.columns],
    forward([Z, gamma, delta], y, o) {
      const D = Z.columns;
      for (let i = 0; i < Z.rows; i++) {
        const [mean, r] = spread(Z, i, o);
        for (let j = 0; j < D; j++) {
          const z = (Z.data[i * D + j] - mean) * r;
          y.data[i * D + j] = z * (gamma ? gamma.data[j] : 1) + (delta ? delta.data[j] : 0);
        }
      }
    },
    backward([Z, gamma, delta], y, dy, [dZ, dgamma, ddelta], o) {
      const D = Z.columns;
      for (let i = 0; i < Z.rows; i++) {
        const [mean, r] = spread(Z, i, o);
        let h = 0, hz = 0;
        for (let j = 0; j < D; j++) {
          const g = dy[i * D + j], z = (Z.data[i * D + j] - mean) * r, part = g * (gamma ? gamma.data[j] : 1);
          h += part / D;
          hz += part * z / D;
          if (dgamma) dgamma[j] += g * z;
          if (ddelta) ddelta[j] += g;
        }
        for (let j = 0; j < D; j++) {
          const part = dy[i * D + j] * (gamma ? gamma.data[j] : 1);
          dZ[i * D + j] += r * (part - (o.rms ? 0 : h) - (Z.data[i * D + j] - mean) * r * hz);
        }
      }
    },
    terms([Z, gamma, delta], y, [h, i, j], o) {
      const [mean, r] = spread(Z, i, o), row = termsOf(Z.columns, (k) => [0, 0, i, k]);
      const terms = [{ factor: 1, of: [[0, 0, i, j]] }];
      if (!o.rms) terms.push({ factor: -1, of: row, how: "mean" });
      const scale = r * (gamma ? gamma.data[j] : 1);
      const finish = { kind: "scale", factor: scale, shift: delta ? delta.data[j] : 0, also: row };
      finish.words = `times ${short(r)}, which is 1 over the root of the row's `
        + `${o.rms ? "mean square" : "variance"} plus ε`
        + (gamma ? `, times γ = ${short(gamma.data[j])}` : "") + (delta ? `, plus δ = ${short(delta.data[j])}` : "");
      return { terms, finish };
    },
    sent(slot, [Z, gamma], y, [h, i, j], o) {
      const D = Z.columns;
      if (slot) return termsOf(Z.rows, (k) => {
        const [mean, r] = spread(Z, k, o);
        return { factor: slot === 1 ? (Z.data[k * D + j] - mean) * r : 1, of: [["dy", 0, k, j]] };
      });
      const [mean, r] = spread(Z, i, o), z = (k) => (Z.data[i * D + k] - mean) * r;
      return termsOf(D, (k) => {
        const part = (k === j ? 1 : 0) - (o.rms ? 0 : 1 / D) - z(j) * z(k) / D;
        return { factor: r * part * (gamma ? gamma.data[k] : 1), of: [["dy", 0, i, k]] };
      });
    },
  },

  // N (n, D) times W (H, D, K) for each head, plus its part of a bias (H K), gives (H, n, K).
  project: {
    shape: ([N, W]) => [W.heads, N.rows, W.columns],
    forward([N, W, b], y) {
      const n = N.rows, D = N.columns, K = W.columns;
      for (let h = 0; h < W.heads; h++) {
        const sums = rowsOf(b, h * K, n, K);
        addProduct(sums, 0, N.data, 0, W.data, h * D * K, n, D, K);
        y.data.set(sums, h * n * K);
      }
    },
    backward([N, W, b], y, dy, [dN, dW, db]) {
      const n = N.rows, D = N.columns, K = W.columns;
      for (let h = 0; h < W.heads; h++) {
        addTimesTransposed(dN, 0, dy, h * n * K, W.data, h * D * K, n, K, D);
        addTransposedTimes(dW, h * D * K, N.data, 0, dy, h * n * K, n, D, K);
        if (db) for (let i = 0; i < n; i++) for (let k = 0; k < K; k++) db[h * K + k] += dy[(h * n + i) * K + k];
      }
    },
    terms([N, W, b], y, [h, i, k]) {
      const terms = termsOf(N.columns, (j) => ({ factor: 1, of: [[0, 0, i, j], [1, h, j, k]] }));
      if (b) terms.push({ factor: 1, of: [[2, 0, 0, h * W.columns + k]] });
      return { terms };
    },
    sent(slot, [N, W], y, [h, i, j]) {
      const K = W.columns;
      if (slot === 0) return termsOf(W.heads * K, (n) => {
        const head = Math.floor(n / K), k = n % K;
        return { factor: 1, of: [["dy", head, i, k], [1, head, j, k]] };
      });
      if (slot === 1) return termsOf(N.rows, (n) => ({ factor: 1, of: [[0, 0, n, i], ["dy", h, n, j]] }));
      return termsOf(N.rows, (n) => ({ factor: 1, of: [["dy", Math.floor(j / K), n, j % K]] }));
    },
  },

  // q k^T / sqrt(K): (H, n, K) twice gives (H, n, n).
  scores: {
    shape: ([q, k]) => [q.heads, q.rows, k.rows],
    forward([q, k], y) {
      const n = q.rows, m = k.rows, K = q.columns, scale = 1 / Math.sqrt(K);
      for (let h = 0; h < q.heads; h++) for (let i = 0; i < n; i++) for (let l = 0; l < m; l++) {
        let sum = 0;
        const a = (h * n + i) * K, b = (h * m + l) * K;
        for (let c = 0; c < K; c++) sum += q.data[a + c] * k.data[b + c];
        y.data[(h * n + i) * m + l] = sum * scale;
      }
    },
    backward([q, k], y, dy, [dq, dk]) {
      const n = q.rows, m = k.rows, K = q.columns, scale = 1 / Math.sqrt(K);
      for (let h = 0; h < q.heads; h++) for (let i = 0; i < n; i++) for (let l = 0; l < m; l++) {
        const g = dy[(h * n + i) * m + l] * scale;
        if (g === 0) continue;
        const a = (h * n + i) * K, b = (h * m + l) * K;
        for (let c = 0; c < K; c++) { dq[a + c] += g * k.data[b + c]; dk[b + c] += g * q.data[a + c]; }
      }
    },
    terms: ([q], y, [h, i, m]) => ({
      terms: termsOf(q.columns, (c) => ({ factor: 1 / Math.sqrt(q.columns), of: [[0, h, i, c], [1, h, m, c]] })),
    }),
    sent(slot, [q, k], y, [h, i, c]) {
      const factor = 1 / Math.sqrt(q.columns);
      if (slot === 0) return termsOf(k.rows, (m) => ({ factor, of: [["dy", h, i, m], [1, h, m, c]] }));
      return termsOf(q.rows, (n) => ({ factor, of: [["dy", h, n, i], [0, h, n, c]] }));
    },
  },

  // -inf where a row would attend to a later one.
  mask: {
    shape: ([S]) => [S.heads, S.rows, S.columns],
    forward([S], y) {
      const n = S.columns;
      for (let k = 0; k < y.data.length; k++) y.data[k] = k % n <= Math.floor(k / n) % S.rows ? S.data[k] : -Infinity;
    },
    backward(x, y, dy, [dS]) { for (let k = 0; k < dy.length; k++) if (y.data[k] !== -Infinity) dS[k] += dy[k]; },
    terms: (x, y, [h, i, m]) => (m <= i ? { terms: [{ factor: 1, of: [[0, h, i, m]] }] }
      : { terms: [], finish: { kind: "masked", words: "the row would attend to a later token: −∞" } }),
    sent: (slot, x, y, [h, i, m]) => (m <= i ? [{ factor: 1, of: [["dy", h, i, m]] }] : []),
  },

  // Along each row.
  softmax: {
    shape: ([S]) => [S.heads, S.rows, S.columns],
    forward([S], y) {
      const n = S.columns;
      for (let i = 0; i < S.heads * S.rows; i++) {
        const [most, sum] = logarithm(S, i);
        for (let j = 0; j < n; j++) y.data[i * n + j] = Math.exp(S.data[i * n + j] - most) / sum;
      }
    },
    backward([S], y, dy, [dS]) {
      const n = S.columns;
      for (let i = 0; i < S.heads * S.rows; i++) {
        let dot = 0;
        for (let j = 0; j < n; j++) dot += y.data[i * n + j] * dy[i * n + j];
        for (let j = 0; j < n; j++) dS[i * n + j] += y.data[i * n + j] * (dy[i * n + j] - dot);
      }
    },
    terms([S], y, [h, i, m]) {
      const [most] = logarithm(S, h * S.rows + i), own = S.data[place(S, h, i, m)];
      const all = termsOf(S.columns, (k) => ({ factor: 1, of: [[0, h, i, k]], how: "exp", shift: most }));
      const numerator = Math.exp(own - most);
      const words = `exp(${difference(own, most)}) = ${short(numerator)}, over this sum. The row's largest entry, `
        + `${short(most)}, is taken away first, which changes no quotient`;
      return { terms: all.filter((t) => S.data[place(S, ...t.of[0].slice(1))] !== -Infinity),
        finish: { kind: "quotient", numerator, words, from: [0, h, i, m] } };
    },
    sent(slot, x, y, [h, i, m]) {
      const terms = [{ factor: 1, of: [["y", h, i, m], ["dy", h, i, m]] }];
      for (let k = 0; k < y.columns; k++) {
        if (y.data[place(y, h, i, k)] !== 0)
          terms.push({ factor: -1, of: [["y", h, i, m], ["y", h, i, k], ["dy", h, i, k]] });
      }
      return terms;
    },
  },

  // The weights (H, n, m) times the rows v (H, m, K).
  mix: {
    shape: ([a, v]) => [a.heads, a.rows, v.columns],
    forward([a, v], y) {
      const n = a.rows, m = a.columns, K = v.columns, sum = new Float64Array(K);
      for (let h = 0; h < a.heads; h++) for (let i = 0; i < n; i++) {
        sum.fill(0);
        for (let l = 0; l < m; l++) {
          const w = a.data[(h * n + i) * m + l], at = (h * m + l) * K;
          if (w !== 0) for (let k = 0; k < K; k++) sum[k] += w * v.data[at + k];
        }
        y.data.set(sum, (h * n + i) * K);
      }
    },
    backward([a, v], y, dy, [da, dv]) {
      const n = a.rows, m = a.columns, K = v.columns;
      for (let h = 0; h < a.heads; h++) for (let i = 0; i < n; i++) for (let l = 0; l < m; l++) {
        const w = a.data[(h * n + i) * m + l], at = (h * m + l) * K, to = (h * n + i) * K;
        let sum = 0;
        for (let k = 0; k < K; k++) { sum += dy[to + k] * v.data[at + k]; dv[at + k] += w * dy[to + k]; }
        da[(h * n + i) * m + l] += sum;
      }
    },
    terms([a], y, [h, i, k]) {
      const all = termsOf(a.columns, (m) => ({ factor: 1, of: [[0, h, i, m], [1, h, m, k]] }));
      return { terms: all.filter((t) => a.data[place(a, ...t.of[0].slice(1))] !== 0) };
    },
    sent(slot, [a, v], y, [h, i, j]) {
      if (slot === 0) return termsOf(v.columns, (k) => ({ factor: 1, of: [["dy", h, i, k], [1, h, j, k]] }));
      return termsOf(a.rows, (n) => ({ factor: 1, of: [[0, h, n, i], ["dy", h, n, j]] }));
    },
  },

  // The heads (H, n, K) side by side: (n, H K).
  beside: {
    shape: ([Y]) => [1, Y.rows, Y.heads * Y.columns],
    forward([Y], y) {
      const K = Y.columns, n = Y.rows, wide = y.columns;
      for (let h = 0; h < Y.heads; h++) for (let i = 0; i < n; i++) for (let k = 0; k < K; k++)
        y.data[i * wide + h * K + k] = Y.data[(h * n + i) * K + k];
    },
    backward([Y], y, dy, [dY]) {
      const K = Y.columns, n = Y.rows, wide = y.columns;
      for (let h = 0; h < Y.heads; h++) for (let i = 0; i < n; i++) for (let k = 0; k < K; k++)
        dY[(h * n + i) * K + k] += dy[i * wide + h * K + k];
    },
    terms: ([Y], y, [h, i, j]) => ({
      terms: [{ factor: 1, of: [[0, Math.floor(j / Y.columns), i, j % Y.columns]] }],
    }),
    sent: (slot, [Y], y, [h, i, k]) => [{ factor: 1, of: [["dy", 0, i, h * Y.columns + k]] }],
  },

  // X (n, D) times W (D, E), or times the transpose of W (E, D); plus b (E).
  affine: {
    shape: ([X, W], text, o) => [1, X.rows, o.transposed ? W.rows : W.columns],
    forward([X, W, b], y, o) {
      const n = X.rows, D = X.columns, E = y.columns, sums = rowsOf(b, 0, n, E);
      if (o.transposed) addTimesTransposed(sums, 0, X.data, 0, W.data, 0, n, D, E);
      else addProduct(sums, 0, X.data, 0, W.data, 0, n, D, E);
      y.data.set(sums);
    },
    backward([X, W, b], y, dy, [dX, dW, db], o) {
      const n = X.rows, D = X.columns, E = y.columns;
      if (o.transposed) {
        addProduct(dX, 0, dy, 0, W.data, 0, n, E, D);
        addTransposedTimes(dW, 0, dy, 0, X.data, 0, n, E, D);
      } else {
        addTimesTransposed(dX, 0, dy, 0, W.data, 0, n, E, D);
        addTransposedTimes(dW, 0, X.data, 0, dy, 0, n, D, E);
      }
      if (db) for (let i = 0; i < n; i++) for (let e = 0; e < E; e++) db[e] += dy[i * E + e];
    },
    terms([X, W, b], y, [h, i, e], o) {
      const terms = termsOf(X.columns, (j) => ({ factor: 1, of: [[0, 0, i, j], o.transposed ? [1, 0, e, j] : [1, 0, j, e]] }));
      if (b) terms.push({ factor: 1, of: [[2, 0, 0, e]] });
      return { terms };
    },
    sent(slot, [X, W], y, [h, i, j], o) {
      if (slot === 0) return termsOf(y.columns, (e) => (
        { factor: 1, of: [["dy", 0, i, e], o.transposed ? [1, 0, e, j] : [1, 0, j, e]] }));
      if (slot === 2) return termsOf(X.rows, (n) => ({ factor: 1, of: [["dy", 0, n, j]] }));
      const [row, column] = o.transposed ? [j, i] : [i, j];
      return termsOf(X.rows, (n) => ({ factor: 1, of: [[0, 0, n, row], ["dy", 0, n, column]] }));
    },
  },

  relu: {
    shape: ([U]) => [1, U.rows, U.columns],
    forward([U], y) { for (let k = 0; k < y.data.length; k++) y.data[k] = Math.max(0, U.data[k]); },
    backward([U], y, dy, [dU]) { for (let k = 0; k < dy.length; k++) if (U.data[k] > 0) dU[k] += dy[k]; },
    terms: (x, y, at) => ({
      terms: [{ factor: 1, of: [[0, ...at]] }], finish: { kind: "relu", words: "but at least 0" },
    }),
    sent: (slot, [U], y, at) => [{ factor: U.data[place(U, ...at)] > 0 ? 1 : 0, of: [["dy", ...at]] }],
  },

  gelu: {
    shape: ([U]) => [1, U.rows, U.columns],
    forward([U], y) { for (let k = 0; k < y.data.length; k++) y.data[k] = U.data[k] * normal(U.data[k]); },
    backward([U], y, dy, [dU]) {
      for (let k = 0; k < dy.length; k++) dU[k] += dy[k] * (normal(U.data[k]) + U.data[k] * density(U.data[k]));
    },
    terms: ([U], y, at) => ({
      terms: [{ factor: 1, of: [[0, ...at]] }],
      finish: { kind: "gelu", words: `times Φ of it, ${short(normal(U.data[place(U, ...at)]))}` },
    }),
    sent(slot, [U], y, at) {
      const u = U.data[place(U, ...at)];
      return [{ factor: normal(u) + u * density(u), of: [["dy", ...at]] }];
    },
  },

  // -log q of the right token, from the logits (n, V): (1, n), NaN where there is no right token. With `smoothing` s the
  // right token has the probability 1 - s, and all tokens share s.
  cross_entropy: {
    shape: ([L]) => [1, 1, L.rows],
    forward([L], y, o, text) {
      const s = o.smoothing ?? 0;
      for (let i = 0; i < L.rows; i++) {
        const [most, sum] = logarithm(L, i), t = text.targets[i];
        y.data[i] = t < 0 ? NaN : Math.log(sum) - (1 - s) * (L.data[i * L.columns + t] - most) - (s && s * (average(L, i) - most));
      }
    },
    backward([L], y, dy, [dL], o, text) {
      const V = L.columns, s = o.smoothing ?? 0;
      for (let i = 0; i < L.rows; i++) {
        if (text.targets[i] < 0) continue;
        const [most, sum] = logarithm(L, i);
        for (let j = 0; j < V; j++) dL[i * V + j] += dy[i] * (Math.exp(L.data[i * V + j] - most) / sum - s / V);
        dL[i * V + text.targets[i]] -= dy[i] * (1 - s);
      }
    },
    terms([L], y, [h, r, i], o, text) {
      const t = text.targets[i], s = o.smoothing ?? 0;
      if (t < 0) return { terms: [], finish: { kind: "none", words: "no token follows, so nothing is to be predicted" } };
      const [most] = logarithm(L, i), own = L.data[i * L.columns + t], mean = s && average(L, i);
      const right = (1 - s) * (own - most) + (s && s * (mean - most));
      const words = s ? `minus ${short(1 - s)} of the logit of the right token, ${short(own)}, and ${short(s)} of the mean logit, `
        + `${short(mean)} (all ${short(most)} smaller, the row's largest logit): ${short(right)}`
        : `minus the logit of the right token (both ${short(most)} smaller, the row's largest logit): ${short(right)}`;
      return {
        terms: termsOf(L.columns, (j) => ({ factor: 1, of: [[0, 0, i, j]], how: "exp", shift: most })),
        finish: { kind: "log", shift: -right, from: [0, 0, i, t], words: `the logarithm of this sum, ${words}` },
      };
    },
    sent(slot, [L], y, [h, i, j], o, text) {
      if (text.targets[i] < 0) return [];
      const s = o.smoothing ?? 0, [most, sum] = logarithm(L, i), q = Math.exp(L.data[i * L.columns + j] - most) / sum;
      const terms = [{ factor: q, of: [["dy", 0, 0, i]] }];
      if (text.targets[i] === j) terms.push({ factor: s - 1, of: [["dy", 0, 0, i]] });
      if (s) terms.push({ factor: -s / L.columns, of: [["dy", 0, 0, i]] });
      return terms;
    },
  },

  // Over the tokens that have one to follow.
  mean: {
    shape: () => [1, 1, 1],
    forward([losses], y) {
      const counted = losses.data.filter((x) => !Number.isNaN(x));
      y.data[0] = counted.reduce((sum, x) => sum + x, 0) / counted.length;
    },
    backward([losses], y, dy, [d]) {
      const N = losses.data.filter((x) => !Number.isNaN(x)).length;
      losses.data.forEach((x, i) => { if (!Number.isNaN(x)) d[i] += dy[0] / N; });
    },
    terms([losses]) {
      const terms = [];
      losses.data.forEach((x, i) => { if (!Number.isNaN(x)) terms.push({ factor: 1, of: [[0, 0, 0, i]] }); });
      for (const term of terms) term.factor = 1 / terms.length;
      return { terms };
    },
    sent(slot, [losses], y, [h, r, i]) {
      const N = losses.data.filter((x) => !Number.isNaN(x)).length;
      return Number.isNaN(losses.data[i]) ? [] : [{ factor: 1 / N, of: [["dy", 0, 0, 0]] }];
    },
  },

  // The same without the division.
  sum: {
    shape: () => [1, 1, 1],
    forward([losses], y) { y.data[0] = losses.data.reduce((sum, x) => (Number.isNaN(x) ? sum : sum + x), 0); },
    backward([losses], y, dy, [d]) { losses.data.forEach((x, i) => { if (!Number.isNaN(x)) d[i] += dy[0]; }); },
    terms([losses]) {
      const terms = [];
      losses.data.forEach((x, i) => { if (!Number.isNaN(x)) terms.push({ factor: 1, of: [[0, 0, 0, i]] }); });
      return { terms };
    },
    sent: (slot, [losses], y, [h, r, i]) => (Number.isNaN(losses.data[i]) ? [] : [{ factor: 1, of: [["dy", 0, 0, 0]] }]),
  },
};

// A number in a few digits, with a true minus sign and a raised exponent.
function short(x) {
  if (Number.isNaN(x)) return "none";
  if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
  if (x === 0) return "0";
  const a = Math.abs(x), small = a < 1e-3, [digits, exponent] = x.toExponential(2).split("e");
  if (a < 1e4 && !small) return x.toPrecision(3).replace("-", "−");
  return `${digits.replace("-", "−")}·10${raised(exponent.replace("+", ""))}`;
}

// A whole number as an exponent.
const raised = (n) => [...String(n)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");

// a − b, written.
const difference = (a, b) => `${short(a)} ${b < 0 ? "+" : "−"} ${short(Math.abs(b))}`;
