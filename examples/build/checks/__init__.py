"""The checks: one for each function with a hole, `module.function` -> check(engine, random), which raises `Wrong`."""

from examples.build.checks import arrays, models, scalars

CHECKS = scalars.CHECKS | arrays.CHECKS | models.CHECKS


def functions_of(file: str) -> list[str]:
    """The functions of a file with checks, in the order in which they are checked: what others need comes first."""
    module = file.removesuffix(".py") + "."
    return [name.removeprefix(module) for name in CHECKS if name.startswith(module)]
