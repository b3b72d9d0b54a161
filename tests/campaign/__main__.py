"""Send in what is bad, by the hundred, and see that it does no harm.

    python -m tests.campaign                     a sample of each part: a minute or two
    python -m tests.campaign --long [PART ...]   everything: the better part of an hour

Each part runs in a process of its own, so that a crash ends that process alone and is told. Exits with 1 if anything is
found.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from .tally import ROOT, Diary

PARTS = ("calls", "checkpoints", "commands", "files", "kills")


def part(name: str, long: bool, diary: Diary):
    """Run a part in this process; its tally."""
    if name == "calls":
        from . import calls

        there = importlib.util.find_spec("torch") is not None
        return calls.campaign(1 if long else 60, diary, importlib.import_module("torch") if there else None)
    module = importlib.import_module(f"tests.campaign.{name}")
    return module.campaign(long, diary)


def in_a_process(name: str, long: bool, limit: float) -> tuple[bool, str]:
    """Run a part in a process of its own: (was nothing found, what it printed or how it ended)."""
    with tempfile.TemporaryDirectory() as folder:
        diary = Path(folder) / "case"
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.campaign", "--part", name, "--diary", str(diary)]
        try:
            ended = subprocess.run(command + ["--long"] * long, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return False, f"FOUND: no end in {limit:.0f} s, at: {diary.read_text().strip()}"
        if ended.returncode in (0, 1) and " cases: " in ended.stdout:
            return ended.returncode == 0, ended.stdout.strip()
        case = diary.read_text().strip() if diary.exists() else "the beginning"
        return False, f"FOUND: exit code {ended.returncode}, at: {case}\n{ended.stderr[-2000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--long", action="store_true", help="every case, not a sample")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--diary", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        tally = part(options.part, options.long, Diary(options.diary))
        print(tally.report())
        return 1 if tally.findings else 0
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: choose among {', '.join(PARTS)}")
    harmless = True
    for name in options.parts or PARTS:
        ended_well, told = in_a_process(name, options.long, 7200 if options.long else 600)
        harmless = harmless and ended_well
        print(f"{name}: {told}\n", flush=True)
    return 0 if harmless else 1


if __name__ == "__main__":
    sys.exit(main())
