"""Short training runs on published datasets reach the expected accuracy."""

from __future__ import annotations

from treecrf import TreeCRF
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
