"""Mistakes of a user that type checkers must find: the line of each says so."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

layer = nn.Linear(2, 2)
x = tt.ones(2, requires_grad=True)


@tt.compile
def step(x: tt.Tensor) -> tt.Tensor:
    return x * 2


step(3)  # wrong: no tensor
layer(x, x)  # wrong: one argument too many
F.softmax(x, dimension=-1)  # wrong: no such argument
tt.autograd.grad(x.sum(), x, allow_unused=True)[0].sum()  # wrong: may be None
x.soft_max(-1)  # wrong: no such method
