"""compile: which object's attribute a step reads decides what is a condition, by name only where that is not known."""

import dataclasses
import functools
import random
import textwrap
import types

import pytest

import tinytensor as tt
from tests.recording.test_conditions import follows, recordings, set_of
from tinytensor import nn
from tinytensor.native.recording.guards import Guards


class Trainer:
    """Counters, a log and lists beside what the step reads, as most programs have them."""

    def __init__(self):
        tt.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        self.opt = tt.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = iter([tt.ones(3, 2)] * 100)
        self.iter_num, self.step, self.best, self.state = 0, 0, float("inf"), "new"
        self.losses, self.log, self.lr_scale = [], {"loss": 0.0}, 1.0

    def train_step(self, x):
        self.opt.zero_grad()
        loss = self.model(x).square().mean() * self.lr_scale
        loss.backward()
        for p in self.model.parameters():
            p.data.clamp_(-9.0, 9.0)  # `data` is no attribute of self here
        self.opt.step()
        return loss.detach()

    def train(self, steps):
        for _ in range(steps):
            loss = self.one(next(self.data)).item()
            self.iter_num += 1
            self.step += 1
            self.losses.append(loss)
            self.log["loss"] = loss
            self.best, self.state = min(self.best, loss), f"step {self.step}"

    def __call__(self, steps):
        self.train(steps)


def test_trainer_with_counters_is_recorded_once():
    plain, trainer = Trainer(), Trainer()
    plain.one = plain.train_step
    trainer.one = tt.compile(trainer.train_step, fullgraph=True)
    for t in (plain, trainer):
        t.train(8)
    assert recordings(trainer.one) == 1
    for t in (plain, trainer):
        t.lr_scale = 3.0
        t.train(8)
    assert recordings(trainer.one) == 2
    assert trainer.losses == plain.losses


def test_a_method_that_is_compiled_in_its_class():
    class Compiled(Trainer):
        @tt.compile(fullgraph=True)
        def one(self, x):
            return self.train_step(x)

    trainer = Compiled()
    trainer(8)
    assert recordings(Compiled.one) == 1
    trainer.lr_scale = 2.0
    trainer(8)
    assert recordings(Compiled.one) == 2


class Block:
    __match_args__ = ("scale",)

    def __init__(self, scale):
        self.scale, self.used, self.step = scale, 0, 0

    def run(self, x):
        return x * self.scale


class Net:
    shift = 0.0

    def __init__(self):
        self.blocks = [Block(1.0), Block(2.0)]
        self.by_name = {"a": Block(3.0)}
        self.config = Config()
        self.frozen = Frozen(Block(4.0))
        self.slots = Slots(5.0)
        self.listed, self.settings = Listed(), AttributeDict(rate=2.0)
        self.count, self.scale = 0, 1.0

    @property
    def first(self):
        return self.blocks[0]

    @functools.cached_property
    def kept(self):
        return self.config

    def loop(self, x):
        for block in self.blocks:
            x = x * block.scale
        return x

    def comprehension(self, x):
        return sum(x * block.scale for block in self.blocks)

    def subscript(self, x):
        return x * self.by_name["a"].scale

    def method_of_an_element(self, x):
        return self.blocks[1].run(x)

    def behind_a_property(self, x):
        return x * self.first.scale

    def behind_a_kept_property(self, x):
        return x * self.kept.rate

    def of_a_config(self, x):
        config = self.config
        return x * config.rate + config.inner.rate

    def of_one_or_the_other(self, x):
        config = self.config if len(self.blocks) == 2 else self.config.inner
        return x * config.rate + (self.slots or self.config).rate

    def of_the_class(self, x):
        return x + self.shift

    def of_what_is_frozen(self, x):
        return self.frozen.block.run(x)

    def of_slots(self, x):
        return x * self.slots.rate

    def through_a_helper(self, x):
        return helper(self, x)

    def through_a_lambda(self, x):
        return (lambda y: y * self.config.rate)(x)

    def for_a_while(self, x):
        before, self.config = self.config, self.blocks[0]
        x = x * self.config.scale
        self.config = before
        return x

    def rebound(self, x):
        self = self.blocks[1]
        return x * self.scale

    def by_a_string(self, x):
        return x * getattr(self.config, "rate") * vars(self.slots.block)["scale"]  # noqa: B009

    def in_a_made_object(self, x):
        return Holder(self.blocks[0]).run(x)

    def of_a_list_with_attributes(self, x):
        return x * [self.listed][0].scale

    def of_a_dictionary_with_attributes(self, x):
        return x * self.settings.rate

    def of_a_function(self, x):
        return x * [helper][0].scale

    def by_a_pattern(self, x):
        match self.blocks[1]:
            case Block(scale=s):
                return x * s

    def by_a_pattern_without_names(self, x):
        match self.blocks[1]:
            case Block(s):
                return x * s


class Listed(list):
    scale = 1.0


class AttributeDict(dict):
    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class Holder:
    def __init__(self, block):
        self.block, self.count = block, 1.0

    def run(self, x):
        return x * self.block.scale * self.count


@dataclasses.dataclass
class Config:
    rate: float = 2.0
    inner: object = dataclasses.field(default_factory=lambda: types.SimpleNamespace(rate=3.0))


@dataclasses.dataclass(frozen=True)
class Frozen:
    block: Block


class Slots:
    __slots__ = ("block", "rate")

    def __init__(self, rate):
        self.rate, self.block = rate, Block(7.0)


def helper(net, x):
    return x * net.by_name["a"].scale


helper.scale = 1.0


CASES = {
    "loop": lambda net: (net.blocks[1], "scale"),
    "comprehension": lambda net: (net.blocks[1], "scale"),
    "subscript": lambda net: (net.by_name["a"], "scale"),
    "method_of_an_element": lambda net: (net.blocks[1], "scale"),
    "behind_a_property": lambda net: (net.blocks[0], "scale"),
    "behind_a_kept_property": lambda net: (net.config, "rate"),
    "of_a_config": lambda net: (net.config.inner, "rate"),
    "of_one_or_the_other": lambda net: (net.slots, "rate"),
    "of_the_class": lambda net: (net, "shift"),
    "of_what_is_frozen": lambda net: (net.frozen.block, "scale"),
    "of_slots": lambda net: (net.slots, "rate"),
    "through_a_helper": lambda net: (net.by_name["a"], "scale"),
    "through_a_lambda": lambda net: (net.config, "rate"),
    "for_a_while": lambda net: (net.blocks[0], "scale"),
    "rebound": lambda net: (net.blocks[1], "scale"),
    "by_a_string": lambda net: (net.slots.block, "scale"),
    "in_a_made_object": lambda net: (net.blocks[0], "scale"),
    "of_a_list_with_attributes": lambda net: (net.listed, "scale"),
    "of_a_dictionary_with_attributes": lambda net: (net.settings, "rate"),
    "of_a_function": lambda net: (helper, "scale"),
    "by_a_pattern": lambda net: (net.blocks[1], "scale"),
    "by_a_pattern_without_names": lambda net: (net.blocks[1], "scale"),
}


@pytest.mark.parametrize("name", CASES)
def test_attributes_read_are_guarded(name):
    """And a counter that no code of the step reads is none."""
    net, x = Net(), tt.tensor([1.0, 2.0])
    target, attribute = CASES[name](net)

    def change(i):
        setattr(target, attribute, 10.5 + i)
        net.count += 1
        net.blocks[0].used += 1

    assert follows(getattr(net, name), change, x, times=4) in (4, 5)  # 5: cached_property, first call
    assert follows(getattr(net, name), lambda i: setattr(target, attribute, 20.5 + i), x) == 3
    counted = tt.compile(getattr(net, name), fullgraph=True)
    for _ in range(4):
        net.count += 1
        net.blocks[0].used += 1
        net.blocks[1].step += 1
        counted(x)
    assert recordings(counted) == 1


def test_indirect_calls_are_guarded():
    net, x = Net(), tt.tensor([1.0, 2.0])
    block = net.blocks[1]

    def outer():
        def inner(y):
            return y * block.scale

        return lambda y: inner(y)

    def change(i):
        block.scale += 1.0

    assert follows(outer(), change, x) == 3
    assert follows(functools.partial(lambda net, y: net.loop(y), net), change, x) == 3
    assert follows(functools.partial(Net.loop, net), change, x) == 3
    assert follows(lambda y: functools.partial(net.loop)(y), change, x) == 3
    assert follows(lambda y: Net.loop(net, y), change, x) == 3

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts, self.rate, self.calls = nn.ModuleDict({"a": nn.Dropout(0.0)}), 2.0, 0

        def forward(self, y):
            return self.parts["a"](y) * self.scaled()

        def scaled(self):
            return self.rate * super().__getattribute__("rate")

    model = Model()

    def faster(i):
        model.rate += 1.0

    for step in (lambda y: model(y), model.forward):
        assert follows(step, faster, x) == 3
        assert follows(step, set_of(model.parts["a"], "p", 0.5, 0.9), x) > 1
        model.parts["a"].p = 0.0
        counted = tt.compile(step, fullgraph=True)
        for _ in range(4):
            counted(x)
            model.calls += 1
        assert recordings(counted) == 1


# --- Any program, and any attribute of it changed

PATHS = ("self.a", "self.b", "self.one.a", "self.one.b", "self.two.a", "self.one.two.a", "self.many[0].a", "K.a", "K.c")
STATEMENTS = (
    "x = x + {path}",
    "x = x * {path} + {other}",
    "one = self.one\nx = x - one.a",
    "one = self.one if {path} > 2 else self.two\nx = x + one.b",
    "for each in self.many:\n    x = x + each.a * {path}",
    "x = x + sum([each.b for each in self.many])",
    "x = x + self.value",
    "x = self.helped(x, {path})",
    "x = self.one.helped(x, {path})",
    "x = x + getattr(self, 'b') * {path}",
    "x = x + (self.one or self.two).a",
    "x = x + pick(self.many, self.one).b",
    "x = x + (lambda y: y * {path})(2.0)",
    "x = x + other(self.two)",
    "if {path} > {other}:\n    x = -x",
    "x = x + self.c",
)
SOURCE = """
class K:
    a, b, c = 1.0, 2.0, 3.0

    def __init__(self, depth, start):
        self.a, self.b, self.n = start, start + 1.0, 0
        if depth:
            self.one, self.two = K(depth - 1, start + 2.0), K(depth - 1, start + 3.0)
            self.many = [K(depth - 1, start + 4.0), K(depth - 1, start + 5.0)]

    @property
    def value(self):
        return {value}

    def helped(self, x, y):
        return x * self.{name} + y

    def step(self, x):
{body}
        return x

def pick(many, one):
    return many[1] if one.a > 3 else one

def other(k):
    return k.{name} + {scale}
"""


def everything(root, cls) -> list:
    """All objects of the program, and its class."""
    results, left = [cls], [root]
    while left:
        results.append(left.pop())
        left += [v for v in vars(results[-1]).values() if isinstance(v, cls)]
        left += getattr(results[-1], "many", [])
    return results


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_follow_changes(seed):
    chance = random.Random(seed)
    body = [
        chance.choice(STATEMENTS).format(path=chance.choice(PATHS), other=chance.choice(PATHS))
        for _ in range(chance.randint(1, 4))
    ]
    names = {"scale": 2.0, "__name__": "program"}
    source = SOURCE.format(
        body=textwrap.indent("\n".join(body), " " * 8),
        value=chance.choice(PATHS),
        name=chance.choice(["a", "b", "c"]),
        scale="scale",
    )
    exec(compile(source, f"program {seed}", "exec"), names)
    root = names["K"](2, 1.0)
    step, x = tt.compile(root.step), tt.tensor([1.0, 2.0])
    objects = everything(root, names["K"])
    for _ in range(30):
        what = chance.random()
        if what < 0.1:
            names["scale"] = chance.randint(1, 9) / 2
        elif what < 0.2:
            chance.choice(objects[1:]).n = chance.randint(1, 99)
        elif what < 0.3:
            target = chance.choice([o for o in objects[1:] if hasattr(o, "one")])
            target.one, target.two = target.two, target.one
        else:
            setattr(chance.choice(objects), chance.choice("abc"), chance.randint(1, 9) / 2)
        assert step(x).tolist() == root.step(x).tolist(), source
        assert step(x).tolist() == root.step(x).tolist(), source
    assert recordings(step) > 0


def test_missed_guard_is_noticed(monkeypatch):
    monkeypatch.setattr(Guards, "hold", lambda self: True)
    with pytest.raises(AssertionError, match="class K"):
        any(test_random_programs_follow_changes(seed) for seed in range(5))
