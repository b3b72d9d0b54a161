"""Time limits of derivations and checks: what is not proved in time is not called proved."""

import itertools
import re

import pytest

from examples.gradients.functions import focal
from tests.symbolic.derive.derived_functions import FUNCTIONS
from tinytensor.cli import main as cli
from tinytensor.symbolic import Index, TooLong, check, derive, time_limit
from tinytensor.symbolic.derive import adjoints
from tinytensor.symbolic.derive import derivation as derivations
from tinytensor.symbolic.time_limit import step

N = ("N",)


@pytest.fixture
def steps(monkeypatch):
    """A clock that advances by a second whenever it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: next(seconds))


def square(x):
    return (x * x).sum()


LIMITS = (1, 4, 16, 48, 64, 96, 112, 128, 144, 160, 256, 10**6)


def outcome(limit) -> tuple[bool, str]:
    """Is the square's gradient proved with this limit, and what is said?"""
    try:
        derivation = derive(square, limit=limit, x=N)
    except TooLong as error:
        return False, str(error)
    return bool(derivation), str(derivation)


@pytest.mark.slow
def test_nothing_is_proved_after_the_limit(steps, monkeypatch):
    """The work ends at each of its stages; with a longer limit the same line is proved.

    A planted mistake, a derivation that forgets that it was stopped, proves it too early.
    """
    results = {limit: outcome(limit) for limit in LIMITS}
    least = min(limit for limit, (proved, _) in results.items() if proved)
    assert all(f"stopped at limit = {limit} seconds" in results[limit][1] for limit in LIMITS if limit < least)
    for stage in ("the function was read", "numbers were compared"):
        assert any(f"seconds, while {stage}" in said for _, said in results.values())
    monkeypatch.setattr(derivations.Derivation, "stopped", "")
    assert min(limit for limit in LIMITS if outcome(limit)[0]) < least


def test_a_gradient_by_hand_out_of_time_is_refuted_by_numbers_or_undecided(steps):
    verdicts = []
    for limit in LIMITS[3:]:
        try:
            right, wrong = (check(square, {"x": hand}, limit=limit, x=N)["x"] for hand in ("2 * x", "3 * x"))
        except TooLong:
            continue
        verdicts.append((right.verdict, wrong.verdict))
        assert right.verdict in ("proved", "undecided")
        assert wrong.verdict in ("refuted", "undecided")
        if not right:
            words = rf"stopped at limit = {limit} seconds, while .* agrees with backward\(\) at the \d+ points"
            assert re.search(words, right.term)
    assert ("undecided", "refuted") in verdicts
    assert verdicts[-1] == ("proved", "refuted")


def test_limits_of_the_command(tmp_path, capsys, steps):
    path = tmp_path / "mine.py"
    path.write_text("def square(x):\n    return (x * x).sum()\n")
    for command, more in (("derive", []), ("check", ["--gradient", "x=2*x"])):
        assert cli.main([command, f"{path}:square", "x=N", "--limit", "1e-6", *more]) == 2
        assert "stopped at limit = 1e-06 seconds" in capsys.readouterr().err
        assert cli.main([command, f"{path}:square", "x=N", "--limit", "none", "--no-progress", *more]) == 0
        with pytest.raises(SystemExit):
            cli.main([command, f"{path}:square", "x=N", "--limit", "soon", *more])
        assert "'soon' is no number of seconds" in capsys.readouterr().err
    with pytest.raises(ValueError, match="expected seconds above 0"):
        derive(square, limit=0, x=N)


def test_progress_is_shown(steps, capsys):
    derive(square, limit=None, progress=True, x=N).verdict  # noqa: B018
    assert "square" in capsys.readouterr().err
    derive(square, limit=None, progress=False, x=N).verdict  # noqa: B018
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("simple", [0, 1, 2])
def test_a_limit_that_is_reached_while_lines_are_shortened_leaves_a_proof(monkeypatch, simple):
    """A planted simplifier never ends after its first few lines: those are shown, and the others in plain factors."""
    simplifier, seconds, lines = adjoints.simplifier_of, [0], []

    def slow(expr):
        if len(lines) == simple:
            while True:
                seconds[0] += 1
                step()
        lines.append(None)
        return simplifier(*made)(expr)

    made = []
    monkeypatch.setattr(adjoints, "simplifier_of", lambda *args: made.extend(args) or slow)
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: seconds[0])
    fn, arguments = FUNCTIONS["layer norm"]
    derivation = derive(fn, limit=100, **arguments)
    assert seconds[0] in range(44, 47) and len(lines) == simple  # 0.6 of the time of formulas, which is 3/4 of all
    assert derivation.verdict == "proved for any size"


def test_a_limit_that_is_reached_before_any_proof_leaves_the_raw_adjoints(monkeypatch):
    def never(*args):
        while True:
            seconds[0] += 1
            step()

    seconds = [0]
    monkeypatch.setattr(adjoints, "_proofs", never)
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: seconds[0])
    derivation = derive(focal, limit=100, z=("N", "K"), t=Index(("N",), "K"))
    raw = derivation.derived.raw
    assert all(x.right == raw[n].right for n, x in derivation.derived.adjoints.items())
    assert derivation.proved
    monkeypatch.setattr(adjoints, "adjoint_of", never)
    assert not derive(focal, limit=100, z=("N", "K"), t=Index(("N",), "K")).proved
