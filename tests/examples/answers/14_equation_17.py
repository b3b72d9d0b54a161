def right(h, m, k):
    return total(σ[h, i, m] * d(Y)[h, i, k], i)


def wrong_transposed(h, m, k):
    return total(σ[h, m, i] * d(Y)[h, i, k], i)


def wrong_one_share(h, m, k):
    return σ[h, m, m] * d(Y)[h, m, k]


def wrong_index(h, m, k):
    return total(σ[h, i, k] * d(Y)[h, i, m], i)
