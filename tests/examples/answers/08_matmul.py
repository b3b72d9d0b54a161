def right_1(n, size):
    """A line holds 64 / size neighbours of a row. Those of a column are a row apart, each in a line of its own."""
    return n * size // 64, n


def wrong_1_alike(n, size):
    return n * size // 64, n * size // 64


def wrong_1_numbers(n, size):
    return n, n


def wrong_1_sixteen_of_any_size(n, size):
    return n // 16, n


def wrong_1_exchanged(n, size):
    return n, n * size // 64


def right_2(a, b, y):
    """The last tiles may be smaller: begin one wherever rows and columns are left, and give it the size of what is."""
    for i in range(0, y.shape[0], 6):
        for j in range(0, y.shape[1], 16):
            tile = np.zeros(y[i : i + 6, j : j + 16].shape)
            for k in range(a.shape[1]):
                tile += a[i : i + 6, k, None] * b[k, j : j + 16]
            y[i : i + 6, j : j + 16] = tile


def right_2_last_tile_overlaps(a, b, y):
    """Another way: a last tile that ends at the edge, and computes some numbers twice."""
    for i in [*range(0, y.shape[0] - 6, 6), max(y.shape[0] - 6, 0)]:
        for j in [*range(0, y.shape[1] - 16, 16), max(y.shape[1] - 16, 0)]:
            y[i : i + 6, j : j + 16] = a[i : i + 6] @ b[:, j : j + 16]


def wrong_2_tiles_stay_whole(a, b, y):
    for i in range(0, y.shape[0], 6):
        for j in range(0, y.shape[1], 16):
            tile = np.zeros((6, 16))
            for k in range(a.shape[1]):
                tile += a[i : i + 6, k, None] * b[k, j : j + 16]
            y[i : i + 6, j : j + 16] = tile


def wrong_2_only_rows(a, b, y):
    for i in range(0, y.shape[0], 6):
        for j in range(0, y.shape[1] // 16 * 16, 16):
            y[i : i + 6, j : j + 16] = a[i : i + 6] @ b[:, j : j + 16]


def wrong_2_rest_is_zero(a, b, y):
    y[:] = 0
    answer_2(a, b, y)


def right_3(g, a, b, grad_a, grad_b):
    """y_ij = Σ_k a_ik b_kj: a_ik stands in row i of y, with the factor b_kj; b_kj in column j, with the factor a_ik.

    So grad_a_ik = Σ_j g_ij b_kj, where j runs along rows of g and b, and grad_b_kj = Σ_i a_ik g_ij, where j runs along
    rows of grad_b and g.
    """
    grad_a[:] = 0
    grad_b[:] = 0
    for i in range(g.shape[0]):
        for k in range(a.shape[1]):
            for j in range(g.shape[1]):
                grad_a[i, k] += g[i, j] * b[k, j]
                grad_b[k, j] += a[i, k] * g[i, j]
    return True


def wrong_3_adds_to_what_was_there(g, a, b, grad_a, grad_b):
    for i in range(g.shape[0]):
        for k in range(a.shape[1]):
            for j in range(g.shape[1]):
                grad_a[i, k] += g[i, j] * b[k, j]
                grad_b[k, j] += a[i, k] * g[i, j]
    return True


def wrong_3_range(g, a, b, grad_a, grad_b):
    right_3(g, a, b, grad_a, grad_b)
    grad_b[:] = 0
    for i in range(g.shape[0] - 1):
        for k in range(a.shape[1]):
            for j in range(g.shape[1]):
                grad_b[k, j] += a[i, k] * g[i, j]
    return True


def wrong_3_as_if_g_were_1(g, a, b, grad_a, grad_b):
    grad_a[:] = b.sum(1)
    grad_b[:] = a.sum(0)[:, None]
    return True


def right_4(a, b, y, size):
    """Tiles below the diagonal are whole products, tiles on it are products that are cut, and those above are 0."""
    y[:] = 0
    tiles = 0
    for i in range(0, len(y), size):
        for j in range(0, i + 1, size):
            tile = a[i : i + size] @ b[:, j : j + size]
            y[i : i + size, j : j + size] = np.tril(tile) if i == j else tile
            tiles += 1
    return tiles


def wrong_4_all_tiles(a, b, y, size):
    y[:] = np.tril(a @ b)
    return (len(y) // size) ** 2


def wrong_4_diagonal_forgotten(a, b, y, size):
    y[:] = 0
    tiles = 0
    for i in range(0, len(y), size):
        for j in range(0, i, size):
            y[i : i + size, j : j + size] = a[i : i + size] @ b[:, j : j + size]
            tiles += 1
    return tiles


def wrong_4_diagonal_not_cut(a, b, y, size):
    y[:] = 0
    tiles = 0
    for i in range(0, len(y), size):
        for j in range(0, i + 1, size):
            y[i : i + size, j : j + size] = a[i : i + size] @ b[:, j : j + size]
            tiles += 1
    return tiles


def wrong_4_above_not_written(a, b, y, size):
    tiles = 0
    for i in range(0, len(y), size):
        for j in range(0, i + 1, size):
            tile = a[i : i + size] @ b[:, j : j + size]
            y[i : i + size, j : j + size] = np.tril(tile) if i == j else tile
            tiles += 1
    return tiles
