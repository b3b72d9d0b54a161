# %% [markdown]
# # The chain rule, step by step
#
# While tinytensor computes, it writes a tape: for each operation one node, which knows what it came from. `backward()`
# walks the nodes from the last one back. Here we look at the tape and do the walk by hand.

# %%
import tinytensor as tt
from tinytensor.form import Node

a = tt.tensor(2.0, requires_grad=True)
b = tt.tensor(-3.0, requires_grad=True)
c = a * b  # -6
d = c + a  # -4: a is used a second time
y = d.exp()
names = {id(a): "a", id(b): "b"} | {id(t.grad_fn): n for t, n in ((c, "c"), (d, "d"), (y, "y"))}

# %% [markdown]
# ## What is on the tape
#
# `edges` lead to where a gradient goes next: another node, or a tensor that we made ourselves, a leaf.


# %%
def nodes_before(node: Node) -> list[Node]:
    """All nodes that lead to this one, the latest first."""
    found, todo = set(), [node]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [edge for edge in node.edges if isinstance(edge, Node)]
    return sorted(found, key=lambda n: -n.time)


for node in nodes_before(y.grad_fn):
    sources = ", ".join(names[id(edge)] for edge in node.edges)
    print(f"{names[id(node)]} = {node.name()}({sources})")

# %% [markdown]
# ## The walk
#
# A node may be visited when everything that its gradient is made of has arrived. A node is always younger than what it
# came from, so the youngest node that is left is always ready: the tape is walked in the order just printed.
#
# - y = exp(d): dy/dd = y
# - d = c + a: the gradient goes on to c and to a as it is
# - c = a * b: times b on its way to a, times a on its way to b
#
# a gets a gradient from two sides. They ADD UP: a small change of a changes y along both ways.

# %%
dy = 1.0
dd = dy * y.item()
dc, da = dd * 1.0, dd * 1.0  # from d = c + a
da, db = da + dc * b.item(), dc * a.item()  # from c = a * b: added to what a has
print(f"by hand:  da = {da:.6f}, db = {db:.6f}")

arrivals = []
for tensor, name in ((y, "y"), (d, "d"), (c, "c"), (a, "a"), (b, "b")):
    tensor.register_hook(lambda g, name=name: arrivals.append((name, g.item())))
y.backward()
for name, g in arrivals:
    print(f"  gradient of {name} complete: {g:.6f}")
print(f"the tape: da = {a.grad.item():.6f}, db = {b.grad.item():.6f}")
assert abs(a.grad.item() - da) < 1e-6 and abs(b.grad.item() - db) < 1e-6
assert [name for name, _ in arrivals[:3]] == ["y", "d", "c"]

# %% [markdown]
# ## Without order it goes wrong
#
# b = a + a; c = b + b. So c = 4a, and dc/da = 4. Now let a careless walker follow each edge as soon as it sees it,
# passing on whatever has arrived SO FAR: b is visited twice, first with 1 and then with 2 on its account, and a gets
# 1 + 1 + 2 + 2 = 6.


# %%
def careless(node: Node, account: dict, g: float) -> None:
    """Depth first, without waiting: each visit passes on the whole account again."""
    account[id(node)] = account.get(id(node), 0.0) + g
    if isinstance(node, Node):
        for edge in node.edges:
            careless(edge, account, account[id(node)])  # a sum passes its gradient on as it is


a = tt.tensor(1.0, requires_grad=True)
b = a + a
c = b + b
account: dict[int, float] = {}
careless(c.grad_fn, account, 1.0)
c.backward()
print(f"careless: {account[id(a)]}, in order: {a.grad.item()}, right: 4.0")
assert a.grad.item() == 4.0
assert account[id(a)] == 6.0
