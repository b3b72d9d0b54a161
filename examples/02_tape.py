# %% [markdown]
# # A tape from nothing
#
# In lesson 0 we walked back through a function by hand. How can a program do this for any formula? It takes notes.
# Document 003 (`examples/documents.md` lists it) says below eq. (17) that gradients are formed "using cached interim
# results from the forward pass": these notes are the tape. We build one in plain Python.

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
# For each result: its sources, and the local slope of lesson 0 for each of them. For c = a + b the slopes are 1 and 1;
# for c = a b they are b and a, numbers that are known now. Nothing else is noted.


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
# That is all of automatic differentiation. Predict: how many entries has the tape after the next cell, and which?


# %%
def formula(a, b):
    return (a * b + a).tanh()


a, b = Value(0.5), Value(-1.5)
y = formula(a, b)
names = ("a", "b", "a b", "a b + a", "tanh")
for i, value in enumerate(Value.tape):
    notes = [f"   from {Value.tape.index(source)}: slope {slope:.2f}" for source, slope in value.sources]
    print(f"{i}   {names[i]:<8}= {value.data:5.2f}", *notes)

# %% [markdown]
# `backward` reads the list from the end. Two things in it are easy to get wrong. **Backwards:** when a value passes its
# gradient on, the gradient must be complete. Everything made from this value stands later on the tape, so the loop has
# already read it. **`+=`, not `=`:** a changes the result along two paths, through a b and directly, and both count.
# With `=` only the path that is read last would count. Predict: 0.94 arrives at entry 3. What arrives at a, in all?

# %%
y.backward()
figure, [[panel]] = plots.panels(size=(6.4, 2.6))
for i, value in enumerate(Value.tape):
    panel.barh(0, 0.96, 0.7, i - 0.48, color="white", edgecolor=plots.COLOURS[0])
    panel.text(i, 0, f"{i}: {names[i]}\n= {value.data:.2f}\ngradient {value.grad:.2f}", ha="center", va="center")
    for source, slope in value.sources:
        j = Value.tape.index(source)
        side = 1 if i - j == 1 else -1  # arrows to a neighbour above, the others below
        arrow = {"arrowstyle": "->", "connectionstyle": f"arc3,rad={-0.4 * side}", "color": "gray"}
        panel.annotate("", (i - 0.1, 0.37 * side), (j + 0.1, 0.37 * side), arrowprops=arrow)
        panel.text((i + j) / 2, side * (0.36 + 0.2 * (i - j)) + 0.13, f"× {slope:.2f}", ha="center", color="#a04000")
panel.set(xlim=(-0.5, 4.5), ylim=(-1.2, 0.9), frame_on=False, xticks=[], yticks=[])
plots.show(figure, FIGURES / "02_tape.png", alt="The tape as a row of five boxes; arrows go right, and two leave a.")

# %% [markdown]
# **The same in tinytensor.** Do they agree? `prove` shows in addition that its gradients are right for all values.

# %%
p, q = (tt.tensor(v, dtype=tt.float64, requires_grad=True) for v in (0.5, -1.5))
z = formula(p, q)
z.backward()
print(f"our tape   {a.grad:.15f} {b.grad:.15f}\ntinytensor {p.grad.item():.15f} {q.grad.item():.15f}")
assert abs(a.grad - p.grad.item()) < 1e-15 and abs(b.grad - q.grad.item()) < 1e-15
print(prove(formula, (), ()))

# %% [markdown]
# ## From the list to a graph
#
# `Value.tape` keeps all values that were ever made. But y can reach all that it needs through its sources, so
# tinytensor keeps no list. A result holds a *node*, with *edges* to its sources. The nodes that y can reach are its
# tape; Python frees the others. And the order? Each node notes its *age*: youngest first is the list read from its end.
#
# | | an operation leaves | slopes are computed | the order comes from |
# |---|---|---|---|
# | micrograd, a known engine | a function to call later, and the sources | when it is called | a search of the graph |
# | this lesson | pairs (source, local slope) | at once | the list |
# | tinytensor | a node: operation, values for its rule, edges, age | when the rule is called | ages |
#
# Why does a node keep values, and no slopes? With tensors the slopes of one operation are a matrix: a million numbers
# for a softmax of a thousand. A **rule** is code that multiplies by this matrix without writing it down.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/02_tape.py`. Each has a check.
