"""Spans of equal labels, or of the labels of one chunk, and their probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from treecrf.chains.lattice import MAX_BYTES, Lattice
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import as_groups, column_of, without_columns
from treecrf.inputs.offsets import Segmentation, positions_in_sequences
from treecrf.inputs.values import closest_name, column_names
from treecrf.inspection.fitted import CheckedData, check_model, group_values
from treecrf.inspection.scores import lattices_of
from treecrf.learners.classifier import SequenceClassifier
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike

# Labels of tagging schemes: nothing, or a letter and the type of a span, if it has one.
TAG = re.compile("O|([BIESLU])(?:-(.+))?")


class Span(NamedTuple):
    """A span of a label sequence.

    Attributes
    ----------
    sequence : int or group
        Index of the sequence, or its group in a long table with groups.
    start, end : int
        Positions in the sequence: the first one, and the one after the last.
    label : str, int or bool
        The label, or the type of the span, such as PER for B-PER I-PER.
    probability : float
        Probability that exactly these labels occur there, and that the span neither begins earlier
        nor ends later.
    mean_probability : float
        Mean of the probabilities of the single labels.
    first, last : object
        Times or index values of the first and the last position.
    """

    sequence: Any
    start: int
    end: int
    label: Any
    probability: float
    mean_probability: float
    first: Any
    last: Any


def find_spans(
    model: Any,
    X: SequencesLike,
    labels: LabelsLike | None = None,
    *,
    prefixes: bool | None = None,
    times: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> list[Span]:
    """Find the spans in predicted or given labels, and their probabilities.

    Parameters
    ----------
    model : fitted classifier
    X : list of sequences, or one long table
        As in the model's ``predict``.
    labels : list of array-like of shape (n_positions,), array-like or str, optional
        The labels to read, in the form of the model's predictions; the predictions by default.
    prefixes : bool, optional
        Whether the labels are those of a tagging scheme: O, or a prefix B, I, E, S, L or U and the
        type of a span. A span then also begins at a B, S or U, and ends at an E, L, S or U, as in
        `treecrf.metrics.span_f1_score` without a scheme, and O is outside of spans. If False, each
        run of equal labels is a span. By default True if all labels of the model are O or have a
        prefix and a type, such as B-PER.
    times : str, array-like of shape (n_positions,), or list of them, optional
        Times of the positions, or the name of the data frame column that holds them. By default the
        index of pandas data frames, and otherwise positions in the sequence, or in the long table.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    list of Span
        The spans of all sequences, in order; ``pandas.DataFrame(spans)`` is their table.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If X does not match the training data, or the labels or times do not match X.

    See Also
    --------
    treecrf.plotting.highlight_text : A text in which spans have colors.

    Notes
    -----
    The probability of a span is the ratio of two sums over label sequences: of those that contain
    it, and of all. If ``order`` is greater than 1, the time grows with the number of spans times
    the length of their sequence.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import find_spans
    >>> X = [["Ada", "Lovelace", "met", "Mary"], ["Mary", "met", "Ada"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "B-PER"]]
    >>> crf = LinearCRF(l2_regularization=0.1).fit(X, y)
    >>> for span in find_spans(crf, [["Mary", "met", "Ada", "Lovelace"]]):
    ...     print(span.start, span.end, span.label, f"{span.probability:.2f}")
    0 1 PER 0.83
    2 4 PER 0.70
    """
    check_model(model)
    rows = X = as_groups(X, "X")
    predictor = model._predictor()
    segmentation = predictor.segmentation(X, lengths, groups)
    if isinstance(times, str):
        X, times = without_times(model, X, times)
    data = CheckedData.of(model, X, labels, lengths, groups, may_be_empty=True)
    offsets = data.sequences.offsets
    names: Any = range(len(offsets) - 1)
    if segmentation.groups is not None:
        of_rows = group_values(rows, segmentation)
        names = [of_rows[start] for start in offsets[:-1]]
    places = _places(rows, times, segmentation, offsets)
    rules = SpanRules.of(model.classes_, prefixes, predictor.chain.is_backward)
    spans = []
    for i, lattice, codes in _chains(data):
        starts, ends = rules.bounds(codes)
        probabilities = _probabilities if lattice.order < 2 else _probabilities_of_sums
        p = probabilities(lattice, codes, starts, ends, rules.goes_on)
        of_labels = lattice.marginals()[np.arange(len(codes)), codes]
        means = [of_labels[a:b].mean() for a, b in zip(starts, ends, strict=True)]
        labels_here = [rules.name_of[code] for code in codes[starts]]
        if predictor.chain.is_backward:
            starts, ends = len(codes) - ends, len(codes) - starts
        rows_here = places[offsets[i] : offsets[i + 1]]
        found = [
            Span(names[i], a, b, label, *of_span, rows_here[a], rows_here[b - 1])
            for a, b, label, *of_span in zip(
                starts.tolist(), ends.tolist(), labels_here, p.tolist(), map(float, means),
                strict=True,
            )
        ]  # fmt: skip
        spans += sorted(found, key=lambda span: span.start)
    return spans


@dataclass(frozen=True)
class SpanRules:
    """How spans are read, in the direction of the chain."""

    goes_on: np.ndarray  # bool (n_labels, n_labels): whether a span with a label has the next one
    is_outside: np.ndarray  # bool (n_labels,)
    name_of: list  # of the spans with each label

    @classmethod
    def of(cls, classes: np.ndarray, prefixes: bool | None, backward: bool = False) -> SpanRules:
        """Read labels as `find_spans` does."""
        labels = classes.tolist()
        found = [TAG.fullmatch(label) if isinstance(label, str) else None for label in labels]
        if prefixes is None:
            prefixes = all(found) and any("-" in label for label in labels)
        if not prefixes:
            return cls(np.eye(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool), labels)
        if not all(found):
            label = labels[found.index(None)]
            raise ValueError(
                f"prefixes={prefixes}: the label {label!r} is neither O nor one of the prefixes B, "
                "I, E, S, L and U, with '-' and a type or alone"
            )
        tags = [match.groups() for match in found]
        goes_on = np.array(
            [
                [
                    None not in (a, b) and kind == next_kind and a not in "ESLU" and b not in "BSU"
                    for b, next_kind in tags
                ]
                for a, kind in tags
            ]
        )
        is_outside = np.array([letter is None for letter, _ in tags])
        return cls(goes_on.T if backward else goes_on, is_outside, [kind or "" for _, kind in tags])

    @property
    def names(self) -> list:
        """The distinct names of spans."""
        pairs = zip(self.name_of, self.is_outside, strict=True)
        return list(dict.fromkeys(name for name, is_outside in pairs if not is_outside))

    def bounds(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first positions of spans, and those after the last."""
        is_first = np.append(True, ~self.goes_on[codes[:-1], codes[1:]])
        starts = np.flatnonzero(is_first)
        ends = np.append(starts[1:], len(codes))
        is_span = ~self.is_outside[codes[starts]]
        return starts[is_span], ends[is_span]


def _chains(data: CheckedData) -> Iterator[tuple[int, Lattice, np.ndarray]]:
    """Yield the index, the lattice and the codes of each sequence with positions."""
    offsets = data.sequences.offsets
    present = iter(np.flatnonzero(np.diff(offsets)).tolist())
    if offsets[-1] == 0:
        return
    codes = data.chain_codes()
    for lattice in lattices_of(data.model, data.chain_sequences().without_empty()):
        for first, last in pairwise(lattice.offsets.tolist()):
            i = next(present)
            scores = np.ascontiguousarray(lattice.scores[:, first:last])
            one = replace(lattice, scores=scores, offsets=np.array([0, last - first]))
            yield i, one, codes[offsets[i] : offsets[i + 1]]


def _probabilities(
    lattice: Lattice, codes: np.ndarray, starts: np.ndarray, ends: np.ndarray, goes_on: np.ndarray
) -> np.ndarray:
    """Compute the probabilities of spans of one sequence, label by label given the one before."""
    marginals, pairs, n = lattice.marginals(), lattice.pairwise(), len(codes)
    every = np.arange(n)
    of_labels, before = marginals[every, codes], np.append(0, codes[:-1])
    with np.errstate(invalid="ignore"):  # impossible labels
        steps = pairs[every, before, codes] / np.append(1.0, of_labels[:-1])
        inside = np.array([steps[a + 1 : b].prod() for a, b in zip(starts, ends, strict=True)])
        begins = np.sum(pairs[starts, :, codes[starts]] * ~goes_on.T[codes[starts]], axis=1)
        begins[starts == 0] = of_labels[0]
        last, after = ends - 1, np.minimum(ends, n - 1)
        stops = np.sum(pairs[after, codes[last]] * ~goes_on[codes[last]], axis=1)
        stops = np.where(ends < n, stops / of_labels[last], 1.0)
        return np.nan_to_num(begins * inside * stops)


def _probabilities_of_sums(
    lattice: Lattice, codes: np.ndarray, starts: np.ndarray, ends: np.ndarray, goes_on: np.ndarray
) -> np.ndarray:
    """Compute probabilities of spans of one sequence, as ratios of sums over label sequences.

    In contrast to `_probabilities`, labels may depend on more than one label before.
    """
    n, n_labels = len(codes), lattice.n_labels
    is_label = np.eye(n_labels, dtype=bool)
    log_p = np.zeros(len(starts))
    size = max(1, MAX_BYTES // lattice.scores.nbytes)
    for first in range(0, len(starts), size):
        some = slice(first, first + size)
        bounds = list(zip(starts[some].tolist(), ends[some].tolist(), strict=True))
        allowed = np.ones((len(bounds), n, n_labels), dtype=bool)
        for mask, (start, end) in zip(allowed, bounds, strict=True):
            mask[start:end] = is_label[codes[start:end]]
            if start > 0:
                mask[start - 1] = ~goes_on[:, codes[start]]
            if end < n:
                mask[end] = ~goes_on[codes[end - 1]]
        scores = np.tile(lattice.scores, (1, len(bounds), 1))
        scores[~allowed.reshape(-1, n_labels).T] = -np.inf
        copies = replace(lattice, scores=scores, offsets=n * np.arange(len(bounds) + 1))
        log_p[some] = copies.log_partitions()
    return np.exp(log_p - lattice.log_partitions())


def without_times(
    model: SequenceClassifier, X: Any, name: str, where: str = "X"
) -> tuple[Any, list]:
    """Return X without a column, unless it is a feature of the model, and its values."""
    values = []
    for i, table in enumerate([X] if is_frame(X) else X):
        names = column_names(table) if is_frame(table) else []
        if name not in names:
            place = where if is_frame(X) else f"sequence {i}"
            raise ValueError(
                f"times={name!r} is not a column of {place}{closest_name(name, names)}"
            )
        values.append(column_of(table, name))
    features = model._predictor().chain.schema.names
    if features is None or name not in features:
        X = without_columns(X, {name})
    return X, values[0] if is_frame(X) else values


def _places(X: Any, times: Any, segmentation: Segmentation, offsets: np.ndarray) -> list:
    """Return the time or the index value of each position of all sequences."""
    if times is not None:
        items = segmentation.items(times, offsets, "times", "times")
        lengths = [len(item) for item in items]
        if lengths != np.diff(offsets).tolist():
            i = next(i for i, n in enumerate(np.diff(offsets)) if n != lengths[i])
            n = offsets[i + 1] - offsets[i]
            raise ValueError(f"sequence {i}: {n} positions in X, {lengths[i]} in times")
        return list(chain.from_iterable(items))
    tables = [X] if segmentation.is_long else X
    if all(is_frame(table) and hasattr(table, "index") for table in tables):
        return list(chain.from_iterable(table.index for table in tables))
    if segmentation.is_long:
        return list(range(offsets[-1]))
    return positions_in_sequences(offsets).tolist()
