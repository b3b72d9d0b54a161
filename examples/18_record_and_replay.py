# %% [markdown]
# # Record and replay: what `compile` makes of a training step
#
# A training step forms (17) and takes the step of (18) (document 003), thousands of times. Each time Python looks at
# the same arguments, walks the same tape, and launches the same kernels, on other numbers. Must it?

# %%
import random
from pathlib import Path
from timeit import repeat

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")


def training(width: int):  # a step of (18) for a network with an inner layer of this width
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


# %% [markdown]
# `compile` watches the first call. Every number passes `launch` (`tinytensor/core/dispatch.py`), which notes it: the
# address of the machine code, the address of its packed arguments, and the number of tasks. From then on the step is
# one native program, without model, tape or optimizer. Find the forward pass, the backward pass, and (18).

# %%
x, y = tt.randn(32, 4), tt.randint(0, 3, (32,))
eager, step = training(16), tt.compile(training(16))
assert all(eager(x, y).item() == step(x, y).item() for _ in range(20))  # the recording, and replays: bit for bit
recording = next(iter(step.recordings.values()))[0].recording
for number, (kernel, launch) in enumerate(recording.noted):
    shapes = [] if kernel is None else [a.shape for a in launch.args if hasattr(a, "shape")]
    print(f"{number:>3}  {kernel.name if kernel else 'stop if an index was bad':<24}", *shapes)
with tt.profile() as profile:  # the same, with the time that each kernel takes
    step(x, y)
print(profile)

# %% [markdown]
# ## When does a recording hold?
#
# Another shape or another mode leads to other launches: then the step is recorded anew. Pass a value that varies, say a
# rate, as a number, and each value gets a recording. Tensors are read at each replay.

# %%
by_number, by_tensor = (tt.compile(lambda x, rate: x * rate) for _ in range(2))
for rate in (0.1, 0.2, 0.3):
    by_number(x, rate), by_tensor(x, tt.tensor(rate))
print("recordings, three rates:", *[sum(map(len, by.recordings.values())) for by in (by_number, by_tensor)])

# %% [markdown]
# ## How much time does a replay save?
#
# A replay saves the time of Python, and that of making memory: a recording has its buffers. Where kernels have little
# to do that is nearly everything; the more they have to do, the less it matters.

# %%
tt.set_num_threads(1)  # so that other programs disturb the times less
widths, curves = [8, 32, 128, 512, 2048, 8192], {}
for name, how in (("eager", training), ("replay", lambda width: tt.compile(training(width)))):
    calls = [how(width) for width in widths]
    curves[name] = [1e6 * min(repeat(lambda call=call: call(x, y), number=1, repeat=100)) for call in calls]
figure, [[panel]] = plots.panels()
plots.lines(panel, widths, curves, marker="o")
panel.set(xscale="log", yscale="log", xlabel="width of the inner layer", ylabel="microseconds a step")
plots.show(figure, FIGURES / "18_record_and_replay.png")

# %% [markdown]
# ## What it refuses
#
# A replay runs no Python: a decision, a random draw or a list that Python keeps cannot be part of it. For such a
# function `compile` warns, and runs it as it is; with `fullgraph=True` it raises.

# %%
asks, draws = lambda x: x * 2 if x.sum().item() > 0 else x, lambda x: x * random.random()
for function in (asks, draws, lambda x, kept=[]: kept.append(x * 2) or x + 1):
    try:
        tt.compile(function, fullgraph=True)(x)
    except RuntimeError as error:
        print("-", error)

# %% [markdown]
# ## Exercise
#
# Clipping brings a gradient longer than 1 to length 1. `compile` refuses `if g.norm() > 1`: write it without an if.


# %%
def answer(g):
    """g, or g / |g| where |g| > 1."""
    ...


def check(answer) -> str:
    short, long = tt.tensor([0.3, -0.4]), tt.tensor([3.0, -4.0])
    if answer(short) is None:
        return "not solved yet. Hint: the smaller of 1 and 1 / |g| can be computed with tensors: `clamp`."
    try:
        clip = tt.compile(answer, fullgraph=True)
        found = [[round(entry, 4) for entry in clip(g).tolist()] for g in (short, long, short)]
    except RuntimeError as error:
        return f"wrong: {error}"
    good = found == [[0.3, -0.4], [0.6, -0.8], [0.3, -0.4]]
    return "right" if good else f"wrong: [0.3, -0.4], [3, -4] and again [0.3, -0.4] became {found}."


print("exercise:", check(answer))
