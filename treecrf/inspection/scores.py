"""Scores by previous label, strongest weights of linear models, and likelihoods by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.chains.factored.factored_scores import SCORE_UNIT, FactoredScores
from treecrf.chains.lattice import Lattice, runs_of_tables
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import CUSTOM, make_objective
from treecrf.encoding.names import name_of_label_test
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import CheckedData, FittedTrees, check_model, code_of, has_trees
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.contributions import model_with_weights
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive


@dataclass(frozen=True)
class Weight:
    """A weight of a linear model, from `strongest_weights`.

    ``str(weight)`` describes the weight in one line.

    Attributes
    ----------
    label : str, int or bool
        The label whose score changes.
    value : float
        The weight. Multiplied by the value of the attribute, it is added to the score of the label.
    condition : str
        When the weight applies: the label before, the attribute, or both.
    attribute : str or None
        Name of the attribute, as in ``get_attribute_names()`` of the model. None for weights of
        labels after labels.
    labels_before : tuple of length 1
        A tuple of the label before, as in `Rule`. It is ``((None,),)`` for the start of a sequence,
        and ``(None,)`` for any label.

    See Also
    --------
    strongest_weights : Find the strongest weights of a model.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import strongest_weights
    >>> crf = LinearCRF().fit(["banana", "panama", "cabana"], ["cvcvcv"] * 3)
    >>> weight = strongest_weights(crf, label="v")[0]
    >>> round(weight.value, 3), weight.condition, weight.labels_before
    (0.779, "label[-1] is 'c'", (('c',),))
    """

    label: Any
    value: float
    condition: str
    attribute: str | None
    labels_before: tuple[tuple | None]

    def __str__(self) -> str:
        return f"{self.value:+.3f} for {self.label!r}: {self.condition}"


def strongest_weights(model: Any, n_weights: int = 20, *, label: Any = None) -> list[Weight]:
    r"""Return the weights of a linear model with the largest absolute values.

    Parameters
    ----------
    model : fitted classifier
        A linear model: `treecrf.LinearCRF`, `treecrf.StructuredPerceptron`, `treecrf.StructuredSVM`
        with the linear kernel, or `treecrf.SequenceBoostingClassifier`. For trees with a linear
        start, pass ``model.init_``.
    n_weights : int, default=20
        Maximum number of weights.
    label : str, int or bool, default=None
        Label of the weights. By default, weights of all labels are returned.

    Returns
    -------
    list of Weight
        Weights other than 0, by decreasing absolute value. They are weights of attributes, of
        labels after labels, and of labels at first positions.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not linear, or has no weights.
    ValueError
        If the model has no such label, or ``n_weights`` is not a positive integer.

    See Also
    --------
    strongest_rules : The same for boosted trees.
    transition_weights : All weights of labels after labels, as arrays.
    treecrf.plotting.plot_weights : Draw weights as bars.

    Notes
    -----
    Weights of numbers refer to standardized values and can be compared with each other. With
    ``standardize=False``, they depend on the units of the numbers.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import strongest_weights
    >>> crf = LinearCRF().fit(["banana", "panama", "cabana"], ["cvcvcv"] * 3)
    >>> print(*strongest_weights(crf, 2, label="v"), sep="\n")
    +0.779 for 'v': label[-1] is 'c'
    -0.633 for 'v': label[-1] is 'v'
    """
    check_model(model)
    if not isinstance(model, LinearSequenceClassifier):
        if getattr(model, "init_", None) is not None:
            advice = "Its trees are added to a linear model: pass model.init_"
        else:
            advice = "strongest_rules supports boosted trees"
        raise TypeError(
            f"{type(model).__name__} is not a linear model; expected a model such as LinearCRF. "
            f"{advice}"
        )
    model_with_weights(model)
    check_positive("n_weights", n_weights)
    # Weights of attributes, of attributes after labels, and of labels after labels. The last axis
    # is that of the labels.
    transitions = np.vstack([model.transition_weights_, model.start_weights_])
    blocks = [model.state_weights_, model.transition_feature_weights_, transitions]
    codes = np.arange(len(model.classes_))
    if label is not None:
        codes = codes[[code_of(model.classes_, label)]]
        blocks = [block[..., codes] if block.size else block for block in blocks]
    names = model.get_attribute_names()
    values = np.concatenate([block.ravel() for block in blocks])
    strongest = np.argsort(-np.abs(values), kind="stable")[:n_weights]
    ends = np.cumsum([block.size for block in blocks])
    weights = []
    for i in strongest[values[strongest] != 0]:
        k = int(np.searchsorted(ends, i, side="right"))
        *index, v = np.unravel_index(i - ends[k] + blocks[k].size, blocks[k].shape)
        attribute = names[index[0]] if k < 2 else None
        previous = int(index[-1]) if k > 0 else None
        weights.append(_weight(model.classes_, codes[v], float(values[i]), attribute, previous))
    return weights


def _weight(
    classes: np.ndarray, code: int, value: float, attribute: str | None, previous: int | None
) -> Weight:
    """Describe a weight of a label, given an attribute and the code of a label before, if any.

    The code after the last label stands for the start of a sequence.
    """
    conditions = []
    label_before = None
    if previous is not None:
        is_start = previous == len(classes)
        label_before = (None if is_start else classes[previous].item(),)
        conditions.append(name_of_label_test(classes, 1, previous))
    if attribute is not None:
        conditions.append(attribute)
    condition = " and ".join(conditions)
    return Weight(classes[code].item(), value, condition, attribute, (label_before,))


def transition_weights(model: Any) -> Bunch:
    """Return the weights of labels after labels, which do not depend on the input.

    Parameters
    ----------
    model : fitted classifier
        A linear model without transition features, or a `treecrf.TreeCRF` with constant transitions
        (``constant_transitions_`` is True).

    Returns
    -------
    Bunch
        An object with the attributes of the result of `transition_scores`:

        - ``scores`` : float64 array with ``order + 1`` axes of length n_classes. Entry ``[u, v]``
          is the weight of label v after label u. With order 2, ``[w, u, v]`` is that of v after u
          after w. It is minus infinity for labels that the parameter ``transitions`` forbids.
        - ``start`` : float64 array of shape (n_classes,). Weights of labels at first positions.
        - ``backward`` : bool. Always False: the models run from left to right.
        - ``labels`` : array of shape (n_classes,). The labels, sorted.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the transitions of the model depend on the input.

    See Also
    --------
    transition_scores : Mean scores of labels after labels, for any model.
    strongest_weights : The strongest weights of a linear model, including those of attributes.
    treecrf.plotting.plot_transition_scores : Draw the result.

    Examples
    --------
    The label *y* never precedes *x*:

    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import transition_weights
    >>> crf = LinearCRF().fit(["aabb", "ab"] * 5, ["xxyy", "xy"] * 5)
    >>> found = transition_weights(crf)
    >>> found.labels.tolist()
    ['x', 'y']
    >>> x_to_y, y_to_x = found.scores[0, 1], found.scores[1, 0]
    >>> round(float(x_to_y), 1), round(float(y_to_x), 1)
    (0.4, -0.4)
    """
    check_model(model)
    tables = _transition_tables(model)
    order = len(tables) - 1
    n_labels = len(model.classes_)
    # A sequence whose last position has all previous labels.
    scores = np.ascontiguousarray(tables.swapaxes(0, 1))
    offsets = np.array([0, order + 1])
    fitted_model(model).chain.constraints(offsets).forbid(scores, offsets)
    return Bunch(
        scores=scores[:, -1].T.reshape((n_labels,) * (order + 1)),
        start=scores[:, 0, 0].copy(),
        backward=False,
        labels=model.classes_,
    )


def has_transition_weights(model: SequenceClassifier) -> bool:
    """Return whether the transitions of a fitted model do not depend on the input."""
    if isinstance(model, LinearSequenceClassifier):
        return not model.transition_feature_weights_.size
    return has_trees(model) and fitted_model(model).chain.forest.transitions is not None


def _transition_tables(model: SequenceClassifier) -> np.ndarray:
    """Return the scores by the number of labels before, label and context."""
    if not has_transition_weights(model):
        raise TypeError(
            f"the transitions of the {type(model).__name__} depend on the input; expected a linear "
            "model without transition features, or constant_transitions=True. transition_scores "
            "supports all models"
        )
    n_labels = len(model.classes_)
    if isinstance(model, LinearSequenceClassifier):
        tables = np.zeros((2, n_labels, n_labels))
        tables[0, :, 0] = model.start_weights_
        tables[1] = model.transition_weights_.T
        return tables
    chain = fitted_model(model).chain
    forest = chain.forest
    scores = FactoredScores(n_labels, forest.order, np.array([0, forest.order + 1]))
    if chain.start is not None:
        no_state = np.zeros((n_labels, forest.order + 1))
        scores.start_from(no_state, chain.start.weights.transitions)
    scores.add(forest.sum_of_transitions((0, forest.n_iter)))
    return scores.transitions * SCORE_UNIT


# Size of the scores held in memory at a time.
MAX_BYTES = 1 << 26


def transition_scores(
    model: Any, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
) -> Bunch:
    """Compute the mean score of each label after each previous label.

    The scores are those from which the model computes probabilities: sums of trees in a conditional
    random field, joint log-probabilities of label and symbol in a hidden Markov model, and
    log-probabilities of labels in local models. They depend on the input, so this function averages
    them over the positions of X.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``scores`` : float64 array with ``order + 1`` axes of length n_classes. Entry ``[u, v]``
          is the mean score of label v after label u. With order 2, ``[w, u, v]`` is that of v after
          u after w, and so on; with order 0, ``[v]`` is that of v. The mean is over the positions
          that have at least ``order`` preceding labels and at which v is allowed. It is minus
          infinity if there are none.
        - ``start`` : float64 array of shape (n_classes,). The mean score at first positions, which
          have no previous label. NaN with order 0.
        - ``backward`` : bool. Whether the model runs from right to left. "After" then means "to the
          left of", and first positions are the last ones.
        - ``labels`` : array of shape (n_classes,). The labels, sorted.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If X does not match the training data, no sequence is longer than the order, or a model with
        a beam has too many contexts to score them all.

    See Also
    --------
    transition_weights : The scores of models in which they do not depend on the input.
    sequence_scores : All scores of each sequence.
    treecrf.plotting.plot_transition_scores : Draw the result.

    Notes
    -----
    The scores of a conditional random field are not unique. Its probabilities do not change if a
    constant is added to all scores after label u and subtracted from all scores of u at the
    previous position. ``scores - scores.mean(0) - scores.mean(1)[:, None] + scores.mean()`` removes
    such constants, and shows which labels attract each other.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import transition_scores
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> found = transition_scores(crf, X)
    >>> found.labels.tolist(), found.scores.round(1).tolist()
    (['c', 'v'], [[-0.7, 0.6], [0.1, -0.7]])
    """
    check_model(model)
    sequences = CheckedData.of(model, X, None, lengths, groups).chain_sequences()
    chain = fitted_model(model).chain
    n_labels = len(model.classes_)
    order = chain.order
    total = _Mean((n_labels, n_labels**order))
    start = _Mean((n_labels, 1))
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


def mean_over_further_labels(scores: np.ndarray) -> np.ndarray:
    """Return scores of labels after the nearest label, averaged over the possible labels before."""
    while scores.ndim > 2:
        scores = np.ma.masked_invalid(scores).mean(axis=0).filled(-np.inf)
    return scores


class _Mean:
    """Running mean of the finite scores (n_labels, n_contexts) over positions."""

    def __init__(self, shape: tuple[int, int]):
        self.total = np.zeros(shape)
        self.counts = np.zeros(shape)
        self.n_positions = 0

    def add(self, scores: np.ndarray) -> None:
        """Add scores at further positions, the middle axis."""
        is_possible = np.isfinite(scores)
        self.total += np.where(is_possible, scores, 0.0).sum(axis=1)
        self.counts += is_possible.sum(axis=1)
        self.n_positions += scores.shape[1]

    def value(self) -> np.ndarray:
        """Return the mean, minus infinity if there are no finite scores."""
        return np.where(self.counts > 0, self.total / np.maximum(self.counts, 1), -np.inf)


def lattices_of(model: SequenceClassifier, sequences: Sequences) -> Iterator[Lattice]:
    """Yield lattices of all contexts of runs of sequences, in the direction of the chain."""
    chain = fitted_model(model).chain
    n_labels = len(model.classes_)
    with Threads(model.n_jobs) as threads:
        for first, last in runs_of_tables(sequences.offsets, n_labels, chain.order, MAX_BYTES):
            run = sequences.take(np.arange(first, last))
            scores = chain.scores(run, threads)
            constraints = chain.constraints(run.offsets)
            yield chain.constrained(scores, run.offsets, constraints, threads)


def likelihood_curve(
    model: Any,
    X: SequencesLike | None = None,
    y: LabelsLike | None = None,
    *,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Bunch:
    """Return the mean log-likelihood per position, or another objective, after each iteration.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    X : list of sequences, or one long table, default=None
        Further data to score after each iteration.
    y : list of array-like of shape (n_positions,), array-like or str, default=None
        True labels of X. X and y are given together, or not at all.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``objective`` : str. The objective of training: ``"log"`` for models without a choice, and
          ``"custom"`` for a function.
        - ``iterations`` : int64 array of shape (n_iter + 1,). Numbers of iterations, from 0 before
          the first one.
        - ``train`` : float64 array of shape (n_iter + 1,). The objective on the training data,
          ``train_score_``.
        - ``validation`` : float64 array of shape (n_iter + 1,) or None. The score of the validation
          data, ``validation_score_``. None without such data.
        - ``given`` : float64 array of shape (n_iter + 1,) or None. The objective per position for X
          and y. None without them.

        Logarithms are natural, so log-likelihoods are in nats. The first entry of each array is
        that of the linear start, or of scores of 0.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the model has no trees, only one of X and y is given, X does not match the training data,
        or y does not match X.

    See Also
    --------
    treecrf.plotting.plot_likelihood : Draw the result.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import likelihood_curve
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(X[:2], y[:2])
    >>> curve = likelihood_curve(crf, X[2:], y[2:])
    >>> curve.iterations.tolist(), curve.validation
    ([0, 1, 2, 3, 4, 5], None)
    >>> curve.given.round(2).tolist()
    [-0.69, -0.36, -0.21, -0.14, -0.09, -0.07]
    """
    FittedTrees.of(model)
    if (X is None) != (y is None):
        passed, missing = ("y", "X") if X is None else ("X", "y")
        raise ValueError(f"{passed} is given without {missing}; pass both or neither")
    values = None
    if X is not None:
        values = _objective_on(CheckedData.of(model, X, y, lengths, groups))
    validation = model.validation_score_
    return Bunch(
        objective=fitted_model(model).objective,
        iterations=np.arange(model.n_iter_ + 1),
        train=model.train_score_,
        validation=validation if len(validation) else None,
        given=values,
    )


def _objective_on(data: CheckedData) -> np.ndarray:
    """Compute the objective per position before and after each iteration."""
    model = data.model
    sequences = data.chain_sequences()
    codes = data.chain_codes()
    chain = fitted_model(model).chain
    objective = fitted_model(model).objective
    if objective == CUSTOM:
        objective = model.objective
        if not callable(objective):
            raise ValueError(
                "the objective of the model is a function, which its file does not contain; set "
                "the parameter objective"
            )
    values = []
    with Threads(model.n_jobs) as threads:
        constraints = chain.constraints(sequences.offsets)
        ends = range(model.n_iter_ + 1)
        for lattice in chain.staged_lattices(sequences, constraints, threads, ends):
            if objective == "log":
                values.append(lattice.log_likelihoods(codes).sum() / len(codes))
                continue
            free = chain.constraints(lattice.offsets)  # the scores are already constrained
            labels = ChainLabels(lattice.offsets, codes, lattice.n_labels, lattice.order, free)
            values.append(make_objective(objective, labels, threads).value(lattice.scores))
    return np.array(values)
