# %% [markdown]
# # Record and replay: what `compile` makes of a training step
#
# A training step computes a loss and its gradients, eq. (17) of document 003 (`documents.md` lists the documents), and
# goes against them, eq. (18). It does so thousands of times. Each time Python looks at the same arguments, walks the
# same tape, and calls the same machine code, on other numbers. Must it?

# %%
import random
from pathlib import Path
from timeit import repeat

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")


def training(width: int):
    """A step of (18) for a network with an inner layer of this width."""
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
# ## A step is a list of launches
#
# Lesson 8 wrote a kernel: a loop over arrays, compiled to machine code. One call of a kernel on given arrays is a
# **launch**. Every number that tinytensor computes comes from one: operations, their gradient rules and optimizers all
# call the function `launch` (in `tinytensor/core/dispatch.py`). So it is enough to watch this one function. At the
# first call `compile` notes each launch: the address of its machine code, and those of its arrays. The notes are the
# **recording**. From the second call on they run as one native program, without model, tape or optimizer.
#
# Predict: how many of the launches are matrix products? Two layers make two of them on the way forward.

# %%
x, y = tt.randn(32, 4), tt.randint(0, 3, (32,))
eager, step = training(16), tt.compile(training(16))
assert all(eager(x, y).item() == step(x, y).item() for _ in range(20))  # the recording, and replays: bit for bit
recording = next(iter(step.recordings.values()))[0].recording
for number, (kernel, launch) in enumerate(recording.noted):
    shapes = [] if kernel is None else [a.shape for a in launch.args if hasattr(a, "shape")]
    print(f"{number:>3}  {kernel.name if kernel else 'stop if a class was none':<24}", *shapes[:2])

# %% [markdown]
# The table shows each kernel and the shapes of its first arrays. All of a step is there: forward to the loss, backward
# from `cross_entropy_backward` on, and (18) for the four parameters. Five launches are products: backward needs one for
# ∂𝓛/∂W of each layer, and one for ∂𝓛/∂x, but not of the first layer, whose x are the data. `profile` times the kernels:

# %%
with tt.profile() as profile:
    step(x, y)
figure, [[panel]] = plots.panels()
names = sorted(profile.rows, key=lambda name: profile.rows[name].seconds)
panel.barh([f"{name} × {profile.rows[name].calls}" for name in names], [1e6 * profile.rows[n].seconds for n in names])
panel.set(xlabel="microseconds", title="the kernels of one step")
plots.show(figure, FIGURES / "18_record_and_replay_kernels.png", alt="Bars: the matrix products take longest.")

# %% [markdown]
# ## When does a recording hold?
#
# Another shape or another mode leads to other launches: then the step is recorded anew. A tensor is read at each
# replay. But a Python number stands in the recording as it was. Predict: three rates are passed, once as numbers, and
# once as tensors. How many recordings are made?

# %%
by_number, by_tensor = (tt.compile(lambda x, rate: x * rate) for _ in range(2))
for rate in (0.1, 0.2, 0.3):
    by_number(x, rate), by_tensor(x, tt.tensor(rate))
for name, function in (("number", by_number), ("tensor", by_tensor)):
    print(f"recordings with the rate as a {name}: {sum(map(len, function.recordings.values()))}")

# %% [markdown]
# ## How much time does a replay save?
#
# A replay saves Python's time, and that of finding memory: a recording keeps its arrays. The kernels take as long as
# before. Predict: how many times quicker is a replay at width 8, and at width 8192?

# %%
tt.set_num_threads(1)  # so that other programs disturb the times less
widths, curves = [8, 32, 128, 512, 2048, 8192], {}
for name, how in (("eager", training), ("replay", lambda width: tt.compile(training(width)))):
    calls = [how(width) for width in widths]
    curves[name] = [1e6 * min(repeat(lambda call=call: call(x, y), number=1, repeat=100)) for call in calls]
figure, [[panel]] = plots.panels()
plots.lines(panel, widths, curves, marker="o")
print("times quicker:", {w: round(old / new, 1) for w, old, new in zip(widths, *curves.values())})
panel.set(xscale="log", yscale="log", xlabel="width of the inner layer", ylabel="microseconds a step")
plots.show(figure, FIGURES / "18_record_and_replay.png", alt="The gap between eager and replay narrows with the width.")

# %% [markdown]
# ## What it refuses
#
# A replay runs no Python: a decision, a random draw or a list that Python keeps cannot be part of it. For such a
# function `compile` warns, and runs it as it is; with `fullgraph=True` it raises an error.

# %%
asks, draws = lambda x: x * 2 if x.sum().item() > 0 else x, lambda x: x * random.random()
for function in (asks, draws, lambda x, kept=[]: kept.append(x * 2) or x + 1):
    try:
        tt.compile(function, fullgraph=True)(x)
    except RuntimeError as error:
        print("-", error)

# %% [markdown]
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/18_record_and_replay.py`. Each has a check.
