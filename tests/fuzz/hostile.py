"""What may stand where a file or a command line holds a value: wrong types, wrong sizes, wrong shapes."""

import copy
import json

DEEP = json.loads("[" * 900 + "]" * 900)

VALUES = [None, True, "x", "", -1, 0, 0.5, 10**6, 10**13, 10**400, 1e300, [], [1], {}, {"a": None}, DEEP, "\0", "é" * 9]


def paths(tree, path=()):
    """Yield the path of every value in nested dicts and lists; of long lists and large dicts the first two alone."""
    if path:
        yield path
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(entries)[:2] if len(tree_or_empty(tree)) > 40 else entries:
        yield from paths(value, (*path, key))


def tree_or_empty(tree):
    return tree if isinstance(tree, dict | list) else ()


def replaced(tree, path, value):
    """A copy of nested dicts and lists with another value at a path."""
    tree = copy.deepcopy(tree)
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def without(tree, path):
    """A copy of nested dicts and lists without what stands at a path."""
    tree = copy.deepcopy(tree)
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return tree
