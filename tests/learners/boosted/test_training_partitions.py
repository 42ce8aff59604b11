"""Fits on parts of the data are equal to fits on all at once, array for array."""

import copy
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from support.family import assert_equal_arrays
from support.parts import (
    FORMS,
    assert_equal_fits,
    assert_same_model,
    cut,
    data_of,
    fit_parts_of,
    fit_raw_parts,
    raw_parts,
)
from support.sweeps import pairs

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)
from treecrf.encoding import learned_columns
from treecrf.encoding.encoder import METHODS
from treecrf.inputs.schema import InputSchema
from treecrf.learners.boosted import engines, selection, starts

SMALL = {
    "max_iter": 3,
    "max_leaf_nodes": 5,
    "window": 1,
    "l2_regularization": 1.0,
    "learning_rate": 0.5,
    "second_order": True,
    "early_stopping": False,
    "sampling": 0.1,
    "random_state": 0,
}
ZERO = SMALL | {"init": "zero"}


def assert_same_in_parts(model, X, y, *cuts, **given):
    """Compare the fit to all sequences with fits to parts of them."""
    whole = clone(model).fit(X, y, **given)
    for parts in cuts:
        assert_same_model(fit_parts_of(clone(model), X, y, parts, **given), whole, X)
    return whole


@pytest.mark.parametrize("form", FORMS)
def test_inputs(form):
    X, y = data_of(form)
    cuts = (cut(len(X), *given) for given in ((1, None), (3, 1), (8, 2), (len(X), None)))
    assert_same_in_parts(TreeCRF(**ZERO), X, y, *cuts)


MODELS = {
    "first order": TreeCRF(**ZERO | {"second_order": False}),
    "order 0": TreeCRF(**ZERO | {"order": 0}),
    "order 2": TreeCRF(**ZERO | {"order": 2, "curvature": "diagonal"}),
    "order 0, first order": TreeCRF(
        **ZERO | {"order": 0, "second_order": False, "max_examples": 60}
    ),
    "min_samples_leaf": TreeCRF(**ZERO | {"min_samples_leaf": 5}),
    "max_examples": TreeCRF(**ZERO | {"max_examples": 60}),
    "first order, max_examples": TreeCRF(**ZERO | {"second_order": False, "max_examples": 60}),
    "subsample": TreeCRF(**ZERO | {"subsample": 0.5}),
    "first order, subsample": TreeCRF(**ZERO | {"second_order": False, "subsample": 0.5}),
    "max_features": TreeCRF(**ZERO | {"max_features": 0.5, "max_features_per_tree": 0.7}),
    "balanced": TreeCRF(**ZERO | {"class_weight": "balanced"}),
    "class_weight": TreeCRF(
        **ZERO | {"class_weight": {"x": 3.0, "y": 0.25}, "second_order": False}
    ),
    "constant": TreeCRF(**ZERO | {"constant_transitions": True}),
    "constant, first order": TreeCRF(
        **ZERO | {"constant_transitions": True, "second_order": False, "order": 2, "subsample": 0.7}
    ),
    "linear": TreeCRF(**SMALL | {"init": "linear"}),
    "linear, constant": TreeCRF(**SMALL | {"init": "linear", "constant_transitions": True}),
    "estimator": TreeCRF(**SMALL | {"init": LinearCRF(window=2, tol=0.1)}),
    "held out": TreeCRF(**ZERO | {"early_stopping": True, "validation_fraction": 0.3}),
    "held out, linear": TreeCRF(**SMALL | {"early_stopping": True, "init": "linear"}),
    "wide": TreeCRF(**ZERO | {"window": (30, 20), "max_features": 0.5}),
    "wide, held out": TreeCRF(**ZERO | {"window": 30, "early_stopping": True}),
    "MEMM": TreeMEMM(**SMALL),
    "MEMM, order 2": TreeMEMM(**SMALL | {"order": 2, "class_weight": "balanced"}),
    "MEMM, held out": TreeMEMM(**SMALL | {"early_stopping": True, "subsample": 0.5}),
    "window": SlidingWindowClassifier(**SMALL | {"second_order": False, "max_examples": 60}),
    "window, held out": SlidingWindowClassifier(**SMALL | {"early_stopping": True}),
    "backward": RecurrentSlidingWindowClassifier(**SMALL | {"direction": "right-to-left"}),
}


def cuts_of(name, X):
    """Two cuts; only one is in the given order unless a linear model sums over the sequences."""
    is_linear = MODELS[name].get_params().get("init") not in (None, "zero")
    return cut(len(X), 2), cut(len(X), 5, None if is_linear else 3)


# Each setting has one form of data in the fast tests.
@pytest.mark.parametrize(
    ("name", "form"),
    pairs(
        product(MODELS, ["numbers", "symbols"]),
        lambda name, form: (list(MODELS).index(name) % 2 == 0) == (form == "numbers"),
    ),
)
def test_settings(name, form):
    X, y = data_of(form, seed=1)
    assert_same_in_parts(MODELS[name], X, y, *cuts_of(name, X))


@pytest.mark.parametrize("missing", METHODS)
@pytest.mark.parametrize("second_order", [True, False])
def test_missing_values(missing, second_order):
    """Column 2 is missing in some parts, and the median of numbers is between values."""
    X, y = data_of("numbers", seed=2)
    X = [np.where(i % 3 == 0, [[1, 1, np.nan]], [[1, 1, 1]]) * table for i, table in enumerate(X)]
    settings = ZERO | {"missing": missing, "second_order": second_order, "max_bins": 5}
    assert_same_in_parts(TreeCRF(**settings), X, y, cut(len(X), 7, 4))


WEIGHTED = {
    "sequences": lambda y: [i % 4 * 0.5 for i in range(len(y))],
    "zeros in a part": lambda y: [float(i > 9) for i in range(len(y))],
    "positions": lambda y: [np.arange(1.0, len(labels) + 1) % 3 for labels in y],
    "ones": lambda y: [1.0] * len(y),
}


@pytest.mark.parametrize(
    ("weights", "name"),
    pairs(
        product(WEIGHTED, ["balanced", "first order, subsample", "MEMM, held out", "linear"]),
        lambda weights, name: weights == "positions" or name == "balanced",
    ),
)
def test_weights(weights, name):
    X, y = data_of("dicts", seed=3)
    weights = WEIGHTED[weights](y)
    assert_same_in_parts(MODELS[name], X, y, *cuts_of(name, X), sample_weight=weights)


def hidden(y, seed):
    """Hide labels, all of some sequences, and those of others partly."""
    rng = np.random.default_rng(seed)
    hide = {0: lambda _: None, 1: lambda _: {"x", "y"}, 2: str, 3: str, 4: str}
    return [None if i % 5 == 4 else [hide[rng.integers(0, 5)](label) for label in labels]
            if i % 5 > 1 else list(labels) for i, labels in enumerate(y)]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["balanced", "held out", "order 0", "order 2", "constant", "MEMM, order 2", "linear"]
)
def test_unknown_labels(name):
    X, y = data_of("numbers", seed=4)
    assert_same_in_parts(MODELS[name], X, hidden(y, 5), *cuts_of(name, X), cut(len(X), len(X)))


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scores_of_unknown_labels(scoring):
    X, y = data_of("numbers", seed=4, n=40)
    y = [[label if t == len(labels) - 1 or i % 3 else None for t, label in enumerate(labels)]
         for i, labels in enumerate(y)]  # fmt: skip
    model = TreeCRF(**ZERO | {"scoring": scoring, "early_stopping": True})
    weights = [0.3 + (i % 4) for i in range(len(X))]
    assert_same_in_parts(model, X, y, cut(len(X), 7), sample_weight=weights)


def test_sequences_without_information_are_left_out():
    """Categories that only occur in them are unseen, and no label is unknown in the others."""
    X, y = data_of("pandas")
    y = [None if i > 14 else labels for i, labels in enumerate(y)]
    X[-1] = pd.DataFrame({"word": ["only here"] * len(X[-1]), "number": 0.0})
    for values in (ZERO, ZERO | {"early_stopping": True}):
        model = TreeCRF(**values).fit(X, y)
        assert "only here" not in model._encoder.schema.categories[0]
        for parts in (cut(len(X), 3), cut(len(X), 9, 2)):
            assert_same_model(fit_parts_of(TreeCRF(**values), X, y, parts), model, X[:-1])


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
@pytest.mark.parametrize("scoring", ["loss", "accuracy", "neg_log_loss"])
def test_validation_data(kind, scoring):
    X, y = data_of("polars", seed=5, n=24)
    settings = SMALL | {"early_stopping": True, "n_iter_no_change": 2, "scoring": scoring}
    if kind is TreeCRF:
        settings["init"] = "zero"
    given = {"X_val": X[16:], "y_val": y[16:], "sample_weight_val": [1.0, 2.0] * 5}
    assert_same_in_parts(kind(**settings), X[:16], y[:16], cut(16, 2), cut(16, 6, 3), **given)


@pytest.mark.parametrize("max_positions", [10_000, 60])
def test_automatic_choices(max_positions, monkeypatch):
    """Cross-validation on all sequences or on a sample chooses the start and the iterations."""
    monkeypatch.setattr(selection, "MAX_POSITIONS", max_positions)
    X, y = data_of("numbers", seed=6, n=48)
    model = TreeCRF(**SMALL | {"early_stopping": "auto", "init": "auto", "max_iter": 4})
    whole = assert_same_in_parts(model, X, y, cut(len(X), 2), cut(len(X), 5))
    assert bool(len(whole.validation_score_)) == (max_positions == 10_000)


def test_samples_for_the_start_and_the_thresholds(monkeypatch):
    X, y = data_of("numbers", seed=7, n=40)
    crf = TreeCRF(**SMALL | {"init": "linear", "max_bins": 4, "early_stopping": True})
    whole = clone(crf).fit(X, y)
    monkeypatch.setattr(starts, "MIN_START_POSITIONS", 70)
    monkeypatch.setattr(starts, "POSITIONS_PER_ATTRIBUTE", 1)
    monkeypatch.setattr(learned_columns, "MAX_SAMPLES", 50)
    sampled = assert_same_in_parts(crf, X, y, cut(len(X), 2), cut(len(X), 5))
    assert (sampled.init_.state_weights_ != whole.init_.state_weights_).any()
    thresholds = (model._encoder.columns.thresholds for model in (sampled, whole))
    assert not np.array_equal(*thresholds)


@pytest.mark.parametrize(
    ("n_columns", "n_words", "n_positions"),
    [(20, 0, 100_000), (2_000, 0, 200_000), (3, 4_997, 500_000), (1, 50_000, 1_000_000)],
)
def test_rare_values_need_more_positions(n_columns, n_words, n_positions):
    """The number of positions that a linear start is fitted to follows from the attributes."""
    categories = {0: np.arange(n_words)} if n_words else {}
    schema = InputSchema("table", n_columns, None, np.zeros(n_columns), categories)
    assert starts.start_positions(schema) == n_positions


def test_examples_grow_with_the_data(monkeypatch):
    """Their number follows from the positions of all parts."""
    X, y = data_of("numbers", seed=1)
    monkeypatch.setattr(engines, "EXAMPLES", 60)
    monkeypatch.setattr(engines, "POSITIONS_OF_EXAMPLES", sum(map(len, y)) / 8)
    automatic = assert_same_in_parts(TreeCRF(**ZERO), X, y, cut(len(X), 2), cut(len(X), 5, 3))
    assert_same_model(TreeCRF(**ZERO | {"max_examples": 120}).fit(X, y), automatic, X)


@pytest.mark.parametrize("name", ["first order", "linear", "held out", "MEMM, held out"])
def test_warm_starts(name):
    X, y = data_of("dicts", seed=8)
    first = clone(MODELS[name]).set_params(warm_start=True, max_iter=2).fit(X, y)
    more, again = (copy.copy(first).set_params(max_iter=4) for _ in range(2))
    assert_same_model(fit_parts_of(again, X, y, cuts_of(name, X)[1]), more.fit(X, y), X)


def test_warm_starts_with_longer_sequences_in_a_part():
    X, y = data_of("symbols")
    few = [i for i, labels in enumerate(y) if len(labels) < 4]
    wide = ZERO | {"window": (30, 2), "warm_start": True}
    first = TreeCRF(**wide).fit([X[i] for i in few], [y[i] for i in few])
    assert first._encoder.window == (2, 2)
    first.set_params(max_iter=5)
    found = fit_parts_of(copy.copy(first), X, y, cut(len(X), 4, 2))
    assert found._encoder.window == (max(map(len, y)) - 1, 2)
    assert_same_model(found, first.fit(X, y), X)


@pytest.mark.parametrize("init", ["zero", "linear"])
def test_scores_to_start_from(init):
    X, y = data_of("numbers", seed=9)
    scores = [np.linspace(-1, 1, 3 * len(labels)).reshape(-1, 3) for labels in y]
    settings = SMALL | {"init": init}
    model = TreeCRF(**settings).fit(X, y, init_score=scores)
    found = fit_parts_of(TreeCRF(**settings), X, y, cut(len(X), 4), init_score=scores)
    one, other = (fitted.predict_proba(X, init_score=scores) for fitted in (model, found))
    assert_equal_arrays(one, other)


def test_parts_with_a_single_label_and_a_single_position():
    X, y = data_of("symbols")
    parts = [np.array([0]), np.array([], dtype=int), np.arange(1, len(X))]
    assert_same_in_parts(TreeCRF(**ZERO), ["a", *X[1:]], ["x", *y[1:]], parts)


def test_data_that_are_joined():
    """Without samples, and with other objectives, training needs all data in one place."""
    X, y = data_of("pandas", seed=11)
    for changed in (
        {"sampling": "auto", "early_stopping": True},
        {"objective": "hamming_log"},
        {"init": "pseudo_likelihood"},
        {"sampling": None, "beam_width": 2},
    ):
        settings = ZERO | {"second_order": "objective" not in changed} | changed
        model = TreeCRF(**settings).fit(X, y)
        for parts in (cut(len(X), 1), cut(len(X), 6, 3)):
            found = fit_raw_parts(TreeCRF(**settings), raw_parts(X, y, parts))
            assert_same_model(found, model, X)


@pytest.mark.parametrize("sampling", [0.1, None])
def test_callbacks(sampling):
    X, y = data_of("symbols")
    seen = []

    def stop(info):
        seen.append((info.n_iter, info.model().n_iter_))
        return info.n_iter == 2

    model = fit_raw_parts(
        TreeCRF(**ZERO | {"sampling": sampling}), raw_parts(X, y, cut(len(X), 3)), callbacks=[stop]
    )
    assert seen == [(1, 1), (2, 2)]
    assert model.n_iter_ == 2


def test_doubtful_columns():
    """Columns are judged by all parts: each single one has few dates."""
    days = [pd.DataFrame({"day": [f"2024-01-{i:02}"] * 2, "x": [1.0, 2.0]}) for i in range(1, 21)]
    raws = raw_parts(days, [["a", "b"]] * 20, cut(20, 4))
    with pytest.warns(UserWarning, match="column 'day' holds dates as strings"):
        fit_raw_parts(TreeCRF(**ZERO), raws)


def test_allowed_labels():
    X, y = data_of("symbols", seed=13)
    allowed = [np.array([[True, True, label == "z"] for label in labels]) for labels in y]
    model = TreeCRF(**ZERO).fit(X, y, allowed=allowed)
    raws = raw_parts(X, y, cut(len(X), 3), allowed=allowed)
    assert_equal_fits(fit_raw_parts(TreeCRF(**ZERO), raws), model)


def test_errors_name_the_partition():
    X, y = data_of("symbols")

    def fit(X, y, parts, model=None, **others):
        fit_parts_of(model or TreeCRF(**ZERO), X, y, parts, **others)

    parts = cut(len(X), 4)
    with pytest.raises(ValueError, match="partition 2: sequence 0: 1 labels for"):
        fit(X, [*y[:10], "x", *y[11:]], parts)
    with pytest.raises(TypeError, match="holds strings in partition 0, but X holds integers in"):
        fit([*X[:10], *([1] * len(labels) for labels in y[10:])], y, parts)
    rules = np.array([[1, 1, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    ascending = ["".join(sorted(labels)) for labels in y]
    with pytest.raises(ValueError, match=r"partition 3: sequence 5, position 1: .*forbid"):
        model = TreeCRF(**ZERO | {"transitions": rules})
        fit([*X, "ab"], [*ascending, "yx"], cut(len(X) + 1, 4), model)
    with pytest.raises(ValueError, match="sample_weight holds only zeros"):
        fit(X, y, parts, sample_weight=[0.0] * len(X))
    with pytest.raises(ValueError, match="y holds no labels"):
        fit(X, [None] * len(X), parts)
    with pytest.raises(ValueError, match=r"validation data: partition 1: .*'q' was not seen"):
        fit(X, y, parts, X_val=["ab", "c"], y_val=["xy", "q"])
    with pytest.raises(ValueError, match="no sequences"):
        fit([], [], [np.array([], dtype=int)] * 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", FORMS)
def test_every_setting_and_form(name, form):
    X, y = data_of(form, seed=100, n=20)
    assert_same_in_parts(MODELS[name], X, y, *cuts_of(name, X), cut(len(X), len(X)))
