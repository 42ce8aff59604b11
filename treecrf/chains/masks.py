"""The arguments ``allowed`` and ``known``: which labels are possible at each position."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from treecrf.chains.transitions import booleans, is_iterable, is_row
from treecrf.inputs.labels import SETS, refuse_other_labels
from treecrf.inputs.offsets import position_name
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import refuse_masked, short_repr


def as_allowed(
    allowed: Any,
    known: Any,
    classes: np.ndarray,
    offsets: np.ndarray,
    segmentation: Segmentation | None = None,
) -> np.ndarray | None:
    """Check allowed labels, as masks or by name, and known labels, and combine them to one mask.

    There is an item for each sequence, or one for a long table.
    """
    if allowed is None and known is None:
        return None
    mask = np.ones((offsets[-1], len(classes)), dtype=bool)
    for name, items, what, restrict in (
        ("allowed", allowed, "masks or sets of labels", _restrict),
        ("known", known, "label sequences", _keep),
    ):
        if items is None:
            continue
        sequence_items = (segmentation or Segmentation()).items(items, offsets, name, what)
        for i, item in enumerate(sequence_items):
            if item is not None:
                restrict(mask[offsets[i] : offsets[i + 1]], item, classes, i)
    without = ~mask.any(axis=1)
    if without.any():
        raise ValueError(f"{position_name(int(np.argmax(without)), offsets)}: no label is allowed")
    return mask


def _restrict(mask: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    """Apply the argument ``allowed`` of one sequence: a mask, or the labels of each position."""
    if _has_labels(item):
        _restrict_to_labels(mask, item, classes, i)
        return
    expected = (
        f"expected a mask of shape {mask.shape}, or for each position None or the set of its "
        f"labels, such as {{{classes[0].item()!r}}}"
    )
    refuse_masked(item, f"sequence {i}: allowed")
    refuse_other_labels(item, classes, f"allowed of sequence {i}")
    try:
        table = np.asarray(item)
    except ValueError:
        raise ValueError(
            f"sequence {i}: allowed has rows of different lengths; {expected}"
        ) from None
    if not len(mask) and not table.size:
        return
    if table.shape != mask.shape:
        raise ValueError(f"sequence {i}: allowed has the shape {table.shape}; {expected}")
    mask &= booleans(table, f"sequence {i}: allowed")


def _has_labels(item: Any) -> bool:
    """Return whether positions have sets, strings or None, instead of the rows of a mask."""
    if hasattr(item, "__array__"):
        item = np.asarray(item)
        if item.dtype.kind in "biuf":
            return False
    if not is_iterable(item):
        return False
    kinds = (str, *SETS)
    return any(
        position is None
        or isinstance(position, kinds)
        or (is_row(position) and len(position) > 0 and isinstance(position[0], str))
        for position in item
    )


def _restrict_to_labels(mask: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    if hasattr(item, "__array__"):
        item = np.asarray(item)
    positions = list(item)
    if len(positions) != len(mask):
        raise ValueError(
            f"sequence {i}: allowed has labels for {len(positions)} positions; expected {len(mask)}"
        )
    indices = {label: k for k, label in enumerate(classes.tolist())}
    for t, labels in enumerate(positions):
        if labels is None:
            continue
        if not isinstance(labels, SETS) and not is_row(labels):
            raise ValueError(
                f"sequence {i}, position {t}: allowed is {short_repr(labels)}; expected a set or a "
                "list of labels, or None if all are allowed"
            )
        if _may_be_mask(labels, len(indices)):
            raise ValueError(
                f"sequence {i}, position {t}: allowed is {short_repr(labels)}, labels or a row of "
                "a mask; expected sets of labels, or a mask with a row for every position"
            )
        is_possible = np.zeros(len(indices), dtype=bool)
        for label in labels:
            if not isinstance(label, Hashable) or label not in indices:
                raise ValueError(
                    f"sequence {i}, position {t}: allowed label {short_repr(label)} was not seen "
                    f"in training; expected labels in {list(indices)}"
                )
            is_possible[indices[label]] = True
        mask[t] &= is_possible


def _may_be_mask(labels: Any, n_classes: int) -> bool:
    """Return whether the labels of a position may also be meant as a row of a mask."""
    if isinstance(labels, SETS) or len(labels) != n_classes:
        return False
    return all(isinstance(x, numbers.Number | np.bool_) and x in (0, 1) for x in labels)


def _keep(mask: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    if not isinstance(item, str) and not is_iterable(item):
        raise TypeError(
            f"sequence {i}: known is of type {type(item).__name__}; expected a list of labels, "
            "None where they are unknown"
        )
    if isinstance(item, (str, Iterator)):
        labels = list(item)
    else:
        labels = read_column(item).objects()
    if len(labels) != len(mask):
        raise ValueError(f"sequence {i}: {len(labels)} known labels for {len(mask)} positions")
    indices = {label: k for k, label in enumerate(classes.tolist())}
    for t, label in enumerate(labels):
        if label is None:
            continue
        if isinstance(label, SETS) or is_row(label):
            raise ValueError(
                f"sequence {i}, position {t}: known label {short_repr(label)} is a collection; "
                "expected one label, or None; allowed= takes sets of labels"
            )
        if not isinstance(label, Hashable) or label not in indices:
            raise ValueError(
                f"sequence {i}, position {t}: known label {label!r} was not seen in training"
            )
        mask[t] &= np.arange(len(classes)) == indices[label]
