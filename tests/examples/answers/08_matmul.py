def right(a, b, y):
    for i in range(y.shape[0]):
        y[i, :] = 0
        for k in range(a.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] += a[k, i] * b[k, j]
    return True


def wrong_adds_to_what_was_there(a, b, y):
    for k in range(a.shape[0]):
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] += a[k, i] * b[k, j]
    return True


def wrong_range(a, b, y):
    y[:] = 0
    for i in range(y.shape[0]):
        for k in range(a.shape[1]):
            for j in range(y.shape[1]):
                y[i, j] += a[k, i] * b[k, j]
    return True
