"""Everything that is derived from other files, written anew: stubs, and PyTorch's results for the sample tables.

python -m tests.tools.regenerate      # needs torch: pip install '.[bench]'
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = (
    ("-m", "tinytensor.utils.docs.stubs"),
    ("-m", "tests.samples.oracle.generate"),
    ("-m", "tests.samples.oracle.generate_dtypes"),
    ("-m", "tests.samples.oracle.generate_names"),
    ("-m", "tests.samples.oracle.generate_nn"),
    ("-m", "tests.samples.oracle.generate_printing"),
    ("-m", "tests.samples.oracle.generate_optim"),
    ("-m", "tests.samples.oracle.generate_distributions"),
    ("-m", "tests.samples.oracle.generate_transformer"),
    ("-m", "tests.samples.oracle.generate_programs"),
    ("-m", "tests.samples.oracle.generate_points"),
    ("-m", "tests.torch_names.programs"),
)

if __name__ == "__main__":
    for command in COMMANDS:
        print("+ python", *command, flush=True)
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
