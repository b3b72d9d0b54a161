"""Changes to lines of kernels that no test can notice, with the reason: {reason: {function: [change]}}.

`...` stands for any text, in the name of a function too, so an entry quotes only the words that its reason is about and
stays right when the rest of the line is written anew. It is about every change that it fits: `python -m tests.mutants
--kernels` fails if one of these is noticed after all, if an entry fits no change, or if two fit the same one.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "where nothing is left over, nothing is read and nothing written: the condition saves time": {
        "...": ["if rest:  ->  if True:..."]
    },
    "of a row of one number the normed one is 0, and so is the sum that is left out": {
        "layer_norm_slopes": ["0  ->  1  in  if partial.size > 0:"],
        "layer_norm_last": ["0  ->  1  in  if partial.size > 0:"],
    },
    "both arrays have this size, as the kernel says of them": {
        "...softmax": ["x  ->  y  in  ...x.shape..."],
        "...softmax_backward": ["y  ->  dx  in  ...y.shape..."],
        "sample_rows": ["p  ->  u  in  ...p.shape[0]..."],
        "sgd": ["p  ->  g  in  ...p.size..."],
        "adam": ["p  ->  g  in  ...p.size..."],
        "attention_of_one": ["q  ->  k  in  ...q.shape..."],
    },
    "both registers, or tiles, have as many numbers": {
        "select_first": ["x  ->  y  in  ...len(x)... (2)"],
        "where_less": ["a  ->  b  in  ...len(a)... (2)"],
    },
    "of two equal numbers it takes the other one": {
        "maximum": ["x > y  ->  x >= y"],
        "logsigmoid": ["x > zero  ->  x >= zero..."],
        "relu_tile": ["x <= type(x)(0)  ->  x < type(x)(0)"],
        "min_zero": ["x > type(x)(0)  ->  x >= type(x)(0)"],
        "...max_registers": ["x > y  ->  x >= y"],
    },
    "the other loop gives the same, but takes longer": {
        "reduce_logsumexp": [
            "if inner == 1 and n > 0:  ->  if False:",
            "continue  ->  pass",
            "n > 0  ->  n < 0",
            "0  ->  1  in  if inner == 1 and n > 0:",
        ],
        "reduce_prod": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "reduce_m...": ["if inner == 1:  ->  if False:", "continue  ->  pass"],
        "cumsum": ["n <= SHORT  ->  n ...", "continue  ->  pass"],
        "best_of": ["4  ->  5  in  ...row.size // 4..."],
    },
    "the first number, or some more, are compared with themselves, or once more": {
        "reduce_...": ["range(1, n)  ->  range(1 - 1, n)", "1  ->  0  in  ...range(1, n)..."],
        "best_of": ["4  ->  3  in  ...4 * quarter..."],
    },
    "a block more, or a run more, is empty": {
        "layer_norm_backward": ["range(0, size, width)  ->  range(0, size + width, width)"],
        "argsort": ["width < n  ->  width <= n", "range(0, n, 2 * width)  ->  range(0, n + 2 * width, 2 * width)"],
        "ceil_div": ["1  ->  0  in  ...min(size, 1)... (2)"],
        "pack_b": ["range(first, last, AT_ONCE)  ->  range(first, last + AT_ONCE, AT_ONCE)"],
        "pack_a_columns": ["range(first, last, AT_ONCE)  ->  range(first, last + AT_ONCE, AT_ONCE)"],
        "attention_backward": ["range(0, M, LANES)  ->  range(0, M + LANES, LANES)"],
        "cross_entropy": ["range(start, stop, width)  ->  range(start, stop + width, width)"],
    },
    "a sum is even where the difference is": {"layer_norm_backward": ["end - begin  ->  end + begin"]},
    "a logarithm that is not stored is minus infinity, and not 0": {"cross_entropy": ["end - begin  ->  end + begin"]},
    "of one piece, or one task, the divisions say the same: it takes longer": {
        "task_range": [
            "...if tasks > 1 else (0, n)  ->  (n * task...",
            "tasks > 1  ->  tasks >= 1",
            "1  ->  0  in  ...if tasks > 1 else (0, n)",
        ],
        "ceil_div": [
            "...if size > unit else min(size, 1)  ->  (size + unit - 1) // unit",
            "size > unit  ->  size >= unit",
        ],
        "matmul": [
            "if across * down > 1:  ->  if True:",
            "across * down > 1  ->  across * down >= 1",
            "1  ->  0  in  if across * down > 1:",
        ],
    },
    "what the memory is asked for changes no number, only how long they take": {
        "macrokernel": [
            "if prefetching...:  ->  if True:",
            "if prefetching...:  ->  if False:",
            "prefetching and (last == K or not packed)  ->  ...",
            "last == K or not packed  ->  ... (2)",
            "last == K  ->  last != K (3)",
            "not packed  ->  packed  in  if prefetching...",
            "prefetch_tile(tile, y, i, j)  ->  pass",
            "y  ->  j  in  prefetch_tile(tile, y, i, j)",
            "prefetching and apart == 0  ->  ...",
            "apart == 0  ->  apart != 0",
            "0  ->  1  in  ...prefetching and apart == 0...",
        ],
        "matmul": [
            "M * K * a.itemsize > NEAR  ->  ...",
            "M * K * a.itemsize  ->  ...",
            "M  ->  n  in  ...M == 1...",
            "K  ->  N  in  ...M * K...",
        ],
    },
    "the same products one after the other, in tiles of another size or out of another place: it takes longer": {
        "matmul": [
            "end if over > MR_EDGE else end - over  ->  end",
            "over > MR_EDGE  ->  over >= MR_EDGE",
            "if packed_a.size > 0:  ->  if False:",
            "packed_a.size > 0  ->  packed_a.size < 0",
            "0  ->  1  in  if packed_a.size > 0:",
            "min(GROUP, panels)  ->  max(GROUP, panels)",
            "group if scratch.shape[1] >= group * deep else 1  ->  1",
            "scratch.shape[1] >= group * deep  ->  scratch.shape[1] > group * deep",
            "1  ->  ...  in  ...b.strides[1]...",
            "1  ->  2  in  ...max(K, 1)...",
            "end - begin >= MIN_ROWS and ...  ->  end - begin >= MIN_ROWS or ...",
            "end - begin >= MIN_ROWS  ->  ...",
            "end - begin  ->  end + begin (2)",
            "(last - first) * abs(b.strides[1])...  ->  ...b.strides...",
            "last - first  ->  last + first",
            "1  ->  2  in  ...zero_tile(y, 1, 2)...",
            "if M == 1...:  ->  if False:",
            "M == 1...  ->  b.strides[2] == b.itemsize",
            "M == 1  ->  M != 1",
            "M  ->  n  in  ...M * K...",
            "1  ->  ...  in  ...M == 1...",
            "1  ->  0  in  ...right - 4 * NR + 1...",
            "range(left, ...)  ->  range(left, ...- 4 * NR, 4 * NR)",
            "right - 4 * NR + 1  ->  ...",
            "1  ->  ...  in  ...over == 1...",
            "4  ->  5  in  ...4 * NR... (2)",
            "1  ->  2  in  ...zero_tile(y, 1, 8)...",
            "if packs_b...:  ->  if True:",
            "packs_b or b.strides[2] != b.itemsize  ->  b.strides[2] != b.itemsize",
            "if width % lanes(y) > 0:  ->  if True:",
            "width % lanes(y) > 0  ->  width % lanes(y) >= 0",
            "if over == 1:  ->  if True:",
            "if over == 1:  ->  if False:",
            "over == 1  ->  over != 1",
            "if over <= MR_EDGE:  ->  if True:",
            "over <= MR_EDGE  ->  over >= MR_EDGE",
        ],
        "pack_b": [
            "if b.strides[1] == b.itemsize:  ->  if False:",
            "if b.strides[0] == b.itemsize:  ->  if False:",
            "0  ->  1  in  ...b.strides[0]...",
        ],
        "pack_a_columns": ["if i + r + n <= end:  ->  if False:", "i + r + n <= end  ->  i + r + n < end"],
        "pack_a_rows": [
            "load(a, i, k) if k + n <= last else load_first(last - k, a, i, k)  ->  load_first(last - k, a, i, k)",
            "k + n <= last  ->  k + n < last",
        ],
    },
    "unfinished sums wait in y instead of in scratch, and where none is unfinished, none waits": {
        "matmul": [
            "min(mc, M)  ->  max(mc, M)",
            "min(nc, N)  ->  max(nc, N)",
            "K > KC and ...  ->  scratch.shape[1] >= group * deep + panels * high",
            "K > KC  ->  ...",
            "scratch.shape[1] >= group * deep + panels * high  ->  scratch.shape[1] > ...",
            "K  ->  N  in  sums_packed = ...",
            "0  ->  1  in  call = (...(panel, 0, False)...",
        ]
    },
    "packed tiles are two rows apart at least": {
        "macrokernel": ["0  ->  1  in  t = (i - above) // A_ROWS if apart > 0 else 0 (2)"]
    },
    "the mask is searched once more, or for the only query and key: it takes longer": {
        "attention...": [
            "if unit...:  ->  if True:",
            "mask.size > 0 and mask.strides[1] != 0  ->  ...",
            "mask.size > 0  ->  mask.size >= 0",
            "0  ->  1  in  ...h == 0... (2)",
        ]
    },
    "keys that no query sees, or all queries see, are looked at one by one: it takes longer": {
        "visible_range": [
            "number + 1  ->  number - 1",
            "1  ->  0  in  ...m + 1... (2)",
            "number < last  ->  number <= last",
        ],
        "attention": [
            "least, most, has_holes = (M, 0, False)  ->  pass",
            "M  ->  K  in  ...(M, 0, False)...",
            "if m + WIDTH > least:  ->  if True:",
            "m + WIDTH > least  ->  m + WIDTH >= least...",
            "if hidden:  ->  if True:...",
        ],
        "visible_ranges": ["0  ->  1  in  ...(M, 0)..."],
        "score_tile": ["if hidden:  ->  if True:..."],
        "attention_backward": [
            "if most[i] <= m:  ->  if False:",
            "most[i] <= m  ->  most[i] < m",
            "continue  ->  pass",
            "least[i] < m + LANES  ->  least[i] <= m + LANES",
        ],
        "attention_of_one": [
            "if has_holes or m + WIDTH > count:  ->  if True:",
            "m + WIDTH > count  ->  m + WIDTH >= count",
        ],
    },
    "it is set anew before it is read": {
        "attention": ["0  ->  1  in  tiles, least, most, has_holes = ..."],
        "attention_backward": ["has_holes = False  ->  pass"],
        "attention_of_one": ["count, has_holes = (0, False)  ->  pass", "0  ->  1  in  ...(0, False)..."],
    },
    "what is finite, or seen by all, needs no care: it takes longer": {
        "attention": ["hidden and (not finite...  ->  ...not finite..."],
        "attention_backward": ["if hidden and has_non_finite:  ->  if True:", "hidden and has_non_finite  ->  ..."],
        "finite": ["0  ->  1  in  ...sum_lanes(zeros) == 0..."],
        "zeros_of": ["0  ->  1  in  ...x.dtype.type(0)..."],
        "zeros_of_rows": ["0  ->  1  in  ...x.dtype.type(0)..."],
    },
    "half a register holds what a whole one does beyond its zeros: it takes longer": {
        "add_keys": ["columns <= HALF  ->  columns < HALF"],
        "accumulate": ["K - j  ->  K + j"],
    },
    "zeros stand beyond the last column": {
        "zeros_of_rows": ["range(0, x.shape[1], LANES)  ->  range(0, x.shape[1] + LANES, LANES)"]
    },
    "registers beyond those of a score tile are not read": {
        "registers_less_than": ["range(WIDTH)  ->  range(WIDTH + 1)"]
    },
    "2 is above 0, too": {"load_mask": ["1  ->  2  in  ...x.dtype.type(1)..."]},
    "what stands for it is multiplied by 0": {
        "masked_inner": ["0  ->  1  in  ...type(x[at])(0)..."],
        "masked_inner_rows": ["0  ->  1  in  ...splat(type(b[0])(0))), a)"],
        "masked_outer": ["0  ->  1  in  zeros = splat(type(x[at])(0))"],
    },
    "of this one nothing counts but its type": {
        "masked_inner_rows": ["0  ->  1  in  ...b[0]... (2)"],
        "zero_where_not": ["0  ->  1  in  ...register[0]... (2)"],
    },
    "where nothing is hidden, no row lies beyond the last key": {
        "attention_of_one": ["M - 1  ->  M + 1", "1  ->  0  in  ...M - 1..."]
    },
    "a block has whole tiles, so that its first row is a multiple of their height": {
        "matmul": ["end - begin  ->  end + begin"]
    },
    "what a tile has beyond its height and width is not stored": {
        "matmul": ["4  ->  5  in  call = (...4 * NR..."],
        "relu_tile": ["r < height and x <= type(x)(0)  ->  x <= type(x)(0)", "r < height  ->  r <= height"],
        "pack_b": ["0  ->  1  in  ...b.dtype.type(0)..."],
        "load_transposed": ["range(lanes(x))  ->  range(lanes(x) + 1)"],
    },
    "of infinity and NaN w >= w - w is false already": {
        "check_weights": ["valid and w >= w - w and ...  ->  valid and w >= w - w", "w  ->  j  in  ...w - w... (2)"]
    },
    "no array of the tests has 2^31 elements": {"drawn": ["32  ->  ...  in  ...index >> 32..."]},
    "the kernels give no sample in which a register would read beyond the array: that is an error": {
        "load_first": [
            "len(v) == n and ...  ->  ...n < 2 or x.strides...",
            "v + zeros if fits else ...  ->  v + zeros",
            "row + (max...  ->  row - (max...",
            "j + n - 1  ->  j + n + 1",
            "j + n  ->  j - n (2)",
            "max(j + n - 1, x.shape[-1])  ->  ...",
            "1  ->  ...  in  ...j + n - 1...",
            "-1  ->  1  in  ...x.shape[-1]...",
        ]
    },
    "in these kernels registers are filled from rows that lie in one piece (those of matrix products need not)": {
        "load_first": [
            "n < 2 or ...  ->  x.strides[-1] == x.itemsize",
            "len(v) == n and ...  ->  len(v) == n",
            "n < 2  ->  ...",
            "2  ->  ...  in  ...n < 2...",
        ]
    },
    "no number depends on which rows the memory is asked for in advance, or whether": {
        "attention_backward": [
            "if prefetching:  ->  if True:...",
            "if prefetching:  ->  if False:...",
            "q.size * q.itemsize > NEAR  ->  ...",
            "q.size * q.itemsize  ->  ...",
            "q  ->  k  in  ...q.size...",
            "min(unit + AHEAD, ...  ->  max(unit + AHEAD, ...",
            "unit + AHEAD  ->  unit - AHEAD",
            "B * H - 1  ->  B * H + 1",
            "B * H  ->  B / H (2)",
            "H  ->  B  in  ...later % H...",
            "1  ->  ...  in  ...B * H - 1...",
            "later // H  ->  later % H",
            "later % H  ->  later // H",
            "H  ->  B  in  ...B * H - 1...",
        ]
    },
}
