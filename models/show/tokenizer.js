// Text to tokens and back, as models/data/tokenizers.py does it.
//
// Python's regular expressions and those of the tokenizers library differ in what a letter and white space is, and both
// differ from JavaScript's: hence the classes by hand.

"use strict";

const SPACES = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const CLASSES = {
  word: { letter: "\\p{L}\\p{N}_", space: SPACES + "\\x1c-\\x1f" },
  bpe: { letter: "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼½¾", space: SPACES },
};

class Tokenizer {
  // made: the tokenizer's to_dict()
  constructor(made) {
    this.kind = made.kind;
    this.unknown = made.special.length;
    this.tokens = [...made.special, "\ufffd", ...made.pieces];
    this.ids = new Map(made.pieces.map((piece, i) => [piece, this.unknown + 1 + i]));
    this.ranks = new Map((made.merges ?? []).map(([a, b], i) => [a + "\0" + b, i]));
    const known = CLASSES[this.kind];
    if (this.kind === "word")
      this.pattern = ` ?[${known.letter}]+| ?[^${known.letter}${known.space}]|[${known.space}]`;
    if (this.kind === "bpe") this.pattern = made.pattern.replaceAll(/\[\^\\w\\s\]|\\w|\\s/g, (found) => (
      { "\\w": `[${known.letter}]`, "\\s": `[${known.space}]` }[found] ?? `[^${known.letter}${known.space}]`));
  }

  encode(text) {
    text = text.toWellFormed ? text.toWellFormed() : text;
    if (this.kind === "char") return [...text].map((piece) => this.id(piece));
    const pieces = text.match(new RegExp(this.pattern, "gu")) ?? [];
    return this.kind === "word" ? pieces.map((piece) => this.id(piece)) : pieces.flatMap((piece) => this.merged(piece));
  }

  id(piece) { return this.ids.get(piece) ?? this.unknown; }

  // The tokens of one piece: the two neighbours that were merged first in training become one, as often as it goes.
  merged(piece) {
    const parts = [...piece].map((c) => (this.ids.has(c) ? c : null));
    for (;;) {
      let best = Infinity, where = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = parts[i] !== null && parts[i + 1] !== null ? this.ranks.get(parts[i] + "\0" + parts[i + 1]) : undefined;
        if (rank !== undefined && rank < best) [best, where] = [rank, i];
      }
      if (where < 0) return parts.map((part) => (part === null ? this.unknown : this.id(part)));
      parts.splice(where, 2, parts[where] + parts[where + 1]);
    }
  }

  decode(tokens) { return tokens.filter((t) => t >= this.unknown).map((t) => this.tokens[t]).join(""); }

  // The characters or words of a text that the vocabulary lacks, each once.
  missing(text) {
    if (this.kind === "word") return [...new Set(text.match(new RegExp(this.pattern, "gu")) ?? [])].filter((p) => !this.ids.has(p));
    return [...new Set(text)].filter((c) => !this.ids.has(c));
  }
}

// A token as a label: spaces and ends of lines are seen.
const label = (token) => token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
