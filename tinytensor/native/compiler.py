"""Numba's compiler as kernels need it: up to LLVM hardly anything is changed, and from there on less is done.

A kernel becomes one piece of machine code. The helpers that it calls are written into it, so machine code of a helper
alone, which Numba would make as well, would never run. Making it took one second of the twelve to a first step.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba import config, types
from numba.core import errors
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable
from numba.np.arrayobj import make_array, populate_array

TIDY = min(1, config.OPT)  # LLVM's level that joins functions and drops what is not needed


class _Whole(JITCodeLibrary):
    """The machine code of a kernel.

    No loop stands in it four times over, as LLVM would have it. One turn of a loop here takes a register or two, and a
    row has few of them: most would be the single turns that do not fill four, and to find out how many there are takes
    longer than is saved.
    """

    def _optimize_functions(self, module) -> None:
        """Say how memory is laid out; the functions are optimised when all that are called stand beside them."""
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        self._optimise(config.OPT)

    def _optimise(self, level: int) -> None:
        options = create_pipeline_tuning_options(level)
        options.loop_vectorization, options.loop_unrolling = bool(config.LOOP_VECTORIZE), False
        builder = create_pass_builder(self._codegen._tm, options)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()  # of a user's kernel: others count no references
        passes.run(self._final_module, builder)


class _Part(_Whole):
    """The code of a helper, tidied once for all kernels that it will be written into. No address leads to it."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._optimise(TIDY)
        self._finalized = True

    @property
    def codegen(self) -> type["_NoAddress"]:
        return _NoAddress


class _NoAddress:
    """Numba tells a function that is ready where its constants are, those that are Python's objects."""

    @staticmethod
    def set_env(name: str, env) -> None:
        """Nothing: code without an address does not run, and has no use for them."""


def array_at(context, builder, kind: types.Array, address, shape: list, strides: list):
    """The array of this type whose first element stands at an address. It is borrowed: no reference is counted."""
    element, array = context.get_data_type(kind.dtype), make_array(kind)(context, builder)
    data = builder.inttoptr(address, element.as_pointer())
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(element))
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):
    """Numba's last step before LLVM's."""

    _name = "kernel_lowering"
    library = _Whole

    def run_pass(self, state) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(Lowering):
    _name = "helper_lowering"
    library = _Part


class KernelCompiler(CompilerBase):
    """Numba's compiler, with another last step in the place of its own."""

    lowering = Lowering

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("kernel")
        found = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        passes.passes = [(self.lowering if each is NativeLowering else each, told) for each, told in found]
        passes.finalize()
        return [passes]


class _HelperCompiler(KernelCompiler):
    lowering = _HelperLowering


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let signals (Ctrl-C) that come while a kernel is built wait for its end: some two seconds at most.

    What a signal raises in a function that is called back from C is printed and forgotten, and the program would run
    on. A build is full of such functions: LLVM calls some, and Python itself those of weak references.
    """
    handlers, waiting = {}, []
    if threading.current_thread() is threading.main_thread():  # where Python hears signals
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers = {number: handler for number, handler in handlers.items() if callable(handler)}

    def wait(number, _):
        waiting.append(number)

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in waiting:
            signal.raise_signal(number)


class _Colourless:
    """What gives Numba's messages their colours, giving none."""

    def __getattr__(self, name: str) -> Callable[[str], str]:
        return lambda text: text


@contextmanager
def colourless() -> Iterator[None]:
    """Let Numba's messages have no colours meanwhile.

    Numba tries many meanings of a call, and writes down why each of them fails, in colours where colorama is installed:
    a fifteenth of the time to a first step, for messages that nobody reads.
    """
    was = errors._termcolor_inst
    if isinstance(was, _Colourless):  # another thread will give them back
        yield
        return
    errors._termcolor_inst = _Colourless()
    try:
        yield
    finally:
        errors._termcolor_inst = was


def inlined(function: Callable, fastmath: frozenset = frozenset()) -> Callable:
    """A function that compiled ones call; called from Python it is the Python function that it was.

    It is written into each function that calls it, so that the machine code of a kernel is one piece. Were it a piece
    of its own, two kernels would bring a copy each, and which of the two runs would depend on what was loaded first.
    The ways in which Python and C could call it are left out, which would be an eighth of the time to compile.
    """
    options = {"error_model": "numpy", "fastmath": set(fastmath), "forceinline": True, "no_cfunc_wrapper": True}
    return register_jitable(**options, pipeline_class=_HelperCompiler)(function)
