"""The penalty of squared weights, chosen on folds."""

from __future__ import annotations

import numpy as np
import pytest
from support.training import prepared

from treecrf import LinearCRF, TreeCRF, load
from treecrf.learners.base.folds import make_folds
from treecrf.learners.linear import penalty
from treecrf.learners.linear.penalty import best_penalty


def words(n=60, length=12, n_words=80, seed=0):
    """Rare words, each with a label that it has nine times in ten: a weak penalty is better."""
    rng = np.random.default_rng(seed)
    X = [[f"w{k}" for k in (rng.pareto(1, length) * 5).astype(int) % n_words] for _ in range(n)]
    return X, [[str((int(word[1:]) + (rng.random() < 0.1)) % 3) for word in x] for x in X]


def noise(n=30, length=10, seed=0):
    """Numbers that say nothing about the labels: a strong penalty is better."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 20)) for _ in range(n)]
    return X, [rng.integers(0, 2, length) for _ in range(n)]


class FoldOfTable:
    """A fold whose scores stand in a table."""

    def __init__(self, scores, n_held_out=1):
        self.scores = scores
        self.n_held_out = n_held_out
        self.tried = []

    def scored(self, value):
        self.tried.append(round(np.log10(value)))
        return self.scores[self.tried[-1]]


@pytest.mark.parametrize(
    ("scores", "best", "tried"),
    [
        ({0: 1, -1: 2, -2: 3, -3: 2}, 0.01, [0, -1, -2, -3]),
        ({0: 2, -1: 1, 1: 1}, 1.0, [0, -1, 1]),
        ({0: 1, -1: 1, 1: 3, 2: 2}, 10.0, [0, -1, 1, 2]),
        ({k: -k for k in range(-9, 9)}, 1e-4, [0, -1, -2, -3, -4]),
        ({k: k for k in range(-9, 9)}, 1e3, [0, -1, 1, 2, 3]),
        ({0: -np.inf, -1: -np.inf, 1: -np.inf}, 1.0, [0, -1, 1]),
        ({0: np.nan, -1: np.nan, 1: np.nan}, 1.0, [0, -1, 1]),
    ],
)
def test_penalties_are_tried_as_long_as_scores_rise(scores, best, tried):
    fold = FoldOfTable(scores)
    assert best_penalty([fold]) == pytest.approx(best)
    assert fold.tried == tried


def test_folds_count_by_their_positions():
    for_weak = {0: 0.0, -1: 1.0, -2: 0.0, 1: 0.0}
    for_strong = {0: 0.0, -1: -1.0, -2: 0.0, 1: 1.0, 2: 0.0}
    assert best_penalty([FoldOfTable(for_weak, 5), FoldOfTable(for_strong, 2)]) == 0.1


def test_without_folds_the_penalty_is_1():
    assert best_penalty([]) == 1.0
    crf = LinearCRF(l2_regularization="auto").fit(["ab", "ba"], ["xy", "yx"])
    assert crf.l2_regularization_ == 1.0


@pytest.mark.parametrize("settings", [{}, {"l1_regularization": 0.1}, {"objective": "hamming_log"}])
@pytest.mark.parametrize(("make", "side"), [(words, "weak"), (noise, "strong")])
def test_the_best_penalty_of_separate_fits_is_chosen(make, side, settings, monkeypatch):
    """Fits to the training sequences of each fold, to the optimum."""
    monkeypatch.setattr("treecrf.learners.linear.crf.TOLERANCE", 0.0)
    X, y = make()
    crf = LinearCRF(l2_regularization="auto", tol=1e-9, **settings).fit(X, y)
    folds = make_folds(prepared(TreeCRF(), X, y))
    assert folds

    def score(value):
        scores = [held_out_score(fold, value, settings) for fold in folds]
        return np.average(scores, weights=[len(fold.held_out.codes) for fold in folds])

    chosen = crf.l2_regularization_
    assert chosen < 1 if side == "weak" else chosen > 1
    assert score(chosen) > max(score(chosen * 10), score(chosen / 10))


def held_out_score(fold, value, settings):
    """The objective of the held-out sequences of a fold, after a fit to the others."""
    parts = [as_lists(data) for data in (fold.training, fold.held_out)]
    crf = LinearCRF(l2_regularization=value, tol=1e-9, **settings)
    crf.fit(*parts[0], X_val=parts[1][0], y_val=parts[1][1])
    return crf.validation_score_[-1]


def as_lists(data):
    """Sequences and labels, as `fit` takes them."""
    ends = data.sequences.offsets[1:-1]
    rows = np.split(data.sequences.rows(0, data.sequences.n_sequences), ends)
    return rows, np.split(data.codes, ends)


@pytest.mark.parametrize("make", [words, noise])
def test_the_model_is_that_of_the_chosen_penalty(make):
    X, y = make()
    crf = LinearCRF(l2_regularization="auto").fit(X, y)
    same = LinearCRF(l2_regularization=crf.l2_regularization_).fit(X, y)
    assert crf.l2_regularization == "auto"
    assert crf.loss_ == same.loss_
    np.testing.assert_array_equal(crf.state_weights_, same.state_weights_)


def test_neither_the_order_nor_threads_matter():
    X, y = words()
    crf = LinearCRF(l2_regularization="auto", n_jobs=2).fit(X[::-1], y[::-1])
    assert (
        crf.l2_regularization_ == LinearCRF(l2_regularization="auto").fit(X, y).l2_regularization_
    )


def test_much_data_choose_on_a_sample(monkeypatch):
    X, y = words()
    monkeypatch.setattr(penalty, "MAX_POSITIONS", 200)
    sizes = []

    def counted(data, rules):
        sizes.append(data.training.n_positions)
        return make_folds(data, rules)

    monkeypatch.setattr(penalty, "make_folds", counted)
    assert LinearCRF(l2_regularization="auto").fit(X, y).l2_regularization_ < 1
    assert 150 < sizes[0] < 300


def test_the_stochastic_solver_chooses_as_well():
    X, y = words()
    crf = LinearCRF(l2_regularization="auto", solver="sgd", max_iter=10, random_state=0).fit(X, y)
    assert crf.l2_regularization_ < 1


def test_the_choice_is_by_the_scoring(monkeypatch):
    """Here, a label is right or wrong whatever the penalty, but its probability is not."""
    X = ["ab" * 10] * 20
    y = ["xy" * 10] * 20
    by_accuracy = LinearCRF(l2_regularization="auto", scoring="accuracy").fit(X, y)
    by_loss = LinearCRF(l2_regularization="auto").fit(X, y)
    assert by_accuracy.l2_regularization_ == 1.0
    assert by_loss.l2_regularization_ < 1


def test_files_choose_the_same(tmp_path):
    X, y = words()
    path = tmp_path / "words.csv"
    lines = [
        f"{i},{word},{label}" for i in range(len(X)) for word, label in zip(X[i], y[i], strict=True)
    ]
    path.write_text("\n".join(["text,word,label", *lines]))
    crf = LinearCRF(l2_regularization="auto").fit(path, "label", groups="text")
    assert (
        crf.l2_regularization_ == LinearCRF(l2_regularization="auto").fit(X, y).l2_regularization_
    )


def test_a_warm_start_keeps_the_penalty(tmp_path):
    X, y = words()
    crf = LinearCRF(l2_regularization="auto").fit(X, y)
    chosen = crf.l2_regularization_
    crf.save(tmp_path / "model")
    crf = load(tmp_path / "model")
    assert crf.l2_regularization == "auto"
    assert crf.l2_regularization_ == chosen
    assert crf.set_params(warm_start=True).fit(*noise_of_words()).l2_regularization_ == chosen


def noise_of_words():
    """The words with labels at random."""
    X, y = words()
    rng = np.random.default_rng(0)
    return X, [rng.permutation(labels).tolist() for labels in y]


def test_callbacks_see_the_penalty():
    X, y = words()
    seen = []
    crf = LinearCRF(l2_regularization="auto").fit(
        X, y, callbacks=[lambda info: seen.append(info.model().l2_regularization_)]
    )
    assert set(seen) == {crf.l2_regularization_}


@pytest.mark.parametrize("value", [-1.0, np.inf, "auto", True, None])
def test_a_damaged_penalty_is_refused(value):
    crf = LinearCRF(l2_regularization="auto").fit(*words())
    values, arrays = crf._state()
    values["l2_regularization"] = value
    with pytest.raises(ValueError, match="invalid penalty"):
        LinearCRF(l2_regularization="auto")._restore(values, {"classes": crf.classes_, **arrays})


def test_trees_start_from_the_chosen_model():
    X, y = words()
    crf = TreeCRF(init=LinearCRF(l2_regularization="auto"), max_iter=2, window=0).fit(X, y)
    assert crf.init_.l2_regularization_ < 1


def test_an_own_start_tells_its_penalty():
    """It grows with the square root of the number of positions beyond 10,000."""
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, 400) for _ in range(100)]
    crf = TreeCRF(init="linear", max_iter=1, early_stopping=False).fit(X, [x % 2 for x in X])
    assert crf.init_.l2_regularization_ == pytest.approx(2.0)


@pytest.mark.parametrize("value", ["best", -0.5, None])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match="l2_regularization"):
        LinearCRF(l2_regularization=value).fit(["ab"], ["xy"])


def test_settings_that_the_solver_lacks_are_refused_at_once():
    crf = LinearCRF(l2_regularization="auto", solver="sgd", l1_regularization=1.0)
    with pytest.raises(ValueError, match=r"l1_regularization=1\.0 requires"):
        crf.fit(*words())
    assert not hasattr(crf, "l2_regularization_")
