"""Importance by permutation: what a score loses when a feature tells nothing any more."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import feature_names
from treecrf.inputs.labels import RawData
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import listed
from treecrf.inspection.grown import check_model, has_trees
from treecrf.inspection.shuffled import ReplacedSequences, column_of, shuffled_places
from treecrf.learners.classifier import SequenceClassifier
from treecrf.metrics import get_scorer
from treecrf.trees.forest import Forest


def permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    within_sequences: bool = False,
    features: Any = None,
    random_state: Any = None,
    lengths: Any = None,
    groups: Any = None,
) -> Bunch:
    """Importance of each feature, by what a score loses when its values are shuffled.

    The values that a feature has at all positions of all sequences are given to these positions in
    random order, and stay in the rows of the other features' values no more. A window reads the new
    values at all its offsets, so that the feature is lost to the model as a whole and not at one
    offset alone. Sequences keep their lengths, their labels and the values of the other features.

    Parameters
    ----------
    model : fitted classifier
        Of any kind; it is not trained again.
    X, y : sequences and their labels
        As in the model's ``score``; better not those of training.
    scoring : str, callable or None, default=None
        A name among `treecrf.metrics.SCORERS`, or a function of the model, sequences and a list of
        label arrays that gives a number, greater being better. The sequences are packed, as all
        methods of the model take them. By default the model's ``score``. ``"log_likelihood"`` is
        smoother than a share of right labels, and tells features apart that change none.
    n_repeats : int, default=5
        How often each feature is shuffled.
    within_sequences : bool, default=False
        Whether values stay in their sequences and change places in them only. Then a feature that
        is the same in the whole of each sequence has no importance.
    features : list of str or int, optional
        Names or numbers of those to shuffle. By default all.
    random_state : int, RandomState instance or None, default=None
        Seed. What a feature is given does not depend on which others are asked for.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    Bunch
        With these attributes:

        - importances : float array (n_features, n_repeats), the score as it is less the score after
          each shuffle; a feature that no tree asks for has exactly 0, without being shuffled;
        - importances_mean, importances_std : float arrays (n_features,);
        - score : float, of the data as they are;
        - feature_names : array of str (n_features,).

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If X is not like the training data, y does not fit X, a parameter is not as described, or
        the score is not finite.

    See Also
    --------
    gain_importance : By what training has gained, without any data.

    References
    ----------
    .. [1] L. Breiman, "Random forests", Machine Learning 45, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import permutation_importance
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.random((20, 2)) for _ in range(30)]
    >>> y = [(table[:, 1] > 0.5).astype(int) for table in X]
    >>> crf = TreeCRF(max_iter=5).fit(X[:20], y[:20])
    >>> found = permutation_importance(crf, X[20:], y[20:], random_state=0)
    >>> found.importances.shape, bool(found.importances_mean[1] > 0.3)
    ((2, 5), True)
    """
    check_model(model)
    if not isinstance(n_repeats, numbers.Integral) or n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats!r}; expected a positive integer")
    scorer = _scorer(scoring)
    names = feature_names(model._trained_on)
    chosen = np.arange(len(names)) if features is None else _chosen(features, names)
    sequences, labels = model._read_labeled(RawData(X, y, Segmentation(lengths, groups)))
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    score = float(scorer(model, sequences, labels))
    if not np.isfinite(score):
        raise ValueError(f"the score of the data as they are is {score}: nothing can be compared")
    importances, in_use = np.zeros((len(chosen), n_repeats)), features_in_use(model)
    for row, j in zip(importances, chosen, strict=True):
        if in_use[j]:
            rngs = [np.random.default_rng([seed, j, i]) for i in range(n_repeats)]
            mixed = _shuffles(sequences, j, rngs, within_sequences)
            row[:] = [score - scorer(model, some, labels) for some in mixed]
    return Bunch(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        score=score,
        feature_names=names[chosen],
    )


def _shuffles(
    sequences: Sequences, j: int, rngs: list[np.random.Generator], within_sequences: bool
) -> Iterator[Sequences]:
    """The sequences with a feature shuffled, once for each generator."""
    values = column_of(sequences, j)
    for rng in rngs:
        places = shuffled_places(sequences.offsets, rng, within_sequences)
        yield ReplacedSequences.of(sequences, j, values[places])


def _scorer(scoring: Any) -> Callable[[SequenceClassifier, Sequences, list], float]:
    if scoring is None:
        return lambda model, X, y: model.score(X, y)
    if isinstance(scoring, str):
        return get_scorer(scoring)
    if not callable(scoring):
        raise TypeError(
            f"scoring is of type {type(scoring).__name__}; expected a name among "
            "treecrf.metrics.SCORERS, a function of a model, sequences and labels, or None"
        )
    return scoring


def _chosen(features: Any, names: np.ndarray) -> np.ndarray:
    """Numbers of features that are given by name or number."""
    places = {name: j for j, name in enumerate(names)}
    found = []
    for given in listed(features, "features", "names or numbers"):
        j = places.get(given, -1) if isinstance(given, str) else given
        is_number = isinstance(j, numbers.Integral) and not isinstance(j, (bool, np.bool_))
        if not is_number or not 0 <= j < len(names):
            raise ValueError(
                f"features: {given!r} is neither the name of a feature nor a number from 0 to "
                f"{len(names) - 1}"
            )
        found.append(int(j))
    return np.array(found, dtype=np.intp)


def features_in_use(model: SequenceClassifier) -> np.ndarray:
    """Which features can change what a model says; bool array (n_features,).

    Of boosted trees those that a test asks for, or a surrogate.
    """
    n_features = model.n_features_in_
    if not has_trees(model):
        return np.ones(n_features, dtype=bool)
    encoder = model._encoder
    base = getattr(encoder, "base", encoder)
    asked = _asked(model._forest, encoder)[: len(base.columns)]
    for feature in getattr(encoder, "features", ()):
        asked |= _asked(feature.trees, base)
    return base.by_feature(asked.astype(float)) > 0


def _asked(forest: Forest, encoder: Encoder) -> np.ndarray:
    """Which columns trees ask for."""
    packed = forest.pack()
    columns = packed["column"][packed["true_child"] >= 0], packed["surrogate_column"]
    found = np.zeros(len(encoder.columns), dtype=bool)
    for some in columns:
        found[some[some >= 0].astype(np.intp)] = True
    return found
