"""The command ``treecrf predict``."""

from __future__ import annotations

import argparse
import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TextIO

import numpy as np

from treecrf.chains.lattice import runs_of_tables
from treecrf.cli.files import is_blank, read_file
from treecrf.cli.options import (
    REPEATED,
    add_data,
    add_jobs,
    add_model,
    add_reading,
    check_output,
    input_of,
    labeling_model,
    missing_labels,
    opened_output,
    reading_of,
)
from treecrf.cli.parquet_output import Results, write_parquet
from treecrf.cli.tables import MAX_COLUMNS, FileData
from treecrf.inputs.dataset import named
from treecrf.inputs.large.table_sources import STANDARD, Source
from treecrf.inputs.paths import PARQUET
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import short_list

DESCRIPTION = (
    "Label the sequences of a file with a trained model. For a table, the output is CSV with one "
    "row per row of the table. For the other formats, it has one line per position and a blank "
    "line after each sequence. Columns of a table that the model does not use are ignored. The "
    "output of a file of blank lines is empty, and that of a table without rows is a header. An "
    "output named .parquet is a table with typed columns."
)
EXAMPLES = """\
examples:
  treecrf predict new.csv --model m.treecrf --output labels.csv
  treecrf predict new.csv --model m.treecrf --proba | less
  treecrf predict new.parquet --model m.treecrf --keep time --output labels.parquet
  zcat new.conll.gz | treecrf predict - --format conll --model chunks.treecrf
"""
# Approximate size of the scores that are computed at a time.
BATCH_BYTES = 1 << 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    add = parser.add_argument
    add_data(parser, "file to label")
    add_model(parser)
    text = "output file, which is overwritten if it exists (default: standard output)"
    add("--output", metavar="FILE", default=STANDARD, help=text)
    text = (
        "also write this column of the file, such as a key or a time; can be repeated. The columns "
        "of CoNLL files are x0, x1, ..."
    )
    add("--keep", metavar="COLUMN", **REPEATED, help=text)
    text = (
        "also write all columns of a table, or of other files all before the label; --drop "
        "excludes columns"
    )
    add("--keep-all", action="store_true", help=text)
    add("--reference", action="store_true", help="also write the label in the file")
    add("--proba", action="store_true", help="also write the probability of each label")
    add_jobs(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read the model and the file, and write the predicted labels."""
    check_output(options.output, [options.data, options.model])
    model = labeling_model(options)
    source = Source(options.data)
    reading = replace(reading_of(options, options.reference), may_be_empty=True)
    to_parquet = _is_parquet(options.output)
    if is_blank(source, reading) and not to_parquet:
        with opened_output(options.output):
            return 0
    data = read_file(source, reading, input_of(model))
    copied = _copied_columns(source, data, model, options)
    if to_parquet:
        _predict_to_parquet(source, data, model, copied, options)
        return 0
    with opened_output(options.output) as file, named(source.name):
        results = predictions(model, data.sequences, options.proba)
        if data.is_table:
            _write_table(file, data, copied, results, model.classes_ if options.proba else ())
        else:
            _write_lines(file, data, copied, results, model.classes_, options.reference)
    return 0


def _copied_columns(
    source: Source, data: FileData, model: Any, options: argparse.Namespace
) -> list[str]:
    """Return the names of the columns to write in addition to the predictions."""
    names = data.text_names
    if (options.keep_all or options.keep) and not names:
        raise ValueError(f"{source.name}: the format has no columns to keep")
    for name in options.keep:
        if name not in names:
            raise ValueError(
                f"{source.name}: --keep names {name!r}; the columns are: "
                f"{short_list(names, MAX_COLUMNS)}"
            )
    if options.reference and data.labels is None:
        raise ValueError(f"{source.name}: --reference needs labels; {missing_labels(data, model)}")
    chosen = []
    if options.keep_all:
        chosen = [name for name in names if name not in options.drop]
    return list(dict.fromkeys([*chosen, *options.keep]))


def predictions(model: Any, sequences: Sequences, proba: bool = False) -> Results:
    """Label sequences in batches of limited size."""
    shape = len(model.classes_), model._predictor().chain.order
    for first, last in runs_of_tables(sequences.offsets, *shape, BATCH_BYTES):
        batch = sequences.take(np.arange(first, last))
        labels = model.predict(batch)
        if proba:
            probabilities = model.predict_proba(batch)
        else:
            probabilities = [None] * len(labels)
        yield from zip(labels, probabilities, strict=True)


def _write_table(
    file: TextIO, data: FileData, copied: list[str], results: Results, shown: Sequence
) -> None:
    """Write a row for each row of a table, with the probabilities of the shown labels."""
    group = data.columns.group
    label = data.columns.label
    groups = None
    if group is not None and group not in copied:
        groups = data.groups
    labels = None
    if data.labels is not None and label not in copied:
        labels = data.labels
    header = _columns_before(data, copied)
    added = _columns_of_results(header, shown)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header + added)
    for i, rows in enumerate(_output_rows(data, copied, labels, results)):
        first = []
        if groups is not None:
            first = [groups[i]]
        writer.writerows([*first, *fields, *shares] for fields, shares in rows)


def _columns_before(data: FileData, copied: list[str]) -> list[str]:
    """Return the columns of an output before the predictions: group, copied columns, and label."""
    group = data.columns.group
    label = data.columns.label
    first = []
    if group is not None and group not in copied:
        first = [group]
    last = []
    if data.labels is not None and label not in copied:
        last = [label]
    return [*first, *copied, *last]


def _columns_of_results(before: list[str], shown: Sequence) -> list[str]:
    """Return the columns of predictions and probabilities; ValueError if a name occurs twice."""
    added = ["prediction", *(f"p_{name}" for name in shown)]
    if twice := [name for name in added if name in before]:
        raise ValueError(
            f"column {twice[0]!r} would occur twice in the output; --drop {twice[0]} leaves out "
            "that of the file"
        )
    return added


def _is_parquet(output: str) -> bool:
    """Return whether an output is a Parquet file, by its name."""
    name = output.lower()
    if name.removesuffix(".gz").endswith(PARQUET) and name.endswith(".gz"):
        raise ValueError(f"{output}: Parquet files have their own compression; leave out '.gz'")
    return name.endswith(PARQUET)


def _predict_to_parquet(
    source: Source,
    data: FileData,
    model: Any,
    copied: list[str],
    options: argparse.Namespace,
) -> None:
    """Write a Parquet file with the columns of the table as they are, and typed predictions."""
    if not data.is_table:
        raise ValueError(
            f"{options.output}: only predictions for tables are written as Parquet, and "
            f"{source.name} is not a table"
        )
    shown = []
    if options.proba:
        shown = model.classes_.tolist()
    names = _columns_before(data, copied)
    added = dict.fromkeys(_columns_of_results(names, shown), np.dtype(np.float64))
    added |= {"prediction": model.classes_.dtype}
    with named(source.name):
        results = predictions(model, data.sequences, options.proba)
        write_parquet(options.output, names, data.typed_rows, added, results)


def _write_lines(
    file: TextIO,
    data: FileData,
    copied: list[str],
    results: Results,
    classes: np.ndarray,
    reference: bool,
) -> None:
    """Write a line for each position, and a blank line after each sequence."""
    for rows in _output_rows(data, copied, data.labels if reference else None, results):
        for fields, shares in rows:
            named = [f"{name}:{share}" for name, share in zip(classes, shares, strict=False)]
            file.write("\t".join([*fields, *named]) + "\n")
        file.write("\n")


def _output_rows(
    data: FileData, copied: list[str], labels: list[np.ndarray] | None, results: Results
) -> Iterator[list[tuple[list[str], list[str]]]]:
    """Yield the rows of each sequence: columns up to the prediction, and probabilities if any."""
    if copied:
        texts = data.text_rows(copied)
    else:
        texts = itertools.repeat(())
    for i, (predicted, probabilities) in enumerate(results):
        rows = []
        for t, prediction in enumerate(predicted.tolist()):
            true = []
            if labels is not None:
                true = ["" if labels[i][t] is None else str(labels[i][t])]
            shares = []
            if probabilities is not None:
                shares = [f"{p:.6g}" for p in probabilities[t]]
            rows.append(([*next(texts), *true, str(prediction)], shares))
        yield rows
