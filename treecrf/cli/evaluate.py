"""The command ``treecrf evaluate``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

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
from treecrf.inputs.large.table_sources import Source
from treecrf.inputs.schemes import TAG
from treecrf.inputs.values import short_list
from treecrf.learners.base.classifier import SequenceClassifier
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
  treecrf evaluate test.csv --model m.treecrf --json
"""
# Labels of a sequence without spans.
NOTHING = np.array([], dtype=np.str_)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add_data(parser, "file with labels")
    add_model(parser)
    add_count(parser, "--digits", 4, "decimal places")
    text = "print the scores as a JSON object, with all digits"
    parser.add_argument("--json", action="store_true", help=text)
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and print the scores."""
    model = loaded_model(options)
    source = Source(options.data)
    data = read_file(source, reading_of(options), input_of(model))
    if data.labels is None:
        raise ValueError(f"{source.name}: no labels; {missing_labels(data, model)}")
    labels = known_labels(data.labels)
    classes = model.classes_.tolist()
    if not labels or labels.isdisjoint(classes):
        where = "the file"
        if data.is_table:
            where = f"column {data.columns.label!r}"
        examples = short_list(list(map(repr, sorted(labels)))) or "no labels"
        raise ValueError(
            f"{source.name}: {where} holds {examples}; the labels of the model are "
            f"{short_list(list(map(repr, classes)))}"
        )
    with named(source.name):
        predicted = [labels for labels, _ in predictions(model, data.sequences)]
    if options.json:
        scores = scores_of(data, predicted, output_dict=True)
        scores["spans"] = spans_of(data, predicted, model, output_dict=True)
        print(json.dumps(scores, indent=2, default=float))
        return 0
    _print_scores(scores_of(data, predicted, digits=options.digits), options.digits)
    spans = spans_of(data, predicted, model, digits=options.digits)
    if isinstance(spans, dict):
        print(f"spans: no scores; {spans['error']}")
    elif spans is not None:
        print(f"spans\n{spans}")
    return 0


def scores_of(data: FileData, predicted: list[np.ndarray], **report: Any) -> dict[str, Any]:
    """Compute the scores of positions with labels, and of sequences without a missing label."""
    masks = [np.array([label is not None for label in labels]) for labels in data.labels]
    true = [np.array(y[mask].tolist()) for y, mask in zip(data.labels, masks, strict=True)]
    compared = [labels[mask] for labels, mask in zip(predicted, masks, strict=True)]
    labeled = [i for i, mask in enumerate(masks) if mask.any()]
    pairs = [[labels[i] for i in labeled] for labels in (true, compared)]
    whole = [i for i in labeled if masks[i].all()]
    whole_pairs = [[labels[i] for i in whole] for labels in (true, compared)]
    return {
        "sequences": len(predicted),
        "positions": data.sequences.n_positions,
        "labels_missing": int(sum(np.count_nonzero(~mask) for mask in masks)),
        "accuracy": token_accuracy_score(*pairs),
        "sequence_accuracy": sequence_accuracy_score(*whole_pairs) if whole else None,
        "labels": token_classification_report(*pairs, **report),
    }


def _print_scores(scores: dict[str, Any], digits: int) -> None:
    print(f"sequences          {scores['sequences']:,}")
    print(f"positions          {scores['positions']:,}")
    if scores["labels_missing"]:
        n_missing = scores["labels_missing"]
        print(f"labels missing     {n_missing:,}; these positions have no part in the scores")
    print(f"accuracy           {scores['accuracy']:.{digits}f}")
    if scores["sequence_accuracy"] is not None:
        print(f"sequence accuracy  {scores['sequence_accuracy']:.{digits}f}")
    print()
    print(scores["labels"])


def spans_of(
    data: FileData, predicted: list[np.ndarray], model: SequenceClassifier, **report: Any
) -> Any:
    """Compute the scores of spans, None if labels are no tags, or a dict that says the error."""
    tags = known_labels(data.labels) | set(model.classes_.tolist())
    scheme = getattr(model, "transitions", None)
    if not isinstance(scheme, str):
        if not are_like_tags(tags):
            return None
        scheme = scheme_of_letters(tags)
    are_whole = [None not in labels.tolist() for labels in data.labels]
    if not any(are_whole):
        return {"error": "no sequence has all its labels"}
    # Sequences with a missing label count as empty, so that messages number all sequences.
    true = []
    compared = []
    for labels, prediction, is_whole in zip(data.labels, predicted, are_whole, strict=True):
        true.append(np.array(labels.tolist()) if is_whole else NOTHING)
        compared.append(prediction if is_whole else NOTHING)
    try:
        return span_classification_report(true, compared, scheme=scheme, **report)
    except ImportError as error:
        print(f"treecrf: scores of spans are not available: {error}", file=sys.stderr)
        return None
    except (TypeError, ValueError) as error:
        return {"error": str(error).replace(" of y_true", "")}


def are_like_tags(labels: set) -> bool:
    """Return whether some labels are tags with a type, such as B-NP, or all are letters of tags."""
    tags = [TAG.fullmatch(label) if isinstance(label, str) else None for label in labels]
    if any(tag is not None and tag.group(2) for tag in tags):
        return True
    return all(tags) and len(labels & {"B", "I", "O"}) > 1


def scheme_of_letters(labels: set) -> str | None:
    """Return the scheme that alone has the letters of some tags, or None if none is needed."""
    letters = {label[0] for label in labels if isinstance(label, str) and label}
    if letters & {"L", "U"}:
        return "bilou"
    return None
