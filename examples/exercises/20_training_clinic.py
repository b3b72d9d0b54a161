# %% [markdown]
# # Exercises: a clinic of training runs
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import copy
import math
import random
from collections.abc import Callable
from dataclasses import replace

from clinic import FAULTS, Readings, Run, train, with_fault
from judge import Wrong, came, check, compare

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

# %% [markdown]
# ## 1 ★ Predict: the longest step
#
# SGD goes ρ times the gradient. In step i = 1, 2, ... the rate is warmed up over w steps, and the gradient of length g
# is clipped to c. How long is the step?


# %%
def answer_1(i: int, g: float, rate: float, w: int, c: float) -> float:
    """The length of step i, for the rate ρ, w steps of warm-up, and the largest length c of a gradient."""
    ...


@check("which of g and c is smaller? Which part of the rate is used in step i?")
def check_1(answer) -> None:
    for early in random.sample([True, True, False, False], 4):
        for long in random.sample([True, False], 2):
            w, c, rate = random.randint(10, 30), random.uniform(0.5, 3), random.uniform(0.1, 0.9)
            i = random.randint(1, w - 2) if early else random.randint(w + 5, 3 * w)
            g = c * (random.uniform(1.5, 9) if long else random.uniform(0.1, 0.9))
            p = tt.zeros(2, dtype=tt.float64, requires_grad=True)
            p.grad = tt.tensor([0.6 * g, 0.8 * g], dtype=tt.float64)
            nn.utils.clip_grad_norm_([p], c)
            tt.optim.SGD([p], lr=rate * min(1, i / w)).step()
            mistakes = {
                "After the warm-up the rate stays at its full size.": rate * i / w * min(g, c),
                "The rate is still being warmed up.": rate * min(g, c),
                "A gradient that is longer than c is clipped.": rate * min(1, i / w) * g,
                "A gradient that is shorter than c stays as it is.": rate * min(1, i / w) * c,
            }
            case = f"for i = {i}, g = {g:.3f}, ρ = {rate:.3f}, w = {w}, c = {c:.3f} the length"
            right = (p.detach() * p.detach()).sum().sqrt().item()
            answer.compare((i, g, rate, w, c), right, case, mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: three lines in a wrong order
#
# `answer_2` is a step of training. It runs, and the loss falls, but not as it should. Mend it.


# %%
def answer_2(p: tt.Tensor, loss: Callable[[tt.Tensor], tt.Tensor], optimizer: tt.optim.Optimizer, c: float) -> None:
    """One step of p on loss(p), with a gradient of length c at most; p.grad may hold what an earlier step left."""
    loss(p).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_([p], c)
    optimizer.zero_grad()


@check("which gradient should the step use? And what is in p.grad before backward()?")
def check_2(answer) -> None:
    for left in (1, 0, 1):
        start, slope, old = (tt.randn(3, dtype=tt.float64) for _ in range(3))
        slope, c, rate = 5 * slope / (slope * slope).sum().sqrt(), random.uniform(0.5, 2), random.uniform(0.1, 0.5)

        def after(g, start=start, rate=rate):
            return start - rate * g

        def clipped(g, c=c):
            return g * min(1.0, c / (g * g).sum().sqrt().item())

        p = start.clone().requires_grad_()
        p.grad = old.clone() if left else None
        answer.run(p, lambda p, slope=slope: (p * slope).sum(), tt.optim.SGD([p], lr=rate), c)
        mistakes = {
            "The gradient was clipped after the step, and not set to 0 before backward().": after(slope + left * old),
            "The gradient was clipped after the step.": after(slope),
            "What an earlier step left in p.grad was added: set it to 0 before backward().": after(
                clipped(slope + left * old)
            ),
            "The gradient was set to 0 after backward(): nothing is left of it.": start,
        }
        case = f"for c = {c:.3f}, {'with' if left else 'without'} an old gradient, p after the step"
        compare(p.detach(), after(clipped(slope)), case, mistakes)


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: the floor of a loss with two softmaxes
#
# The cross-entropy has a softmax of its own. If it is given probabilities q_1, ..., q_V instead of logits, its loss at
# the right token t is log(Σ_i exp q_i) - q_t. Which is the least loss that any model can reach? And which loss has a
# fresh model, for which all tokens are equally likely?


# %%
def answer_3(V: int) -> tuple[float, float]:
    """The least loss, and that of a fresh model, for V tokens."""
    ...


@check("the best model is sure of the right token: which probabilities does it give?")
def check_3(answer) -> None:
    for _ in range(3):
        V = random.randint(3, 90)
        t = tt.tensor([random.randrange(V)])
        sure = F.one_hot(t, V).to(tt.float64)
        least, fresh = (F.cross_entropy(q, t).item() for q in (sure, tt.full((1, V), 1 / V, dtype=tt.float64)))
        mistakes = {
            "Probabilities of 0 count, too: exp 0 is 1.": (0.0, ...),
            "The sum has the term e for the right token, and a 1 for each of the V - 1 others.": (
                math.log(math.e + V) - 1,
                ...,
            ),
            "Subtract the probability of the right token, 1.": (math.log(math.e + V - 1), ...),
            "Each q_i is 1 / V, and so is q_t.": (..., math.log(V) - 1 / V),
        }
        names = ("the least loss", "that of a fresh model")
        answer.compare((V,), (least, fresh), f"for V = {V}", mistakes, names=names)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: a diagnosis
#
# Write down what you have learnt to read. `answer_4` is given what the lesson measures of a run (`Readings` in
# `clinic.py` says what that is), and names the setting that is at fault: "rate", "diagonal", "zero_grad", "softmax",
# "shift", "mask", "text", "evaluation", "axis", "tied", "gain" or "clip". For a healthy run it says "healthy". The
# check trains runs of all thirteen sorts with random seeds. Where you are wrong it mends what you name, and runs again.


# %%
def answer_4(readings: Readings) -> str:
    """The setting at fault, as in `FAULTS` (such as "rate"), or "healthy"."""
    ...


@check("look first for what no healthy run can show: NaN, a step that is too long, two losses for one text.")
def check_4(answer) -> None:
    for name in random.sample([*FAULTS, "healthy"], len(FAULTS) + 1):
        seed = random.randrange(5)
        run = Run(seed) if name == "healthy" else with_fault(name, seed=seed)
        said = answer(copy.deepcopy(train(run)))
        if not isinstance(said, str) or said not in {*FAULTS, "healthy"}:
            raise Wrong(f"you return {came(said)}, which names no setting.")
        if said == name:
            continue
        if name == "healthy":
            raise Wrong(f"you find the fault {said} in a healthy run.")
        if said == "healthy":
            raise Wrong(f"you call a run healthy whose fault is {name}.")
        mended = train(replace(run, **{said: getattr(Run, said)}))
        losses = f"its last loss is {mended.loss[-1]:.2f}, and on held-out text {mended.repeats[0]:.2f}"
        raise Wrong(f"you name {said}. With {said} as in a healthy run {losses}: the fault {name} is still there.")


print("exercise 4:", check_4(answer_4))
