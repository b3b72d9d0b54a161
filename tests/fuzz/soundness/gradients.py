"""Gradients by hand: the right one in other words, and with a planted mistake. Numbers decide which are wrong."""

import ast
import copy
import random
from collections.abc import Iterator

Change = tuple[str, ast.AST, ast.AST]  # its name, a node, and what stands there instead
SIZES = {"N", "D", "M", "K", "L"}
VALUES = {"x", "y", "z", "q", "w", "b", "a", "g"}


def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _with(text: str, **parts: ast.expr) -> ast.expr:
    """The expression of a text, in which names stand for other expressions. It shares them: `apply` copies."""

    class Put(ast.NodeTransformer):
        def visit_Name(self, node):
            return parts.get(node.id, node)

    return Put().visit(_parse(text))


def _sizes_only(node) -> bool:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names <= SIZES | {"min", "max", "abs", "int", "float", "round", "math"}


def rewritings(tree: ast.AST, argument: str) -> Iterator[Change]:
    """Changes that keep the value, up to rounding."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Sub()):
                yield "a - b as a + (-b)", node, _with("a + (-b)", a=node.left, b=node.right)
                yield "a - b as -(b - a)", node, _with("-(b - a)", a=node.left, b=node.right)
            case ast.BinOp(op=ast.Add()):
                yield "a + b as b + a", node, _with("b + a", a=node.left, b=node.right)
                yield "a + b as a - (-b)", node, _with("a - (-b)", a=node.left, b=node.right)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                yield "a b as b a", node, _with("b * a", a=left, b=right)
                if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add | ast.Sub):
                    both = _with("a * b + a * c", a=left, b=right.left, c=right.right)
                    if isinstance(right.op, ast.Sub):
                        both = _with("a * b - a * c", a=left, b=right.left, c=right.right)
                    yield "a (b + c) as a b + a c", node, both
                if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
                    yield "(b + c) a as b a + c a", node, _with("b * a + c * a", a=right, b=left.left, c=left.right)
            case ast.BinOp(op=ast.Div()) if not _sizes_only(node):
                yield "a / b as a (1 / b)", node, _with("a * (1 / b)", a=node.left, b=node.right)
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)) if not _sizes_only(node):
                yield "a² as a a", node, _with("a * a", a=node.left)
            case ast.Call(func=ast.Attribute(attr="mean", value=inner), args=[]) if not node.keywords:
                yield "a mean as a sum", node, _with("inner.sum() / inner.numel()", inner=inner)
            case ast.Call(func=ast.Attribute(attr="tanh" | "sigmoid" | "exp"), args=[]):
                yield "halves of a function", node, _with("a / 2 + a / 2", a=node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return):
            yield "doubled and halved", node.value, _with("2 * (a) / 2", a=node.value)
            yield "two halves", node.value, _with("a / 2 + a / 2", a=node.value)
            yield "a sign twice", node.value, _with("-(-(a))", a=node.value)
            yield "times N / N", node.value, _with("a * N / N", a=node.value)
            yield "plus and minus 1", node.value, _with("a + 1 - 1", a=node.value)
            yield "times 1", node.value, _with("a * 1.0", a=node.value)
        if isinstance(node, ast.Assign) and node.targets[0].id[0] == "d":
            yield "an inner gradient doubled and halved", node.value, _with("(a + a) / 2", a=node.value)


def mistakes(tree: ast.AST, argument: str) -> Iterator[Change]:
    """Changes that a person makes by mistake, and such as only some sizes or values show."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            continue
        match node:
            case ast.Name(id=name) if name in SIZES and isinstance(node.ctx, ast.Load):
                for text in ("N - 1", "N + 1"):
                    yield f"N as {text}", node, _with(text, N=node)
                yield "N as 4", node, _parse("4")
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int(n)):
                yield "a number off by one", node, ast.Constant(n + 1)
                if n > 0:
                    yield "a number off by one", node, ast.Constant(n - 1)
            case ast.Constant(value=float(n)):
                yield "a factor", node, ast.Constant(n * 2)
                yield "a factor left out", node, ast.Constant(1.0)
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                yield "a sign", node, _with("a + b", a=left, b=right)
                yield "a term left out", node, left
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                yield "a sign", node, _with("a - b", a=left, b=right)
                yield "a term left out", node, left
                yield "a term left out", node, right
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                yield "a factor left out", node, left
                yield "a factor left out", node, right
            case ast.BinOp(op=ast.Div(), left=left):
                yield "a denominator left out", node, left
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                yield "a transposition", node, _with("a.T @ b", a=left, b=right)
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                yield "a // b as a / b", node, _with("a / b", a=left, b=right)
                yield "a // b as (a - 1) / b", node, _with("(a - 1) / b", a=left, b=right)
                yield "a // b as the upper one", node, _with("-(-a // b)", a=left, b=right)
            case ast.BinOp(op=ast.Mod(), left=left):
                yield "a remainder as 1", node, _parse("1")
                yield "a remainder as 0", node, _parse("0")
                yield "a remainder left out", node, left
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                yield "a power left out", node, left
                yield "a power as its inverse", node, _with("a ** -(b)", a=left, b=right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield "a sign", node, operand
            case ast.IfExp(body=body, orelse=orelse):
                yield "a forgotten branch", node, body
                yield "a forgotten branch", node, orelse
                yield "branches interchanged", node, _with("b if c else a", a=body, b=orelse, c=node.test)
            case ast.Compare(ops=[op]):
                relations = [ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.Eq, ast.NotEq]
                for other in relations:
                    if not isinstance(op, other):
                        changed = copy.deepcopy(node)
                        changed.ops = [other()]
                        yield "a comparison", node, changed
                yield "a condition left out", node, _with("(a == a)", a=node.left)
            case ast.Attribute(attr="T", value=inner):
                yield "a transposition", node, inner
            case ast.Call(func=ast.Attribute(attr="where"), args=[condition, a, b]):
                yield "a forgotten condition", node, a
                yield "a forgotten condition", node, b
                yield "where's values interchanged", node, _with("tt.where(c, b, a)", c=condition, a=a, b=b)
            case ast.Call(func=ast.Attribute(attr="arange"), args=[end]):
                for text in (
                    "tt.arange(1, n + 1)",
                    "(tt.arange(n) + 1.0)",
                    "tt.ones(n).cumsum(0)",
                    "tt.arange(n).flip(0)",
                ):
                    yield "arange from 1", node, _with(text, n=end)
                yield "arange from -1", node, _with("(tt.arange(n) - 1)", n=end)
                yield "arange of floats", node, _with("tt.arange(n, dtype=tt.float64)", n=end)
            case ast.Call(func=ast.Attribute(attr="one_hot"), args=[index, below]):
                yield "one_hot shifted", node, _with("F.one_hot((t + 1) % K, K)", t=index, K=below)
                yield "one_hot of 0", node, _with("F.one_hot(t * 0, K)", t=index, K=below)
                yield "one_hot from the end", node, _with("F.one_hot(K - 1 - t, K)", t=index, K=below)
            case ast.Call(func=ast.Attribute(attr="tril" | "triu" as attr, value=inner), args=[offset]):
                for text in ("k + 1", "k - 1", "-(k)"):
                    yield "an offset", offset, _with(text, k=offset)
                other = "triu" if attr == "tril" else "tril"
                yield "the other triangle", node, _with(f"a.{other}(k)", a=inner, k=offset)
                yield "a triangle left out", node, inner
            case ast.Call(func=ast.Attribute(attr="roll"), args=[inner, shift, axis]):
                yield "a roll left out", node, inner
                yield "a roll to the other side", node, _with("tt.roll(a, -(k), n)", a=inner, k=shift, n=axis)
            case ast.Call(func=ast.Attribute(attr="flip" | "cumsum" as attr, value=inner), args=[_]):
                yield f"{attr} left out", node, inner
            case ast.Call(func=ast.Attribute(attr="round" | "floor" | "ceil" | "trunc" as attr, value=inner), args=[]):
                for other in ("round", "floor", "ceil", "trunc"):
                    if other != attr:
                        yield "another rounding", node, _with(f"a.{other}()", a=inner)
                yield "a rounding left out", node, inner
            case ast.Call(func=ast.Attribute(attr="mean" | "sum" as attr, value=inner)):
                changed = copy.deepcopy(node)
                changed.func.attr = "sum" if attr == "mean" else "mean"
                yield "mean for sum", node, changed
            case ast.Call(func=ast.Attribute(attr="sign", value=inner)):
                yield "a sign left out", node, _with("tt.ones_like(a)", a=inner)
                yield "a sign that is 1 at 0", node, _with("tt.where(a >= 0, 1.0, -1.0)", a=inner)
            case ast.Call(func=ast.Name(id="min" | "max")):
                for only in node.args:
                    yield "min or max left out", node, only
            case ast.Call(func=ast.Attribute(attr="pad"), args=[inner, ast.Tuple(elts=[a, b])]):
                yield "padded at the other side", node, _with("F.pad(x, (b, a))", x=inner, a=a, b=b)
    values = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in VALUES and isinstance(n.ctx, ast.Load)]
    for node in values:
        yield "without the sign of a value", node, _with("a.abs()", a=node)
        yield "without negative values", node, _with("a.relu()", a=node)
        yield "a value rounded", node, _with("a.round()", a=node)
        yield "a value clamped", node, _with("a.clamp(-2, 2)", a=node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return):
            for text in (
                "(a) * (N % 2)",
                "(a) * (N > 4)",
                "(a) * min(N, 4) / 4",
                "(a) * (1 if N > 3 else 2)",
                "(a) + (N == 1)",
                "(a) * int(N != 2)",
                "(a) * (N // 2) * 2 / (N - 1)",
                "(a) * (N / (N + 1))",
                "(a) + (N // 20)",
                "(a) * (tt.arange(N).sum() / (N * (N - 1) / 2))",
            ):
                yield "right at some sizes", node.value, _with(text, a=node.value)
                yield "right at some sizes", node.value, _with(text, a=node.value, N=ast.Name("D"))
            for text in ("(a) * 2", "(a) * -1", "(a) / N", "(a) * N", "(a) + 1", "(a).flip(0)", "(a).detach() * 0 + g"):
                yield "wrong everywhere", node.value, _with(text, a=node.value)
            for text in (
                "(a) * (x != 0)",
                "(a) * x / x",
                "(a) * (x > -1)",
                "(a) * (x.abs() + x) / (2 * x)",
                "(a) * x.sign() ** 2",
                "tt.where(x == x.round(), 0.0, a)",
                "(a) + (x == 1)",
                "(a) * x.abs() / x",
                "(a) + x.floor() * 0.0 + (x.sum() < -100)",
            ):
                yield "right at some values", node.value, _with(text, a=node.value, x=ast.Name(argument))


def apply(source: str, changes, draw: random.Random, argument: str, names: list[str]) -> tuple[str, str] | None:
    """The source after a change that is drawn, each sort of change as likely as the others; and its name."""
    tree = ast.parse(source)
    steps: dict[str, list[Change]] = {}
    for change in changes(tree, argument):
        steps.setdefault(change[0], []).append(change)
    if not steps:
        return None
    name = draw.choice(sorted(steps))
    _, old, new = draw.choice(steps[name])

    class Put(ast.NodeTransformer):
        def visit(self, node):
            return copy.deepcopy(new) if node is old else self.generic_visit(node)

    tree = Put().visit(tree)
    function = tree.body[0]
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    own = [a.arg for a in function.args.args]
    function.args.args += [ast.arg(n) for n in names if n in used and n not in own]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", name
