"""Choices by cross-validation: the number of iterations, and what training starts from."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from support.family import assert_equal_arrays
from support.training import prepared

from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    load,
)
from treecrf.chains.transitions import as_transitions
from treecrf.datasets import make_future_bags
from treecrf.learners.base import folds
from treecrf.learners.base.folds import N_FOLDS, in_blocks, make_folds
from treecrf.learners.base.history import Stopping
from treecrf.learners.boosted import race, selection, training
from treecrf.learners.boosted.race import Candidate
from treecrf.learners.boosted.starts import FRACTION, TRANSITIONS, WHOLE

FAST = {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.3, "max_leaf_nodes": 8}


def sensors(n=24, length=15, seed=0):
    """Sequences of two labels that persist, and two noisy numbers whose means add up."""
    rng = np.random.RandomState(seed)
    y = [(rng.randint(2) + np.cumsum(rng.rand(length) < 0.2)) % 2 for _ in range(n)]
    X = [labels[:, None] * [1.0, -0.7] + rng.normal(size=(length, 2)) for labels in y]
    return X, y


def products(n=40, length=15, seed=0):
    """Two labels that depend on the sign of a product of two numbers."""
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(length, 2)) for _ in range(n)]
    return X, [(table[:, 0] * table[:, 1] > 0).astype(int) for table in X]


def persons(n=12, length=25, seed=3):
    """Two labels that persist; one scales a number, and eight numbers differ between sequences."""
    rng = np.random.RandomState(seed)
    y = [(rng.randint(2) + np.cumsum(rng.rand(length) < 0.2)) % 2 for _ in range(n)]
    X = []
    for labels in y:
        levels = 3 * rng.normal(size=(1, 8))
        scaled = rng.normal(size=length) * (1 + 3 * labels)
        X.append(np.column_stack([scaled, levels + 0.2 * rng.normal(size=(length, 8))]))
    return X, y


def auto(**settings):
    values = {**FAST, "max_iter": 25, "early_stopping": "auto", "init": "auto", "window": 0}
    values |= {"constant_transitions": False, **settings}
    return TreeCRF(**values, random_state=0)


def contents(data):
    sequences, ends = data.sequences, data.sequences.offsets[1:-1]
    labels = np.split(data.codes, ends)
    rows = np.split(sequences.rows(0, sequences.n_sequences), ends)
    return [(row.tobytes(), codes.tobytes()) for row, codes in zip(rows, labels, strict=True)]


def test_folds_hold_out_different_sequences():
    X, y = sensors(n=25)
    data = prepared(auto(), X, y)
    parts = make_folds(data)
    assert len(parts) == 2
    held_out = [one for part in parts for one in contents(part.held_out)]
    assert len(set(held_out)) == 2 * 25 // N_FOLDS
    for part in parts:
        both = contents(part.training) + contents(part.held_out)
        assert sorted(both) == sorted(contents(data.training))
        assert len(contents(part.held_out)) == 25 // N_FOLDS


@pytest.mark.parametrize(
    "n_positions, n_held_out",
    [(500, 100), (7_500, 1_500), (15_000, 3_000), (50_000, 3_000), (100_000, 5_000)],
)
def test_many_positions_are_held_out_once(n_positions, n_held_out, monkeypatch):
    monkeypatch.setattr(folds, "HELD_OUT_POSITIONS", 300)
    monkeypatch.setattr(folds, "ENOUGH_POSITIONS", 60)
    X, y = sensors(n=n_positions // 100, length=10)  # a tenth of all numbers
    parts = make_folds(prepared(auto(), X, y))
    assert len(parts) == (1 if n_held_out >= 600 else N_FOLDS)
    for part in parts:
        assert len(part.held_out.codes) == pytest.approx(n_held_out / 10, abs=10)


def test_little_data_are_held_out_once():
    parts = make_folds(prepared(auto(), *sensors(n=30)))
    assert [len(contents(part.held_out)) for part in parts] == [10]
    parts = make_folds(prepared(auto(), *sensors(n=29)))
    assert [len(contents(part.held_out)) for part in parts] == [6, 6]


@pytest.mark.parametrize("n, n_folds", [(3, 3), (5, 5), (8, 5), (13, 4), (25, 2), (49, 2), (50, 1)])
def test_few_sequences_are_held_out_until_they_are_enough(n, n_folds, monkeypatch):
    monkeypatch.setattr(folds, "ENOUGH_POSITIONS", 60)
    data = prepared(auto(), *sensors(n, length=60))
    monkeypatch.setattr(folds, "in_blocks", lambda training, *_: training)
    parts = make_folds(data)
    assert len(parts) == n_folds
    held_out = [one for part in parts for one in contents(part.held_out)]
    assert len(set(held_out)) == len(held_out) >= min(n, 10)


@pytest.mark.parametrize("n, length", [(1, 60), (5, 12), (6, 15)])
def test_the_least_data_are_all_held_out(n, length):
    parts = make_folds(prepared(auto(), *sensors(n, length)))
    assert len(parts) == N_FOLDS
    assert sum(len(part.held_out.codes) for part in parts) == n * length


@pytest.mark.parametrize("n, length", [(1, 49), (4, 10)])
def test_little_data_have_no_folds_and_get_all_iterations(n, length):
    X, y = sensors(n, length)
    crf = auto(max_iter=7).fit(X, y)
    assert make_folds(prepared(auto(), X, y)) == []
    assert crf.n_iter_ == 7
    assert crf.init_ is None
    assert not len(crf.validation_score_)


@pytest.mark.parametrize("init", ["zero", "linear", "pseudo_likelihood"])
def test_scores_are_the_means_of_separate_fits(init):
    X, y = ([part[: 9 + i % 7] for i, part in enumerate(parts)] for parts in sensors(26))
    crf = auto(init=init, n_iter_no_change=60, calibration=None).fit(X, y)
    parts = make_folds(prepared(crf, X, y))
    of_content = {one: i for i, one in enumerate(contents(prepared(crf, X, y).training))}
    scores, sizes = [], []
    for part in parts:
        indices = [[of_content[one] for one in contents(data)]
                   for data in (part.training, part.held_out)]  # fmt: skip
        arrays = [[part_of[i] for i in chosen] for chosen in indices for part_of in (X, y)]
        plain = clone(crf).set_params(early_stopping=False)
        scores.append(plain.fit(*arrays).validation_score_)
        sizes.append(sum(map(len, arrays[3])))
    mean = np.average(scores, axis=0, weights=sizes)
    n_iter = int(mean.argmax())
    assert crf.n_iter_ == n_iter
    np.testing.assert_allclose(crf.validation_score_, mean[: n_iter + 1], rtol=1e-12)


def test_additive_effects_start_from_a_linear_model():
    X, y = sensors()
    crf = auto().fit(X, y)
    assert crf.init_.l2_regularization == 1.0


def test_interactions_need_trees():
    X, y = products()
    crf = auto(max_iter=60).fit(X, y)
    assert crf.n_iter_ > 10
    X_test, y_test = products(seed=1)
    assert crf.score(X_test, y_test) > LinearCRF().fit(X, y).score(X_test, y_test) + 0.2


def test_much_data_choose_on_a_sample(monkeypatch):
    X, y = products(n=60)
    of_sample = auto().fit(*chosen_sample(X, y, 400)).n_iter_
    assert of_sample > 0
    monkeypatch.setattr(selection, "MAX_POSITIONS", 400)
    sizes = []

    def counted(data, *others):
        sizes.append(data.training.sequences.n_positions)
        return make_folds(data, *others)

    monkeypatch.setattr(selection, "make_folds", counted)
    crf = auto().fit(X, y)
    assert sizes == [390]
    assert crf.init_ is not None
    # More positions tolerate more iterations.
    assert crf.n_iter_ == min(25, round(of_sample * 900 / 390))
    assert not len(crf.validation_score_)


def chosen_sample(X, y, n_positions):
    """The sequences on which `choose` chooses if it may use ``n_positions`` only."""
    training = prepared(auto(), X, y).training
    sampled = training.at_random(n_positions, selection.SEED, N_FOLDS)
    taken = contents(sampled)
    chosen = [i for i, one in enumerate(contents(training)) if one in taken]
    return [X[i] for i in chosen], [y[i] for i in chosen]


def test_validation_data_replace_the_folds():
    X, y = sensors()
    settings = {"init": "zero", "max_iter": 40}
    one = auto(**settings).fit(X[:18], y[:18], X[18:], y[18:])
    other = auto(**settings, early_stopping=True).fit(X[:18], y[:18], X[18:], y[18:])
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)
    assert one.n_iter_ < 40


def test_a_warm_start_keeps_the_start_and_adds_iterations():
    X, y = sensors()
    crf = auto(warm_start=True, max_iter=3).fit(X, y)
    assert crf.n_iter_ == 3
    crf = auto().fit(X, y)
    assert crf.init_ is not None
    n_iter = crf.n_iter_
    crf.set_params(warm_start=True, max_iter=n_iter + 2).fit(X, y)
    assert crf.n_iter_ == n_iter + 2
    assert crf.init_ is not None


@pytest.mark.parametrize("kind", [TreeMEMM, SlidingWindowClassifier])
def test_local_models_choose_the_number_of_iterations(kind):
    X, y = sensors()
    model = kind(**FAST, max_iter=60, early_stopping="auto", random_state=0).fit(X, y)
    assert 0 < model.n_iter_ < 60
    assert len(model.validation_score_) == model.n_iter_ + 1


@pytest.mark.parametrize(
    "settings", [{"order": 0}, {"beam_width": 2, "order": 2}, {"objective": "hamming_log"}]
)
def test_auto_is_zero_where_linear_starts_are_not_supported(settings):
    X, y = sensors()
    settings = {"second_order": False, "l2_regularization": 20.0, "max_iter": 4, **settings}
    assert auto(**settings).fit(X, y).init_ is None


def test_symbols_that_are_all_missing_in_a_fold():
    X = [[None] * 100 for _ in range(6)] + [list("ab") * 50]
    y = [[0, 1] * 50] * 7
    assert auto(max_iter=3).fit(X, y).n_iter_ == 3


def test_scores_may_rise_further_unless_training_is_over():
    stopping = Stopping(n_iter_no_change=10)
    rising = Candidate(None, [], [0.1 * i for i in range(13)])
    assert rising.best_score == pytest.approx(1.2)
    assert rising.possible_score(stopping) == pytest.approx(1.2 + 0.6)
    falling = Candidate(None, [], [0.5, 0.7, 0.6, 0.5])
    assert falling.possible_score(stopping) == falling.best_score == 0.7
    over = Candidate(None, [], [0.0, 0.9, *np.linspace(0.5, 0.8, 10)])
    assert over.possible_score(stopping) == 0.9


def starting_from(*starts):
    """Choose among these starts only."""
    spec_of = TreeCRF._spec
    return mock.patch.object(TreeCRF, "_spec", lambda crf: replace(spec_of(crf), starts=[*starts]))


@pytest.mark.parametrize("make", [sensors, products])
def test_the_best_linear_start_is_that_of_separate_runs(make):
    X, y = make()
    one_by_one = []
    for init in WHOLE, FRACTION:
        with starting_from(init):
            one_by_one.append(auto(max_iter=28).fit(X, y))
    whole, part = one_by_one
    compared = whole.validation_score_[: race.WHOLE_ITERATIONS + 1]
    best = whole if compared.max() >= part.validation_score_.max() else part
    with starting_from(FRACTION, WHOLE):
        crf = auto(max_iter=28).fit(X, y)
    np.testing.assert_array_equal(crf.validation_score_, best.validation_score_)
    np.testing.assert_array_equal(crf.train_score_, best.train_score_)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("make", "is_best"), [(persons, True), (sensors, False)])
def test_transitions_alone_are_a_start_to_choose_from(make, is_best, n_jobs):
    X, y = make()
    with starting_from(FRACTION, WHOLE, TRANSITIONS):
        crf = auto(n_jobs=n_jobs).fit(X, y)
    assert (len(crf.init_.state_weights_) == 0) is is_best
    alone = auto(init="transitions").fit(X, y)
    if is_best:
        assert_equal_arrays(crf.predict_proba(X), alone.predict_proba(X))
        np.testing.assert_array_equal(crf.validation_score_, alone.validation_score_)
    else:
        assert crf.validation_score_.max() > alone.validation_score_.max()


def numbered_engines(monkeypatch):
    """A list that receives the start of each engine that trains on all sequences."""
    starts, make = [], training.make_run

    def make_run(spec, data, start, *arguments):
        starts.append(start)
        return make(spec, data, start, *arguments)

    monkeypatch.setattr(training, "make_run", make_run)
    return starts


@pytest.mark.parametrize(
    ("make", "settings"),
    [(sensors, {}), (sensors, {"sampling": 1.0}), (products, {}), (products, {"max_iter": 3})],
)
def test_training_beside_the_comparison_gives_the_same_model(make, settings):
    X, y = make()
    alone, beside = (auto(**settings, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert beside.n_iter_ == alone.n_iter_
    assert_equal_arrays(beside._forest.pack(), alone._forest.pack())
    np.testing.assert_array_equal(beside.train_score_, alone.train_score_)
    np.testing.assert_array_equal(beside.validation_score_, alone.validation_score_)
    for ours, theirs in zip(beside.predict_proba(X), alone.predict_proba(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_training_begins_again_where_the_guess_was_wrong(monkeypatch):
    starts = numbered_engines(monkeypatch)
    crf = auto(n_jobs=2, calibration=None).fit(*sensors())
    guessed, chosen = (np.abs(start.state_weights_) for start in starts)
    np.testing.assert_array_equal(chosen, np.abs(crf.init_.state_weights_))
    assert guessed.sum() < chosen.sum()


def test_training_goes_on_where_the_guess_was_right(monkeypatch):
    starts = numbered_engines(monkeypatch)
    with starting_from(FRACTION, WHOLE):
        auto(n_jobs=2).fit(*products())
    assert len(starts) == 1


def test_a_model_with_fewer_iterations_than_the_guess_is_cut(monkeypatch):
    for module in race, selection:
        monkeypatch.setattr(module, "COMPARED_ITERATIONS", 24)
    X, y = products()
    rng = np.random.RandomState(0)
    y = [labels ^ (rng.rand(len(labels)) < 0.3) for labels in y]
    alone, beside = (auto(learning_rate=1.0, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert 0 < beside.n_iter_ == alone.n_iter_ < 24
    np.testing.assert_array_equal(beside.train_score_, alone.train_score_)


def test_an_error_of_the_comparison_ends_training(monkeypatch):
    def finish(race, best):
        yield 0
        raise ArithmeticError("no luck")

    monkeypatch.setattr(race.Race, "finish", finish)
    crf = auto(n_jobs=2)
    with pytest.raises(ArithmeticError, match="no luck"):
        crf.fit(*products())
    assert not hasattr(crf, "classes_")


def iterations_of_runs(monkeypatch):
    """A list that receives the number of iterations of each run on a fold."""
    numbers = []

    class Run(race.FoldRun):
        def scores(self, n_iter):
            if not hasattr(self, "index"):
                self.index = len(numbers)
                numbers.append(0)
            numbers[self.index] = n_iter
            return super().scores(n_iter)

    monkeypatch.setattr(race, "FoldRun", Run)
    return numbers


def test_all_of_a_linear_model_is_compared_after_few_iterations(monkeypatch):
    numbers = iterations_of_runs(monkeypatch)
    crf = auto(max_iter=60).fit(*products(n=28))
    whole, *others = np.reshape(numbers, (4, 2))
    assert set(whole) == {race.WHOLE_ITERATIONS}
    assert max(map(min, others)) >= crf.n_iter_


def test_starts_that_cannot_win_are_given_up(monkeypatch):
    numbers = iterations_of_runs(monkeypatch)
    with starting_from(0.01, WHOLE):
        auto(learning_rate=0.01, max_iter=100).fit(*sensors())
    n_folds = len(numbers) // 2
    assert set(numbers[:n_folds]) == {numbers[0]}
    assert numbers[0] > race.WHOLE_ITERATIONS
    assert numbers[n_folds:] == [race.COMPARED_ITERATIONS] * n_folds


# Constant transitions


def switches(n=40, length=15, seed=0):
    """Two labels that persist and differ in the sign of a number, which another one inverts."""
    rng = np.random.RandomState(seed)
    y = [(rng.randint(2) + np.cumsum(rng.rand(length) < 0.2)) % 2 for _ in range(n)]
    X = []
    for labels in y:
        table = rng.normal(size=(length, 8))
        sign = np.where(table[:, 1] > 0, 1.0, -1.0)
        table[:, 0] += 1.5 * sign * (2 * labels - 1)
        X.append(table)
    return X, y


def steps(n=60, length=15, seed=0):
    """Labels of which the second follows from the input and the label before it."""
    rng = np.random.RandomState(seed)
    X = [rng.randint(2, size=(length, 1)).astype(float) for _ in range(n)]
    return X, [np.cumsum(table[:, 0]).astype(int) % 2 for table in X]


def kinds_one_by_one(X, y, **settings):
    """Models with and without constant transitions."""
    return [auto(constant_transitions=each, **settings).fit(X, y) for each in (False, True)]


@pytest.mark.parametrize("init", ["zero", "linear"])
@pytest.mark.parametrize(("make", "is_constant"), [(switches, True), (steps, False)])
def test_the_best_kind_is_that_of_separate_runs(make, is_constant, init):
    X, y = make()
    settings = {"init": init, "max_iter": 12, "n_iter_no_change": 24}
    models = kinds_one_by_one(X, y, **settings)
    best = max(models, key=lambda model: model.validation_score_.max())
    crf = auto(constant_transitions="auto", **settings).fit(X, y)
    assert crf.constant_transitions_ is best.constant_transitions_ is is_constant
    assert (crf._forest.transitions is not None) is is_constant
    np.testing.assert_array_equal(crf.validation_score_, best.validation_score_)
    np.testing.assert_array_equal(crf.train_score_, best.train_score_)
    assert_equal_arrays(crf._forest.pack(), best._forest.pack())


@pytest.mark.parametrize("make", [switches, steps])
def test_threads_choose_the_same_kind(make):
    X, y = make()
    alone, beside = (
        auto(constant_transitions="auto", n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
    )
    assert alone.constant_transitions_ is beside.constant_transitions_
    assert_equal_arrays(beside._forest.pack(), alone._forest.pack())
    np.testing.assert_array_equal(beside.validation_score_, alone.validation_score_)


def test_validation_data_leave_the_kind_to_the_folds():
    X, y = switches(n=60)
    crf = auto(constant_transitions="auto").fit(X[:45], y[:45], X[45:], y[45:])
    assert crf.constant_transitions_
    assert len(crf.validation_score_) > 1


@pytest.mark.parametrize(
    "settings",
    [{"early_stopping": False}, {"order": 0}, {"beam_width": 2}, {"objective": "hamming_log"},
     {"init": "pseudo_likelihood"}, {"warm_start": True}],
)  # fmt: skip
def test_transitions_are_not_constant_where_nothing_is_chosen(settings):
    X, y = switches()
    crf = auto(**{"constant_transitions": "auto", "second_order": "auto", "max_iter": 3} | settings)
    assert not crf.fit(X, y).constant_transitions_


def test_little_data_have_no_constant_transitions():
    X, y = switches(n=3)
    assert not auto(constant_transitions="auto", max_iter=3).fit(X, y).constant_transitions_


@pytest.mark.parametrize(("make", "is_constant"), [(switches, True), (steps, False)])
def test_a_warm_start_keeps_the_kind(make, is_constant, tmp_path):
    X, y = make()
    crf = auto(constant_transitions="auto", max_iter=3).fit(X, y)
    assert crf.constant_transitions_ is is_constant
    crf.save(tmp_path / "model")
    for model in crf, load(tmp_path / "model"):
        assert model.constant_transitions_ is is_constant
        model.set_params(warm_start=True, max_iter=model.n_iter_ + 2, early_stopping=False)
        model.fit(X, y)
        assert model.constant_transitions_ is is_constant
        model.set_params(constant_transitions=not is_constant)
        with pytest.raises(ValueError, match=f"constant_transitions={is_constant}, which cannot"):
            model.fit(X, y)


def test_starts_are_compared_with_constant_transitions(monkeypatch):
    kinds = []

    class Run(race.FoldRun):
        def __init__(self, spec, *arguments):
            kinds.append(spec.kind.constant_transitions)
            super().__init__(spec, *arguments)

    monkeypatch.setattr(race, "FoldRun", Run)
    auto(constant_transitions="auto").fit(*products())
    n_folds = len(kinds) // 5
    assert kinds == [True] * 4 * n_folds + [False] * n_folds


def test_a_candidate_that_catches_up_is_trained_on():
    slow = Candidate(None, [], [0.0, 0.1, 0.2, 0.2, 0.3, 0.5, 0.8])
    fast = Candidate(None, [], [0.0, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9])
    assert slow.lead_over(fast) == pytest.approx(-0.1)
    assert slow.lead_over(fast, 2) == pytest.approx(-0.4)
    assert slow.may_overtake(fast)
    assert not fast.may_overtake(slow)
    late = Candidate(None, [], [0.0, 0.2, 0.3, 0.3, 0.3, 0.3, 0.5])
    assert not late.may_overtake(fast)
    steady = Candidate(None, [], [0.0, 0.2, 0.3, 0.4, 0.4, 0.5, 0.7])
    assert not steady.may_overtake(fast)
    assert steady.may_overtake(fast, n_strides=3)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_steps_show_late_what_trees_learn_about_previous_labels(order):
    X, y = make_future_bags("or", n_sequences=450, random_state=0)
    settings = {"order": order, "second_order": False, "learning_rate": 1.0, "window": 0}
    settings |= {"max_leaf_nodes": 20, "l2_regularization": 10, "max_iter": 60, "random_state": 0}
    crf = TreeCRF(**settings).fit(X[:300], y[:300])
    assert not crf.constant_transitions_
    constant = TreeCRF(**settings, constant_transitions=True).fit(X[:300], y[:300])
    assert crf.score(X[300:], y[300:]) > constant.score(X[300:], y[300:]) + 0.05


def test_the_last_message_tells_the_kind(capsys):
    auto(constant_transitions="auto", init="linear", verbose=1).fit(*switches())
    assert "of trees with constant transitions, added to LinearCRF" in capsys.readouterr().err


def cut_data(data, n_positions, **rules):
    """The blocks of training data, checked against the sequences."""
    blocks = in_blocks(data.training, n_positions, N_FOLDS, **rules)
    assert set(data.training.sequences.offsets) <= set(blocks.sequences.offsets)
    np.testing.assert_array_equal(blocks.codes, data.training.codes)
    return blocks


@pytest.mark.parametrize(
    "lengths, expected",
    [
        ([400], [40] * 10),
        ([1000], [50] * 20),
        ([3000] * 2, [300] * 20),
        ([120] * 5, [120] * 5),  # one in each fold
        ([310, 110, 90], [51, 52, 52, 51, 52, 52, 55, 55, 90]),
        ([99] * 4, [49, 50] * 4),
        ([30_000], [500] * 60),
        ([1000] + [20] * 50, [100] * 10 + [20] * 50),
    ],
)
def test_long_sequences_are_cut_into_blocks(lengths, expected):
    X, y = (
        np.split(part, np.cumsum(lengths)[:-1]) for part in map(np.concatenate, sensors(500, 60))
    )
    X, y = X[: len(lengths)], y[: len(lengths)]
    X[-1], y[-1] = X[-1][: lengths[-1]], y[-1][: lengths[-1]]
    blocks = cut_data(prepared(auto(), X, y), sum(lengths))
    assert np.diff(blocks.sequences.offsets).tolist() == expected


@pytest.mark.parametrize("order", [1, 2])
def test_scores_of_blocks_are_those_of_fits_to_the_blocks(order):
    X, y = sensors(1, 500)
    crf = auto(init="zero", order=order, max_iter=8).fit(X, y)
    assert crf.n_iter_ > 0
    pieces = auto(init="zero", order=order, max_iter=8)
    pieces.fit(np.split(X[0], 10), np.split(y[0], 10))
    np.testing.assert_array_equal(crf.validation_score_, pieces.validation_score_)
    whole = clone(crf).set_params(early_stopping=False, max_iter=crf.n_iter_).fit(X, y)
    np.testing.assert_array_equal(crf.train_score_, whole.train_score_)


def test_blocks_obey_the_rules_of_transitions():
    rng = np.random.RandomState(0)
    y = []
    while len(y) < 600:
        y += ["B"] + ["I"] * rng.randint(60) + ["O"] * rng.randint(3)
    y = y[:600]
    X = [[label if rng.rand() < 0.8 else "?" for label in y]]
    crf = auto(transitions="bio", max_iter=3)
    data = prepared(crf, X, [y])
    rules = as_transitions("bio", data.classes, 1)
    blocks = cut_data(data, 600, rules=rules)
    starts = blocks.sequences.offsets[:-1]
    assert len(starts) > 5
    assert "I" not in data.classes[blocks.codes[starts]]
    assert len(crf.fit(X, [y]).validation_score_)
    # Only the second of two labels may come first.
    with_start = np.array([[1, 1], [1, 1], [0, 1]])
    y = [1] + [0] * 599
    assert len(auto(transitions=with_start, max_iter=3).fit(X, [y]).validation_score_) == 0


def test_rules_of_the_end_hold_for_the_last_labels_of_blocks():
    rng = np.random.RandomState(0)
    y = list("BIE" * 50 + "S" * 100 + "BIIIE" * 50)
    X = [[label if rng.rand() < 0.8 else "?" for label in y]]
    data = prepared(auto(transitions="bioes"), X, [y])
    rules = as_transitions("bioes", data.classes, 1)
    blocks = cut_data(data, 500, rules=rules)
    offsets = blocks.sequences.offsets
    assert len(offsets) == 11
    assert set(data.classes[blocks.codes[offsets[:-1]]]) <= set("BS")
    assert set(data.classes[blocks.codes[offsets[1:] - 1]]) <= set("ES")
    backward = RecurrentSlidingWindowClassifier(
        **FAST, direction="right-to-left", transitions="bioes", max_iter=3, early_stopping="auto"
    )
    assert len(backward.fit(X, [y]).validation_score_)


def test_blocks_keep_what_belongs_to_positions():
    X, y = sensors(1, 500)
    masks = np.ones((500, 2), dtype=bool)
    masks[:, 1] = y[0] == 1
    weights = np.arange(500.0)
    weights[100:150] = 0.0
    unknown = [None if 200 <= t < 300 else label for t, label in enumerate(y[0].tolist())]
    scores = np.random.RandomState(0).normal(size=(500, 2))
    data = prepared(
        auto(init="zero"), X, [unknown], allowed=[masks], sample_weight=[weights],
        init_score=[scores],
    )  # fmt: skip
    blocks = in_blocks(data.training, 500, N_FOLDS)
    kept = np.r_[0:100, 150:200, 300:500]  # blocks with weight and information
    assert blocks.sequences.n_sequences == 7
    np.testing.assert_array_equal(blocks.sequences.rows(0, 7), X[0][kept])
    np.testing.assert_array_equal(blocks.weights, weights[kept])
    np.testing.assert_array_equal(blocks.allowed, masks[kept])
    np.testing.assert_allclose(blocks.sequences.init_scores, scores[kept], atol=1e-6)
    np.testing.assert_array_equal(blocks.codes, y[0][kept])


def test_sequences_without_useful_blocks_remain_whole():
    X, y = sensors(1, 500)
    unknown = [label if t < 100 else None for t, label in enumerate(y[0].tolist())]
    crf = auto(init="zero", max_iter=3)
    weights = [np.where(np.arange(500) < 100, 0.0, 1.0)]
    data = prepared(crf, X, [unknown], sample_weight=weights)
    assert in_blocks(data.training, 500, N_FOLDS) is data.training
    assert crf.fit(X, [unknown], sample_weight=weights).n_iter_ == 3


def test_future_features_do_not_support_auto():
    X, y = sensors()
    with pytest.raises(ValueError, match="early_stopping"):
        FutureFeatureMEMM(early_stopping="auto").fit(X, y)


def test_scores_without_a_finite_value_choose_nothing():
    X, y = sensors()
    crf = auto(scoring=lambda y_true, y_pred: -np.inf, max_iter=3).fit(X, y)
    assert crf.n_iter_ == 3
    assert crf.init_ is None


def hidden_markov(n, seed=0):
    """Sequences of 60 positions of four labels that persist, with Gaussian measurements."""
    rng = np.random.RandomState(seed)
    means = 0.8 * np.random.RandomState(1).normal(size=(4, 3))
    y = [rng.randint(4, size=60) for _ in range(n)]
    for labels in y:
        for t in np.flatnonzero(rng.rand(59) < 0.75) + 1:
            labels[t] = labels[t - 1]
    return [means[labels] + rng.normal(size=(60, 3)) for labels in y], y


@pytest.mark.exhaustive
def test_more_data_do_not_make_the_model_worse():
    """There is no step at 10,000 positions, where the linear model is right."""
    X, y = hidden_markov(260)
    test = hidden_markov(200, seed=1)
    scores = []
    for n in (160, 170, 260):  # 9,600, 10,200 and 15,600 positions
        crf = TreeCRF(window=2).fit(X[:n], y[:n])
        linear = LinearCRF(window=2).fit(X[:n], y[:n])
        scores.append(crf.score(*test))
        assert scores[-1] > linear.score(*test) - 0.01
    assert scores[0] < scores[1] + 0.01 < scores[2] + 0.02
