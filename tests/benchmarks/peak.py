"""What the processors can do: how much each computes, and how soon one hears of another.

The peak is a loop of nothing but independent multiply-adds in vector registers, on each thread. It is written in LLVM's
own language, so that no compiler decides over its vectors. 12 sums for 16 registers, 24 for 32: enough that none has
to wait for its last addition.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm

ROUNDS = 1_000_000  # about three milliseconds: short enough that some try is left alone by other programs
TRIES = 60
WIDTHS = {"avx512": 16, "avx2": 8, "neon": 4, "none": 4}


def lanes(simd: str | None) -> int:
    """Floats in a vector: as many as were asked for, or as the processor has."""
    if simd:
        return WIDTHS[simd]
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


def source(width: int) -> tuple[str, int]:
    """(the program, additions and multiplications of a round)."""
    sums, vector = (24 if width == 16 else 12), f"<{width} x float>"
    phis = [f"  %s{i} = phi {vector} [ zeroinitializer, %entry ], [ %t{i}, %loop ]" for i in range(sums)]
    fma = f"llvm.fma.v{width}f32"
    adds = [f"  %t{i} = call {vector} @{fma}({vector} %x, {vector} %x, {vector} %s{i})" for i in range(sums)]
    total = [f"  %u0 = fadd {vector} %t0, %t1"]
    total += [f"  %u{i} = fadd {vector} %u{i - 1}, %t{i + 1}" for i in range(1, sums - 1)]
    text = [
        f"declare {vector} @{fma}({vector}, {vector}, {vector})",
        "define float @run(i64 %rounds, float %value) {",
        "entry:",
        f"  %one = insertelement {vector} undef, float %value, i32 0",
        f"  %x = shufflevector {vector} %one, {vector} undef, <{width} x i32> zeroinitializer",
        "  br label %loop",
        "loop:",
        "  %n = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis,
        *adds,
        "  %next = add i64 %n, 1",
        "  %more = icmp ult i64 %next, %rounds",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *total,
        f"  %result = extractelement {vector} %u{sums - 2}, i32 0",
        "  ret float %result",
        "}",
    ]
    return "\n".join(text), 2 * sums * width


def native(text: str, name: str, *types) -> Callable:
    """A function of a program in LLVM's language, compiled for this processor; types as ctypes has them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(*types)(engine.get_function_address(name))
    function.engine = engine  # the code lives as long as it does
    return function


def together(tasks: Sequence[Callable[[], object]]) -> float:
    """Seconds until all tasks are done, each on a thread of its own."""
    workers = [threading.Thread(target=task) for task in tasks]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def rate(threads: int, width: int, tries: int = TRIES) -> float:
    """Additions and multiplications a second: the best of a few tries, on so many threads at once."""
    text, work = source(width)
    run = native(text, "run", ctypes.c_float, ctypes.c_int64, ctypes.c_float)
    return threads * ROUNDS * work / min(together([lambda: run(ROUNDS, 1e-3)] * threads) for _ in range(tries))


# A player waits for a number and answers with the next one, so many times; it says how often it has. It gives up after
# so many looks: where others use the processors, the other player may not be running.
PLAYER = """
define i64 @play(i64* %ball, i64 %first, i64 %rounds, i64 %looks) {
entry:
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n, %wait ], [ %more, %throw ]
  %wanted = phi i64 [ %first, %entry ], [ %wanted, %wait ], [ %later, %throw ]
  %left = phi i64 [ %looks, %entry ], [ %fewer, %wait ], [ %left, %throw ]
  %seen = load atomic i64, i64* %ball acquire, align 8
  %mine = icmp eq i64 %seen, %wanted
  br i1 %mine, label %throw, label %wait
wait:
  %fewer = sub i64 %left, 1
  %over = icmp eq i64 %fewer, 0
  br i1 %over, label %done, label %look
throw:
  %answer = add i64 %wanted, 1
  store atomic i64 %answer, i64* %ball release, align 8
  %later = add i64 %wanted, 2
  %more = add i64 %n, 1
  %last = icmp eq i64 %more, %rounds
  br i1 %last, label %done, label %look
done:
  %answers = phi i64 [ %n, %wait ], [ %more, %throw ]
  ret i64 %answers
}
"""


def round_trip(rounds: int = 20_000, looks: int = 50_000_000) -> float:
    """Seconds in which a number goes from one thread to another and back.

    What threads wait for each other, and read what another has written, goes by it. It is no constant: the host of a
    virtual machine moves its processors about, near to each other or far.
    """
    integer, ball, answers = ctypes.c_int64, ctypes.c_int64(0), []
    play = native(PLAYER, "play", integer, ctypes.c_void_p, integer, integer, integer)

    def player(first: int) -> Callable[[], object]:
        return lambda: answers.append(play(ctypes.addressof(ball), first, rounds, looks))

    return together([player(0), player(1)]) / max(1, min(answers))
