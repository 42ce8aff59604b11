"""Contributions to the scores of models, and explanations of single positions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from support.family import (
    COUNTED,
    ESTIMATED,
    FLAT,
    KERNEL,
    TREES,
    WINDOWED,
    assert_equal_arrays,
    every,
)
from support.settings import PLAIN
from support.shapley_oracle import shapley_values

import treecrf
from treecrf import LinearCRF, RecurrentSlidingWindowClassifier, TreeCRF, flatten
from treecrf.chains.contexts import true_contexts
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import split_sequences
from treecrf.inspection import contributions, explain
from treecrf.inspection.explanation import _zeros
from treecrf.inspection.fitted import CheckedData
from treecrf.learners.base.fitted import fitted_model
from treecrf.trees.explain.shapley import relative_covers
from treecrf.trees.forest import LABEL
from treecrf.utils.threads import Threads

MODELS = Path(__file__).parents[1] / "utils" / "models"
TRANSITIONS = {
    "constant transitions": TreeCRF(constant_transitions=True, **TREES),
    "constant transitions of order 2": TreeCRF(
        constant_transitions=True, order=2, init="linear", **TREES
    ),
    "linear start of order 2": TreeCRF(order=2, init="linear", **TREES),
}


def scores_of(model, X, y=None):
    """Scores of all labels after the given or predicted labels, one array per sequence."""
    data = CheckedData.of(model, X, y, None, None)
    sequences, codes = data.chain_sequences(), data.chain_codes()
    offsets, order = sequences.offsets, fitted_model(model).chain.order
    with Threads(None) as threads:
        if getattr(model, "beam_width", None) or model.__class__.__name__ == "FlatModel":
            model = getattr(model, "_model", model)
        if isinstance(model, TreeCRF) and model._forest.transitions is not None:
            lattice = fitted_model(model).chain.lattice(
                sequences, fitted_model(model).chain.constraints(offsets), threads
            )
            scores = lattice.scores.table()
        else:
            scores = fitted_model(model).chain.scores(sequences, threads)
    _, contexts = true_contexts(offsets, codes, len(model.classes_), order)
    scores = np.take_along_axis(scores, contexts[None, :, None], axis=2)[:, :, 0]
    return fitted_model(model).predictor.as_read(split_sequences(scores.T, offsets))


def check_sums(model, X, y=None, tolerance=1e-10):
    found = contributions(model, X, y)
    for values, scores in zip(found.values, scores_of(model, X, y), strict=True):
        total = found.base_values + values.sum(axis=2)
        np.testing.assert_allclose(total, scores, atol=tolerance)
    return found


@every(WINDOWED)
def test_contributions_add_up_to_the_scores(name, fitted, letters):
    X, y = letters
    model = fitted(name)
    found = check_sums(model, X)
    assert found.labels.tolist() == list("xyz")
    assert [values.shape[0] for values in found.values] == list(map(len, X))
    given = check_sums(model, X, y)
    assert given.feature_names.tolist() == found.feature_names.tolist()


@pytest.mark.parametrize("name", TRANSITIONS)
def test_constant_transitions_and_linear_starts(name, letters):
    model = TRANSITIONS[name].fit(*letters)
    found = check_sums(model, *letters)
    lags = [f"label[-{lag}]" for lag in range(1, model.order + 1)]
    assert found.feature_names.tolist()[-model.order :] == lags
    if name == "constant transitions":
        table = model._forest.sum_of_transitions((0, model.n_iter_))[1] * 2.0**-20
        value = found.values[0][3, :, -1]
        before = encode_labels([np.array(list(letters[1][0]))], model.classes_)[2]
        np.testing.assert_allclose(value, table[:, before] - table.mean(axis=1), atol=1e-12)


@every(FLAT)
def test_flat_models_are_explained_like_the_models_themselves(name, fitted, letters):
    flat, model = fitted(name), fitted(name.removeprefix("flat "))
    ours, theirs = contributions(flat, letters[0]), contributions(model, letters[0])
    assert ours.feature_names.tolist() == theirs.feature_names.tolist()
    assert_equal_arrays(ours.values, theirs.values)


@every(WINDOWED)
def test_an_explanation_is_that_of_all_positions(name, fitted, letters):
    model, x = fitted(name), letters[0][3]
    found = contributions(model, [x])
    for position in (0, 1, len(x) - 1, -2):
        one = explain(model, x, position)
        np.testing.assert_allclose(one.values, found.values[0][position], atol=1e-12)
        np.testing.assert_array_equal(one.base_values, found.base_values)
        assert one.feature_names.tolist() == found.feature_names.tolist()
        assert one.label == model.predict([x])[0][position]
        assert one.position == position % len(x)


def test_long_tables(tables):
    X, y = tables
    model = TreeCRF(max_iter=3, window=1).fit(X, y)
    parts = contributions(model, X, y)
    long = contributions(model, np.concatenate(X), np.concatenate(y), lengths=list(map(len, y)))
    np.testing.assert_array_equal(parts.mean_absolute, np.abs(long.values).mean(axis=0))
    assert repr(long) == repr(parts)
    assert repr(long).startswith(f"Contributions({sum(map(len, y))} positions, 3 labels, ")


def test_names_of_a_model_from_right_to_left(letters):
    model = RecurrentSlidingWindowClassifier(
        direction="right-to-left", window=(2, 0), max_iter=20, l2_regularization=1.0
    ).fit(*letters)
    found = explain(model, "abcd", 1)
    assert "label[+1]" in found.feature_names
    descriptions = dict(zip(found.feature_names, found.descriptions, strict=True))
    assert descriptions["symbol[-1]"] == "symbol[-1] = 'a'"
    assert descriptions["symbol[-2]"] == "symbol[-2] is outside"
    assert descriptions["outside[-2]"] == "outside[-2]"
    assert descriptions["label[+1]"] == f"label[+1] = {model.predict(['abcd'])[0][2].item()!r}"


# Linear models


@pytest.mark.parametrize("transition_features", [False, True])
def test_linear_contributions_are_shapley_values(tables, transition_features):
    """An absent feature has attributes of 0, and an absent label is averaged over."""
    X, y = tables
    check_sums(LinearCRF(window=1, transition_features=transition_features).fit(X, y), X, y)
    model = LinearCRF(window=1, transition_features=transition_features, standardize=False)
    found = check_sums(model.fit(X, y), X, y)
    names = model.get_attribute_names().tolist()
    state = model.state_weights_
    pairs = model.transition_feature_weights_
    if not transition_features:
        pairs = np.zeros((len(names), 3, 3))
    transitions = model.transition_weights_
    padded = np.pad(X[0], [(1, 1), (0, 0)])
    for t in (0, 2, len(X[0]) - 1):
        attributes = {f"x{j}[{o:+d}]" if o else f"x{j}[0]": padded[t + 1 + o, j]
                      for j in range(3) for o in (-1, 0, 1)}  # fmt: skip
        attributes |= {"outside[-1]": t == 0, "outside[+1]": t == len(X[0]) - 1}

        def value(some, attributes=attributes, t=t):
            x = np.array([attributes[name] * (name in some) for name in names], dtype=float)
            by_label = transitions + np.einsum("a,auv->uv", x, pairs)
            if "label[-1]" not in some:
                return x @ state + by_label.mean(axis=0)
            return x @ state + (by_label[y[0][t - 1]] if t else model.start_weights_)

        expected = shapley_values(value, [*names, "label[-1]"])
        np.testing.assert_allclose(found.base_values, value(frozenset()), atol=1e-12)
        for k, name in enumerate(found.feature_names):
            np.testing.assert_allclose(found.values[0][t, :, k], expected[name], atol=1e-10)


def test_attributes_of_one_feature_are_added():
    """Values of a category, and the indicator of missing values, belong to their feature."""
    rng = np.random.default_rng(0)
    X = [[{"word": str(w), "size": float(w == "a") if rng.random() < 0.7 else None}
          for w in rng.choice(list("abc"), 9)] for _ in range(20)]  # fmt: skip
    y = [["y" if row["size"] is None or row["word"] == "a" else "n" for row in x] for x in X]
    model = LinearCRF(window=(1, 0)).fit(X, y)
    found = check_sums(model, X, y)
    assert found.feature_names.tolist() == [
        "size[-1]", "size[0]", "word[-1]", "word[0]", "outside[-1]", "label[-1]"
    ]  # fmt: skip


# Descriptions


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
def test_descriptions_of_values():
    rng = np.random.default_rng(0)
    X = [[{"word": str(rng.choice(list("abc"))), "size": float(rng.normal()),
           "loud": bool(rng.random() < 0.5)} for _ in range(8)] for _ in range(30)]  # fmt: skip
    y = [["y" if (row["word"] == "a") ^ row["loud"] ^ (row["size"] > 0) else "n" for row in x]
         for x in X]  # fmt: skip
    X[0][0]["size"] = None
    model = TreeCRF(window=(1, 0), max_iter=20, l2_regularization=1.0, **PLAIN).fit(X, y)
    x = [{"word": None, "size": None, "loud": True}, {"word": "b", "size": 0.125, "loud": False}]
    first, second = (explain(model, x, t, "yn") for t in (0, 1))
    described = set(second.descriptions)
    assert {"word[-1] is missing", "size[-1] is missing", "loud[-1] = True"} <= described
    assert {"word[0] = 'b'", "size[0] = 0.125", "loud[0] = False"} <= described
    assert {"label[-1] = 'y'", "not outside[-1]"} <= described
    assert {"word[-1] is outside", "label[-1] = none", "outside[-1]"} <= set(first.descriptions)
    index = second.feature_names.tolist().index
    assert second.values[:, [index("size[-1]"), index("word[-1]")]].tolist() == [[0, 0], [0, 0]]
    assert (first.label, second.label) == ("y", "n")
    # A category that did not occur in training fails all tests, and is not missing.
    assert "word[0] is new" in explain(model, [{"word": "new"}], 0).descriptions


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_descriptions_of_tables(form, tables):
    X, y = tables
    X = [form(x.round(1)) for x in X]
    model = TreeCRF(max_iter=5, window=0).fit(X, y)
    found = explain(model, X[0], 2)
    expected = [f"{name} = {X[0].tolist()[2][int(name[1])]:.4g}" if name[0] == "x" else name
                for name in found.feature_names] if form is np.array else None  # fmt: skip
    if expected:
        assert [d for d in found.descriptions if d[0] == "x"] == [
            e for e in expected if e[0] == "x"
        ]
    assert "x1 = " in " ".join(found.descriptions)


def test_text_and_frame(trained, letters):
    pd = pytest.importorskip("pandas")
    found = explain(trained, letters[0][0], 2)
    lines = str(found).splitlines()
    k = found.labels.tolist().index(found.label)
    assert lines[0] == f"{found.base_values[k]:+8.3f}  base value"
    assert lines[-1] == f"{found.scores[k]:+8.3f}  score of {found.label!r} at position 2"
    assert len(lines) == 2 + np.count_nonzero(found.values[k])
    assert repr(found) == f"Explanation(position=2, label={found.label!r}, 3 labels, 6 features)"
    frame = found.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_allclose(frame.sum().to_numpy(), found.scores)
    strongest = found.strongest("x", n=2)
    sizes = np.sort(np.abs(found.values[0]))[::-1][:2]
    assert [abs(value) for _, value in strongest] == sizes.tolist()


def test_the_text_sums_up_weak_contributions(tables):
    X, y = tables
    model = TreeCRF(max_iter=10, window=2, l2_regularization=0.1).fit(X, y)
    found = explain(model, X[0], 3)
    lines = str(found).splitlines()
    k = found.labels.tolist().index(found.label)
    assert len(lines) == 13
    assert lines[-2].endswith(f"{np.count_nonzero(found.values[k]) - 10} others")
    total = sum(float(line.split()[0]) for line in lines[:-1])
    assert total == pytest.approx(float(lines[-1].split()[0]), abs=0.01)


# Older models


@pytest.mark.parametrize("name", ["symbols", "table"])
def test_models_saved_by_early_versions(name):
    """Their label tests have no shares."""
    path = MODELS / f"format1-{name}.treecrf"
    model = treecrf.load(path)
    forest = model._forest.pack()
    on_label = forest["column"] == LABEL
    assert on_label.any() and (forest["share"][on_label] == 0).all()
    check_sums(model, json.loads(path.with_suffix(".json").read_text())["X"])
    covers = relative_covers(forest)[on_label]
    assert ((covers > 0) & (covers < 1)).all()


# Errors


@every(COUNTED | ESTIMATED)
def test_models_without_trees_or_weights_are_refused(name, fitted, letters):
    with pytest.raises(TypeError, match="has neither boosted trees nor weights; expected"):
        contributions(fitted(name), letters[0])


def test_kernels_and_other_attributes_are_refused(fitted, trained, letters):
    with pytest.raises(TypeError, match="kernel='rbf'; expected kernel='linear'"):
        contributions(fitted(KERNEL), letters[0])
    model = LinearCRF(attributes=flatten(trained)).fit(*letters)
    with pytest.raises(TypeError, match="expected those of a window"):
        explain(model, "ab", 0)


def test_wrong_arguments(trained, letters):
    with pytest.raises(ValueError, match=r"position=4; expected an integer from -4 to 3: the seq"):
        explain(trained, "abcd", 4)
    with pytest.raises(ValueError, match="position=True"):
        explain(trained, "abcd", True)
    with pytest.raises(ValueError, match="label='q'; expected one of 'x', 'y', 'z'"):
        contributions(trained, letters[0], label="q")
    with pytest.raises(ValueError, match="label='q'"):
        explain(trained, "abcd", 1).strongest("q")
    with pytest.raises(NotFittedError):
        contributions(TreeCRF(), letters[0])
    with pytest.raises(TypeError, match="expected a fitted classifier of treecrf"):
        explain("model", "ab", 0)


def test_too_many_contributions():
    with pytest.raises(MemoryError, match="to 9999 labels at 1000000000 positions need 799920 GB"):
        _zeros(10**9, 9999, 10)
