"""The engine on ARM64, under emulation: what its 16-byte registers (NEON) compute, on a machine that has none.

    python -m tests.tools.arm64                    on Debian (x86-64), with a network; a second run needs none
    python -m tests.tools.arm64 kernels training   some of the parts (PARTS)
    python -m tests.tools.arm64 --folder FOLDER    where everything lies that it downloads and compiles
    THOROUGH=1 python -m tests.tools.arm64         all tests of each part, which takes hours

It unpacks Debian's Python for ARM64 and the ARM64 wheels of the packages that this Python has, in the same versions,
and installs nothing: only QEMU must be there (`apt-get install qemu-user-static`). The emulated processor is an early
one, a Cortex-A72: an instruction that came later ends the run.

Emulation shows wrong numbers, wrong tails and forbidden instructions. It does not show a missing barrier between
threads: QEMU runs them in the memory order of this machine, which is stricter than that of ARM.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tools.sampling_rate import some
from tinytensor.native.platform.tested_versions import cache_folder

ROOT = Path(__file__).parents[2]
PROCESSOR = "cortex-a72"
QEMU = ("qemu-aarch64-static", "qemu-aarch64")  # the second is its name from Debian 13 on
DEBIAN = ("python3", "libpython3-stdlib", "libgomp1", "libstdc++6")
PACKAGES = ("numpy", "numba", "llvmlite", "sympy", "mpmath", "safetensors", "pytest", "hypothesis")
WHEELS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")

# What pytest runs in each part: its arguments, and one in how many of the tests that it finds. The parts are short, as
# a kernel takes five to ten seconds to compile under emulation.
KERNELS = "every_size or large_products or thread_count or forward or backward or layer_norm or rms_norm or maximum"
REGISTERS = "edge or arithmetic or products or transposed or equals or pieces or lanes or whole or nan"
COMPILE = "training_step or dropout or clipping or gradient_accumulation"
SAMPLES = "test_value or test_gradient or test_float32"
PARTS = {
    "threads": (("tests/runtime/test_scheduler.py", "-k", "program or late_thread or flag"), 1),
    "registers": (("tests/simd/test_vector.py", "tests/simd/test_tile.py", "-k", REGISTERS), 1),
    "kernels": ((*(f"tests/kernels/test_{name}.py" for name in ("matmul", "softmax", "norm")), "-k", KERNELS), 1),
    "compile": (("tests/recording/test_compile.py", "-k", COMPILE), 2),
    "samples": (("tests/test_samples.py", "-k", SAMPLES), 240),
}
TRAINING = "training"
STARTER = "EMULATED_PYTHON"  # the environment variable with the path of what starts Python under emulation

STEPS = 20
# A float32 loss is rounded by up to 6e-8 of itself. Registers of another width add up in another order, so weights
# differ in their last bits, and after some steps so does the loss: by 1.2e-7, with registers of 64 and of 16 bytes of
# x86-64. The tolerance is eight times that. A learning rate that is larger by a thousandth changes a loss by 1e-4.
TOLERANCE = 1e-6


class Missing(Exception):
    """Something that this machine lacks; the message says what to do."""


# --- What is downloaded


def emulator() -> str:
    """The path of QEMU; Missing where there is none, or where there is nothing to emulate."""
    if platform.machine() != "x86_64" or not shutil.which("dpkg"):
        raise Missing(
            f"this machine is {platform.system()} on {platform.machine()}; the emulation needs Debian on x86_64. "
            "On ARM64 itself run the tests as they are: python -m pytest"
        )
    result = next(filter(None, map(shutil.which, QEMU)), None)
    if result is None:
        raise Missing("QEMU is missing: apt-get install qemu-user-static (from Debian 13 on: qemu-user)")
    return result


def do(command: list[str], failed: str, **environment: str) -> None:
    """Run a command; Missing, with the last lines that it wrote, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise Missing(f"{failed}; {' '.join(command[:3])} said:\n{last}")


def unpack_debian(folder: Path) -> None:
    """Download Debian's Python for ARM64 and all that it depends on, and unpack it; nothing is installed."""
    state = folder / "apt"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()  # no package is installed: so all that Python depends on are downloaded
    (state / "options").write_text(
        'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\nAPT::Install-Recommends "false";\n'
        f'APT::Sandbox::User "";\nDir::State "{state}";\nDir::State::Lists "{state}/lists";\n'
        f'Dir::State::Status "{state}/status";\nDir::Cache "{state}";\nDir::Cache::Archives "{state}/archives";\n'
    )
    options = {"APT_CONFIG": str(state / "options")}
    do(["apt-get", "update"], "Debian's list of packages for arm64 cannot be had (is there a network?)", **options)
    ask = ["apt-get", "install", "--yes", "--download-only", *DEBIAN]
    do(ask, f"Debian's packages for arm64 cannot be had: {', '.join(DEBIAN)}", **options)
    for package in sorted((state / "archives").glob("*.deb")):
        do(["dpkg", "-x", str(package), str(folder / "debian")], f"{package.name} cannot be unpacked")


def python(folder: Path) -> Path:
    """The emulated Python, such as usr/bin/python3.11."""
    return next((folder / "debian" / "usr" / "bin").glob("python3.[0-9]*[0-9]"))


def unpack_wheels(folder: Path, wanted: list[str]) -> None:
    """Download the ARM64 wheels of these requirements, and unpack them."""
    shutil.rmtree(folder / "packages", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile"]
    command += [f"--python-version={python(folder).name.removeprefix('python')}", "--implementation=cp"]
    command += [f"--platform={name}" for name in WHEELS] + [f"--target={folder / 'packages'}", *wanted]
    do(command, f"the wheels for ARM64 cannot be had: {' '.join(wanted)}")


def prepare(folder: Path) -> bool:
    """Fill the folder, unless an earlier run has: True if anything was downloaded."""
    wanted, note = [f"{name}=={importlib.metadata.version(name)}" for name in PACKAGES], folder / "complete"
    if note.is_file() and note.read_text() == "\n".join(wanted):
        return False
    note.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    unpack_debian(folder)
    unpack_wheels(folder, wanted)
    note.write_text("\n".join(wanted))
    return True


# --- What runs in the emulation


class Counted:
    """A plugin for pytest: it keeps the first of every `one_in` tests, and counts how they end."""

    def __init__(self, one_in: int):
        self.one_in, self.passed, self.others = one_in, 0, 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = list(some(items, self.one_in))
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.others += report.failed or report.skipped


def run_tests(part: str) -> int:
    """Run the tests of a part in this process; a test that is skipped counts as one that failed."""
    arguments, one_in = PARTS[part]
    counted = Counted(one_in)
    code = pytest.main(["-p", "no:cacheprovider", "-rs", "--durations=10", *arguments], plugins=[counted])
    print(json.dumps({"passed": counted.passed, "others": counted.others}))
    return int(code or counted.others > 0 or not counted.passed)


def losses(rate: float = 1.5e-2) -> list[float]:
    """The loss of each of the first steps of document 003's smallest model, on the text of README.md."""
    from models.data import text
    from models.data.tokenizers import WordTokenizer
    from models.decoder import CONFIGS
    from models.tasks.text import TextTask
    from models.training.trainer import Settings, Trainer

    config = CONFIGS["toth-tiny"]
    corpus = text.prepare([(ROOT / "README.md").read_text(encoding="utf-8")], WordTokenizer, config.V)
    task = TextTask(config.replace(V=corpus.tokenizer.vocab_size), corpus, None)
    trainer = Trainer(task, Settings(steps=STEPS, warmup=5, lr=rate), Path("unused"), alone=True)
    return [trainer.advance() for _ in range(STEPS)]


def compared(here: list[float], there: list[float]) -> str:
    """What is wrong with the losses of the emulated run beside those of this machine; "" if nothing is."""
    if len(here) != STEPS or len(there) != STEPS:
        return f"{len(here)} losses here and {len(there)} on ARM64: {STEPS} of each were expected"
    for step, (ours, theirs) in enumerate(zip(here, there, strict=True), 1):
        if not abs(theirs - ours) <= TOLERANCE * abs(ours):  # so that a NaN is wrong, too
            return f"the loss of step {step} is {ours:.8g} here and {theirs:.8g} on ARM64: more than {TOLERANCE} apart"
    return ""


def describe() -> None:
    from tinytensor.native.simd.isa import BYTES, SIMD

    print(json.dumps({"machine": platform.machine(), "registers": SIMD, "bytes": BYTES}))


# --- The parts


class Emulation:
    """Python on an emulated ARM64 processor."""

    def __init__(self, qemu: str, folder: Path):
        self.folder, self.command = folder, [qemu, str(python(folder))]
        starter = folder / "python"  # a test that starts Python starts this: the system itself runs no ARM64 program
        starter.write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n')
        starter.chmod(0o755)
        self.environment = {name: x for name, x in os.environ.items() if not name.startswith(("TINYTENSOR", "NUMBA"))}
        self.environment |= {
            STARTER: str(starter),
            "QEMU_CPU": PROCESSOR,
            "QEMU_LD_PREFIX": str(folder / "debian"),
            "PYTHONPATH": f"{folder / 'packages'}{os.pathsep}{ROOT}",
            "NUMBA_CACHE_DIR": str(folder / "kernels"),
            "NUMBA_NUM_THREADS": "2",
            "TINYTENSOR_UNTRIED": "off",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, job: str) -> tuple[bool, dict | list | None]:
        """Do a job (a part) there: whether it ended well, and the last line that it wrote, as JSON holds it."""
        path = self.folder / f"{job}.log"
        with path.open("w") as log:
            command = [*self.command, "-m", "tests.tools.arm64", "--emulated", job]
            code = subprocess.run(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log).returncode
        lines = path.read_text(errors="replace").splitlines()
        try:
            return code == 0, json.loads(lines[-1])
        except (IndexError, ValueError):
            return False, None


def emulated(job: str) -> int:
    """What the emulated process does."""
    sys.executable = os.environ[STARTER]
    if job in PARTS:
        return run_tests(job)
    if job == TRAINING:
        print(json.dumps(losses()))
    else:
        describe()
    return 0


def run_part(part: str, emulation: Emulation) -> tuple[bool, str]:
    """Run a part: whether it passed, and what to say of it."""
    well, message = emulation.run(part)
    log = emulation.folder / f"{part}.log"
    if message is None or (part == TRAINING and not well):
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        return False, f"the emulated process has ended early; {log} ends with\n{last}"
    if part == TRAINING:
        wrong = compared(losses(), message)
        return (
            not wrong,
            wrong or f"{STEPS} losses, from {message[0]:.4f} to {message[-1]:.4f}, are those of this machine",
        )
    said = f"{message['passed']} tests passed"
    return well, said if well else f"{said}, {message['others']} failed or were skipped: see {log}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.arm64", description=__doc__.splitlines()[0])
    parts = [*PARTS, TRAINING]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(parts)}; default: all")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "arm64", help="default: %(default)s")
    parser.add_argument("--emulated", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.emulated:
        return emulated(asked.emulated)
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(parts)}")
    begun, folder, failed = time.monotonic(), asked.folder.resolve(), 0
    print(f"everything lies in {folder}", flush=True)
    try:
        qemu = emulator()
        came = prepare(folder)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    print(f"downloads: {'done' if came else 'there from before'}, {time.monotonic() - begun:.0f} s", flush=True)
    emulation = Emulation(qemu, folder)
    _, machine = emulation.run("machine")
    print(f"machine: {machine}", flush=True)
    if machine != {"machine": "aarch64", "registers": "neon", "bytes": 16}:
        print(f"aarch64 with NEON was expected; see {folder / 'machine.log'}", file=sys.stderr)
        return 1
    for part in asked.parts or parts:
        start, before = time.monotonic(), os.times()
        well, said = run_part(part, emulation)
        failed += not well
        took, used = time.monotonic() - start, os.times().children_user - before.children_user
        print(f"{part}: {'' if well else 'FAILED: '}{said}, {took:.0f} s ({used:.0f} s of a processor)", flush=True)
    print(f"{failed} parts failed, {(time.monotonic() - begun) / 60:.0f} minutes")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
