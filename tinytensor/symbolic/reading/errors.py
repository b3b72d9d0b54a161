"""What ends a reading: a function that can't be followed, and sizes that must be products."""

from sympy import Expr, Symbol


class NotDerivable(TypeError):
    """A function that `derive` can't follow: the message names the line and the step."""


class Refused(BaseException):
    """The function leaves the language that can be read; no `except Exception` of its own catches this."""


class Split(BaseException):
    """A size must be taken apart: the reading begins again with it as one of `products`, the first that can be read."""

    def __init__(self, size: Symbol, *products: tuple[Expr, ...]):
        super().__init__(f"{size} = {' or '.join(' * '.join(map(str, parts)) for parts in products)}")
        self.size, self.products = size, products


class Restart(BaseException):
    """The reading begins again, and knows more of its loops (Reading.learnt)."""
