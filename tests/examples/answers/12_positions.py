import math


def right(k, d):
    return sum(math.cos(k / 10000 ** (2 * j / d)) for j in range(d // 2))


def wrong_each_component(k, d):
    return sum(math.cos(k / 10000 ** (i / d)) for i in range(d))


def wrong_sine(k, d):
    return sum(math.sin(k / 10000 ** (2 * j / d)) for j in range(d // 2))
