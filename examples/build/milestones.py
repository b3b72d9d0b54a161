"""What the student's engine can do after steps 3, 6, 8 and 10: it learns, and the terminal shows what."""

from typing import Any

import numpy as np

from examples.build.judge import Engine

SHADES = " ·░▒▓█"


def curve(engine: Engine, training: int = 0) -> None:
    """After step 3: a network of single numbers learns a curve, a point at a time."""
    Tensor, backward, zero_grad = engine.tape.Tensor, engine.order.backward, engine.order.zero_grad
    random = np.random.default_rng(0)
    units = [[Tensor(v) for v in (random.normal() * 2, random.normal(), random.normal() * 0.5)] for _ in range(8)]
    parameters = [v for unit in units for v in unit]
    xs = np.linspace(-2, 2, 13)
    ys = np.sin(2 * xs) * 0.8

    def network(x: float) -> Any:
        """Σ c tanh(a x + b) over the units."""
        y = Tensor(0.0)
        for a, b, c in units:
            y = y + (a * x + b).tanh() * c
        return y

    def drawn() -> None:
        wide, high = 57, 11
        picture = [[" "] * wide for _ in range(high)]

        def put(x: float, y: float, mark: str) -> None:
            row, column = round((1.1 - y) / 2.2 * (high - 1)), round((x + 2) / 4 * (wide - 1))
            if 0 <= row < high:
                picture[row][column] = mark

        for x in np.linspace(-2, 2, wide):
            put(x, float(network(x).data), "·")
        for x, y in zip(xs, ys):
            put(x, y, "o")
        print("\n".join(("    " + "".join(row)).rstrip() for row in picture))

    steps = training or 400
    for i in range(steps + 1):
        loss = Tensor(0.0)
        for x, y in zip(xs, ys):
            error = network(x) - y
            loss = loss + error * error
        loss = loss * (1 / len(xs))
        if i in (0, steps):
            print(f"  step {i}: loss {float(loss.data):.4f}   (o: points, ·: your network)")
            drawn()
        zero_grad(parameters)
        backward(loss)
        for parameter in parameters:
            parameter.data = parameter.data - 0.15 * parameter.grad


def moons(engine: Engine, training: int = 0) -> None:
    """After step 6: lesson 7 on the student's engine."""
    Tensor, backward, zero_grad = engine.tape.Tensor, engine.order.backward, engine.order.zero_grad
    cross_entropy, softmax = engine.softmax.cross_entropy, engine.softmax.softmax
    _ = engine.matrices  # importing it gives tensors their @
    random = np.random.default_rng(3)
    turn = random.uniform(0, np.pi, 100)
    upper, lower = [np.cos(turn), np.sin(turn)], [1 - np.cos(turn), 0.5 - np.sin(turn)]
    X = np.concatenate([np.stack(upper, 1), np.stack(lower, 1)]) + 0.1 * random.standard_normal((200, 2))
    moon = np.repeat([0, 1], 100)
    W1, b1 = Tensor(random.standard_normal((2, 24)) / np.sqrt(2)), Tensor(np.zeros(24))
    W2, b2 = Tensor(random.standard_normal((24, 2)) / np.sqrt(24)), Tensor(np.zeros(2))
    parameters = [W1, b1, W2, b2]

    def logits(x: np.ndarray) -> Any:
        return (Tensor(x) @ W1 + b1).relu() @ W2 + b2

    steps = training or 800
    for i in range(steps + 1):
        loss = cross_entropy(logits(X), moon)
        if i in (0, steps):
            right = (logits(X).data.argmax(1) == moon).mean()
            print(f"  step {i}: loss {float(loss.data):.3f}, {right:.0%} of the points on the right side")
        zero_grad(parameters)
        backward(loss)
        for parameter in parameters:
            parameter.data = parameter.data - 0.5 * parameter.grad
    wide, high = 60, 16
    xs, ys = np.linspace(-1.5, 2.5, wide), np.linspace(1.5, -1.0, high)
    grid = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    p = softmax(logits(grid)).data[:, 1].reshape(high, wide)
    picture = [[" ░▒"[min(2, int(3 * value))] for value in row] for row in p]
    for (x, y), which in zip(X, moon):
        column, row = round((x + 1.5) / 4 * (wide - 1)), round((1.5 - y) / 2.5 * (high - 1))
        if 0 <= row < high and 0 <= column < wide:
            picture[row][column] = "ox"[which]
    print("  o, x: the two moons; shaded: where your network says x")
    print("\n".join(("    " + "".join(row)).rstrip() for row in picture))


def three_back(engine: Engine, training: int = 0) -> None:
    """After step 8: one attention head learns to name the number that stood three places before."""
    Tensor, backward, zero_grad = engine.tape.Tensor, engine.order.backward, engine.order.zero_grad
    attention = engine.attention
    V, D, n, back = 6, 16, 12, 3
    random = np.random.default_rng(0)
    E, P = (Tensor(random.standard_normal((rows, D))) for rows in (V, n))
    Q, K, W = (Tensor(random.standard_normal((D, D)) / np.sqrt(D)) for _ in range(3))
    O = Tensor(random.standard_normal((D, V)) / np.sqrt(D))
    parameters = [E, P, Q, K, W, O]
    speeds = [np.zeros(x.shape) for x in parameters]
    steps = training or 600
    for i in range(steps + 1):
        t = random.integers(V, size=(24, n))
        X = E[t] + P
        q, k = X @ Q, X @ K
        Y = attention.attention(q, k, X @ W) @ O
        found = Y[:, back:]
        loss = engine.softmax.cross_entropy(engine.matrices.reshape(found, (-1, V)), t[:, :-back].reshape(-1))
        if i in (0, steps):
            right = (found.data.argmax(-1) == t[:, :-back]).mean()
            print(f"  step {i}: loss {float(loss.data):.3f}, {right:.0%} right (guessing: {1 / V:.0%})")
        zero_grad(parameters)
        backward(loss)
        for j, x in enumerate(parameters):  # momentum, lesson 4
            speeds[j] = 0.9 * speeds[j] + x.grad
            x.data = x.data - 0.15 * speeds[j]
    w = attention.attention_weights(q, k).data.mean(axis=0)
    print("  How much each position (a row) reads of each position (a column), ·░▒▓█, on average:")
    for i, row in enumerate(w):
        shades = (SHADES[min(len(SHADES) - 1, int(value * len(SHADES)))] for value in row)
        print(f"    {i:2} |" + "".join(2 * shade for shade in shades) + "|")


def writes(engine: Engine, training: int = 0) -> None:
    """After step 10: the transformer learns to write, and its gradients are compared with tinytensor's."""
    from examples.build.checks.models import gradients_agree  # which loads tinytensor

    model, _ = engine.transformer.train(training or 2000)
    t = np.random.default_rng(0).integers(model.E.shape[0], size=(4, model.C + 1))
    worst, count = gradients_agree(engine, model, t)
    print(f"All {count:,} gradients of this model agree with tinytensor's; they differ by {worst:.0e} at most.")


MILESTONES = {3: curve, 6: moons, 8: three_back, 10: writes}


def run(engine: Engine, number: int, training: int = 0) -> None:
    """Run the milestone of a step, with this many steps of training (0: as many as it needs)."""
    milestone = MILESTONES[number]
    engine.call(milestone, engine, training, what=f"the milestone of step {number}")
