"""Spans of equal labels, or of the labels of one chunk, and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from treecrf.chains.lattice import MAX_BYTES, Lattice
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import as_groups, column_of, without_columns
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.schemes import TAG
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import closest_name, column_names
from treecrf.inspection.fitted import CheckedData, check_model, group_values
from treecrf.inspection.scores import lattices_of
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike


class Span(NamedTuple):
    """A span of labels and its probabilities, from `find_spans`.

    This is a named tuple, so ``pandas.DataFrame(spans)`` makes a table of a list of spans.

    Attributes
    ----------
    sequence : int or group
        Index of the sequence. For a long table with ``groups``, its group.
    start : int
        First position in the sequence, from 0.
    end : int
        Position after the last one, so that the span has ``end - start`` positions.
    label : str, int or bool
        The label. With prefixes, it is the type of the span, such as PER for B-PER I-PER.
    probability : float
        Probability that there is a span with this start, end and label, whatever the labels of its
        positions. A model without ``transitions`` may take both B-PER I-PER and I-PER I-PER for it.
    mean_probability : float
        Mean of the marginal probabilities of the labels at the single positions.
    first : object
        Time or index value of the first position (see the parameter ``times`` of `find_spans`).
    last : object
        Time or index value of the last position.
    labels_probability : float
        Probability of a span with exactly these labels at its positions. It is at most
        ``probability``, and equal to it for runs of equal labels.

    See Also
    --------
    find_spans : Find the spans in labels.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import find_spans
    >>> y = [["lo", "lo", "hi", "hi"], ["lo", "hi", "hi", "hi"]]
    >>> crf = LinearCRF().fit(["aabb", "abbb"], y)
    >>> [(span.label, span.start, span.end) for span in find_spans(crf, ["aab"])]
    [('lo', 0, 2), ('hi', 2, 3)]
    """

    sequence: Any
    start: int
    end: int
    label: Any
    probability: float
    mean_probability: float
    first: Any
    last: Any
    labels_probability: float


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

    A span is a run of equal labels, or of labels of a tagging scheme such as B-PER I-PER.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf, which provides the probabilities.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    labels : list of array-like of shape (n_positions,), array-like or str, default=None
        The labels in which to find spans, in the form of the model's predictions, or the name of
        the data frame column that holds them. By default, these are the predictions.
    prefixes : bool, default=None
        How labels are read:

        - True: as tags, which are O, outside of spans, or a prefix B, I, E, S, L or U and the type
          of a span. A span begins where the type changes, or at a B, S or U. It ends after an E, L,
          S or U. `treecrf.metrics.span_f1_score` without a scheme reads B, I, E and S in the same
          way.
        - False: each run of equal labels is a span.
        - None: as tags if all labels of the model are O or have a prefix and a type, such as B-PER.
    times : str, array-like of shape (n_positions,), or list of them, default=None
        Times of the positions, or the name of the data frame column that holds them. By default,
        these are the index values of pandas data frames. For other data, they are the positions in
        the sequence, or in the long table.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    list of Span
        The spans of all sequences, in order.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If X does not match the training data, or the labels or the times do not match X, or
        ``prefixes=True`` and a label is not a tag.

    See Also
    --------
    treecrf.plotting.highlight_text : Show the spans of a text in colors.
    treecrf.metrics.span_f1_score : Compare predicted spans with true ones.

    Notes
    -----
    The probability of a span is the sum of the probabilities of all label sequences that contain a
    span with its start, end and label. If ``order`` is greater than 1, the time grows with the
    number of spans times the length of their sequence.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import find_spans
    >>> X = [["Ada", "Lovelace", "met", "Mary"], ["Mary", "met", "Ada"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "B-PER"]]
    >>> crf = LinearCRF(l2_regularization=0.1).fit(X, y)
    >>> for span in find_spans(crf, [["Mary", "met", "Ada", "Lovelace"]]):
    ...     print(span.start, span.end, span.label, f"{span.probability:.2f}")
    0 1 PER 0.87
    2 4 PER 0.65
    """
    check_model(model)
    X = as_groups(X, "X")
    table = X
    predictor = fitted_model(model).predictor
    segmentation = predictor.segmentation(X, lengths, groups)
    if isinstance(times, str):
        X, times = without_times(model, X, times)
    data = CheckedData.of(model, X, labels, lengths, groups, may_be_empty=True)
    offsets = data.sequences.offsets
    names: Any = range(len(offsets) - 1)
    if segmentation.groups is not None:
        groups_of_rows = group_values(table, segmentation)
        names = [groups_of_rows[start] for start in offsets[:-1]]
    places = _places(table, times, segmentation, offsets)
    rules = SpanRules.of(model.classes_, prefixes, predictor.chain.is_backward)
    spans = []
    for i, lattice, codes in _chains(data):
        sequence_places = places[offsets[i] : offsets[i + 1]]
        spans += _spans_in(
            lattice, codes, rules, names[i], sequence_places, predictor.chain.is_backward
        )
    return spans


def _spans_in(
    lattice: Lattice,
    codes: np.ndarray,
    rules: SpanRules,
    sequence: Any,
    places: list,
    is_backward: bool,
) -> list[Span]:
    """Return the spans of one sequence, in the direction of the input.

    ``sequence`` is its index or group, and ``places`` are the times of its positions.
    """
    starts, ends = rules.bounds(codes)
    probabilities = _probabilities if lattice.order < 2 else _probabilities_of_sums
    goes_on = rules.goes_on
    may_be_in_span = rules.has_same_name[codes]
    is_given_label = np.eye(lattice.n_labels, dtype=bool)[codes]
    p_spans = probabilities(lattice, may_be_in_span, starts, ends, goes_on).tolist()
    p_labels = probabilities(lattice, is_given_label, starts, ends, goes_on).tolist()
    marginals = lattice.marginals()[np.arange(len(codes)), codes]
    spans = []
    for k, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        first = start
        last = end
        if is_backward:
            first = len(codes) - end
            last = len(codes) - start
        spans.append(
            Span(
                sequence,
                first,
                last,
                rules.name_of[codes[start]],
                p_spans[k],
                float(marginals[start:end].mean()),
                places[first],
                places[last - 1],
                p_labels[k],
            )
        )
    return sorted(spans, key=lambda span: span.start)


@dataclass(frozen=True)
class SpanRules:
    """How spans are read, in the direction of the chain."""

    # Whether a span with a label goes on with the next label; bool array (n_labels, n_labels).
    goes_on: np.ndarray
    # Labels outside of all spans; bool array (n_labels,).
    is_outside: np.ndarray
    # Name of the spans with each label.
    name_of: list

    @classmethod
    def of(cls, classes: np.ndarray, prefixes: bool | None, backward: bool = False) -> SpanRules:
        """Read labels as `find_spans` does."""
        labels = classes.tolist()
        matches = [TAG.fullmatch(label) if isinstance(label, str) else None for label in labels]
        if prefixes is None:
            prefixes = all(matches) and any("-" in label for label in labels)
        if not prefixes:
            return cls(np.eye(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool), labels)
        if not all(matches):
            label = labels[matches.index(None)]
            raise ValueError(
                f"prefixes={prefixes}: the label {label!r} is neither O nor one of the prefixes B, "
                "I, E, S, L and U, with '-' and a type or alone"
            )
        tags = [match.groups() for match in matches]
        goes_on = np.array([[_goes_on(tag, next_tag) for next_tag in tags] for tag in tags])
        if backward:
            goes_on = goes_on.T
        is_outside = np.array([prefix is None for prefix, _ in tags])
        return cls(goes_on, is_outside, [kind or "" for _, kind in tags])

    @property
    def has_same_name(self) -> np.ndarray:
        """Which labels occur in spans of the same name; bool array (n_labels, n_labels)."""
        pairs = zip(self.name_of, self.is_outside, strict=True)
        names = [None if is_outside else (name,) for name, is_outside in pairs]
        return np.array([[a is not None and a == b for b in names] for a in names])

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


def _goes_on(tag: tuple, next_tag: tuple) -> bool:
    """Return whether a span goes on from a tag to the next one; tags are (prefix, type)."""
    prefix, kind = tag
    next_prefix, next_kind = next_tag
    if prefix is None or next_prefix is None or kind != next_kind:
        return False
    return prefix not in "ESLU" and next_prefix not in "BSU"


def _chains(data: CheckedData) -> Iterator[tuple[int, Lattice, np.ndarray]]:
    """Yield the index, the lattice and the codes of each sequence with positions."""
    offsets = data.sequences.offsets
    with_positions = iter(np.flatnonzero(np.diff(offsets)).tolist())
    if offsets[-1] == 0:
        return
    codes = data.chain_codes()
    for lattice in lattices_of(data.model, data.chain_sequences().without_empty()):
        for first, last in pairwise(lattice.offsets.tolist()):
            i = next(with_positions)
            scores = np.ascontiguousarray(lattice.scores[:, first:last])
            one = replace(lattice, scores=scores, offsets=np.array([0, last - first]))
            yield i, one, codes[offsets[i] : offsets[i + 1]]


def _probabilities(
    lattice: Lattice,
    possible: np.ndarray,  # bool (n_positions, n_labels): the labels in the span of a position
    starts: np.ndarray,
    ends: np.ndarray,
    goes_on: np.ndarray,
) -> np.ndarray:
    """Compute the probabilities of spans of one sequence, position by position of all spans.

    A label depends on the one before, so that the probabilities of the labels at a position, and of
    the span up to it, follow from those at the position before.
    """
    marginals = lattice.marginals()
    pairs = lattice.pairwise()
    n = len(possible)
    p_first = np.sum(pairs[starts] * ~goes_on, axis=1)
    p_first[starts == 0] = marginals[0]
    so_far = p_first * possible[starts]
    lengths = ends - starts
    for step in range(1, int(lengths.max(initial=0))):
        is_longer = lengths > step
        positions = starts[is_longer] + step
        steps = _given_previous(pairs[positions], marginals[positions - 1]) * goes_on
        so_far[is_longer] = np.einsum("sl,slm->sm", so_far[is_longer], steps) * possible[positions]
    is_before_end = ends < n
    after = ends[is_before_end]
    p_stop = _given_previous(pairs[after], marginals[after - 1]) * ~goes_on
    so_far[is_before_end] *= p_stop.sum(axis=2)
    return so_far.sum(axis=1)


def _given_previous(pairs: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """Divide joint probabilities of labels by those of the first one; 0 where that is 0."""
    divisors = previous[:, :, np.newaxis]
    return np.divide(pairs, divisors, out=np.zeros_like(pairs), where=divisors > 0)


def _probabilities_of_sums(
    lattice: Lattice,
    possible: np.ndarray,  # as in `_probabilities`
    starts: np.ndarray,
    ends: np.ndarray,
    goes_on: np.ndarray,
) -> np.ndarray:
    """Compute probabilities of spans of one sequence, as ratios of sums over label sequences.

    In contrast to `_probabilities`, labels may depend on more than one label before.
    """
    n = len(possible)
    log_p = np.zeros(len(starts))
    size = max(1, MAX_BYTES // lattice.scores.nbytes)
    for first in range(0, len(starts), size):
        block = slice(first, first + size)
        bounds = list(zip(starts[block].tolist(), ends[block].tolist(), strict=True))
        scores = np.tile(lattice.scores, (1, len(bounds), 1))
        for k, (start, end) in enumerate(bounds):
            _require_span(scores[:, k * n : (k + 1) * n], possible, start, end, goes_on)
        copies = replace(lattice, scores=scores, offsets=n * np.arange(len(bounds) + 1))
        log_p[block] = copies.log_partitions()
    return np.exp(log_p - lattice.log_partitions())


def _require_span(
    scores: np.ndarray, possible: np.ndarray, start: int, end: int, goes_on: np.ndarray
) -> None:
    """Set the scores (n_labels, n, n_contexts) of label sequences without a span to -inf."""
    n_labels, n, n_contexts = scores.shape
    latest = np.arange(n_contexts) % n_labels
    for t in range(start, min(end + 1, n)):
        if t < end:
            scores[~possible[t], t] = -np.inf
        if t > 0:
            follows = goes_on if start < t < end else ~goes_on
            scores[:, t][~follows[latest].T] = -np.inf


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
    features = fitted_model(model).chain.schema.names
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
