"""`tinytensor completion`: the script, run by bash."""

import shutil
import subprocess

import pytest

from tinytensor.cli import main as command

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash: apt-get install bash")

TRY = """
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _tinytensor; echo "${COMPREPLY[*]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", lambda text, **how: printed.append(text))
        assert command.main(["completion", "bash"]) == 0
    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(printed[0] + TRY)
    return path


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("tr", "train translate"),
        ("train --patie", "--patience"),
        ("train --caus", "--causal"),
        ("train --task ", "text translate recommend"),
        ("train --task translate --label", "--label-smoothing"),
        ("train --label", ""),  # of another task
        ("train --config na", "nano"),
        ("train --task translate --norm b", "before"),
        ("sample --num", "--num-samples"),
        ("train --text READ", ""),  # names of files, which bash itself completes
        ("unknown --x", ""),
    ],
)
def test_words_are_completed(script, typed, expected):
    words = ["tinytensor", *typed.split(" ")]
    done = subprocess.run(["bash", script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n") == expected and not done.stderr


def test_script_for_zsh_begins_with_its_emulation(capsys):
    assert command.main(["completion", "zsh"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("autoload -U +X bashcompinit && bashcompinit\n_tinytensor() {")
    with pytest.raises(SystemExit):
        command.main(["completion", "fish"])
    assert "invalid choice: 'fish'" in capsys.readouterr().err
