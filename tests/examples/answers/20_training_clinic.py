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
    "diagonal": lambda readings: readings.loss[0] != readings.loss[0],  # NaN differs from itself
    "gain": lambda readings: readings.loss[0] > 10,
    "clip": lambda readings: max(readings.step_length) > 1.01,
    "tied": lambda readings: readings.gradients[0][:2] == readings.gradients[0][2:],
    "evaluation": lambda readings: readings.repeats[0] != readings.repeats[1],
    "axis": lambda readings: abs(readings.neighbours[0] - readings.neighbours[1]) > 0.01,
    "softmax": lambda readings: min(readings.loss) > 3 and max(readings.gradient) < 1,
    "rate": lambda readings: max(readings.loss) > 10,
    "zero_grad": lambda readings: median(readings.gradient[-50:]) > 1,
    "text": lambda readings: readings.repeats[0] > 5,
    "shift": lambda readings: readings.positions[-1] < 1,
    "mask": lambda readings: mean(readings.positions[:-1]) < 1,
    "healthy": lambda readings: True,
}


def right_4(readings):
    """Look first for what no healthy run can show (NaN, a longer step, two results for one text), then at curves."""
    return next(name for name, sign in SIGNS.items() if sign(readings))


def wrong_4_all_healthy(readings):
    return "healthy"


def wrong_4_curves_alone(readings):
    without = {"clip", "tied", "evaluation", "axis"}
    return next(name for name, sign in SIGNS.items() if name not in without and sign(readings))


def wrong_4_rate_before_gain(readings):
    return "rate" if max(readings.loss) > 10 else right_4(readings)


def wrong_4_shift_for_mask(readings):
    said = right_4(readings)
    return "shift" if said == "mask" else said
