"""The model of document 003: its equations written out once more with NumPy; eq. (19) from its own parameters."""

import inspect
import math
import re

import numpy as np
import pytest
import sympy

import tinytensor
from models.data.text import IGNORE_INDEX
from models.decoder import CONFIGS, RESIDUALS, Config, Decoder, equations
from models.inference.report import attention_maps, format_table, matches, parameter_table
from tests.models.whole_models import assert_near
from tinytensor import nn, tensor

SMALL = Config(D=6, H=2, F=10, L=2, V=11, C=7)


def tokens(config, B=3, seed=0):
    return np.random.default_rng(seed).integers(0, config.V, (B, config.C))


def exact(config, seed=1):
    """A model in float64 with parameters that are nowhere 0 or 1."""
    tinytensor.manual_seed(seed)
    model = Decoder(config).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


# --- Equations (1) to (16)


def numbers(page):
    """The equations that have a line of a page: the numbers with which its comments begin."""
    return [int(n) for n in re.findall(r"# \((\d+)\)  \S", page)]


def test_every_equation_has_a_line_of_its_own_in_order():
    page = inspect.getsource(equations)
    assert numbers(page) == list(range(1, 17))
    assert numbers(page.replace("# (7)  ", "# ")) == [n for n in range(1, 17) if n != 7]


def by_the_document(model, t):
    """Logits (C, V) of one sequence t (C), index by index."""
    c = model.config
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}

    def norm(Z, name):
        mean = 0 if c.norm == "rms" else Z.mean(1, keepdims=True)
        y = (Z - mean) / np.sqrt(((Z - mean) ** 2).mean(1, keepdims=True) + c.eps)
        return y * w.get(f"{name}.weight", 1) + w.get(f"{name}.bias", 0)

    def activation(x):
        if c.activation == "relu":
            return np.maximum(0, x)
        return x * np.vectorize(lambda v: (1 + math.erf(v / math.sqrt(2))) / 2)(x)

    C, H, K = len(t), c.H, c.D // c.H
    Z = np.array([w["E"][t[i]] for i in range(C)])  # (1)
    if c.positions:
        Z = Z + w["P"][:C]
    if c.residual == "once":
        Z = norm(Z, "blocks.0.enter")
    for layer in range(c.L):
        b = f"blocks.{layer}"
        N = Z if c.residual == "once" else norm(Z, f"{b}.enter")
        Z = N if c.residual == "literal" else Z
        heads = []
        for h in range(H):
            bias = {x: w[f"{b}.{x}"][h * K : (h + 1) * K] if c.attention_bias else 0 for x in "qkv"}
            q = np.einsum("ij,jk->ik", N, w[f"{b}.Q"][h]) + bias["q"]
            k = np.einsum("ij,jk->ik", N, w[f"{b}.K"][h]) + bias["k"]
            v = np.einsum("ij,jk->ik", N, w[f"{b}.V"][h]) + bias["v"]
            Y = np.zeros((C, K))
            for i in range(C):
                seen = range(i + 1) if c.causal else range(C)  # (4), (5)
                S = np.array([q[i] @ k[m] / math.sqrt(K) for m in seen])  # (3)
                p = np.exp(S - S.max()) / np.exp(S - S.max()).sum()
                Y[i] = sum(p[m] * v[m] for m in seen)  # (6)
            heads.append(Y)
        A = np.concatenate(heads, 1) @ w[f"{b}.W"] + (w[f"{b}.w"] if c.attention_bias else 0)  # (7), (8)
        Z = Z + A  # (9)
        X = activation(norm(Z, f"{b}.middle") @ w[f"{b}.F"] + w.get(f"{b}.b", 0))
        Z = Z + X @ w[f"{b}.G"] + w.get(f"{b}.c", 0)  # (10)
    Z = norm(Z, "final") if c.final_norm else Z
    return Z @ (w["E"].T if c.tied else w["O"])  # (11)


LAYOUTS = {
    "literal": SMALL,
    "once": SMALL.replace(residual="once"),
    "pre-norm": SMALL.replace(residual="pre-norm"),
    "not causal": SMALL.replace(causal=False),
    "no positions": SMALL.replace(positions=False),
    "nanoGPT": SMALL.replace(
        residual="pre-norm", norm="scale", final_norm=True, activation="gelu", tied=True, bias=False
    ),
    "GPT-2": SMALL.replace(
        residual="pre-norm", norm="affine", final_norm=True, activation="gelu", tied=True, attention_bias=True
    ),
    "rms": SMALL.replace(residual="once", norm="rms", bias=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logits_are_those_of_the_equations(layout):
    model = exact(LAYOUTS[layout])
    t = tokens(SMALL)
    logits, loss = model(tensor(t))
    assert loss is None
    expected = np.array([by_the_document(model, row) for row in t])
    assert_near(logits.detach().numpy(), expected)


def test_sequence_shorter_than_the_context():
    model = exact(SMALL)
    t = tokens(SMALL)[:1, :3]
    assert_near(model(tensor(t))[0].detach().numpy()[0], by_the_document(model, t[0]))


def test_the_loss_is_the_mean_over_counted_positions():
    model = exact(SMALL)
    t, targets = tokens(SMALL), tokens(SMALL, seed=5)
    targets[0, 2:] = IGNORE_INDEX
    targets[2] = IGNORE_INDEX
    _, loss = model(tensor(t), tensor(targets))
    losses = []
    for row, target in zip(t, targets, strict=True):
        for logits, j in zip(by_the_document(model, row), target, strict=True):
            if j != IGNORE_INDEX:
                losses.append(-math.log(np.exp(logits[j]) / np.exp(logits).sum()))  # (12)
    assert len(losses) == 2 + 7
    assert_near(loss.item(), np.mean(losses))  # (16)


def test_readings_of_the_residual_differ():
    t = tensor(tokens(SMALL))
    results = []
    for reading in RESIDUALS:
        model = exact(SMALL.replace(residual=reading))
        results.append(model(t)[0].detach().numpy())
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(results) for b in results[:i])


def test_literal_and_once_agree_for_one_layer():
    t = tensor(tokens(SMALL))
    one = [exact(SMALL.replace(L=1, residual=reading))(t)[0].detach().numpy() for reading in ("literal", "once")]
    np.testing.assert_array_equal(*one)


def test_later_tokens_change_no_earlier_row():
    tinytensor.manual_seed(0)
    t = tokens(CONFIGS["toth-tiny"], B=2)
    changed = t.copy()
    changed[:, 40:] = (changed[:, 40:] + 1) % 300
    model = Decoder(CONFIGS["toth-tiny"])
    a, b = (model(tensor(x))[0].detach().numpy() for x in (t, changed))
    np.testing.assert_array_equal(a[:, :40], b[:, :40])  # bit for bit
    assert (a[:, 40:] != b[:, 40:]).any(-1).all()
    free = Decoder(CONFIGS["toth-tiny"].replace(causal=False))
    a, b = (free(tensor(x))[0].detach().numpy() for x in (t, changed))
    assert (a[:, :40] != b[:, :40]).any(-1).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", ["literal", "GPT-2"])
def test_gradients_match_finite_differences(layout):
    model = exact(LAYOUTS[layout])
    t, targets = tensor(tokens(SMALL)), tensor(tokens(SMALL, seed=5))
    model(t, targets)[1].backward()
    rng = np.random.default_rng(0)
    for name, p in model.named_parameters():
        values = p.detach().numpy().reshape(-1)
        for i in rng.integers(0, values.size, 3):
            before, losses = values[i], []
            for h in (1e-5, -1e-5):
                values[i] = before + h
                losses.append(model(t, targets)[1].item())
            values[i] = before
            slope = (losses[0] - losses[1]) / 2e-5
            assert p.grad.numpy().reshape(-1)[i] == pytest.approx(slope, rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("name", ["toth-tiny", "nano", "micro"])
def test_untrained_loss_is_that_of_guessing(name):
    tinytensor.manual_seed(0)
    config = CONFIGS[name]
    t = tokens(config, B=8)
    _, loss = Decoder(config)(tensor(t), tensor(tokens(config, B=8, seed=1)))
    assert math.log(config.V) - 0.05 < loss.item() < math.log(config.V) + 0.8


def test_dropout_acts_in_training_only():
    tinytensor.manual_seed(0)
    model = Decoder(SMALL.replace(dropout=0.5))
    t = tensor(tokens(SMALL))
    assert (model(t)[0].detach().numpy() != model(t)[0].detach().numpy()).any()
    model.eval()
    np.testing.assert_array_equal(model(t)[0].detach().numpy(), model(t)[0].detach().numpy())


def test_weights_of_heads_are_not_copied_in_a_step():
    """They lie as the products read them: however many layers there are, the same copies are made."""

    def copies(L: int) -> int:
        model = Decoder(CONFIGS["toth-tiny"].replace(L=L))
        optimizer = tinytensor.optim.AdamW(model.parameters())
        x = tensor([[0] * 5] * 2)
        with tinytensor.profile() as seen:
            model(x, x)[1].backward()
            optimizer.step()
        return seen.rows["copy"].calls

    assert copies(1) == copies(3)


def test_attention_pictures_show_the_weights_of_eq_6():
    model = exact(SMALL)
    maps = attention_maps(model, list(tokens(SMALL)[0]))
    assert maps.shape == (2, 2, 7, 7)
    np.testing.assert_allclose(maps.sum(-1), 1)
    assert (maps[..., ~np.tri(7, dtype=bool)] == 0).all()
    assert (maps[..., np.tri(7, dtype=bool)] > 0).all()


# --- Eq. (19)


@pytest.mark.parametrize(
    ("name", "count"), [("toth-tiny", 38_848), ("nano", 804_096), ("gpt2", 124_439_808), ("micro", 4_192)]
)
def test_named_configurations_have_their_number_of_parameters(name, count):
    model = Decoder(CONFIGS[name], device="meta")
    assert model.num_parameters() == count
    assert matches(parameter_table(model))


def test_toth_tiny_parameters_term_by_term():
    table = parameter_table(Decoder(CONFIGS["toth-tiny"]))
    assert table == [
        ("P", "C D", 3072, 3072),
        ("E", "V D", 9600, 9600),
        ("Q K V W", "4 D^2 L", 8192, 8192),
        ("F G b", "(2 D + 1) F L", 8320, 8320),
        ("c", "D L", 64, 64),
        ("O", "D V", 9600, 9600),
        ("total", "N", 38848, 38848),
    ]
    assert format_table(table).endswith("38,848   38,848  match: True")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameter_table_counts_every_layout(layout):
    assert matches(parameter_table(Decoder(LAYOUTS[layout])))


def test_parameter_table_finds_wrong_parameters():
    model = Decoder(SMALL)
    model.blocks[1].F = nn.Parameter(tinytensor.zeros(7, 10))
    table = parameter_table(model)
    assert not matches(table)
    assert format_table(table).endswith("match: False")
    model = Decoder(SMALL)
    model.blocks[0].X = nn.Parameter(tinytensor.zeros(3))
    with pytest.raises(AssertionError, match="X"):
        parameter_table(model)


@pytest.mark.parametrize("L", [1, 2, 3])
def test_eq_19_from_the_module_with_symbols_for_sizes(L):
    D, H, F, V, C = sympy.symbols("D H F V C", positive=True, integer=True)
    model = Decoder(Config(D=D, H=H, F=F, L=L, V=V, C=C), device="meta")
    assert model.config.K == D / H
    eq19 = ((4 * D + 1) * D + (2 * D + 1) * F) * L + (C + 2 * V) * D
    assert sympy.expand(model.num_parameters() - eq19) == 0
    assert matches(parameter_table(model))


# --- Errors


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"D": 30}, "D = 30 is not divisible by H = 4"),
        ({"L": 0}, "L = 0: a whole number of 1 or more, at most 1,000, is needed"),
        ({"C": 9.5}, "C = 9.5: a whole number"),
        ({"residual": "post-norm"}, "residual = 'post-norm': choose one of literal, once, pre-norm"),
        ({"norm": "batch"}, "norm = 'batch'"),
        ({"activation": "tanh"}, "activation = 'tanh'"),
        ({"dropout": 1.0}, "dropout = 1.0"),
    ],
)
def test_invalid_configurations_are_refused(changes, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        Config(**changes)


def test_tokens_beyond_the_context_are_refused():
    model = Decoder(SMALL)
    with pytest.raises(ValueError, match="8 tokens, but the context holds C = 7"):
        model(tinytensor.zeros(1, 8, dtype=tinytensor.int64))


@pytest.mark.parametrize("positions", [True, False])
def test_tokens_beyond_the_cache_are_refused(positions):
    model, one = Decoder(SMALL.replace(positions=positions)), tinytensor.zeros(1, 1, dtype=tinytensor.int64)
    cache = model.new_cache()
    with tinytensor.no_grad():
        for _ in range(7):
            model(one, cache=cache)
        with pytest.raises(ValueError, match="9 tokens, but the context holds C = 7"):
            model(tinytensor.zeros(1, 2, dtype=tinytensor.int64), cache=cache)
        with pytest.raises(IndexError, match="index 7 is outside 0 to 6"):
            model(one, cache=cache)


def test_number_of_layers_must_be_an_integer():
    with pytest.raises(TypeError, match="the number of layers must be a number"):
        Decoder(Config(L=sympy.Symbol("L")), device="meta")


def test_a_configuration_survives_json():
    import json

    for config in CONFIGS.values():
        assert Config(**json.loads(json.dumps(config.to_dict()))) == config
