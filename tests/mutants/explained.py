"""Changes to lines of kernels that nobody can notice, with the reason: {reason: {function: [change]}}.

`python -m tests.mutants --kernels` fails if one of them is noticed after all, or is no longer there.
"""

REACHES = (  # in all three kernels of attention
    "if unit == first or h == 0 or (mask.size > 0 and mask.strides[1] != 0):  ->  if True:",
    "mask.size > 0 and mask.strides[1] != 0  ->  mask.size > 0 or mask.strides[1] != 0",
    "mask.size > 0 and mask.strides[1] != 0  ->  mask.strides[1] != 0",
    "mask.size > 0 and mask.strides[1] != 0  ->  mask.size > 0",
    "mask.size > 0  ->  mask.size >= 0",
)

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
        "layer_norm_backward": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
        "rms_norm_backward": ["if rest:  ->  if True:", "if rest:  ->  if True: (2)"],
    },
    "of a row of one number the normed one is 0, and so is the sum that is left out": {
        "layer_norm_slope": ["0  ->  1"]
    },
    "both arrays have this size, as the kernel says of them": {
        "softmax": ["x  ->  y", "x  ->  y (2)"],
        "log_softmax": ["x  ->  y", "x  ->  y (2)"],
        "softmax_backward": ["y  ->  dx", "y  ->  dx (2)"],
        "log_softmax_backward": ["y  ->  dx", "y  ->  dx (2)"],
        "sample_rows": ["p  ->  u (2)"],
        "sgd": ["p  ->  g"],
        "adam": ["p  ->  g"],
        "attention_of_one": ["q  ->  k"],
    },
    "both registers, or tiles, have as many numbers": {
        "maximum": ["a  ->  b"],
        "first": ["x  ->  y"],
        "add_tile": ["a  ->  b", "a  ->  b (2)"],
        "where_less": ["a  ->  b"],
    },
    "of two equal numbers it takes the other one": {
        "maximum": ["a[lane] > b[lane]  ->  a[lane] >= b[lane]"],
        "logsigmoid": ["x > zero  ->  x >= zero", "x > zero  ->  x >= zero (2)"],
        "relu_tile": ["x <= type(x)(0)  ->  x < type(x)(0)"],
        "largest_of": ["c[t][lane] > top[lane]  ->  c[t][lane] >= top[lane]"],
        "largest_seen": ["c[t][lane] > top[lane]  ->  c[t][lane] >= top[lane]"],
        "at_most_zero": ["c[t][lane] > zero  ->  c[t][lane] >= zero"],
    },
    "the other loop gives the same, but takes longer": {
        "reduce_logsumexp": [
            "if inner == 1 and n > 0:  ->  if False:",
            "continue  ->  pass",
            "n > 0  ->  n < 0",
            "0  ->  1 (2)",
        ],
        "reduce_prod": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "cumsum": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "reduce_max": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "reduce_min": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "best_of": ["4  ->  5"],
    },
    "the first number, or some more, are compared with themselves, or once more": {
        "reduce_logsumexp": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0"],
        "reduce_max": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0 (2)"],
        "reduce_min": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0 (2)"],
        "best_of": ["4  ->  3 (3)"],
    },
    "who launches it does not read it afterwards": {"reduce_logsumexp": ["peak[o, 0] = shift  ->  pass"]},
    "a block more, or a run more, is empty": {
        "row_sum": ["range(0, row.size, BLOCK)  ->  range(0, row.size + BLOCK, BLOCK)"],
        "argsort": ["width < n  ->  width <= n", "range(0, n, 2 * width)  ->  range(0, n + 2 * width, 2 * width)"],
        "pieces": ["size + unit - 1  ->  size + unit + 1", "1  ->  0 (2)"],
        "attention_backward": ["range(0, M, LANES)  ->  range(0, M + LANES, LANES)"],
        "cross_entropy": ["range(start, stop, width)  ->  range(start, stop + width, width)"],
    },
    "a logarithm that is not stored is minus infinity, and not 0": {"cross_entropy": ["end - begin  ->  end + begin"]},
    "of one piece, or one task, the divisions say the same: it takes longer": {
        "share": [
            "(n * task // tasks, n * (task + 1) // tasks) if tasks > 1 else (0, n)"
            "  ->  (n * task // tasks, n * (task + 1) // tasks)",
            "tasks > 1  ->  tasks >= 1",
            "1  ->  0",
        ],
        "pieces": [
            "(size + unit - 1) // unit if size > unit else min(size, 1)  ->  (size + unit - 1) // unit",
            "size > unit  ->  size >= unit",
        ],
        "matmul": [
            "if across * down > 1:  ->  if True:",
            "across * down > 1  ->  across * down >= 1",
            "1  ->  0",
        ],
    },
    "what the memory is asked for changes no number, only how long they take": {
        "tiles": [
            "if asks:  ->  if True:",
            "if asks:  ->  if False:",
            "fetch_tile(blank, y, i, j)  ->  pass",
            "y  ->  j (2)",
        ],
        "matmul": [
            "M * K * a.itemsize > NEAR  ->  M * K * a.itemsize < NEAR",
            "M * K * a.itemsize > NEAR  ->  M * K * a.itemsize >= NEAR",
            "M * K * a.itemsize  ->  M * K / a.itemsize",
            "M  ->  n (4)",
            "K  ->  N (3)",
        ],
    },
    "the same products one after the other, in tiles of another size or out of another place: it takes longer": {
        "matmul": [
            "(end - begin) % HEIGHT  ->  (end - begin) // HEIGHT",
            "end if over > HALF else end - over  ->  end",
            "over > HALF  ->  over >= HALF",
            "if copied:  ->  if False:",
            "factor, above, before = (panel.T, begin - full, first)  ->  pass",
            "room >= (rows + lanes(y) - 1) // lanes(y) * lanes(y)"
            "  ->  room > (rows + lanes(y) - 1) // lanes(y) * lanes(y)",
            "rows + lanes(y) - 1  ->  rows + lanes(y) + 1",
            "1  ->  0 (10)",
            "1  ->  2 (2)",
            "end - begin >= FEW and (last - first) * abs(b.strides[1]) > SPAN"
            "  ->  end - begin >= FEW or (last - first) * abs(b.strides[1]) > SPAN",
            "end - begin >= FEW  ->  end - begin <= FEW",
            "end - begin >= FEW  ->  end - begin > FEW",
            "end - begin  ->  end + begin (2)",
            "(last - first) * abs(b.strides[1]) > SPAN  ->  (last - first) * abs(b.strides[1]) < SPAN",
            "(last - first) * abs(b.strides[1]) > SPAN  ->  (last - first) * abs(b.strides[1]) >= SPAN",
            "(last - first) * abs(b.strides[1])  ->  (last - first) / abs(b.strides[1])",
            "last - first  ->  last + first",
            "1  ->  2 (11)",
            "if M == 1 and b.strides[2] == b.itemsize:  ->  if False:",
            "M == 1 and b.strides[2] == b.itemsize  ->  b.strides[2] == b.itemsize",
            "M == 1  ->  M != 1",
            "M  ->  n (3)",
            "1  ->  2 (4)",
            "1  ->  0 (4)",
            "1  ->  0 (5)",
            "range(left, right - 4 * full + 1, 4 * full)  ->  range(left, right - 4 * full + 1 - 4 * full, 4 * full)",
            "right - 4 * full + 1  ->  right - 4 * full - 1",
            "1  ->  0 (6)",
            "4  ->  5 (4)",
            "1  ->  2 (8)",
            "if far or width % lanes(y) > 0 or b.strides[2] != b.itemsize:  ->  if True:",
            "far or width % lanes(y) > 0 or b.strides[2] != b.itemsize"
            "  ->  width % lanes(y) > 0 or b.strides[2] != b.itemsize",
            "width % lanes(y) > 0  ->  width % lanes(y) >= 0",
            "1  ->  2 (10)",
            "if over == 1:  ->  if True:",
            "if over == 1:  ->  if False:",
            "over == 1  ->  over != 1",
            "1  ->  2 (6)",
            "1  ->  0 (7)",
            "if over <= HALF:  ->  if True:",
            "over <= HALF  ->  over >= HALF",
        ],
        "pack": [
            "if b.strides[1] == b.itemsize:  ->  if False:",
            "if b.strides[0] == b.itemsize:  ->  if False:",
            "0  ->  1 (2)",
        ],
    },
    "who sees what is found once more, or for the one query and key that there are": {
        "attention": [*REACHES, "0  ->  1 (12)"],
        "attention_backward": [*REACHES, "0  ->  1 (15)"],
        "attention_of_one": [*REACHES, "0  ->  1 (15)"],
    },
    "it looks for itself at what nobody sees, or at what all see: it takes longer": {
        "reach": ["number + 1  ->  number - 1", "1  ->  0 (3)", "number < last  ->  number <= last"],
        "attention": [
            "least, most, holes = (M, 0, False)  ->  pass",
            "M  ->  K (2)",
            "if m + WIDTH > least:  ->  if True:",
            "m + WIDTH > least  ->  m + WIDTH >= least",
            "m + WIDTH > least  ->  m + WIDTH >= least (2)",
            "if hidden:  ->  if True:",
            "if hidden:  ->  if True: (2)",
        ],
        "attention_backward": [
            "M  ->  K (2)",
            "0  ->  1 (17)",
            "if most[i] <= m:  ->  if False:",
            "most[i] <= m  ->  most[i] < m",
            "continue  ->  pass",
            "least[i] < m + LANES  ->  least[i] <= m + LANES",
            "if hidden:  ->  if True:",
            "if hidden:  ->  if True: (2)",
        ],
        "attention_of_one": [
            "if holes or m + WIDTH > count:  ->  if True:",
            "m + WIDTH > count  ->  m + WIDTH >= count",
        ],
    },
    "it is set anew before it is read": {
        "attention": ["0  ->  1 (2)", "0  ->  1 (3)"],
        "attention_backward": ["holes = False  ->  pass"],
        "attention_of_one": ["count, holes = (0, False)  ->  pass", "0  ->  1 (2)"],
    },
    "a piece of scratch that goes on beyond what is used of it, or lacks a last place that is not": {
        "attention": ["2  ->  3 (2)"],
        "attention_backward": [
            "2  ->  3 (2)",
            "2  ->  3 (4)",
            "3  ->  4",
            "2  ->  3 (6)",
            "n:2 * n  ->  n + 1:2 * n (3)",
        ],
    },
    "what is finite, or seen by all, needs no care: it takes longer": {
        "attention": [
            "hidden and (not finite(zeros_of_rows(values, m)))  ->  hidden or not finite(zeros_of_rows(values, m))",
            "hidden and (not finite(zeros_of_rows(values, m)))  ->  not finite(zeros_of_rows(values, m))",
        ],
        "attention_backward": [
            "if hidden and careful:  ->  if True:",
            "hidden and careful  ->  hidden or careful",
            "hidden and careful  ->  careful",
            "hidden and careful  ->  hidden",
        ],
        "finite": ["0  ->  1"],
        "zeros_of": ["0  ->  1", "0  ->  1 (3)"],
        "zeros_of_rows": ["0  ->  1", "0  ->  1 (3)"],
    },
    "half a register holds what a whole one does beyond its zeros: it takes longer": {
        "add_keys": ["columns <= HALF  ->  columns < HALF"],
        "attention_backward": ["K - j  ->  K + j"],
    },
    "zeros stand beyond the last column": {
        "zeros_of_rows": ["range(0, x.shape[1], LANES)  ->  range(0, x.shape[1] + LANES, LANES)"],
    },
    "nobody looks at more registers than a square has": {
        "read_block": ["range(WIDTH)  ->  range(WIDTH + 1)"],
        "before": ["range(WIDTH)  ->  range(WIDTH + 1)"],
        "before_each": ["range(LANES)  ->  range(LANES + 1)"],
    },
    "2 is above 0, too": {"look": ["1  ->  2"]},
    "what stands for it is multiplied by 0": {
        "inner_seen": ["0  ->  1"],
        "inner_rows_seen": ["0  ->  1"],
        "outer_seen": ["0  ->  1 (2)"],
    },
    "of this one nothing counts but its type": {"inner_rows_seen": ["0  ->  1 (3)"]},
    "where nothing is hidden, no row lies beyond the last key": {
        "attention_of_one": ["M - 1  ->  M + 1", "1  ->  0 (5)"],
    },
    "Python counts it from the end, and it is the same one": {
        "add_up": ["t + len(c) // 2  ->  t - len(c) // 2"],
    },
    "a block has whole tiles, so that its first row is a multiple of their height": {
        "matmul": ["end - begin  ->  end + begin"]
    },
    "what a tile has beyond its height and width is not stored": {
        "matmul": ["4  ->  5 (2)"],
        "load_tile": ["range(len(c))  ->  range(len(c) + 1)"],
        "relu_tile": ["r < height and x <= type(x)(0)  ->  x <= type(x)(0)", "r < height  ->  r <= height"],
        "pack": ["0  ->  1 (4)"],
        "load_transposed": ["range(lanes(x))  ->  range(lanes(x) + 1)"],
    },
    "of infinity and NaN w >= w - w is false already": {
        "check_weights": [
            "valid and w >= w - w and (w - w == p.dtype.type(0))  ->  valid and w >= w - w",
            "w  ->  j (3)",
        ],
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
