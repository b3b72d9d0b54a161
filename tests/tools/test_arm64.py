"""What python -m tests.tools.arm64 concludes from an emulated run; nothing is emulated here."""

import json
import math
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.tools import arm64

LOSSES = [6.28 * 0.97**step for step in range(arm64.STEPS)]


def changed(step: int, loss: float) -> list[float]:
    return [*LOSSES[:step], loss, *LOSSES[step + 1 :]]


def test_losses_that_differ_in_a_last_bit_agree():
    assert arm64.compared(LOSSES, LOSSES) == ""
    assert arm64.compared(LOSSES, [loss * (1 + 2.0**-23) for loss in LOSSES]) == ""


@pytest.mark.parametrize("step", [0, arm64.STEPS - 1])
@pytest.mark.parametrize("factor", [1 + 1e-5, 1 - 1e-5, -1, math.nan, math.inf])
def test_wrong_loss_is_noticed(step, factor):
    message = arm64.compared(LOSSES, changed(step, LOSSES[step] * factor))
    assert message.startswith(f"the loss of step {step + 1} is ")


def test_missing_losses_are_noticed():
    assert "20 losses here and 19 on ARM64" in arm64.compared(LOSSES, LOSSES[:-1])
    assert "0 losses here" in arm64.compared([], [])


def emulation(folder, code: int, text: str) -> arm64.Emulation:
    """An emulation whose processor is this machine's, and whose Python writes this text and ends with this code."""
    (folder / "debian" / "usr" / "bin").mkdir(parents=True)
    (folder / "debian" / "usr" / "bin" / "python3.11").touch()
    made = arm64.Emulation("none", folder)
    made.command = [sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"]
    return made


@pytest.mark.parametrize(
    ("code", "text", "well", "said"),
    [
        (0, '{"passed": 3, "others": 0}', True, "3 tests passed"),
        (1, '{"passed": 3, "others": 1}', False, "1 failed or were skipped"),
        (132, "qemu: uncaught target signal 4 (Illegal instruction)", False, "Illegal instruction"),
        (0, "", False, "has ended early"),
    ],
)
def test_part_passes_only_with_its_tests(tmp_path, code, text, well, said):
    passed, message = arm64.run_part("samples", emulation(tmp_path, code, text))
    assert passed is well and said in message


def test_wrong_losses_fail_the_training_part(tmp_path, monkeypatch):
    monkeypatch.setattr(arm64, "losses", lambda: LOSSES)
    for name, there, well in (("right", LOSSES, True), ("wrong", changed(7, 6.0), False)):
        passed, message = arm64.run_part("training", emulation(tmp_path / name, 0, json.dumps(there)))
        assert passed is well and ("step 8" in message) is not well


def test_skipped_test_does_not_count_as_passed():
    counted = arm64.Counted(1)
    for when, outcome in (("setup", "passed"), ("call", "passed"), ("setup", "skipped"), ("call", "failed")):
        report = SimpleNamespace(when=when, passed=False, failed=False, skipped=False)
        setattr(report, outcome, True)
        counted.pytest_runtest_logreport(report)
    assert (counted.passed, counted.others) == (1, 2)


def test_missing_qemu_is_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(arm64.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dpkg" if name == "dpkg" else None)
    assert arm64.main(["--folder", str(tmp_path)]) == 2
    assert "apt-get install qemu-user-static" in capsys.readouterr().err
    monkeypatch.setattr(arm64.platform, "machine", lambda: "aarch64")
    assert arm64.main(["--folder", str(tmp_path)]) == 2
    assert "python -m pytest" in capsys.readouterr().err


def test_missing_network_is_told(monkeypatch, capsys, tmp_path):
    def fails(command, **options):
        return subprocess.CompletedProcess(command, 100, "", "Could not resolve the mirror\n")

    monkeypatch.setattr(arm64, "emulator", lambda: "qemu")
    monkeypatch.setattr(subprocess, "run", fails)
    assert arm64.main(["--folder", str(tmp_path)]) == 2
    output = capsys.readouterr().err
    assert "is there a network?" in output and "Could not resolve the mirror" in output
    assert not (tmp_path / "complete").exists()


def test_parts_name_tests_that_exist():
    for arguments, _ in arm64.PARTS.values():
        files = [arm64.ROOT / argument for argument in arguments if argument.endswith(".py")]
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        words = arguments[-1].split(" or ") if "-k" in arguments else ["def test_"]
        assert all(word in text for word in words), arguments
