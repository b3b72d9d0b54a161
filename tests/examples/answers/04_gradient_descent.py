def right_1(x, a, b, c):
    """a x² is on the tape; b x · x² has one x on it, since the other two are a constant; w is a constant."""
    return 2 * a * x + b * x**2


def wrong_1_all_of_the_formula(x, a, b, c):
    return 2 * a * x + 3 * (b + c) * x**2


def wrong_1_no_grad_is_forgotten(x, a, b, c):
    return 2 * a * x + b * x**2 + 3 * c * x**2


def wrong_1_detach_is_forgotten(x, a, b, c):
    return 2 * a * x + 3 * b * x**2


def wrong_1_all_of_v_is_constant(x, a, b, c):
    return 2 * a * x


def wrong_1_u_is_off_the_tape(x, a, b, c):
    return b * x**2


def right_2(loss, start, rho, steps):
    """zero_grad() stood between backward() and step(), so step() found no gradient. It belongs before backward()."""
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([x], lr=rho)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()
    return x.item()


def wrong_2_never_zero(loss, start, rho, steps):
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([x], lr=rho)
    for _ in range(steps):
        loss(x).backward()
        optimizer.step()
    return x.item()


def wrong_2_step_before_backward(loss, start, rho, steps):
    x = tt.tensor(start, requires_grad=True, dtype=tt.float64)
    optimizer = tt.optim.SGD([x], lr=rho)
    for _ in range(steps):
        optimizer.zero_grad()
        optimizer.step()
        loss(x).backward()
    return x.item()


def right_3(X, v, g, rho, beta):
    """The velocity is a sum of all gradients, each smaller by β for each step since; X moves along the new one."""
    v = beta * v + g
    return X - rho * v, v


def wrong_3_with_the_old_velocity(X, v, g, rho, beta):
    return X - rho * v, beta * v + g


def wrong_3_uphill(X, v, g, rho, beta):
    v = beta * v + g
    return X + rho * v, v


def wrong_3_average(X, v, g, rho, beta):
    v = beta * v + (1 - beta) * g
    return X - rho * v, v


def right_4(k, K):
    """|1 - ρ k| falls with ρ and |1 - ρ K| grows, beyond 1 / K: best where they meet, at 1 - ρ k = ρ K - 1."""
    return 2 / (k + K)


def wrong_4_largest_that_works(k, K):
    return 2 / K


def wrong_4_best_for_the_steep_one(k, K):
    return 1 / K


def wrong_4_best_for_the_flat_one(k, K):
    return 1 / k


def wrong_4_mean_of_the_best(k, K):
    return 1 / (k + K)
