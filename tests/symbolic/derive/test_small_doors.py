"""What users type at the edges: slices with steps, arange, atan2, norms, unused arguments, wrong words; time limits."""

import itertools
import re
from functools import partial

import pytest

import tinytensor as tt
from tinytensor.cli import main as cli
from tinytensor.symbolic import TooLong, check, derive
from tinytensor.symbolic.derive import derivation as derivations
from tinytensor.symbolic.derive import time_limit
from tinytensor.symbolic.derive.samples import COMPOSED
from tinytensor.symbolic.index_calculus import vanishing
from tinytensor.symbolic.index_calculus.formulas import Index, Size, normal, total, value
from tinytensor.symbolic.index_calculus.functions import upto
from tinytensor.symbolic.reading.errors import NotDerivable

N, ND, KK = ("N",), ("N", "D"), ("K", "K")
EVEN = "N % 2 == 0"


def cubes_of_scores(x):
    return (((x - x.mean(0)) / x.std(0)) ** 3).sum()


def slope_of_scores(x, N, count=0):
    """The gradient of `cubes_of_scores`; count = 1 divides by N in place of N - 1."""
    r = x.std(0)
    z = (x - x.mean(0)) / r
    g = 3 * z**2
    return (g - g.mean(0) - z * (g * z).sum(0) / (N - 1 + count)) / r


# function, its arguments, `where`, gradients of x by hand that are wrong, and right ones
DOORS = {
    "std": (
        lambda x: x.std(),
        {"x": N},
        (),
        ["7 * x", "(x - x.mean()) / (N * x.std())", "x / ((N - 1) * x.std())"],
        ["(x - x.mean()) / ((N - 1) * x.std())"],
    ),
    "z-scores": (
        cubes_of_scores,
        {"x": ND},
        (),
        [lambda x, N: slope_of_scores(x, N, 1), lambda x, N: slope_of_scores(x, N) * x.std(0)],
        [lambda x, N: slope_of_scores(x, N)],
    ),
    "Dice's loss, whose denominator may be 0 but for rounding": (
        lambda x, y: 1 - 2 * (x * y).sum() / (x.sum() + y.sum()),
        {"x": N, "y": N},
        (),
        ["-2 * y / (x.sum() + y.sum())", "2 * (y - (x * y).sum() / (x.sum() + y.sum())) / (x.sum() + y.sum())"],
        ["2 * ((x * y).sum() / (x.sum() + y.sum()) - y) / (x.sum() + y.sum())"],
    ),
    "the largest entry, the only one where no two are equal": (
        lambda x: (x.amax(1) ** 2).sum(),
        {"x": ND},
        (),
        ["2 * x * (x == x.amax(0, keepdim=True))", "x.amax(1, keepdim=True) * (x == x.amax(1, keepdim=True))"],
        ["2 * x.amax(1, keepdim=True) * (x == x.amax(1, keepdim=True))"],
    ),
    "the square of a mask, which is the mask": (
        lambda x: (tt.tril(x, -1) ** 2).sum() + (((x > 0) * x) ** 2).sum() + ((x == 1) * x**3).square().sum(),
        {"x": KK},
        (),
        ["2 * tt.tril(x) + 2 * x * (x > 0) + 6 * x**5 * (x == 1)", "2 * tt.tril(x, -1) + 2 * x + 6 * x**5 * (x == 1)"],
        ["2 * tt.tril(x, -1) + 2 * x * (x > 0) + 6 * x**5 * (x == 1)"],
    ),
    "an argument that is not used": (
        lambda x, y: (y * y).sum(),
        {"x": N, "y": N},
        (),
        ["2 * y", "x", "ones(N)"],
        ["0 * x", "zeros(N)"],
    ),
    "a number that is not used": (lambda x, y: (y * y).sum(), {"x": (), "y": N}, (), ["1", "N", "x"], ["0", "0 * x"]),
    "stacked and summed": (
        lambda x, y: (tt.stack((x, y)).sum(0) ** 2).sum(),
        {"x": N, "y": N},
        (),
        ["2 * x", "2 * x + y", "2 * (x + y).sum() * ones(N)"],
        ["2 * (x + y)"],
    ),
    "every other entry": (
        lambda x: (x[::2] ** 2).sum(),
        {"x": N},
        EVEN,
        ["2 * x", "2 * x * (arange(N) % 2 == 1)", "2 * x * (arange(N) < N // 2)", "2 * x * (arange(N) % 2)"],
        [
            "2 * x * (arange(N) % 2 == 0)",
            "2 * x * (1 - arange(N) % 2)",
            "2 * stack((x[::2], 0 * x[1::2]), 1).flatten()",
        ],
    ),
    "every other entry, weighted": (
        lambda x: (x[::2] * x[1::2] * tt.arange(0, len(x), 2)).sum(),
        {"x": N},
        EVEN,
        ["stack((x[1::2], x[::2]), 1).flatten()", "stack((x[1::2], x[::2]), 1).flatten() * arange(N)"],
        ["stack((x[1::2], x[::2]), 1).flatten() * (arange(N) - arange(N) % 2)"],
    ),
    "the first half": (
        lambda x: (x[: len(x) // 2] ** 2).sum(),
        {"x": N},
        EVEN,
        ["2 * x", "2 * x * (arange(N) % 2 == 0)", "2 * x * (arange(N) >= N // 2)"],
        ["2 * x * (arange(N) < N // 2)", "2 * x * (arange(N) < N / 2)"],
    ),
    "a step down to 1": (
        lambda x: (x * tt.arange(len(x), 0, -1)).sum(),
        {"x": N},
        (),
        ["arange(N - 1, -1, -1)", "arange(1, N + 1)", "arange(N)"],
        ["arange(N, 0, -1)", "N - arange(N)", "1.0 * arange(N, 0, -1)"],
    ),
    "steps of three": (
        lambda x: (x * tt.arange(3 * len(x), 0, -3)).sum(),
        {"x": N},
        (),
        ["arange(3 * N - 1, -1, -3)", "3 * arange(N)"],
        ["3 * arange(N, 0, -1)", "3.0 * (N - arange(N))"],
    ),
    "halves": (
        lambda x: (x * tt.arange(0, len(x) / 2, 0.5)).sum(),
        {"x": N},
        (),
        ["arange(N)", "arange(1, N + 1) / 2"],
        ["arange(N) / 2", "0.5 * arange(N)"],
    ),
    "a trace": (
        lambda x: tt.trace(x) ** 2,
        {"x": KK},
        (),
        ["2 * eye(K)", "2 * trace(x) * ones(K, K)", "trace(x) * eye(K)"],
        ["2 * trace(x) * eye(K)", "2 * tt.trace(x) * tt.eye(K)", "2 * diag(x).sum() * diag(ones(K))"],
    ),
    "a diagonal": (
        lambda x: (tt.diag(x) ** 2).sum(),
        {"x": KK},
        (),
        ["2 * x", "2 * diag(x) * eye(K) * 2"],
        ["2 * diag(diag(x))", "2 * x * eye(K)"],
    ),
    "an angle": (
        lambda x, y: tt.atan2(y, x).sum(),
        {"x": N, "y": N},
        (),
        ["y / (x**2 + y**2)", "x / (x**2 + y**2)", "-y / (x**2 + y**2) ** 0.5", "-y.abs() / (x**2 + y**2)"],
        ["-y / (x**2 + y**2)"],
    ),
    "the 3-norm": (
        lambda x: x.norm(3),
        {"x": N},
        (),
        ["7 * x", "x**2 / x.norm(3) ** 2", "x * x.abs() / x.norm(3)", "x.sign() * x**2 / x.norm(2) ** 2"],
        ["x * x.abs() / x.norm(3) ** 2", "x.sign() * x**2 / x.norm(3) ** 2"],
    ),
    "rows' norms of order 3/2": (
        lambda x: x.norm(1.5, dim=1).sum(),
        {"x": ND},
        (),
        ["x.sign() * x.abs() ** 0.5", "x / x.norm(1.5, dim=1, keepdim=True)"],
        ["x.sign() * x.abs() ** 0.5 / x.norm(1.5, dim=1, keepdim=True) ** 0.5"],
    ),
    "running sums": (
        lambda x: x.cumsum(0).sum(),
        {"x": N},
        (),
        ["N - 1 - arange(N)", "arange(N) + 1", "N * ones(N)"],
        ["N - arange(N)", "arange(N, 0, -1)", "ones(N, N).tril().sum(0)"],
    ),
    "a triangle of ones": (
        lambda x: (tt.ones(len(x), len(x)).triu() @ x).sum(),
        {"x": N},
        (),
        ["arange(N)", "N - arange(N)", "ones(N, N).triu(1).sum(0)"],
        ["arange(1, N + 1)", "ones(N, N).triu().sum(0)", "ones(N, N).tril() @ ones(N)"],
    ),
    "a triangle, averaged": (
        lambda x: x.tril().sum(1).mean(),
        {"x": ND},
        (),
        ["ones(N, D).tril() / D", "ones(N, D).triu() / N", "ones(N, D) / N"],
        ["ones(N, D).tril() / N", "(1 / N) * ones(N, D).tril()"],
    ),
    "a triangle in a product": (
        lambda x, y: (x.tril() @ y).sum(),
        {"x": ("N", "N"), "y": N},
        (),
        ["(ones(N, 1) @ y[None]).triu()", "ones(N, 1) @ y[None]"],
        ["(ones(N, 1) @ y[None]).tril()", "outer(ones(N), y) * ones(N, N).tril()"],
    ),
    "a branch in its own condition": (
        lambda x: tt.where(x > 0, tt.where(x > 0, x, -x) ** 2, x.sin()).sum(),
        {"x": N},
        (),
        ["2 * x", "where(x > 0, 2 * x, -x.cos())", "where(x > 0, 2 * x, x.sin())"],
        ["where(x > 0, 2 * x, x.cos())"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def derived():
    """The derivation of each function, once."""
    known = {}

    def of(name):
        if name not in known:
            fn, arguments, where, _, _ = DOORS[name]
            known[name] = derive(fn, where, **arguments)
        return known[name]

    return of


@pytest.mark.parametrize("name", DOORS)
def test_wrong_gradients_are_refuted(derived, name):
    for wrong in DOORS[name][3]:
        verdict = check(derived(name), {"x": wrong})["x"]
        assert verdict.verdict == "refuted", f"{wrong}: {verdict}"


@pytest.mark.parametrize("name", DOORS)
def test_right_gradients_are_proved(derived, name):
    assert derived(name), derived(name).verdict
    for right in DOORS[name][4]:
        verdict = check(derived(name), {"x": right})
        assert verdict, f"{right}: {verdict}"


def test_one_largest_entry_is_a_condition():
    for gradient in ("(x == x.max()) * 1.0", "(x == x.max()) / (x == x.max()).sum()"):
        assert "no two numbers that are compared are equal" in str(check(tt.max, {"x": gradient}, x=N))
    twice = check(lambda x: tt.cat((x, x)).max(), {"x": "2.0 * (x == x.max())"}, x=N)  # of two, always
    assert twice["x"].verdict == "refuted"


def test_operations_that_are_read_as_one_have_their_condition(derived):
    assert "no denominator is 0" in derived("an angle").value_conditions
    assert "every argument of a root is above 0" in derived("the 3-norm").value_conditions
    assert {*COMPOSED.values()} == {"atan2", "power_of_length"}
    assert str(derived("an angle").gradients["x"]) == "∂𝓛/∂x_n = -y_n/(x_n² + y_n²)"


def test_a_wrong_formula_of_an_operation_that_is_read_as_one_is_noticed(monkeypatch):
    from tinytensor.symbolic.index_calculus.functions import arctan2

    slope = arctan2.fdiff
    monkeypatch.setattr(arctan2, "fdiff", lambda self, k=1: slope(self, k) if k == 1 else -slope(self, k))
    assert not derive(*[DOORS["an angle"][0]], **DOORS["an angle"][1])


def test_a_wrong_count_is_noticed(monkeypatch):
    """A planted mistake, Σ_j [i ≤ j] = N - i: the right gradient is no longer proved."""
    count = vanishing._count
    monkeypatch.setattr(vanishing, "_count", lambda sum_: None if (n := count(sum_)) is None else n - 1)
    fn, arguments, _, wrong, right = DOORS["running sums"]
    assert not any(check(fn, {"x": hand}, **arguments) for hand in (*right[:2], wrong[0]))


def test_counts_are_those_of_plain_loops():
    """Sums of comparisons at all places, and none where the bound may leave the range."""
    N, D = Size("Ncount", "n i j"), Size("Dcount", "d e")
    i, j, k = Index("i", N), Index("j", N), Index("k", D)
    for compared in (upto(i, j), upto(j, i), upto(i + 1, j), upto(j, i - 1), 1 - upto(i, j - 1), upto(j + 1, i)):
        sum_ = normal(total(compared, j))
        form = vanishing.counted(sum_)
        assert form != sum_
        for n in (1, 2, 3, 5):
            for number in range(1, n + 1):
                assert value(form, {N: n, i: number}) == value(sum_, {N: n, i: number})
    for compared in (upto(k, j), upto(j, k), upto(i + 2, j), upto(j, i - 2)):
        sum_ = normal(total(compared, j))
        assert vanishing.counted(sum_) == sum_


def test_numbers_of_the_function_are_float64_while_it_is_read():
    def doubled(x):
        return (x * tt.full((len(x),), 0.1)).sum()

    assert check(doubled, {"x": "full((N,), 0.1)"}, x=N)
    by_dtype = derive(lambda x: x.sum() if tt.ones(2).dtype == tt.float64 and x.dtype == tt.float64 else -x.sum(), x=N)
    assert by_dtype.verdict == "proved for any size, where floats are float64, those of the default dtype, too"
    assert tt.get_default_dtype() == tt.float32


def test_sizes_without_a_name_are_printed_by_those_that_have_one():
    derivation = derive(lambda x: (x[::2] ** 2).mean(), EVEN, x=N)
    assert "∂𝓛/∂x_ij = 4 x[i, 1] δ(j, 1)/N" in str(derivation)
    assert "x_ij is entry 2 i + j - 2 of x, from 1 on" in str(derivation)
    assert not re.search(r"N\d", str(derivation))
    assert check(derivation, {"x": derivation.gradients["x"]})


def test_letters_of_the_left_side_are_not_used_for_sums():
    derivation = derive(lambda x, y: (tt.stack((x, y)).sum(1) ** 2).sum(), x=N, y=N)
    assert str(derivation.gradients["x"]) == "∂𝓛/∂x_n = 2 Σ_i x_i"


@pytest.mark.parametrize("shape", [(0,), ("N", 0), ("0",), (-1,)])
def test_a_size_is_at_least_1(shape):
    with pytest.raises(ValueError, match="a size is a name or a whole number from 1 on"):
        derive(lambda x: x.mean(), x=shape)


@pytest.mark.parametrize("name", ["np", "math", "statistics", "upstream", "softmax", "lambda", "class"])
def test_arguments_with_names_of_the_program_are_refused(name):
    with pytest.raises(ValueError, match=f"an argument is called {name}, .*give it another name"):
        derive(lambda **values: values[name].sum(), **{name: N})


@pytest.mark.parametrize("hand", [lambda x, g: 2 * x, lambda x, *, weight: 2 * x])
def test_what_a_gradient_by_hand_takes_is_said_where_it_is_missing(hand):
    with pytest.raises(TypeError, match=r"takes (g|weight), which is neither .*: there are x, N$"):
        check(lambda x: (x * x).sum(), {"x": hand}, x=N)
    assert check(lambda x: (x * x).sum(), {"x": partial(lambda x, factor: factor * x, factor=2)}, x=N)


@pytest.mark.parametrize("size", ["N M", "N M + 1", "2 N"])
def test_two_words_are_no_size(size):
    with pytest.raises(ValueError, match=r"is no (product|sum) of names and numbers"):
        derive(lambda x: x.mean(), x=(size,))


@pytest.mark.parametrize("fn", [lambda x: len(x), lambda x: len(x) / 2])
def test_a_size_is_no_result(fn):
    with pytest.raises(NotDerivable, match="the function returned a size; expected one tensor"):
        derive(lambda x: fn(x), x=N)


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


@pytest.mark.parametrize(
    ("hand", "words"), [("2 * y", "'y', which is no argument"), ("g * x", "whose gradient g is 1")]
)
def test_an_unknown_name_by_hand_is_named(hand, words):
    with pytest.raises(NameError, match=words):
        check(lambda x: (x * x).sum(), {"x": hand}, x=N)


# ------------------------------------------------------------------------------------------------------ time limits


@pytest.fixture
def steps(monkeypatch):
    """A clock that advances by a second whenever it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(time_limit.TimeLimit, "clock", lambda self: next(seconds))


def square(x):
    return (x * x).sum()


LIMITS = (1, 4, 16, 48, 64, 96, 112, 128, 144, 160, 256, 10**6)


def least_limit():
    """The least of LIMITS with which the square's gradient is proved, and all that was said before."""
    said = ""
    for limit in LIMITS:
        try:
            derivation = derive(square, limit=limit, x=N)
            if derivation:
                return limit, said
            assert f"stopped at limit = {limit} seconds" in derivation.verdict
            said += str(derivation)
        except TooLong as error:
            said += str(error)
    return None, said


def test_nothing_is_proved_after_the_limit(steps, monkeypatch):
    """The work ends at each of its stages; with a longer limit the same line is proved.

    A planted mistake, a derivation that forgets that it was stopped, proves it too early.
    """
    limit, said = least_limit()
    for stage in ("the function was read", "numbers were compared"):
        assert f"seconds, while {stage}" in said
    assert limit
    monkeypatch.setattr(derivations.Derivation, "stopped", "")
    early = [k for k in LIMITS if derivation_or_none(k)]
    assert min(early) < limit


def derivation_or_none(limit):
    try:
        return derive(square, limit=limit, x=N)
    except TooLong:
        return None


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
