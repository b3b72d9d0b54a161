// The work of the page in jobs, and a worker that does those of a large model, so that the page stays alive meanwhile.
// Both do the same: `perform`.

"use strict";

// A job: {kind, weights, read, ...}; `read` is what the model reads. Its result:
//   run       {state}: everything forward and backward
//   learn     so many steps (`count`), from `state` if that is known: {weights, moments, state, losses, last, stopped}
//   forward   {logits, loss}: the last row of the logits, and the loss
function perform(model, job) {
  model.weights = job.weights;
  if (job.kind === "run") return { state: model.run(...job.read) };
  if (job.kind === "learn") return steps(model, job);
  const { L, loss } = model.forward(...job.read).values;
  return { logits: L.data.slice((L.rows - 1) * L.columns), loss: loss.data[0] };
}

// `last` says what the last step did: {how, gradients, before, moments, earlier, clip, changes}. A step that would make a
// weight infinite is not taken, and `stopped` is true.
function steps(model, { read, state, moments, how, count }) {
  const found = { weights: model.weights, moments, state: state ?? model.run(...read), losses: [], last: null, stopped: false };
  for (; count > 0; count--) {
    const before = found.weights, { gradients } = found.state, next = learn(before, gradients, found.moments, how);
    found.stopped = !Object.values(next.weights).every((array) => array.data.every(Number.isFinite));
    if (found.stopped) break;
    const changes = {};
    for (const key in before) if (gradients[key])
      changes[key] = { ...before[key], data: next.weights[key].data.map((x, i) => x - before[key].data[i]) };
    found.last = { how, gradients, before, moments: next.moments, earlier: found.moments, clip: next.moments.clip, changes };
    Object.assign(found, { weights: next.weights, moments: next.moments });
    model.weights = found.weights;
    found.state = model.run(...read);
    found.losses.push(found.state.values.loss.data[0]);
  }
  return found;
}

// In the worker: the first message is the table, the others are [number, job]. Weights are kept until others come.
function serve() {
  let model = null, weights = null;
  self.onmessage = ({ data }) => {
    if (!model) { model = new Model(data, {}); return; }
    const [number, job] = data;
    weights = job.weights ?? weights;
    const result = perform(model, { ...job, weights });
    if (result.weights) weights = result.weights;
    const buffers = new Set();  // what is new is handed over without a copy
    const collect = (arrays) => Object.values(arrays).forEach((array) => buffers.add(array.data.buffer));
    if (result.state) { collect(result.state.gradients); result.state.values = without(result.state.values, weights); collect(result.state.values); }
    self.postMessage([number, result], [...buffers]);
  };
}

const without = (values, weights) => Object.fromEntries(Object.entries(values).filter(([key]) => !weights[key]));

// Does jobs: `ask(job, then)` calls `then` with the result: at once, or later if a worker does it. Jobs end in order.
class Work {
  // table: the model's; aside: is the model so large that a worker shall do the jobs? script: the worker's text
  constructor(table, aside, script) {
    this.model = new Model(table, {});
    this.waiting = new Map();  // number -> [job, then]
    this.count = 0;
    this.sent = null;  // the weights that the worker has
    this.worker = null;
    if (aside) this.start(table, script);
  }

  start(table, script) {
    try {
      this.worker = new Worker(URL.createObjectURL(new Blob([script, "\nserve();"], { type: "text/javascript" })));
    } catch { return; }  // a browser that has none for this page
    this.worker.onmessage = ({ data: [number, result] }) => this.done(number, result);
    this.worker.onerror = (event) => { event.preventDefault(); this.alone(); };
    this.worker.postMessage(table);
  }

  ask(job, then) {
    if (!this.worker) { then(perform(this.model, job)); return; }
    this.waiting.set(++this.count, [job, then]);
    this.worker.postMessage([this.count, { ...job, state: null, weights: job.weights === this.sent ? null : job.weights }]);
    this.sent = job.weights;
    if (job.kind === "learn") this.sent = null;  // the worker goes on with weights of its own
  }

  done(number, result) {
    const [job, then] = this.waiting.get(number);
    this.waiting.delete(number);
    if (result.weights && number === this.count) this.sent = result.weights;
    if (result.state) result.state.values = { ...(result.weights ?? job.weights), ...result.state.values };
    then(result);
  }

  // No worker can be made here: this page does the jobs that wait, and all others.
  alone() {
    this.worker.terminate();
    this.worker = null;
    const jobs = [...this.waiting.values()];
    this.waiting.clear();
    for (const [job, then] of jobs) then(perform(this.model, job));
  }
}
