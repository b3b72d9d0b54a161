"""How mistakes are made in code, and planted in the engine, to see whether the proofs notice them.

`code_mistakes` changes one place of a function's syntax tree; `planted_rule`, `planted_kernel` and `planted_walk` put
changed code in the place of the engine's for a while. Nothing on disk is touched.
"""

import ast
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from tinytensor.core import backend, late_bound, tape
from tinytensor.core.kernel import KERNELS, Kernel, exact
from tinytensor.core.op import OPS, Op
from tinytensor.native.fast.launch_cache import LaunchCache
from tinytensor.native.runtime.entry_points import NoBuild
from tinytensor.native.runtime.kernel import Elementwise, Loop
from tinytensor.symbolic.exact.lifting import lift, rebind, untraced

BACKWARD = sys.modules["tinytensor.autograd.backward"]  # the module; autograd's attribute is the function

# --- Mistakes in code

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
COMPARED = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
NAMES = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "sin": "cos", "cos": "sin", "exp": "log", "log": "exp"}
NAMES |= {"maximum": "minimum", "minimum": "maximum", "amax": "amin", "amin": "amax", "sum": "mean", "mean": "sum"}

# in their first two arguments
SYMMETRIC = {"add", "mul", "fma", "maximum", "minimum", "eq", "ne", "logical_and", "min", "max", "both", "times"}

# What lines of loops have beside these: bounds, and functions of registers.
BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
WHOLE = {ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv}
CALLED = {"min": "max", "max": "min", "add": "sub", "sub": "add", "mul": "add"}
SHORT = 2  # letters of a name that is worth exchanging: longer ones are seldom of one kind
OF_A_KIND = ("lanes", "zero", "fill", "zero_tile", "type")  # of the first argument these ask only what numbers it has


def code_mistakes(
    function: ast.FunctionDef, values_only: bool = False
) -> Iterator[tuple[str, ast.AST, ast.FunctionDef]]:
    """(what was changed, the place, the function with that one change), for every place and change there is.

    A sign, an operator, an operand dropped or swapped, a name for another one, a number, a comparison, an argument, a
    missing gradient, and `=` for `+=`. values_only: leave indices, tests of their range and loop bounds as they are.
    """
    inputs = [a.arg for a in function.args.args if a.arg not in ("needs", "eps", "scratch")]
    for position in _places(function, values_only):
        for new in _changes(position, inputs):
            before, after = ast.unparse(position), ast.unparse(ast.fix_missing_locations(new))
            if before != after:
                yield f"{before}  ->  {after}", position, with_node(function, position, new)


def _places(function: ast.FunctionDef, values_only: bool) -> Iterator[ast.AST]:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop(0)
        if values_only and isinstance(node, ast.Compare) and len(node.ops) > 1:
            continue  # 0 <= i < n
        if isinstance(node, ast.expr | ast.AugAssign):
            yield node
        children = list(ast.iter_child_nodes(node))
        if values_only and isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
            children = []
        if values_only and isinstance(node, ast.Subscript):
            children.remove(node.slice)
        todo += children


def _changes(node: ast.AST, inputs: list[str]) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        if isinstance(node.op, ast.Sub | ast.Div):
            yield ast.BinOp(node.right, node.op, node.left)
        if not isinstance(node.op, ast.FloorDiv | ast.Mod):
            yield node.left
            yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in NAMES:
            yield ast.Name(NAMES[node.id], ast.Load())
        if node.id in inputs and len(inputs) > 1:
            yield ast.Name(inputs[(inputs.index(node.id) + 1) % len(inputs)], ast.Load())
    elif isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
        if getattr(node.func, "id", "") not in SYMMETRIC:
            yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        yield ast.Compare(node.left, [COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for i, element in enumerate(node.elts):
            if isinstance(element, ast.Name | ast.IfExp | ast.Call):
                yield ast.Tuple([*node.elts[:i], ast.Constant(None), *node.elts[i + 1 :]], ast.Load())
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.op, ast.Add | ast.Sub):
            yield ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
        yield ast.Assign([node.target], node.value)
        yield ast.Pass()


def changes_of_a_line(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """(what is changed, the place, what stands there instead) for a function of loops over arrays.

    A sign or an operator; a number, or a bound that is off by one, or by one step; a condition that is turned round,
    always true or never; a statement that is left out, and `=` for `+=`; a short name (of an index, a size, an array)
    for its neighbour. A changed number or name is shown with the statement in which it stands.
    """
    inputs = [a.arg for a in function.args.args]
    stored = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    own = list(dict.fromkeys(n.id for n in sorted(stored, key=lambda n: (n.lineno, n.col_offset))))
    neighbours = {name: inputs[(i + 1) % len(inputs)] for i, name in enumerate(inputs)}
    neighbours |= {name: own[i - 1] for i, name in enumerate(own)}
    alike = {id(node) for node in _without_influence(function)}
    statements = {}  # of each place: the statement around it, the innermost one, which comes last
    for statement in (node for node in ast.walk(function) if isinstance(node, ast.stmt)):
        statements |= {id(node): statement for node in ast.walk(statement)}
    for position in (node for statement in function.body for node in ast.walk(statement)):
        if id(position) in alike:
            continue
        message, bare = {_head(position)}, isinstance(position, ast.Name | ast.Constant | ast.UnaryOp)
        where = f"  in  {_head(statements[id(position)])}" if bare else ""
        for new in _changes_of_a_place(position, neighbours):
            if (after := _head(ast.fix_missing_locations(new))) not in message:
                message.add(after)
                yield f"{_head(position)}  ->  {after}{where}", position, new


def _head(node: ast.AST) -> str:
    """The first line of a statement that has others inside."""
    return ast.unparse(node).split("\n")[0]


def _without_influence(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What is not worth a change, since no number depends on it, or since it is changed as something else.

    These are names of arrays of which nothing counts but the kind of their numbers, which all have; what the memory is
    asked for in advance; and names that are conditions, which are changed as such.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in ("dtype", "itemsize"):
            yield node.value
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in OF_A_KIND:
            yield node.args[0]
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
            yield node.test
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _head(node).startswith("expect("):
            yield from ast.walk(node)


def _changes_of_a_place(node: ast.AST, neighbours: dict[str, str]) -> Iterator[ast.AST]:
    match node:
        case ast.Assign() | ast.Continue() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.AugAssign(target, operator, value):
            if type(operator) in OPERATORS:
                yield ast.AugAssign(target, OPERATORS[type(operator)](), value)
            yield ast.Assign([target], value)
            yield ast.Pass()
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(True), body, orelse)
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.IfExp(_, body, orelse):
            yield body
            yield orelse
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.Compare(left, signs, right):
            for table in (COMPARED, BOUNDS):
                for i, sign in enumerate(signs):
                    if type(sign) in table:
                        yield ast.Compare(left, [*signs[:i], table[type(sign)](), *signs[i + 1 :]], right)
        case ast.BinOp(left, operator, right):
            for table in (OPERATORS, WHOLE):
                if type(operator) in table:
                    yield ast.BinOp(left, table[type(operator)](), right)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(int(value)) if not isinstance(value, bool):
            yield ast.Constant(value + 1)
            if value > 0:
                yield ast.Constant(value - 1)
        case ast.Name(name, ast.Load()) if len(name) <= SHORT and len(neighbours.get(name, "none")) <= SHORT:
            yield ast.Name(neighbours[name], ast.Load())
        case ast.Slice(lower, upper, step):
            if upper is not None:
                yield ast.Slice(lower, _off(upper, ast.Sub), step)
            if lower is not None:
                yield ast.Slice(_off(lower, ast.Add), upper, step)
        case ast.Call(ast.Name("range"), values):
            step = values[2] if len(values) == 3 else None  # what lies between two steps is no other bound
            for i, bound in enumerate(values[:2]):
                for sign in (ast.Add, ast.Sub):
                    yield ast.Call(node.func, [*values[:i], _off(bound, sign, step), *values[i + 1 :]], [])
        case ast.Call(ast.Name(name), values) if name in CALLED:
            yield ast.Call(ast.Name(CALLED[name], ast.Load()), values, [])


def _off(bound: ast.expr, sign: type, step: ast.expr | None = None) -> ast.expr:
    return ast.BinOp(bound, sign(), step or ast.Constant(1))


def unreached(function: ast.FunctionDef, position: ast.AST) -> ast.FunctionDef:
    """The function with an error in that place: a checker that does not notice it never comes there."""
    error = ast.parse("this_place_is_reached()").body[0]
    return with_node(function, position, error.value if isinstance(position, ast.expr) else error)


def with_node(tree: ast.AST, position: ast.AST, new: ast.AST) -> ast.AST:
    """A copy of a tree in which another node stands in one place."""
    position.is_the_place = True
    result = copy.deepcopy(tree)
    del position.is_the_place
    return ast.fix_missing_locations(_Replacing(new).visit(result))


class _Replacing(ast.NodeTransformer):
    def __init__(self, new: ast.AST):
        self.new = copy.deepcopy(new)

    def visit(self, node):
        return self.new if hasattr(node, "is_the_place") else self.generic_visit(node)


# --- Planting them in the engine


def module_of(what: Op | Kernel):
    """The module in which an operation or a kernel is declared; that of a formula is the one of its operation."""
    return sys.modules[(what.py_func if isinstance(what, Kernel) else what).__module__]


def declaration(op: Op) -> ast.ClassDef:
    """The class that `@op` made the operation of."""
    tree = ast.parse(inspect.getsource(module_of(op)))
    return next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name.removesuffix("_op") == op.name)


def rules_of(form: ast.ClassDef) -> list[ast.FunctionDef]:
    """The functions of a declaration that say what a gradient is."""
    functions = [n for n in form.body if isinstance(n, ast.FunctionDef)]
    return [f for f in functions if f.name in ("backward", "definition") or f.name.startswith("grad_")]


@contextmanager
def planted_rule(op: Op, function: ast.FunctionDef) -> Iterator[None]:
    """The operation with this function in the place of the one of the same name."""
    module = module_of(op)
    scope = dict(vars(module))
    exec(compile(ast.Module([function], []), module.__file__, "exec"), scope)
    new = scope[function.name]
    if function.name.startswith("grad_"):
        number = op.params.index(function.name.removeprefix("grad_"))
        change = patch.object(op, "rules", op.rules | {number: new})
    else:
        change = patch.object(op, function.name, new)
    with change, patch.object(op, "_saved_values", {}):
        yield


PAIRS = {"BYTES": 16}  # registers of two numbers: a row of three fills one, and leaves a rest


def lifted(kernel: Kernel) -> Callable:
    """The lifted kernel, with registers of two numbers if it knows of registers."""
    try:
        return lift(kernel, **PAIRS)
    except TypeError:
        return lift(kernel)


LIFTED = partial(untraced, lifted)  # as the engine's own code


def _without_a_build(*args):
    raise NoBuild


@contextmanager
def planted_kernel(name: str, source: str | ast.Module) -> Iterator[None]:
    """The kernel of this name out of another source of its file, which floats meet as plain Python.

    As machine code, a wrong index would write anywhere, and the process would break later, at some other place.
    """
    module = module_of(KERNELS[name])
    scope = {"__name__": "planted", "__file__": module.__file__}  # by this name it is not put into the table
    exec(compile(source, module.__file__, "exec"), scope)
    if isinstance(scope[name], Op):  # a formula: it stands in the form of the operation
        kernel, change = scope[name].kernel, patch.object(OPS[name], "kernel", scope[name].kernel)
    else:
        kernel, change = scope[name], ExitStack()
        change.enter_context(patch.object(module, name, kernel))
        if getattr(backend.kernels, name, None) is KERNELS[name]:  # others are launched by kernels/launches.py
            change.enter_context(patch.object(backend.kernels, name, kernel))
    # What was done before in this process is known as machine code of the kernel that stood there.
    by_step = patch.object(LaunchCache, "run", lambda self, args, short: self.function(*args))
    with change, by_step, patch.object(kernel, "_build", _without_a_build), patch.object(late_bound, "lift", LIFTED):
        yield


@contextmanager
def interpreted() -> Iterator[None]:
    """Kernels run as plain Python for a while: nothing has to be compiled for a few floats."""

    def run_now(kernel: Kernel, args: tuple) -> None:
        if exact(args):
            raise NoBuild
        if kernel not in sources:
            sources[kernel] = rebind(kernel.py_func, lambda code, name, value: PAIRS.get(name, value))
        with patch.object(kernel, "py_func", sources[kernel]):
            kernel.interpret(*args)

    sources: dict[Kernel, Callable] = {}
    with ExitStack() as stack:
        for category in (Kernel, Loop, Elementwise):  # the door calls this
            stack.enter_context(patch.object(category, "run_now", run_now))
        # and what was done before is done step by step again, with the kernel that stands there now
        stack.enter_context(patch.object(LaunchCache, "run", lambda self, args, short: self.function(*args)))
        yield


def kernel_source(name: str) -> tuple[ast.Module, list[ast.FunctionDef]]:
    """The syntax tree of a kernel's file, and in it the kernel and the helpers that it calls."""
    file = ast.parse(inspect.getsource(module_of(KERNELS[name])))
    said = {
        node.name.strip("_").removesuffix("_op"): node
        for node in file.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    if isinstance(said[name], ast.ClassDef):
        return file, [node for node in said[name].body if getattr(node, "name", "") == "kernel"]
    results = [said[name]]
    for function in results:  # it grows
        called = [said[node.id] for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in said]
        results += [other for other in dict.fromkeys(called) if other not in results]
    return file, results


@contextmanager
def planted_walk(right: str, wrong: str) -> Iterator[None]:
    """backward() walks by a copy of core/tape.py in which `wrong` stands for `right`."""
    scope = {"__name__": "planted"}
    exec(compile(_replaced(inspect.getsource(tape), right, wrong), tape.__file__, "exec"), scope)
    with patch.object(BACKWARD, "backward_pass", scope["backward_pass"]):
        yield


def rule_with(name: str, function: str, right: str, wrong: str) -> tuple[Op, ast.FunctionDef]:
    """An operation's function in which `wrong` stands for `right`."""
    op = OPS[name]
    rule = next(f for f in rules_of(declaration(op)) if f.name == function)
    changed = ast.parse(_replaced(ast.unparse(rule), right, wrong)).body[0]
    return op, changed


def kernel_with(name: str, right: str, wrong: str) -> str:
    """The source of a kernel's file in which `wrong` stands for `right`."""
    return _replaced(inspect.getsource(module_of(KERNELS[name])), right, wrong)


def _replaced(source: str, right: str, wrong: str) -> str:
    if right not in source:
        raise LookupError(f"{right!r} is not in the source any more: plant this mistake in another way")
    return source.replace(right, wrong)
