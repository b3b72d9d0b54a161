"""One test for many short cases: pytest needs milliseconds for each test, and these need less."""

from collections.abc import Callable, Hashable, Iterable

import pytest


def by(key: Callable[..., Hashable], cases: Iterable) -> dict:
    """{key: its cases}, in the order in which the keys come first."""
    groups: dict = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return groups


def grouped(groups: dict[str, list], names: Callable = str) -> Callable:
    """Make a test of a check of one case: a test for each group, which checks all its cases and names those that fail.

    `names(case)` is the name of a case. The check has one parameter.
    """
    parameters = [pytest.param(cases, id=str(name)) for name, cases in groups.items()]

    def of(check: Callable) -> Callable:
        @pytest.mark.parametrize("cases", parameters)
        def test(cases):
            errors = []
            for case in cases:
                try:
                    check(case)
                except Exception as error:
                    error.add_note(f"in the case {names(case)}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(cases)} cases fail", errors)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return of
