import math

import tinytensor as tt
import tinytensor.nn.functional as F


def right_1(size, g, depth):
    """X W has g² times the mean square, max(0, .) halves it, and the size is its root. Without it g = 1 is enough."""
    return size * (g / math.sqrt(2)) ** depth, 1.0


def wrong_1_without_the_fold(size, g, depth):
    return size * g**depth, 1.0


def wrong_1_halved(size, g, depth):
    return size * (g / 2) ** depth, 1.0


def wrong_1_mean_square(size, g, depth):
    return size**2 * (g * g / 2) ** depth, 1.0


def wrong_1_without_the_input(size, g, depth):
    return (g / math.sqrt(2)) ** depth, 1.0


def wrong_1_added(size, g, depth):
    return size * depth * g / math.sqrt(2), 1.0


def wrong_1_root_of_two(size, g, depth):
    return right_1(size, g, depth)[0], math.sqrt(2)


def right_2(X, eps):
    """`std` divides by D − 1, and ε stood outside the root, where it leaves the root's slope infinite at 0."""
    return (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def right_2_of_the_library(X, eps):
    """The function itself."""
    return F.layer_norm(X, X.shape[-1:], eps=eps)


def wrong_2_as_it_was(X, eps):
    return (X - X.mean(-1, keepdim=True)) / (X.std(-1, keepdim=True) + eps)


def wrong_2_biased_alone(X, eps):
    return (X - X.mean(-1, keepdim=True)) / (X.std(-1, keepdim=True, unbiased=False) + eps)


def wrong_2_inside_alone(X, eps):
    return (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True) + eps).sqrt()


def wrong_2_square_of_eps(X, eps):
    return (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True, unbiased=False) + eps**2).sqrt()


def wrong_2_no_eps(X, eps):
    return F.layer_norm(X, X.shape[-1:], eps=0.0)


def wrong_2_columns(X, eps):
    return F.layer_norm(X.T, X.shape[:1], eps=eps).T


def wrong_2_all_numbers(X, eps):
    return F.layer_norm(X, X.shape, eps=eps)


def wrong_2_variance(X, eps):
    return (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True, unbiased=False) + eps)


def wrong_2_mean_stays(X, eps):
    return X / (X.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def right_3(s, depth):
    """Each norm divides by √(1 + s²), so that is a power; one norm at the end divides once by √(1 + depth s²)."""
    return (1 + s * s) ** (-depth / 2), (1 + depth * s * s) ** -0.5


def wrong_3_without_the_root(s, depth):
    return (1 + s * s) ** -depth, (1 + depth * s * s) ** -0.5


def wrong_3_sizes(s, depth):
    return (1 + s) ** -depth, (1 + depth * s * s) ** -0.5


def wrong_3_one_norm(s, depth):
    return (1 + s * s) ** -0.5, (1 + depth * s * s) ** -0.5


def wrong_3_both_at_the_end(s, depth):
    return (1 + depth * s * s) ** -0.5, (1 + depth * s * s) ** -0.5


def wrong_3_mean_square(s, depth):
    return (1 + s * s) ** (-depth / 2), 1 / (1 + depth * s * s)


def wrong_3_sum_of_sizes(s, depth):
    return (1 + s * s) ** (-depth / 2), 1 / (1 + depth * s)


def wrong_3_one_sublayer(s, depth):
    return (1 + s * s) ** (-depth / 2), (1 + s * s) ** -0.5


def wrong_3_both_powers(s, depth):
    return (1 + s * s) ** (-depth / 2), (1 + s * s) ** (-depth / 2)


def right_4(batches, momentum, eps, X):
    """Mean and variance are those of the columns; with each batch what was kept is multiplied by 1 − momentum."""
    mean, var = 0.0, 1.0
    for batch in batches:
        mean = (1 - momentum) * mean + momentum * batch.mean(0)
        var = (1 - momentum) * var + momentum * batch.var(0)
    return (X - mean) / (var + eps).sqrt()


def right_4_step_by_step(batches, momentum, eps, X):
    """The same as a step towards the batch."""
    mean, var = tt.zeros(X.shape[1]).double(), tt.ones(X.shape[1]).double()
    for batch in batches:
        mean += momentum * (batch.sum(0) / len(batch) - mean)
        var += momentum * (((batch - batch.mean(0)) ** 2).sum(0) / (len(batch) - 1) - var)
    return (X - mean) * (var + eps) ** -0.5


def after_training(batches, share, eps, X, var=1.0, unbiased=True):
    """`right_4` with a mistake."""
    mean = 0.0
    for batch in batches:
        mean = (1 - share) * mean + share * batch.mean(0)
        var = (1 - share) * var + share * batch.var(0, unbiased=unbiased)
    return (X - mean) / (var + eps).sqrt()


def wrong_4_biased(batches, momentum, eps, X):
    return after_training(batches, momentum, eps, X, unbiased=False)


def wrong_4_momentum_of_the_old(batches, momentum, eps, X):
    return after_training(batches, 1 - momentum, eps, X)


def wrong_4_begins_with_0(batches, momentum, eps, X):
    return after_training(batches, momentum, eps, X, var=0.0)


def wrong_4_last_batch(batches, momentum, eps, X):
    return after_training(batches, 1.0, eps, X)


def wrong_4_only_the_last_one_is_kept(batches, momentum, eps, X):
    return after_training(batches[-1:], momentum, eps, X)


def wrong_4_of_x(batches, momentum, eps, X):
    return after_training([X], 1.0, eps, X, unbiased=False)
