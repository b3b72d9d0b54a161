"""Random numbers in kernels: the number for an element is a function of a key, the number of the draw, and its place.

So only the number of a draw is remembered: the backward pass computes the same numbers again, and each task can begin
at any place. So can each process: an array may be one of the equal parts, one after the other, of an array that several
processes share. Its places are then counted in the whole array, and its numbers are those of the whole array.
"""

from tinytensor.core.kernel import EXACT_ORDER, num_tasks
from tinytensor.native.runtime.kernel import device_function, kernel, task_range

LOW = 0xFFFFFFFF  # the lower 32 bits
FIRST, SECOND = 0x7FEB352D, 0x846CA68B  # odd multipliers, with the least bias of those that C. Wellons tried
SPREAD = 0x9E3779B9  # 2^32 over the golden ratio: neighbouring numbers become distant ones


@device_function
def mixed(n):
    """A 32-bit number in which each bit depends on all bits of the 32-bit number n; different for each n."""
    n = ((n ^ (n >> 16)) * FIRST) & LOW
    n = ((n ^ (n >> 15)) * SECOND) & LOW
    return n ^ (n >> 16)


@device_function
def drawn(key, draw, index):
    """A pseudo-random number of 32 bits for a place: equal for equal arguments, otherwise independent."""
    upper = mixed(((index >> 32) + draw * SPREAD) & LOW)
    # A sum, since both terms are the same for key 0 and place 0, where their exclusive or would be 0 at each draw. At
    # draw 0 the sum is 0, too, and mixed(0) is 0, the least number: multinomial() would take the first class.
    total = (mixed((index * SPREAD + upper) & LOW) + mixed((key ^ upper) & LOW)) & LOW
    return mixed(total if total else SPREAD)


@kernel()
def next_draw(stream, at):
    """at = stream = [key, number of the draw, number of the part], and the stream goes on to the next draw."""
    at[0] = stream[0]
    at[1] = stream[1]
    at[2] = stream[2]
    stream[1] += 1


@kernel()
def uniform(at, shift, scale, y):
    """y_i = scale times the number drawn for i without its last `shift` bits: y (n,), at (3,)."""
    start = at[2] * y.size
    for i in range(y.size):
        y[i] = scale * y.dtype.type(drawn(at[0], at[1], start + i) >> shift)


@kernel(tasks=lambda x, *_: num_tasks(4 * x.size, x.size), fastmath=EXACT_ORDER)
def drop(x, at, threshold, scale, y, task, tasks):
    """y_i = scale x_i where the number drawn for i is below the threshold (of 2^32), else 0: x and y (n,), at (3,)."""
    first, last = task_range(x.size, task, tasks)
    a, b = x[first:last], y[first:last]
    key, draw, start = at[0], at[1], at[2] * x.size + first
    for i in range(a.size):
        kept = drawn(key, draw, start + i) < threshold
        b[i] = scale * a[i] if kept else a.dtype.type(0)
