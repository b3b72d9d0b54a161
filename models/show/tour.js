// The tour: twelve stops from one token to one probability, from its loss back to one weight, and a step that changes it.
//
// STOPS is its text. In a sentence {Z} is the number of the cell Z of CELLS, {100 q} that number in per cent, {was q} the
// number before the step; {#D} is a number of FACTS; [Z] is the letter of a part, which is explained where it comes first;
// <own> is a token. A sentence, a question or an answer may be a function of `subject()`.

"use strict";

const STOPS = [
  {
    title: "A token is a number", frames: "tokens",
    text: ["This text has [#n] = {#n} tokens, pieces of text; the one at position {#position}, <own>, is number {#number} of the [#V] = {#V} that the model knows.",
      "From it and the tokens before it the model is to say which token comes next: here it is <right>."],
    ask: "With how many numbers will the model compute for this one token?",
    answers: (s) => [["{#one}", false], ["{#D}", true], ["{#V}", false]],
  },
  {
    title: "A token becomes a row", frames: "Z",
    text: [(s) => `Training found a row of [#D] = {#D} numbers for each token, in [E]; for <own> its number {#component} is {E}${s.scaled ? ", scaled to {looked}" : ""}.`,
      (s) => (s.parts.P ? "With {P} from [P], which says the position, the row of <own> in [Z] begins: {looked} + {P} = {Z}, in the double frame."
        : "With this row <own> begins in [Z]: there the number is {Z}, in the double frame.")],
    ask: "Each token now looks at itself and at those before it. At which of these positions will <own> look most?",
    answers: (s) => s.choices(s.m, [s.i, s.least]).map((m) => [`{=${m + 1}}: <${m}>`, m === s.m]),
  },
  {
    title: "Two tokens meet: a score", frames: "S",
    text: ["The first layer looks with [#H] = {#H} heads; in head {#head} the query of <own>, a row of [query], meets the key of <seen>, a row of [key]: [#K] = {#K} products are added, and divided by √[#K].",
      "This is the score in [S], {S}; the score of <own> with itself is {self S}."],
    ask: "The scores of a row become shares of one whole. How large is that of <seen>?",
    answers: (s) => [["less than half", s.share < 0.5], ["half or more", s.share >= 0.5]],
  },
  {
    title: "Scores become attention", frames: "weights",
    text: ["The exponential function makes the scores positive, and each is divided by their sum: in [weights], <own> gives {100 weights} % of its attention to <seen>, and {100 self weights} % to itself.",
      (s) => (s.parts.masked && s.i + 1 < s.n ? "A token that comes later gets {masked}: the model has not read it yet." : "All shares of a row add up to {#all} %.")],
    ask: "What is gathered in these shares is added to the row of <own>. Will its number {#component} grow?",
    answers: (s) => [["it grows", s.value("A") > 0], ["it shrinks", s.value("A") <= 0]],
  },
  {
    title: "Attention adds to the row", frames: "Zhat",
    text: [(s) => (s.parts.before === s.parts.Z ? "To the row" : "On its way the row was normalized, from {Z} in [Z] to {before} in [before], and to that")
        + " is added what all heads gather, [A]; the sum is [Zhat]: {before} + {A} = {Zhat}.",
      "No part of the model replaces the row, each adds to it: hence the name residual stream."],
    ask: "From this row the feed-forward network computes {#F} inner numbers, and keeps the positive ones. How many are positive?",
    answers: (s) => [["fewer than half", 2 * s.positive < s.inner], ["half or more", 2 * s.positive >= s.inner]],
  },
  {
    title: "Feed-forward adds, too", frames: "inner",
    text: ["Of the {#F} inner numbers {#positive} are positive in [inner]; the largest is framed, {inner}.",
      "What they write is added to the row as well: in [Z'] its number {#component} goes from {between} to {Z'}."],
    ask: "After the last layer, which token does the model expect most?",
    answers: (s) => s.choices(s.best, [s.right, s.third]).map((t) => [`<#${t}>`, t === s.best]),
  },
  {
    title: "One probability", frames: "q",
    text: ["After the last layer the row gives a logit for each of the {#V} tokens, in [L] {L} for <right>; the exponential function makes them positive, and each is divided by their sum.",
      (s) => (s.best === s.right ? "So <right> gets the probability {100 q} % in [q], and no token gets more." : "So <right> gets the probability {100 q} % in [q], and the most, {100 best q} %, goes to <best>.")],
    ask: "The loss grows as this probability falls. Is it larger here than the mean of the text?",
    answers: (s) => [["larger", s.value("losses") > s.mean], ["not larger", s.value("losses") <= s.mean]],
  },
  {
    title: "The loss", frames: "losses",
    text: [(s) => (s.smoothed ? "From this probability, {q}, comes the loss at this position, {losses} in [losses]: the less <right> was expected, the larger it is."
        : "Minus the logarithm of this probability, {q}, is the loss at this position, {losses} in [losses]: the less <right> was expected, the larger it is."),
      (s) => `The ${s.total} over the {#count} positions that have a next token is the loss of the text: [loss] = {loss}.`],
    ask: "Which way must the logit of <right> go, so that the loss falls?",
    answers: (s) => [["up", s.value("dL") < 0], ["down", s.value("dL") >= 0]],
  },
  {
    title: "The way back begins", frames: "dL",
    text: ["A gradient, [\\partial], says how much the loss changes when a number changes a little: for the logit of <right> it is {dL}, so the loss falls when this logit grows.",
      "For the logit of <wrong> it is {wrong dL}: that one has to fall."],
    ask: "From the logits the gradients go back through all layers to the row of <own> in [E]. From how many positions of the text?",
    answers: (s) => s.choices(s.times, [s.times + 1, s.count + 1]).map((n) => [`{=${n}}`, n === s.times]),
  },
  {
    title: "One weight’s gradient", frames: "dE",
    text: [(s) => `What comes back from ${s.times > 1 ? "the {#times} positions" : "the position"} of <own>${s.tied ? " and from the logits" : ""} ${s.times > 1 || s.tied ? "is added up in" : "reaches"} its row: the gradient of the weight {E}, which is framed, is {dE}.`,
      (s) => `So the loss would ${s.value("dE") > 0 ? "grow" : "fall"} if this weight grew, and ${s.value("dE") > 0 ? "fall" : "grow"} if it shrank.`],
    ask: "Now a step of learning. Which way will it move this weight?",
    answers: (s) => [["up", s.value("dE") < 0], ["down", s.value("dE") >= 0]],
  },
  {
    title: "One step", frames: "change", learned: true,
    text: [(s) => `A step of ${page.last.how.optimizer === "adamw" ? "AdamW" : "(18)"} moves the weight against its gradient by {change}: from {was E} to {E}.`,
      "It moves all {#weights} weights like this, each by its own gradient, with the rate [\\rho] = {#rate}."],
    ask: "What does the model now think of <right>?",
    answers: (s) => [["it is likelier than before", s.value("q") > s.value("was q")], ["it is less likely", s.value("q") <= s.value("was q")]],
  },
  {
    title: "What the model says now", frames: "q", learned: true,
    text: ["<right> had {100 was q} %, and has {100 q} % after one step; the loss of the text went from {was loss} to {loss}.",
      (s) => (s.trained ? "Training is this step again and again, on many texts: {#trained} of them made the weights with which this tour began." : "Training is this step again and again, on many texts: this model has had none yet.")],
    ask: "Now it is your turn: type a text of your own at the top, or choose a number anywhere on the page, and it explains itself.",
    answers: () => [],
  },
];

// The arrays that take part, by the names that the stops have for them: found by their operations, whatever their letters
// are.
function partsOf({ operations }) {
  const begin = operations.findIndex((o) => o.op === "rows" && (o.options.read ?? "tokens") === "tokens"), rows = operations[begin];
  const after = (o, ...ops) => operations.slice(operations.indexOf(o)).find((other) => ops.includes(other.op));
  const isPosition = (key) => (page.model.makers.get(key)?.op ?? "sinusoids") === "sinusoids";  // a weight has no maker
  const positions = operations.find((o) => o.op === "add" && o.inputs[0] === rows.output && isPosition(o.inputs[1]));
  const scores = after(rows, "scores"), attention = after(rows, "softmax"), sum = after(attention, "add"), inner = after(sum, "relu", "gelu"), end = after(inner, "add");
  return { E: rows.inputs[0], looked: rows.output, P: positions?.inputs[1], Z: (positions ?? rows).output,
    query: scores.inputs[0], key: scores.inputs[1], S: scores.output, masked: after(rows, "mask") && attention.output, weights: attention.output,
    before: sum.inputs[0], A: sum.inputs[1], Zhat: sum.output, inner: inner.output, between: end.inputs[0], "Z'": end.output,
    L: "L", q: "q", losses: "losses", loss: "loss", dL: "L", dE: rows.inputs[0], change: rows.inputs[0] };
}

// What the tour follows in a state of the page, that before the step: the position i with the largest loss (after the
// first ones, which have little to look at), its token t, and `right`, which comes next; the largest share of attention
// there, which head h gives to position m; and j, the number of the row of E whose weight has the largest gradient.
function subject(state) {
  const parts = partsOf(data.table), { values, gradients, text } = state, { makers, readers } = page.model;
  const upTo = (n) => termsOf(n, (k) => k), most = (all, value) => all.reduce((a, b) => (value(b) > value(a) ? b : a));
  const at = (arrays, key, ...cell) => arrays[key].data[place(arrays[key], ...cell)];
  const predicting = upTo(text.targets.length).filter((k) => text.targets[k] >= 0), loss = (k) => at(values, "losses", 0, 0, k);
  const i = most(predicting.slice(Math.min(3, predicting.length - 1)), loss), t = text.tokens[i], right = text.targets[i];
  const share = ([h, m]) => at(values, parts.weights, h, i, m), heads = upTo(values[parts.weights].heads);
  const [h, m] = most(heads.flatMap((head) => upTo(Math.max(1, i)).map((k) => [head, k])), share);
  const j = most(upTo(values[parts.E].columns), (k) => Math.abs(at(gradients, parts.E, 0, t, k)));
  const inner = (k) => at(values, parts.inner, 0, i, k), detectors = upTo(values[parts.inner].columns);
  const order = upTo(values.q.columns).sort((a, b) => at(values, "q", 0, i, b) - at(values, "q", 0, i, a));
  const sent = page.model.explainGradient(state, parts.E, [0, t, j]).filter((part) => part.operation.output === parts.looked);
  const s = { parts, i, t, right, h, m, j, n: text.tokens.length, count: predicting.length, tokens: text.tokens,
    f: most(detectors, inner), inner: detectors.length, positive: detectors.filter((k) => inner(k) > 0).length,
    best: order[0], wrong: order.find((k) => k !== right), third: order.slice(1).find((k) => k !== right),
    share: share([h, m]), least: most(upTo(i + 1), (k) => -share([h, k])), mean: predicting.reduce((sum, k) => sum + loss(k), 0) / predicting.length,
    times: sent.flatMap((part) => part.terms).filter((term) => term.value !== 0).length, trained: data.models[page.at].step,
    scaled: makers.get(parts.looked).options.scaled, tied: readers.get(parts.E).some(([o]) => o.op === "affine"),
    smoothed: makers.get("losses").options.smoothing, total: makers.get("loss").op };
  s.value = (name) => numberOf(s, name).value;
  // The answers to a question: the right one and others, each once, in the order of their numbers.
  s.choices = (answer, others) => [...new Set([answer, ...others])].filter((x) => x !== undefined).sort((a, b) => a - b);
  return s;
}

// The cells, where they are not [0, i, j].
const CELLS = {
  E: (s) => [0, s.t, s.j], dE: (s) => [0, s.t, s.j], change: (s) => [0, s.t, s.j],
  S: (s) => [s.h, s.i, s.m], weights: (s) => [s.h, s.i, s.m], masked: (s) => [s.h, s.i, s.i + 1],
  "self S": (s) => [s.h, s.i, s.i], "self weights": (s) => [s.h, s.i, s.i], inner: (s) => [0, s.i, s.f],
  L: (s) => [0, s.i, s.right], q: (s) => [0, s.i, s.right], dL: (s) => [0, s.i, s.right],
  "best q": (s) => [0, s.i, s.best], "wrong dL": (s) => [0, s.i, s.wrong], losses: (s) => [0, 0, s.i], loss: () => [0, 0, 0],
};

// The cell of a name, as the page names it.
function cellOf(s, name) {
  const part = name.split(" ").at(-1), of = { dL: "gradient", dE: "gradient", change: "change" }[part] ?? "value";
  return { key: s.parts[part], of, at: CELLS[name]?.(s) ?? [0, s.i, s.j] };
}

// The cell and its number: that before the step if "was" stands before the name.
function numberOf(s, name) {
  const was = name.startsWith("was "), cell = cellOf(s, name.replace("was ", ""));
  const array = was ? tour.first.values[cell.key] : arrayOf(cell.key, cell.of);
  return { ...cell, was, value: array.data[place(array, ...cell.at)] };
}

const FACTS = {
  n: () => page.tokens.length, V: () => page.state.values.q.columns, D: (s) => page.state.values[s.parts.Z].columns,
  H: (s) => page.state.values[s.parts.S].heads, K: (s) => page.state.values[s.parts.query].columns,
  F: (s) => s.inner, position: (s) => s.i + 1, number: (s) => s.t, component: (s) => s.j + 1, head: (s) => s.h + 1,
  positive: (s) => s.positive, count: (s) => s.count, times: (s) => s.times, trained: (s) => s.trained,
  weights: () => weightCount, rate: () => page.last.how.lr, one: () => 1, all: () => 100,
};

const phrase = (s, sentence) => (typeof sentence === "function" ? sentence(s) : sentence);

// A sentence as nodes: text, letters, tokens and numbers.
function typeset(s, sentence) {
  return phrase(s, sentence).split(/(\{[^}]+\}|\[[^\]]+\]|<[^>]+>)/).flatMap((piece, k, pieces) => {
    const inside = piece.slice(1, -1);
    if (piece[0] === "[") return formula(letterOf(s, inside).tex, "tex");
    if (piece[0] === "<") return made("q", { class: "token" }, word(tokenOf(s, inside)));
    if (piece[0] !== "{") return piece;
    if (inside[0] === "=") return made("b", {}, inside.slice(1));
    if (inside[0] === "#") {
      const value = FACTS[inside.slice(1)](s);
      return made("b", { "data-fact": inside.slice(1) }, Number.isInteger(value) ? value.toLocaleString("en") : short(value));
    }
    const percent = inside.startsWith("100 "), { key, of, at, was, value } = numberOf(s, inside.replace("100 ", ""));
    const cell = { "data-cell": [key, of, ...at].join("|"), "data-was": was, "data-percent": percent };
    const number = made("b", cell, short(percent ? 100 * value : value));
    return value < 0 && pieces[k - 1].endsWith("+ ") ? ["(", number, ")"] : number;
  });
}

// <own>, <right>, <seen>, <best>, <wrong>; <3> is the token at position 3 (from 0), <#3> the third of the vocabulary.
function tokenOf(s, name) {
  if (name[0] === "#") return Number(name.slice(1));
  return { own: s.t, right: s.right, seen: s.tokens[s.m], best: s.best, wrong: s.wrong }[name] ?? s.tokens[name];
}

// The letters that a stop names.
const named = (s, { text, ask }) => [...text, ask].flatMap((sentence) => phrase(s, sentence).match(/(?<=\[)[^\]]+/g) ?? []);

// A letter and its meaning, from the page's list: by the part of an array, a size (#K) or a sign.
function letterOf(s, name) {
  const size = pair && { "#n": "#n_output", "#V": "#n_vol", "#D": "#d_model", "#H": "#h", "#K": "#d_k" }[name];
  const key = size || (s.parts[name] ?? name), last = key.split(".").at(-1).replace(/\d$/, "");
  for (const own of [key, `.${last}`, last]) for (const row of data.table.letters) for (const [of, meaning] of row.means)
    if (own === of) return { tex: variables.find((v) => v.key === key)?.tex ?? row.tex, meaning };
  return null;
}

const SIGNS = { "␣": "a blank", "⏎": "the end of a line", "⇥": "a tab" };

// The letters that a stop is the first to name, and the signs in its tokens, each with its meaning.
function explained(s, number, story) {
  const names = (stops) => new Set(stops.flatMap((stop) => named(s, stop))), known = names(STOPS.slice(0, number - 1));
  const letters = [...names([STOPS[number - 1]])].filter((name) => !known.has(name)).map((name) => letterOf(s, name));
  const signs = Object.entries(SIGNS).filter(([sign]) => story.some((node) => node.textContent?.includes(sign)));
  return [...letters.map(({ tex, meaning }) => [formula(tex, "tex"), ` ${meaning}`]), ...signs.map(([sign, meaning]) => [`${sign} ${meaning}`])];
}

// ------------------------------------------------------------------------------------------------------------ the panel

// The stop (0: none); the state before the step of learning, the weights after it, and the tokens that it learned.
const tour = { at: 0, first: null, after: null, tokens: null };

const isTooShort = () => page.tokens.length < (pair ? 3 : 2);
const hasLearned = () => page.weights === tour.after && page.tokens === tour.tokens;

// Go to a stop, with the step of learning or without it, as the stop wants; false if there is no such stop.
function openStop(number) {
  const stop = STOPS[number - 1], first = page.state;
  if (!stop) return false;
  if (isTooShort()) { notice("The tour needs a text of more tokens: type a longer one."); return true; }
  const arrive = () => { tour.at = number; showStop(true); remember(); };
  if (stop.learned && !hasLearned()) learnSteps(1, () => { Object.assign(tour, { first, after: page.weights, tokens: page.tokens }); arrive(); });
  else if (!stop.learned && hasLearned()) undo(arrive);
  else arrive();
  return true;
}

// Leave the tour; its step is taken back.
function leaveTour() {
  const leave = () => {
    Object.assign(page, { follow: null });
    choose(null, { pin: true });
    showTokens();
    remember();
    byId("begin").focus();
  };
  tour.at = 0;
  showStop();
  if (hasLearned()) undo(leave);
  else leave();
}

// Show the stop; `arrived` scrolls to what is framed, and puts the focus on the stop.
function showStop(arrived = false) {
  const panel = byId("tour");
  if (isTooShort()) tour.at = 0;
  else if (STOPS[tour.at - 1]?.learned && !hasLearned()) tour.at = 1;
  document.body.classList.toggle("touring", tour.at > 0);
  panel.hidden = !tour.at;
  byId("cell").setAttribute("aria-live", tour.at ? "off" : "polite");
  if (!tour.at) return;
  const { title, text, ask, answers, frames, learned } = STOPS[tour.at - 1], s = subject(learned ? tour.first : page.state);
  const framed = frames === "tokens" ? null : cellOf(s, frames), last = tour.at === STOPS.length;
  Object.assign(page, { follow: s.i, side: "tokens" });
  showTokens();
  setView(!framed || framed.of === "value" ? "values" : "gradients");
  choose(framed, { pin: true, go: arrived });
  if (arrived && !framed) bring(byId("tokens"));
  const what = framed && `${{ gradient: "the gradient of ", change: "the change of " }[framed.of] ?? ""}${name(variable(framed.key))}; ${where(framed.key, framed.at)}`;
  const story = text.flatMap((sentence, i) => [i ? " " : "", ...typeset(s, sentence)]), verdict = made("p", { role: "status" });
  const button = (id, words, keys, onclick) => made("button", { type: "button", id, "aria-keyshortcuts": keys, title: `key: ${keys}`, onclick }, words);
  const next = button("next", last ? "Again from the start" : "Next", "ArrowRight", () => goToStop(1)), all = answers(s);
  const guesses = all.map(([answer, right]) => made("button", { type: "button", class: "guess", onclick: ({ currentTarget }) => {
    for (const guess of guesses) guess.setAttribute("aria-pressed", String(guess === currentTarget));
    verdict.replaceChildren(...(right ? ["Right."] : ["No: ", ...typeset(s, all.find(([, is]) => is)[0]), "."]));
    next.focus({ preventScroll: true });
  } }, ...typeset(s, answer)));
  next.classList.add("main");
  panel.replaceChildren(made("h2", { id: "stop", tabindex: -1 }, `Stop ${tour.at} of ${STOPS.length}: ${title}`),
    made("p", { id: "story" }, ...story), made("p", { id: "framed", class: "soft" }, `Framed: ${what ?? "the token among those of your text"}`),
    made("ul", { class: "soft" }, ...explained(s, tour.at, story).map((line) => made("li", {}, ...line))),
    made("div", { role: "group", "aria-labelledby": "ask", class: "row" },
      made("p", { id: "ask" }, last ? "" : made("b", {}, "Predict: "), ...typeset(s, ask)), ...guesses), verdict,
    made("div", { class: "row" }, ...(tour.at > 1 ? [button("before", "Back", "ArrowLeft", () => goToStop(-1))] : []), next,
      button("leave", "Leave", "Escape", leaveTour)));
  panel.scrollTop = 0;
  if (arrived) byId("stop").focus({ preventScroll: true });
}

const goToStop = (by) => whenFree("tour", () => openStop((tour.at - 1 + by + STOPS.length) % STOPS.length + 1));

// Escape leaves; in the panel the arrow keys go on and back, and a digit chooses an answer. Was it such a key?
function tourKey(event) {
  if (event.key === "Escape") { whenFree("tour", leaveTour); return true; }
  if (event.target !== document.body && !event.target.closest("#tour")) return false;
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], guess = byId("tour").querySelectorAll(".guess")[Number(event.key) - 1];
  if (by && tour.at + by > 0 && tour.at + by <= STOPS.length) goToStop(by);
  else if (guess) guess.click();
  else return false;
  event.preventDefault();
  return true;
}
