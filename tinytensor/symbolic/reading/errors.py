"""What ends a reading: a function that can't be followed, and sizes that must be products."""


class NotDerivable(TypeError):
    """A function that `derive` can't follow: the message names the line and the step."""


class Refused(BaseException):
    """The function leaves the language that can be read; no `except Exception` of its own catches this."""


class Multiple(BaseException):
    """A size must be a multiple of a number: the reading begins again with this size as a product."""

    def __init__(self, name: str, divisor: int):
        super().__init__(f"{name} is a multiple of {divisor}")
        self.name, self.divisor = name, divisor


class Restart(BaseException):
    """The reading begins again, and knows more of its loops (Reading.learnt)."""
