"""Everything that is derived from other files, written anew: stubs, and PyTorch's results for the sample tables.

python tests/regenerate.py      # needs torch: pip install '.[bench]'
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = (
    ("-m", "tinytensor.docs.stubs"),
    ("tests/oracle/generate.py",),
    ("tests/oracle/generate_dtypes.py",),
    ("tests/oracle/generate_names.py",),
    ("tests/oracle/generate_nn.py",),
    ("tests/oracle/generate_printing.py",),
    ("tests/oracle/generate_optim.py",),
    ("tests/oracle/generate_distributions.py",),
    ("tests/oracle/generate_transformer.py",),
    ("tests/oracle/generate_programs.py",),
    ("tests/oracle/generate_points.py",),
)

if __name__ == "__main__":
    for command in COMMANDS:
        print("+ python", *command, flush=True)
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
