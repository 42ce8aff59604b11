"""Which command is run, and what the shell is told of it."""

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
    "evaluate": (evaluate, "compare predictions with the labels of a file"),
    "info": (info, "tell what a model file holds"),
    "demo": (demo, "label the lines of Python source files"),
}
FAILED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words of the command line; those of the process if not given.

    Returns
    -------
    int
        The exit status: 0; 1 if the command fails, with a message on standard error; 130 after
        Ctrl-C; 141 if nobody reads the output any more. The parser exits with 2 if it cannot
        understand the words.
    """
    options = _parser().parse_args(argv)
    try:
        status = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Python would complain once more when it closes the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        return _say(_of_system(error), FAILED)
    except (ImportError, MemoryError, TypeError, ValueError) as error:
        return _say(str(error) or type(error).__name__, FAILED)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m treecrf",
        description="Label sequences with boosted trees.",
        epilog="python -m treecrf COMMAND --help tells the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"treecrf {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, title) in COMMANDS.items():
        command = commands.add_parser(name, help=title, description=module.DESCRIPTION)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _say(message: str, status: int) -> int:
    print(f"treecrf: {message}", file=sys.stderr)
    return status


def _of_system(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"
