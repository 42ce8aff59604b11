"""Command line: ``treecrf train``, ``predict``, ``evaluate``, ``report``, ``info``, ``export``.

This module and the package import nothing else before the command is known, so that ``--help`` is
quick and an interrupt at any time is handled.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence

from treecrf._version import __version__

# The commands, each in a module of its name, and what they do.
COMMANDS = {
    "train": "train a model on a file and save it",
    "predict": "label the sequences of a file",
    "evaluate": "compare predictions with the labels in a file",
    "report": "write a page with scores, timelines and explanations",
    "info": "describe a model file",
    "export": "write a model as C code",
}
EPILOG = """\
examples:
  treecrf train train.csv --label activity --group day --model m.treecrf
  treecrf evaluate test.csv --model m.treecrf
  treecrf report test.csv --model m.treecrf --output report.html
  treecrf predict new.csv --model m.treecrf --keep time --output labels.csv
  zcat new.conll.gz | treecrf predict - --format conll --model chunks.treecrf
  treecrf info m.treecrf
  treecrf export m.treecrf --output labeler.c

Use treecrf COMMAND --help for the options and examples of a command.
"""
# What helps if an array does not fit in memory.
MEMORY_ADVICE = (
    "; less memory is needed with --jobs 1, in training also with a lower --order, a smaller "
    "--window, and, for tables, with --scratch FOLDER"
)
# Maximum number of characters of a message, which may quote values of a file.
MAX_MESSAGE = 1000
# Width of descriptions in help.
WIDTH = 80
FAILED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, given the words of the command line, or else those of the process.

    Return the exit status: 0 for success, 1 if the command failed, 130 after Ctrl-C, and 141 if the
    output is no longer read. For invalid usage, the parser exits with 2.
    """
    _replace_closed_streams()
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            options = _parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
            status = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except OSError as error:
        has_name = error.filename is not None and error.strerror is not None
        return _fail(f"{error.filename}: {error.strerror}" if has_name else str(error), FAILED)
    except MemoryError as error:
        return _fail(f"{str(error) or 'not enough memory'}{MEMORY_ADVICE}", FAILED)
    except (ArithmeticError, ImportError, NotImplementedError, TypeError, ValueError) as error:
        return _fail(str(error) or type(error).__name__, FAILED)
    return status


def _complete() -> None:
    """Print the completions of a command line, for the shell that runs this, and exit."""
    try:
        import argcomplete
    except ImportError:
        sys.exit(FAILED)
    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(_parser(words))


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Make a parser; only the modules of commands among the words are imported."""
    parser = argparse.ArgumentParser(
        prog="treecrf",
        description="Label sequences with conditional random fields of boosted trees.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"treecrf {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, title in COMMANDS.items():
        command = commands.add_parser(name, help=title, formatter_class=parser.formatter_class)
        if name in words:
            with _interrupts_afterwards():
                module = importlib.import_module(f"treecrf.cli.{name}")
            command.description = textwrap.fill(module.DESCRIPTION, WIDTH)
            command.epilog = module.EXAMPLES
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


@contextlib.contextmanager
def _interrupts_afterwards() -> Iterator[None]:
    """Delay an interrupt; Python prints one that comes in the callbacks of an import."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupts: list = []
    signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        raise KeyboardInterrupt


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"treecrf: warning: {message}", file=sys.stderr)


def _fail(message: str, status: int) -> int:
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]} ..."
    with contextlib.suppress(BrokenPipeError):
        print(f"treecrf: {message}", file=sys.stderr, flush=True)
        return status
    _discard_output()
    return status


def _replace_closed_streams() -> None:
    """Discard output to streams that the caller has closed, which are None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _discard_output() -> None:
    """Discard what was not written; otherwise, Python prints an error when it closes a stream."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
