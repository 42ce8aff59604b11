"""Training on tables that are read in pieces."""

from __future__ import annotations

import argparse
import glob
import os
import sys

from treecrf.cli.files import STANDARD
from treecrf.inputs.files.pieces import Pieces, TableOptions, open_pieces
from treecrf.inputs.labels import RawData
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.learner import SequenceLearner
from treecrf.utils.scratch import check_folder


def are_pieces(options: argparse.Namespace) -> bool:
    """Return whether the data are several files, or temporary files hold them."""
    path = options.data
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    return options.scratch is not None or is_pattern or os.path.isdir(path)


def fit_pieces(learner: SequenceClassifier, options: argparse.Namespace) -> None:
    """Train on the tables of a folder, a pattern or a file.

    Raises
    ------
    OSError, ImportError, TypeError, ValueError
        If a file cannot be read, or is invalid; options are missing or do not fit.
    """
    if not isinstance(learner, SequenceLearner):
        raise TypeError(f"{type(learner).__name__} does not read tables in pieces; name one file")
    if STANDARD in (options.data, options.validation):
        raise ValueError("standard input is not read in pieces; name files")
    if options.label is None or options.group is None:
        raise ValueError("tables in pieces require --label and --group")
    if options.scratch is not None:
        check_folder(options.scratch)
    pieces = _opened(options.data, options)
    validation = None if options.validation is None else _opened(options.validation, options)
    if not options.quiet:
        print(f"positions: {pieces.bounds[-1]:,}, pieces: {len(pieces):,}", file=sys.stderr)
    label, group = options.label, options.group
    of_validation = {} if validation is None else {"y_val": label, "groups_val": group}
    learner.fit(pieces, label, validation, groups=group, scratch=options.scratch, **of_validation)


def _opened(path: str, options: argparse.Namespace) -> Pieces:
    if options.format not in (None, "csv", "tsv", "parquet"):
        raise ValueError(f"--format {options.format} is not that of tables in pieces")
    table_options = TableOptions(
        drop=tuple(options.drop),
        category=tuple(options.category),
        missing=tuple(options.missing),
        separator=options.separator,
        encoding=options.encoding,
    )
    raw = RawData(path, options.label, Segmentation(groups=options.group))
    return open_pieces(raw, folder=options.scratch, options=table_options)
