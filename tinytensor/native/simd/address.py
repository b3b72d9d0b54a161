"""Addresses of an array's elements in LLVM, for functions of kernels that are written as instructions."""

from functools import cache

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cgutils import unpack_tuple
from numba.np.arrayobj import make_array, populate_array


def array_at(context, builder, ty: types.Array, address, shape: list, strides: list):
    """An array of this type whose first element is at the address. It is borrowed: no reference is counted."""
    element, array = context.get_data_type(ty.dtype), make_array(ty)(context, builder)
    data = builder.inttoptr(address, element.as_pointer())
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(element))
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


def array_field(context, builder, array: types.Array, value, name: str):
    """The data, the shape or the strides of an array."""
    return context.data_model_manager[array].get(builder, value, name)


def element_ptr_and_strides(context, builder, array: types.Array, value, at: list, dense: bool):
    """The address of an element, and the array's strides; `dense`: the elements of a row are neighbours."""
    strides = unpack_tuple(builder, array_field(context, builder, array, value, "strides"))
    if dense or array.layout == "C":
        strides[-1] = int64(array.dtype.bitwidth // 8)
    offset = int64(0)
    for index, stride in zip(at, strides, strict=True):
        offset = builder.add(offset, builder.mul(index, stride))
    data = array_field(context, builder, array, value, "data")
    return gep_bytes(builder, builder.bitcast(data, ir.IntType(8).as_pointer()), offset), strides


def element_ptr(context, builder, array: types.Array, value, at: list, ty: ir.Type | None = None):
    """The address of an element, as that of a register of type `ty`; the elements of a row must be neighbours."""
    ptr, _ = element_ptr_and_strides(context, builder, array, value, at, ty is not None)
    return builder.bitcast(ptr, (ty or context.get_data_type(array.dtype)).as_pointer())


def gep_bytes(builder, ptr, offset):
    return builder.gep(ptr, [offset], inbounds=True)


def prefetch(builder, ptr, write: bool) -> None:
    """Prefetch the cache line at an address. A processor ignores an invalid address."""
    whole, address = ir.IntType(32), ir.IntType(8).as_pointer()
    ty = ir.FunctionType(ir.VoidType(), [address, whole, whole, whole])
    prefetch = cgutils.get_or_insert_function(builder.module, ty, "llvm.prefetch.p0")
    near = 3 if write else 2  # the nearest cache, or the second: there, later reads do not push out data in use
    builder.call(prefetch, [builder.bitcast(ptr, address), whole(int(write)), whole(near), whole(1)])


@cache
def int64(value: int) -> ir.Constant:
    return ir.Constant(ir.IntType(64), value)
