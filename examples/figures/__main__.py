"""Draws the pictures of the project's README anew, by running their lessons.

    python -m examples.figures                  # all pictures: some minutes, since two lessons train models
    python -m examples.figures 07_two_moons     # only this one

Each lesson runs in a folder of its own; its picture is stored here, in few colours, which makes it small. If a lesson
writes a page, Chromium takes a picture of the page at one step, and this is stored too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = ("03_chain_rule", "07_two_moons", "12_transformer", "13_equation_17", "16_translation")
STEPS = {"03_chain_rule": 6}  # the step at which a lesson's page is photographed
COLOURS = 64


def keep(picture: Path, name: str) -> None:
    from PIL import Image  # comes with matplotlib

    Image.open(picture).convert("RGB").quantize(COLOURS).save(HERE / f"{name}.png", optimize=True)
    print(f"made: {HERE / name}.png")


def photograph(page: Path, step: int, picture: Path) -> None:
    """Let Chromium draw a walkthrough's page at a step."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit(f"a picture of {page.name} needs Chromium: apt-get install chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,640"]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    command = [chromium, *options, *quiet, f"--screenshot={picture}", f"{page.as_uri()}#{step}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def make(lesson: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
        subprocess.run([sys.executable, HERE.parent / f"{lesson}.py"], cwd=folder, env=environment, check=True)
        made = Path(folder).resolve() / "runs" / "lessons" / lesson
        keep(made.with_suffix(".png"), lesson)
        if lesson in STEPS:
            photograph(made.with_suffix(".html"), STEPS[lesson], made.with_suffix(".page.png"))
            keep(made.with_suffix(".page.png"), f"{lesson}_page")


if __name__ == "__main__":
    for lesson in sys.argv[1:] or SHOWN:
        if not (HERE.parent / f"{lesson}.py").exists():
            sys.exit(f"there is no lesson {lesson}; give names as 07_two_moons, or none for {', '.join(SHOWN)}")
        make(lesson)
