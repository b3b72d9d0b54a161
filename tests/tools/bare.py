"""Run commands as on a stranger's machine: no optional program is found, and the home cannot be written.

    python3 -m tests.tools.bare 'python3 -m venv .venv && ...'    a line of a shell, in a copy of this clone
    python3 -m tests.tools.bare --print test                      prints the README's test command, to the letter

PATH is a folder of links to what the commands need. The copy has no `.git`, no environment and no results; root runs
the commands as the user nobody, who owns it. Of the variables of the environment only those are left by which pip finds
its index. Exits with the code of the commands.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINKS = {"python3": os.path.realpath(sys.executable), "sh": "/bin/sh"}
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "dist", "__pycache__", ".*_cache", ".hypothesis")
KEPT = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|\w+_proxy", re.IGNORECASE)  # of the environment


def command(mark: str) -> str:
    """The command under the mark "main" or "test" in the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {mark} command -->\n```\n(.*)\n```", text)[1]


def owner() -> dict[str, object]:
    """The arguments of subprocess.run for the user nobody, if root may become this user, who can run this Python."""
    if os.geteuid() != 0:
        return {}
    import pwd  # Windows has none

    try:
        user = pwd.getpwnam("nobody")
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        subprocess.run([LINKS["python3"], "-c", ""], cwd="/", check=True, **who)
    except (KeyError, OSError) as error:
        print(f"bare: the commands run as root: {error}", file=sys.stderr)
        return {}
    return who


def environment(folder: Path) -> dict[str, str]:
    """The variables of the commands."""
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    return kept | {"PATH": str(folder / "bin"), "HOME": str(folder / "home"), "LANG": "C"}


def run(command: str, source: Path = ROOT, **how) -> subprocess.CompletedProcess:
    """Run a line of a shell in a copy of `source`; `how`: further arguments of subprocess.run."""
    with tempfile.TemporaryDirectory(prefix="bare-", ignore_cleanup_errors=True) as name:
        folder, who = Path(name), owner()
        folder.chmod(0o755)
        for part in ("bin", "home"):
            (folder / part).mkdir()
        for link, target in LINKS.items():
            (folder / "bin" / link).symlink_to(target)
        shutil.copytree(source, folder / "clone", ignore=LEFT_OUT)
        if who:
            for path in (folder / "clone", *(folder / "clone").rglob("*")):
                os.chown(path, who["user"], who["group"])
        (folder / "home").chmod(0o555)
        shell = [LINKS["sh"], "-euc", command]
        return subprocess.run(shell, cwd=folder / "clone", env=environment(folder), **who, **how)


if __name__ == "__main__":
    if sys.argv[1] == "--print":
        print(command(sys.argv[2]))
    else:
        sys.exit(run(" ".join(sys.argv[1:])).returncode)
