"""The parameter ``transitions``: which labels may follow each other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from treecrf.chains.constraints import Transitions, check_allowed
from treecrf.inputs.labels import SETS, refuse_other_labels
from treecrf.inputs.schemes import letters_of, split_tag, tag_transitions
from treecrf.inputs.values import refuse_masked, short_repr
from treecrf.utils.scipy_sparse import sparse


def as_transitions(transitions: Any, classes: np.ndarray, order: int) -> Transitions | None:
    """Check the parameter ``transitions``: the name of rules, a dict of labels, or a matrix."""
    if transitions is None:
        return None
    if order == 0:
        raise ValueError("transitions with order=0; expected order 1 or higher")
    if isinstance(transitions, str):
        return _rules(transitions, classes)
    n = len(classes)
    if isinstance(transitions, dict):
        return Transitions(_named_pairs(transitions, classes), np.ones(n, dtype=bool))
    refuse_masked(transitions, "transitions")
    refuse_other_labels(transitions, classes, "transitions", are_pairs=True)
    try:
        table = np.asarray(transitions)
    except ValueError:
        raise ValueError("transitions has rows of different lengths; expected a matrix") from None
    if table.shape not in ((n, n), (n + 1, n)):
        raise ValueError(
            f"transitions has the shape {table.shape}; expected ({n}, {n}) or ({n + 1}, {n}): a "
            f"row for each of the labels {classes.tolist()}, and optionally one for the start; or "
            "a dict with the labels that may follow each label"
        )
    table = booleans(table, "transitions")
    every = np.ones(n, dtype=bool)
    if len(table) == n:
        table = np.vstack([table, every])
    return Transitions(table, every)


def _named_pairs(table: dict, classes: np.ndarray) -> np.ndarray:
    """Return the pairs that a dict allows, with the labels that may follow each of its labels.

    All labels may follow one that is not in the dict. The key None stands for the start.
    """
    indices = {label: k for k, label in enumerate(classes.tolist())}
    n = len(indices)
    follows = np.ones((n + 1, n), dtype=bool)
    for before, after in table.items():
        if before is not None and before not in indices:
            raise ValueError(
                f"transitions has the key {short_repr(before)}; expected one of the labels "
                f"{list(indices)}, or None for the start"
            )
        if not isinstance(after, SETS) and not is_row(after):
            wrong = [after]
        else:
            wrong = [v for v in after if not isinstance(v, Hashable) or v not in indices]
        if wrong:
            raise ValueError(
                f"transitions: {before!r} is followed by {short_repr(wrong[0])}; expected a list "
                f"of labels in {list(indices)}"
            )
        row = n if before is None else indices[before]
        follows[row] = np.isin(np.arange(n), [indices[label] for label in after])
    return follows


def booleans(table: np.ndarray, what: str) -> np.ndarray:
    """Convert an array of False and True, or of 0 and 1; ValueError for others."""
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise ValueError(f"{what} has other values than True and False")
    return table.astype(bool)


def _rules(name: str, classes: np.ndarray) -> Transitions:
    letters = letters_of(name)
    tags = []
    for label in classes.tolist():
        tag = split_tag(label, letters)
        if tag is None:
            raise ValueError(
                f'transitions="{name}": the label {label!r} is neither O nor of the form '
                + ", ".join(f"{x}-X" for x in letters if x != "O")
            )
        tags.append(tag)
    return Transitions(*tag_transitions(name, tags))


def check_possible(
    transitions: Any,
    order: int,
    classes: np.ndarray,
    offsets: np.ndarray,
    allowed: np.ndarray | None,
) -> None:
    """Raise ValueError if a sequence has no label sequence under ``transitions`` and masks.

    Sequences may be empty. All data are in the direction of the input.
    """
    rules = as_transitions(transitions, classes, order)
    numbers = np.flatnonzero(np.diff(offsets))
    if rules is None or not len(numbers):
        return
    possible = rules.follows[-1] & rules.reaching_starts(offsets, allowed)
    dead = ~possible.any(axis=1)
    if dead.any():
        raise rules.impossible(int(numbers[np.argmax(dead)]), classes, offsets, allowed)


def check_labels(
    transitions: Any,
    order: int,
    classes: np.ndarray,
    codes: np.ndarray,
    offsets: np.ndarray,
    allowed: np.ndarray | None = None,
) -> None:
    """Check label sequences against the parameter ``transitions`` and a mask of `as_allowed`."""
    rules = as_transitions(transitions, classes, order)
    if rules is not None:
        rules.check(codes, offsets, classes)
    if allowed is not None:
        check_allowed(allowed, codes, classes, offsets)


def is_iterable(item: Any) -> bool:
    """Return whether an item has items itself."""
    return isinstance(item, Iterable) and not sparse.issparse(item) and getattr(item, "ndim", 1) > 0


def is_row(position: Any) -> bool:
    """Return whether the entry of a position is a list of values."""
    is_array = isinstance(position, np.ndarray) and position.ndim == 1
    return is_array or isinstance(position, (list, tuple))
