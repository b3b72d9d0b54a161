"""Programs in processes of their own that have their imports already: one process imports, and forks for each program.

A new Python needs half a second until it has imported the engine, and a second with SymPy or matplotlib. Tests of what
a program prints start `forks` once, and run all programs there. What is imported when, and how Python starts, is tested
with new processes.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What the process does that forks: it imports, and then reads a line for each program, and answers with its exit code.
# It starts no thread: those of libraries begin when they are first used, which is in the fork.
SERVER = """
import atexit, importlib, json, linecache, os, runpy, sys, traceback, types

def run(program):
    os.chdir(program["folder"])
    for number, path in enumerate(("/dev/null", program["out"], program["err"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.argv = program["arguments"]
    try:
        if program["code"] is None:
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            sys.modules["__main__"] = types.ModuleType("__main__")
            code = program["code"]
            linecache.cache["<stdin>"] = len(code), None, code.splitlines(True), "<stdin>"  # as of a file
            exec(compile(code, "<stdin>", "exec"), vars(sys.modules["__main__"]))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

for name in sys.argv[1:]:
    importlib.import_module(name)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    """A process that has imported some modules and forks for each program; `forks()` starts and ends it."""

    def __init__(self, process: subprocess.Popen, folder: Path):
        self.process, self.folder = process, folder

    def run(self, *arguments: str, code: str | None = None, cwd: Path | str = ".") -> subprocess.CompletedProcess:
        """Run a file with arguments, or code as if it were typed, in a folder; what it prints, and how it ends."""
        out, err = (Path(tempfile.mkstemp(dir=self.folder)[1]) for _ in range(2))
        program = {"arguments": [*map(str, arguments)] or ["-"], "code": code, "folder": str(cwd)}
        print(json.dumps(program | {"out": str(out), "err": str(err)}), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, "the process that forks has ended"
        return subprocess.CompletedProcess(arguments, int(answer), out.read_text(), err.read_text())


@contextmanager
def forks(*modules: str, options: tuple[str, ...] = ("-W", "error"), **environment: str) -> Iterator[Forks]:
    """Start a process that has imported these modules, with options of Python and variables of its environment."""
    command = [sys.executable, *options, "-c", SERVER, *modules]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # One thread for NumPy's own products: Python warns of a fork beside threads.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | environment
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, env=environment, **pipes) as process,
    ):
        assert process.stdout.readline() == "ready\n", "an import fails; its error is on standard error"
        try:
            yield Forks(process, Path(folder))
        finally:
            process.stdin.close()
