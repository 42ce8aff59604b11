"""Arguments of `fit`: data in memory, or in files and scratch files, which are read in partitions.

Files and partitions are read in `treecrf.inputs.large` and `treecrf.learners.large`, which are
imported only when such data are passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from treecrf.inputs.dataset import RawData
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import segmentation_of
from treecrf.inputs.paths import are_tables
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.callbacks import Callback
from treecrf.learners.base.reading import UnreadData, UnreadSequences

# What error messages say before an error in these data.
VALIDATION_DATA = "validation data"


@dataclass(frozen=True)
class FitArguments:
    """Arguments of `fit`, with files opened."""

    raw: RawData  # the training data as passed by the user, such as the path of a file
    training: UnreadData
    validation: UnreadData | None
    eval_sets: tuple[UnreadData, ...]
    callbacks: tuple[Callback, ...]


def open_arguments(
    raw: RawData,
    validation: RawData | None,
    eval_sets: tuple[RawData, ...],
    callbacks: tuple[Callback, ...],
    scratch: str | PathLike | None,  # folder for temporary files
    categorical_features: Any,
    takes_partitions: bool,  # whether training need not join partitions
) -> FitArguments:
    """Open files, which are read into memory unless training takes several partitions of them."""
    passed = [raw, *eval_sets]
    if validation is not None:
        passed.append(validation)
    if scratch is None and not any(map(are_tables, passed)):
        return in_memory_arguments(raw, raw, validation, eval_sets, callbacks)
    from treecrf.learners.large.opening import open_large

    return open_large(
        raw, validation, eval_sets, callbacks, scratch, categorical_features, takes_partitions
    )


def in_memory_arguments(
    raw: RawData,
    training: RawData,  # as ``raw``, with files read
    validation: RawData | None,
    eval_sets: tuple[RawData, ...],
    callbacks: tuple[Callback, ...],
) -> FitArguments:
    """Return the arguments for data in memory."""
    unread = None
    if validation is not None:
        unread = UnreadSequences(replace(validation, place=VALIDATION_DATA))
    sets = tuple(
        UnreadSequences(replace(each, place=f"eval_set[{i}]")) for i, each in enumerate(eval_sets)
    )
    return FitArguments(raw, UnreadSequences(training), unread, sets, callbacks)


def validation_data(
    X: Any,
    y: Any,
    sample_weight: Any,
    init_score: Any,
    lengths: Any,
    groups: Any,
    names: Any,  # of the columns or levels of the index that are the groups in training, if any
) -> RawData | None:
    """Return the user's validation data, or None; ValueError if they are incomplete."""
    if (X is None) != (y is None):
        passed, missing = ("y_val", "X_val") if X is None else ("X_val", "y_val")
        raise ValueError(f"{passed} is given without {missing}; pass both or neither")
    if X is None:
        for name, value in (("sample_weight_val", sample_weight), ("init_score_val", init_score)):
            if value is not None:
                raise ValueError(f"{name} is given without X_val and y_val")
        return None
    raw = RawData(X, y, Segmentation(lengths, groups), sample_weight, init_score)
    if lengths is None and groups is None and (are_tables(raw) or is_frame(X)):
        groups = names
    return replace(raw, segmentation=segmentation_of(X, lengths, groups))


def read_eval_set(eval_set: Any, groups: Any) -> tuple[RawData, ...]:
    """Return the sets in the argument ``eval_set`` of `fit`, not checked yet.

    ``groups`` are the names of columns or levels of the index in training, if any.
    """
    if not isinstance(eval_set, (list, tuple)):
        raise TypeError(
            f"eval_set is of type {type(eval_set).__name__}; expected a list of tuples (X, y)"
        )
    for i, item in enumerate(eval_set):
        if not isinstance(item, tuple) or len(item) not in (2, 3) or item[0] is None:
            raise TypeError(
                f"eval_set[{i}] is not a tuple (X, y) or (X, y, sample_weight); expected a list of "
                "such tuples"
            )
    return tuple(
        RawData(X, y, segmentation_of(X, None, groups), *weights) for X, y, *weights in eval_set
    )
