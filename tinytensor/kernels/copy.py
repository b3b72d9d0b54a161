"""Moving data: the one formula without arithmetic. Layout and dtype change in the loop around it."""

from tinytensor.native.kernel import elementwise


@elementwise
def copy(x):
    return x
