import itertools
import math

import tinytensor as tt


def right_1(N, B, epochs):
    """Each epoch has N / B steps, rounded up; the last batch has the rest, or B texts if there is no rest."""
    return epochs * -(-N // B), N - (N - 1) // B * B


def right_1_counted(N, B, epochs):
    """All batches, as lists."""
    batches = [range(N)[i : i + B] for i in range(0, N, B)]
    return len(batches) * epochs, len(batches[-1])


def wrong_1_rest_is_left_out(N, B, epochs):
    return epochs * (N // B), N - (N - 1) // B * B


def wrong_1_rounded_at_the_end(N, B, epochs):
    return math.ceil(epochs * N / B), N - (N - 1) // B * B


def wrong_1_one_epoch(N, B, epochs):
    return -(-N // B), N - (N - 1) // B * B


def wrong_1_rest_of_0(N, B, epochs):
    return epochs * -(-N // B), N % B


def wrong_1_full_batch(N, B, epochs):
    return epochs * -(-N // B), B


def right_2(loss, parts, optimizer):
    """A part counts by its share of the texts: the sum of (m / N) · mean is the mean over all N."""
    optimizer.zero_grad()
    texts = sum(len(part) for part in parts)
    for part in parts:
        (loss(part) * len(part) / texts).backward()
    optimizer.step()


def right_2_one_text_at_a_time(loss, parts, optimizer):
    """All parts have the same size if each has one text."""
    optimizer.zero_grad()
    rows = [row for part in parts for row in part]
    for row in rows:
        (loss(row.unsqueeze(0)) / len(rows)).backward()
    optimizer.step()


def right_2_at_once(loss, parts, optimizer):
    """The whole batch, where the memory suffices."""
    optimizer.zero_grad()
    loss(tt.cat(parts)).backward()
    optimizer.step()


def wrong_2_equal_parts(loss, parts, optimizer):
    optimizer.zero_grad()
    for part in parts:
        (loss(part) / len(parts)).backward()
    optimizer.step()


def wrong_2_not_divided(loss, parts, optimizer):
    optimizer.zero_grad()
    for part in parts:
        loss(part).backward()
    optimizer.step()


def wrong_2_sum(loss, parts, optimizer):
    optimizer.zero_grad()
    for part in parts:
        (loss(part) * len(part)).backward()
    optimizer.step()


def wrong_2_divided_twice(loss, parts, optimizer):
    optimizer.zero_grad()
    for part in parts:
        (loss(part) / sum(map(len, parts))).backward()
    optimizer.step()


def wrong_2_old_gradient(loss, parts, optimizer):
    for part in parts:
        (loss(part) * len(part) / sum(map(len, parts))).backward()
    optimizer.step()


def wrong_2_zeroed_for_each_part(loss, parts, optimizer):
    for part in parts:
        optimizer.zero_grad()
        (loss(part) * len(part) / sum(map(len, parts))).backward()
    optimizer.step()


def right_3(g, B):
    """Two different ones have the covariance −σ² / (N − 1), since all N add up to N times the mean. So the variance of
    the mean is (B σ² − B (B − 1) σ² / (N − 1)) / B² = σ² / B · (N − B) / (N − 1)."""
    N, mean = len(g), sum(g) / len(g)
    return sum((x - mean) ** 2 for x in g) / N / B * (N - B) / (N - 1)


def right_3_all_choices(g, B):
    """All minibatches, one after the other: too many, but for small N."""
    means = [sum(chosen) / B for chosen in itertools.combinations(g, B)]
    return sum(x * x for x in means) / len(means) - (sum(g) / len(g)) ** 2


def wrong_3_with_repetition(g, B):
    return sum((x - sum(g) / len(g)) ** 2 for x in g) / len(g) / B


def wrong_3_n_below(g, B):
    return right_3(g, B) * (len(g) - 1) / len(g)


def wrong_3_sample_variance(g, B):
    return right_3(g, B) * len(g) / (len(g) - 1)


def wrong_3_sum(g, B):
    return right_3(g, B) * B * B


def wrong_3_deviation(g, B):
    return math.sqrt(right_3(g, B))


def wrong_3_single(g, B):
    return right_3(g, 1)


def right_4(layers, x, g, k):
    """Without a tape the inputs 0, k, 2 k, ... are kept; from the last one on, k layers at a time are run again."""
    kept = []
    with tt.no_grad():
        for i, layer in enumerate(layers):
            if i % k == 0:
                kept.append(x)
            x = layer(x)
    for first in range((len(kept) - 1) * k, -1, -k):
        start = kept.pop().requires_grad_()
        y = start
        for layer in layers[first : first + k]:
            y = layer(y)
        y.backward(g)
        g = start.grad
    return g


def right_4_other_boundaries(layers, x, g, k):
    """The odd layers at the beginning, not at the end; the last k layers run once."""
    bounds = [*range(len(layers), 0, -k), 0][::-1]
    kept = [x]
    with tt.no_grad():
        for first, end in itertools.pairwise(bounds[:-1]):
            for layer in layers[first:end]:
                x = layer(x)
            kept.append(x)
    for (first, end), start in reversed(list(zip(itertools.pairwise(bounds), kept))):
        y = start = start.clone().requires_grad_()
        for layer in layers[first:end]:
            y = layer(y)
        (g,) = tt.autograd.grad(y, start, g)
    return g


def wrong_4_all_on_the_tape(layers, x, g, k):
    x = y = x.requires_grad_()
    for layer in layers:
        y = layer(y)
    y.backward(g)
    return x.grad


def wrong_4_from_the_beginning(layers, x, g, k):
    for i in reversed(range(len(layers))):
        y = x
        with tt.no_grad():
            for layer in layers[:i]:
                y = layer(y)
        start = y.detach().requires_grad_()
        layers[i](start).backward(g)
        g = start.grad
    return g


def wrong_4_only_the_last_layers(layers, x, g, k):
    last = (len(layers) - 1) // k * k
    with tt.no_grad():
        for layer in layers[:last]:
            x = layer(x)
    y = x = x.detach().requires_grad_()
    for layer in layers[last:]:
        y = layer(y)
    y.backward(g)
    return x.grad


def wrong_4_without_g(layers, x, g, k):
    return right_4(layers, x, tt.ones(3, dtype=tt.float64), k)


def wrong_4_g_for_each_part(layers, x, g, k):
    y = start = x.requires_grad_()
    for layer in layers[:k]:
        y = layer(y)
    y.backward(g)
    return start.grad
