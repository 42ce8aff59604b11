"""The argument ``fold_groups`` of `fit`: all forms of it, and errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from support.family import assert_equal_arrays

from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    load,
)
from treecrf.cli import main

PERSONS = [f"p{i % 6}" for i in range(24)]
SETTINGS = {"max_iter": 15, "random_state": 0, "learning_rate": 0.1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = [rng.random((n, 3)) for n in rng.integers(5, 30, 24)]
    y = [np.where(table[:, 0] + 0.4 * rng.random(len(table)) > 0.7, "a", "b") for table in X]
    return X, y


@pytest.fixture(scope="module")
def table(data):
    frames = [
        pd.DataFrame(x, columns=list("uvw")).assign(who=person, day=i, label=labels)
        for i, (x, labels, person) in enumerate(zip(*data, PERSONS, strict=True))
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def expected(data):
    X, y = data
    model = TreeCRF(init="zero", **SETTINGS).fit(X, y, fold_groups=PERSONS)
    assert model.n_iter_ > 0
    return np.concatenate(model.predict_proba(X)), model.n_iter_


def check(model, X, expected, **options):
    found = model.predict_proba(X, **options)
    if isinstance(found, list):
        found = np.concatenate(found)
    assert model.n_iter_ == expected[1]
    assert_equal_arrays([found], [expected[0]])


def test_values_of_sequences_and_of_positions(data, expected):
    X, y = data
    lengths = [len(table) for table in X]
    long = np.concatenate(X), np.concatenate(y)
    numbers = np.array([int(person[1]) for person in PERSONS])
    by_position = [[person] * n for person, n in zip(PERSONS, lengths, strict=True)]
    for groups in (np.array(PERSONS), numbers, pd.Series(PERSONS), by_position):
        check(TreeCRF(init="zero", **SETTINGS).fit(X, y, fold_groups=groups), X, expected)
    for groups in (PERSONS, numbers, np.concatenate(by_position)):
        model = TreeCRF(init="zero", **SETTINGS).fit(*long, lengths=lengths, fold_groups=groups)
        check(model, X, expected)


def test_columns_of_data_frames(table, expected):
    fit = TreeCRF(init="zero", **SETTINGS).fit
    model = fit(table, "label", groups="day", fold_groups="who")
    assert model.feature_names_in_.tolist() == list("uvw")
    check(model, table, expected)
    other = pl.from_pandas(table)
    check(fit(other, "label", groups="day", fold_groups="who"), other, expected)
    # One of the columns of the sequences.
    check(fit(table, "label", groups=["who", "day"], fold_groups="who"), table, expected)
    indexed = table.set_index(["who", "day"])
    model = fit(indexed, "label", groups=["who", "day"], fold_groups="who")
    check(model, indexed, expected)
    frames = [frame for _, frame in table.drop(columns="day").groupby(table.day)]
    check(fit(frames, "label", fold_groups="who"), frames, expected)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_files_and_the_command_line(table, expected, name, tmp_path):
    path = tmp_path / name
    table.to_csv(path, index=False) if name == "a.csv" else table.to_parquet(path)
    model = TreeCRF(init="zero", **SETTINGS).fit(path, "label", groups="day", fold_groups="who")
    check(model, table, expected)
    arguments = ["train", str(path), "--label", "label", "--group", "day", "--fold-groups", "who"]
    arguments += ["--quiet", "--max-iter", "15", "--random-state", "0"]
    arguments += ["--set", "learning_rate=0.1", "--set", "init=zero"]
    for options in ([], ["--scratch", str(tmp_path)]):
        saved = str(tmp_path / "model.treecrf")
        assert main([*arguments, *options, "--model", saved]) == 0
        check(load(saved), table, expected)
    assert main(["evaluate", str(path), "--model", saved]) == 0


def test_scratch_files(data, expected, tmp_path):
    model = TreeCRF(init="zero", **SETTINGS).fit(*data, fold_groups=PERSONS, scratch=tmp_path)
    check(model, data[0], expected)


@pytest.mark.parametrize(
    "model",
    [
        TreeCRF(early_stopping=True, **SETTINGS),
        TreeMEMM(early_stopping=True, **SETTINGS),
        SlidingWindowClassifier(early_stopping=True, **SETTINGS),
        RecurrentSlidingWindowClassifier(early_stopping=True, **SETTINGS),
        LinearCRF(early_stopping=True, random_state=0),
        FutureFeatureMEMM(max_iter=3, max_future_features=0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:early stopping did not end")
def test_validation_sequences_are_of_other_groups(data, model):
    X, y = data
    # The persons in training see other numbers than those who are held out.
    models = [model.fit(X, y, fold_groups=PERSONS).predict_proba(X) for _ in range(2)]
    assert_equal_arrays(*models)
    with pytest.raises(ValueError, match=r"holds out 1 of 1|expected at least two groups"):
        model.fit(X, y, fold_groups=["one"] * 24)


def test_searches_pass_groups_on(data):
    X, y = data
    with sklearn.config_context(enable_metadata_routing=True):
        model = TreeCRF(init="zero", **SETTINGS).set_fit_request(fold_groups=True, groups=False)
        model = model.set_score_request(groups=False)
        search = GridSearchCV(model, {"max_leaf_nodes": [4, 8]}, cv=GroupKFold(3))
        search.fit(X, y, groups=PERSONS, fold_groups=PERSONS)
    assert search.best_estimator_.n_iter_ > 0


@pytest.mark.parametrize(
    "groups, message",
    [
        (PERSONS[:-1], "X has 24 sequences, fold_groups has 23"),
        (["p"] * 24, "all 24 sequences have the same value in fold_groups; expected at least two"),
        ("who", "fold_groups='who' names a column, but X is not a data frame"),
        ([None, *PERSONS[1:]], r"fold_groups is missing \(None\) for sequence 0"),
        ([["p"] * 2] * 24, "fold_groups: sequence 0 has 2 values, X has"),
    ],
)
def test_errors(data, groups, message):
    with pytest.raises(ValueError, match=message):
        TreeCRF(init="zero", **SETTINGS).fit(*data, fold_groups=groups)


def test_errors_of_columns(table):
    fit = TreeCRF(init="zero", **SETTINGS).fit
    with pytest.raises(ValueError, match=r"'whom' is not a column of X.*'who'"):
        fit(table, "label", groups="day", fold_groups="whom")
    with pytest.raises(ValueError, match="both name the column 'label'"):
        fit(table, "label", groups="day", fold_groups="label")
    with pytest.raises(ValueError, match=r"position 1 has .*expected one group for each sequence"):
        fit(table, "label", groups="day", fold_groups=np.arange(len(table)))
    with pytest.raises(TypeError, match="fold_groups is of type int"):
        fit([table[list("uvw")]], [table.label], fold_groups=7)
