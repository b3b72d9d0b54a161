"""The checks of steps 8 to 10: attention, modules and AdamW, the transformer."""

from collections.abc import Callable
from typing import Any

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from examples.build.checks.arrays import probabilities
from examples.build.checks.common import array, check_operation, close, compare, tensor_of
from examples.build.judge import Engine, Wrong

# Step 8


def causal_mask(engine: Engine, random: np.random.Generator) -> None:
    for n in (4, 1):
        got = engine.call(engine.attention.causal_mask, n, what=f"causal_mask({n})")
        if isinstance(got, engine.tape.Tensor):
            raise Wrong("causal_mask should return a NumPy array, not a Tensor: it needs no gradient.")
        got = array(got, f"causal_mask({n})")
        full = np.full((n, n), -np.inf)
        with np.errstate(invalid="ignore"):
            times = np.triu(np.ones((n, n)), 1) * -np.inf
        compare(
            f"causal_mask({n})",
            got,
            np.triu(full, 1),
            {
                "It is transposed: row i asks, column m is read, and -∞ stands where m > i.": np.tril(full, -1),
                "A position may read itself: the diagonal is 0.": np.triu(full),
                "0 times -∞ is not a number: fill an array with -∞, and keep its upper part (np.triu).": times,
                "The mask is added to the scores: 0 where reading is allowed, -∞ elsewhere.": np.tril(np.ones((n, n))),
                "Write -∞, -np.inf, where reading is forbidden, not 1.": np.triu(np.ones((n, n)), 1),
            }
            if n > 1
            else {},
        )


def weights(q: np.ndarray, k: np.ndarray, scale: float | None = None, mask: bool = True) -> np.ndarray:
    n, K = q.shape[-2:]
    scores = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(K) if scale is None else scale)
    return probabilities(scores + np.triu(np.full((n, n), -np.inf), 1) if mask else scores)


def masked_after(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return np.tril(weights(q, k, mask=False))


MASK_AFTER = "The mask came after the softmax, so the rows do not sum to 1: add -∞ to the scores before the softmax."


def weight_mistakes(q: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
    n, K = q.shape[-2:]
    return {
        "The scores are not divided by √K.": weights(q, k, 1.0),
        "Divide the scores by √K, not by K.": weights(q, k, 1 / K),
        "Divide by √K; K is the last size of q, not the number n of positions.": weights(q, k, 1 / np.sqrt(n)),
        "The mask is missing: a position reads later ones.": weights(q, k, mask=False),
        MASK_AFTER: masked_after(q, k),
        "The row asks, so it has the query: q kᵀ, not k qᵀ.": weights(k, q),
    }


def reference_weights(q: tt.Tensor, k: tt.Tensor) -> tt.Tensor:
    n, K = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / K**0.5
    return scores.masked_fill(tt.ones(n, n).triu(1) > 0, -np.inf).softmax(-1)


def attention_weights(engine: Engine, random: np.random.Generator) -> None:
    for shape in [(3, 4), (2, 2, 5, 3)]:
        q, k = random.standard_normal((2, *shape)) * 2
        check_operation(
            engine, random, f"attention_weights(q, k) for q, k {shape}", engine.attention.attention_weights,
            reference_weights, [q, k], ("q", "k"), weight_mistakes,
        )  # fmt: skip


def attention(engine: Engine, random: np.random.Generator) -> None:
    q, k, v = random.standard_normal((3, 2, 2, 5, 3))

    def values(q, k, v):
        w = weights(q, k)
        return {
            "The weights are transposed: row i holds what position i reads.": np.swapaxes(w, -1, -2) @ v,
            "The weights are multiplied by the values v, not by the keys.": w @ k,
        } | {sentence: wrong @ v for sentence, wrong in weight_mistakes(q, k).items()}

    check_operation(
        engine, random, "attention(q, k, v) for q, k, v (2, 2, 5, 3)", engine.attention.attention,
        lambda q, k, v: reference_weights(q, k) @ v, [q, k, v], ("q", "k", "v"), values,
    )  # fmt: skip


MIXED = "reshape alone mixes positions and components: reshape to (B, n, H, K), then swap the axes 1 and 2."


def split_heads(engine: Engine, random: np.random.Generator) -> None:
    x = random.standard_normal((2, 3, 8))
    check_operation(
        engine, random, "split_heads(x, 4) for x (2, 3, 8)", lambda t: engine.attention.split_heads(t, 4),
        lambda t: t.reshape(2, 3, 4, 2).transpose(1, 2), [x],
        values=lambda x: {
            MIXED: x.reshape(2, 4, 3, 2),
            "The axes of heads and positions are not swapped yet.": x.reshape(2, 3, 4, 2),
            "Each head has K = D / H components side by side: reshape to (B, n, H, K), not (B, n, K, H).": np.moveaxis(
                x.reshape(2, 3, 2, 4), 3, 1
            ),
        },
    )  # fmt: skip


def join_heads(engine: Engine, random: np.random.Generator) -> None:
    x = random.standard_normal((2, 4, 3, 2))
    check_operation(
        engine, random, "join_heads(x) for x (2, 4, 3, 2)", engine.attention.join_heads,
        lambda t: t.transpose(1, 2).reshape(2, 3, 8), [x],
        values=lambda x: {"Swap the axes 1 and 2 back before the reshape, else positions mix.": x.reshape(2, 3, 8)},
    )  # fmt: skip


# Step 9


def parameters(engine: Engine, random: np.random.Generator) -> None:
    Module, Tensor = engine.modules.Module, engine.tape.Tensor

    def module(**attributes: Any) -> Any:
        made = Module()
        vars(made).update(attributes)
        return made

    a, b, c, d = (Tensor(v) for v in (1.0, 2.0, 3.0, 4.0))
    cases = {
        "two tensors as attributes": (module(a=a, n=3, b=b, name="x"), [a, b]),
        "a tensor, and a module with another": (module(a=a, part=module(b=b)), [a, b]),
        "a list of two modules": (module(parts=[module(a=a), module(b=b)]), [a, b]),
        "a list of tensors, and modules three deep": (
            module(l=[a, b], p=module(p=module(q=module(c=c)))),
            [a, b, c],
        ),
        "a tensor that two modules share": (module(p=module(a=a, d=d), q=module(a=a)), [a, d]),
    }
    for said, (made, wanted) in cases.items():
        what = f"parameters() of a module with {said}"
        got = engine.call(made.parameters, what=what)
        if not isinstance(got, list):
            raise Wrong(f"{what} should return a list, and returns {type(got).__name__}.")
        if not all(isinstance(x, Tensor) for x in got):
            raise Wrong(f"{what}: all entries of the list should be tensors.")
        missing = [x for x in wanted if not any(x is y for y in got)]
        if missing:
            raise Wrong(f"{what} finds {len(wanted) - len(missing)} of {len(wanted)} tensors.")
        if len(got) > len(wanted):
            raise Wrong(f"{what} lists a tensor twice: the optimizer would move it twice. Compare with `is`.")


def linear_init(engine: Engine, random: np.random.Generator) -> None:
    Linear, seed = engine.modules.Linear, int(random.integers(1000))
    layer = engine.call(Linear, 400, 3, np.random.default_rng(seed), what="Linear(400, 3, random)")
    for name in "Wb":
        if not isinstance(getattr(layer, name, None), engine.tape.Tensor):
            raise Wrong(f"Linear(400, 3, random) should have a Tensor self.{name}.")
    drawn = np.random.default_rng(seed).standard_normal((400, 3))
    if layer.W.shape == (3, 400):
        raise Wrong("Linear(400, 3, random): W should have the shape (inputs, outputs) = (400, 3), since y = x W + b.")
    known = {
        "Divide by √inputs: else sums of 400 terms are some 20 times too large.": drawn,
        "Divide by the root of inputs, √inputs.": drawn / 400,
        "Divide by √inputs, not √outputs.": drawn / np.sqrt(3),
        "From zeros all units stay alike for ever: draw W with random.standard_normal.": np.zeros((400, 3)),
    }
    compare("Linear(400, 3, random): W", layer.W.data, drawn / 20, known, "Draw W first; b needs no random numbers.")
    compare("Linear(400, 3, random): b", layer.b.data, np.zeros(3))


def linear_call(engine: Engine, random: np.random.Generator) -> None:
    def mine(x, W, b):
        layer = engine.modules.Linear(4, 5, np.random.default_rng(0))
        layer.W, layer.b = W, b
        return layer(x)

    arrays = [random.standard_normal(shape) for shape in [(2, 3, 4), (4, 5), (5,)]]
    check_operation(
        engine, random, "Linear(4, 5)(x) for x (2, 3, 4)", mine, lambda x, W, b: x @ W + b, arrays, ("x", "W", "b"),
        lambda x, W, b: {"The bias b is missing.": x @ W},
    )  # fmt: skip


def norm_init(engine: Engine, random: np.random.Generator) -> None:
    layer = engine.call(engine.modules.LayerNorm, 5, what="LayerNorm(5)")
    for name, value, wrong in (("gain", 1.0, 0.0), ("bias", 0.0, 1.0)):
        if not isinstance(getattr(layer, name, None), engine.tape.Tensor):
            raise Wrong(f"LayerNorm(5) should have a Tensor self.{name}.")
        compare(
            f"LayerNorm(5): the {name}",
            getattr(layer, name).data,
            np.full(5, value),
            {"At first the gain is 1 and the bias 0: then y = z.": np.full(5, wrong)},
        )


def norm_call(engine: Engine, random: np.random.Generator) -> None:
    def mine(x, gain, bias):
        layer = engine.modules.LayerNorm(4)
        layer.gain, layer.bias = gain, bias
        return layer(x)

    arrays = [random.standard_normal(shape) for shape in [(2, 3, 4), (4,), (4,)]]
    check_operation(
        engine, random, "LayerNorm(4)(x) for x (2, 3, 4)", mine, lambda x, g, b: F.layer_norm(x, (4,), g, b), arrays,
        ("x", "gain", "bias"),
    )  # fmt: skip


def adamw(
    x: np.ndarray,
    gs: list,
    rate: float,
    decay: float,
    b1: float,
    b2: float,
    eps: float,
    correct: bool = True,
    in_gradient: bool = False,
    decay_rate: bool = True,
    inside: bool = False,
    square: bool = True,
    sign: float = 1.0,
    decay_last: bool = False,
) -> np.ndarray:
    """x after the steps of AdamW; each flag makes one common mistake."""
    m = v = np.zeros_like(x)
    for t, g in enumerate(gs, 1):
        if in_gradient:
            g = g + decay * x
        elif not decay_last:
            x = x - (rate if decay_rate else 1.0) * decay * x
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g * g if square else g)
        first, second = (m / (1 - b1**t), v / (1 - b2**t)) if correct else (m, v)
        with np.errstate(invalid="ignore"):
            root = np.sqrt(second + eps) if inside else np.sqrt(second) + eps
        x = x - sign * rate * first / root
        if decay_last:
            x = x - rate * decay * x
    return x


def adamw_init(engine: Engine, random: np.random.Generator) -> None:
    tensors = [engine.tape.Tensor(random.standard_normal(shape)) for shape in [(2, 3), (4,)]]
    optimizer = engine.call(engine.modules.AdamW, tensors, what="AdamW(parameters)")
    if getattr(optimizer, "t", None) != 0:
        raise Wrong(
            f"AdamW(parameters): self.t counts the steps, and should be 0; it is {getattr(optimizer, 't', None)}."
        )
    for name in "mv":
        averages = getattr(optimizer, name, None)
        if not isinstance(averages, list) or len(averages) != 2:
            raise Wrong(f"AdamW(parameters): self.{name} should be a list with an array for each of the 2 parameters.")
        for x, average in zip(tensors, averages):
            compare(f"AdamW(parameters): self.{name} for a parameter {x.shape}", average, np.zeros(x.shape))


def adamw_step(engine: Engine, random: np.random.Generator) -> None:
    how = {"rate": 0.1, "decay": 0.2, "b1": 0.8, "b2": 0.95, "eps": 1e-3}
    start = random.standard_normal((2, 3))
    for count in (1, 4):
        gs = [random.standard_normal((2, 3)) for _ in range(count)]
        x, still = engine.tape.Tensor(start.copy()), engine.tape.Tensor(start.copy())
        still.grad = 0.0
        optimizer = engine.modules.AdamW([x, still], rate=0.1, decay=0.2, betas=(0.8, 0.95), eps=1e-3)
        twin = tt.tensor(start, dtype=tt.float64, requires_grad=True)
        right = tt.optim.AdamW([twin], lr=0.1, weight_decay=0.2, betas=(0.8, 0.95), eps=1e-3)
        for g in gs:
            x.grad = g.copy()
            engine.call(optimizer.step, what="AdamW.step()")
            twin.grad = tt.tensor(g, dtype=tt.float64)
            right.step()
        flags = {
            "Nothing has moved.": start,
            "The bias correction is missing: divide m by 1 - β1^t and v by 1 - β2^t.": {"correct": False},
            "The decay went through the gradient. It makes x smaller by rate · decay · x, beside m and v.": {
                "in_gradient": True
            },
            "The decay is missing.": {"decay": 0.0},
            "The decay comes first: it takes rate · decay · x of the x before the step.": {"decay_last": True},
            "The decay is multiplied by the rate too: rate · decay · x.": {"decay_rate": False},
            "ε is added to √v̂, outside the root.": {"inside": True},
            "v averages the squares g².": {"square": False},
            "x goes against the gradient: subtract.": {"sign": -1.0},
        }
        known = {
            sentence: adamw(start, gs, **(how | change)) if isinstance(change, dict) else change
            for sentence, change in flags.items()
        }
        if count > 1:
            known["m and v of earlier steps are lost: store them in self.m, self.v."] = forgetful(start, gs, how)
        what = f"x after {count} step{'s' * (count > 1)} of AdamW"
        hint = "Does self.t grow by 1 in each step, before it is used? Does each parameter have its own m and v?"
        compare(what, x.data, twin.detach().numpy(), known, hint)
        compare(
            f"{what}, for a second parameter without gradient: its value", still.data, start * (1 - 0.1 * 0.2) ** count
        )


def forgetful(x: np.ndarray, gs: list, how: dict) -> np.ndarray:
    for t, g in enumerate(gs, 1):
        m, v = (1 - how["b1"]) * g / (1 - how["b1"] ** t), (1 - how["b2"]) * g * g / (1 - how["b2"] ** t)
        x = x * (1 - how["rate"] * how["decay"])
        x = x - how["rate"] * m / (np.sqrt(v) + how["eps"])
    return x


# Step 10


def twin_of(x: Any) -> tt.Tensor:
    return tt.tensor(np.array(x.data), dtype=tt.float64, requires_grad=True)


class Twin:
    """The student's transformer in tinytensor, whose gradients are proved; each flag makes one common mistake."""

    def __init__(self, engine: Engine, model: Any):
        self.engine, self.tensors = engine, {}
        for x in model.parameters():
            self.tensors[id(x)] = twin_of(x)

    def get(self, x: Any) -> tt.Tensor:
        return self.tensors[id(x)]

    def linear(self, layer: Any, x: tt.Tensor) -> tt.Tensor:
        return x @ self.get(layer.W) + self.get(layer.b)

    def norm(self, layer: Any, x: tt.Tensor) -> tt.Tensor:
        return F.layer_norm(x, (x.shape[-1],), self.get(layer.gain), self.get(layer.bias))

    def block(self, block: Any, Z: tt.Tensor, residual=True, norms=True, relu=True, W=True, same=False) -> tt.Tensor:
        B, n, D = Z.shape
        H = block.H
        read = self.norm if norms else lambda layer, x: x
        X = read(block.norm1, Z)
        q, k, v = (
            self.linear(layer, X).reshape(B, n, H, D // H).transpose(1, 2) for layer in (block.q, block.k, block.v)
        )
        Y = (reference_weights(q, k) @ v).transpose(1, 2).reshape(B, n, D)
        Y = self.linear(block.W, Y) if W else Y
        Z = Z + Y if residual else Y
        inner = self.linear(block.F, read(block.norm1 if same else block.norm2, Z))
        out = self.linear(block.G, inner.relu() if relu else inner)
        return Z + out if residual else out

    def logits(self, model: Any, t: np.ndarray, positions=True, last=True, blocks=None) -> tt.Tensor:
        Z = self.get(model.E)[tt.tensor(t)]
        if positions:
            Z = Z + self.get(model.P)[: t.shape[1]]
        for block in model.blocks[:blocks]:
            Z = self.block(block, Z)
        return self.linear(model.O, self.norm(model.norm, Z) if last else Z)


def small_model(engine: Engine, seed: int, scale: float = 0.3) -> Any:
    """A small transformer of the student's with random gains and biases, so that each parameter matters."""
    model = engine.call(lambda: engine.transformer.Transformer(7, C=6, D=8, H=2, L=2, seed=seed), what="Transformer()")
    random = np.random.default_rng(seed)
    for x in model.parameters():
        x.data = x.data + scale * random.standard_normal(x.shape)
    return model


def parts_are(engine: Engine, made: Any, what: str, wanted: dict[str, tuple[str, dict[str, tuple]]]) -> None:
    """Has a module these parts, no two of them the same? wanted: name -> its class, and the shapes of its tensors."""
    seen: dict[int, str] = {}
    for name, (kind, shapes) in wanted.items():
        part = getattr(made, name, None)
        expected = engine.tape.Tensor if kind == "Tensor" else getattr(engine.modules, kind)
        if not isinstance(part, expected):
            raise Wrong(f"{what} should have a {kind} self.{name}, and self.{name} is {type(part).__name__}.")
        if id(part) in seen:
            raise Wrong(
                f"{what}: self.{name} and self.{seen[id(part)]} are one and the same {kind}: make one for each."
            )
        seen[id(part)] = name
        for tensor, shape in shapes.items():
            got = part.shape if tensor == "" else getattr(part, tensor).shape
            if got != shape:
                raise Wrong(
                    f"{what}: self.{name}{'.' * bool(tensor)}{tensor} has the shape {got}, and should have {shape}."
                )


def block_init(engine: Engine, random: np.random.Generator) -> None:
    what = "Block(8, 2, random)"
    block = engine.call(engine.transformer.Block, 8, 2, np.random.default_rng(0), what=what)
    if getattr(block, "H", None) != 2:
        raise Wrong(f"{what} should have self.H = 2, the number of heads.")
    square, norm = ("Linear", {"W": (8, 8), "b": (8,)}), ("LayerNorm", {"gain": (8,)})
    wanted = {"norm1": norm, "norm2": norm} | dict.fromkeys(("q", "k", "v", "W"), square)
    wanted |= {"F": ("Linear", {"W": (8, 32)}), "G": ("Linear", {"W": (32, 8)})}
    parts_are(engine, block, what, wanted)


def model_init(engine: Engine, random: np.random.Generator) -> None:
    what = "Transformer(7, C=6, D=8, H=2, L=3)"
    model = engine.call(lambda: engine.transformer.Transformer(7, C=6, D=8, H=2, L=3), what=what)
    if getattr(model, "C", None) != 6:
        raise Wrong(f"{what} should have self.C = 6, the number of positions.")
    wanted = {"E": ("Tensor", {"": (7, 8)}), "P": ("Tensor", {"": (6, 8)})}
    wanted |= {"norm": ("LayerNorm", {"gain": (8,)}), "O": ("Linear", {"W": (8, 7)})}
    parts_are(engine, model, what, wanted)
    for name in "EP":
        size = np.sqrt((getattr(model, name).data ** 2).mean())
        if not 0.03 < size < 0.3:
            raise Wrong(
                f"{what}: the entries of self.{name} should be random numbers times 0.1; their size is {size:.2g}."
            )
    blocks = getattr(model, "blocks", None)
    if (
        not isinstance(blocks, list)
        or len(blocks) != 3
        or not all(isinstance(b, engine.transformer.Block) for b in blocks)
    ):
        raise Wrong(f"{what} should have a list self.blocks of 3 blocks.")
    if len({id(block) for block in blocks}) < 3:
        raise Wrong(
            f"{what}: self.blocks holds one block three times ([Block(...)] * L does this): make a new one for each."
        )


def batch_of(engine: Engine, random: np.random.Generator) -> None:
    t, seen = np.arange(100, 112), set()
    for _ in range(40):
        what = "batch_of(t, 5, 3, random) for 12 characters t"
        got = engine.call(engine.transformer.batch_of, t, 5, 3, random, what=what)
        got = array(got, what)
        if got.shape != (5, 4):
            raise Wrong(f"{what} has the shape {got.shape}, and should have (5, 4): n + 1 characters in each row.")
        if not np.array_equal(got - got[:, :1], np.tile(np.arange(4.0), (5, 1))):
            raise Wrong(
                f"{what}: each row should hold characters that follow each other in t; one is {got[0].tolist()}."
            )
        seen |= set(got[:, 0].astype(int) - 100)
    if seen != set(range(9)):  # 200 draws: none of 9 places is left out by chance (once in 10^9)
        places = ", ".join(map(str, sorted(seen)))
        raise Wrong(f"{what}: pieces may begin at the places 0 to 8 of t, and begin at {places} only.")


def block_call(engine: Engine, random: np.random.Generator) -> None:
    model = small_model(engine, int(random.integers(1000)))
    block, twin = model.blocks[0], Twin(engine, model)

    def values(x):
        Z = tt.tensor(x, dtype=tt.float64)
        cases = {
            "The sums are missing: each sublayer ADDS its result to Z.": {"residual": False},
            "The norms before the sublayers are missing.": {"norms": False},
            "The relu between F and G is missing.": {"relu": False},
            "The weights W after the heads are missing.": {"W": False},
            "The second sublayer has a norm of its own, norm2.": {"same": True},
        }
        return {sentence: twin.block(block, Z, **case).detach().numpy() for sentence, case in cases.items()}

    hint = "The order is: norm1, q k v, split_heads, attention, join_heads, W, add; norm2, F, relu, G, add."
    check_operation(
        engine, random, "Block(Z) for Z (2, 5, 8)", block, lambda Z: twin.block(block, Z),
        [random.standard_normal((2, 5, 8))], ("Z",), values, hint=hint,
    )  # fmt: skip


def model_call(engine: Engine, random: np.random.Generator) -> None:
    model = small_model(engine, int(random.integers(1000)))
    twin = Twin(engine, model)
    for n in (6, 4):
        t = random.integers(7, size=(3, n))
        what = f"Transformer(t) for t (3, {n}) and C = 6"
        out = tensor_of(engine, engine.call(model, t, what=what), what)
        cases: dict[str, dict] = {
            "The vectors P of the positions are missing.": {"positions": False},
            "The last norm, before O, is missing.": {"last": False},
            "Only the first block is applied.": {"blocks": 1},
            "The blocks are missing.": {"blocks": 0},
        }
        known = {sentence: twin.logits(model, t, **case).detach().numpy() for sentence, case in cases.items()}
        compare(f"{what}: the result", out.data, twin.logits(model, t).detach().numpy(), known)


def loss_of(engine: Engine, random: np.random.Generator) -> None:
    model = small_model(engine, int(random.integers(1000)))
    worst, count = gradients_agree(engine, model, random.integers(7, size=(3, 7)))
    print(
        f"All {count:,} gradients of a small transformer agree with tinytensor's; they differ by {worst:.0e} at most."
    )


def names_of(engine: Engine, module: Any, before: str = "model") -> list[tuple[str, Any]]:
    """All tensors of a module, with the names by which one reaches them: model.blocks[0].q.W."""
    found = []
    for name, value in vars(module).items():
        for place, part in enumerate(value) if isinstance(value, list) else [(None, value)]:
            said = f"{before}.{name}" + ("" if place is None else f"[{place}]")
            if isinstance(part, engine.tape.Tensor):
                found.append((said, part))
            elif isinstance(part, engine.modules.Module):
                found += names_of(engine, part, said)
    return found


def gradients_agree(engine: Engine, model: Any, t: np.ndarray) -> tuple[float, int]:
    """Compare the loss and all its gradients with tinytensor's: the largest difference, and their number."""
    twin = Twin(engine, model)
    V = model.O.b.shape[0]
    loss = tensor_of(engine, engine.call(engine.transformer.loss_of, model, t, what="loss_of"), "loss_of")
    logits = twin.logits(model, t[:, :-1]).reshape(-1, V)
    right = F.cross_entropy(logits, tt.tensor(t[:, 1:].reshape(-1)))
    same = F.cross_entropy(logits, tt.tensor(t[:, :-1].reshape(-1))).item()
    compare(
        f"loss_of(model, t) for t {t.shape}",
        loss.data,
        right.item(),
        {
            "The targets are the inputs themselves: position i predicts character i + 1, t[:, 1:].": same,
            "The loss is a mean.": right.item() * t[:, 1:].size,
        },
    )
    right.backward()
    engine.call(engine.order.zero_grad, model.parameters(), what="zero_grad")
    engine.call(engine.order.backward, loss, what="backward of loss_of")
    worst, count = 0.0, 0
    for name, x in names_of(engine, model):
        got, want = array(x.grad, f"the gradient of {name}"), twin.get(x).grad.numpy()
        compare(f"the gradient of {name}, of shape {x.shape},", got, want, tolerance=1e-10)
        worst, count = max(worst, float(np.abs(got - want).max())), count + want.size
    return worst, count


def train_step(engine: Engine, random: np.random.Generator) -> None:
    seed, t = int(random.integers(1000)), random.integers(7, size=(2, 7))

    def after(step: Callable) -> tuple[np.ndarray, Any]:
        model = small_model(engine, seed)
        optimizer = engine.modules.AdamW(model.parameters(), rate=0.1, betas=(0.0, 0.5))
        result = [step(model, optimizer) for _ in range(3)][-1]
        return np.concatenate([x.data.ravel() for x in model.parameters()]), result

    def right(zero: bool = True, move: bool = True) -> Callable:
        def step(model, optimizer):
            if zero:
                engine.order.zero_grad(optimizer.parameters)
            loss = engine.transformer.loss_of(model, t)
            engine.order.backward(loss)
            if move:
                optimizer.step()
            return float(loss.data)

        return step

    def mine(model: Any, optimizer: Any) -> Any:
        return engine.call(engine.transformer.train_step, model, optimizer, t, what="train_step")

    weights_after, loss = after(mine)
    wanted, wanted_loss = after(right())
    known = {
        "zero_grad is missing: gradients of earlier steps are still there, and add up.": after(right(zero=False))[0],
        "Nothing has moved: call optimizer.step() after backward.": after(right(move=False))[0],
    }
    compare("after three calls of train_step the vector of all parameters", weights_after, wanted, known)
    if isinstance(loss, engine.tape.Tensor):
        raise Wrong("train_step should return the loss as a number, float(loss.data): a Tensor keeps its whole tape.")
    if loss is None or not close(array(loss, "what train_step returns"), wanted_loss):
        raise Wrong(f"train_step should return the loss before its step, {wanted_loss:.4f}, and returns {loss}.")


def sample(engine: Engine, random: np.random.Generator) -> None:
    model = small_model(engine, int(random.integers(1000)))
    seed = int(random.integers(1000))
    for start, count in (([1, 2], 3), (list(range(7)) + [0, 1], 12)):

        def draw(count=count, start=start, temperature=0.7, place=-1, greedy=False):
            t, own = list(start), np.random.default_rng(seed)
            for _ in range(count):
                window = np.array([t[-model.C :]])
                q = probabilities(np.asarray(model(window).data[0, place]) / temperature)
                t.append(int(q.argmax()) if greedy else int(own.choice(len(q), p=q)))
            return t

        what = f"sample of {count} characters after {len(start)} (C = {model.C}, temperature 0.7)"
        before = list(start)
        own = np.random.default_rng(seed)
        got = list(engine.call(engine.transformer.sample, model, start, count, own, 0.7, what=what) or [])
        if start != before:
            raise Wrong("sample has changed the list that it was given: begin with t = list(t).")
        if len(got) == count:
            raise Wrong(f"{what} should return the given characters too: {len(start) + count}, and returns {count}.")
        if len(got) != len(start) + count:
            raise Wrong(f"{what} should return {len(start) + count} characters, and returns {len(got)}.")
        if got == draw():
            continue
        known = {
            "It always takes the most likely character: draw with random.choice(V, p=q).": {"greedy": True},
            "Divide the logits by the temperature, do not multiply.": {"temperature": 1 / 0.7},
            "The temperature has no effect.": {"temperature": 1.0},
            "The logits of the first position were used: the next character follows the last one.": {"place": 0},
        }
        for sentence, case in known.items():
            if got == draw(**case):
                raise Wrong(f"{what} gives other characters than it should. {sentence}")
        raise Wrong(f"{what} gives {got[len(start) :]}, and should give {draw()[len(start) :]} with this generator.")


CHECKS = {
    "attention.causal_mask": causal_mask,
    "attention.attention_weights": attention_weights,
    "attention.attention": attention,
    "attention.split_heads": split_heads,
    "attention.join_heads": join_heads,
    "modules.Module.parameters": parameters,
    "modules.Linear.__init__": linear_init,
    "modules.Linear.__call__": linear_call,
    "modules.LayerNorm.__init__": norm_init,
    "modules.LayerNorm.__call__": norm_call,
    "modules.AdamW.__init__": adamw_init,
    "modules.AdamW.step": adamw_step,
    "transformer.Block.__init__": block_init,
    "transformer.Block.__call__": block_call,
    "transformer.Transformer.__init__": model_init,
    "transformer.Transformer.__call__": model_call,
    "transformer.loss_of": loss_of,
    "transformer.batch_of": batch_of,
    "transformer.train_step": train_step,
    "transformer.sample": sample,
}
