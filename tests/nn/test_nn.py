"""Modules: PyTorch's names, order, shapes, values and gradients; and what a tree of modules does."""

import contextlib
import copy
import json
import math
import pickle
import re
import weakref
from pathlib import Path

import numpy as np
import pytest
import sympy
from safetensors import safe_open

import tinytensor as tt
from tests.samples import nn as samples
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.nn.utils import rnn

VALUES = Path(__file__).parents[1] / "samples" / "oracle" / "nn" / "values.safetensors"


@pytest.fixture(scope="module")
def stored():
    with safe_open(VALUES, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


@pytest.fixture(scope="module")
def facts():
    with safe_open(VALUES, "np") as file:
        return json.loads(file.metadata()["facts"])


def compare(result, stored, key, rtol=1e-12, atol=1e-13):
    """Every array that PyTorch has under `key`, and no other."""
    assert result.keys() == {name for name in stored if name.startswith(f"{key}|")}
    for name, array in result.items():
        assert array.shape == stored[name].shape, name
        np.testing.assert_allclose(array, stored[name], rtol=rtol, atol=atol, err_msg=name)


# --- PyTorch's results


@pytest.mark.parametrize("key", samples.MODULES)
def test_names_order_and_shapes(key, facts):
    assert samples.names(tt, key) == facts["modules"][key]


def test_names_in_another_order_are_noticed(facts):
    expected = facts["modules"]["attention with kdim"]
    result = samples.names(tt, "attention with kdim")
    result["state"].insert(0, result["state"].pop())
    assert result != expected


@pytest.mark.parametrize("key", samples.LAYERS)
def test_values_and_gradients(key, stored):
    # sums of some ten float64 products in another order: a few units in the last place
    compare(samples.layer(tt, key), stored, key)


@pytest.mark.parametrize("change", [lambda a: a * (1 + 1e-9) + 1e-11, lambda a: a[..., :-1]])
def test_a_perturbed_value_is_noticed(change, stored):
    result = samples.layer(tt, "attention, both masks")
    name = "attention, both masks|x1.grad"
    result[name] = change(result[name])
    with pytest.raises(AssertionError, match=r"x1\.grad"):
        compare(result, stored, "attention, both masks")


def test_a_missing_gradient_is_noticed(stored):
    result = samples.layer(tt, "linear")
    del result["linear|bias.grad"]
    with pytest.raises(AssertionError):
        compare(result, stored, "linear")


def test_fully_masked_rows_of_attention_are_zero():
    """PyTorch gives NaN here; 0, with gradient 0, is what this project defines."""
    m = samples.fill(tt, nn.MultiheadAttention(4, 2, bias=False, batch_first=True, dtype=tt.float64))
    x = samples.numbers(tt, "x", 2, 3, 4).requires_grad_()
    padding = tt.tensor([[True] * 3, [False] * 3])
    for need_weights in (True, False):
        x.grad = None
        y, weights = m(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        assert not y[0].any() and y[1].all()
        assert (weights is not None) == need_weights
        assert not need_weights or not weights[0].any()
        y.sum().backward()
        assert not x.grad[0].any() and x.grad[1].any()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, x: m(x, x[0], x), "with a batch .3 dimensions. or all without"),
        (lambda m, x: m(x, x, x, attn_mask=tt.zeros(3, 4)), r"attn_mask of shape \(3, 4\), expected \(3, 3\) or"),
        (lambda m, x: m(x, x, x, key_padding_mask=tt.zeros(3)), r"key_padding_mask of shape \(3,\), expected \(2, 3\)"),
    ],
)
def test_attention_refuses(call, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        call(nn.MultiheadAttention(4, 2, batch_first=True), tt.zeros(2, 3, 4))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: nn.MultiheadAttention(5, 2), "embed_dim 5 is not a multiple of num_heads 2"),
        (lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True), "not offered"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx 3 is outside 3 embeddings"),
        (lambda: nn.Dropout(1.5), "probability must be between 0 and 1"),
        (lambda: nn.GELU(aproximate="tanh"), "unknown arguments"),
        (lambda: nn.Module()(1), r"Module needs a method forward\(\)"),
        (lambda: nn.Linear(3, 2)(tt.zeros(2, 4)), "linear"),
        (lambda: nn.Embedding(3, 2)(tt.tensor([3])), "embedding"),
        (lambda: nn.LayerNorm(3)(tt.zeros(2, 4)), r"does not end in the normalized shape \(3,\)"),
        (lambda: nn.LSTM(3, 4)(([tt.zeros(2, 3)], [2])), "expected a tensor or a PackedSequence, got tuple"),
        (lambda: nn.LSTM(3, 4)(packed(2)), r"packed data of shape \(3, 2\), expected \(sum of the lengths, 3\)"),
        (
            lambda: nn.RNN(3, 4)(packed(3), tt.zeros(1, 3, 4)),
            r"a state of shape \(1, 3, 4\), expected \(1, 2, 4\)",
        ),
        (
            lambda: nn.GRU(3, 4, batch_first=True)(tt.zeros(2, 5, 4)),
            r"GRU: input of shape \(2, 5, 4\), expected \(N, L, 3\)",
        ),
        (lambda: nn.LSTM(3, 4)(tt.zeros(5, 2, 3), tt.zeros(1, 2, 4)), r"the state must be a tuple \(h, c\) of tensors"),
        (
            lambda: nn.RNN(3, 4)(tt.zeros(5, 2, 3), tt.zeros(2, 2, 4)),
            r"state of shape \(2, 2, 4\), expected \(1, 2, 4\)",
        ),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), "must be 'tanh' or 'relu', got 'gelu'"),
        (lambda: nn.LSTM(3, 4, proj_size=2), "proj_size is not offered"),
        (lambda: nn.BatchNorm1d(3)(tt.zeros(1, 3)), "one value per channel has no variance"),
        (lambda: nn.BatchNorm1d(3)(tt.zeros(4, 2)), r"input of shape \(4, 2\), expected \(N, 3\)"),
        (lambda: nn.GRU(3, 4)(tt.zeros(5, 2, 3), (tt.zeros(1, 2, 4),)), "the state must be a tensor h, got tuple"),
        (lambda: nn.LSTM(3, 4)(tt.zeros(5, 2, 3), tt.zeros(2, 1, 2, 4)), "must be a tuple .* got Tensor"),
        (lambda: nn.RNN(3, 4)(tt.zeros(2, 2, 2, 3)), r"expected \(L, N, 3\), or \(L, 3\) without a batch"),
        (lambda: nn.Conv1d(4, 3, 1, groups=2), "4 and 3 channels are not both multiples of groups=2"),
        (lambda: nn.Conv1d(4, 4, 1, padding_mode="same"), "padding_mode 'same': expected zeros, reflect"),
        (lambda: nn.Conv1d(3, 4, 5)(tt.zeros(2, 3, 4)), "spans 5 places, but the padded input has only 4"),
        (lambda: nn.Conv1d(3, 4, 2, padding="same"), "'same' for an odd kernel"),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"),
            "a function, got .tanh.",
        ),
        (lambda: nn.Transformer(4, 2, 1, 1, 4)(tt.zeros(2, 1, 3), tt.zeros(2, 1, 4)), "must have the width 4"),
        (
            lambda: F.scaled_dot_product_attention(tt.ones(3, 2), *[tt.ones(1, 3, 2)] * 2, enable_gqa=True),
            "enable_gqa needs",
        ),
        (
            lambda: F.scaled_dot_product_attention(*[tt.ones(2, 3, 4)] * 3, attn_mask=tt.ones(4, 5) > 0),
            r"mask \(4, 5\): these shapes do not broadcast",
        ),
        (
            lambda: F.scaled_dot_product_attention(*[tt.ones(2, 3, 4)] * 3, attn_mask=tt.ones(2, 2, 3, 3)),
            r"mask \(2, 2, 3, 3\): these shapes do not broadcast",
        ),
        (lambda: nn.ModuleList()[0], "index 0 is out of range for 0 items"),
        (lambda: nn.Sequential(nn.ReLU())["a"], "must be a whole number or a slice, got 'a'"),
        (lambda: nn.GRUCell(3, 4)(tt.zeros(2, 2, 3)), r"GRUCell: input of shape \(2, 2, 3\)"),
        (lambda: nn.MSELoss()(tt.zeros(3, 1), tt.zeros(3)), r"target has shape \(3,\), and the input \(3, 1\)"),
        (lambda: nn.L1Loss()(tt.zeros(3, 1), tt.zeros(3)), r"l1_loss: the target .* broadcast to \(3, 3\)"),
        (lambda: nn.SmoothL1Loss()(tt.zeros(3, 1), tt.zeros(3)), "smooth_l1_loss: the target"),
        (lambda: nn.HuberLoss()(tt.zeros(3, 1), tt.zeros(3)), "huber_loss: the target"),
        (lambda: nn.CrossEntropyLoss(reduction="avg")(tt.zeros(1, 2), tt.tensor([0])), "'mean', 'sum' or 'none'"),
    ],
)
def test_layers_refuse(make, sentence):
    with pytest.raises(Exception, match=sentence):
        make()


def packed(width: int, *sizes: int) -> rnn.PackedSequence:
    """Three rows of data as a batch with these batch sizes; 2, 1 by default."""
    return rnn.PackedSequence(tt.zeros(3, width), tt.tensor(sizes or (2, 1)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: rnn.pack_padded_sequence(x, [3, 4]), "lengths must fall, got .3, 4.; .* enforce_sorted=False"),
        (lambda x: rnn.pack_padded_sequence(x, [4]), "one length for each of 2 sequences"),
        (lambda x: rnn.pack_padded_sequence(x, tt.tensor(4)), "one length for each of 2 sequences, got lengths 4"),
        (lambda x: rnn.pack_padded_sequence(x, [4, 0]), "each length must be from 1 to 4"),
        (lambda x: rnn.pack_padded_sequence(x, [5, 4]), "each length must be from 1 to 4, .* got .5, 4."),
        (lambda x: rnn.pack_padded_sequence(x, [3, 1, 1, 1], batch_first=True), "from 1 to 2"),
        (lambda x: rnn.pack_padded_sequence(x[0, 0], [3]), r"got shape \(3,\)"),
        (lambda x: rnn.pack_padded_sequence(x[:, :0], []), r"shape \(4, 0, 3\) has no sequences"),
        (lambda x: rnn.pack_padded_sequence([1], [1]), "expected a tensor .* got list"),
        (lambda x: rnn.pad_packed_sequence(x), "expected a PackedSequence, got Tensor"),
        (lambda x: rnn.pad_packed_sequence(packed(3), total_length=1), "total_length 1 is less than .* 2 steps"),
        (lambda x: rnn.pad_packed_sequence(packed(3, 1, 2)), r"batch_sizes \[1, 2\] for data of shape \(3, 3\)"),
        (lambda x: rnn.pad_packed_sequence(packed(3, 2, 2)), "whose sum is the number of rows"),
        (lambda x: rnn.pad_packed_sequence(packed(3, 3, 0)), "numbers that never increase"),
        (lambda x: nn.LSTM(3, 4)(packed(3, 2, 2)), "LSTM: batch_sizes"),
        (
            lambda x: rnn.pad_packed_sequence(rnn.PackedSequence(*packed(3)[:2], None, tt.tensor([0, 5]))),
            r"unsorted_indices \[0, 5\] do not order 2 sequences",
        ),
        (lambda x: rnn.PackedSequence(x), "expected data and batch_sizes"),
        (lambda x: rnn.pad_sequence([]), "expected tensors"),
        (lambda x: rnn.pad_sequence([x, x[:, :1]]), "may differ in their first dimension only"),
        (lambda x: rnn.pad_sequence([x], padding_side="top"), "must be 'right' or 'left', got 'top'"),
    ],
)
def test_packing_refuses(make, sentence):
    with pytest.raises(Exception, match=sentence):
        make(tt.zeros(4, 2, 3))


STATE = {"weight": tt.ones(1, 2), "bias": tt.ones(1)}
NO_TENSOR = [  # calls with a list in the place of a tensor
    lambda x: nn.Linear(3, 4)(x),
    lambda x: nn.Linear(3, 4)(input=x),
    lambda x: nn.Sequential(nn.Linear(3, 4), nn.ReLU())(x),
    lambda x: nn.Embedding(3, 4)(x),
    lambda x: nn.LayerNorm(3)(x),
    lambda x: nn.BatchNorm1d(3)(x),
    lambda x: nn.Conv1d(3, 1, 1)(x),
    lambda x: nn.Bilinear(3, 3, 1)(x, x),
    lambda x: nn.Flatten()(x),
    lambda x: nn.Unflatten(0, (1, 3))(x),
    lambda x: nn.Dropout()(x),
    lambda x: nn.ReLU()(x),
    lambda x: nn.MSELoss()(x, x),
    lambda x: nn.GRUCell(3, 1)(x),
    lambda x: nn.MultiheadAttention(3, 1)(x, x, x),
    lambda x: nn.TransformerEncoderLayer(3, 1, 2)(x),
    lambda x: nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 1, 2), 1)(x),
    lambda x: nn.Transformer(3, 1, 1, 1, 2)(x, x),
    lambda x: nn.Parameter(x),
    lambda x: nn.Buffer(x),
]


@pytest.mark.parametrize("call", NO_TENSOR)
def test_a_list_is_no_tensor(call):
    with pytest.raises(
        TypeError, match=r"\w+: \w+ is \[\[1.0, 2.0, 3.0\]\]; expected a tensor.*tensor\(...\) makes one"
    ):
        call([[1.0, 2.0, 3.0]])


def test_errors_of_a_module_of_the_user_stay():
    class Own(nn.Module):
        def forward(self, x: tt.Tensor):
            return x.shape

    with pytest.raises(AttributeError, match="'list' object has no attribute 'shape'"):
        nn.Sequential(Own())([1.0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda m: m.load_state_dict([1]), TypeError, r"expected a dict of names and tensors, got \[1\]"),
        (lambda m: m.load_state_dict("a.pt"), TypeError, r"got 'a.pt'; tinytensor.load\(path\) reads one"),
        (lambda m: m.load_state_dict(None), TypeError, "got None"),
        (lambda m: m.load_state_dict(STATE | {3: tt.ones(1)}), TypeError, "dict of names and tensors"),
        (lambda m: m.load_state_dict(STATE | {"weight": None}), RuntimeError, r"expected tensors \(weight is None\)"),
        (lambda m: m.load_state_dict(STATE | {"bias": None}, strict=False), RuntimeError, "bias is None"),
        (lambda m: m.load_state_dict(STATE | {"bias": [2.0]}), RuntimeError, r"bias is \[2.0\]"),
        (lambda m: m.load_state_dict(STATE | {"bias": 2.0}), RuntimeError, r"bias is 2.0"),
        (lambda m: m.load_state_dict({"weight": tt.ones(1, 2) * 2}), RuntimeError, "missing: bias"),
        (lambda m: m.load_state_dict(STATE | {"bias": np.array(["a"])}), TypeError, "tensor: "),
        (lambda m: m.register_parameter(0, None), TypeError, "Linear: 0 can't be a name .*: expected a string"),
        (lambda m: m.register_buffer(None, None), TypeError, "Linear: None can't be a name"),
        (lambda m: m.add_module(0, None), TypeError, "Linear: 0 can't be a name"),
        (lambda m: nn.ModuleDict({0: m}), TypeError, "ModuleDict: 0 can't be a name"),
        (
            lambda m: nn.ModuleDict([("a", m, 1)]),
            ValueError,
            r"ModuleDict: expected a dict or pairs .name, item., got \[",
        ),
        (lambda m: nn.ModuleDict([m]), TypeError, r"ModuleDict: expected a dict or pairs .name, item., got \["),
        (lambda m: nn.ModuleDict(3), TypeError, "expected a dict or pairs .name, item., got 3"),
        (lambda m: nn.ModuleDict().update(3), TypeError, "expected a dict or pairs .name, item., got 3"),
        (lambda m: nn.ModuleDict([("a", 3)]), TypeError, "'a': expected a Module or None, got int"),
        (lambda m: nn.ParameterDict({0: m.weight}), TypeError, "ParameterDict: 0 can't be a name"),
        (lambda m: nn.Sequential({0: m}), TypeError, "Sequential: 0 can't be a name"),
        (lambda m: m.train("a"), ValueError, "train: expected True or False, got 'a'"),
        (lambda m: m.train(1), ValueError, "train: expected True or False, got 1"),
        (lambda m: m.train(None), ValueError, "train: expected True or False, got None"),
        (lambda m: m.requires_grad_("a"), TypeError, "requires_grad_: expected True or False, got 'a'"),
        (lambda m: m.weight.requires_grad_(0), TypeError, "requires_grad_: expected True or False, got 0"),
        (lambda m: nn.Parameter(tt.ones(1), "a"), TypeError, "expected True or False, got 'a'"),
        (
            lambda m: nn.Parameter(tt.ones(1, dtype=tt.int64)),
            RuntimeError,
            "only floating-point tensors have gradients",
        ),
        (lambda m: m.to(tt.int64), TypeError, "to: int64 would cut a module's numbers"),
        (lambda m: m.to("cpu", tt.bool), TypeError, "to: bool would cut a module's numbers"),
        (lambda m: m.to(dtype=tt.int32), TypeError, "to: int32 would cut a module's numbers"),
        (lambda m: m.to(tt.ones(1, dtype=tt.uint8)), TypeError, "to: uint8 would cut a module's numbers"),
        (lambda m: nn.ReLU().to(tt.int64), TypeError, "to: int64 would cut a module's numbers"),
        (lambda m: nn.utils.weight_norm(m, dim=2), IndexError, "weight_norm: dim 2 is out of range"),
        (lambda m: nn.utils.weight_norm(m, dim=-3), IndexError, "weight_norm: dim -3 is out of range"),
        (lambda m: nn.utils.weight_norm(m, dim="a"), TypeError, "weight_norm: dim must be a whole number, got 'a'"),
    ],
)
def test_modules_refuse(call, error, sentence):
    """And a module is afterwards as it was before."""
    m = nn.Linear(2, 1)
    before = repr(m), m.weight, m.weight.tolist(), m.bias.tolist(), m.weight.dtype, m.training
    with pytest.raises(error, match=sentence):
        call(m)
    assert before == (repr(m), m.weight, m.weight.tolist(), m.bias.tolist(), m.weight.dtype, m.training)
    assert m.weight.requires_grad and list(m.state_dict()) == ["weight", "bias"]


def test_packed_batch_equals_single_sequences():
    m = samples.fill(tt, nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, dtype=tt.float64))
    sequences = [samples.numbers(tt, f"s{n}", n, 3) for n in (2, 5, 1, 5)]
    y, (h, c) = m(rnn.pack_sequence(sequences, enforce_sorted=False))
    for i, (x, entry) in enumerate(zip(sequences, rnn.unpack_sequence(y), strict=True)):
        expected, state = m(x)
        np.testing.assert_allclose(entry.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
        for whole, alone in zip((h, c), state, strict=True):
            np.testing.assert_allclose(whole[:, i].detach().numpy(), alone.detach().numpy(), rtol=1e-12)


def test_packed_sequence_survives_conversions_and_copies():
    p = rnn.pack_sequence([tt.ones(1, 2), tt.zeros(2, 2)], enforce_sorted=False)
    assert p.to(tt.float32) is p is p.cpu() is p.pin_memory() and not p.is_cuda
    for other, dtype in ((p.double(), tt.float64), (p.long(), tt.int64), (p.int(), tt.int32), (p.float(), tt.float32)):
        assert isinstance(other, rnn.PackedSequence) and other.data.dtype == dtype and other[1:] == p[1:]
    for copied in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert isinstance(copied, rnn.PackedSequence)
        assert [part.tolist() for part in copied] == [part.tolist() for part in p]
    second = rnn.PackedSequence((p.data, p.batch_sizes), sorted_indices=p.sorted_indices)
    assert second.unsorted_indices.tolist() == p.unsorted_indices.tolist() == [1, 0]
    assert nn.utils.rnn is rnn and nn.GRU(2, 3)(p)[0].sorted_indices is p.sorted_indices


@pytest.mark.slow
def test_compiled_step_that_packs_is_not_recorded():
    """How many sequences have a step is a value, which a recording would not see again."""
    m = samples.fill(tt, nn.GRU(3, 4, bidirectional=True, dtype=tt.float64))

    def step(x, lengths):
        y, h = m(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
        return (y.data**2).sum() + (h * rnn.pad_packed_sequence(y)[0].sum()).sum()

    compiled, x = tt.compile(step), samples.numbers(tt, "x", 5, 2, 3)
    with pytest.warns(UserWarning, match=r"step runs without a recording: tolist\(\) inside a compiled step"):
        first = compiled(x, tt.tensor([2, 5]))
    assert first.item() == step(x, tt.tensor([2, 5])).item()
    assert compiled(x, tt.tensor([5, 3])).item() == step(x, tt.tensor([5, 3])).item() != first.item()


def test_batch_norm_is_compiled():
    """A recorded step goes on counting batches and following their means."""
    eager, recorded = (nn.BatchNorm1d(3, momentum=None, dtype=tt.float64) for _ in range(2))
    step = tt.compile(lambda x: recorded(x).sum().detach())
    for i in range(4):
        x = samples.numbers(tt, f"batch {i}", 5, 3)
        eager(x)
        step(x)
    for name, value in eager.state_dict().items():
        np.testing.assert_allclose(recorded.state_dict()[name].numpy(), value.numpy(), rtol=1e-15)


@pytest.mark.parametrize("category", [nn.ModuleList, lambda ms: nn.Sequential(*ms)])
def test_a_list_of_modules_can_be_changed(category):
    a, b, c, d = (nn.Linear(1, n) for n in range(1, 5))
    m = category([a, b])
    assert m.insert(1, c) is m and m.append(d) is m and list(m) == [a, c, b, d]
    assert list(m.state_dict()) == [f"{i}.{n}" for i in range(4) for n in ("weight", "bias")]
    del m[1]
    assert list(m) == [a, b, d] and [n for n, _ in m.named_children()] == ["0", "1", "2"]
    m[-1] = c
    assert list(m) == [a, b, c] and m.pop(0) is a and list(m) == [b, c] and list(m[:1]) == [b]
    assert m.extend([d, a]) is m and list(m[1:3]) == [c, d]
    del m[1:3]
    assert list(m) == [b, a] and list(m + category([c])) == [b, a, c] and len(m) == 2
    m += [d]
    assert list(m) == [b, a, d] and d in m


def test_sequential_of_named_modules():
    named = nn.Sequential({"first": nn.ReLU(), "second": nn.Tanh()})
    del named[0]
    assert [n for n, _ in named.named_children()] == ["second"]  # a name that was given stays
    with pytest.raises(TypeError, match="expected a Module"):
        nn.Sequential({"first": nn.ReLU()}, nn.Tanh())
    assert [type(p) for p in nn.ParameterList([tt.ones(2)]).parameters()] == [nn.Parameter]
    with pytest.raises(IndexError, match="ModuleList: index 0 is out of range for 0 items"):
        del nn.ModuleList()[0]


def test_dictionaries_of_modules_and_parameters_are_alike():
    for d, one, other in (
        (nn.ModuleDict({}), nn.ReLU(), nn.Linear(1, 1)),
        (nn.ParameterDict(), nn.Parameter(tt.ones(1)), nn.Parameter(tt.zeros(2))),
    ):
        d["a"] = one
        d.update({"b": other})
        assert list(d) == ["a", "b"] == list(d.keys()) and len(d) == 2 and "a" in d and "c" not in d
        assert d["a"] is one and d.get("c") is None and dict(d.items())["b"] is other
        del d["a"]
        assert d.pop("b") is other and not list(d.values())
        d["a"] = one
        d.clear()
        assert not len(d)
        with pytest.raises(TypeError, match="expected a"):
            d["a"] = 3


CHANNELS = [  # function, shape, dimensions that are drawn for, what is used instead if there is a warning
    ("dropout1d", (200, 3, 4), 2, None),
    ("dropout1d", (600, 4), 1, None),
    ("dropout2d", (200, 3, 2, 4), 2, None),
    ("dropout2d", (200, 3, 4), 2, "dropout1d"),
    ("dropout2d", (200, 3), 2, "dropout"),
    ("dropout3d", (200, 3, 2, 2, 2), 2, None),
    ("dropout3d", (600, 2, 2, 2), 1, None),
    ("dropout3d", (200, 3, 4), 2, "dropout1d"),
]


@pytest.mark.parametrize(("name", "shape", "drawn", "instead"), CHANNELS)
def test_dropout_of_whole_channels(name, shape, drawn, instead):
    """Each channel is 0 or scaled, as a whole, and so is its gradient; about one of four is 0."""
    tt.manual_seed(0)
    dropout, x = getattr(F, name), (tt.rand(shape, dtype=tt.float64) + 1).requires_grad_()
    with pytest.warns(UserWarning, match=f"use {instead}$") if instead else contextlib.nullcontext():
        y = dropout(x, 0.25)
    (y * y).sum().backward()
    ratio = (y / x).detach().reshape(math.prod(shape[:drawn]), -1).numpy()
    assert (abs(ratio - ratio[:, :1]) < 1e-15).all()
    kept = ratio[:, 0] > 0
    np.testing.assert_allclose(ratio[kept], 4 / 3, rtol=1e-15)
    assert 0.65 < kept.mean() < 0.85  # of 600: more than five standard deviations
    np.testing.assert_allclose(x.grad.numpy(), (2 * y.detach().numpy() ** 2 / x.detach().numpy()), rtol=1e-14)


@pytest.mark.parametrize("name", ["Dropout1d", "Dropout2d", "Dropout3d"])
def test_dropout_layers_of_channels(name):
    shape = (2, 300) + (2,) * int(name[-2])
    x = tt.ones(shape)
    assert getattr(nn, name)(0.5).eval()(x) is x and getattr(nn, name)(0.0)(x) is x
    assert not getattr(nn, name)(1.0)(x).any()
    y = getattr(nn, name)(0.5)(x)
    assert set(y.flatten().tolist()) == {0.0, 2.0} and (y == y[(..., *(slice(1),) * (len(shape) - 2))]).all()
    assert getattr(nn, name)(0.5, inplace=True)(x) is x and set(x.flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match=f"{name}: the probability must be between 0 and 1, got 2"):
        getattr(nn, name)(2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: F.dropout1d(tt.ones(2)), r"dropout1d: input of shape \(2,\), expected \(N, C, L\) or \(C, L\)"),
        (lambda: F.dropout1d(tt.ones(2, 2, 2, 2)), "dropout1d: input of shape"),
        (lambda: F.dropout2d(tt.ones(2)), r"dropout2d: input of shape \(2,\), expected \(N, C, H, W\)"),
        (lambda: F.dropout3d(tt.ones(2)), "dropout3d: input of shape"),
        (lambda: F.dropout2d(tt.ones(2, 2, 2, 2), "half"), "dropout2d: the probability must be .*'half'"),
        (lambda: F.dropout2d(tt.ones(2, 2, 2, 2).long()), "dropout2d: expected a floating-point tensor, got int64"),
        (lambda: nn.Embedding(3, 2, sparse=True), "Embedding: sparse=True is not offered, gradients are dense"),
        (lambda: F.embedding(tt.tensor([0]), tt.ones(2, 2), sparse=True), "embedding: sparse=True is not offered"),
        (lambda: nn.Embedding(3, 2, _weight=tt.ones(2, 2)), r"a weight of shape \(2, 2\), expected \(3, 2\)"),
        (lambda: nn.Embedding.from_pretrained(tt.ones(3)), r"expected rows of shape \(V, D\), got \(3,\)"),
        (lambda: nn.Embedding(3, 2, max_norm=1.0)(tt.tensor([3])), "embedding: .*3"),
        (lambda: nn.Embedding(3, 2, scale_grad_by_freq=True)(tt.tensor([-1])), "embedding: .*-1"),
    ],
)
def test_options_of_dropout_and_embedding_refuse(make, sentence):
    with pytest.raises(Exception, match=sentence):
        make()


def test_max_norm_in_a_compiled_step():
    """max_norm changes the weight in place, in a replay too; scale_grad_by_freq has a second derivative."""
    eager, recorded = (
        samples.fill(tt, nn.Embedding(6, 4, max_norm=1.0, scale_grad_by_freq=True, dtype=tt.float64)) for _ in range(2)
    )
    optimizers = [tt.optim.SGD(m.parameters(), lr=0.5) for m in (eager, recorded)]

    def step(m, optimizer, index):
        optimizer.zero_grad()
        loss = (m(index).sin() ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = tt.compile(lambda index: step(recorded, optimizers[1], index), fullgraph=True)
    for index in ([1, 4, 1], [0, 0, 0], [5, 4, 3], [1, 1, 2]):
        index = tt.tensor(index)
        assert compiled(index).item() == step(eager, optimizers[0], index).item()
    assert recorded.weight.tolist() == eager.weight.tolist()

    w = samples.numbers(tt, "w", 3, 2).requires_grad_()
    (g,) = tt.autograd.grad(
        (F.embedding(tt.tensor([2, 0, 2]), w, scale_grad_by_freq=True) ** 3).sum(), w, create_graph=True
    )
    np.testing.assert_allclose(g.detach().numpy()[2], 3 * w.detach().numpy()[2] ** 2, rtol=1e-14)  # the mean of two
    (second,) = tt.autograd.grad(g.sum(), w)
    np.testing.assert_allclose(second.numpy()[0], 6 * w.detach().numpy()[0], rtol=1e-14)


def test_dropout_between_recurrent_layers():
    m = samples.fill(tt, nn.LSTM(3, 4, num_layers=2, dropout=1.0, dtype=tt.float64))
    x = samples.numbers(tt, "x", 5, 2, 3)
    first = m(x)[0]
    assert (m(x * 2)[0] == first).all()  # all that the second layer gets is dropped
    assert (m.eval()(x)[1][0][0] == m.train()(x)[1][0][0]).all()  # and nothing of what the first one gets
    assert (m.eval()(x)[0] != first).any() and (m(x * 2)[0] != m(x)[0]).any()


def test_a_recurrent_step_is_compiled():
    """A recording of a training step gives what the step gives, and a copied or pickled layer computes as it did."""
    m = samples.fill(tt, nn.RNN(3, 4, bidirectional=True, dtype=tt.float64))
    x = samples.numbers(tt, "x", 5, 2, 3)

    def step(x):
        m.zero_grad()
        loss = (m(x)[0] ** 2).sum()
        loss.backward()
        return loss

    eager = step(x).item(), [p.grad.tolist() for p in m.parameters()]
    compiled = tt.compile(step)
    for _ in range(3):
        assert (compiled(x).item(), [p.grad.tolist() for p in m.parameters()]) == eager
    for copied in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert (copied(x)[0] == m(x)[0]).all()


# --- The tree itself


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.norm = nn.LayerNorm(3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("kept", tt.arange(3))
        self.register_buffer("scratch", tt.ones(2), persistent=False)
        self.plain = 7

    def forward(self, x):
        return self.out(self.norm(self.embed(x)))


def test_a_shared_parameter_appears_once():
    m = Tied()
    assert [n for n, _ in m.named_parameters()] == ["embed.weight", "norm.weight", "norm.bias"]
    everything = [n for n, _ in m.named_parameters(remove_duplicate=False)]
    assert everything == ["embed.weight", "norm.weight", "norm.bias", "out.weight"]
    assert len(list(m.parameters())) == 3
    assert m.num_parameters() == 15 + 6
    assert list(m.state_dict()) == ["kept", "embed.weight", "norm.weight", "norm.bias", "out.weight"]
    m(tt.tensor([1, 2])).sum().backward()
    assert m.out.weight.grad is m.embed.weight.grad


def test_a_shared_module_appears_once():
    layer = nn.Linear(2, 2)
    m = nn.Sequential(layer, nn.ReLU(), layer)
    assert [n for n, _ in m.named_modules()] == ["", "0", "1"]
    assert [n for n, _ in m.named_parameters()] == ["0.weight", "0.bias"]
    assert list(m.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_train_and_eval_reach_every_module():
    m = nn.Sequential(nn.Dropout(), nn.ModuleList([nn.Dropout()]))
    assert m.eval() is m and not any(x.training for x in m.modules())
    assert m.train() is m and all(x.training for x in m.modules())
    m[1].eval()
    assert m.training and not m[1][0].training


def test_apply_visits_children_first():
    seen = []
    m = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert m.apply(lambda x: seen.append(type(x).__name__)) is m
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_children_and_submodules():
    m = nn.Sequential(nn.Linear(1, 1), nn.ModuleDict({"a": nn.ReLU()}))
    assert [n for n, _ in m.named_children()] == ["0", "1"] and list(m.children()) == list(m)
    assert m.get_submodule("1.a") is m[1]["a"] and m.get_submodule("") is m
    with pytest.raises(AttributeError, match="ModuleDict has no attribute 'b'"):
        m.get_submodule("1.b")


def test_zero_grad_and_requires_grad():
    m = nn.Linear(2, 2)
    m(tt.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert not m.weight.grad.any()
    m.zero_grad()
    assert m.weight.grad is None
    assert m.requires_grad_(False) is m and not m(tt.ones(1, 2)).requires_grad
    assert m.requires_grad_()(tt.ones(1, 2)).requires_grad


def test_attributes_register_parameters_and_modules():
    m = nn.Module()
    m.w = nn.Parameter(tt.ones(2))
    assert m.w.requires_grad and dict(m.named_parameters()) == {"w": m.w}
    with pytest.raises(TypeError, match="w is a parameter: assign a Parameter"):
        m.w = tt.ones(2)
    m.w = None
    assert m.w is None and not list(m.parameters()) and not m.state_dict()
    m.w = nn.Linear(1, 1)  # another kind under the same name
    assert [n for n, _ in m.named_parameters()] == ["w.weight", "w.bias"]
    del m.w
    assert not hasattr(m, "w")
    m.register_buffer("b", tt.zeros(2))
    m.b = tt.ones(3)  # a buffer stays one
    assert list(m.state_dict()) == ["b"] and m.b.shape == (3,)
    m.t = tt.ones(1)  # a plain tensor is none of them
    assert list(m.state_dict()) == ["b"]
    assert {"b", "t"} <= set(dir(m))


def test_registered_names_refuse_other_types():
    m = nn.Linear(2, 1)
    m.weight = nn.Parameter(tt.ones(1, 2))
    assert [n for n, _ in m.named_parameters()] == ["weight", "bias"]  # in their places
    m.register_buffer("b", tt.zeros(2))
    m.sub = nn.ReLU()
    for name, said in (("weight", "a parameter: "), ("b", "a buffer: assign a T"), ("sub", "a module: assign a M")):
        with pytest.raises(TypeError, match=f"{name} is {said}.*, got int"):
            setattr(m, name, 3)
        setattr(m, name, None)
    assert m.weight is None and m.b is None and m.sub is None and list(m.state_dict()) == ["bias"]
    assert list(m.named_modules()) == [("", m)] and not list(m.named_children())
    m.later = 3
    m.later = nn.Parameter(tt.ones(1))  # hides nothing that it takes the place of
    assert m.later.shape == (1,) and nn.Parameter().shape == (0,)


def test_buffer_assignment_sets_persistence():
    m = nn.Module()
    m.b, m.c = nn.Buffer(tt.ones(1), persistent=False), nn.Buffer(tt.ones(1))
    assert list(m.state_dict()) == ["c"] and not copy.deepcopy(m.b).persistent
    m.b = tt.zeros(1)  # in the place of the buffer
    assert list(m.state_dict()) == ["c"] and [n for n, _ in m.named_buffers()] == ["b", "c"]
    m.b = nn.Buffer(tt.ones(1))
    assert list(m.state_dict()) == ["b", "c"]
    m.b = nn.Buffer(tt.ones(1), persistent=False)
    m.b = nn.Parameter(tt.ones(1))
    assert list(m.state_dict()) == ["b", "c"]
    m.b = nn.Buffer(tt.ones(1), persistent=False)
    del m.b
    m.register_parameter("b", nn.Parameter(tt.ones(1)))
    assert list(m.state_dict()) == ["b", "c"]


def test_parameters_without_recursion():
    m = nn.Sequential(nn.Linear(1, 1))
    m.own = nn.Parameter(tt.ones(2))
    assert [n for n, _ in m.named_parameters(recurse=False)] == ["own"]
    m(tt.ones(1)).sum().backward()  # which leaves `own` without a gradient
    m.zero_grad(set_to_none=False)
    assert m.own.grad is None and m[0].weight.grad.tolist() == [[0]]
    assert m.double()[0].weight.grad.dtype is tt.float64
    m.register_buffer("count", tt.tensor(3))
    for change in (lambda: m.to(tt.float32), m.float):
        assert change().count.dtype is tt.int64 and m.own.dtype is tt.float32


def test_subclass_of_module_and_another_class():
    seen = []

    class Told:
        def __init_subclass__(cls, **options):
            seen.append(options)

    class Both(nn.Module, Told, word=1):
        def __init__(self):
            self.plain = 2  # before the constructor of Module, as what is no part of it may be
            super().__init__()

    assert seen == [{"word": 1}] and Both().plain == 2


def test_layer_constructors_name_wrong_arguments():
    class Half(nn.Module):
        __module__ = "tinytensor.nn.layers"

        def __init__(self, size: int):
            super().__init__()
            self.size = size / 2

    with pytest.raises(TypeError, match="Half: size is 'a'; expected a whole number"):
        Half("a")


def test_weakly_referenced_module_is_guarded():
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0))
    result = weakref.ref(m)
    step = tt.compile(lambda x: result()(x).detach())
    x = tt.ones(1, 2)
    assert not any(step(x).any() for _ in range(3))
    m.eval()
    assert step(x).tolist() == m(x).tolist() != [[0, 0]]


def test_setting_before_init_is_refused():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)
            super().__init__()

    with pytest.raises(AttributeError, match=r"Early.layer: call super\(\).__init__\(\) before setting"):
        Early()

    class EarlyBuffer(nn.Module):
        def __init__(self):
            self.register_buffer("b", tt.ones(1))

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) before registering"):
        EarlyBuffer()


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (lambda m: m.register_parameter("a", tt.ones(1)), TypeError, "expected a Parameter or None, got Tensor"),
        (lambda m: m.register_buffer("a", [1]), TypeError, "expected a Tensor or None, got list"),
        (lambda m: m.register_module("a", print), TypeError, "expected a Module or None, got builtin_function"),
        (lambda m: m.register_buffer("a.b", tt.ones(1)), KeyError, "dots separate modules"),
        (lambda m: m.add_module("", nn.ReLU()), KeyError, "must not be empty"),
        (lambda m: m.register_buffer("forward", tt.ones(1)), KeyError, "is an attribute already"),
        (lambda m: m.register_buffer("norm", tt.ones(1)), KeyError, "is an attribute already"),
    ],
)
def test_registering_refuses_wrong_names_and_values(change, error, sentence):
    with pytest.raises(error, match=sentence):
        change(Tied())


def test_buffers_are_listed():
    m = Tied()
    assert [n for n, _ in m.named_buffers()] == ["kept", "scratch"] and len(list(m.buffers())) == 2
    m.register_buffer("scratch", tt.ones(2))  # persistent now
    assert "scratch" in m.state_dict()
    m.own = nn.Buffer(tt.ones(4), persistent=False)
    assert "own" not in m.state_dict() and any(b is m.own for b in m.buffers())
    m.double()
    assert m.scratch.dtype == tt.float64 and m.kept.dtype == tt.int64 and m.embed.weight.dtype == tt.float64


def test_state_dict_shares_memory_and_has_no_tape():
    m = nn.Linear(2, 1)
    state = m.state_dict()
    assert not state["weight"].requires_grad
    with tt.no_grad():
        m.weight.fill_(5)
    assert state["weight"].tolist() == [[5.0, 5.0]]
    assert list(nn.Sequential(m).state_dict(prefix="model.")) == ["model.0.weight", "model.0.bias"]


def test_load_state_dict():
    a, b = Tied(), Tied()
    keys = b.load_state_dict(a.state_dict())
    assert keys.missing_keys == [] and keys.unexpected_keys == [] and keys == ([], [])
    assert b.out.weight is b.embed.weight
    assert all((x == y).all() for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert a.embed.weight.data_ptr() != b.embed.weight.data_ptr()
    b.load_state_dict({k: v.numpy() for k, v in a.state_dict().items()})  # arrays will do


WRAPPED = {  # how a name is changed, and what to load
    "module": (lambda name: f"module.{name}", "module. in them", ".replace('module.', '')"),
    "compile": (lambda name: f"_orig_mod.{name}", "_orig_mod. in them", ".replace('_orig_mod.', '')"),
    "both": (
        lambda name: f"module._orig_mod.{name}",
        "_orig_mod. and module. in them",
        ".replace('_orig_mod.', '').replace('module.', '')",
    ),
    "a compiled part": (
        lambda name: name.replace("0.", "0._orig_mod."),
        "_orig_mod. in them",
        ".replace('_orig_mod.', '')",
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_names_of_wrappers_in_a_state_are_named(name):
    change, has, taken_off = WRAPPED[name]
    a, b = (nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)) for _ in "ab")
    state = {change(key): value for key, value in a.state_dict().items()}
    with pytest.raises(RuntimeError) as raised:
        b.load_state_dict(state)
    advice = f"{{name{taken_off}: w for name, w in state.items()}}"
    assert f"load_state_dict of Sequential: the names in the state have {has}" in str(raised.value)
    assert str(raised.value).endswith(f"load {advice}")
    b.load_state_dict(eval(advice, {"state": state}))  # the advice works
    assert b[0].weight.tolist() == a[0].weight.tolist()
    with pytest.raises(RuntimeError, match=r"missing: 0\.weight"):  # something else is wrong, too
        b.load_state_dict(state | {"more": tt.ones(1)})


def test_a_state_without_module_is_not_one_of_a_wrapper():
    class Wrapping(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    a = nn.Linear(2, 3)
    with pytest.raises(RuntimeError, match=r"lack the module\. of DistributedDataParallel; load it into the \.module"):
        Wrapping(nn.Linear(2, 3)).load_state_dict(a.state_dict())
    Wrapping(nn.Linear(2, 3)).load_state_dict(Wrapping(a).state_dict())


def test_a_prefix_is_consumed():
    from tinytensor.nn.modules.utils import consume_prefix_in_state_dict_if_present

    state = nn.Linear(2, 3).state_dict()
    wrapped = {"bias" if name == "bias" else f"module.{name}": value for name, value in state.items()}
    consume_prefix_in_state_dict_if_present(wrapped, "module.")
    assert list(wrapped) == list(state) and all(wrapped[name] is state[name] for name in state)
    both = {"a": 1, "module.a": 2}
    with pytest.raises(ValueError, match=r"with and without 'module\.'"):
        consume_prefix_in_state_dict_if_present(both, "module.")
    assert both == {"a": 1, "module.a": 2}


def test_load_state_dict_is_strict():
    m = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    before = m[0].weight.tolist()
    good = m.state_dict()
    wrong = {"0.weight": tt.zeros(3, 2), "0.bais": tt.zeros(3)}
    sentence = "load_state_dict of Sequential: missing: 0.bias; unexpected: 0.bais"
    with pytest.raises(RuntimeError, match=sentence):
        m.load_state_dict(wrong)
    with pytest.raises(RuntimeError, match=re.escape("shapes differ (0.weight: (2, 3) in the state, (3, 2) in the")):
        m.load_state_dict({**good, "0.weight": tt.zeros(2, 3)}, strict=False)
    with pytest.raises(RuntimeError, match=r"shapes differ .*; missing: 0.bias"):
        m.load_state_dict({"0.weight": tt.zeros(2, 3)})
    assert m[0].weight.tolist() == before  # nothing was changed on the way
    assert m.load_state_dict(wrong, strict=False) == (["0.bias"], ["0.bais"])
    assert not m[0].weight.any()


def test_deepcopy_keeps_ties_and_shares_no_memory():
    m = Tied().eval()
    m.register_forward_hook(lambda module, args, y: y * 2)
    m(tt.tensor([1])).sum().backward()
    twin = copy.deepcopy(m)
    assert twin.out.weight is twin.embed.weight and type(twin.out.weight) is nn.Parameter
    assert twin.embed.weight.grad.tolist() == m.embed.weight.grad.tolist()
    assert twin.training is False and list(twin.state_dict()) == list(m.state_dict())
    index = tt.tensor([0, 4])
    assert twin(index).tolist() == m(index).tolist()
    with tt.no_grad():
        twin.embed.weight.zero_()
    assert m.embed.weight.any() and twin(index).tolist() != m(index).tolist()


def test_forward_hooks():
    m = nn.Linear(2, 1, bias=False)
    seen = []
    look = m.register_forward_hook(lambda module, args, y: seen.append((module is m, len(args), y.shape)))
    double = m.register_forward_hook(lambda module, args, y: y * 2)
    x = tt.ones(3, 2)
    plain = m.forward(x).tolist()
    assert m(x).tolist() == [[2 * v] for (v,) in plain] and seen == [(True, 1, (3, 1))]
    double.remove()
    double.remove()  # once more does no harm
    look()
    assert m(x).tolist() == plain and len(seen) == 1


def test_repr_shows_the_tree():
    text = repr(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Dropout(0.1), nn.LayerNorm(3))))
    assert text.splitlines() == [
        "Sequential(",
        "  (0): Linear(in_features=2, out_features=3, bias=True)",
        "  (1): Sequential(",
        "    (0): Dropout(p=0.1, inplace=False)",
        "    (1): LayerNorm((3,), eps=1e-05, elementwise_affine=True)",
        "  )",
        ")",
    ]
    assert repr(nn.Parameter(tt.ones(1))).startswith("Parameter containing:\ntensor([1.]")


def test_activations_in_place():
    for module, function in ((nn.ReLU, F.relu), (nn.SiLU, F.silu)):
        x = samples.numbers(tt, "in place", 5).requires_grad_()
        y, z = x * 1, x * 1
        assert module(inplace=True)(y) is y and function(z, inplace=True) is z
        assert y.tolist() == z.tolist() == function(x).tolist() != x.tolist()
        (in_place,) = tt.autograd.grad(y.sum(), x)
        assert in_place.tolist() == tt.autograd.grad(function(x).sum(), x)[0].tolist()


def test_containers_hold_modules():
    layers = [nn.Linear(1, 1) for _ in range(4)]
    m = nn.ModuleList(layers[:2])
    m.append(layers[2]).extend([layers[3]])
    assert len(m) == 4 and list(m) == layers and m[-1] is layers[3] and list(m[1:3]) == layers[1:3]
    m[-1] = layers[0]
    assert m[3] is layers[0]
    m.insert(1, layers[3])
    assert list(m) == [layers[0], layers[3], layers[1], layers[2], layers[0]]
    assert list(m._modules) == ["0", "1", "2", "3", "4"]
    s = nn.Sequential(*layers)
    assert s[1] is layers[1] and list(s[:2]) == layers[:2] and len(s.append(nn.ReLU())) == 5
    d = nn.ModuleDict({"a": layers[0]})
    d["b"] = layers[1]
    d.update({"c": layers[2]})
    del d["b"]
    assert list(d) == ["a", "c"] and "b" not in d and d["c"] is layers[2] and len(d) == 2
    assert list(d.keys()) == ["a", "c"] and list(d.values()) == [layers[0], layers[2]] and dict(d.items())
    p = nn.ParameterDict({"x": nn.Parameter(tt.ones(1))})
    p["y"] = nn.Parameter(tt.ones(2))
    assert list(p.keys()) == ["x", "y"] and "x" in p and [n for n, _ in p.named_parameters()] == ["x", "y"]
    with pytest.raises(IndexError):
        m[9]


# --- Dropout


def test_dropout_is_drawn_from_the_seed():
    m, x = nn.Dropout(0.3), tt.ones(10, 10)
    tt.manual_seed(3)
    first = m(x).tolist()
    assert m(x).tolist() != first
    tt.manual_seed(3)
    assert m(x).tolist() == first
    assert m.eval()(x) is x


def test_zero_dropout_draws_nothing():
    x = tt.ones(3)
    assert F.dropout(x, 0.0) is x


def test_negative_padding_idx_has_no_gradient():
    weight = tt.ones(5, 4, requires_grad=True)
    F.embedding(tt.tensor([4, 0]), weight, padding_idx=-1).sum().backward()
    assert weight.grad[:, 0].tolist() == [1, 0, 0, 0, 0]


def test_one_hot_of_no_class_and_beyond():
    assert F.one_hot(tt.zeros(0, dtype=tt.int64)).shape == (0, 0)
    with pytest.raises(IndexError, match="one_hot"):
        F.one_hot(tt.tensor([3]), 2)


def test_norms_of_one_number_and_zeros():
    one, zeros = tt.tensor([3.0]), tt.zeros(2)
    assert F.layer_norm(one, (1,)).item() == 0
    assert F.rms_norm(one, (1,)).item() == pytest.approx(1)
    assert F.rms_norm(zeros, (2,)).tolist() == [0, 0]  # by default eps is small, but not 0
    assert F.normalize(tt.tensor([[3.0, 4.0]])).tolist() == pytest.approx(np.array([[0.6, 0.8]]))


def test_norms_of_an_empty_batch_have_gradients():
    """A batch of no rows leaves no parameter without a gradient, which optimizers would pass over: it is 0."""
    x, weight, bias = tt.zeros(0, 3), tt.ones(3, requires_grad=True), tt.ones(3, requires_grad=True)
    (F.layer_norm(x, (3,), weight, bias) + F.rms_norm(x, (3,), weight)).sum().backward()
    assert weight.grad.tolist() == bias.grad.tolist() == [0, 0, 0]


def test_dropout_in_place():
    x = tt.ones(50).requires_grad_()
    y = x * 2
    tt.manual_seed(1)
    assert nn.Dropout(0.5, inplace=True)(y) is y and set(y.tolist()) == {0.0, 4.0}
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_dropout_statistics():
    """A share p is 0, the rest 1 / (1 - p); the number of zeros is binomial: five standard deviations are allowed."""
    tt.manual_seed(0)
    n, p = 40_000, 0.3
    x = tt.ones(n, dtype=tt.float64, requires_grad=True)
    y = nn.Dropout(p)(x)
    assert set(y.tolist()) == {0.0, 1 / (1 - p)}
    assert abs((y == 0).sum().item() - n * p) < 5 * math.sqrt(n * p * (1 - p))
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()  # the same mask goes back
    assert not F.dropout(x, 1.0).any()


def test_initial_values():
    """Uniform on +-1/sqrt(in): no value outside, and the mean square of n of them within 5 of its deviations."""
    tt.manual_seed(0)
    w = nn.Linear(100, 80).weight
    bound = 0.1
    assert w.abs().max() <= bound
    # E x^2 = b^2 / 3, Var x^2 = b^4 (1/5 - 1/9)
    assert abs((w * w).mean().item() - bound**2 / 3) < 5 * bound**2 * math.sqrt((1 / 5 - 1 / 9) / 8000)
    e = nn.Embedding(80, 100, padding_idx=2).weight
    assert not e[2].any()
    assert abs((e * e).sum().item() / 7900 - 1) < 5 * math.sqrt(2 / 7900)
    attention = nn.MultiheadAttention(6, 2)
    assert attention.head_dim == 3
    assert not attention.in_proj_bias.any() and not attention.out_proj.bias.any()
    assert 0.9 < attention.in_proj_weight.abs().max() / math.sqrt(6 / (6 + 18)) <= 1  # the largest of 108


HUNDRED = (
    lambda: nn.Linear(100, 80),
    lambda: nn.Bilinear(100, 3, 5),
    lambda: nn.Conv1d(20, 30, 5),
    lambda: nn.GRU(3, 100),
    lambda: nn.LSTMCell(3, 100),
)


@pytest.mark.parametrize("make", HUNDRED)
def test_parameters_are_uniform_within_a_tenth(make):
    """One over the root of what each number is a sum of: both signs, and no value outside."""
    tt.manual_seed(0)
    for p in make().parameters():
        assert 0 < -p.min() <= 0.1 and 0 < p.max() <= 0.1
    assert not nn.Linear(0, 2).bias.any()


def test_norms_reset_parameters():
    for norm in (
        nn.LayerNorm(3),
        nn.RMSNorm(3),
        nn.LayerNorm(3, bias=False),
        nn.LayerNorm(3, elementwise_affine=False),
    ):
        before = {name: p.tolist() for name, p in norm.named_parameters()}
        nn.init.constant_(norm.weight, 7.0) if before else None
        nn.init.constant_(norm.bias, 7.0) if "bias" in before else None
        norm.reset_parameters()
        assert {name: p.tolist() for name, p in norm.named_parameters()} == before
        assert before.get("weight", [1, 1, 1]) == [1, 1, 1] and before.get("bias", [0, 0, 0]) == [0, 0, 0]
    assert nn.RMSNorm(3, elementwise_affine=False).reset_parameters() is None


def test_embedding_from_pretrained():
    rows = tt.tensor([[1.0, 2.0], [3.0, 4.0]])
    arguments, trained = nn.Embedding.from_pretrained(rows), nn.Embedding.from_pretrained(rows, False, padding_idx=-1)
    assert arguments(tt.tensor([1])).tolist() == [[3, 4]]
    assert not arguments.weight.requires_grad and trained.weight.requires_grad
    assert (arguments.padding_idx, trained.padding_idx) == (None, 1)
    assert nn.Embedding(5, 4, padding_idx=1, device="meta").weight.shape == (5, 4)


def test_settings_of_layers():
    assert nn.Threshold(0.1, 20.0)(tt.tensor([0.1, 0.2])).tolist() == pytest.approx([20, 0.2])
    assert nn.PReLU(3).num_parameters == 3
    assert nn.BatchNorm1d(3, bias=False).bias is None
    x = tt.arange(12.0).reshape(1, 6, 2)
    x.requires_grad = True
    grouped = x.detach().numpy().reshape(1, 2, 6)
    expected = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 0.5)
    norm = nn.GroupNorm(2, 6, eps=0.5)
    np.testing.assert_allclose(norm(x).detach().numpy(), expected.reshape(1, 6, 2), rtol=1e-5)
    assert (norm.num_channels, norm.affine) == (6, True)
    inside = nn.Conv1d(1, 1, (3,), (3,), padding="valid", bias=False)
    nn.init.ones_(inside.weight)
    assert inside(tt.arange(6.0).reshape(1, 6)).tolist() == [[3, 12]]


def test_recurrent_and_transformer_shapes():
    for category in (nn.RNN, nn.GRU):
        assert category(3, 4)(tt.ones(2, 3))[1].shape == (1, 4)
        assert category(3, 4, batch_first=True)(tt.ones(2, 3))[0].shape == (2, 4)
    assert nn.GRUCell(3, 4)(tt.ones(3)).shape == (4,) and nn.RNNCell(3, 0)(tt.ones(2, 3)).shape == (2, 0)
    assert [h.shape for h in nn.LSTM(3, 5)(tt.ones(2, 3))[1]] == [(1, 5), (1, 5)]
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation=F.silu)
    assert layer.activation is F.silu
    encoder = nn.TransformerEncoder(layer, 2)
    assert encoder.num_layers == 2
    x = samples.numbers(tt, "x", 3, 4, dtype=tt.float32)
    assert encoder(x).tolist() == layer(layer(x)).tolist()  # without a norm after them
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1)
    whole = nn.Transformer(4, 2, 1, 1, 8, custom_encoder=encoder, custom_decoder=decoder)
    assert whole.encoder is encoder and whole.decoder is decoder


def test_transformer_matrices_start_with_xavier():
    tt.manual_seed(0)
    matrices = [p for p in nn.Transformer(16, 2, 1, 1, 12).parameters() if p.ndim > 1]
    assert len(matrices) == 10  # the largest of 192 numbers and more comes close to the bound
    for p in matrices:
        assert 0.9 < p.abs().max() / math.sqrt(6 / sum(p.shape)) <= 1


def test_losses_of_zero_and_one_class():
    nothing, none = tt.zeros(2, 0, 0), tt.zeros(2, 0, dtype=tt.int64)
    assert F.cross_entropy(nothing, none, reduction="sum").item() == 0
    one, ignored = tt.tensor([[-1.0]]), tt.tensor([-100])
    assert F.nll_loss(one, ignored, reduction="sum").item() == 0
    assert F.cross_entropy(one, ignored, tt.ones(1), reduction="sum").item() == 0
    assert F.nll_loss(tt.tensor([-1.0, -2.0]), tt.tensor(1)).item() == 2
    impossible = tt.tensor([[0.0, -math.inf]])
    assert F.cross_entropy(impossible, tt.tensor([0]), tt.ones(2)).item() == 0
    with pytest.raises(RuntimeError, match="there are 2 classes"):
        F.cross_entropy(impossible, tt.tensor([0]), tt.ones(3))
    with pytest.raises(TypeError, match="ignore_index"):
        F.cross_entropy(impossible, tt.tensor([0]), ignore_index=1.5)


def test_losses_of_distances():
    anchor, near, far = (tt.tensor([[n]]) for n in (0.0, 1.0, 1.5))
    assert F.triplet_margin_loss(anchor, near, far).item() == pytest.approx(0.5)
    assert F.triplet_margin_loss(anchor, near, far, swap=True).item() == pytest.approx(1.5)
    assert F.pairwise_distance(tt.zeros(2, 2, 3), tt.ones(2, 2, 3)).shape == (2, 2)
    x, z = tt.tensor([3, 4]), tt.tensor([[4.0, 3.0]], dtype=tt.float64)
    assert F.cosine_similarity(x, z).tolist() == pytest.approx([0.96])
    assert F.cosine_similarity(x.float(), z).dtype is tt.float64
    assert F.cosine_embedding_loss(x.double(), z[0], tt.tensor(1)).item() == pytest.approx(0.04)
    for pair in ((tt.zeros(1, 2), tt.ones(1, 2)), (tt.ones(1, 2), tt.zeros(1, 2))):
        assert F.cosine_embedding_loss(*pair, tt.tensor([1])).item() == 1


def test_losses_of_probabilities_and_of_two_dtypes():
    with pytest.raises(RuntimeError, match="probabilities between 0 and 1"):
        F.binary_cross_entropy(tt.tensor([2.0]), tt.tensor([1.0]))
    with pytest.warns(UserWarning, match="broadcast"):
        assert F.mse_loss(tt.tensor(1.0, dtype=tt.float64), tt.ones(2)).dtype is tt.float64


@pytest.mark.parametrize(
    ("fill", "variance"),
    [
        (lambda w: nn.init.xavier_uniform_(w, gain=2.0), 4 * 2 / 150),
        (nn.init.xavier_normal_, 2 / 150),
        (nn.init.kaiming_uniform_, 2 / 100),
        (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), 1 / 300),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), 2 / 50),
        (lambda w: nn.init.normal_(w, mean=0.0, std=0.02), 0.0004),
        (lambda w: nn.init.uniform_(w, -3, 3), 3.0),
        (lambda w: nn.init.constant_(w, 2.0), 4.0),
        (nn.init.ones_, 1.0),
        (nn.init.zeros_, 0.0),
    ],
)
def test_init_has_its_variance(fill, variance):
    tt.manual_seed(0)
    w = nn.Parameter(tt.empty(50, 100, dtype=tt.float64))
    assert fill(w) is w and w.is_leaf and w.requires_grad
    # kurtosis of a normal: Var x^2 = 2 sigma^4, more than that of a uniform; 5000 values, five deviations
    assert (w * w).mean().item() == pytest.approx(variance, rel=5 * math.sqrt(2 / 5000))


def density(z: np.ndarray, low: float) -> np.ndarray:
    """Of the standard normal distribution, times a constant that keeps it from underflowing beyond `low`."""
    return np.exp((low**2 - z**2) / 2)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(
    ("std", "low", "high"),
    [
        (2.0, -0.5, 1.5),
        (1.0, -3.0, 0.0),
        (1.0, -0.01, 0.01),
        (1.0, 4.0, 4.1),
        (0.5, 5.0, math.inf),
        (1.0, 20.0, 25.0),
        (1.0, 36.9, 37.1),
        (0.02, 37.1, 37.2),
        (0.02, 50.0, 100.0),
        (1.0, 1e5, math.inf),
    ],
)
def test_trunc_normal(std, low, high, side):
    """Mean and deviation within 5 deviations of theirs, by a sum over the density between the bounds, in units of std.

    The bounds are in units of std from the mean; 20 beyond the nearer one (and 20 / low, where that is far) nothing is.
    """
    tt.manual_seed(0)
    near = max(low, 0.0)
    z = np.linspace(low, min(high, near + 20 / max(near, 1)), 200_001)
    p = density(z, near) / density(z, near).sum()
    mean = (p * z).sum()
    deviation, kurtosis = ((p * (z - mean) ** n).sum() ** (1 / n) for n in (2, 4))
    mu, n = 0.0 if low > 1000 else 3.0, 10_000
    a, b = sorted((mu + side * std * low, mu + side * std * high))
    w = tt.empty(n, dtype=tt.float64)
    assert nn.init.trunc_normal_(w, mu, std, a, b) is w and a <= w.min() and w.max() <= b
    drawn = side * (w.numpy() - mu) / std
    assert abs(drawn.mean() - mean) < 5 * deviation / math.sqrt(n)
    assert abs(drawn.var() - deviation**2) < 5 * kurtosis**2 / math.sqrt(n)
    assert len(np.unique(drawn)) > 0.9 * n or low == 1e5  # where float64 has few numbers


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ((0.0, 1.0, 2.0, 2.0), 2.0),
        ((1.0, 0.0, 0.0, 3.0), 1.0),
        ((1.0, 0.0, 2.0, 3.0), 2.0),
        ((9.0, 0.0, 2.0, 3.0), 3.0),
        ((0.0, 1e-300, 2.0, 3.0), 2.0),
        ((0.0, 5e-324, -3.0, -2.0), -2.0),
    ],
)
def test_trunc_normal_of_one_number(arguments, number):
    w = nn.Parameter(tt.empty(3))
    assert nn.init.trunc_normal_(w, *arguments).tolist() == [number] * 3 and w.is_leaf


REFUSED_BY_INIT = [  # (call, the error, its sentence); empty tensors too
    (lambda w: nn.init.trunc_normal_(w, 0.0, 1.0, 2.0, 1.0), ValueError, "a 2.0, b 1.0, .*: expected a <= b"),
    (lambda w: nn.init.trunc_normal_(w, std=-1.0), ValueError, "std -1.0: expected"),
    (lambda w: nn.init.trunc_normal_(w, math.nan), ValueError, "mean nan"),
    (lambda w: nn.init.trunc_normal_(w, a=math.nan), ValueError, "a nan"),
    (lambda w: nn.init.trunc_normal_(w, std=math.inf), ValueError, "std inf"),
    (lambda w: nn.init.trunc_normal_(w.long()), RuntimeError, "expected a floating-point tensor, got int64"),
    (lambda w: nn.init.uniform_(w, 2.0, 1.0), RuntimeError, "from 2.0 to 1.0: expected two numbers of float32"),
    (lambda w: nn.init.uniform_(w.long()), RuntimeError, "expected a floating-point tensor, got int64"),
    (lambda w: nn.init.uniform_(w, "a"), TypeError, "uniform_: low is 'a'; expected a number"),
    (lambda w: nn.init.uniform_(w.tolist()), TypeError, r"uniform_: tensor is \[.*; expected a tensor"),
    (lambda w: nn.init.normal_(w, 0.0, -1.0), RuntimeError, "std of 0 or more, got -1.0"),
    (lambda w: nn.init.constant_(w, "a"), TypeError, "expected a tensor or a number, got 'a'"),
    (lambda w: nn.init.xavier_uniform_(w, -1.0), RuntimeError, "from 1.* to -1.*: expected two numbers"),
    (lambda w: nn.init.xavier_normal_(w, -1.0), RuntimeError, "std of 0 or more, got -0.7"),
    (lambda w: nn.init.xavier_normal_(w, "a"), TypeError, "xavier_normal_: gain is 'a'; expected a number"),
    (lambda w: nn.init.kaiming_normal_(w, "a"), ValueError, "a number for the slope of leaky_relu, got 'a'"),
    (lambda w: nn.init.kaiming_uniform_(w, True), ValueError, "a number for the slope of leaky_relu, got True"),
    (lambda w: nn.init.kaiming_uniform_(w[0]), ValueError, "need at least 2 dimensions"),
    (lambda w: nn.init.orthogonal_(w[0]), ValueError, r"orthogonal_: expected 2 dimensions or more, got shape \(2,\)"),
    (lambda w: nn.init.calculate_gain("leaky_relu", "a"), ValueError, "a number for the slope of leaky_relu, got 'a'"),
    (lambda w: nn.init.calculate_gain("gelu"), ValueError, "expected one of .*, got 'gelu'"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), REFUSED_BY_INIT)
def test_init_refuses(call, error, sentence):
    w = tt.ones(2, 2)
    with pytest.raises(error, match=sentence):
        call(w)
    assert w.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("name", ["kaiming_normal", "kaiming_uniform", "xavier_normal", "xavier_uniform", "orthogonal"])
def test_init_of_no_numbers(name):
    for shape in ((2, 0), (0, 2), (0, 0)):
        assert getattr(nn.init, f"{name}_")(tt.empty(shape)).shape == shape


def test_init_of_kernels():
    """What an output is a sum of are all places of all channels."""
    tt.manual_seed(0)
    for mode, fan in (("fan_in", 300), ("fan_out", 200)):
        w = nn.init.kaiming_normal_(tt.empty(20, 30, 5, 2), mode=mode, nonlinearity="relu")
        assert (w * w).mean().item() == pytest.approx(2 / fan, rel=5 * math.sqrt(2 / 6000))


def test_gains_are_pytorchs():
    said = {"linear": 1, "sigmoid": 1, "tanh": 1.6667, "relu": 1.4142, "selu": 0.75, "leaky_relu": 1.41414}
    assert {name: nn.init.calculate_gain(name) for name in said} == pytest.approx(said, rel=5e-5)
    assert nn.init.calculate_gain("leaky_relu", 1) == nn.init.calculate_gain("conv_transpose2d") == 1


@pytest.mark.parametrize(
    "category", ["normal", "uniform", "trunc_normal", "xavier_uniform", "xavier_normal", "orthogonal"]
)
def test_init_of_shapes_without_values(category):
    V, D = sympy.symbols("V D", positive=True, integer=True)
    w = tt.empty(V, D, device="meta")
    assert getattr(nn.init, f"{category}_")(w) is w
    assert nn.init.kaiming_uniform_(w) is w and nn.init.kaiming_normal_(w) is w


# --- Shapes without data


class Small(nn.Module):
    def __init__(self, V, D, F_, H, C, **where):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, D, **where), nn.Embedding(C, D, **where)
        self.attention = nn.MultiheadAttention(D, H, batch_first=True, **where)
        self.norm = nn.LayerNorm(D, **where)
        self.ff = nn.Sequential(nn.Linear(D, F_, **where), nn.GELU(), nn.Linear(F_, D, **where))
        self.out = nn.Linear(D, V, bias=False, **where)

    def forward(self, x):
        y = self.tokens(x) + self.positions(tt.arange(x.shape[1], device=x.device))
        y = y + self.attention(y, y, y, need_weights=False)[0]
        return self.out(y + self.ff(self.norm(y))).log_softmax(-1)


def test_meta_module_with_symbols_counts():
    V, D, F_, C = sympy.symbols("V D F C", positive=True, integer=True)
    m = nn.Sequential(
        nn.Embedding(V, D, device="meta"),
        nn.Embedding(C, D, device="meta"),
        nn.LayerNorm(D, device="meta"),
        nn.Linear(D, F_, device="meta"),
        nn.MultiheadAttention(4 * D, 4, device="meta"),
    )
    attention = 12 * D * 4 * D + 12 * D + 4 * D * 4 * D + 4 * D
    assert sympy.expand(m.num_parameters() - (V * D + C * D + 2 * D + F_ * D + F_ + attention)) == 0
    assert m[3].weight.shape == (F_, D)
    with pytest.raises(RuntimeError, match=r"linear: a meta tensor has a shape .*, but no values"):
        m[3](tt.empty(2, D, device="meta"))


def test_meta_module_with_numbers():
    sizes = {"V": 11, "D": 8, "F_": 12, "H": 2, "C": 5}
    m = Small(**sizes, device="meta")
    assert m.num_parameters() == Small(**sizes).num_parameters()
    with pytest.raises(RuntimeError, match="no values"):
        m(tt.zeros(3, 4, dtype=tt.int64))
    with pytest.raises(RuntimeError, match="no values"):
        m.out.weight.tolist()
    with pytest.raises(RuntimeError, match="shapes only, and no memory to copy values into"):
        m.load_state_dict(Small(**sizes).state_dict())


def test_symbols_need_meta():
    with pytest.raises(TypeError, match="symbols need device='meta'"):
        nn.Linear(sympy.Symbol("D"), 2)


def test_modules_move_to_a_dtype_and_refuse_a_device():
    m = nn.Linear(2, 2)
    w = m.weight
    assert m.to("cpu") is m and m.to(tt.float64).weight is w and w.dtype == tt.float64
    assert m.float().weight.dtype == tt.float32 and m.cpu() is m
    with pytest.raises(RuntimeError, match="'cuda' is not available"):
        m.to("cuda")


@pytest.mark.parametrize(
    "change", [lambda m: m.double(), lambda m: m.to(tt.float64), lambda m: m.to(tt.ones(1).double())]
)
def test_conversion_replaces_buffers(change):
    """A tensor may be a buffer of several modules, and the user's own: these keep it."""
    shared = tt.ones(2)
    shared.grad = tt.ones(2)
    m, other = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    m.running_mean = other.running_mean = shared
    m.register_buffer("passing", shared, persistent=False)
    m.own, count, weight = nn.Buffer(tt.zeros(2)), m.num_batches_tracked, m.weight
    assert change(m) is m and {t.dtype for t in (m.running_mean, m.passing, m.own, m.weight)} == {tt.float64}
    assert other.running_mean is shared and shared.dtype == shared.grad.dtype == tt.float32
    assert m.weight is weight and m.num_batches_tracked is count and "passing" not in m.state_dict()
    other(tt.ones(2, 2))
    assert m.running_mean.tolist() == [1, 1] and shared.dtype == tt.float32
    kept = m.running_mean
    assert change(m).running_mean is kept  # nothing to convert


def test_linear_with_relu():
    """One operation gives what the two give one after the other, and so do its gradients, first and second."""
    for bias in (None, tt.tensor([0.5, -0.25])):
        x = tt.tensor([[1.0, -2.0, 3.0], [-1.0, 0.5, 2.0]], dtype=tt.float32, requires_grad=True)
        w = tt.tensor([[0.5, 1.0, -1.0], [2.0, -1.0, 0.25]], requires_grad=True)
        first, second = (_derivatives(y, x, w) for y in (F.linear(x, w, bias, relu=True), F.linear(x, w, bias).relu()))
        assert first == pytest.approx(second) and any(first)


def _derivatives(y, x, w) -> list[float]:
    """y, and its square's gradients, first and second, in one list."""
    gx, gw = tt.autograd.grad((y * y).sum(), (x, w), create_graph=True)
    (second,) = tt.autograd.grad((gx * gx).sum(), w)
    return [value for part in (y, gx, gw, second) for value in part.flatten().tolist()]


# --- Before forward; normalised weights


def test_hooks_before_forward():
    m, seen = nn.Linear(2, 2), []
    look = m.register_forward_pre_hook(lambda module, args: seen.append((module is m, args[0].shape)))
    double = m.register_forward_pre_hook(lambda module, args: args[0] * 2)
    with_tuple = m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    x = tt.ones(3, 2)
    assert m(x).tolist() == F.linear(x * 2 + 1, m.weight, m.bias).tolist() and seen == [(True, (3, 2))]
    look.remove()
    double.remove()
    with_tuple.remove()
    assert m(x).tolist() == F.linear(x, m.weight, m.bias).tolist() and len(seen) == 1


def test_a_handle_removes_its_hook_at_the_end_of_a_block():
    m, x = nn.Linear(2, 2), tt.ones(1, 2, requires_grad=True)
    seen = []
    registers = [
        m.register_forward_hook,
        m.register_forward_pre_hook,
        m.register_full_backward_hook,
        m.register_full_backward_pre_hook,
        x.register_hook,
        x.register_post_accumulate_grad_hook,
    ]
    for register in registers:
        with register(lambda *args: seen.append(1)) as handle:
            m(x).sum().backward()
        m(x).sum().backward()
        assert seen == [1], register
        handle.remove()  # once more does no harm
        seen.clear()
    with pytest.raises(ZeroDivisionError), m.register_forward_hook(lambda *args: 1 / 0):
        m(x)
    m(x)


@pytest.mark.parametrize(
    ("register", "sentence"),
    [
        (
            lambda m: m.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True),
            r"register_forward_pre_hook: .* None or a tuple \(args, kwargs\), got tuple",
        ),
        (
            lambda m: m.register_full_backward_hook(lambda m, grad_input, grad_output: (*grad_input, *grad_input)),
            "register_full_backward_hook: a hook of Linear returned 2 gradients, expected 1",
        ),
        (
            lambda m: m.register_full_backward_pre_hook(lambda m, grad_output: ()),
            "register_full_backward_pre_hook: a hook of Linear returned 0 gradients, expected 1",
        ),
    ],
)
def test_hooks_are_refused(register, sentence):
    m, x = nn.Linear(2, 2), tt.ones(1, 2, requires_grad=True)
    register(m)
    with pytest.raises(RuntimeError, match=sentence):
        m(x).sum().backward()


def test_a_backward_hook_without_a_gradient_of_an_input():
    m, seen = nn.Linear(2, 2), []
    m.register_full_backward_pre_hook(lambda m, grad_output: seen.append(grad_output[0].tolist()))
    m(tt.ones(1, 2)).sum().backward()
    assert seen == [[[1.0, 1.0]]] and m.weight.grad.tolist() == [[1.0, 1.0]] * 2
    m.register_full_backward_hook(lambda m, grad_input, grad_output: grad_output)
    with pytest.raises(RuntimeError, match="no input of Linear requires grad, so a hook has no gradient to replace"):
        m(tt.ones(1, 2)).sum().backward()


def test_forward_pre_hook_is_guarded():
    m = nn.Linear(2, 2)
    step = tt.compile(lambda x: m(x).detach())
    x = tt.ones(3, 2)
    before = [step(x).tolist() for _ in range(3)]
    handle = m.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    assert step(x).tolist() == F.linear(x * 2, m.weight, m.bias).tolist() != before[0]
    handle.remove()
    assert step(x).tolist() == before[0] == before[2]


@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 4), lambda: nn.Conv1d(2, 3, 2, padding=1)])
def test_weight_norm(dim, make):
    m = make()
    w, x = m.weight.detach().clone(), tt.rand(2, 3, 3) if isinstance(m, nn.Linear) else tt.rand(2, 2, 5)
    expected = m(x)
    assert nn.utils.weight_norm(m, dim=dim) is m
    np.testing.assert_allclose(m.weight.detach().numpy(), w.numpy(), rtol=1e-6)  # before it is called, too
    assert [name for name, _ in m.named_parameters()] == ["bias", "weight_g", "weight_v"]
    alone = dim in (None, -1)
    rest = tuple(d for d in range(w.ndim) if not alone and d != dim)
    length = np.sqrt((w.numpy() ** 2).sum(rest or None, keepdims=not alone))
    np.testing.assert_allclose(m.weight_g.detach().numpy(), length, rtol=1e-6)
    np.testing.assert_allclose(m(x).detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)

    # The length alone decides how long a weight is, the direction alone where it points.
    with tt.no_grad():
        m.weight_g.mul_(3)
        m.weight_v.mul_(5)
    m(x).square().sum().backward()
    np.testing.assert_allclose(m.weight.detach().numpy(), 3 * w.numpy(), rtol=1e-5)
    along = (m.weight_v.grad * m.weight_v).detach().numpy().sum(rest or None)
    np.testing.assert_allclose(along, 0, atol=1e-3 * np.abs(m.weight_g.grad.numpy()).max())

    assert nn.utils.remove_weight_norm(m) is m and isinstance(m.weight, nn.Parameter)
    assert sorted(name for name, _ in m.named_parameters()) == ["bias", "weight"]
    np.testing.assert_allclose(m.weight.detach().numpy(), 3 * w.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match=r"remove_weight_norm: 'weight' of (Linear|Conv1d) has no weight_norm"):
        nn.utils.remove_weight_norm(m)
    with pytest.raises(TypeError, match="expected a parameter under 'training', got bool"):
        nn.utils.weight_norm(m, "training")


def test_weight_norm_of_one_of_several_weights():
    m, slopes = nn.GRUCell(2, 3), nn.PReLU(3)
    m.register_forward_pre_hook(lambda module, args: None)
    nn.utils.weight_norm(m, "weight_ih")
    nn.utils.weight_norm(m, "weight_hh")
    nn.utils.remove_weight_norm(m, "weight_hh")
    assert m(tt.ones(1, 2)).shape == (1, 3) and m.weight_hh.shape == (9, 3)
    assert {n for n, _ in m.named_parameters()} == {"weight_ih_g", "weight_ih_v", "weight_hh", "bias_ih", "bias_hh"}
    assert nn.utils.weight_norm(slopes).weight_g.tolist() == [0.25] * 3


def test_total_norm_of_an_iterator():
    assert nn.utils.get_total_norm(t for t in (tt.tensor([3.0]), tt.tensor([4.0]))).item() == 5
    assert nn.utils.get_total_norm(iter(())).item() == 0


def test_parameters_as_one_vector():
    three = [tt.zeros(n) for n in (1, 2, 1)]
    nn.utils.vector_to_parameters(tt.arange(4.0), three)
    assert [t.tolist() for t in three] == [[0], [1, 2], [3]]
    m = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(m.parameters())
    assert vector.requires_grad and vector.tolist() == [*m.weight.reshape(-1).tolist(), *m.bias.tolist()]
    nn.utils.vector_to_parameters(tt.arange(8.0), m.parameters())
    assert m.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and m.bias.tolist() == [6, 7]
    with pytest.raises(ValueError, match=r"expected a vector of 8 elements, got shape \(9,\)"):
        nn.utils.vector_to_parameters(tt.zeros(9), m.parameters())


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_dim_follows_pytorch(name):
    for shape, dim in (((3,), 0), ((3, 2), 1), ((3, 2, 4), 0), ((3, 2, 4, 2), 1)):
        x = tt.arange(math.prod(shape), dtype=tt.float32).reshape(shape).sin()
        with pytest.warns(UserWarning, match=f"say along which dimension; without dim it is {dim} of {len(shape)}"):
            result = getattr(F, name)(x)
        assert result.tolist() == getattr(F, name)(x, dim).tolist()


def test_threshold_of_nan():
    x = tt.tensor([math.nan, 1.0, -1.0, math.inf], requires_grad=True)
    y = F.threshold(x, 0.1, -2.0)
    y.sum().backward()
    assert np.array_equal(y.detach().numpy(), [math.nan, 1.0, -2.0, math.inf], equal_nan=True)
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 1.0]
    assert F.threshold(tt.tensor([1.0, -1.0]), math.nan, -2.0).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("dtype", [tt.bool, tt.int64, tt.float32])
def test_dropout_with_p_1_keeps_the_dtype(dtype):
    x = tt.ones(3).to(dtype)
    y = F.dropout(x, 1.0)
    assert y.dtype is x.dtype and not y.any() and x.all()
    assert F.dropout(x, 1.0, inplace=True) is x and not x.any()


def test_attention_stores_weights_only_if_needed(monkeypatch):
    x, mask = tt.ones(2, 3, 4), tt.ones(3, 3) > 0
    monkeypatch.setattr(F, "attention_weights", lambda *args: pytest.fail("the weights are stored"))
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
        assert F.scaled_dot_product_attention(x, x, x, **options).tolist() == x.tolist()
    for options in ({"dropout_p": 0.5}, {"attn_mask": mask.float()}):
        with pytest.raises(pytest.fail.Exception, match="the weights are stored"):
            F.scaled_dot_product_attention(x, x, x, **options)


def test_causal_weights_of_more_keys_than_queries():
    q, k = samples.numbers(tt, "q", 3, 2), samples.numbers(tt, "k", 5, 2)
    weights = F.attention_weights(q, k, is_causal=True)
    expected = F.scaled_dot_product_attention(q, k, tt.eye(5, dtype=tt.float64), is_causal=True)
    np.testing.assert_allclose(weights.numpy(), expected.numpy(), rtol=1e-14)
    assert ((weights > 0).numpy() == np.tri(3, 5, dtype=bool)).all()


def test_attention_scaled_by_a_negative_number():
    """The causal mask hides what is hidden, whatever the scale: softmax of the scores that are left, by hand."""
    q, k, v = (samples.numbers(tt, name, 3, 2) for name in "qkv")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=-7.0).numpy()
    q, k, v = q.numpy(), k.numpy(), v.numpy()
    for i in range(3):
        weights = np.exp(-7.0 * (k[: i + 1] @ q[i]))
        np.testing.assert_allclose(y[i], weights @ v[: i + 1] / weights.sum(), rtol=1e-5)


@pytest.mark.parametrize("norm_type", ["inf", tt.inf, 1, 2, 2.5])
def test_clipping_takes_any_norm(norm_type):
    p = tt.zeros(3, requires_grad=True)
    p.grad = tt.tensor([3.0, -4.0, 0.0])
    total = tt.nn.utils.clip_grad_norm_([p], 1.0, norm_type=norm_type)
    assert total.item() == pytest.approx(tt.tensor([3.0, -4.0, 0.0]).norm(float(norm_type)).item())
    assert p.grad.norm(float(norm_type)).item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("older", "reduction"),
    [
        ({"size_average": False}, "sum"),
        ({"size_average": True}, "mean"),
        ({"reduce": False}, "none"),
        ({"reduce": False, "size_average": False}, "none"),
        ({"reduce": True, "size_average": False}, "sum"),
    ],
)
def test_size_average_and_reduce(older, reduction):
    """PyTorch still accepts them, with a warning; None counts as not given."""
    x, t = tt.tensor([1.0, 4.0]), tt.tensor([0.0, 2.0])
    expected = F.mse_loss(x, t, reduction=reduction).tolist()
    with pytest.warns(UserWarning, match=rf"mse_loss: instead of .* give reduction='{reduction}'"):
        assert F.mse_loss(x, t, **older).tolist() == expected
    with pytest.warns(UserWarning, match=rf"MSELoss: instead of .* give reduction='{reduction}'"):
        assert nn.MSELoss(**older)(x, t).tolist() == expected
    assert F.mse_loss(x, t, size_average=None, reduce=None).item() == F.mse_loss(x, t).item()
    with pytest.raises(TypeError):
        F.relu(x, size_average=False)


# --- Extra state


class Counting(nn.Module):
    """A module that keeps a number which is no tensor."""

    def __init__(self, count: int = 0):
        super().__init__()
        self.count = count

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def test_extra_state_is_saved_and_loaded():
    saved, fresh = nn.Sequential(nn.Linear(1, 1), Counting(7)), nn.Sequential(nn.Linear(1, 1), Counting())
    assert list(saved.state_dict()) == ["0.weight", "0.bias", "1._extra_state"]
    fresh.load_state_dict(saved.state_dict())
    assert fresh[1].count == 7
    state = saved.state_dict()
    del state["1._extra_state"]
    with pytest.raises(RuntimeError, match=r"1\._extra_state"):
        fresh.load_state_dict(state)
    missing, unexpected = fresh.load_state_dict(state, strict=False)
    assert (list(missing), list(unexpected), fresh[1].count) == (["1._extra_state"], [], 7)
