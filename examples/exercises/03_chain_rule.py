# %% [markdown]
# # Exercises: the chain rule on a graph
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

import tinytensor as tt

# %% [markdown]
# ## 1 ★ Predict: backward() in a loop
#
# A loop computes y = x² and calls `y.backward()`, `times` times, and never sets `x.grad` to zero. What is `x.grad` at
# the end? Predict it before you try it.


# %%
def answer_1(x: float, times: int) -> float:
    """`x.grad` after the loop."""
    ...


def check_1(answer) -> str:
    start, times = random.uniform(1, 3), random.randint(2, 9)
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    for _ in range(times):
        (x * x).backward()
    given = answer(start, times)
    if given is None:
        return "not solved yet. Hint: one call of backward() leaves 2 x. What does the next call do with it?"
    if abs(given - x.grad.item()) > 1e-9:
        return f"wrong: after {times} rounds at x = {start:.4f}, x.grad is {x.grad.item():.4f}, not {given:.4f}."
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: each node once
#
# `answer_2` passes gradients back through a graph of additions, and visits each node once, which is a good start.
# `edges[node]` lists where a node sends its gradient. For a chain it is right; find a graph for which it is wrong, and
# mend it. One line is in the wrong place.


# %%
def answer_2(edges: dict[str, list[str]], last: str) -> dict[str, float]:
    """What arrives at each node of a graph of additions, if 1 arrives at `last`."""
    arrived = dict.fromkeys(edges, 0.0)
    arrived[last] = 1.0
    visited = set()

    def visit(node):
        if node in visited:
            return
        visited.add(node)
        for target in edges[node]:
            arrived[target] += arrived[node]
            visit(target)

    visit(last)
    return arrived


def check_2(answer) -> str:
    for count in (2, 5, 8, 8, 8):
        edges = random_graph(count)
        paths = dict.fromkeys(edges, 0)  # the gradient of a sum is the number of paths that lead to it
        paths["n0"] = 1
        for node in sorted(edges, key=lambda name: int(name[1:])):
            for target in edges[node]:
                paths[target] += paths[node]
        given = answer(edges, "n0")
        if given is None:
            return "not solved yet. Hint: when may a node pass its gradient on?"
        for node, right in paths.items():
            if given.get(node) != right:
                return f"wrong: {right} arrives at {node}, not {given.get(node)}, in the graph {edges}."
    return "right"


def random_graph(count: int) -> dict[str, list[str]]:
    """Nodes n0, n1, ... in an order that says nothing; each but the last sends to some that have a larger number."""
    edges = {f"n{i}": [f"n{random.randint(i + 1, count)}" for _ in range(random.randint(1, 3))] for i in range(count)}
    for i in range(1, count + 1):  # no node without one that sends to it
        edges[f"n{random.randint(0, i - 1)}"].append(f"n{i}")
    edges[f"n{count}"] = []
    names = list(edges)
    random.shuffle(names)
    return {name: random.sample(edges[name], len(edges[name])) for name in names}


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: a value that is used three times
#
# Let y = (x + c) · x² for a constant c, where x² is computed as x · x: the leaf x is used three times. Write down the
# three shares that arrive at x: through the sum, and through each factor of x · x.


# %%
def answer_3(x: float, c: float) -> tuple[float, float, float]:
    """The share through x + c, and the shares through the first and the second factor of x · x."""
    ...


def check_3(answer) -> str:
    x, c = random.uniform(1, 3), random.uniform(-3, 3)
    given = answer(x, c)
    if given is None:
        return "not solved yet. Hint: a share is the product of the local slopes along one path from y to x."
    leaves = [tt.tensor(x, requires_grad=True, dtype=tt.float64) for _ in range(3)]  # x again, a leaf for each use
    ((leaves[0] + c) * (leaves[1] * leaves[2])).backward()
    for use, leaf, share in zip(("the sum", "the first factor", "the second factor"), leaves, given, strict=True):
        if abs(leaf.grad.item() - share) > 1e-9:
            return f"wrong: for x = {x:.4f}, c = {c:.4f}, {leaf.grad.item():.4f} comes through {use}, not {share:.4f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: the order of any graph
#
# tinytensor knows the age of each node. A graph that only lists its edges has no ages. Put the nodes of any graph in an
# order in which one visit to each is enough.


# %%
def answer_4(edges: dict[str, list[str]], last: str) -> list[str]:
    """All nodes, from `last` on, each after all nodes that have an edge to it; edges[x]: where x sends gradients."""
    ...


def check_4(answer) -> str:
    for count in (1, 3, 6, 9, 9):
        edges = random_graph(count)
        order = answer(edges, "n0")
        if order is None:
            return "not solved yet. Hint: take a node when all that send to it have been taken; count the missing ones."
        if sorted(order) != sorted(edges):
            return f"wrong: each of {sorted(edges)} should be visited once, and your order is {order}."
        for node in edges:
            for target in edges[node]:
                if order.index(target) < order.index(node):
                    return f"wrong: you visit {target} before {node}, which still sends it a gradient: {order}."
    return "right"


print("exercise 4:", check_4(answer_4))
