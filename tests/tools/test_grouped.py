"""A group of cases: those that fail are named, and the other groups know nothing of them."""

import pytest

from tests.tools.grouped import by, grouped


def test_failing_cases_are_named():
    @grouped(by(lambda n: "even" if n % 2 == 0 else "odd", range(6)), names=lambda n: f"number {n}")
    def test_small(n):
        """Numbers below 3."""
        assert n < 3, f"{n} is too large"

    (mark,) = test_small.pytestmark
    groups = {parameter.id: parameter.values[0] for parameter in mark.args[1]}
    assert groups == {"even": [0, 2, 4], "odd": [1, 3, 5]}
    assert (test_small.__name__, test_small.__doc__) == ("test_small", "Numbers below 3.")
    test_small([0, 1, 2])
    with pytest.raises(ExceptionGroup, match="2 of 3 cases fail") as caught:
        test_small(groups["odd"])
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case number 3"],
        ["in the case number 5"],
    ]
    assert "5 is too large" in str(caught.value.exceptions[1])
