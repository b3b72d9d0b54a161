"""compile(step) against the same step run eagerly: weights, losses, gradients, states, bit for bit.

Each program is run twice, once with `wrap` = compile and once as it is, and yields what it wants compared.
"""

import copy
import gc
import tracemalloc
import weakref
from collections import namedtuple
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinytensor as tt
from tests.tools.sampling_rate import THOROUGH
from tinytensor import nn, profiler
from tinytensor.native.recording import compiled
from tinytensor.native.recording.compiled import LIMIT
from tinytensor.native.recording.pool import Pool
from tinytensor.native.recording.recording import Recording
from tinytensor.nn import functional as F

# --- The comparison


def frozen(value):
    """Everything that can be seen of a value, as bytes and plain Python."""
    if isinstance(value, tt.Tensor):
        grad = None if value.grad is None else frozen(value.grad)
        return str(value.dtype), value.shape, value.detach().numpy().tobytes(), grad
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, nn.Module):
        parts = [*value.named_parameters(), *value.named_buffers()]
        return {name: frozen(tensor) for name, tensor in parts}
    if isinstance(value, tt.optim.Optimizer):
        return frozen(value.state_dict())
    if isinstance(value, tt.Generator):
        return repr(value.get_state())
    if isinstance(value, dict):
        return {key: frozen(v) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [frozen(v) for v in value]
    return value


def recordings(compiled) -> int:
    return sum(len(steps) for steps in compiled.recordings.values())


def same(program, expected_recordings=None):
    """Run the program eagerly and compiled; all it yields must be equal."""
    made = []

    def compiled(function):
        made.append(tt.compile(function))
        return made[-1]

    results = []
    for wrap in (lambda function: function, compiled):
        tt.manual_seed(0)
        results.append([frozen(seen) for seen in program(wrap)])
        results[-1].append(frozen(tt.default_generator))
    eager, replayed = results
    assert len(eager) == len(replayed) > 1
    for number, (a, b) in enumerate(zip(eager, replayed, strict=True)):
        assert a == b, f"observation {number} differs"
    if expected_recordings is not None:
        assert [recordings(f) for f in made] == expected_recordings


def batch(seed: int, n: int = 6, width: int = 4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width)).astype(np.float32)
    return tt.tensor(x), tt.tensor(rng.integers(0, 3, n))


def mlp(p: float = 0.0) -> nn.Sequential:
    tt.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 3))


class Transformer(nn.Module):
    """A decoder in miniature: every kind of kernel that a training step uses."""

    def __init__(self, p: float = 0.1):
        super().__init__()
        tt.manual_seed(2)
        self.embedding = nn.Embedding(7, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24, bias=False)
        self.dropout = nn.Dropout(p)
        self.out = nn.Linear(8, 7)

    def forward(self, tokens):
        x = self.embedding(tokens)
        B, C, D = x.shape
        q, k, v = (t.view(B, C, 2, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).split(D, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, C, D)
        return self.out(F.gelu(x + self.dropout(y)))


def tokens(seed: int, n: int = 3) -> tt.Tensor:
    return tt.tensor(np.random.default_rng(seed).integers(0, 7, (n, 6)))


OPTIMIZERS = {
    "sgd": lambda params: tt.optim.SGD(params, lr=0.1),
    "momentum": lambda params: tt.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "damped": lambda params: tt.optim.SGD(params, lr=0.05, momentum=0.9, dampening=0.5),
    "adam": lambda params: tt.optim.Adam(params, lr=0.01, weight_decay=0.01),
    "adamw": lambda params: tt.optim.AdamW(params, lr=0.01),
}


# --- Training


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_step(optimizer):
    def program(wrap):
        model = Transformer(p=0.0)
        opt = OPTIMIZERS[optimizer](model.parameters())

        @wrap
        def step(tokens):
            opt.zero_grad()
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            opt.step()
            return loss

        for i in range(6):
            yield step(tokens(i))
            yield model
            yield opt

    same(program, [1])


def test_dropout_draws_anew_at_each_replay():
    def program(wrap):
        model = Transformer(p=0.5)
        opt = tt.optim.SGD(model.parameters(), lr=0.1)
        fixed = tokens(0)

        @wrap
        def step(tokens):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        losses = [step(fixed) for _ in range(5)]
        yield losses
        yield model
        yield tt.default_generator
        assert len({loss.item() for loss in losses}) == 5

    same(program, [1])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "schedule",
    [
        lambda opt: tt.optim.lr_scheduler.StepLR(opt, 2, 0.5),
        lambda opt: tt.optim.lr_scheduler.WarmupCosineLR(opt, 3, 8),
        lambda opt: tt.optim.lr_scheduler.NoamLR(opt, 16, 4),
    ],
)
def test_schedules_are_followed(schedule, inside):
    def program(wrap):
        model = mlp()
        opt = tt.optim.AdamW(model.parameters(), lr=0.1)
        scheduler = schedule(opt)

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            if inside:
                scheduler.step()
            return loss

        for i in range(7):
            yield step(*batch(i)), scheduler.get_last_lr(), scheduler.last_epoch
            if not inside:
                scheduler.step()
        yield model

    same(program, [1])


def test_hyper_parameters_can_change_between_calls():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        changes = [("lr", 0.1), ("lr", 0.01), ("momentum", 0.9), ("dampening", 0.5), ("weight_decay", 0.1)]
        changes += [("nesterov", False), ("momentum", 0.0), ("lr_multiplier", 0.5), ("momentum", 0.5), ("lr", 1.0)]
        for number, (name, value) in enumerate(changes):
            opt.param_groups[0][name] = value
            for i in range(3):
                yield step(*batch(10 * number + i)), model, opt

    same(program)


def test_momentum_switched_on_later():
    p = nn.Parameter(tt.ones(3))
    opt = tt.optim.SGD([p], lr=1.0)
    for momentum, expected in ((0.0, 0.0), (0.5, -1.0), (0.5, -2.5)):
        opt.param_groups[0].update(momentum=momentum, dampening=0.9 if momentum and expected == -1.0 else 0.0)
        p.grad = tt.ones(3)
        opt.step()
        assert p.tolist() == [expected] * 3


def test_parameter_groups_and_multipliers():
    def program(wrap):
        model = mlp()
        heads = tt.tensor([[0.5], [2.0], [1.0]])
        groups = [
            {"params": model[0].parameters(), "lr": 0.01},
            {"params": [model[3].weight], "lr_multiplier": heads},
            {"params": [model[3].bias], "lr_multiplier": 0.1, "weight_decay": 0.0},
        ]
        opt = tt.optim.AdamW(groups, lr=0.1)

        @wrap
        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            opt.step()
            opt.zero_grad()

        for i in range(5):
            step(*batch(i))
            yield model, opt

    same(program, [1])


def test_add_param_group_between_calls():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)

        @wrap
        def step(x, y):
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        for i in range(8):
            if i == 4:
                opt.add_param_group({"params": model[3].parameters(), "lr": 0.02})
            yield step(*batch(i)), model, opt

    same(program)


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_optimizer_state_loaded_between_calls(optimizer):
    def program(wrap):
        model = mlp()
        opt = OPTIMIZERS[optimizer](model.parameters())

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        for i in range(3):
            yield step(*batch(i))
        weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(opt.state_dict())
        for i in range(3):
            yield step(*batch(i)), model, opt
        model.load_state_dict(weights)
        opt.load_state_dict(state)
        for i in range(3):
            yield step(*batch(i)), model, opt
        opt.load_state_dict(OPTIMIZERS[optimizer](mlp().parameters()).state_dict())  # one that has no state yet
        for i in range(3):
            yield step(*batch(i)), model, opt

    same(program, [3])


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("position", ["begin", "end", "before", "after", "never"])
@pytest.mark.parametrize("who", ["optimizer", "module"])
def test_zero_grad(position, set_to_none, who):
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)
        zero = {"optimizer": opt, "module": model}[who].zero_grad

        @wrap
        def step(x, y):
            if position == "begin":
                zero(set_to_none=set_to_none)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            if position == "end":
                zero(set_to_none=set_to_none)
            return loss

        for i in range(6):
            if position == "before":
                zero(set_to_none=set_to_none)
            yield step(*batch(i))
            yield model
            if position == "after":
                zero(set_to_none=set_to_none)

    same(program, [2 if position == "never" or not set_to_none else 1])


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_gradient_accumulation(dtype):
    def program(wrap):
        model = mlp(0.3).to(dtype)
        opt = tt.optim.Adam(model.parameters(), lr=0.01)

        @wrap
        def micro(x, y):
            loss = F.cross_entropy(model(x.to(dtype)), y) / 3
            loss.backward()
            return loss

        @wrap
        def update():
            opt.step()
            opt.zero_grad()

        for i in range(4):
            for j in range(3):
                yield micro(*batch(3 * i + j)), model
            update()
            yield model, opt

    same(program, [2, 1])


def test_gradient_accumulation_inside_one_step():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            for part, target in zip(x.split(2), y.split(2), strict=True):
                (F.cross_entropy(model(part), target) / 3).backward()
            opt.step()
            opt.zero_grad()

        for i in range(4):
            step(*batch(i))
            yield model

    same(program, [1])


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clipping_is_recorded(norm_type):
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=1.0)

        @wrap
        def step(x, y):
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type)
            nn.utils.clip_grad_value_(model.parameters(), 0.1)
            opt.step()
            return norm

        for i in range(6):
            yield step(*batch(i)), model

    same(program, [1])


def test_evaluation_between_training_steps():
    def program(wrap):
        model = mlp(0.5)
        opt = tt.optim.AdamW(model.parameters(), lr=0.01)

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            if tt.is_grad_enabled():
                loss.backward()
                opt.step()
                opt.zero_grad()
            return loss

        @wrap
        def evaluate(x, y):
            with tt.no_grad():
                logits = model(x)
                return F.cross_entropy(logits, y), logits.argmax(-1)

        for i in range(4):
            for j in range(2):
                yield step(*batch(10 * i + j))
            model.eval()
            yield evaluate(*batch(100))
            with tt.no_grad():
                yield step(*batch(100))
            model.train()
            with tt.no_grad():
                yield step(*batch(100))
            yield model, opt

    same(program, [3, 1])


def test_shapes_and_dtypes_change():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x.float()), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss

        for epoch in range(3):
            for n in (6, 6, 2):
                x, y = batch(epoch, n)
                yield step(x, y), model
                yield step(x.double(), y), model
                yield step(x, y.int()), model

    same(program, [6])


def test_a_strided_argument():
    def program(wrap):
        model = mlp()

        @wrap
        def step(x):
            y = model(x).exp().sum()
            y.backward()
            return y, model[0].weight.grad

        for i in range(3):
            model.zero_grad()
            yield step(batch(i, 4)[0].T)
            model.zero_grad()
            yield step(batch(i, 12)[0][::3])
            model.zero_grad()
            yield step(batch(i, 1)[0].expand(4, 4))

    same(program, [1])


def test_python_arguments_are_guarded():
    Pair = namedtuple("Pair", "x y")

    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0]))

        @wrap
        def step(data, power, *, options, scale=1.0, pair=None):
            x = data["x"][0] * w**power * scale
            x = x / scale if options == ("divide", True) else x
            x.sum().backward()
            return {"y": [x.detach(), (w.grad,)], "pair": Pair(pair.y, pair.x * 2), "none": None}

        for i in range(12):
            x = tt.tensor([float(i), 1.0])
            result = step(
                {"x": [x]}, 2 + i % 2, options=("divide", i % 3 == 0), scale=0.5, pair=Pair(x, tt.tensor([1 + i]))
            )
            assert type(result["pair"]).__name__ == "Pair"
            yield result
            w.grad = None
        for scale in (0.0, -0.0, 0.0, True, 1, 1.0):
            x = tt.tensor([1.0, -1.0])
            yield step({"x": [x]}, 2, options=None, scale=scale, pair=Pair(x, x))
            w.grad = None

    same(program)


def test_default_dtype_is_guarded():
    def program(wrap):
        step = wrap(lambda x: x.long() * 0.5)
        for _ in range(2):
            yield step(tt.tensor([1, 2]))
            tt.set_default_dtype(tt.float64)
            try:
                yield step(tt.tensor([1, 2]))
            finally:
                tt.set_default_dtype(tt.float32)

    same(program, [2])


def test_frozen_parameters():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        for i in range(9):
            model[0].requires_grad_(i // 3 != 1)
            yield step(*batch(i)), model

    same(program)


def test_parameters_whose_data_is_replaced():
    def program(wrap):
        model = mlp()
        opt = tt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        other = copy.deepcopy(model.state_dict())

        @wrap
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss, model[3].bias.detach() * 2, model[0].bias.data + 1

        for i in range(9):
            if i == 3:
                model.load_state_dict(other)
            if i == 6:
                for p in model.parameters():
                    p.data = p.data * 0.5
            yield step(*batch(i)), model

    same(program, [2])


USES = {
    "an operation": lambda p, index, x: p * x,
    "detach": lambda p, index, x: p.detach() + x,
    "data": lambda p, index, x: p.data * x,
    "argsort": lambda p, index, x: p.argsort(),
    "multinomial": lambda p, index, x: tt.multinomial(p, 2),
    "index": lambda p, index, x: x[index],
    "index of detached": lambda p, index, x: p.detach()[index],
    "assigned index": lambda p, index, x: assigned(x, index),
    "clip": lambda p, index, x: nn.utils.get_total_norm([p, x]),
}


def assigned(x, index):
    y = x * 1
    y[index] = 5.0
    return y


@pytest.mark.parametrize("use", USES)
def test_replaced_data_is_followed(use):
    def program(wrap):
        p, index = tt.tensor([2.0, 1.0, 3.0]), tt.tensor([0, 2])
        step = wrap(lambda x: USES[use](p, index, x))
        for i in range(6):
            if i == 3:
                p.data = tt.tensor([0.5, 5.0, 0.1])
                index.data = tt.tensor([1, 1])
            yield step(tt.tensor([3.0, 1.0, float(i)]))

    same(program, [2])


def test_data_assigned_inside_the_step():
    """What is assigned, and the memory to which it goes, may be replaced between the calls."""

    def program(wrap):
        w, source = tt.zeros(3), tt.tensor([1.0, 2.0, 3.0])

        @wrap
        def step(x):
            w.data = source
            return x * 2

        for i in range(9):
            if i == 3:
                source.data = tt.tensor([4.0, 5.0, 6.0])
            if i == 6:
                w.data = tt.zeros(3)
            yield step(tt.full((3,), float(i)))
            yield w

    same(program)


def test_data_of_a_result_assigned_inside_the_step():
    def program(wrap):
        @wrap
        def step(x):
            y, z = x * 1, x * 3
            y.data = z
            z.mul_(2)  # y looks at this memory now
            return y

        for i in range(4):
            yield step(tt.full((3,), float(i)))

    same(program, [1])


def test_replay_counts_as_an_in_place_change():
    """A replay counts as a change in place of what it changes: parameters, buffers, gradients, arguments."""
    w, count, x = nn.Parameter(tt.ones(2)), tt.ones(2), tt.ones(2)

    @tt.compile
    def step(x):
        (w * 2).sum().backward()
        with tt.no_grad():
            w.sub_(w.grad)
            count.add_(1)
            x.mul_(2)

    for _ in range(4):
        w.grad = tt.ones(2)
        graphs = [(tt.ones(2, requires_grad=True) * changed).sum() for changed in (w.detach(), count, x, w.grad)]
        step(x)
        for graph in graphs:
            with pytest.raises(RuntimeError, match="the input b of mul was changed in place"):
                graph.backward()
    assert recordings(step) == 1


def test_schedule_inside_may_read_tensors():
    def program(wrap):
        w = nn.Parameter(tt.ones(2))
        opt = tt.optim.SGD([w], lr=0.1)
        rates = tt.tensor([1.0, 0.5, 0.25, 2.0, 1.0, 1.0])
        scheduler = tt.optim.lr_scheduler.LambdaLR(opt, lambda t: (rates[t] * 2).item())

        @wrap
        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()
            scheduler.step()

        for i in range(5):
            step(tt.tensor([1.0, float(i)]))
            yield w, scheduler.get_last_lr()

    same(program, [1])


def test_replaced_parts_of_a_model_are_followed():
    def program(wrap):
        model = mlp()
        model.scale = nn.Buffer(tt.ones(3))

        @wrap
        def step(x):
            with tt.no_grad():
                return model(x) * model.scale

        for i in range(8):
            if i == 2:
                model.add_module("3", nn.Linear(8, 3))
            if i == 4:
                model[0].weight = nn.Parameter(tt.ones(8, 4))
            if i == 6:
                model[0].bias = None
            yield step(batch(i)[0])

    same(program, [4])


def test_buffers_updated_by_the_step():
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.running = nn.Buffer(tt.zeros(4))
            self.count = nn.Buffer(tt.tensor(0))
            self.weight = nn.Parameter(tt.ones(4))

        def forward(self, x):
            if self.training:
                with tt.no_grad():
                    self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)
                    self.count += 1
            return (x - self.running) * self.weight

    def program(wrap):
        model = Norm()
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss, model.running

        for i in range(6):
            yield step(batch(i)[0]), model
            model.eval()
            with tt.no_grad():
                yield model(batch(i)[0])
            model.train()

    same(program, [1])


def test_moving_average_of_weights():
    def program(wrap):
        model = mlp()
        mean = copy.deepcopy(model)
        opt = tt.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            opt.step()
            opt.zero_grad()
            with tt.no_grad():
                for a, p in zip(mean.parameters(), model.parameters(), strict=True):
                    a.mul_(0.9).add_(p.detach() * 0.1)
                    a.data.add_(p.data, alpha=0.01)

        for i in range(5):
            step(*batch(i))
            yield model, mean

    same(program, [1])


# --- Results and arguments


@pytest.mark.parametrize("set_to_none", [False, True])
def test_results_and_gradients_survive_the_next_call(set_to_none):
    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0, 3.0]))

        @wrap
        def step(x):
            y = w * x
            y.sum().backward()
            with tt.no_grad():
                w.sub_(w.grad * 0.1)
            half = y.detach()
            return y, w.grad, half[:2], half.unsqueeze(0).expand(2, 3), half.flip(0), w, w.detach()

        kept = []
        for i in range(5):
            if set_to_none:
                w.grad = None
            result = step(tt.tensor([1.0, float(i), -1.0]))
            assert result[1] is w.grad
            assert result[5] is w
            kept.append((result, result[0].detach().numpy(), w.grad, w.grad.numpy()))
        yield kept

    same(program)


def test_arguments_changed_in_place():
    def program(wrap):
        @wrap
        def step(x, y, n):
            x.mul_(2)
            y[0] = x[1]
            n += 1
            y[1:].add_(1)
            return x, y.sum()

        x, y, n = tt.tensor([1.0, 3.0]), tt.tensor([0.0, 0.0, 5.0]), tt.tensor(0)
        for _ in range(4):
            result = step(x, y, n)
            assert result[0] is x
            yield result, x, y, n

    same(program, [1])


def test_arguments_changed_before_an_error():
    def program(wrap):
        @wrap
        def step(x):
            x.mul_(2)
            raise ValueError("stop")

        x = tt.tensor([1.0])
        for _ in range(2):
            with pytest.raises(ValueError, match="stop"):
                step(x)
            yield x

    same(program, [0])


def test_arguments_changed_before_an_index_out_of_range():
    errors = []

    def program(wrap):
        table = tt.ones(3)

        @wrap
        def step(x, index):
            x.mul_(2)
            return table[index]

        x = tt.tensor([1.0])
        for i in (0, 1, 7, 2):
            try:
                yield step(x, tt.tensor([i]))
            except IndexError as error:
                errors.append(str(error))
                yield errors[-1]
            yield x

    same(program)
    assert len(errors) == 2  # eager and compiled


def test_untouched_gradients_stay():
    def program(wrap):
        model = mlp()

        @wrap
        def evaluate(x):
            with tt.no_grad():
                return model(x)

        @wrap
        def norm():
            return nn.utils.get_total_norm([p.grad for p in model.parameters()])

        for i in range(4):
            model.zero_grad()
            F.cross_entropy(model(batch(i)[0]), batch(i)[1]).backward()
            graph = (model[0].weight.grad * tt.ones(8, 4, requires_grad=True)).sum()
            yield evaluate(batch(9)[0]), norm(), model
            graph.backward()  # the gradient was not changed in place

    same(program, [1, 1])


@pytest.mark.parametrize("looks", [False, True])
def test_gradient_replaced_but_unread_is_not_guarded(looks):
    def program(wrap):
        w = tt.ones(3, requires_grad=True)

        @wrap
        def step(x):
            scale = 3.0 if looks and w.grad is not None else 1.0
            w.grad = None
            (w * x * scale).sum().backward()

        for i in range(5):
            if i == 3:
                w.grad = tt.full((3,), 7.0)
            before = w.grad
            step(tt.full((3,), float(i)))
            yield w.grad, before

    same(program, [2 if looks else 1])


def test_gradient_left_by_a_replay_keeps_the_guard():
    """It is not read between two calls, so it is still in the recording's memory when the next call reads it."""

    def program(wrap):
        w = tt.ones(3, requires_grad=True)

        @wrap
        def step(x):
            before = w.grad
            y = (w * x).sum() if before is None else (w * x * before).sum() * 0.5
            w.grad = None
            y.backward()
            return y.detach()

        for i in range(8):
            yield step(tt.full((3,), 1.0 + i))

    same(program, [2])


def test_gradients_changed_by_hand():
    def program(wrap):
        w, v = nn.Parameter(tt.ones(3)), nn.Parameter(tt.ones(3))

        @wrap
        def step(x, how):
            if how == "data":
                w.grad.data.zero_()
            (w * x + v * w).sum().backward()
            if how == "scaled":
                w.grad = w.grad * 2
                v.grad.mul_(0.5)
            if how == "indexed":
                w.grad[0] = 0.0
                v.grad[tt.tensor([1, 2])] = x[:2]
            if how == "moved":
                w.grad, v.grad = v.grad, w.grad
            if how == "dropped":
                v.grad = None
            if how == "outside":
                v.grad = fixed
            old = v.grad
            if how == "kept":
                old.mul_(2)
                v.grad = None
            with tt.no_grad():
                w.sub_(w.grad, alpha=0.1)
            return old

        fixed = tt.tensor([1.0, 2.0, 3.0])
        for how in ("nothing", "scaled", "data", "indexed", "moved", "dropped", "outside", "kept"):
            olds = []
            for i in range(3):
                olds.append(step(tt.tensor([1.0, -1.0, float(i)]), how))
                yield w, v, fixed
                if how == "kept":
                    v.grad = w.grad.clone()
            yield [old for old in olds if old is not None]

    same(program)


def test_one_tensor_passed_twice():
    def program(wrap):
        step = wrap(lambda a, b: (a - b, a * 2))
        a, b = tt.tensor([1.0]), tt.tensor([5.0])
        for x, y in ((a, a), (a, b), (b, b), (b, a)):
            yield step(x, y)

    same(program, [2])


def test_parameters_as_arguments():
    def program(wrap):
        p, q = nn.Parameter(tt.tensor([1.0])), nn.Parameter(tt.tensor([2.0]))

        @wrap
        def step(p, x):
            (p * x).sum().backward()
            with tt.no_grad():
                p -= p.grad
            return p

        for i in range(6):
            which = (p, q)[i % 2]
            assert step(which, tt.tensor([float(i)])) is which
            yield p, q

    same(program)


def test_methods_can_be_compiled():
    def program(wrap):
        class Trainer:
            def __init__(self, w):
                self.w = nn.Parameter(tt.tensor([w]))

            @wrap
            def step(self, x):
                (self.w * x).sum().backward()
                return self.w.grad

        first, second = Trainer(1.0), Trainer(2.0)
        for i in range(4):
            yield first.step(tt.tensor([float(i)])), second.step(tt.tensor([1.0]))

    same(program)


def test_argument_with_a_graph_runs_eagerly():
    def program(wrap):
        w = nn.Parameter(tt.tensor([2.0]))
        step = wrap(lambda x: x * 3)
        for _ in range(3):
            step(w * 2).backward()
            yield w

    same(program, [0])


# --- What happens inside


def test_random_numbers_inside_the_step():
    def program(wrap):
        own = tt.Generator().manual_seed(5)

        @wrap
        def step(x):
            numbers = tt.randn(3) + tt.rand(3, generator=own) * x
            whole = tt.randint(0, 10, (4,)), tt.randperm(5), tt.bernoulli(tt.full((6,), 0.5))
            return numbers, whole, tt.multinomial(tt.softmax(x, 0), 2), tt.empty(3).uniform_(-1, 1)

        for i in range(5):
            yield step(tt.tensor([1.0, 2.0, float(i)])), own

    same(program, [1])


def test_seed_inside_the_step():
    def program(wrap):
        def function():
            tt.manual_seed(3)
            first = tt.rand(2)
            tt.default_generator.set_state(tt.Generator().manual_seed(4).get_state())
            return first, tt.rand(2)

        step = wrap(function)
        for _ in range(3):
            yield step(), tt.rand(2)

    same(program)


def test_two_models_share_a_generator():
    def program(wrap):
        shared = tt.Generator().manual_seed(1)
        a, b = nn.Parameter(tt.ones(8)), nn.Parameter(tt.ones(8))

        def make(p):
            @wrap
            def step():
                p.grad = None
                F.dropout(p, 0.5, generator=shared).sum().backward()
                return p.grad

            return step

        first, second = make(a), make(b)
        for _ in range(4):
            yield first(), second(), first(), shared

    same(program)


def test_constants_made_inside_are_made_anew():
    def program(wrap):
        @wrap
        def step(x):
            total, positions, unit, row = tt.tensor([0.0, 0.0]), tt.arange(2), tt.eye(2), tt.linspace(0, 1, 2)
            total += x
            positions += 1
            unit[0] = x
            row.mul_(x)
            fresh = tt.zeros(2)
            fresh[1] = 3.0
            return total, positions, unit, row, fresh

        for i in range(4):
            yield step(tt.tensor([1.0, float(i)]))

    same(program, [1])


def test_changing_indices():
    def program(wrap):
        table = nn.Parameter(tt.tensor(np.arange(12.0, dtype=np.float32).reshape(6, 2)))
        opt = tt.optim.SGD([table], lr=0.1)

        @wrap
        def step(index, one):
            picked = F.embedding(index, table) * 2 + table[index] + table[index, 1:].sum() + table[one]
            taken = picked.gather(1, (index % 2).unsqueeze(1))
            y = picked * 1
            y[index % 3] = 0.5
            loss = (taken.sum() + y.square().sum()) / 10
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss, picked.detach()

        for i in range(5):
            yield step(tt.tensor([i % 3, 5, 3 - i % 4]), tt.tensor(i)), table

    same(program, [1])


OUT_OF_RANGE = {
    "embedding": lambda w, i: F.embedding(i, w),
    "indexing": lambda w, i: w[i],
    "gather": lambda w, i: w.gather(0, i.unsqueeze(1)),
    "cross_entropy": lambda w, i: F.cross_entropy(w[:2], i),
}


@pytest.mark.parametrize("what", OUT_OF_RANGE)
def test_out_of_range_index_raises_at_replay(what):
    errors = []

    def program(wrap):
        w = nn.Parameter(tt.tensor(np.arange(8.0, dtype=np.float32).reshape(4, 2)))
        opt = tt.optim.SGD([w], lr=0.1)

        @wrap
        def step(index):
            opt.zero_grad()
            OUT_OF_RANGE[what](w, index).sum().backward()
            opt.step()

        for index in ([0, 1], [1, 1], [1, 0], [1, 9], [0, 0], [0, -99], [0, 1]):
            try:
                step(tt.tensor(index))
                yield w
            except IndexError as error:
                errors.append(str(error))
                yield errors[-1]
            yield w.detach()

    same(program)
    assert len(errors) == 2 * 2  # the indices 9 and -99, eager and compiled


@pytest.mark.parametrize("middle", [True, False])
def test_exhausted_schedule_leaves_the_state_of_eager(middle):
    """A replay steps schedules before its launches; those that come before such a step have run when it fails."""

    def program(wrap):
        w, v = (nn.Parameter(tt.tensor([1.0, 2.0])) for _ in range(2))
        opts = [tt.optim.AdamW([p], lr=0.1) for p in (w, v)]
        schedules = [tt.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=total) for opt, total in zip(opts, (5, 99))]

        @wrap
        def step(x):
            loss = ((w * x) ** 2).sum() + ((v * x) ** 3).sum()
            for opt in opts:
                opt.zero_grad()
            loss.backward()
            for opt, schedule in list(zip(opts, schedules))[:: 1 if middle else -1]:
                opt.step()
                schedule.step()
            return loss

        for i in range(9):
            try:
                yield step(tt.tensor([i * 0.1, 1.0]))
            except ValueError as error:
                yield str(error)
            yield from (w.detach(), v.detach(), *opts)
            yield [schedule.last_epoch for schedule in schedules]
            if not middle:  # half a replay leaves no gradients
                yield from (w.grad, v.grad)

    same(program)


def test_exception_inside_leaves_the_state_of_eager():
    def program(wrap):
        model = mlp(0.5)
        opt = tt.optim.AdamW(model.parameters(), lr=0.01)

        @wrap
        def step(x, y, fail):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if fail:
                raise ValueError("stop")
            opt.step()
            opt.zero_grad()
            return loss

        for i in range(8):
            try:
                yield step(*batch(i), i in (2, 3, 6))
            except ValueError:
                yield "failed"
            yield model, opt

    same(program)


def test_hooks_take_part_in_replays():
    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0]))
        layer = nn.Linear(2, 2)

        @wrap
        def step(x):
            w.grad = None
            y = w * x
            y.register_hook(lambda g: g * 3)
            y.retain_grad()
            layer(y).sum().backward()
            return y.grad, w.grad

        for i in range(10):
            if i == 2:
                remove = w.register_hook(lambda g: g + 1)
            if i == 4:
                remove()
                clip = w.register_hook(lambda g: g.clamp(-1, 1))
            if i == 6:
                clip()
                undo = layer.register_forward_hook(lambda module, args, y: y * 2)
            if i == 8:
                undo()
            yield step(tt.tensor([1.0, float(i)])), w

    same(program)


def test_changes_in_place_of_intermediates():
    def program(wrap):
        w = nn.Parameter(tt.tensor([[1.0, 2.0], [3.0, 4.0]]))

        @wrap
        def step(x):
            w.grad = None
            y = w * x
            y.add_(1)
            y[0] = 2 * x[0]
            y[:, 1] *= w[0]
            y[y.detach()[0].long() % 2] = 0.5 * x[1]
            z = y.clone()
            z.T[1].mul_(3)
            z -= y
            z.relu_()
            (z.sum() + y.sum()).backward()
            return y.detach(), z.detach()

        for i in range(4):
            yield step(tt.tensor([[1.0, 2.0], [float(i), -1.0]])), w

    same(program, [1])


def test_autograd_inside_the_step():
    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0]))

        @wrap
        def step(x):
            w.grad = None
            x = x.detach().requires_grad_()
            y = (w * x * x).sum()
            (dx,) = tt.autograd.grad(y, x, create_graph=True)
            penalty = (dx.norm() - 1).square()
            (y + penalty).backward(create_graph=True)
            w.grad = w.grad.detach()
            return x.grad.detach(), dx.detach(), penalty.detach()

        for i in range(4):
            yield step(tt.tensor([1.0, float(i)])), w

    same(program, [1])


def test_two_compiled_functions_share_parameters():
    def program(wrap):
        a, b = mlp(), nn.Linear(3, 4)
        opt_a, opt_b = tt.optim.Adam(a.parameters(), lr=0.01), tt.optim.SGD(b.parameters(), lr=0.1)

        @wrap
        def first(x):
            opt_a.zero_grad()
            loss = (b(a(x)) - x).square().mean()
            loss.backward()
            opt_a.step()
            return loss

        @wrap
        def second(x):
            opt_b.zero_grad()
            loss = (b(a(x)) - x).abs().sum()
            loss.backward()
            opt_b.step()
            return loss

        for i in range(6):
            yield first(batch(i)[0]), second(batch(i)[0]), a, b, opt_a, opt_b

    same(program)


def test_compile_inside_compile():
    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0]))
        inner = wrap(lambda x: (w * x).square().sum())

        @wrap
        def outer(x):
            w.grad = None
            loss = inner(x)
            loss.backward()
            return loss

        for i in range(4):
            yield outer(tt.tensor([1.0, float(i)])), w
            with tt.no_grad():
                yield inner(tt.tensor([float(i), 1.0]))

    same(program, [1, 1])


def test_deep_copies_train_apart():
    def program(wrap):
        def make(model):
            opt = tt.optim.SGD(model.parameters(), lr=0.1)

            @wrap
            def step(x, y):
                F.cross_entropy(model(x), y).backward()
                opt.step()
                opt.zero_grad()

            return step

        model = mlp()
        step = make(model)
        step(*batch(0))
        twin = copy.deepcopy(model)
        twin_step = make(twin)
        for i in range(3):
            step(*batch(i))
            yield model, twin
            twin_step(*batch(10 + i))
            yield model, twin

    same(program, [1, 1])


def test_optimizer_closure():
    def program(wrap):
        w = nn.Parameter(tt.tensor([1.0, 2.0]))
        opt = tt.optim.SGD([w], lr=0.1)

        @wrap
        def step(x):
            def closure():
                opt.zero_grad()
                loss = (w * x).square().sum()
                loss.backward()
                return loss

            return opt.step(closure)

        for i in range(4):
            yield step(tt.tensor([1.0, float(i)])), w

    same(program)


def test_empty_tensors():
    def program(wrap):
        w = nn.Parameter(tt.ones(3))

        @wrap
        def step(x):
            w.grad = None
            y = (x * w).sum()
            y.backward()
            return y

        for n in (0, 2, 0, 2):
            yield step(tt.ones(n, 3)), w

    same(program)


@pytest.mark.parametrize("host_call", [False, True])
def test_repeat_is_as_many_calls(host_call):
    def trajectory(repeated):
        generator = tt.Generator().manual_seed(2)
        x, at, seen = tt.ones(3), tt.zeros(1, dtype=tt.int64), tt.zeros(20, 3)

        @tt.compile
        def step():
            noise = tt.rand(3, generator=generator) if host_call else 0.5
            x.mul_(1.25).sub_(noise)
            seen.index_copy_(0, at, x.unsqueeze(0))
            at.add_(1)

        for times in (1, 7, 0, 3):
            if repeated:
                step.repeat(times)
            else:
                for _ in range(times):
                    step()
        assert len(step.recordings) == 1
        return at.tolist(), seen.tolist()

    assert trajectory(True) == trajectory(False)
    assert trajectory(True)[0] == [11]


def test_repeat_stops_at_an_error():
    at, seen = tt.zeros(1, dtype=tt.int64), tt.zeros(5)

    @tt.compile
    def step():
        seen.index_copy_(0, at, tt.ones(1))
        at.add_(1)

    with pytest.raises(IndexError, match="index_copy_: index 5 is outside 0 to 4"):
        step.repeat(20)
    assert (at.tolist(), seen.tolist()) == ([5], [1.0] * 5)
    at.zero_()
    step.repeat(2)  # it goes on as if nothing had been
    assert at.tolist() == [2]


def test_repeat_accumulates_gradients():
    w = tt.ones(3, requires_grad=True)

    @tt.compile
    def step():
        (w * 2).sum().backward()

    w.grad = tt.zeros(3)
    step.repeat(5)
    assert w.grad.tolist() == [10.0] * 3


def test_step_without_arguments_or_result():
    def program(wrap):
        count = tt.tensor(0)

        @wrap
        def step():
            count.add_(1)

        for _ in range(3):
            assert step() is None
            yield count

    same(program, [1])


# --- Sentences

LOOKS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: 1 if x.sum() > 0 else 2,
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "format": lambda x: f"{x[0]:.3f}",
    "str": lambda x: str(x),
    "print": lambda x: print(x),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "ufunc": lambda x: np.exp(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "tolist": lambda x: x.tolist(),
    "in": lambda x: 1.0 in x,
    "max of Python": lambda x: max(x),
    "mask": lambda x: x[x > 0],
    "mask assigned": lambda x: x.__setitem__(x > 0, 1.0),
    "nonzero": lambda x: x.nonzero(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "a tensor of tensors": lambda x: tt.tensor([x[0], x[1]]),
    "range": lambda x: range(x[0].long()),
    "nonfinite norm": lambda x: nn.utils.get_total_norm([x], error_if_nonfinite=True),
}


@pytest.mark.parametrize("look", LOOKS)
def test_reading_a_value_raises(look):
    step = tt.compile(lambda x: LOOKS[look](x * 1), fullgraph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inside a compiled step"):
            step(tt.tensor([1.0, 2.0]))
    tt.tensor([1.0]).item()  # and afterwards all is as before


@pytest.mark.parametrize("look", LOOKS)
def test_step_that_reads_a_value_runs_eagerly_and_warns_once(look, capsys):
    w = nn.Parameter(tt.tensor([1.0, 2.0]))

    def step(x):
        y = w * x
        with tt.no_grad():
            seen = LOOKS[look](y.detach() * 1)
            w.mul_(2)
        return seen, y.sum()

    compiled = tt.compile(step)
    expected = []
    for function in (step, compiled):
        w.grad, w.data = None, tt.tensor([1.0, 2.0])
        results = []
        for i in range(3):
            w.grad = None
            if function is compiled and i == 0:
                with pytest.warns(UserWarning, match="step runs without a recording: .* inside a compiled step"):
                    seen, y = function(tt.tensor([1.0, i]))
            else:
                seen, y = function(tt.tensor([1.0, i]))
            x = tt.ones(2, requires_grad=True)
            (y * x.sum()).backward()  # a graph that is alive, and that leads on to the parameter
            results.append(frozen([seen, y.detach(), w, x.grad]))
        expected.append(results)
    assert expected[0] == expected[1]


def refused(function, sentence, *args, error=RuntimeError):
    with pytest.raises(error, match=sentence):
        tt.compile(function, fullgraph=True)(*args)


def test_unsupported_results_raise():
    w = nn.Parameter(tt.ones(2))
    x = tt.ones(2)
    refused(lambda x: (w * x).sum(), "graph is still alive", x)
    refused(lambda x: w[0], "graph is still alive", x)
    refused(lambda x: (x, 3), "returned 3 .int., which a replay could not compute anew", x)
    refused(lambda x: {"loss": 0.5}, "returned 0.5", x)
    refused(lambda x: np.zeros(2), "ndarray", x)


def test_tensors_kept_outside_the_step_raise():
    x, kept, module = tt.ones(3), [], mlp()
    refused(lambda x: kept.append(x * 2), "keeps tensors of its own", x)

    def mean(x):
        module.mean = nn.Buffer(x * 0.5)

    refused(mean, r"of shapes \(3,\)", x)

    def replaced():
        w.data = tt.zeros(5)

    w = nn.Parameter(tt.ones(3))
    refused(replaced, "write into a tensor from outside with copy_")


def test_arguments_that_cannot_be_copied_raise():
    buffer = tt.ones(3)

    def both(x):
        buffer.add_(1)
        return x * 1

    refused(both, "shares memory with another tensor", buffer)
    refused(lambda x, y: x.add_(y), "shares memory with another tensor", buffer, buffer[:])
    refused(lambda x: (x.requires_grad_() * 2).sum().backward(), "asked for the gradient of its argument", buffer)
    refused(lambda x: None, "a NumPy array as argument would be frozen", np.ones(2), error=TypeError)
    refused(lambda x: None, "an argument of type set can't be a condition", {1}, error=TypeError)


def test_too_many_recordings_raise():
    whole, step = tt.compile(lambda x, i: x * i, fullgraph=True), tt.compile(lambda x, i: x * i)
    for i in range(LIMIT):
        whole(tt.ones(1), i)
        step(tt.ones(1), i)
    assert whole(tt.ones(1), 5).item() == 5
    sentence = f"was recorded {LIMIT} times.*pass varying values as tensors"
    with pytest.raises(RuntimeError, match=sentence):
        whole(tt.ones(1), LIMIT)
    with pytest.warns(UserWarning, match=sentence):
        assert step(tt.ones(1), LIMIT).item() == LIMIT
    assert step(tt.ones(1), LIMIT + 1).item() == LIMIT + 1


# --- What a replay costs


def big_step():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU())
    opt = tt.optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        return loss

    return step, (tt.randn(256, 64), tt.randint(0, 64, (256,)))


def test_a_replay_makes_no_tensor_and_allocates_nothing(monkeypatch):
    function, args = big_step()
    step = tt.compile(function)
    step(*args)
    step(*args)
    ((only,),) = step.recordings.values()
    made = []
    with monkeypatch.context() as patch:
        first = tt.Tensor.of
        patch.setattr(tt.Tensor, "of", staticmethod(lambda *a, **k: (made.append(a), first(*a, **k))[1]))
        tracemalloc.start()
        only.recording.replay()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not made
        step(*args)
        assert len(made) == 1  # the returned loss
    assert recordings(step) == 1
    assert peak < 16_000  # one activation has 65,536 bytes


def test_buffers_are_reused(monkeypatch):
    function, args = big_step()
    asked = []
    first = Pool.buffer
    monkeypatch.setattr(
        Pool, "buffer", lambda self, *a: (lambda array: (asked.append(array.nbytes), array)[1])(first(self, *a))
    )
    step = tt.compile(function)
    step(*args)
    ((only,),) = step.recordings.values()
    roots = {}
    for array in only.recording.arrays():
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        if isinstance(array, np.ndarray) and array.dtype == np.uint8:
            roots[id(array)] = array.nbytes
    assert roots and sum(roots.values()) < 0.6 * sum(asked)


# --- Random programs

UNARY = {
    "tanh": lambda a: a.tanh(),
    "exp": lambda a: (a * 0.1).exp(),
    "relu": lambda a: a.relu(),
    "softmax": lambda a: a.softmax(-1),
    "layer_norm": lambda a: F.layer_norm(a.expand(3, 3), (3,)),
    "sum": lambda a: a.sum(0, keepdim=True) * 0.1,
    "max": lambda a: a.max(-1, keepdim=True)[0],
    "transpose": lambda a: a.T if a.shape == (3, 3) else a * 1,
    "expand": lambda a: a.expand(3, 3),
    "flip": lambda a: a.flip(0),
    "part": lambda a: a[:, 1:2],
    "row": lambda a: a[-1],
    "clone": lambda a: a.clone(),
    "detach": lambda a: a.detach() * 1,
    "noise": lambda a: a + tt.randn(3, 3) * 0.1,
    "constant": lambda a: a + tt.tensor([1.0, 2.0, 3.0]),
}
BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b * 0.5,
    "sub": lambda a, b: a - b,
    "matmul": lambda a, b: a.expand(3, 3) @ b.expand(3, 3) * 0.1,
    "where": lambda a, b: tt.where(a > b, a, b),
    "cat": lambda a, b: tt.cat([a.expand(3, 3), b.expand(3, 3)])[1:4],
}
IN_PLACE = {
    "add_": lambda a, b: a.add_(b),
    "mul_": lambda a, b: a.mul_(b * 0.5),
    "relu_": lambda a, b: a.relu_(),
    "zero_": lambda a, b: a.zero_(),
    "row =": lambda a, b: a.__setitem__(0, b.sum() * 0.1),
    "column =": lambda a, b: a.__setitem__((..., slice(0, 1)), 0.5),
    "index =": lambda a, b: a.__setitem__(tt.tensor([0, -1]), b.mean() * 0.1),
}
NAMES = sorted([*UNARY, *BINARY, *IN_PLACE, "drop"])


@settings(max_examples=250 if THOROUGH else 60, deadline=None, derandomize=True)
@given(
    st.sampled_from([tt.float32, tt.float64]),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=14),
    st.booleans(),
)
def test_random_programs(dtype, instructions, keep_gradients):
    def program(wrap):
        w = nn.Parameter(tt.tensor([[0.5, -1.0, 0.2], [0.1, 0.3, -0.4], [1.0, 0.0, 0.7]], dtype=dtype))

        @wrap
        def step(x):
            if not keep_gradients:
                w.grad = None
            values = [x * w, w + 0.0, x * 1]
            for name, i, j in instructions:
                i, j = i % len(values), j % len(values)
                if name in UNARY:
                    values.append(UNARY[name](values[i] if values[i].ndim == 2 else values[i].expand(3, 3)))
                elif name in BINARY:
                    values.append(BINARY[name](values[i], values[j]))
                elif name in IN_PLACE:
                    other = values[j] if values[i].shape == (3, 3) else values[j].sum() * 0.1
                    IN_PLACE[name](values[i], other)
                elif len(values) > 1:
                    del values[i]
            loss = sum((v * (0.1 + 0.1 * k)).sum() for k, v in enumerate(values)) + w.sum()
            loss.backward()
            with tt.no_grad():
                w.sub_(w.grad.clamp(-1, 1), alpha=0.01)
            return loss, [v.detach() for v in values]

        for i in range(4):
            x = tt.tensor(np.random.default_rng(i).normal(size=(3, 3)).astype(dtype))
            try:
                yield step(x)
            except RuntimeError as error:  # in place where it may not be: both must say so
                yield str(error)
                return
            yield w

    same(program)


# --- Replays that come to no end


@pytest.mark.parametrize("profiled", [False, True])
def test_failed_replay_is_undone(profiled):
    """What an ordinary run would not have reached is undone, the last one first."""
    log, flag, failing = [], np.zeros(1, np.int64), set()

    def call(name):
        log.append(name)
        if name in failing:
            raise ValueError(name)
        if name == "b" and "index" in failing:
            flag[0] = 1

    def call_early(before, name):
        before.append(name)
        call(name)

    def undo(before, name):
        assert before == [name]
        log.append(f"not {name}")

    def tell(flag):
        raise IndexError("index")

    recording = Recording()
    recording.host(call, ("a",), None)
    recording.host(call_early, ([], "after a"), undo)
    recording.host(call, ("b",), None)
    recording.host(call_early, ([], "after b"), undo)
    recording.check(flag, tell)
    recording.host(call_early, ([], "after the index"), undo)
    recording.host(call, ("c",), None)
    recording.close()
    early, none = ["after a", "after b", "after the index"], set()
    for names, expected in (
        (none, ["a", "b", "c"]),
        ({"a"}, ["a", "not after the index", "not after b", "not after a"]),
        ({"b"}, ["a", "b", "not after the index", "not after b"]),
        ({"index"}, ["a", "b", "not after the index"]),
        (none, ["a", "b", "c"]),
        ({"c"}, ["a", "b", "c"]),
    ):
        log.clear()
        failing.clear()
        failing.update(names)
        with (
            tt.profile() if profiled else nullcontext(),
            pytest.raises((ValueError, IndexError), match=next(iter(names))) if names else nullcontext(),
        ):
            recording.replay()
        assert log == early + expected


def test_small_product_in_a_program_has_two_tasks(monkeypatch):
    """By itself it has one: to wake a second thread for it would take longer than the product."""
    tasks = []

    def watched(self, kernel, launch, run=profiler.Profile.launch):
        tasks.append(launch.tasks)
        run(self, kernel, launch)

    monkeypatch.setattr(profiler.Profile, "launch", watched)
    a, b = tt.randn(512, 16), tt.randn(16, 16)
    product = tt.compile(lambda: a @ b)
    product()
    with tt.profile():
        together, alone = product(), a @ b
    assert len(tasks) == 2 and tasks[0] > 1 and tasks[1] == 1
    assert (together == alone).all()


# --- The memory of recordings


def recordings_of(step) -> list:
    return [recorded for same in step.recordings.values() for recorded in same]


def test_recordings_that_were_used_longest_ago_are_dropped():
    bound = 250_000  # bytes; a recording below keeps 30,000 and more

    def plain(x):
        return (x @ x.T).exp().sum()

    step = tt.compile(plain, options={"recording_memory": bound}, fullgraph=True)
    xs = [tt.randn(50 + i, 20) * 0.1 for i in range(12)]
    for x in xs:
        step(x)
        assert np.array_equal(step(xs[0]).numpy(), plain(xs[0]).numpy())  # used at every turn, so it stays
    kept = recordings_of(step)
    assert sum(r.size for r in kept) <= bound and 1 < len(kept) < 12 and step.made == 12
    first, last = (next(r for r in kept if r.arguments[0].shape == x.shape) for x in (xs[0], xs[-1]))
    assert first in kept and last in kept
    gone = weakref.ref(next(r for r in kept if r not in (first, last)).recording.pool)
    del kept, first, last
    assert np.array_equal(step(xs[1]).numpy(), plain(xs[1]).numpy()) and step.made == 13  # recorded again
    for x in xs[2:10]:
        step(x)
    gc.collect()
    assert gone() is None  # the memory is free


def test_without_a_bound_all_recordings_stay():
    step = tt.compile(lambda x: (x @ x.T).exp().sum())
    for i in range(12):
        step(tt.randn(50 + i, 20))
    assert len(recordings_of(step)) == step.made == 12


def test_the_last_four_recordings_stay_however_large_they_are():
    step = tt.compile(lambda x: x * 2, options={"recording_memory": 0})
    for i in range(7):
        step(tt.ones(1000 + i))
    assert sorted(r.arguments[0].shape[0] for r in recordings_of(step)) == [1003, 1004, 1005, 1006]


def test_ever_new_conditions_run_eagerly_in_the_end(monkeypatch):
    monkeypatch.setattr(compiled, "LIMIT", 6)
    step = tt.compile(lambda x: x * 2, options={"recording_memory": 0})
    for i in range(6):
        step(tt.ones(10 + i))
    with pytest.warns(UserWarning, match=r"recorded 6 times, .* \(2 of them were dropped, beyond 0 bytes"):
        assert step(tt.ones(30)).shape == (30,)
    assert step.made == 6


def test_bound_of_memory_is_a_number_of_bytes():
    with pytest.raises(ValueError, match="recording_memory 'much'; expected a number of bytes"):
        tt.compile(lambda x: x, options={"recording_memory": "much"})
    assert tt.compile(lambda x: x, options={"triton.cudagraphs": True}).memory == compiled.MEMORY  # of PyTorch's
