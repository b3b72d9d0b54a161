"""A gradient by hand beside backward(), in numbers: the first sizes at which the two differ refute it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.creation import tensor
from tinytensor.symbolic.derive.by_hand import UPSTREAM, arguments_by_hand
from tinytensor.symbolic.derive.conditions import SizeCondition
from tinytensor.symbolic.derive.precision import double_precision
from tinytensor.symbolic.derive.results import Result
from tinytensor.symbolic.derive.samples import excuses, record_edges
from tinytensor.symbolic.derive.time_limit import is_up
from tinytensor.symbolic.derive.trace import format_sizes
from tinytensor.symbolic.prove.proof import format_numbers


class Comparison(NamedTuple):
    """A gradient by hand beside backward(), in numbers.

    example: the smallest sizes, and an entry there, at which they differ; empty if they differ nowhere but where a
    condition on values fails. needed: those conditions, and "equality" for equal numbers in x == y. agreed: the sizes
    of the points at which they agree, with the conditions that fail there.
    """

    example: str = ""
    needed: frozenset[str] = frozenset()
    agreed: tuple[tuple[dict, frozenset[str]], ...] = (({}, frozenset()),)

    def tried(self, sizes: Sequence[SizeCondition], besides: frozenset[str]) -> bool:
        """Do they agree at a point at which these conditions on sizes, and all on values but `besides`, are met?"""
        return any(not edges - besides and all(c.holds(at) for c in sizes) for at, edges in self.agreed)


def compare_at_samples(derivation: Result, name: str | tuple[str, str], function: Callable) -> Comparison:
    """The gradient by hand beside backward() at the samples that meet the function's conditions on sizes.

    So is a block of a Hessian or Jacobian by hand; `name` is its two names then.

    An exception that it raises at every one of them is the caller's mistake, and goes on.
    """
    needed: set[str] = set()
    agreed: list[tuple[dict, frozenset[str]]] = []
    equal, example = "", ""  # equal: a point at which they differ, and only an x == y is a tie
    failures: list[Exception] = []
    ran = False
    inside = [one for one in derivation.samples if derivation.inside(one)]
    for one in sorted(inside, key=lambda s: (sum(s.at.values()), max(s.at.values(), default=0))):
        if is_up():
            break
        values = dict(one.inputs)
        if one.upstream is not None:
            values[UPSTREAM] = tensor(one.upstream)
        edges, problem = set(one.edges), ""
        try:
            with no_grad(), record_edges(values) as more, double_precision():
                own = function(**arguments_by_hand(function, {str(s): n for s, n in one.at.items()}, values))
            edges |= more
            ran = True
            own = own.detach().numpy() if isinstance(own, Tensor) else np.asarray(own)
            if one.far and not np.isfinite(own).all():
                continue
            problem = derivation.mismatch(one, name, own)
        except Exception as error:
            failures.append(error)
            problem = f": the gradient by hand fails: {type(error).__name__}: {error}".splitlines()[0]
        if not problem:
            agreed.append((one.at, frozenset(edges)))
            continue
        inputs = ", ".join(f"{k} = {_format_tensor(one.inputs[k])}" for k in derivation.derived.trace.tensors)
        problem = f"at {format_sizes(one.at) or 'one number'}{problem} ({inputs})"
        edges = excuses(edges, one.inputs)
        if not edges:
            example = example or problem
            if ran:
                break
        equal = equal or (problem if edges == {"equality"} else "")
        needed |= edges - {"equality"} or edges  # another condition leaves the point out in any case
    if failures and len(failures) == len(inside):
        raise failures[0]
    if (
        equal and not is_up() and not any(not edges for _, edges in agreed)
    ):  # it always compares equal numbers, as in x == x.max()
        example = example or equal
    return Comparison(example, frozenset(needed), tuple(agreed))


def _format_tensor(x: Tensor) -> str:
    """The numbers, as Python takes them; of more than 50 those at the edges."""
    return str(x.tolist()) if x.numel() <= 50 else format_numbers(x.detach().numpy())
