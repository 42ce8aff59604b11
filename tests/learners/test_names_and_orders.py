"""Models depend on data, not on how they are written: orders of columns, names of labels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from support.sweeps import pairs

from treecrf import (
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)

COLUMNS = ["a", "b", "c", "d"]
OTHER_ORDER = ["c", "a", "d", "b"]
# Their sorted order differs from that of 0, 1, 2.
OTHER_LABELS = np.array(["w", "u", "v"])
NAMES = {"a": "q", "b": "p", "c": "z", "d": "k"}
# Large leaves, so that no two tests split a node alike.
FEW = {"max_leaf_nodes": 3, "min_samples_leaf": 30, "random_state": 0}


def labeled(n=30, seed=1):
    rng = np.random.default_rng(seed)
    y = [np.cumsum(rng.random(25) < 0.25) % 3 for _ in range(n)]
    return [codes[:, None] * [1.0, 0.5, 0.2, 0] + rng.normal(size=(25, 4)) for codes in y], y


def frame(table, columns=COLUMNS):
    return pd.DataFrame(table, columns=COLUMNS)[columns]


def rare(table):
    return np.where(table > 0.5, table, 0)


# Each form of tables, and the same tables with columns in another order.
FORMS = {
    "frames": (frame, lambda table: frame(table, OTHER_ORDER)),
    "arrays": (np.asarray, lambda table: frame(table, OTHER_ORDER).to_numpy()),
    "sparse": (
        lambda table: sparse.csr_array(rare(table)),
        lambda table: sparse.csr_array(frame(rare(table), OTHER_ORDER).to_numpy()),
    ),
    "dicts": (
        lambda table: frame(table).to_dict("records"),
        lambda table: frame(table).rename(columns=NAMES).to_dict("records"),
    ),
    "booleans": (
        lambda table: table > 0.5,
        lambda table: frame(table > 0.5, OTHER_ORDER).to_numpy(),
    ),
    "categories": (
        lambda table: frame(np.digitize(table, [-1, 0, 1, 2])).astype("category"),
        lambda table: frame(9 - np.digitize(table, [-1, 0, 1, 2]), OTHER_ORDER).astype("category"),
    ),
    "symbols": (
        lambda table: np.array(list("abcde"))[np.digitize(table[:, 0], [-1, 0, 1, 2])],
        lambda table: np.array(list("ecxba"))[np.digitize(table[:, 0], [-1, 0, 1, 2])],
    ),
}  # fmt: skip


def probabilities(model, X, labels=(0, 1, 2)):
    """Probabilities of labels, in the order of the labels given."""
    found = np.concatenate(model.predict_proba(X))
    return found[:, [model.classes_.tolist().index(label) for label in labels]]


def assert_same_models(model, others, X):
    """Check the same choices, and the same predictions; X are sequences in two forms."""
    first, second = X
    expected = probabilities(model, first)
    for other, labels in others:
        assert other.n_iter_ == model.n_iter_
        assert (other.init_ is None) == (model.init_ is None)
        np.testing.assert_allclose(other.validation_score_, model.validation_score_, atol=1e-6)
        np.testing.assert_allclose(probabilities(other, second, labels), expected, atol=1e-5)


MODELS = {
    "defaults": TreeCRF(**FEW),
    "held out": TreeCRF(early_stopping=True, init="zero", **FEW),
    "parts": TreeCRF(subsample=0.5, early_stopping=False, max_iter=5, init="zero", **FEW),
    "of order 2": TreeCRF(order=2, window=1, max_iter=10, **FEW),
}


@pytest.mark.parametrize(
    ("name", "form"),
    pairs(
        product(MODELS, FORMS),
        lambda name, form: (
            form == "frames"
            or (name == "held out" and form in ("sparse", "dicts", "categories", "symbols"))
        ),
    ),
)
def test_choices_do_not_depend_on_orders_and_names(name, form):
    X, y = labeled()
    make, other = FORMS[form]
    first, second = ([convert(table) for table in X] for convert in (make, other))
    renamed = [OTHER_LABELS[codes] for codes in y]

    def fitted(*data):
        return TreeCRF(**MODELS[name].get_params()).fit(*data)

    others = (fitted(second, y), (0, 1, 2)), (fitted(second, renamed), OTHER_LABELS.tolist())
    assert_same_models(fitted(first, y), others, (first, second))


@pytest.mark.parametrize(
    "make",
    [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier],
    ids=lambda make: make.__name__,
)
def test_other_models_hold_out_the_same_sequences(make):
    X, y = labeled()
    settings = FEW | {"early_stopping": True, "max_iter": 20}
    model = make(**settings).fit([frame(table) for table in X], y)
    other = make(**settings).fit(
        [frame(table, OTHER_ORDER) for table in X], [OTHER_LABELS[codes] for codes in y]
    )
    assert other.n_iter_ == model.n_iter_
    np.testing.assert_allclose(other.validation_score_, model.validation_score_, atol=1e-6)


def test_default_models_of_all_orders_of_columns():
    # With columns in six orders, choices by their spelling gave 0 to 49 iterations.
    rng = np.random.default_rng(1)
    y = [np.cumsum(rng.random(25) < 0.2) % 3 for _ in range(40)]
    X = [np.stack([codes + rng.normal(size=25) for _ in range(3)], axis=1) for codes in y]
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    models = [TreeCRF().fit([table[:, order] for table in X], y) for order in orders]
    assert len({model.n_iter_ for model in models}) == 1
    assert len({str(model.init_) for model in models}) == 1
    names = TreeCRF().fit(X, [OTHER_LABELS[codes] for codes in y])
    assert names.n_iter_ == models[0].n_iter_


def long_table(X, y, columns, names):
    tables = [frame(table, columns) for table in X]
    table = pd.concat(tables, keys=range(len(X)), names=["g", None]).reset_index("g")
    return table.assign(y=names[np.concatenate(y)])


# Samples of examples depend on the order of the labels.
@pytest.mark.parametrize(
    ("settings", "sampling", "names"),
    [
        ({}, 0.1, np.array([3, 5, 7])),
        ({"early_stopping": True, "init": "zero"}, None, OTHER_LABELS),
        pytest.param({}, None, OTHER_LABELS, marks=pytest.mark.exhaustive),
    ],
)
def test_files_and_partitions_choose_alike(tmp_path, settings, sampling, names):
    dask = pytest.importorskip("treecrf.dask")
    distributed = pytest.importorskip("distributed")
    frames = pytest.importorskip("dask.dataframe")
    X, y = labeled()
    crf = TreeCRF(**FEW | {"sampling": sampling, "max_iter": 12} | settings)
    models = []
    for columns, of_labels in ((COLUMNS, np.arange(3)), (OTHER_ORDER, names)):
        table = long_table(X, y, columns, of_labels)
        table.to_csv(tmp_path / "table.csv", index=False)
        models.append(TreeCRF(**crf.get_params()).fit(table, "y", groups="g"))
        models.append(TreeCRF(**crf.get_params()).fit(tmp_path / "table.csv", "y", groups="g"))
        with distributed.Client(processes=False, n_workers=1, dashboard_address=None):
            parts = frames.from_pandas(table.set_index("g"), npartitions=3, sort=True)
            parts = parts.reset_index()
            models.append(dask.DaskTreeCRF(**crf.get_params()).fit(parts, "y", groups="g"))
    assert len({model.n_iter_ for model in models}) == 1
    for model in models:
        np.testing.assert_allclose(model.validation_score_, models[0].validation_score_, atol=1e-6)
