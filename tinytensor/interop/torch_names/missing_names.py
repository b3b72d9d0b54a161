"""Names that PyTorch has and tinytensor lacks: using one raises an error that names the alternative.

PyTorch's names are listed in pytorch_names.txt, which is read when the first such name is used
(`python -m tests.samples.oracle.generate_names` writes it). An attribute raises AttributeError, so that hasattr() and
getattr() with a default work as usual; an import raises ImportError.
"""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tinytensor.core import late_bound

# The alternatives, each with the names that it replaces; * at an end of a name stands for any text.
ALTERNATIVES = {
    "everything is on the CPU here: leave it out, or use .to('cpu')": "cuda xpu ipu mps hpu mtia pin_memory "
    "set_default_device get_default_device Stream Event",
    "tensors are float32, float64, uint8, int32, int64 or bool: .float() for short floats, .int() for short "
    "integers": "half bfloat16 char short CharTensor ShortTensor HalfTensor BFloat16Tensor cfloat "
    "cdouble chalf complex* is_complex view_as_real view_as_complex set_default_tensor_type quint8 qint8 qint32",
    "the only convolution is Conv1d, over sequences; for images use PyTorch": "Conv* "
    "conv* LazyConv* Unfold Fold unfold fold MaxPool* AvgPool* AdaptiveAvgPool* AdaptiveMaxPool* max_pool* avg_pool* "
    "adaptive_* PixelShuffle Upsample* interpolate upsample*",
    "only nn.BatchNorm1d has running statistics; nn.LayerNorm or nn.RMSNorm do without": "BatchNorm* batch_norm "
    "InstanceNorm* instance_norm SyncBatchNorm LocalResponseNorm local_response_norm",
    "every tensor is dense: mm and addmm multiply matrices": "sparse* to_sparse* spmm smm hspmm sspaddmm",
    "memory layouts can't be chosen; every tensor is strided": "channels_last "
    "contiguous_format memory_format layout strided Storage* *Storage is_sparse_csr",
    "nn.utils.parametrizations.spectral_norm is here": "spectral_norm remove_spectral_norm",
    "a hook of the gradients is register_full_backward_hook": "register_backward_hook",
    "nn.functional.pad has all modes and sizes": "ZeroPad* ConstantPad* ReflectionPad* ReplicationPad* CircularPad*",
    "mpiexec starts processes, tinytensor.distributed joins them, and each has its part of the batch under "
    "nn.parallel.DistributedDataParallel": "multiprocessing DataParallel share_memory_ is_shared",
    "there is one group, of all ranks: all_reduce, broadcast, all_gather and barrier; for others use mpi4py's own "
    "calls": "new_group new_subgroups* split_group isend irecv send recv reduce_scatter* all_to_all* P2POp *Store "
    "all_gather_into_tensor monitored_barrier gather_object scatter_object_list send_object_list recv_object_list",
    "dir(tinytensor.linalg) lists its functions; numpy.linalg has more: "
    "tinytensor.from_numpy(numpy.linalg...(x.numpy()))": "eig* lu* ldl* inv_ex solve_ex cholesky_ex cond matrix_exp "
    "tensorinv tensorsolve triangular_solve vander svd_lowrank pca_lowrank lobpcg geqrf householder_product",
    "for Fourier transforms use numpy.fft: tinytensor.from_numpy(numpy.fft...(x.numpy()))": "fft stft istft",
    "programs are recorded by tinytensor.compile": "jit fx export _dynamo",
    "call the function as it is; tinytensor.func.jvp has the product at one place": "linearize functionalize",
    "nn.BatchNorm1d is the only one: call eval(), by which its running statistics stay": "replace_all_batch_norm*",
    "optim.Adam, AdamW, SGD, RMSprop, Adagrad, Adadelta, Adamax and LBFGS are here": "NAdam RAdam ASGD Rprop "
    "SparseAdam Adafactor Muon",
    "Exponential(r) is Gamma(1, r), Chi2(n) is Gamma(n / 2, 1 / 2), and LogNormal is the TransformedDistribution of "
    "Normal by ExpTransform": "Exponential Chi2 LogNormal",
    "dir(tinytensor.distributions) lists those that are here": "Poisson OneHotCategorical* Gumbel Binomial Geometric "
    "Half* Cauchy Pareto Weibull Wishart VonMises *Bernoulli *Binomial *Categorical InverseGamma FisherSnedecor",
}


# The modules whose missing names raise such an error; the empty one is the package.
PLACES = (
    "",
    "autograd",
    "cuda",
    "distributed",
    "distributions",
    "func",
    "linalg",
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
)
PLACES += ("optim", "optim.lr_scheduler", "utils.data")


@cache
def _pytorchs() -> dict[str, frozenset[str]]:
    """PyTorch's names, by the module or class that has them."""
    lines = (Path(__file__).parent / "pytorch_names.txt").read_text(encoding="utf-8").splitlines()
    return {path: frozenset(names.split()) for path, _, names in (line.partition(":") for line in lines)}


def _is(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


def sentence(path: str, name: str) -> str | None:
    """The error text for a missing name; None if PyTorch has no such name either."""
    if name.startswith("_") or name not in _pytorchs()[path]:
        return None
    serves = [advice for advice, names in ALTERNATIVES.items() if any(_is(name, p) for p in names.split())]
    advice = serves[0] if serves else "write it with the operations that are here, which dir() lists"
    full = f"{path}.{name}" if path else name
    return f"{full}: PyTorch has it, tinytensor does not; {advice}"


def error(path: str, name: str, holder: Any, otherwise: str) -> AttributeError:
    """The AttributeError with that text, or with `otherwise` if PyTorch has no such name."""
    return AttributeError(sentence(path, name) or otherwise, name=name, obj=holder)


ROOMS: dict[str, str] = {}  # the names of our modules, with their places in PyTorch


def of_module(path: str, name: str) -> Callable[[str], Any]:
    """The `__getattr__` of the module `name`, whose place in PyTorch is `place`.

    `from tinytensor.nn import Conv2d` drops the text of an AttributeError. But if the module has a `__path__`, Python
    next looks for a submodule Conv2d, and the finder of module_paths.py calls `refuse`, which raises with this text.
    """
    ROOMS[name] = path
    vars(sys.modules[name]).setdefault("__path__", [])

    def __getattr__(attribute: str):
        raise error(path, attribute, None, f"module {name!r} has no attribute {attribute!r}")

    return __getattr__


def refuse(fullname: str) -> None:
    """Raise ImportError for a name that is imported from one of these modules and that only PyTorch has."""
    room, _, name = fullname.rpartition(".")
    if room in ROOMS and name not in vars(sys.modules[room]):
        message = sentence(ROOMS[room], name)
        if message is not None:
            raise ImportError(message, name=fullname)


class Absent:
    """A method of PyTorch's tensors that ours do not have.

    A `__getattr__` of the class could raise the same error. But it would slow down every attribute look-up of tensors,
    existing attributes included.
    """

    def __init__(self, name: str):
        self.name = name

    def __get__(self, tensor, owner):
        raise error("Tensor", self.name, owner if tensor is None else tensor, "")


def install(tensor_class: type) -> None:
    """Make the missing names of tensors, nn.Module and Python's modules raise errors that name the alternative."""
    for name in _pytorchs()["Tensor"]:
        if not hasattr(tensor_class, name):
            setattr(tensor_class, name, Absent(name))
    late_bound.missing_name = error
    for path in PLACES:
        module = importlib.import_module(f"tinytensor.{path}".rstrip("."))
        module.__getattr__ = of_module(path, module.__name__)
