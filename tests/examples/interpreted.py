"""Runs the lessons with NUMBA_DISABLE_JIT=1: kernels then run as Python, so that a debugger can step through them.

    python -m tests.examples.interpreted                    # all but 8 and 18: some minutes
    python -m tests.examples.interpreted 09_attention       # only this one

Lessons 8 and 18 are about compiled code: the one times it, and the other lists it. A lesson that would train for long
does little when it sees the switch. The command prints the seconds of each lesson, and fails if one fails or takes
longer than SECONDS. The quick ones are in the test command (test_interpreted.py).
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILED = ("08", "18")
QUICK = ("00", "01", "02", "03", "04", "05", "06", "14")  # a second or two each, beside the imports
SECONDS = 600

ALL_IN_TURN = """
import runpy, sys
for lesson in sys.argv[1:]:
    print("lesson:", lesson, flush=True)
    runpy.run_path(lesson, run_name="__main__")
"""


def lessons(*numbers: str) -> list[Path]:
    """The lessons with these numbers; without numbers all but those about compiled code."""
    every = sorted((ROOT / "examples").glob("*.py"))
    return [path for path in every if (path.name[:2] in numbers if numbers else path.name[:2] not in COMPILED)]


def fault(paths: list[Path], seconds: float) -> str | None:
    """Run lessons in turn, in one process that is given so long; None, or what went wrong and in which lesson."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
        command = [sys.executable, "-W", "error", "-c", ALL_IN_TURN, *map(str, paths)]
        said = Path(folder) / "said"
        with said.open("w") as out:
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, timeout=seconds
                )
            except subprocess.TimeoutExpired:
                return f"{_last(said)}: it takes longer than {seconds:g} seconds"
        return f"{_last(said)}: {done.stderr.strip().splitlines()[-1]}" if done.returncode else None


def _last(said: Path) -> str:
    """The lesson that was running at the end."""
    begun = [line for line in said.read_text().splitlines() if line.startswith("lesson: ")]
    return Path(begun[-1].removeprefix("lesson: ")).stem if begun else "no lesson began"


def main() -> None:
    chosen = [path for path in lessons() if not sys.argv[1:] or path.stem in sys.argv[1:]]
    if len(chosen) < len(sys.argv[1:]) or not chosen:
        sys.exit(f"give names of lessons as 09_attention; these are run: {', '.join(path.stem for path in lessons())}")
    faults = []
    for path in chosen:
        start = time.monotonic()
        result = fault([path], SECONDS)
        print(f"{path.stem:<24} {time.monotonic() - start:6.1f} s  {'runs' if result is None else result}", flush=True)
        faults += [result] if result else []
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
