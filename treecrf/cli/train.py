"""The command ``treecrf train``."""

from __future__ import annotations

import argparse
import ast
import difflib
import glob
import os
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from treecrf.cli.files import TABLES, format_of, read_file
from treecrf.cli.options import (
    REPEATED,
    add_data,
    add_jobs,
    add_reading,
    add_required,
    check_model_output,
    known_labels,
    reading_of,
    save_model,
    with_settings,
)
from treecrf.cli.tables import FileData, ModelInput
from treecrf.inputs.column_names import ColumnNames, FileTemplates
from treecrf.inputs.data_warnings import doubtful_columns
from treecrf.inputs.dataset import RawData, named
from treecrf.inputs.large.scratch import check_folder
from treecrf.inputs.large.table_sources import STANDARD, Source
from treecrf.inputs.large.tables import TableReader, open_tables
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.learner import SequenceLearner
from treecrf.learners.registry import LEARNERS
from treecrf.preprocessing.templates import AttributeTemplates
from treecrf.utils.messages import warn

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
  treecrf train train.conll --model chunks.treecrf --template template --learner linear
  treecrf train train.csv --label y --model m.treecrf --validation dev.csv
  treecrf train "parts/*.parquet" --label y --group id --model m.treecrf --scratch /tmp
  zcat train.conll.gz | treecrf train - --format conll --model m.treecrf --learner linear
"""
# Parameters that have their own options.
OWN_OPTIONS = ("order", "window", "max_iter", "random_state")
# Parameters that have their own options, or no meaning on the command line.
EXCLUDED = ("estimator", "attributes", "n_jobs", "verbose", "warm_start")
# The largest whole number that --set accepts.
MAX_WHOLE = np.iinfo(np.int64).max
CONSTANTS = {"true": True, "false": False, "none": None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add_data(parser, "file with training data, or for tables a folder or a quoted pattern of files")
    text = "model file to write; an existing one is replaced, other files are not; - is standard"
    add_required(parser, "--model", f"{text} output")
    add("--validation", metavar="FILE", help="file with validation data")
    text = f"type of model: {', '.join(LEARNERS)} (default: crf)"
    add("--learner", choices=LEARNERS, default="crf", metavar="NAME", help=text)
    text = "window: positions on each side, LEFT,RIGHT, or auto"
    add("--window", type=_window, metavar="N", help=text)
    add("--order", type=int, metavar="N", help="number of previous labels that a label depends on")
    add("--max-iter", type=int, metavar="N", help="maximum number of iterations")
    add("--random-state", type=int, metavar="SEED", help="seed of the random number generator")
    text = "parameter of the learner, such as learning_rate=0.2; can be repeated"
    add("--set", type=parse_setting, metavar="NAME=VALUE", dest="settings", **REPEATED, help=text)
    add(
        "--parameters",
        choices=LEARNERS,
        metavar="LEARNER",
        action=_ListParameters,
        help="list the names for --set and their defaults, and exit",
    )
    text = (
        "column of a table with the group of each sequence, such as a person; sequences of a group "
        "are held out together"
    )
    add("--fold-groups", metavar="COLUMN", help=text)
    text = "column of a table whose whole numbers are categories; can be repeated"
    add("--category", metavar="COLUMN", **REPEATED, help=text)
    files = parser.add_mutually_exclusive_group()
    text = "templates of CRF++, which make attributes of the columns of a CoNLL file"
    files.add_argument("--template", metavar="FILE", help=text)
    text = "patterns of Wapiti, which do the same"
    files.add_argument("--pattern", metavar="FILE", help=text)
    text = "read tables in pieces, and keep temporary files in this folder instead of memory"
    add("--scratch", metavar="FOLDER", help=text)
    add("--quiet", action="store_true", help="do not show progress; warnings remain")
    add_jobs(parser)
    add_reading(parser, with_model=False)
    names = textwrap.fill(
        ", ".join(parameters_of("crf")), 98, initial_indent="  ", subsequent_indent="  "
    )
    parser.epilog = f"{EXAMPLES}\nnames for --set with --learner crf:\n{names}\n"


class _ListParameters(argparse.Action):
    """Option that lists the parameters of a learner instead of training."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, learner: Any, *args: Any) -> None:
        for name, value in parameters_of(learner).items():
            print(f"{name}={value!r}")
        parser.exit()


def run(options: argparse.Namespace) -> int:
    """Train a model and save it."""
    own = {name: getattr(options, name) for name in OWN_OPTIONS}
    settings = [(name, value) for name, value in own.items() if value is not None]
    learner = make_learner(options.learner, [*settings, *options.settings])
    learner = with_settings(learner, n_jobs=options.jobs, verbose=int(not options.quiet))
    inputs = options.data, options.validation, options.template, options.pattern
    check_model_output(options.model, inputs)
    path = options.data
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    templates = None
    if options.scratch is not None or is_pattern or os.path.isdir(path):
        _fit_pieces(learner, options)
    else:
        templates = _fit_file(learner, options)
    learner._columns = ColumnNames(
        options.label, options.group, fold=options.fold_groups, templates=templates
    )
    # The model file does not store the number of threads and the verbosity.
    save_model(with_settings(learner, n_jobs=None, verbose=0), options.model)
    return 0


def _fit_file(learner: SequenceClassifier, options: argparse.Namespace) -> FileTemplates | None:
    """Train on a file; return what a model needs to know of templates."""
    if options.data == options.validation == STANDARD:
        raise ValueError("both the data and --validation are standard input; name a file")
    reading = replace(reading_of(options), templates=_templates(options))
    source = Source(options.data)
    form = reading.format or format_of(source)
    if form in TABLES and reading.label is None:
        raise ValueError(f"{source.name} is a table: specify the column of labels with --label")
    data = read_file(source, replace(reading, format=form))
    if options.learner == "hmm":
        data = data.as_symbols()
    _check_missing_labels(learner, source, data)
    if not options.quiet:
        _print_sizes(data, form)
    if data.is_table:
        _warn_of_columns(data.sequences)
    templates = _stored(reading.templates, data)
    validation = ()
    if options.validation is not None:
        if "validation_fraction" not in learner.get_params():
            raise ValueError(f"--validation: {type(learner).__name__} does not use validation data")
        classes = np.array(sorted(known_labels(data.labels)))
        columns = ColumnNames(templates=templates)
        expected = ModelInput(data.sequences.schema, classes, columns)
        held_out = read_file(Source(options.validation), reading, expected)
        validation = (held_out.sequences, held_out.labels)
    try:
        learner.fit(data.sequences, data.labels, *validation, **_fold_groups(learner, data))
    except (TypeError, ValueError) as error:
        message = str(error).removeprefix("validation data: ")
        if message != str(error):
            raise ValueError(f"{options.validation}: {message}") from error
        with named(source.name):
            raise
    return templates


def _templates(options: argparse.Namespace) -> AttributeTemplates | None:
    """Read the templates of CRF++ or the patterns of Wapiti, if there are any."""
    path = options.template or options.pattern
    if path is None:
        return None
    syntax = "crf++" if options.template else "wapiti"
    return AttributeTemplates.from_file(path, syntax=syntax, encoding=options.encoding).fit()


def _stored(templates: AttributeTemplates | None, data: FileData) -> FileTemplates | None:
    """Return what a model needs to make the same attributes of other files."""
    if templates is None:
        return None
    return FileTemplates(tuple(templates.templates), templates.syntax, len(data.text_names))


def _fold_groups(learner: SequenceClassifier, data: FileData) -> dict[str, list]:
    """Return the argument of `fit` for the groups of sequences, if there are any."""
    if data.fold_groups is None:
        return {}
    if not isinstance(learner, SequenceLearner):
        raise ValueError(f"--fold-groups: {type(learner).__name__} holds out no sequences")
    values = split_sequences(np.array(data.fold_groups, dtype=object), data.sequences.offsets)
    return {"fold_groups": values}


def _print_sizes(data: FileData, form: str) -> None:
    """Print the size of the training data."""
    sequences = data.sequences
    missing = ""
    if data.missing_label is not None:
        n_unlabeled = sum(label is None for labels in data.labels for label in labels.tolist())
        missing = f" ({n_unlabeled:,} without a label)"
    print(
        f"sequences: {sequences.n_sequences:,}, positions: {sequences.n_positions:,}{missing}, "
        f"features: {sequences.n_features:,}, format: {form}",
        file=sys.stderr,
    )


def _warn_of_columns(sequences: Sequences) -> None:
    """Warn of columns that are probably no categories, with the options that help."""
    for j, doubt in doubtful_columns(sequences):
        name = sequences.names[j]
        mend = f"--drop {name} leaves it out"
        if doubt.mark is not None:
            mend += ", and --missing marks a text as missing"
        warn(f"column {name!r} {doubt.text}, and is used as a category; {mend}")


def _check_missing_labels(learner: SequenceClassifier, source: Source, data: FileData) -> None:
    """Raise ValueError if a label is missing, and the learner needs all of them."""
    if data.missing_label is None or not isinstance(learner, SequenceLearner):
        return
    reason = learner._label_rules().unknown_error
    if reason is not None:
        raise ValueError(f"{source.name}: {data.missing_label}: the label is missing; {reason}")


def _window(text: str) -> Any:
    if text == "auto":
        return text
    sides = text.split(",")
    if len(sides) > 2 or not all(side.strip().isdecimal() for side in sides):
        raise argparse.ArgumentTypeError(f"{text!r}; expected N, LEFT,RIGHT or auto")
    if len(sides) == 1:
        return int(text)
    return tuple(map(int, sides))


# Tables in pieces


def _fit_pieces(learner: SequenceClassifier, options: argparse.Namespace) -> None:
    """Train on the tables of a folder, a pattern or a file, which are read in pieces."""
    if not isinstance(learner, SequenceLearner):
        raise TypeError(f"{type(learner).__name__} does not read tables in pieces; name one file")
    if options.template or options.pattern:
        raise ValueError("templates are for a single file of the format conll")
    if STANDARD in (options.data, options.validation):
        raise ValueError("standard input is not read in pieces; name files")
    if options.label is None or options.group is None:
        raise ValueError("tables in pieces require --label and --group")
    if options.scratch is not None:
        check_folder(options.scratch)
    pieces = _opened(options.data, options, options.fold_groups)
    validation = None
    if options.validation is not None:
        validation = _opened(options.validation, options)
    if not options.quiet:
        print(f"positions: {pieces.n_rows:,}, pieces: {len(pieces.pieces):,}", file=sys.stderr)
    label = options.label
    group = options.group
    validation_columns = {}
    if validation is not None:
        validation_columns = {"y_val": label, "groups_val": group}
    learner.fit(
        pieces,
        label,
        validation,
        groups=group,
        fold_groups=options.fold_groups,
        scratch=options.scratch,
        **validation_columns,
    )


def _opened(path: str, options: argparse.Namespace, fold_groups: str | None = None) -> TableReader:
    if options.format not in (None, "csv", "tsv", "parquet"):
        raise ValueError(f"--format {options.format} is not that of tables in pieces")
    cuts = Segmentation(groups=options.group)
    raw = RawData(path, options.label, cuts, fold_groups=fold_groups)
    return open_tables(raw, folder=options.scratch, options=reading_of(options))


# Parameters of learners


def make_learner(name: str, settings: Iterable[tuple[str, Any]]) -> SequenceClassifier:
    """Make an estimator, given the names and values of parameters."""
    learner = LEARNERS[name]()
    known = parameters_of(name)
    for parameter, value in settings:
        if parameter not in known:
            near = difflib.get_close_matches(parameter, known, n=1)
            if near:
                hint = f"did you mean {near[0]!r}?"
            else:
                hint = f"expected one of {', '.join(known)}"
            raise ValueError(f"{type(learner).__name__} has no parameter {parameter!r}; {hint}")
        learner.set_params(**{parameter: value})
    learner._validate_params()
    if "window" in known:
        learner._window()
    return learner


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters that ``--set`` accepts for a learner, with their defaults."""
    parameters = LEARNERS[name]().get_params(deep=False)
    return {key: value for key, value in parameters.items() if key not in EXCLUDED}


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse ``name=value`` into a parameter and its value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=VALUE")
    parsed = parse_value(value.strip())
    if isinstance(parsed, int) and abs(parsed) > MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"{name}: expected a whole number of at most 64 bits")
    return name.strip().replace("-", "_"), parsed


def parse_value(text: str) -> Any:
    """Parse a constant such as ``true``, else a Python literal, else return the text."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
