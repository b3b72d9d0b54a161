"""JAX: one jitted function for a whole step, loss, gradients and AdamW, which takes over the memory it is given."""

import math
import os

import numpy as np

from ..data import Case

BETAS, EPS = (0.9, 0.999), 1e-8


class Jit:
    def __init__(self, threads: int):
        if threads == 1:  # JAX has no switch for it, but keeps to the processor that it is given
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        self.jax = jax

    def training_step(self, case: Case):
        if case.model != "decoder":
            raise NotImplementedError("JAX jit: only decoders are written for it")
        jax = self.jax
        jnp = jax.numpy
        loss_of = decoder(case)
        weights = parameters(case)
        state = (*(jax.tree.map(jnp.asarray, w) for w in (weights, *(_zeros(weights) for _ in BETAS))), jnp.zeros(()))
        lr, decay = case.lr, case.weight_decay

        def update(w, g, m, v, t):
            m = BETAS[0] * m + (1 - BETAS[0]) * g
            v = BETAS[1] * v + (1 - BETAS[1]) * g * g
            step = (m / (1 - BETAS[0] ** t)) / (jnp.sqrt(v / (1 - BETAS[1] ** t)) + EPS)
            return w - lr * decay * w - lr * step, m, v

        @jax.jit(donate_argnums=0)
        def train(state, x, y):
            w, m, v, t = state
            loss, g = jax.value_and_grad(loss_of)(w, x, y)
            t = t + 1
            new = {name: update(w[name], g[name], m[name], v[name], t) for name in w}
            return (*({name: parts[i] for name, parts in new.items()} for i in range(3)), t), loss

        batches = [(jnp.asarray(x, jnp.int32), jnp.asarray(y, jnp.int32)) for x, y in zip(case.x, case.y)]

        def step(i):
            nonlocal state
            state, loss = jax.block_until_ready(train(state, *batches[i % len(batches)]))
            return loss

        return step


def _zeros(weights: dict) -> dict:
    return {name: np.zeros_like(w) for name, w in weights.items()}


def parameters(case: Case) -> dict[str, np.ndarray]:
    """Our weights, Q, K and V of each block side by side: (D, 3 D)."""
    weights = dict(case.weights)
    D = case.config["D"]
    for i in range(case.config["L"]):
        parts = [weights.pop(f"blocks.{i}.{n}").transpose(1, 0, 2).reshape(D, D) for n in "QKV"]
        weights[f"blocks.{i}.QKV"] = np.concatenate(parts, 1)
    return weights


def decoder(case: Case):
    """loss(weights, x, y) of the decoder of models/decoder/."""
    import jax
    import jax.numpy as jnp

    c = case.config
    D, H, L, C = c["D"], c["H"], c["L"], c["C"]
    K = D // H
    causal = np.tri(C, dtype=bool)

    def norm(z, weight):
        if c["norm"] == "rms":
            return z * jax.lax.rsqrt((z * z).mean(-1, keepdims=True) + c["eps"])
        centred = z - z.mean(-1, keepdims=True)
        z = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + c["eps"])
        return z if weight is None else z * weight

    def attention(q, k, v):
        scores = jnp.einsum("bihk,bjhk->bhij", q, k) / math.sqrt(K)
        scores = jnp.where(causal, scores, -jnp.inf)
        return jnp.einsum("bhij,bjhk->bihk", jax.nn.softmax(scores, -1), v)

    def loss(w, x, y):
        B = x.shape[0]
        z = w["E"][x] + w["P"]
        if c["residual"] == "once":
            z = norm(z, w.get("blocks.0.enter.weight"))
        for i in range(L):
            at = f"blocks.{i}."
            n = z if c["residual"] == "once" else norm(z, w.get(at + "enter.weight"))
            z = n if c["residual"] == "literal" else z
            q, k, v = jnp.split((n @ w[at + "QKV"]).reshape(B, C, 3 * H, K), 3, 2)
            z = z + attention(q, k, v).reshape(B, C, D) @ w[at + "W"]
            inner = norm(z, w.get(at + "middle.weight")) @ w[at + "F"] + w.get(at + "b", 0.0)
            inner = jax.nn.relu(inner) if c["activation"] == "relu" else jax.nn.gelu(inner, approximate=False)
            z = z + inner @ w[at + "G"] + w.get(at + "c", 0.0)
        if c["final_norm"]:
            z = norm(z, w.get("final.weight"))
        logits = z @ (w["E"].T if c["tied"] else w["O"])
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1)
        return -picked.mean()

    return loss
