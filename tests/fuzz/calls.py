"""Bad arguments to the operations: every sample of tests/samples/ops.py with one argument made wrong.

What is taken is compared with PyTorch where that is installed and takes it too. What is refused must be refused by a
sentence, and must leave the arguments as they were.
"""

import random
import warnings
from math import inf, nan

import numpy as np

import tinytensor
from tests.samples import ops as samples
from tinytensor import Tensor

from .tally import Diary, Tally, TooLong, is_sentence, limited

ONE_IN = {"short": 400, "sample": 60, "long": 1}  # how many of the cases each size of the run tries
SECONDS = 300  # a kernel may have to be compiled

# What may stand in an argument's place. A function makes it for a library, so that PyTorch gets the same.
WRONG = {
    "None": lambda lib: None,
    "'a'": lambda lib: "a",
    "b'a'": lambda lib: b"a",
    "3.5": lambda lib: 3.5,
    "-1": lambda lib: -1,
    "-7": lambda lib: -7,
    "True": lambda lib: True,
    "10**30": lambda lib: 10**30,
    "nan": lambda lib: nan,
    "-inf": lambda lib: -inf,
    "1j": lambda lib: 1j,
    "()": lambda lib: (),
    "[]": lambda lib: [],
    "{}": lambda lib: {},
    "(0, 0)": lambda lib: (0, 0),
    "[[1], 2]": lambda lib: [[1], 2],
    "(1, 'a')": lambda lib: (1, "a"),
    "object": lambda lib: object,
    "array": lambda lib: np.arange(6.0).reshape(2, 3),
    "tensor()": lambda lib: lib.tensor(2.0),
    "tensor(empty)": lambda lib: lib.zeros(0),
    "tensor(int)": lambda lib: lib.tensor([[1, -1, 100]]),
    "tensor(bool)": lambda lib: lib.tensor([True, False]),
    "tensor(5-d)": lambda lib: lib.ones(1, 2, 1, 2, 1),
    "tensor(nan)": lambda lib: lib.tensor([nan, inf, -inf]),
}


# What draws numbers: of these only shapes and dtypes are compared. (Attention draws only where a dropout is given.)
DRAWS = {path for sample in samples.SAMPLES if sample.is_random for path in sample.paths}
DRAWS -= {"nn.functional.scaled_dot_product_attention"}


def cases(one_in: int):
    """Yield (sample, path, where the wrong argument stands, its name): one in so many, the same ones every time."""
    chance = random.Random(0)
    for sample in samples.SAMPLES:
        for path in sample.paths:
            for where in [*range(len(sample.args)), *sample.kwargs, "unknown_option"]:
                for name in WRONG:
                    if chance.randrange(one_in) == 0 and not _of_another(path, where, name, sample):
                        yield sample, path, where, name


def _of_another(path: str, where, name: str, sample) -> bool:
    """Is it another class's method or operator that is called then: "a".add, or () < 2? What that says is not ours."""
    tensor = name.startswith("tensor(")
    if path.startswith("Tensor."):
        return where == 0 and not tensor
    if path in ("operator.getitem", "operator.setitem") and where == 0:
        return not tensor
    if path.startswith("operator.") and where == 0 and name == "array":
        return True  # NumPy's operator, which takes the tensor for an array
    if path.startswith("operator.") and where == "unknown_option":
        return True
    others = [a for i, a in enumerate(sample.args) if i != where and isinstance(a, samples.Spec)]
    return path.startswith("operator.") and isinstance(where, int) and not tensor and not others


def arguments(lib, sample, where, name):
    """The sample's arguments for a library, with the wrong one among them."""
    call = samples.Call(lib, sample)
    leaves = iter(zip(call.leaves, call.specs, strict=True))

    def build(spec):
        if isinstance(spec, samples.DT):
            return getattr(lib, spec.name)
        x, spec = next(leaves)
        return spec.arrange(x.detach() if "_(" in sample.id else x)

    args, kwargs = samples._walk(build, [list(sample.args), sample.kwargs])
    (args if isinstance(where, int) else kwargs)[where] = WRONG[name](lib)
    return args, kwargs


def run(lib, sample, path, where, name):
    args, kwargs = arguments(lib, sample, where, name)
    before = [np.array(a.detach()) for a in args if isinstance(a, lib.Tensor)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return samples._flatten(lib, samples._invoke(lib, path, args, kwargs)), None, True
        except Exception as error:
            after = [np.array(a.detach()) for a in args if isinstance(a, lib.Tensor)]
            return [], error, all(map(same, before, after))


def same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def is_known(path: str, name: str, how: str) -> bool:
    """Is it where PyTorch's answer is not to be had: wrong, or unlike that of its own kin?"""
    if path == "nn.functional.gelu" and name == "tensor(nan)":
        return "inf" in how  # gelu(inf) is inf, and PyTorch's too in float64; in float32 its vectors give NaN
    if path == "nn.functional.scaled_dot_product_attention" and name in ("-1", "-7"):
        return how.endswith("for [nan nan nan nan]")  # PyTorch's multiplies the mask, -inf, by the scale too
    if path.removesuffix("_").endswith(("addbmm", "addmm", "addmv", "baddbmm")) and name in ("-inf", "nan"):
        return "nan" in how.partition(" for ")[2]  # PyTorch's adds alpha times each product: inf - inf
    if path in ("operator.ne", "operator.eq") and name == "array":
        return how.endswith((" for True", " for False"))  # PyTorch's says whether it is the same object
    if path in ("bucketize", "searchsorted") and name in ("tensor(bool)", "tensor(nan)"):
        return True  # True, False: the boundaries are not sorted
    if path == "nn.functional.binary_cross_entropy_with_logits" and how.endswith(" for [nan nan nan]"):
        return name == "tensor(nan)"  # PyTorch's multiplies the infinite logit by 1 - t, which is 0
    # The loss of a float32 and a float64 is a float64 in all others, and in these PyTorch's cuts it down.
    cut = "nn.functional.huber_loss", "nn.functional.binary_cross_entropy_with_logits"
    return path in cut and how.startswith("float64(")


def differs(ours: list, theirs: list, drawn: bool = False) -> str:
    """How our results differ from PyTorch's, in more than values if these are drawn; "" if they do not.

    A refusal differs from nothing.
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for x, y in zip(ours, theirs, strict=True):
        if not hasattr(y, "detach") or not isinstance(x, Tensor):
            if type(x) is not type(y) and hasattr(y, "detach") != isinstance(x, Tensor):
                return f"{x!r} for {y!r}"
            continue
        x, y = x.detach().numpy(), y.detach().resolve_conj().numpy()
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{x.dtype}{x.shape} for {y.dtype}{y.shape}"
        if not drawn and not np.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True):
            return f"{x.ravel()[:4]} for {y.ravel()[:4]}"
    return ""


def fuzz(one_in: int, diary: Diary, peer=None) -> Tally:
    """Try one in so many; `peer` is PyTorch, if its answers are to be compared."""
    tally = Tally()
    for sample, path, where, name in diary.mine(cases(one_in)):
        message = f"{path} of {sample.id}, with {where} = {name}"
        diary.enter(message)
        try:
            with limited(SECONDS):
                results, error, kept = run(tinytensor, sample, path, where, name)
        except TooLong:
            tally.find(f"{message}: no answer in {SECONDS} s")
            continue
        if error is None:
            tally.enter("taken")
            if peer is not None:
                expected, refused, _ = run(peer, sample, path, where, name)
                drawn = sample.is_random or path in DRAWS
                if refused is None and (how := differs(results, expected, drawn)) and not is_known(path, name, how):
                    tally.find(f"{message}: {how}")
        elif not is_sentence(error):
            tally.find(f"{message}: {type(error).__name__}: {error}")
        elif not kept:
            tally.find(f"{message}: refused, but an argument was changed")
        else:
            tally.enter("refused")
    return tally
