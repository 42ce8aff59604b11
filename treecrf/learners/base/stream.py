"""Online labeling: probabilities of labels while a sequence is still arriving."""

from __future__ import annotations

import copy
import numbers
import re
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.inputs.data_warnings import warn_of_keys, warn_of_names
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.utils.scipy_sparse import sparse
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.learners.base.classifier import SequenceClassifier


class Stream:
    """A sequence that is labeled online, one position after another.

    You get a stream from the method ``stream`` of a fitted model, such as `TreeCRF.stream`. Each
    call of `push` takes about the same time, however long the sequence has become. Streams of one
    model are independent of each other, and do not change if the model is fitted again.

    Parameters
    ----------
    model : estimator
        A fitted model.
    lag : int, default=0
        Number of further positions to wait for before the probabilities of a position are computed.
        A larger lag makes them more accurate, and later.

    Attributes
    ----------
    n_pushed : int
        Number of positions of the current sequence so far.
    delay : int
        Number of positions by which results lag behind: ``lag``, plus the number of positions to
        the right of the labeled one in the model's window.
    lag : int
        The parameter ``lag``.

    See Also
    --------
    treecrf.stream : The same for pipelines.

    Notes
    -----
    The scores of position t depend on the input up to position t + right, if the window of the
    model contains ``right`` positions to the right. They are computed as soon as this input is
    known, and do not change afterwards.

    Let s be the last position whose scores are known. `push` returns P(label at s - lag) in the
    chain of the positions 0 to s: by forward messages for ``lag=0``, called filtering, and by
    fixed-lag smoothing otherwise [1]_. Only `finish` says that a sequence has ended. This can
    change the probabilities of the last ``delay`` positions only.

    References
    ----------
    .. [1] L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proceedings of the IEEE 77, 1989.

    Examples
    --------
    With a lag of 1, the probabilities of a position become known with the next one:

    >>> from treecrf import TreeCRF
    >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> crf.classes_.tolist()
    ['c', 'v']
    >>> stream = crf.stream(lag=1)
    >>> for symbol in "nab":
    ...     probabilities = stream.push(symbol)
    ...     if probabilities is not None:
    ...         print(probabilities.round(2))
    [0.94 0.06]
    [0.08 0.92]
    >>> len(stream.finish())
    1
    """

    def __init__(self, model: SequenceClassifier, lag: int = 0):
        if isinstance(lag, bool) or not isinstance(lag, numbers.Integral) or lag < 0:
            raise ValueError(f"lag={lag!r}; expected a nonnegative integer")
        self._predictor = model._predictor()
        self._chain = self._predictor.chain
        if self._chain.is_backward:
            raise ValueError(
                "the model labels sequences from their end; expected direction='left-to-right'"
            )
        left, self._right = self._chain.reach()
        self.lag = int(lag)
        self.delay = self._right + self.lag
        self._order = self._chain.order
        self._n_labels = len(self._chain.classes)
        # Rows before a position that its scores depend on, or that define its contexts.
        self._n_before = max(left, self._order)
        self._transitions = self._chain.rules
        self._threads = Threads(1)
        # Keys of dicts that have caused a warning, and others that cause none.
        self._reported = self._predictor.columns.names
        self.reset()

    def reset(self) -> Stream:
        """Forget the current sequence, and start a new one.

        Returns
        -------
        self : Stream
            The stream itself.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> stream = crf.stream()
        >>> p = stream.push("n")
        >>> stream.reset().n_pushed
        0
        """
        self.n_pushed = 0
        # The latest rows: those that the scores of the next position depend on.
        self._rows: deque = deque()
        # Scores of the positions that still need results, without constraints and with them.
        self._scores: deque[np.ndarray] = deque()
        self._tables: deque[np.ndarray] = deque()
        # Log-weights of the contexts before the first of these positions.
        self._message = np.zeros(1)
        # Number of positions whose scores have been computed.
        self._n_scored = 0
        return self

    def push(self, row: Any) -> np.ndarray | None:
        """Add a position to the sequence, and return the probabilities of an earlier one.

        Parameters
        ----------
        row : object
            One position of the input: a symbol, a dict, or a 1-D array, sparse row or list of
            feature values.

        Returns
        -------
        float64 array of shape (n_classes,) or None
            Probabilities of the labels ``delay`` positions before, given the input so far, in the
            order of ``classes_``. None for the first ``delay`` positions of a sequence.

        Raises
        ------
        ValueError, TypeError
            If the row does not match the training data, or no label sequence is allowed. The stream
            then remains unchanged.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> stream = crf.stream()
        >>> crf.classes_.tolist(), stream.push("n").round(2).tolist()
        (['c', 'v'], [0.83, 0.17])
        """
        row = copied_row(row)
        rows = [*self._rows, row]
        # The new row completes the window of the position ``self._right`` before it, if any.
        is_complete = self.n_pushed >= self._right
        scores = self._scores_at(rows, len(rows) - 1 - self._right, is_complete)
        probabilities = self._add(scores) if is_complete else None
        self._rows.append(row)
        if len(self._rows) > self._n_before + self._right:
            self._rows.popleft()
        self.n_pushed += 1
        return probabilities

    def finish(self) -> list[np.ndarray]:
        """End the sequence, and return the probabilities of its last positions.

        The stream then starts a new sequence.

        Returns
        -------
        list of float64 arrays of shape (n_classes,)
            Probabilities of the labels of the remaining positions, at most the last ``delay``,
            given the whole sequence.

        Raises
        ------
        ValueError
            If ``transitions`` do not allow any label sequence. The stream then remains unchanged.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> stream = crf.stream(lag=2)
        >>> [stream.push(symbol) for symbol in "na"]
        [None, None]
        >>> [probabilities.round(2).tolist() for probabilities in stream.finish()]
        [[0.94, 0.06], [0.17, 0.83]]
        """
        scores = list(self._scores)
        # The last positions, whose windows extend beyond the end of the sequence.
        n_not_scored = self.n_pushed - self._n_scored
        if n_not_scored:
            table = self._last_scores(list(self._rows), n_not_scored)
            scores += [table[:, i] for i in range(n_not_scored)]
        probabilities = self._last(scores) if scores else []
        self.reset()
        return probabilities

    # Reading

    def _scores_at(self, rows: list, index: int, is_complete: bool) -> np.ndarray | None:
        """Check the latest rows; return the scores of one position, if its window is complete."""
        short_model = self._predictor.short_model
        if short_model is not None:
            first, last = (index, index + 1) if is_complete else (0, 0)
            scores = short_model.scores_at(_as_sequence(rows), first, last)
            if scores is not None:
                return scores[:, 0] if is_complete else None
        sequences = self._read(rows)
        if not is_complete:
            return None
        return self._chain.scores_at(sequences, index, self._threads)

    def _last_scores(self, rows: list, n: int) -> np.ndarray:
        """Return the scores of the last n positions, (n_labels, n, n_contexts)."""
        short_model = self._predictor.short_model
        if short_model is not None:
            scores = short_model.scores_at(_as_sequence(rows), len(rows) - n, len(rows))
            if scores is not None:
                return scores
        return self._chain.scores(self._read(rows), self._threads)[:, -n:]

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
        tables = [*self._tables, table]
        probabilities = None
        is_decided = len(tables) > self.lag
        if is_decided:
            message = self._next_message(self._message, tables[0])
            if self.lag:
                first = self._n_scored - len(self._tables)
                probabilities = self._smoothed(tables, first)[0]
            else:
                probabilities = _filtered(message, table)
        # Nothing changes before here, where no error is raised any more.
        self._scores.append(scores)
        self._tables.append(table)
        self._n_scored += 1
        if is_decided:
            self._scores.popleft()
            self._tables.popleft()
            self._message = message
        return probabilities

    def _last(self, scores: list[np.ndarray]) -> list[np.ndarray]:
        """Compute the probabilities of the last positions of the sequence."""
        first = self.n_pushed - len(scores)
        reaching_end = [None] * len(scores)
        if self._transitions is not None:
            reaching_end = list(self._transitions.reaching_end(len(scores)))
        tables = [
            self._constrained(position_scores, first + i, reaching_end[i])
            for i, position_scores in enumerate(scores)
        ]
        return list(self._smoothed(tables, first))

    def _constrained(
        self, scores: np.ndarray, t: int, reaching_end: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the scores of position t with -inf for labels that may not follow others.

        ``reaching_end`` masks the labels from which the end of the sequence can be reached.
        """
        scores = np.array(scores, order="C")[:, np.newaxis]
        if self._transitions is not None:
            n_contexts = scores.shape[2]
            if t:
                previous = np.arange(n_contexts) % self._n_labels
            else:
                previous = np.full(n_contexts, self._n_labels)  # none
            scores[:, 0][~self._transitions.follows[previous].T] = -np.inf
            if reaching_end is not None:
                scores[~reaching_end] = -np.inf
        return self._chain.normalized(scores, self._threads)[:, 0]

    def _next_message(self, message: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the log-weights of the contexts after a position; the largest is 0."""
        n = len(message)
        n_labels = self._n_labels
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
        lattice = Lattice(scores, offsets, self._order, self._threads)
        probabilities = lattice.marginals()[depth:]
        if not probabilities.any(axis=1).all():
            raise ValueError(f"position {self.n_pushed}: no label sequence is allowed")
        return probabilities


def _filtered(message: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of the latest label, given the message after it."""
    if len(message) == 1:
        p = np.exp(scores[:, 0] - scores[:, 0].max())
    else:
        p = np.exp(message).reshape(-1, len(scores)).sum(axis=0)
    return p / p.sum()


def copied_row(row: Any) -> Any:
    """Copy a row, because the caller may use the same object for the next position."""
    if sparse.issparse(row):
        return row.toarray().ravel()
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
