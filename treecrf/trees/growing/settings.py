"""Settings of trees, and constraints on them."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.encoding.encoder import INPUT, Encoder
from treecrf.encoding.names import feature_name
from treecrf.trees.growing.window_tests import TestTable

# Deeper than any tree.
MAX_DEPTH = 1 << 30


@dataclass(frozen=True)
class TreeConstraints:
    """Monotonic constraints and interaction constraints on trees."""

    features: np.ndarray  # int32; the input's feature behind each encoded column
    # int8 (n_labels, n_columns): 1 if higher values may not lower the score, -1 if they may not
    # raise it, 0 otherwise.
    signs: np.ndarray | None = None
    # uint8 (n_groups, n_features): one group must contain all features that a branch tests.
    groups: np.ndarray | None = None
    max_in_branch: int = 0  # most features of a branch, in place of groups; 0 for no limit

    @property
    def n_features(self) -> int:
        """Number of features of the input."""
        if self.groups is not None:
            return self.groups.shape[1]
        return int(self.features.max(initial=-1)) + 1

    def sources_of(self, table: TestTable) -> np.ndarray:
        """Return the feature of the input behind each windowed one, -1 for ends of sequences."""
        return np.append(self.features, -1)[table.feature_columns].astype(np.int32)


@dataclass(frozen=True)
class TreeSettings:
    """Settings of trees, most of them named like the parameters of the estimators.

    ``max_features_per_tree``, ``subsample`` and ``seed`` concern the training loop, all others the
    grower of single trees.
    """

    max_leaf_nodes: int  # maximum number of leaves of a tree
    l2_regularization: float  # penalty that is added to the weight of a leaf
    learning_rate: float = 1.0  # factor of the leaf values
    depth_limit: int = -1  # maximum number of tests from the root to a leaf; -1 for no limit
    min_gain: float = 0.0  # what the gain of a split must exceed
    # Minimum gain of tests of whether a value is missing. Where values are missing at random, the
    # gains of Newton steps are about chi-squared with one degree of freedom, and 5 % of them exceed
    # this.
    min_missing_gain: float = 3.84
    # Minimum number of examples in each child. With 0, one example (or a fraction of one, if values
    # are missing) is enough.
    min_examples: int = 0
    max_features: float = 1.0  # fraction of the tree's features that a node may test
    max_features_per_tree: float = 1.0  # fraction of all features that a tree may test
    subsample: float = 1.0  # fraction of the sequences that trees of an iteration are grown on
    max_leaf_value: float = np.inf  # maximum absolute leaf value, before the learning rate
    seed: int = 0  # of the choices of features and sequences
    # int32 (n_labels,): numbers of the labels by their content, in place of those by their names,
    # for random choices and for equal gains; None for the latter.
    label_ranks: np.ndarray | None = None
    constraints: TreeConstraints | None = None

    def ranks_of(self, n_labels: int) -> np.ndarray:
        """Return the number of each label that does not depend on its name; int32 (n_labels,)."""
        if self.label_ranks is None:
            return np.arange(n_labels, dtype=np.int32)
        return self.label_ranks

    @property
    def most_leaves(self) -> int:
        """Maximum number of leaves of a tree, also by its depth."""
        if self.depth_limit < 0:
            return self.max_leaf_nodes
        return min(self.max_leaf_nodes, 1 << self.depth_limit)


# The parameters ``monotonic_cst`` and ``interaction_cst``

SIGNS = (-1, 0, 1)
# Maximum number of features in a branch.
INTERACTIONS = {"no_interactions": 1, "pairwise": 2}


def read_constraints(
    monotonic: Any, interactions: Any, encoder: Encoder, classes: np.ndarray
) -> TreeConstraints:
    """Read both parameters of an estimator, which may be None; errors name what is invalid."""
    features = [encoder.origin_of(j)[1] for j in range(len(encoder.columns))]
    signs = None
    groups = None
    max_in_branch = 0
    if isinstance(interactions, str):
        max_in_branch = INTERACTIONS[interactions]
    elif interactions is not None:
        groups = _read_groups(interactions, encoder)
    if monotonic is not None:
        signs = _read_signs(monotonic, encoder, classes)
    return TreeConstraints(np.array(features, dtype=np.int32), signs, groups, max_in_branch)


def _read_signs(monotonic: Any, encoder: Encoder, classes: np.ndarray) -> np.ndarray:
    """Return the sign of each label and column; int8 array (n_labels, n_columns)."""
    signs = np.zeros((len(classes), len(encoder.columns)), dtype=np.int8)
    if not isinstance(monotonic, dict):
        feature_signs = np.asarray(monotonic)
        if feature_signs.shape != (encoder.n_features,):
            raise ValueError(
                f"monotonic_cst has the shape {feature_signs.shape}; expected "
                f"({encoder.n_features},), a sign for each feature"
            )
        monotonic = dict(enumerate(feature_signs.tolist()))
    for feature, sign in monotonic.items():
        j = _index_of(feature, encoder, "monotonic_cst")
        signs[:, j] = _by_label(sign, feature, classes)
        is_input = encoder.origin_of(j)[0] == INPUT
        if signs[:, j].any() and is_input and encoder.columns.is_category[j]:
            raise ValueError(
                f"monotonic_cst: {feature_name(encoder, j)} is categorical; expected numbers or "
                "booleans, whose values have an order"
            )
    return signs


def _by_label(sign: Any, feature: Any, classes: np.ndarray) -> np.ndarray:
    """Return the sign of each label; int8 array (n_labels,)."""
    signs = np.zeros(len(classes), dtype=np.int8)
    if not isinstance(sign, dict):
        _check_sign(sign, feature)
        if sign and len(classes) != 2:
            raise ValueError(
                f"monotonic_cst, feature {feature!r}: sign {sign!r} with {len(classes)} labels; "
                "expected a dict {label: sign}, except with two labels"
            )
        if sign:
            signs[:] = (-sign, sign)
        return signs
    indices = {label: k for k, label in enumerate(classes.tolist())}
    for label, one in sign.items():
        _check_sign(one, feature)
        if not isinstance(label, Hashable) or label not in indices:
            raise ValueError(
                f"monotonic_cst, feature {feature!r}: the label {label!r} is not in y; expected "
                f"labels of {classes.tolist()}"
            )
        signs[indices[label]] = one
    return signs


def _check_sign(sign: Any, feature: Any) -> None:
    if not isinstance(sign, numbers.Real) or sign not in SIGNS:
        raise ValueError(f"monotonic_cst, feature {feature!r}: {sign!r}; expected -1, 0 or 1")


def _read_groups(interactions: Any, encoder: Encoder) -> np.ndarray:
    """Return the sets of features that may interact; uint8 array (n_groups, n_features)."""
    groups = []
    for i, features in enumerate(interactions):
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise TypeError(
                f"interaction_cst, item {i} is of type {type(features).__name__}; expected a list "
                "of features"
            )
        group = np.zeros(encoder.n_features, dtype=np.uint8)
        group[[_index_of(feature, encoder, "interaction_cst") for feature in features]] = 1
        groups.append(group)
    rest = np.ones(encoder.n_features, dtype=np.uint8)
    for group in groups:
        rest[group > 0] = 0
    return np.array([*groups, rest])


def _index_of(feature: Any, encoder: Encoder, parameter: str) -> int:
    """Return the index of a feature, given by its name or its index."""
    if isinstance(feature, str):
        if encoder.names is None or feature not in encoder.names:
            raise ValueError(f"{parameter}: the feature {feature!r} is not in X")
        return encoder.names.index(feature)
    if not isinstance(feature, numbers.Integral) or isinstance(feature, bool):
        raise TypeError(
            f"{parameter}: feature {feature!r} is of type {type(feature).__name__}; expected a "
            "name or an index"
        )
    if not 0 <= feature < encoder.n_features:
        raise ValueError(
            f"{parameter}: feature {feature}; expected an index from 0 to {encoder.n_features - 1}"
        )
    return int(feature)
