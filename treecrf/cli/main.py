"""Parsing the command line, running a command, and its exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from treecrf._version import __version__
from treecrf.cli import evaluate, info, predict, train
from treecrf.cli.demo import command as demo

COMMANDS = {
    "train": (train, "train a model on a file and save it"),
    "predict": (predict, "label the sequences of a file"),
    "evaluate": (evaluate, "compare predictions with the labels in a file"),
    "info": (info, "describe a model file"),
    "demo": (demo, "run a demonstration on Python source files"),
}
FAILED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments of the command line; those of the process by default.

    Returns
    -------
    int
        The exit status: 0 for success; 1 if the command failed, with a message on standard error;
        130 after Ctrl-C; 141 if the output is no longer read. For invalid usage, the parser exits
        with 2.
    """
    options = _parser().parse_args(argv)
    try:
        status = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Otherwise, Python prints another error when it closes the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        return _fail(_system_message(error), FAILED)
    except (ImportError, MemoryError, TypeError, ValueError) as error:
        return _fail(str(error) or type(error).__name__, FAILED)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m treecrf",
        description="Label sequences with conditional random fields of boosted trees.",
        epilog="Use python -m treecrf COMMAND --help for the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"treecrf {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, title) in COMMANDS.items():
        command = commands.add_parser(name, help=title, description=module.DESCRIPTION)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _fail(message: str, status: int) -> int:
    print(f"treecrf: {message}", file=sys.stderr)
    return status


def _system_message(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"
