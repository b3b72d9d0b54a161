"""Random functions of tensors, as source text, each with its gradients by the rules of its constructions."""

import ast
import itertools
import linecache
import math
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import tinytensor as tt
from tinytensor.core.op import op
from tinytensor.nn import functional as F
from tinytensor.symbolic import Index

from .constructions import ENDS, ROWS, SCALARS, Construction

# --- What a function calls besides the library: each changes what a name, a tape or a call means


@op
class square:
    r"y = x^3, under the name of an operation of the engine"

    def kernel(x):
        return x * x * x

    def grad_x(g, x):
        return 3.0 * x * x * g


class Doubled(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def hooked(x):
    x = x.clone()
    x.register_hook(lambda g: 2 * g)
    return x * 1.0


def stopped(x):
    x = x.clone()
    x.register_hook(lambda g: g.clamp(max=0.5))
    return x * 1.0


def written(x):
    y = x.detach().clone()
    y.mul_(2.0)
    return x * y


CALLS = [0]


def counted(x):
    """1, until it was called often."""
    CALLS[0] += 1
    return 1.0 if CALLS[0] < 10**9 else 2.0


def scan(x):
    """y_t = x_t + y_(t-1) / 2, from a list whose last item each step reads."""
    rows = [x[0]]
    for t in range(1, x.shape[0]):
        rows.append(x[t] + 0.5 * rows[-1])
    return tt.stack(rows)


def scan_back(g):
    """The same from the last entry to the first: the gradient of scan()."""
    h, rows = g[-1] * 0.0, []
    for one in reversed(g):
        h = one + 0.5 * h
        rows.append(h)
    return tt.stack(rows[::-1])


def states(x):
    """What scan() is, from states that are read by their numbers afterwards."""
    h, rows = x[0] * 0.0, []
    for t in range(x.shape[0]):
        h = x[t] + 0.5 * h
        rows.append(h)
    return sum(rows[t] * (t + 1) for t in range(x.shape[0])) + 0.0 * x


def states_back(g):
    return scan_back(tt.arange(1, g.shape[0] + 1).reshape(-1, *[1] * (g.ndim - 1)) * g.sum(0))


def changed_base(x):
    """3 x: the list holds views of what is changed later."""
    y, rows = x * 1.0, []
    for t in range(x.shape[0]):
        rows.append(y[t])
    y.mul_(3.0)
    return tt.stack(rows)


def changed_item(x):
    """y_t = x_t, and an item of the list is changed later."""
    rows = []
    for t in range(x.shape[0]):
        rows.append(x[t] * 1.0)
    rows[0].mul_(3.0)
    return tt.stack(rows)


def changed_numbers(x):
    """2^(t+1) x_t: a helper doubles a number in each step."""
    weight, rows = tt.ones((), dtype=tt.float64), []
    for t in range(x.shape[0]):
        rows.append(x[t] * doubled(weight))
    return tt.stack(rows)


def doubled(weight):
    weight.mul_(2.0)
    return weight * 1.0


def first_step(x):
    """x_0 x_t from a first step of its own."""
    h, rows = x[0] * 0.0, []
    for t in range(x.shape[0]):
        h = x[t] * 1.0 if t == 0 else h
        rows.append(h * x[t])
    return tt.stack(rows)


LOOPS = (scan, scan_back, states, states_back, changed_base, changed_item, changed_numbers, first_step)
SCOPE = {"tt": tt, "F": F, "math": math, "np": np, "operator": operator, "itertools": itertools}
SCOPE |= {"own_square": square} | {f.__name__: f for f in (Doubled, hooked, stopped, written, counted, *LOOPS)}
# of programs whose gradient is no derivative
UNLIKE = re.compile(r"detach|padding_idx|Doubled|hooked|stopped|written")
JUMPS = re.compile(r"round|floor|ceil|trunc|// 1")
LIKE, LAST, INDICES = ("y", "z", "q"), ("w", "b", "a"), ("t", "r", "o")


@dataclass
class Sample:
    """A random function: its source, its arguments for `derive`, its gradients by hand, and what it compares."""

    name: str
    source: str
    arguments: dict
    gradients: dict[str, str]  # by argument: the source of a function `gradient`
    equal: dict[str, list[str]]  # the same in other words
    compared: str
    constructions: tuple[str, ...]

    def function(self) -> Callable:
        return compiled(self.source, self.name, self.name)

    @property
    def sizes(self) -> list[str]:
        """The names of the sizes."""
        shapes = [(*a.shape, a.below) if isinstance(a, Index) else a for a in self.arguments.values()]
        return list(dict.fromkeys(n for shape in shapes for n in shape))


def compiled(source: str, name: str, file: str) -> Callable:
    """The function of this name in a source text, whose lines a traceback can show."""
    path = f"{file}.py"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    scope = dict(SCOPE)
    exec(compile(source, path, "exec"), scope)
    return scope[name]


def words(code: str, meaning: dict[str, str]) -> str:
    """code with whole words replaced."""
    return re.sub(r"(?<![\w.'])[A-Za-z_]\w*\b(?!')", lambda m: meaning.get(m[0], m[0]), code)


def bracketed(size: str) -> str:
    return size if size.isalnum() or size.startswith("min(") else f"({size})"


@dataclass
class Line:
    name: str
    one: Construction
    meaning: dict[str, str]
    source: str
    operands: dict[str, str]


@dataclass
class Writer:
    """The lines of one function as they are drawn."""

    draw: random.Random
    arguments: dict = field(default_factory=dict)
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def fits(self, one: Construction, u: str) -> bool:
        dims = self.dims[u]
        if len(dims) != one.rank or (one.family == "diagonal" and dims[0] != dims[-1]):
            return False
        for role in one.operands.values():
            needed = {"like": dims, "last": dims[-1:], "class": dims, "many": dims[:1], "each": dims[:1]}[role]
            if not all(n.isalpha() for n in needed):
                return False
        return not (one.rank == 2 and "S" in one.code and not any(n.isalpha() for n in dims))

    def operand(self, role: str, dims: tuple[str, ...]) -> str:
        """A new argument."""
        names = {"like": LIKE, "last": LAST}.get(role, INDICES)
        name = next(n for n in names if n not in self.arguments)
        many = "M" if "M" not in dims else "L"
        self.arguments[name] = {
            "like": dims,
            "last": dims[-1:],
            "class": Index(dims[:1], dims[-1]),
            "each": Index(dims[:1], "K"),
            "many": Index((many,), dims[0]),
        }[role]
        if role in ("like", "last"):
            self.dims[name] = self.arguments[name]
        return name

    def write(self, one: Construction, u: str) -> None:
        dims, name = self.dims[u], f"h{len(self.lines) + 1}"
        meaning = {"u": u, "v": name, "d": f"d{name}", "k": self.draw.choice(["-2", "-1", "0", "1", "2", "3"])}
        meaning["c"] = self.draw.choice(["0.5", "2.0", "3.0", "0.25"])
        simple = [n for n in dims if n.isalpha()] or ["N"]
        meaning["s"] = self.draw.choice(SCALARS).replace("S", self.draw.choice(simple))
        if not meaning["s"].isalnum() and meaning["s"][0] != "(":
            meaning["s"] = f"({meaning['s']})"
        meaning |= dict(zip("AB", map(bracketed, dims), strict=False))
        operands = {letter: self.operand(role, dims) for letter, role in one.operands.items()}
        if "t" in operands and isinstance(self.arguments[operands["t"]].shape[0], str):
            meaning["M"] = self.arguments[operands["t"]].shape[0]
        self.lines.append(Line(name, one, meaning | operands, u, operands))
        self.dims[name] = tuple(words(n, meaning) for n in one.dims)

    def join(self, u: str, other: str) -> None:
        """The sum or product of two values of the same dimensions."""
        code, slope, other_slope = self.draw.choice([("u * p", "d * p", "d * u"), ("u - p", "d", "-d")])
        one = Construction("joined", len(self.dims[u]), code, slope, slopes={"p": other_slope})
        name = f"h{len(self.lines) + 1}"
        self.lines.append(Line(name, one, {"u": u, "v": name, "d": f"d{name}", "p": other}, u, {"p": other}))
        self.dims[name] = self.dims[u]


def sample(seed: int, number: int) -> Sample:
    """The random function of this number."""
    draw = random.Random(f"{seed} {number}")
    rank = draw.choice((1, 2))
    writer = Writer(draw)
    writer.arguments["x"] = writer.dims["x"] = draw.choice(
        [("N",)] if rank == 1 else [("N", "D"), ("N", "D"), ("N", "N")]
    )
    u, families = "x", sorted({one.family for one in ROWS})
    for _ in range(draw.choices((0, 1, 2, 3), (15, 45, 28, 12))[0]):
        if writer.lines and draw.random() < 0.12:
            others = [
                n for n, dims in writer.dims.items() if dims == writer.dims[u] and n != u and n not in LIKE + LAST
            ]
            if others:
                writer.join(u, draw.choice(others))
                u = writer.lines[-1].name
                continue
        rows: list[Construction] = []
        while not rows:
            wanted = draw.choice(families)
            rows = [one for one in ROWS if one.family == wanted and writer.fits(one, u)]
        writer.write(draw.choice(rows), u)
        u = writer.lines[-1].name
    if not writer.lines or draw.random() < 0.8:
        ends = [*sorted({one.family for one in ENDS}), "sum", "sum"]
        rows = []
        while not rows:
            wanted = draw.choice(ends)
            rows = [one for one in ENDS if one.family == wanted and writer.fits(one, u)]
        writer.write(draw.choice(rows), u)
        u = writer.lines[-1].name
    return _written(writer, u, f"function_{number}")


def _written(writer: Writer, result: str, name: str) -> Sample:
    draw = writer.draw
    code = [f"{line.name} = {words(line.one.code, line.meaning)}" for line in writer.lines]
    body = code[:-1] + ["return " + code[-1].split(" = ", 1)[1]]
    sizes = list(
        dict.fromkeys(
            n for a in writer.arguments.values() for n in (a if isinstance(a, tuple) else (*a.shape, a.below))
        )
    )
    preamble = []
    for size in sizes:
        if size in _names("\n".join(code)):
            preamble.append(f"{size} = {_shape(draw, writer.arguments, size)}")
    source = "\n    ".join([f"def {name}({', '.join(writer.arguments)}):", *preamble, *body]) + "\n"
    compared = [
        f"PAIRS({words(c[6:-1], line.meaning)})" if c.startswith("PAIRS(") else words(c, line.meaning)
        for line in writer.lines
        for c in line.one.compared
    ]
    head = f"({', '.join([*writer.arguments, *sizes])}):"
    before = [x for x in code if x != code[-1] or writer.dims[result]] if compared else []
    compares = "\n    ".join([f"def compared{head}", *before, f"return [{', '.join(compared)}]"]) + "\n"
    gradients, equal = {}, {}
    for argument, dims in writer.arguments.items():
        if isinstance(dims, Index):
            continue
        texts = []
        for how in ("", "equal", "equal"):
            text = _gradient(writer, result, argument, code, sizes, how)
            if text and text not in texts:
                texts.append(text)
        if texts:
            gradients[argument], equal[argument] = texts[0], texts[1:]
    return Sample(
        name, source, dict(writer.arguments), gradients, equal, compares, tuple(x.one.code for x in writer.lines)
    )


def _shape(draw: random.Random, arguments: dict, size: str) -> str:
    """Code that reads a size from an argument's shape."""
    ways = []
    for name, a in arguments.items():
        shape = a.shape if isinstance(a, Index) else a
        for n, own in enumerate(shape):
            if own == size:
                ways += [f"{name}.shape[{n}]", f"{name}.size({n})", f"{name}.shape[{n - len(shape)}]"]
                ways += [f"len({name})"] if n == 0 else []
                ways += [f"{name}.numel()"] if len(shape) == 1 else []
    if not ways:  # K, the number of classes of an index that no shape tells
        return "7"
    return draw.choice(ways)


def _names(code: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}


def _gradient(writer: Writer, result: str, argument: str, code: list[str], sizes: list[str], how: str) -> str:
    """The gradient of an argument, as the source of a function; empty if none reaches it."""
    adjoint: dict[str, list[str]] = {result: ["g"] if writer.dims[result] else ["1.0"]}
    backward = []
    for line in reversed(writer.lines):
        if line.name not in adjoint:
            continue
        if writer.dims[line.name]:
            backward.append(f"d{line.name} = {' + '.join(adjoint[line.name])}")
        slope = writer.draw.choice((line.one.slope, *line.one.equal)) if how == "equal" else line.one.slope
        adjoint.setdefault(line.source, []).append(f"({words(slope, line.meaning)})")
        for letter, other in line.one.slopes.items():
            adjoint.setdefault(line.operands[letter], []).append(f"({words(other, line.meaning)})")
    if argument not in adjoint:
        return ""
    final = " + ".join(adjoint[argument])
    final = final[1:-1] if len(adjoint[argument]) == 1 else final
    kept, needed = [], _names(final)
    for text in [*reversed(backward), *reversed(code)]:
        target, right = text.split(" = ", 1)
        if target in needed:
            kept.append(text)
            needed |= _names(right)
    parameters = [n for n in (*writer.arguments, *sizes, "g") if n in needed]
    return "\n    ".join([f"def gradient({', '.join(parameters)}):", *reversed(kept), f"return {final}"]) + "\n"


# --- Values


def values(one: Sample, at: dict[str, int], how: int, draw: np.random.Generator) -> dict[str, tt.Tensor]:
    """Arguments of these sizes: how = 0 has any numbers, 1 whole ones, 2 positive ones, 3 zeros, 4 halves, 5 large."""
    result = {}
    for name, a in one.arguments.items():
        if isinstance(a, Index):
            shape, below = [at[n] for n in a.shape], at[a.below]
            ways = [draw.integers(0, below, shape), draw.integers(0, below, shape), np.arange(shape[0]) % below]
            ways += [np.full(shape, below - 1), np.zeros(shape, int), draw.integers(0, below, shape)]
            result[name] = tt.tensor(np.asarray(ways[how], np.int64))
            continue
        shape = [at[n] for n in a]
        numbers = (
            draw.normal(size=shape) * 1.5,
            draw.integers(-2, 3, shape).astype(float),
            draw.uniform(0.5, 1.5, shape),
            np.zeros(shape),
            draw.integers(-5, 6, shape) / 2,
            draw.normal(size=shape) * 10 ** draw.uniform(0, 4),
        )[how]
        result[name] = tt.tensor(numbers, dtype=tt.float64, requires_grad=True)
    return result
