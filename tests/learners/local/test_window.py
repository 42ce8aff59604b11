"""Window classifiers: rows of the window table, and any estimator that learns from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.multiclass import OutputCodeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from support.family import marked
from threadpoolctl import threadpool_limits

import treecrf.learners.local.rows
from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier
from treecrf.chains.contexts import previous_labels
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import as_sequences
from treecrf.learners.local.rows import WindowTable


def naive_rows(sequences, window, labels, n_labels, order, alphabet=None) -> np.ndarray:
    """Collect the values of each window in a loop over the positions."""
    rows = []
    for sequence, before in zip(sequences, labels, strict=True):
        for t in range(len(sequence)):
            row = []
            for offset in range(-window[0], window[1] + 1):
                inside = 0 <= t + offset < len(sequence)
                n_values = sequence.shape[1] if alphabet is None else len(alphabet)
                values = [0.0] * n_values
                if inside and alphabet is None:
                    values = list(sequence[t + offset])
                elif inside:
                    values = [float(sequence[t + offset] == symbol) for symbol in alphabet]
                row += values + ([float(not inside)] if offset else [])
            for lag in range(1, order + 1):
                label = before[t - lag] if t >= lag else n_labels
                row += [float(label == v) for v in range(n_labels + 1)]
            rows.append(row)
    return np.array(rows, dtype=float)


KINDS = {
    "symbols": lambda t: "".join("abc"[int(v) % 3] for v in t[:, 0]),
    "integers": lambda t: t.astype(int),
    "large integers": lambda t: t.astype(np.int64) + 2**40,
    "floats": lambda t: t * 1e300,
    "booleans": lambda t: t > 0,
    "sparse": sparse.csr_array,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("window", "order"), [((0, 0), 3), ((1, 2), 1), ((3, 0), 0)])
def test_rows_are_those_of_a_naive_loop(kind, window, order, monkeypatch):
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 3, (n, 2)) * 1.0 for n in (4, 1, 7, 2)]
    X = [KINDS[kind](table) for table in tables]
    labels = [rng.integers(0, 3, len(table)) for table in tables]
    sequences = as_sequences(X)
    encoder = Encoder(window).fit(sequences)
    table = WindowTable(encoder, 3)
    given = previous_labels(np.concatenate(labels), sequences.offsets, 3, order)
    rows = table.rows(table.windows(sequences), given)
    alphabet = "abc" if kind == "symbols" else None
    dense = [x.toarray() if sparse.issparse(x) else x for x in X]
    expected = naive_rows(dense, window, labels, 3, order, alphabet)
    assert isinstance(rows, np.ndarray)
    np.testing.assert_array_equal(rows, expected)
    monkeypatch.setattr(treecrf.learners.local.rows, "MAX_DENSE_BYTES", 0)
    large = table.rows(table.windows(sequences), given)
    assert sparse.issparse(large)
    np.testing.assert_array_equal(large.toarray(), expected)


def test_unseen_symbols_have_no_indicator():
    encoder = Encoder((0, 0)).fit(as_sequences(["abc"]))
    windows = WindowTable(encoder, 2).windows(as_sequences(["a?c!"]))
    assert windows.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]


ROOMS = ["attic", None, "bath", "attic", "cellar", "bath"]
HEAT = [1.5, 0.0, None, -2.0, np.nan, 3.0]
OPEN = [True, False, True, None, False, True]


@pytest.mark.parametrize("form", ["lists", "dicts", "frames"])
def test_categories_become_indicators_and_missing_values_stay(form):
    cells = [list(row) for row in zip(HEAT, OPEN, ROOMS, strict=True)]
    if form != "lists":
        cells = [dict(zip(("heat", "open", "room"), row, strict=True)) for row in cells]
    X = [cells[:2], cells[2:]]
    if form == "frames":
        pandas = pytest.importorskip("pandas")
        X = [pandas.DataFrame(part, columns=["heat", "open", "room"]) for part in X]
    sequences = as_sequences(X)
    encoder = Encoder((1, 0)).fit(sequences)
    windows = WindowTable(encoder, 2).windows(sequences).toarray()
    nan = np.nan
    values = np.array([
        [1.5, 1, 1, 0, 0], [0, 0, 0, 0, 0], [nan, 1, 0, 1, 0], [-2, nan, 1, 0, 0],
        [nan, 0, 0, 0, 1], [3, 1, 0, 1, 0],
    ])  # fmt: skip
    outside = [0] * 5 + [1]
    before = [outside if t in (0, 2) else [*values[t - 1], 0] for t in range(6)]
    np.testing.assert_array_equal(windows, np.hstack([before, values]))
    rows = WindowTable(encoder, 2).windows(as_sequences([cells[3:]], encoder.schema))
    np.testing.assert_array_equal(rows.toarray()[1:], windows[4:])


def test_estimators_that_support_missing_values_receive_them():
    X = [np.array([[value] for value in HEAT], dtype=float)] * 8
    model = SlidingWindowClassifier(DecisionTreeClassifier(random_state=0))
    y = ["y" if np.isnan(value) else "x" for (value,) in X[0]]
    assert model.fit(X, [y] * 8).score(X, [y] * 8) == 1
    with pytest.raises(ValueError, match="NaN"):
        SlidingWindowClassifier(LogisticRegression()).fit(X, [y] * 8)


class Sure(ClassifierMixin, BaseEstimator):
    """Always predicts the same label."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.classes_[0])


ESTIMATORS = {
    "logistic regression": LogisticRegression(),
    "network": MLPClassifier((8,), solver="lbfgs", max_iter=30, random_state=0),
    "error-correcting codes": OutputCodeClassifier(
        DecisionTreeClassifier(random_state=0), code_size=3, random_state=0
    ),
    "boosting": HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3),
    "forest": RandomForestClassifier(5, random_state=0),
    "perceptron": Perceptron(random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.fixture
def one_thread():
    """Disable the threads of estimators, which slow down many small predictions."""
    with threadpool_limits(1):
        yield


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize("name", marked(ESTIMATORS, {"error-correcting codes", "pipeline"}))
@pytest.mark.parametrize("kind", ["sliding", "greedy", "beam", "marginal", "right-to-left"])
def test_any_estimator(name, kind, letters, one_thread):
    X, y = letters
    estimator = ESTIMATORS[name]
    if kind == "sliding":
        model = SlidingWindowClassifier(estimator, window=1)
    elif kind == "right-to-left":
        model = RecurrentSlidingWindowClassifier(estimator, window=(0, 1), direction=kind)
    else:
        model = RecurrentSlidingWindowClassifier(estimator, window=1, decoding=kind, order=2)
    model.fit(X, y)
    X, y = X[:8], y[:8]
    assert model.score(X, y) > 0.5
    assert not hasattr(estimator, "classes_")
    for p in model.predict_proba(X):
        np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.isfinite(model.predict_log_likelihood(X, y)).all()
    for labels, known in zip(model.predict(X, known=y), y, strict=True):
        assert "".join(labels) == known


def test_the_estimator_sees_windows_and_true_labels():
    class Recorder(DecisionTreeClassifier):
        def fit(self, X, y):
            self.seen_ = X, y
            return super().fit(X, y)

    X, y = ["abc", "ca"], ["xyx", "yy"]
    codes = [np.array([0, 1, 0]), np.array([1, 1])]
    model = RecurrentSlidingWindowClassifier(Recorder(), window=(1, 0), order=1).fit(X, y)
    rows, labels = model.estimator_.seen_
    np.testing.assert_array_equal(labels, np.concatenate(codes))
    np.testing.assert_array_equal(rows, naive_rows(X, (1, 0), codes, 2, 1, "abc"))
    back = model.set_params(direction="right-to-left").fit(X, y)
    rows, labels = back.estimator_.seen_
    turned = [word[::-1] for word in X], [labels[::-1] for labels in codes]
    np.testing.assert_array_equal(labels, np.concatenate(turned[1]))
    np.testing.assert_array_equal(rows, naive_rows(turned[0], (0, 1), turned[1], 2, 1, "abc"))


def models_without_one(make, X: list, y: list) -> list:
    """Train a model without each of the sequences."""
    return [make().fit(X[:i] + X[i + 1 :], y[:i] + y[i + 1 :]) for i in range(len(X))]


@pytest.mark.parametrize(
    ("direction", "sampling"), [("left-to-right", None), ("right-to-left", 1e-3)]
)
def test_previous_labels_of_trees_are_predicted_by_cross_validation(direction, sampling):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, 8) for _ in range(12)]
    X = [
        np.where(rng.random(8) < 0.5, labels, rng.integers(0, 3, 8))[:, None] * 1.0 for labels in y
    ]
    (X_val, y_val), (X, y) = (X[:3], y[:3]), (X[3:], y[3:])
    settings = {
        "max_iter": 5, "early_stopping": False, "sampling": sampling, "l2_regularization": 1.0,
        "learning_rate": 0.3,
    }  # fmt: skip

    def make(cv=None):
        return RecurrentSlidingWindowClassifier(direction=direction, cv=cv, **settings)

    def shown(x, codes):
        # A sliding window with the previous label in the input is the same model.
        before = [3, *codes[:-1]] if direction == "left-to-right" else [*codes[1:], 3]
        return np.hstack([x, np.eye(4)[before]])

    model = make(cv=len(X)).fit(X, y, X_val=X_val, y_val=y_val)
    without = models_without_one(make, X, y)
    own = [shown(x, one.predict([x])[0]) for x, one in zip(X, without, strict=True)]
    same = SlidingWindowClassifier(**settings).fit(own, y)
    np.testing.assert_allclose(model.train_score_, same.train_score_, rtol=1e-9)
    assert not np.allclose(model.train_score_, make().fit(X, y).train_score_)
    # One of the folds, which depends on the data, predicts the validation sequences.
    scores = [
        same.predict_log_likelihood(list(map(shown, X_val, one.predict(X_val))), y_val).mean() / 8
        for one in without
    ]
    assert np.isclose(model.validation_score_[-1], scores, rtol=1e-9).any()


def test_previous_labels_of_an_estimator_are_predicted_by_cross_validation(letters):
    class Recorder(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            self.seen_ = X, y, sample_weight
            return super().fit(X, y, sample_weight)

    X, y = (items[:6] for items in letters)

    def make(cv=None):
        return RecurrentSlidingWindowClassifier(Recorder(random_state=0), window=1, cv=cv)

    codes = [np.array(["xyz".index(label) for label in labels]) for labels in y]
    previous = [
        ["xyz".index(label) for label in model.predict([x])[0]]
        for model, x in zip(models_without_one(make, X, y), X, strict=True)
    ]
    assert any(list(own) != found for own, found in zip(codes, previous, strict=True))
    weights = [np.arange(1.0, len(x) + 1) for x in X]
    rows, labels, _ = make(cv=len(X)).fit(X, y).estimator_.seen_
    np.testing.assert_array_equal(rows, naive_rows(X, (1, 1), previous, 3, 1, "abcd"))
    np.testing.assert_array_equal(labels, np.concatenate(codes))
    weighted = make(cv=3).fit(X, y, sample_weight=weights).estimator_.seen_[2]
    np.testing.assert_array_equal(weighted, np.concatenate(weights))


def test_folds_of_previous_labels_depend_on_the_sequences_alone(letters):
    X, y = letters
    model = RecurrentSlidingWindowClassifier(window=1, max_iter=5, cv=3, random_state=0)
    p = model.fit(X, y).predict_proba(X)
    for found, expected in zip(model.fit(X[::-1], y[::-1]).predict_proba(X), p, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_folds_that_are_impossible_are_rejected(letters):
    X, y = letters
    model = RecurrentSlidingWindowClassifier(cv=len(X) + 1)
    message = "cv=25; expected at most 24, one for each sequence"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    with pytest.raises(ValueError, match="cv cannot be used with transitions"):
        model.set_params(cv=3, transitions=np.ones((3, 3), dtype=bool)).fit(X, y)
    message = "training without fold . of 2: the label '.' occurs at no position"
    model = RecurrentSlidingWindowClassifier(DecisionTreeClassifier(), cv=2)
    with pytest.raises(ValueError, match=message):
        model.fit(["ab", "ac"], ["xy", "xz"])
    with pytest.raises(ValueError, match="'cv' parameter"):
        model.set_params(cv=1).fit(X, y)


def test_greedy_follows_its_own_labels(letters):
    X, y = letters
    tree = DecisionTreeClassifier(max_depth=5, random_state=0)
    model = RecurrentSlidingWindowClassifier(tree, window=1, order=2).fit(X, y)
    for word, found in zip(X[:8], model.predict(X[:8]), strict=True):
        labels = []
        for t in range(len(word)):
            rows = naive_rows([word], (1, 1), [[*labels, *[0] * len(word)]], 3, 2, "abcd")
            labels.append(int(model.estimator_.predict_proba(rows[t : t + 1]).argmax()))
        assert found.tolist() == model.classes_[labels].tolist()


def test_labels_that_an_estimator_never_predicts(letters):
    X, y = letters
    for model in (
        SlidingWindowClassifier(Sure()),
        RecurrentSlidingWindowClassifier(Sure(), decoding="viterbi"),
    ):
        model.fit(X, y)
        assert set(np.concatenate(model.predict(X))) == {"x"}
        proba = np.concatenate(model.predict_proba(X))
        np.testing.assert_allclose(proba, np.eye(3)[np.zeros(len(proba), dtype=int)], atol=1e-9)
        log_p = model.predict_log_likelihood(["ab"], ["yz"])
        assert log_p == pytest.approx(2 * np.log(1e-12))
        assert model.predict(["ab"], known=[["z", None]])[0].tolist() == ["z", "x"]


def test_a_sliding_window_has_no_search_and_no_transitions():
    parameters = SlidingWindowClassifier().get_params()
    assert not {"order", "transitions", "beam_width", "direction"} & parameters.keys()
    with pytest.raises(ValueError, match="'decoding' parameter"):
        SlidingWindowClassifier(decoding="viterbi").fit(["ab"], ["xy"])


def test_contexts_too_large_for_memory_are_rejected(letters):
    X, y = letters
    model = RecurrentSlidingWindowClassifier(
        DecisionTreeClassifier(max_depth=3), order=30, decoding="viterbi"
    ).fit(X, y)
    with pytest.raises(ValueError, match=r"order=30 with 3 labels .* decoding='greedy' or 'beam'"):
        model.predict(X)
    assert model.set_params(decoding="greedy").score(X, y) > 0.5
