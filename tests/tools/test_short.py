"""What the short suite leaves out, and that --all leaves out none."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import EVERYTHING, is_drawn
from tests.tools.platforms import posix

TESTS = Path(__file__).parents[1]


def unknown(names) -> list[str]:
    """The names that are no test's."""
    files = {name.partition("::")[0] for name in names}
    texts = {file: (TESTS / file).read_text(encoding="utf-8") if (TESTS / file).is_file() else "" for file in files}
    return [
        name
        for name in names
        if not re.search(rf"^def {name.partition('::')[2]}\(", texts[name.partition("::")[0]], re.M)
    ]


def test_tests_that_the_whole_check_leaves_to_the_site_exist():
    names = re.findall(r"[\w/]+\.py::\w+", (TESTS.parent / ".ci" / "whole").read_text(encoding="utf-8"))
    assert len(names) == 10 and unknown(names) == []
    gone = ["tools/test_short.py::test_gone", "gone.py::test_short"]
    assert unknown([*gone, "tools/test_short.py::test_cases_are_left_to_the_whole_suite"]) == gone


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of conftest.py, with a test of five cases and one that is in the whole suite alone."""
    (tmp_path / "tests" / "tools").mkdir(parents=True)
    for name in ("conftest.py", "tools/platforms.py"):
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text(encoding="utf-8"))
    (tmp_path / "tests" / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.one_in(2)\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_five(n): pass\n"
        "@pytest.mark.slow\n"
        "def test_long(): assert os.environ['THOROUGH']\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return tmp_path


COMMAND = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "THOROUGH"}


def test_cases_are_left_to_the_whole_suite(project):
    def passed(*options: str) -> list[str]:
        done = subprocess.run([*COMMAND, *options], cwd=project, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "All tests: " not in done.stdout  # which is for a person who looks at a terminal
        return re.findall(r"::test_(\S+) PASSED", done.stdout)

    every = [*(f"five[{n}]" for n in range(5)), "long"]
    assert passed() == ["five[0]", "five[2]", "five[4]"]
    assert passed("--all") == every
    drawn = [name for name in every if is_drawn(f"tests/test_it.py::test_{name}", 2, 7)]
    assert passed("--all", "--one-in", "2", "--seed", "7") == drawn and 0 < len(drawn) < len(every)


@pytest.mark.slow
@posix
def test_run_in_a_terminal_says_what_it_does(project):
    """That a first run compiles kernels, and in the last line how all tests are run."""
    ours, theirs = os.openpty()
    environment = ENVIRONMENT | {"NUMBA_CACHE_DIR": str(project / "cache")}
    process = subprocess.Popen(COMMAND, cwd=project, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # at the end of a terminal
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert process.wait() == 0, shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).split("\r\n")
    assert any(line.startswith("This first run compiles") and str(project / "cache") in line for line in lines), lines
    assert lines[-2:] == [f"This was the short suite. All tests: {EVERYTHING}", ""]
