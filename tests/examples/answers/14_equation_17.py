def right_1(C, K):
    """C K entries of Y times C² of S. Y_ik depends on row i of S alone, so for each Y_ik only C entries are not 0."""
    return C * K * C * C, C * K * C


def wrong_1_all_of_them(C, K):
    return C * K * C * C, C * K * C * C


def wrong_1_diagonal(C, K):
    return C * K * C * C, C * K


def wrong_1_only_scores(C, K):
    return C * C * C * C, C * C * C


def right_2(σ, dσ):
    """The sum runs over m, the last index, and i is left: keepdim=True keeps the place of m, so that it broadcasts."""
    return σ * (dσ - (σ * dσ).sum(-1, keepdim=True))


def wrong_2_row_as_column(σ, dσ):
    return σ * (dσ - (σ * dσ).sum(-1))


def wrong_2_sum_of_all(σ, dσ):
    return σ * (dσ - (σ * dσ).sum())


def wrong_2_without_the_sum(σ, dσ):
    return σ * dσ


def wrong_2_sum_without_weights(σ, dσ):
    return σ * (dσ - dσ.sum(-1, keepdim=True))


def right_3(m, k):
    """v_mk stands in Y_ik for every i, with the slope σ_im: a position's value hears from all that looked at it."""
    return total(σ[i, m] * d(Y)[i, k], i)


def wrong_3_transposed(m, k):
    return total(σ[m, i] * d(Y)[i, k], i)


def wrong_3_one_share(m, k):
    return σ[m, m] * d(Y)[m, k]


def wrong_3_index_that_does_not_fit(m, k):
    return total(σ[i, k] * d(Y)[i, m], i)


def wrong_3_forgotten_sum(m, k):
    return σ[i, m] * d(Y)[i, k]


def right_4(i, m):
    """S_im has the slope S_im / t in t, which is the score without t; the shares of all scores add up."""
    plain = total(q[i, k] * keys[m, k], k) / sqrt(K)
    return t * plain, total(plain * d(S)[i, m], i, m)


def right_4_with_the_scores(i, m):
    """The same, with the score that is there already."""
    return t * total(q[i, k] * keys[m, k], k) / sqrt(K), total(S[i, m] * d(S)[i, m], i, m) / t


def wrong_4_t_is_left_in(i, m):
    return t * total(q[i, k] * keys[m, k], k) / sqrt(K), total(S[i, m] * d(S)[i, m], i, m)


def wrong_4_diagonal(i, m):
    plain = total(q[i, k] * keys[i, k], k) / sqrt(K)
    return t * total(q[i, k] * keys[m, k], k) / sqrt(K), total(plain * d(S)[i, i], i)


def wrong_4_root_forgotten(i, m):
    plain = total(q[i, k] * keys[m, k], k)
    return t * plain, total(plain * d(S)[i, m], i, m)


def wrong_4_one_score(i, m):
    plain = total(q[i, k] * keys[m, k], k) / sqrt(K)
    return t * plain, plain * d(S)[i, m]
