"""Feature importance by gain: the reduction of the training error by splits on each feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import feature_names
from treecrf.encoding.plan import BOUNDARY
from treecrf.inspection.fitted import FittedTrees, warn_of_linear_start
from treecrf.trees.forest import LABEL


def gain_importance(model: Any, *, per_label: bool = False) -> Bunch:
    """Compute the importance of each feature at each offset in the window by gain.

    The gain of a split is its reduction of the squared error of the trees' targets in training. All
    values are fractions of the total gain of all features, like ``feature_importances_``. The gains
    of sequence ends and previous labels are not part of this total. If the trees test nothing else,
    all values are fractions of the gain of these tests.

    Only splits of trees have gains. If the trees are added to a linear model (``init_`` of
    `treecrf.TreeCRF`), its weights are not included, however important they are. A warning states
    this.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees.
    per_label : bool, default=False
        Whether to return separate values for each label, which has its own trees.

    Returns
    -------
    Bunch
        With these attributes:

        - importances : float array (n_features, n_offsets); its sum over the offsets, plus
          ``in_bags``, is ``feature_importances_``;
        - offsets : int array (n_offsets,); 0 is the labeled position, positive offsets are to its
          right;
        - in_bags : float array (n_features,), importance through the discovered features of a
          `treecrf.FutureFeatureMEMM`, which may occur anywhere in their bags; 0 for other models;
        - outside : float array (n_offsets,), importance of tests whether an offset is outside the
          sequence;
        - labels_before : float array (order,), importance of tests of the previous labels, the
          nearest first;
        - feature_names : array of str (n_features,);
        - labels : array (n_classes,);
        - n_iter : int, the number of iterations;
        - linear_start : bool, whether the trees are added to a linear model;
        - backward : bool, whether the previous labels are those to the right.

        With ``per_label``, the float arrays have an additional first axis for the labels; sums over
        this axis equal the values without it.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has no trees.

    See Also
    --------
    permutation_importance : Importance in any model, on any data.
    strongest_weights : Weights of linear models and of linear starts.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import gain_importance
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> found = gain_importance(crf)
    >>> found.offsets.tolist(), found.importances.shape
    ([-1, 0, 1], (1, 3))
    >>> bool(abs(found.importances.sum() - 1) < 1e-12)
    True
    """
    grown = FittedTrees.of(model)
    warn_of_linear_start(model, "gains describe the trees")
    encoder, offsets = grown.encoder, grown.offsets
    gains, outside, before = _sums(grown, len(grown.classes) if per_label else 1)
    own, derived = gains.copy(), gains.sum(axis=2)
    own[:, encoder.n_own_columns :] = 0.0
    derived[:, : encoder.n_own_columns] = 0.0
    of_features, smallest = gains.sum(), np.finfo(float).tiny
    scale = of_features if of_features > smallest else outside.sum() + before.sum() + smallest
    tables = {
        "importances": np.stack(
            [_by_feature(encoder, own[:, :, j]) for j in range(len(offsets))], axis=2
        ),
        # The gains of discovered features go to the features that identify their instances.
        "in_bags": _by_feature(encoder, derived),
        "outside": outside,
        "labels_before": before[:, : grown.forest.order],
    }
    return Bunch(
        **{name: (table if per_label else table[0]) / scale for name, table in tables.items()},
        offsets=offsets,
        feature_names=feature_names(encoder.schema),
        labels=grown.classes,
        n_iter=grown.forest.n_iter,
        linear_start=model._start is not None,
        backward=grown.backward,
    )


def _sums(grown: FittedTrees, n_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum gains by column and offset, of sequence ends by offset, and of previous labels by lag.

    Offsets are in the direction of the input. The first axis is for labels, or one group of all.
    """
    packed = grown.forest.pack()
    inner = packed["true_child"] >= 0
    sizes = np.diff(packed["starts"])
    group = np.repeat(np.arange(len(sizes)) % len(grown.classes), sizes)[inner] % n_groups
    column, offset = (packed[name][inner].astype(np.int64) for name in ("column", "offset"))
    gain, index = packed["gain"][inner], -offset if grown.backward else offset
    index = index - grown.offsets[0]

    def table(chosen: np.ndarray, second: np.ndarray, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        keys = group[chosen] * size + second[chosen]
        return np.bincount(keys, gain[chosen], n_groups * size).reshape(n_groups, *shape)

    n_columns, n_offsets = len(grown.encoder.columns), len(grown.offsets)
    of_value = column * n_offsets + index
    return (
        table(column >= 0, of_value, n_columns, n_offsets),
        table(column == BOUNDARY, index, n_offsets),
        table(column == LABEL, offset - 1, max(grown.forest.order, 1)),
    )


def _by_feature(encoder: Encoder, gains: np.ndarray) -> np.ndarray:
    """Sum each row over the columns of the same feature."""
    return np.stack([encoder.by_feature(row) for row in gains])
