"""What a model says of data on average: scores of label after label, likelihoods by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.chains.lattice import Lattice
from treecrf.chains.objectives import make_objective
from treecrf.inputs.labels import RawData, encode_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences, places_in_sequences, reversed_places, runs
from treecrf.inspection.grown import FittedTrees, check_model
from treecrf.learners.classifier import SequenceClassifier
from treecrf.utils.threads import Threads

# Scores of so many bytes are held at a time.
MAX_BYTES = 1 << 26


def transition_scores(model: Any, X: Any, *, lengths: Any = None, groups: Any = None) -> Bunch:
    """Mean score of each label after each previous label, over the positions of some data.

    Scores are what inference works with: of a conditional random field the sums of its trees, of a
    hidden Markov model log-probabilities of a label and its symbol, of all others those of a label.
    They depend on the input, and this is their mean.

    Parameters
    ----------
    model : fitted classifier
    X : list of sequences, or one long table of all
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    Bunch
        With these attributes:

        - scores : float array with ``order + 1`` axes of n_classes. Entry ``[u, v]`` is for label v
          after u; with order 2 ``[w, u, v]`` for v after u after w, and so on; with order 0
          ``[v]``. The mean is over the positions that have so many labels before them and where v
          is possible; minus infinity where it never is;
        - start : float array (n_classes,), the mean at first positions, where there is no label
          before; NaN with order 0, which knows no first positions;
        - backward : bool, whether the model goes through sequences from their end: then "after"
          is "to the left of", and first positions are the last;
        - labels : array (n_classes,).

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If X is not like the training data, no sequence is longer than the order, or the contexts
        of a model with a beam are too many to score them all.

    Notes
    -----
    A conditional random field says the same if a number is added to all scores after label u, and
    taken from all scores of u at the position before. ``scores - scores.mean(0) -
    scores.mean(1)[:, None] + scores.mean()`` is free of such numbers: it tells which labels attract
    each other.

    Examples
    --------
    >>> from treecrf import HMMClassifier
    >>> from treecrf.inspection import transition_scores
    >>> found = transition_scores(HMMClassifier().fit(["aab", "bbb"], ["xxy", "yyy"]), ["ab"])
    >>> found.scores.shape, found.start.shape
    ((2, 2), (2,))
    """
    check_model(model)
    sequences, _ = model._read(X, cut=Segmentation(lengths, groups))
    n_labels, order = len(model.classes_), model._trained_order
    total, start = _Mean((n_labels, n_labels**order)), _Mean((n_labels, 1))
    for offsets, scores in _scores_of_parts(model, sequences):
        places = places_in_sequences(offsets)
        total.add(scores[:, places >= order])
        if order:
            start.add(scores[:, places == 0, :1])
    if not total.n_positions:
        raise ValueError(
            f"no sequence of X has more than {order} positions: the model looks at {order} labels "
            "before a position"
        )
    return Bunch(
        # The label of lag 1 is the lowest digit of a context, thus the last axis before the label.
        scores=total.value().T.reshape((n_labels,) * (order + 1)),
        start=start.value()[:, 0] if order else np.full(n_labels, np.nan),
        backward=model._trained_backward,
        labels=model.classes_,
    )


class _Mean:
    """The mean over positions of what is finite.

    Parameters
    ----------
    shape : (int, int)
        Labels and contexts.
    """

    def __init__(self, shape: tuple[int, int]):
        self.total, self.counts, self.n_positions = np.zeros(shape), np.zeros(shape), 0

    def add(self, scores: np.ndarray) -> None:
        """Add positions, the middle axis."""
        possible = np.isfinite(scores)
        self.total += np.where(possible, scores, 0.0).sum(axis=1)
        self.counts += possible.sum(axis=1)
        self.n_positions += scores.shape[1]

    def value(self) -> np.ndarray:
        """The mean, minus infinity of nothing."""
        return np.where(self.counts > 0, self.total / np.maximum(self.counts, 1), -np.inf)


def _scores_of_parts(
    model: SequenceClassifier, sequences: Sequences
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Offsets and scores of some sequences at a time, in the direction of the chain."""
    row_bytes = 8 * len(model.classes_) ** (model._trained_order + 1)
    with Threads(model.n_jobs) as threads:
        for first, last in runs(sequences.offsets, max(1, MAX_BYTES // row_bytes)):
            part = sequences.take(np.arange(first, last))
            scores = model._scores_of(part, threads)
            constraints = model._constraints(part.offsets)
            yield (
                part.offsets,
                model._constrained(scores, part.offsets, constraints, threads).scores,
            )


def likelihood_curve(
    model: Any, X: Any = None, y: Any = None, *, lengths: Any = None, groups: Any = None
) -> Bunch:
    """Mean log-likelihood of a position after each iteration, or what else was maximized.

    Parameters
    ----------
    model : fitted classifier
        With boosted trees.
    X, y : sequences and their labels, optional
        Further data to follow. They are scored iteration by iteration.
    lengths, groups : optional
        As in the model's ``score``.

    Returns
    -------
    Bunch
        With these attributes:

        - objective : str, the parameter, ``"log"`` where there is none;
        - iterations : int array (n_iter + 1,), from 0, before the first;
        - train : float array (n_iter + 1,), ``train_score_``;
        - validation : float array (n_iter + 1,), ``validation_score_``, or None if there was no
          validation data;
        - given : float array (n_iter + 1,), the same of the further data, or None; the first entry
          is NaN, as nothing is known yet.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the model has no trees, X is not like the training data, or y does not fit X.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import likelihood_curve
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X[:2], y[:2])
    >>> curve = likelihood_curve(crf, X[2:], y[2:])
    >>> curve.iterations.tolist(), curve.validation
    ([0, 1, 2, 3, 4, 5], None)
    >>> bool(curve.given[5] > curve.given[1])
    True
    """
    FittedTrees.of(model)
    if (X is None) != (y is None):
        there, missing = ("y", "X") if X is None else ("X", "y")
        raise ValueError(f"{there} is given without {missing}")
    validation = model.validation_score_
    return Bunch(
        objective=model._trained_objective,
        iterations=np.arange(model.n_iter_ + 1),
        train=model.train_score_,
        validation=validation if len(validation) else None,
        given=None
        if X is None
        else _objective_on(model, RawData(X, y, Segmentation(lengths, groups))),
    )


def _objective_on(model: SequenceClassifier, data: RawData) -> np.ndarray:
    sequences, labels = model._read_labeled(data)
    codes = encode_labels(labels, model.classes_)
    if model._trained_backward:
        sequences, codes = sequences.reversed(), codes[reversed_places(sequences.offsets)]
    with Threads(model.n_jobs) as threads:
        stages = model._staged_lattices(sequences, threads)
        values = [_value(model, lattice, codes) for lattice in stages]
    return np.append(np.nan, values)


def _value(model: SequenceClassifier, lattice: Lattice, codes: np.ndarray) -> float:
    """What training has maximized, for a position."""
    objective = model._trained_objective
    if objective == "log":
        return float(lattice.log_likelihoods(codes).sum() / len(codes))
    free = model._constraints(lattice.offsets)  # the scores are constrained already
    arguments = codes, lattice.n_labels, lattice.order, free, lattice.threads
    return make_objective(objective, lattice.offsets, *arguments).value(lattice.scores)
