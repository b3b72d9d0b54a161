def right(S, real):
    return S.masked_fill(~real, -math.inf).softmax(-1)


def wrong_afterwards(S, real):
    return S.softmax(-1) * real


def wrong_rows(S, real):
    return S.masked_fill(~real.unsqueeze(1), -math.inf).softmax(-1)


def wrong_zero(S, real):
    return (S * real).softmax(-1)
