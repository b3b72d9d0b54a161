// The model: the table's operations run on a text or a pair of sentences, forward and backward, and a step of learning.

"use strict";

class Model {
  // table: {variables, operations}; weights: {key: array}
  constructor(table, weights) {
    this.variables = new Map(table.variables.map((v) => [v.key, v]));
    this.operations = table.operations;
    this.weights = weights;
    this.stop = table.pair?.stop;  // the token that ends a translator's sentence
    this.makers = new Map(this.operations.map((o) => [o.output, o]));
    this.readers = new Map(table.variables.map((v) => [v.key, []]));
    for (const o of this.operations) o.inputs.forEach((key, slot) => this.readers.get(key).push([o, slot]));
  }

  // All values by their keys, weights too, for some tokens; a translator reads the tokens of a source beside them.
  // Each token is to predict the next one (-1: there is none); STOP is predicted, and not read. Returns {text, values}.
  forward(tokens, source = null) {
    const ended = this.stop !== undefined && tokens.at(-1) === this.stop;
    const text = { source, tokens: ended ? tokens.slice(0, -1) : tokens, targets: ended ? tokens.slice(1) : [...tokens.slice(1), -1] };
    const values = { ...this.weights };
    for (const o of this.operations) {
      const rule = OPERATIONS[o.op], x = o.inputs.map((key) => values[key]);
      const [heads, rows, columns] = rule.shape(x, text, o.options);
      const y = { heads, rows, columns, data: new Float32Array(heads * rows * columns) };
      rule.forward(x, y, o.options, text);
      values[o.output] = y;
    }
    return { text, values };
  }

  // The way back, (17): the derivatives of the loss with respect to everything that it depends on.
  backward({ text, values }) {
    const sums = {}, gradients = {}, zeros = (key) => sums[key] ??= new Float64Array(values[key].data.length);
    const counted = text.targets.some((t) => t >= 0);
    zeros("loss")[0] = counted ? 1 : 0;
    for (const o of [...this.operations].reverse()) {
      const dy = sums[o.output];
      if (!dy) continue;  // the loss does not depend on it
      gradients[o.output] = { ...values[o.output], data: Float32Array.from(dy) };
      const x = o.inputs.map((key) => values[key]);
      OPERATIONS[o.op].backward(x, values[o.output], gradients[o.output].data, o.inputs.map(zeros), o.options, text);
    }
    for (const key of Object.keys(this.weights))
      if (sums[key]) gradients[key] = { ...values[key], data: Float32Array.from(sums[key]) };
    return gradients;
  }

  run(tokens, source) {
    const state = this.forward(tokens, source);
    state.gradients = this.backward(state);
    return state;
  }

  // Where the value of a cell comes from: {operation, terms, finish, sum, value}; null for a weight.
  explain(state, key, at) {
    const o = this.makers.get(key);
    if (!o) return null;
    const found = OPERATIONS[o.op].terms(o.inputs.map((k) => state.values[k]), state.values[key], at, o.options, state.text);
    const terms = this.worked(state, o, found.terms), sum = terms.reduce((s, t) => s + t.value, 0);
    return { operation: o, terms, finish: found.finish, sum, value: finished(sum, found.finish) };
  }

  // Where the gradient of a cell comes from: for each operation that reads it, its terms. [] if the loss does not.
  explainGradient(state, key, at) {
    const all = [];
    for (const [o, slot] of this.readers.get(key)) {
      if (!state.gradients[o.output]) continue;
      const x = o.inputs.map((k) => state.values[k]);
      const found = OPERATIONS[o.op].sent(slot, x, state.values[o.output], at, o.options, state.text);
      const terms = this.worked(state, o, found);
      all.push({ operation: o, slot, terms, sum: terms.reduce((s, t) => s + t.value, 0) });
    }
    return all;
  }

  // Terms with their values, and their cells with the keys of variables: {key, gradient, at, value}.
  worked(state, o, terms) {
    return terms.map((term) => {
      const cells = term.of.map(([which, ...at]) => {
        const key = which === "y" || which === "dy" ? o.output : o.inputs[which];
        const array = which === "dy" ? state.gradients[key] : state.values[key];
        return { key, gradient: which === "dy", at, value: array.data[place(array, ...at)] };
      });
      let value = term.factor;
      if (term.how === "exp") value *= Math.exp(cells[0].value - term.shift);
      else if (term.how === "mean") value *= cells.reduce((s, c) => s + c.value, 0) / cells.length;
      else for (const cell of cells) value *= cell.value;
      return { ...term, cells, value };
    });
  }
}

// A step of learning with the run's settings: AdamW, or (18) as it stands. `moments` is what AdamW keeps, {} at first.
// Returns {weights, moments, norm}, all of them new, and leaves the old ones as they are.
function learn(weights, gradients, moments, how) {
  let square = 0;
  for (const key in gradients) if (weights[key]) for (const g of gradients[key].data) square += g * g;
  const norm = Math.sqrt(square), clip = how.clip ? Math.min(1, how.clip / (norm + 1e-6)) : 1;
  const step = (moments.step ?? 0) + 1, next = { step, clip }, changed = {};
  for (const key in weights) {
    const w = weights[key], g = gradients[key];
    if (!g) { changed[key] = w; continue; }
    const data = new Float32Array(w.data.length);
    if (how.optimizer === "sgd") {
      for (let k = 0; k < data.length; k++)
        data[k] = w.data[k] - how.lr * (g.data[k] * clip + how.weight_decay * w.data[k]);
    } else {
      const m = new Float32Array(data.length), v = new Float32Array(data.length), [b1, b2] = how.betas;
      const before = moments[key];
      for (let k = 0; k < data.length; k++) {
        const x = g.data[k] * clip;
        m[k] = b1 * (before ? before.m[k] : 0) + (1 - b1) * x;
        v[k] = b2 * (before ? before.v[k] : 0) + (1 - b2) * x * x;
        const mean = m[k] / (1 - b1 ** step), size = Math.sqrt(v[k] / (1 - b2 ** step));
        data[k] = w.data[k] * (1 - how.lr * how.weight_decay) - how.lr * mean / (size + how.eps);
      }
      next[key] = { m, v };
    }
    changed[key] = { ...w, data };
  }
  return { weights: changed, moments: next, norm };
}

// A token from a row of logits: the likeliest at temperature 0, else by chance among the k likeliest (0: all).
// `chance` is a number from 0 to 1.
function sampled(logits, temperature, k, chance) {
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  if (temperature === 0) return order[0];
  const kept = k > 0 ? order.filter((t) => logits[t] >= logits[order[Math.min(k, order.length) - 1]]) : order;
  const weights = kept.map((t) => Math.exp((logits[t] - logits[order[0]]) / temperature));
  let left = chance * weights.reduce((s, w) => s + w, 0);
  for (let i = 0; i < kept.length; i++) if ((left -= weights[i]) < 0) return kept[i];
  return kept[kept.length - 1];
}
