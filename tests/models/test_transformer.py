"""The encoder-decoder: 004 written out once more with NumPy, PyTorch's modules, finite differences, and what must not
change a sentence's result."""

import itertools
import math
import re
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
import sympy
from safetensors.numpy import load_file

import tinytensor as tt
from models.transformer import BEGIN, CONFIGS, PAD, STOP, Config, Sublayer, Transformer, positional_encoding, shift
from tests.models.whole_models import assert_near
from tests.samples import transformer as samples
from tests.tools.packages import missing
from tinytensor import nn, tensor

TABLE = Path(__file__).parents[1] / "samples" / "oracle" / "nn" / "transformer.safetensors"
SMALL = Config(N=2, d_model=6, h=2, d_k=4, d_v=5, d_ff=7, n_vol=11, n_max=12)
NORMS = ("after", "before")
LENGTHS = ((3, 5, 1), (2, 4, 3))
near = partial(assert_near, document="004")


def exact(config, seed=1):
    """A model in float64 with parameters that are nowhere 0 or 1, and gammas about 1."""
    tt.manual_seed(seed)
    model = Transformer(config).double().eval()
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=float(name.endswith("norm.weight")), std=0.5)
    return model


def sentences(config=SMALL, lengths=LENGTHS):
    return (samples.words(what, n, config.n_vol) for what, n in zip(("inputs", "outputs"), lengths, strict=True))


def logits_of(model, inputs, outputs):
    return model(tensor(inputs), tensor(outputs))[0].detach().numpy()


# --- 004, once more


def by_the_document(model, x, y):
    """Z (n_output, n_vol) of 004 for one sentence x (n_input) and its translation y (n_output), without padding."""
    c = model.config
    d_k, _ = c.head_widths()
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}

    def one_hot(tokens):
        return np.array([[float(t == k) for k in range(c.n_vol)] for t in tokens])

    def attend(name, memory=None, masked=False):
        """The sublayer: rows X attend to themselves or to those of the encoder."""

        def multi_head(X):
            Y, heads = X if memory is None else memory, []
            for j in range(c.h):
                beta = [w[f"{name}.beta_{x}"].reshape(c.h, -1)[j] if c.bias else 0 for x in "QKV"]
                q, k, v = (A @ w[f"{name}.W_{x}"][j] + b for A, x, b in zip((X, Y, Y), "QKV", beta, strict=True))
                scores = q @ k.T / math.sqrt(d_k)
                if masked:
                    scores = np.where(np.tri(len(X), dtype=bool), scores, -np.inf)
                p = np.exp(scores - scores.max(1, keepdims=True))
                heads.append(p / p.sum(1, keepdims=True) @ v)
            return np.concatenate(heads, 1) @ w[f"{name}.W_O"] + (w[f"{name}.beta_O"] if c.bias else 0)

        return multi_head

    def layer_norm(name, X):
        X = X - X.mean(1, keepdims=True)
        X = X / np.sqrt((X**2).mean(1, keepdims=True) + c.eps)
        return X * w.get(f"{name}.weight", 1) + w.get(f"{name}.bias", 0)

    def add_and_norm(name, X, f):
        if c.norm == "before":
            return X + f(layer_norm(f"{name}.norm", X))  # 002
        return layer_norm(f"{name}.norm", X + f(X))  # 004

    def ffn(name):
        return lambda X: np.maximum(0, X @ w[f"{name}.W_1"] + w[f"{name}.b_1"]) @ w[f"{name}.W_2"] + w[f"{name}.b_2"]

    def embed(X):
        X = math.sqrt(c.d_model) * X @ w["W_Embedding"]
        return X + np.array(samples.encoding(len(X), c.d_model)) if c.positions else X

    Z = embed(one_hot(x))
    for i in range(c.N):
        stack = f"encoder.{i}"
        Z = add_and_norm(f"{stack}.add_attention", Z, attend(f"{stack}.attention"))
        Z = add_and_norm(f"{stack}.add_ffn", Z, ffn(f"{stack}.ffn"))
    E = layer_norm("encoder_norm", Z) if c.norm == "before" else Z
    Y = one_hot([BEGIN, *y[:-1]])
    if c.begin == "zero":
        Y[0] = 0  # y_0
    Z = embed(Y)
    for i in range(c.N):
        stack = f"decoder.{i}"
        Z = add_and_norm(f"{stack}.add_masked", Z, attend(f"{stack}.masked", masked=True))
        Z = add_and_norm(f"{stack}.add_attention", Z, attend(f"{stack}.attention", E))
        Z = add_and_norm(f"{stack}.add_ffn", Z, ffn(f"{stack}.ffn"))
    Z = layer_norm("decoder_norm", Z) if c.norm == "before" else Z
    return Z @ (w["W_Embedding"].T if c.tied else w["W_S"]) + w["b_S"]


LAYOUTS = {
    "004": SMALL,
    "biases of 000": SMALL.replace(bias=True),
    "not affine": SMALL.replace(affine=False),
    "002": SMALL.replace(norm="before"),
    "002, not affine, biases": SMALL.replace(norm="before", affine=False, bias=True),
    "tied, with a token to begin": SMALL.replace(tied=True, begin="token"),
    "no positions": SMALL.replace(positions=False),
    "d_model / h": SMALL.replace(d_k=None, d_v=None),
    "odd width, one stack": SMALL.replace(d_model=5, N=1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logits_are_those_of_the_equations(layout):
    """Each sentence of a padded batch against the equations for it alone."""
    model, (x, y) = exact(LAYOUTS[layout]), sentences()
    result = logits_of(model, x, y)
    for logits, row, out in zip(result, x, y, strict=True):
        expected = by_the_document(model, row[row != PAD], out[out != PAD])
        near(logits[out != PAD], expected, "logits")


def test_changed_parameter_is_noticed():
    model, (x, y) = exact(SMALL), sentences()
    expected = by_the_document(model, x[1], y[1])
    for name, p in model.named_parameters():
        before, which = p.detach().numpy().copy(), (x[1, 0],) if name == "W_Embedding" else (..., 0)
        p.detach().numpy()[which] += 1e-6
        moved = np.abs(logits_of(model, x[1:2], y[1:2])[0] - expected).max()
        p.detach().numpy()[...] = before
        assert moved > 1e-8, name  # far more than rounding


# --- Embeddings and positions


def test_embedding_is_one_hot_times_the_matrix():
    """sqrt(d_model) X_input W_Embedding, in value and in gradient; one matrix for both languages."""
    model = exact(SMALL.replace(positions=False, begin="token"))
    x, _ = sentences()
    picked = model.embed(tensor(x))
    one_hot = nn.functional.one_hot(tensor(x), SMALL.n_vol).double()
    product = one_hot @ model.W_Embedding * math.sqrt(SMALL.d_model)
    np.testing.assert_array_equal(picked.detach().numpy(), product.detach().numpy())
    cotangent = tensor(samples.draw("cotangent", *picked.shape))
    grads = [tt.autograd.grad((t * cotangent).sum(), model.W_Embedding) for t in (picked, product)]
    near(*(g[0].numpy() for g in grads))


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_the_positional_encoding_by_its_cases(d_model):
    actual = positional_encoding(50, d_model)
    assert actual.shape == (50, d_model) and actual.dtype == np.float64
    np.testing.assert_allclose(actual, samples.encoding(50, d_model), rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(actual[0], [float(j % 2) for j in range(d_model)])  # sin 0, cos 0


def test_a_shift_of_positions_is_a_rotation():
    """Positions and components from 0: each pair (sin, cos) turns by one angle, whatever the position."""
    r = positional_encoding(30, 6)
    for j in (0, 2, 4):
        angle = 7 / 10000 ** (j / 6)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        np.testing.assert_allclose(r[7:, j : j + 2], r[:-7, j : j + 2] @ turn, rtol=1e-12, atol=1e-14)


def test_positions_are_added_from_a_start():
    model, bare = exact(SMALL), exact(SMALL.replace(positions=False))
    x, _ = sentences()
    r = np.array(samples.encoding(12, SMALL.d_model))
    for first in (0, 7):
        added = (model.embed(tensor(x), first) - bare.embed(tensor(x))).detach().numpy()
        np.testing.assert_allclose(added, np.broadcast_to(r[first : first + 5], added.shape), atol=1e-15)


def test_y_0_is_the_zero_vector_or_a_token():
    _, y = sentences()
    shifted = shift(tensor(y))
    np.testing.assert_array_equal(shifted.numpy()[:, 0], BEGIN)
    np.testing.assert_array_equal(shifted.numpy()[:, 1:], y[:, :-1])
    for begin in ("zero", "token"):
        model = exact(SMALL.replace(begin=begin, positions=False))
        first = model.embed(shifted)[:, 0].detach().numpy()
        row = model.W_Embedding.detach().numpy()[BEGIN] * math.sqrt(SMALL.d_model) * (begin == "token")
        np.testing.assert_array_equal(first, np.broadcast_to(row, first.shape))
        model(*map(tensor, sentences()))[1].backward()
        touched = model.W_Embedding.grad.numpy().any(1)
        assert touched[BEGIN] == (begin == "token")
        assert not touched[PAD] and touched[np.unique(y[:, :-1][y[:, :-1] > STOP])].all()


FOOD = ("the food was bad , not good at all", "the food was good , not bad at all")  # 000


@pytest.mark.parametrize("norm", NORMS)
def test_encoder_without_positions_ignores_word_order(norm):
    """000: without them the encoder's outputs are permutations of each other, with them they are not."""
    vocabulary = sorted(set(" ".join(FOOD).split()))
    tokens = [[3 + vocabulary.index(word) for word in sentence.split()] for sentence in FOOD]
    where = [tokens[1].index(t) for t in tokens[0]]  # where the words of one stand in the other; no word comes twice
    assert sorted(where) == list(range(9)) and where != list(range(9))
    for positions in (False, True):
        model = exact(SMALL.replace(norm=norm, positions=positions, n_vol=12))
        one, other = model.encode(tensor(tokens))[0].detach().numpy()
        if positions:
            distances = np.abs(one[:, None] - other[None]).max(-1)
            assert distances.min() > 1e-3  # no row of one is a row of the other
        else:
            near(one, other[where])


# --- PyTorch's modules


def with_weights(changes):
    """Our model of a case, with its weights."""
    c = samples.settings(changes)
    names = Config.__dataclass_fields__.keys() & c.keys()
    model = Transformer(Config(**{name: c[name] for name in names})).double()
    state = {name: tensor(w) for name, w in samples.weights(c).items()}
    model.load_state_dict(state)
    return model


def results(changes, lengths):
    """What samples.in_pytorch gives, from our model."""
    c, model = samples.settings(changes), with_weights(changes)
    logits, loss = model(*(tensor(t) for t in sentences(model.config, lengths)))
    loss.backward()
    result = {"logits": logits, "loss": loss} | {f"{name}.grad": p.grad for name, p in model.named_parameters()}
    if c["bare"]:
        result = {name: t for name, t in result.items() if not name.removesuffix(".grad").endswith(samples.BARE)}
    return {name: t.detach().numpy() for name, t in result.items()}


def compare(result, expected, lengths, n_vol=SMALL.n_vol, N=SMALL.N):
    """All arrays, as near as rounding allows; the logits of words after PAD, where masks differ, are not read.

    What rounding allows was measured with two stacks; each one more adds as much as one of these.
    """
    assert result.keys() == expected.keys()
    _, outputs = sentences(SMALL.replace(n_vol=n_vol), lengths)
    read = shift(tensor(outputs)).numpy() != PAD
    largest = N / SMALL.N * max(np.abs(b).max() for name, b in expected.items() if name.endswith(".grad"))
    for name, a in result.items():
        b = expected[name]
        assert a.shape == b.shape and a.dtype == b.dtype, name
        a, b = (a[read], b[read]) if name == "logits" else (a, b)
        near(a, b, name, largest=largest if name.endswith(".grad") else None)


@pytest.fixture(scope="module")
def stored():
    """case -> name -> array"""
    result = {}
    for name, array in load_file(TABLE).items():
        case, name = name.split("|")
        result.setdefault(case, {})[name] = array
    return result


def test_every_case_has_stored_results(stored):
    assert stored.keys() == samples.CASES.keys()
    for case, arrays in stored.items():
        for name, array in arrays.items():  # nothing is so small that the tolerance would hide it
            if name.endswith("beta_K.grad"):  # but this: what is the same for all keys does not change a softmax
                assert np.abs(array).max() < 1e-14
            else:
                assert np.abs(array).max() > 5e-5, (case, name)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", samples.CASES)
def test_parameters_have_the_names_and_shapes_of_the_case(case):
    c = samples.settings(samples.CASES[case][0])
    assert {name: p.shape for name, p in with_weights(c).named_parameters()} == samples.shapes(c)


@pytest.mark.parametrize("case", samples.CASES)
def test_model_matches_stored_pytorch_results(case, stored):
    changes, lengths = samples.CASES[case]
    compare(results(changes, lengths), stored[case], lengths, samples.SIZES["n_vol"])


@pytest.fixture(scope="module")
def torch():
    result = pytest.importorskip("torch", reason=missing("torch"))
    result.set_num_threads(1)
    return result


@pytest.mark.parametrize("case", samples.CASES)
def test_model_matches_installed_pytorch(case, torch):
    changes, lengths = samples.CASES[case]
    compare(results(changes, lengths), samples.in_pytorch(torch, changes, lengths), lengths, samples.SIZES["n_vol"])


@pytest.mark.parametrize("changes", [{"norm": norm, "bias": bias} for norm in NORMS for bias in (False, True)])
def test_larger_model_matches_installed_pytorch(changes, torch):
    changes = changes | {"d_model": 24, "h": 3, "N": 3, "d_ff": 40, "n_vol": 50, "n_max": 20}
    lengths = ((17, 1, 9, 12), (3, 18, 7, 1))
    compare(results(changes, lengths), samples.in_pytorch(torch, changes, lengths), lengths, 50, changes["N"])


@pytest.mark.parametrize("name", ["logits", "loss", "W_Embedding.grad", "decoder.1.attention.W_K.grad"])
def test_a_difference_in_the_ninth_digit_is_noticed(name, stored):
    case = "before, bias True, both padded"
    lengths = samples.CASES[case][1]
    result = {key: a.copy() for key, a in stored[case].items()}
    compare(result, stored[case], lengths, samples.SIZES["n_vol"])
    at = (0, 0) if name == "logits" else (4 if result[name].ndim == 2 else ...)
    result[name][at] = result[name][at] * (1 + 1e-8) + 1e-9
    with pytest.raises(AssertionError, match=name):
        compare(result, stored[case], lengths, samples.SIZES["n_vol"])
    del result[name]
    with pytest.raises(AssertionError):
        compare(result, stored[case], lengths, samples.SIZES["n_vol"])


# --- Finite differences

TINY = Config(N=1, d_model=3, h=2, d_k=1, d_v=2, d_ff=3, n_vol=5, n_max=5, bias=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("changes", [{}, {"norm": "before", "tied": True, "begin": "token"}])
def test_gradients_match_finite_differences(changes):
    """Every entry of every parameter, by central differences, with padding on both sides."""
    model, (x, y) = exact(TINY.replace(**changes)), sentences(TINY, ((3, 2), (2, 3)))
    x, y = tensor(x), tensor(y)
    assert tt.gradcheck(lambda *_: model(x, y)[1], list(model.parameters()), atol=1e-7, rtol=1e-6)


def test_lost_gradient_is_noticed():
    model, (x, y) = exact(TINY), sentences(TINY, ((3, 2), (2, 3)))
    x, y = tensor(x), tensor(y)

    def without_the_way_through_the_encoder(*_):
        encoded, mask = model.encode(x)
        return model.loss(model.decode(shift(y), encoded.detach(), mask), y, "sum")

    with pytest.raises(RuntimeError, match="by finite differences"):
        tt.gradcheck(without_the_way_through_the_encoder, [model.W_Embedding], atol=1e-7, rtol=1e-6)


# --- What must not change a sentence's result


@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_no_bit(norm):
    """What padded places hold changes no bit of a logit that is read, nor of the loss, nor of a gradient.

    The row of PAD stands for any word that might be there: it is changed, and the masks stay. (NaN cannot be hidden:
    the weight 0 times NaN is NaN, here as in PyTorch.)
    """
    model, (x, y) = exact(SMALL.replace(norm=norm)), map(tensor, sentences())
    result = []
    for value in (0.3, -7, 1e30):
        model.W_Embedding.detach().numpy()[PAD] = value
        model.zero_grad()
        logits, loss = model(x, y)
        loss.backward()
        result.append([logits.detach().numpy()[y.numpy() != PAD], loss.item()])
        result[-1] += [p.grad.numpy().copy() for p in model.parameters()]
    for other in result[1:]:
        for a, b in zip(result[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    changed = x.numpy().copy()
    changed[0, 2] = 3 + changed[0, 2] % 8  # a word that is no padding: that must be seen
    other = logits_of(model, changed, y.numpy())
    assert (other[0, :2] != logits.detach().numpy()[0, :2]).all()


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("norm", NORMS)
def test_batch_and_padding_change_no_bit_of_a_sentence(norm, dtype):
    """Alone, among others, and with more PAD behind it."""
    model = getattr(exact(SMALL.replace(norm=norm, bias=True, n_max=30)), dtype)()
    x, y = sentences(lengths=((3, 5, 1, 4), (2, 4, 3, 1)))
    wide = [np.pad(t, ((0, 0), (0, more))) for t, more in ((x, 25), (y, 17))]
    together, wider = logits_of(model, x, y), logits_of(model, *wide)
    many = logits_of(model, *(t.repeat(9, 0) for t in (x, y)))
    encoded, encoded_wide = (model.encode(tensor(t))[0].detach().numpy() for t in (x, wide[0]))
    for i in range(len(x)):
        n, m = (x[i] != PAD).sum(), (y[i] != PAD).sum()
        alone = logits_of(model, x[i : i + 1, :n], y[i : i + 1, :m])[0]
        for other in (together[i], wider[i], many[9 * i], many[9 * i + 8]):
            np.testing.assert_array_equal(other[:m], alone)
        np.testing.assert_array_equal(encoded[i, :n], encoded_wide[i, :n])


@pytest.mark.slow
def test_thread_count_changes_no_bit():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one processor")
    tt.manual_seed(0)
    model = Transformer(CONFIGS["translate"]).eval()
    x, y = sentences(model.config, (tuple(range(1, 33)), tuple(range(32, 0, -1))))
    before, result = tt.get_num_threads(), []
    try:
        for threads in (1, 2):
            tt.set_num_threads(threads)
            result.append(logits_of(model, x, y))
    finally:
        tt.set_num_threads(before)
    np.testing.assert_array_equal(*result)


# --- Inference


@pytest.mark.parametrize("norm", NORMS)
def test_added_word_changes_no_earlier_prediction(norm):
    """With the causal mask not a bit; without it, as in 004's inference, every one."""
    model, (x, y) = exact(SMALL.replace(norm=norm)), sentences(lengths=((5, 3), (5, 5)))
    encoded = model.encode(tensor(x))
    shifted = shift(tensor(y))
    for is_causal in (True, False):
        a = model.decode(shifted[:, :4], *encoded, is_causal=is_causal).detach().numpy()
        b = model.decode(shifted, *encoded, is_causal=is_causal).detach().numpy()
        same = a == b[:, :4]
        assert same.all() if is_causal else not same.any()


@pytest.mark.parametrize("N", [1, 2])
def test_without_mask_two_stacks_change_the_newest_prediction(N):
    """With one stack the last row sees the same words either way; with two it sees rows that saw what follows them."""
    model, (x, y) = exact(SMALL.replace(N=N)), sentences(lengths=((5, 3), (5, 5)))
    encoded, shifted = model.encode(tensor(x)), shift(tensor(y))
    a, b = (model.decode(shifted, *encoded, is_causal=c).detach().numpy() for c in (True, False))
    distance = np.abs(a - b).max(-1)
    assert (distance[:, :-1] > 1e-3).all()
    if N == 1:
        near(a[:, -1], b[:, -1])
    else:
        assert (distance[:, -1] > 1e-3).all()


@pytest.mark.parametrize(("norm", "bias", "begin"), list(itertools.product(NORMS, [False, True], ["zero", "token"])))
def test_cache_changes_no_bit(norm, bias, begin):
    model = exact(SMALL.replace(norm=norm, bias=bias, begin=begin))
    x, y = sentences(lengths=((5, 3, 1), (6, 6, 6)))
    encoded, shifted = model.encode(tensor(x)), shift(tensor(y))
    whole = model.decode(shifted, *encoded).detach().numpy()
    cache = model.new_cache()
    steps = [model.decode(shifted[:, i : i + 1], *encoded, cache=cache).detach().numpy() for i in range(6)]
    np.testing.assert_array_equal(np.concatenate(steps, 1), whole)
    assert [[K.shape[2] for K, _ in stack] for stack in cache] == [[6, 5], [6, 5]]
    cache = model.new_cache()  # several at once to begin with
    steps = [model.decode(t, *encoded, cache=cache).detach().numpy() for t in (shifted[:, :4], shifted[:, 4:5])]
    np.testing.assert_array_equal(np.concatenate(steps, 1), whole[:, :5])


def test_the_encoder_is_read_once():
    """With a cache, keys and values of the input are those of the first step."""
    model, (x, y) = exact(SMALL), sentences()
    (encoded, mask), shifted, cache = model.encode(tensor(x)), shift(tensor(y)), model.new_cache()
    model.decode(shifted[:, :1], encoded, mask, cache)
    first = [stack[1][0] for stack in cache]
    model.decode(shifted[:, 1:2], encoded, mask, cache)
    assert all(stack[1][0] is K for stack, K in zip(cache, first, strict=True))


# --- The stream of 002


def read_stream(model, x, y):
    """[(name, what goes into a sublayer, what comes out)], in order, and what is normalised at the end of each half."""
    read, hooks = [], []
    for name, module in model.named_modules():
        if isinstance(module, Sublayer) or name in ("encoder_norm", "decoder_norm"):
            hooks.append(
                module.register_forward_hook(lambda _, args, out, name=name: read.append((name, args[0], out)))
            )
    model(tensor(x), tensor(y))
    for hook in hooks:
        hook.remove()
    return read


@pytest.mark.parametrize("half", ["encoder", "decoder"])
def test_sublayers_write_into_the_stream(half):
    """002: X' plus all that the sublayers wrote is the stream at its end; it can be read between any two of them."""
    model, (x, y) = exact(SMALL.replace(norm="before")), sentences()
    read = [entry for entry in read_stream(model, x, y) if entry[0].startswith(half)]
    *sublayers, (last, stream, normalised) = read
    categories = ("attention", "ffn") if half == "encoder" else ("masked", "attention", "ffn")
    assert [name for name, *_ in sublayers] == [
        f"{half}.{i}.add_{category}" for i in range(2) for category in categories
    ]
    assert last == f"{half}_norm"
    total = model.embed(tensor(x) if half == "encoder" else shift(tensor(y))).detach().numpy()
    np.testing.assert_array_equal(sublayers[0][1].detach().numpy(), total)  # X'
    for (_, _, left), (_, entered, _) in itertools.pairwise(read):
        assert left is entered
    for _, entered, left in sublayers:
        total = total + (left - entered).detach().numpy()
    near(stream.detach().numpy(), total)
    # and what the first of them wrote is f(LayerNorm(X'))
    stack, (_, entered, left) = getattr(model, half)[0], sublayers[0]
    if half == "encoder":
        mask = (tensor(x) != PAD)[:, None, None, :]
        wrote = stack.attention(stack.add_attention.norm(entered), mask=mask)
        np.testing.assert_array_equal(normalised.detach().numpy(), model.encode(tensor(x))[0].detach().numpy())
    else:
        wrote = stack.masked(stack.add_masked.norm(entered), is_causal=True)
    near((left - entered).detach().numpy(), wrote.detach().numpy())


def test_norm_after_the_sum_normalises_every_row():
    model, (x, y) = exact(SMALL.replace(affine=False)), sentences()
    read = read_stream(model, x, y)
    assert len(read) == 2 * (2 + 3)
    for _, _, left in read:
        np.testing.assert_allclose(left.detach().numpy().mean(-1), 0, atol=1e-14)
        np.testing.assert_allclose(left.detach().numpy().var(-1), 1, rtol=1e-3)


# --- Loss and training


def by_hand(logits, y, smoothing=0.0):
    """Of each counted word: -sum_j q_j ln p_j, with q = (1 - smoothing) one-hot + smoothing / n_vol."""
    losses = []
    for row, word in zip(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), strict=True):
        if word != PAD:
            p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
            q = np.full(len(p), smoothing / len(p))
            q[word] += 1 - smoothing
            losses.append(-(q * np.log(p)).sum())
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_or_mean_over_words(smoothing):
    x, y = sentences()
    for reduction, total in (("sum", math.fsum), ("mean", np.mean)):
        model = exact(SMALL.replace(reduction=reduction, label_smoothing=smoothing))
        for training in (True, False):
            logits, loss = model.train(training)(tensor(x), tensor(y))
            losses = by_hand(logits.detach().numpy(), y, smoothing if training else 0.0)  # smoothed in training only
            assert len(losses) == 2 + 4 + 3
            near(loss.item(), total(losses), "loss")


def test_more_padding_changes_no_loss():
    x, y = sentences()
    for reduction in ("sum", "mean"):
        model = exact(SMALL.replace(reduction=reduction))
        a = model(tensor(x), tensor(y))[1].item()
        b = model(tensor(np.pad(x, ((0, 0), (0, 3)))), tensor(np.pad(y, ((0, 0), (0, 2)))))[1].item()
        near(a, b, "loss")


def test_a_sentence_of_padding_alone_gives_finite_logits():
    """No key is left to attend to: the cross-attention gives 0."""
    model, (x, y) = exact(SMALL), sentences()
    blank = x.copy()
    blank[0] = PAD
    actual, expected = logits_of(model, blank, y), logits_of(model, x, y)
    assert np.isfinite(actual).all()
    np.testing.assert_array_equal(actual[1:], expected[1:])


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_acts_in_training_only(norm):
    (x, y), model, without = sentences(), exact(SMALL.replace(dropout=0.5, norm=norm)), exact(SMALL.replace(norm=norm))
    np.testing.assert_array_equal(logits_of(model, x, y), logits_of(without, x, y))
    model.train()
    assert (logits_of(model, x, y) != logits_of(model, x, y)).all()


def test_dropout_acts_on_embeddings_and_sublayers():
    """Components of the embeddings, and of what each sublayer adds; those that stay are doubled if p = 0.5."""
    model, without = (exact(SMALL.replace(dropout=p)).train() for p in (0.5, 0.0))
    x, _ = sentences()
    kept, whole = (m.embed(tensor(x)).detach().numpy() for m in (model, without))
    assert 0.2 < (kept == 0).mean() < 0.8
    np.testing.assert_allclose(kept[kept != 0], 2 * whole[kept != 0], rtol=1e-14)
    X = tensor(np.zeros((1, 50, 6)))
    for norm in NORMS:
        sublayer = Sublayer(SMALL.replace(dropout=0.5, norm=norm, affine=False)).double()
        added = sublayer(X, lambda X: X * 0 + 1).numpy()  # each component 0 or 2, and then, if so, LayerNorm
        if norm == "before":
            assert set(added.ravel()) == {0.0, 2.0}
        else:
            assert (np.abs(added).max(-1) > 0.1).sum() > 30  # nearly all rows; without dropout all would be 0
        Y = tensor(samples.draw("Y", 1, 50, 6))
        passed = sublayer(Y, lambda Y: Y * 0).numpy()  # what is there already is not dropped
        np.testing.assert_array_equal(sublayer.eval()(X, lambda X: X * 0 + 1).numpy(), float(norm == "before"))
        np.testing.assert_array_equal(sublayer(Y, lambda Y: Y * 0).numpy(), passed)


def test_float32_is_float64_with_fewer_digits():
    model, (x, y) = exact(SMALL), sentences()
    expected = logits_of(model, x, y)
    result = logits_of(model.float(), x, y)
    assert result.dtype == np.float32
    near(result, expected)


@pytest.mark.parametrize("norm", NORMS)
def test_untrained_loss_is_that_of_guessing(norm):
    tt.manual_seed(0)
    config = CONFIGS["translate"].replace(norm=norm)
    x, y = sentences(config, ((9, 7, 8, 9), (8, 9, 9, 6)))
    loss = Transformer(config)(tensor(x), tensor(y))[1].item()
    assert abs(loss - math.log(config.n_vol)) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_model_memorises_a_few_sentences(norm):
    tt.manual_seed(0)
    model = Transformer(SMALL.replace(norm=norm, d_model=16, d_k=None, d_v=None, d_ff=32, reduction="mean"))
    x, y = map(tensor, sentences())
    optimizer = tt.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        model(x, y)[1].backward()
        optimizer.step()
    words = model.eval()(x, y)[0].detach().numpy().argmax(-1)
    assert (words == y.numpy())[y.numpy() != PAD].all()


# --- Counting parameters


def parameters(N, d_model, h, d_k, d_v, d_ff, n_vol, norm="after", affine=True, bias=False, tied=False):
    """How many numbers a model has, part by part."""
    attention = h * d_model * (2 * d_k + d_v) + h * d_v * d_model
    if bias:
        attention += h * (2 * d_k + d_v) + d_model
    ffn = d_model * d_ff + d_ff + d_ff * d_model + d_model
    layer_norm = 2 * d_model if affine else 0
    encoder = attention + ffn + 2 * layer_norm
    decoder = 2 * attention + ffn + 3 * layer_norm
    ends = 2 * layer_norm if norm == "before" else 0
    return n_vol * d_model + N * (encoder + decoder) + ends + (0 if tied else d_model * n_vol) + n_vol


SWITCHES = list(itertools.product(NORMS, [True, False], [True, False], [True, False]))


@pytest.mark.parametrize(("norm", "affine", "bias", "tied"), SWITCHES)
def test_number_of_parameters(norm, affine, bias, tied):
    switches = {"norm": norm, "affine": affine, "bias": bias, "tied": tied}
    for N, d_model, h, d_k, d_v, d_ff, n_vol in ((1, 4, 2, 2, 2, 3, 5), (2, 6, 3, 4, 5, 7, 11), (3, 5, 1, 1, 9, 2, 4)):
        sizes = {"N": N, "d_model": d_model, "h": h, "d_k": d_k, "d_v": d_v, "d_ff": d_ff, "n_vol": n_vol}
        model = Transformer(Config(**sizes, **switches))
        assert model.num_parameters() == parameters(**sizes, **switches) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("switches", SWITCHES[::5])
def test_number_of_parameters_with_symbolic_sizes(switches):
    switches = dict(zip(("norm", "affine", "bias", "tied"), switches, strict=True))
    names = ("d_model", "h", "d_k", "d_v", "d_ff", "n_vol")
    sizes = dict(zip(names, sympy.symbols(names, positive=True, integer=True), strict=True))
    for N in (1, 3):
        model = Transformer(Config(N=N, **sizes, **switches), device="meta")
        assert sympy.expand(model.num_parameters() - parameters(N, **sizes, **switches)) == 0
    del sizes["d_k"], sizes["d_v"]  # d_model / h each: h is gone from the count of weights
    model = Transformer(Config(N=1, **sizes, **switches), device="meta")
    width = sizes["d_model"] / sizes["h"]
    expected = parameters(1, d_k=width, d_v=width, **sizes, **switches)
    assert sympy.expand(model.num_parameters() - expected) == 0
    assert sizes["h"] not in sympy.expand(model.num_parameters()).free_symbols


def test_the_base_configuration():
    """The sizes of "Attention is all you need", table 3: counted by hand."""
    config = CONFIGS["base"]
    assert (config.N, config.d_model, config.d_ff, config.h, config.head_widths()) == (6, 512, 2048, 8, (64, 64))
    attention, ffn, norm = 1_048_576, 2_099_712, 1_024  # 4 * 512^2; 2 * 512 * 2048 + 2048 + 512; 2 * 512
    stacks = 6 * (attention + ffn + 2 * norm + 2 * attention + ffn + 3 * norm)
    assert stacks == 44_101_632
    model = Transformer(config, device="meta")
    assert model.num_parameters() == stacks + 37_000 * 512 + 37_000 == 63_082_632


def test_tied_weights_are_one_matrix():
    tied, free = Transformer(SMALL.replace(tied=True)), Transformer(SMALL)
    assert tied.W_S is None and free.W_S.shape == (SMALL.d_model, SMALL.n_vol)
    assert free.num_parameters() - tied.num_parameters() == SMALL.d_model * SMALL.n_vol


def test_a_configuration_survives_json():
    import json

    for config in CONFIGS.values():
        assert Config(**json.loads(json.dumps(config.to_dict()))) == config


# --- Errors


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 30}, "d_model = 30 is not divisible by h = 4, .*choose other sizes, or give both d_k and d_v"),
        ({"d_model": 30, "d_v": 2}, "d_model = 30 is not divisible by h = 4"),
        ({"N": 0}, "N = 0: .*whole number.* of 1 or more"),
        ({"d_ff": 9.5}, "d_ff = 9.5: .*whole number.* of 1 or more"),
        ({"n_vol": 3}, "n_vol = 3: .*whole number.* of 4 or more"),
        ({"d_k": 0}, "d_k = 0: .*whole number.* of 1 or more"),
        ({"norm": "between"}, "norm = 'between': choose one of after, before"),
        ({"begin": "one"}, "begin = 'one': choose one of zero, token"),
        ({"reduction": "none"}, "reduction = 'none': choose one of sum, mean"),
        ({"dropout": 1.0}, "dropout = 1.0: .*below 1"),
        ({"label_smoothing": -0.1}, "label_smoothing = -0.1: .*0 or more"),
    ],
)
def test_invalid_configurations_are_refused(changes, sentence):
    with pytest.raises(ValueError, match="^" + sentence):
        Config(**changes)


def test_head_widths_need_not_divide_d_model():
    assert Config(d_model=30, d_k=7, d_v=3).head_widths() == (7, 3)
    assert Config(d_model=32).head_widths() == (8, 8)


def ids(*shape, value=3):
    return tt.full(shape, value, dtype=tt.int64)


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "sentence"),
    [
        (ids(2, 3), ids(2, 4, 1), ValueError, r"inputs \(2, 3\).* outputs \(2, 4, 1\): expected \(B, n_input\)"),
        (ids(3), ids(3), ValueError, r"inputs \(3,\).* outputs \(3,\): expected"),
        (ids(2, 3), ids(3, 3), ValueError, r"inputs \(2, 3\).* outputs \(3, 3\): expected"),
        (ids(2, 13), ids(2, 3), ValueError, "a sentence of 13 words, but the model takes n_max = 12"),
        (ids(2, 3), ids(2, 13), ValueError, "a sentence of 13 words, but the model takes n_max = 12"),
        (ids(2, 3, value=11), ids(2, 3), IndexError, "embedding: index 11 is outside 0 to 10"),
        (ids(2, 3), ids(2, 3, value=-1), IndexError, "embedding: index -1 is outside 0 to 10"),
        (ids(2, 3), ids(2, 1, value=11), IndexError, "cross_entropy: target 11 is outside 0 to 10"),
        (tt.ones(2, 3), ids(2, 3), RuntimeError, "embedding: expected an integer tensor of indices, got float32"),
        (ids(2, 3), tt.ones(2, 3), RuntimeError, "embedding: expected an integer tensor of indices, got float32"),
    ],
)
def test_wrong_inputs_are_refused(inputs, outputs, error, sentence):
    with pytest.raises(error, match=sentence):
        Transformer(SMALL)(inputs, outputs)


def test_decode_refuses_wrong_arguments():
    model = Transformer(SMALL)
    encoded, mask = model.encode(ids(2, 3))
    with pytest.raises(
        ValueError, match=r"a mask of shape \(2, 1, 1, 2\).*\(batch, heads, rows, keys\) = \(2, 2, 4, 3\)"
    ):
        model.decode(ids(2, 4), encoded, mask[..., :2])
    with pytest.raises(ValueError, match="dtype float32; expected bool"):
        model.decode(ids(2, 4), encoded, mask.float())
    cache = model.new_cache()
    model.decode(ids(2, 11), encoded, mask, cache)
    with pytest.raises(ValueError, match="with 11 words in the cache the others come one at a time, not 2"):
        model.decode(ids(2, 2), encoded, mask, cache)
    model.decode(ids(2, 1), encoded, mask, cache)
    with pytest.raises(ValueError, match="a sentence of 13 words, but the model takes n_max = 12"):
        model.decode(ids(2, 1), encoded, mask, cache)


@pytest.mark.parametrize("tokens", [ids(3), ids(2, 3, 1)])
def test_tokens_of_wrong_shape_or_dtype_are_refused(tokens):
    model = Transformer(SMALL)
    sentence = re.escape(f"tokens of shape {tokens.shape}; expected (B, n)")
    with pytest.raises(ValueError, match=sentence):
        model.encode(tokens)
    with pytest.raises(ValueError, match=sentence):
        model.decode(tokens, *model.encode(ids(2, 3)))


def test_number_of_stacks_must_be_an_integer():
    with pytest.raises(TypeError, match="N = N: the number of stacks must be a number"):
        Transformer(Config(N=sympy.Symbol("N")), device="meta")
