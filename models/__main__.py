"""`python -m models`: see cli.py."""

import sys

from models.cli import main

sys.exit(main())
