"""axe-core, which finds what keeps readers out of a page: low contrast, controls without names, headings out of order.

`python -m tests.tools.axe` installs it by npm, into a cache outside of the repository; tests only read it there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "4.14.1"
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"tinytensor-axe-core-{VERSION}"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {iframes: false, resultTypes: ["violations"]}).then((result) => done(result.violations
  .filter((v) => ["serious", "critical"].includes(v.impact))
  .flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary.split("\\n")[1].trim()}`))));
"""


def serious(driver) -> list[str]:
    """What is serious or worse on the page in the browser; skips the test without axe-core, as without a browser."""
    if not SCRIPT.exists():
        import pytest  # not yet installed where axe-core is being installed

        message = "no axe-core: python -m tests.tools.axe, which needs npm"
        if os.environ.get("NEEDS_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    driver.execute_script(SCRIPT.read_text(encoding="utf-8"))
    driver.set_script_timeout(120)
    return driver.execute_async_script(RUN)


def install() -> int:
    """Install axe-core; 0 if it is there."""
    npm = shutil.which("npm")
    if SCRIPT.exists():
        return 0
    if npm is None:
        print("axe: npm is not installed: apt-get install npm", file=sys.stderr)
        return 1
    command = [npm, "install", "--silent", "--ignore-scripts", "--prefix", str(FOLDER), f"axe-core@{VERSION}"]
    return subprocess.run(command, timeout=600).returncode


if __name__ == "__main__":
    sys.exit(install())
