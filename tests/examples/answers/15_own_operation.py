def right_1(x, c):
    """The rule never reads g, so a factor c behind y cannot reach x. With y.sum() g is 1, and the mistake is hidden."""
    return 3 * x * x, 3 * x * x


def wrong_1_the_right_gradient(x, c):
    return 3 * x * x, c * 3 * x * x


def wrong_1_nothing_arrives(x, c):
    return 0.0, 0.0


def right_2(g, a, b):
    """∂y/∂a = e^a / (e^a + e^b) = σ(a − b), and ∂y/∂b = σ(b − a) = 1 − σ(a − b): the shares add up to g."""
    share = (a - b).sigmoid()
    return g * share, g * (1 - share)


def wrong_2_both_alike(g, a, b):
    return g * (a - b).sigmoid(), g * (a - b).sigmoid()


def wrong_2_the_other_way_round(g, a, b):
    return g * (b - a).sigmoid(), g * (a - b).sigmoid()


def wrong_2_the_larger_gets_all(g, a, b):
    return g * (a > b), g * (b > a)


def right_3(g, x):
    """The chain rule gives e^x / (1 + e^x). Divided by e^x above and below it is σ(x), where nothing overflows."""
    return g * x.sigmoid()


def wrong_3_slope_of_the_slope(g, x):
    return g * x.sigmoid() * (1 - x.sigmoid())


def wrong_3_without_what_arrives(g, x):
    return x.sigmoid()


def wrong_3_chain_forgotten(g, x):
    return g / (1 + x.exp())


def wrong_3_overflows(g, x):
    return g * x.exp() / (1 + x.exp())


def right_4():
    """From y² = a² + b²: 2 y ∂y/∂a = 2 a, so ∂y/∂a = a / y, and ∂y/∂b = b / y in the same way."""

    def kernel(a, b):
        return np.sqrt(a * a + b * b)

    def grad_a(g, a, y):
        return g * a / y

    def grad_b(g, b, y):
        return g * b / y

    return kernel, grad_a, grad_b


def wrong_4_factor_of_two():
    kernel, *_ = right_4()

    def grad_a(g, a, y):
        return g * 2 * a / y

    def grad_b(g, b, y):
        return g * 2 * b / y

    return kernel, grad_a, grad_b


def wrong_4_root_forgotten():
    _, grad_a, grad_b = right_4()
    return lambda a, b: a * a + b * b, grad_a, grad_b


def wrong_4_g_forgotten():
    kernel, *_ = right_4()
    return kernel, lambda g, a, y: a / y, lambda g, b, y: b / y
