"""What was found, as tables in Markdown to be pasted into a README, and as JSON."""

import datetime
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from . import machine
from .measuring import EQUAL, Measured, Options, Result, mean, title

UNITS = {"ms": 1e3, "µs": 1e6, "s": 1.0, "MB": 1e-6}
COLUMNS = ("torch", "torch.compile", "jax")


def number(value: float) -> str:
    """Three digits, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(value: float) -> str:
    """How many times as fast we are; bold where we are not."""
    text = f"{value:.2f}×" if value < 10 else f"{value:.0f}×"
    return text if value >= 1 else f"**{text}**"


def time(result: Result, label: str, unit: str, spread: bool = True) -> str:
    """A median with the least and the largest pass; * if the machine was busy in all of them."""
    results = [value * UNITS[unit] for value in result.of(label)]
    text = number(result.median(label) * UNITS[unit])
    if spread and len(results) > 1:
        text += f" ({number(min(results))}–{number(max(results))})"
    return text + ("*" if result.disturbed else "")


def goals(measured: Measured, line: str) -> str:
    """The ratios that were to be reached, and what else."""
    results = [result.side.goal_of(line) for result in measured.results[1:]]
    text = " / ".join(f"{goal:.3g}×" for goal in results if goal is not None)
    if measured.row.least is not None:
        text += f", each {measured.row.least}×"
    if measured.row.limit is not None:
        text += f"at most {measured.row.limit:g} {measured.row.unit}"
    return text


def training_table(rows: Iterable[Measured], peaks: dict[int, float]) -> list[str]:
    """Training steps: one line for each, one column for each peer."""
    lines = [
        "| training step, ms | tinytensor | of the peak | PyTorch eager | torch.compile | JAX jit | goals |",
        "|---|---|---|---|---|---|---|",
    ]
    for measured in rows:
        for line in measured.lines():
            part = measured.share(measured.ours, line, peaks) if measured.ours.figures else None
            mine = time(measured.ours, line, measured.row.unit) if measured.ours.figures else "failed"
            cells = [title(measured.row, line), mine, "" if part is None else f"{part:.0%}"]
            for column in COLUMNS:
                result = next((r for r in measured.results[1:] if r.side.peer == column), None)
                results = measured.ratios(result, line) if result is not None else {}
                there = result is not None and result.figures
                text = time(result, line, measured.row.unit, spread=False) if there else "–"
                cells.append(f"{text} ({ratio(mean(results.values()))})" if results else text)
            lines.append(row_of(*cells, goals(measured, line)))
    return lines


def other_table(rows: Iterable[Measured], peaks: dict[int, float]) -> list[str]:
    """Everything else: one line for each comparison."""
    lines = [
        "| work | tinytensor | against | takes | ratio (passes) | least | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for measured in rows:
        for line in measured.lines():
            compared = [r for r in measured.results[1:] if measured.ratios(r, line)]
            for result in compared:
                lines.append(row_of(*comparison(measured, result, line, peaks)))
            if not compared:
                mine = amount(measured, measured.ours, line, peaks)
                lines.append(row_of(title(measured.row, line), mine, "–", "", "", "", goals(measured, line)))
    return lines


def comparison(measured: Measured, other: Result, line: str, peaks: dict[int, float]) -> list[str]:
    """The cells of one comparison: both sides, the ratio with its spread over the passes, the least of several."""
    result = measured.ratios(other, line)
    least, most = measured.spread(other, line)
    worst = min(result, key=result.get)
    goal = other.side.goal_of(line)
    return [
        title(measured.row, line),
        amount(measured, measured.ours, line, peaks),
        measured.who(other),
        amount(measured, other, line, peaks),
        f"{ratio(mean(result.values()))} ({least:.2f}–{most:.2f})",
        f"{ratio(result[worst])} at {worst.split(': ')[-1]}" if len(result) > 1 else "",
        goals(measured, line) if goal is not None or measured.row.limit is not None else "",
    ]


def amount(measured: Measured, result: Result, line: str, peaks: dict[int, float]) -> str:
    """What a side takes: its figures if they are one or two, else the part of the peak that it reaches."""
    unit = measured.row.unit
    if not result.figures:
        return "failed"
    labels = measured.shared(result, line)
    if len(labels) <= 2:
        return " · ".join(time(result, label, unit, len(labels) == 1) for label in labels) + f" {unit}"
    part = measured.share(result, line, peaks)
    return ("" if part is None else f"{part:.0%} of the peak") + ("*" if result.disturbed else "")


def row_of(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def curves_table(rows: Iterable[Measured]) -> list[str]:
    """Time per token in microseconds, a line for each size."""
    lines: list[str] = []
    for measured in rows:
        there = [r for r in measured.results if r.figures]
        names = map(measured.who, there)
        lines += [row_of(f"µs a token, by {measured.row.axis}", *names), "|---" * (len(there) + 1) + "|"]
        for label in measured.labels():
            lines.append(row_of(label, *(time(r, label, measured.row.unit, spread=False) for r in there)))
        lines.append("")
    return lines


def versions() -> str:
    results = [f"Python {platform.python_version()}"]
    for package in ("numpy", "numba", "torch", "jax"):
        try:
            results.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            results.append(f"no {package}")
    return ", ".join(results)


def header(options: Options, peaks: dict[int, float], round_trips: Sequence[float] = ()) -> list[str]:
    """The machine, the versions, the date, and what the figures mean."""
    widths = [f"our vectors: {options.simd}"] if options.simd else []
    widths += [f"the peers' vectors: {options.peers_simd}"] if options.peers_simd else []
    peak = ", ".join(f"{rate / 1e9:.0f} GFLOP/s on {n} thread{'s' * (n > 1)}" for n, rate in sorted(peaks.items()))
    apart = "–".join(dict.fromkeys(f"{1e9 * f(round_trips):,.0f}" for f in (min, max))) if round_trips else ""
    return [
        f"{machine.name()}; {versions()}; {datetime.date.today()}."
        + (f" FMA peak, measured in this run: {peak}." if peak else "")
        + (f" From one thread to another and back: {apart} ns." if apart else "")
        + "".join(f" {width[0].upper()}{width[1:]}." for width in widths)
        + f" Medians of passes in alternating processes ({options.passes} of them: least–largest); in brackets how "
        "many times as fast tinytensor is, bold where it is slower; * measured while other programs used the machine.",
    ]


def agreement(rows: Iterable[Measured]) -> tuple[list[str], bool]:
    """What is to be said of the losses; False if some differ by too much."""
    lines, largest, compared, same = [], 0.0, 0, True
    for measured in rows:
        for name, difference in measured.differences().items():
            compared += 1
            largest = max(largest, difference)
            if not difference <= EQUAL:
                same = False
                lines.append(f"DIFFERENT: {measured.row.title}: losses or tokens of {name} differ by {difference:.3g}")
    if compared and same:
        lines.append(f"Losses of the first ten steps, and sampled tokens: equal to {max(largest, 1e-9):.1g}.")
    return lines, same


def markdown(rows: list[Measured], options: Options, peaks: dict[int, float], round_trips: Sequence[float] = ()) -> str:
    """The whole report."""
    chosen = [m for m in rows if any(r.figures for r in m.results)]
    training = [m for m in chosen if m.row.group == "train"]
    curves = [m for m in chosen if m.row.group == "curves"]
    others = [m for m in chosen if m not in training and m not in curves]
    parts = [*header(options, peaks, round_trips), ""]
    if training:
        parts += [*training_table(training, peaks), ""]
    if others:
        parts += [*other_table(others, peaks), ""]
    parts += curves_table(curves)
    parts += agreement(rows)[0]
    missed = [line for measured in rows for line in measured.missed(peaks)]
    if missed:
        parts += ["", "Goals that were missed:", "", *(f"- {line}" for line in missed)]
    return "\n".join(parts) + "\n"


def as_json(rows: list[Measured], options: Options, peaks: dict[int, float]) -> dict:
    """Everything that was found, pass by pass, in seconds and bytes."""
    return {
        "machine": machine.name(),
        "versions": versions(),
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "peak": peaks,
        "simd": options.simd,
        "peers simd": options.peers_simd,
        "rows": [
            {
                "group": m.row.group,
                "name": m.row.title,
                "sides": [
                    {
                        "side": r.side.peer,
                        "threads": m.row.threads if r.side.threads is None else r.side.threads,
                        "figures": r.figures,
                        "flops": r.flops,
                        "others": r.others,
                        "failure": r.failure,
                    }
                    for r in m.results
                ],
                "ratios": [{line: m.ratios(r, line) for line in m.lines()} for r in m.results[1:]],
                "differences": m.differences(),
                "missed": m.missed(peaks),
            }
            for m in rows
        ],
    }
