"""Layers, losses, optimizers and schedules as programs for `torch` and `tinytensor` alike.

`generate_nn.py` runs them in PyTorch and stores what comes out; the tests run them in tinytensor and compare. Values
come from NumPy's RandomState, whose stream is frozen, seeded by each program's own name.
"""

import math
import zlib

import numpy as np


def numbers(lib, name, *shape, dtype=None):
    """A tensor of a library with values that belong to `name`."""
    u = np.asarray(np.random.RandomState(zlib.crc32(name.encode())).random_sample(shape))
    return lib.tensor((2 * u - 1).tolist(), dtype=dtype or lib.float64).reshape(shape)


def fill(lib, module, name=""):
    """Give every parameter values that belong to its name."""
    with lib.no_grad():
        for key, p in module.named_parameters():
            p.copy_(numbers(lib, f"{name}/{key}", *p.shape))
    return module


# --- Names, order and shapes


def _shared(nn):
    """Modules and a parameter that stand at several places."""
    norm, tied, other = nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
    other.weight = tied.weight
    return nn.Sequential(norm, tied, nn.Sequential(norm, other), tied)


MODULES = {
    "linear": lambda nn: nn.Linear(3, 4),
    "linear without bias": lambda nn: nn.Linear(3, 4, bias=False),
    "embedding": lambda nn: nn.Embedding(5, 4, padding_idx=1),
    "embedding, padding from the end": lambda nn: nn.Embedding(5, 4, padding_idx=-1),
    "embedding with options": lambda nn: nn.Embedding(5, 4, 2, 2.0, 1.0, True),
    "embedding of given rows": lambda nn: nn.Embedding.from_pretrained(nn.Linear(3, 4).weight.detach(), max_norm=1),
    "dropout of channels": lambda nn: nn.Sequential(nn.Dropout1d(0.2), nn.Dropout2d(), nn.Dropout3d(1.0, True)),
    "layer norm": lambda nn: nn.LayerNorm(4),
    "layer norm of two dimensions": lambda nn: nn.LayerNorm((3, 4), eps=1e-3),
    "layer norm without affine": lambda nn: nn.LayerNorm(4, elementwise_affine=False),
    "layer norm without bias": lambda nn: nn.LayerNorm(4, bias=False),
    "rms norm": lambda nn: nn.RMSNorm(4),
    "rms norm without affine": lambda nn: nn.RMSNorm(4, eps=1e-6, elementwise_affine=False),
    "sequential": lambda nn: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)),
    "module list": lambda nn: nn.ModuleList([nn.Linear(2, 3), nn.LayerNorm(3)]),
    "module dict": lambda nn: nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.ModuleDict({"c": nn.Embedding(2, 2)})}),
    "parameter list": lambda nn: nn.ParameterList([nn.Linear(1, 2).weight, nn.Linear(3, 1).bias]),
    "attention": lambda nn: nn.MultiheadAttention(4, 2),
    "attention without bias": lambda nn: nn.MultiheadAttention(4, 2, bias=False),
    "attention with kdim": lambda nn: nn.MultiheadAttention(4, 2, kdim=3),
    "attention with vdim": lambda nn: nn.MultiheadAttention(4, 2, vdim=5),
    "attention with both, without bias": lambda nn: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
    "transformer": lambda nn: nn.Transformer(4, 2, 1, 2, 8, bias=False),
    "encoder": lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2),
    "batch norm": lambda nn: nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3, affine=False)),
    "convolution": lambda nn: nn.Sequential(nn.Conv1d(3, 4, 5, 2, padding=2), nn.Conv1d(4, 2, 1, bias=False)),
    "group norm": lambda nn: nn.Sequential(nn.GroupNorm(2, 6), nn.GroupNorm(3, 6, affine=False), nn.Threshold(0.1, 20)),
    "bilinear": lambda nn: nn.Bilinear(2, 3, 4),
    "rnn": lambda nn: nn.RNN(3, 4, 2, "relu"),
    "lstm": lambda nn: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "gru": lambda nn: nn.GRU(3, 4, 2, False, True, 0.5),
    "cells": lambda nn: nn.ModuleList([nn.RNNCell(3, 4), nn.LSTMCell(3, 4, bias=False), nn.GRUCell(3, 4)]),
    "activations": lambda nn: nn.Sequential(nn.LeakyReLU(0.2, True), nn.ELU(), nn.PReLU(3), nn.Softplus(), nn.ReLU6()),
    "loss with weights": lambda nn: nn.CrossEntropyLoss(weight=nn.Linear(3, 1).weight[0].detach()),
    "loss of margins with weights": lambda nn: nn.MultiMarginLoss(weight=nn.Linear(3, 1).weight[0].detach()),
    "loss with weights of positives": lambda nn: nn.BCEWithLogitsLoss(pos_weight=nn.Linear(3, 1).weight[0].detach()),
    "weight norm": lambda nn: nn.utils.weight_norm(nn.Linear(3, 4)),
    "weight norm of all": lambda nn: nn.utils.weight_norm(nn.Conv1d(2, 3, 4), dim=-1),
    "weight norm from the end": lambda nn: nn.utils.weight_norm(nn.Conv1d(2, 3, 4), dim=-2),
    "dictionary of pairs": lambda nn: nn.ModuleDict([("a", nn.Linear(2, 3)), ["b", nn.LayerNorm(3)]]),
    "shared parts": _shared,
    "a tree": lambda nn: nn.Sequential(
        nn.Embedding(7, 4),
        nn.ModuleList([nn.Sequential(nn.LayerNorm(4), nn.MultiheadAttention(4, 2)) for _ in range(2)]),
        nn.Linear(4, 7, bias=False),
    ),
}

REPRS = ("linear", "linear without bias", "embedding", "sequential", "rms norm without affine", "module dict")
REPRS += ("embedding with options", "embedding of given rows", "dropout of channels")
REPRS += ("rnn", "lstm", "gru", "cells", "batch norm", "convolution", "bilinear")


def names(lib, key):
    """What PyTorch calls a module's parameters and its state, in order, with shapes."""
    module = MODULES[key](lib.nn)
    return {
        "parameters": [[n, list(p.shape)] for n, p in module.named_parameters()],
        "state": [[n, list(p.shape)] for n, p in module.state_dict().items()],
        "modules": [n for n, _ in module.named_modules()],
        "all": [
            [n for n, _ in named(remove_duplicate=False)]
            for named in (module.named_modules, module.named_parameters, module.named_buffers)
        ],
        "repr": repr(module) if key in REPRS else None,
    }


# --- Layers: values, gradients


def _attention(batched=True, C=3, M=4, batch_first=True, init=None, masks=None, B=2, **call):
    """A program for MultiheadAttention(6, 2, **init) with masks made by `masks(lib)`."""

    def program(lib, name):
        settings = {"batch_first": batch_first, **(init or {})}
        module = fill(lib, lib.nn.MultiheadAttention(6, 2, dtype=lib.float64, **settings), name)
        widths = 6, settings.get("kdim") or 6, settings.get("vdim") or 6
        xs = []
        for i, (n, width) in enumerate(zip((C, M, M), widths, strict=True)):
            shape = (n, width) if not batched else (B, n, width) if batch_first else (n, B, width)
            xs.append(numbers(lib, f"{name}{i}", *shape).requires_grad_())
        y, weights = module(*xs, **(masks(lib) if masks else {}), **call)
        return module, xs, [y] if weights is None else [y, weights]

    return program


def _padding(lib):
    return lib.tensor([[False, False, True, False], [False, True, True, True]])


def _later(lib):
    return lib.tensor(np.triu(np.ones((3, 4), bool), 1).tolist())


def _of_each_head(lib):
    allowed = np.random.RandomState(1).random_sample((4, 3, 4)) < 0.4
    allowed[..., 0] = False
    return lib.tensor(allowed.tolist())


def _layer(make, *shapes, integers=None):
    """A program for one layer; the first argument is a tensor of indices below `integers` if that is given."""

    def program(lib, name):
        module = fill(lib, make(lib.nn, lib.float64), name)
        if integers is not None:
            index = np.random.RandomState(4).randint(0, integers, shapes[0])
            return module, [], [module(lib.tensor(index.tolist()))]
        xs = [numbers(lib, f"{name}{i}", *s).requires_grad_() for i, s in enumerate(shapes)]
        return module, xs, [module(*xs)]

    return program


def _loss(make, shape, target):
    """A program for a loss: `target(lib, shape)` makes what is compared with."""

    def program(lib, name):
        x = numbers(lib, name, *shape)
        x = (x * 3).requires_grad_()
        module = make(lib, lib.nn)
        return module, [x], [module(x, target(lib))]

    return program


def _gaussian(lib, name, module):
    """A program for GaussianNLLLoss, with a gradient of the variance."""
    xs = [numbers(lib, f"{name}{i}", 3, 4).requires_grad_() for i in range(3)]
    return module, xs, [module(xs[0], xs[1], var=xs[2] ** 2)]


def _classes(*values):
    return lambda lib: lib.tensor(list(values))


def _weights(lib, n=4):
    return lib.tensor([0.5 + 0.25 * i for i in range(n)], dtype=lib.float64)


def _image_classes(lib):
    return lib.tensor(np.random.RandomState(2).randint(0, 4, (2, 3)).tolist())


def _probabilities(lib):
    return numbers(lib, "probabilities", 3, 4).softmax(-1)


def _recurrent(category, *shape, start=False, **options):
    """A program for a recurrent layer or cell of width 3 and 4, from zeros or from a given state."""

    def program(lib, name):
        options_here = {"batch_first": False, **options} if not category.endswith("Cell") else options
        module = fill(lib, getattr(lib.nn, category)(3, 4, dtype=lib.float64, **options_here), name)
        xs = [numbers(lib, name, *shape).requires_grad_()]
        if start:
            many = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            state = shape[:-1] if category.endswith("Cell") else (many, *((shape[1 - options_here["batch_first"]],)))
            state = state if len(shape) == 3 or category.endswith("Cell") else (many,)
            xs += [
                numbers(lib, f"{name} {s}", *state, 4).requires_grad_() for s in ("hc" if "LSTM" in category else "h")
            ]
        result = module(xs[0], *([tuple(xs[1:])] if len(xs) > 2 else xs[1:]))
        flat = []
        for part in result if isinstance(result, tuple) else (result,):
            flat += list(part) if isinstance(part, tuple) else [part]
        return module, xs, flat

    return program


RECURRENT = {
    f"{cls}, {what}": _recurrent(cls, *shape, **options)
    for cls in ("RNN", "LSTM", "GRU")
    for what, shape, options in (
        ("as it is", (5, 2, 3), {}),
        ("batch first", (2, 3, 3), {"batch_first": True, "start": True}),
        ("two layers both ways", (4, 2, 3), {"num_layers": 2, "bidirectional": True, "start": True}),
        ("one sequence", (4, 3), {"num_layers": 2, "start": True}),
        ("without bias", (1, 2, 3), {"bias": False, "bidirectional": True, "batch_first": True}),
    )
}
RECURRENT |= {
    f"{cls} of {what}": _recurrent(cls, *shape, **options)
    for cls in ("RNNCell", "LSTMCell", "GRUCell")
    for what, shape, options in (
        ("a batch", (2, 3), {"start": True}),
        ("one vector", (3,), {"start": True}),
        ("zeros", (2, 3), {"bias": False}),
    )
}
RECURRENT["RNN, relu"] = _recurrent("RNN", 4, 2, 3, nonlinearity="relu")
RECURRENT["RNNCell, relu"] = _recurrent("RNNCell", 2, 3, nonlinearity="relu")


def _packed(category, *lengths, start=False, **options):
    """A program for a recurrent layer of width 3 and 4 on packed sequences: outputs, padded again, and state."""

    def program(lib, name):
        rnn, first = lib.nn.utils.rnn, options.get("batch_first", False)
        module = fill(lib, getattr(lib.nn, category)(3, 4, dtype=lib.float64, **options), name)
        shape = (len(lengths), max(lengths), 3) if first else (max(lengths), len(lengths), 3)
        xs, begin = [numbers(lib, name, *shape).requires_grad_()], ()
        if start:
            many = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            state = (many, len(lengths), 4)
            xs += [numbers(lib, f"{name} {s}", *state).requires_grad_() for s in ("hc" if category == "LSTM" else "h")]
            begin = ((xs[1], xs[2]),) if category == "LSTM" else (xs[1],)
        falling = list(lengths) == sorted(lengths, reverse=True)
        packed = rnn.pack_padded_sequence(xs[0], list(lengths), first, enforce_sorted=falling)
        y, last = module(packed, *begin)
        padded, result = rnn.pad_packed_sequence(y, first, padding_value=0.5, total_length=max(lengths) + 1)
        return module, xs, [y.data, padded, result.double(), *(last if category == "LSTM" else (last,))]

    return program


PACKED = {
    f"{cls}, packed, {what}": _packed(cls, *lengths, **options)
    for cls in ("RNN", "LSTM", "GRU")
    for what, lengths, options in (
        ("as it is", (4, 2, 1), {}),
        ("unsorted, batch first", (1, 4, 2, 3), {"batch_first": True, "start": True}),
        ("two layers both ways", (2, 5, 3), {"num_layers": 2, "bidirectional": True, "start": True}),
        ("of one length", (3, 3), {"bidirectional": True, "bias": False}),
        ("one sequence", (2,), {"num_layers": 2, "start": True}),
    )
}


def _sequences(lengths, program):
    """A program of functions of nn.utils.rnn on sequences of these lengths and the width 2."""

    def whole(lib, name):
        xs = [numbers(lib, f"{name}{i}", n, 2).requires_grad_() for i, n in enumerate(lengths)]
        return lib.nn.Identity(), xs, [y.double() for y in program(lib.nn.utils.rnn, xs)]

    return whole


PACKED |= {
    "pad": _sequences((2, 4, 1), lambda rnn, xs: [rnn.pad_sequence(xs, padding_value=-1.5)]),
    "pad on the left": _sequences((2, 4, 1), lambda rnn, xs: [rnn.pad_sequence(xs, True, 7.0, "left")]),
    "pad to one length": _sequences((3, 3), lambda rnn, xs: [rnn.pad_sequence(xs, batch_first=True)]),
    "pack": _sequences((4, 3, 1), lambda rnn, xs: list(rnn.pack_sequence(xs)[:2])),
    "pack unsorted": _sequences((1, 4, 2), lambda rnn, xs: list(rnn.pack_sequence(xs, enforce_sorted=False))),
    "unpack": _sequences((1, 4, 2), lambda rnn, xs: rnn.unpack_sequence(rnn.pack_sequence(xs, enforce_sorted=False))),
    "unpad": _sequences(
        (3, 4, 2), lambda rnn, xs: rnn.unpad_sequence(rnn.pad_sequence(xs), xs[0].new_tensor([3, 4, 2]).long())
    ),
}


def _transformer(masks=None, batched=True, evaluate=False, **options):
    """A program for the whole Transformer, without dropout; `masks(lib)` makes its masks."""

    def program(lib, name):
        settings = {"dropout": 0.0, "dim_feedforward": 5, "dtype": lib.float64, **options}
        module = fill(lib, lib.nn.Transformer(4, 2, 2, 1, **settings), name)
        shapes = ((2, 3, 4), (2, 4, 4)) if options.get("batch_first") else ((3, 2, 4), (4, 2, 4))
        shapes = shapes if batched else ((3, 4), (4, 4))
        xs = [numbers(lib, f"{name} {i}", *shape).requires_grad_() for i, shape in enumerate(shapes)]
        return module, xs, [module(*xs, **(masks(lib) if masks else {}))]

    return program


def _after(lib, n=4):
    return lib.nn.Transformer.generate_square_subsequent_mask(n).to(lib.float64)


def _batch_norm(*shape, passes=2, evaluate=False, **options):
    """A program for BatchNorm1d: what it computes after some passes, and what it has kept of them."""

    def program(lib, name):
        module = lib.nn.BatchNorm1d(3, dtype=lib.float64, **options)
        module = fill(lib, module, name)
        for i in range(passes):
            module(numbers(lib, f"{name} {i}", *shape) * (i + 1))
        module.train(not evaluate)
        x = numbers(lib, name, *shape).requires_grad_()
        state = [b.to(lib.float64) for _, b in sorted(module.named_buffers())]
        return module, [x], [module(x), *state]

    return program


def _embedding(**options):
    """A program for Embedding: the rows, and the weight after it, which max_norm changes."""

    def program(lib, name):
        module = fill(lib, lib.nn.Embedding(6, 4, dtype=lib.float64, **options), name)
        index = lib.tensor([[1, 4, 1], [0, 1, 4]])
        return module, [], [module(index), module.weight.detach()]

    return program


def _hooked(register, loss):
    """A program for hooks: outputs, what the hooks see, first and second derivatives (and third ones, by layer())."""

    def program(lib, name):
        class Product(lib.nn.Module):
            def forward(self, x, y, *, power=2):
                return x**power * y, x * y

        module, seen = Product(), []

        def note(*tensors):
            seen.extend(t.detach().clone() for t in tensors)
            return tensors

        register(module, note)
        xs = [numbers(lib, f"{name}{i}", 3).requires_grad_() for i in range(2)]
        ys = module(*xs, power=3)
        first = lib.autograd.grad(loss(*ys).sum(), xs, create_graph=True)
        second = lib.autograd.grad(sum(first).sum(), xs, create_graph=True)
        return module, xs, [*ys, *first, *second, *seen]

    return program


def _backward(factor, **options):
    return lambda module, note: module.register_full_backward_hook(
        lambda _, grad_input, grad_output: tuple(g * factor for g in note(*grad_input, *grad_output)[:2]), **options
    )


def _before_backward(factor, **options):
    return lambda module, note: module.register_full_backward_pre_hook(
        lambda _, grad_output: tuple(g * factor + 1 for g in note(*grad_output)), **options
    )


def _before(module, note):
    """Pre-hooks with all they can do: change arguments, keyword arguments, or nothing; and one in front of all."""
    module.register_forward_pre_hook(lambda _, args: (note(*args)[0] * 2, args[1]))
    module.register_forward_pre_hook(lambda _, args, kwargs: ((args[0] + 1, args[1]), {"power": 2}), with_kwargs=True)
    module.register_forward_pre_hook(lambda _, args, kwargs: note(*args)[2:] or None, with_kwargs=True)
    module.register_forward_pre_hook(lambda _, args: (args[0] + 3, args[1]), prepend=True)


def _after_forward(module, note):
    """Hooks that see keyword arguments, and change the results in the order in which they stand."""
    module.register_forward_hook(lambda _, args, y: (note(*y)[0] * 2, y[1]))
    module.register_forward_hook(
        lambda _, args, kwargs, y: (y[0] + kwargs["power"] * args[0], y[1]), with_kwargs=True, prepend=True
    )
    module.register_forward_hook(lambda _, args, y: (y[0] + 5, y[1]), prepend=True)


def _all_of(*registers):
    return lambda module, note: [register(module, note) for register in registers]


HOOKS = {
    f"hooks, {what}{way}": _hooked(register, loss)
    for what, register in {
        "backward": _backward(10),
        "backward of factor 1": _backward(1),
        "before backward": _before_backward(10),
        "before and after backward": _all_of(_backward(3), _before_backward(10)),
        "several": _all_of(_backward(3), _backward(5, prepend=True), _before_backward(2), _before_backward(7)),
        "several, before in front": _all_of(_before_backward(2), _before_backward(7, prepend=True), _backward(3)),
        "before forward": _before,
        "after forward": _after_forward,
        "all": _all_of(_before, _after_forward, _backward(2), _before_backward(3)),
    }.items()
    for way, loss in {"": lambda a, b: a + b, ", of a product": lambda a, b: a * b}.items()
}


LAYERS = {
    **RECURRENT,
    **PACKED,
    **HOOKS,
    **{
        f"weight norm, dim {dim}": _layer(
            lambda nn, d, dim=dim: nn.utils.weight_norm(nn.Conv1d(2, 3, 3, dtype=d), dim=dim), (2, 2, 5)
        )
        for dim in (0, 1, 2, -1, -2, -3, None)
    },
    "transformer": _transformer(lambda lib: {"tgt_mask": _after(lib)}),
    "transformer, norm first": _transformer(
        lambda lib: {
            "src_key_padding_mask": lib.tensor([[False, False, True], [False, False, False]]),
            "memory_key_padding_mask": lib.tensor([[False, False, True], [False, False, False]]),
            "tgt_mask": _after(lib) < 0,
            "tgt_is_causal": True,
        },
        norm_first=True,
        batch_first=True,
        activation="gelu",
    ),
    "transformer without bias": _transformer(bias=False, batched=False, layer_norm_eps=1e-3),
    "batch norm": _batch_norm(4, 3),
    "batch norm of places": _batch_norm(2, 3, 4, momentum=None, passes=3),
    "batch norm, evaluating": _batch_norm(4, 3, evaluate=True, momentum=0.3, eps=0.1),
    "batch norm without affine": _batch_norm(4, 3, affine=False, evaluate=True),
    "batch norm without statistics": _batch_norm(4, 3, track_running_stats=False, evaluate=True),
    "bilinear": _layer(lambda nn, d: nn.Bilinear(3, 4, 2, dtype=d), (5, 3), (5, 4)),
    "bilinear without bias": _layer(lambda nn, d: nn.Bilinear(3, 4, 2, bias=False, dtype=d), (2, 5, 3), (2, 5, 4)),
    "unflatten": _layer(lambda nn, d: nn.Unflatten(1, (2, 3)), (2, 6)),
    "convolution": _layer(lambda nn, d: nn.Conv1d(3, 4, 1, dtype=d), (2, 3, 5)),
    "convolution, stride": _layer(lambda nn, d: nn.Conv1d(3, 4, 3, stride=2, padding=1, dtype=d), (2, 3, 6)),
    "convolution, dilation": _layer(lambda nn, d: nn.Conv1d(3, 2, 3, dilation=2, bias=False, dtype=d), (2, 3, 7)),
    "convolution, groups": _layer(lambda nn, d: nn.Conv1d(4, 6, 3, groups=2, padding=1, dtype=d), (2, 4, 5)),
    "convolution, a group a channel": _layer(lambda nn, d: nn.Conv1d(3, 3, 2, groups=3, bias=False, dtype=d), (3, 5)),
    "convolution, reflected": _layer(
        lambda nn, d: nn.Conv1d(2, 3, 3, padding=2, padding_mode="reflect", dtype=d), (2, 2, 5)
    ),
    "convolution, circular": _layer(
        lambda nn, d: nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular", dtype=d), (2, 2, 5)
    ),
    "convolution, same": _layer(lambda nn, d: nn.Conv1d(3, 4, 5, padding="same", dtype=d), (3, 6)),
    "prelu": _layer(lambda nn, d: nn.PReLU(3, dtype=d), (2, 3, 4)),
    "leaky relu": _layer(lambda nn, d: nn.LeakyReLU(0.2), (3, 4)),
    "softplus": _layer(lambda nn, d: nn.Softplus(beta=2), (3, 4)),
    "elu": _layer(lambda nn, d: nn.ELU(0.5), (3, 4)),
    "hardtanh": _layer(lambda nn, d: nn.Hardtanh(-0.5, 0.25), (3, 4)),
    "glu": _layer(lambda nn, d: nn.GLU(0), (4, 3)),
    "cosine similarity": _layer(lambda nn, d: nn.CosineSimilarity(dim=-1), (3, 4), (3, 4)),
    "smooth l1": _loss(lambda lib, nn: nn.SmoothL1Loss(beta=0.5), (3, 4), _probabilities),
    "huber": _loss(lambda lib, nn: nn.HuberLoss(delta=0.5, reduction="sum"), (3, 4), _probabilities),
    "l1": _loss(lambda lib, nn: nn.L1Loss(), (3, 4), _probabilities),
    "kl": _loss(lambda lib, nn: nn.KLDivLoss(reduction="batchmean"), (3, 4), _probabilities),
    "bce": lambda lib, name: (
        lib.nn.BCELoss(_weights(lib)),
        [],
        [lib.nn.BCELoss(_weights(lib))(numbers(lib, name, 3, 4).sigmoid().requires_grad_(), _probabilities(lib))],
    ),
    "poisson nll": _loss(lambda lib, nn: nn.PoissonNLLLoss(full=True, reduction="sum"), (3, 4), _probabilities),
    "poisson nll of rates": _layer(lambda nn, d: nn.PoissonNLLLoss(False, eps=2.0), (3, 4), (3, 4)),
    "gaussian nll": lambda lib, name: _gaussian(lib, name, lib.nn.GaussianNLLLoss(full=True)),
    "gaussian nll, each": lambda lib, name: _gaussian(lib, name, lib.nn.GaussianNLLLoss(eps=0.25, reduction="none")),
    "multi margin": _loss(lambda lib, nn: nn.MultiMarginLoss(), (3, 4), _classes(0, 3, 1)),
    "multi margin, squared, weights": _loss(
        lambda lib, nn: nn.MultiMarginLoss(2, 0.5, _weights(lib), reduction="sum"), (3, 4), _classes(0, 3, 1)
    ),
    "multilabel soft margin": _loss(
        lambda lib, nn: nn.MultiLabelSoftMarginLoss(_weights(lib), reduction="none"), (3, 4), _probabilities
    ),
    "linear": _layer(lambda nn, d: nn.Linear(3, 4, dtype=d), (2, 5, 3)),
    "linear, one vector": _layer(lambda nn, d: nn.Linear(3, 4, bias=False, dtype=d), (3,)),
    "embedding": _layer(lambda nn, d: nn.Embedding(5, 4, padding_idx=-2, dtype=d), (3, 6), integers=5),
    "embedding, max norm": _embedding(max_norm=1.0),
    "embedding, max 1-norm, padding": _embedding(max_norm=1.5, norm_type=1.0, padding_idx=1),
    "embedding, max norm that none has": _embedding(max_norm=10.0),
    "embedding, max inf-norm": _embedding(max_norm=0.5, norm_type=math.inf),
    "embedding, by frequency": _embedding(scale_grad_by_freq=True),
    "embedding, by frequency, padding, max norm": _embedding(scale_grad_by_freq=True, padding_idx=4, max_norm=0.75),
    "layer norm": _layer(lambda nn, d: nn.LayerNorm(6, dtype=d), (2, 3, 6)),
    "layer norm of two dimensions": _layer(lambda nn, d: nn.LayerNorm((3, 6), eps=1e-3, dtype=d), (2, 3, 6)),
    "layer norm without affine": _layer(lambda nn, d: nn.LayerNorm(6, elementwise_affine=False, dtype=d), (4, 6)),
    "layer norm without bias": _layer(lambda nn, d: nn.LayerNorm(6, bias=False, dtype=d), (4, 6)),
    "rms norm": _layer(lambda nn, d: nn.RMSNorm(6, dtype=d), (4, 6)),
    "rms norm with eps": _layer(lambda nn, d: nn.RMSNorm((2, 6), eps=0.1, dtype=d), (4, 2, 6)),
    "sequential": _layer(
        lambda nn, d: nn.Sequential(nn.Linear(3, 4, dtype=d), nn.GELU(), nn.Flatten(), nn.Linear(8, 2, dtype=d)),
        (3, 2, 3),
    ),
    "dropout while evaluating": _layer(lambda nn, d: nn.Dropout(0.5).eval(), (3, 4)),
    "identity": _layer(lambda nn, d: nn.Identity(), (3, 4)),
    "relu": _layer(lambda nn, d: nn.ReLU(), (3, 4)),
    "gelu": _layer(lambda nn, d: nn.GELU(), (3, 4)),
    "gelu by tanh": _layer(lambda nn, d: nn.GELU(approximate="tanh"), (3, 4)),
    "silu": _layer(lambda nn, d: nn.SiLU(), (3, 4)),
    "tanh": _layer(lambda nn, d: nn.Tanh(), (3, 4)),
    "sigmoid": _layer(lambda nn, d: nn.Sigmoid(), (3, 4)),
    "softmax": _layer(lambda nn, d: nn.Softmax(dim=1), (3, 4, 2)),
    "log softmax": _layer(lambda nn, d: nn.LogSoftmax(dim=-1), (3, 4)),
    "cross entropy": _loss(lambda lib, nn: nn.CrossEntropyLoss(), (3, 4), _classes(0, 3, 1)),
    "cross entropy, ignored, smoothed": _loss(
        lambda lib, nn: nn.CrossEntropyLoss(ignore_index=3, label_smoothing=0.1), (3, 4), _classes(0, 3, 1)
    ),
    "cross entropy, weights": _loss(lambda lib, nn: nn.CrossEntropyLoss(_weights(lib)), (3, 4), _classes(0, 3, 1)),
    "cross entropy, weights, smoothed, ignored": _loss(
        lambda lib, nn: nn.CrossEntropyLoss(weight=_weights(lib), label_smoothing=0.2, ignore_index=0),
        (3, 4),
        _classes(0, 3, 1),
    ),
    "cross entropy of places": _loss(lambda lib, nn: nn.CrossEntropyLoss(reduction="none"), (2, 4, 3), _image_classes),
    "cross entropy, sum": _loss(lambda lib, nn: nn.CrossEntropyLoss(reduction="sum"), (3, 4), _classes(0, 3, 1)),
    "cross entropy, one row": _loss(lambda lib, nn: nn.CrossEntropyLoss(), (4,), lambda lib: lib.tensor(2)),
    "cross entropy of probabilities": _loss(lambda lib, nn: nn.CrossEntropyLoss(), (3, 4), _probabilities),
    "cross entropy of probabilities, weights, smoothed": _loss(
        lambda lib, nn: nn.CrossEntropyLoss(weight=_weights(lib), label_smoothing=0.3), (3, 4), _probabilities
    ),
    "nll": _loss(lambda lib, nn: nn.NLLLoss(weight=_weights(lib), ignore_index=3), (3, 4), _classes(0, 3, 1)),
    "nll of places": _loss(lambda lib, nn: nn.NLLLoss(reduction="sum"), (2, 4, 3), _image_classes),
    "mse": _loss(lambda lib, nn: nn.MSELoss(), (3, 4), _probabilities),
    "mse, each": _loss(lambda lib, nn: nn.MSELoss(reduction="none"), (3, 4), _probabilities),
    "bce with logits": _loss(lambda lib, nn: nn.BCEWithLogitsLoss(), (3, 4), _probabilities),
    "bce with logits, weights": _loss(
        lambda lib, nn: nn.BCEWithLogitsLoss(_weights(lib), pos_weight=_weights(lib), reduction="sum"),
        (3, 4),
        _probabilities,
    ),
    "attention": _attention(),
    "attention, weights of each head": _attention(average_attn_weights=False),
    "attention without weights": _attention(need_weights=False),
    "attention, positions first": _attention(batch_first=False),
    "attention, positions first, no weights": _attention(batch_first=False, need_weights=False),
    "attention without a batch": _attention(batched=False),
    "attention without a batch, weights of each head": _attention(batched=False, average_attn_weights=False),
    "attention without a batch, no weights": _attention(batched=False, need_weights=False),
    "attention, padding": _attention(masks=lambda lib: {"key_padding_mask": _padding(lib)}),
    "attention, padding, no weights": _attention(
        masks=lambda lib: {"key_padding_mask": _padding(lib)}, need_weights=False
    ),
    "attention, bool mask": _attention(masks=lambda lib: {"attn_mask": _later(lib)}),
    "attention, bool mask, no weights": _attention(masks=lambda lib: {"attn_mask": _later(lib)}, need_weights=False),
    "attention, float mask": _attention(masks=lambda lib: {"attn_mask": numbers(lib, "mask", 3, 4)}),
    "attention, float mask, no weights": _attention(
        masks=lambda lib: {"attn_mask": numbers(lib, "mask", 3, 4)}, need_weights=False
    ),
    "attention, bool mask of each head": _attention(masks=lambda lib: {"attn_mask": _of_each_head(lib)}),
    "attention, float mask of each head": _attention(
        masks=lambda lib: {"attn_mask": numbers(lib, "mask", 4, 3, 4)}, batch_first=False
    ),
    "attention, both masks": _attention(
        masks=lambda lib: {"attn_mask": _later(lib), "key_padding_mask": _padding(lib)}, average_attn_weights=False
    ),
    "attention, float mask and float padding": _attention(
        masks=lambda lib: {
            "attn_mask": numbers(lib, "mask", 3, 4),
            "key_padding_mask": numbers(lib, "padding", 2, 4),
        }
    ),
    "attention without a batch, padding": _attention(
        batched=False, masks=lambda lib: {"key_padding_mask": _padding(lib)[0]}
    ),
    "attention without a batch, mask of each head": _attention(
        batched=False, masks=lambda lib: {"attn_mask": _of_each_head(lib)[:2]}
    ),
    "attention, causal": _attention(
        C=4, masks=lambda lib: {"attn_mask": lib.tensor(np.triu(np.ones((4, 4), bool), 1).tolist()), "is_causal": True}
    ),
    "attention, causal, no weights": _attention(
        C=4,
        need_weights=False,
        masks=lambda lib: {"attn_mask": lib.tensor(np.triu(np.ones((4, 4), bool), 1).tolist()), "is_causal": True},
    ),
    "attention, kdim and vdim": _attention(init={"kdim": 5, "vdim": 3}),
    "attention, kdim": _attention(init={"kdim": 5, "bias": False}, need_weights=False),
    "attention, vdim, no batch": _attention(init={"vdim": 5}, batched=False),
    "attention without bias": _attention(init={"bias": False}, average_attn_weights=False),
}


def layer(lib, key):
    """Outputs, and the gradients of inputs and parameters with respect to fixed cotangents."""
    module, xs, ys = LAYERS[key](lib, key)
    total = sum((y * numbers(lib, f"{key} g{i}", *y.shape)).sum() for i, y in enumerate(ys))
    total.backward()
    results = {f"y{i}": y for i, y in enumerate(ys)}
    results |= {f"x{i}.grad": x.grad for i, x in enumerate(xs)}
    results |= {f"{name}.grad": p.grad for name, p in module.named_parameters()}
    return {f"{key}|{name}": np.array(t.detach().numpy(), order="C") for name, t in results.items()}


# --- Optimizers

OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd, momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "sgd, dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.2),
    "sgd, nesterov": lambda o, p: o.SGD(p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
    "sgd, positional": lambda o, p: o.SGD(p, 0.05, 0.7, 0.1, 0.2),
    "sgd, maximize": lambda o, p: o.SGD(p, lr=0.01, momentum=0.5, maximize=True, weight_decay=0.1),
    "adam": lambda o, p: o.Adam(p),
    "adam, decay": lambda o, p: o.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adam, maximize": lambda o, p: o.Adam(p, lr=0.05, maximize=True, weight_decay=0.1),
    "adamw": lambda o, p: o.AdamW(p),
    "adamw, decay": lambda o, p: o.AdamW(p, 0.05, (0.9, 0.95), 1e-9, 0.2),
    "adamw, maximize": lambda o, p: o.AdamW(p, lr=0.05, maximize=True),
    "adamw, harmless options": lambda o, p: o.AdamW(p, lr=0.02, fused=False, foreach=False),
    "adam, groups": lambda o, p: o.Adam(
        [{"params": p[:1], "lr": 0.2}, {"params": p[1:], "weight_decay": 0.3, "betas": (0.5, 0.6)}], lr=0.01
    ),
    "sgd, groups": lambda o, p: o.SGD(
        [{"params": p[0], "momentum": 0.9, "nesterov": True}, {"params": p[1:], "lr": 0.5}], lr=0.01
    ),
}
KEPT = (1, 2, 10)  # the steps whose parameters are stored


def objective(lib, a, b):
    """A number whose gradient by a changes its sign, and by b vanishes at some places from the third step on."""
    return (a.sin() * numbers(lib, "objective a", 3, 4, dtype=a.dtype)).sum() + (b * b * b.tanh()).sum() * a[0].sum()


def trajectory(lib, key, dtype="float64"):
    """Two parameters after 1, 2 and 10 steps; the second has no gradient in the second step."""
    dtype = getattr(lib, dtype)
    a, b = (numbers(lib, f"start {n}", *s, dtype=dtype).requires_grad_() for n, s in (("a", (3, 4)), ("b", (5,))))
    optimizer = OPTIMIZERS[key](lib.optim, [a, b])
    results = {}
    for step in range(1, 11):
        optimizer.zero_grad(set_to_none=True)
        objective(lib, a, b.detach() if step == 2 else b).backward()
        optimizer.step()
        if step in KEPT:
            results |= {
                f"{key}|{dtype_name(dtype)}|{step}|{n}": np.array(p.detach().numpy()) for n, p in (("a", a), ("b", b))
            }
    return results


def dtype_name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


SCHEDULES = {
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multi step": lambda s, o: s.MultiStepLR(o, [2, 5, 5], gamma=0.3),
    "exponential": lambda s, o: s.ExponentialLR(o, gamma=0.9),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, T_max=8, eta_min=0.01),
    "lambda": lambda s, o: s.LambdaLR(o, lambda t: 1 / (1 + t)),
    "two lambdas": lambda s, o: s.LambdaLR(o, [lambda t: 0.9**t, lambda t: math.cos(t)]),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=4),
    "constant by default": lambda s, o: s.ConstantLR(o),
}


def rates(lib, key):
    """The rates of two groups over twelve steps."""
    a, b = (numbers(lib, n, 2).requires_grad_() for n in "ab")
    optimizer = lib.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.4}], lr=0.1)
    scheduler = SCHEDULES[key](lib.optim.lr_scheduler, optimizer)
    results = [[g["lr"] for g in optimizer.param_groups]]
    for _ in range(11):
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        results.append([float(r) for r in scheduler.get_last_lr()])
    return {f"{key}|rates": np.array(results)}


CLIPS = {
    "2-norm": lambda u, p: u.clip_grad_norm_(p, 0.5),
    "2-norm, large bound": lambda u, p: u.clip_grad_norm_(p, 1e3),
    "1-norm": lambda u, p: u.clip_grad_norm_(p, 0.5, norm_type=1.0),
    "3-norm": lambda u, p: u.clip_grad_norm_(p, max_norm=0.5, norm_type=3),
    "inf-norm": lambda u, p: u.clip_grad_norm_(p, 0.5, norm_type=math.inf),
    "one tensor": lambda u, p: u.clip_grad_norm_(p[0], 0.5),
    "value": lambda u, p: u.clip_grad_value_(p, 0.3),
}
CLIPS |= {f"{key}, {which} in float32": clip for which in ("first", "second") for key, clip in CLIPS.items()}


def clipped(lib, key):
    """What clipping returns, and the gradients after it; the last parameter has none, and one may be in float32."""
    ps = [numbers(lib, f"p{i}", *s) for i, s in enumerate([(3, 4), (), (5,), (2,)])]
    for i, which in enumerate(("first", "second")):
        if which in key:
            ps[i] = ps[i].float()
    ps = [p.requires_grad_() for p in ps]
    for i, p in enumerate(ps[:-1]):
        p.grad = numbers(lib, f"clip {i}", *p.shape, dtype=p.dtype)
    total = CLIPS[key](lib.nn.utils, ps)
    results = {f"{key}|grad{i}": np.array(p.grad.numpy()) for i, p in enumerate(ps[:-1])}
    return results if total is None else results | {f"{key}|total": np.array(total.detach().numpy())}
