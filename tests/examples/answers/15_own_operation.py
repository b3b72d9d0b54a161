def right(g, x):
    return g * x.sigmoid()


def wrong_slope_of_the_slope(g, x):
    return g * x.sigmoid() * (1 - x.sigmoid())


def wrong_without_what_arrives(g, x):
    return x.sigmoid()


def wrong_chain_forgotten(g, x):
    return g / (1 + x.exp())
