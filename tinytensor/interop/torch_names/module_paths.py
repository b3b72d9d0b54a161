"""PyTorch's module paths: imports from them give tinytensor's names, or objects that raise when they are used.

`from tinytensor.nn.modules.linear import Linear` gives nn.Linear, since PATHS maps this path to `nn`. A name that is
missing, and any name of a path whose contents are missing, is a `Missing`: it can be imported, and raises an error with
advice when it is used. A path that PyTorch does not have raises ModuleNotFoundError as usual.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from functools import partial
from typing import Any, NoReturn

from tinytensor.interop.torch_names import missing_names

LAYERS = """activation adaptive batchnorm container conv distance dropout embedding flatten fold instancenorm
lazy linear loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling"""
DISTRIBUTIONS = """bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exponential gamma
geometric gumbel half_normal independent laplace log_normal mixture_same_family multinomial multivariate_normal
negative_binomial normal one_hot_categorical poisson relaxed_bernoulli relaxed_categorical studentT uniform utils"""
OPTIMIZERS = "adadelta adagrad adam adamax adamw asgd nadam optimizer radam rmsprop rprop sgd sparse_adam swa_utils"

# path: the module whose names it gives
PATHS = {
    **{f"nn.modules{'.' * bool(name)}{name}": "nn" for name in ("", *LAYERS.split())},
    "nn.modules.utils": "nn.utils",
    **{f"distributions.{name}": "distributions" for name in DISTRIBUTIONS.split()},
    **{f"optim.{name}": "optim" for name in OPTIMIZERS.split()},
    **{f"utils.data.{name}": "utils.data" for name in ("dataloader", "dataset", "sampler", "distributed", "datapipes")},
    **{f"nn.utils.{name}": "nn.utils" for name in ("clip_grad", "convert_parameters", "weight_norm", "spectral_norm")},
    **{f"nn.utils.{name}": "nn.utils" for name in ("prune", "fusion")},
    "utils.tensorboard.writer": "utils.tensorboard",
    "nn.parameter": "nn",
    "nn.parallel.distributed": "nn.parallel",
    "nn.parallel.data_parallel": "nn.parallel",
    "nn.grad": "nn.functional",
    "nn.common_types": "nn",
    "autograd.variable": "autograd",
    "autograd.grad_mode": "autograd",
    "autograd.gradcheck": "autograd",
    "autograd.anomaly_mode": "autograd",
    "random": "",
    "functional": "",
    "special": "",
    "types": "",
    "return_types": "",
    "distributed.distributed_c10d": "distributed",
}
# advice: the paths whose contents are missing
ABSENT = {
    "models of this size need no checkpointing: call the function itself": "utils.checkpoint",
    "tinytensor.profile() times the kernels of a step": "profiler autograd.profiler utils.bottleneck",
    "programs are recorded by tinytensor.compile": "fx export _dynamo compiler _inductor",
    "tinytensor.compile records a step, tinytensor.save keeps a state_dict": "jit",
    "for Fourier transforms use numpy.fft: tinytensor.from_numpy(numpy.fft...(x.numpy()))": "fft",
    "mpiexec starts processes, and tinytensor.distributed joins them": "multiprocessing distributed.launch "
    "distributed.fsdp distributed.rpc distributed.optim distributed.elastic distributed.algorithms distributed.run "
    "distributed.tensor distributed.checkpoint distributed.pipeline",
    "weights are saved by tinytensor.save(model.state_dict(), path), and come from files of your own": "hub onnx "
    "package utils.model_zoo",
    "every tensor is dense: mm multiplies matrices": "sparse",
    "tensors are dense, of float32, float64, uint8, int32, int64 or bool": "quantization ao nested masked",
    "write kernels of your own with @tinytensor.kernel": "utils.cpp_extension library utils.dlpack",
    "write it with the operations that are here, which dir(tinytensor) lists": "testing overrides futures storage "
    "utils.hooks utils.collect_env utils.mobile_optimizer utils.flop_counter monitor mps xpu mtia signal",
}
ADVICE = {path: advice for advice, paths in ABSENT.items() for path in paths.split()}


class Missing:
    """A name that PyTorch has and tinytensor lacks: it can be imported, and raises when it is used."""

    def __init__(self, name: str, advice: str):
        vars(self).update(_name=name, _advice=advice)

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(f"{self._name}: PyTorch has it, tinytensor does not; {self._advice}")

    def __call__(self, *args, **kwargs) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python asks for such names by itself
            raise AttributeError(name)
        self._refuse()

    def __mro_entries__(self, bases: tuple) -> NoReturn:  # called when a class inherits from it
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self._name}: missing here>"


class _Path(types.ModuleType):
    """A module at a path of PATHS or ABSENT."""

    __path__: list[str] = []  # so that modules may lie below it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = self.__name__.partition(".")[2]
        if path in PATHS:
            serves = importlib.import_module(f"tinytensor.{PATHS[path]}".rstrip("."))
            try:
                return getattr(serves, name)
            except AttributeError as error:
                advice = str(error).partition("; ")[2]
                return Missing(f"{path}.{name}", advice or f"dir(tinytensor.{PATHS[path]}) lists the names here")
        return _missing(path, name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules at these paths when they are imported and Python's own finders have found none.

    A name that PyTorch has in one of our modules, and that is missing there, raises the error of missing_names.py.
    """

    def find_spec(self, fullname: str, path, target=None) -> importlib.machinery.ModuleSpec | None:
        top, _, below = fullname.partition(".")
        known = top == "tinytensor" and (below in PATHS or below in ADVICE)
        if known:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        missing_names.refuse(fullname)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Path(spec.name, f"PyTorch's path {spec.name.partition('.')[2]}: see {__name__}.")

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the module has no code."""


def _missing(path: str, name: str) -> Missing:
    """The `__getattr__` of the module at a path of ADVICE."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"{path}.{name}", ADVICE[path])


def install(elsewhere: list[types.ModuleType]) -> None:
    """Make these paths importable, and modules of rooms (`interop.torch_names.cuda`) under PyTorch's path (`cuda`)."""
    for module in elsewhere:
        sys.modules[f"tinytensor.{module.__name__.split('.', 3)[-1]}"] = module
    for path in (*PATHS, *ADVICE):
        module = sys.modules.get(f"tinytensor.{path}")
        if path in ADVICE and module is not None:  # a module of our own, which lacks most of PyTorch's names
            module.__getattr__ = partial(_missing, path)
        parent = sys.modules.get(f"tinytensor.{path.rpartition('.')[0]}")
        if parent is None:
            continue
        if not hasattr(parent, "__path__"):
            parent.__path__ = []  # a file in which PyTorch has a folder
        if hasattr(parent, path.rpartition(".")[2]) and f"tinytensor.{path}" not in sys.modules:
            # an import of this module by Python would replace the function of this name
            sys.modules[f"tinytensor.{path}"] = _Path(f"tinytensor.{path}")
    sys.meta_path.append(_Finder())
