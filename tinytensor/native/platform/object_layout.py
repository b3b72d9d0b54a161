"""Where NumPy's arrays, tuples and floats keep their parts in memory.

An array's object has, after the words with which every Python object begins (the last of them is its type), the address
of the data, the number of dimensions, the addresses of its sizes and of its strides, its base, and its dtype. NumPy's C
header tells every extension so, and a change would break all of them. The import fails where the layout is another: a
kernel would read and write at wrong addresses.
"""

import ctypes
import sys

import numpy as np

HEAD = object.__basicsize__  # bytes with which every Python object begins
DATA, NDIM, SIZES, STRIDES, BASE, DTYPE = range(6)  # the words of an array's object after these
ITEMS = tuple.__basicsize__  # where, in a tuple, its items begin: the addresses of their objects


def words_at(address: int, n: int) -> list[int]:
    """The n words at an address."""
    return list((ctypes.c_int64 * n).from_address(address))


def addresses(objects: tuple) -> bytes:
    """The addresses of the objects in a tuple; equal for two tuples that hold the same objects.

    A replay compares some hundred objects. `is` for each takes longer than a small step. A tuple has the addresses of
    its items side by side, and these compare as one piece. Both tuples must be alive.
    """
    return ctypes.string_at(id(objects) + ITEMS, len(objects) * tuple.__itemsize__)


def differences(array: np.ndarray) -> list[str]:
    """The parts of an array's object that lie elsewhere; addresses are followed after the other parts were compared."""
    words = words_at(id(array) + HEAD, 6)
    wrong = {
        "type": words_at(id(array) + HEAD - 8, 1) != [id(type(array))],
        "data": words[DATA] != array.ctypes.data,
        "ndim": words[NDIM] & 0xFFFFFFFF != array.ndim,
        "base": words[BASE] != (0 if array.base is None else id(array.base)),
        "dtype": words[DTYPE] != id(array.dtype),
    }
    if not any(wrong.values()):
        wrong["sizes"] = words_at(words[SIZES], array.ndim) != list(array.shape)
        wrong["strides"] = words_at(words[STRIDES], array.ndim) != list(array.strides)
    return [part for part, is_wrong in wrong.items() if is_wrong]


def check() -> None:
    """Raise ImportError if objects lie in memory otherwise than this file says."""
    wrong = ["the size of a word"] if ctypes.sizeof(ctypes.c_void_p) != 8 else []
    if not wrong:
        array, number, pair = np.arange(24.0).reshape(2, 3, 4)[:, ::2], 0.1, (object(), object())
        wrong += [f"an array's {part}" for part in differences(array)]
        wrong += ["a float"] if ctypes.c_double.from_address(id(number) + HEAD).value != number else []
        wrong += ["a tuple"] if addresses(pair) != np.array([*map(id, pair)], np.int64).tobytes() else []
    if wrong:
        raise ImportError(
            f"tinytensor: Python {sys.version.split()[0]} with NumPy {np.__version__} lays objects out otherwise than "
            f"kernels read them ({', '.join(wrong)}): use CPython of 64 bits, and a NumPy that pyproject.toml names"
        )


check()
