# %% [markdown]
# # Nudge it by hand
#
# A function has three inputs and one output. Which input matters most, and which way should each one move so that the
# output falls? Training asks the same of the **loss**, which says how bad a model is, and of its **parameters**. We
# answer by arithmetic alone: we nudge each input and look, and then we walk back from the output.

# %%
from pathlib import Path

import tinytensor as tt
from tinytensor.viz import plots  # draws the pictures; it computes nothing here

FIGURES = Path("runs/lessons")


def f(a, b, c):
    d = a * b
    e = d + c
    return e**2


# %% [markdown]
# ## Nudge and look
#
# At a = 2, b = -3, c = 4 the output is 4. Now a grows by h = 0.001. Predict: does the output grow or fall? Go through
# the three lines of `f`: b is negative, so d falls. Then e, which was -2, falls too, and its square grows. By how many
# times h? The change of the output, divided by the nudge, is the **slope** with respect to this input.

# %%
a, b, c, h = 2.0, -3.0, 4.0, 0.001
for name, nudged in {"a": f(a + h, b, c), "b": f(a, b + h, c), "c": f(a, b, c + h)}.items():
    print(f"{name} is nudged: the output becomes {nudged:.6f}, its slope is {(nudged - f(a, b, c)) / h:.3f}")

# %% [markdown]
# The slopes are about 12, -8 and -4: a matters most, and the output falls if a falls or b or c grows. Why go on? Each
# input took a run of `f`. A model of 38,848 parameters, as in the project's README, would run 38,849 times a step.
#
# ## Walk back, box by box
#
# `f` consists of three small operations. We draw a box for each value, and begin at the last one.

# %%
d, e, y = a * b, a * b + c, f(a, b, c)
value = {"a": a, "b": b, "c": c, "d = a · b": d, "e = d + c": e, "y = e²": y}
place = {"a": (0, 2), "b": (0, 0.6), "c": (1, -0.2), "d": (1, 1.3), "e": (2, 0.6), "y": (3, 1.3)}
local_slope = {("a", "d"): b, ("b", "d"): a, ("d", "e"): 1, ("c", "e"): 1, ("e", "y"): 2 * e}  # as derived below
gradient = {}


def boxes(name, alt):
    """The boxes with their values, the gradients that are known, and the local slopes that they were found with."""
    figure, [[panel]] = plots.panels(size=(6.4, 2.6))
    for text, number in value.items():
        x, height = place[text[0]]
        known = f"\ngradient {gradient[text[0]]:g}" if text[0] in gradient else ""
        panel.barh(height, 0.7, 0.56, x - 0.35, color="white", edgecolor=plots.COLOURS[known != ""], zorder=2)
        panel.text(x, height, f"{text} = {number:g}{known}", ha="center", va="center", zorder=3)
    for (source, box), slope in local_slope.items():
        (u, v), (x, height) = place[source], place[box]
        panel.annotate("", (x - 0.35, height), (u, v), arrowprops={"arrowstyle": "->", "color": "gray"}, zorder=1)
        if source in gradient:
            panel.text((u + x) / 2 - 0.05, (v + height) / 2 + 0.02, f"× {slope:g}", color=plots.COLOURS[1])
    panel.set(xlim=(-0.38, 3.38), frame_on=False, xticks=[], yticks=[])
    return plots.show(figure, FIGURES / f"00_nudge_{name}.png", alt=alt)


boxes("values", "Boxes a, b, d = a · b, c, e = d + c and y = e², with the values 2, -3, -6, 4, -2 and 4.")

# %% [markdown]
# The **gradient** of a box is the slope of y with respect to it: how many times the nudge y would move, if we could
# nudge the value in this box. For y itself it is 1. Now nudge e: (e + h)² is e² + 2 e h + h², and h² is too small to
# count, so y moves 2 e times the nudge. This is the **local slope** of the box e². It needs no other box.

# %%
gradient["y"] = 1.0
gradient["e"] = gradient["y"] * 2 * e
boxes("square", "The same boxes: y has the gradient 1, and e has -4, which is 1 times the local slope 2 e.")

# %% [markdown]
# Next comes e = d + c. A nudge of d moves e just as much: the local slope is 1. So y moves -4 · 1 times the nudge, and
# the same holds for c. **A sum passes its gradient on.**

# %%
gradient["d"] = gradient["c"] = gradient["e"] * 1
boxes("sum", "The same boxes: d and c have the gradient -4 as well, which is -4 times the local slope 1.")

# %% [markdown]
# Last comes d = a · b. A nudge h of a moves d by b h: the local slope is *the other factor*. Predict both gradients.

# %%
gradient["a"], gradient["b"] = gradient["d"] * b, gradient["d"] * a
boxes("all", "All boxes have gradients: y 1; e, d and c -4; a 12, which is -4 times -3; b -8, which is -4 times 2.")

# %% [markdown]
# They are the slopes that we found by nudging, now exact. This was backpropagation. On the way from y back to a the
# local slopes are multiplied, which is the chain rule (in ∂y/∂a all other inputs stand still):
#
# $$ \frac{\partial y}{\partial a} = \frac{\partial y}{\partial e} \frac{\partial e}{\partial d}
# \frac{\partial d}{\partial a} = 2e \cdot 1 \cdot b = -4 \cdot 1 \cdot (-3) = 12 $$
#
# Each box was visited once, and would be for any number of inputs. What are gradients good for? Eq. (18) of document
# 003 (`examples/documents.md` lists the documents 000 to 004) is a step of training, X → X - ρ ∂𝓛/∂X: each parameter X
# moves against its gradient, by ρ times it. Our loss 𝓛 is y, and ρ = 0.001. Predict: by how much does y fall? The step
# of a, -0.001 · 12, moves y by 12 times as much. With b and c that makes 0.001 · (12² + 8² + 4²) = 0.224.

# %%
after = f(a - 0.001 * gradient["a"], b - 0.001 * gradient["b"], c - 0.001 * gradient["c"])
print(f"y was {y}, and is now {after:.4f}: it fell by {y - after:.4f}")
inputs = [tt.tensor(number, requires_grad=True) for number in (2.0, -3.0, 4.0)]
f(*inputs).backward()
print("by tinytensor:", [x.grad.item() for x in inputs])
assert [x.grad.item() for x in inputs] == [gradient[name] for name in "abc"]

# %% [markdown]
# It fell by nearly as much: slopes hold for small nudges. tinytensor walked back through the same boxes (lesson 3).
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/00_nudge.py`. Each has a check.
