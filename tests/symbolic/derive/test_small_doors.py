"""Time limits of derivations and checks; planted mistakes in counts and slopes; a syntax error by hand."""

import itertools
import re

import pytest

from tests.symbolic.derive.reviewed import OTHER_WORDS
from tinytensor.cli import main as cli
from tinytensor.symbolic import TooLong, check, derive, time_limit
from tinytensor.symbolic.derive import derivation as derivations
from tinytensor.symbolic.index_calculus import vanishing
from tinytensor.symbolic.index_calculus.functions import arctan2

N = ("N",)


def test_a_wrong_formula_of_an_operation_that_is_read_as_one_is_noticed(monkeypatch):
    slope = arctan2.fdiff
    monkeypatch.setattr(arctan2, "fdiff", lambda self, k=1: slope(self, k) if k == 1 else -slope(self, k))
    fn, arguments, *_ = OTHER_WORDS["an angle"]
    assert not derive(fn, **arguments)


def test_a_wrong_count_is_noticed(monkeypatch):
    """A planted mistake, Σ_j [i ≤ j] = N - i: the right gradient is no longer proved."""
    count = vanishing._count
    monkeypatch.setattr(vanishing, "_count", lambda sum_: None if (n := count(sum_)) is None else n - 1)
    fn, arguments, wrong, right = OTHER_WORDS["running sums"]
    assert not any(check(fn, {"x": hand}, **arguments) for hand in (*right[:2], wrong[0]))


def test_a_syntax_error_by_hand_has_a_caret(tmp_path, capsys):
    with pytest.raises(SyntaxError) as error:
        check(lambda x: (x * x).sum(), {"x": "2 * x)"}, x=N)
    assert error.value.text == "2 * x)"
    assert error.value.offset == 6
    path = tmp_path / "mine.py"
    path.write_text("def square(x):\n    return (x * x).sum()\n")
    assert cli.main(["check", f"{path}:square", "x=N", "--gradient", "x=2 * x)"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].strip() == "2 * x)"
    assert lines[2].index("^") - lines[1].index("2") == 5


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
