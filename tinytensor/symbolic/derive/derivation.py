"""The result of `derive`: formulas, their proof, and the program that computes them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from sympy import Add, Indexed, Integer, Mul

from tinytensor.nn.module import Module
from tinytensor.symbolic.certificates.certificate import Certificate, CertifiedProgram
from tinytensor.symbolic.certificates.terms import NotCertifiable
from tinytensor.symbolic.derive.adjoints import DerivedLines, derive_lines
from tinytensor.symbolic.derive.arguments import arguments as as_arguments
from tinytensor.symbolic.derive.arguments import symbols_of
from tinytensor.symbolic.derive.conditions import SizeCondition, conditions_in
from tinytensor.symbolic.derive.facts import Fact, with_facts
from tinytensor.symbolic.derive.modules import as_function
from tinytensor.symbolic.derive.results import Formula, Result
from tinytensor.symbolic.derive.samples import SMALL, Sample, compared_numbers, mismatch, samples
from tinytensor.symbolic.derive.source import check_names, evaluate_at
from tinytensor.symbolic.derive.values import ExtremeMask
from tinytensor.symbolic.index_calculus.adjoints import Name, d, name_of
from tinytensor.symbolic.index_calculus.formulas import Array, Size
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.numbers import differing_entry
from tinytensor.symbolic.time_limit import SYMBOLS, TimeLimit, limited, stage


class Derivation(Result):
    """The gradients of a function for any size, with their proof; see `derive`."""

    def __init__(
        self,
        name: str,
        derived: DerivedLines,
        fn: Callable,
        arguments: dict[str, object],
        where: Sequence[SizeCondition],
        time: TimeLimit,
    ):
        self.name, self.derived, self.fn, self.arguments = name, derived, fn, arguments
        self.where, self.time, self.written = tuple(where), time, as_arguments(arguments, {})
        self.names = (*derived.trace.arrays.values(), *[line.name for line in derived.forward])
        shown = derived.adjoints
        for r in derived.recurrences:
            shown = r.lines_of_adjoints(shown)
        self.lines = [Formula(line, self.names, derived) for line in derived.forward]
        self.adjoints = [Formula(line, self.names, derived) for line in shown.values()]
        self.gradients: dict[str, Formula] = {
            n: Formula(derived.adjoints[d(name_of(entry))], self.names, derived)
            for n, entry in derived.trace.parameters.items()
            if d(name_of(entry)) in derived.adjoints
        }

    @property
    def derivation(self) -> "Derivation":
        """The first derivatives, which these are."""
        return self

    @property
    def symbols(self) -> list[Size]:
        """The sizes that are symbols."""
        return symbols_of(self.written)

    def points(self) -> list[Sample]:
        """The function at small sizes, and at values with zeros and ties."""
        compared = compared_numbers(self.derived.forward)
        return samples(self.fn, self.written, self.symbols, *self._numbers(), compared)

    def _numbers(self) -> tuple[list[float], list[int]]:
        """The first few numbers in the function's own calls, such as the bounds of a clamp; and sizes beyond others.

        Of a number n from 10 on, in a call or in a condition on sizes, n + 1 is tried as a size.
        """
        numbers = [a for term in self.derived.trace.program.terms for a in term.args if type(a) in (int, float)]
        small = (float(a) for a in numbers if abs(a) < 100)
        numbers += [int(n) for c in self.size_conditions for n in (c.left - c.right).atoms(Integer)]
        beyond = (int(abs(a)) + 1 for a in numbers if max(SMALL) < abs(a) < 1000)
        return list(dict.fromkeys(small))[:8], list(dict.fromkeys(beyond))[:3]

    def differs_at(self, sample: Sample) -> tuple[str, bool]:
        """What differs from the function at a point; and is all that differs NaN or infinite by the formulas?"""
        upstream = {} if sample.upstream is None else {"upstream": sample.upstream}
        values = evaluate_at(self._program, sample, **upstream)
        if values is None:
            return "the value does not match these formulas", False
        wanted = {"value": sample.value, **{n: sample.gradients[n] for n in self.gradients}}
        for name, expected in wanted.items():
            same_shape = values[name].shape == expected.shape
            if not same_shape or differing_entry(expected, values[name], size=sample.size) is not None:
                finite = np.isfinite(values[name])
                divided = (
                    same_shape and differing_entry(expected[finite], values[name][finite], size=sample.size) is None
                )
                what = "the value" if name == "value" else f"the gradient of {name} by backward()"
                return f"{what} does not match these formulas", divided
        return "", False

    def mismatch(self, sample: Sample, name: str, by_hand: np.ndarray) -> str:
        """The first entry in which a gradient by hand differs from that of backward() at a point, in words."""
        return mismatch(sample.gradients[name], by_hand, sample.size)

    @property
    def title(self) -> str:
        """What 𝓛 is, in words."""
        output = self.derived.output
        if isinstance(output, Indexed):
            short = self.short_names.get(d(output.base))
            named = f"; {short} = ∂𝓛/∂{output.base.text}" if short else ""
            return f"𝓛: any scalar that is computed from {output.base.text}{named}"
        return "𝓛: the result" if output.name == "loss" else f"𝓛: {output.name}, the result"

    @property
    def groups(self) -> list[list[Formula]]:
        """The gradients, which stand below the title."""
        return [self.adjoints]

    def entries_apart(self) -> list[str]:
        """Which entries the indices of arguments are whose sizes were taken apart: x_ij is entry 2 i + j - 2 of x."""
        trace, result = self.derived.trace, []
        for name, a in trace.tensors.items():
            if a.dims == self.written[name].dims:
                continue
            entry, entries = trace.entry_of(name), []
            indices = list(entry.indices)
            for dim in a.dims:
                of_dim, indices = indices[: len(dim)], indices[len(dim) :]
                steps = [Mul(*dim[n + 1 :]) for n in range(len(dim))]
                number = Add(*[(i - 1) * step for i, step in zip(of_dim, steps, strict=True)]) + 1
                entries += [text(number.xreplace(trace.unnamed_sizes).expand())] if dim else []
            result.append(f"{text(entry)} is entry {', '.join(entries)} of {name}, from 1 on")
        return result

    @cached_property
    def short_names(self) -> dict[Name, str]:
        """The short names of gradients."""
        arguments = [d(self.derived.trace.arrays[n]) for n in self.gradients]
        used = [a for x in self.adjoints for a in (*x.right.atoms(Array), name_of(x.left)) if getattr(a, "of", None)]
        inner = [a for a in dict.fromkeys(used) if a not in arguments and len(a.sizes) <= 2]
        return {a: "G" if len(inner) == 1 else f"G_{a.of.text}" for a in inner}

    def certificate(self, file: str | Path | None = None) -> str:
        """The derivation as a file of Coq, with a theorem for each gradient: its text, which is also written to `file`.

        `tinytensor certify FILE` lets Coq's kernel check it. NotCertifiable (a TypeError) where the derivation is not
        proved, or has a function that the library of Coq does not have.
        """
        text = str(Certificate(self._certified_program()))
        if file is not None:
            Path(file).write_text(text, encoding="utf-8")
        return text

    def _certified_program(self) -> CertifiedProgram:
        if not self.proved:
            raise NotCertifiable(f"certificate: {self.name} is {self.verdict}")
        trace = self.derived.trace
        if self.derived.recurrences:
            raise NotCertifiable(
                "certificate: a recurrence has no certificate yet; give the number of steps as a number"
            )
        if any(isinstance(mask, ExtremeMask) for mask in trace.lines.constants.values()):
            raise NotCertifiable(
                "certificate: the places of the largest entries are data, and no theorem says where they are; "
                "leave out what subtracts or takes a maximum, as softmax does by itself"
            )
        parameters = list(trace.parameters.values())
        names = [*map(name_of, parameters), *[line.name for line in self.derived.forward]]
        of = {d(name): name for name in names}
        return CertifiedProgram(
            title=self.name,
            parameters=parameters,
            constants=[*trace.tables, *trace.lines.constants],
            lines=self.derived.forward,
            gradients={of[n]: line for n, line in self.derived.adjoints.items() if n in of},
            output=self.derived.output,
            printed=lambda line: str(Formula(line, self.names, self.derived)),
            names=self.names,
            conditions=[*map(str, self.size_conditions), *self.value_conditions],
        )


def first_derivatives(
    command: str,
    fn: Callable | Derivation,
    where: str | Fact | Sequence[str | Fact],
    limit: float | None,
    progress: bool | None,
    arguments: dict[str, object],
    share: float = SYMBOLS**2,
) -> tuple[Derivation, TimeLimit]:
    """The derivation of a function, or the one that is given; and the time of the command, which may go on from it.

    share: of this time, for the formulas.
    """
    if isinstance(fn, Derivation):
        if where or arguments:
            raise TypeError(f"{command}: a derivation has its arguments and its `where` already; leave them out")
        return fn, TimeLimit(command, fn.name, limit, progress)
    notes: list[str] = []
    if isinstance(fn, Module):
        fn, arguments, notes = as_function(fn, arguments)
    check_names(arguments)
    where, arguments = with_facts(where, arguments)
    conditions = conditions_in(where, symbols_of(as_arguments(arguments, {})))
    name = getattr(fn, "__name__", type(fn).__name__)
    name = "the function" if name == "<lambda>" else name
    time = TimeLimit(command, name, limit, progress)
    with limited(time, share):
        stage("formulas were written")
        derived = derive_lines(fn, arguments, conditions)
    derived.trace.lines.notes.update(dict.fromkeys(notes))
    return Derivation(name, derived, fn, arguments, conditions, time), time
