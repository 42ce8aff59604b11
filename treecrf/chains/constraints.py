"""Labels that cannot be at a position, or after another: minus infinity among the scores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import position_name

# Where a tag stands in its chunk, by its first letter; O is in none.
BEGIN, INSIDE, OUTSIDE, END, SINGLE = "B", "I", "O", "E", "S"


@dataclass(frozen=True)
class Transitions:
    """Which labels may be neighbors.

    Attributes
    ----------
    follows : bool array (n_labels + 1, n_labels)
        Which labels may follow each label; the last row says which may come first.
    ends : bool array (n_labels,)
        Which labels may come last.
    """

    follows: np.ndarray
    ends: np.ndarray

    def reversed(self) -> Transitions:
        """The same for sequences that are read from their end."""
        return Transitions(np.vstack([self.follows[:-1].T, self.ends]), self.follows[-1])

    def check(self, codes: np.ndarray, offsets: np.ndarray, classes: np.ndarray) -> None:
        """Refuse label sequences that break the rules.

        Raises
        ------
        ValueError
            Naming the first label that cannot be where it is.
        """
        before = np.append(0, codes[:-1])
        before[offsets[:-1]] = len(classes)
        broken = ~self.follows[before, codes]
        broken[offsets[1:] - 1] |= ~self.ends[codes[offsets[1:] - 1]]
        if not broken.any():
            return
        p = int(np.argmax(broken))
        if self.follows[before[p], codes[p]]:
            where = " at the end"
        elif before[p] == len(classes):
            where = " at the start"
        else:
            where = f" after {classes[before[p]].item()!r}"
        raise ValueError(
            f"{position_name(p, offsets)}: {classes[codes[p]].item()!r}{where} is forbidden by "
            "transitions"
        )


@dataclass(frozen=True)
class Constraints:
    """What is possible, in the direction of the chain.

    Attributes
    ----------
    classes : array (n_labels,)
    follows : bool array (n_labels + 1, n_labels) or None
        Which labels may follow each label; the last row says which may come first.
    allowed : bool array (n_positions, n_labels) or None
        Which labels are possible at each position.
    """

    classes: np.ndarray
    follows: np.ndarray | None = None
    allowed: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        transitions: Transitions | None,
        classes: np.ndarray,
        offsets: np.ndarray,
        allowed: np.ndarray | None = None,
        backward: bool = False,
    ) -> Constraints:
        """Transitions and masks together, without labels that lead nowhere.

        Whatever labels a decoder has chosen from the start, there is a way to go on. ``backward``
        says whether the chain begins at the end of the sequences, as the masks then do.

        Raises
        ------
        ValueError
            If no label sequence is possible; the message says where.
        """
        if transitions is None:
            return cls(classes, None, allowed)
        transitions = transitions.reversed() if backward else transitions
        return cls(classes, transitions.follows, _leading_on(transitions, offsets, allowed))

    @classmethod
    def of_parameters(
        cls,
        transitions: Any,
        order: int,
        classes: np.ndarray,
        offsets: np.ndarray,
        allowed: np.ndarray | None = None,
        backward: bool = False,
    ) -> Constraints:
        """The same from ``transitions`` as a parameter of an estimator, with its ``order``."""
        return cls.of(
            as_transitions(transitions, classes, order), classes, offsets, allowed, backward
        )

    @property
    def is_free(self) -> bool:
        """Whether all is possible."""
        return self.follows is None and self.allowed is None

    def forbid(self, scores: np.ndarray, offsets: np.ndarray) -> None:
        """Set scores (n_labels, n_positions, n_contexts) of what cannot be, in place."""
        if self.follows is not None:
            n_labels, starts = len(scores), offsets[:-1]
            first = scores[:, starts, 0]
            latest = np.arange(scores.shape[2]) % n_labels
            for label in range(n_labels):
                scores[label][:, ~self.follows[latest, label]] = -np.inf
            first[~self.follows[-1]] = -np.inf
            scores[:, starts, 0] = first
        if self.allowed is not None:
            scores[~self.allowed.T] = -np.inf

    def forbid_given(
        self, scores: np.ndarray, given: np.ndarray, positions: np.ndarray | None = None
    ) -> None:
        """The same where each position has one context: scores (n_labels, n, 1).

        ``given`` holds the label at each lag, ``n_labels`` for none; ``positions`` says which
        positions these are, if not all.
        """
        if self.follows is not None:
            scores[~self.follows[given[0]].T] = -np.inf
        if self.allowed is not None:
            allowed = self.allowed if positions is None else self.allowed[positions]
            scores[~allowed.T] = -np.inf


def _leading_on(
    transitions: Transitions, offsets: np.ndarray, allowed: np.ndarray | None
) -> np.ndarray | None:
    """Labels from which the end of the sequence can be reached; None where all can."""
    follows, ends, lengths = transitions.follows, transitions.ends, np.diff(offsets)
    by_distance = _by_distance(follows, ends, int(lengths.max()))
    if allowed is None and by_distance.all():
        leading = None
    else:
        distances = np.repeat(offsets[1:], lengths) - 1 - np.arange(offsets[-1])
        leading = by_distance[np.minimum(distances, len(by_distance) - 1)]
    if allowed is not None:
        leading &= allowed
        before = follows[:-1].T.astype(np.float32)
        for distance in range(1, int(lengths.max())):
            here = offsets[1:][lengths > distance] - 1 - distance
            leading[here] &= leading[here + 1] @ before > 0
    first = follows[-1] if leading is None else leading[offsets[:-1]] & follows[-1]
    dead = ~np.atleast_2d(first).any(axis=1)
    if dead.any():
        raise ValueError(f"sequence {int(np.argmax(dead))}: no label sequence is allowed")
    return leading


def _by_distance(follows: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """The same by the distance from the end, up to where it no longer changes."""
    rows = [ends]
    while len(rows) < n:
        rows.append(follows[:-1][:, rows[-1]].any(axis=1))
        if (rows[-1] == rows[-2]).all():
            break
    return np.array(rows)


def as_transitions(transitions: Any, classes: np.ndarray, order: int) -> Transitions | None:
    """Check rules for transitions, given by name or as a matrix.

    Raises
    ------
    ValueError
        If a label does not fit the rules, a matrix has another shape, or there are no previous
        labels to which rules could apply.
    """
    if transitions is None:
        return None
    if order == 0:
        raise ValueError("transitions need previous labels: order=0 has none")
    if isinstance(transitions, str):
        return _rules(transitions, classes)
    n = len(classes)
    table = np.asarray(transitions)
    if table.shape not in ((n, n), (n + 1, n)):
        raise ValueError(
            f"transitions has the shape {table.shape}, expected ({n}, {n}) or ({n + 1}, {n}): a "
            f"row for each of the labels {classes.tolist()}, and one for the start"
        )
    table = _booleans(table, "transitions")
    follows = table if len(table) > n else np.vstack([table, np.ones((1, n), dtype=bool)])
    return Transitions(follows, np.ones(n, dtype=bool))


def _booleans(table: np.ndarray, what: str) -> np.ndarray:
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise ValueError(f"{what} holds other values than True and False")
    return table.astype(bool)


def _rules(name: str, classes: np.ndarray) -> Transitions:
    may_follow: Callable = {"bio": _bio, "bioes": _bioes}[name]
    letters = {"bio": "BIO", "bioes": "BIOES"}[name]
    tags = [_parse(label, name, letters) for label in classes.tolist()]
    outside = (OUTSIDE, "")  # beyond both ends of a sequence
    follows = [[may_follow(*a, *b) for b in tags] for a in [*tags, outside]]
    ends = [may_follow(*a, *outside) for a in tags]
    return Transitions(np.array(follows), np.array(ends))


def _parse(label: object, name: str, letters: str) -> tuple[str, str]:
    """Letter and type of a tag."""
    letter, dash, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == OUTSIDE or (letter in set(letters) - {OUTSIDE} and bool(dash) == bool(kind)):
        return letter, kind
    raise ValueError(
        f'transitions="{name}": the label {label!r} is neither O nor of the form '
        + ", ".join(f"{x}-X" for x in letters if x != OUTSIDE)
    )


def _bio(before: str, kind_before: str, letter: str, kind: str) -> bool:
    return letter != INSIDE or (before != OUTSIDE and kind == kind_before)


def _bioes(before: str, kind_before: str, letter: str, kind: str) -> bool:
    goes_on = before in (BEGIN, INSIDE)
    return (letter in (INSIDE, END)) == goes_on and (not goes_on or kind == kind_before)


def as_allowed(
    allowed: Any,
    known: Any,
    classes: np.ndarray,
    offsets: np.ndarray,
    segmentation: Segmentation | None = None,
) -> np.ndarray | None:
    """Check masks of possible labels and labels known beforehand, and put them together.

    Parameters
    ----------
    allowed : list of bool arrays (n_positions, n_labels) or None, or None
    known : list of lists of labels or None, or None
        One of each for a long table: a mask, and a list of labels.
    classes : array (n_labels,)
    offsets : int64 array (n_sequences + 1,)
    segmentation : Segmentation, optional
        Where the sequences of a long table are.

    Returns
    -------
    bool array (n_positions, n_labels) or None
        For all sequences together; None where nothing is given.

    Raises
    ------
    ValueError, TypeError
        If a number of sequences, a shape or a label is wrong, or a position has no label left.
    """
    if allowed is None and known is None:
        return None
    mask = np.ones((offsets[-1], len(classes)), dtype=bool)
    for name, items, what, restrict in (
        ("allowed", allowed, "masks", _mask),
        ("known", known, "label sequences", _keep),
    ):
        if items is None:
            continue
        given = (segmentation or Segmentation()).items(items, offsets, name, what)
        for i, item in enumerate(given):
            if item is not None:
                restrict(mask[offsets[i] : offsets[i + 1]], item, classes, i)
    without = ~mask.any(axis=1)
    if without.any():
        raise ValueError(f"{position_name(int(np.argmax(without)), offsets)}: no label is allowed")
    return mask


def check_allowed(
    allowed: np.ndarray, codes: np.ndarray, classes: np.ndarray, offsets: np.ndarray
) -> None:
    """Refuse label sequences that masks of `as_allowed` do not allow.

    Raises
    ------
    ValueError
        Naming the first label that is not allowed.
    """
    broken = ~allowed[np.arange(len(codes)), codes]
    if broken.any():
        p = int(np.argmax(broken))
        label = classes[codes[p]].item()
        raise ValueError(f"{position_name(p, offsets)}: {label!r} is forbidden by allowed")


def check_labels(
    transitions: Any,
    order: int,
    classes: np.ndarray,
    codes: np.ndarray,
    offsets: np.ndarray,
    allowed: np.ndarray | None = None,
) -> None:
    """Check label sequences against ``transitions`` as a parameter of an estimator, and masks.

    Raises
    ------
    ValueError
        If the parameter is invalid, or naming the first label that is not allowed.
    """
    rules = as_transitions(transitions, classes, order)
    if rules is not None:
        rules.check(codes, offsets, classes)
    if allowed is not None:
        check_allowed(allowed, codes, classes, offsets)


def _mask(here: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    table = np.asarray(item)
    if table.shape != here.shape:
        raise ValueError(
            f"sequence {i}: allowed has the shape {table.shape}, expected {here.shape}"
        )
    here &= _booleans(table, f"sequence {i}: allowed")


def _keep(here: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    if not isinstance(item, Iterable):
        raise TypeError(
            f"sequence {i}: known is of type {type(item).__name__}; expected a list of labels, "
            "None where they are unknown"
        )
    labels = list(item)
    if len(labels) != len(here):
        raise ValueError(f"sequence {i}: {len(labels)} known labels for {len(here)} positions")
    places = {label: k for k, label in enumerate(classes.tolist())}
    for t, label in enumerate(labels):
        if label is None:
            continue
        if not isinstance(label, Hashable) or label not in places:
            raise ValueError(
                f"sequence {i}, position {t}: known label {label!r} was not seen in training"
            )
        here[t] &= np.arange(len(classes)) == places[label]
