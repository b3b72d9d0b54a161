def right_1(tokens):
    """The last place predicts nothing, and no later one reads it: its token counts only if it stands elsewhere, too."""
    return len(set(tokens[:-1]))


def wrong_1_all_tokens(tokens):
    return len(set(tokens))


def wrong_1_places(tokens):
    return len(tokens) - 1


def wrong_1_the_whole_vocabulary(tokens):
    return 8


def right_2(Y, W):
    """Head h stands at the places h K to (h + 1) K of Ŷ, and so meets these rows of W."""
    H, K = Y.shape
    return tt.stack([Y[h] @ W[h * K : (h + 1) * K] for h in range(H)])


def wrong_2_as_it_was(Y, W):
    H, Y_hat = len(Y), Y.flatten()
    return tt.stack([Y_hat[h::H] @ W[h::H] for h in range(H)])


def wrong_2_every_head_gets_a_share(Y, W):
    return (Y.flatten() @ W / len(Y)).expand(len(Y), -1)


def wrong_2_rows_of_another_head(Y, W):
    H, K = Y.shape
    return tt.stack([Y[h] @ W[(H - 1 - h) * K : (H - h) * K] for h in range(H)])


def right_3(w, g, rate, decay):
    """m / (1 − β₁) = g and v / (1 − β₂) = g², so the quotient is g / |g|, the sign of g: 1, −1, or 0."""
    return w - rate * decay * w - rate * ((g > 0) - (g < 0))


def wrong_3_the_step_of_equation_18(w, g, rate, decay):
    return w - rate * decay * w - rate * g


def wrong_3_no_decay(w, g, rate, decay):
    return w - rate * ((g > 0) - (g < 0))


def wrong_3_decay_without_the_rate(w, g, rate, decay):
    return w - decay * w - rate * ((g > 0) - (g < 0))


def wrong_3_a_zero_is_positive(w, g, rate, decay):
    return w - rate * decay * w - rate * (1 if g >= 0 else -1)


def right_4(S, v, g):
    """∂𝓛/∂S_m = α_m (g · v_m − Σ_k α_k g · v_k), and α_m > 0: the sign is that of the difference."""
    slopes = v @ g
    mean = S.softmax(-1) @ slopes
    return [m for m, slope in enumerate(slopes.tolist()) if slope < mean.item()]


def wrong_4_without_softmax(S, v, g):
    return [m for m, slope in enumerate((v @ g).tolist()) if slope < 0]


def wrong_4_the_other_side(S, v, g):
    slopes = v @ g
    mean = S.softmax(-1) @ slopes
    return [m for m, slope in enumerate(slopes.tolist()) if slope > mean.item()]


def wrong_4_an_equal_mean(S, v, g):
    slopes = v @ g
    return [m for m, slope in enumerate(slopes.tolist()) if slope < slopes.mean().item()]
