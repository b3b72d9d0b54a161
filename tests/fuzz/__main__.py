"""Send in what is bad, by the hundred, and see that it does no harm.

    python -m tests.fuzz                     a sample of each part: a minute or two
    python -m tests.fuzz --short [PART ...]  few cases of each, as in the test suite: a few seconds a part
    python -m tests.fuzz --long [PART ...]   everything: some hours
    python -m tests.fuzz --long --share 3/8  the third of eight pieces that together are everything

Each part runs in processes of its own, `--jobs` of them at once, so that a crash ends one process alone and is told.
Exits with 1 if anything is found.
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.tools.sharding import share

from .tally import ROOT, Diary, Tally

PARTS = ("calls", "checkpoints", "commands", "files", "kills")
SIZES = ("short", "sample", "long")


def part(name: str, size: str, diary: Diary):
    """Run a part in this process; its tally. The size is "short", "sample" or "long"."""
    if name == "calls":
        from . import calls

        there = importlib.util.find_spec("torch") is not None
        return calls.fuzz(calls.ONE_IN[size], diary, importlib.import_module("torch") if there else None)
    module = importlib.import_module(f"tests.fuzz.{name}")
    return module.fuzz(size, diary)


def in_processes(name: str, size: str, limit: float, jobs: int = 1, share: tuple[int, int] = (0, 1)) -> Tally:
    """Run a share of a part in processes of its own: what they counted and found, and how those that died ended.

    Every half minute a line on the standard error says how far a long one is.
    """
    tally, (piece, of) = Tally(), share
    with tempfile.TemporaryDirectory() as folder:
        diaries = [Path(folder) / f"case-{job}" for job in range(jobs)]
        running = {}
        for job, diary in enumerate(diaries):
            mine = f"{piece + of * job + 1}/{of * jobs}"
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--part", name]
            command += ["--diary", str(diary), "--share", mine, "--size", size]
            with open(Path(folder) / f"out-{job}", "w") as out, open(Path(folder) / f"err-{job}", "w") as err:
                running[job] = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err, start_new_session=True)
        begun = message = time.monotonic()
        try:
            while running:
                time.sleep(0.05)
                now = time.monotonic()
                if size == "long" and now - message > 30:
                    message = now
                    for job in running:
                        print(f"{name}: {now - begun:.0f} s, at {_case(diaries[job])}", file=sys.stderr, flush=True)
                for job, process in list(running.items()):
                    if process.poll() is not None:
                        del running[job]
                        out, err = ((Path(folder) / f"{stream}-{job}").read_text() for stream in ("out", "err"))
                        if process.returncode in (0, 1) and out.startswith("{"):
                            tally.add(json.loads(out.splitlines()[0]))
                        else:
                            tally.find(f"exit code {process.returncode}, at: {_case(diaries[job])}\n{err[-2000:]}")
                    elif now - begun > limit:
                        _end(running.pop(job))
                        tally.find(f"no end in {limit:.0f} s, at: {_case(diaries[job])}")
        finally:
            for process in running.values():
                _end(process)
    return tally


def _end(process: subprocess.Popen) -> None:
    """Kill a process and those that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _case(diary: Path) -> str:
    return (diary.read_text().strip() if diary.exists() else "") or "the beginning"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--size", choices=SIZES, default="sample", help=argparse.SUPPRESS)
    sizes.add_argument("--short", action="store_const", dest="size", const="short", help="few cases")
    sizes.add_argument("--long", action="store_const", dest="size", const="long", help="every case, not a sample")
    parser.add_argument("--share", type=share, default=(0, 1), metavar="3/8", help="one of so many pieces")
    parser.add_argument("--jobs", type=int, help="processes at once (default: one, and for --long one for each core)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--diary", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        tally = part(options.part, options.size, Diary(options.diary, options.share))
        print(json.dumps({"counts": tally.counts, "findings": tally.findings}))
        return 1 if tally.findings else 0
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: choose among {', '.join(PARTS)}")
    harmless = True
    jobs = options.jobs or (os.cpu_count() if options.size == "long" else 1)
    for name in options.parts or PARTS:
        begun = time.monotonic()
        limit = 7200 if options.size == "long" else 600
        tally = in_processes(name, options.size, limit, jobs, options.share)
        harmless = harmless and not tally.findings
        print(f"{name}, {time.monotonic() - begun:.0f} s: {tally.report()}\n", flush=True)
    return 0 if harmless else 1


if __name__ == "__main__":
    sys.exit(main())
