// What the search shows first: lessons, then the rest of the course; proofs last. (The numbers are Sphinx's own.)
const ROOMS = { lessons: 12, exercises: 4, course: 6, solutions: -4, proofs: -8, sources: -8 };
var Scorer = {
  score: ([page, title, anchor, about, score]) => score + (ROOMS[page.split("/")[0]] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
