"""What `derive` says about functions and gradients by hand, beside what it said when collection.json was written.

    python -m tests.symbolic.collection               # the differences from collection.json; 1 if a proof is lost
    python -m tests.symbolic.collection --only gru    # of the cases whose name has this word
    python -m tests.symbolic.collection --write       # writes the results into the file
    python -m tests.symbolic.collection --new --write # of the cases that the file does not have

collection.json has for each case the verdict, which names the conditions, whether it is proved, the printed text and
the seconds of the processor. Run it before and after a change of the engine of `derive`: nothing that is proved
rightly may be lost, no wrong gradient be proved, and a person reads each text that changed. The cases are those of the
tables of the tests and of examples/gradients, and functions from textbooks and papers, which are below.
"""

import argparse
import difflib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from numba.core import event

import tinytensor as tt
from examples.gradients import functions as examples
from tests.symbolic.derive import (
    derived,
    derived_functions,
    derived_matrices,
    recurrent_functions,
    second_functions,
    textbook,
)
from tests.symbolic.derive import test_certificate as certificates
from tests.symbolic.derive import test_check as checks
from tests.symbolic.derive import test_dependent_sizes as dependent_sizes
from tests.symbolic.derive import test_derive as derivations
from tests.symbolic.derive import test_hessians as hessians
from tests.symbolic.derive import test_matrices as matrices
from tests.symbolic.derive import test_products as products
from tests.symbolic.derive import test_recurrences as recurrences
from tests.symbolic.derive import test_small_doors as small_doors
from tests.symbolic.derive import test_soundness as soundness
from tests.symbolic.derive import test_vanishing as vanishing
from tinytensor import linalg, nn
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index, check, derive, positive_definite

FILE = Path(__file__).with_suffix(".json")
N, ND, DD, NN, NK = ("N",), ("N", "D"), ("D", "D"), ("N", "N"), ("N", "K")
X, XY, CLASSES = {"x": N}, {"x": N, "y": N}, {"x": NK, "t": Index(N, "K")}


def nt_xent(x, y):
    a, b = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
    alone = tt.eye(len(x)) > 0
    same = (a @ a.T / 0.5).masked_fill(alone, float("-inf"))
    return (tt.cat([a @ b.T / 0.5, same], 1).logsumexp(1) - (a * b).sum(1) / 0.5).mean()


def barlow_twins(x, y):
    a, b = (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)
    C = a.T @ b / len(x)
    return ((C.diagonal() - 1) ** 2).sum() + 0.005 * ((C**2).sum() - (C.diagonal() ** 2).sum())


def discrepancy(x, y):
    def kernel(a, b):
        return (-((a[:, None] - b) ** 2).sum(-1) / 2).exp().mean()

    return kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)


def sinkhorn(C, steps):
    f, g = 0 * C.sum(1), 0 * C.sum(0)
    for _ in range(len(steps)):
        f = -(g - C).logsumexp(1)
        g = -(f[:, None] - C).logsumexp(0)
    return ((f[:, None] + g - C).exp() * C).sum()


def crf(e, A):
    a = e[0]
    for t in range(1, e.shape[0]):
        a = (a[:, None] + A).logsumexp(0) + e[t]
    return a.logsumexp(0)


def viterbi(e, A):
    a = e[0]
    for t in range(1, e.shape[0]):
        a = (a[:, None] + A).amax(0) + e[t]
    return a.amax(0)


def state_space(x, a, b, c):
    h, result = 0 * a, []
    for t in range(len(x)):
        h = a * h + b * x[t]
        result.append((c * h).sum())
    return tt.stack(result)


def momentum(w, A, steps):
    v = 0 * w
    for _ in range(len(steps)):
        v = 0.9 * v - 0.1 * (A @ w)
        w = w + v
    return (w * w).sum()


def newton_schulz(A, steps):
    Z = A.T
    for _ in range(len(steps)):
        Z = 2 * Z - Z @ A @ Z
    return Z.sum()


def kalman(y, A, h, Q, r, m0, P0):
    m, P, losses = m0, P0, []
    for t in range(len(y)):
        before = A @ m
        C = A @ P @ A.T + Q
        s = h @ C @ h + r
        k = C @ h / s
        m = before + k * (y[t] - h @ before)
        P = C - k[:, None] * (h @ C)
        losses.append((y[t] - h @ before) ** 2 / s + s.log())
    return tt.stack(losses).sum() / 2


def arcface(x, W, t):
    cosine = F.normalize(x, dim=1) @ F.normalize(W, dim=0)
    angle = cosine.acos() + 0.5 * F.one_hot(t, W.shape[1])
    return F.cross_entropy(30 * angle.cos(), t)


def mixture(x, y):
    parts = [F.softplus(y).sum() - (x - n) ** 2 / 2 * (1 + y * y) for n in (0.0, 1.0)]
    return -tt.stack(parts).logsumexp(0).sum()


REVIEW = vanishing.ONE_LINERS | {  # name: (function, arguments, and where)
    "softplus with a threshold": (lambda x: F.softplus(x, 1.0, 3.0).sum(), X),
    "logarithm with a bound": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), XY),
    "hypot at 0": (lambda x, y: (x * x - 4).hypot(y * y - 9).sum(), XY),
    "absolute value": (lambda x: x.abs().sum(), X),
    "absolute value by where": (lambda x: tt.where(x > 0, x, -x).sum(), X),
    "jump at 0": (lambda x: tt.where(x > 0, x + 1, x).sum(), X),
    "jump at 1.5": (lambda x: (x * (x > 1.5)).sum(), X),
    "jump at each whole number": (lambda x: (x * x.floor()).sum(), X),
    "jump of wing's loss": (lambda x: tt.where(x < 10, 10 * (1 + x / 2).log(), x - 1.79).sum(), X),
    "mean of all but the first": (lambda x: x[1:].mean(), X),
    "log-sum-exp of all but the first": (lambda x: x[1:].logsumexp(0), X),
    "size as a key": (lambda x: (x**2).sum() * {50: 2.0}.get(len(x), 1.0), X),
    "threshold": (lambda x: F.threshold(x, 0.5, 2.0).sum(), X),
    "hardshrink": (lambda x: F.hardshrink(x).sum(), X),
    "selu": (lambda x: F.selu(x).sum(), X),
    "NT-Xent": (nt_xent, {"x": ND, "y": ND}),
    "RankNet": (lambda x: F.softplus(x - x[:, None]).triu(1).sum(), X),
    "Barlow twins": (barlow_twins, {"x": ND, "y": ND}),
    "focal loss of logits": (lambda x, y: ((x.sigmoid() - y) ** 2 * (F.softplus(x) - x * y)).mean(), XY),
    "Dice's loss": (lambda x, y: 1 - 2 * (x.sigmoid() * y).sum() / (x.sigmoid().sum() + y.sum()), XY),
    "intersection over union": (lambda x, y: 1 - (x * y).sum() / (x + y - x * y).sum(), XY),
    "Student's t": (lambda x, m, s: (2.5 * (1 + ((x - m) / s) ** 2 / 4).log() + s.log()).sum(), textbook.NORMAL),
    "mixture of two": (mixture, {"x": N, "y": ()}),
    "variational bound": (lambda m, s: -0.5 * (1 + s - m**2 - s.exp()).sum(-1).mean(), {"m": ND, "s": ND}),
    "zero-inflated Poisson": (lambda x, y: -(y + (1 - y) * (-x.exp()).exp()).log().sum(), XY),
    "Gaussian kernel": (lambda x, s: (-((x[:, None] - x) ** 2).sum(-1) / (2 * s * s)).exp().sum(), {"x": ND, "s": ()}),
    "mean discrepancy": (discrepancy, {"x": ND, "y": ("M", "D")}),
    "principal components": (lambda X, W: ((X - X @ W @ W.T) ** 2).sum(), {"X": ND, "W": ("D", "K")}),
    "Gaussian process": (lambda A, y: y @ linalg.solve(A, y) + tt.logdet(A), {"A": NN, "y": N}, positive_definite("A")),
    "fixed point": (lambda A, b: (linalg.solve(tt.eye(len(b)) - A, b) ** 2).sum(), {"A": DD, "b": ("D",)}),
    "spectral norm": (lambda W, u: (u @ W) @ (u @ W) / (u @ W).norm(), {"W": ND, "u": N}),
    "batch norm": (lambda x, w, b: (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt() * w + b,
                   {"x": ND, "w": ("D",), "b": ("D",)}),
    "weight norm": (lambda x, V, s: x @ (s * V / V.norm(dim=0)), {"x": ND, "V": ("D", "K"), "s": ("K",)}),
    "LoRA": (lambda x, W, A, B: x @ (W + 0.5 * A @ B),
             {"x": ND, "W": ("D", "K"), "A": ("D", "R"), "B": ("R", "K")}),
    "mixture of experts": (lambda x, G, W: tt.einsum("ne,edk,nd->nk", (x @ G).softmax(-1), W, x),
                           {"x": ND, "G": ("D", "E"), "W": ("E", "D", "K")}),
    "causal linear attention": (lambda Q, K, V: (Q @ K.T).tril() @ V, {"Q": ND, "K": ND, "V": ("N", "K")}),
    "Sinkhorn": (sinkhorn, {"C": ("N", "M"), "steps": ("T",)}),
    "conditional random field": (crf, {"e": ("T", "K"), "A": ("K", "K")}),
    "Viterbi": (viterbi, {"e": ("T", "K"), "A": ("K", "K")}),
    "state space": (state_space, {"x": ("T",), "a": ("D",), "b": ("D",), "c": ("D",)}),
    "Kalman filter": (kalman, {"y": ("T",), "A": DD, "h": ("D",), "Q": DD, "r": (), "m0": ("D",), "P0": DD}),
    "ArcFace": (arcface, {"x": ND, "W": ("D", "K"), "t": Index(N, "K")}),
    "momentum": (momentum, {"w": ("D",), "A": DD, "steps": ("T",)}),
    "Newton and Schulz": (newton_schulz, {"A": DD, "steps": ("T",)}),
    "distances of a triplet": (lambda x, y, z: F.relu(F.pairwise_distance(x, y) - F.pairwise_distance(x, z) + 1).mean(),
                               {"x": ND, "y": ND, "z": ND}),
    "three largest": (lambda x: x.topk(3).values.sum(), X),
    "batch of solves": (lambda A, b: linalg.solve(A, b).sum(), {"A": ("B", "D", "D"), "b": ("B", "D")}),
    "module": (derivations.Net(), {"x": ("N", "D=16")}),
    "linear layer": (nn.Linear(16, 32), {"input": ("N", "D=16")}),
}  # fmt: skip
OTHER_WORDS = {  # function, arguments, gradients of the first argument by hand: wrong ones, and right ones
    "sin² by cos²": (lambda x: (x - x.sin() * x.cos()).sum(), X, ["2 * cos(x)**2"], ["2 - 2 * cos(x)**2"]),
    "twice the angle": (lambda x: (x.sin() ** 2).sum(), X, ["sin(x)"], ["sin(2 * x)"]),
    "log of a product": (lambda x, y: (x * (x * y).log()).sum(), XY, ["log(x) + log(y)"], ["log(x) + log(y) + 1"]),
    "sign": (lambda x: (x**2).sqrt().sum(), X, ["x"], ["x / (x**2).sqrt()", "x.sign()"]),
    "roots": (lambda x, y: (x * y).sqrt().sum(), XY, ["y.sqrt() / x.sqrt()"], ["y.sqrt() / (2 * x.sqrt())"]),
    "fractions": (lambda x, y: (1 / (x * (x + y))).sum(), XY,
                  ["(1 / (x + y)**2 + 1 / x**2) / y"], ["(1 / (x + y)**2 - 1 / x**2) / y"]),
    "largest of three": (lambda x, y, z: tt.maximum(x, tt.maximum(y, z)).sum(), XY | {"z": N},
                         ["(x > y) * 1.0"], ["(x > maximum(z, y)) * 1.0"]),
    "running sum from the end": (lambda x, y: (x.cumsum(0) * y).sum(), XY,
                                 ["y.cumsum(0)"], ["y.flip(0).cumsum(0).flip(0)"]),
    "determinant of a product": (lambda A, B: linalg.det(A @ B), {"A": DD, "B": DD},
                                 ["linalg.inv(A).T"], ["linalg.det(A) * linalg.det(B) * linalg.inv(A).T"]),
    "log-determinant of a product": (lambda A, B: linalg.slogdet(A @ B).logabsdet, {"A": DD, "B": DD},
                                     ["linalg.inv(A)"], ["linalg.inv(A).T"]),
    "sum of places": (lambda x: x.sum() * tt.arange(len(x)).sum(), X, ["N * ones(N)"], ["N * (N - 1) / 2 * ones(N)"]),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A call of `derive` or its like; with `by_hand`, that of `check` for its result. wrong: must it not be proved?"""

    make: Callable
    by_hand: dict = field(default_factory=dict)
    wrong: bool = False


def name_of(one) -> str:
    return one if isinstance(one, str) else getattr(one, "__name__", str(one))


def call(fn, arguments: dict, where=(), **options) -> Callable:
    return partial(derive, fn, **{"where": where} | options | arguments)


def hands(name: str, make: Callable, wrong: Iterable = (), right: Iterable = (), of="x", keyword="by_hand"):
    """A check of each gradient by hand."""
    for gradients, word in ((wrong, "wrong"), (right, "right")):
        for hand in gradients:
            yield f"{name}, {word} d{''.join(of)}: {name_of(hand)}", Case(make, {keyword: {of: hand}}, word == "wrong")


def with_hands(name: str, make: Callable, *of_hands):
    """The derivation, and the checks."""
    return [(name, Case(make)), *hands(name, make, *of_hands)]


def groups() -> Iterator[tuple[str, Iterable[tuple[str, Case]]]]:
    """The cases of each table, by name."""
    for n, table in enumerate((derived_functions.FUNCTIONS, REVIEW, derivations.OTHERS, certificates.FUNCTIONS)):
        yield ("functions", "review", "others", "certificates")[n], ((k, Case(call(*v))) for k, v in table.items())
    yield "papers", ((str(p), Case(call(p.fn, p.arguments))) for p in derived.PAPERS)
    yield "textbook", ((k, Case(call(v.function, v.arguments))) for k, v in textbook.FORMS.items())
    yield "matrices", ((str(m), Case(call(m.function, m.arguments, m.where))) for m in derived_matrices.TABLE)
    yield "recurrent", ((fn.__name__, Case(call(fn, row[0]))) for fn, row in recurrent_functions.RECURRENT.items())
    yield "second", ((k, Case(call(c.fn, c.arguments, **c.options))) for k, c in second_functions.CASES.items())
    for k, (of, fn, arguments, wrt, line, _) in products.LINES.items():
        yield "products", [(k, Case(partial(of, fn, *[line] * bool(line), wrt=wrt, **arguments)))]
    yield "sizes", ((f"{r[0].__name__} {r[1]} {r[2] or ''}", Case(call(*r[:3]))) for r in dependent_sizes.ROWS)
    for part, arguments in (("block", derivations.BLOCK), ("head", derivations.HEAD)):
        yield "equation 17", [(part, Case(call(getattr(derivations, part), arguments)))]
    yield "refused", ((fn.__name__, Case(call(fn, {"x": ND}))) for fn in derivations.REFUSED)
    yield "refused loops", ((fn.__name__, Case(call(fn, recurrences.XH))) for fn in recurrent_functions.REFUSED)
    yield "refused matrices", ((why, Case(call(*row))) for *row, why in matrices.REFUSED)
    for name, (fn, arguments, wrong, right) in soundness.FAULTS.items():
        yield "faults", with_hands(name, call(fn, arguments), wrong, right)
    for fn, arguments, where, right, words in soundness.RESTRICTED:
        yield "restricted", [(f"to {words}, without where", Case(call(fn, arguments)))]
        yield "restricted", with_hands(f"to {words}", call(fn, arguments, where), [], [right])
    for fn, arguments, right, words in soundness.VALUES:
        yield "values", with_hands(words, call(fn, arguments), [], [right])
    for name, (fn, arguments, wrong, right) in OTHER_WORDS.items():
        yield "other words", with_hands(name, call(fn, arguments), wrong, right, next(iter(arguments)))
    for e in examples.TABLE.values():
        make = call(e.function, e.arguments, e.where, **e.options)
        plain = call(e.function, e.arguments, e.where) if e.options else make
        wrong = Case(plain, e.by_hand, True)
        yield "examples", [(e.function.__name__, Case(make)), (f"{e.function.__name__}, wrong d{e.argument}", wrong)]
    for fn, (arguments, right) in checks.FUNCTIONS.items():
        make = call(fn, arguments)
        yield "by hand", [(fn.__name__, Case(make))]
        for of, hand in right.items():
            wrong = [row[2] for row in checks.WRONG if row[:2] == (fn, of)]
            yield "by hand", hands(fn.__name__, make, wrong, [hand], of)
    for name, (fn, arguments, where, wrong, right) in small_doors.DOORS.items():
        yield "doors", with_hands(name, call(fn, arguments, where), wrong, right)
    for fn, arguments, where, of, wrong, right in matrices.BY_HAND:
        yield "matrices by hand", with_hands(fn.__name__, call(fn, arguments, where), wrong, right, of)
    for name, (fn, arguments, block, right, wrong) in hessians.BY_HAND.items():
        keyword = "jacobian" if isinstance(block, str) else "hessian"
        yield "blocks", with_hands(name, call(fn, arguments), [hand for hand, _ in wrong], right, block, keyword)
    for fn, arguments, hand in hessians.SOMEWHERE:
        name = next(iter(next(iter(hand.values())).values()))
        yield "blocks wrong somewhere", [(name, Case(call(fn, arguments), hand, True))]
    for right, table in ((True, recurrent_functions.RIGHT), (False, recurrent_functions.WRONG)):
        for fn, of, hand in table:
            make = call(fn, recurrent_functions.RECURRENT[fn][0])
            yield "recurrent", hands(fn.__name__, make, *(([], [hand]) if right else ([hand], [])), of)


def cases() -> dict[str, Case]:
    """All cases; of several with one name, the later ones have a number."""
    result: dict[str, Case] = {}
    met: Counter[str] = Counter()
    for group, rows in groups():
        for row, case in rows:
            name = f"{group}: {row}".strip()
            met[name] += 1
            result[name if met[name] == 1 else f"{name} ({met[name]})"] = case
    return result


@lru_cache(maxsize=1)  # the checks of a function follow its derivation
def derivation_of(make: Callable):
    result = make()
    return result, result.verdict


def once(case: Case) -> dict:
    """The entry of a case in the file; the seconds of a check are those without the derivation."""
    start = time.process_time()
    try:
        result, verdict = derivation_of(case.make)
        if case.by_hand:
            start = time.process_time()
            result = check(result, **case.by_hand)
            verdict = "; ".join(f"{v.label}: {v.statement or v.verdict}" for v in result.verdicts.values())
        entry = {"verdict": verdict, "proved": bool(result), "text": str(result)}
    except Exception as error:
        entry = {"verdict": re.sub(r"\.py, line \d+", ".py", f"{type(error).__name__}: {error}"), "proved": False}
        entry["text"] = ""
    return entry | {"seconds": round(time.process_time() - start, 2)}


def run(case: Case) -> dict:
    """The entry of a case; if kernels were compiled on the way, which counts as time of `derive`, once more."""
    with event.install_recorder("numba:run_pass") as compiled:
        entry = once(case)
    if compiled.buffer:
        derivation_of.cache_clear()
        entry = once(case)
    return entry


def read(file: Path) -> dict[str, dict]:
    """The entries of the file, by the names of the cases."""
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def outcome(before: dict | None, after: dict | None, wrong: bool) -> str:
    """How a result differs from the one in the file, in order of importance; empty if it does not."""
    if before is None or after is None:
        return "gone" if after is None else "new"
    if before["proved"] != after["proved"]:
        return ("refuted" if before["proved"] else "FALSE PROOF") if wrong else "LOST" if before["proved"] else "gained"
    if before["verdict"] != after["verdict"]:
        return "verdict" if after["text"] else "refused"
    return "text" if before["text"] != after["text"] else ""


def report(before: dict[str, dict], after: dict[str, dict], wrong: set[str]) -> tuple[Counter, str]:
    """The number of differences of each outcome; and a text of them, and of the seconds."""
    outcomes = {n: outcome(before.get(n), after.get(n), n in wrong) for n in dict.fromkeys((*before, *after))}
    lines = []
    for name, what in outcomes.items():
        old, new = before.get(name, {}), after.get(name, {})
        lines += [f"{what:<11} {name}"] if what else []
        if old.get("verdict") != new.get("verdict"):
            lines += [f"    {sign} {one['verdict']}" for sign, one in (("-", old), ("+", new)) if one]
        if what not in ("", "new", "gone"):
            texts = (one["text"].splitlines() for one in (old, new))
            lines += [f"    {line}" for line in difflib.unified_diff(*texts, lineterm="", n=1)][2:]
    pairs = {n: (before[n]["seconds"], after[n]["seconds"]) for n in after if n in before}
    slower = {n: (a, b) for n, (a, b) in pairs.items() if b > 1.5 * a and b > a + 0.1}
    lines += [f"{b / max(a, 0.01):>5.1f} times the seconds, {a} -> {b}: {n}" for n, (a, b) in slower.items()]
    sums = [round(sum(column), 1) for column in zip(*pairs.values(), strict=True)]
    count = Counter(filter(None, outcomes.values()))
    counted = ", ".join(f"{what} {n}" for what, n in count.most_common()) or "no differences"
    return count, "\n".join([*lines, f"{len(after)} cases: {counted}; CPU seconds before and after: {sums}"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.symbolic.collection", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="the cases whose name has this word")
    parser.add_argument("--write", action="store_true", help="write the results into collection.json")
    parser.add_argument("--new", action="store_true", help="the cases that collection.json does not have")
    options = parser.parse_args()
    every = cases()
    frozen = read(FILE)
    chosen = [name for name in every if options.only in name and not (options.new and name in frozen)]
    results: dict[str, dict] = {}
    for n, name in enumerate(chosen, 1):
        results[name] = run(every[name])
        print(f"{n}/{len(chosen)} {results[name]['seconds']:6.2f} s  {name}"[:160], file=sys.stderr, flush=True)
        if options.write and (n % 20 == 0 or n == len(chosen)):
            kept = {n: (frozen | results)[n] for n in every if n in results or n in frozen}
            FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    before = {n: entry for n, entry in frozen.items() if options.only in n and not options.new}
    count, text = report(before, results, {n for n in chosen if every[n].wrong})
    print(text)
    return 1 if count["LOST"] or count["FALSE PROOF"] else 0


if __name__ == "__main__":
    sys.exit(main())
