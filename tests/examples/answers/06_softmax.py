def right_1(V, excluded):
    """exp(-1000) is 0, so the others share the probability: q = 1 / (V - excluded), and the loss is -log q."""
    return math.log(V - excluded)


def wrong_1_as_if_fresh(V, excluded):
    return math.log(V)


def wrong_1_sign(V, excluded):
    return -math.log(V - excluded)


def wrong_1_share(V, excluded):
    return 1 / (V - excluded)


def right_2(L, t):
    """Each row needs its own largest logit: a row far below the largest of all has only exponentials that are 0."""
    d = L - L.max(-1, keepdim=True).values
    return (d.exp().sum(-1).log() - d[tt.arange(len(t)), t]).mean()


def wrong_2_largest_of_the_column(L, t):
    d = L - L.max(0, keepdim=True).values
    return (d.exp().sum(-1).log() - d[tt.arange(len(t)), t]).mean()


def wrong_2_mean_of_the_row(L, t):
    d = L - L.mean(-1, keepdim=True)
    return (d.exp().sum(-1).log() - d[tt.arange(len(t)), t]).mean()


def wrong_2_no_shift(L, t):
    return (L.exp().sum(-1).log() - L[tt.arange(len(t)), t]).mean()


def wrong_2_logarithm_of_a_quotient(L, t):
    return -L.softmax(-1)[tt.arange(len(t)), t].clamp(min=1e-30).log().mean()


def right_3(L, t):
    """The mean divides each row's loss by C, so it divides each row's gradient q - p by C."""
    return (L.softmax(-1) - F.one_hot(t, L.shape[1])) / L.shape[0]


def wrong_3_sum_for_mean(L, t):
    return L.softmax(-1) - F.one_hot(t, L.shape[1])


def wrong_3_sign(L, t):
    return (F.one_hot(t, L.shape[1]) - L.softmax(-1)) / L.shape[0]


def wrong_3_without_the_shift(L, t):
    return (L.exp() / L.exp().sum(-1, keepdim=True) - F.one_hot(t, L.shape[1])) / L.shape[0]


def right_4(pieces):
    """Keep the largest so far, m, and the sum of exp(x - m). When m grows to n, all terms so far take exp(m - n)."""
    m, total = -math.inf, 0.0
    for piece in pieces:
        n = max(m, *piece)
        total = total * math.exp(m - n) + sum(math.exp(x - n) for x in piece)
        m = n
    return m + math.log(total)


def wrong_4_no_shift(pieces):
    return math.log(sum(math.exp(x) for piece in pieces for x in piece))


def wrong_4_sum_is_not_rescaled(pieces):
    m, total = -math.inf, 0.0
    for piece in pieces:
        m = max(m, *piece)
        total += sum(math.exp(x - m) for x in piece)
    return m + math.log(total)


def wrong_4_first_piece_as_the_shift(pieces):
    m, total = None, 0.0
    for piece in pieces:
        m = max(piece) if m is None else m
        total += sum(math.exp(x - m) for x in piece)
    return m + math.log(total)


def wrong_4_keeps_the_pieces(pieces):
    logits = [x for piece in list(pieces) for x in piece]
    return max(logits, default=0.0)
