"""Draws the pictures of the project's README by running their lessons.

    python -m examples.figures                  # all pictures: some minutes, since two lessons train models
    python -m examples.figures 07_two_moons     # only this one
    python -m examples.figures build_engine     # the terminal of `examples.build`

Each lesson runs in a folder of its own; its picture is stored here, in few colours, which makes it small. If a lesson
writes a page, Chromium photographs the page at each step, and the pictures become one that moves.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tinytensor.cli.output import run_command

HERE = Path(__file__).parent
SHOWN = ("03_chain_rule", "07_two_moons", "13_transformer", "14_equation_17", "17_translation")
STEPS = {"03_chain_rule": 7}  # of the page that a lesson writes
TERMINAL = "build_engine"  # the output of a milestone of `examples.build`, drawn as a terminal
MILESTONE = 6
SECONDS, LAST = 2, 4  # for which a step is shown, and the last one
COLOURS = 64


def keep(picture: Path, name: str) -> None:
    from PIL import Image  # comes with matplotlib

    Image.open(picture).convert("RGB").quantize(COLOURS).save(HERE / f"{name}.png", optimize=True)
    print(f"made: {HERE / name}.png")


def keep_moving(pictures: list[Path], name: str) -> None:
    """Store pictures of one size as one that shows them in turn, in the colours that suit all of them."""
    from PIL import Image

    frames = [Image.open(picture).convert("RGB") for picture in pictures]
    width, height = frames[0].size
    joined = Image.new("RGB", (width, height * len(frames)))
    for place, frame in enumerate(frames):
        joined.paste(frame, (0, place * height))
    palette = joined.quantize(COLOURS)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [1000 * SECONDS] * len(others) + [1000 * LAST]
    first.save(HERE / f"{name}.gif", save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    print(f"made: {HERE / name}.gif")


def photograph(page: Path, step: int, picture: Path) -> None:
    """Let Chromium draw a walkthrough's page at a step."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit(f"a picture of {page.name} needs Chromium: apt-get install chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,640"]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    command = [chromium, *options, *quiet, f"--screenshot={picture}", f"{page.as_uri()}#{step}"]
    subprocess.run(command, check=True, capture_output=True)


def milestone(folder: str) -> str:
    """The output of a milestone of `examples.build`, where the solutions are the student's engine."""
    command = [sys.executable, "-m", "examples.build"]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1]), "PYTHONUTF8": "1"}
    call = {"cwd": folder, "env": environment, "check": True, "capture_output": True, "encoding": "utf-8"}
    subprocess.run([*command, "engine", "--solution", "10"], **call)
    return subprocess.run([*command, "engine_solution_10", "--milestone", str(MILESTONE)], **call).stdout


def draw_terminal(text: str, picture: Path) -> None:
    """Draw a text in letters of one width, light on dark."""
    from matplotlib.figure import Figure

    lines = text.strip("\n").split("\n")
    width, height = 0.077 * max(map(len, lines)) + 0.4, 0.148 * len(lines) + 0.4  # inches
    figure = Figure(figsize=(width, height), dpi=150, facecolor="#1b1f24")
    style = {"family": "DejaVu Sans Mono", "fontsize": 9, "color": "#d7dde4", "va": "top", "linespacing": 1.2}
    figure.text(0.2 / width, 1 - 0.2 / height, "\n".join(lines), **style)
    figure.savefig(picture)


def make(lesson: str) -> None:
    if lesson == TERMINAL:
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "terminal.png"
            draw_terminal(milestone(folder), picture)
            keep(picture, TERMINAL)
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
        subprocess.run([sys.executable, HERE.parent / f"{lesson}.py"], cwd=folder, env=environment, check=True)
        made = Path(folder).resolve() / "runs" / "lessons" / lesson
        keep(made.with_suffix(".png"), lesson)
        if lesson in STEPS:
            pictures = [made.with_suffix(f".{step}.png") for step in range(1, STEPS[lesson] + 1)]
            for step, picture in enumerate(pictures, 1):
                photograph(made.with_suffix(".html"), step, picture)
            keep_moving(pictures, f"{lesson}_page")


def main() -> int:
    """Draw the pictures that the command names; 1 if there is no such lesson."""
    for lesson in sys.argv[1:] or (*SHOWN, TERMINAL):
        if lesson != TERMINAL and not (HERE.parent / f"{lesson}.py").exists():
            names = ", ".join((*SHOWN, TERMINAL))
            print(f"there is no lesson {lesson}; give names as 07_two_moons, or none for {names}", file=sys.stderr)
            return 1
        make(lesson)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
