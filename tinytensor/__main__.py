"""`python -m tinytensor`: see cli/main.py."""

import sys

from tinytensor.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
