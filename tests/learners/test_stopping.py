"""The rules of early stopping, which all learners share."""

import numpy as np
import pytest

from treecrf import LinearCRF, StructuredPerceptron, TreeCRF
from treecrf.learners.base.history import History, Stopping


@pytest.mark.parametrize(
    ("scores", "tol", "is_reached"),
    [
        ([0.0], 0.0, False),
        ([0.0, 1.0, 1.0], 0.0, False),  # the best is one iteration old
        ([0.0, 1.0, 0.5, 1.1], 0.0, False),
        ([0.0, 1.0, 0.5, 1.1], 0.2, True),
        ([-np.inf, -np.inf, -np.inf], 0.0, True),
        ([-np.inf, -np.inf, -5.0], 0.1, False),
    ],
)
def test_training_stops_after_iterations_without_improvement(scores, tol, is_reached):
    assert Stopping(2, tol).is_reached(scores) == is_reached


def test_a_later_history_replaces_the_last_entry():
    whole = History([0.0, 1.0], [0.0, 2.0]).continued_by(History([1.5, 2.0], [2.5, 3.0]).until(0))
    assert whole == History([0.0, 1.5], [0.0, 2.5])


@pytest.mark.parametrize("kind", [LinearCRF, StructuredPerceptron, TreeCRF])
def test_learners_keep_the_first_of_equal_best_iterations(kind):
    # The validation data show the same labels for both symbols, so that nothing improves.
    model = kind(early_stopping=True, n_iter_no_change=2, max_iter=20, random_state=0)
    model.fit(["ab"] * 5 + ["ba"] * 5, ["xy"] * 5 + ["yx"] * 5, ["ab"], ["xy"])
    scores = getattr(model, "validation_score_", getattr(model, "validation_accuracy_", None))
    assert scores.argmax() == len(scores) - 1


@pytest.mark.parametrize(("tol", "n_iter"), [(0.0, 9), (10.0, 2)])
def test_improvements_below_the_tolerance_do_not_count(tol, n_iter, noisy):
    X, y = noisy
    X = [3 * labels[:, None] + table for table, labels in zip(X, y, strict=True)]
    crf = TreeCRF(early_stopping=True, n_iter_no_change=2, tol=tol, max_iter=9, init="zero")
    assert crf.fit(X, y, X, y).n_iter_ == n_iter


def test_the_seed_decides_which_sequences_are_held_out(noisy):
    settings = {"early_stopping": True, "max_iter": 1, "init": "zero"}
    scores = []
    for seed in range(5):
        crf = TreeCRF(**settings, random_state=seed)
        crf.fit(*noisy, callbacks=[lambda info: scores.append(info.validation_scores[-1])])
    assert len(set(scores)) == 5


def test_equal_scores_are_no_improvement():
    """Training ends two iterations after the first that labels everything correctly."""
    numbers = []
    model = TreeCRF(early_stopping=True, n_iter_no_change=2, tol=0.0, max_iter=20, random_state=0)
    X, y = ["ab"] * 5 + ["ba"] * 5, ["xy"] * 5 + ["yx"] * 5
    model.set_params(scoring="accuracy", init="zero", l2_regularization=1.0)
    model.fit(X, y, X[4:6], y[4:6], callbacks=[lambda info: numbers.append(info.n_iter)])
    assert model.validation_score_.tolist() == [0.5, 1.0]
    assert numbers == [1, 2, 3]
