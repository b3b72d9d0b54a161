"""The ten steps of `examples.build`: right answers open the next step, wrong ones get a sentence that names them."""

import numpy as np
import pytest

from examples.build import judge, steps
from examples.build.checks import CHECKS
from tests.examples.build.plants import PLANTS


def engine_with(folder, changes=(), last=10):
    """A folder with the solutions, in which some texts are changed: (file, old, new)."""
    texts = {file: steps.solution_text(file) for step in steps.STEPS[:last] for file in step.files}
    for file, old, new in changes:
        assert old in texts[file], f"{old} does not stand in the solution {file}"
        texts[file] = texts[file].replace(old, new)
    (folder / "__init__.py").write_text(steps.package_text())
    for file, text in texts.items():
        (folder / file).write_text(text)
    return judge.Engine(folder)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: f"{p[0]}-{p[1]}-{p[4]}"[:60])
def test_common_mistake_is_named(plant, tmp_path):
    file, function, old, new, said = plant
    engine = engine_with(tmp_path, [(file, old, new)])
    check = CHECKS[f"{file.removesuffix('.py')}.{function}"]
    with pytest.raises(judge.Wrong) as caught:
        check(engine, np.random.default_rng(1))
    print(function, caught.value)
    assert said in str(caught.value)
