"""Frequencies of conditions, computed by trees whose value is 1 where a condition holds."""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import check_label_codes, previous_labels
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import RawData
from treecrf.inspection.fitted_trees import FittedTrees
from treecrf.inspection.with_labels import with_labels
from treecrf.learners.classifier import SequenceClassifier
from treecrf.trees.forest import LABEL, SURROGATE_FIELDS, Forest
from treecrf.trees.rules import Condition
from treecrf.utils.threads import Threads


def fractions_of(
    model: SequenceClassifier, grown: FittedTrees, conditions: list[Condition], data: RawData
) -> list[float]:
    """Compute the fraction of positions at which each condition holds.

    A missing value satisfies neither a test nor its negation.

    Raises
    ------
    ValueError, TypeError
        If the data do not match the training data, or there are too many labels.
    """
    n_labels, order = len(grown.classes), grown.forest.order
    check_label_codes(n_labels, "counting rules")
    sequences, codes = with_labels(model, data)
    previous = previous_labels(codes, sequences.offsets, n_labels, order)
    forest = _paths(conditions, n_labels, order)
    encoded = grown.encoder.encode(sequences)
    with Threads(model.n_jobs) as threads:
        return _means(forest, grown.encoder, encoded, previous, threads)[: len(conditions)]


def _means(
    forest: Forest,
    encoder: Encoder,
    encoded: EncodedSequences,
    previous: np.ndarray,
    threads: Threads,
) -> list[float]:
    """Compute the mean value of each tree over all positions, one iteration at a time."""
    means = [
        forest.scores(encoder, encoded, threads, (i, i + 1), given=previous).mean(axis=(1, 2))
        for i in range(forest.n_iter)
    ]
    return np.concatenate(means).tolist() if means else []


def _paths(conditions: list[Condition], n_labels: int, order: int) -> Forest:
    """Make trees with value 1 where a condition holds and 0 elsewhere, for whole iterations."""
    forest = Forest(n_labels, order)
    forest.trees = [_path(condition, n_labels) for condition in conditions]
    while len(forest.trees) % n_labels:
        forest.trees.append(_path(Condition(frozenset(), ()), n_labels))
    return forest


def _path(condition: Condition, n_labels: int) -> dict[str, np.ndarray]:
    """Make a tree that is a chain of tests: node 2i is a test, leaf 2i + 1 its failure."""
    tests = sorted(condition.window)
    for lag, mask in enumerate(condition.labels, 1):
        symbols = range(n_labels + 1)
        within = [symbol for symbol in symbols if mask >> symbol & 1]
        if len(within) == 1:
            tests.append(((LABEL, lag, within[0]), True))
        else:
            tests += [((LABEL, lag, s), False) for s in symbols if s not in within]
    inner, n = 2 * np.arange(len(tests)), 2 * len(tests) + 1
    tree = {name: np.zeros(n) for name in ("leaf", "gain", "weight", "share")}
    tree |= {name: np.zeros(n, np.int32) for name in ("column", "offset", "value", "n_surrogates")}
    tree |= {name: np.full(n, -1, np.int32) for name in ("true_child", "false_child")}
    tree |= {name: np.zeros(0, np.int32) for name in SURROGATE_FIELDS}
    tree["leaf"][-1] = 1.0
    if tests:
        holds = np.array([holds for _, holds in tests])
        fields = np.array([test for test, _ in tests]).T
        for name, field in zip(("column", "offset", "value"), fields, strict=True):
            tree[name][inner] = field
        tree["true_child"][inner] = np.where(holds, inner + 2, inner + 1)
        tree["false_child"][inner] = np.where(holds, inner + 1, inner + 2)
        tree["share"][inner] = ~holds  # a missing value counts as failure
    return tree
