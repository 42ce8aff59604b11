"""The command ``treecrf evaluate``."""

from __future__ import annotations

import argparse
import sys

import numpy as np

from treecrf.cli.files import read_file
from treecrf.cli.options import (
    add_count,
    add_data,
    add_jobs,
    add_model,
    add_reading,
    input_of,
    known_labels,
    loaded_model,
    missing_labels,
    reading_of,
)
from treecrf.cli.predict import predictions
from treecrf.cli.tables import FileData
from treecrf.inputs.dataset import named
from treecrf.inputs.schemes import TAG
from treecrf.inputs.table_sources import Source
from treecrf.inputs.values import short_list
from treecrf.learners.classifier import SequenceClassifier
from treecrf.metrics import (
    sequence_accuracy_score,
    span_classification_report,
    token_accuracy_score,
    token_classification_report,
)

DESCRIPTION = (
    "Label the sequences of a file with a trained model and compare the predictions with the "
    "labels in the file. Prints the accuracy, and precision, recall and F1 of each label. If the "
    "labels are tags of spans, such as B-NP and I-NP, or B, I and O, also prints the scores of "
    "whole spans, which requires seqeval. Their scheme is that of the model, if it has one."
)
EXAMPLES = """\
examples:
  treecrf evaluate test.csv --model m.treecrf
  treecrf evaluate test.conll --model chunks.treecrf --digits 2
"""
# Labels of a sequence without spans.
NOTHING = np.array([], dtype=np.str_)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add_data(parser, "file with labels")
    add_model(parser)
    add_count(parser, "--digits", 4, "decimal places")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and print the scores."""
    model = loaded_model(options)
    source = Source(options.data)
    data = read_file(source, reading_of(options), input_of(model))
    if data.labels is None:
        raise ValueError(f"{source.name}: no labels; {missing_labels(data, model)}")
    labels, classes = known_labels(data.labels), model.classes_.tolist()
    if not labels or labels.isdisjoint(classes):
        where = f"column {data.columns.label!r}" if data.is_table else "the file"
        examples = short_list(list(map(repr, sorted(labels)))) or "no labels"
        raise ValueError(
            f"{source.name}: {where} holds {examples}; the labels of the model are "
            f"{short_list(list(map(repr, classes)))}"
        )
    with named(source.name):
        predicted = [labels for labels, _ in predictions(model, data.sequences)]
    _print_scores(data, predicted, options.digits)
    _print_spans(data, predicted, model, options.digits)
    return 0


def _print_scores(data: FileData, predicted: list[np.ndarray], digits: int) -> None:
    """Print the scores of positions with labels, and of sequences without a missing label."""
    masks = [np.array([label is not None for label in labels]) for labels in data.labels]
    true = [np.array(y[mask].tolist()) for y, mask in zip(data.labels, masks, strict=True)]
    found = [labels[mask] for labels, mask in zip(predicted, masks, strict=True)]
    labeled = [i for i, mask in enumerate(masks) if mask.any()]
    pairs = [[part[i] for i in labeled] for part in (true, found)]
    whole = [i for i in labeled if masks[i].all()]
    whole_pairs = [[part[i] for i in whole] for part in (true, found)]
    print(f"sequences          {len(predicted):,}")
    print(f"positions          {data.sequences.n_positions:,}")
    if data.missing_label is not None:
        n_missing = sum(np.count_nonzero(~mask) for mask in masks)
        print(f"labels missing     {n_missing:,}; these positions have no part in the scores")
    print(f"accuracy           {token_accuracy_score(*pairs):.{digits}f}")
    if whole:
        print(f"sequence accuracy  {sequence_accuracy_score(*whole_pairs):.{digits}f}")
    print()
    print(token_classification_report(*pairs, digits=digits))


def _print_spans(
    data: FileData, predicted: list[np.ndarray], model: SequenceClassifier, digits: int
) -> None:
    """Print the scores of spans, if labels are tags, or a line that says why there are none."""
    tags = known_labels(data.labels) | set(model.classes_.tolist())
    scheme = getattr(model, "transitions", None)
    if not isinstance(scheme, str):
        if not are_like_tags(tags):
            return
        scheme = scheme_of_letters(tags)
    are_whole = [None not in labels.tolist() for labels in data.labels]
    if not any(are_whole):
        print("spans: no scores, as no sequence has all its labels")
        return
    # Sequences with a missing label count as empty, so that messages number all sequences.
    true, found = [], []
    for labels, prediction, is_whole in zip(data.labels, predicted, are_whole, strict=True):
        true.append(np.array(labels.tolist()) if is_whole else NOTHING)
        found.append(prediction if is_whole else NOTHING)
    try:
        report = span_classification_report(true, found, scheme=scheme, digits=digits)
    except ImportError as error:
        print(f"treecrf: scores of spans are not available: {error}", file=sys.stderr)
    except (TypeError, ValueError) as error:
        print(f"spans: no scores; {str(error).replace(' of y_true', '')}")
    else:
        print(f"spans\n{report}")


def are_like_tags(labels: set) -> bool:
    """Return whether some labels are tags with a type, such as B-NP, or all are letters of tags."""
    tags = [TAG.fullmatch(label) if isinstance(label, str) else None for label in labels]
    if any(tag is not None and tag.group(2) for tag in tags):
        return True
    return all(tags) and len(labels & {"B", "I", "O"}) > 1


def scheme_of_letters(labels: set) -> str | None:
    """Return the scheme that alone has the letters of some tags, or None if none is needed."""
    letters = {label[0] for label in labels if isinstance(label, str) and label}
    return "bilou" if letters & {"L", "U"} else None
