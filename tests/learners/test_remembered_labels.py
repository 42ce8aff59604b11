"""Scores without y: the labels are in the column that held them in training."""

from itertools import product

import numpy as np
import pytest
from support.sweeps import pairs

import treecrf
from treecrf.inspection import permutation_importance
from treecrf.learners.registry import LEARNERS

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

FRAME = pd.DataFrame(
    {
        "day": np.repeat([1, 2, 3], 6),
        "x": [0.0, 1.5, 0.5] * 6,
        "y": ["a", "b", "a"] * 5 + ["b", "b", "a"],
    }
)
FORMS = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "arrow": pa.Table.from_pandas(FRAME),
    "list": [FRAME[:6].drop(columns="day"), FRAME[6:].drop(columns="day")],
}


def fitted(name, form):
    model = LEARNERS[name]()
    model.set_params(**{"max_iter": 3} if "max_iter" in model.get_params() else {})
    groups = None if form == "list" else "day"
    return model.fit(FORMS[form], "y", groups=groups)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(
    ("name", "form"),
    pairs(
        product([name for name in LEARNERS if name != "hmm"], FORMS),
        lambda name, form: form == "pandas" or name == "crf",
    ),
)
def test_scores_of_a_frame(name, form):
    model, X = fitted(name, form), FORMS[form]
    assert model.score(X) == model.score(X, "y")
    if hasattr(model, "predict_log_likelihood"):
        found, expected = (model.predict_log_likelihood(X, *y) for y in ([], ["y"]))
        np.testing.assert_array_equal(found, expected)
    found, expected = (permutation_importance(model, X, *y, random_state=0) for y in ([], ["y"]))
    np.testing.assert_array_equal(found.importances, expected.importances)


def test_scores_without_labels():
    model = fitted("crf", "pandas")
    unlabeled, rows = FRAME.drop(columns="y"), [np.zeros((2, 1))]
    other = treecrf.TreeCRF(max_iter=2, init="zero").fit(["abab"], ["xyxy"])
    for function in (model.score, model.predict_log_likelihood):
        with pytest.raises(ValueError, match="X has no column 'y', which held the labels in trai"):
            function(unlabeled)
        with pytest.raises(TypeError, match="y is not given; expected labels, or frames with 'y'"):
            function(rows)
    with pytest.raises(ValueError, match="X has no column 'y'"):
        permutation_importance(model, unlabeled)
    with pytest.raises(TypeError, match="y is not given; expected the labels of X"):
        other.score(["abab"])
