"""The command ``treecrf predict``."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from typing import TextIO

import numpy as np

from treecrf.cli.files import STANDARD, FileData, Source, read_file
from treecrf.cli.options import (
    add_data,
    add_jobs,
    add_model,
    add_reading,
    input_of,
    loaded_model,
    reading_of,
)
from treecrf.cli.outputs import check_output, opened_output
from treecrf.inputs.offsets import runs
from treecrf.inputs.sequences import Sequences
from treecrf.learners.classifier import SequenceClassifier

DESCRIPTION = (
    "Label the sequences of a file with a trained model. For a table, the output is CSV with one "
    "row per row of the table. For the other formats, it has one line per position and a blank "
    "line after each sequence. Columns of a table that the model does not use are ignored."
)
EXAMPLES = """\
examples:
  treecrf predict new.csv --model m.treecrf --output labels.csv
  treecrf predict new.csv --model m.treecrf --proba | less
  zcat new.conll.gz | treecrf predict - --format conll --model chunks.treecrf
"""
# Approximate size of the scores that are computed at a time.
BATCH_BYTES = 1 << 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add_data(parser, "file to label")
    add_model(parser)
    add(
        "--output",
        metavar="FILE",
        default=STANDARD,
        help="output file, which is overwritten if it exists (default: standard output)",
    )
    add("--proba", action="store_true", help="also write the probability of each label")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and write the predicted labels."""
    check_output(options.output, [options.data, options.model])
    model = loaded_model(options)
    data = read_file(Source(options.data), reading_of(options), input_of(model))
    results = predictions(model, data.sequences, options.proba)
    with opened_output(options.output) as file:
        if data.is_table:
            _write_table(file, data, options.group, results, model.classes_, options.proba)
        else:
            _write_lines(file, results, model.classes_)
    return 0


def predictions(
    model: SequenceClassifier, sequences: Sequences, proba: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the labels of each sequence, and the probabilities of all labels or None."""
    row_bytes = 8 * len(model.classes_) ** (model._trained_order + 1)
    for batch in batches(sequences, max(1, BATCH_BYTES // row_bytes)):
        labels = model.predict(batch)
        yield from zip(
            labels, model.predict_proba(batch) if proba else [None] * len(labels), strict=True
        )


def batches(sequences: Sequences, n_positions: int) -> Iterator[Sequences]:
    """Yield runs of sequences with about ``n_positions`` positions each."""
    for first, last in runs(sequences.offsets, n_positions):
        yield sequences.take(np.arange(first, last))


def _write_table(
    file: TextIO,
    data: FileData,
    group: str | None,
    results: Iterator[tuple[np.ndarray, np.ndarray | None]],
    classes: np.ndarray,
    proba: bool,
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    columns = [f"p_{label}" for label in classes] if proba else []
    writer.writerow([*([group] if group else []), "prediction", *columns])
    for i, (labels, probabilities) in enumerate(results):
        name = [data.groups[i]] if group else []
        for t, label in enumerate(labels.tolist()):
            row = [] if probabilities is None else map(_formatted, probabilities[t])
            writer.writerow([*name, label, *row])


def _write_lines(
    file: TextIO, results: Iterator[tuple[np.ndarray, np.ndarray | None]], classes: np.ndarray
) -> None:
    for labels, probabilities in results:
        for t, label in enumerate(labels.tolist()):
            fields = [str(label)]
            if probabilities is not None:
                pairs = zip(classes, probabilities[t], strict=True)
                fields += [f"{name}:{_formatted(p)}" for name, p in pairs]
            file.write("\t".join(fields) + "\n")
        file.write("\n")


def _formatted(probability: float) -> str:
    return f"{probability:.6g}"
