"""The table of what the short suite leaves out: each line is about a test, and --all leaves out none."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.short import PART

TESTS = Path(__file__).parent


def unknown(names) -> list[str]:
    """The names that are no test's."""
    files = {name.partition("::")[0] for name in names}
    texts = {file: (TESTS / file).read_text(encoding="utf-8") if (TESTS / file).is_file() else "" for file in files}
    return [
        name
        for name in names
        if not re.search(rf"^def {name.partition('::')[2]}\(", texts[name.partition("::")[0]], re.M)
    ]


def test_table_is_about_tests():
    assert unknown(PART) == []
    assert unknown(["test_short.py::test_gone", "gone.py::test_short", "test_short.py::test_table_is_about_tests"]) == [
        "test_short.py::test_gone",
        "gone.py::test_short",
    ]


def test_cases_are_left_to_the_whole_suite(tmp_path):
    """Of a copy of the table's reader, with a test of five cases and one that is in the whole suite alone."""
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "systems.py"):
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text(encoding="utf-8"))
    (tmp_path / "tests" / "short.py").write_text('PART = {"test_it.py::test_five": 2, "test_it.py::test_long": 0}\n')
    (tmp_path / "tests" / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_five(n): pass\n"
        "def test_long(): assert os.environ['THOROUGH']\n"
    )
    settings = ["-c", os.devnull, "--rootdir", tmp_path, "-p", "no:cacheprovider", "-v"]
    environment = {name: value for name, value in os.environ.items() if name != "THOROUGH"}

    def passed(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", *map(str, settings), *options, "tests"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.findall(r"::test_(\S+) PASSED", done.stdout)

    assert passed() == ["five[0]", "five[2]", "five[4]"]
    assert passed("--all") == [*(f"five[{n}]" for n in range(5)), "long"]
