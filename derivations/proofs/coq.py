"""Gradients that the kernel of Coq checks: the engine's scalar rules, functions of textbooks, and equation (17).

The formulas are those that `derive` prints, the rules are read from the engine; tinytensor writes them as a file of
Coq (tinytensor/symbolic/certificates), and `coqc` checks its proofs with the library derivations/coq/Tinytensor.v.
SymPy and the index calculus, which all other proofs trust, are not trusted here: what they get wrong has no proof.

Debian's packages coq and libcoq-coquelicot are needed. To plant a mistake: change the text of a certificate, or give
`rules_of` a change of the gradients.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from sympy import Expr, Sum, Symbol

from derivations import equations
from derivations.adjoints import Program
from derivations.claims import Evidence, Refuted, claim
from derivations.exact.rules_in_coq import ScalarRule, rules_in_coq
from derivations.proofs.rules import ND, by_hand, call_of, covered, values_of
from tinytensor.core.op import OPS
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, NotDerivable, derive
from tinytensor.symbolic.certificates.certificate import Certificate, CertifiedProgram
from tinytensor.symbolic.certificates.certify import Certified, Coq
from tinytensor.symbolic.derive.by_hand import read_by_hand
from tinytensor.symbolic.index_calculus.adjoints import Definition, d, expanded
from tinytensor.symbolic.index_calculus.notation import equation

COQ = "Coq's kernel and its axioms of the real numbers; the definitions of derivations/coq/Tinytensor.v"
MEANINGS = "the meanings of the operations"


# ---- the functions ---------------------------------------------------------------------------------------------------


def least_squares(X, w, y):
    return ((X @ w - y) ** 2).mean()


def logistic_regression(X, w, y):
    return F.binary_cross_entropy_with_logits(X @ w, y)


def softmax_cross_entropy(X, W, t):
    return F.cross_entropy(X @ W, t)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def row_of_attention(q, K, V):
    return (K @ q / math.sqrt(q.shape[0])).softmax(-1) @ V


def two_layers(x, W, b, U, c, y):
    return (((x @ W + b).relu() @ U + c - y) ** 2).mean()


FUNCTIONS: dict[Callable, dict] = {
    least_squares: {"X": ("N", "D"), "w": ("D",), "y": ("N",)},
    logistic_regression: {"X": ("N", "D"), "w": ("D",), "y": ("N",)},
    softmax_cross_entropy: {"X": ("N", "D"), "W": ("D", "K"), "t": Index(("N",), "K")},
    layer_norm: {"x": ("N", "D"), "w": ("D",), "b": ("D",)},
    row_of_attention: {"q": ("D",), "K": ("N", "D"), "V": ("N", "E")},
    two_layers: {"x": ("N", "D"), "W": ("D", "H"), "b": ("H",), "U": ("H", "O"), "c": ("O",), "y": ("N", "O")},
}


@cache
def certificate_of(function: Callable) -> str:
    """The certificate of one of FUNCTIONS."""
    return derive(function, limit=None, **FUNCTIONS[function]).certificate()


# ---- the engine's scalar rules ---------------------------------------------------------------------------------------

NOT_IN_COQ = {
    "remainder": "its formula has steps, at which Coq's library would need their places",
    **dict.fromkeys(("erfinv", "lgamma", "digamma", "polygamma"), "Coq's library has no such function"),
}


def rules_of(name: str, change: Callable[[Expr], Expr] = lambda gradient: gradient) -> Iterator[ScalarRule]:
    """The rules of one operation on vectors, read entry by entry; none if it is no scalar operation.

    change: applied to each gradient, to plant a mistake.
    """
    op = OPS[name]
    tensors, settings = call_of(op)
    if not set(tensors.values()) <= {ND, ("D",)} or set(settings) & {"dim", "dims", "shape", "key"}:
        return
    tensors = dict.fromkeys(tensors, ("N",))

    def operation(**values):
        return op(*values_of(op, values, settings))

    try:
        derivation = derive(operation, limit=None, **tensors)
    except NotDerivable:
        return
    derived = derivation.derived
    at = derived.output.indices
    formula = expanded(derived.output, derived.forward)
    if formula.has(Sum):
        return
    upstream = Symbol("g", real=True)
    symbols = {a[at]: Symbol(n, real=True) for n, a in derived.trace.arrays.items()} | {d(derived.output): upstream}
    for wanted in [n for n in tensors if op.params.index(n) in op.rules]:
        entry = derived.trace.arrays[wanted][at]
        own = read_by_hand(derivation, wanted, by_hand(op, wanted, settings)).entry
        indices = dict(zip(derivation.entry(wanted)[0].indices, at, strict=True))
        gradient = change(expanded(own.xreplace(indices), derived.forward))
        yield ScalarRule(name, symbols[entry], formula.xreplace(symbols), gradient.xreplace(symbols), upstream)


@cache
def scalar_rules() -> tuple[ScalarRule, ...]:
    """The rules of all operations that take numbers to a number by a formula."""
    return tuple(rule for name in covered() if name not in NOT_IN_COQ for rule in rules_of(name))


# ---- equation (17) ---------------------------------------------------------------------------------------------------


def certificate_of_program(title: str, program: Program, closed: dict, output: Expr) -> str:
    """The certificate of a program of equations.py and its closed forms."""
    names = [*program.parameters, *program.definitions]
    return str(
        Certificate(
            CertifiedProgram(
                title=title,
                parameters=list(program.parameters.values()),
                constants=list(program.constants),
                lines=program.lines,
                gradients={left.base.of: Definition(left, by_hand.form) for left, by_hand in closed.items()},
                output=output,
                printed=lambda line: equation(line.left, line.right, names),
                names=names,
            )
        )
    )


def embedding() -> str:
    """The certificate of equation (1)."""
    output = equations.X[equations.i, equations.j]
    return certificate_of_program("003 (1)", equations.embedding(), equations.embedding_closed(), output)


def block() -> str:
    """The certificate of equations (2) to (10)."""
    output = equations.Zp[equations.i, equations.j]
    return certificate_of_program("003 (2)-(10)", equations.block(), equations.block_closed(), output)


def head() -> str:
    """The certificate of equations (11) to (16)."""
    closed = equations.head_closed()
    return certificate_of_program("003 (11)-(16)", equations.head(), closed, equations.loss)


# ---- the claims ------------------------------------------------------------------------------------------------------

FOLDERS: list[tempfile.TemporaryDirectory] = []  # deleted at the end of the process


@cache
def coq() -> Coq:
    """Coq with its library, compiled once."""
    FOLDERS.append(tempfile.TemporaryDirectory())
    return Coq(Path(FOLDERS[-1].name), seconds=None)


def accepted(text: str) -> Certified:
    """What Coq says of a certificate; Refuted if it does not accept it."""
    result = coq().certify(text)
    if not result:
        raise Refuted("; ".join(result.refused))
    return result


proof = partial(claim, "coq", category="proof", size="any size", trusted=(COQ, MEANINGS))


def evidence(*results: Certified) -> Evidence:
    """The statements of the theorems."""
    return Evidence(text="\n\n".join(f"{t.name}: {t.statement}" for r in results for t in r.theorems))


@proof("each scalar rule of the engine whose derivative is a formula is a theorem that Coq's kernel accepts")
def rules_in_the_kernel():
    return evidence(accepted(rules_in_coq("The scalar rules of the engine", scalar_rules())))


def declare(function: Callable) -> None:
    what = function.__name__.replace("_", " ")

    @proof(f"the gradients of {what}, as derive prints them, are theorems that Coq's kernel accepts")
    def gradients():
        return evidence(accepted(certificate_of(function)))


for one in FUNCTIONS:
    declare(one)


@proof(
    "the closed forms of (17), for one block and both ends of the model, are theorems that Coq's kernel accepts",
    assumptions=("no entry before the ReLU is 0", "every position may attend to at least one: T is not 0"),
    source="003 eq. (17)",
)
def equation_17_in_the_kernel():
    return evidence(*[accepted(text()) for text in (embedding, block, head)])
