"""L-BFGS: steps that use the change of the gradient over the last few steps, for losses without noise.

It suits curve fitting and physics, where every step uses all data; it does not suit batches that are drawn at random.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from tinytensor.core.modes import enable_grad, no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.ops.shape import cat, flatten, reshape
from tinytensor.optim.line_search import Point, strong_wolfe
from tinytensor.optim.optimizer import Optimizer


class LBFGS(Optimizer):
    r"""x \to x - \rho \, H g, where H approximates the inverse Hessian from pairs (s, y) of steps and gradient changes.

    From Liu and Nocedal (1989).

    A step calls its closure up to `max_eval` times, and moves x up to `max_iter` times. H is never formed as a matrix:
    it is applied to g pair by pair (Nocedal and Wright, Numerical Optimization, algorithm 7.4), which needs
    2 * history_size vectors. All parameters must be in one group, and are treated as one vector.

    With `line_search_fn="strong_wolfe"` a step's length is found by trials, of which lr is the first
    (optim/line_search.py); the parameters never move to where the loss is not finite.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        defaults = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval}
        defaults |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        super().__init__(params, defaults | {"history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: all parameters must be in one group, these are in {len(self.param_groups)}")

    def _check(self, group):
        super()._check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {group['line_search_fn']!r}")

    @no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Move up to max_iter times; the closure computes the loss and its gradients, and is called at each point."""
        if closure is None:
            raise TypeError(
                "LBFGS.step: expected a closure, which zeroes the gradients, computes the loss, calls backward() and "
                "returns the loss"
            )
        (group,) = self.param_groups
        # The state is stored under the first parameter, so that it is saved like that of other optimizers.
        kept = self.state[group["params"][0]]
        kept.setdefault("n_iter", 0)
        kept.setdefault("func_evals", 0)
        before = kept["func_evals"]
        first = self._evaluate(closure, kept)
        loss, g = float(first), self._gradients(group)
        if g.abs().max().item() <= group["tolerance_grad"]:
            return first
        for i in range(1, group["max_iter"] + 1):
            kept["n_iter"] += 1
            if kept["n_iter"] == 1:
                direction, kept["old_stps"], kept["old_dirs"] = -g, [], []
                rate = min(1.0, 1.0 / g.abs().sum().item()) * group["lr"]
            else:
                direction, rate = self._direction(g, group, kept), group["lr"]
            here = Point(0.0, loss, g, (g @ direction).item())
            kept |= {"d": direction, "t": rate, "prev_flat_grad": g}
            if not here.slope <= -group["tolerance_change"]:
                break  # almost no descent in this direction, or NaN
            if group["line_search_fn"] is not None:
                trials = group["max_eval"] - (kept["func_evals"] - before)
                point = self._search(closure, group, kept, here, trials)
                kept["t"], loss, g = point.t, point.f, point.gradient
            self._move(group, direction * kept["t"])
            if i == group["max_iter"]:
                break
            if group["line_search_fn"] is None:
                loss, g = float(self._evaluate(closure, kept)), self._gradients(group)
            if (
                kept["func_evals"] - before >= group["max_eval"]
                or g.abs().max().item() <= group["tolerance_grad"]
                or (direction * kept["t"]).abs().max().item() <= group["tolerance_change"]
                or abs(loss - here.f) < group["tolerance_change"]
            ):
                break
        return first

    def _search(
        self, closure: Callable, group: dict[str, Any], kept: dict[str, Any], start: Point, trials: int
    ) -> Point:
        """The point along the direction d that the line search finds, after a first trial at t; no parameter moves."""
        values = [p.clone() for p in group["params"]]

        def restore() -> None:
            for p, value in zip(group["params"], values, strict=True):
                p.copy_(value)

        def at(t: float) -> Point:
            try:
                self._move(group, kept["d"] * t)
                loss, g = float(self._evaluate(closure, kept)), self._gradients(group)
            finally:
                restore()
            slope = (g @ kept["d"]).item()
            return Point(t, loss if math.isfinite(loss + slope) else math.inf, g, slope)

        return strong_wolfe(at, start, kept["t"], kept["d"].abs().max().item(), trials)

    def _direction(self, g: Tensor, group: dict[str, Any], kept: dict[str, Any]) -> Tensor:
        """-H g, after adding the pair of the last step to the history."""
        steps, turns = kept["old_stps"], kept["old_dirs"]
        s, y = kept["d"] * kept["t"], g - kept["prev_flat_grad"]
        if (y @ s).item() > 1e-10:  # otherwise the loss is not convex here, and H would not stay positive
            if len(steps) == group["history_size"]:
                del steps[0], turns[0]
            steps.append(s)
            turns.append(y)
            kept["H_diag"] = (y @ s) / (y @ y)
        q, shares = -g, []
        for s, y in zip(reversed(steps), reversed(turns), strict=True):
            shares.append((s @ q) / (y @ s))
            q = q - shares[-1] * y
        q = q * kept.get("H_diag", 1.0)
        for s, y, share in zip(steps, turns, reversed(shares), strict=True):
            q = q + s * (share - (y @ q) / (y @ s))
        return q

    def _evaluate(self, closure: Callable, kept: dict[str, Any]) -> Any:
        kept["func_evals"] += 1
        with enable_grad():
            return closure()

    def _gradients(self, group: dict[str, Any]) -> Tensor:
        """All gradients as one vector; a parameter without one does not move."""
        return cat([flatten(p * 0 if p.grad is None else self._gradient(p)) for p in group["params"]])

    def _move(self, group: dict[str, Any], step: Tensor) -> None:
        begin = 0
        for p in group["params"]:
            p.add_(reshape(step[begin : begin + p.numel()], p.shape))
            begin += p.numel()
