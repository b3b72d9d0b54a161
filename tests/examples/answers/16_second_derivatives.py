def right(g, h):
    return -g / abs(h)


def wrong_newton(g, h):
    return -g / h


def wrong_uphill(g, h):
    return g / abs(h)


def wrong_slow(g, h):
    return -0.05 * g
