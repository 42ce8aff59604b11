"""Contributions of previous labels to scores of contexts, compared with sums over coalitions."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles import extended_contexts
from support.shapley_oracle import shapley_values

from treecrf.chains.contexts import context_contributions


def mean_score(scores, contexts, known, n_labels, order):
    """Mean score of the contexts with some known labels that are as long as possible."""
    depth = min([lag for lag, label in known.items() if label == n_labels], default=order)
    chosen = [
        scores[depth, :, c]
        for d, c, symbols in contexts
        if d == depth and all(symbols[lag] == label for lag, label in known.items())
    ]
    return np.mean(chosen, axis=0)


@pytest.mark.parametrize("n_labels", [1, 2, 3])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_contributions_of_all_contexts(order, n_labels):
    rng = np.random.default_rng(order)
    scores = rng.normal(size=(order + 1, n_labels, n_labels**order)) * 100
    contexts = list(extended_contexts(n_labels, order))
    previous = np.array([symbols for _, _, symbols in contexts], dtype=np.uint8)
    base, values = context_contributions(scores, previous.reshape(len(contexts), order).T)
    np.testing.assert_allclose(base, mean_score(scores, contexts, {}, n_labels, order))
    for i, (depth, c, symbols) in enumerate(contexts):

        def value(lags, symbols=symbols):
            known = {lag: symbols[lag] for lag in lags}
            return mean_score(scores, contexts, known, n_labels, order)

        expected = shapley_values(value, range(order))
        for lag in range(order):
            np.testing.assert_allclose(values[i, :, lag], expected[lag], atol=1e-10)
        total = base + values[i].sum(axis=1)
        np.testing.assert_allclose(total, scores[depth, :, c], atol=1e-10)
