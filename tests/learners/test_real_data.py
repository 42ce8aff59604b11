"""Short training runs on published datasets reach the expected accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf import (
    HMMClassifier,
    LinearCRF,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    papers,
)
from treecrf.datasets import (
    fetch_conll2002,
    fetch_hyphenation,
    fetch_nettalk,
    fetch_protein,
    read_sparse,
)
from treecrf.learners.linear import lbfgs

SLOW = pytest.mark.exhaustive


def test_protein_structure(data_folder):
    X, y = fetch_protein(data_home=data_folder, return_X_y=True)
    X_test, y_test = fetch_protein(subset="test", data_home=data_folder, return_X_y=True)
    assert (sum(map(len, X)), sum(map(len, X_test))) == (18105, 3520)
    crf = TreeCRF(window=5, max_iter=60, l2_regularization=80.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.62
    assert crf.predict_log_likelihood(X_test, y_test).sum() / 3520 > -0.40


@pytest.mark.parametrize(
    ("model", "fetch", "lowest"),
    [
        (
            TreeCRF(
                window=6, max_iter=60, max_leaf_nodes=64, second_order=True, l2_regularization=5.0,
                learning_rate=0.5,
            ), fetch_nettalk, 0.855,
        ),
        (StructuredPerceptron(window=6, transition_features=True, random_state=0), fetch_nettalk,
         0.825),
        (StructuredSVM(window=(2, 3), transition_features=True, random_state=0),
         fetch_hyphenation, 0.89),
        (HMMClassifier(), fetch_protein, 0.587),
        (HMMClassifier(), fetch_nettalk, 0.717),
    ],
)  # fmt: skip
def test_accuracy(model, fetch, lowest, data_folder):
    model.fit(*fetch(data_home=data_folder, return_X_y=True))
    test = fetch(subset="test", data_home=data_folder, return_X_y=True)
    assert lowest < model.score(*test) < lowest + 0.02


def test_hyphenation(data_folder):
    path = data_folder / "hyphen" / "sparse.hyphen.6"
    X, y = read_sparse(f"{path}.train")
    X_test, y_test = read_sparse(f"{path}.test")
    assert (len(X), len(X_test)) == (1951, 908)
    crf = TreeCRF(max_iter=100, l2_regularization=40.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.918


@SLOW
@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
def test_few_iterations_with_an_l1_penalty_come_close_on_text(data_folder, monkeypatch):
    """Far from the optimum, all weights follow the steepest descent."""
    X, y = fetch_conll2002(data_home=data_folder, return_X_y=True)
    crf = LinearCRF(window=1, l1_regularization=0.1, l2_regularization=0.1)
    losses = [crf.set_params(max_iter=n).fit(X[:500], y[:500]).loss_ for n in (50, 300)]
    assert losses[0] < 1.03 * losses[1]
    monkeypatch.setattr(lbfgs, "FAR", np.inf)
    assert crf.set_params(max_iter=50).fit(X[:500], y[:500]).loss_ > 1.1 * losses[1]


@pytest.mark.parametrize(
    ("fetch", "settings", "expected"),
    [
        pytest.param(fetch_protein, papers.TREECRF | papers.PROTEIN, (64.18, 62.30), marks=SLOW),
        (fetch_protein, papers.PROTEIN | papers.TREECRF_ORIGINAL, (62.87, 58.75)),
        (fetch_nettalk, papers.TREECRF | papers.NETTALK, (85.39, 85.39)),
        pytest.param(
            fetch_nettalk, papers.NETTALK | papers.TREECRF_ORIGINAL, (84.02, 83.95), marks=SLOW
        ),
    ],
)
def test_settings_of_the_papers(data_folder, fetch, settings, expected):
    """Published: 64.52, 62.05; 62.70, 59.20; 85.18, 85.20; 84.08, 84.18."""
    crf = TreeCRF(**settings).fit(*fetch(data_home=data_folder, return_X_y=True))
    test = fetch(subset="test", data_home=data_folder, return_X_y=True)
    accuracies = [100 * crf.set_params(decoding=decoding).score(*test)
                  for decoding in ("marginal", "viterbi")]  # fmt: skip
    np.testing.assert_allclose(accuracies, expected, atol=0.1)
