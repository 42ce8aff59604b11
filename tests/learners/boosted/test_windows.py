"""The choice of a window by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from support.echoes import echoes
from support.family import assert_equal_arrays
from support.parts import assert_equal_fits

from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    average,
    load,
)
from treecrf.learners.boosted import selection, windows
from treecrf.learners.boosted.held_out import HeldOutScore, standard_error

FAST = {"max_leaf_nodes": 8, "l2_regularization": 5.0, "max_iter": 15}


def sums(n=40, length=60, seed=0):
    """Labels that are the signs of sums of a number over 21 positions."""
    rng = np.random.RandomState(seed)
    rows = rng.normal(size=(n, length + 20))
    y = [np.convolve(row, np.ones(21), "valid") > 0 for row in rows]
    return [row[10:-10, None] for row in rows], y


def letters(n=30, length=20, seed=0):
    """Labels that follow from the symbol before."""
    rng = np.random.RandomState(seed)
    X = [rng.choice(list("abcd"), size=length).tolist() for _ in range(n)]
    y = [[label in "ab" for label in ["a", *symbols[:-1]]] for symbols in X]
    return X, y


def auto(**settings):
    return TreeCRF(**{**FAST, "window": "auto", "random_state": 0, **settings})


def trials_of(monkeypatch):
    """A list that receives the trials of all windows."""
    trials = []
    tried = windows.tried

    def noted(*arguments):
        trials.append(tried(*arguments))
        return trials[-1]

    monkeypatch.setattr(windows, "tried", noted)
    return trials


@pytest.mark.parametrize(
    ("make", "chosen"),
    [(lambda: echoes(0), 0), (lambda: echoes(1), 1), (echoes, 5), (letters, 1)],
)
def test_the_model_is_that_with_the_chosen_window(make, chosen):
    X, y = make()
    crf = auto().fit(X, y)
    assert crf.window_ == (chosen, chosen)
    fixed = auto(window=chosen).fit(X, y)
    assert fixed.window_ == crf.window_
    assert_equal_arrays(crf._forest.pack(), fixed._forest.pack())
    np.testing.assert_array_equal(crf.validation_score_, fixed.validation_score_)
    for ours, theirs in zip(crf.predict_proba(X), fixed.predict_proba(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("sampling", [None, 0.1])
@pytest.mark.parametrize("n_files", [1, 3])
@pytest.mark.parametrize("distance", [0, 3])
def test_a_window_for_files(distance, n_files, sampling, tmp_path):
    """Files of a single piece are read into memory; several stay where they are, with samples."""
    X, y = echoes(distance)
    tables = [
        pd.DataFrame(table, columns=["a", "b"]).assign(state=labels, number=i)
        for i, (table, labels) in enumerate(zip(X, y, strict=True))
    ]
    paths = [tmp_path / f"{k}.parquet" for k in range(n_files)]
    for k, path in enumerate(paths):
        pd.concat(tables[k::n_files]).to_parquet(path, index=False)
    crf = auto(sampling=sampling).fit(pd.concat(tables), "state", groups="number")
    assert (crf.window_ == (0, 0)) == (distance == 0)
    found = auto(sampling=sampling).fit(paths, "state", groups="number", scratch=tmp_path)
    assert found.window_ == crf.window_
    assert_equal_fits(crf, found)


def test_scores_are_those_of_separate_runs(monkeypatch):
    trials = trials_of(monkeypatch)
    X, y = echoes()
    auto().fit(X, y)
    assert [trial.window[0] for trial in trials] == [0, 1, 2, 5, 10]
    spec_of = TreeCRF._spec
    only_last = mock.patch.object(
        TreeCRF, "_spec", lambda crf: replace(spec_of(crf), starts=spec_of(crf).starts[-1:])
    )
    for trial in trials:
        settings = {"constant_transitions": True, "n_iter_no_change": 40, "calibration": None}
        crf = auto(window=trial.window, max_iter=windows.COMPARED_ITERATIONS, **settings)
        with only_last:
            crf.fit(X, y)
        assert trial.score == crf.validation_score_.max()
    assert trials[-1].score <= trials[-2].score > trials[-3].score


def test_wide_windows_are_tried_as_long_as_scores_rise(monkeypatch):
    trials = trials_of(monkeypatch)
    auto().fit(*echoes(0))
    assert [trial.window[0] for trial in trials] == [0, 1, 2, 5]
    trials.clear()
    assert auto().fit(*sums()).window_[0] >= 5
    assert [trial.window[0] for trial in trials][3:5] == [5, 10]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", [{}, {"scoring": "loss"}, {"order": 0}])
def test_likelihoods_of_sequences_add_up_to_the_score(settings, weighted, monkeypatch):
    trials = trials_of(monkeypatch)
    make_folds = selection.make_folds
    monkeypatch.setattr(selection, "make_folds", lambda *arguments: make_folds(*arguments)[:1])
    X, y = echoes(0, n=20)
    weights = np.random.RandomState(0).randint(1, 4, size=20) / 2 if weighted else None
    with mock.patch.object(windows, "COMPARED_ITERATIONS", 1):
        auto(max_iter=1, **settings).fit(X, y, sample_weight=weights)
    first = trials[0]
    assert first.score == pytest.approx(first.likelihoods.sum() / first.sizes.sum())


def test_metrics_have_no_standard_error(monkeypatch):
    trials = trials_of(monkeypatch)
    crf = auto(scoring="accuracy").fit(*echoes(1))
    assert crf.window_ == (1, 1)
    assert all(trial.likelihoods is None for trial in trials)


def test_standard_errors_of_equal_sizes_are_those_of_means():
    rng = np.random.RandomState(0)
    sums = rng.normal(size=9)
    expected = sums.std(ddof=1) / np.sqrt(9) / 4
    assert standard_error(sums, np.full(9, 4.0)) == pytest.approx(expected)
    sizes = rng.rand(9)
    error = standard_error(sums, sizes)
    order = rng.permutation(9)
    assert standard_error(sums[order], sizes[order]) == error
    assert standard_error(sums[:1], sizes[:1]) == 0.0
    assert standard_error(3 * sizes, sizes) == pytest.approx(0.0, abs=1e-12)


def test_scores_are_as_good_within_a_standard_error():
    def held_out(values, score):
        return HeldOutScore(score, np.array(values), np.ones(len(values)))

    best = held_out([0.0, 0.0, 0.0], 0.0)
    noisy = held_out([-3.0, 3.0, -0.3], -0.1)
    steady = held_out([-0.1, -0.1, -0.1], -0.1)
    assert noisy.is_as_good_as(best)
    assert not steady.is_as_good_as(best)
    for one in (best, noisy, steady):
        assert best.is_as_good_as(one)
    error = standard_error(best.likelihoods - noisy.likelihoods, noisy.sizes)
    for n_errors, expected in ((0.99, False), (1.01, True)):
        assert noisy.is_as_good_as(best, n_errors * 0.1 / error) == expected
    assert not noisy.is_as_good_as(best, 0)


def test_infinite_scores_are_not_as_good_as_finite_ones():
    finite = HeldOutScore(-1.0, np.array([-1.0, -1.0]), np.ones(2))
    infinite = HeldOutScore(-np.inf, np.array([-1.0, -np.inf]), np.ones(2))
    assert finite.is_as_good_as(infinite)
    assert not infinite.is_as_good_as(finite)
    assert infinite.is_as_good_as(infinite)


def test_threads_and_the_order_of_sequences_do_not_matter():
    X, y = echoes(n=24)
    crf = auto().fit(X, y)
    order = np.random.RandomState(1).permutation(len(X))
    shuffled = [X[i] for i in order], [y[i] for i in order]
    for other in (auto(n_jobs=2).fit(X, y), auto().fit(*shuffled)):
        assert other.window_ == crf.window_ == (5, 5)
        assert_equal_arrays(crf._forest.pack(), other._forest.pack())


def test_windows_that_are_alike_are_tried_once(monkeypatch):
    trials = trials_of(monkeypatch)
    X, y = echoes(3, n=60, length=5)
    assert auto().fit(X, y).window_ == (5, 5)
    assert [trial.window[0] for trial in trials] == [0, 1, 2, 5]


@pytest.mark.parametrize(
    "settings", [{"early_stopping": False}, {"warm_start": True}, {"max_iter": 1}]
)
def test_without_a_choice_the_window_is_zero(settings):
    X, y = echoes(1, n=2 if "max_iter" in settings else 20)
    assert auto(**settings).fit(X, y).window_ == (0, 0)


def test_attributes_have_no_window():
    X, y = echoes(1)
    named = [[{"x": row[0]} for row in table] for table in X]
    for sequences in (named, [sparse.csr_array(table) for table in X]):
        assert auto().fit(sequences, y).window_ == (0, 0)


@pytest.mark.parametrize("early_stopping", ["auto", True])
def test_validation_data_leave_the_window_to_the_folds(early_stopping):
    X, y = echoes(1, n=40)
    crf = auto(early_stopping=early_stopping).fit(X[:30], y[:30], X[30:], y[30:])
    assert crf.window_ == (1, 1)


def test_a_sample_of_many_positions_chooses(monkeypatch):
    monkeypatch.setattr(selection, "MAX_POSITIONS", 300)
    assert auto().fit(*echoes(1)).window_ == (1, 1)


@pytest.mark.parametrize(
    "kind", [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
)
def test_local_models_choose_windows(kind):
    X, y = echoes(1)
    assert kind(**FAST, window="auto", early_stopping="auto").fit(X, y).window_ == (1, 1)


def test_windows_of_models_are_in_reading_direction():
    X, y = echoes(1)
    model = RecurrentSlidingWindowClassifier(
        window=(2, 0), direction="right-to-left", max_iter=2
    ).fit(X, y)
    assert model.window_ == (2, 0)


def test_a_warm_start_keeps_the_window(tmp_path):
    X, y = echoes(1)
    crf = auto(max_iter=3).fit(X, y)
    crf.save(tmp_path / "model")
    for model in crf, load(tmp_path / "model"):
        assert model.window == "auto"
        assert model.window_ == (1, 1)
        model.set_params(warm_start=True, max_iter=model.n_iter_ + 2).fit(X, y)
        assert model.window_ == (1, 1)
        model.set_params(window=2)
        with pytest.raises(ValueError, match=r"window=\(1, 1\), which cannot change to \(2, 2\)"):
            model.fit(X, y)


def test_streams_wait_for_the_chosen_window():
    X, y = echoes(1)
    crf = auto().fit(X, y)
    stream = crf.stream()
    assert stream.delay == 1
    assert stream.push(X[0][0]) is None
    assert stream.push(X[0][1]) is not None


@pytest.mark.parametrize("model", [FutureFeatureMEMM(window="auto"), LinearCRF(window="auto")])
def test_models_without_a_choice_of_windows_say_so(model):
    with pytest.raises(ValueError, match=r"The 'window' parameter .* Got 'auto' instead"):
        model.fit(*echoes())


def test_other_words_are_no_windows():
    with pytest.raises(ValueError, match="The 'window' parameter of TreeCRF must be a str among"):
        TreeCRF(window="wide").fit(*echoes())


def test_models_with_different_windows_have_no_average():
    X, y = echoes(1, n=20)
    models = [auto(window=window, max_iter=2).fit(X, y) for window in (0, 1)]
    with pytest.raises(ValueError, match="models 0 and 1 differ in window"):
        average(models)


def test_validation_data_leave_the_window_to_the_folds_if_it_is_the_only_choice():
    X, y = echoes()
    settings = {"init": "zero", "constant_transitions": False}
    crf = auto(**settings).fit(X[:20], y[:20], X[20:], y[20:])
    assert crf.window_ >= (5, 5)
    assert len(crf.validation_score_) > 1


def test_scores_that_are_all_infinite_choose_the_smallest_window():
    crf = auto(scoring=lambda y_true, y_pred: -np.inf, max_iter=2).fit(*echoes(1))
    assert crf.window_ == (0, 0)
