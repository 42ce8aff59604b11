"""``python -m treecrf predict``."""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
from collections.abc import Iterator
from typing import TextIO

import numpy as np

import treecrf
from treecrf.cli.files import FileData, read_file
from treecrf.cli.options import add_jobs, add_reading, input_of, reading_of, with_settings
from treecrf.inputs.sequences import Sequences, runs
from treecrf.learners.classifier import SequenceClassifier

DESCRIPTION = (
    "Label the sequences of a file with a trained model. For a table the output is CSV with a row "
    "for each row; for the other formats it has a line for each position and a blank line after "
    "each sequence. Columns of a table that the model does not know are left out."
)
# About so many bytes of scores at a time.
BATCH_BYTES = 1 << 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options of this command."""
    add = parser.add_argument
    add("data", help="file to label")
    add("--model", required=True, metavar="FILE", help="model file that train has written")
    add("--output", metavar="FILE", help="file to write; standard output if not given")
    add("--proba", action="store_true", help="also write the probability of every label")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and write labels."""
    model = with_settings(treecrf.load(options.model), n_jobs=options.jobs)
    data = read_file(options.data, reading_of(options), input_of(model))
    results = predictions(model, data.sequences, options.proba)
    with _output(options.output) as file:
        if data.is_table:
            _write_table(file, data, options.group, results, model.classes_, options.proba)
        else:
            _write_lines(file, results, model.classes_)
    return 0


def predictions(
    model: SequenceClassifier, sequences: Sequences, proba: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Labels of one sequence after another, and their probabilities if wanted."""
    row_bytes = 8 * len(model.classes_) ** (model._trained_order + 1)
    for batch in batches(sequences, max(1, BATCH_BYTES // row_bytes)):
        labels = model.predict(batch)
        yield from zip(
            labels, model.predict_proba(batch) if proba else [None] * len(labels), strict=True
        )


def batches(sequences: Sequences, n_positions: int) -> Iterator[Sequences]:
    """Runs of sequences with about so many positions each."""
    for first, last in runs(sequences.offsets, n_positions):
        yield sequences.take(np.arange(first, last))


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        yield file


def _write_table(
    file: TextIO,
    data: FileData,
    group: str | None,
    results: Iterator[tuple[np.ndarray, np.ndarray | None]],
    classes: np.ndarray,
    proba: bool,
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    chances = [f"p_{label}" for label in classes] if proba else []
    writer.writerow([*([group] if group else []), "prediction", *chances])
    for i, (labels, probabilities) in enumerate(results):
        name = [data.groups[i]] if group else []
        for t, label in enumerate(labels.tolist()):
            row = [] if probabilities is None else map(_shown, probabilities[t])
            writer.writerow([*name, label, *row])


def _write_lines(
    file: TextIO, results: Iterator[tuple[np.ndarray, np.ndarray | None]], classes: np.ndarray
) -> None:
    for labels, probabilities in results:
        for t, label in enumerate(labels.tolist()):
            chances = []
            if probabilities is not None:
                pairs = zip(classes, probabilities[t], strict=True)
                chances = [f"{name}:{_shown(p)}" for name, p in pairs]
            file.write("\t".join([str(label), *chances]) + "\n")
        file.write("\n")


def _shown(probability: float) -> str:
    return f"{probability:.6g}"
