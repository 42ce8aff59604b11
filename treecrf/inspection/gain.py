"""Importance by gain: what the splits on each feature have reduced of the training error."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.encoding.names import feature_names
from treecrf.encoding.plan import BOUNDARY
from treecrf.inspection.grown import FittedTrees
from treecrf.trees.forest import LABEL


def gain_importance(model: Any, *, per_label: bool = False) -> Bunch:
    """Importance of each feature at each offset of the window, by the gain of its splits.

    A split's gain is what it has reduced of the squared error of the trees' targets in training.
    All numbers here are shares of the total gain of all features, as ``feature_importances_`` is;
    ends of sequences and previous labels come on top of this total.

    Parameters
    ----------
    model : fitted classifier
        With boosted trees.
    per_label : bool, default=False
        Whether to tell the labels apart: each has trees of its own.

    Returns
    -------
    Bunch
        With these attributes:

        - importances : float array (n_features, n_offsets); its sum over the offsets, with
          ``in_bags``, is ``feature_importances_``;
        - offsets : int array (n_offsets,); 0 is the position that is labeled, positive offsets lie
          to its right;
        - in_bags : float array (n_features,), through the discovered features of a
          `treecrf.FutureFeatureMEMM`, in whose bags an instance may be anywhere; else 0;
        - outside : float array (n_offsets,), of tests whether a position is beyond the end of the
          sequence;
        - labels_before : float array (order,), of tests of the previous labels, the nearest first;
        - feature_names : array of str (n_features,);
        - labels : array (n_classes,).

        With ``per_label`` the arrays of floats have the labels as a first axis more. Sums over this
        axis are what they are without it.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    TypeError
        If the model has no trees.

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
    forest, encoder, offsets = grown.forest, grown.encoder, grown.offsets
    gains, outside, before = _sums(grown, len(grown.classes) if per_label else 1)
    n_own = len(encoder.columns) - encoder.n_derived
    importances = np.stack(
        [_by_feature(grown, gains[:, :n_own, j]) for j in range(len(offsets))], axis=2
    )
    in_bags = _by_made_feature(grown, gains[:, n_own:].sum(axis=2))
    scale = max(gains.sum(), np.finfo(float).tiny)
    found = {
        "importances": importances,
        "in_bags": in_bags,
        "outside": outside,
        "labels_before": before[:, : forest.order],
    }
    return Bunch(
        **{name: (a if per_label else a[0]) / scale for name, a in found.items()},
        offsets=offsets,
        feature_names=feature_names(encoder.trained_on),
        labels=grown.classes,
    )


def _sums(grown: FittedTrees, n_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gains of columns and offsets, of ends by offset, and of previous labels by lag.

    Offsets are those of the input. The first axis of all has the labels, or one group of them all.
    """
    packed = grown.forest.pack()
    inner = packed["true_child"] >= 0
    sizes = np.diff(packed["starts"])
    group = np.repeat(np.arange(len(sizes)) % len(grown.classes), sizes)[inner] % n_groups
    column, offset = (packed[name][inner].astype(np.int64) for name in ("column", "offset"))
    gain, place = packed["gain"][inner], -offset if grown.backward else offset
    place = place - grown.offsets[0]

    def table(chosen: np.ndarray, second: np.ndarray, *shape: int) -> np.ndarray:
        keys = group[chosen] * int(np.prod(shape)) + second[chosen]
        n = n_groups * int(np.prod(shape))
        return np.bincount(keys, gain[chosen], n).reshape(n_groups, *shape)

    n_columns, n_offsets = len(grown.encoder.columns), len(grown.offsets)
    of_value = column * n_offsets + place
    return (
        table(column >= 0, of_value, n_columns, n_offsets),
        table(column == BOUNDARY, place, n_offsets),
        table(column == LABEL, offset - 1, max(grown.forest.order, 1)),
    )


def _by_feature(grown: FittedTrees, gains: np.ndarray) -> np.ndarray:
    """Sums over the columns that come from the same feature, for each row."""
    base = getattr(grown.encoder, "base", grown.encoder)
    return np.stack([base.by_feature(row) for row in gains])


def _by_made_feature(grown: FittedTrees, gains: np.ndarray) -> np.ndarray:
    """What discovered features have gained, given to the features that tell their instances."""
    zeros = np.zeros(len(grown.encoder.columns) - grown.encoder.n_derived)
    return np.stack([grown.encoder.by_feature(np.append(zeros, row)) for row in gains])
