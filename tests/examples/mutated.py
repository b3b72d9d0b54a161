"""Mutants of the key's right answers: one operator, number, index or sign of a function is another one."""

import ast
import copy
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

OPERATORS = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}

# Mutants that are right, too: a name for the same size, a case that does not occur, a sum in another order.
SAME = {
    "01": {
        "right_2: h = 1e-05 * max(2.0, abs(x))",
        "right_2: h = 1e-05 * max(0.0, abs(x))",
        "right_2: h = 1e-05 * max(1.0, x)",
    },
    "04": {
        "right_2: return x",
    },
    "05": {
        "right_1: a, b = ((1,) * (size - len(b)) + b, (1,) * (size - len(a)) + a)",
        "right_1: if any((m != n and 1 not in (n, m) for m, n in zip(a, b, strict=True))):",
        "right_4: g = g.sum(range(new)) if new else g",
        "right_4: if n == 1 and g.shape[d] != 0:",
    },
    "06": {
        "right_2: return (d.exp().sum(-1).log() - d[tt.arange(len(L)), t]).mean()",
        "right_3: return (L.softmax(-1) - F.one_hot(t, L.shape[1])) / t.shape[0]",
        "right_4: m, total = (-math.inf, 1.0)",
    },
    "07": {
        "right_1: return v * x if w * x + b >= 0 else 0.0",
        "right_2: return ((logits > 0) == (y == 1)).to(tt.float32).mean()",
        "right_2: return ((logits >= 0) == (y == 1)).to(tt.float32).mean().item()",
        "right_4: slopes = [(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(ys) - 1)]",
    },
    "08": {
        "right_2: for i in range(0, a.shape[0], 6):",
        "right_2: for i in range(0, y.shape[0], 5):",
        "right_2: for j in range(0, b.shape[1], 16):",
        "right_2: for j in range(0, y.shape[1], 15):",
        "right_3: for i in range(a.shape[0]):",
        "right_3: for i in range(grad_a.shape[0]):",
        "right_3: for k in range(grad_a.shape[1]):",
        "right_3: for j in range(b.shape[1]):",
        "right_3: for j in range(grad_b.shape[1]):",
        "right_3: return -True",
        "right_4: for i in range(0, len(a), size):",
    },
    "09": {
        "right_4: for i in range(0, n):",
        "right_4: W_q[i, i - 1] = 21 * math.sqrt(n)",
        "right_4: W_q[i, i - 1] = 19 * math.sqrt(n)",
        "right_4: W_q[i, i - 1] = 20 * n",
    },
    "10": {
        "right_4: G = V.shape[0]",
        "right_4: w = (Q_g @ K.unsqueeze(1).mT / math.sqrt(K.shape[-1])).softmax(-1)",
        "right_4: w = (Q_g @ K.unsqueeze(1).mT / math.sqrt(V.shape[-1])).softmax(-1)",
    },
    "11": {
        "right_1: return z if a >= 0 else -z",
    },
    "13": {
        "right_4: loss = -(L.log_softmax(-1)[range(len(L)), t] * counted).sum() / N",
        "right_4: loss = -(L.log_softmax(-1)[range(len(counted)), t] * counted).sum() / N",
    },
    "16": {
        "right_2: x = x.requires_grad_()",
        "right_3: return g @ g / (Hg @ g)",
        "right_4: if way @ bent < 0:",
        "right_4: if bent @ way <= 0:",
        "right_4: return g",
        "right_4: far = rest @ rest / (bent @ way)",
    },
    "17": {
        "right_4: kept = [(1.0, [])]",
    },
    "18": {
        "right_2: return x - tt.randn(x.shape)",
        "right_3: return None if p >= e else max(0, (r - p) // (e - p) + 1)",
    },
    "19": {
        "right_4: mean = slopes @ S.softmax(-1)",
        "right_4: mean = S.softmax(-0) @ slopes",
        "right_4: return [m for m, slope in enumerate(slopes) if slope < mean.item()]",
        "right_4: return [m for m, slope in enumerate(slopes.tolist()) if slope <= mean.item()]",
        "right_4: return [m for m, slope in enumerate(slopes.tolist()) if slope < mean]",
    },
    "22": {
        "right_4: S = q @ keys.T / math.sqrt(k.shape[1])",
        "right_4: S = q @ keys.T / math.sqrt(v.shape[1])",
        "right_4: S = q @ keys.T / math.sqrt(keys.shape[1])",
        "right_4: S = q @ keys.T / math.sqrt(values.shape[1])",
    },
    "23": {
        "right_3: return sum(((mean - x) ** 2 for x in g)) / N / B * (N - B) / (N - 1)",
    },
    "24": {
        "right_2: loss = model(texts)",
    },
    "28": {
        "right_2: return layers(math.sqrt(P.shape[1]) * E[t] + P) @ E.T",
    },
}


def others(node: ast.AST, parameters: list[str]) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    if isinstance(node, ast.BinOp):
        for operator in OPERATORS.get(type(node.op), ()):
            yield ast.BinOp(node.left, operator(), node.right)
        if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
            yield ast.BinOp(node.right, node.op, node.left)
        yield node.left
        yield node.right
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in OPERATORS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [operator()], node.comparators)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
        if node.value:  # as an index, -1 may be the same as 0
            yield ast.Constant(node.value - 1)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):  # the dimension -1 may be 1, too
        yield node.operand
    if isinstance(node, ast.AugAssign):
        yield ast.AugAssign(node.target, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.value)
        yield ast.Assign([node.target], node.value)
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, ast.Name | ast.Attribute):
        yield node.args[0]
    if isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute):
        yield node.func.value
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        yield ast.Pass()
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in parameters:
        yield from (ast.Name(other, node.ctx) for other in parameters if other != node.id)
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) == 2:
        yield ast.Tuple(node.elts[::-1], node.ctx)
    if isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(ast.UnaryOp(ast.USub(), node.value))


class _Swap(ast.NodeTransformer):
    """Puts another node in the place of the node number `at`."""

    def __init__(self, at: int, other: ast.AST):
        self.at, self.other, self.number = at, other, -1

    def visit(self, node: ast.AST) -> ast.AST:
        self.number += 1
        return self.other if self.number == self.at else self.generic_visit(node)


def mutants(key: Path, names: dict) -> Iterator[tuple[str, str, Callable]]:
    """The exercise's number, what has changed ("right_1: return a + b"), and the function, for each mutant of a key."""
    for right in ast.parse(key.read_text()).body:
        if not isinstance(right, ast.FunctionDef) or not re.fullmatch(r"right_\d", right.name):
            continue
        body = right.body[1:] if ast.get_docstring(right) else right.body
        bare = ast.FunctionDef(right.name, right.args, body, [], None, type_params=[])
        ast.fix_missing_locations(bare)
        before = ast.unparse(bare).splitlines()
        for at, node in enumerate(_walk(bare)):
            for other in others(node, [each.arg for each in right.args.args]):
                mutant = ast.fix_missing_locations(_Swap(at, copy.deepcopy(other)).visit(copy.deepcopy(bare)))
                text = ast.unparse(mutant)
                changed = [line.strip() for line, old in zip(text.splitlines(), before) if line != old]
                if not changed:
                    continue
                space = dict(names)
                with warnings.catch_warnings(action="ignore"):  # of a number that is called or indexed
                    exec(compile(text, f"<{right.name}>", "exec"), space)
                yield right.name.split("_")[1], f"{right.name}: {changed[0]}", space[right.name]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, in the order in which a NodeTransformer visits them."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)
