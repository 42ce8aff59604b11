"""Options that several commands have."""

from __future__ import annotations

import argparse
import codecs

from treecrf.cli.files import FORMATS, ModelInput, Reading
from treecrf.learners.classifier import SequenceClassifier


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add what tells how to read a file."""
    group = parser.add_argument_group("reading")
    add = group.add_argument
    add("--format", choices=FORMATS, help="of the file; if not given, its name tells")
    add("--label", metavar="COLUMN", help="column of a table that holds the labels")
    add(
        "--group",
        metavar="COLUMN",
        help="column of a table that tells the sequences apart; without it all rows are one",
    )
    add(
        "--drop",
        metavar="COLUMN",
        action="append",
        default=[],
        help="column of a table to leave out; may be given again",
    )
    add(
        "--missing",
        metavar="TEXT",
        action="append",
        default=[],
        help="text that means a missing value in CSV files, beside the usual; may be given again",
    )
    add("--separator", type=_separator, help=r"between columns of text files; \t is a tab")
    add("--encoding", type=_encoding, default="utf-8", help="of text files (default: utf-8)")


def reading_of(options: argparse.Namespace) -> Reading:
    """How to read a file."""
    return Reading(
        format=options.format,
        label=options.label,
        group=options.group,
        drop=tuple(options.drop),
        category=tuple(getattr(options, "category", ())),
        missing=tuple(options.missing),
        separator=options.separator,
        encoding=options.encoding,
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the number of threads."""
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=-1,
        metavar="N",
        help="threads; -1, the default, for all processors",
    )


def with_settings(model: SequenceClassifier, **settings: object) -> SequenceClassifier:
    """The model with those of some parameters that it has."""
    known = model.get_params(deep=False)
    return model.set_params(**{name: v for name, v in settings.items() if name in known})


def input_of(model: SequenceClassifier) -> ModelInput:
    """What a model expects of a file."""
    return ModelInput(model._schema, model.classes_)


def _jobs(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number of threads, or -1")
    return n


def _separator(text: str) -> str:
    text = text.replace("\\t", "\t")
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected one character")
    return text


def _encoding(text: str) -> str:
    try:
        return codecs.lookup(text).name
    except LookupError:
        raise argparse.ArgumentTypeError(f"there is no encoding {text!r}") from None
