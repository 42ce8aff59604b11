"""Options shared by several commands, and the files that commands write."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import treecrf
from treecrf.cli.files import FORMATS
from treecrf.cli.tables import FileData, ModelInput, Reading
from treecrf.inputs.large.table_sources import STANDARD
from treecrf.runtime import load_for_labeling
from treecrf.utils.model_file import MAGIC

# Maximum number of digits of a count.
MAX_DIGITS = 9
# Title of the group of options that must be given.
REQUIRED = "required options"
# Arguments of an option that can be repeated.
REPEATED: dict = {"action": "append", "default": []}


def add_data(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the file of data."""
    parser.add_argument("data", help=f"{text}; - is standard input")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the file of the model."""
    add_required(parser, "--model", "model file written by train; - is standard input")


def add_required(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    """Add a required option for a file, in a group before the other options."""
    titles = [group.title for group in parser._action_groups]
    if REQUIRED not in titles:
        group = parser.add_argument_group(REQUIRED)
        parser._action_groups.remove(group)
        parser._action_groups.insert(1, group)
        titles.insert(1, REQUIRED)
    group = parser._action_groups[titles.index(REQUIRED)]
    group.add_argument(option, required=True, metavar="FILE", help=text)


def loaded_model(options: argparse.Namespace) -> Any:
    """Load the model, and set its number of threads."""
    path = options.model
    if path == STANDARD:
        if getattr(options, "data", None) == STANDARD:
            raise ValueError("both the data and the model are standard input; name a file")
        path = "/dev/stdin"
    model = treecrf.load(path)
    if hasattr(options, "jobs"):
        return with_settings(model, n_jobs=options.jobs)
    return model


def labeling_model(options: argparse.Namespace) -> Any:
    """Load the model for predictions alone, without scikit-learn if possible."""
    if options.model == STANDARD:  # which can be read only once
        return loaded_model(options)
    return load_for_labeling(options.model, n_jobs=options.jobs)


def add_reading(parser: argparse.ArgumentParser, with_model: bool = True) -> None:
    """Add the options for reading a file, with a model or without."""
    group = parser.add_argument_group("reading files")
    add = group.add_argument
    formats = ", ".join(FORMATS)
    text = f"{formats} (default: determined by the file extension, or else by the content)"
    add("--format", choices=FORMATS, metavar="FORMAT", help=text)
    default = " (default: that of the model)" if with_model else ""
    text = f"column of a table or of CoNLL-U that contains the labels{default}"
    add("--label", metavar="COLUMN", help=text)
    one_of = group
    if with_model:
        one_of = group.add_mutually_exclusive_group()
    every = "all rows of a table are one sequence"
    default = "that of the model" if with_model else "all rows are one sequence"
    text = f"column of a table that identifies the sequences (default: {default})"
    one_of.add_argument("--group", metavar="COLUMN", help=text)
    if with_model:
        one_of.add_argument("--no-group", action="store_true", help=every)
    add(
        "--drop", metavar="COLUMN", **REPEATED, help="column of a table to exclude; can be repeated"
    )
    text = "additional text that marks a missing value in CSV files; can be repeated"
    add("--missing", metavar="TEXT", **REPEATED, help=text)
    text = r"separator between columns of text files; \t is a tab"
    add("--separator", type=_separator, metavar="CHARACTER", help=text)
    text = "encoding of text files (default: utf-8)"
    add("--encoding", type=_encoding, default="utf-8", help=text)


def reading_of(options: argparse.Namespace, with_labels: bool = True) -> Reading:
    """Return the options for reading a file."""
    names = {field.name for field in fields(Reading)} & vars(options).keys()
    values = {name: getattr(options, name) for name in names}
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    return Reading(with_labels=with_labels, **values)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the number of threads."""
    text = "number of threads; -1 uses all processors (default: -1)"
    parser.add_argument("--jobs", type=_jobs, default=-1, metavar="N", help=text)


def add_count(parser: argparse.ArgumentParser, option: str, n: int, text: str) -> None:
    """Add a number of things to show."""
    text = f"{text} (default: {n})"
    parser.add_argument(option, type=_count, default=n, metavar="N", help=text)


def known_labels(labels: list[np.ndarray]) -> set:
    """Return the distinct labels of some sequences; None, a missing label, is not one."""
    return set(np.concatenate(labels).tolist()) - {None}


def missing_labels(data: FileData, model: Any) -> str:
    """Describe why a file has no labels, for an error message."""
    stored = model._predictor().columns.label
    if not data.is_table:
        return "the file has no column of labels"
    if stored is None:
        return "specify their column with --label"
    return f"there is no column {stored!r} as in training; specify the column with --label"


def with_settings(model: Any, **settings: object) -> Any:
    """Set the parameters that the model has, and ignore others."""
    known = model.get_params(deep=False)
    return model.set_params(**{name: v for name, v in settings.items() if name in known})


def input_of(model: Any) -> ModelInput:
    """Return the requirements of a model on a file."""
    predictor = model._predictor()
    return ModelInput(predictor.chain.schema, model.classes_, predictor.columns)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number of at least 0")
    return int(text)


def _jobs(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n == 0 or abs(n) >= 10**MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number of threads, or -1")
    return n


def _separator(text: str) -> str:
    text = text.replace("\\t", "\t")
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected one character")
    return text


def _encoding(text: str) -> str:
    try:
        "".encode(text)  # refuses codecs that are not for text
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise argparse.ArgumentTypeError(f"unknown encoding {text!r}") from None


def check_output(path: str, inputs: Iterable[str | None]) -> None:
    """Check before any work that an output does not replace an input or a model."""
    _refuse_inputs(path, inputs)
    if _is_model(path):
        raise ValueError(f"{path}: the file is a treecrf model and is not overwritten")
    if path.lower().endswith(".jsonl"):
        raise ValueError(f"{path}: predictions are written as CSV or Parquet; change the ending")


def check_model_output(path: str, inputs: Iterable[str | None]) -> None:
    """Check before any work that a model can be written, and replaces nothing but a model."""
    if path == STANDARD:
        if sys.stdout.isatty():
            raise ValueError("--model: a model is not written to a terminal; redirect the output")
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: the folder {folder} does not exist")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise ValueError(f"{path}: the file cannot be written")
    _refuse_inputs(path, inputs)
    if not os.path.exists(path):
        return
    if not os.path.isfile(path):
        raise ValueError(f"{path}: not a regular file; use --model - for standard output")
    if os.path.getsize(path) and not _is_model(path):
        raise ValueError(
            f"{path}: the file exists and is not a treecrf model; it is not overwritten"
        )


def save_model(model: Any, path: str) -> None:
    """Save a model to a file or to standard output."""
    if path != STANDARD:
        model.save(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = os.path.join(folder, "model")
        model.save(temporary)
        with open(temporary, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


@contextlib.contextmanager
def opened_output(path: str) -> Iterator[TextIO]:
    """Open an output file, compressed if its name ends with ``.gz``, or standard output."""
    if path == STANDARD:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        yield sys.stdout
        return
    compressed = path.endswith(".gz")
    with (gzip.open if compressed else open)(path, "wt", encoding="utf-8", newline="") as file:
        yield file


def _refuse_inputs(path: str, inputs: Iterable[str | None]) -> None:
    for other in inputs:
        if other is not None and _is_same(path, other):
            name = "standard input" if other == STANDARD else other
            raise ValueError(
                f"{path}: the output is the same file as the input {name}; name another file"
            )


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths lead to one existing file, through links as well."""
    if path == STANDARD:
        return False
    # An input that is missing, or a standard input that is not a file, is not the output either.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        is_standard = other == STANDARD
        if is_standard:
            status = os.fstat(sys.stdin.fileno())
        else:
            status = os.stat(other)
        return os.path.isfile(path) and os.path.samestat(os.stat(path), status)
    return False


def _is_model(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
