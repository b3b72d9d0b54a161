r"""Evaluates the formulas that operations state for their gradients: LaTeX in index notation, on arrays.

    x_{ij} = g_i (q_{ij} - \frac{1}{V} \sum_k q_{ik}); words after a semicolon are for readers

A name with fewer indices than its array has dimensions is a vector, and \cdot is the product of two vectors.
"""

import re
from itertools import product

import numpy as np

TOKEN = re.compile(r"\\[A-Za-z]+|\\,|\d+|\S")


def evaluate(lines: tuple[str, ...], arrays: dict[str, np.ndarray | float]) -> dict[str, np.ndarray]:
    r"""What stands on the left of each line, by its name; \partial L / \partial x is "dx"."""
    known, sizes = dict(arrays), {}
    for line in lines:
        left, right = line.partition(";")[0].split(" = ", 1)
        left = re.sub(r"\\frac\{\\partial L\}\{\\partial (.*)\}$", r"d\1", left)
        name, _, indices = left.partition("_")
        indices = indices.strip("{}")
        sizes = sizes | _sizes(right, known)
        values = {}
        for at in product(*(range(sizes[i]) for i in indices)):
            reader = _Reader(TOKEN.findall(right), known, sizes)
            values[at] = reader.sum(dict(zip(indices, at, strict=True)))
            assert not reader.rest, f"not read: {reader.rest} of {right}"
        shape = tuple(sizes[i] for i in indices)
        known[name] = np.array([values[at] for at in np.ndindex(shape)]).reshape(*shape, -1).squeeze()
    return known


def _sizes(text: str, known: dict) -> dict[str, int]:
    """How far each index runs: as far as the dimensions at which it stands."""
    sizes = {}
    for name, indices in re.findall(r"(\\?[A-Za-z]+)_(\{\w+\}|\w)", text):
        for i, n in zip(indices.strip("{}"), np.shape(known.get(name, 0)), strict=False):
            assert sizes.setdefault(i, n) == n, f"{i} runs to {sizes[i]} and to {n} in {text}"
    return sizes


class _Reader:
    """Reads an expression from left to right, at given indices."""

    def __init__(self, tokens: list[str], known: dict, sizes: dict):
        self.rest, self.known, self.sizes = tokens, known, sizes

    def take(self, expected: str) -> None:
        assert self.rest[0] == expected, f"{expected} expected: {self.rest}"
        del self.rest[0]

    def sum(self, at: dict):
        value = -self.product(at) if self.rest[0] == "-" and not self.rest.pop(0).isalpha() else self.product(at)
        while self.rest and self.rest[0] in "+-":
            sign = self.rest.pop(0)
            value = value + self.product(at) if sign == "+" else value - self.product(at)
        return value

    def product(self, at: dict):
        value = self.factor(at)
        while self.rest and self.rest[0] not in ("+", "-", ")", "]", "}", "=", ">"):
            if self.rest[0] == r"\cdot":
                self.rest.pop(0)
                value = np.dot(value, self.factor(at))
            else:
                value = value * self.factor(at)
        return value

    def group(self, at: dict, begin: str = "{", end: str = "}"):
        self.take(begin)
        value = self.sum(at)
        self.take(end)
        return value

    def argument(self, at: dict):
        return self.group(at) if self.rest[0] == "{" else self.factor(at)

    def factor(self, at: dict):
        token = self.rest.pop(0)
        if token == r"\,":
            return self.factor(at)
        if token == "(":
            self.rest.insert(0, token)
            return self.group(at, "(", ")")
        if token == "[":  # 1 where it is true, else 0
            left, sign, right = self.sum(at), self.rest.pop(0), self.sum(at)
            self.take("]")
            return float(left > right if sign == ">" else left == right)
        if token == r"\frac":
            if self.rest[0][0].isdigit() and len(self.rest[0]) > 1:  # \frac12
                self.rest[:1] = list(self.rest[0])
            return self.argument(at) / self.argument(at)
        if token == r"\sum":
            self.take("_")
            index, after = self.rest.pop(0), self.rest
            total = 0
            for i in range(self.sizes[index]):
                self.rest = list(after)
                total = total + self.product(at | {index: i})
            return total
        if token == "e" and self.rest[0] == "^":
            del self.rest[0]
            return np.exp(self.argument(at))
        if token.isdigit():
            return int(token)
        if token in at:
            return at[token]
        value = self.known[token]
        if self.rest and self.rest[0] == "_":
            del self.rest[0]
            braced = self.rest[0] == "{"
            del self.rest[: int(braced)]
            while self.rest:
                value = value[at[self.rest.pop(0)]]
                if not braced or self.rest[0] == "}":
                    break
            del self.rest[: int(braced)]
        return value
