def right_1(i, n):
    """All scores of the row are 0, and the mask leaves i + 1 of them, which share the weight."""
    return [1 / (i + 1) if j <= i else 0.0 for j in range(n)]


def wrong_1_no_mask(i, n):
    return [1 / n] * n


def wrong_1_not_itself(i, n):
    return [1 / max(i, 1) if j < i else 0.0 for j in range(n)]


def wrong_1_looks_at_nothing(i, n):
    return [0.0] * n


def wrong_1_only_itself(i, n):
    return [1.0 if j == i else 0.0 for j in range(n)]


def right_2(S, real):
    """Weights that are set to 0 after softmax leave a sum below 1. With -∞ before softmax the words share all of it."""
    return S.masked_fill(~real, -math.inf).softmax(-1)


def wrong_2_rows(S, real):
    return S.masked_fill(~real.unsqueeze(1), -math.inf).softmax(-1)


def wrong_2_score_of_zero(S, real):
    return (S * real).softmax(-1)


def wrong_2_afterwards(S, real):
    return S.softmax(-1).masked_fill(~real, 0.0)


def wrong_2_plus_infinity(S, real):
    return S.masked_fill(~real, math.inf).softmax(-1)


def wrong_2_all_zero(S, real):
    return tt.zeros(*S.shape)


def right_3(w, V, g):
    """v_j · g arrives at w_j. Softmax makes w_j (v_j · g - Σ_i w_i v_i · g) of it, and Σ_i w_i v_i is y.

    So the gradient is w_j (v_j - y) · g: what counts is how a word's value differs from the result.
    """
    return w * ((V - w @ V) @ g)


def wrong_3_no_mean(w, V, g):
    return w * (V @ g)


def wrong_3_gradient_of_the_weights(w, V, g):
    return V @ g


def wrong_3_only_its_own_weight(w, V, g):
    return w * (1 - w) * (V @ g)


def wrong_3_unweighted_mean(w, V, g):
    return w * ((V - V.mean(0)) @ g)


def right_4(n):
    """The key of word j is row j of the unit matrix; the query of word i is a large multiple of row i - 1.

    Their product is large for j = i - 1, and 0 otherwise. Divided by √n it must still be well above log n.
    """
    W_q = tt.zeros(n, n)
    for i in range(1, n):
        W_q[i, i - 1] = 20 * math.sqrt(n)
    return W_q, tt.eye(n)


def wrong_4_looks_ahead(n):
    return tuple(reversed(right_4(n)))


def wrong_4_weak(n):
    W_q, W_k = right_4(n)
    return W_q / (20 * math.sqrt(n)), W_k


def wrong_4_itself(n):
    return 100 * tt.eye(n), tt.eye(n)


def wrong_4_root_forgotten(n):
    W_q, W_k = right_4(n)
    return 8 * W_q / (20 * math.sqrt(n)), W_k
