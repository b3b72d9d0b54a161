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
    title: "A token becomes a row of numbers", frames: "Z",
    text: [(s) => `Training found a row of [#D] = {#D} numbers for each token, in [E]; for <own> its number {#component} is {E}${s.scaled ? ", scaled to {looked}" : ""}.`,
      (s) => (s.parts.P ? "With {P} from [P], which says the position, the row of <own> in [Z] begins: {looked} + {P} = {Z}, the number in the double frame."
        : "With this row <own> begins in [Z]: there the number is {Z}, in the double frame.")],
    ask: "Each token now looks at itself and at those before it. At which of these positions will <own> look most?",
    answers: (s) => s.choices(s.m, [s.i, s.least]).map((m) => [`{=${m + 1}}: <${m}>`, m === s.m]),
  },
  {
    title: "Two tokens meet: a score", frames: "S",
    text: ["The first layer looks with [#H] = {#H} heads; in head {#head} the query of <own>, what it looks for, meets the key of <seen>: [#K] = {#K} products are added, and divided by √[#K].",
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
    text: [(s) => (s.parts.before === s.parts.Z ? "What all heads gather" : "On its way the row was normalized, from {Z} in [Z] to {before} in [before], and what all heads gather")
        + " is added, [A]: {before} + {A} = {Zhat} in [Zhat].",
      "No part of the model replaces the row, each adds to it: hence the name residual stream."],
    ask: "Now {#F} detectors look at the row, and only positive answers count. How many are positive?",
    answers: (s) => [["fewer than half", 2 * s.positive < s.inner], ["half or more", 2 * s.positive >= s.inner]],
  },
  {
    title: "The feed-forward network adds, too", frames: "inner",
    text: ["Of {#F} inner numbers {#positive} are positive in [inner]; the largest is framed, {inner}.",
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
    text: [(s) => (s.smoothed ? "From {q} comes the loss at this position, {losses} in [losses]: the less <right> was expected, the larger it is."
        : "Minus the logarithm of this {q} is the loss at this position, {losses} in [losses]: the less <right> was expected, the larger it is."),
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
    title: "The gradient of one weight", frames: "dE",
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

// The arrays that take part, by the names that the stops have for them; from the operations, whatever their letters are.
function partsOf({ operations }) {
  const reads = operations.findIndex((o) => o.op === "rows" && (o.options.read ?? "tokens") === "tokens");
  const after = (from, ...ops) => operations.slice(from).find((o) => ops.includes(o.op)), at = (o) => operations.indexOf(o);
  const rows = operations[reads], added = operations[reads + 1].op === "add" ? operations[reads + 1] : after(reads, "sinusoids") && after(reads, "add");
  const positions = added && at(added) <= reads + 2 ? added : null;
  const S = after(reads, "scores"), weights = after(reads, "softmax"), sum = after(at(weights), "add");
  const inner = after(at(sum), "relu", "gelu"), end = after(at(inner), "add");
  return { E: rows.inputs[0], looked: rows.output, P: positions?.inputs[1], Z: (positions ?? rows).output, S: S.output,
    masked: after(reads, "mask")?.output, weights: weights.output, before: sum.inputs[0], A: sum.inputs[1], Zhat: sum.output,
    inner: inner.output, between: end.inputs[0], "Z'": end.output, L: "L", q: "q", losses: "losses", loss: "loss" };
}

// What the tour follows, in the state of the page before the step of learning: the position i with the largest loss (after the first ones, which have little to look at), the
// token `right` that comes next, the largest share of attention there, from m in head h, and the number j of the row
// whose weight has the largest gradient.
function subject(state) {
  const parts = partsOf(data.table), { values, gradients, text } = state, { E } = parts, most = (indices, value) => indices.reduce((a, b) => (value(b) > value(a) ? b : a));
  const all = text.targets.map((t, i) => i).filter((i) => text.targets[i] >= 0), later = all.slice(Math.min(3, all.length - 1));
  const i = most(later, (k) => values.losses.data[k]), t = text.tokens[i], right = text.targets[i], row = (key, k) => values[key].data[place(values[key], 0, i, k)];
  const share = ([h, m]) => values[parts.weights].data[place(values[parts.weights], h, i, m)], upTo = (n) => termsOf(n, (k) => k);
  const pairs = upTo(values[parts.weights].heads).flatMap((h) => upTo(Math.max(1, i)).map((m) => [h, m])), [h, m] = most(pairs, share);
  const gradient = (j) => Math.abs(gradients[E].data[place(gradients[E], 0, t, j)]), inner = values[parts.inner].columns;
  const j = most(upTo(values[E].columns), gradient), order = upTo(values.q.columns).sort((a, b) => row("q", b) - row("q", a)), best = order[0];
  const sent = page.model.explainGradient(state, E, [0, t, j]).filter((part) => part.operation.output === parts.looked);
  const s = { parts, i, t, right, h, m, j, inner, best, wrong: order.find((k) => k !== right), third: order.find((k) => k !== right && k !== best),
    f: most(upTo(inner), (k) => row(parts.inner, k)), positive: upTo(inner).filter((k) => row(parts.inner, k) > 0).length,
    n: text.tokens.length, scaled: page.model.makers.get(parts.looked).options.scaled, least: most(upTo(i + 1), (k) => -share([h, k])), share: share([h, m]), count: all.length, mean: values.losses.data.filter((x) => !Number.isNaN(x)).reduce((a, b) => a + b) / all.length,
    times: sent.flatMap((part) => part.terms).filter((term) => term.value !== 0).length, trained: data.models[page.at].step,
    tied: page.model.readers.get(E).some(([o]) => o.op === "affine"), smoothed: page.model.makers.get("losses").options.smoothing,
    total: page.model.makers.get("loss").op, value: (name) => numberOf(s, name).value };
  // The answers to a question: the right one and others, without repetition, in the order of their numbers.
  s.choices = (right, others) => [...new Set([right, ...others])].filter((x) => x !== undefined).sort((a, b) => a - b);
  return s;
}

// The cells of the stops; "self", "best" and "wrong" before a name change the column.
const CELLS = {
  E: (s) => [0, s.t, s.j], looked: (s) => [0, s.i, s.j], P: (s) => [0, s.i, s.j], Z: (s) => [0, s.i, s.j],
  S: (s) => [s.h, s.i, s.m], "self S": (s) => [s.h, s.i, s.i], weights: (s) => [s.h, s.i, s.m], "self weights": (s) => [s.h, s.i, s.i],
  masked: (s) => [s.h, s.i, s.i + 1], before: (s) => [0, s.i, s.j], A: (s) => [0, s.i, s.j], Zhat: (s) => [0, s.i, s.j], inner: (s) => [0, s.i, s.f],
  between: (s) => [0, s.i, s.j], "Z'": (s) => [0, s.i, s.j], L: (s) => [0, s.i, s.right], q: (s) => [0, s.i, s.right], "best q": (s) => [0, s.i, s.best],
  losses: (s) => [0, 0, s.i], loss: () => [0, 0, 0], dL: (s) => [0, s.i, s.right], "wrong dL": (s) => [0, s.i, s.wrong],
  dE: (s) => [0, s.t, s.j], change: (s) => [0, s.t, s.j],
};

// A cell of CELLS as the page names it.
function cellOf(s, name) {
  const last = name.split(" ").at(-1), key = last === "change" || last === "dE" ? s.parts.E : last === "dL" ? "L" : last === "masked" ? s.parts.weights : s.parts[last];
  return { key, of: last === "change" ? "change" : last.startsWith("d") ? "gradient" : "value", at: CELLS[name](s) };
}

function numberOf(s, name) {
  const was = name.startsWith("was "), cell = cellOf(s, was ? name.slice(4) : name);
  const array = was ? tour.first.values[cell.key] : arrayOf(cell.key, cell.of);
  return { ...cell, was, value: array.data[place(array, ...cell.at)] };
}

const FACTS = {
  n: () => page.tokens.length, V: (s) => page.state.values.q.columns, D: (s) => page.state.values[s.parts.Z].columns, one: () => 1, all: () => 100,
  K: (s) => page.state.values[page.model.makers.get(s.parts.S).inputs[0]].columns, H: (s) => page.state.values[s.parts.S].heads, F: (s) => s.inner, 
  position: (s) => s.i + 1, number: (s) => s.t, component: (s) => s.j + 1, head: (s) => s.h + 1, positive: (s) => s.positive, count: (s) => s.count,
  times: (s) => s.times, weights: () => weightCount, rate: () => page.last.how.lr, trained: (s) => s.trained,
};

const phrase = (s, sentence) => (typeof sentence === "function" ? sentence(s) : sentence);

// The letters that a stop names, each once.
const named = (s, { text, ask }) => [...new Set([...text, ask].flatMap((sentence) => phrase(s, sentence).match(/(?<=\[)[^\]]+/g) ?? []))];

// A sentence as nodes: text, letters, tokens and numbers.
function typeset(s, sentence) {
  return phrase(s, sentence).split(/(\{[^}]+\}|\[[^\]]+\]|<[^>]+>)/).flatMap((piece, k, pieces) => {
    const inside = piece.slice(1, -1);
    if (piece[0] === "[") return formula(letterOf(s, inside).tex, "tex");
    if (piece[0] === "<") return made("q", { class: "token" }, inside[0] === "#" ? word(Number(inside.slice(1))) : word({ own: s.t, right: s.right, seen: page.state.text.tokens[s.m],
      best: s.best, wrong: s.wrong }[inside] ?? page.state.text.tokens[Number(inside)]));
    if (piece[0] !== "{") return piece;
    if (inside[0] === "=") return made("b", {}, inside.slice(1));
    if (inside[0] === "#") {
      const value = FACTS[inside.slice(1)](s);
      return made("b", { "data-fact": inside.slice(1) }, Number.isInteger(value) ? value.toLocaleString("en") : short(value));
    }
    const percent = inside.startsWith("100 "), { key, of, at, was, value } = numberOf(s, percent ? inside.slice(4) : inside);
    const number = made("b", { "data-cell": [key, of, ...at].join("|"), "data-was": was, "data-percent": percent }, short(percent ? 100 * value : value));
    return value < 0 && pieces[k - 1].endsWith("+ ") ? ["(", number, ")"] : number;
  });
}

const SIGNS = { "␣": "a blank", "⏎": "the end of a line", "⇥": "a tab" };

// A row of the list of letters, and the meaning that the tour is about: by the part of a cell, a size (#K) or a sign.
function letterOf(s, name) {
  const size = pair && { "#n": "#n_output", "#V": "#n_vol", "#D": "#d_model", "#H": "#h", "#K": "#d_k" }[name], key = size || (s.parts[name] ?? name);
  const last = key.split(".").at(-1).replace(/\d$/, ""), tex = variables.find((v) => v.key === key)?.tex;
  for (const own of [key, `.${last}`, last]) for (const row of data.table.letters) for (const [of, meaning] of row.means)
    if (own === of) return { tex: tex ?? row.tex, meaning };
  return null;
}

// ------------------------------------------------------------------------------------------------------------ the panel

const tour = { at: 0, first: null, after: null, tokens: null };  // the stop (0: none); before and after its step of learning

// Go to a stop, and learn the step or take it back where the stop wants that; false if there is no such stop.
function openStop(number) {
  const stop = STOPS[number - 1];
  if (!stop) return false;
  if (page.tokens.length < (pair ? 3 : 2)) return notice("The tour needs a text of more tokens: type a longer one.") || true;
  const stepped = page.weights === tour.after && page.tokens === tour.tokens;
  const arrive = () => { tour.at = number; showStop(true); remember(); };
  if (stop.learned && !stepped) {
    const first = page.state;
    learnSteps(1, () => Object.assign(tour, { at: number, first, after: page.weights, tokens: page.tokens }));
    whenFree("tour", arrive);
  } else if (!stop.learned && stepped) undo(arrive);
  else arrive();
  return true;
}

function leaveTour() {
  tour.at = 0;
  Object.assign(page, { follow: null });
  choose(null, { pin: true });
  showStop();
  showTokens();
  remember();
  byId("begin").focus();
}

// Show the stop; `arrived` puts the focus on it.
function showStop(arrived = false) {
  const panel = byId("tour");
  document.body.classList.toggle("touring", tour.at > 0);
  panel.hidden = !tour.at;
  byId("cell").setAttribute("aria-live", tour.at ? "off" : "polite");
  if (!tour.at) return;
  if (STOPS[tour.at - 1].learned && (page.weights !== tour.after || page.tokens !== tour.tokens)) tour.at = 1;
  const { title, text, ask, answers, frames, learned } = STOPS[tour.at - 1], s = subject(learned ? tour.first : page.state), last = tour.at === STOPS.length;
  Object.assign(page, { follow: s.i, side: "tokens" });
  showTokens();
  const framed = frames === "tokens" ? null : cellOf(s, frames);
  setView(!framed || framed.of === "value" ? "values" : "gradients");
  choose(framed, { pin: true, go: arrived });
  if (arrived && !framed) bring(byId("tokens"));
  const known = new Set(STOPS.slice(0, tour.at - 1).flatMap((stop) => named(s, stop))), letters = named(s, STOPS[tour.at - 1]).filter((name) => !known.has(name));
  const story = text.flatMap((sentence, i) => [i ? " " : "", ...typeset(s, sentence)]), shown = story.map((node) => node.textContent ?? node).join("");
  const explained = [...letters.map((name) => letterOf(s, name)), ...Object.entries(SIGNS).filter(([sign]) => shown.includes(sign)).map(([sign, meaning]) => ({ sign, meaning }))];
  const verdict = made("p", { role: "status" }), next = made("button", { type: "button", id: "next", class: "main", onclick: () => goToStop(1) }, last ? "Again from the start" : "Next");
  const choices = answers(s).map(([answer, right]) => made("button", { type: "button", class: "guess", onclick: (event) => {
    panel.querySelectorAll(".guess").forEach((button) => button.setAttribute("aria-pressed", String(button === event.target.closest("button"))));
    verdict.replaceChildren(right ? "Right." : "No: ", ...(right ? [] : typeset(s, answers(s).find(([, is]) => is)[0])), ...(right ? [] : ["."]));
    next.focus({ preventScroll: true });
  } }, ...typeset(s, answer)));
  panel.replaceChildren(made("h2", { id: "stop", tabindex: -1 }, `Stop ${tour.at} of ${STOPS.length}: ${title}`),
    made("p", { id: "story" }, ...story),
    explained.length ? made("ul", { class: "soft", "aria-label": "Letters" }, ...explained.map(({ sign, tex, meaning }) => made("li", {}, sign ?? formula(tex, "tex"), ` ${meaning}`))) : "",
    made("div", { role: "group", "aria-labelledby": "ask", class: "row" }, made("p", { id: "ask" }, last ? "" : made("b", {}, "Predict: "), ...typeset(s, ask)), ...choices), verdict,
    made("div", { class: "row" }, tour.at > 1 ? made("button", { type: "button", id: "before", onclick: () => goToStop(-1) }, "Back") : "", next,
      made("button", { type: "button", id: "leave", onclick: leaveTour }, "Leave")));
  panel.scrollTop = 0;
  if (arrived) byId("stop").focus({ preventScroll: true });
}

const goToStop = (by) => whenFree("tour", () => openStop((tour.at - 1 + by + STOPS.length) % STOPS.length + 1));

// Escape leaves; in the panel the arrow keys go on and back, and a digit chooses an answer. Was it such a key?
function tourKey(event) {
  if (event.key === "Escape") { leaveTour(); return true; }
  if (event.target !== document.body && !event.target.closest("#tour")) return false;
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], guess = byId("tour").querySelectorAll(".guess")[Number(event.key) - 1];
  if (by && tour.at + by > 0 && tour.at + by <= STOPS.length) goToStop(by);
  else if (guess) guess.click();
  else return false;
  event.preventDefault();
  return true;
}
