# %% [markdown]
# # A tape from nothing
#
# How can a program know the derivative of its own result? It must have taken notes. Document 003 says below eq. (17)
# that gradients are formed "using cached interim results from the forward pass": these notes are the tape. We build one
# in plain Python, run three lines of arithmetic on it, and run the same three in tinytensor.

# %%
import math
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import plots

FIGURES = Path("runs/lessons")

# %% [markdown]
# ## What has to be noted?
#
# For each result: its sources, and how fast it changes with each of them. These are its local slopes. For c = a + b
# they are 1 and 1; for c = a b they are b and a, numbers that are known now. Nothing else is noted, and no formula.


# %%
class Value:
    """A number that remembers how it was made."""

    tape: list["Value"] = []  # all values, in the order in which they were made

    def __init__(self, data, sources=()):
        self.data, self.grad, self.sources = data, 0.0, sources  # sources: (value, local slope)
        Value.tape.append(self)

    def __add__(self, other):
        return Value(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Value(self.data * other.data, [(self, other.data), (other, self.data)])

    def tanh(self):
        y = math.tanh(self.data)
        return Value(y, [(self, 1 - y * y)])  # the slope is found from the result: lesson 1

    def backward(self):
        for value in Value.tape:
            value.grad = 0.0
        self.grad = 1.0  # dy/dy
        for value in reversed(Value.tape):
            for source, slope in value.sources:
                source.grad += value.grad * slope  # the chain rule


# %% [markdown]
# That is all of automatic differentiation. Two things in `backward` are easy to get wrong. **Backwards:** when a value
# passes its gradient on, the gradient must be complete. Everything that was made from this value stands later on the
# tape, so the loop has already read it. **`+=`, not `=`:** a value that is used twice, as a is below, changes the
# result along both paths, and both count. With `=` only the path that is read last would count.

# %%
a, b = Value(0.5), Value(-1.5)
y = (a * b + a).tanh()
y.backward()

# %% [markdown]
# ## The same in tinytensor
#
# Do they agree? `prove` shows in addition that tinytensor's gradients are right for all values.

# %%
p, q = (tt.tensor(v, dtype=tt.float64, requires_grad=True) for v in (0.5, -1.5))
z = (p * q + p).tanh()
z.backward()
print(f"our tape   {a.grad:.15f} {b.grad:.15f}\ntinytensor {p.grad.item():.15f} {q.grad.item():.15f}")
assert abs(a.grad - p.grad.item()) < 1e-15 and abs(b.grad - q.grad.item()) < 1e-15
print(prove(lambda a, b: (a * b + a).tanh(), (), ()))

# %% [markdown]
# A list of everything ever made would never be freed. So tinytensor has no list: each node knows its sources and its
# age. `tinytensor/core/tape.py` is our `backward`, grown up. The picture shows our own tape.

# %%
figure, [[panel]] = plots.panels(size=(8, 2.6))
box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": plots.COLOURS[0]}
for i, (name, value) in enumerate(zip(("a", "b", "a b", "a b + a", "y"), Value.tape)):
    panel.text(i, 0, f"{name} = {value.data:.3f}\ngradient {value.grad:.3f}", ha="center", va="center", bbox=box)
    for source, slope in value.sources:
        j = Value.tape.index(source)
        panel.annotate("", (j, 0.12), (i, 0.12), arrowprops={"arrowstyle": "->", "connectionstyle": "arc3,rad=0.45"})
        style = {"ha": "center", "color": plots.COLOURS[1], "bbox": {"color": "white", "pad": 1}, "zorder": 4}
        panel.text((i + j) / 2, 0.13 + 0.11 * (i - j), f"{slope:.3f}", **style)
panel.set(xlim=(-0.6, 4.6), ylim=(-0.2, 0.6), title="gradients go from right to left, times the slopes")
panel.axis("off")
plots.show(figure, FIGURES / "02_tape.png")

# %% [markdown]
# ## Exercise
#
# Add another operation to our tape: e^x.


# %%
def answer(x: Value) -> Value:
    """e^x of a Value, on the tape."""
    ...


# %%
def check(answer) -> str:
    x = Value(0.7)
    y = answer(x + x)
    if y is None:
        return "not solved yet. Hint: write it as `tanh` is written. What is the slope of e^x, in terms of its result?"
    y.backward()
    if abs(y.data - math.exp(1.4)) + abs(x.grad - 2 * math.exp(1.4)) > 1e-12:
        return f"wrong: e^(x + x) at 0.7 is 4.0552, its slope twice that; you have {y.data:.4f} and {x.grad:.4f}."
    return "right"


print("exercise:", check(answer))
