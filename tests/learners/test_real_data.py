"""Short training runs on published datasets reach the expected accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf import TreeCRF, papers
from treecrf.datasets import fetch_nettalk, fetch_protein, read_sparse


def test_protein_structure(data_folder):
    X, y = fetch_protein(data_home=data_folder, return_X_y=True)
    X_test, y_test = fetch_protein(subset="test", data_home=data_folder, return_X_y=True)
    assert (sum(map(len, X)), sum(map(len, X_test))) == (18105, 3520)
    crf = TreeCRF(window=5, max_iter=60, l2_regularization=80.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.62
    assert crf.predict_log_likelihood(X_test, y_test).sum() / 3520 > -0.40


def test_stress_of_words(data_folder):
    X, y = fetch_nettalk(data_home=data_folder, return_X_y=True)
    X_test, y_test = fetch_nettalk(subset="test", data_home=data_folder, return_X_y=True)
    crf = TreeCRF(
        window=6, max_iter=60, max_leaf_nodes=64, second_order=True, l2_regularization=5.0,
        learning_rate=0.5,
    ).fit(X, y)  # fmt: skip
    assert crf.score(X_test, y_test) > 0.855


def test_hyphenation(data_folder):
    path = data_folder / "hyphen" / "sparse.hyphen.6"
    X, y = read_sparse(f"{path}.train")
    X_test, y_test = read_sparse(f"{path}.test")
    assert (len(X), len(X_test)) == (1951, 908)
    crf = TreeCRF(max_iter=100, l2_regularization=40.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.918


@pytest.mark.parametrize(
    ("fetch", "settings", "expected"),
    [
        (fetch_protein, papers.TREECRF | papers.PROTEIN, (64.18, 62.30)),
        (fetch_protein, papers.PROTEIN | papers.TREECRF_ORIGINAL, (62.87, 58.75)),
        (fetch_nettalk, papers.TREECRF | papers.NETTALK, (85.39, 85.39)),
        (fetch_nettalk, papers.NETTALK | papers.TREECRF_ORIGINAL, (84.02, 83.95)),
    ],
)
def test_settings_of_the_papers(data_folder, fetch, settings, expected):
    """Published: 64.52, 62.05; 62.70, 59.20; 85.18, 85.20; 84.08, 84.18."""
    crf = TreeCRF(**settings).fit(*fetch(data_home=data_folder, return_X_y=True))
    test = fetch(subset="test", data_home=data_folder, return_X_y=True)
    accuracies = [100 * crf.set_params(decoding=decoding).score(*test)
                  for decoding in ("marginal", "viterbi")]  # fmt: skip
    np.testing.assert_allclose(accuracies, expected, atol=0.1)
