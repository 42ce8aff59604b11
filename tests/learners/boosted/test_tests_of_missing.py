"""Trees test whether a value is missing, where this means something."""

import numpy as np
import pytest
from scipy import sparse

import treecrf
from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.encoding.column_layout import MISSING
from treecrf.inspection import contributions, export_text, partial_dependence

MODELS = [SlidingWindowClassifier, RecurrentSlidingWindowClassifier, TreeMEMM, TreeCRF]


def labels_of(rng, n=40, length=30):
    return [np.cumsum(rng.random(length) < 0.2) % 2 for _ in range(n)]


def numbers_with_gaps(rng, rate_of_label=0.6):
    """Numbers that mean nothing; they are missing more often with the second label."""
    y = labels_of(rng)
    X = [rng.normal(size=(len(labels), 2)) for labels in y]
    for x, labels in zip(X, y, strict=True):
        x[rng.random(x.shape) < 0.2 + rate_of_label * labels[:, None]] = np.nan
    return X, y


def make(model, **others):
    start = {"init": "zero"} if model is TreeCRF else {}
    return model(window=1, max_iter=20, early_stopping=False, **start, **others)


def n_tests_of_missing(model):
    packed = model._forest.pack()
    inner = (packed["true_child"] >= 0) & (packed["column"] >= 0)
    return int((packed["value"][inner] == MISSING).sum())


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("model", MODELS)
def test_gaps_that_mean_something_are_used(model, missing):
    X, y = numbers_with_gaps(np.random.default_rng(0))
    fitted = make(model, missing=missing).fit(X[:30], y[:30])
    assert fitted.score(X[30:], y[30:]) > 0.8
    assert n_tests_of_missing(fitted) > 0
    without = make(model, missing="weighting-only").fit(X[:30], y[:30])
    assert n_tests_of_missing(without) == 0
    assert without.score(X[30:], y[30:]) < 0.7


def test_random_gaps_are_rarely_tested():
    X, y = numbers_with_gaps(np.random.default_rng(1), rate_of_label=0.0)
    X = [x + labels[:, None] for x, labels in zip(X, y, strict=True)]
    fitted = make(SlidingWindowClassifier).fit(X, y)
    packed = fitted._forest.pack()
    assert n_tests_of_missing(fitted) < 0.1 * (packed["true_child"] >= 0).sum()


FORMS = {
    "constant": lambda gap: [np.where(gap, np.nan, 1.0)[:, None]],
    "category": lambda gap: [[None if missing else "a" for missing in gap]],
    "dicts": lambda gap: [[{"x": None} if missing else {} for missing in gap]],
    "booleans": lambda gap: [[{"x": None if missing else True} for missing in gap]],
    "sparse": lambda gap: [sparse.csr_array(np.where(gap, np.nan, 0.0)[:, None])],
    "sparse constant": lambda gap: [sparse.csr_array(np.where(gap, np.nan, 2.0)[:, None])],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_column_may_have_no_other_test(form):
    y = labels_of(np.random.default_rng(0))
    X = [FORMS[form](labels == 1)[0] for labels in y]
    model = make(SlidingWindowClassifier).fit(X, y)
    assert model.score(X, y) == 1.0
    assert n_tests_of_missing(model) > 0


def test_a_column_without_values_has_no_test():
    rng = np.random.default_rng(0)
    y = labels_of(rng)
    X = [np.column_stack([labels, np.full(len(labels), np.nan)]) for labels in y]
    model = make(SlidingWindowClassifier).fit(X, y)
    assert n_tests_of_missing(model) == 0
    assert model.feature_importances_[1] == 0


@pytest.fixture(scope="module")
def tested():
    X, y = numbers_with_gaps(np.random.default_rng(2))
    high = [np.nan_to_num(x[:, 0]) > 0.5 for x in X]
    y = [np.where(turned, 1 - labels, labels) for turned, labels in zip(high, y, strict=True)]
    model = make(TreeCRF, max_leaf_nodes=8).fit(X, y)
    assert n_tests_of_missing(model) > 0
    return model, X


def test_missing_values_contribute_to_their_feature(tested):
    model, X = tested
    found = contributions(model, X)
    lacking = np.isnan(np.concatenate(X)[:, 0])
    names = found.feature_names.tolist()
    assert not any("missing" in name for name in names)
    of_feature = np.concatenate(list(found.values))[..., names.index("x0[0]")]
    assert (of_feature[lacking] != 0).any()


def test_names_say_that_a_value_is_missing(tested):
    model, _ = tested
    texts = [export_text(model, i, 1) for i in range(model.n_iter_)]
    assert any("x0[0] is missing" in text for text in texts)
    assert any(
        "x0[0] is missing" in name for name in treecrf.flatten(model).get_feature_names_out()
    )


@pytest.mark.parametrize("offset", [0, None])
def test_a_given_value_is_not_missing(tested, offset):
    """The averages are those of the filled-in feature."""
    model, X = tested
    given = partial_dependence(model, X[:5], "x0", offset=offset, values=[1.0])
    filled = [np.column_stack([np.full(len(x), 1.0), x[:, 1]]) for x in X[:5]]
    again = partial_dependence(model, filled, "x0", offset=offset, values=[1.0])
    if offset is None:
        np.testing.assert_allclose(given.average, again.average)
    assert np.isfinite(given.average).all()
