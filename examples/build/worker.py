"""The process in which a student's code runs: `judge.in_a_process` starts it, and reads what it writes to a file."""

import json
import sys
from pathlib import Path
from typing import Any

from examples.build import judge, milestones


def main() -> None:
    folder, task, number, choice, limit, trace, result = sys.argv[1:]
    engine = judge.Engine(Path(folder), float(limit), Path(trace))
    said: Any = ""
    try:
        if task == "check":
            said = judge.judge(engine, int(number), int(choice))
        else:
            milestones.run(engine, int(number), int(choice))
    except judge.Wrong as wrong:
        said = str(wrong)
    Path(result).write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # the command that started this process says so
        sys.exit(130)
