"""Inspection and plots cut a long table where ``predict`` does: at the groups of training."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_equal

from treecrf import (
    FutureFeatureMEMM,
    FutureFeatures,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    TreeCRF,
)
from treecrf.datasets import make_future_bags
from treecrf.inspection import (
    contributions,
    explain,
    likelihood_curve,
    partial_dependence,
    permutation_importance,
    strongest_rules,
    transition_scores,
)
from treecrf.plotting import plot_future_features

mpl.use("Agg")

SETTINGS = {"window": (1, 0), "max_iter": 5}
MODELS = {
    "trees": TreeCRF(init="zero", **SETTINGS),
    "linear start": TreeCRF(init="linear", **SETTINGS),
    "linear": LinearCRF(window=(1, 0), max_iter=20),
    "from right to left": RecurrentSlidingWindowClassifier(direction="right-to-left", **SETTINGS),
}


def make_days():
    """Three days of different lengths that start with another label than the day before ends."""
    rng = np.random.default_rng(0)
    days = []
    for day, n in enumerate((9, 12, 7)):
        on = (np.arange(n) + 4 * day) // 4 % 2 == 1
        state = np.where(on, "on", "off")
        days.append(pd.DataFrame({"day": f"d{day}", "v": on + rng.normal(0, 0.4, n), "y": state}))
    return pd.concat(days, ignore_index=True)


TABLE = make_days()
DAYS = [day.drop(columns=["day", "y"]) for _, day in TABLE.groupby("day")]
LABELS = [day["y"].to_numpy() for _, day in TABLE.groupby("day")]


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(TABLE, "y", groups="day")


def plain(result):
    """Make a result a dict that can be compared."""
    if is_dataclass(result):
        return asdict(result)
    return [asdict(item) for item in result] if isinstance(result, list) else dict(result)


def cuts():
    """A table with the column of the groups, and one without it."""
    return (
        (TABLE, {}),
        (TABLE[["v"]], {"groups": TABLE["day"]}),
        (TABLE[["v"]], {"lengths": [9, 12, 7]}),
    )


def test_contributions(model):
    parts = contributions(model, DAYS)
    for X, how in cuts():
        assert_equal(contributions(model, X, **how).values, np.concatenate(parts.values))
    given = contributions(model, DAYS, LABELS)
    assert_equal(contributions(model, TABLE, "y").values, np.concatenate(given.values))


def test_explanations_are_of_rows_of_the_table(model):
    starts = np.cumsum([0, *map(len, DAYS)])
    for row in (0, 9, 20, 27, -7):
        day = int(np.searchsorted(starts, row % 28, side="right")) - 1
        here = row % 28 - starts[day]
        alone = explain(model, DAYS[day], here)
        with_labels = explain(model, DAYS[day], here, LABELS[day])
        for X, how in cuts():
            found = explain(model, X, row, **how)
            assert found.position == row % 28
            assert_equal(plain(found) | {"position": here}, plain(alone))
            found = explain(model, X, row, TABLE["y"], **how)
            assert_equal(plain(found) | {"position": here}, plain(with_labels))
        found = explain(model, TABLE, row, "y")
        assert_equal(plain(found) | {"position": here}, plain(with_labels))


def test_the_column_of_the_labels_of_one_frame():
    model = MODELS["trees"].fit(TABLE, "y", groups="day")
    day = DAYS[1].assign(y=LABELS[1])
    assert_equal(plain(explain(model, day, 3, "y")), plain(explain(model, DAYS[1], 3, LABELS[1])))
    with pytest.raises(ValueError, match="y='state' is not a column of X"):
        explain(model, day, 3, "state")
    with pytest.raises(ValueError, match="position=28; expected an integer from -28 to 27"):
        explain(model, TABLE, 28)


RESULTS = {
    "partial dependence": lambda model, X, y, **how: partial_dependence(
        model, X, "v", offset=-1, **how
    ),
    "scores everywhere": lambda model, X, y, **how: partial_dependence(
        model, X, "v", offset=None, response="score", **how
    ),
    "permutations": lambda model, X, y, **how: permutation_importance(
        model, X, y, random_state=0, n_repeats=2, **how
    ),
    "transitions": lambda model, X, y, **how: transition_scores(model, X, **how),
}
OF_TREES = {
    "rules": strongest_rules,
    "likelihoods": lambda model, X, y, **how: vars(likelihood_curve(model, X, y, **how)),
}


@pytest.mark.parametrize("result", RESULTS)
def test_results_are_those_of_the_sequences(result, model):
    of = RESULTS[result]
    expected = plain(of(model, DAYS, LABELS))
    for X, how in cuts():
        assert_equal(plain(of(model, X, TABLE["y"], **how)), expected)


@pytest.mark.parametrize("result", OF_TREES)
def test_results_of_trees_are_those_of_the_sequences(result):
    model, of = MODELS["trees"].fit(TABLE, "y", groups="day"), OF_TREES[result]
    assert_equal(plain(of(model, TABLE, "y")), plain(of(model, DAYS, LABELS)))


@pytest.fixture(scope="module")
def bags():
    """A model with discovered features, fitted to a long table; the table and its sequences."""
    X, y = make_future_bags("or", n_sequences=60, random_state=0)
    days = [pd.DataFrame(x).add_prefix("x").assign(day=i) for i, x in enumerate(X)]
    table = pd.concat(days, ignore_index=True)
    settings = {"bag_size": 6, "max_iter": 30, "max_future_features": 1}
    model = FutureFeatureMEMM(order=0, random_state=0, **settings)
    return model.fit(table, np.concatenate(y), groups="day"), table, days


def test_future_features(bags):
    model, table, days = bags
    parts = model.future_values([day.drop(columns="day") for day in days])
    assert parts[0].size
    assert_equal(model.future_values(table), np.concatenate(parts))
    discovery = FutureFeatures(append=True)
    discovery.estimator_ = model
    found = discovery.transform(table)
    assert found.columns.tolist() == [*table.columns, "future0"]
    assert_equal(found["future0"].to_numpy(), np.concatenate(parts)[:, 0, 1])


def test_plots_of_future_features(bags):
    model, table, days = bags
    one, other = plot_future_features(model, days[1]), plot_future_features(model, table, group=1)
    assert_equal(drawn(one), drawn(other))
    with pytest.raises(ValueError, match="x holds 60 sequences; choose one of them, group="):
        plot_future_features(model, table)


def drawn(ax):
    """Numbers that a plot shows."""
    lines = [line.get_xydata() for line in ax.lines]
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    return lines, bars, [np.asarray(image.get_array()) for image in ax.images]
