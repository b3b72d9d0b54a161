# %% [markdown]
# # The chain rule on a graph
#
# Lesson 2 read its tape from the end to the beginning. Is this order necessary, or would any other do? "Going through
# chains of Jacobian matrices" (of local slopes), says document 003 (listed in `examples/documents.md`) above eq. (17).
# But where a value is used twice the chain forks, and the forks must join again.

# %%
from pathlib import Path

import tinytensor as tt
from tinytensor.symbolic import prove
from tinytensor.viz import draw, explain, plots, walkthrough

FIGURES = Path("runs/lessons")

a, b = (tt.tensor(value, requires_grad=True) for value in (2.0, 3.0))
c = a * b
d = c + a  # a is used a second time
y = d.log()

# %% [markdown]
# ## What is on the tape?
#
# Each operation has left a node, the third row of lesson 2's table. A node knows its operation, the values that its
# gradient rule will read (for c = a b these are a and b; for ln d it is d, since the slope is 1 / d), and its
# edges: they say where the rule's results go. That is another node or a **leaf**, a tensor that you made yourself.
# `explain` runs backward and describes each visit: what arrives, by which rule it is changed, and where it goes. Before
# you read on: in which order will it visit log, mul and add? Predict what arrives at a, if 1 / d = 0.125 arrives at d.

# %%
names = {"a": a, "b": b, "c": c, "d": d, "y": y}
print(explain(y, names))

# %% [markdown]
# Two paths lead back from y to a: through c, and directly from d. Each brings a product of local slopes. The two
# products are added at the leaf, and the sum is complete when nothing else can arrive. So dy/da = (b + 1) / d.
# In the drawing lines go as the data do, and ↑ is what comes back. `walkthrough` writes a page to step through it.

# %%
print(prove(lambda a, b: (a * b + a).log(), (), ()))
FIGURES.mkdir(parents=True, exist_ok=True)
draw(y, names).save(FIGURES / "03_chain_rule.png")
walkthrough(y, FIGURES / "03_chain_rule.html", names)
print(f"picture: {FIGURES}/03_chain_rule.png\npicture: {FIGURES}/03_chain_rule.html")
plots.Picture(FIGURES / "03_chain_rule.png", alt="The graph of y: two paths lead back to a, whose shares add up.")

# %% [markdown]
# ## Why does the order matter?
#
# b = a + a, c = b + b: so c = 4 a, and dc/da = 4. Now let a careless walker follow each edge as soon as it sees it. For
# each node it keeps an account, the sum of all that has arrived so far, and it passes on the present sum. It reaches b
# twice: first with 1 on the account, then with 2, and passes both on, along two edges each. Predict what a gets.


# %%
def careless(node, account: dict, g: float) -> int:
    """Visit nodes depth first, without waiting for the rest of a gradient; return the number of visits."""
    account[node] = account.get(node, 0.0) + g
    visits = 1
    for edge in getattr(node, "edges", ()):  # a leaf has none
        visits += careless(edge, account, account[node])  # the rule of + passes a gradient on as it is
    return visits


a = tt.tensor(1.0, requires_grad=True)
b = a + a
c = b + b
account: dict = {}
careless(c.grad_fn, account, 1.0)
c.backward()
print(f"careless: {account[a]}, in order: {a.grad.item()}, right: 4")
assert account[a] == 6.0 and a.grad.item() == 4.0

# %% [markdown]
# It passes on 1 + 1 and 2 + 2. "Then let it pass on only the new part!" This repair is right, and useless: b is still
# visited once for each use, and the nodes behind b once for each of these visits. Eighteen doublings in a row have 2^18
# paths back. If we wait until a gradient is complete, one visit to each node is enough. How do we know that it is? A
# node is younger than all nodes from which it was made, so the youngest node that is left is always ready. That is the
# whole of `tinytensor/core/tape.py`. (An order in which each node comes after all that send to it is called
# topological. micrograd finds one by a search; ages give one for nothing.)

# %%
for n in (2, 5, 10):
    z = a
    for _ in range(n):
        z = z + z
    print(f"{n} doublings: {careless(z.grad_fn, {}, 1.0)} visits without order, {n} nodes and a leaf with it")

# %% [markdown]
# ## Why `zero_grad`, and why not twice?
#
# a.grad is 4. Predict: what is it after `(a * a).backward()`, whose slope is 2? And which calls in the loop will fail?

# %%
(a * a).backward()
print(f"after a second backward(): {a.grad.item()}; c.grad is {c.grad}")
a.grad = None  # what optimizer.zero_grad() does, for all parameters
twice, changed, added = a.exp(), a.exp(), a + 1
twice.backward()
for result in (twice, changed.mul_(2), added.mul_(2)):  # mul_ changes its tensor in place
    try:
        result.backward()
    except RuntimeError as error:
        print(error)

# %% [markdown]
# `backward()` adds to what a leaf holds: each use counts, and a is used in two formulas. 6 is the gradient of their sum
# c + a². A large **batch**, the examples of a step, is trained so in parts. If you do not want the old part, set it to
# None. Only leaves need this: nodes are new in each forward pass, and keep no gradients. (In micrograd all values keep
# them, so a second call begins with those of the first, and is wrong.) So why is a gradient None? The tensor was not
# reached, was made without `requires_grad=True`, or is a result, as c is (`c.retain_grad()` keeps it).
#
# A visited node frees the values for its rule, unless the call says `backward(retain_graph=True)`; a new forward pass
# is nearly always better. And a tensor counts its changes in place, its **versions**: a node notes the version of what
# its rule will read, and refuses another one. exp's rule reads its result, which was doubled; that of + reads nothing.
#
# ## Exercises
#
# Four exercises on this lesson stand in `exercises/03_chain_rule.py`. Each has a check.
