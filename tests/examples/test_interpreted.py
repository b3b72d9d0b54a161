"""Lessons run where kernels run as Python: the quick ones here, all of them by the command."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.tools.sampling_rate import some

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def interpreted():
    spec = spec_from_file_location("interpreted", HERE / "interpreted.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_quick_lessons_run_where_kernels_are_python(interpreted):
    chosen = interpreted.lessons(*interpreted.QUICK)
    assert len(chosen) >= 7
    assert interpreted.fault([*some(chosen, one_in=3)], seconds=3000) is None


def test_lessons_about_compiled_code_are_left_out(interpreted):
    assert {path.name[:2] for path in interpreted.lessons()} & {"07", "08", "18"} == {"07"}


@pytest.mark.slow
def test_failing_or_slow_lesson_is_named(interpreted, tmp_path):
    good, bad, slow = (tmp_path / f"{name}.py" for name in ("01_good", "02_bad", "03_slow"))
    good.write_text("import numba; assert numba.config.DISABLE_JIT")
    bad.write_text("1 / 0")
    slow.write_text("import time; time.sleep(60)")
    assert interpreted.fault([good], seconds=600) is None
    assert interpreted.fault([good, bad], seconds=600) == "02_bad: ZeroDivisionError: division by zero"
    assert interpreted.fault([slow], seconds=3) == "03_slow: it takes longer than 3 seconds"


def test_unknown_lesson_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.interpreted", "99_none"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("give names of lessons as 09_attention; these are run: ")
