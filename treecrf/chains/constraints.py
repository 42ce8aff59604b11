"""Constraints on labels and on their order, as scores of minus infinity."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.inputs.labels import scheme_named
from treecrf.inputs.offsets import Segmentation, position_name
from treecrf.inputs.values import find_missing

# The first letter of a tag gives its position in a chunk; O is outside of chunks.
BEGIN, INSIDE, OUTSIDE = "B", "I", "O"
LAST = ("E", "L")


@dataclass(frozen=True)
class Transitions:
    """Allowed pairs of neighboring labels."""

    # bool (n_labels + 1, n_labels): which labels may follow each label; those in the last row may
    # come first.
    follows: np.ndarray
    ends: np.ndarray  # bool (n_labels,): which labels may come last

    def reversed(self) -> Transitions:
        """Return the transitions of the reversed sequences."""
        return Transitions(np.vstack([self.follows[:-1].T, self.ends]), self.follows[-1])

    def reaching_end(self, n: int) -> np.ndarray:
        """Mark the labels of the last n positions from which the end can be reached, in order."""
        by_distance = _by_distance(self.follows, self.ends, n)
        return by_distance[np.minimum(np.arange(n)[::-1], len(by_distance) - 1)]

    def check(self, codes: np.ndarray, offsets: np.ndarray, classes: np.ndarray) -> None:
        """Check label sequences; the error names the first forbidden label."""
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
    """Constraints on the labels of some sequences, in the direction of the chain."""

    classes: np.ndarray
    follows: np.ndarray | None = None  # as in `Transitions`; None allows all
    allowed: np.ndarray | None = None  # None allows all

    @classmethod
    def of(
        cls,
        transitions: Transitions | None,
        classes: np.ndarray,
        offsets: np.ndarray,
        allowed: np.ndarray | None = None,
        backward: bool = False,
    ) -> Constraints:
        """Combine transitions and masks, and remove labels from which no end can be reached.

        As a result, a decoder that starts with allowed labels can always continue. With
        ``backward`` the chain, and so the masks, begin at the end of the sequences.
        """
        if transitions is None:
            return cls(classes, None, allowed)
        transitions = transitions.reversed() if backward else transitions
        reaching = labels_reaching_end(transitions, offsets, allowed)
        follows = transitions.follows
        first = follows[-1] if reaching is None else reaching[offsets[:-1]] & follows[-1]
        dead = ~np.atleast_2d(first).any(axis=1)
        if dead.any():
            raise ValueError(f"sequence {int(np.argmax(dead))}: no label sequence is allowed")
        return cls(classes, follows, reaching)

    @property
    def is_free(self) -> bool:
        """Whether every label sequence is allowed."""
        return self.follows is None and self.allowed is None

    def at(self, positions: slice) -> Constraints:
        """Return the constraints on some of the sequences, given their positions."""
        return self if self.allowed is None else replace(self, allowed=self.allowed[positions])

    def limited(self, transitions: np.ndarray) -> np.ndarray:
        """Return scores (n_labels + 1, n_labels) with -inf for labels that may not follow."""
        if self.follows is None:
            return transitions
        return np.where(self.follows, transitions, -np.inf)

    def forbid(self, scores: np.ndarray, offsets: np.ndarray) -> None:
        """Set scores (n_labels, n_positions, n_contexts) of forbidden labels to -inf, in place."""
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
        self, scores: np.ndarray, previous: np.ndarray, positions: np.ndarray | None = None
    ) -> None:
        """Apply `forbid` to scores (n_labels, n, 1) of positions with one context each.

        ``positions`` holds the indices of the positions, if they are not all.
        """
        if self.follows is not None:
            scores[~self.follows[previous[0]].T] = -np.inf
        if self.allowed is not None:
            allowed = self.allowed if positions is None else self.allowed[positions]
            scores[~allowed.T] = -np.inf


def labels_reaching_end(
    transitions: Transitions, offsets: np.ndarray, allowed: np.ndarray | None
) -> np.ndarray | None:
    """Return the labels from which the end of the sequence can be reached; None if all can."""
    follows, ends, lengths = transitions.follows, transitions.ends, np.diff(offsets)
    by_distance = _by_distance(follows, ends, int(lengths.max()))
    if allowed is None and by_distance.all():
        reaching = None
    else:
        distances = np.repeat(offsets[1:], lengths) - 1 - np.arange(offsets[-1])
        reaching = by_distance[np.minimum(distances, len(by_distance) - 1)]
    if allowed is not None:
        reaching &= allowed
        before = follows[:-1].T.astype(np.float32)
        for distance in range(1, int(lengths.max())):
            positions = offsets[1:][lengths > distance] - 1 - distance
            reaching[positions] &= reaching[positions + 1] @ before > 0
    return reaching


def _by_distance(follows: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """Return the labels that can reach the end by their distance, until they no longer change."""
    rows = [ends]
    while len(rows) < n:
        rows.append(follows[:-1][:, rows[-1]].any(axis=1))
        if (rows[-1] == rows[-2]).all():
            break
    return np.array(rows)


def as_transitions(transitions: Any, classes: np.ndarray, order: int) -> Transitions | None:
    """Check the parameter ``transitions``: the name of rules, or a matrix."""
    if transitions is None:
        return None
    if order == 0:
        raise ValueError("transitions with order=0; expected order 1 or higher")
    if isinstance(transitions, str):
        return _rules(transitions, classes)
    n = len(classes)
    try:
        table = np.asarray(transitions)
    except ValueError:
        raise ValueError("transitions has rows of different lengths; expected a matrix") from None
    if table.shape not in ((n, n), (n + 1, n)):
        raise ValueError(
            f"transitions has the shape {table.shape}; expected ({n}, {n}) or ({n + 1}, {n}): a "
            f"row for each of the labels {classes.tolist()}, and optionally one for the start"
        )
    table = _booleans(table, "transitions")
    follows = table if len(table) > n else np.vstack([table, np.ones((1, n), dtype=bool)])
    return Transitions(follows, np.ones(n, dtype=bool))


def _booleans(table: np.ndarray, what: str) -> np.ndarray:
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise ValueError(f"{what} has other values than True and False")
    return table.astype(bool)


def _rules(name: str, classes: np.ndarray) -> Transitions:
    may_follow, letters = RULES[scheme_named(name)]
    tags = [_parse(label, name, letters) for label in classes.tolist()]
    outside = (OUTSIDE, "")  # before and after a sequence
    follows = [[may_follow(*a, *b) for b in tags] for a in [*tags, outside]]
    ends = [may_follow(*a, *outside) for a in tags]
    return Transitions(np.array(follows), np.array(ends))


def _parse(label: object, name: str, letters: str) -> tuple[str, str]:
    """Split a tag into its letter and its type."""
    letter, dash, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == OUTSIDE or (letter in set(letters) - {OUTSIDE} and bool(dash) == bool(kind)):
        return letter, kind
    raise ValueError(
        f'transitions="{name}": the label {label!r} is neither O nor of the form '
        + ", ".join(f"{x}-X" for x in letters if x != OUTSIDE)
    )


def _bio(before: str, kind_before: str, letter: str, kind: str) -> bool:
    return letter != INSIDE or (before != OUTSIDE and kind == kind_before)


def _iob1(before: str, kind_before: str, letter: str, kind: str) -> bool:
    # B separates adjacent chunks of one type, and only them.
    return letter != BEGIN or (before != OUTSIDE and kind == kind_before)


def _ioe2(before: str, kind_before: str, letter: str, kind: str) -> bool:
    return before != INSIDE or (letter != OUTSIDE and kind == kind_before)


def _bioes(before: str, kind_before: str, letter: str, kind: str) -> bool:
    goes_on = before in (BEGIN, INSIDE)
    return (letter in (INSIDE, *LAST)) == goes_on and (not goes_on or kind == kind_before)


# For each scheme, whether a tag may follow another one, and the letters of its tags.
RULES: dict[str, tuple[Callable, str]] = {
    "iob1": (_iob1, "BIO"),
    "iob2": (_bio, "BIO"),
    "ioe2": (_ioe2, "IEO"),
    "iobes": (_bioes, "BIOES"),
    "bilou": (_bioes, "BILOU"),
}


def as_allowed(
    allowed: Any,
    known: Any,
    classes: np.ndarray,
    offsets: np.ndarray,
    segmentation: Segmentation | None = None,
) -> np.ndarray | None:
    """Check masks of allowed labels and lists of known labels, and combine them to one mask.

    There is an item for each sequence, or one for a long table.
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
        of_sequences = (segmentation or Segmentation()).items(items, offsets, name, what)
        for i, item in enumerate(of_sequences):
            if item is not None:
                restrict(mask[offsets[i] : offsets[i + 1]], item, classes, i)
    without = ~mask.any(axis=1)
    if without.any():
        raise ValueError(f"{position_name(int(np.argmax(without)), offsets)}: no label is allowed")
    return mask


def check_allowed(
    allowed: np.ndarray, codes: np.ndarray, classes: np.ndarray, offsets: np.ndarray
) -> None:
    """Check label sequences against a mask of `as_allowed`."""
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
    """Check label sequences against the parameter ``transitions`` and a mask of `as_allowed`."""
    rules = as_transitions(transitions, classes, order)
    if rules is not None:
        rules.check(codes, offsets, classes)
    if allowed is not None:
        check_allowed(allowed, codes, classes, offsets)


def _mask(mask: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    table = np.asarray(item)
    if not len(mask) and not table.size:
        return
    if table.shape != mask.shape:
        raise ValueError(
            f"sequence {i}: allowed has the shape {table.shape}; expected {mask.shape}"
        )
    mask &= _booleans(table, f"sequence {i}: allowed")


def _keep(mask: np.ndarray, item: Any, classes: np.ndarray, i: int) -> None:
    if not isinstance(item, Iterable):
        raise TypeError(
            f"sequence {i}: known is of type {type(item).__name__}; expected a list of labels, "
            "None where they are unknown"
        )
    labels = list(item)
    if len(labels) != len(mask):
        raise ValueError(f"sequence {i}: {len(labels)} known labels for {len(mask)} positions")
    indices, missing = {label: k for k, label in enumerate(classes.tolist())}, find_missing(labels)
    for t, label in enumerate(labels):
        if missing is not None and missing[t]:
            continue
        if not isinstance(label, Hashable) or label not in indices:
            raise ValueError(
                f"sequence {i}, position {t}: known label {label!r} was not seen in training"
            )
        mask[t] &= np.arange(len(classes)) == indices[label]
