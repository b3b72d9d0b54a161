"""The benchmarks' own code: processes alternate, ratios and goals are computed right, what is missing has its line.

Nothing here depends on how fast anything is. The peers are made up: they sleep.
"""

import ctypes
import json
import math
from pathlib import Path

import numpy as np
import pytest

import tinytensor
from tests.benchmarks import __main__ as command
from tests.benchmarks import data, plots, ranks, report
from tests.benchmarks.calls import CALLS
from tests.benchmarks.machine import Others, peak_memory, resident, used
from tests.benchmarks.measuring import CALM, Measured, Options, Result, Runner
from tests.benchmarks.peak import PLAYER, lanes, native, rate, round_trip, source
from tests.benchmarks.peers import PEERS, Peer
from tests.benchmarks.peers.numpy_ import NumPy
from tests.benchmarks.peers.ours import Moves, Parts, TinyTensor
from tests.benchmarks.rows import MANY, OPERATIONS, ROWS, Row, Side, decoder, products
from tests.tools.packages import missing

FAKES = """
import os, time

class Sleeper:
    def __init__(self, threads):
        self.threads = threads

    def training_step(self, case):
        assert case.x.shape == (10, 1, 16) and case.weights["E"].shape == (27, 16)
        with open(os.environ["DIARY"], "a") as diary:
            diary.write(type(self).__name__ + " ")
        def step(i):
            time.sleep(0.001)
            return self.loss(i)
        return step

    def loss(self, i):
        return 3.0 - 0.01 * i

class Other(Sleeper):
    pass

class Wrong(Sleeper):
    def loss(self, i):
        return 3.0 - 0.01 * i + (i == 7) * 2e-4

class Broken(Sleeper):
    def training_step(self, case):
        raise RuntimeError("no such kernel")
"""
ROW = Row("train", "tiny", "train", {"cases": {"step": decoder("micro", 1)}}, MANY, (Side("torch", 2.0),))


@pytest.fixture
def options(tmp_path, monkeypatch):
    (tmp_path / "fakes.py").write_text(FAKES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DIARY", str(tmp_path / "diary"))
    reported: list[str] = []
    peers = {"tinytensor": Peer("ours", "numpy", "fakes:Sleeper"), "torch": Peer("theirs", "numpy", "fakes:Other")}
    made = Options(tmp_path / "out", passes=1, seconds=0.02, patience=0.0, tell=reported.append, peers=peers)
    made.reported = reported
    return made


@pytest.mark.slow
def test_row_is_measured_and_reported(options, tmp_path):
    options.passes = 2
    measured = Runner(options).measure(ROW)
    assert (tmp_path / "diary").read_text() == "Sleeper Other Sleeper Other "
    assert not options.reported
    ours, theirs = measured.results
    assert len(ours.figures) == len(theirs.figures) == 2 and all(f["step"] >= 0.001 for f in ours.figures)
    assert ours.flops["step"] > 0
    assert measured.differences() == {"tinytensor": 0.0}
    text = report.markdown([measured], options, {1: 1e9, 2: 2e9}, [55e-9, 319e-9])
    assert "and back: 55–319 ns." in text
    assert "| tiny, 2 threads |" in text and "equal to" in text
    assert json.loads(json.dumps(report.as_json([measured], options, {})))["rows"][0]["sides"][1]["side"] == "torch"


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_made(name):
    for call in CALLS[name](tinytensor).values():
        call()


@pytest.mark.slow
def test_a_missing_peer_has_its_line(options):
    options.peers["torch"] = Peer("theirs", "no-such-package", "fakes:Other")
    measured = Runner(options).measure(ROW)
    (line,) = options.reported
    assert "no-such-package is not installed" in line
    assert "| – |" in report.markdown([measured], options, {})
    assert command.parse([]).rows == []


@pytest.mark.slow
def test_a_peer_that_fails_has_its_line(options):
    options.peers["torch"] = Peer("theirs", "numpy", "fakes:Broken")
    measured = Runner(options).measure(ROW)
    (line,) = options.reported
    assert "no such kernel" in line
    assert measured.ours.figures and not measured.results[1].figures


@pytest.mark.slow
def test_torch_compile_is_skipped_without_a_warm_cache(options):
    options.peers["torch.compile"] = options.peers["torch"]
    options.compile_anew, row = False, Row(**{**vars(ROW), "others": (Side("torch.compile"),)})
    assert not Runner(options).measure(row).results[1].figures
    assert "compiling takes long" in options.reported[0]
    options.compile_anew = True
    assert Runner(options).measure(row).results[1].figures
    options.compile_anew = False
    assert Runner(options).measure(row).results[1].figures  # now the cache has it


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "code"), [("Other", 0), ("Wrong", 1)])
def test_different_losses_fail(options, peer, code, capsys):
    options.peers["torch"] = Peer("theirs", "numpy", f"fakes:{peer}")
    assert command.run([ROW], options) == code
    assert ("DIFFERENT" in capsys.readouterr().out) == bool(code)
    assert (options.out / "report.md").exists() and (options.out / "results.json").exists()


def by_hand(ours: list[dict], theirs: list[dict], others=(None, None), **changes) -> Measured:
    """A row whose figures are given."""
    row = Row(**{**vars(ROW), "threads": 2, **changes})
    sides = zip(row.sides, (ours, theirs), others)
    return Measured(row, [Result(side, list(f), [b] * len(f) if b is None else list(b)) for side, f, b in sides])


def test_ratios_are_those_of_medians():
    measured = by_hand([{"step": t} for t in (1.0, 2.0, 9.0)], [{"step": t} for t in (3.0, 5.0, 6.0)])
    assert measured.ratios(measured.results[1], "step") == {"step": 2.5}
    assert measured.spread(measured.results[1], "step") == pytest.approx((6 / 9, 3.0))
    assert measured.missed({}) == []  # 2.5 of 2
    slower = by_hand([{"step": 3.0}], [{"step": 2.0}])
    assert slower.missed({}) == ["tiny, 2 threads against PyTorch eager: 0.67 of 2"]
    assert "(**0.67×**)" in "\n".join(report.training_table([slower], {}))


def test_several_ratios_give_a_geometric_mean_and_a_minimum():
    ours, theirs = {"A: 1": 1.0, "A: 2": 1.0, "B: 1": 1.0}, {"A: 1": 0.5, "A: 2": 18.0, "B: 1": 3.0}
    measured = by_hand([ours], [theirs], many=True, least=0.85)
    table = "\n".join(report.other_table([measured], {}))
    assert "| A, 2 threads |" in table and "| 3.00× (3.00–3.00) | **0.50×** at 1 |" in table
    assert "| B, 2 threads |" in table
    assert measured.missed({}) == ["A, 2 threads against PyTorch eager: 1 has 0.50 of 0.85"]


def test_busy_passes_do_not_count_beside_calm_ones():
    figures = [{"step": 1.0}, {"step": 50.0}]
    mixed = by_hand(figures, figures, others=((0.0, 1.0), (CALM, CALM)))
    assert mixed.ours.median("step") == 1.0 and not mixed.ours.disturbed
    assert mixed.results[1].median("step") == 25.5 and mixed.results[1].disturbed
    assert report.time(mixed.results[1], "step", "s", spread=False) == "25.5*"
    assert report.time(mixed.ours, "step", "s", spread=False) == "1"


def test_a_limit_and_a_goal_for_one_line():
    slow = by_hand([{"step": 13.0}], [{"step": 60.0}], limit=12.0, unit="s")
    assert slow.missed({}) == ["tiny, 2 threads: 13 of at most 12 s"]
    side = Side("torch", {"attention": 5.0, "": 1.5})
    assert side.goal_of("attention") == 5.0 and side.goal_of("softmax") == 1.5 and Side("jax").goal_of("x") is None


def test_share_of_the_peak():
    measured = by_hand([{"step": 0.5}], [{"step": 1.0}])
    measured.ours.flops = {"step": 1e9}
    assert measured.share(measured.ours, "step", {2: 8e9}) == pytest.approx(0.25)
    assert measured.share(measured.ours, "step", {1: 8e9}) is None
    slower = by_hand([{"step": 1.5}], [{"step": 1.0}])
    slower.ours.flops = {"step": 1e9}  # a third of the peak at two thirds of the other's speed: all of it at twice that
    takes = "tiny, 2 threads against PyTorch eager: 0.67 of 2 (which takes 100% of the FMA peak)"
    assert slower.missed({2: 2e9}) == [takes]


def test_sides_are_compared_by_their_common_figures():
    measured = by_hand([{"A: 1": 1.0, "A: 2": 4.0, "B: 1": 1.0}], [{"A: 1": 3.0}], group="ops", many=True)
    other = measured.results[1]
    assert measured.ratios(other, "A") == {"A: 1": 3.0} and measured.ratios(other, "B") == {}
    assert measured.spread(other, "A") == pytest.approx((3.0, 3.0))
    assert "3.00× (3.00–3.00)" in report.markdown([measured], Options(Path()), {})


def test_losses_are_compared_with_pytorchs():
    measured = by_hand([{"step": 1.0}], [{"step": 1.0}])
    measured.ours.same, measured.results[1].same = {"step": [1.0, 2.0]}, {"step": [1.0, 2.5]}
    assert list(measured.differences().values()) == [0.5]
    measured.results[1].same = {"step": [1.0]}
    assert list(measured.differences().values()) == [math.inf]


def test_rows_are_chosen_by_group_and_by_name():
    assert {row.group for row in command.chosen(["matmul", "ops"], quick=False)} == {"matmul", "ops"}
    assert all("nano" in row.name for row in command.chosen(["nano"], quick=False))
    assert command.chosen([], quick=False) == ROWS
    quick = command.chosen([], quick=True)
    assert quick and all(row.quick for row in quick) and len(quick) < len(ROWS)
    with pytest.raises(ValueError, match="no row is called 'matmull'"):
        command.chosen(["matmull"], quick=False)
    assert command.main(["--list"]) == 0 and command.main(["matmull"]) == 2


def test_rows_name_peers_that_exist():
    assert {side.peer for row in ROWS for side in row.sides} <= set(PEERS)
    folder = Path(command.__file__).parent
    for peer in PEERS.values():
        module, name = peer.path.rsplit(".", 1)[1].split(":")
        assert f"class {name}" in (folder / "peers" / f"{module}.py").read_text()


@pytest.mark.parametrize("form", ["A·B", "A·Bᵀ", "Aᵀ·B"])
def test_numpy_row_multiplies_matrices(form):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5, 7)), rng.standard_normal((7, 3))
    run = NumPy(1).products(form, A.T.copy() if form == "Aᵀ·B" else A, B.T.copy() if form == "A·Bᵀ" else B, 4)
    assert all(np.allclose(result, A @ B) for result in run())
    eager = NumPy(1).eager_products(form, A.T.copy() if form == "Aᵀ·B" else A, B.T.copy() if form == "A·Bᵀ" else B, 4)
    assert np.allclose(eager(), A @ B)


@pytest.fixture
def ours():
    before = tinytensor.get_num_threads()
    yield TinyTensor(1)
    tinytensor.set_num_threads(before)


@pytest.mark.parametrize("name", OPERATIONS)
def test_our_operations_run_from_their_recordings(ours, name):
    rng = np.random.default_rng(0)
    shape = (2, 2, 8, 4) if name == "attention" else (6, 8)
    arrays = {key: rng.standard_normal(shape).astype(np.float32) for key in ("xgkv" if name == "attention" else "xg")}
    if name == "cross_entropy":
        arrays |= {"g": np.ones((), np.float32), "targets": np.arange(6)}
    moves, parts = Moves(1).operation(name, arrays), Parts(1).operation(name, arrays)
    assert list(parts if name == "attention" else moves) == ["forward", "backward"]
    assert not (moves if name == "attention" else parts)
    for run, n, idle in [*ours.operation(name, arrays).values(), *moves.values(), *parts.values()]:
        assert n > 1 and run() is None and run() is None
        assert idle is None or (idle() is None and idle() is None)


@pytest.mark.parametrize("form", ["A·B", "A·Bᵀ", "Aᵀ·B"])
def test_our_products_run_from_their_recordings(ours, form):
    a = np.ones((7, 5) if form == "Aᵀ·B" else (5, 7), np.float32)
    b = np.ones((3, 7) if form == "A·Bᵀ" else (7, 3), np.float32)
    run = ours.products(form, a, b, 4)
    assert run() is None and run() is None
    assert (ours.eager_products(form, a, b, 4)().numpy() == 7).all()


@pytest.mark.slow
def test_sampling_row_generates_the_requested_tokens(ours):
    draw = ours.sampler(data.make(decoder("micro", 1)))
    assert len(list(draw(15, 1.0))) == 15 and list(draw(15, 0)) == list(draw(15, 0))


@pytest.mark.slow
def test_a_prompt_is_continued(ours):
    write = ours.prompted(data.make(decoder("micro", 1)))
    assert write([1, 2, 3], 1) == write([1, 2, 3], 9)[:1] and len(write([1, 2, 3], 9)) == 9


def test_pytorch_continues_a_prompt_in_the_same_way(ours):
    pytest.importorskip("torch", reason=missing("torch"))
    from .peers.torch_ import Eager

    changes = {"D": 24, "H": 3, "F": 40, "L": 2, "V": 60, "C": 40, "dropout": 0.0}
    case = data.make(decoder("gpt2", 1, **changes))
    rng = np.random.default_rng(0)
    case.weights = {n: (w + rng.normal(0, 0.3, w.shape)).astype(np.float32) for n, w in case.weights.items()}
    tokens = case.x[0, 0, :12].tolist()
    assert ours.prompted(case)(tokens, 20) == Eager(1).prompted(case)(tokens, 20)


def test_products_and_operations_have_the_models_shapes():
    result = set(products())
    assert ("A·B", 768, 32, 300) in result and ("Aᵀ·B", 32, 768, 300) in result and ("A·Bᵀ", 768, 300, 32) in result
    assert ("A·B", 1024, 1024, 1024) in result and len(result) == len(list(products()))
    assert set(OPERATIONS) == {"softmax", "layer_norm", "cross_entropy", "GELU", "attention"}


def test_measured_peak_counts_its_operations():
    assert lanes("avx2") == 8 and lanes("avx512") == 16 and lanes("neon") == lanes("none") == 4
    text, work = source(4)
    assert text.count("call <4 x float>") * 4 * 2 == work
    assert rate(1, 4, tries=2) > 1e8


def test_round_trip_needs_an_answer():
    assert 0 < round_trip(rounds=3) < 10
    play = native(PLAYER, "play", ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    ball = ctypes.c_int64(1)
    assert play(ctypes.addressof(ball), 1, 1, 100) == 1 and ball.value == 2
    assert play(ctypes.addressof(ball), 1, 1, 100) == 0 and ball.value == 2  # nobody answers, and it gives up


def test_load_of_others_excludes_this_process(monkeypatch):
    seconds = iter([(100.0, 40.0, 7.0), (102.0, 45.0, 10.0)])  # on the clock, of all processors, of this process
    monkeypatch.setattr(Others, "_now", staticmethod(lambda: next(seconds)))
    assert Others().processors() == pytest.approx(1.0)


@pytest.mark.skipif(used() is None, reason="what processors do is read from /proc")
def test_own_work_counts_as_own():
    (_, all_before, own_before), _ = Others._now(), sum(i * i for i in range(5_000_000))
    _, all_now, own_now = Others._now()
    assert own_now - own_before > 0.05 and all_now - all_before > 0.05


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from /proc")
def test_peak_memory_includes_freed_memory():
    before = resident()
    assert peak_memory(lambda: np.ones(50_000_000 // 8).sum()) - before > 40_000_000
    assert peak_memory(lambda: None) - before < 40_000_000


@pytest.mark.slow
def test_curves_are_drawn(tmp_path):
    figures = [{"1": 1e-6, "8": 5e-7}]
    plots.draw(tmp_path / "curves.png", [by_hand(figures, figures, axis="batch", unit="µs")] * 3)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    measured = by_hand(figures, figures, axis="batch", unit="µs", group="curves")
    assert "| 8 | 0.5 | 0.5 |" in "\n".join(report.curves_table([measured]))


# --- Ranks, on paper


def test_predicted_time_of_a_step_on_ranks():
    costs = ranks.Costs(fixed=0.002, row=0.001, size=3 * ranks.BUCKET // 2)  # two buckets
    assert ranks.predicted(costs, 12, 1, alpha=1.0, beta=1.0) == pytest.approx(0.014)  # one process sends nothing
    expected = 0.002 + 0.001 * 4 + (2 * 2 + 1) * 2 * 1e-5 + 2 * 2 / 3 * costs.size / 1e9
    assert ranks.predicted(costs, 12, 3, alpha=1e-5, beta=1e9) == pytest.approx(expected)
    assert ranks.predicted(costs, 12, 13, 1e-5, 1e9) > ranks.predicted(costs, 12, 12, 1e-5, 1e9)  # a rank without data


def test_unmeasured_configurations_are_scaled():
    nano = ranks.Costs(1.0, 1.0, 4 * 804_096)
    gpt2 = ranks.scaled(nano, "gpt2", "nano", 1024)
    assert gpt2.size == pytest.approx(4 * 124_439_808)
    assert gpt2.row == pytest.approx(gpt2.fixed * 1024 / 64)


def test_ping_pong_measures_latency_and_bandwidth():
    times = {"8": 2e-6, "1024": 1.0, str(1 << 18): 2e-6 + (1 << 18) / 5e9, str(1 << 20): 2e-6 + (1 << 20) / 4e9}
    assert ranks.line(times) == (2e-6, pytest.approx(4e9))
