def right_1(n, d):
    """sin² + cos² = 1 for each of the d / 2 clocks: all positions are equally long, so none is louder than another."""
    return math.sqrt(d / 2)


def wrong_1_all_components(n, d):
    return math.sqrt(d)


def wrong_1_square(n, d):
    return d / 2


def wrong_1_grows(n, d):
    return float(n)


def right_2(n, d):
    """The sine and the cosine of a pair need the same angle: i - i % 2 is the number of the pair's first component."""
    return [(math.cos if i % 2 else math.sin)(n / 10000 ** ((i - i % 2) / d)) for i in range(d)]


def wrong_2_next_even(n, d):
    return [(math.cos if i % 2 else math.sin)(n / 10000 ** ((i + i % 2) / d)) for i in range(d)]


def wrong_2_only_sines(n, d):
    return [math.sin(n / 10000 ** ((i - i % 2) / d)) for i in range(d)]


def wrong_2_exchanged(n, d):
    return [(math.sin if i % 2 else math.cos)(n / 10000 ** ((i - i % 2) / d)) for i in range(d)]


def right_3(k, d):
    """Each clock gives the cosine of the angle between its hands, which is k times its speed."""
    return sum(math.cos(k / 10000 ** (2 * j / d)) for j in range(d // 2))


def wrong_3_each_component(k, d):
    return sum(math.cos(k / 10000 ** (i / d)) for i in range(d))


def wrong_3_sine(k, d):
    return sum(math.sin(k / 10000 ** (2 * j / d)) for j in range(d // 2))


def right_4(x, n):
    """Both hands turn with their positions, so the angle between them depends on n - m alone."""
    turned = []
    for j in range(len(x) // 2):
        a = n * 10000 ** (-2 * j / len(x))
        first, second = x[2 * j], x[2 * j + 1]
        turned += [first * math.cos(a) - second * math.sin(a), first * math.sin(a) + second * math.cos(a)]
    return turned


def wrong_4_encoding_added(x, n):
    return [a + b for a, b in zip(x, encoding(n, len(x)), strict=True)]


def wrong_4_one_speed(x, n):
    turned = []
    for j in range(len(x) // 2):
        first, second = x[2 * j], x[2 * j + 1]
        turned += [first * math.cos(n) - second * math.sin(n), first * math.sin(n) + second * math.cos(n)]
    return turned


def wrong_4_overwritten(x, n):
    x = list(x)
    for j in range(len(x) // 2):
        a = n * 10000 ** (-2 * j / len(x))
        x[2 * j] = x[2 * j] * math.cos(a) - x[2 * j + 1] * math.sin(a)
        x[2 * j + 1] = x[2 * j] * math.sin(a) + x[2 * j + 1] * math.cos(a)
    return x


def wrong_4_other_way_round(x, n):
    return right_4(x, -n)
