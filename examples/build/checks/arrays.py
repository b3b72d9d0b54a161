"""The checks of steps 4 to 7: shapes, sums, matrices, softmax, layer norm."""

from collections.abc import Callable

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from examples.build.checks.common import check_operation, compare
from examples.build.judge import Engine


def unbroadcast(engine: Engine, random: np.random.Generator) -> None:
    function = engine.shapes.unbroadcast
    for big, shape in [((4, 3), (3,)), ((4, 3), (4, 1)), ((4, 3), ()), ((2, 4, 3), (4, 1)), ((1, 3), (1, 3))]:
        g = random.standard_normal(big)
        what = f"unbroadcast of a g of shape {big} to {shape}"
        x = tt.zeros(*shape, dtype=tt.float64, requires_grad=True)
        (x * tt.tensor(g, dtype=tt.float64)).sum().backward()
        front = tuple(range(len(big) - len(shape)))
        ones = tuple(i + len(front) for i, n in enumerate(shape) if n == 1)
        mistakes = {
            "The axes in front that `shape` lacks are still to be summed.": g.sum(axis=ones, keepdims=True),
            "Add the gradients of all uses, do not average them.": g.mean(axis=front + ones).reshape(shape),
        }
        if ones:
            said = "The axes where `shape` has 1 are still to be summed, with keepdims=True."
            mistakes[said] = g.sum(axis=front)
        else:
            mistakes["Add the gradients of all uses; one of them was picked."] = g[(0,) * len(front)]
        mistakes["g came back unchanged."] = g
        compare(what, engine.call(function, g, shape, what=what), x.grad.numpy(), mistakes)


def reduction(name: str) -> Callable:
    def check(engine: Engine, random: np.random.Generator) -> None:
        function = getattr(engine.sums, name)
        reference = {"total": lambda x, *s: x.sum(*s), "mean": lambda x, *s: x.mean(*s)}[name]
        for axis, keep in [(None, False), (0, False), (1, True), (-1, False)]:
            x = random.standard_normal((3, 4))
            count = x.size if axis is None else x.shape[axis]
            what = f"{name}(x, axis={axis}{', keepdims=True' if keep else ''}) for x (3, 4)"

            def gradients(w, x, axis=axis, keep=keep, count=count):
                g = w if axis is None or keep else np.expand_dims(w, axis)
                full = np.broadcast_to(g, x.shape)
                if name == "mean":
                    return [{"1/N is missing in the gradient: each entry counts with 1/N in the mean.": full,
                             "It is divided by N twice.": full / count**2}]  # fmt: skip
                return [{"A sum hands its gradient to each entry as it is: do not divide by N.": full / count}]

            check_operation(
                engine,
                random,
                what,
                lambda t, axis=axis, keep=keep: function(t, axis, keep),
                lambda t, axis=axis, keep=keep: reference(t) if axis is None else reference(t, axis, keep),
                [x],
                values=lambda x, axis=axis, keep=keep: (
                    {"That is the sum: divide it by N.": x.sum(axis=axis, keepdims=keep)}
                    if name == "mean"
                    else {"That is the mean.": x.mean(axis=axis, keepdims=keep)}
                ),
                gradients=gradients,
            )

    return check


def one_of(sentence: str, values: tuple) -> dict:
    """The same sentence for several wrong results (keys differ in spaces at the end, which are cut)."""
    return {sentence + " " * i: value for i, value in enumerate(values)}


def matmul(engine: Engine, random: np.random.Generator) -> None:
    function = engine.matrices.matmul

    def gradients(g, a, b):
        if a.shape != b.shape:  # else a wrong factor does not fit, and its shape is what is said
            return [{}, {}]
        first = "The wrong factor is transposed, or none, or the order is wrong: dL/dA = dL/dY Bᵀ."
        second = "The wrong factor is transposed, or none, or the order is wrong: dL/dB = Aᵀ dL/dY."
        wrong_a, wrong_b = (g @ b, b.T @ g, b @ g, g.T @ b), (a @ g, g @ a, g @ a.T, a.T @ g.T, g.T @ a)
        return [one_of(first, wrong_a), one_of(second, wrong_b)]

    for first, second in [((3, 3), (3, 3)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 4, 3), (3, 5))]:
        a, b = random.standard_normal(first), random.standard_normal(second)
        stack = (
            "" if len(first) == 2 else " (a stack of matrices: np.swapaxes(a, -1, -2) transposes each, a.T does not)"
        )
        what = f"matmul of A {first} and B {second}{stack}"
        check_operation(engine, random, what, function, tt.matmul, [a, b], ("A", "B"), gradients=gradients)
    a, b = engine.tape.Tensor(np.ones((2, 2))), engine.tape.Tensor(np.ones((2, 2)))
    compare("A @ B for two matrices of ones", engine.call(lambda: a @ b, what="A @ B").data, np.full((2, 2), 2.0))


def reshape(engine: Engine, random: np.random.Generator) -> None:
    function = engine.matrices.reshape
    for shape, new in [((2, 6), (3, 4)), ((2, 3, 4), (6, 4))]:
        check_operation(
            engine, random, f"reshape(x, {new}) for x {shape}", lambda t, new=new: function(t, new),
            lambda t, new=new: t.reshape(*new), [random.standard_normal(shape)],
        )  # fmt: skip


def swap(engine: Engine, random: np.random.Generator) -> None:
    function = engine.matrices.swap
    for shape, i, j in [((3, 3), 0, 1), ((2, 3, 4), 1, 2), ((2, 3, 4), -1, -2), ((2, 3, 2, 2), 1, 2)]:
        check_operation(
            engine, random, f"swap(x, {i}, {j}) for x {shape}", lambda t, i=i, j=j: function(t, i, j),
            lambda t, i=i, j=j: t.transpose(i, j), [random.standard_normal(shape)],
            gradients=lambda w, x, i=i, j=j: [{"Swap the axes of the gradient back.": w}],
        )  # fmt: skip


def take(engine: Engine, random: np.random.Generator) -> None:
    function = engine.matrices.take
    repeated = np.array([0, 2, 2, 1, 2])
    for said, index in {
        "[1]": 1,
        "[1:3]": slice(1, 3),
        "[[0, 2, 2, 1, 2]]": repeated,
        "[:, [0, 1, 0]]": (slice(None), np.array([0, 1, 0])),
    }.items():

        def gradients(w, x, index=index):
            once = np.zeros_like(x)
            once[index] += w
            return [{"What is picked several times receives several gradients: np.add.at adds all of them.": once}]

        check_operation(
            engine, random, f"take of x{said} for x (4, 3)", lambda t, index=index: function(t, index),
            lambda t, index=index: t[index] if not isinstance(index, np.ndarray) else t[tt.tensor(index)]
            if not isinstance(index, tuple) else t[:, tt.tensor(index[1])],
            [random.standard_normal((4, 3))], gradients=gradients,
        )  # fmt: skip


def probabilities(x: np.ndarray, shift: bool = True, axis: int | None = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True)) if shift else np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


NO_SHIFT = "Subtract the largest logit of each row before np.exp: without this shift e^1000 is infinite."


def softmax(engine: Engine, random: np.random.Generator) -> None:
    function = engine.softmax.softmax

    def gradients(w, x):
        q = probabilities(x)
        return [
            {
                "That is q g: the sum Σ g q is to be subtracted from g.": q * w,
                "That is q (1 - q) g. Each probability depends on all logits of its row: q (g - Σ g q).": q
                * (1 - q)
                * w,
                "Σ g q runs over the last axis alone, not over all rows.": q * (w - (w * q).sum()),
                "Σ g q needs keepdims=True.": q * (w - (w * q).sum(axis=-1)) if x.shape == (3, 3) else np.nan,
            }
        ]

    for shape in [(3, 3), (4,), (2, 3, 4)]:
        check_operation(
            engine, random, f"softmax of logits {shape}", function, lambda t: t.softmax(-1),
            [random.standard_normal(shape)],
            values=lambda x: {
                "The sum runs over the last axis, each row by itself (keepdims=True).": probabilities(x, axis=None),
                "Divide each row by its own sum (axis=-1, keepdims=True).": (e := np.exp(x - x.max(-1, keepdims=True)))
                / e.sum(),
                "The sum runs over the last axis, not the first.": probabilities(x, axis=0),
                "That is e^x: divide by the sum of the row.": np.exp(x - x.max(-1, keepdims=True)),
            },
            gradients=gradients,
        )  # fmt: skip
    for size in (1000.0, -1000.0):
        x = random.standard_normal((2, 3)) + size
        got = engine.call(function, engine.tape.Tensor(x), what="softmax").data
        compare(
            f"softmax of logits near {size:.0f}: the result", got, probabilities(x), {NO_SHIFT: np.full((2, 3), np.nan)}
        )


def cross_entropy(engine: Engine, random: np.random.Generator) -> None:
    function = engine.softmax.cross_entropy
    for N, V in [(1, 4), (5, 3), (4, 6)]:
        t = random.integers(V, size=N)
        p = np.eye(V)[t]
        rows = np.arange(N)

        def values(x, t=t, rows=rows, N=N):
            q = probabilities(x)
            return {
                "The loss is -log q: the sign is missing.": np.log(q[rows, t]).mean(),
                "The loss is the mean over the rows, not their sum.": -np.log(q[rows, t]).sum(),
                "Take the logarithm of q.": -q[rows, t].mean(),
                "Pick one logit in each row, logits[rows, targets]; all columns of the targets were picked.": -np.log(
                    q[:, t]
                ).mean(),
            }

        def gradients(w, x, p=p, N=N):
            q = probabilities(x)
            return [
                {
                    "1/N is missing in the gradient: the loss is a mean over N rows.": w * (q - p),
                    "That is q / N: subtract 1 at the right answers.": w * q / N,
                    "The sign is wrong: the gradient is q - p.": w * (p - q) / N,
                    "The gradient g that arrives is missing: multiply by it.": (q - p) / N,
                }
            ]

        check_operation(
            engine, random, f"cross_entropy of {N} rows of {V} logits", lambda x, t=t: function(x, t),
            lambda x, t=t: F.cross_entropy(x, tt.tensor(t)), [random.standard_normal((N, V))], ("the logits",),
            values, gradients,
        )  # fmt: skip
    x, t = np.array([[1000.0, 0.0], [0.0, 1000.0]]), np.array([0, 0])
    compare(
        "cross_entropy of the logits [[1000, 0], [0, 1000]] for the answers [0, 0]: the result",
        engine.call(function, engine.tape.Tensor(x), t, what="cross_entropy").data,
        500.0,
        {NO_SHIFT: np.nan, NO_SHIFT + " And take no logarithm of q, which may be 0: use L_t - log Σ e^L.": np.inf},
    )


def normalize(engine: Engine, random: np.random.Generator) -> None:
    function = engine.norm.normalize
    for shape, eps in [((3, 5), 1e-5), ((2, 3, 4), 0.3)]:

        def parts(x, eps=eps):
            centred = x - x.mean(-1, keepdims=True)
            return centred, x.var(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + eps)

        def values(x, eps=eps, parts=parts):
            centred, var, _ = parts(x)
            return {
                "σ² is the mean of the squares, with 1/D, not 1/(D - 1).": centred
                / np.sqrt(x.var(-1, keepdims=True, ddof=1) + eps),
                "ε stands under the root: √(σ² + ε).": centred / (np.sqrt(var) + eps),
                "Divide by the root √(σ² + ε), not by σ² + ε.": centred / (var + eps),
                "ε is missing.": centred / np.sqrt(var),
                "The mean is to be subtracted.": x / np.sqrt(var + eps),
                "Mean and variance are those of each row, along the last axis.": (x - x.mean())
                / np.sqrt(x.var() + eps),
            }

        def gradients(dz, x, parts=parts):
            centred, _, r = parts(x)
            z, m = centred * r, dz.mean(-1, keepdims=True)
            return [
                {
                    "μ and r were taken for constants: subtract ⟨dz⟩ and z ⟨z dz⟩ too.": r * dz,
                    "r was taken for a constant: subtract z ⟨z dz⟩ too.": r * (dz - m),
                    "μ was taken for a constant: subtract ⟨dz⟩ too.": r * (dz - z * (z * dz).mean(-1, keepdims=True)),
                    "⟨...⟩ is a mean over the row, not a sum.": r
                    * (dz - dz.sum(-1, keepdims=True) - z * (z * dz).sum(-1, keepdims=True)),
                    "The factor r is missing.": dz - m - z * (z * dz).mean(-1, keepdims=True),
                }
            ]

        check_operation(
            engine, random, f"normalize(x, {eps}) for x {shape}", lambda t, eps=eps: function(t, eps),
            lambda t, eps=eps: F.layer_norm(t, (t.shape[-1],), eps=eps), [random.standard_normal(shape)],
            values=values, gradients=gradients,
        )  # fmt: skip


def layer_norm(engine: Engine, random: np.random.Generator) -> None:
    def values(x, gain, bias):
        z = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return {
            "gain and bias are swapped.": bias * z + gain,
            "The gain is missing.": z + bias,
            "The bias is missing.": gain * z,
            "The gain multiplies z alone, not the bias.": gain * (z + bias),
        }

    arrays = [random.standard_normal((2, 3, 4)), random.standard_normal(4), random.standard_normal(4)]
    check_operation(
        engine, random, "layer_norm(x, gain, bias) for x (2, 3, 4)", engine.norm.layer_norm,
        lambda x, gain, bias: F.layer_norm(x, (4,), gain, bias), arrays, ("x", "gain", "bias"), values,
    )  # fmt: skip


CHECKS = {
    "shapes.unbroadcast": unbroadcast,
    "sums.total": reduction("total"),
    "sums.mean": reduction("mean"),
    "matrices.matmul": matmul,
    "matrices.reshape": reshape,
    "matrices.swap": swap,
    "matrices.take": take,
    "softmax.softmax": softmax,
    "softmax.cross_entropy": cross_entropy,
    "norm.normalize": normalize,
    "norm.layer_norm": layer_norm,
}
