"""Certificates: a derivation as a file of Coq, whose kernel checks it.

The file has three parts. "The program" defines each line of the derivation, forward and backward, by its printed
formula. "The proof" lets all arguments move at once, each entry with any derivative. It says of each line what a
weighted sum of its derivatives is, in derivatives of the names in the line (`..._out`), and of each name that the
formula of its gradient is what arrives from the lines that use it (`..._is`, `..._in`). The sum of all these equations
is the differential of the result. "The theorems" let one entry move.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

from sympy import Expr, Symbol

from tinytensor.symbolic.certificates.terms import (
    FACTOR,
    ONE,
    ZERO,
    NotCertifiable,
    Reader,
    Term,
    WeightedEntry,
    condition_text,
    conditions_of,
    entries_of,
    names_in,
    number,
    product,
    reindexed,
    renamed,
    text,
    total,
    unused,
    words_in,
)
from tinytensor.symbolic.index_calculus.adjoints import Definition, Name, d, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Index, Size, free, index_order, sizes_of
from tinytensor.symbolic.index_calculus.formulas import names_in as names_of
from tinytensor.symbolic.index_calculus.functions import TABLE
from tinytensor.symbolic.index_calculus.linear_algebra import SymmetricArray
from tinytensor.symbolic.index_calculus.signs import Signs

MOST = 4  # indices of an argument: put4 is the last one
WORDS = """
as at cofix else end exists exists2 fix for forall fun if IN in let match mod return Set Prop Type then using where with
R nat INR PI O S Rpower total delta upto put1 put2 put3 put4 is_derive Derive push lt le True False eq not and or
Rplus Rmult Rminus Ropp Rinv Rdiv Rlt Rle Rgt pow IZR IPR Nat Rdefinitions Raxioms R_AbsRing R_NormedModule
Definition Lemma Theorem Proof Qed Section End Variable Variables Hypothesis Let Notation Local Require Import Open
Scope Print Assumptions Check Admitted Axiom Parameter
"""
# words of Coq and of the library, which no name of a certificate may have
MEANINGS = frozenset([*WORDS.split(), *[row.coq for row in TABLE.values() if row.coq]])
RESERVED = MEANINGS | {"_", "r", "s", "g", "differential", "no_size"}  # what moves, its point, a weight; and a lemma
GREEK = "ΓΔΘΛΞΠΦΨΩβδεζηθλμξπσφψω"  # the letters that look like no letter of ASCII
OPENING = (
    "From Coq Require Import Reals",
    "From Coquelicot Require Import Coquelicot",
    "From Tinytensor Require Import Tinytensor",
    "Open Scope R_scope",
)


@dataclass
class CertifiedProgram:
    """What a certificate is about: a program of definitions, and the gradients that are printed.

    parameters: entries such as X[n, d] whose gradients are given; constants: arrays and symbols that have none.
    gradients: the printed lines by the name that they are the adjoint of. output: the entry of the result. printed: the
    text of a line.
    """

    title: str
    parameters: list[Expr]
    constants: list[Name]
    lines: list[Definition]
    gradients: dict[Name, Definition]
    output: Expr
    printed: Callable[[Definition], str]
    names: Sequence[Name] = ()
    conditions: Sequence[str] = ()


@dataclass
class Line:
    """A line as a term: its name in Coq, and its own indices with their sizes."""

    name: Name
    coq: str
    binders: tuple[tuple[str, str], ...]
    term: Term
    printed: str

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(i for i, _ in self.binders)


class Certificate:
    """The text of a certificate; see the file's docstring."""

    def __init__(self, program: CertifiedProgram):
        self.program = program
        self._name_everything()
        self._read()

    # -- names

    def _name_everything(self) -> None:
        p = self.program
        output, names, parameters = name_of(p.output), [line.name for line in p.lines], list(map(name_of, p.parameters))
        self.weights: list[Name] = [d(output)] if isinstance(output, Array) else []
        self.loss: Name = Symbol("loss", real=True) if self.weights else output
        arrays = list(dict.fromkeys([*parameters, *p.constants, *names, *self.weights, self.loss]))
        self.coq: dict[object, str] = {}
        self.taken: set[str] = set()
        for x in dict.fromkeys([*arrays, *map(d, parameters), *map(d, names)]):
            self._give_name(x, str(getattr(x, "label", x)))
        self.sizes = self._sizes_in_order([x for x in arrays if isinstance(x, Array)])
        for size in self.sizes:
            self._give_name(size, size.name if size.name not in self.taken else f"n{size.name}")

    def _give_name(self, x: object, wanted: str) -> None:
        wanted = re.sub(rf"[^a-zA-Z0-9_{GREEK}]", spelled, wanted)
        wanted = f"{wanted}_" if wanted in RESERVED else wanted
        choices = (wanted if n == 0 else f"{wanted}{n + 1}" for n in count())
        self.coq[x] = name = next(c for c in choices if c not in self.taken)
        self.taken |= {name, f"{name}_s"}

    def _sizes_in_order(self, arrays: list[Array]) -> list[Size]:
        """The sizes as they come in the arrays, and then by their names."""
        lines = [*self.program.lines, *self.program.gradients.values()]
        sizes = set().union(*map(sizes_of, arrays), *(line.right.atoms(Size) for line in lines))
        order = dict.fromkeys(s for x in arrays for s in x.sizes if isinstance(s, Size))
        return [*order, *sorted(sizes - order.keys(), key=lambda s: s.name)]

    # -- reading

    def _read(self) -> None:
        p = self.program
        self.reader = Reader(self.coq, p.names, {*self.taken, *RESERVED})
        self.tables = [c for c in p.constants if isinstance(c, Array) and c.values is not None]
        self.constants = [c for c in dict.fromkeys((*p.constants, *self.weights)) if c not in self.tables]
        self.parameters = {name_of(e): e for e in p.parameters}
        self.lines: list[Line] = list(map(self._line, p.lines))
        if self.weights:
            self.lines.append(self._line_of_loss())
        self.active = self._active_names()
        self.moving = {line.name: line for line in self.lines if line.name in self.active}
        self.gradients = {name: self._line(line) for name, line in p.gradients.items() if name in self.active}
        for name in self.parameters:
            if name not in self.gradients:
                raise NotCertifiable(f"certificate: there is no gradient of {name}")
            if isinstance(name, SymmetricArray):
                raise NotCertifiable(f"certificate: that {name} is symmetric is no hypothesis of a certificate yet")
            if len(getattr(name, "sizes", ())) > MOST:
                raise NotCertifiable(f"certificate: {name} has more than the {MOST} indices of put{MOST} in Coq")
        # from the last line before the loss; the gradient of a result that is an array is the weights
        names = [*list(self.moving)[-2::-1], *self.parameters]
        self.backward_names = [n for n in names if not (self.weights and n == name_of(p.output))]
        self.needed = self._conditions()
        self.uses = [(line, use) for line in self.moving.values() for use in self.weighted(line)]
        self.hidden = {n: self._hidden(n) for n in self.backward_names if n not in self.gradients}
        self.adjoint_lines = [(self.hidden | self.gradients)[n] for n in self.backward_names]
        self.line_of = {line.name: line for line in (*self.lines, *self.adjoint_lines)}

    def _active_names(self) -> set[Name]:
        """The names that a parameter reaches, and the loss."""
        active = {*self.parameters, self.loss}
        for line in self.lines:
            active |= {line.name} if names_in(line.term) & active else set()
        return active

    def _conditions(self) -> list[tuple[tuple, str, tuple[Term, Term]]]:
        """The conditions on values that signs do not meet: their indices, the relation, and its sides."""
        signs, result = Signs(self.program.lines), []
        for line in (line for line in self.program.lines if line.name in self.moving):
            for left, relation, right in conditions_of(line.right, signs):
                if names_of(left - right) & self.active:
                    binders = self.reader.binders(sorted(free(left - right), key=index_order))
                    indices = {i: name for i, (name, _) in binders.items()}
                    sides = tuple(self.reader.term(side, indices) for side in (left, right))
                    result.append((tuple(binders.values()), relation, sides))
        return list(dict.fromkeys(result))

    def _line_of_loss(self) -> Line:
        output = next(x for x in self.lines if x.name == name_of(self.program.output))
        weights, entry = (Term("entry", name=name, indices=output.indices) for name in (*self.weights, output.name))
        weighted = total(output.binders, product(weights, entry))
        printed = "𝓛 to the first order, for any loss that is computed from this result: the weights are its gradient"
        return Line(self.loss, self.coq[self.loss], (), weighted, printed)

    def _line(self, definition: Definition) -> Line:
        binders = self.reader.binders(getattr(definition.left, "indices", ()))
        term = self.reader.term(definition.right, {i: name for i, (name, _) in binders.items()})
        coq, printed = self.coq[definition.name], self.program.printed(definition)
        return Line(definition.name, coq, tuple(binders.values()), term, printed)

    def adjoint(self, name: Name) -> Term:
        """The entry of the adjoint of a name; 1 for that of the result."""
        indices = tuple(i for i, _ in self.binders_of(name))
        return ONE if name == self.loss else Term("entry", name=d(name), indices=indices)

    def arriving(self, name: Name) -> list[tuple[Line, WeightedEntry]]:
        """The lines that use a name, and its entry there, with the line's adjoint in the weight."""
        return [(line, use) for line, use in self.uses if use.entry.name == name]

    def weighted(self, line: Line) -> list[WeightedEntry]:
        """The entries of a line, with its adjoint in the weight; its own indices are bound, too."""
        entries = entries_of(line.term, self.active, self.adjoint(line.name))
        return [replace(x, binders=(*line.binders, *x.binders)) for x in entries]

    def contributions(self, name: Name) -> list[Term]:
        """What arrives at an entry of a name, from each line that uses it."""
        return [self.contribution(use) for _, use in self.arriving(name)]

    def contribution(self, use: WeightedEntry) -> Term:
        """What arrives at an entry of its name: the weights, summed over the other indices of the line."""
        binders = self.binders_of(use.entry.name)
        indices, sizes = [i for i, _ in binders], [n for _, n in binders]
        free, entry = use.free_positions(sizes), use.entry.indices
        change = {entry[n]: indices[n] for n in free}
        summed_over = [(i, size) for i, size in use.binders if i not in change]
        taken = {*indices, *self.reader.taken, *(i for i, _ in use.binders)}
        change |= {i: unused(i, taken) for i, _ in summed_over if i in indices}
        moved = [(i, reindexed(p, change)) for n, (i, p) in enumerate(zip(indices, entry)) if n not in free]
        body = product(renamed(use.weight, change, self.reader.taken), *[Term("delta", indices=pair) for pair in moved])
        if body.head in ("+", "-", "neg"):
            body = Term("*", (ONE, body))
        return total([(change.get(i, i), size) for i, size in summed_over], body)

    # -- the text

    def __str__(self) -> str:
        return "\n".join(self._text()) + "\n"

    def _text(self) -> Iterator[str]:
        yield from header(f"{self.program.title}: its gradients", self.program.conditions)
        yield "\n(* ---- the program ---- *)\n\nSection Program.\n"
        yield f"Variables {self._sizes()}."
        for name in (*self.tables, *self.constants, *self.parameters):
            yield f"Variable {self.coq[name]} : {self._type(name)}."
        for line in (*self.lines, *self.adjoint_lines):
            taken = f" ({' '.join(line.indices)} : nat)" if line.binders else ""
            yield f"\n(* {line.printed} *)"
            yield f"Definition {line.coq}{taken} : R := {text(line.term, self.coq.__getitem__)}."
        hints = " ".join(line.coq for line in (*self.lines, *self.hidden.values()))
        yield f"\nEnd Program.\n\n#[local] Hint Unfold {hints} : formulas.\n"
        yield from self._proof()
        yield from self._theorems()

    def _sizes(self) -> str:
        return f"({' '.join(self.coq[s] for s in self.sizes)} : nat)" if self.sizes else "(no_size : nat)"

    def _type(self, name: Name) -> str:
        rank = len(name.sizes) if isinstance(name, Array) else 0
        last = "nat" if name in self.tables else "R"
        return " -> ".join(["nat"] * rank + [last])

    def _hidden(self, name: Name) -> Line:
        """The gradient of a name where it is not printed: what arrives there."""
        arrives = reduce(lambda a, b: Term("+", (a, b)), self.contributions(name) or [ZERO])
        why = "which is not printed: what arrives from the lines that use it"
        printed = f"the gradient of {self.coq[name]}, {why}"
        return Line(d(name), self.coq[d(name)], self.binders_of(name), arrives, printed)

    # -- the proof

    def at_point(self, name: Name) -> str:
        """The text of a name at the arguments of the point s."""
        return f"{self.coq[name]}_s" if self._moves(name) else self.coq[name]

    def _moves(self, name: Name) -> bool:
        return name in self.parameters or any(x in self.parameters for x in self._variables(name))

    def _variables(self, name: Name) -> list:
        """The variables of the section that a name depends on, in the order in which they are declared."""
        waiting, names, words = [name] * (name in self.line_of), set(), set()
        while waiting:
            term = self.line_of[waiting.pop()].term
            waiting += [n for n in names_in(term) - names if n in self.line_of]
            names, words = names | names_in(term), words | words_in(term)
        order = [*self.sizes, *self.tables, *self.constants, *self.parameters]
        return [x for x in order if x in names or self.coq[x] in words]

    def applied(self, name: Name, argument: Callable[[Name], str]) -> str:
        """A name outside of the section, with its variables; `argument` gives the text of a parameter."""
        if name in self.parameters:
            return argument(name)
        shown = [argument(x) if x in self.parameters else self.coq[x] for x in self._variables(name)]
        return f"({' '.join([self.coq[name], *shown])})" if shown else self.coq[name]

    def _curve(self, name: Name, point: str = "r") -> str:
        return self.applied(name, lambda x: f"({self.coq[x]} {point})")

    def _hypotheses(self, called: Callable[[Name], str]) -> Iterator[tuple[str, str]]:
        """Names and statements of the hypotheses on sizes, tables and values."""
        for size in self.sizes:
            yield f"{self.coq[size]}_positive", f"(0 < {self.coq[size]})%nat"
        for table in self.tables:
            binders = self.binders_of(table)
            inside = f"({indexed(self.coq[table], binders)} < {self.reader.size(table.values)})%nat"
            yield f"{self.coq[table]}_in_range", for_all(binders) + inside
        used = set().union(*[names_in(line.term) for line in self.lines])
        for name in (c for c in self.constants if c.is_positive and c in used):
            yield f"{self.coq[name]}_positive", f"0 < {called(name)}"
        for n, (binders, relation, (left, right)) in enumerate(self.needed, start=1):
            condition = condition_text(text(left, called), relation, text(right, called))
            yield f"condition{n}", for_all(binders) + condition

    def binders_of(self, name: Name) -> tuple[tuple[str, str], ...]:
        """The indices of a name with their sizes."""
        if name in self.moving:
            return self.moving[name].binders
        if name in self.parameters:
            indices = getattr(self.parameters[name], "indices", ())
        else:
            indices = [Index("i", n) for n in getattr(name, "sizes", ())]
        return tuple(self.reader.binders(indices).values())

    def _pairing(self, name: Name, weight: Term | None = None) -> str:
        """The sum of derivatives over the entries of a name, with the adjoint or another weight, as text."""
        weighted = Term("*", (weight or self.adjoint(name), number(self._moved(name))))
        return text(total(self.binders_of(name), weighted), self.at_point)

    def _moved(self, name: Name) -> str:
        """The derivative of an entry of a name."""
        return indexed(f"{self.coq[name]}'", self.binders_of(name))

    def _proof(self) -> Iterator[str]:
        yield "(* ---- the proof ---- *)\n\nSection Differential.\n"
        yield f"Variables {self._sizes()}."
        for name in (*self.tables, *self.constants):
            yield f"Variable {self.coq[name]} : {self._type(name)}."
        yield "Variable s : R."
        yield "\n(* Each argument moves: X r at r, X s at the point s, where its derivative is X'. *)"
        for name in self.parameters:
            type_of_entry = self._type(name)
            yield f"Variables ({self.coq[name]} : R -> {type_of_entry}) ({self.coq[name]}' : {type_of_entry})."
        for name in (*self.parameters, *self.line_of):
            if self._moves(name):
                yield f"Local Notation {self.coq[name]}_s := {self._curve(name, 's')}."
            elif self._variables(name):
                yield f"Local Notation {self.coq[name]} := {self._curve(name)}."
        yield ""
        for label, statement in self._hypotheses(self.at_point):
            yield f"Hypothesis {label} : {statement}."
        for name in self.parameters:
            yield f"Hypothesis {self._moves_lemma(name)}."
        for line in self.moving.values():
            yield from self._moving_line(line)
        for name in self.backward_names:
            yield from self._arrival(name)
        yield from self._differential()
        yield "End Differential.\n"

    def _moves_lemma(self, name: Name) -> str:
        binders = self.binders_of(name)
        statement = f"is_derive (fun r => {indexed(self._curve(name), binders)}) s ({self._moved(name)})"
        return f"{self.coq[name]}_moves : {for_all(binders)}{statement}"

    def _moving_line(self, line: Line) -> Iterator[str]:
        """The derivative of a line, and what flows from it to the names in it."""
        uses, name = self.weighted(line), line.coq
        known = dict.fromkeys(use.entry.name for use in uses if use.entry.name not in self.parameters)
        pose = "".join(f"pose proof {self.coq[n]}_moves. " for n in known)
        binders = f"({' '.join(line.indices)} : nat) " if line.binders else ""
        yield f"\n(* {line.printed} *)"
        yield f"Let {name}' {binders}: R := Derive (fun r => {indexed(self._curve(line.name), line.binders)}) s."
        yield f"Lemma {self._moves_lemma(line.name)}."
        yield f"Proof. {pose}intros. moves {name}. Qed."
        yield f"Lemma {name}_out : {self._pairing(line.name)} = {' + '.join(map(self._flow, uses)) or '0'}."
        yield f"Proof.\n  {pose}pose proof {name}_moves."
        yield f"  etransitivity; [inside {len(line.binders)}%nat ltac:(fun _ => line {name}) | cbv beta]."
        yield "  etransitivity; [apart | repeat apply eq_plus]."
        yield from (f"  - {self._order(use)}totals." for use in uses) if uses else ("  ring.",)
        yield "Qed."

    def _flow(self, use: WeightedEntry) -> str:
        """What flows from a line to one entry in it: a sum over the entries of its name."""
        return self._pairing(use.entry.name, self.contribution(use))

    def _order(self, use: WeightedEntry) -> str:
        """Tactics that bring the sums of a line into the order: indices of the entry, then the others."""
        sizes = [n for _, n in self.binders_of(use.entry.name)]
        free, rank, depth = use.free_positions(sizes), len(sizes), len(use.binders)
        new = [n for n in range(rank) if n not in free]
        steps = [f"introduce {k}%nat {n + 1}%nat {rank}%nat ({sizes[n]})%nat. " for k, n in enumerate(new, depth)]
        order = [*(i for i, _ in use.binders), *(f"new {n}" for n in new)]
        target = [i if n in free else f"new {n}" for n, i in enumerate(use.entry.indices)]
        target += [i for i in order if i not in target]
        for position, index in enumerate(target):
            steps += [f"exchange {n - 1}%nat. " for n in range(order.index(index), position, -1)]
            order.remove(index)
            order.insert(position, index)
        return "".join(steps)

    def _arrival(self, name: Name) -> Iterator[str]:
        """Two lemmas: the formula of a gradient is what arrives, and so for the sum over its entries."""
        binders, parts, label = self.binders_of(name), self.contributions(name), self.coq[d(name)]
        shown = [text(part, self.at_point, FACTOR) for part in parts] or ["0"]
        statement = f"{text(self.adjoint(name), self.at_point)} = {' + '.join(shown)}"
        yield f"\n(* what arrives at {self.coq[name]} *)"
        yield f"Lemma {label}_is : {for_all(binders)}{statement}."
        if name in self.hidden:
            yield "Proof. reflexivity. Qed."
        else:
            hidden, lines = self._to_unfold(name, parts)
            tactic = f"{'collects_through' if hidden else 'collects'} ltac:({lines})"
            yield f"Proof. intros. unfold {', '.join([label, *hidden])}. {tactic}. Qed."
        flows = [self._flow(x) for _, x in self.arriving(name)] or ["0"]
        yield f"Lemma {label}_in : {self._pairing(name)} = {' + '.join(flows)}."
        yield f"Proof. arrive {len(binders)}%nat {len(flows) - 1}%nat {label}_is. Qed."

    def _to_unfold(self, name: Name, parts: list[Term]) -> tuple[list[str], str]:
        """The gradients that are not printed and stand in what arrives at a name; and a tactic that unfolds lines.

        The lines are those that these gradients are of, and those that use them or the name: a printed formula is
        written in their results, 1 - h² for a tangent h, and σ for a softmax.
        """
        of = {line.name: n for n, line in self.hidden.items()}
        waiting, passed = [n for p in parts for n in names_in(p)], set()
        while waiting:
            if (n := of.get(waiting.pop())) and n not in passed:
                passed.add(n)
                waiting += names_in(self.hidden[n].term)
        users = passed | {line.name for n in (name, *passed) for line, _ in self.arriving(n)}
        lines = [line.coq for line in reversed(self.lines) if line.name in users]
        hidden = [line.coq for n, line in self.hidden.items() if n in passed]
        return hidden[::-1], f"unfold {', '.join(lines)}" if lines else "idtac"

    def _differential(self) -> Iterator[str]:
        pairs = map(self._pairing, self.parameters)
        yield "\n(* the differential: the sum of all these equations *)"
        yield f"Lemma differential : is_derive (fun r => {self._curve(self.loss)}) s ({' + '.join(pairs)})."
        yield "Proof using All."
        yield f"  apply (derive_eq _ _ _ _ {self.coq[self.loss]}_moves)."
        yield from (f"  pose proof {line.coq}_out." for line in self.moving.values())
        yield from (f"  pose proof {self.coq[d(name)]}_in." for name in self.backward_names)
        yield "  added."
        yield "Qed."

    # -- the theorems

    def _theorems(self) -> Iterator[str]:
        yield "(* ---- the theorems ---- *)"
        called = lambda n: self.applied(n, self.coq.__getitem__) if n in self.line_of else self.coq[n]  # noqa: E731
        names = (*self.tables, *self.constants, *self.parameters)
        variables = " ".join([self._sizes(), *[f"({self.coq[x]} : {self._type(x)})" for x in names]])
        fixed = [self.coq[size] for size in self.sizes] or ["no_size"]
        fixed = " ".join(["differential", *fixed, *[self.coq[x] for x in (*self.tables, *self.constants)]])
        for name in self.parameters:
            binders, coq = self.binders_of(name), self.coq[name]
            indices = [i for i, _ in binders]
            put = f"(put{len(indices)} {coq} {' '.join(indices)} r)" if indices else "r"
            point = f"({' '.join([coq, *indices])})" if indices else coq
            loss = self.applied(self.loss, lambda x, name=name, put=put: put if x == name else self.coq[x])
            gradient = self.applied(d(name), self.coq.__getitem__).strip("()")
            yield f"\n(* {self.gradients[name].printed} *)"
            yield f"Theorem gradient_of_{coq} :"
            yield f"  forall {variables},"
            yield from (f"  ({h}) ->" if "forall" in h else f"  {h} ->" for _, h in self._hypotheses(called))
            yield f"  {for_all(binders)}".rstrip()
            yield f"  is_derive (fun r => {loss}) {point} ({indexed(gradient, binders)})."
            curves = [f"({self.coq[x]} := fun r => {put if x == name else self.coq[x]})" for x in self.parameters]
            yield "Proof.\n  intros. eapply derive_eq."
            yield f"  - eapply ({fixed}) with {' '.join(curves)}; hypothesis."
            yield "  - one_entry.\nQed."


def spelled(character: re.Match) -> str:
    """A character that no name of a certificate has, in letters of ASCII: α as alpha, and ' as _prime."""
    *_, word = unicodedata.name(character[0], "_").lower().split()
    return {"apostrophe": "_prime"}.get(word, word if word.isidentifier() else "_")


def indexed(head: str, binders: Iterable[tuple[str, str]]) -> str:
    """The text of an entry of what `head` is."""
    return " ".join([head, *[index for index, _ in binders]])


def for_all(binders: Sequence[tuple[str, str]], variable: str = "") -> str:
    """The text before a statement for all these indices in their ranges, and for another variable."""
    bound = [f"({' '.join(i for i, _ in binders)} : nat)"] * bool(binders) + [variable] * bool(variable)
    ranges = "".join(f"({i} < {n})%nat -> " for i, n in binders)
    return f"forall {' '.join(bound)}, {ranges}" if bound else ""


def header(title: str, conditions: Sequence[str] = ()) -> Iterator[str]:
    """The first lines of a certificate."""
    yield f"(* {title}, for all sizes and all values that meet the hypotheses."
    yield "   Check it by: tinytensor certify FILE.v"
    if conditions:
        yield f"   The function is this program where {', '.join(conditions)}."
    yield "   An index i = 1..n of the printed formulas is i - 1 here: Σ i < n, f i is f 0 + ... + f (n - 1). *)"
    yield from (f"{sentence}." for sentence in OPENING)
