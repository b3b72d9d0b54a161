"""Op: the one form in which every operation is declared. Node: the mark that an operation leaves on the tape.

    @appears("softsign Tensor.softsign F.softsign")
    @op
    class softsign:
        r"y = x / (1 + |x|)"

        def kernel(x):
            return x / (type(x)(1) + abs(x))

        def grad_x(g, x):
            return g / (1 + x.abs()) ** 2

The whole declaration of an operation stands in this one place. `@op` turns the class into an object that is called with
tensors. Forward is a formula, a view, or a function on arrays. A backward rule names the values that it reads as its
parameters, and no other values are kept for it. The classes `Op` and `Node` say the rest.
"""

import inspect

from tinytensor.core import provided
from tinytensor.core.dispatch import state
from tinytensor.core.graph import Linked
from tinytensor.core.keywords import by_position
from tinytensor.core.meta import Meta
from tinytensor.core.promotion import by_formula
from tinytensor.core.rule_arguments import Reads, check_inputs, check_names, reads
from tinytensor.core.tensor import Tensor, Version, notice
from tinytensor.runtime.entry_points import by_name, is_ours
from tinytensor.runtime.kernel import Kernel, elementwise

# ----------------------------------------------------------------------------------------------------- the tape


class Node(Linked):
    """One call of an operation on the tape: the operation, the edges to its arguments, and the values its rules read.

    `edges[i]` is the receiver of argument i's gradient: the node that made the argument, or the argument itself if it
    is a leaf, or None if its gradient is not wanted. Edges point only to older nodes and leaves, so the tape has no
    circle, and dropping the last result drops the whole tape.

    `kept` has values by the names that rules use for them, and only those that a needed rule names: the input of a ReLU
    can be forgotten at once, since its rule reads y alone. The node keeps the array of y, never the tensor: the tensor
    holds the node, and two objects that hold each other live until the garbage collector runs.
    """

    gradients = None  # of an autograd.Function: calls the user's own backward (autograd/function.py)

    __slots__ = ["__weakref__", "_hooks", "dtype", "edges", "kept", "op"]
    __slots__ += ["retained", "shape", "time", "versions", "walked"]

    def __init__(self, op: "Op", args: tuple, y: Tensor, saved: tuple):
        self.op = op
        self.time = next(Version.clock)  # no two nodes have the same time, so there is always one youngest node
        self.shape, self.dtype = y._data.shape, y._data.dtype
        self._hooks, self.walked = None, False
        self.retained = None  # a weak reference to a tensor that keeps its gradient (retain_grad)
        self.edges = tuple([(a.node or a) if isinstance(a, Tensor) and a._requires_grad else None for a in args])
        # The kept values depend on the wanted gradients: for a * b with a constant b, the rule for a reads b, and the
        # rule for b, which would read a, never runs.
        wanted = op.reads_for(tuple([edge is not None for edge in self.edges]))
        self.kept, self.versions = {}, []
        for name, place in wanted.inputs:
            value = self.kept[name] = args[place]
            for x in value if value.__class__ is tuple else (value,):
                if isinstance(x, Tensor):
                    self.versions.append((name, x._version, x._version.count))
        for name, place in wanted.shapes:
            xs = args[place]
            self.kept[name] = tuple([x.shape for x in xs]) if xs.__class__ is tuple else getattr(xs, "shape", None)
        for name, place in wanted.saved:
            self.kept[name] = saved[place]
        if wanted.output:
            self.kept["y"] = y._data
            self.versions.append(("y", y._version, y._version.count))
        if state.told_of_nodes is not None:
            state.told_of_nodes(self, args, y._data)

    def refuse_changed(self, names: tuple[str, ...]) -> None:
        """Raise an error if a value among `names` was changed in place after the forward pass.

        Values are kept without a copy, so a change in place reaches them. A gradient computed from new values would be
        silently wrong; a change of a value that no rule reads does no harm, and is allowed.
        """
        for name, version, seen in self.versions:
            if version.count != seen and name in names:
                what = "output" if name == "y" else "result" if name in self.op.saved else "input"
                raise RuntimeError(
                    f"backward: the {what} {name} of {self.op.name} was changed in place after it was used, and its "
                    "gradient needs the old values; change a clone() instead"
                )

    def free(self) -> None:
        """Drop all kept values and the edges; a node that keeps no values stays as it is, and can be walked again.

        backward() does so after each node: the memory of the last layers can then hold the gradients of the first.
        """
        self.walked = True
        if self.versions or self.op.saved:
            self.kept, self.edges, self.versions = None, (), ()

    @property
    def freed(self) -> bool:
        """Has backward() dropped values that a second walk would read?"""
        return self.kept is None

    def __repr__(self):
        return f"<{self.op.name} on the tape>"


# --------------------------------------------------------------------------------------------------- operations


class Op:
    """An operation on tensors, declared once by `@op`.

    The class that `@op` decorates has a docstring, the equation y = ..., and one way to compute y:

    - `kernel(*inputs, *settings)`, a formula between scalars. Broadcasting, strides and result dtypes come with it.
      Parameters with default values are the formula's constants. `dtype` is the result's: "same" (the default), "float"
      (integers become floats), or "bool"; `kinds` are the only kinds of numbers that the formula takes, as letters of
      NumPy's `dtype.kind` (i includes u).
    - `view(x, *settings)`, which returns a NumPy view of the array x.
    - `forward(*inputs, *settings)`, which gets arrays for tensors, calls `launch`, and returns the array y, or y and
      more arrays. `saved` names these other arrays, which are kept if a rule reads them; the first `outputs` - 1 of
      them are results as well (only y has a gradient).

    And it has one way to compute gradients, or none if there is no derivative:

    - `grad_NAME(...)`: the gradient of the input NAME, as a tensor, computed with tensors. (For an input `*xs`:
      `grad_xs`, which returns one for each.)
    - `backward(...)`: the gradients of all arguments, a tuple of arrays and None, computed on arrays through `launch`:
      for operations whose gradients share their work. Trailing settings may be left out. `gradient` says in LaTeX,
      line by line, what it computes, for readers (viz shows it, a test evaluates it).
    - `definition(*inputs, *settings)`: the same operation in simpler ones. Through it an operation with `backward` is
      differentiated again, and an operation without other rules at all.

    Their parameters are names: g, the gradient that has arrived at y; y; an input, a setting or a saved array; x_shape,
    the shape of an input x whose values are not kept (None if x is no tensor; of `*xs` a tuple of shapes). `backward`
    may also take needs (for each argument: is its gradient wanted?) and onto, the gradient that has already arrived at
    the first argument, or None; it then returns the sum of onto and its own share, a new array. The tape owns the
    arrays and tensors that a rule returns.

    A class that is called NAME_op declares the operation NAME: programs call a function of this name, which checks and
    arranges the arguments first.
    """

    __reduce__ = by_name

    def __init__(self, form: type):
        # A form is a class because a class holds named functions and a docstring; it never has instances.
        self.name = form.__name__.removesuffix("_op")
        self.__name__, self.__module__, self.__qualname__ = self.name, form.__module__, form.__qualname__
        self.__doc__ = self.equation = inspect.cleandoc(form.__doc__ or "")
        self.view, self.forward, self.kernel, self.backward, self.definition = (
            getattr(form, part, None) for part in ("view", "forward", "kernel", "backward", "definition")
        )
        self.on_arrays = self.view or self.forward
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            self.kernel.__name__ = self.name  # the kernel has the operation's name
            self.kernel = elementwise(self.kernel)
        self.dtype, self.kinds = getattr(form, "dtype", "same"), getattr(form, "kinds", "").replace("i", "iu")
        # The kinds of numbers whose arrays the kernel takes as they are (fast/fast_calls.py).
        self.at_once = "".join([k for k in ("f" if self.dtype == "float" else "fi") if k in (self.kinds or "fi")])
        self.saved, self.outputs = getattr(form, "saved", ()), getattr(form, "outputs", 1)
        self.gradient: tuple[str, ...] = getattr(form, "gradient", ())

        # The operation's parameters are those of its forward function.
        parameters = inspect.signature(self.on_arrays or self.kernel.py_func).parameters.values()
        self.params = tuple(p.name for p in parameters)
        self.defaults = tuple(p.default for p in parameters if p.default is not p.empty)
        # The places of the arguments for each parameter; the last parameter may take any number of them, as `*xs`.
        self.places = tuple([slice(i, None if p.kind is p.VAR_POSITIONAL else i + 1) for i, p in enumerate(parameters)])

        named = {n.removeprefix("grad_"): rule for n, rule in vars(form).items() if n.startswith("grad_")}
        if not named.keys() <= set(self.params):
            unknown = [f"grad_{n}" for n in named if n not in self.params]
            raise TypeError(f"op {self.name}: {unknown} name no input; the inputs are {self.params}")
        self.rules = {i: named[name] for i, name in enumerate(self.params) if name in named}
        check_inputs(self)
        self.differentiable = bool(self.rules or self.backward or self.definition)
        self.quick = provided.shortcut(self)  # the call with an argument for each parameter
        self._reads: dict[tuple[bool, ...], Reads] = {}
        for function in filter(None, (*self.rules.values(), self.backward)):
            check_names(self, function)

    def __repr__(self):
        return f"<op {self.name}({', '.join(self.params)}): {self.equation.partition(chr(10))[0]}>"

    def reads_for(self, needs: tuple[bool, ...]) -> Reads:
        """The values to keep if gradients of these arguments are needed.

        They are worked out once for each pattern of needs (an operation sees few patterns) and looked up after that,
        since every operation that goes on the tape calls this. A definition may read all arguments.
        """
        if needs not in self._reads:
            self._reads[needs] = reads(self, needs)
        return self._reads[needs]

    # --------------------------------------------------------------------------------------------------- a call

    def __call__(self, *args, into: Tensor | None = None, **keywords):
        """Run the operation. The kernel may write the result over `into`, whose old values are not needed any more."""
        if keywords:
            args = by_position(self.name, self.params, self.defaults, args, keywords)
        if len(args) < len(self.params):  # the constants of a formula
            args += self.defaults[len(args) - len(self.params) :]
        if self.kernel is not None and len(args) != len(self.params):  # run() raises the error
            return self.run(args, into)
        return self.quick(*args) if into is None else self.quick(*args, into=into)

    def run(self, args: tuple, into: Tensor | None = None):
        """Look at the arguments, compute the results, and put the call on the tape (a node belongs to a result)."""
        # First: look at the arguments; a recording must notice them before their memory is used. The result goes on
        # the tape if the gradient of one of them is wanted.
        now = state.__dict__
        grad = now["grad"] and self.differentiable
        on_tape, arrays = False, []
        for a in args:
            if not isinstance(a, Tensor):
                arrays.append(a)
                continue
            if isinstance(a._data, Meta):
                return provided.on_shapes(self, args, into)
            if now["watched"]:
                notice(a)
            if grad and a._base is not None and a._tracked != a._version.tracked:
                provided.follow_base(a)  # a is a view whose base was changed after the view was taken
            on_tape = on_tape or (grad and a._requires_grad)
            arrays.append(a._data)

        # Second: compute, on arrays. Intermediate values need no tensors and no tape, since the operation's own rule
        # differentiates the whole of it.
        results = by_formula(self, args, into) if self.kernel is not None else self.on_arrays(*arrays)
        results = results if results.__class__ is tuple else (results,)
        if now["anomaly"]:
            now["anomaly"].result(self.name, [a._data for a in args if isinstance(a, Tensor)], results[0])
        y = self.finish(args, results, on_tape)
        return now["calls"](self, args, y) if now["calls"] else y

    def finish(self, args: tuple, results: tuple, on_tape: bool):
        """Make tensors of the results, and put the first one on the tape."""
        y = Tensor.of(results[0]) if self.view is None else args[0]._seen_as(results[0])
        if on_tape and y._data.dtype.kind in "fO":  # the index of a maximum, a whole number, has no gradient
            y.node = Node(self, args, y, results[1:])
            y._requires_grad = True
        if self.outputs == 1:
            return y
        more = [Tensor.of(r) for r in results[1 : self.outputs]]
        if y.node is not None:  # the rules may read them, and the user may change them
            y.node.versions += [(name, r._version, 0) for name, r in zip(self.saved, more)]
        return y, *more


# --------------------------------------------------------------------------------------------------- declarations

OPS: dict[str, Op] = {}  # all operations of the engine, by name


def op(form: type) -> Op:
    """Declare an operation; see `Op` for the form.

    The engine's operations are entered in OPS. The tests go through it: each operation must have a sample and a proof.
    """
    operation = Op(form)
    if is_ours(operation):
        if operation.name in OPS:
            raise ValueError(f"op {operation.name} is declared twice")
        OPS[operation.name] = operation
    return operation
