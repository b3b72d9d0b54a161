def right_1(n):
    """Round k gives the decoder k rows, so there are 1 + 2 + … + n of them; with a cache each round adds one row."""
    return n * (n + 1) // 2, n


def wrong_1_square(n):
    return n * n, n


def wrong_1_without_begin(n):
    return n * (n - 1) // 2, n - 1


def right_2(outputs):
    """`roll` brings the last place to the front, where ∅ must stand."""
    return tt.cat([tt.full_like(outputs[:, :1], BEGIN), outputs[:, :-1]], dim=1)


def wrong_2_not_shifted(outputs):
    return outputs


def wrong_2_rolled(outputs):
    return outputs.roll(1, 1)


def wrong_2_one_longer(outputs):
    return tt.cat([tt.full_like(outputs[:, :1], BEGIN), outputs], dim=1)


def wrong_2_to_the_left(outputs):
    return tt.cat([outputs[:, 1:], tt.full_like(outputs[:, :1], PAD)], dim=1)


def right_3(logits, outputs):
    """The logarithm of a product is a sum: ln P = Σ ln softmax(logits) at the right words, without those of PAD."""
    each = logits.log_softmax(-1).gather(-1, outputs[..., None])[..., 0]
    return (each * (outputs != PAD)).sum(-1)


def wrong_3_counts_pad(logits, outputs):
    return logits.log_softmax(-1).gather(-1, outputs[..., None])[..., 0].sum(-1)


def wrong_3_mean(logits, outputs):
    return right_3(logits, outputs) / (outputs != PAD).sum(-1)


def wrong_3_without_stop(logits, outputs):
    each = logits.log_softmax(-1).gather(-1, outputs[..., None])[..., 0]
    return (each * (outputs > STOP)).sum(-1)


def wrong_3_sum_of_probabilities(logits, outputs):
    each = logits.softmax(-1).gather(-1, outputs[..., None])[..., 0]
    return (each * (outputs != PAD)).sum(-1).log()


def wrong_3_one_number(logits, outputs):
    return right_3(logits, outputs).sum()


def right_4(log_p, beam, length):
    """Extend all that are kept by all words, then keep the likeliest of all of them, whatever they began with."""
    kept = [(0.0, [])]
    for _ in range(length):
        longer = [(p + q, [*words, i]) for p, words in kept for i, q in enumerate(log_p(words))]
        kept = sorted(longer, reverse=True)[:beam]
    return kept[0][1]


def wrong_4_greedy(log_p, beam, length):
    words = []
    for _ in range(length):
        row = log_p(words)
        words.append(row.index(max(row)))
    return words


def wrong_4_the_last_word_alone(log_p, beam, length):
    kept = [(0.0, [])]
    for _ in range(length):
        longer = [(q, [*words, i]) for _, words in kept for i, q in enumerate(log_p(words))]
        kept = sorted(longer, reverse=True)[:beam]
    return kept[0][1]


def wrong_4_everything(log_p, beam, length):
    return right_4(log_p, 10**6, length)


def wrong_4_the_least_likely(log_p, beam, length):
    kept = [(0.0, [])]
    for _ in range(length):
        longer = [(p + q, [*words, i]) for p, words in kept for i, q in enumerate(log_p(words))]
        kept = sorted(longer)[:beam]
    return kept[0][1]


def wrong_4_a_beam_of_each_beginning(log_p, beam, length):
    kept = [(0.0, [])]
    for _ in range(length):
        longer = [sorted(((p + q, [*words, i]) for i, q in enumerate(log_p(words))), reverse=True) for p, words in kept]
        kept = [pair for each in longer for pair in each[:beam]]
    return max(kept)[1]
