def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def right(x):
    return sigmoid(x) * (1 - sigmoid(x))


def wrong_as_for_tanh(x):
    return 1 - sigmoid(x) ** 2


def wrong_without_the_inner_derivative(x):
    return -(sigmoid(x) ** 2)
