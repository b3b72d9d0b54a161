"""Op: the one form in which every operation is declared.

    @register("softsign Tensor.softsign F.softsign")
    @op
    class softsign:
        r"y = x / (1 + |x|)"

        def kernel(x):
            return x / (type(x)(1) + abs(x))

        def grad_x(g, x):
            return g / (1 + x.abs()) ** 2

The whole declaration of an operation stands in this one place. `@op` turns the class into an object that is called with
tensors. Forward is a formula, a view, or a function on arrays. A backward rule names the values that it reads as its
parameters, and no other values are kept for it. The class `Op` says the rest.
"""

import inspect

from tinytensor.core import late_bound
from tinytensor.core.backend import elementwise
from tinytensor.core.dispatch import state
from tinytensor.core.graph import Node
from tinytensor.core.kernel import Kernel, by_name, is_ours
from tinytensor.core.meta import Meta
from tinytensor.core.promotion import by_formula
from tinytensor.core.recorder import notice
from tinytensor.core.registry import OPS
from tinytensor.core.rule_arguments import SavedValues, check_inputs, check_names, values_to_save
from tinytensor.core.tensor import Tensor
from tinytensor.core.views import regenerate_grad_fn

# --------------------------------------------------------------------------------------------------- operations


class Op:
    """An operation on tensors, declared once by `@op`.

    The class that `@op` decorates has a docstring, the equation y = ..., and one way to compute y:

    - `kernel(*inputs, *settings)`, a formula between scalars. Broadcasting, strides and result dtypes come with it.
      Parameters with default values are the formula's constants. `dtype` is the result's: "same" (the default), "float"
      (integers become floats), or "bool"; `dtype_kinds` are the only dtype kinds that the formula takes, as letters of
      NumPy's `dtype.kind` (i includes u).
    - `view(x, *settings)`, which returns a NumPy view of the array x. With `is_part = True` it shows each element of a
      part of x once, and its gradient may be added to that part of a sum, in place of zeros around it (x_shape).
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
    may also take needs (for each argument: is its gradient wanted?) and accumulated, the gradient that has arrived at
    the first argument so far, or None; it then returns the sum of that and its own share, a new array. The tape owns
    the arrays and tensors that a rule returns.

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
        self.dtype, self.dtype_kinds = (
            getattr(form, "dtype", "same"),
            getattr(form, "dtype_kinds", "").replace("i", "iu"),
        )
        # The dtype kinds whose arrays the kernel takes as they are (native/fast/fast_calls.py).
        self.fast_kinds = "".join(
            [k for k in ("f" if self.dtype == "float" else "fi") if k in (self.dtype_kinds or "fi")]
        )
        self.is_part = getattr(form, "is_part", False)
        self.saved, self.outputs = getattr(form, "saved", ()), getattr(form, "outputs", 1)
        self.gradient: tuple[str, ...] = getattr(form, "gradient", ())

        # The operation's parameters are those of its forward function.
        parameters = inspect.signature(self.on_arrays or self.kernel.py_func).parameters.values()
        self.params = tuple(p.name for p in parameters)
        self.defaults = tuple(p.default for p in parameters if p.default is not p.empty)
        # The arguments of each parameter; the last parameter may take any number of them, as `*xs`.
        ends = [None if p.kind is p.VAR_POSITIONAL else i + 1 for i, p in enumerate(parameters)]
        self.arg_slices = tuple([slice(i, end) for i, end in enumerate(ends)])

        named = {n.removeprefix("grad_"): rule for n, rule in vars(form).items() if n.startswith("grad_")}
        if not named.keys() <= set(self.params):
            unknown = [f"grad_{n}" for n in named if n not in self.params]
            raise TypeError(f"op {self.name}: {unknown} name no input; the inputs are {self.params}")
        self.rules = {i: named[name] for i, name in enumerate(self.params) if name in named}
        check_inputs(self)
        self.differentiable = bool(self.rules or self.backward or self.definition)
        self.quick = late_bound.shortcut(self)  # the call with an argument for each parameter
        self._saved_values: dict[tuple[bool, ...], SavedValues] = {}
        for function in filter(None, (*self.rules.values(), self.backward)):
            check_names(self, function)

    def __repr__(self):
        return f"<op {self.name}({', '.join(self.params)}): {self.equation.partition(chr(10))[0]}>"

    def saved_values_for(self, needs: tuple[bool, ...]) -> SavedValues:
        """The values to keep if gradients of these arguments are needed.

        They are worked out once for each pattern of needs (an operation sees few patterns) and looked up after that,
        since every operation that goes on the tape calls this. A definition may read all arguments.
        """
        if needs not in self._saved_values:
            self._saved_values[needs] = values_to_save(self, needs)
        return self._saved_values[needs]

    # --------------------------------------------------------------------------------------------------- a call

    def __call__(self, *args, into: Tensor | None = None, **keywords):
        """Run the operation. The kernel may write the result over `into`, whose old values are not needed any more."""
        if keywords:
            args = self.by_position(args, keywords)
        if len(args) < len(self.params):  # the constants of a formula
            args += self.defaults[len(args) - len(self.params) :]
        if self.kernel is not None and len(args) != len(self.params):  # run() raises the error
            return self.run(args, into)
        return self.quick(*args) if into is None else self.quick(*args, into=into)

    def by_position(self, args: tuple, keywords: dict) -> tuple:
        """All arguments by position, though the call gave some as keywords."""
        keywords = late_bound.renamed(self.name, self.params, self.params[: len(args)], keywords)
        optional = dict(zip(self.params[len(self.params) - len(self.defaults) :], self.defaults, strict=True))
        for name in self.params[len(args) :]:
            if name not in keywords and name not in optional:
                break
            args += (keywords.pop(name, optional.get(name)),)
        if keywords:
            unknown = next(iter(keywords))
            raise TypeError(f"{self.name}: unknown keyword {unknown!r}; the inputs are {', '.join(self.params)}")
        return args

    def run(self, args: tuple, into: Tensor | None = None):
        """Look at the arguments, compute the results, and put the call on the tape (a node belongs to a result)."""
        # First: look at the arguments; a recording must notice them before their memory is used. The result goes on
        # the tape if the gradient of one of them is wanted.
        now = state.__dict__
        if now["reading"] is not None and (y := now["reading"].run(self, args)) is not None:
            return y
        grad = now["grad"] and self.differentiable
        on_tape, arrays = False, []
        for a in args:
            if not isinstance(a, Tensor):
                arrays.append(a)
                continue
            if isinstance(a._data, Meta):
                return late_bound.on_shapes(self, args, into)
            if now["watched"]:
                notice(a)
            if grad and a._base is not None and a._tape_count != a._version.tape_count:
                regenerate_grad_fn(a)  # a is a view whose base was changed after the view was taken
            on_tape = on_tape or (grad and a._requires_grad)
            arrays.append(a._data)

        # Second: compute, on arrays. Intermediate values need no tensors and no tape, since the operation's own rule
        # differentiates the whole of it.
        results = by_formula(self, args, into) if self.kernel is not None else self.on_arrays(*arrays)
        results = results if results.__class__ is tuple else (results,)
        if now["anomaly"]:
            now["anomaly"].result(self.name, [a._data for a in args if isinstance(a, Tensor)], results[0])
        y = self.finish(args, results, on_tape)
        return now["on_op"](self, args, y) if now["on_op"] else y

    def finish(self, args: tuple, results: tuple, on_tape: bool):
        """Make tensors of the results, and put the first one on the tape."""
        y = Tensor.of(results[0]) if self.view is None else args[0]._make_view(results[0])
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
