"""The lowest versions that pyproject.toml allows, as a file of requirements for pip.

    python -m tests.tools.lowest_versions train > lowest.txt     # dependencies, and the extra train
    pip install -r lowest.txt -e .

Without this, pip installs the newest versions, and nothing would notice a lower bound that is untrue.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def lowest(project: dict, extras: list[str]) -> list[str]:
    """The requirements of a project and of some of its extras, `>=` written as `==`; ValueError if one has no bound."""
    needs = [*project["dependencies"]]
    for extra in extras:
        needs += project["optional-dependencies"][extra]
    for need in needs:
        if need.count(">=") != 1 and not need.startswith(f"{project['name']}["):
            raise ValueError(f"{need}: one lower bound is needed, as in name>=1.2")
    return [need.replace(">=", "==") for need in needs if ">=" in need]


if __name__ == "__main__":
    print("\n".join(lowest(tomllib.loads(PROJECT.read_text())["project"], sys.argv[1:])))
