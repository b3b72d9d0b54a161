"""python -m tests.benchmarks [train matmul ...]: measure, print tables, write report.md, results.json, curves.png."""

import argparse
import json
import sys
from pathlib import Path

from . import plots, report
from .measuring import NARROW, Measured, Options, Runner, with_threads
from .rows import GROUPS, ROWS, Row


def chosen(names: list[str], quick: bool) -> list[Row]:
    """The rows of these groups, or with these words in their names; ValueError for a name that no row has."""
    for name in names:
        if not any(name == row.group or name in row.name for row in ROWS):
            raise ValueError(f"no row is called {name!r}; groups: {', '.join(GROUPS)}; --list shows all rows")
    rows = [r for r in ROWS if not names or any(name == r.group or name in r.name for name in names)]
    return [row for row in rows if row.quick or not quick or names]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.split(": ", 1)[1])
    parser.add_argument("rows", nargs="*", help=f"groups of rows or parts of names (default: all): {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="the main rows, two short passes: under two minutes")
    parser.add_argument("--threads", type=int, default=2, help="for the rows that use several (default: 2)")
    parser.add_argument("--passes", type=int, help="passes of each row (default: 5, with --quick 2)")
    parser.add_argument("--seconds", type=float, help="that a step is repeated in a pass (default: 1.0, 0.3)")
    parser.add_argument("--patience", type=float, help="seconds to wait for a calm machine (default: 20, 0.5)")
    parser.add_argument("--simd", choices=("avx512", "avx2", "neon", "none"), help="the vectors that tinytensor uses")
    parser.add_argument("--peers-simd", choices=NARROW, help="the vectors that its peers use")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="folder for what is written")
    parser.add_argument("--lock", type=Path, help="a file that is locked while a process measures")
    parser.add_argument("--list", action="store_true", help="show the rows and end")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    try:
        rows = chosen(args.rows, args.quick)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{row.group:8} {with_threads(row, args.threads).title}" for row in rows))
        return 0
    defaults = {"passes": 2, "seconds": 0.3, "patience": 0.5} if args.quick else {}
    values = {
        name: getattr(args, name) for name in ("passes", "seconds", "patience") if getattr(args, name) is not None
    }
    options = Options(
        args.out.resolve(), threads=args.threads, simd=args.simd, peers_simd=args.peers_simd,
        compile_anew=not args.quick, lock=args.lock, tell=lambda line: print(line, file=sys.stderr, flush=True),
        **(defaults | values),
    )  # fmt: skip
    return run(rows, options)


def run(rows: list[Row], options: Options) -> int:
    """Measure and report; 1 if something of ours failed or peers computed something else, however fast."""
    runner = Runner(options)
    peaks = {threads: runner.peak(threads) for threads in sorted({1, options.threads})}
    results: list[Measured] = []
    for row in rows:
        options.tell(f"... {with_threads(row, options.threads).title}")
        results.append(runner.measure(row))
        # After each row, so that a run that is broken off leaves what it found.
        write(results, options, peaks, runner.round_trips)
    print(report.markdown(results, options, peaks, runner.round_trips))
    failed = any(not measured.ours.figures for measured in results)
    return 1 if failed or not report.agreement(results)[1] else 0


def write(result: list[Measured], options: Options, peaks: dict[int, float], round_trips: list[float]) -> None:
    """The report, the figures of each pass, and the curves as far as there are any."""
    text = report.markdown(result, options, peaks, round_trips)
    (options.out / "report.md").write_text(text, encoding="utf-8")
    results = json.dumps(report.as_json(result, options, peaks), indent=1, ensure_ascii=False)
    (options.out / "results.json").write_text(results, encoding="utf-8")
    curves = [measured for measured in result if measured.row.axis and measured.ours.figures]
    if curves:
        try:
            plots.draw(options.out / "curves.png", curves)
        except ImportError:
            options.tell("matplotlib is not installed (pip install -e '.[bench]'): no plots")


if __name__ == "__main__":
    sys.exit(main())
