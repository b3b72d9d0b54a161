def right(g):
    return g * (1 / g.norm()).clamp(max=1.0)


def wrong_item(g):
    return g / g.norm() if g.norm().item() > 1 else g


def wrong_always(g):
    return g / g.norm()


def wrong_entries(g):
    return g.clamp(-1.0, 1.0)
