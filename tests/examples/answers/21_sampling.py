import math


def right_1(a, b):
    """The loss is −(ln a + ln b) / 2 = −ln √(a b) nats; e to its power is 1 / √(a b), and nats / ln 2 are bits."""
    return 1 / math.sqrt(a * b), -math.log2(a * b) / 2


def wrong_1_mean_of_probabilities(a, b):
    return 2 / (a + b), -math.log2((a + b) / 2)


def wrong_1_mean_of_inverses(a, b):
    return (1 / a + 1 / b) / 2, -math.log2(a * b) / 2


def wrong_1_sum(a, b):
    return 1 / (a * b), -math.log2(a * b)


def wrong_1_nats(a, b):
    return 1 / math.sqrt(a * b), -math.log(a * b) / 2


def wrong_1_times_the_logarithm_of_2(a, b):
    return 1 / math.sqrt(a * b), -math.log(a * b) / 2 * math.log(2)


def wrong_1_loss(a, b):
    return -math.log(a * b) / 2, -math.log2(a * b) / 2


def wrong_1_2_to_the_nats(a, b):
    return 2 ** (-math.log(a * b) / 2), -math.log2(a * b) / 2


def wrong_1_e_to_the_bits(a, b):
    return math.exp(-math.log2(a * b) / 2), -math.log2(a * b) / 2


def right_2(q, p):
    """A word is kept if the likelier ones have less than p together; the first one always is, since 0 < p."""
    falling, order = q.sort(descending=True)
    kept = falling * (falling.cumsum(0) - falling < p)
    return (kept / kept.sum())[order.argsort()]


def right_2_word_by_word(q, p):
    """Take the likeliest word that is left, until the words have p together."""
    kept, left = tt.zeros_like(q), q.clone()
    while kept.sum().item() < p - 1e-12:
        i = left.argmax().item()
        kept[i], left[i] = q[i], -1.0
    return kept / kept.sum()


def wrong_2_as_it_was(q, p):
    falling, order = q.sort(descending=True)
    kept = falling * (falling.cumsum(0) < p)
    return (kept / kept.sum())[order.argsort()]


def wrong_2_at_least_one(q, p):
    falling, order = q.sort(descending=True)
    kept = falling * (falling.cumsum(0) < p)
    kept[0] = falling[0]
    return (kept / kept.sum())[order.argsort()]


def wrong_2_one_more(q, p):
    falling, order = q.sort(descending=True)
    before = falling.cumsum(0) - falling
    kept = falling * (before - falling.roll(1, 0) < p)
    return (kept / kept.sum())[order.argsort()]


def wrong_2_no_probabilities(q, p):
    falling, order = q.sort(descending=True)
    return (falling * (falling.cumsum(0) - falling < p))[order.argsort()]


def wrong_2_in_falling_order(q, p):
    falling = q.sort(descending=True)[0]
    kept = falling * (falling.cumsum(0) - falling < p)
    return kept / kept.sum()


def wrong_2_order_of_the_order(q, p):
    falling, order = q.sort(descending=True)
    kept = falling * (falling.cumsum(0) - falling < p)
    return (kept / kept.sum())[order]


def wrong_2_unlikeliest(q, p):
    rising, order = q.sort()
    kept = rising * (rising.cumsum(0) - rising < p)
    return (kept / kept.sum())[order.argsort()]


def wrong_2_each_of_them_above_p(q, p):
    kept = q * (q >= 1 - p)
    return kept / kept.sum()


def right_3(q, T):
    """q = e^L / Z, so q^(1/T) = e^(L/T) / Z^(1/T): divided by its sum it is softmax(L/T), and 0 stays 0."""
    powers = q ** (1 / T)
    return powers / powers.sum()


def right_3_with_logarithms(q, T):
    """ln q are logits, too: they are L minus a number that is the same for all words, which softmax does not see."""
    return (q.log() / T).softmax(0)


def wrong_3_divided(q, T):
    return (q / T) / (q / T).sum()


def wrong_3_softmax_of_probabilities(q, T):
    return (q / T).softmax(0)


def wrong_3_to_the_power_of_T(q, T):
    return q**T / (q**T).sum()


def wrong_3_no_sum(q, T):
    return q ** (1 / T)


def wrong_3_only_divided(q, T):
    return q / T


def wrong_3_without_softmax(q, T):
    return q.log() / T


def right_4(large, small):
    """x is proposed and accepted with min(small(x), large(x)). r has what is missing: the sums of both parts are 1."""
    missing = (large - small).clamp(min=0)
    return tt.minimum(large, small).sum(), missing / missing.sum()


def right_4_as_it_is_drawn(large, small):
    """The part is a mean over the proposals of the probability with which each is accepted."""
    accepted = (large / small).clamp(max=1)
    missing = large - small * accepted
    return (small * accepted).sum(), missing / missing.sum()


def wrong_4_mean_over_words(large, small):
    return (large / small).clamp(max=1).mean().item(), right_4(large, small)[1]


def wrong_4_large_proposes(large, small):
    return (large * (large / small).clamp(max=1)).sum().item(), right_4(large, small)[1]


def wrong_4_refused(large, small):
    return 1 - right_4(large, small)[0], right_4(large, small)[1]


def wrong_4_from_the_large_model(large, small):
    return right_4(large, small)[0], large


def wrong_4_no_sum(large, small):
    return right_4(large, small)[0], (large - small).clamp(min=0)


def wrong_4_negative(large, small):
    return right_4(large, small)[0], large - small


def wrong_4_too_often(large, small):
    return right_4(large, small)[0], right_4(small, large)[1]


def wrong_4_absolute(large, small):
    return right_4(large, small)[0], (large - small).abs() / (large - small).abs().sum()


def wrong_4_words_that_are_refused(large, small):
    refused = large * (1 - (large / small).clamp(max=1))
    return right_4(large, small)[0], refused / refused.sum()
