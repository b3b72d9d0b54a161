"""Changes to lines of kernels that nobody can notice, with the reason: {reason: {function: [change]}}.

`python -m tests.mutants --kernels` fails if one of them is noticed after all, or is no longer there.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "where nothing is left over, nothing is read and nothing written: the condition saves time": {
        "row_max": ["if rest:  ->  if True:"],
        "softmax": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
        "log_softmax": ["if rest:  ->  if True:"],
        "sum_of_exps": ["if rest:  ->  if True:"],
        "softmax_backward": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
        "log_softmax_backward": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
        "cross_entropy": ["if rest:  ->  if True:"],
        "cross_entropy_backward": ["if rest:  ->  if True:"],
        "layer_norm": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)", "if rest:  ->  if True: (3)"],
        "rms_norm": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
    },
    "both arrays have this size, as the kernel says of them": {
        "softmax": ["x  ->  y", "x  ->  y (2)"],
        "log_softmax": ["x  ->  y", "x  ->  y (2)"],
        "softmax_backward": ["y  ->  dx", "y  ->  dx (2)"],
        "log_softmax_backward": ["y  ->  dx", "y  ->  dx (2)"],
        "sample_rows": ["p  ->  u (2)"],
        "sgd": ["p  ->  g"],
        "adam": ["p  ->  g"],
    },
    "both registers have as many numbers": {"maximum": ["a  ->  b"], "first": ["x  ->  y"]},
    "of two equal numbers it takes the other one": {
        "maximum": ["a[lane] > b[lane]  ->  a[lane] >= b[lane]"],
        "logsigmoid": ["x > zero  ->  x >= zero", "x > zero  ->  x >= zero (2)"],
    },
    "the other loop gives the same, but takes longer": {
        "reduce_logsumexp": [
            "if inner == 1 and n > 0:  ->  if False:",
            "continue  ->  pass",
            "n > 0  ->  n < 0",
            "0  ->  1 (2)",
        ],
        "reduce_max": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "reduce_min": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "largest_of": ["4  ->  5"],
    },
    "the first number, or some more, are compared with themselves, or once more": {
        "reduce_logsumexp": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0"],
        "reduce_max": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0 (2)"],
        "reduce_min": [
            "range(1, n)  ->  range(1 - 1, n)",
            "1  ->  0 (2)",
            "range(1, n)  ->  range(1 - 1, n) (2)",
            "1  ->  0 (3)",
        ],
        "largest_of": ["4  ->  3 (3)"],
    },
    "a NaN in the first place makes the largest number NaN, which equals none, and so the first place is told": {
        "reduce_max": ["first < 0  ->  first <= 0", "0  ->  1 (4)"],
        "reduce_min": ["first < 0  ->  first <= 0", "0  ->  1 (4)"],
    },
    "any number below 0 says that there is none": {"first_nan": ["1  ->  2"]},
    "there is an equal one, and so the loop does not come to its end": {
        "first_equal": ["range(row.size)  ->  range(row.size + 1)", "0  ->  1"],
    },
    "who launches it does not read it afterwards": {"reduce_logsumexp": ["peak[o, 0] = shift  ->  pass"]},
    "a block more, or a run more, is empty": {
        "row_sum": ["range(0, row.size, 512)  ->  range(0, row.size + 512, 512)"],
        "argsort": ["width < n  ->  width <= n", "range(0, n, 2 * width)  ->  range(0, n + 2 * width, 2 * width)"],
    },
    "of infinity and NaN w >= w - w is false already": {
        "check_weights": [
            "valid and w >= w - w and (w - w == p.dtype.type(0))  ->  valid and w >= w - w",
            "w  ->  j (3)",
        ],
    },
    "in these kernels registers are written to matrices, whose last index is the second": {
        "store_first": ["-1  ->  1", "-1  ->  1 (2)"]
    },
    "no array of the tests has 2^31 elements": {"drawn": ["32  ->  33", "32  ->  31"]},
    "the kernels give no sample in which a register would read beyond the array: that is an error": {
        "load_first": [
            "len(v) == n and (n < 2 or x.strides[-1] == x.itemsize)"
            "  ->  len(v) == n or (n < 2 or x.strides[-1] == x.itemsize)",
            "v + zeros if fits else x[row + (max(j + n - 1, x.shape[-1]),)]  ->  v + zeros",
            "row + (max(j + n - 1, x.shape[-1]),)  ->  row - (max(j + n - 1, x.shape[-1]),)",
            "j + n - 1  ->  j + n + 1",
            "j + n  ->  j - n (2)",
            "max(j + n - 1, x.shape[-1])  ->  min(j + n - 1, x.shape[-1])",
            "1  ->  0 (4)",
            "1  ->  2 (4)",
            "-1  ->  1 (4)",
            "1  ->  0 (5)",
            "1  ->  2 (5)",
            "len(v) == n and (n < 2 or x.strides[-1] == x.itemsize)  ->  n < 2 or x.strides[-1] == x.itemsize",
        ],
    },
    "in these kernels registers are filled from rows that lie in one piece (those of matrix products need not)": {
        "load_first": [
            "n < 2 or x.strides[-1] == x.itemsize  ->  x.strides[-1] == x.itemsize",
            "len(v) == n and (n < 2 or x.strides[-1] == x.itemsize)  ->  len(v) == n",
            "n < 2  ->  n > 2",
            "n < 2  ->  n <= 2",
            "2  ->  3",
            "2  ->  1",
        ],
    },
}
