"""Importance of features: gains of splits, and drops of a score when values are shuffled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.encoding.column_layout import BOUNDARY
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import feature_names
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import as_list
from treecrf.inspection.fitted import (
    CheckedData,
    FittedTrees,
    ReplacedSequences,
    check_model,
    column_values,
    feature_index,
    has_trees,
    warn_of_linear_start,
)
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.reading import draw_seed
from treecrf.metrics import get_scorer
from treecrf.trees.forest import LABEL
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive


def gain_importance(model: Any, *, per_label: bool = False) -> Bunch:
    """Compute the importance of features by gain, at each offset of the window.

    The gain of a split is the amount by which it reduces the squared error of the trees' targets in
    training. The importance of a feature is the sum of the gains of the splits that test it, as a
    fraction of the total gain of all features. Sums over the offsets are ``feature_importances_``.

    Tests of previous labels and of the ends of sequences have gains, too. They are in the same
    unit, but not part of the total. If the trees test nothing else, all values are fractions of the
    gain of these tests.

    Only trees have gains. If the trees are added to a linear model (``init_`` of
    `treecrf.TreeCRF`), its weights are not included, however important they are, and a warning says
    so.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    per_label : bool, default=False
        Whether to return separate values for the trees of each label.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``importances`` : float64 array of shape (n_features, n_offsets). Importance of each
          feature at each offset. Its sum over the offsets, plus ``in_bags``, is
          ``feature_importances_``.
        - ``offsets`` : int64 array of shape (n_offsets,). Offsets from the labeled position, which
          is 0. Positive offsets are to its right.
        - ``in_bags`` : float64 array of shape (n_features,). Importance through the discovered
          features of a `treecrf.FutureFeatureMEMM`, which may occur anywhere in their bags. It is 0
          for other models.
        - ``outside`` : float64 array of shape (n_offsets,). Importance of tests of whether an
          offset is outside the sequence.
        - ``labels_before`` : float64 array of shape (order,). Importance of tests of the previous
          labels, the nearest first.
        - ``feature_names`` : str array of shape (n_features,).
        - ``labels`` : array of shape (n_classes,). The labels, sorted.
        - ``n_iter`` : int. Number of boosting iterations.
        - ``linear_start`` : bool. Whether the trees are added to a linear model.
        - ``backward`` : bool. Whether the model runs from right to left, so that the previous
          labels are those to the right.

        With ``per_label=True``, the float arrays have an additional first axis for the labels. Sums
        over this axis are the values without it.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has no trees.
    ValueError
        If ``per_label=True``, and each tree scores all labels (``multi_strategy_`` is
        ``"multi_output_tree"``), so that its splits have one gain for all of them.

    See Also
    --------
    permutation_importance : Importance for any model, measured on any data.
    strongest_weights : Weights of linear models, such as a linear start.
    treecrf.plotting.plot_importances : Draw the importances as bars.
    treecrf.plotting.plot_importance_map : Draw them by feature and offset.

    Notes
    -----
    Gains are measured on the training data. A feature with many values always has some that fit by
    chance, so its gain is too high. To measure which features help on new data, use
    `permutation_importance`.

    Examples
    --------
    The label depends on the feature with index 1:

    >>> import numpy as np
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import gain_importance
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.random((20, 2)) for _ in range(30)]
    >>> y = [(table[:, 1] > 0.5).astype(int) for table in X]
    >>> crf = TreeCRF(window=1, max_iter=5, init="zero", early_stopping=False)
    >>> crf = crf.fit(X, y)
    >>> found = gain_importance(crf)
    >>> found.offsets
    array([-1,  0,  1])
    >>> found.importances.round(2)
    array([[0., 0., 0.],
           [0., 1., 0.]])
    """
    grown = FittedTrees.of(model)
    if per_label and grown.forest.is_multi_output:
        raise ValueError(
            "per_label=True for a model of multi-output trees, whose splits have one gain for all "
            "labels; expected per_label=False, or a model with "
            "multi_strategy='one_output_per_tree'"
        )
    warn_of_linear_start(model, "gains describe the trees")
    tables = _gains(grown, len(grown.classes) if per_label else 1)
    if not per_label:
        tables = {name: table[0] for name, table in tables.items()}
    return Bunch(
        **tables,
        offsets=grown.offsets,
        feature_names=feature_names(grown.encoder.schema),
        labels=grown.classes,
        n_iter=grown.forest.n_iter,
        linear_start=fitted_model(model).chain.start is not None,
        backward=grown.backward,
    )


def _gains(grown: FittedTrees, n_groups: int) -> dict[str, np.ndarray]:
    """Return the tables of `gain_importance`; the first axis is for labels, or one group of all."""
    encoder = grown.encoder
    gains, outside, before = _sums(grown, n_groups)
    # The gains of discovered features go to the features that identify their instances.
    own = gains.copy()
    own[:, encoder.n_own_columns :] = 0.0
    derived = gains.sum(axis=2)
    derived[:, : encoder.n_own_columns] = 0.0
    by_offset = [_by_feature(encoder, own[:, :, j]) for j in range(gains.shape[2])]
    # The importances of features sum to 1, unless only sequence ends and labels have gains.
    scale = gains.sum()
    smallest = np.finfo(float).tiny
    if scale <= smallest:
        scale = outside.sum() + before.sum() + smallest
    return {
        "importances": np.stack(by_offset, axis=2) / scale,
        "in_bags": _by_feature(encoder, derived) / scale,
        "outside": outside / scale,
        "labels_before": before[:, : grown.forest.order] / scale,
    }


def _sums(grown: FittedTrees, n_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum gains by column and offset, of sequence ends by offset, and of previous labels by lag.

    Offsets are in the direction of the input. The first axis is for labels, or one group of all.
    """
    packed = grown.forest.pack()
    is_inner = packed["true_child"] >= 0
    sizes = np.diff(packed["starts"])
    label = np.repeat(np.arange(len(sizes)) % len(grown.classes), sizes)[is_inner]
    group = label % n_groups
    column = packed["column"][is_inner].astype(np.int64)
    offset = packed["offset"][is_inner].astype(np.int64)
    gain = packed["gain"][is_inner]

    def table(is_counted: np.ndarray, cell: np.ndarray, *shape: int) -> np.ndarray:
        """Sum gains by group and cell of a table of this shape."""
        size = int(np.prod(shape))
        keys = group[is_counted] * size + cell[is_counted]
        return np.bincount(keys, gain[is_counted], n_groups * size).reshape(n_groups, *shape)

    input_offset = -offset if grown.backward else offset
    index = input_offset - grown.offsets[0]
    n_columns = len(grown.encoder.columns)
    n_offsets = len(grown.offsets)
    return (
        table(column >= 0, column * n_offsets + index, n_columns, n_offsets),
        table(column == BOUNDARY, index, n_offsets),
        table(column == LABEL, offset - 1, max(grown.forest.order, 1)),
    )


def _by_feature(encoder: Encoder, gains: np.ndarray) -> np.ndarray:
    """Sum each row over the columns of the same feature."""
    return np.stack([encoder.by_feature(row) for row in gains])


def permutation_importance(
    model: Any,
    X: SequencesLike,
    y: LabelsLike = None,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    within_sequences: bool = False,
    features: Any = None,
    random_state: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Bunch:
    """Compute the importance of features as the drop of a score when their values are shuffled.

    The values of one feature at a time are shuffled over all positions of all sequences [1]_.
    Windows read the shuffled values at all of their offsets, so the model loses the feature
    entirely. Sequences keep their lengths, their labels, and the values of the other features.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf. It is not fitted again.
    X : list of sequences, or one long table
        Sequences in the form of the training data, preferably new ones.
    y : list of array-like of shape (n_positions,), array-like, str or None, default=None
        True labels, or the name of the data frame column that holds them, as in
        `treecrf.TreeCRF.score`. None stands for the column of a data frame that held the labels in
        training.
    scoring : str, callable or None, default=None
        The score, of which higher values are better:

        - None: the method ``score`` of the model, which is the accuracy.
        - A name in `treecrf.metrics.SCORERS`. ``"log_likelihood"`` is smoother than accuracy: it
          also reveals features that change no predicted label.
        - A function ``score = scoring(model, sequences, labels)``. The sequences are in a packed
          form that all methods of the model accept, and ``labels`` is a list of arrays.
    n_repeats : int, default=5
        Number of times each feature is shuffled.
    within_sequences : bool, default=False
        Whether to shuffle values only within their sequences. A feature that is constant in each
        sequence then has no importance.
    features : list of str or int, default=None
        Names or indices of the features to shuffle. By default, these are all features.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffles. Those of a feature do not depend on the choice of ``features``.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``importances`` : float64 array of shape (n_features, n_repeats). The score of the
          original data minus the score after each shuffle. It is exactly 0 for features that a
          model of trees alone does not test.
        - ``importances_mean`` : float64 array of shape (n_features,). Mean over the repeats.
        - ``importances_std`` : float64 array of shape (n_features,). Standard deviation over the
          repeats.
        - ``score`` : float. The score of the original data.
        - ``feature_names`` : str array of shape (n_features,). Names of the shuffled features.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If X does not match the training data, y does not match X, a parameter is invalid, or the
        score of the original data is not finite.

    See Also
    --------
    gain_importance : Importance by gain, which needs no data.
    contributions : Shapley values, whose mean absolute values are another measure of importance.
    treecrf.plotting.plot_importances : Draw the importances as bars.

    Notes
    -----
    If two features carry the same information, both look unimportant, because one can substitute
    for the other.

    References
    ----------
    .. [1] L. Breiman, "Random forests", Machine Learning 45, 2001.

    Examples
    --------
    The label depends on the feature with index 1:

    >>> import numpy as np
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import permutation_importance
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.random((20, 2)) for _ in range(30)]
    >>> y = [(table[:, 1] > 0.5).astype(int) for table in X]
    >>> crf = TreeCRF(max_iter=5).fit(X[:20], y[:20])
    >>> found = permutation_importance(crf, X[20:], y[20:], random_state=0)
    >>> found.feature_names.tolist(), found.importances_mean.round(1).tolist()
    (['x0', 'x1'], [0.0, 0.5])
    """
    check_model(model)
    check_positive("n_repeats", n_repeats)
    scorer = _scorer(scoring)
    predictor = fitted_model(model).predictor
    names = feature_names(predictor.chain.schema)
    chosen = np.arange(len(names))
    if features is not None:
        items = as_list(features, "features", "names or indices")
        chosen = np.array([feature_index(item, names, "features: ") for item in items], np.intp)
    data = CheckedData.of(model, X, predictor.labels_of(X, y), lengths, groups)
    sequences = data.sequences
    seed = draw_seed(random_state)
    score = float(scorer(model, sequences, data.labels))
    if not np.isfinite(score):
        raise ValueError(f"the score of the original data is {score}; expected a finite number")
    importances = np.zeros((len(chosen), n_repeats))
    in_use = features_in_use(model)
    for row, j in zip(importances, chosen, strict=True):
        if in_use[j]:
            seeds = [[seed, j, i] for i in range(n_repeats)]
            row[:] = score - _shuffled_scores(data, j, scorer, seeds, within_sequences)
    return Bunch(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        score=score,
        feature_names=names[chosen],
    )


def _shuffled_scores(
    data: CheckedData, j: int, scorer: Callable, seeds: list, within_sequences: bool
) -> np.ndarray:
    """Return a score for each seed, by which the values of feature j are shuffled."""
    sequences = data.sequences
    values = column_values(sequences, j)
    scores = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        order = shuffled_positions(sequences.offsets, rng, within_sequences)
        shuffled = ReplacedSequences.of(sequences, j, values[order])
        scores.append(scorer(data.model, shuffled, data.labels))
    return np.array(scores)


def shuffled_positions(
    offsets: np.ndarray, rng: np.random.Generator, within_sequences: bool
) -> np.ndarray:
    """Shuffle all positions, or the positions of each sequence separately."""
    n = int(offsets[-1])
    if not within_sequences:
        return rng.permutation(n)
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((rng.random(n), owners))


def _scorer(scoring: Any) -> Callable[[SequenceClassifier, Sequences, list], float]:
    if scoring is None:
        return lambda model, X, y: model.score(X, y)
    if isinstance(scoring, str):
        return get_scorer(scoring)
    if not callable(scoring):
        raise TypeError(
            f"scoring is of type {type(scoring).__name__}; expected a name in "
            "treecrf.metrics.SCORERS, a function of a model, sequences, and labels, or None"
        )
    return scoring


def features_in_use(model: SequenceClassifier) -> np.ndarray:
    """Mark the features that can change predictions; bool array (n_features,).

    For boosted trees, these are the features used by a test or a surrogate. A linear start may use
    all of them.
    """
    if not has_trees(model) or getattr(model, "init_", None) is not None:
        return np.ones(model.n_features_in_, dtype=bool)
    chain = fitted_model(model).chain
    encoder = chain.encoder
    return encoder.features_in_use(chain.forest.tested_columns(len(encoder.columns)))
