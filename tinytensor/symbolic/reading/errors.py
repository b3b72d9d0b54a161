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


class FirstStep(BaseException):
    """The first step of a loop differs from the others: the reading begins again, and reads it by itself."""

    def __init__(self, step: str):
        super().__init__(f"the first step of the loop over {step} is another one")
        self.step = step
