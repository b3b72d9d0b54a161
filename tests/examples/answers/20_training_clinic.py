import math
from statistics import mean, median


def right_1(i, g, rate, w, c):
    """A gradient of length g is shortened to c if it is longer; the rate is rate · i / w until it is full."""
    return rate * min(1, i / w) * min(g, c)


def wrong_1_warm_up_forever(i, g, rate, w, c):
    return rate * i / w * min(g, c)


def wrong_1_no_warm_up(i, g, rate, w, c):
    return rate * min(g, c)


def wrong_1_not_clipped(i, g, rate, w, c):
    return rate * min(1, i / w) * g


def wrong_1_always_c(i, g, rate, w, c):
    return rate * min(1, i / w) * c


def wrong_1_the_longer_one(i, g, rate, w, c):
    return rate * min(1, i / w) * max(g, c)


def right_2(p, loss, optimizer, c):
    """Old gradients away, new ones, clip them, then go: a gradient that is clipped after the step was used before."""
    optimizer.zero_grad()
    loss(p).backward()
    nn.utils.clip_grad_norm_([p], c)
    optimizer.step()


def wrong_2_clipped_after_the_step(p, loss, optimizer, c):
    optimizer.zero_grad()
    loss(p).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_([p], c)


def wrong_2_zeroed_at_the_end(p, loss, optimizer, c):
    loss(p).backward()
    nn.utils.clip_grad_norm_([p], c)
    optimizer.step()
    optimizer.zero_grad()


def wrong_2_zeroed_before_the_step(p, loss, optimizer, c):
    loss(p).backward()
    nn.utils.clip_grad_norm_([p], c)
    optimizer.zero_grad()
    optimizer.step()


def right_3(V):
    """The best q is 1 at t and 0 elsewhere: log(e + V - 1) - 1. If all are 1 / V: log(V exp(1 / V)) - 1 / V = log V."""
    return math.log(math.e + V - 1) - 1, math.log(V)


def wrong_3_zeros_left_out(V):
    return 0.0, math.log(V)


def wrong_3_one_too_many(V):
    return math.log(math.e + V) - 1, math.log(V)


def wrong_3_not_subtracted(V):
    return math.log(math.e + V - 1), math.log(V)


def wrong_3_fresh_twice(V):
    return math.log(math.e + V - 1) - 1, math.log(V) - 1 / V


SIGNS = {  # of each fault, in the order in which one looks for them; the last one is of a healthy run
    "own": lambda seen: seen.loss[0] != seen.loss[0],  # NaN differs from itself
    "size": lambda seen: seen.loss[0] > 10,
    "clipped": lambda seen: max(seen.moved) > 1.01,
    "tied": lambda seen: seen.gradients[0][:2] == seen.gradients[0][2:],
    "evaluation": lambda seen: seen.twice[0] != seen.twice[1],
    "axis": lambda seen: abs(seen.alone[0] - seen.alone[1]) > 0.01,
    "softmax": lambda seen: min(seen.loss) > 3 and max(seen.gradient) < 1,
    "rate": lambda seen: max(seen.loss) > 10,
    "zeroed": lambda seen: median(seen.gradient[-50:]) > 1,
    "text": lambda seen: seen.twice[0] > 5,
    "shift": lambda seen: seen.places[-1] < 1,
    "mask": lambda seen: mean(seen.places[:-1]) < 1,
    "healthy": lambda seen: True,
}


def right_4(seen):
    """Look first for what no healthy run can show (NaN, a longer step, two results for one text), then at curves."""
    return next(name for name, sign in SIGNS.items() if sign(seen))


def wrong_4_all_healthy(seen):
    return "healthy"


def wrong_4_curves_alone(seen):
    without = {"clipped", "tied", "evaluation", "axis"}
    return next(name for name, sign in SIGNS.items() if name not in without and sign(seen))


def wrong_4_rate_before_size(seen):
    return "rate" if max(seen.loss) > 10 else right_4(seen)


def wrong_4_shift_for_mask(seen):
    said = right_4(seen)
    return "shift" if said == "mask" else said
