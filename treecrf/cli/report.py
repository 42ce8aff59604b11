"""The command ``treecrf report``."""

from __future__ import annotations

import argparse
from dataclasses import replace

import treecrf
from treecrf.cli.files import read_file
from treecrf.cli.options import (
    add_count,
    add_data,
    add_jobs,
    add_model,
    add_reading,
    add_required,
    input_of,
    loaded_model,
    reading_of,
    with_settings,
)
from treecrf.cli.tables import FileData
from treecrf.inputs.dataset import named
from treecrf.inputs.large.table_sources import STANDARD, Source
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import short_list
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.reports.evaluation import Data, checked_sequences
from treecrf.reports.report import N_EXPLAINED, check_report_output, report_of

DESCRIPTION = (
    "Label the sequences of a file with a trained model and write a page in HTML: scores with "
    "intervals, the sequences as timelines, the reasons for the worst predictions, and what the "
    "model has learned. The page is one file, which loads nothing from the network. Without labels "
    "in the file, it shows predictions and how certain they are."
)
EXAMPLES = """\
examples:
  treecrf report test.csv --model m.treecrf --output report.html
  treecrf report test.csv --model m.treecrf --other new.treecrf --output report.html
  treecrf report new.csv --model m.treecrf --training train.csv --output report.html
"""

# The name of the words of a CoNLL file.
FIRST_COLUMN = "x0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add_data(parser, "file to label, preferably with labels")
    add_model(parser)
    add_required(parser, "--output", "page to write; only a report is overwritten")
    add = parser.add_argument
    add("--other", metavar="FILE", help="second model, to compare")
    text = "file of the training data; the page shows which columns are distributed differently"
    add("--training", metavar="FILE", help=text)
    text = "column with the texts to show, such as words (default: the first one of CoNLL files)"
    add("--text", metavar="COLUMN", help=text)
    add("--title", metavar="TEXT", help="title of the page")
    add_count(parser, "--explain", N_EXPLAINED, "number of positions with contributions")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the models and the files, and write the page."""
    if options.output == STANDARD:
        raise ValueError("--output: expected the name of a file")
    check_report_output(options.output)
    model = loaded_model(options)
    other = None
    if options.other is not None:
        other = with_settings(treecrf.load(options.other), n_jobs=options.jobs)
    data = _read(options.data, model, options)
    training = None
    if options.training is not None:
        training = _read_sequences(options.training, model, options)
    with named(options.data):
        page = report_of(model, data, other, training, options.title, options.explain)
    page.save(options.output)
    print(f"wrote {options.output}")
    return 0


def _read_sequences(path: str, model: SequenceClassifier, options: argparse.Namespace) -> Sequences:
    """Read the sequences of a file as the model requires."""
    source = Source(path)
    data = read_file(source, reading_of(options), input_of(model))
    with named(source.name):
        return checked_sequences(model, data.sequences, None, None)


def _read(path: str, model: SequenceClassifier, options: argparse.Namespace) -> Data:
    """Read a file with labels, names and texts, as the model requires."""
    source = Source(path)
    data = read_file(source, reading_of(options), input_of(model))
    with named(source.name):
        symbols = _texts(data, options.text)
        read = Data.of(model, data.sequences, data.labels, None, None, symbols)
    return replace(read, names=_names(data, len(read.names)))


def _texts(data: FileData, column: str | None) -> list[str] | None:
    """Return the texts of the positions; by default, the first column of a CoNLL file."""
    if column is None and not data.is_table and FIRST_COLUMN in data.text_names:
        column = FIRST_COLUMN
    if column is None:
        return None
    if column not in data.text_names:
        raise ValueError(
            f"--text names {column!r}; the columns are: {short_list(list(data.text_names))}"
        )
    return [text for (text,) in data.text_rows([column])]


def _names(data: FileData, n: int) -> list[str]:
    """Return the groups of a table, or the numbers of the sequences."""
    if data.groups is None:
        return [str(i) for i in range(n)]
    return [str(group) for group in data.groups]
