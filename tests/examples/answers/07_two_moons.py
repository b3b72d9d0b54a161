def right_1(x, w, b, v):
    """On the flat side nothing changes with w; on the other side y = v (w x + b), with the slope v x."""
    return v * x if w * x + b > 0 else 0.0


def wrong_1_no_fold(x, w, b, v):
    return v * x


def wrong_1_side_of_x(x, w, b, v):
    return v * x if x > 0 else 0.0


def wrong_1_other_side(x, w, b, v):
    return v * x if w * x + b < 0 else 0.0


def wrong_1_derivative_with_respect_to_x(x, w, b, v):
    return v * w if w * x + b > 0 else 0.0


def right_2(logits, y):
    """The sigmoid of 0 is 1/2: the threshold of a logit is 0. That of a probability is 0.5."""
    return ((logits > 0) == (y == 1)).to(tt.float32).mean().item()


def wrong_2_threshold_of_a_probability(logits, y):
    return ((logits > 0.5) == (y == 1)).to(tt.float32).mean().item()


def wrong_2_share_of_ones(logits, y):
    return (logits > 0).to(tt.float32).mean().item()


def wrong_2_always_half(logits, y):
    return 0.5


def wrong_2_only_moon_1(logits, y):
    return ((logits > 0) & (y == 1)).to(tt.float32).mean().item()


def right_3(W_1, b_1, W_2, b_2):
    """(X W_1 + b_1) W_2 + b_2 = X (W_1 W_2) + (b_1 W_2 + b_2): products of matrices may be bracketed anew."""
    return W_1 @ W_2, b_1 @ W_2 + b_2


def wrong_3_first_bias_forgotten(W_1, b_1, W_2, b_2):
    return W_1 @ W_2, b_2


def wrong_3_no_bias(W_1, b_1, W_2, b_2):
    return W_1 @ W_2, 0 * b_2


def right_4(xs, ys):
    """At x_0 all folds are 0, so b = y_0. At each fold the slope changes by its weight: c_i is the change of slope."""
    slopes = [(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(xs) - 1)]
    return ys[0], [slope - before for slope, before in zip(slopes, [0.0, *slopes])]


def wrong_4_slopes_themselves(xs, ys):
    return ys[0], [(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(xs) - 1)]


def wrong_4_heights(xs, ys):
    return ys[0], [ys[i + 1] - ys[i] for i in range(len(xs) - 1)]


def wrong_4_no_height(xs, ys):
    return 0.0, right_4(xs, ys)[1]
