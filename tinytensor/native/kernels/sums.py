"""Long sums: in blocks, whose sums are added to the total with the rounding error carried.

A chain of n additions loses up to n / 2 units of the last place, and a float32 that has come to 2^24 grows no more by
ones. In a block the chains are short; from block to block the error of each addition is corrected in the next one. So
the error hardly grows with the length. A row shorter than a block is one chain in each lane, as fast as before.
"""

from tinytensor.native.runtime.kernel import device_function, reassoc_device_function
from tinytensor.native.simd.vector import add, splat, sub, where_less, zero

BLOCK = 512  # numbers of a row that are added before their sum is added to the total
TERMS = 4096  # the same where registers are added: a multiple of four of them


@device_function
def carried_sum(total, part, lost, zero):
    """(total + part, the rounding error in it), where `lost` is the rounding error of the addition before."""
    part -= lost
    after = total + part
    lost = (after - total) - part
    return after, lost if lost - lost == zero else zero  # inf - inf is no rounding error


@device_function
def carried_lanes(total, part, lost, x):
    """`carried_sum` in each lane of registers of the array x."""
    part = sub(part, lost)
    after = add(total, part)
    lost = sub(sub(after, total), part)
    return after, where_less(sub(lost, lost), splat(x, 1), lost, zero(x))


@device_function
def sums_of_blocks(block, end, x, *args):
    """Two sums in registers: block(0, TERMS, x, ...) + block(TERMS, 2 TERMS, x, ...) + ... up to `end`.

    For a row of one block, which most rows are, this takes one comparison.
    """
    if end <= TERMS:
        return block(0, end, x, *args)
    a = b = lost_a = lost_b = zero(x)
    for begin in range(0, end, TERMS):
        s, t = block(begin, min(begin + TERMS, end), x, *args)
        a, lost_a = carried_lanes(a, s, lost_a, x)
        b, lost_b = carried_lanes(b, t, lost_b, x)
    return a, b


@reassoc_device_function
def block_sum(block, zero):
    """The sum of a few numbers."""
    part = zero
    for j in range(block.size):
        part += block[j]
    return part


@reassoc_device_function
def block_squares(block, zero):
    """The sum of the squares of a few numbers."""
    part = zero
    for j in range(block.size):
        value = zero + block[j]
        part += value * value
    return part


@device_function
def row_sum(row, sum_block, size, zero):
    """The sum of a row by `sum_block`, in blocks of this size."""
    total, lost = zero, zero
    for begin in range(0, row.size, size):
        part = sum_block(row[begin : min(begin + size, row.size)], zero)
        total, lost = carried_sum(total, part, lost, zero)
    return total
