"""The command ``treecrf evaluate``."""

from __future__ import annotations

import argparse
import re
import sys

import numpy as np

from treecrf.cli.files import Source, read_file
from treecrf.cli.options import (
    add_data,
    add_jobs,
    add_model,
    add_reading,
    input_of,
    loaded_model,
    reading_of,
)
from treecrf.cli.predict import predictions
from treecrf.metrics import (
    sequence_accuracy_score,
    span_classification_report,
    token_accuracy_score,
    token_classification_report,
)

DESCRIPTION = (
    "Label the sequences of a file with a trained model and compare the predictions with the "
    "labels in the file. Prints the accuracy, and precision, recall and F1 of each label. If the "
    "labels are tags such as B-NP and I-NP, also prints the scores of whole spans, which requires "
    "seqeval."
)
EXAMPLES = """\
examples:
  treecrf evaluate test.csv --model m.treecrf
  treecrf evaluate test.conll --model chunks.treecrf --digits 2
"""
TAG = re.compile("O|[BIES]-.+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add_data(parser, "file with labels")
    add_model(parser)
    add("--digits", type=int, default=4, metavar="N", help="number of decimal places (default: 4)")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and print the scores."""
    model = loaded_model(options)
    source = Source(options.data)
    data = read_file(source, reading_of(options), input_of(model))
    if data.labels is None:
        raise ValueError(f"{source.name}: no labels; specify their column with --label")
    predicted = [labels for labels, _ in predictions(model, data.sequences)]
    digits = options.digits
    print(f"sequences          {len(predicted):,}")
    print(f"positions          {data.sequences.n_positions:,}")
    print(f"accuracy           {token_accuracy_score(data.labels, predicted):.{digits}f}")
    print(f"sequence accuracy  {sequence_accuracy_score(data.labels, predicted):.{digits}f}")
    print()
    print(token_classification_report(data.labels, predicted, digits=digits))
    if _are_tags([*data.labels, model.classes_]):
        _print_spans(data.labels, predicted, digits)
    return 0


def _are_tags(labels: list[np.ndarray]) -> bool:
    """Return whether labels are tags that mark spans."""
    found = set(np.unique(np.concatenate(labels)).tolist())
    return all(isinstance(label, str) and TAG.fullmatch(label) for label in found) and any(
        label.startswith("B-") for label in found
    )


def _print_spans(true: list[np.ndarray], predicted: list[np.ndarray], digits: int) -> None:
    try:
        report = span_classification_report(true, predicted, digits=digits)
    except ImportError as error:
        print(f"treecrf: scores of spans are not available: {error}", file=sys.stderr)
        return
    print("spans")
    print(report)
