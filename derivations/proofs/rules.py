"""The engine's backward rules are derivatives for any size, by the index calculus.

An operation is traced as a user's function would be (`derive` of tinytensor/symbolic/derive): it runs at three
choices of sizes, and is read as index formulas with sizes that stay symbols. Its rule, which is tensor code as well, is
traced in the same way as a gradient by hand, and `check` proves the two equal by normal forms.

Not covered are rules that run on arrays, by a kernel: the calculus can't read a kernel's loops. For these operations
`definitions` proves that the formula which `derive` uses is the definition in simpler operations, for any size; that
the kernels compute the gradients of these definitions is proved at sizes (engine.py). `AT_SIZES` and `UNFUSED` list the
rules and definitions that stay at sizes, each with its reason.
"""

import inspect
from collections.abc import Callable
from functools import partial

from sympy import Expr, S

from derivations.claims import INDEX, SYMPY, Evidence, Refuted, claim
from tinytensor import Tensor
from tinytensor.core.op import OPS, Op
from tinytensor.symbolic import Index, check, derive
from tinytensor.symbolic.derive.check import Check
from tinytensor.symbolic.index_calculus.adjoints import Definition, expanded
from tinytensor.symbolic.index_calculus.formulas import normal
from tinytensor.symbolic.index_calculus.notation import text
from tinytensor.symbolic.index_calculus.vanishing import vanishes

ND = ("N", "D")
PAIRS = ("add", "sub", "mul", "true_divide", "power", "maximum", "minimum", "clamp_min", "clamp_max")
PAIRS += ("hypot", "logaddexp", "xlogy", "remainder")
ROWS = {"dims": (1,), "keepdim": False}

# operation: its tensors with their sizes, and its settings, which may be functions of the tensors. A formula of one
# input has no line
CALLS: dict[str, tuple[dict, dict]] = {
    **{name: ({"a": ND, "b": ("D",)}, {}) for name in PAIRS},
    "relu_backward": ({"h": ND, "z": ND}, {}),
    "where": ({"condition": ND, "a": ND, "b": ("D",)}, {}),
    "clone": ({"x": ND}, {}),
    "reshape_view": ({"x": ("N", "2*K")}, {"shape": lambda x: (len(x), 2, x.shape[1] // 2)}),
    "expand": ({"x": ("N", 1)}, {"shape": lambda x: (len(x), len(x))}),
    "spread": ({"x": ("N",)}, {"shape": lambda x: (len(x), len(x)), "dims": (1,)}),
    "slice": ({"x": ND}, {"key": (slice(1, None), slice(None))}),
    "cat": ({"xs0": ND, "xs1": ("N", "K")}, {"dim": 1}),
    "stack": ({"xs0": ND, "xs1": ND}, {"dim": 1}),
    "lerp": ({"a": ND, "b": ND, "w": ("D",)}, {}),
    "elu": ({"x": ND}, {"alpha": 0.7, "scale": 1.3, "rate": 0.9}),
    "permute": ({"x": ("N", "D", "K")}, {"dims": (2, 0, 1)}),
    "diagonal": ({"x": ("N", "N", "K")}, {"offset": 0, "dim1": 0, "dim2": 1}),
    "take": ({"x": ("V", "D"), "index": Index(("N",), "V")}, {}),
    "gather": ({"x": ND, "index": Index(("N", "K"), "D")}, {"dim": 1}),
    **{f"reduce_{n}": ({"x": ("N", "D", "K")}, ROWS) for n in ("sum", "mean", "logsumexp")},
    "centred": ({"x": ("N", "D", "K")}, {"dims": ROWS["dims"]}),
    "reduce_norm": ({"x": ("N", "D", "K")}, ROWS | {"n": 3}),
    "sloped": ({"h": ND, "z": ND}, {"slope": 0.1}),
    "unslice": ({"x": ND}, {"shape": lambda x: (len(x) + 1, x.shape[1]), "key": (slice(1, None), slice(None))}),
    "undiagonal": (
        {"x": ("K", "N")},
        {"shape": lambda x: (x.shape[1], x.shape[1], len(x)), "offset": 0, "dim1": 0, "dim2": 1},
    ),
    "scatter_rows": ({"x": ND, "index": Index(("N",), "N")}, {"shape": lambda x, index: tuple(x.shape)}),
    "gather_backward": ({"x": ND, "index": Index(("N", "D"), "D")}, {"shape": lambda x, index: x.shape, "dim": 1}),
    "cumsum": ({"x": ("N", "D", "K")}, {"dim": 1, "reverse": False}),
    "matmul": ({"a": ("B", "N", "K"), "b": ("K", "D")}, {}),
    "softmax": ({"x": ND}, {}),
    "log_softmax": ({"x": ND}, {}),
}

AT_SIZES = {  # operation: why its rule is not proved for any size
    "clipped_log": "cut off near 0, as PyTorch's",
    "softplus": "taken as linear beyond a threshold: the rule and the formula differ there by rounding",
    "gelu_erf": "its constants are floats near 1/2 and √2",
    "gelu_tanh": "its constants are floats near √(2/π)",
    **dict.fromkeys(("floor", "ceil", "round"), "steps: their derivative is 0 by definition"),
    **dict.fromkeys(("cast", "overwrite"), "another dtype or other values: there is no formula to differentiate"),
    **dict.fromkeys(("put", "scatter_extreme"), "the places that are written are data"),
    **dict.fromkeys(("det", "slogdet", "solve", "cholesky", "pinv"), "no index formula of these matrices for any size"),
    "flip": "its index runs backward, which the calculus does not have",
    "dropped": "it draws random numbers",
    **{f"reduce_{n}": "the places of the largest entries are data" for n in ("amax", "amin", "max", "min")},
}


def call_of(op: Op) -> tuple[dict, dict]:
    """The tensors and settings with which an operation is traced."""
    tensors, settings = CALLS.get(op.name) or ({op.params[0]: ND}, {})
    defaults = dict(zip(op.params[len(op.params) - len(op.defaults) :], op.defaults, strict=True))
    return tensors, defaults | settings


def values_of(op: Op, tensors: dict, settings: dict) -> list:
    """The operation's arguments in order; `xs0`, `xs1` are those of a parameter `*xs`."""
    values = []
    for name, slot in zip(op.params, op.arg_slices, strict=True):
        if slot.stop is None:
            values += [tensors[f"{name}{n}"] for n in range(2)]
        elif name == "condition":
            values.append(tensors[name] > 1)  # the sample points lie on both sides
        elif name in tensors:
            values.append(tensors[name])
        else:
            value = settings[name]
            values.append(value(*tensors.values()) if callable(value) else value)
    return values


def by_hand(op: Op, name: str, settings: dict) -> Callable:
    """The rule of one input as a gradient by hand: summed over broadcast dimensions, as backward() does."""
    parameter, number = (name, None) if name in op.params else (name[:-1], int(name[-1]))
    rule, sizes = op.rules[op.params.index(parameter)], call_of(op)[0][name]
    takes = list(inspect.signature(rule).parameters)

    def gradient(g, **tensors):
        values = values_of(op, tensors, settings)
        known = dict(zip(op.params, values, strict=False)) | {"g": g, "y": op(*values)}
        known |= {f"{n}_shape": known[n].shape for n in op.params if isinstance(known[n], Tensor)}
        known["xs_shape"] = tuple(x.shape for x in tensors.values())
        adjoint, shape = rule(**{n: known[n] for n in takes}), tensors[name].shape
        adjoint = adjoint if number is None else adjoint[number]
        while adjoint.ndim > len(shape):
            adjoint = adjoint.sum(0)
        for dim, size in enumerate(sizes):
            adjoint = adjoint.sum(dim, keepdim=True) if size == 1 else adjoint
        return adjoint

    return gradient


def check_rules(name: str, change: Callable = lambda gradient: gradient) -> Check:
    """Compare each rule of an operation with the derivative; `change` may plant a mistake in the rule."""
    op = OPS[name]
    tensors, settings = call_of(op)

    def operation(**values):
        return op(*values_of(op, values, settings))

    operation.__name__ = name
    ruled = {op.params[index] for index in op.rules}
    wanted = [n for n, t in tensors.items() if not isinstance(t, Index) and (n in ruled or n[:-1] in ruled)]
    return check(operation, {n: change(by_hand(op, n, settings)) for n in wanted}, limit=None, **tensors)


def covered() -> list[str]:
    """The operations whose rules are tensor code and formulas of one input, or have a line in CALLS."""
    formulas = [n for n, op in OPS.items() if op.kernel and op.rules and len(op.params) - len(op.defaults) == 1]
    names = [*formulas, *CALLS]
    return [n for n in dict.fromkeys(names) if n not in AT_SIZES]


proof = partial(claim, "rules", category="proof", size="any size", trusted=(SYMPY, INDEX))


@proof(
    "the backward rules of the engine that are tensor code are the derivatives of their operations",
    assumptions=("no denominator is 0, and no two numbers that are compared are equal",),
)
def rules():
    lines = []
    for name in covered():
        verdict = check_rules(name)
        if not verdict:
            raise Refuted(f"{name}: {verdict}", rule=name)
        lines += [f"{name}: {verdict.derivation.gradients[n]}" for n in verdict.verdicts]
    return Evidence(text="\n".join(lines))


HEADS = {"q": ("B", "H", "T", "K"), "k": ("B", "H", "S", "K"), "v": ("B", "H", "S", "J")}
WEIGHTED = {"x": ND, "weight": ("K", "D"), "bias": ("K",)}
FUSED: dict[str, tuple[dict, dict]] = {  # operation: its tensors and settings, as in CALLS
    "softmax": ({"x": ND}, {}),
    "log_softmax": ({"x": ND}, {}),
    "linear": (WEIGHTED, {}),
    "linear_relu": (WEIGHTED, {}),
    "layer_norm": ({"x": ND, "weight": ("D",), "bias": ("D",)}, {"eps": 0.1}),
    "rms_norm": ({"x": ND, "weight": ("D",)}, {"eps": 0.1}),
    "attention": (HEADS, {"mask": None, "scale": 0.5, "is_causal": False}),
    "square_backward": ({"h": ND, "x": ND}, {}),
    "sigmoid_backward": ({"h": ND, "z": ND}, {}),
    "silu_backward": ({"h": ND, "x": ND}, {}),
}
UNFUSED = {  # operation: why its definition is not compared for any size
    **dict.fromkeys(("cross_entropy_rows", "cross_entropy_mean"), "the definition looks for ignored targets, in data"),
    **dict.fromkeys(("gelu_erf_backward", "gelu_tanh_backward"), AT_SIZES["gelu_erf"]),
    "reduce_prod": "the definition is a tree of products, whose depth depends on the size",
    "cofactors": AT_SIZES["det"],
}


def difference(name: str, change: Callable = lambda y: y) -> Expr:
    """An entry of a fused operation without the one of its definition, as a normal form; `change` plants a mistake."""
    op, (tensors, settings) = OPS[name], FUSED[name]

    def whole(**values):
        return op(*values_of(op, values, settings))

    def in_parts(**values):
        return change(op.definition(*values_of(op, values, settings)))

    both = [derive(fn, limit=None, **tensors).derived for fn in (whole, in_parts)]
    left, right = (Definition(x.forward[-1].left, expanded(x.forward[-1].right, x.forward[:-1])) for x in both)
    entry = left.right - right.at(left.left)
    theorem = vanishes([entry], both[0].facts)
    return S.Zero if theorem is not None and theorem.hypotheses <= {"denominator"} else normal(entry)


@proof(
    "fused operations are their definitions in simpler operations, and their gradients are those of the closed forms",
    assumptions=("no denominator is 0",),
)
def definitions():
    for name in FUSED:
        if (rest := difference(name)) != 0:
            raise Refuted(f"{name} and its definition differ by {text(rest)}", rule=name)
    return Evidence(text="\n".join(FUSED))
