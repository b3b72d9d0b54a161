"""The checks: one for each function with a hole, `module.function` -> check(engine, random), which raises `Wrong`."""

from examples.build.checks import arrays, models, scalars

CHECKS = scalars.CHECKS | arrays.CHECKS | models.CHECKS
