"""Every operation, declared once: equation, kernel, shape, gradient, and where it appears.

The files, each building on those before: arguments, generator, creation, arrays, elementwise, shape, keys, index,
reduce, products, fused, order, in_place, activations, compositions, functions, matrices. PyTorch's names are used
throughout (sum, max, abs ...); Python's own come from `builtins`. `methods.py` fills the places that the declarations
name: methods and operators of Tensor, and functions of the package. (`nn` takes its own from APPEARANCES.)
"""

from tinytensor.ops import (
    activations,
    compositions,
    constructors,
    elementwise,
    functions,
    fused,
    in_place,
    index,
    matrices,
    order,
    products,
    reduce,
    shape,
)
