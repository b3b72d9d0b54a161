"""The pictures that the README may show are there, each is small, and each is of a lesson that draws it."""

import subprocess
import sys
from pathlib import Path

from examples.figures.__main__ import SHOWN, STEPS

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "examples" / "figures"


def test_each_picture_exists_and_is_small():
    pages = {f"{name}_page" for name in STEPS}
    assert {path.stem for path in FIGURES.glob("*.png")} == {*SHOWN, *pages}
    for name in (*SHOWN, *pages):
        picture = (FIGURES / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 60_000, f"{name}: {len(picture)} bytes"
    for names, ending in ((SHOWN, "png"), (STEPS, "html")):
        for name in names:
            assert f'"{name}.{ending}"' in (ROOT / "examples" / f"{name}.py").read_text()


def test_unknown_lesson_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "examples.figures", "99_nothing"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1
    assert done.stderr.startswith("there is no lesson 99_nothing; give names as 07_two_moons")
