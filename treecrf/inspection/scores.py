"""Average scores on data: transition scores, and likelihoods by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.chains.lattice import Lattice, runs_of_tables
from treecrf.chains.objectives import CUSTOM, ChainLabels, make_objective
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import CheckedData, FittedTrees, check_model
from treecrf.learners.classifier import SequenceClassifier
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike

# Size of the scores held in memory at a time.
MAX_BYTES = 1 << 26


def transition_scores(
    model: Any, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
) -> Bunch:
    """Compute the mean score of each label after each previous label over the positions of X.

    Scores are the inputs of inference: sums of trees in a conditional random field, joint
    log-probabilities of label and symbol in a hidden Markov model, and log-probabilities of labels
    in all other models. They depend on the input; this function averages them.

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

        - scores : float array with ``order + 1`` axes of length n_classes. Entry ``[u, v]`` is for
          label v after u; with order 2, ``[w, u, v]`` is for v after u after w, and so on; with
          order 0, ``[v]``. The mean is over the positions with at least ``order`` preceding labels
          at which v is allowed; minus infinity if there are none;
        - start : float array (n_classes,), the mean at first positions, which have no previous
          label; NaN with order 0;
        - backward : bool, whether the model processes sequences from right to left; "after" then
          means "to the left of", and first positions are the last ones;
        - labels : array (n_classes,).

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If X does not match the training data, no sequence is longer than the order, or a model with
        a beam has too many contexts to score them all.

    Notes
    -----
    The distribution of a conditional random field does not change if a constant is added to all
    scores after label u and subtracted from all scores of u at the previous position.
    ``scores - scores.mean(0) - scores.mean(1)[:, None] + scores.mean()`` removes such constants and
    shows which labels attract each other.

    Examples
    --------
    >>> from treecrf import HMMClassifier
    >>> from treecrf.inspection import transition_scores
    >>> found = transition_scores(HMMClassifier().fit(["aab", "bbb"], ["xxy", "yyy"]), ["ab"])
    >>> found.scores.shape, found.start.shape
    ((2, 2), (2,))
    """
    check_model(model)
    sequences = CheckedData.of(model, X, None, lengths, groups).chain_sequences()
    chain = model._predictor().chain
    n_labels, order = len(model.classes_), chain.order
    total, start = _Mean((n_labels, n_labels**order)), _Mean((n_labels, 1))
    for lattice in lattices_of(model, sequences):
        indices = positions_in_sequences(lattice.offsets)
        total.add(lattice.scores[:, indices >= order])
        if order:
            start.add(lattice.scores[:, indices == 0, :1])
    if not total.n_positions:
        raise ValueError(
            f"no sequence of X has more than {order} positions, the number of previous labels that "
            "the model uses"
        )
    return Bunch(
        # The label of lag 1 is the lowest digit of a context, hence the last axis before the label.
        scores=total.value().T.reshape((n_labels,) * (order + 1)),
        start=start.value()[:, 0] if order else np.full(n_labels, np.nan),
        backward=chain.is_backward,
        labels=model.classes_,
    )


class _Mean:
    """Running mean of the finite scores (n_labels, n_contexts) over positions."""

    def __init__(self, shape: tuple[int, int]):
        self.total, self.counts, self.n_positions = np.zeros(shape), np.zeros(shape), 0

    def add(self, scores: np.ndarray) -> None:
        """Add scores at further positions, the middle axis."""
        possible = np.isfinite(scores)
        self.total += np.where(possible, scores, 0.0).sum(axis=1)
        self.counts += possible.sum(axis=1)
        self.n_positions += scores.shape[1]

    def value(self) -> np.ndarray:
        """Return the mean, minus infinity if there are no finite scores."""
        return np.where(self.counts > 0, self.total / np.maximum(self.counts, 1), -np.inf)


def lattices_of(model: SequenceClassifier, sequences: Sequences) -> Iterator[Lattice]:
    """Yield lattices of all contexts of runs of sequences, in the direction of the chain."""
    chain = model._predictor().chain
    shape = len(model.classes_), chain.order
    with Threads(model.n_jobs) as threads:
        for first, last in runs_of_tables(sequences.offsets, *shape, MAX_BYTES):
            part = sequences.take(np.arange(first, last))
            scores = chain.scores(part, threads)
            constraints = chain.constraints(part.offsets)
            yield chain.constrained(scores, part.offsets, constraints, threads)


def likelihood_curve(
    model: Any,
    X: SequencesLike | None = None,
    y: LabelsLike | None = None,
    *,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Bunch:
    """Return the mean log-likelihood per position, or another objective, by iteration.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    X, y : sequences and their labels, optional
        Further data to score after each iteration.
    lengths, groups : optional
        As in the model's ``score``.

    Returns
    -------
    Bunch
        With these attributes:

        - objective : str, the objective of training, ``"log"`` for models without a choice, and
          ``"custom"`` for a function;
        - iterations : int array (n_iter + 1,), starting from 0, before the first iteration;
        - train : float array (n_iter + 1,), ``train_score_``;
        - validation : float array (n_iter + 1,), ``validation_score_``, or None without validation
          data;
        - given : float array (n_iter + 1,), the objective for X and y, or None without them; the
          first entry belongs to the linear start, or to scores of 0.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, X does not match the training data, or y does not match X.

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
        passed, missing = ("y", "X") if X is None else ("X", "y")
        raise ValueError(f"{passed} is given without {missing}; pass both or neither")
    validation, further = model.validation_score_, None
    if X is not None:
        further = _objective_on(CheckedData.of(model, X, y, lengths, groups))
    return Bunch(
        objective=model._trained_objective,
        iterations=np.arange(model.n_iter_ + 1),
        train=model.train_score_,
        validation=validation if len(validation) else None,
        given=further,
    )


def _objective_on(data: CheckedData) -> np.ndarray:
    """Compute the objective per position before and after each iteration."""
    model, sequences, codes = data.model, data.chain_sequences(), data.chain_codes()
    chain = model._predictor().chain
    objective, values = model._trained_objective, []
    if objective == CUSTOM:
        objective = model.objective
        if not callable(objective):
            raise ValueError(
                "the objective of the model is a function, which its file does not contain; set "
                "the parameter objective"
            )
    with Threads(model.n_jobs) as threads:
        constraints, ends = chain.constraints(sequences.offsets), range(model.n_iter_ + 1)
        for lattice in chain.staged_lattices(sequences, constraints, threads, ends):
            if objective == "log":
                values.append(lattice.log_likelihoods(codes).sum() / len(codes))
                continue
            free = chain.constraints(lattice.offsets)  # the scores are already constrained
            labels = ChainLabels(lattice.offsets, codes, lattice.n_labels, lattice.order, free)
            values.append(make_objective(objective, labels, threads).value(lattice.scores))
    return np.array(values)
