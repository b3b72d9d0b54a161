"""Every operation, declared once: equation, kernel, shape, gradient, and where it appears.

The files, each building on those before: arguments, generator, creation, arrays, elementwise, shape, keys, index,
reduce, products, softmax, fused, order, in_place; composed of these are activations, manipulation, pointwise, blas,
scans, statistics, counting, indexing, distances, random, normalization, and matrices. PyTorch's names are used
throughout (sum, max, abs ...); Python's own come from `builtins`. `methods.py` fills the names that the declarations
list: methods and operators of Tensor, and functions of the package. (`nn` takes its own from REGISTRY.)
"""

from tinytensor.ops import (
    activations,
    blas,
    constructors,
    counting,
    distances,
    elementwise,
    fused,
    in_place,
    index,
    indexing,
    manipulation,
    matrices,
    normalization,
    order,
    pointwise,
    products,
    random,
    reduce,
    scans,
    shape,
    softmax,
    statistics,
)
