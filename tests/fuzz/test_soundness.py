"""A short form of `python -m tests.fuzz.soundness`, and the fuzzer itself: what it should report, it does."""

import random
from collections import deque
from dataclasses import replace

import pytest

import tinytensor as tt
from tests.fuzz.soundness import functions, gradients, pairs
from tests.fuzz.soundness.__main__ import SHARE
from tinytensor.symbolic.derive.check import Checked


def last(*arguments, **options) -> pairs.Tally:
    return deque(pairs.fuzz(*arguments, **options), maxlen=1).pop()


def shown(ones: list[pairs.Pair]) -> str:
    return "\n\n".join(map(str, ones))


@pytest.mark.slow
def test_no_wrong_gradients_are_proved_and_no_right_ones_refuted():
    """Of the first functions of the 20,000 pairs: seed 0."""
    tally = last(50, 20, seed=0)
    assert not tally.unsound, shown(tally.unsound)
    assert not tally.refuted, shown(tally.refuted)
    assert not tally.errors, "\n".join(tally.errors)
    assert tally.share_proved >= SHARE, tally.report()
    assert tally.counts["pairs: checked"] >= 900


@pytest.mark.slow
def test_gradients_of_the_constructions_are_right():
    for n in range(200):
        one = functions.sample(2, n)
        where = pairs.points(one, 2)[:40]
        for argument in one.gradients:
            for text in (one.gradients[argument], *one.equal[argument]):
                hand = functions.compiled(text, "gradient", one.name)
                for point in where:
                    how = pairs.differs(hand, argument, point)
                    assert not how, f"{one.source}{text}{how} at {point}"


@pytest.mark.slow
def test_functions_and_gradients_are_those_of_the_seed():
    def texts(seed):
        one = functions.sample(seed, 3)
        where = pairs.points(one, seed)
        return one.source, list(pairs.hands(one, list(one.gradients), 12, seed, where)), str(where[0])

    assert texts(5) == texts(5)
    assert texts(5) != texts(6)


# --- Negative controls


PROVED = {"statement": "proved"}


def all_of(**verdict):
    return lambda derivation, by_hand: {n: Checked(n, "", None, **verdict) for n in by_hand}


def by_numbers_at_large_sizes(derivation, by_hand):
    """Compares numbers at sizes that are all odd and above 4, and at values that are all positive."""
    one = functions.Sample("", "", derivation.arguments, {}, {}, "", ())
    verdicts = {}
    for argument, hand in by_hand.items():
        right = True
        for run in ((5, 7, 11), (19, 5, 11), (17, 11, 19)):
            at = dict(zip(one.sizes, run, strict=False))
            inputs = functions.values(one, at, 2, pairs.np.random.default_rng(run))
            out = derivation.fn(**inputs)
            upstream = tt.ones(*out.shape, dtype=tt.float64) if out.ndim else None
            (want,) = pairs.grad(out, [inputs[argument]], upstream)
            point = pairs.Point(at, inputs, upstream, {argument: want.numpy()}, ties=False, any=True)
            right = right and not pairs.differs(hand, argument, point)
        verdicts[argument] = Checked(argument, "", None, **PROVED if right else {"refuted": True})
    return verdicts


@pytest.mark.slow
def test_checker_that_proves_everything_is_reported():
    tally = last(3, 10, seed=1, check=all_of(**PROVED))
    assert len(tally.unsound) > 5
    assert all(pair.counterexample for pair in tally.unsound)
    assert "by numbers: " in shown(tally.unsound)


@pytest.mark.slow
def test_checker_that_refutes_everything_is_reported():
    tally = last(3, 10, seed=1, check=all_of(refuted=True))
    assert len(tally.refuted) > 5
    assert tally.share_proved == 0


@pytest.mark.slow
def test_checker_that_decides_nothing_is_reported():
    assert last(2, 10, seed=1, check=all_of()).share_proved < SHARE


@pytest.mark.slow
def test_checker_of_odd_sizes_and_positive_values_is_reported():
    tally = last(6, 20, seed=1, check=by_numbers_at_large_sizes)
    assert tally.unsound
    assert not tally.refuted, shown(tally.refuted)


# --- Its parts


def point(at=None, ties=False, any=True, **indices):
    return pairs.Point(at or {"N": 3, "D": 4}, {n: tt.tensor(v) for n, v in indices.items()}, None, {}, ties, any)


@pytest.mark.parametrize(
    ("condition", "inside", "outside"),
    [
        ("N > 3", point({"N": 4}), point({"N": 3})),
        ("N ≠ 2", point({"N": 1}), point({"N": 2})),
        ("N < D + 1", point({"N": 3, "D": 3}), point({"N": 4, "D": 3})),
        ("(N + D) % 3 = 1", point({"N": 3, "D": 4}), point({"N": 4, "D": 4})),
        ("even N", point({"N": 4}), point({"N": 3})),
        ("odd D", point({"D": 3}), point({"D": 4})),
        ("no two numbers that are compared are equal", point(), point(ties=True)),
        ("no two numbers that are compared are equal", point(), point(any=False)),
        ("no number that is rounded is whole", point(), point(any=False)),
    ],
)
def test_conditions_exclude_sizes_and_values(condition, inside, outside):
    verdict = Checked("x", "", None, **PROVED, conditions=(condition,))
    assert not pairs.excluded(verdict, inside, "2 for 1")
    assert pairs.excluded(verdict, outside, "2 for 1")
    assert not pairs.excluded(Checked("x", "", None, **PROVED), outside, "2 for 1")


def test_denominators_exclude_what_is_no_number():
    verdict = Checked("x", "", None, **PROVED, conditions=("no denominator is 0",))
    assert pairs.excluded(verdict, point(), "nan for 1 at [0]")
    assert not pairs.excluded(verdict, point(), "2 for 1 at [0]")


def test_each_mistake_and_rewriting_is_a_program():
    draw = random.Random(0)
    for n in range(20):
        one = functions.sample(3, n)
        for argument, text in one.gradients.items():
            for changes in (gradients.mistakes, gradients.rewritings):
                source, name = gradients.apply(text, changes, draw, argument, one.sizes)
                assert name
                assert callable(functions.compiled(source, "gradient", one.name))


@pytest.mark.slow
def test_rewritings_keep_the_value():
    draw = random.Random(0)
    for n in range(25):
        one = functions.sample(4, n)
        where = pairs.points(one, 4)[:10]
        for argument, text in one.gradients.items():
            source, name = gradients.apply(text, gradients.rewritings, draw, argument, one.sizes)
            hand = functions.compiled(source, "gradient", one.name)
            assert not [how for p in where if (how := pairs.differs(hand, argument, p))], f"{name}\n{text}{source}"


def test_difference_quotients_notice_a_slope_that_is_off_by_a_hundred_thousandth():
    noticed, compared = 0, 0
    for n in range(8):
        one = functions.sample(202, n)
        for point in pairs.points(one, 202)[:60]:
            assert not pairs.no_derivative(one, point), one.source
            if point.any and not point.ties and not pairs.UNLIKE.search(one.source):
                off = {name: slope * (1 + 1e-5) + 1e-5 for name, slope in point.want.items()}
                noticed += bool(pairs.no_derivative(one, replace(point, want=off)))
                compared += 1
    assert noticed > 0.7 * compared > 50


def of_one_line(line: str, compared: str = "") -> functions.Sample:
    return functions.Sample("f", f"def f(x):\n    return {line}\n", {"x": ("N",)}, {}, {}, compared, ())


def test_steps_out_of_the_domain_hide_no_difference():
    one, values = of_one_line("x.log().sum()"), {"x": tt.tensor([5e-5], dtype=tt.float64)}
    near = pairs.Point({"N": 1}, values, None, {"x": pairs.np.array([20_000.0])}, ties=False, any=True)
    assert not pairs.no_derivative(one, near)
    assert pairs.no_derivative(one, replace(near, want={"x": pairs.np.array([20_020.0])}))


def test_errors_of_what_is_compared_hide_no_point():
    with pytest.raises(IndexError):
        pairs.points(of_one_line("x.sum()", "def compared(x, N):\n    return [x[N]]\n"), 0)
