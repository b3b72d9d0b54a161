"""What `derive` says about functions and gradients by hand, beside what it said when collection.json was written.

    python -m tests.symbolic.collection               # the differences from collection.json; 1 if a proof is lost
    python -m tests.symbolic.collection --only gru    # of the cases whose name has this word
    python -m tests.symbolic.collection --write       # writes the results into the file
    python -m tests.symbolic.collection --new --write # of the cases that the file does not have

collection.json has for each case the verdict, which names the conditions, whether it is proved, the printed text and
the seconds of the processor. Run it before and after a change of the engine of `derive`: nothing that is proved
rightly may be lost, no wrong gradient be proved, and a person reads each text that changed. A text that becomes longer
is named: gradients of textbooks and papers have no more terms in the file than they have there. The cases are those of
the tables of the tests and of examples/gradients.
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

from examples.gradients import functions as examples
from tests.symbolic.derive import (
    derived_functions,
    derived_matrices,
    recurrent_functions,
    reviewed,
    second_functions,
)
from tests.symbolic.derive import test_certificate as certificates
from tests.symbolic.derive import test_check as checks
from tests.symbolic.derive import test_dependent_sizes as dependent_sizes
from tests.symbolic.derive import test_derive as derivations
from tests.symbolic.derive import test_hessians as hessians
from tests.symbolic.derive import test_matrices as matrices
from tests.symbolic.derive import test_products as products
from tests.symbolic.derive import test_soundness as soundness
from tests.symbolic.programs import call
from tests.symbolic.reading.tricks import SLOW, TRICKS
from tinytensor.symbolic import check
from tinytensor.symbolic.derive.check import Check

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Case:
    """A call of `derive` or its like; with `by_hand`, that of `check` for its result.

    wrong: must it not be proved? words: the text has them, such as the term that differs.
    """

    make: Callable
    by_hand: dict = field(default_factory=dict)
    wrong: bool = False
    words: str = ""


def name_of(value) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def hands(name: str, make: Callable, wrong: Iterable = (), right: Iterable = (), of="x", keyword="by_hand"):
    """A check of each gradient by hand; in a dictionary, words of its text are beside it."""
    for gradients, word in ((wrong, "wrong"), (right, "right")):
        for hand, words in (gradients if isinstance(gradients, dict) else dict.fromkeys(gradients, "")).items():
            case = Case(make, {keyword: {of: hand}}, word == "wrong", words)
            yield f"{name}, {word} d{''.join(of)}: {name_of(hand)}", case


def with_hands(name: str, make: Callable, *of_hands):
    """The derivation, and the checks."""
    return [(name, Case(make)), *hands(name, make, *of_hands)]


def groups() -> Iterator[tuple[str, Iterable[tuple[str, Case]]]]:
    """The cases of each table, by name."""
    for group, table in (
        ("functions", derived_functions.FUNCTIONS),
        ("review", reviewed.REVIEW),
        ("certificates", certificates.FUNCTIONS),
        ("textbook", derived_functions.FORMS),
        ("matrices", derived_matrices.TABLE),
        ("equation 17", derivations.EQUATION_17),
        ("second", second_functions.CASES),
        ("recurrent", recurrent_functions.RECURRENT),
        ("sizes", {f"{row[0].__name__} {row[1]} {row[2] if row[2:] else ''}": row for row in dependent_sizes.ROWS}),
        ("by hand", checks.FUNCTIONS),
        ("refused", reviewed.REFUSED),
        ("refused loops", recurrent_functions.REFUSED),
        ("tricks", {name: (fn, reviewed.X) for name, fn in TRICKS.items() if name not in SLOW}),
    ):
        yield group, ((name, Case(call(*row))) for name, row in table.items())
    for name, (fn, arguments, by_hand) in reviewed.UNUSABLE.items():
        yield "refused by hand", [(name, Case(call(fn, arguments), by_hand))]
    for k, (of, fn, arguments, wrt, line) in products.LINES.items():
        yield "products", [(k, Case(partial(of, fn, *[line] * bool(line), wrt=wrt, **arguments)))]
    for group, table in (("faults", soundness.FAULTS), ("other words", reviewed.OTHER_WORDS)):
        for name, (fn, arguments, wrong, right, *where) in table.items():
            yield group, with_hands(name, call(fn, arguments, *where), wrong, right, next(iter(arguments)))
    for name, (fn, arguments) in soundness.BACKWARD.items():
        yield "backward", [(name, Case(partial(check, fn, **arguments), wrong="wrong" in name))]
    for fn, arguments, where, right, words in soundness.RESTRICTED:
        yield "restricted", [(f"to {words}, without where", Case(call(fn, arguments)))]
        yield "restricted", with_hands(f"to {words}", call(fn, arguments, where), [], [right])
    for fn, arguments, right, words in soundness.VALUES:
        yield "values", with_hands(words, call(fn, arguments), [], [right])
    for e in examples.TABLE.values():
        make = call(e.function, e.arguments, e.where, e.options)
        plain = call(e.function, e.arguments, e.where) if e.options else make
        wrong = Case(plain, e.by_hand, True)
        yield "examples", [(e.function.__name__, Case(make)), (f"{e.function.__name__}, wrong d{e.argument}", wrong)]
    for group, table, by_hand in (
        ("recurrent", recurrent_functions.RECURRENT, recurrent_functions.BY_HAND),
        ("matrices by hand", derived_matrices.TABLE, matrices.BY_HAND),
        ("by hand", checks.FUNCTIONS, checks.BY_HAND),
    ):
        for name, of, wrong, right in by_hand:
            yield group, hands(name, call(*table[name]), wrong, right, of)
    for fn, arguments, where, of, wrong, right in dependent_sizes.BY_HAND:
        yield "sizes", with_hands(fn.__name__, call(fn, arguments, where), wrong, right, of)
    for name, (fn, arguments, block, right, wrong) in hessians.BY_HAND.items():
        keyword = "jacobian" if isinstance(block, str) else "hessian"
        yield "blocks", with_hands(name, call(fn, arguments), wrong, right, block, keyword)


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


def verdict_of(result) -> str:
    """The verdict; that of a check is those of its arguments."""
    if isinstance(result, Check):
        return "; ".join(f"{v.label}: {v.statement or v.verdict}" for v in result.verdicts.values())
    return result.verdict


@lru_cache(maxsize=1)  # the checks of a function follow its derivation
def derivation_of(make: Callable):
    result = make()
    return result, verdict_of(result)


def once(case: Case) -> dict:
    """The entry of a case in the file; the seconds of a check are those without the derivation."""
    start = time.process_time()
    try:
        result, verdict = derivation_of(case.make)
        if case.by_hand:
            start = time.process_time()
            result = check(result, **case.by_hand)
            verdict = verdict_of(result)
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
    if before["text"] == after["text"]:
        return ""
    return "longer" if len(after["text"]) > len(before["text"]) else "text"


def report(before: dict[str, dict], after: dict[str, dict], wrong: set[str]) -> tuple[Counter, str]:
    """The number of differences of each outcome; and a text of them, and of the seconds."""
    outcomes = {n: outcome(before.get(n), after.get(n), n in wrong) for n in dict.fromkeys((*before, *after))}
    lines = []
    for name, what in outcomes.items():
        old, new = before.get(name, {}), after.get(name, {})
        lines += [f"{what:<11} {name}"] if what else []
        if old.get("verdict") != new.get("verdict"):
            lines += [f"    {sign} {entry['verdict']}" for sign, entry in (("-", old), ("+", new)) if entry]
        if what not in ("", "new", "gone"):
            texts = (entry["text"].splitlines() for entry in (old, new))
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
