"""`assert_gradient`: a proof as a line of a test, whose failure shows the formula that is wrong."""

from collections.abc import Callable

import sympy

from tinytensor.symbolic.exact.scalars import Symbolic
from tinytensor.symbolic.exact.tensors import SMALL_EXPRESSION
from tinytensor.symbolic.prove.proof import Proof, WrongRule, shorten
from tinytensor.symbolic.prove.prover import prove
from tinytensor.symbolic.prove.sampling import NOT_ON_THE_TAPE, Sampled


def assert_gradient(fn: Callable, *inputs, **options) -> Proof | Sampled:
    r"""Raise AssertionError unless \partial y / \partial x on the tape is proved to be the derivative of `fn`.

    The arguments are those of `prove`: shapes for tensors of symbols, and its options (size, constant, limit ...). It
    holds at these shapes alone, and under the conditions in the verdict of the proof, which is returned.

        def test_gradient_of_softsign():
            assert_gradient(softsign, (2, 3))

    The text of the error has the formula that the rule gives, the derivative, the line of the rule, and the line of
    your code that calls the operation. Inputs that can't be proved at all raise the errors of `prove`.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    proof = prove(fn, *inputs, **options)
    if not proof:
        raise AssertionError(failure(proof))
    return proof


def failure(proof: Proof | Sampled) -> str:
    """A proof that did not succeed, as the text of a test's failure."""
    verdict = "the gradient is wrong" if proof.verdict == "refuted" else "the gradient is not proved"
    verdict_line, *evidence = str(proof).splitlines()
    lines = [f"{verdict}: {proof.name} at {proof.size}"]
    if isinstance(proof, Sampled):
        lines += [f"  {line}" for line in proof.assumptions if line.startswith(NOT_ON_THE_TAPE)]
        lines += [line for line in evidence if line.strip() not in proof.figures]
        lines += ["  a proof at a small size, with its own shapes, shows the formula that is wrong"]
        return "\n".join(lines)
    for wrong in proof.wrong:
        lines += _formulas(wrong)
        evidence = [line for line in evidence if line.strip() not in str(wrong).splitlines()]
    reason = verdict_line.removeprefix(f"{proof.verdict}: {proof.name} at {proof.size}").removeprefix(": ")
    return "\n".join([*lines, *([f"  {reason}"] if reason else []), *evidence])


def _formulas(wrong: WrongRule) -> list[str]:
    """What is wrong about a rule: its formula, the right one, and where both come from."""
    said, then = wrong.words
    where = f"{list(wrong.index)}{' (g is what arrives)' if wrong.input else ''}"
    lines = [f"  {said}, at {where}", f"      {_formula_text(wrong.got)}", f"  {then}"]
    lines += [f"      {_formula_text(wrong.right)}"]
    lines += [f"  the rule:    {wrong.rule_at}"] if wrong.rule_at else []
    return lines + ([f"  called here: {wrong.called_at}"] if wrong.called_at else [])


def _formula_text(value: Symbolic) -> str:
    """A formula, as one product if that is shorter."""
    if value.expr.count_ops() > SMALL_EXPRESSION:
        return shorten(value)
    product = Symbolic(sympy.factor(sympy.cancel(value.expr)), value.witness)
    return min(shorten(value), shorten(product), key=len)
