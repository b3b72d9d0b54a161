def right_1(a, b):
    """The tape holds a, b, a b and y. The sources of y are a b and a, and the slope of a factor is the other one."""
    return [(2, a), (0, a * b)]


def wrong_1_own_values(a, b):
    return [(2, a * b), (0, a)]


def wrong_1_whole_formula(a, b):
    return [(0, 2 * a * b), (1, a * a)]


def right_2(a, b):
    """The slopes are read while the product is made, as the lesson's tape does it; `back` only uses them."""
    y = Value(a.data * b.data)
    slope_a, slope_b = b.data, a.data

    def back():
        a.grad += slope_a * y.grad
        b.grad += slope_b * y.grad

    y.back = back
    return y


def wrong_2_one_of_two(a, b):
    y = Value(a.data * b.data)
    slope_b = a.data

    def back():
        a.grad += b.data * y.grad
        b.grad += slope_b * y.grad

    y.back = back
    return y


def wrong_2_replaces(a, b):
    y = Value(a.data * b.data)
    slope_a, slope_b = b.data, a.data

    def back():
        a.grad = slope_a * y.grad
        b.grad = slope_b * y.grad

    y.back = back
    return y


def right_3(a, b):
    """For a fixed b the slope is b a^(b - 1). For a fixed a it is the result times ln a, since a^b = e^(b ln a)."""
    y = a.data**b.data
    return Value(y, [(a, b.data * a.data ** (b.data - 1)), (b, y * math.log(a.data))])


def wrong_3_slope_is_the_result(a, b):
    y = a.data**b.data
    return Value(y, [(a, b.data * a.data ** (b.data - 1)), (b, y)])


def wrong_3_both_as_powers(a, b):
    slope = b.data * a.data ** (b.data - 1)
    return Value(a.data**b.data, [(a, slope), (b, slope)])


def wrong_3_nothing_is_noted(a, b):
    return Value(a.data**b.data)


def right_4(tape, start):
    """An entry moves as its sources move, each times its slope; they stand earlier on the tape, so they are known."""
    moves = {start: 1.0}
    for value in tape:
        if value is not start:
            moves[value] = sum(slope * moves[source] for source, slope in value.sources)
    return [moves[value] for value in tape]


def wrong_4_only_start(tape, start):
    return [float(value is start) for value in tape]


def wrong_4_replaces(tape, start):
    moves = {}
    for value in tape:
        moves[value] = float(value is start)
        for source, slope in value.sources:
            moves[value] = slope * moves[source]
    return [moves[value] for value in tape]


def wrong_4_backwards(tape, start):
    tape[-1].backward()
    return [value.grad for value in tape]
