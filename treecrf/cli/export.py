"""The command ``treecrf export``."""

from __future__ import annotations

import argparse

from treecrf.cli.options import add_required, loaded_model
from treecrf.export import export_c

DESCRIPTION = (
    "Write a model as C code that labels sequences: a C99 file without dependencies, and a header "
    "that describes its functions."
)
EXAMPLES = """\
examples:
  treecrf export m.treecrf --output address.c
  treecrf export m.treecrf --output labeler.c --name address
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    parser.add_argument("model", help="model file written by train; - is standard input")
    add_required(parser, "--output", "file to write, ending in .c; the header is beside it")
    text = "what the names of functions begin with (default: the name of the file)"
    parser.add_argument("--name", metavar="NAME", help=text)


def run(options: argparse.Namespace) -> int:
    """Read the model and write its code."""
    export_c(loaded_model(options), options.output, name=options.name)
    return 0
