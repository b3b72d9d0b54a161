"""Copies: the one formula without arithmetic. The loop around it changes layout and dtype."""

from tinytensor.native.runtime.kernel import elementwise


@elementwise
def copy(x):
    return x
