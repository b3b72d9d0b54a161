"""The checks of steps 1 to 3: slopes, the tape, the order."""

from collections.abc import Callable
from unittest import mock

import numpy as np

import tinytensor as tt
from examples.build.checks.common import array, close, compare, show, tensor_of, walk_back
from examples.build.judge import Engine, Wrong

FORGOT_ADD = "It is the part that came last: add to the gradient (grad = grad + ...), do not replace it."


def rule(
    name: str, reference: Callable, inputs: Callable, mistakes: Callable, values: Callable | None = None
) -> Callable:
    """The check of a function of step 1: its value and slopes, for numbers and then for arrays.

    inputs(random, shape) draws the arguments; mistakes(*arguments) gives for each slope: sentence -> wrong slope.
    """

    def check(engine: Engine, random: np.random.Generator) -> None:
        function = getattr(engine.slopes, name)
        for shape in [()] * 6 + [(3,)]:
            arguments = inputs(random, shape)
            what = f"{name}({', '.join(show(a) for a in arguments)})"
            result = engine.call(function, *arguments, what=what)
            if not isinstance(result, tuple) or len(result) != 2:
                raise Wrong(f"{what} should return two things, `value, slopes`, and returns {result!r}.")
            value, slopes = result
            twins = [tt.tensor(a, dtype=tt.float64, requires_grad=True) for a in arguments]
            if name == "power":
                twins[1] = float(arguments[1])
            right = reference(*twins)
            right.sum().backward()
            wanted = [t.grad.numpy() for t in twins if isinstance(t, tt.Tensor)]
            compare(f"{what}: the value", value, right.detach().numpy(), values(*arguments) if values else None)
            if not isinstance(slopes, tuple | list):
                raise Wrong(f"{what}: the slopes should be a tuple, also if there is one: `(slope,)` with the comma.")
            if len(slopes) != len(wanted):
                raise Wrong(f"{what} should have {len(wanted)} slope{'s' * (len(wanted) > 1)}, and has {len(slopes)}.")
            for letter, got, want, known in zip("ab", slopes, wanted, mistakes(*arguments)):
                h = 1e-6
                i = "ab".index(letter)
                moved = [[a + h * s * (j == i) for j, a in enumerate(arguments)] for s in (1, -1)]
                up, down = (engine.call(function, *m, what=what)[0] for m in moved)
                found = show((np.asarray(up) - np.asarray(down)) / (2 * h))
                got = array(got, f"{what}: the slope with respect to {letter}")
                compare(
                    f"{what}: the slope with respect to {letter}",
                    got if got.shape else np.broadcast_to(got, want.shape),
                    want,
                    known,
                    f"Finite differences find {found}.",
                )

    return check


def plain(count: int, positive: bool = False) -> Callable:
    def inputs(random: np.random.Generator, shape: tuple) -> list:
        drawn = [random.uniform(0.5, 2.0, shape) for _ in range(count)]
        return drawn if positive else [d * random.choice([-1, 1], shape) for d in drawn]

    return inputs


def with_power(random: np.random.Generator, shape: tuple) -> list:
    return [*plain(1)(random, shape), float(random.choice([-1, 2, 3, -2]))]


def with_zero(random: np.random.Generator, shape: tuple) -> list:
    (drawn,) = plain(1)(random, shape)
    if shape:
        drawn[0] = 0.0
    return [drawn]


RULES = {
    "slopes.mul": rule(
        "mul",
        lambda a, b: a * b,
        plain(2),
        lambda a, b: [{"The two slopes are swapped: dy/da = b.": a}, {"The two slopes are swapped: dy/db = a.": b}],
    ),
    "slopes.power": rule(
        "power",
        lambda a, n: a**n,
        with_power,
        lambda a, n: [
            {
                "The factor n is missing.": a ** (n - 1),
                "The exponent of the slope is n - 1, not n.": n * a**n,
            }
        ],
    ),
    "slopes.exp": rule(
        "exp",
        lambda a: a.exp(),
        plain(1),
        lambda a: [
            {"The slope of e^a is e^a, the value itself.": a, "e^a is no power with a fixed n.": a * np.exp(a - 1)}
        ],
    ),
    "slopes.log": rule(
        "log",
        lambda a: a.log(),
        plain(1, positive=True),
        lambda a: [{"The slope is 1/a, with the input a, not with log a.": 1 / np.log(a)}],
        lambda a: {"Use the natural logarithm, np.log.": np.log10(a), "Use np.log, not np.log2.": np.log2(a)},
    ),
    "slopes.tanh": rule(
        "tanh",
        lambda a: a.tanh(),
        plain(1),
        lambda a: [{"It is 1 - y² with the value y = tanh a, not 1 - a².": 1 - a * a, "Square y.": 1 - np.tanh(a)}],
    ),
    "slopes.relu": rule(
        "relu",
        lambda a: a.relu(),
        with_zero,
        lambda a: [
            {
                "Where a is 0 take the slope 0.": np.asarray(a >= 0, dtype=float),
                "Where a is negative y stays 0, so the slope is 0.": np.ones_like(a),
                "The slope is 1 where a > 0, not a.": np.maximum(a, 0),
            }
        ],
        lambda a: {"Where a is positive, y is a.": np.minimum(a, 0), "y is 0 where a is negative.": np.asarray(a)},
    ),
}


# Step 2


def receive(engine: Engine, random: np.random.Generator) -> None:
    first, second = random.uniform(1, 2, 2)
    x = engine.tape.Tensor(0.5)
    for g in (first, second):
        engine.call(x.receive, g, what=f"receive({g:.4f})")
    compare(
        f"receive({first:.4f}) and then receive({second:.4f}): the gradient",
        x.grad,
        first + second,
        {FORGOT_ADD: second, "Nothing has been stored: set self.grad.": 0.0, "Start from the gradient so far.": first},
    )
    shapes, x = [], engine.tape.Tensor([1.0, 2.0])
    with mock.patch.object(engine.tape, "unbroadcast", lambda g, shape: shapes.append(tuple(shape)) or g):
        engine.call(x.receive, np.ones(2), what="receive")
    if shapes != [(2,)]:
        raise Wrong("receive must add unbroadcast(g, self.shape), not g: from step 4 on g may have another shape.")


def send(engine: Engine, random: np.random.Generator) -> None:
    a, b, g = random.uniform(0.5, 2, 3)
    x, y = engine.tape.Tensor(a), engine.tape.Tensor(b)
    product = engine.tape.record(engine.slopes.mul, x, y)
    product.grad = g
    engine.call(product.send, what="send() of y = a b")
    what = f"y = a b at a = {a:.4f}, b = {b:.4f}, with y.grad = {g:.4f}, after y.send(): the gradient of a"
    compare(
        what,
        x.grad,
        g * b,
        {
            "send has changed nothing: call source.receive(...) for each pair of self.edges.": 0.0,
            "pull gets the gradient of y, self.grad, not 1.": b,
            "The gradient of y itself was passed on: apply pull to it.": g,
        },
    )
    compare(what[:-1] + "b", y.grad, g * a, {"Only the first edge was served. Is `return` inside the loop?": 0.0})
    x = engine.tape.Tensor(a)
    square = engine.tape.record(engine.slopes.mul, x, x)
    square.grad = g
    engine.call(square.send, what="send() of y = a a")
    compare(
        f"y = a · a at a = {a:.4f}, with y.grad = {g:.4f}, after y.send(): the gradient of a",
        x.grad,
        2 * g * a,
        {"a is used twice, and both edges count: let the source receive each part, do not assign its grad.": g * a},
    )


def pull_by(engine: Engine, random: np.random.Generator) -> None:
    slope, g = random.uniform(2, 3, 2)
    pull = engine.call(engine.tape.pull_by, slope, what="pull_by")
    if not callable(pull):
        raise Wrong(f"pull_by(slope) should return a function of g, and returns {pull!r}: `return lambda g: ...`.")
    compare(
        f"pull_by({slope:.4f})({g:.4f})",
        engine.call(pull, g, what="the function that pull_by returns"),
        g * slope,
        {"Multiply the slope by the gradient g that arrives.": slope, "Multiply g by the slope.": g},
    )


def record(engine: Engine, random: np.random.Generator) -> None:
    a, b, g = random.uniform(0.5, 2, 3)
    Tensor, slopes = engine.tape.Tensor, engine.slopes
    x, y = Tensor(a), Tensor(b)

    def mul(*inputs):
        if any(isinstance(each, Tensor) for each in inputs):
            raise Wrong("record hands tensors to the rule, which computes with numbers: give it each x.data.")
        return slopes.mul(*inputs)

    what = f"record(mul, a, b) at a = {a:.4f}, b = {b:.4f}"
    z = tensor_of(engine, engine.call(engine.tape.record, mul, x, y, what=what), what)
    compare(f"{what}: the value", z.data, a * b)
    if len(z.edges) != 2:
        raise Wrong(f"{what} should have two edges, one to each input, and has {len(z.edges)}.")
    if not all(isinstance(edge, tuple) and len(edge) == 2 and callable(edge[1]) for edge in z.edges):
        raise Wrong(f"{what}: each edge should be a pair (source, pull), where pull is a function.")
    if z.edges[0][0] is not x or z.edges[1][0] is not y:
        raise Wrong(f"{what}: the sources should be the inputs a and b themselves, in this order, not new tensors.")
    for name, (_, pull), want, other in zip("ab", z.edges, (b, a), (a, b)):
        compare(
            f"{what}: the pull to {name}, for g = {g:.4f},",
            engine.call(pull, g, what=f"the pull to {name}"),
            g * want,
            {
                "That is the other input's slope. A lambda in a loop sees only the last one: use pull_by.": g * other,
                "The slope is multiplied by g.": want,
            },
        )
    z = tensor_of(engine, engine.call(engine.tape.record, slopes.add, x, 3.0, what="record(add, a, 3.0)"), "record")
    compare(f"record(add, a, 3.0) at a = {a:.4f}: the value", z.data, a + 3)


def operator(name: str, mine: Callable, said: str, count: int = 2, mistakes: Callable | None = None) -> Callable:
    """The check of an operator of step 2: tinytensor has the same, so `mine` serves both."""

    def check(engine: Engine, random: np.random.Generator) -> None:
        for _ in range(6):
            values = random.uniform(0.5, 2, count) * (1 if name == "log" else random.choice([-1, 1], count))
            at = " at " + ", ".join(f"{letter} = {v:.4f}" for letter, v in zip("ab", values))
            inputs = [engine.tape.Tensor(v) for v in values]
            out = tensor_of(engine, engine.call(mine, *inputs, what=said), said)
            twins = [tt.tensor(v, dtype=tt.float64, requires_grad=True) for v in values]
            right = mine(*twins)
            right.backward()
            compare(f"{said}{at}: the value", out.data, right.item(), mistakes(*values) if mistakes else None)
            walk_back(engine, out, np.float64(1), said)
            for letter, tensor, twin in zip("ab", inputs, twins):
                compare(
                    f"{said}{at}: the gradient of {letter}",
                    tensor.grad,
                    twin.grad.item(),
                    {"No gradient arrives. Is it computed from x.data, without `record`?": 0.0},
                )
        if name == "__mul__":
            a, b = (engine.tape.Tensor(v) for v in (0.5, -1.5))
            y = engine.call(lambda: (a * b + a) * 2.0, what="(a b + a) 2")
            walk_back(engine, y, np.float64(1), "(a b + a) 2")
            compare("(a b + a) 2 at a = 0.5, b = -1.5: the gradient of a", a.grad, -1.0)

    return check


OPERATORS = {
    "tape.pull_by": pull_by,
    "tape.record": record,
    "tape.Tensor.receive": receive,
    "tape.Tensor.send": send,
    "tape.Tensor.__mul__": operator("__mul__", lambda a, b: a * b, "a * b"),
    "tape.Tensor.__pow__": operator("__pow__", lambda a: a**3, "a ** 3", 1),
    "tape.Tensor.__neg__": operator("__neg__", lambda a: -a, "-a", 1),
    "tape.Tensor.__sub__": operator(
        "__sub__", lambda a, b: a - b, "a - b", 2, lambda a, b: {"That is b - a.": b - a, "That is a + b.": a + b}
    ),
    "tape.Tensor.__truediv__": operator(
        "__truediv__", lambda a, b: a / b, "a / b", 2, lambda a, b: {"That is b / a.": b / a, "That is a b.": a * b}
    ),
    "tape.Tensor.exp": operator("exp", lambda a: a.exp(), "a.exp()", 1),
    "tape.Tensor.log": operator("log", lambda a: a.log(), "a.log()", 1),
    "tape.Tensor.tanh": operator("tanh", lambda a: a.tanh(), "a.tanh()", 1),
    "tape.Tensor.relu": operator("relu", lambda a: a.relu(), "a.relu()", 1),
}


# Step 3


def random_graph(random: np.random.Generator, leaves: list, uses: int = 8) -> list:
    """Values made from the leaves by random sums, products and tanh; the choices depend on `random` alone."""
    made = list(leaves)
    for _ in range(uses):
        kind, i, j = random.integers(3), random.integers(len(made)), random.integers(len(made))
        made.append(made[i] + made[j] if kind == 0 else made[i] * made[j] if kind == 1 else made[i].tanh())
    for value in made[:-1]:  # so that all of them lead to the last, some of them twice
        made[-1] = made[-1] + value
    return made


def order(engine: Engine, random: np.random.Generator) -> None:
    Tensor = engine.tape.Tensor
    function = engine.order.order
    a = Tensor(1.0)
    b = a + a
    c = b + a
    for said, last in {"c = b + a with b = a + a": c, "a tensor without edges": a, "a random graph": None}.items():
        if last is None:
            last = random_graph(random, [Tensor(v) for v in random.uniform(-1, 1, 3)])[-1]
        result = engine.call(function, last, what=f"order of {said}")
        if not isinstance(result, list | tuple) or not all(isinstance(t, Tensor) for t in result):
            raise Wrong(f"order should return a list of tensors; for {said} it returns {type(result).__name__}.")
        reachable = set(map(id, reference_order(last)))
        places = {id(t): i for i, t in enumerate(result)}
        if len(places) < len(result):
            raise Wrong(f"order lists a tensor twice ({said}): a tensor that is used twice is still visited once.")
        if id(last) not in places:
            raise Wrong(f"order leaves out `last` itself ({said}).")
        if set(places) - reachable:
            raise Wrong(f"order lists tensors that did not lead to `last` ({said}).")
        if len(places) < len(reachable):
            raise Wrong(
                f"order lists {len(places)} of {len(reachable)} tensors ({said}): those without edges belong to it."
            )
        pairs = [(places[id(t)], places[id(source)]) for t in result for source, _ in t.edges]
        if pairs and all(after > before for after, before in pairs):
            raise Wrong(f"order is the wrong way round ({said}): `last` comes first, since it sends first.")
        if any(after > before for after, before in pairs):
            raise Wrong(
                f"order lets a tensor send before all tensors made from it have sent ({said}): its gradient is not "
                "complete then. Count the uses of each tensor, and take it when all have been met."
            )
    for said, count, grow in (
        ("a chain of 3,000 sums", 3000, lambda x: x + 1.0),
        ("40 doublings x = x + x", 40, lambda x: x + x),
    ):
        x = Tensor(0.001)
        for _ in range(count):
            x = grow(x)
        engine.call(function, x, what=f"order of {said}")


def reference_order(last: object) -> list:
    found, stack = {id(last): last}, [last]
    while stack:
        for source, _ in stack.pop().edges:
            if id(source) not in found:
                found[id(source)] = source
                stack.append(source)
    return list(found.values())


def zero_grad(engine: Engine, random: np.random.Generator) -> None:
    tensors = [engine.tape.Tensor(v) for v in random.uniform(1, 2, 3)]
    for tensor in tensors:
        tensor.grad = 7.0
    engine.call(engine.order.zero_grad, tensors, what="zero_grad")
    for tensor in tensors:
        if tensor.grad is None or not close(array(tensor.grad, "grad"), 0.0):
            raise Wrong(f"after zero_grad a gradient that was 7.0 is {tensor.grad!r}, and should be 0.0.")


def backward(engine: Engine, random: np.random.Generator) -> None:
    Tensor, function = engine.tape.Tensor, engine.order.backward
    a = Tensor(2.0)
    b = a + a
    c = b + b
    engine.call(function, c, what="backward of c = b + b with b = a + a")
    compare(
        "b = a + a, c = b + b: dc/da",
        a.grad,
        4.0,
        {
            "No gradient arrives: let each tensor of order(last) send.": 0.0,
            "A tensor has sent before its gradient was complete: send in the order of order(last).": 6.0,
            "A tensor has sent twice: order(last) lists each one once.": 8.0,
            "Each tensor receives what all its uses send: is `receive` still right?": 1.0,
        },
    )
    engine.call(function, c, what="a second backward of c")
    compare(
        "after a second backward(c) without zero_grad the gradient of a, the sum of both,",
        a.grad,
        8.0,
        {
            "b has sent the gradient of the first call again: set those of tensors with edges to 0 first.": 12.0,
            "a has lost its first gradient: only tensors that have edges start from 0.": 4.0,
        },
    )
    for _ in range(3):
        seed = int(random.integers(2**31))
        values = random.uniform(-1, 1, 3)
        mine = [Tensor(v) for v in values]
        twins = [tt.tensor(v, dtype=tt.float64, requires_grad=True) for v in values]
        engine.call(function, random_graph(np.random.default_rng(seed), mine)[-1], what="backward of a random graph")
        random_graph(np.random.default_rng(seed), twins)[-1].backward()
        for letter, tensor, twin in zip("abc", mine, twins):
            compare(
                f"a random graph of sums, products and tanh: the gradient of {letter}", tensor.grad, twin.grad.item()
            )
    x = Tensor(random.uniform(1, 2, (2, 3)))
    engine.call(function, x * 1.0, what="backward of an array")
    what = "backward of x * 1 for an array x of shape (2, 3): the gradient of x"
    compare(what, x.grad, np.ones((2, 3)), hint="Begin with np.ones_like(last.data).")


CHECKS = RULES | OPERATORS | {"order.order": order, "order.zero_grad": zero_grad, "order.backward": backward}
