// What the page of a translator has beside that of a decoder: a source sentence, and a target that ends.
//
// page.source are the tokens of the source. page.tokens are those of the target: y_0, its words, and STOP if it has
// ended. The source is read by the encoder, the target by the decoder, in which each word is to predict the next one.

"use strict";

// One space between words and none at the ends, and composed letters, as models/data/pairs.py does it.
const tidy = (text) => text.normalize("NFC").split(new RegExp(`[${CLASSES.word.space}]+`)).filter(Boolean).join(" ");

// The tokens of a sentence. A space goes before it, so that its first word is the same token as elsewhere.
const sentence = (text) => (tidy(text) ? tokenizer.encode(` ${tidy(text)}`) : []);

// The target without STOP: what the next word goes after.
const unended = (tokens) => (pair && tokens.at(-1) === pair.stop ? tokens.slice(0, -1) : tokens);

// A token as a label. Words have a space before them, which is left out; parts of words show it.
function word(t) {
  if (pair && t === pair.begin && pair.zero) return "∅";
  return label(pair && tokenizer.kind === "word" ? tokenizer.tokens[t].trim() : tokenizer.tokens[t]);
}

// Take two sentences, and do `then`; or say why not, and nothing is lost. An empty target is one that the model is about to write.
function takePair(source, target, then) {
  const x = sentence(source), y = sentence(target), kept = "Shorten it; the page still shows the sentences before.";
  if (!x.length) return notice("The source sentence is empty: type at least one word.");
  if (x.length > sizes.n_max)
    return notice(`The source has ${x.length} tokens, but the model takes n_max = ${sizes.n_max}. ${kept}`);
  if (y.length + 1 > sizes.n_max)
    return notice(`The target has ${y.length} tokens and <stop>, but the model takes n_max = ${sizes.n_max}. ${kept}`);
  const missing = [...new Set([source, target].flatMap((text) => (tidy(text) ? tokenizer.missing(` ${tidy(text)}`) : [])))];
  notice(missing.length ? `Not in the vocabulary: ${missing.slice(0, 8).map((c) => `“${c.trim()}”`).join(", ")}`
    + `${missing.length > 8 ? " …" : ""}. The unknown token stands in their place.` : "");
  compute({ source: x, tokens: y.length ? [pair.begin, ...y, pair.stop] : [pair.begin], losses: [] }, then);
  return true;
}

// The second field, and the words of the cards.
function buildPair() {
  const form = byId("text-form"), text = byId("text"), field = (id) => made("textarea", { id, rows: 1, spellcheck: "false", autocomplete: "off", "aria-describedby": "notice" });
  const source = field("source");
  source.value = data.source;
  text.rows = 1;
  form.classList.add("pair");
  form.prepend(made("label", { for: "source" }, "source"), source, made("label", { for: "text" }, "target"));
  source.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); whenFree("text", () => take(text.value)); } });
  const say = (query, words) => { document.querySelector(query).textContent = words; };
  say("#text-card h2", "Your sentences");
  say("#next-card h2", "The next word of the target");
  say("#learn-card h2", "Learn this pair");
  say("#learn-card .soft", "A step changes every weight so that this target becomes likelier for this source.");
  say("#append", "Append a word");
  say("#append-ten", "Write to the end");
  byId("append-ten").after(made("button", { id: "anew", type: "button", onclick: () => whenFree("text", () => { text.value = ""; take(""); }) }, "Begin anew"));
  byId("tokens").before(made("div", { id: "source-tokens", class: "tokens", role: "toolbar", "aria-label": "Tokens of the source; choose one to follow it" }));
}

function showSource() {
  const strip = byId("source-tokens");
  strip.replaceChildren(made("span", { class: "soft" }, "source"), ...page.source.map((t, i) => {
    const button = made("button", { type: "button", "aria-pressed": String(followed("source", i)), "aria-label": `${word(t)}, position ${i + 1} of the source` }, word(t));
    button.addEventListener("click", () => { followToken("source", i); strip.querySelectorAll("button")[i].focus(); });
    return button;
  }));
  byId("tokens").prepend(made("span", { class: "soft" }, "target"));
  const following = page.follow === null ? "Choose a word to follow it through all maps."
    : `Position ${page.follow + 1} of the ${page.side === "source" ? "source" : "target"} is followed: it is dashed in all maps.`;
  byId("tokens-about").textContent = (page.tokens.length > 1 ? "The bar under a word of the target is the loss of predicting it from the source and the right words before it. "
    : "The target has no word yet: let the model write it. ") + following;
}

// The model's own translation of the source, likeliest word by likeliest word, a word at a time so that the page stays
// alive.
function writeTranslation() {
  const own = ++writing, tokens = [pair.begin], said = byId("writes"), { weights, source } = page;
  const go = () => {
    if (own !== writing) return;
    if (unended(tokens).length < tokens.length || tokens.length >= Math.min(sizes.n_max, 2 * source.length + 10)) {
      const found = tokenizer.decode(tokens).trim(), same = tokens.join() === page.tokens.join();
      said.replaceChildren("This model translates it as ", made("b", {}, found || "nothing"),
        same ? ", which is the target." : tokens.at(-1) === pair.stop ? ". " : " …, without an end. ");
      if (!same) said.append(made("button", { id: "take", type: "button", onclick: () => whenFree("append", () => append(tokens.slice(1), [pair.begin])) }, "Take it as the target"));
      compareSteps(own);
      return;
    }
    work.ask({ kind: "forward", weights, read: read(tokens, source) }, ({ logits }) => {
      tokens.push(sampled(known(logits), 0, 0, 0));
      setTimeout(go);
    });
  };
  setTimeout(go, 30);
}
