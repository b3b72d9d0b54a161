"""tinytensor: reverse-mode automatic differentiation on NumPy arrays, with Numba kernels. See README.md."""

from math import e, inf, nan, pi

from tinytensor.cli import main as _command  # isort: skip

_command.answer_without_engine()

from tinytensor.native.platform import tested_versions as _versions  # isort: skip  # warns before a part is missed
from tinytensor.core.backend_choice import BACKEND as _backend  # isort: skip

if _backend == "native":  # before any operation is declared, which takes the backend's kernels, and a short call
    from tinytensor.native.kernels import launches as _launches  # isort: skip
    from tinytensor.native import fast  # isort: skip
from tinytensor import amp, autograd, distributed, distributions, func, linalg, nn, optim, utils
from tinytensor.amp import GradScaler, autocast
from tinytensor.autograd import detect_anomaly, gradcheck, gradgradcheck
from tinytensor.autograd.func import vmap
from tinytensor.core.backend import device_function, elementwise, kernel
from tinytensor.core.devices import device
from tinytensor.core.dispatch import launch
from tinytensor.core.dtype_objects import DType as dtype
from tinytensor.core.dtype_objects import bool_ as bool
from tinytensor.core.dtype_objects import float32, float64, int32, int64, uint8
from tinytensor.core.dtypes import set_default_dtype
from tinytensor.core.kernel import num_tasks, task_range
from tinytensor.core.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinytensor.core.op import op
from tinytensor.core.registry import OPS
from tinytensor.core.tensor import Tensor
from tinytensor.core.threads import get_num_threads, set_num_threads
from tinytensor.distributions.distribution import normal
from tinytensor.interop.io import serialization
from tinytensor.interop.io.serialization import load, save
from tinytensor.interop.torch_names import (
    accelerator,
    backends,
    cuda,
    jit,
    missing_names,
    module_paths,
    testing,
    version,
)
from tinytensor.interop.torch_names.cuda import mps, xpu
from tinytensor.interop.torch_names.typeinfo import UNSTORED as _UNSTORED
from tinytensor.interop.torch_names.typeinfo import (
    can_cast,
    finfo,
    get_default_dtype,
    iinfo,
    is_complex,
    is_tensor,
    promote_types,
    result_type,
)
from tinytensor.native.platform.distribution import version as _version
from tinytensor.native.recording.compiled import compile
from tinytensor.ops.argument_errors import public_as as _public_as
from tinytensor.ops.constructors import TYPES as _TYPES
from tinytensor.ops.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    empty_permuted,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from tinytensor.ops.generator import Generator, default_generator, manual_seed
from tinytensor.ops.keywords import preserve_format
from tinytensor.ops.methods import FUNCTIONS as _functions
from tinytensor.utils import lazy_imports as _lazy_imports
from tinytensor.utils import profiler
from tinytensor.utils.printing import set_printoptions
from tinytensor.utils.profiler import profile

# PyTorch's other names for dtypes, and its name for a shape
float, double, int, long = float32, float64, int32, int64
Size = tuple

_creation = tensor.__module__
for _name, _made in list(globals().items()):
    if getattr(_made, "__module__", "") == _creation and not isinstance(_made, type | Generator):
        globals()[_name] = _public_as(f"{__name__}.{_name}", _made)
globals().update(_functions)
globals().update(_TYPES)
globals().update(_UNSTORED)
module_paths.install(
    [accelerator, backends, backends.cudnn, cuda, cuda.amp, jit, serialization, testing, version, profiler]
)

missing_names.install(Tensor)
_missing = globals()["__getattr__"]
_versions.remember()


def __getattr__(name: str):
    """`__version__` is read from the metadata when it is asked for; other names are missing, and the error says so."""
    if name == "__version__":
        return globals().setdefault(name, version.Version(_version()))
    return _missing(name)
