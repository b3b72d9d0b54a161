"""`python -m models`: see command/cli.py."""

import sys

from models.command.cli import main

sys.exit(main())
