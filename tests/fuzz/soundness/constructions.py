"""What random functions are made of: each construction is a line of tensor code with the gradient of its input.

In the code, `u` is the input, `v` the result and `d` the gradient of the result; A and B are the input's dimensions.
`s` is a number that depends on the sizes, `k` a small whole number and `c` a small float, each drawn anew. An operand
is `y`, a tensor like u, `w`, a vector along u's last dimension, or `t`, indices: one for each entry of the first
dimension, or M of them. A gradient is right for every size and value, with PyTorch's conventions at ties.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Construction:
    """One line of a function.

    dims: of the result, in A and B. slopes: the gradients of operands besides u. compared: numbers that tie where they
    are 0. simple: are u's dimensions sizes that have names, which operands need? least: the least A.
    """

    family: str
    rank: int
    code: str
    slope: str
    dims: tuple[str, ...] = ("A",)
    operands: dict[str, str] = field(default_factory=dict)
    slopes: dict[str, str] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()


ROWS: list[Construction] = []


def row(family: str, rank: int, code: str, slope: str, dims: tuple[str, ...] | None = None, **more) -> None:
    dims = (("A",), ("A", "B"))[rank - 1] if dims is None else dims
    ROWS.append(Construction(family, rank, code, slope, dims, **more))


# Numbers that depend on sizes: S is any size of the function.
SCALARS = (
    "S",
    "(S - 1)",
    "(S + 1)",
    "1 / S",
    "S**0.5",
    "math.sqrt(S)",
    "1 / math.sqrt(S)",
    "(S % 2)",
    "(S % 3)",
    "(S // 2)",
    "(S // 3)",
    "min(S, 4)",
    "max(S, 3)",
    "max(S - 2, 0)",
    "abs(S - 3)",
    "(-1) ** S",
    "(2.0 if S > 3 else 3.0)",
    "(1.0 if S % 2 == 0 else -1.0)",
    "(3 if S == 1 else 1)",
    "(S < 5)",
    "(S == 2)",
    "int(S / 2)",
    "round(S / 2)",
    "float(S)",
    "S**2",
    "1 / (S + 1)",
    "math.ceil(S / 2)",
    "math.gcd(S, 2)",
    "(S & 1)",
    "(S >> 1)",
    "divmod(S, 3)[1]",
    "int(str(S)[-1])",
    "int(tt.tensor(S).item())",
    "tt.tensor(S).item()",
    "math.log(S + 1)",
    "max(1, S - 1)",
    "sum(range(S))",
    "(S * (S - 1) // 2)",
    "2.0 ** min(S, 3)",
    "math.comb(S, 2)",
    "-(-S // 2)",
    "int(S > 2 and S < 8)",
    "(S if S > 4 else 4)",
    "float(S // 2 * 2 == S)",
    "(bool(S - 1) + 1)",
    # ways out of a size, which a reading without numbers refuses, or answers under a condition
    "{3: 2.0}.get(S, 1.0)",
    "(2 if S in (2, 5) else 1)",
    "(2 if S in {2, 5} else 1)",
    "[1, 2, 3, 4][S % 4]",
    "S.bit_length()",
    "int(f'{S}')",
    "(1 + (f'{S}' == '4'))",
    "np.int64(S)",
    "np.sqrt(S)",
    "operator.index(S)",
    "sorted([S, 4])[0]",
    "min([S, 4, 7])",
    "max(i for i in range(S + 1))",
    "(1 + any(i == 4 for i in range(S)))",
    "sum(1 for i in range(S) if i % 2)",
    "len(list(zip(range(S), range(4))))",
    "len(list(itertools.islice(range(9), S)))",
    "len('a' * S)",
    "len(range(2, S, 3))",
    "2.0 ** (S - 5)",
    "math.floor(S / 2)",
    "math.isqrt(S)",
    "pow(S, 2, 5)",
    "(S or 1)",
    "(S % -3)",
    "(S ^ 1)",
    "(1 + isinstance(S, bool))",
    "(2 if type(S) is int else 1)",
    "next(iter(range(S, 9)), 1)",
    "dict(a=S)['a']",
    "counted(S)",
)

ARANGES = (  # along the first dimension
    "tt.arange(A)",
    "tt.arange(A, dtype=tt.float64)",
    "tt.arange(1, A + 1)",
    "tt.arange(0, 2 * A, 2)",
    "tt.arange(A).to(tt.float64)",
    "(tt.arange(A) * 1.0)",
    "(tt.arange(A) + 1)",
    "(tt.arange(A) - 1)",
    "tt.arange(A - 1, -1, -1)",
    "tt.arange(A, 0, -1)",
    "(tt.arange(A) / A)",
    "(tt.arange(A) // 2)",
    "(tt.arange(A) % 2)",
    "(tt.arange(A) % 3)",
    "tt.arange(A) ** 2",
    "(2 * tt.arange(A) + 1)",
    "tt.arange(3, A + 3)",
    "tt.arange(0, A / 2, 0.5)",
    "tt.arange(k, A + k)",
    "tt.arange(A).float()",
    "(tt.arange(A, dtype=tt.float64) - (A - 1) / 2)",
    "(A - tt.arange(A))",
    "tt.arange(A).to(tt.float64).to(tt.int64)",
    "tt.linspace(0, 1, A, dtype=tt.float64)",
    "(tt.arange(A) > 0).to(tt.float64)",
    "tt.arange(A).clamp(max=3)",
    "tt.arange(A).flip(0)",
    "tt.ones(A, dtype=tt.float64).cumsum(0)",
    "tt.eye(A, dtype=tt.float64)[0]",
    "tt.ones(A, A, dtype=tt.float64).tril().sum(1)",
    "tt.full((A,), s, dtype=tt.float64)",
    "tt.arange(A).to(tt.float64)",
    "(tt.arange(A) % 2).to(tt.float64)",
    "(1 / (tt.arange(A) + 1.0))",
    "tt.arange(A).to(tt.uint8)",
    "(tt.arange(A) * 100).to(tt.uint8)",
    "(100 * tt.arange(A, dtype=tt.uint8))",
    "tt.arange(A) ** 8",
    "(tt.arange(A) >> 1)",
    "(tt.arange(A) & 3)",
    "tt.arange(A).to(tt.int32) * 3",
    "(2.0 ** (tt.arange(A) - 4.0))",
    "tt.searchsorted(tt.arange(A), tt.tensor(3))",
    "tt.tensor([float(i) for i in range(A)])",
    "tt.tensor([2.0 if i == 4 else 1.0 for i in range(A)])",
)

CONDITIONS = (  # along the first dimension
    "tt.arange(A) % 2 == 0",
    "tt.arange(A) < 3",
    "tt.arange(A) == A - 1",
    "tt.arange(A) < A // 2",
    "tt.arange(A) > k",
    "tt.arange(A) == 0",
    "tt.arange(A) >= A - 2",
    "tt.arange(A) != k",
    "tt.arange(A) * 2 < A",
    "tt.arange(A) + 1 < A",
)

for _arange in ARANGES:
    row("arange", 1, f"u * {_arange}", f"d * {_arange}")
    row("arange", 2, f"u * ({_arange})[:, None]", f"d * ({_arange})[:, None]")
for _arange in ARANGES[::3]:
    row("arange", 2, f"u * {_arange}".replace("A", "B"), f"d * {_arange}".replace("A", "B"))
    row("arange", 1, f"u * u + {_arange}", "2 * u * d")
for _condition in CONDITIONS:
    row("where", 1, f"tt.where({_condition}, u, c * u)", f"d * tt.where({_condition}, 1.0, c)")
    row("where", 1, f"u.masked_fill({_condition}, c)", f"tt.where({_condition}, 0.0, d)")
    row(
        "where", 2, f"tt.where(({_condition})[:, None], u, u * u)", f"d * tt.where(({_condition})[:, None], 1.0, 2 * u)"
    )
for _condition in CONDITIONS[::2]:
    row("where", 1, f"u * ({_condition})", f"d * ({_condition})", equal=(f"tt.where({_condition}, d, 0.0)",))

for _rank in (1, 2):
    row("sizes", _rank, "u * s", "d * s", equal=("s * d",))
    row("sizes", _rank, "u * s", "d * s")
    row("sizes", _rank, "u * s", "d * s")
    row("sizes", _rank, "u * s + s", "d * s")
    row("branch", _rank, "u**2 if A > 3 else u**3", "d * (2 * u if A > 3 else 3 * u**2)")
    row("branch", _rank, "u * u if A % 2 == 0 else u", "d * (2 * u if A % 2 == 0 else 1.0)")
    row("branch", _rank, "u if len(u) == 1 else c * u", "d * (1.0 if A == 1 else c)")
    row("branch", _rank, "u.sin() if A >= 2 else u.cos()", "d * (u.cos() if A >= 2 else -u.sin())")
    row("branch", _rank, "-u if not A % 3 else u", "d * (-1.0 if A % 3 == 0 else 1.0)")
    row("branch", _rank, "u * (A - 4 if A > 4 else 4)", "d * (A - 4 if A > 4 else 4)")
    row("smooth", _rank, "u * u", "2 * u * d", equal=("(u + u) * d",))
    row("smooth", _rank, "u**3", "3 * u**2 * d")
    row("smooth", _rank, "u.sin()", "u.cos() * d")
    row("smooth", _rank, "u.tanh()", "(1 - v**2) * d", equal=("d - v * v * d",))
    row("smooth", _rank, "u.sigmoid()", "v * (1 - v) * d")
    row("smooth", _rank, "(u * u + 1).log()", "2 * u / (u * u + 1) * d")
    row("smooth", _rank, "1 / (u * u + 1)", "-2 * u * v**2 * d")
    row("smooth", _rank, "(c * u).exp()", "c * v * d")
    row("detach", _rank, "u * u.detach()", "d * u")
    row("detach", _rank, "u * u.detach().sum()", "d * u.sum()")
    row("detach", _rank, "u.detach() ** 2 + u", "d")
    row("detach", _rank, "u + (u * u - u).detach()", "d")
    row("round", _rank, "u * u.round()", "d * u.round()", compared=("2 * u - (2 * u).round()",))
    row("round", _rank, "u * u.floor()", "d * u.floor()", compared=("u - u.round()",))
    row("round", _rank, "u - u.floor()", "d", compared=("u - u.round()",))
    row("round", _rank, "u * u.ceil() + u.trunc()", "d * u.ceil()")
    row("round", _rank, "u * (u // 1)", "d * u.floor()")
    row("clamp", _rank, "u.clamp(0, 1)", "d * ((u >= 0) & (u <= 1))", compared=("u", "u - 1"))
    row("clamp", _rank, "u.clamp(min=c)", "d * (u >= c)", compared=("u - c",))
    row("clamp", _rank, "u.clamp(max=1.0)", "tt.where(u <= 1, d, 0.0)", compared=("u - 1",))
    row("ties", _rank, "u.relu()", "d * (u > 0)", compared=("u",), equal=("tt.where(u > 0, d, 0.0)",))
    row("ties", _rank, "u.abs()", "d * u.sign()", compared=("u",))
    row("ties", _rank, "u * (u > 0)", "d * (u > 0)", compared=("u",))
    row("ties", _rank, "tt.where(u > 1, u, u * u)", "d * tt.where(u > 1, 1.0, 2 * u)", compared=("u - 1",))
    row("ties", _rank, "u * u.sign()", "d * u.sign()", compared=("u",))
    row("ties", _rank, "F.leaky_relu(u, 0.1)", "d * tt.where(u > 0, 1.0, 0.1)", compared=("u",))
    row(
        "ties",
        _rank,
        "tt.maximum(u, y)",
        "d * ((u > y) + (u == y) / 2)",
        operands={"y": "like"},
        slopes={"y": "d * ((u < y) + (u == y) / 2)"},
        compared=("u - y",),
    )
    row(
        "ties",
        _rank,
        "tt.where(u > y, u, y)",
        "d * (u > y)",
        operands={"y": "like"},
        slopes={"y": "d * (u <= y)"},
        compared=("u - y",),
    )
    row("product", _rank, "u * y", "d * y", operands={"y": "like"}, slopes={"y": "d * u"})
    row("product", _rank, "u - y", "d", operands={"y": "like"}, slopes={"y": "-d"})
    row("product", _rank, "(u - y) ** 2", "2 * (u - y) * d", operands={"y": "like"}, slopes={"y": "2 * (y - u) * d"})
    row("quotient", _rank, "u / y", "d / y", operands={"y": "like"}, slopes={"y": "-d * u / y**2"})
    row("mean", _rank, "u - u.mean()", "d - d.mean()")
    row("mean", _rank, "u * u.sum()", "d * u.sum() + (d * u).sum()")
    row("mean", _rank, "u * u.mean()", "d * u.mean() + (d * u).mean()")

# vectors
row("slices", 1, "u[1:]", "tt.cat([tt.zeros(1, dtype=tt.float64), d])", ("A - 1",), equal=("F.pad(d, (1, 0))",))
row("slices", 1, "u[:-1]", "F.pad(d, (0, 1))", ("A - 1",))
row("slices", 1, "u[A // 2 :]", "F.pad(d, (A // 2, 0))", ("A - A // 2",))
row("slices", 1, "u[: A // 2]", "F.pad(d, (0, A - A // 2))", ("A // 2",))
row("slices", 1, "u[:3]", "F.pad(d, (0, max(A - 3, 0)))", ("min(A, 3)",))
row("slices", 1, "u[-2:]", "F.pad(d, (max(A - 2, 0), 0))", ("min(A, 2)",))
row("slices", 1, "u * u[0]", "u[0] * d + (tt.arange(A) == 0) * (d * u).sum()")
row("slices", 1, "u * u[-1]", "u[-1] * d + (tt.arange(A) == A - 1) * (d * u).sum()")
row("slices", 1, "u * u[A // 2]", "u[A // 2] * d + (tt.arange(A) == A // 2) * (d * u).sum()")
row("slices", 1, "u * u[::2].sum()", "u[::2].sum() * d + (tt.arange(A) % 2 == 0) * (d * u).sum()")
row("slices", 1, "u * u[1::2].sum()", "u[1::2].sum() * d + (tt.arange(A) % 2 == 1) * (d * u).sum()")
row("slices", 1, "u * u[:2].sum()", "u[:2].sum() * d + (tt.arange(A) < 2) * (d * u).sum()")
row("slices", 1, "u * u[A // 2 :].sum()", "u[A // 2 :].sum() * d + (tt.arange(A) >= A // 2) * (d * u).sum()")
row(
    "slices",
    1,
    "u * u[1:-1].sum()",
    "u[1:-1].sum() * d + ((tt.arange(A) > 0) & (tt.arange(A) < A - 1)) * (d * u).sum()",
)
row("slices", 1, "u * u[: A - 1].sum()", "u[: A - 1].sum() * d + (tt.arange(A) < A - 1) * (d * u).sum()")
row("slices", 1, "u.diff()", "F.pad(d, (1, 0)) - F.pad(d, (0, 1))", ("A - 1",))
row("slices", 1, "u[1:] * u[:-1]", "F.pad(d * u[:-1], (1, 0)) + F.pad(d * u[1:], (0, 1))", ("A - 1",))
row("index", 1, "u[tt.arange(A)]", "d")
row("index", 1, "u[tt.arange(A - 1, -1, -1)]", "d.flip(0)")
row("index", 1, "u[tt.arange(A) // 2]", "F.one_hot(tt.arange(A) // 2, A).to(tt.float64).T @ d")
row("index", 1, "u[(tt.arange(A) + 1) % A]", "tt.roll(d, 1, 0)")
row("index", 1, "u[tt.arange(A).clamp(max=2)]", "F.one_hot(tt.arange(A).clamp(max=2), A).to(tt.float64).T @ d")
row("index", 1, "u[t]", "F.one_hot(t, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "tt.take(u, t)", "F.one_hot(t, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "u.index_select(0, t)", "(d[:, None] * F.one_hot(t, A)).sum(0)", ("M",), operands={"t": "many"})
row("index", 1, "u.gather(0, t)", "F.one_hot(t, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "u[t] * t", "F.one_hot(t, A).to(tt.float64).T @ (d * t)", ("M",), operands={"t": "many"})
row("index", 1, "u[t // 2]", "F.one_hot(t // 2, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "u[A - 1 - t]", "F.one_hot(A - 1 - t, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "u[t] * (t > 0)", "F.one_hot(t, A).to(tt.float64).T @ (d * (t > 0))", ("M",), operands={"t": "many"})
row("index", 1, "u[(t + 1) % A]", "F.one_hot((t + 1) % A, A).to(tt.float64).T @ d", ("M",), operands={"t": "many"})
row("index", 1, "u * t", "d * t", operands={"t": "each"})
row("index", 1, "u * (t == k)", "d * (t == k)", operands={"t": "each"})
row("index", 1, "u * (t != 0)", "d * (t != 0)", operands={"t": "each"})
row("index", 1, "u * (t > t.float().mean())", "d * (t > t.float().mean())", operands={"t": "each"})
row("index", 1, "u * t.to(tt.float64)", "d * t", operands={"t": "each"})
row("index", 1, "tt.where(t == 0, u, c * u)", "d * tt.where(t == 0, 1.0, c)", operands={"t": "each"})
row("roll", 1, "tt.roll(u, k, 0)", "tt.roll(d, -k, 0)")
row("roll", 1, "u * tt.roll(u, 1, 0)", "d * tt.roll(u, 1, 0) + tt.roll(d * u, -1, 0)")
row("roll", 1, "tt.roll(u, A // 2, 0)", "tt.roll(d, -(A // 2), 0)")
row("flip", 1, "u.flip(0)", "d.flip(0)")
row("flip", 1, "u * u.flip(0)", "2 * d.flip(0) * u.flip(0) / 2 + d * u.flip(0)")
row("cumsum", 1, "u.cumsum(0)", "d.flip(0).cumsum(0).flip(0)", equal=("d.sum() - d.cumsum(0) + d",))
row("cumsum", 1, "u.cumsum(0)", "tt.ones(A, A, dtype=tt.float64).triu() @ d")
row("softmax", 1, "u.softmax(0)", "v * (d - (v * d).sum())")
row("softmax", 1, "u.log_softmax(0)", "d - u.softmax(0) * d.sum()", equal=("d - v.exp() * d.sum()",))
row("softmax", 1, "u * u.logsumexp(0)", "d * u.logsumexp(0) + u.softmax(0) * (d * u).sum()")
row(
    "ties",
    1,
    "u * u.max()",
    "d * u.max() + (d * u).sum() * (u == u.max()) / (u == u.max()).sum()",
    compared=("PAIRS(u)",),
)
row("ties", 1, "u - u.min()", "d - d.sum() * (u == u.min()) / (u == u.min()).sum()", compared=("PAIRS(u)",))
row(
    "ties",
    1,
    "u * u.median()",
    "d * u.median() + (d * u).sum() * (u == u.median()) / (u == u.median()).sum()",
    compared=("PAIRS(u)",),
)
row("ties", 1, "u.sort().values", "d[u.argsort().argsort()]", compared=("PAIRS(u)",))
row("ties", 1, "u * (u == u.max())", "d * (u == u.max())", compared=("PAIRS(u)",))
row("stack", 1, "tt.cat([u, c * u])", "d[:A] + c * d[A:]", ("A + A",))
row("stack", 1, "tt.cat([u, u[:1]])", "d[:A] + F.pad(d[A:], (0, A - 1))", ("A + 1",))
row("stack", 1, "tt.cat([u[1:], u[:1]])", "tt.roll(d, 1, 0)")
row("stack", 1, "tt.cat([u, y])", "d[:A]", ("A + A",), operands={"y": "like"}, slopes={"y": "d[A:]"})
row("stack", 1, "tt.stack([u, u * u])", "d[0] + 2 * u * d[1]", ("2", "A"))
row("stack", 1, "tt.stack([u, y], 1)", "d[:, 0]", ("A", "2"), operands={"y": "like"}, slopes={"y": "d[:, 1]"})
row("stack", 1, "F.pad(u, (1, 2))", "d[1:-2]", ("A + 3",))
row("expand", 1, "u[None].expand(3, A)", "d.sum(0)", ("3", "A"))
row("expand", 1, "u[:, None].expand(A, A)", "d.sum(1)", ("A", "A"))
row("expand", 1, "u.repeat(2)", "d[:A] + d[A:]", ("A + A",))
row("squeeze", 1, "u[:, None].squeeze(1)", "d")
row("squeeze", 1, "u * u.squeeze().sum()", "d * u.sum() + (d * u).sum()")
row("squeeze", 1, "u.squeeze().reshape(A) * c", "d * c")
row("squeeze", 1, "u.unsqueeze(0).squeeze(0) * u", "2 * u * d")
row("outer", 1, "tt.outer(u, u)", "d @ u + d.T @ u", ("A", "A"), equal=("(d + d.T) @ u",))
row("outer", 1, "u[:, None] - u", "d.sum(1) - d.sum(0)", ("A", "A"))
row("outer", 1, "u[:, None] * y", "d @ y", ("A", "A"), operands={"y": "like"}, slopes={"y": "d.T @ u"})
row("outer", 1, "tt.diag(u)", "d.diagonal()", ("A", "A"))
row("mean", 1, "u / (1 + (u * u).sum())", "d / (1 + (u * u).sum()) - 2 * u * (d * u).sum() / (1 + (u * u).sum()) ** 2")
row("mean", 1, "u * u.var(unbiased=False)", "d * u.var(unbiased=False) + 2 * (u - u.mean()) * (d * u).sum() / A")
row(
    "mean", 1, "u * ((u - u.mean()) ** 2).sum()", "d * ((u - u.mean()) ** 2).sum() + 2 * (u - u.mean()) * (d * u).sum()"
)
# numbers at which a function changes; what else is done to the tape; state
for _rank in (1, 2):
    row("threshold", _rank, "F.softplus(u, 1, 2)", "d * tt.where(u > 2, 1.0, u.sigmoid())", compared=("u - 2",))
    row("threshold", _rank, "F.elu(u, 0.5)", "d * tt.where(u > 0, 1.0, u.exp() / 2)", compared=("u",))
    row("threshold", _rank, "F.hardtanh(u, -1, 2)", "d * ((u > -1) & (u < 2))", compared=("u + 1", "u - 2"))
    row("threshold", _rank, "F.threshold(u, 1, 3)", "d * (u > 1)", compared=("u - 1",))
    row("threshold", _rank, "F.hardshrink(u, 1)", "d * (u.abs() > 1)", compared=("u - 1", "u + 1"))
    row("threshold", _rank, "F.softshrink(u, 1)", "d * (u.abs() > 1)", compared=("u - 1", "u + 1"))
    row("threshold", _rank, "F.logsigmoid(u)", "d * (-u).sigmoid()")
    row("threshold", _rank, "tt.where(u > 100, 2 * u, u)", "d * tt.where(u > 100, 2.0, 1.0)", compared=("u - 100",))
    row("threshold", _rank, "u.clamp(max=1000)", "d * (u <= 1000)", compared=("u - 1000",))
    row("own", _rank, "own_square(u)", "3 * u**2 * d")
    row("loop", _rank, "scan(u)", "scan_back(d)")
    row("loop", _rank, "scan_back(u)", "scan(d)")
    row("loop", _rank, "states(u)", "states_back(d)")
    row("loop", _rank, "changed_base(u)", "3 * d")
    row("loop", _rank, "changed_item(u)", "tt.cat((3 * d[:1], d[1:]))")
    row("loop", _rank, "changed_numbers(u)", "2.0 ** tt.arange(1, A + 1).reshape(-1, *[1] * (d.ndim - 1)) * d")
    row("loop", _rank, "first_step(u)", "u[:1] * d + tt.cat(((u * d).sum(0, keepdim=True), 0 * d[1:]))")
    row("own", _rank, "Doubled.apply(u)", "2 * d")
    row("own", _rank, "hooked(u)", "2 * d")
    row("own", _rank, "stopped(u)", "d.clamp(max=0.5)")
    row("own", _rank, "written(u)", "2 * u * d")
    row("own", _rank, "u * counted(u)", "d")
    row("own", _rank, "u * (2.0 if u.dtype == tt.float32 else 1.0)", "d")
    _twice = "(2.0 if tt.zeros(1).dtype == tt.float64 else 1.0)"
    row("own", _rank, f"u * {_twice}", f"d * {_twice}")
    row("own", _rank, "u * float(u.sum() > 1000)", "0 * d")
row("window", 1, "u * u[:4].sum()", "u[:4].sum() * d + (tt.arange(A) < 4) * (d * u).sum()")
row("window", 1, "u.split(5)[0]", "F.pad(d, (0, max(A - 5, 0)))", ("min(A, 5)",))
row("window", 1, "u.chunk(3)[0]", "F.pad(d, (0, A - (-(-A // 3))))", ("-(-A // 3)",))
row("window", 1, "u * F.pad(tt.ones(3), (0, A - 3))", "d * (tt.arange(A) < 3)")
row("window", 1, "F.pad(u, (0, 1))[:4].sum() * u", "u[:4].sum() * d + (tt.arange(A) < 4) * (d * u).sum()")
row("tril", 1, "tt.ones(A, A, dtype=tt.float64).tril(k) @ u", "tt.ones(A, A, dtype=tt.float64).triu(-(k)) @ d")

# matrices
row("tril", 2, "u.tril(k)", "d.tril(k)")
row("tril", 2, "u.triu(k)", "d.triu(k)")
row("tril", 2, "u * tt.ones(A, B).tril(k)", "d * tt.ones(A, B).tril(k)")
row("window", 2, "u.tril(2).triu(-2)", "d.tril(2).triu(-2)")
row("window", 2, "u * tt.ones(A, B).tril().triu(-k)", "d * tt.ones(A, B).tril().triu(-k)")
row("window", 2, "u.masked_fill(tt.arange(A)[:, None] > tt.arange(B) + 4, 0.0)", "d.triu(-4)")
row(
    "window",
    2,
    "u * (tt.arange(A)[:, None] // 3 == tt.arange(B) // 3)",
    "d * (tt.arange(A)[:, None] // 3 == tt.arange(B) // 3)",
)
row("tril", 2, "u * tt.ones(A, B).triu(k)", "d.triu(k)")
row(
    "tril",
    2,
    "tt.where(tt.arange(A)[:, None] >= tt.arange(B), u, c * u)",
    "tt.where(tt.arange(A)[:, None] >= tt.arange(B), d, c * d)",
)
row("tril", 2, "u * (tt.arange(A)[:, None] - tt.arange(B))", "d * (tt.arange(A)[:, None] - tt.arange(B))")
row("tril", 2, "u * (tt.arange(A)[:, None] == tt.arange(B) + k)", "d * (tt.arange(A)[:, None] == tt.arange(B) + k)")
row("tril", 2, "u * tt.eye(A, B, dtype=tt.float64)", "d * tt.eye(A, B, dtype=tt.float64)")
row(
    "tril",
    2,
    "u.masked_fill(tt.ones(A, B, dtype=tt.bool).triu(1), -1e9).softmax(-1)",
    "v * (d - (v * d).sum(-1, keepdim=True))",
)
row("slices", 2, "u[:, 0]", "d[:, None] * (tt.arange(B) == 0)", ("A",))
row("slices", 2, "u[-1]", "d * (tt.arange(A) == A - 1)[:, None]", ("B",))
row("slices", 2, "u[:, 1:]", "F.pad(d, (1, 0))", ("A", "B - 1"))
row("slices", 2, "u[1:]", "F.pad(d, (0, 0, 1, 0))", ("A - 1", "B"))
row("slices", 2, "u[:, : B // 2].sum(1)", "d[:, None] * (tt.arange(B) < B // 2)", ("A",))
row("slices", 2, "u[: min(A, B)].sum(1) if A == B else u.sum(1)", "d[:, None].expand(A, B)", ("A",))
row("index", 2, "u[tt.arange(A), t]", "d[:, None] * F.one_hot(t, B)", ("A",), operands={"t": "class"})
row("index", 2, "u.gather(1, t[:, None])[:, 0]", "d[:, None] * F.one_hot(t, B)", ("A",), operands={"t": "class"})
row(
    "index",
    2,
    "u.gather(1, t[:, None]).sum(1)",
    "tt.where(tt.arange(B) == t[:, None], d[:, None], 0.0)",
    ("A",),
    operands={"t": "class"},
)
row("one_hot", 2, "(u * F.one_hot(t, B)).sum(1)", "d[:, None] * F.one_hot(t, B)", ("A",), operands={"t": "class"})
row("one_hot", 2, "u * (1 - F.one_hot(t, B))", "d * (1 - F.one_hot(t, B))", operands={"t": "class"})
row("one_hot", 2, "u - F.one_hot(t, B) * c", "d", operands={"t": "class"})
row("one_hot", 2, "u * F.one_hot((t + 1) % B, B)", "d * F.one_hot((t + 1) % B, B)", operands={"t": "class"})
row("one_hot", 2, "u[:, t.max()] if A < 0 else u.sum(1)", "d[:, None].expand(A, B)", ("A",), operands={"t": "class"})
row("embedding", 2, "u[t]", "F.one_hot(t, A).to(tt.float64).T @ d", ("M", "B"), operands={"t": "many"})
row("embedding", 2, "F.embedding(t, u)", "F.one_hot(t, A).to(tt.float64).T @ d", ("M", "B"), operands={"t": "many"})
row(
    "embedding",
    2,
    "F.embedding(t, u, padding_idx=0)",
    "(F.one_hot(t, A).to(tt.float64).T @ d) * (tt.arange(A) != 0)[:, None]",
    ("M", "B"),
    operands={"t": "many"},
    equal=("(F.one_hot(t, A) * (t != 0)[:, None]).to(tt.float64).T @ d",),
)
row(
    "embedding",
    2,
    "F.embedding(t, u, padding_idx=-1)",
    "(F.one_hot(t, A).to(tt.float64).T @ d) * (tt.arange(A) != A - 1)[:, None]",
    ("M", "B"),
    operands={"t": "many"},
)
row(
    "embedding",
    2,
    "u[t] * (t != 0)[:, None]",
    "F.one_hot(t, A).to(tt.float64).T @ (d * (t != 0)[:, None])",
    ("M", "B"),
    operands={"t": "many"},
)
row("embedding", 2, "u.index_select(0, t)", "F.one_hot(t, A).to(tt.float64).T @ d", ("M", "B"), operands={"t": "many"})
row("roll", 2, "tt.roll(u, k, 1)", "tt.roll(d, -k, 1)")
row("roll", 2, "tt.roll(u, k, 0)", "tt.roll(d, -k, 0)")
row("flip", 2, "u.flip(1)", "d.flip(1)")
row("flip", 2, "u.flip(0) * u", "2 * u.flip(0) * d / 2 + u.flip(0) * d.flip(0)")
row("cumsum", 2, "u.cumsum(1)", "d.flip(1).cumsum(1).flip(1)")
row("cumsum", 2, "u.cumsum(0)", "d.flip(0).cumsum(0).flip(0)")
row("softmax", 2, "u.softmax(-1)", "v * (d - (v * d).sum(-1, keepdim=True))")
row("softmax", 2, "u.softmax(0)", "v * (d - (v * d).sum(0, keepdim=True))")
row("softmax", 2, "u.log_softmax(-1)", "d - v.exp() * d.sum(-1, keepdim=True)")
row("softmax", 2, "u.logsumexp(-1)", "d[:, None] * u.softmax(-1)", ("A",))
row("ties", 2, "u.max(-1).values", "d[:, None] * F.one_hot(u.argmax(-1), B)", ("A",), compared=("PAIRS(u)",))
row("ties", 2, "u.amax(0)", "d * (u == u.amax(0)) / (u == u.amax(0)).sum(0)", ("B",), compared=("PAIRS(u)",))
row(
    "ties",
    2,
    "u - u.amax(-1, keepdim=True)",
    "d - d.sum(-1, keepdim=True) * (v == 0) / (v == 0).sum(-1, keepdim=True)",
    compared=("PAIRS(u)",),
)
row("matmul", 2, "u @ u.T", "(d + d.T) @ u", ("A", "A"))
row("matmul", 2, "u.T @ u", "u @ (d + d.T)", ("B", "B"))
row("matmul", 2, "u @ w", "tt.outer(d, w)", ("A",), operands={"w": "last"}, slopes={"w": "u.T @ d"})
row("matmul", 2, "u * w", "d * w", operands={"w": "last"}, slopes={"w": "(d * u).sum(0)"})
row("matmul", 2, "u + w", "d", operands={"w": "last"}, slopes={"w": "d.sum(0)"})
row(
    "matmul",
    2,
    "tt.einsum('ij,ij->i', u, y)",
    "d[:, None] * y",
    ("A",),
    operands={"y": "like"},
    slopes={"y": "d[:, None] * u"},
)
row("matmul", 2, "u @ y.T", "d @ y", ("A", "A"), operands={"y": "like"}, slopes={"y": "d.T @ u"})
row("mean", 2, "u.mean(0)", "d.expand(A, B) / A", ("B",))
row("mean", 2, "u.mean(1)", "d[:, None].expand(A, B) / B", ("A",))
row("mean", 2, "u - u.mean(-1, keepdim=True)", "d - d.mean(-1, keepdim=True)")
row("mean", 2, "u.var(-1, unbiased=False)", "2 / B * (u - u.mean(-1, keepdim=True)) * d[:, None]", ("A",))
row("mean", 2, "u.sum(1, keepdim=True).expand(A, B)", "d.sum(1, keepdim=True).expand(A, B)")
row("transpose", 2, "u.T", "d.T", ("B", "A"))
row("transpose", 2, "u.reshape(-1)", "d.reshape(A, B)", ("A * B",))
row("transpose", 2, "u.T.reshape(-1)", "d.reshape(B, A).T", ("A * B",))
row("transpose", 2, "u.reshape(B, A)", "d.reshape(A, B)", ("B", "A"))
row("transpose", 2, "u.T.reshape(A, B)", "d.reshape(B, A).T")
row("diagonal", 2, "u * u.diagonal().sum()", "d * u.diagonal().sum() + (d * u).sum() * tt.eye(A, B, dtype=tt.float64)")
row("branch", 2, "u if u.shape[0] < u.shape[1] else c * u", "d * (1.0 if A < B else c)")
row("branch", 2, "u * u if A == B else u", "d * (2 * u if A == B else 1.0)")
row("branch", 2, "u * u if A != B else u", "d * (2 * u if A != B else 1.0)")
row("stack", 2, "tt.cat([u, u * c])", "d[:A] + c * d[A:]", ("A + A", "B"))
row("stack", 2, "tt.cat([u, u.flip(1)], 1)", "d[:, :B] + d[:, B:].flip(1)", ("A", "B + B"))
row(
    "layer_norm",
    2,
    "F.layer_norm(u, (B,), eps=0.1)",
    "(d - d.mean(-1, keepdim=True) - v * (d * v).mean(-1, keepdim=True))"
    " / (u.var(-1, unbiased=False, keepdim=True) + 0.1).sqrt()",
)

# the ends of a function: 0-d results
ENDS: list[Construction] = []


def end(family: str, rank: int, code: str, slope: str, **more) -> None:
    ENDS.append(Construction(family, rank, code, slope, (), **more))


end("sum", 1, "u.sum()", "tt.ones(A, dtype=tt.float64)")
end("sum", 1, "u.mean()", "tt.ones(A, dtype=tt.float64) / A")
end("sum", 1, "(u * u).sum()", "2 * u")
end("sum", 1, "(u * u).mean()", "2 * u / A")
end("sum", 1, "(u * u).sum() * s", "2 * u * s")
end("sum", 1, "(u * y).sum()", "y", operands={"y": "like"}, slopes={"y": "u"})
end("sum", 1, "u @ u", "u + u")
end("sum", 1, "u.var()", "2 * (u - u.mean()) / (A - 1)")
end("sum", 1, "(u**2).sum() / (A - 1)", "2 * u / (A - 1)")
end("sum", 1, "(u**2).sum() / A**0.5", "2 * u / A**0.5")
end(
    "ties",
    1,
    "(u * u).max()",
    "2 * u * (u * u == (u * u).max()) / (u * u == (u * u).max()).sum()",
    compared=("PAIRS(u * u)",),
)
end(
    "ties",
    1,
    "(u - y).abs().mean()",
    "(u - y).sign() / A",
    operands={"y": "like"},
    slopes={"y": "(y - u).sign() / A"},
    compared=("u - y",),
)
end(
    "ties",
    1,
    "F.smooth_l1_loss(u, y)",
    "(u - y).clamp(-1, 1) / A",
    operands={"y": "like"},
    slopes={"y": "(y - u).clamp(-1, 1) / A"},
)
end("sum", 1, "F.mse_loss(u, y)", "2 * (u - y) / A", operands={"y": "like"}, slopes={"y": "2 * (y - u) / A"})
end("sum", 2, "u.sum()", "tt.ones(A, B, dtype=tt.float64)")
end("sum", 2, "(u * u).mean()", "2 * u / (A * B)")
end("sum", 2, "(u**3).sum() / A", "3 * u**2 / A")
end("sum", 2, "(u * u).sum() * s", "2 * u * s")
end("diagonal", 2, "(u * u).diagonal().sum()", "2 * u * tt.eye(A, B, dtype=tt.float64)")
_P = "u.softmax(-1)"
_H = "F.one_hot(t, B)"
CROSS = [
    ("F.cross_entropy(u, t)", f"({_P} - {_H}) / A"),
    ("F.cross_entropy(u, t, reduction='sum')", f"{_P} - {_H}"),
    ("F.cross_entropy(u, t, ignore_index=0)", f"({_P} - {_H}) * (t != 0)[:, None] / (t != 0).sum()"),
    ("F.cross_entropy(u, t, ignore_index=1)", f"({_P} - {_H}) * (t != 1)[:, None] / (t != 1).sum()"),
    ("F.cross_entropy(u, t, ignore_index=-1)", f"({_P} - {_H}) / A"),
    ("F.cross_entropy(u, t, ignore_index=3, reduction='sum')", f"({_P} - {_H}) * (t != 3)[:, None]"),
    ("F.cross_entropy(u, t, ignore_index=B - 1)", f"({_P} - {_H}) * (t != B - 1)[:, None] / (t != B - 1).sum()"),
    ("F.cross_entropy(u, t, label_smoothing=0.1)", f"({_P} - 0.9 * {_H} - 0.1 / B) / A"),
    ("F.nll_loss(u.log_softmax(-1), t)", f"({_P} - {_H}) / A"),
    ("F.nll_loss(u.log_softmax(-1), t, ignore_index=0, reduction='sum')", f"({_P} - {_H}) * (t != 0)[:, None]"),
    ("-(u.log_softmax(-1)[tt.arange(A), t]).mean()", f"({_P} - {_H}) / A"),
    ("F.cross_entropy(u, t, reduction='none').sum() / B", f"({_P} - {_H}) / B"),
    ("F.cross_entropy(u, t, reduction='none', ignore_index=0).sum() / A", f"({_P} - {_H}) * (t != 0)[:, None] / A"),
]
for _code, _slope in CROSS:
    end("cross_entropy", 2, _code, _slope, operands={"t": "class"})
end(
    "cross_entropy",
    2,
    "F.cross_entropy(u, t, w.exp(), reduction='sum')",
    f"w.exp()[t][:, None] * ({_P} - {_H})",
    operands={"t": "class", "w": "last"},
)
end(
    "cross_entropy",
    2,
    "F.cross_entropy(u, t, w.detach().exp())",
    f"w.exp()[t][:, None] * ({_P} - {_H}) / w.exp()[t].sum()",
    operands={"t": "class", "w": "last"},
)
end(
    "cross_entropy",
    2,
    "F.cross_entropy(u, t, 1.0 + tt.arange(B, dtype=tt.float64))",
    f"(1.0 + t)[:, None] * ({_P} - {_H}) / (1.0 + t).sum()",
    operands={"t": "class"},
)
