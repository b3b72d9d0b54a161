"""Trees: tensors in nested tuples, named tuples, lists and dicts. Whatever else stands in them is a leaf."""

from collections.abc import Callable, Iterable
from typing import Any

from tinytensor.core.tensor import Tensor


def leaves(tree: Any) -> list:
    """The leaves of a tree, in order."""
    if isinstance(tree, tuple | list):
        return [leaf for branch in tree for leaf in leaves(branch)]
    if isinstance(tree, dict):
        return [leaf for branch in tree.values() for leaf in leaves(branch)]
    return [tree]


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with change(leaf) in the place of each leaf."""
    if isinstance(tree, tuple | list):
        branches = [mapped(change, branch) for branch in tree]
        return tree._make(branches) if hasattr(tree, "_make") else type(tree)(branches)
    if isinstance(tree, dict):
        branches = {key: mapped(change, branch) for key, branch in tree.items()}
        return branches if type(tree) is dict else type(tree)(branches)
    return change(tree)


def refilled(tree: Any, values: Iterable) -> Any:
    """The same tree with these values as leaves, in order."""
    rest = iter(values)
    return mapped(lambda _: next(rest), tree)


def tensors_of(tree: Any, what: str) -> list[Tensor]:
    """The leaves of a tree; TypeError if one of them is no tensor."""
    tensors = leaves(tree)
    for leaf in tensors:
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{what}: expected a tensor, got {type(leaf).__name__}")
    return tensors


def spread(prefix: Any, tree: Any, is_value: Callable[[Any], bool], what: str) -> list:
    """The values of `prefix` for the leaves of a tree: a value that stands where the tree branches is for all below.

    ValueError if the two have different structures.
    """
    if is_value(prefix):
        return [prefix] * len(leaves(tree))
    same = type(prefix) is type(tree) or (isinstance(prefix, tuple | list) and isinstance(tree, tuple | list))
    if same and isinstance(tree, tuple | list) and len(prefix) == len(tree):
        return [v for p, t in zip(prefix, tree, strict=True) for v in spread(p, t, is_value, what)]
    if same and isinstance(tree, dict) and prefix.keys() == tree.keys():
        return [v for key, t in tree.items() for v in spread(prefix[key], t, is_value, what)]
    raise ValueError(f"{what} is {prefix!r}, which does not have the structure of the values that it is for")
