"""The peak: a loop of nothing but independent multiply-adds in vector registers, on each thread.

The loop is written in LLVM's own language, so that no compiler decides over its vectors. 12 sums for 16 registers,
24 for 32: enough that none has to wait for its last addition.
"""

import ctypes
import threading
import time

import llvmlite.binding as llvm

ROUNDS = 1_000_000  # about three milliseconds: short enough that some try is left alone by other programs
TRIES = 60
WIDTHS = {"avx512": 16, "avx2": 8, "none": 4}


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


def rate(threads: int, width: int, tries: int = TRIES) -> float:
    """Additions and multiplications a second: the best of a few tries, on so many threads at once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text, work = source(width)
    module = llvm.parse_assembly(text)
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)(engine.get_function_address("run"))
    best = 0.0
    for _ in range(tries):
        workers = [threading.Thread(target=run, args=(ROUNDS, 1e-3)) for _ in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, threads * ROUNDS * work / (time.perf_counter() - start))
    return best
