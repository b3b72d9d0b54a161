def right_1(times):
    """The errors are proportional to h² and to h: f(x + h) - f(x - h) has no term with h², so h³ is the first left."""
    return times**2, times


def wrong_1_both_in_proportion(times):
    return times, times


def wrong_1_both_squares(times):
    return times**2, times**2


def right_2(f, x):
    """Floats near x are spaced in proportion to x, so h has to grow with x."""
    h = 1e-5 * max(1.0, abs(x))
    return (f(x + h) - f(x - h)) / (2 * h)


def wrong_2_smaller_step(f, x):
    h = 1e-8
    return (f(x + h) - f(x - h)) / (2 * h)


def wrong_2_larger_step(f, x):
    h = 1e-1
    return (f(x + h) - f(x - h)) / (2 * h)


def wrong_2_no_difference_is_no_slope(f, x):
    h = 1e-5
    return (f(x + h) - f(x - h)) / (2 * h) if x + h != x else 0.0


def right_3(s):
    """The slope of 1 / u is -u' / u² = e^-x / (1 + e^-x)², the product of s and e^-x / (1 + e^-x), which is 1 - s."""
    return s * (1 - s)


def wrong_3_as_for_tanh(s):
    return 1 - s**2


def wrong_3_without_the_inner_derivative(s):
    return -(s**2)


def right_4(f, x):
    """The imaginary part is h f'(x), up to h³, which is nothing beside it for h = 1e-100; nothing was subtracted."""
    return f(complex(x, 1e-100)).imag / 1e-100


def wrong_4_large_step(f, x):
    return f(complex(x, 1e-3)).imag / 1e-3


def wrong_4_real_part(f, x):
    return f(complex(x, 1e-100)).real / 1e-100


def wrong_4_differences(f, x):
    return ((f(x + 1e-5) - f(x - 1e-5)) / 2e-5).real


def wrong_4_not_divided(f, x):
    return f(complex(x, 1e-100)).imag
