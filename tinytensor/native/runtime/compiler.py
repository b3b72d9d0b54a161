"""Numba's compiler, adapted to kernels: almost unchanged up to LLVM, and with fewer steps from there on.

A kernel becomes one piece of machine code. Its device functions are inlined into it, so separate machine code for them,
which Numba would make as well, would never run. Making it took one second of the twelve to a first step.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba import config
from numba.core import errors
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.event import Listener, install_listener
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable

from tinytensor.native.platform.locks import waits_for

compiling = threading.RLock()  # held by the thread that compiles: Numba's compiler is not made for two
for _lock in (global_compiler_lock, compiling):  # a child would inherit Numba's compiler in the middle of its work
    waits_for(_lock)  # a fork takes the lock of the last call first, as a build does

TIDY = min(1, config.OPT)  # LLVM's level that joins functions and drops unused code


class _Whole(JITCodeLibrary):
    """The machine code of a kernel.

    Its loops are not unrolled four times, as LLVM would unroll them. One iteration here takes a register or two, and a
    row has few registers: most iterations would be left over from groups of four, and to count these takes longer than
    unrolling saves.
    """

    def _optimize_functions(self, module) -> None:
        """Only set the data layout; functions are optimised later, beside all functions that they call."""
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        self._optimise(config.OPT)

    def _optimise(self, level: int) -> None:
        options = create_pipeline_tuning_options(level)
        options.loop_vectorization, options.loop_unrolling = bool(config.LOOP_VECTORIZE), False
        builder = create_pass_builder(self._codegen._tm, options)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()  # for a user's kernel: others count no references
        passes.run(self._final_module, builder)


class _Part(_Whole):
    """The code of a device function, optimised once for all kernels that inline it. It has no address."""

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
    """Takes the place of Numba's code generator, which gives a finished function the address of Python constants."""

    @staticmethod
    def set_env(name: str, env) -> None:
        """Nothing: code without an address does not run, and needs no constants."""


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
class _DeviceLowering(Lowering):
    _name = "device_function_lowering"
    library = _Part


class KernelCompiler(CompilerBase):
    """Numba's compiler with `lowering` as its last step."""

    lowering = Lowering

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("kernel")
        passes_of_numba = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        passes.passes = [(self.lowering if each is NativeLowering else each, label) for each, label in passes_of_numba]
        passes.finalize()
        return [passes]


class _DeviceCompiler(KernelCompiler):
    lowering = _DeviceLowering


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let signals (Ctrl-C) that come during a build wait for its end: some two seconds at most.

    If a signal raises an error in a callback from C, the error is printed and dropped, and the program would run on. A
    build has many callbacks: LLVM calls some, and Python itself those of weak references.
    """
    handlers, waiting = {}, []
    if threading.current_thread() is threading.main_thread():  # only the main thread gets signals
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


class _Compilations(Listener):
    """See around_compilations()."""

    def __init__(self, before: Callable, after: Callable):
        self.before, self.after, self.depth = before, after, 0

    def on_start(self, event) -> None:
        self.before()
        self.depth += 1

    def on_end(self, event) -> None:
        self.depth -= 1
        if not self.depth:
            self.after()


def around_compilations(before: Callable, after: Callable):
    """Inside, two functions are called: before a compilation or the load of a compiled kernel, and after it."""
    return install_listener("numba:compiler_lock", _Compilations(before, after))


class _Colourless:
    """Takes the place of the object that colours Numba's messages, and adds no colours."""

    def __getattr__(self, name: str) -> Callable[[str], str]:
        return lambda text: text


@contextmanager
def colourless() -> Iterator[None]:
    """A context in which Numba's messages have no colours.

    Numba tries many overloads of a call, and formats a message for each that fails, in colours if colorama is
    installed: this takes a fifteenth of the time to a first step, for messages that are never shown.
    """
    was = errors._termcolor_inst
    if isinstance(was, _Colourless):  # another thread will restore them
        yield
        return
    errors._termcolor_inst = _Colourless()
    try:
        yield
    finally:
        errors._termcolor_inst = was


def inlined(function: Callable, fastmath: frozenset = frozenset()) -> Callable:
    """A function for compiled functions to call; Python code calls it as the plain Python function.

    It is inlined into each function that calls it, so that the machine code of a kernel is one piece. As a separate
    piece it would come with each of two kernels, and the order of loading would decide which copy runs. The wrappers
    for calls from Python and C are left out; they would take an eighth of the time to compile.
    """
    options = {"error_model": "numpy", "fastmath": set(fastmath), "forceinline": True, "no_cfunc_wrapper": True}
    return register_jitable(**options, pipeline_class=_DeviceCompiler)(function)
