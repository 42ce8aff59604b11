"""Constraints on labels and on their order, as scores of minus infinity."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.inputs.labels import SETS, refuse_other_labels
from treecrf.inputs.offsets import Segmentation, position_name
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.schemes import find_forbidden, letters_of, split_tag, tag_transitions
from treecrf.inputs.values import refuse_masked, short_list, short_repr
from treecrf.utils.scipy_sparse import sparse

# Maximum number of labels that an error names.
MAX_NAMED = 3


@dataclass(frozen=True)
class Transitions:
    """Allowed pairs of neighboring labels."""

    # Which labels may follow each label, bool (n_labels + 1, n_labels). The last row marks the
    # labels that may come first.
    follows: np.ndarray
    # Which labels may come last, bool (n_labels,).
    ends: np.ndarray

    def reversed(self) -> Transitions:
        """Return the transitions of the reversed sequences."""
        return Transitions(np.vstack([self.follows[:-1].T, self.ends]), self.follows[-1])

    def reaching_end(self, n: int) -> np.ndarray:
        """Mark the labels of the last n positions from which the end can be reached, in order."""
        by_distance = _by_distance(self.follows, self.ends, n)
        return by_distance[np.minimum(np.arange(n)[::-1], len(by_distance) - 1)]

    def impossible(
        self,
        i: int,
        classes: np.ndarray,
        offsets: np.ndarray,
        allowed: np.ndarray | None = None,
        backward: bool = False,
    ) -> ValueError:
        """Return the error for a sequence without a possible label sequence.

        It names the first position that no label can take, and the labels that would be possible
        there and before. With ``backward``, the masks begin at the end of the sequences.
        """
        n = int(offsets[i + 1] - offsets[i])
        masks = np.ones((n, len(classes)), dtype=bool)
        if allowed is not None:
            masks = allowed[offsets[i] : offsets[i + 1]]
        if backward:
            masks = masks[::-1]
        t = 0
        possible = self.follows[-1]
        following = self.follows[-1] & masks[0]
        while following.any() and t < n - 1:
            t += 1
            possible = following
            following = self.follows[:-1][possible].any(axis=0) & masks[t]
        what = _names_of(masks[t], classes)
        if following.any():
            what = _names_of(following, classes)
            where = "at the end"
        elif t == 0:
            where = "at the start"
        else:
            where = f"after {_names_of(possible, classes)}"
        return ValueError(f"sequence {i}, position {t}: {what} {where} is forbidden by transitions")

    def reaching_starts(self, offsets: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
        """Mark the first labels of the sequences that are not empty, from which one may continue.

        Returns a bool array (n_sequences, n_labels).
        """
        lengths = np.diff(offsets)
        reaching = labels_reaching_end(self, offsets, allowed)
        if reaching is None:
            return np.ones((np.count_nonzero(lengths), len(self.ends)), dtype=bool)
        return reaching[offsets[:-1][lengths > 0]]

    def check(self, codes: np.ndarray, offsets: np.ndarray, classes: np.ndarray) -> None:
        """Check label sequences; the error names the first forbidden label."""
        broken = find_forbidden(codes, offsets, classes, self.follows, self.ends)
        if broken is not None:
            raise ValueError(f"{broken} is forbidden by transitions")


@dataclass(frozen=True)
class Constraints:
    """Constraints on the labels of some sequences, in the direction of the chain."""

    # The labels, in the order of their codes.
    classes: np.ndarray
    # Which labels may follow each label, as in `Transitions`; None allows all.
    follows: np.ndarray | None = None
    # Labels that are allowed at each position, bool (n_positions, n_labels); None allows all.
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
        """Combine transitions and masks, and remove labels from which no end can be reached.

        As a result, a decoder that starts with allowed labels can always continue. With
        ``backward`` the chain, and so the masks, begin at the end of the sequences.
        """
        if transitions is None:
            return cls(classes, None, allowed)
        directed = transitions.reversed() if backward else transitions
        reaching = labels_reaching_end(directed, offsets, allowed)
        first = directed.follows[-1]
        if reaching is not None:
            first = reaching[offsets[:-1]] & first
        dead = ~np.atleast_2d(first).any(axis=1)
        if dead.any():
            i = int(np.argmax(dead))
            raise transitions.impossible(i, classes, offsets, allowed, backward)
        return cls(classes, directed.follows, reaching)

    @property
    def is_free(self) -> bool:
        """Whether every label sequence is allowed."""
        return self.follows is None and self.allowed is None

    def at(self, positions: slice) -> Constraints:
        """Return the constraints on some of the sequences, given their positions."""
        if self.allowed is None:
            return self
        return replace(self, allowed=self.allowed[positions])

    def limited(self, transitions: np.ndarray) -> np.ndarray:
        """Return scores (n_labels + 1, n_labels) with -inf for labels that may not follow."""
        if self.follows is None:
            return transitions
        return np.where(self.follows, transitions, -np.inf)

    def forbid(self, scores: np.ndarray, offsets: np.ndarray) -> None:
        """Set scores (n_labels, n_positions, n_contexts) of forbidden labels to -inf, in place."""
        if self.follows is not None:
            n_labels = len(scores)
            starts = offsets[:-1]
            first_scores = scores[:, starts, 0]
            # The lowest digit of a context is the label before the position.
            latest = np.arange(scores.shape[2]) % n_labels
            for label in range(n_labels):
                scores[label][:, ~self.follows[latest, label]] = -np.inf
            # First positions have one context without a label, which has its own constraints.
            first_scores[~self.follows[-1]] = -np.inf
            scores[:, starts, 0] = first_scores
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
            allowed = self.allowed
            if positions is not None:
                allowed = allowed[positions]
            scores[~allowed.T] = -np.inf


def labels_reaching_end(
    transitions: Transitions, offsets: np.ndarray, allowed: np.ndarray | None
) -> np.ndarray | None:
    """Return the labels from which the end of the sequence can be reached; None if all can."""
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    by_distance = _by_distance(transitions.follows, transitions.ends, longest)
    if allowed is None and by_distance.all():
        reaching = None
    else:
        distances = np.repeat(offsets[1:], lengths) - 1 - np.arange(offsets[-1])
        reaching = by_distance[np.minimum(distances, len(by_distance) - 1)]
    if allowed is not None:
        # A label also needs an allowed label after it from which the end can be reached. All
        # sequences go back from their ends together, one position at a time.
        reaching &= allowed
        before = transitions.follows[:-1].T.astype(np.float32)
        for distance in range(1, longest):
            positions = offsets[1:][lengths > distance] - 1 - distance
            reaching[positions] &= reaching[positions + 1] @ before > 0
    return reaching


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


def _names_of(labels: np.ndarray, classes: np.ndarray) -> str:
    """Name the labels in a mask."""
    if labels.all():
        return "any label"
    return short_list(list(map(repr, classes[labels].tolist())), MAX_NAMED, " or ")


def _by_distance(follows: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """Return the labels that can reach the end by their distance, until they no longer change."""
    rows = [ends]
    while len(rows) < n:
        rows.append(follows[:-1][:, rows[-1]].any(axis=1))
        if (rows[-1] == rows[-2]).all():
            break
    return np.array(rows)


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
    table = _booleans(table, "transitions")
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
        if not isinstance(after, SETS) and not _is_row(after):
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


def _booleans(table: np.ndarray, what: str) -> np.ndarray:
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
    mask &= _booleans(table, f"sequence {i}: allowed")


def _has_labels(item: Any) -> bool:
    """Return whether positions have sets, strings or None, instead of the rows of a mask."""
    if hasattr(item, "__array__"):
        item = np.asarray(item)
        if item.dtype.kind in "biuf":
            return False
    if not _is_iterable(item):
        return False
    kinds = (str, *SETS)
    return any(
        position is None
        or isinstance(position, kinds)
        or (_is_row(position) and len(position) > 0 and isinstance(position[0], str))
        for position in item
    )


def _is_iterable(item: Any) -> bool:
    return isinstance(item, Iterable) and not sparse.issparse(item) and getattr(item, "ndim", 1) > 0


def _is_row(position: Any) -> bool:
    is_array = isinstance(position, np.ndarray) and position.ndim == 1
    return is_array or isinstance(position, (list, tuple))


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
        if not isinstance(labels, SETS) and not _is_row(labels):
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
    if not isinstance(item, str) and not _is_iterable(item):
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
        if isinstance(label, SETS) or _is_row(label):
            raise ValueError(
                f"sequence {i}, position {t}: known label {short_repr(label)} is a collection; "
                "expected one label, or None; allowed= takes sets of labels"
            )
        if not isinstance(label, Hashable) or label not in indices:
            raise ValueError(
                f"sequence {i}, position {t}: known label {label!r} was not seen in training"
            )
        mask[t] &= np.arange(len(classes)) == indices[label]
