def right(X, v, g, rho, beta):
    v = beta * v + g
    return X - rho * v, v


def wrong_with_the_old_velocity(X, v, g, rho, beta):
    return X - rho * v, beta * v + g


def wrong_uphill(X, v, g, rho, beta):
    v = beta * v + g
    return X + rho * v, v


def wrong_average(X, v, g, rho, beta):
    v = beta * v + (1 - beta) * g
    return X - rho * v, v
