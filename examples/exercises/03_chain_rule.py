# %% [markdown]
# # Exercises: the chain rule on a graph
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time.

# %%
import random

from judge import Wrong, came, check, compare

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


@check("one call of backward() leaves 2 x. What does the next call do with it?")
def check_1(answer) -> None:
    start, times = random.uniform(1, 3), random.randint(2, 9)
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    for _ in range(times):
        (x * x).backward()
    mistakes = {
        "That is what the last call leaves alone; nothing has set the gradient to zero before it.": 2 * start,
        "What each call leaves is added, not multiplied.": (2 * start) ** times,
    }
    answer.compare((start, times), x.grad.item(), f"after {times} rounds at x = {start:.4f} x.grad", mistakes)


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: each node once
#
# `answer_2` passes gradients back through a graph of additions, and visits each node once, which is a good start.
# `edges[node]` lists where a node sends its gradient. For a chain it is right; find a graph for which it is wrong, and
# mend it. When it passes a gradient on, is all of it there?


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


@check("when may a node pass its gradient on?")
def check_2(answer) -> None:
    for count in (2, 5, 8, 8, 8):
        edges, names = random_graph(count)
        paths = dict.fromkeys(names, 0)  # the gradient of a sum is the number of paths that lead to it
        paths[names[0]] = 1
        for node in names:
            for target in edges[node]:
                paths[target] += paths[node]
        shown, senders = str(edges), {name: [paths[n] for n in names if name in edges[n]] for name in names}
        result = answer(edges, names[0])
        for node in names if isinstance(result, dict) else ():  # all that send to it were right
            got, hint = result.get(node), "A node passed its gradient on before all of it had arrived."
            if got in senders[node]:
                hint = "That is what one node sends to it: what arrives is added."
            elif isinstance(got, int | float) and got > paths[node]:
                hint = "Something is passed on twice."
            compare(got, paths[node], f"in the graph {shown} the number that arrives at {node}", {hint: got})
        compare(result, paths, f"in the graph {shown} what arrives")


def random_graph(count: int) -> tuple[dict[str, list[str]], list[str]]:
    """A graph whose names and order say nothing, and its names, each before those of the nodes that it sends to."""
    names = [letter + random.choice("xyz") for letter in random.sample("abcdefghijkmnopq", count + 1)]
    edges = {names[i]: random.choices(names[i + 1 :], k=random.randint(1, 3)) for i in range(count)} | {names[-1]: []}
    for i in range(1, count + 1):  # no node without one that sends to it
        edges[names[random.randrange(i)]].append(names[i])
    return {name: random.sample(edges[name], len(edges[name])) for name in random.sample(names, len(names))}, names


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


@check("a share is the product of the local slopes along one path from y to x.")
def check_3(answer) -> None:
    x, c = random.uniform(1, 3), random.uniform(-3, 3)
    leaves = [tt.tensor(x, requires_grad=True, dtype=tt.float64) for _ in range(3)]  # x again, a leaf for each use
    ((leaves[0] + c) * (leaves[1] * leaves[2])).backward()
    right = tuple(leaf.grad.item() for leaf in leaves)
    mistakes = {"1 is the local slope of the sum: multiply all slopes along the path.": (1.0, ..., ...)}
    names = [f"the share through the {use}" for use in ("sum", "first factor", "second factor")]
    answer.compare((x, c), right, f"for x = {x:.4f}, c = {c:.4f}", mistakes, names=names)


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


@check("take a node when all that send to it have been taken; count the missing ones.")
def check_4(answer) -> None:
    for count in (1, 3, 6, 9, 9):
        edges, names = random_graph(count)
        sends = {node: list(targets) for node, targets in edges.items()}
        order = answer(edges, names[0])
        if sorted(order) != sorted(names):
            missing, twice = set(names) - set(order), {name for name in order if list(order).count(name) > 1}
            said = f"{sorted(missing)} are missing" if missing else f"{sorted(twice, key=str)} come twice"
            raise Wrong(f"each of {sorted(names)} should be visited once, and {said}: {came(order)}.")
        for node in names:
            for target in sends[node]:
                if order.index(target) < order.index(node):
                    raise Wrong(f"you visit {target} before {node}, which still sends it a gradient: {order}.")


print("exercise 4:", check_4(answer_4))
