"""The number of leaves, chosen on folds where there are categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.parts import assert_equal_fits, dealt, fit_parts_of

from treecrf import (
    FutureFeatureMEMM,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    load,
)
from treecrf.learners.base.folds import make_folds
from treecrf.learners.boosted import engines, held_out, selection
from treecrf.learners.boosted.held_out import standard_error
from treecrf.learners.boosted.spec import LARGE, PENALTY_SHARE_OF_LARGE, SMALL

# One variant, but for the leaves.
ONLY_LEAVES = {"window": (1, 0), "init": "zero", "constant_transitions": True, "max_iter": 12}
AS_LARGE = {"max_leaf_nodes": LARGE, "l2_regularization": PENALTY_SHARE_OF_LARGE * 20.0}


def pairs(n=140, length=60, n_symbols=30, seed=0):
    """Symbols, and labels that each pair of neighboring symbols has at random."""
    rng = np.random.default_rng(seed)
    label_of = rng.integers(0, 2, (n_symbols, n_symbols))
    X = [rng.integers(0, n_symbols, length) for _ in range(n)]
    return X, [np.append(0, label_of[x[:-1], x[1:]]) for x in X]


def singles(n=140, length=60, seed=0):
    """Symbols, and noisy labels that each of them has."""
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 20, length) for _ in range(n)]
    return X, [np.where(rng.random(length) < 0.8, x % 2, 1 - x % 2) for x in X]


def assert_same_model(one, two, X):
    assert one.n_iter_ == two.n_iter_
    np.testing.assert_array_equal(
        np.concatenate(one.predict_proba(X)), np.concatenate(two.predict_proba(X))
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("make", [pairs, singles])
def test_the_better_number_of_separate_fits_is_chosen(make, n_jobs):
    X, y = make()
    crf = TreeCRF(**ONLY_LEAVES, n_jobs=n_jobs).fit(X, y)
    fits = {
        SMALL: TreeCRF(**ONLY_LEAVES, max_leaf_nodes=SMALL).fit(X, y),
        LARGE: TreeCRF(**ONLY_LEAVES, **AS_LARGE).fit(X, y),
    }
    best = max(fits, key=lambda leaves: fits[leaves].validation_score_.max())
    assert best == (LARGE if make is pairs else SMALL)
    assert crf.max_leaf_nodes_ == best
    assert_same_model(crf, fits[best], X)


def gap_of_folds(X, y):
    """Return how much higher the best score of large trees is in the folds of the data."""
    best = [
        TreeCRF(**ONLY_LEAVES, **settings).fit(X, y).validation_score_.max()
        for settings in (AS_LARGE, {"max_leaf_nodes": SMALL})
    ]
    return best[0] - best[1]


@pytest.mark.parametrize(("share", "expected"), [(0.4, LARGE), (1.0, SMALL)])
def test_large_trees_are_better_by_more_than_two_standard_errors(share, expected, monkeypatch):
    X, y = pairs()
    gap = gap_of_folds(X, y)
    assert gap > 0.05
    monkeypatch.setattr(held_out, "standard_error", lambda sums, sizes: share * gap)
    assert TreeCRF(**ONLY_LEAVES).fit(X, y).max_leaf_nodes_ == expected


def test_standard_errors_are_those_of_the_best_iterations(monkeypatch):
    compared = []

    def recorded(sums, sizes):
        compared.append((sums.sum() / sizes.sum(), len(sums)))
        return standard_error(sums, sizes)

    monkeypatch.setattr(held_out, "standard_error", recorded)
    monkeypatch.setattr(selection, "make_folds", lambda *arguments: make_folds(*arguments)[:1])
    X, y = pairs()
    assert TreeCRF(**ONLY_LEAVES).fit(X, y).max_leaf_nodes_ == LARGE
    n_held_out = len(X) // 5
    mean, n_sequences = compared[-1]
    assert n_sequences == pytest.approx(n_held_out, abs=2)
    assert mean > 0
    # The small trees may not have been trained to their best iteration.
    assert mean >= gap_of_folds(X, y) - 1e-9


def test_rare_conjunctions_need_large_trees():
    X, y = pairs(n=180)
    scores = [
        TreeCRF(**ONLY_LEAVES, **settings).fit(X[:140], y[:140]).score(X[140:], y[140:])
        for settings in ({}, {"max_leaf_nodes": SMALL})
    ]
    assert scores[0] > scores[1] + 0.05


@pytest.mark.parametrize("settings", [{"early_stopping": False}, {"early_stopping": True}, {}])
def test_numbers_have_small_trees(settings):
    X, y = singles()
    numbers = [x[:, None].astype(float) for x in X]
    crf = TreeCRF(**ONLY_LEAVES | {"max_iter": 3}, **settings).fit(numbers, y)
    assert crf.max_leaf_nodes_ == SMALL


@pytest.mark.parametrize(("n", "settings"), [(140, {"early_stopping": False}), (130, {})])
def test_nothing_is_chosen_without_early_stopping_and_on_little_data(n, settings):
    X, y = pairs(n=n)
    assert TreeCRF(**ONLY_LEAVES, **settings).fit(X, y).max_leaf_nodes_ == SMALL


def test_a_number_of_the_user_is_kept():
    X, y = pairs()
    crf = TreeCRF(**ONLY_LEAVES, max_leaf_nodes=5).fit(X, y)
    assert crf.max_leaf_nodes_ == 5


def test_validation_data_leave_the_choice_to_the_folds():
    X, y = pairs(n=150)
    crf = TreeCRF(**ONLY_LEAVES).fit(X[10:], y[10:], X_val=X[:10], y_val=y[:10])
    assert crf.max_leaf_nodes_ == LARGE


def test_columns_of_categories_count_as_well():
    X, y = pairs()
    dicts = [[{"letter": str(value)} for value in x] for x in X]
    assert TreeCRF(**ONLY_LEAVES).fit(dicts, y).max_leaf_nodes_ == LARGE


def test_files_and_their_parts_choose_the_same(tmp_path):
    X, y = pairs()
    frame = pd.DataFrame(
        {
            "letter": [f"s{value}" for value in np.concatenate(X)],
            "label": np.concatenate(y),
            "text": np.repeat(np.arange(len(X)), len(X[0])),
        }
    )
    paths = [tmp_path / "0.csv", tmp_path / "1.csv"]
    for path, part in zip(paths, (frame[frame.text < 60], frame[frame.text >= 60]), strict=True):
        part.to_csv(path, index=False)
    whole = TreeCRF(**ONLY_LEAVES).fit(frame, "label", groups="text")
    parts = TreeCRF(**ONLY_LEAVES).fit(paths, "label", groups="text", scratch=tmp_path)
    assert whole.max_leaf_nodes_ == parts.max_leaf_nodes_ == LARGE
    assert_same_model(whole, parts, [[{"letter": f"s{value}"} for value in X[0]]])


def test_partitions_the_order_of_sequences_and_threads_choose_the_same():
    X, y = pairs()
    settings = ONLY_LEAVES | {"sampling": 0.1, "random_state": 0}
    whole = TreeCRF(**settings).fit(X, y)
    assert whole.max_leaf_nodes_ == LARGE
    assert_equal_fits(whole, TreeCRF(**settings, n_jobs=2).fit(X, y))
    assert_equal_fits(whole, fit_parts_of(TreeCRF(**settings), X, y, dealt(X, 3), 2))
    backward = TreeCRF(**settings).fit(X[::-1], y[::-1])
    assert_same_model(whole, backward, X[:5])


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_warm_start_keeps_the_leaves_and_their_penalty(is_saved, tmp_path):
    X, y = pairs()
    crf = TreeCRF(**ONLY_LEAVES).fit(X, y)
    same = TreeCRF(**ONLY_LEAVES, **AS_LARGE).fit(X, y)
    if is_saved:
        crf.save(tmp_path / "model")
        crf = load(tmp_path / "model")
        assert crf.max_leaf_nodes == "auto"
        assert crf.max_leaf_nodes_ == LARGE
    more = {"warm_start": True, "max_iter": crf.n_iter_ + 2}
    crf.set_params(**more).fit(X, y)
    same.set_params(**more).fit(X, y)
    assert crf.max_leaf_nodes_ == LARGE
    assert_same_model(crf, same, X)


@pytest.mark.parametrize(
    "kind", [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
)
def test_models_of_single_positions_choose_as_well(kind):
    X, y = pairs()
    settings = {"window": (1, 0), "max_iter": 12, "max_leaf_nodes": "auto"}
    assert kind(**settings).fit(X, y).max_leaf_nodes_ == LARGE


def test_future_features_do_not_choose():
    with pytest.raises(ValueError, match="max_leaf_nodes"):
        FutureFeatureMEMM(max_leaf_nodes="auto").fit(*singles())


@pytest.mark.parametrize("value", ["all", 1, 2.5])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match="max_leaf_nodes"):
        TreeCRF(max_leaf_nodes=value).fit(*singles())


def test_the_penalty_of_a_choice_does_not_shrink_twice():
    spec = TreeCRF(window=0)._spec()
    large = spec.with_leaves(LARGE)
    assert large.tree_settings.l2_regularization == 5.0
    assert large.with_leaves(LARGE) == large
    assert replace(large, leaves=(LARGE,)) == large


@pytest.mark.parametrize(("most", "expected"), [(60, LARGE), (59, SMALL)])
def test_large_trees_are_not_tried_with_more_values_than_memory_has_room_for(
    most, expected, monkeypatch
):
    X, y = pairs()
    monkeypatch.setattr(engines, "MAX_VALUES_OF_LARGE", most)  # 30 symbols at two offsets
    assert TreeCRF(**ONLY_LEAVES).fit(X, y).max_leaf_nodes_ == expected
