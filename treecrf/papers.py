"""Settings of the papers on TREECRF: parameters of the estimators, by method and by dataset.

Each constant is a read-only mapping of parameters. Join the settings of a method and of a dataset
with ``|``, where the second has precedence::

    from treecrf import TreeCRF, papers

    crf = TreeCRF(**papers.TREECRF | papers.PROTEIN)

The settings of a method depend neither on the size of the data nor on the defaults of this package.
:doc:`/guide/papers` explains them.
"""

# The papers:
# [1] A. Ashenfelter, Master's thesis, Oregon State University, 2003.
# [2] T. G. Dietterich, A. Ashenfelter, Y. Bulatov, ICML 2004.
# [3] G. Hao, dissertation, Oregon State University, 2009. Its chapter 3 is T. G. Dietterich,
#     G. Hao, A. Ashenfelter, Journal of Machine Learning Research 9, 2008.
# [4] Y. Altun, T. Hofmann, M. Johnson, NIPS 2002.

from __future__ import annotations

from types import MappingProxyType
from typing import Any

Settings = MappingProxyType[str, Any]


def _settings(*parts: Settings, **parameters: Any) -> Settings:
    """Join settings; of equal names, the last one counts."""
    joined: dict[str, Any] = {}
    for part in parts:
        joined |= part
    return MappingProxyType(joined | parameters)


# Steps of length 1 along the gradient, fitted to all examples ([2] section 3, [3] section 3.3).
# Missing values are weighted as in C4.5 ([3] section 4.2).
_STEPS = _settings(
    second_order=False, learning_rate=1.0, sampling=None, early_stopping=False,
    missing="weighting-only",
)  # fmt: skip
# Without shrinkage, the number of leaves regularizes the trees.
_ORIGINAL = _settings(_STEPS, l2_regularization=0.0)

# Methods

# [3], section 3.2: trees with shrinkage. They have 100 leaves (section 3.5.2). λ was chosen from 0,
# 5, 10, 20, 40 and 80 by cross-validation (section 3.5); the choices are not published.
TREECRF = _settings(_STEPS, l2_regularization=40.0, max_leaf_nodes=100, init="zero")
# [1], and "Original" in [3], table 3.4: trees without shrinkage. The number of leaves was chosen
# from 30, 50, 75 and 100 (section 3.5); it is 30 in section 2 of [1].
TREECRF_ORIGINAL = _settings(_ORIGINAL, max_leaf_nodes=30, init="zero")
# [2], section 3: the first three iterations maximize the pseudo-likelihood.
TREECRF_2004 = _settings(TREECRF_ORIGINAL, init="pseudo_likelihood")
# [1], section 3.1: beams for many labels and high orders, narrow in training and wide in decoding.
BEAM_TRAINING = _settings(beam_width=3, beam="forward-only")
BEAM_DECODING = _settings(beam_width=10, decoding="viterbi")
# [3], section 5.4: the number of leaves regularizes the trees, and is 10 in section 5.4.1.
TREEMEMM = _settings(_ORIGINAL, max_leaf_nodes=10)
SLIDING_WINDOW = TREEMEMM
# [1], sections 1.1 and 3.1: the trees of the CRF.
RECURRENT_SLIDING_WINDOW = _settings(
    _ORIGINAL, max_leaf_nodes=30, direction="left-to-right", decoding="greedy"
)
# [3], sections 5.3 and 5.4: 20 bins, at most 10 trees per feature, and an initial score of -5, one
# of 0 to -10 in table 5.3. Held-out sequences determine when to stop.
FUTURE_FEATURES = _settings(
    second_order=False, learning_rate=1.0, l2_regularization=0.0, max_leaf_nodes=10,
    initial_score=-5.0, n_bins=20, instance_max_iter=10, instance_max_leaf_nodes=10,
    instance_l2_regularization=0.0, early_stopping=True,
)  # fmt: skip
# [4], section 5, with the tighter bound (equation 17).
SEQUENCE_BOOSTING = _settings(bound="sequence", line_search=False, early_stopping=False)

# Datasets of TREECRF: windows of [3], section 3.5.1, and iterations of table 3.5. The penalties are
# those that `benchmarks/tune.py` chooses from the values of the papers.
PROTEIN = _settings(window=(5, 5), max_iter=142, l2_regularization=80.0)
NETTALK = _settings(window=(6, 6), max_iter=169, l2_regularization=80.0)
HYPHENATION = _settings(window=(2, 3), max_iter=58, l2_regularization=80.0)

# Datasets of TREECRF_ORIGINAL in [1]. Section 3.1: NETtalk with 127 labels. Section 3.2: the ring,
# with trees of any size, thus at most a leaf for each of 11 previous labels (or none), 10 symbols.
NETTALK_FULL = _settings(window=(7, 7), order=7, max_leaf_nodes=50)
RING = _settings(window=(0, 0), max_iter=50, max_leaf_nodes=110)

# Datasets of FUTURE_FEATURES in [3]: section 5.4.1, with the order of table 5.4, and section 5.4.2,
# with the lowest order of table 5.5.
FUTURE_BAGS = _settings(window=(0, 0), order=0, bag_size=6)
STRESSED_LETTERS = _settings(window=(0, 0), order=1, bag_size=2)

__all__ = [
    "BEAM_DECODING", "BEAM_TRAINING", "FUTURE_BAGS", "FUTURE_FEATURES", "HYPHENATION", "NETTALK",
    "NETTALK_FULL", "PROTEIN", "RECURRENT_SLIDING_WINDOW", "RING", "SEQUENCE_BOOSTING",
    "SLIDING_WINDOW", "STRESSED_LETTERS", "TREECRF", "TREECRF_2004", "TREECRF_ORIGINAL", "TREEMEMM",
]  # fmt: skip
