"""Constraints on labels and on their order, as scores of minus infinity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.inputs.offsets import position_name

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
        from treecrf.inputs.schemes import find_forbidden

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


def _names_of(labels: np.ndarray, classes: np.ndarray) -> str:
    """Name the labels in a mask."""
    from treecrf.inputs.values import short_list

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


def check_allowed(
    allowed: np.ndarray, codes: np.ndarray, classes: np.ndarray, offsets: np.ndarray
) -> None:
    """Check label sequences against a mask of `as_allowed`."""
    broken = ~allowed[np.arange(len(codes)), codes]
    if broken.any():
        p = int(np.argmax(broken))
        label = classes[codes[p]].item()
        raise ValueError(f"{position_name(p, offsets)}: {label!r} is forbidden by allowed")
