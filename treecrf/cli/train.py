"""The command ``treecrf train``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from treecrf.cli.files import (
    STANDARD,
    TABLES,
    FileData,
    ModelInput,
    Reading,
    Source,
    format_of,
    read_file,
)
from treecrf.cli.options import (
    add_data,
    add_jobs,
    add_reading,
    add_required,
    known_labels,
    reading_of,
    with_name,
    with_settings,
)
from treecrf.cli.outputs import check_model_output, save_model
from treecrf.cli.parameters import make_learner, parameters_of, parse_setting
from treecrf.cli.pieces import are_pieces, fit_pieces
from treecrf.inputs.doubts import doubtful_columns
from treecrf.inputs.labels import ColumnNames, as_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.registry import LEARNERS
from treecrf.utils.warn import warn

DESCRIPTION = (
    "Train a model on the sequences of a file and save it. Tables (CSV, TSV, Parquet) require "
    "--label, and --group if they contain more than one sequence. In CoNLL files, the last column "
    "is the label. In CoNLL-U, it is upos or the column of --label, and the words are the only "
    "feature. CRFsuite's format and the sparse format of the papers also contain the labels."
)
EXAMPLES = """\
examples:
  treecrf train train.csv --label activity --group day --model m.treecrf --window 2
  treecrf train train.conll --model chunks.treecrf --window 2 --set transitions=bio
  treecrf train train.csv --label y --model m.treecrf --validation dev.csv
  treecrf train "parts/*.parquet" --label y --group id --model m.treecrf --scratch /tmp
  zcat train.conll.gz | treecrf train - --format conll --model m.treecrf --learner linear
"""
# Parameters that have their own options.
OWN_OPTIONS = ("order", "window", "max_iter", "random_state")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add_data(parser, "file with training data, or for tables a folder or a quoted pattern of files")
    add_required(
        parser,
        "--model",
        "model file to write; an existing one is replaced, other files are not; - is standard "
        "output",
    )
    add("--validation", metavar="FILE", help="file with validation data")
    add(
        "--learner",
        choices=LEARNERS,
        default="crf",
        metavar="NAME",
        help=f"type of model: {', '.join(LEARNERS)} (default: crf)",
    )
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
        help="parameter of the learner, such as learning_rate=0.2; can be repeated",
    )
    add(
        "--parameters",
        choices=LEARNERS,
        metavar="LEARNER",
        action=_ListParameters,
        help="list the names for --set and their defaults, and exit",
    )
    add(
        "--category",
        metavar="COLUMN",
        action="append",
        default=[],
        help="column of a table whose whole numbers are categories; can be repeated",
    )
    add(
        "--scratch",
        metavar="FOLDER",
        help="read tables in pieces, and keep temporary files in this folder instead of memory",
    )
    add("--quiet", action="store_true", help="do not show progress; warnings remain")
    add_jobs(parser)
    add_reading(parser, with_model=False)
    names = textwrap.fill(
        ", ".join(parameters_of("crf")), 98, initial_indent="  ", subsequent_indent="  "
    )
    parser.epilog = f"{EXAMPLES}\nnames for --set with --learner crf:\n{names}\n"


class _ListParameters(argparse.Action):
    """Option that lists the parameters of a learner instead of training."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        for name, value in parameters_of(values).items():
            print(f"{name}={value!r}")
        parser.exit()


def run(options: argparse.Namespace) -> int:
    """Train a model and save it."""
    learner = _learner(options)
    check_model_output(options.model, [options.data, options.validation])
    if are_pieces(options):
        fit_pieces(learner, options)
    else:
        _fit_file(learner, options)
    learner._columns = ColumnNames(options.label, options.group)
    # The model file does not store the number of threads and the verbosity.
    save_model(with_settings(learner, n_jobs=None, verbose=0), options.model)
    return 0


def _fit_file(learner: SequenceClassifier, options: argparse.Namespace) -> None:
    if options.data == options.validation == STANDARD:
        raise ValueError("both the data and --validation are standard input; name a file")
    reading, source = reading_of(options), Source(options.data)
    own_reading = replace(reading, format=reading.format or format_of(source))
    data = _labeled(source, own_reading, options.learner)
    _check_missing_labels(learner, source, data)
    if not options.quiet:
        _describe(data, own_reading.format)
    _warn_of_columns(data)
    validation = _validation(options, reading, learner, data)
    with _named(source, options.validation):
        learner.fit(data.sequences, data.labels, *validation)


@contextlib.contextmanager
def _named(source: Source, validation: str | None) -> Iterator[None]:
    """Add the name of the file of training or of validation data to errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        start = "validation data: "
        if not str(error).startswith(start):
            raise with_name(source.name, error) from error
        raise ValueError(f"{validation}: {str(error).removeprefix(start)}") from error


def _check_missing_labels(learner: SequenceClassifier, source: Source, data: FileData) -> None:
    """Raise ValueError if a label is missing, and the learner needs all of them."""
    if data.missing_label is None:
        return
    labels = as_labels(data.labels, data.sequences.offsets, Segmentation())
    try:
        learner._check_unknown(labels)
    except ValueError as error:
        reason = str(error).partition("; ")[2]
        raise ValueError(
            f"{source.name}: {data.missing_label}: the label is missing; {reason}"
        ) from None


def _learner(options: argparse.Namespace) -> SequenceClassifier:
    named = [(name, getattr(options, name)) for name in OWN_OPTIONS]
    settings = [(name, value) for name, value in named if value is not None]
    learner = make_learner(options.learner, [*settings, *options.settings])
    return with_settings(learner, n_jobs=options.jobs, verbose=int(not options.quiet))


def _labeled(source: Source, reading: Reading, learner: str) -> FileData:
    if reading.format in TABLES and reading.label is None:
        raise ValueError(f"{source.name} is a table: specify the column of labels with --label")
    data = read_file(source, reading)
    return data.as_symbols() if learner == "hmm" else data


def _describe(data: FileData, format_name: str) -> None:
    s = data.sequences
    sizes = {"sequences": s.n_sequences, "positions": s.n_positions, "features": s.n_features}
    parts = [f"{name}: {n:,}" for name, n in sizes.items()]
    if data.missing_label is not None:
        n_unlabeled = sum(label is None for labels in data.labels for label in labels.tolist())
        parts[1] += f" ({n_unlabeled:,} without a label)"
    print(", ".join([*parts, f"format: {format_name}"]), file=sys.stderr)


def _warn_of_columns(data: FileData) -> None:
    names = data.sequences.names
    for j, doubt in doubtful_columns(data.sequences) if data.is_table else ():
        mend = f"--drop {names[j]} leaves it out"
        warn(f"column {names[j]!r} {doubt}, and is used as a category; {mend}")


def _validation(
    options: argparse.Namespace, reading: Reading, learner: SequenceClassifier, data: FileData
) -> tuple:
    """Read the validation sequences and labels for `fit`, like the training data."""
    if options.validation is None:
        return ()
    if "validation_fraction" not in learner.get_params():
        raise ValueError(f"--validation: {type(learner).__name__} does not use validation data")
    expected = ModelInput(data.sequences.schema, np.array(sorted(known_labels(data.labels))))
    held_out = read_file(Source(options.validation), reading, expected)
    return held_out.sequences, held_out.labels


def _window(text: str) -> Any:
    sides = text.split(",")
    if len(sides) > 2 or not all(side.strip().isdecimal() for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r}; expected N, or LEFT,RIGHT")
    return int(text) if len(sides) == 1 else tuple(map(int, sides))
