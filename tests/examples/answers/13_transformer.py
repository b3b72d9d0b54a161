import math


def right_1(V, never):
    """V - never characters are equally likely, so each has the probability 1 / (V - never)."""
    return math.log(V - never)


def wrong_1_all_characters(V, never):
    return math.log(V)


def wrong_1_difference_of_logarithms(V, never):
    return math.log(V) - math.log(never)


def right_2(tokens, starts, C):
    """The right token of each place is the next one. Without the shift the model only had to copy what it saw."""
    indices = starts.unsqueeze(1) + tt.arange(C)
    return tokens[indices], tokens[indices + 1]


def wrong_2_one_before(tokens, starts, C):
    indices = starts.unsqueeze(1) + tt.arange(C)
    return tokens[indices + 1], tokens[indices]


def wrong_2_a_context_later(tokens, starts, C):
    indices = starts.unsqueeze(1) + tt.arange(C)
    return tokens[indices], tokens[indices + C]


def wrong_2_one_too_few(tokens, starts, C):
    positions = starts.unsqueeze(1) + tt.arange(C)
    return tokens[positions[:, :-1]], tokens[positions[:, 1:]]


def right_3(t, dZ, V):
    """Row v of E is used once for each place that holds token v: these gradients add up."""
    dE = tt.zeros(V, dZ.shape[1])
    for index, token in enumerate(t):
        dE[token] += dZ[index]
    return dE


def right_3_as_a_product(t, dZ, V):
    """Z = (one-hot rows of t) E + P, and the gradient of a product A E with respect to E is Aᵀ times what arrives."""
    return F.one_hot(tt.tensor(t), V).to(dZ.dtype).T @ dZ


def wrong_3_the_last_one_stays(t, dZ, V):
    dE = tt.zeros(V, dZ.shape[1])
    for index, token in enumerate(t):
        dE[token] = dZ[index]
    return dE


def wrong_3_rows_of_places(t, dZ, V):
    return dZ


def wrong_3_mean(t, dZ, V):
    dE = tt.zeros(V, dZ.shape[1])
    for index, token in enumerate(t):
        dE[token] += dZ[index] / t.count(token)
    return dE


def right_4(L, t, counted):
    """The mean of the counted terms divides by their number, and so does q - p in their rows; other rows are 0."""
    N = counted.sum()
    loss = -(L.log_softmax(-1)[range(len(t)), t] * counted).sum() / N
    return loss, (L.softmax(-1) - F.one_hot(t, L.shape[1])) * counted.unsqueeze(1) / N


def wrong_4_over_all_positions(L, t, counted):
    loss = -(L.log_softmax(-1)[range(len(t)), t] * counted).mean()
    return loss, (L.softmax(-1) - F.one_hot(t, L.shape[1])) * counted.unsqueeze(1) / len(t)


def wrong_4_padding_has_a_gradient(L, t, counted):
    return right_4(L, t, counted)[0], (L.softmax(-1) - F.one_hot(t, L.shape[1])) / counted.sum()


def wrong_4_first_ones(L, t, counted):
    N = int(counted.sum().item())
    return F.cross_entropy(L[:N], t[:N]), right_4(L, t, counted)[1]


def wrong_4_divided_by_3(L, t, counted):
    return -(L.log_softmax(-1)[range(len(t)), t] * counted).sum() / 3, right_4(L, t, counted)[1]


def wrong_4_logits_masked(L, t, counted):
    return F.cross_entropy(L * counted.unsqueeze(-1), t), right_4(L, t, counted)[1]


def wrong_4_sign(L, t, counted):
    loss, gradient = right_4(L, t, counted)
    return loss, -gradient
