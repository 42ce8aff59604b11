"""The command line: ``python -m treecrf demo``."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit status is 0 when it succeeds."""
    parser = argparse.ArgumentParser(prog="python -m treecrf", description=__doc__)
    parser.add_argument("command", choices=["demo"], help="label the lines of Python source files")
    words = sys.argv[1:] if arguments is None else arguments
    parser.parse_args(words[:1])
    from treecrf import demo

    return demo.main(words[1:])


if __name__ == "__main__":
    sys.exit(main())
