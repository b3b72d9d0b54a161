"""Without axe-core a test is skipped with the command that installs it, and fails where it must be there."""

from pathlib import Path

import pytest

from tests.tools import axe


def test_missing_axe_is_named(monkeypatch):
    monkeypatch.setattr(axe, "SCRIPT", Path("no such file"))
    for needed, outcome in (("0", pytest.skip.Exception), ("1", pytest.fail.Exception)):
        monkeypatch.setenv("NEEDS_BROWSER", needed)
        with pytest.raises(outcome, match=r"no axe-core: python -m tests\.tools\.axe, which needs npm"):
            axe.serious(None)


def test_missing_npm_is_named(monkeypatch, capsys):
    monkeypatch.setattr(axe, "SCRIPT", Path("no such file"))
    monkeypatch.setattr(axe.shutil, "which", lambda name: None)
    assert axe.install() == 1 and "apt-get install npm" in capsys.readouterr().err
