"""The pictures that the README may show are there and small; each is of a lesson that draws it, or of a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from examples.build.milestones import MILESTONES
from examples.figures.__main__ import MILESTONE, SHOWN, STEPS, TERMINAL, draw_terminal, milestone

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "examples" / "figures"


def test_each_picture_exists_and_is_small():
    assert {path.stem for path in FIGURES.glob("*.png")} == {*SHOWN, TERMINAL}
    for name in (*SHOWN, TERMINAL):
        picture = (FIGURES / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 60_000, f"{name}: {len(picture)} bytes"
    for names, ending in ((SHOWN, "png"), (STEPS, "html")):
        for name in names:
            assert f'"{name}.{ending}"' in (ROOT / "examples" / f"{name}.py").read_text()


@pytest.mark.slow
def test_terminal_shows_a_milestone_and_all_of_its_letters(tmp_path):
    text = milestone(str(tmp_path))
    assert MILESTONE in MILESTONES and "99% of the points on the right side" in text
    draw_terminal(text, tmp_path / "picture.png")
    draw_terminal(text.replace("on your engine.", "on your engine" + 20 * "."), tmp_path / "longer.png")
    with Image.open(tmp_path / "picture.png") as drawn, Image.open(FIGURES / f"{TERMINAL}.png") as kept:
        assert kept.size == drawn.size
        edge = drawn.convert("RGB").crop((drawn.width - 15, 0, drawn.width, drawn.height))
        assert len(edge.getcolors()) == 1, "letters are cut off at the right"
    with Image.open(tmp_path / "longer.png") as longer:
        assert longer.width > drawn.width


def test_each_page_is_a_moving_picture_of_its_steps():
    assert {path.stem for path in FIGURES.glob("*.gif")} == {f"{name}_page" for name in STEPS}
    for name, steps in STEPS.items():
        file = FIGURES / f"{name}_page.gif"
        assert file.stat().st_size < 150_000
        with Image.open(file) as picture:
            assert (picture.n_frames, picture.info["loop"]) == (steps, 0)
            shown = []
            for step in range(steps):
                picture.seek(step)
                shown.append(picture.convert("RGB").tobytes())
        assert len(set(shown)) == steps, "two steps look the same"


def test_unknown_lesson_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "examples.figures", "99_nothing"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1
    assert done.stderr.startswith("there is no lesson 99_nothing; give names as 07_two_moons")
