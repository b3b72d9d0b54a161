"""Recurrent layers, composed of other operations: RNN, LSTM and GRU, and their single steps as cells.

Names, shapes and the order of the gates are PyTorch's, so that its weights can be loaded.
"""

import math
from typing import ClassVar

from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional as F
from tinytensor.nn import init
from tinytensor.nn.module import Module, Parameter, check_layers
from tinytensor.nn.utils.rnn import PackedSequence, sizes_of
from tinytensor.ops.creation import empty, zeros
from tinytensor.ops.elementwise import relu, sigmoid, tanh
from tinytensor.ops.fused import linear
from tinytensor.ops.index import index_select
from tinytensor.ops.shape import cat, chunk, stack, transpose

# --- One step of each kind


class _Steps:
    """A kind of step: the number of its gates, the number of its state tensors, and `_step`.

    A step gets the projected input x = w_ih input + b_ih (N, G H), the state before it (a tuple of tensors (N, H)), and
    w_hh and b_hh. It returns the state after it, whose first tensor is the output.
    """

    gates, states = 1, 1

    def _step(self, x: Tensor, state: tuple, weight: Tensor, bias: Tensor | None) -> tuple:
        raise NotImplementedError


class _PlainSteps(_Steps):
    r"""h' = \tanh(x + w_{hh} h + b_{hh}), or with relu."""

    activations: ClassVar = {"tanh": tanh, "relu": relu}

    def _choose(self, nonlinearity: str) -> None:
        if nonlinearity not in self.activations:
            raise ValueError(f"{type(self).__name__}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def _step(self, x, state, weight, bias):
        return (self.activations[self.nonlinearity](x + linear(state[0], weight, bias)),)


class _LSTMSteps(_Steps):
    r"""c' = \sigma(f) c + \sigma(i) \tanh g and h' = \sigma(o) \tanh c'."""

    gates, states = 4, 2

    def _step(self, x, state, weight, bias):
        h, c = state
        i, f, g, o = chunk(x + linear(h, weight, bias), 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c


class _GRUSteps(_Steps):
    r"""h' = n + z (h - n) with n = \tanh(x_n + \sigma(r) (w_n h + b_n)) and z = \sigma(x_z + w_z h + b_z)."""

    gates = 3

    def _step(self, x, state, weight, bias):
        (h,) = state
        (xr, xz, xn), (hr, hz, hn) = chunk(x, 3, -1), chunk(linear(h, weight, bias), 3, -1)
        n = tanh(xn + sigmoid(xr + hr) * hn)
        return (n + sigmoid(xz + hz) * (h - n),)


def _uniform(module: Module) -> None:
    """Initialise all parameters uniformly on +-1/sqrt(H)."""
    bound = 1 / math.sqrt(module.hidden_size) if module.hidden_size else 0
    for p in module.parameters():
        init.uniform_(p, -bound, bound)


# --- Cells


class _Cell(_Steps, Module):
    """One step: input (N, in) or (in), state (N, H) or (H)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows, where = self.gates * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty(rows, input_size, **where))
        self.weight_hh = Parameter(empty(rows, hidden_size, **where))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, **where)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _uniform(self)

    def forward(self, input: Tensor, hx=None):
        what = type(self).__name__
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{what}: input of shape {input.shape}, expected (N, {self.input_size}) or ({self.input_size},)"
            )
        expected = (*input.shape[:-1], self.hidden_size)
        state = _state(what, hx, self.states, expected, input)
        state = self._step(linear(input, self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh)
        return state if self.states > 1 else state[0]

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


def _state(what: str, hx, states: int, expected: tuple, like: Tensor) -> tuple[Tensor, ...]:
    """The state to start from, as a tuple: zeros unless it is given."""
    if hx is None:
        return tuple(zeros(expected, dtype=like.dtype) for _ in range(states))
    states_passed = tuple(hx) if states > 1 and isinstance(hx, tuple | list) else (hx,)
    names = "a tuple (h, c) of tensors" if states > 1 else "a tensor h"
    if len(states_passed) != states or not all(isinstance(h, Tensor) for h in states_passed):
        raise TypeError(f"{what}: the state must be {names}, got {type(hx).__name__}")
    for h in states_passed:
        if h.shape != expected:
            raise RuntimeError(f"{what}: a state of shape {h.shape}, expected {expected} for input {like.shape}")
    return states_passed


class RNNCell(_PlainSteps, _Cell):
    """h' = tanh(w_ih x + b_ih + w_hh h + b_hh), or with relu."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self._choose(nonlinearity)


class LSTMCell(_LSTMSteps, _Cell):
    """(h', c') from (h, c); the gates are in the order i, f, g, o."""


class GRUCell(_GRUSteps, _Cell):
    """h' between h and a new state n; the gates are in the order r, z, n."""


# --- Layers


class _Recurrent(_Steps, Module):
    """Layers of steps over a sequence: y (L, N, D H) and the last state (D layers, N, H), D = 2 if bidirectional.

    input (L, N, in), or (N, L, in) if `batch_first`, or (L, in) without a batch; the states' shapes do not depend on
    `batch_first`. While training, `dropout` acts on the output of every layer except the last. A PackedSequence gives y
    as a PackedSequence, and the last state of each sequence at its own end, in the original order of the sequences.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        what = type(self).__name__
        if proj_size:
            raise NotImplementedError(f"{what}: proj_size is not offered; put a Linear behind the layer")
        if hidden_size < 1 or num_layers < 1:
            raise ValueError(f"{what}: hidden_size {hidden_size} and num_layers {num_layers} must be at least 1")
        check_layers(what, num_layers)
        if not 0 <= dropout <= 1:
            raise ValueError(f"{what}: dropout must be a probability between 0 and 1, got {dropout}")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        rows = self.gates * hidden_size
        for suffix in self._suffixes():
            width = input_size if suffix.startswith("_l0") else hidden_size * (2 if bidirectional else 1)
            shapes = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            for name, shape in shapes.items():
                self.register_parameter(name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _suffixes(self) -> list[str]:
        directions = ("", "_reverse") if self.bidirectional else ("",)
        return [f"_l{layer}{direction}" for layer in range(self.num_layers) for direction in directions]

    def reset_parameters(self) -> None:
        _uniform(self)

    def flatten_parameters(self) -> None:
        """Do nothing; programs for other devices call it."""

    def forward(self, input: Tensor | PackedSequence, hx=None):
        what = type(self).__name__
        if isinstance(input, PackedSequence):
            return self._over_packed(input, hx)
        if not isinstance(input, Tensor):
            raise TypeError(f"{what}: expected a tensor or a PackedSequence, got {type(input).__name__}")
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            shape = "(N, L, {})" if self.batch_first else "(L, N, {})"
            raise RuntimeError(
                f"{what}: input of shape {input.shape}, expected {shape.format(self.input_size)}, or "
                f"(L, {self.input_size}) without a batch"
            )
        turned = self.batch_first and input.ndim == 3
        x = transpose(input, 0, 1) if turned else input  # (L, N, in), or (L, in); shapes below leave out N likewise
        if not x.shape[0]:
            raise RuntimeError(f"{what}: input of shape {input.shape} has no steps")
        x, last = self._layers(x, self._first(hx, x.shape[1:-1], input), None)
        return transpose(x, 0, 1) if turned else x, last if self.states > 1 else last[0]

    def _over_packed(self, packed: PackedSequence, hx):
        """forward() for a PackedSequence."""
        what, x = type(self).__name__, packed.data
        sizes = sizes_of(what, packed)
        if x.ndim != 2 or x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{what}: packed data of shape {x.shape}, expected (sum of the lengths, {self.input_size})"
            )
        first = self._first(hx, (sizes[0],), x)
        if packed.sorted_indices is not None:
            first = tuple(index_select(h, 1, packed.sorted_indices) for h in first)
        x, last = self._layers(x, first, sizes)
        if packed.unsorted_indices is not None:
            last = tuple(index_select(h, 1, packed.unsorted_indices) for h in last)
        return PackedSequence(x, *packed[1:]), last if self.states > 1 else last[0]

    def _first(self, hx, batch: tuple, like: Tensor) -> tuple[Tensor, ...]:
        """The state to start from, (D layers, N, H) for each of its tensors."""
        return _state(type(self).__name__, hx, self.states, (len(self._suffixes()), *batch, self.hidden_size), like)

    def _layers(self, x: Tensor, first: tuple, sizes: list[int] | None) -> tuple[Tensor, tuple]:
        """Run all layers, one after the other: the outputs, and the last state of each layer and direction."""
        suffixes, directions, last = self._suffixes(), 2 if self.bidirectional else 1, []
        for layer in range(self.num_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            sides = []
            for i in range(layer * directions, (layer + 1) * directions):
                y, state = self._run(x, tuple(h[i] for h in first), suffixes[i], sizes)
                sides.append(y)
                last.append(state)
            x = cat(sides, -1) if self.bidirectional else sides[0]  # (L, N, D H)
        return x, tuple(stack(h) for h in zip(*last, strict=True))

    def _run(self, x: Tensor, first: tuple, suffix: str, sizes: list[int] | None) -> tuple[Tensor, tuple]:
        """Run one layer in one direction: the outputs (L, N, H), and the last state.

        With `sizes` x is packed: the first sizes[t] sequences have a step t. Forwards, the state of a sequence is
        stored at its end; backwards, a sequence starts there.
        """
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_ih, w_hh, b_ih, b_hh = (self._parameters.get(name + suffix) for name in names)
        x, backwards = linear(x, w_ih, b_ih), suffix.endswith("_reverse")  # for all steps at once: one large product
        steps = _parts(x, sizes) if sizes else [step[0] for step in _parts(x, [1] * x.shape[0])]
        state, ended, outputs = first, [], []
        if sizes and backwards:
            state = tuple(h[: sizes[-1]] for h in first)
        for step in reversed(steps) if backwards else steps:
            n, before = step.shape[0], state[0].shape[0]
            if sizes and n < before:
                ended.append(tuple(h[n:] for h in state))
                state = tuple(h[:n] for h in state)
            elif sizes and n > before:
                state = tuple(cat([h, f[before:n]]) for h, f in zip(state, first, strict=True))
            state = self._step(step, state, w_hh, b_hh)
            outputs.append(state[0])
        if ended:
            state = tuple(cat(h) for h in zip(state, *reversed(ended), strict=True))
        return (cat if sizes else stack)(outputs[::-1] if backwards else outputs), state

    def extra_repr(self):
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, value in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0)):
            if getattr(self, name) != value:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown + (["bidirectional=True"] if self.bidirectional else []))


def _parts(x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Consecutive parts of x with these numbers of rows, sliced by halving.

    The gradient of a slice is as large as the tensor that was sliced, filled with zeros. L slices of the whole x would
    fill L^2 places; halves of halves fill 2 L log L.
    """
    if len(sizes) == 1:
        return [x]
    half = len(sizes) // 2
    rows = sum(sizes[:half])
    return _parts(x[:rows], sizes[:half]) + _parts(x[rows:], sizes[half:])


class RNN(_PlainSteps, _Recurrent):
    """h' = tanh(w_ih x + b_ih + w_hh h + b_hh), or with relu."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device=None,
        dtype=None,
    ):
        options = {"bias": bias, "batch_first": batch_first, "dropout": dropout, "bidirectional": bidirectional}
        super().__init__(input_size, hidden_size, num_layers, **options, device=device, dtype=dtype)
        self._choose(nonlinearity)


class LSTM(_LSTMSteps, _Recurrent):
    """Long short-term memory; the state is (h, c), and the gates are in the order i, f, g, o.

    From Hochreiter and Schmidhuber (1997).
    """


class GRU(_GRUSteps, _Recurrent):
    """Gated recurrent units; the gates are in the order r, z, n; Cho and others (2014)."""
