"""The command ``python -m treecrf train``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from treecrf.cli.files import TABLES, FileData, ModelInput, Reading, format_of, read_file
from treecrf.cli.options import add_jobs, add_reading, reading_of, with_settings
from treecrf.cli.parameters import make_learner, parse_setting
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.registry import LEARNERS

DESCRIPTION = (
    "Train a model on the sequences of a file and save it. Tables (CSV, TSV, Parquet) require "
    "--label, and --group if they contain more than one sequence. In CoNLL files, the last column "
    "is the label. CRFsuite's format and the sparse format of the papers also contain the labels."
)
# Parameters that have their own options.
OWN_OPTIONS = ("order", "window", "max_iter", "random_state")
# Columns with at most this many distinct values cause no warning.
MAX_DISTINCT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add("data", help="file with training data")
    add("--model", required=True, metavar="FILE", help="model file to write")
    add("--validation", metavar="FILE", help="file with validation data")
    add("--learner", choices=LEARNERS, default="crf", help="type of model (default: crf)")
    add("--window", type=_window, metavar="N", help="window: positions on each side, or LEFT,RIGHT")
    add("--order", type=int, metavar="N", help="number of previous labels that a label depends on")
    add("--max-iter", type=int, metavar="N", help="maximum number of iterations")
    add("--random-state", type=int, metavar="SEED", help="seed of the random number generator")
    add(
        "--set",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="any parameter of the learner, such as --set learning_rate=0.2; can be repeated",
    )
    add(
        "--category",
        metavar="COLUMN",
        action="append",
        default=[],
        help="column of a table whose whole numbers are categories; can be repeated",
    )
    add("--quiet", action="store_true", help="do not show progress")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Train a model and save it."""
    learner = _learner(options)
    _check_writable(options.model)
    reading = reading_of(options)
    data = _labeled(options.data, reading, options.learner)
    if not options.quiet:
        _describe(data)
    learner.fit(data.sequences, data.labels, *_validation(options, reading, learner, data))
    # The model file does not store the number of threads and the verbosity.
    with_settings(learner, n_jobs=None, verbose=0).save(options.model)
    return 0


def _learner(options: argparse.Namespace) -> SequenceClassifier:
    named = [(name, getattr(options, name)) for name in OWN_OPTIONS]
    settings = [(name, value) for name, value in named if value is not None]
    learner = make_learner(options.learner, [*settings, *options.settings])
    return with_settings(learner, n_jobs=options.jobs, verbose=int(not options.quiet))


def _check_writable(model: str) -> None:
    """Raise ValueError before training if the model file cannot be written."""
    folder = Path(model).parent
    if not folder.is_dir():
        raise ValueError(f"{model}: the folder {folder} does not exist")
    if Path(model).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{model}: the file cannot be written")


def _labeled(path: str, reading: Reading, learner: str) -> FileData:
    if (reading.format or format_of(path)) in TABLES and reading.label is None:
        raise ValueError(f"{path} is a table: specify the column of labels with --label")
    data = read_file(path, reading)
    return data.as_symbols() if learner == "hmm" else data


def _describe(data: FileData) -> None:
    s = data.sequences
    sizes = {"sequences": s.n_sequences, "positions": s.n_positions, "features": s.n_features}
    print(", ".join(f"{name}: {n:,}" for name, n in sizes.items()), file=sys.stderr)
    for j, values in s.categories.items() if data.is_table else ():
        if len(values) > max(s.n_positions / 2, MAX_DISTINCT):
            print(
                f"column {s.names[j]!r} has {len(values):,} distinct values and is unlikely to "
                f"help; exclude it with --drop {s.names[j]}",
                file=sys.stderr,
            )


def _validation(
    options: argparse.Namespace, reading: Reading, learner: SequenceClassifier, data: FileData
) -> tuple:
    """Read the validation sequences and labels for `fit`, like the training data."""
    if options.validation is None:
        return ()
    if "validation_fraction" not in learner.get_params():
        raise ValueError(f"--validation: {type(learner).__name__} does not use validation data")
    expected = ModelInput(data.sequences.schema, np.unique(np.concatenate(data.labels)))
    held_out = read_file(options.validation, reading, expected)
    return held_out.sequences, held_out.labels


def _window(text: str) -> Any:
    sides = text.split(",")
    if len(sides) > 2 or not all(side.strip().isdecimal() for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r}; expected N, or LEFT,RIGHT")
    return int(text) if len(sides) == 1 else tuple(map(int, sides))
