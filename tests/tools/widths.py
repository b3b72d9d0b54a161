"""The claims of `derivations` where vector registers are narrower than this machine's: `python -m tests.tools.widths`.

Two processes at a time run the parts that do not take long, and the part "kernels", at each narrower width. What they
print is shown where one fails. `python -m tests.tools.widths --list` prints the narrower widths only.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTHS = ("avx512", "avx2", "none")  # of x86-64, the widest first; NEON is as wide as "none"
OF_LETTERS = ("rules", "coq")  # these take long, and their letters have no width


def narrower() -> tuple[str, ...]:
    """The widths below this machine's."""
    from tinytensor.native.simd.isa import SIMD

    return WIDTHS[WIDTHS.index(SIMD) + 1 :] if SIMD in WIDTHS else ()


def programs() -> list[list[str]]:
    """The arguments of Python for each process of a width."""
    from derivations.claims import LONG, PARTS

    quick = [part for part in PARTS if part not in ("engine", *LONG, *OF_LETTERS)]
    return [["-m", "derivations", *parts] for parts in (["engine"], quick, ["kernels"])]


def run(width: str, program: Sequence[str]) -> bool:
    """Does the program end with 0 at this width? A line says so; all that it printed follows if it does not."""
    environment = os.environ | {"TINYTENSOR_SIMD": width}
    done = subprocess.run([sys.executable, *program], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    last = (done.stdout.splitlines() or [""])[-1]
    print(f"TINYTENSOR_SIMD={width}: {last}" + f"\n{done.stdout}{done.stderr}" * bool(done.returncode), flush=True)
    return done.returncode == 0


def main(widths: Sequence[str], programs: Sequence[Sequence[str]]) -> int:
    """0 if each program ends with 0 at each width."""
    with ThreadPoolExecutor(2) as pool:
        return int(not all(pool.map(lambda one: run(*one), [(w, p) for w in widths for p in programs])))


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*narrower())
    else:
        sys.exit(main(narrower(), programs()))
