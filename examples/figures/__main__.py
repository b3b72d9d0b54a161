"""The pictures of the project's README, made anew by the lessons that draw them.

    python -m examples.figures                  # all of them: takes some minutes, since two lessons train models
    python -m examples.figures 07_two_moons     # only these

Each lesson runs in a folder of its own; its picture is kept here, in few colours, which makes it small.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = ("03_chain_rule", "07_two_moons", "12_transformer", "16_translation")
COLOURS = 64


def make(lesson: str) -> None:
    from PIL import Image  # comes with matplotlib

    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
        subprocess.run([sys.executable, HERE.parent / f"{lesson}.py"], cwd=folder, env=environment, check=True)
        picture = Image.open(Path(folder) / "runs" / "lessons" / f"{lesson}.png").convert("RGB")
    picture.quantize(COLOURS).save(HERE / f"{lesson}.png", optimize=True)


if __name__ == "__main__":
    for lesson in sys.argv[1:] or SHOWN:
        if not (HERE.parent / f"{lesson}.py").exists():
            sys.exit(f"there is no lesson {lesson}; give names as 07_two_moons, or none for {', '.join(SHOWN)}")
        make(lesson)
        print(f"made: {HERE / lesson}.png")
