"""Files that commands write: nothing that a user may need is overwritten."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from treecrf.inputs.table_sources import STANDARD
from treecrf.learners.classifier import SequenceClassifier
from treecrf.utils.model_file import MAGIC


def check_output(path: str, inputs: Iterable[str | None]) -> None:
    """Check before any work that an output does not replace an input or a model."""
    _refuse_inputs(path, inputs)
    if _is_model(path):
        raise ValueError(f"{path}: the file is a treecrf model and is not overwritten")


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


def save_model(model: SequenceClassifier, path: str) -> None:
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
        status = os.fstat(sys.stdin.fileno()) if is_standard else os.stat(other)
        return os.path.isfile(path) and os.path.samestat(os.stat(path), status)
    return False


def _is_model(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
