def right_1(slopes, nudges):
    """Each nudge moves the output by its slope times the nudge, and small changes add up."""
    return sum(slope * nudge for slope, nudge in zip(slopes, nudges, strict=True))


def wrong_1_sums_first(slopes, nudges):
    return sum(slopes) * sum(nudges)


def wrong_1_against_the_slope(slopes, nudges):
    return -sum(slope * nudge for slope, nudge in zip(slopes, nudges, strict=True))


def right_2(a, b, c):
    """c moves y through both boxes. Through d - c the local slope is -1, and the two parts are added."""
    e = a * b - c
    gradient_e = c
    return gradient_e * b, gradient_e * a, e - gradient_e


def wrong_2_only_the_sign(a, b, c):
    return c * b, c * a, -c


def wrong_2_only_the_sum(a, b, c):
    return c * b, c * a, a * b - c + c


def right_3(g, a, b):
    """a / b is a · b⁻¹: the slopes are b⁻¹ and -a · b⁻², and each is multiplied by what arrived."""
    return g / b, -g * a / b**2


def wrong_3_no_sign(g, a, b):
    return g / b, g * a / b**2


def wrong_3_local_slopes_alone(g, a, b):
    return 1 / b, -a / b**2


def wrong_3_as_a_product(g, a, b):
    return g * b, g * a


def right_4(f, inputs, h):
    """The run without a nudge serves all slopes; each nudge is made in a copy."""
    start = f(inputs)
    slopes = []
    for i in range(len(inputs)):
        nudged = list(inputs)
        nudged[i] += h
        slopes.append((f(nudged) - start) / h)
    return slopes


def wrong_4_nudges_stay(f, inputs, h):
    start = f(inputs)
    slopes = []
    for i in range(len(inputs)):
        inputs[i] += h
        slopes.append((f(inputs) - start) / h)
    return slopes


def wrong_4_nudges_stay_in_a_copy(f, inputs, h):
    start, nudged = f(inputs), list(inputs)
    slopes = []
    for i in range(len(inputs)):
        nudged[i] += h
        slopes.append((f(nudged) - start) / h)
    return slopes


def wrong_4_two_calls_each(f, inputs, h):
    return [
        (f([v + h * (i == k) for k, v in enumerate(inputs)]) - f([v - h * (i == k) for k, v in enumerate(inputs)]))
        / (2 * h)
        for i in range(len(inputs))
    ]


def wrong_4_not_divided(f, inputs, h):
    start = f(inputs)
    return [f([v + h * (i == k) for k, v in enumerate(inputs)]) - start for i in range(len(inputs))]
