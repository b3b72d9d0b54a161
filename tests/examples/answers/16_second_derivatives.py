def right_1(x, p, steps):
    """f′ / f″ = x / (p − 1), so a step leaves (p − 2) / (p − 1) of x: where f″ is 0, Newton is no longer quick."""
    return x * ((p - 2) / (p - 1)) ** steps


def wrong_1_always_at_once(x, p, steps):
    return 0.0


def wrong_1_one_step(x, p, steps):
    return x * (p - 2) / (p - 1)


def wrong_1_exponent(x, p, steps):
    return x * (1 - 1 / p) ** steps


def right_2(f, x):
    """The gradient of g·g is 2 H g: g depends on x in both factors. Held fixed in one of them, it gives H g."""
    x = x.detach().requires_grad_()
    g = tt.autograd.grad(f(x), x, create_graph=True)[0]
    return tt.autograd.grad((g * g.detach()).sum(), x)[0]


def wrong_2_twice(f, x):
    x = x.detach().requires_grad_()
    g = tt.autograd.grad(f(x), x, create_graph=True)[0]
    return tt.autograd.grad((g * g).sum(), x)[0]


def wrong_2_only_the_rows_sum(f, x):
    x = x.detach().requires_grad_()
    g = tt.autograd.grad(f(x), x, create_graph=True)[0]
    return tt.autograd.grad(g.sum(), x)[0]


def right_3(g, Hg):
    """The derivative −g·g + ρ g·H g is 0 at ρ = g·g / g·H g."""
    return (g @ g) / (g @ Hg)


def wrong_3_upside_down(g, Hg):
    return (g @ Hg) / (g @ g)


def wrong_3_half(g, Hg):
    return (g @ g) / (2 * (g @ Hg))


def wrong_3_lengths(g, Hg):
    return g.norm() / Hg.norm()


def right_4(product, g):
    """The first way is g. If the slope falls off along a way, d so far goes down, and g does if there is no d yet."""
    d, rest, way = tt.zeros_like(g), g, g
    for _ in g:
        bent = product(way)
        if way @ bent <= 0:
            return d if d.any() else g
        far = (rest @ rest) / (way @ bent)
        d, new = d + far * way, rest - far * bent
        rest, way = new, new + (new @ new) / (rest @ rest) * way
    return d


def wrong_4_as_in_the_lesson(product, g):
    d, rest, way = tt.zeros_like(g), g, g
    for _ in g:
        bent = product(way)
        far = (rest @ rest) / (way @ bent)
        d, new = d + far * way, rest - far * bent
        rest, way = new, new + (new @ new) / (rest @ rest) * way
    return d


def wrong_4_only_the_gradient(product, g):
    return g


def wrong_4_each_entry_by_itself(product, g):
    return g / abs(product(tt.ones_like(g)))


def wrong_4_nothing_at_a_hilltop(product, g):
    d, rest, way = tt.zeros_like(g), g, g
    for _ in g:
        bent = product(way)
        if way @ bent <= 0:
            return d
        far = (rest @ rest) / (way @ bent)
        d, new = d + far * way, rest - far * bent
        rest, way = new, new + (new @ new) / (rest @ rest) * way
    return d
