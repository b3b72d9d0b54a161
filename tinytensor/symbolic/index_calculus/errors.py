"""Refuted: the error of a statement that does not hold."""


class Refuted(AssertionError):
    """A claim does not hold: the difference, and the wrong rule if it is known."""

    def __init__(self, message: str, rule: str = ""):
        super().__init__(message)
        self.rule = rule
