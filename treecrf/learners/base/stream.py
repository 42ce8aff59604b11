"""Online labeling: probabilities of labels while a sequence is still arriving."""

from __future__ import annotations

import copy
import numbers
import re
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from treecrf.chains.constraints import as_transitions
from treecrf.chains.lattice import Lattice
from treecrf.inputs.data_warnings import warn_of_keys, warn_of_names
from treecrf.inputs.offsets import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.learners.base.classifier import SequenceClassifier


class Stream:
    """Labels a sequence online, one position after another.

    Made by the method ``stream`` of a fitted model, such as `TreeCRF.stream`. Each call of `push`
    takes about the same time, however long the sequence has become. Several streams of one model
    are independent of each other, and do not change if the model is fitted again.

    Parameters
    ----------
    model : estimator
        A fitted model.
    lag : int, default=0
        Number of further positions that the probabilities of a position depend on.

    Attributes
    ----------
    n_pushed : int
        Number of positions of the current sequence so far.
    delay : int
        Number of positions by which results lag behind: ``lag``, and the positions to the right of
        the labeled one that the model's window contains.

    Notes
    -----
    The scores of position t depend on the input up to position t + right, if the window of the
    model contains ``right`` positions to the right. They are computed as soon as this input is
    known, by which time they are those of the whole sequence. If the scores of the positions 0 to s
    are known, `push` returns P(label at s - lag) in the chain of these positions: forward messages
    for ``lag=0``, called filtering, and fixed-lag smoothing otherwise [1]_. The input after the end
    of the sequence, which only `finish` indicates, then changes nothing but the last ``delay``
    positions.

    References
    ----------
    .. [1] L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proceedings of the IEEE 77, 1989.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> stream = crf.stream(lag=1)
    >>> found = [stream.push(symbol) for symbol in "nab"]
    >>> found[0] is None, found[1].shape
    (True, (2,))
    >>> len(stream.finish())
    1
    """

    def __init__(self, model: SequenceClassifier, lag: int = 0):
        if isinstance(lag, bool) or not isinstance(lag, numbers.Integral) or lag < 0:
            raise ValueError(f"lag={lag!r}; expected a nonnegative integer")
        predictor = fitted_model(model).predictor
        self._predictor, self._chain = predictor, predictor.chain
        if self._chain.is_backward:
            raise ValueError(
                "the model labels sequences from their end; expected direction='left-to-right'"
            )
        left, self._right = self._chain.reach()
        self.lag = int(lag)
        self.delay = self._right + self.lag
        self._order, self._n_labels = self._chain.order, len(self._chain.classes)
        # Rows before a position that its scores depend on, or that define its contexts.
        self._n_before = max(left, self._order)
        self._transitions = as_transitions(
            self._chain.transitions, self._chain.classes, self._order
        )
        self._threads = Threads(1)
        # Keys of dicts that have caused a warning, and others that cause none.
        self._reported = predictor.columns.names
        self.reset()

    def reset(self) -> Stream:
        """Start a new sequence, and forget the current one.

        Returns
        -------
        self : Stream
        """
        self.n_pushed = 0
        self._rows: deque = deque()
        # Scores of the positions that still need results, without constraints and with them.
        self._scores: deque[np.ndarray] = deque()
        self._tables: deque[np.ndarray] = deque()
        # Log-weights of the contexts before the first of these positions.
        self._message = np.zeros(1)
        self._n_scored = 0
        return self

    def push(self, row: Any) -> np.ndarray | None:
        """Add a position to the sequence.

        Parameters
        ----------
        row : object
            One position of the input: a symbol, a dict, or a 1-D array, sparse row or list of
            feature values.

        Returns
        -------
        float array of shape (n_classes,) or None
            Probabilities of the labels ``delay`` positions before, given the input so far. None for
            the first ``delay`` positions of a sequence.

        Raises
        ------
        ValueError, TypeError
            If the row does not match the training data. The stream then remains unchanged.
        """
        row = row.toarray().ravel() if sparse.issparse(row) else _copied(row)
        rows = [*self._rows, row]
        n_scored = self.n_pushed + 1 - self._right
        scores, found = self._scores_of(rows, len(rows) - 1 - self._right, n_scored > 0), None
        if n_scored > 0:
            found = self._add(scores)
        self._rows.append(row)
        if len(self._rows) > self._n_before + self._right:
            self._rows.popleft()
        self.n_pushed += 1
        return found

    def finish(self) -> list[np.ndarray]:
        """End the sequence, and start a new one.

        Returns
        -------
        list of float arrays of shape (n_classes,)
            Probabilities of the labels of the remaining positions, at most the last ``delay``,
            given the whole sequence.

        Raises
        ------
        ValueError
            If ``transitions`` do not allow any label sequence. The stream then remains unchanged.
        """
        scores = list(self._scores)
        n_left = self.n_pushed - self._n_scored
        if n_left:
            table = self._chain.scores(self._read(list(self._rows)), self._threads)
            scores += [table[:, -i] for i in range(n_left, 0, -1)]
        found = self._last(scores) if scores else []
        self.reset()
        return found

    # Reading

    def _scores_of(self, rows: list, index: int, is_complete: bool) -> np.ndarray | None:
        """Check the latest rows; return the scores of one position, if its window is complete."""
        if self._predictor.short_model is not None:
            here = (index, index + 1) if is_complete else (0, 0)
            scores = self._predictor.short_model.scores_at(_as_sequence(rows), *here)
            if scores is not None:
                return scores[:, 0] if is_complete else None
        sequences = self._read(rows)
        return self._chain.scores_at(sequences, index, self._threads) if is_complete else None

    def _read(self, rows: list) -> Sequences:
        """Check the latest rows; those before have been checked."""
        try:
            sequences = self._predictor.checked([_as_sequence(rows)], Segmentation())
        except (ValueError, TypeError) as error:
            where = f"position {self.n_pushed}"
            message = re.sub(r"^sequence 0(, position \d+)?", where, str(error))
            raise type(error)(message) from None
        schema = self._chain.schema
        if self.n_pushed == 0:
            warn_of_names(sequences.names, schema.names, self._predictor.name)
        self._reported |= warn_of_keys(rows[-1:], schema, self._reported, is_long=True)
        return sequences

    # Inference

    def _add(self, scores: np.ndarray) -> np.ndarray | None:
        """Add the scores of a position; return the probabilities ``lag`` positions before."""
        table = self._constrained(scores, self._n_scored)
        tables, message, found = [*self._tables, table], self._message, None
        first = self._n_scored - len(self._tables)
        if len(tables) > self.lag:
            message = self._next_message(message, tables[0])
            found = self._smoothed(tables, first)[0] if self.lag else _filtered(message, table)
        self._scores.append(scores)
        self._tables.append(table)
        if len(tables) > self.lag:
            self._scores.popleft()
            self._tables.popleft()
        self._message = message
        self._n_scored += 1
        return found

    def _last(self, scores: list[np.ndarray]) -> list[np.ndarray]:
        """Compute the probabilities of the last positions of the sequence."""
        first, may_be = self.n_pushed - len(scores), [None] * len(scores)
        if self._transitions is not None:
            may_be = list(self._transitions.reaching_end(len(scores)))
        tables = [
            self._constrained(of_position, first + i, may_be[i])
            for i, of_position in enumerate(scores)
        ]
        return list(self._smoothed(tables, first))

    def _constrained(
        self, scores: np.ndarray, t: int, may_be: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the scores of position t with -inf for labels that may not follow others.

        ``may_be`` masks the labels from which the end of the sequence can be reached.
        """
        scores = np.array(scores, order="C")[:, np.newaxis]
        if self._transitions is not None:
            follows = self._transitions.follows
            latest = np.arange(scores.shape[2]) % self._n_labels
            before = latest if t else np.full(len(latest), self._n_labels)
            scores[:, 0][~follows[before].T] = -np.inf
            if may_be is not None:
                scores[~may_be] = -np.inf
        return self._chain.normalized(scores, self._threads)[:, 0]

    def _next_message(self, message: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the log-weights of the contexts after a position; the largest is 0."""
        n, n_labels = len(message), self._n_labels
        joint = message + scores[:, :n]
        if self._order == 0:
            after = np.zeros(1) + joint.max()
        else:
            # Contexts that differ only in the oldest of ``order`` labels lead to the same one.
            n_ends = min(n, n_labels ** (self._order - 1))
            joint = joint.reshape(n_labels, n // n_ends, n_ends)
            after = np.logaddexp.reduce(joint, axis=1).T.ravel()
        highest = after.max()
        if highest == -np.inf:
            raise ValueError(f"position {self.n_pushed}: no label sequence is allowed")
        return after - highest

    def _smoothed(self, tables: list[np.ndarray], first: int) -> np.ndarray:
        """Compute probabilities of the positions from ``first`` on, given the message before them.

        Each table has the scores of a position under constraints, (n_labels, n_contexts).
        """
        # The message becomes scores of the labels before the first position.
        depth = min(first, self._order)
        scores = np.zeros((self._n_labels, depth + len(tables), tables[0].shape[1]))
        if depth:
            weights = self._message.reshape(-1, self._n_labels).T
            scores[:, depth - 1, : weights.shape[1]] = weights
        scores[:, depth:] = np.stack(tables, axis=1)
        offsets = np.array([0, scores.shape[1]])
        found = Lattice(scores, offsets, self._order, self._threads).marginals()[depth:]
        if not found.any(axis=1).all():
            raise ValueError(f"position {self.n_pushed}: no label sequence is allowed")
        return found


def _filtered(message: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of the latest label, given the message after it."""
    if len(message) == 1:
        p = np.exp(scores[:, 0] - scores[:, 0].max())
    else:
        p = np.exp(message).reshape(-1, len(scores)).sum(axis=0)
    return p / p.sum()


def _copied(row: Any) -> Any:
    """Copy a row, because the caller may use the same object for the next position."""
    if type(row) is dict:
        return {key: copy.copy(value) for key, value in row.items()}
    return copy.copy(row)


def _as_sequence(rows: list) -> Any:
    """Join rows to a sequence in a form that is quickly read."""
    kinds = set(map(type, rows))
    if kinds == {str} and set(map(len, rows)) == {1}:
        return "".join(rows)
    if kinds == {np.ndarray} and len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    return rows
