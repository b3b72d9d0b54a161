"""Run the claims and say which hold: all of them with a report, or one part, printed (`python -m derivations eq17`)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from derivations.claims import LONG, PARTS, Claim, Result, claims_of, result_of
from derivations.report import page as report
from tinytensor.cli.output import run_command
from tinytensor.interop.io.files import writing
from tinytensor.symbolic.certificates.certify import absent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the claims; 0 if all hold, 1 if one fails, 2 if the command cannot be understood."""
    return run_command(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m derivations",
        description="Run every derivation, proof and check, and write a report; or run some parts and print them.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"run and print these only: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help=f"leave out the parts that take long: {', '.join(LONG)}")
    parser.add_argument("--list", action="store_true", help="list the claims, run nothing")
    parser.add_argument("--table", action="store_true", help="print the table of derivations/README.md, run nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder of the report (default: runs/derivations)")
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in PARTS:
            print(f"derivations: there is no part {part!r}; the parts are {', '.join(PARTS)}", file=sys.stderr)
            return 2
    left_out = LONG if options.quick else ()
    if not (options.parts or options.list or options.table) and (missing := absent()):
        print(f"derivations: the part coq is left out: {missing}", file=sys.stderr)
        left_out = (*left_out, "coq")
    claims = claims_of([p for p in PARTS if p in options.parts or (not options.parts and p not in left_out)])
    if options.list:
        for claim in claims:
            print(f"{claim.part:<9} {claim.category:<14} {claim.statement} ({claim.extent})")
        return 0
    if options.table:
        print(report.overview(claims))
        return 0
    try:
        results = run(claims, mathematics=bool(options.parts))
    except KeyboardInterrupt:
        print("\nderivations: interrupted, and no report is written", file=sys.stderr)
        return 130
    if options.out or not options.parts:
        directory = options.out or Path("runs/derivations")
        try:
            with writing("the report", directory):
                paths = report.write(directory, results)
            for path in paths:
                print(f"written: {path}")
        except ModuleNotFoundError as error:
            print(f"derivations: only {directory / 'report.md'} is written: {error}", file=sys.stderr)
    failed = [r for r in results if r.error]
    for r in failed:
        print(f"FAILED {r.claim.part}: {r.claim.statement}\n       {r.why}")
    print(report.summary(results))
    return 1 if failed else 0


def run(claims: Sequence[Claim], mathematics: bool) -> list[Result]:
    """Run them one after the other, a line for each; with `mathematics` the formulas of each are printed, too."""
    results = []
    for n, claim in enumerate(claims, start=1):
        print(f"[{n:>3}/{len(claims)}] {claim.part:<8} {claim.category:<14} {claim.statement} ... ", end="", flush=True)
        results.append(r := result_of(claim))
        print(f"{'FAILED' if r.error else f'holds: {claim.extent}'} ({r.seconds:.2f} s)", flush=True)
        formulas = "\n".join(f"{name}: {formula}" for name, formula in report.compared(r))
        shown = "\n\n".join(x for x in (formulas, r.evidence.text or r.evidence.latex) if x)
        if mathematics and shown:
            print("\n" + "\n".join(f"      {line}".rstrip() for line in shown.splitlines()) + "\n", flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
