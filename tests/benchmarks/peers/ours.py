"""tinytensor, used as its README says: a step under `tinytensor.compile`, sampling by `models.inference.generate`."""

import ctypes
from functools import partial

import numpy as np

from ..data import Case
from ..peak import lanes, native, source, together


class TinyTensor:
    def __init__(self, threads: int):
        import tinytensor

        self.library = self.tt = tinytensor
        tinytensor.set_num_threads(threads)

    def _model(self, case: Case):
        from models import decoder, transformer

        tt = self.tt
        if case.model == "decoder":
            model = decoder.Decoder(decoder.Config(**case.config))
        else:
            model = transformer.Transformer(transformer.Config(**case.config))
        model.load_state_dict({name: tt.tensor(weight) for name, weight in case.weights.items()})
        return model

    def training_step(self, case: Case):
        tt, model = self.tt, self._model(case)
        optimizer = tt.optim.AdamW(model.parameters(), lr=case.lr, weight_decay=case.weight_decay)
        batches = [(tt.tensor(x), tt.tensor(y)) for x, y in zip(case.x, case.y)]

        @tt.compile
        def step(x, y):
            optimizer.zero_grad()
            _, loss = model(x, y)
            loss.backward()
            optimizer.step()
            return loss

        return lambda i: step(*batches[i % len(batches)])

    def sampler(self, case: Case):
        from models.inference.generate import Sampler

        model = self._model(case)
        samplers = {temperature: Sampler(model, temperature=temperature) for temperature in (0, 1.0)}
        return lambda count, temperature: samplers[temperature]([0], count)

    def prompted(self, case: Case):
        from models.inference.generate import Sampler

        sampler = Sampler(self._model(case), temperature=0)
        return lambda tokens, count: list(sampler(tokens, count))

    def products(self, form: str, a: np.ndarray, b: np.ndarray, n: int):
        """n products in one recorded step. Each result is dropped, so that the next one takes its memory."""
        tt = self.tt
        a, b = tt.tensor(a), tt.tensor(b)

        @tt.compile
        def run():
            left, right = (a.t() if form == "Aᵀ·B" else a), (b.t() if form == "A·Bᵀ" else b)
            for _ in range(n):
                left @ right

        return run

    def eager_products(self, form: str, a: np.ndarray, b: np.ndarray, n: int):
        """n products, each by a call of its own; `run` returns the last one."""
        tt = self.tt
        a, b = tt.tensor(a), tt.tensor(b)
        left, right = (a.t() if form == "Aᵀ·B" else a), (b.t() if form == "A·Bᵀ" else b)

        def run():
            for _ in range(n):
                product = left @ right
            return product

        return run

    def operation(self, name: str, arrays: dict[str, np.ndarray]):
        """n times forward, and n times backward after one forward, each in one recorded step."""
        tt, F, n = self.tt, self.tt.nn.functional, 64
        inputs = {key: tt.tensor(value) for key, value in arrays.items()}
        g = inputs.pop("g")

        def op(x, k=None, v=None, targets=None, weight=None):
            if name == "softmax":
                return tt.softmax(x, -1)
            if name == "layer_norm":
                return F.layer_norm(x, x.shape[-1:], weight)
            if name == "cross_entropy":
                return F.cross_entropy(x, targets)
            if name == "GELU":
                return F.gelu(x)
            return F.scaled_dot_product_attention(x, k, v, is_causal=True)

        def leaves():
            return {k: t if k == "targets" else t.detach().requires_grad_() for k, t in inputs.items()}

        @tt.compile
        def forward():
            for _ in range(n):
                op(**inputs)

        @tt.compile
        def backward():
            xs = leaves()
            wanted = [x for x in xs.values() if x.requires_grad]
            y = op(**xs)
            for _ in range(n - 1):
                tt.autograd.grad(y, wanted, g, retain_graph=True)
            tt.autograd.grad(y, wanted, g)

        @tt.compile
        def once():
            y = op(**leaves())
            del y

        return {"forward": (forward, n, None), "backward": (backward, n, once)}


class Moves:
    """Reads and writes the arrays that an operation does, and computes nothing worth the name: what memory takes.

    Attention is not here, but in `Parts`.
    """

    def __init__(self, threads: int):
        self.tt = TinyTensor(threads).tt

    def operation(self, name: str, arrays: dict[str, np.ndarray]):
        """Forward reads x and writes y, backward reads g and x (or y) and writes dx; cross-entropy has no y, and no g
        to speak of: its forward only reads, its backward is a forward of the others."""
        tt, n = self.tt, 64
        if name == "attention":
            return {}
        x, g = tt.tensor(arrays["x"]), tt.tensor(arrays["g"])

        @tt.compile
        def read():
            for _ in range(n):
                x.sum(-1)

        @tt.compile
        def copy():
            for _ in range(n):
                x.clone()

        @tt.compile
        def add():
            for _ in range(n):
                g + x

        forward, backward = (read, copy) if name == "cross_entropy" else (copy, add)
        return {"forward": (forward, n, None), "backward": (backward, n, None)}


class Parts:
    """What attention cannot do without, each part by itself: arrays are moved, exponentials taken, numbers multiplied.

    Moving is reading the arguments and writing the results, once. There is an exponential for each pair of a query and
    a key that it sees, of numbers that stay in the nearest cache. The products run as the loop of `peak.py`, from which
    the peak is known: no number is loaded for them. What is not seen of a square costs nothing here.
    """

    SCORES = 4096  # of which exponentials are taken at a time

    def __init__(self, threads: int):
        self.tt, self.threads = TinyTensor(threads).tt, threads
        from numba import njit

        from tinytensor.native.simd import score_tile
        from tinytensor.native.simd.isa import SIMD

        @njit(nogil=True)
        def exponentials(x, y, times):
            for _ in range(times):
                for i in range(0, x.size, score_tile.WIDTH * score_tile.LANES):
                    score_tile.store_score_tile(score_tile.exp_tile(score_tile.load_score_tile(x, i)), y, i)

        text, self.work = source(lanes(SIMD))
        self.multiply = native(text, "run", ctypes.c_float, ctypes.c_int64, ctypes.c_float)
        self.exponentials = exponentials

    def operation(self, name: str, arrays: dict[str, np.ndarray]):
        if name != "attention":
            return {}
        tt, n = self.tt, 64
        q, k, v, g = (tt.tensor(arrays[key]) for key in "xkvg")
        y = g.clone()
        B, H, C, K = q.shape
        pairs = B * H * C * (C + 1) // 2

        @tt.compile
        def forward():
            for _ in range(n):
                q + k
                v.sum(-1)

        @tt.compile
        def backward():
            for _ in range(n):
                g + q
                k + v
                y.clone()

        def computed(each: int):
            """One thread's share of all exponentials, and of `each` operations for each pair."""
            share = n * pairs // self.threads
            scores = np.full((2, self.SCORES), -1, np.float32)
            self.exponentials(*scores, share // self.SCORES)
            self.multiply(share * each // self.work, 1e-3)

        def parts(moved, each: int):
            def run():
                moved()
                together([partial(computed, each)] * self.threads)

            return run, n, None

        # A product of width K is 2 K operations: scores and results forward; in backward the scores again, and the
        # gradients of probabilities, queries, keys and values.
        return {"forward": parts(forward, 4 * K), "backward": parts(backward, 10 * K)}
