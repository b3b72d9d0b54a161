"""A Python process for code that is not ours, which may never end, or start processes of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STARTING = 600  # seconds that the process may take until its time begins: kernels may have to be compiled


def run_python(
    arguments: Sequence[str | Path],
    seconds: float | None = None,
    begun: Path | None = None,
    environment: dict[str, str] | None = None,
    **options: Any,
) -> int | None:
    """Run Python with these arguments, as if in this project; return its exit code, None if it took too long.

    seconds: the most that it may take (None: any time). They count from its start, or from the moment at which it
    writes to the file `begun`, which exists and is empty.
    environment: variables besides those of this process.
    options: those of `subprocess.Popen`.
    All processes that it started end with it.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = os.environ | {"PYTHONPATH": path} | (environment or {})
    process = subprocess.Popen([sys.executable, *arguments], env=variables, start_new_session=True, **options)
    try:
        start = time.monotonic()
        while begun is not None and not begun.stat().st_size and process.poll() is None:
            if time.monotonic() - start > STARTING:
                break
            time.sleep(0.02)
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
