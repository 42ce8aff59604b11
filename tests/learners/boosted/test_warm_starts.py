"""Warm starts that add nothing, and saved models that lose a function."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
    load,
)
from treecrf.metrics import token_f1_macro

BOOSTED = [TreeCRF, TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
SETTINGS = {"max_iter": 3, "max_leaf_nodes": 4, "early_stopping": False, "window": 1}
WARM = {"warm_start": True}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"heat": rng.normal(size=120), "day": np.repeat(np.arange(12), 10)})
    return frame.assign(state=(frame["heat"] > 0).astype(int))


def arguments(table, form, folder):
    """The arguments of `fit` for one form of the table."""
    if form == "frame":
        return {"X": table, "y": "state", "groups": "day"}
    if form == "file":
        table.to_csv(folder / "table.csv", index=False)
        return {"X": folder / "table.csv", "y": "state", "groups": "day"}
    if form == "parts":
        paths = [folder / f"{k}.parquet" for k in range(2)]
        for k, path in enumerate(paths):
            table[table["day"] % 2 == k].to_parquet(path, index=False)
        return {"X": paths, "y": "state", "groups": "day", "scratch": folder}
    parts = [part for _, part in table.groupby("day")]
    X, y = [part[["heat"]].to_numpy() for part in parts], [part["state"] for part in parts]
    return {"X": X, "y": y} | ({"X_val": X[:2], "y_val": y[:2]} if form == "validation" else {})


@pytest.mark.parametrize("kind", BOOSTED)
@pytest.mark.parametrize("form", ["list", "validation", "frame", "file", "parts"])
def test_a_warm_start_without_new_iterations_warns(kind, form, table, tmp_path):
    model = kind(**SETTINGS).fit(**arguments(table, form, tmp_path))
    turned = table.assign(state=1 - table["state"])
    model.set_params(warm_start=True)
    message = (
        r"^warm start: the model has max_iter=3 iterations already, and gets no new ones; incr"
    )
    with pytest.warns(UserWarning, match=message):
        model.fit(**arguments(turned, form, tmp_path))
    assert model.n_iter_ == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(max_iter=5).fit(**arguments(turned, form, tmp_path))
    assert model.n_iter_ == 5


def test_a_warm_start_on_dask_warns(table):
    pytest.importorskip("distributed")
    dataframe = pytest.importorskip("dask.dataframe")
    from distributed import Client

    from treecrf.dask import DaskTreeCRF

    local = TreeCRF(**SETTINGS, **WARM).fit(table, "state", groups="day")
    frame = dataframe.from_pandas(table, npartitions=1)
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        model = DaskTreeCRF.from_local(local, client)
        with pytest.warns(
            UserWarning, match=r"^warm start: the model has max_iter=3 iterations al"
        ):
            model.fit(frame, "state", groups="day")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("model", [LinearCRF(**WARM), StructuredPerceptron(**WARM, random_state=0)])
def test_warm_starts_from_weights_always_train(model, table, tmp_path):
    model.fit(**arguments(table, "list", tmp_path))
    turned = table.assign(state=1 - table["state"])
    assert model.fit(**arguments(turned, "list", tmp_path)).score(
        *list(arguments(turned, "list", tmp_path).values())
    ) > 0.9  # fmt: skip


# Functions among the parameters


def quadratic(codes, proba):
    """A loss and its gradient."""
    of_codes = proba[np.arange(len(codes)), codes]
    gradient = np.zeros_like(proba)
    gradient[np.arange(len(codes)), codes] = 2 * (of_codes - 1)
    return (1 - of_codes) ** 2, gradient


def share_of_ones(y_true, y_pred):
    return float(np.mean(np.concatenate(y_pred)))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (TreeCRF, {"objective": quadratic}),
        (TreeCRF, {"scoring": share_of_ones, "early_stopping": True}),
        (TreeMEMM, {"scoring": token_f1_macro, "early_stopping": True}),
        (LinearCRF, {"scoring": share_of_ones, "early_stopping": True}),
    ],
)
def test_a_file_without_a_function_is_saved_with_a_warning(kind, parameters, table, tmp_path):
    settings = SETTINGS if kind in BOOSTED else {}
    given = arguments(table, "list", tmp_path)
    model = kind(**settings | parameters).fit(**given)
    name = next(iter(parameters))
    message = f"{name} is a function, which the file does not contain; set it again after loading"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}"):
        model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for one, other in zip(again.predict(given["X"]), model.predict(given["X"]), strict=True):
        np.testing.assert_array_equal(one, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.save(tmp_path / "model")


@pytest.mark.filterwarnings("ignore:objective is a function")
@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
@pytest.mark.parametrize("kind", [TreeCRF, LinearCRF])
def test_a_loaded_model_does_not_train_another_loss(kind, table, tmp_path):
    given = arguments(table, "list", tmp_path)
    settings = SETTINGS if kind is TreeCRF else {"max_iter": 2, "tol": 1.0}
    model = kind(**settings, objective=quadratic).fit(**given)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    again.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(max_iter=5, **WARM)
    message = r"^warm start: the model was trained with a function as its objective, not with 'log'"
    with pytest.raises(ValueError, match=message):
        again.fit(**given)
    assert again.n_iter_ == model.n_iter_
    expected = model.set_params(max_iter=5, **WARM).fit(**given)
    found = again.set_params(objective=quadratic).fit(**given)
    for one, other in zip(*(m.predict_proba(given["X"]) for m in (found, expected)), strict=True):
        np.testing.assert_array_equal(one, other)
    # A new fit may have any objective, and so may a warm start of its result.
    found.set_params(objective="log", warm_start=False).fit(**given)
    found.set_params(max_iter=7, **WARM).fit(**given)
