"""The loop: it learns, replay and eager agree in every bit, rates are per layer and head, and NaN has a name."""

import csv
import math
import re

import numpy as np
import pytest

import tinytensor
from models.data.text import IGNORE_INDEX, Corpus
from models.decoder import Config, Decoder
from models.training import checkpoint
from models.training.trainer import NonFiniteLoss, Settings, build_optimizer, first_nonfinite, parameter_groups
from tests.models.whole_models import assert_near
from tinytensor import tensor
from tinytensor.nn import functional


def weights(trainer):
    return {name: p.detach().numpy().copy() for name, p in trainer.model.named_parameters()}


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def rows_of(folder):
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


# --- The loop


def test_training_lowers_the_held_out_loss(begin):
    trainer = begin(steps=400, checkpoint_every=1000, evaluate_every=400, model={"D": 16, "C": 16})
    before = trainer.evaluate()
    assert before > 2.8  # e^2.8 = 16 of 24 characters
    assert trainer.train()
    assert trainer.log.rows[-1]["heldout_loss"] < 0.6


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_replayed_steps_equal_eager_ones_bit_for_bit(begin, dropout):
    runs = []
    for eager in (False, True):
        trainer = begin(f"eager-{eager}", eager=eager, model={"dropout": dropout})
        assert trainer.train()
        runs.append((weights(trainer), [row["loss"] for row in trainer.log.rows], trainer.log.rows[-1]["heldout_loss"]))
    assert_same_bits(runs[0][0], runs[1][0])
    assert runs[0][1:] == runs[1][1:]


def test_seed_decides_the_run(begin):
    results = []
    for i, seed in enumerate((3, 3, 4)):
        trainer = begin(f"run{i}", seed=seed)
        trainer.train()
        results.append(weights(trainer))
    assert_same_bits(results[0], results[1])
    assert results[0]["E"].tobytes() != results[2]["E"].tobytes()


def test_thread_count_changes_no_bit(begin):
    results = []
    for threads in (1, 2):
        before = tinytensor.get_num_threads()
        tinytensor.set_num_threads(threads)
        try:
            trainer = begin(f"threads{threads}", steps=5, batch_size=16, model={"D": 32, "F": 64, "C": 48})
            trainer.train()
            results.append(weights(trainer))
        finally:
            tinytensor.set_num_threads(before)
    assert_same_bits(*results)


def test_log_has_a_row_where_one_is_due(begin):
    trainer = begin()
    seen = []
    assert trainer.train(seen.append)
    assert [row["step"] for row in seen] == list(range(1, 31))
    rows = rows_of(trainer.folder)
    assert list(rows[0]) == ["step", "loss", "lr", "tokens_per_second", "heldout_loss"]
    assert [int(row["step"]) for row in rows] == [4, 8, 10, 12, 16, 20, 24, 28, 30]
    assert [row["step"] for row in rows if row["heldout_loss"]] == ["10", "20", "30"]
    assert all(float(row["tokens_per_second"]) > 0 for row in rows)


def test_row_holds_the_mean_loss_since_the_last_row(begin):
    trainer, plain = begin(), begin("plain")
    trainer.train()
    losses = [plain.advance() for _ in range(10)]
    results = {row["step"]: row["loss"] for row in trainer.log.rows}
    assert results[4] == pytest.approx(np.mean(losses[:4]), rel=1e-12)
    assert results[10] == pytest.approx(np.mean(losses[8:10]), rel=1e-12)


def test_the_rate_rises_and_falls():
    settings = Settings(steps=100, warmup=10, floor=0.1)
    assert [settings.rate(t) for t in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert settings.rate(10) == 1.0
    assert settings.rate(55) == pytest.approx(0.55)
    assert settings.rate(100) == pytest.approx(0.1)
    linear = Settings(steps=100, warmup=0, floor=0.0, schedule="linear")
    assert [linear.rate(t) for t in (0, 25, 100)] == [1.0, 0.75, 0.0]
    assert {Settings(warmup=0, schedule="constant").rate(t) for t in (0, 5, 9000)} == {1.0}


def test_logged_rate_is_the_one_the_step_used(begin):
    trainer = begin(lr=0.5, optimizer="sgd", weight_decay=0.0)
    trainer.train()
    assert len(trainer.log.rows) == 9
    for row in trainer.log.rows:
        assert row["lr"] == pytest.approx(0.5 * trainer.settings.rate(row["step"] - 1))


def test_plain_sgd_is_eq_18(begin):
    trainer = begin(optimizer="sgd", lr=0.25, weight_decay=0.0, clip=0.0, warmup=0, schedule="constant")
    before = weights(trainer)
    x, y = (tensor(a) for a in trainer.batches.next())
    trainer.model(x, y)[1].backward()
    expected = {n: before[n] - np.float32(0.25) * p.grad.numpy() for n, p in trainer.model.named_parameters()}
    fresh = begin("again", optimizer="sgd", lr=0.25, weight_decay=0.0, clip=0.0, warmup=0, schedule="constant")
    fresh.advance()
    for name, value in weights(fresh).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-7)


def test_gradients_are_clipped(begin):
    steps = {}
    for clip in (0.0, 1e-3):
        trainer = begin(f"clip{clip}", optimizer="sgd", lr=1.0, weight_decay=0.0, clip=clip, warmup=0)
        before = weights(trainer)
        trainer.advance()
        steps[clip] = math.sqrt(sum(((v - before[n]) ** 2).sum() for n, v in weights(trainer).items()))
    assert steps[0.0] > 0.1
    assert steps[1e-3] == pytest.approx(1e-3, rel=1e-2)


# --- Rates of layers and heads


def moved(**rates):
    """How far one step of eq. (18) moves each parameter."""
    tinytensor.manual_seed(0)
    config = Config(D=8, H=2, F=12, L=2, V=11, C=6, attention_bias=True)
    model = Decoder(config)
    optimizer = build_optimizer(model, Settings(optimizer="sgd", lr=0.5, weight_decay=0.0, **rates))
    before = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
    t = np.random.default_rng(0).integers(0, 11, (4, 6))
    model(tensor(t), tensor(t[::-1]))[1].backward()
    optimizer.step()
    return {n: p.detach().numpy() - before[n] for n, p in model.named_parameters()}


def test_rate_for_each_layer():
    plain, scaled = moved(), moved(layer_lr=(0.5, 3.0))
    for name in plain:
        factor = 0.5 if name.startswith("blocks.0.") else 3.0 if name.startswith("blocks.1.") else 1.0
        if not name.endswith(".k"):  # q_i . k adds the same to all scores of a row: it has no gradient
            assert np.abs(plain[name]).max() > 1e-5
        np.testing.assert_allclose(scaled[name], factor * plain[name], rtol=1e-3, atol=1e-6)


def test_rate_for_each_head():
    plain, scaled = moved(), moved(head_lr=(0.0, 2.0), layer_lr=(1.0, 0.5))
    for name in plain:
        layer = 0.5 if name.startswith("blocks.1.") else 1.0
        last = name.split(".")[-1]
        heads = np.array([0.0, 2.0])
        if last in "QKV":
            factor = heads.reshape(2, 1, 1)
        elif last == "W":
            factor = np.repeat(heads, 4).reshape(8, 1)
        elif last in "qkv":
            factor = np.repeat(heads, 4)
        else:
            factor = 1.0
        np.testing.assert_allclose(scaled[name], layer * factor * plain[name], rtol=1e-3, atol=1e-6)


def test_groups_hold_every_parameter_once():
    for tied in (False, True):
        model = Decoder(Config(D=8, H=2, F=12, L=2, V=11, C=6, tied=tied))
        results = [id(p) for group in parameter_groups(model) for p in group["params"]]
        assert sorted(results) == sorted(id(p) for p in model.parameters())


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        ({"layer_lr": (1.0,)}, "1 learning rates for 2 layers"),
        ({"head_lr": (1.0,) * 3}, "3 learning rates for 2 heads"),
    ],
)
def test_wrong_number_of_rates_is_refused(rates, sentence):
    with pytest.raises(ValueError, match=sentence):
        moved(**rates)


# --- Evaluation


def test_evaluation_is_the_mean_over_every_held_out_token(begin):
    trainer = begin()
    tokens, C = trainer.task.corpus.heldout, trainer.config.C
    losses = {}
    for start in [*range(0, len(tokens) - 1 - C, C // 2), len(tokens) - 1 - C]:
        logits, _ = trainer.model(tensor(tokens[start : start + C][None]))
        each = functional.cross_entropy(logits[0], tensor(tokens[start + 1 : start + C + 1]), reduction="none")
        for i, loss in enumerate(each.tolist()):
            losses.setdefault(start + i + 1, loss)  # an overlapping window does not count a token again
    assert sorted(losses) == list(range(1, len(tokens)))
    assert trainer.evaluate() == pytest.approx(np.mean(list(losses.values())), rel=1e-6)


def test_evaluation_changes_no_bit_of_the_run(begin):
    results = []
    for every in (1, 30):
        trainer = begin(f"every{every}", evaluate_every=every, model={"dropout": 0.2})
        trainer.train()
        results.append(weights(trainer))
    assert_same_bits(*results)


def test_padding_adds_nothing_to_loss_and_gradients(begin):
    trainer = begin()
    x, y = trainer.batches.next()
    y[:, 5:] = IGNORE_INDEX
    trainer.model(tensor(x), tensor(y))[1].backward()
    short, grads = begin("short"), {n: p.grad.numpy() for n, p in trainer.model.named_parameters()}
    short.model(tensor(x[:, :5]), tensor(y[:, :5]))[1].backward()
    for name, p in short.model.named_parameters():
        assert_near(grads[name], p.grad.numpy(), name)


# --- Stop and NaN


def test_stopped_run_saves_and_returns(begin):
    trainer = begin()

    def progress(row):
        trainer.stop = row["step"] == 11

    assert not trainer.train(progress)
    assert checkpoint.load(trainer.folder).step == 11


def change_the_rate(trainer, step, value):
    """From `step` (from 0) on the learning rate is lr * value, here and in every run with the same settings."""
    rate = trainer.settings.rate
    object.__setattr__(trainer.settings, "rate", lambda t: value if t >= step else rate(t))
    trainer.schedule.lr_lambdas = [trainer.settings.rate] * len(trainer.schedule.lr_lambdas)


@pytest.mark.parametrize("eager", [False, True])
def test_nonfinite_loss_keeps_the_last_good_checkpoint(begin, eager):
    trainer = begin(optimizer="sgd", lr=0.05, eager=eager, weight_decay=0.0, clip=0.0, checkpoint_every=5)
    change_the_rate(trainer, 11, 1e30)
    with pytest.raises(NonFiniteLoss) as error:
        trainer.train()
    message = str(error.value)
    assert re.match(r"step 1[2345] gave a loss of ", message), message
    assert re.search(r"first tensor that is not finite is the (output of|logits|loss|parameter|gradient of)", message)
    assert re.search(r"step-000000(10|15) is the last good checkpoint", message), message
    saved = checkpoint.load(trainer.folder)
    assert saved.step in (10, 15)
    assert all(np.isfinite(w.numpy()).all() for w in saved.weights.values())


def test_nonfinite_heldout_loss_keeps_the_last_checkpoint(begin):
    trainer = begin(optimizer="sgd", weight_decay=0.0, clip=0.0, checkpoint_every=2, evaluate_every=6, steps=6)
    change_the_rate(trainer, 5, 1e30)  # the last step leaves parameters that are finite, and nothing can come of them
    with pytest.raises(NonFiniteLoss, match=r"held-out loss is (nan|inf) after step 6: .*step-00000004 is the last"):
        trainer.train()
    assert checkpoint.load(trainer.folder).step == 4


def test_nonfinite_parameters_are_not_saved(begin):
    trainer = begin(optimizer="sgd", weight_decay=0.0, clip=0.0, checkpoint_every=1, steps=6)
    change_the_rate(trainer, 3, math.inf)
    with pytest.raises(
        NonFiniteLoss, match=r"step 4 gave a loss of \d.*not finite is the parameter \w+ after its update"
    ):
        trainer.train()
    assert checkpoint.load(trainer.folder).step == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("E", "the output of blocks.0.enter"),
        ("blocks.1.F", "the output of blocks.1"),
        ("O", "the logits"),
    ],
)
def test_first_nonfinite_tensor_is_named(begin, name, expected):
    trainer = begin()
    x, y = (tensor(a) for a in trainer.batches.next())
    assert first_nonfinite(trainer.model, x, y) is None
    parameters = dict(trainer.model.named_parameters())
    parameters[name].data.fill_(3e38)  # finite, but a sum of two of them is not
    result = first_nonfinite(trainer.model, x, y)
    assert result.startswith(expected + " ("), result
    assert "arose" in result


def test_overflowing_gradient_is_named(begin):
    trainer = begin()
    x, y = (tensor(a) for a in trainer.batches.next())
    model = trainer.model
    model.blocks[1].V.data.fill_(0.0)  # A = 0 whatever W is: the forward pass is fine,
    model.blocks[1].W.data.fill_(1e38)  # but what flows back through W is not
    model.O.data.mul_(1e3)
    assert math.isfinite(model(x, y)[1].item())
    result = first_nonfinite(model, x, y)
    assert result.startswith("the gradient of blocks.1.V (backward of linear: the first inf arose"), result


# --- Settings


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "steps = 0: a whole number of 1 or more is needed"),
        ({"batch_size": -1}, "batch_size = -1"),
        ({"lr": -0.1}, "lr = -0.1: 0 or more"),
        ({"lr": math.nan}, "lr = nan"),
        ({"warmup": -3}, "warmup = -3"),
        ({"optimizer": "adam"}, "optimizer = 'adam': choose one of adamw, sgd"),
        ({"schedule": "step"}, "schedule = 'step'"),
    ],
)
def test_invalid_settings_are_refused(changes, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        Settings(**changes)


def test_resumed_run_needs_the_same_text(begin, corpus):
    trainer = begin()
    saved = checkpoint.load(trainer.save().parent.parent)
    trainer.task.corpus = Corpus(corpus.tokenizer, corpus.train[::-1], corpus.heldout, 1, 1)
    with pytest.raises(checkpoint.CheckpointError, match="trained on another text"):
        trainer.restore(saved)


# --- Batches in parts


@pytest.mark.parametrize("parts", [2, 3, 7])  # 3 does not divide the batch; 7: each row is a part
def test_batch_in_parts_is_the_step_of_the_whole_batch(begin, parts):
    whole, by_parts = begin("whole", batch_size=7), begin("parts", batch_size=7, accumulate=parts)
    losses = [(a.advance(), b.advance()) for a, b in [(whole, by_parts)] * 3]
    for ours, theirs in losses:
        assert ours == pytest.approx(theirs, rel=1e-6)
    for name, value in weights(whole).items():
        np.testing.assert_allclose(weights(by_parts)[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert by_parts.norm.item() == pytest.approx(whole.norm.item(), rel=1e-5)
    assert by_parts.evaluate() == pytest.approx(whole.evaluate(), rel=1e-5)


def test_missing_part_is_noticed(begin):
    whole, by_parts = begin("whole", batch_size=6), begin("parts", batch_size=6, accumulate=2)
    by_parts._step = whole._wrap(lambda *batch, **total: whole._step(*batch[:2]))  # the first part alone
    assert by_parts.advance() != pytest.approx(begin("again", batch_size=6).advance(), rel=1e-6)


def test_replayed_and_resumed_parts_keep_their_bits(begin):
    changes = {"batch_size": 4, "accumulate": 2, "steps": 8, "model": {"dropout": 0.2}}
    whole = begin("whole", **changes)
    assert whole.train()
    eager = begin("eager", eager=True, **changes)
    assert eager.train()
    assert_same_bits(weights(whole), weights(eager))
    stopped = begin("stopped", **changes | {"checkpoint_every": 3})
    for _ in range(3):
        stopped.advance()
    stopped.save()
    second = begin("stopped", **changes).restore(checkpoint.load(stopped.folder))
    assert second.step == 3 and second.train()
    assert_same_bits(weights(whole), weights(second))


def test_more_parts_than_rows_are_refused():
    with pytest.raises(ValueError, match="accumulate = 5: there are only 4 rows in a batch"):
        Settings(batch_size=4, accumulate=5)
