"""Where the gradient of a leaf ends: in its `.grad`."""

from collections.abc import Callable

from tinytensor.core.modes import no_grad
from tinytensor.core.op import Node
from tinytensor.core.post_accumulate_hooks import run_hooks
from tinytensor.core.tensor import Tensor


def accumulate_grad(create_graph: bool) -> Callable[[Tensor, Tensor, bool], None]:
    """The function by which backward() adds a gradient to a leaf's `.grad`.

    With create_graph the sum is a new tensor, since the old one may be on the tape. Otherwise it is made in place, so
    that code which holds the `.grad` tensor (an optimizer, a clipping of norms) sees the sum.
    """

    def into(leaf: Node | Tensor, g: Tensor, owned: bool) -> None:
        if isinstance(leaf, Node) or not leaf._requires_grad:  # requires_grad was switched off after its use
            return
        old = leaf.grad
        if create_graph:
            leaf.grad = g.clone() if old is None else old + g
        elif old is None:  # the user may change .grad in place, so it must not share memory with another tensor
            lies_well = g._data.flags.c_contiguous or g._data.strides == leaf._data.strides  # loops over it are fast
            leaf.grad = Tensor.of(g._data) if owned and lies_well else g.detach().clone()
        else:
            with no_grad():
                old.add_(g)
        run_hooks(leaf)  # call the functions that wait for this gradient

    return into
