"""Callbacks of training: what they receive, what they can change, and checkpoints."""

from __future__ import annotations

import io
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from support.family import BOOSTED, assert_equal_arrays, assert_predicts_the_same, marked, variant
from support.settings import PLAIN
from support.sweeps import pairs

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
)
from treecrf.callbacks import Checkpoint, EarlyStop, LearningRateSchedule, Log

TREES = PLAIN | {"window": (1, 0), "l2_regularization": 1.0, "random_state": 0}
NEWTON = TREES | {"second_order": True}
CHANCE = {"subsample": 0.6, "max_features": 0.7}
SAMPLED = NEWTON | {"sampling": 0.05, "max_examples": 200}
# One variant for each engine.
ENGINES = {
    "exact": TreeCRF(**TREES),
    "Newton steps of order 2": TreeCRF(order=2, **NEWTON),
    "samples": TreeCRF(**SAMPLED),
    "samples of a table": TreeMEMM(**SAMPLED),
    "constant transitions": TreeCRF(constant_transitions=True, **SAMPLED),
    "beam": TreeCRF(order=2, beam_width=2, **TREES),
    "linear start": TreeCRF(init="linear", **TREES),
    "pseudo-likelihood": TreeCRF(init="pseudo_likelihood", **TREES),
    "right to left": BOOSTED["recurrent window, backward"],
    "exponential": TreeCRF(objective="exponential", **TREES),
    "local": TreeMEMM(**TREES),
}
every_engine = pytest.mark.parametrize(
    "name",
    marked(sorted(ENGINES), {"Newton steps of order 2", "samples", "samples of a table", "beam",
                             "linear start", "pseudo-likelihood"}),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:warm start. the model has max_iter=6 iterations already")
@every_engine
def test_a_resumed_run_equals_an_uninterrupted_one(name, letters, tmp_path):
    X, y = letters
    model = clone(ENGINES[name]).set_params(max_iter=6, **CHANCE)
    data = (X, y) if name == "samples" else (X, y, X[:5], y[:5])
    path = tmp_path / "{n_iter}.treecrf"
    whole = clone(model).fit(*data, callbacks=[Checkpoint(path, every=2)])
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{n}.treecrf" for n in (2, 4, 6)]
    without = clone(model).fit(*data)
    assert_predicts_the_same(without, whole, X)
    for n in (2, 6):
        part = treecrf.load(tmp_path / f"{n}.treecrf")
        assert part.n_iter_ == n
        short = model.set_params(max_iter=n).fit(*data)
        assert_equal_arrays(part.predict_proba(X), short.predict_proba(X))
        resumed = part.set_params(warm_start=True).fit(*data)
        assert_predicts_the_same(resumed, whole, X)
        np.testing.assert_array_equal(resumed.train_score_, whole.train_score_)
        np.testing.assert_array_equal(resumed.validation_score_, whole.validation_score_)
        np.testing.assert_array_equal(resumed.feature_importances_, whole.feature_importances_)


@pytest.mark.parametrize(
    ("name", "held_out"),
    pairs(
        product(["exact", "samples", "beam", "local"], [True, False]),
        lambda name, held_out: held_out == (name in ("samples", "local")),
    ),
)
def test_early_stopping_goes_on_where_it_was(name, held_out, noisy, tmp_path):
    X, y = noisy
    data = (X, y) if held_out else (X[:20], y[:20], X[20:], y[20:])
    model = clone(ENGINES[name]).set_params(
        max_iter=60, early_stopping=True, n_iter_no_change=4, validation_fraction=0.3, window=0
    )
    path = tmp_path / "{n_iter}.treecrf"
    seen = []
    whole = model.fit(*data, callbacks=[Checkpoint(path), lambda info: seen.append(info.n_iter)])
    assert whole.n_iter_ < seen[-1] < 60
    for n in {1, max(1, whole.n_iter_ - 1), max(1, whole.n_iter_), seen[-1] - 1, seen[-1]}:
        part = treecrf.load(tmp_path / f"{n}.treecrf").set_params(warm_start=True)
        done = []
        part.fit(*data, callbacks=[lambda info, done=done: done.append(info.n_iter)])
        assert done == list(range(n + 1, seen[-1] + 1))
        assert_predicts_the_same(part, whole, X)
        np.testing.assert_array_equal(part.validation_score_, whole.validation_score_)
        np.testing.assert_array_equal(part.train_score_, whole.train_score_)


def test_other_validation_data_start_early_stopping_again(noisy):
    X, y = noisy
    settings = TREES | {"max_iter": 60, "early_stopping": True, "n_iter_no_change": 4}
    first = TreeCRF(**settings).fit(X[:20], y[:20], X[20:25], y[20:25])
    n_iter, before = first.n_iter_, first.validation_score_
    again = first.set_params(warm_start=True).fit(X[:20], y[:20], X[25:], y[25:])
    assert again.n_iter_ >= n_iter
    np.testing.assert_array_equal(again.validation_score_[:n_iter], before[:-1])


def test_scores_without_validation_data_are_nan_before_a_warm_start(noisy):
    X, y = noisy
    crf = TreeCRF(max_iter=3, warm_start=True, **TREES).fit(X, y)
    crf.set_params(max_iter=5).fit(X, y, X[:5], y[:5])
    assert np.isnan(crf.validation_score_).tolist() == [True] * 3 + [False] * 3
    crf.set_params(max_iter=40, early_stopping=True, n_iter_no_change=3)
    crf.fit(X, y, X[:5], y[:5])
    assert crf.n_iter_ == 3 + int(np.argmax(crf.validation_score_[3:]))


@every_engine
def test_information_about_an_iteration(name, letters):
    X, y = letters
    seen = []

    def record(info):
        seen.append((info.n_iter, info.train_scores, info.validation_scores, info.model()))

    def start(info):
        seen.append((info.n_iter, info.train_scores, info.validation_scores, None))

    record.start = start
    model = clone(ENGINES[name]).set_params(max_iter=3)
    model.fit(X, y, X[:5], y[:5], callbacks=[record])
    assert [n for n, *_ in seen] == [0, 1, 2, 3]
    for n, train, validation, copied in seen:
        assert train == model.train_score_[:n].tolist()
        assert validation == model.validation_score_[: n + 1].tolist()
        if n:
            short = clone(model).set_params(max_iter=n).fit(X, y, X[:5], y[:5])
            assert_equal_arrays(copied.predict_proba(X), short.predict_proba(X))
            np.testing.assert_array_equal(copied.train_score_, short.train_score_)
            assert copied.n_iter_ == n


def test_a_callback_stops_training(letters):
    seen = []
    crf = TreeCRF(max_iter=9, **TREES).fit(
        *letters, callbacks=[lambda info: info.n_iter == 2, lambda info: seen.append(info.n_iter)]
    )
    assert crf.n_iter_ == 2
    assert seen == [1, 2]
    # Only True stops.
    crf = TreeCRF(max_iter=4, **TREES).fit(*letters, callbacks=[lambda info: [1], lambda info: 1])
    assert crf.n_iter_ == 4


def test_a_callback_stops_training_before_the_number_of_iterations_that_was_chosen(tmp_path):
    """Scores of the folds exist for all iterations until the chosen one."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 2)) for _ in range(30)]
    y = [(x[:, 0] * x[:, 1] > 0).astype(int) for x in X]
    whole = TreeCRF(max_iter=20).fit(X, y)
    stopped = TreeCRF(max_iter=20).fit(X, y, callbacks=[lambda info: info.n_iter >= 3])
    assert stopped.n_iter_ == 3 < whole.n_iter_
    np.testing.assert_array_equal(stopped.validation_score_, whole.validation_score_[:4])
    stopped.save(tmp_path / "model")
    assert_predicts_the_same(treecrf.load(tmp_path / "model"), stopped, X)


@pytest.mark.parametrize("where", ["start", "call"])
def test_an_error_in_a_callback_leaves_the_model_unchanged(where, letters):
    class Failing:
        def start(self, info):
            if where == "start":
                raise ArithmeticError("no")

        def __call__(self, info):
            if info.n_iter == 2:
                raise ArithmeticError("no")

    crf = TreeCRF(max_iter=2, **TREES).fit(*letters)
    before = vars(crf).copy()
    with pytest.raises(ArithmeticError):
        crf.fit(*letters, callbacks=[Failing()])
    assert vars(crf) == before


@every_engine
def test_learning_rate_schedule(name, letters):
    X, y = letters
    constant = clone(ENGINES[name]).set_params(max_iter=4, learning_rate=0.1)
    if isinstance(constant, TreeCRF):  # By default, the curvature depends on the first rate.
        constant.set_params(curvature="bound")
    expected = clone(constant).fit(X, y)
    always = LearningRateSchedule(lambda iteration: 0.1)
    same = clone(constant).set_params(learning_rate=1.0).fit(X, y, callbacks=[always])
    assert_predicts_the_same(same, expected, X)
    # A schedule continues after a warm start.
    falling = LearningRateSchedule(lambda iteration: 0.5 / (1 + iteration))
    whole = clone(constant).fit(X, y, callbacks=[falling])
    parts = clone(constant).set_params(max_iter=2, warm_start=True).fit(X, y, callbacks=[falling])
    parts.set_params(max_iter=4).fit(X, y, callbacks=[falling])
    assert_predicts_the_same(parts, whole, X)
    assert not np.array_equal(whole.predict_proba(X)[0], expected.predict_proba(X)[0])


@pytest.mark.parametrize("rate", [0, -1, 1.1e6, 10**400, np.nan, np.inf, "a", None])
def test_invalid_learning_rates(rate, letters):
    with pytest.raises(ValueError, match="expected a positive number up to 1e"):
        TreeCRF(**TREES).fit(*letters, callbacks=[LearningRateSchedule(lambda iteration: rate)])


def test_early_stop(noisy):
    X, y = noisy
    stop = EarlyStop(4)
    crf = TreeCRF(max_iter=60, **TREES)
    for _ in range(2):  # it may be used again
        crf.fit(X[:20], y[:20], X[20:], y[20:], callbacks=[stop])
        assert crf.n_iter_ == crf.validation_score_.argmax() + 4
    with pytest.raises(ValueError, match="EarlyStop needs validation sequences"):
        crf.fit(X, y, callbacks=[stop])
    target = EarlyStop(1, score=lambda info: -abs(info.n_iter - 5))
    assert crf.fit(X, y, callbacks=[target]).n_iter_ == 6


def test_log(letters, capsys):
    file = io.StringIO()
    X, y = letters
    crf = TreeCRF(max_iter=5, **TREES).fit(X, y, X, y, callbacks=[Log(2, file), Log(every=5)])
    expected = [
        f"TreeCRF: iteration {n} of 5, training {crf.train_score_[n - 1]:.4f}, "
        f"validation {crf.validation_score_[n]:.4f}"
        for n in (2, 4, 5)
    ]
    assert file.getvalue().splitlines() == expected[:2]
    assert capsys.readouterr().err.splitlines() == expected[2:]


def test_a_checkpoint_needs_a_folder(letters, tmp_path):
    seen = []
    with pytest.raises(FileNotFoundError, match=r"the folder .*missing does not exist"):
        TreeCRF(**TREES).fit(
            *letters, callbacks=[Checkpoint(tmp_path / "missing" / "a"), seen.append]
        )
    assert not seen
    for every in (0, 1.5, "a"):
        with pytest.raises(ValueError, match="expected a positive integer"):
            Checkpoint(tmp_path / "a", every=every)


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (print, "callbacks is of type builtin_function_or_method; expected a list of callables"),
        ("abc", "callbacks is of type str; expected a list of callables"),
        ([print, 3], r"callbacks\[1\] is of type int; expected a callable"),
    ],
)
def test_invalid_callbacks(callbacks, message, letters):
    with pytest.raises(TypeError, match=message):
        TreeCRF(**TREES).fit(*letters, callbacks=callbacks)


LINEAR = {
    "L-BFGS": LinearCRF(window=1),
    "L-BFGS with an L1 penalty": LinearCRF(window=1, l1_regularization=0.1),
    "transition features": LinearCRF(transition_features=True),
    "gradient steps": LinearCRF(window=1, solver="sgd", max_iter=5, random_state=0),
    "perceptron": StructuredPerceptron(window=1, max_iter=5, random_state=0),
    "boosted features": SequenceBoostingClassifier(window=1, max_iter=10),
}


@pytest.mark.parametrize("name", LINEAR)
def test_information_about_an_iteration_of_a_linear_model(name, letters):
    X, y = letters
    copies = []
    data = X[5:], y[5:], X[:5], y[:5]
    scores = "train_accuracy_" if name == "perceptron" else "train_score_"
    model = clone(LINEAR[name]).fit(
        *data,
        callbacks=[lambda info: copies.append((info.n_iter, info.validation_scores, info.model()))],
    )
    assert [n for n, *_ in copies] == list(range(1, model.n_iter_ + 1))
    assert_predicts_the_same(copies[-1][2], model, X)
    for n, validation, copied in copies:
        assert copied.n_iter_ == n
        first = 1 if name == "perceptron" else 0
        found = getattr(copied, scores.replace("train", "validation"))
        assert found.tolist() == validation
        assert len(validation) == len(getattr(copied, scores)) == n + 1 - first
        if name != "perceptron":  # a longer run does not change the model
            log_p = copied.predict_log_likelihood(X[:5], y[:5]).sum() / sum(map(len, y[:5]))
            assert validation[-1] == pytest.approx(log_p)
        else:
            accuracy = variant(copied, decoding="viterbi").score(X[:5], y[:5])
            assert validation[-1] == pytest.approx(accuracy)
    last = copies[-1][2]
    np.testing.assert_array_equal(getattr(last, scores), getattr(model, scores))


@pytest.mark.parametrize("name", LINEAR)
def test_callbacks_of_linear_models(name, letters, tmp_path):
    path = tmp_path / "model"
    model = clone(LINEAR[name]).fit(
        *letters, callbacks=[Checkpoint(path, every=2), lambda info: info.n_iter == 3]
    )
    assert model.n_iter_ == 3
    loaded = treecrf.load(path)
    assert loaded.n_iter_ == 2
    if name != "boosted features":
        assert loaded.set_params(warm_start=True).fit(*letters).n_iter_ > 0
    with pytest.raises(ValueError, match=r"learning_rate: .* has none"):
        model.fit(*letters, callbacks=[LearningRateSchedule(lambda iteration: 0.1)])
    if name == "L-BFGS":
        whole = clone(LINEAR[name]).fit(*letters)
        assert loaded.loss_ == pytest.approx(whole.loss_, rel=1e-4)


@pytest.mark.parametrize(
    "model", [StructuredSVM(), FutureFeatureMEMM(), SlidingWindowClassifier(clone(LinearCRF()))]
)
def test_models_without_callbacks_refuse_them(model, letters):
    with pytest.raises(ValueError, match="callbacks"):
        model.fit(*letters, callbacks=[Log()])
    assert not hasattr(model, "classes_")


def test_no_callbacks_are_allowed_everywhere(letters):
    assert StructuredSVM().fit(*letters, callbacks=[]).classes_.tolist() == ["x", "y", "z"]
