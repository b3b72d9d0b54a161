"""The claims about kernels beyond their blocks: they hold, just beyond; a kernel wrong only there is refuted."""

import pytest

from derivations.claims import BOUND, Refuted, claims_of, result_of
from derivations.proofs import kernels
from derivations.proofs.kernels import MASKS, Trial
from tests.mutants.planting import kernel_with, module_of
from tinytensor.native.kernels import KERNELS
from tinytensor.symbolic import lift
from tinytensor.symbolic.exact.finite_field import Field

CLAIMS = {claim.statement.partition(":")[0]: claim for claim in claims_of(["kernels"]) if claim.category == "sampled"}
SMALLER = {  # no less than a block and a rest, for the widest registers that there are
    "R": 4,
    "N": 35,
    "CLASSES": 9,
    "ROWS": 515,
    "D": 17,
    "NORMED": 33,
    "TOKENS": 71,
    "V": 67,
    "HIGH": (2, 193, 1, 17),
    "DEEP": (2, 3, 257, 17),
    "WIDE": (1, 33, 3, 131),
    "COPIED": (1, 27, 257, 81),
    "QUERIES": 17,
    "KEYS": 17,
    "KEYS_OF_ONE": 129,
    "WIDTHS": (17, 17),
    "ELEMENTS": 5,
}


@pytest.fixture
def smaller(monkeypatch):
    for name, size in SMALLER.items():
        monkeypatch.setattr(kernels, name, size)
    holes = "a mask with holes for each head"  # which hides at the ends of squares as well
    monkeypatch.setattr(kernels, "MASKS", {holes: (1, 1, MASKS[holes][2])})


@pytest.fixture
def planted(smaller, monkeypatch):
    def plant(name: str, right: str, wrong: str) -> None:
        kernel, scope = KERNELS[name], {"__name__": "planted"}
        exec(compile(kernel_with(name, right, wrong), module_of(kernel).__file__, "exec"), scope)
        monkeypatch.setattr(kernels, "lift", lambda k, *tasks: lift(scope[name] if k is kernel else k, *tasks))

    return plant


def claim_of(kernel: str):
    return next(claim for names, claim in CLAIMS.items() if kernel in names.split(", "))


@pytest.mark.parametrize("names", [names for names in CLAIMS if "matmul" not in names])
def test_kernels_are_their_definitions(names, smaller):
    result = result_of(CLAIMS[names])
    assert result.error is None, result.why
    message = result.evidence.text.splitlines()[-1]
    assert message.startswith("probability that a wrong kernel passes: below 2^")
    assert int(message.partition("^")[2]) <= BOUND


def run(function) -> None:
    with Field() as scalars:
        function(Trial(scalars))


def products(trial: Trial) -> None:
    """All forms, but not all sizes beyond their blocks together."""
    for form in kernels.FORMS:
        for sizes in (kernels.HIGH, kernels.DEEP, kernels.WIDE):
            kernels.product(trial, sizes, *form)


def copies(trial: Trial) -> None:
    """Products of copied blocks, whose panels are copied in groups, and whose sums wait in scratch."""
    for form in kernels.COPIES:
        kernels.product(trial, kernels.COPIED, *form, block=kernels.BLOCK_OF_COPIES)


def copied_rows(trial: Trial) -> None:
    kernels.product(trial, kernels.COPIED, *kernels.COPIES[0], block=kernels.BLOCK_OF_COPIES)


def copied_columns(trial: Trial) -> None:
    kernels.product(trial, kernels.COPIED, *kernels.COPIES[1], block=kernels.BLOCK_OF_COPIES)


def test_products_are_their_definition(smaller):
    run(products)


def test_products_of_copies_are_their_definition(smaller):
    run(copies)


def test_copies_that_the_plan_has_not_are_refused(smaller):
    with pytest.raises(Refuted, match="blocks of a are copied where that is claimed"):
        run(lambda trial: kernels.product(trial, kernels.PLANNED, "strided", "as it is"))


MISTAKES = [  # nothing is wrong with the first block, or the first few
    (products, "matmul", "if first > 0:\n            c =", "if first > 0:\n            c = c if first > 2 else"),
    (copied_columns, "matmul", "before - t * apart", "before - t * min(apart, last - first)"),
    (copied_rows, "matmul", "v // (2 * n) * deep", "min(v // (2 * n), 2) * deep"),
    (copied_columns, "matmul", "group * deep + p * high", "group * deep + min(p, 3) * high"),
    (copied_rows, "matmul", "if p % group == 0:", "if p == 0:"),
    (products, "matmul", "block // down % across * nc", "0"),
    (kernels.rows_by_number, "scatter_add", "if start <= v < stop:", "if start <= v < min(stop, 64):"),
    (kernels.norms, "layer_norm_backward", "task_range(rows, block,", "task_range(rows, min(block, 11),"),
    (kernels.losses, "mean_of_counted", "row_sum(losses, block", "row_sum(losses[:512], block"),
    (kernels.reductions, "reduce_sum", "range(0, row.size, size)", "range(0, size, size)"),
    (kernels.reductions, "partial_sum", "r % parts, parts)", "min(r % parts, 2), parts)"),
    (kernels.reductions, "cumsum", "(y[o, k - 1, i], lost[o, i]) if k > 0", "(y[o, 0, i], lost[o, i]) if k > 0"),
    (kernels.reductions, "cumsum", "load(y, o, k - 1, i)", "load(y, o, min(k - 1, 64), i)"),
    (kernels.vectors, "matvec", "range(0, K - rest, BLOCK)", "range(0, min(K - rest, BLOCK), BLOCK)"),
    (kernels.vectors, "matvec", "range(0, K, BLOCK // 8)", "range(0, BLOCK // 8, BLOCK // 8)"),
    (
        kernels.softmaxes,
        "softmax_backward",
        "s = add_products(lanes(y),",
        "s = add_products(lanes(y) if j < 16 else 0,",
    ),
    (
        kernels.attention,
        "attention",
        "norm = add(norm, sum_registers(p))",
        "norm = add(norm, sum_registers(p)) if m < 8 else norm",
    ),
    (kernels.attention, "attention_backward", "range(0, M, LANES)", "range(0, LANES, LANES)"),
    (kernels.attention, "attention_backward", "dqs, at + j * WIDTH, slopes", "dqs, at, slopes"),
    (kernels.attention, "attention_of_one", "range(0, count, LANES)", "range(0, LANES, LANES)"),
    (kernels.updates, "adam", "for i in range(ps.size):", "for i in range(min(ps.size, 1)):"),
]


@pytest.mark.parametrize(("function", "name", "right", "wrong"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistake_beyond_a_block_is_refuted(function, name, right, wrong, planted):
    planted(name, right, wrong)
    with pytest.raises((Refuted, RuntimeError)):
        run(function)


def test_every_kernel_is_run_or_has_a_reason(monkeypatch):
    monkeypatch.setitem(KERNELS, "unheard_of", KERNELS["softmax"])
    (complete,) = (claim for claim in claims_of(["kernels"]) if claim.category == "check")
    assert "unheard_of" in result_of(complete).why
    monkeypatch.undo()
    assert result_of(complete).error is None


def test_small_size_and_unwritten_result_are_refused(smaller, monkeypatch):
    monkeypatch.setattr(kernels, "N", 16)
    assert "16 is beyond two registers" in result_of(claim_of("softmax")).why
    with Field() as scalars, pytest.raises(Refuted, match="was not written"):
        Trial(scalars).equal("y[0]", None, 1)
