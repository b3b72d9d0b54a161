"""tinytensor: reverse-mode automatic differentiation on NumPy arrays, with Numba kernels. See README.md."""

from tinytensor import autograd, nn, optim, serialization
from tinytensor.autograd import detect_anomaly, gradcheck, gradgradcheck
from tinytensor.compiled import compile
from tinytensor.creation import (
    Generator,
    arange,
    as_tensor,
    bernoulli,
    default_generator,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from tinytensor.kernels.kernel import elementwise, helper, kernel
from tinytensor.launch import get_num_threads, launch, set_num_threads
from tinytensor.ops import FUNCTIONS as _functions
from tinytensor.tensor import (
    OPS,
    Tensor,
    enable_grad,
    get_default_dtype,
    inference_mode,
    is_grad_enabled,
    no_grad,
    op,
    result_type,
    set_default_dtype,
    set_grad_enabled,
)
from tinytensor.tensor import bool_ as bool
from tinytensor.tensor import float32 as float
from tinytensor.tensor import float64 as double
from tinytensor.tensor import int32 as int
from tinytensor.tensor import float32, float64, int32, int64
from tinytensor.tensor import int64 as long

globals().update(_functions)
