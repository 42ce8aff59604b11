"""Runs the command line of `treecrf.cli` with ``python -m treecrf``."""

import sys

from treecrf.cli import main

if __name__ == "__main__":
    sys.exit(main())
