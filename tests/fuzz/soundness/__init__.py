"""A fuzzer of soundness: is a wrong gradient by hand ever called proved? `python -m tests.fuzz.soundness`."""
