"""Entry point of ``python -m treecrf``, the command ``treecrf``; see `treecrf.cli`."""

import sys

from treecrf.cli import main

if __name__ == "__main__":
    sys.exit(main())
