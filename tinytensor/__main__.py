"""`python -m tinytensor`: see command/main.py."""

import sys

from tinytensor.tools.command.main import main

if __name__ == "__main__":
    sys.exit(main())
