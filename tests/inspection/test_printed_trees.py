"""Printed trees, evaluated as a reader would, have the scores of the model."""

from __future__ import annotations

import ast
import json
import re

import numpy as np
import pytest
from support.sweeps import sweep

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM, flatten
from treecrf.chains.contexts import true_contexts
from treecrf.inspection import contributions, explain, export_graphviz, export_text, strongest_rules
from treecrf.inspection.fitted import CheckedData
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.threads import Threads

pd = pytest.importorskip("pandas")

N = 15
KINDS = {
    "dates": lambda rng: rng.choice([20180130, 20180131, 20180201, 20180301], N),
    "nanoseconds": lambda rng: 1764290000000000000 + 1000 * rng.integers(0, 100, N),
    "coordinates": lambda rng: 52.52 + rng.integers(0, 1000, N) * 1e-7,
    "single precision": lambda rng: np.float32(52.52) + rng.random(N).astype(np.float32) / 1000,
    "half precision": lambda rng: rng.normal(size=N).astype(np.float16),
    "tiny": lambda rng: 1e-300 * rng.integers(1, 20, N),
    "subnormal": lambda rng: 5e-324 * rng.integers(0, 20, N),
    "huge": lambda rng: 1e300 * rng.normal(size=N),
    "negative": lambda rng: -1e7 * rng.integers(0, 50, N) - 0.25,
    "large integers": lambda rng: 2**53 + 1000 * rng.integers(0, 50, N),
    "mostly zero": lambda rng: np.where(rng.random(N) < 0.9, 0.0, rng.normal(size=N)),
    "mostly missing": lambda rng: np.where(rng.random(N) < 0.8, np.nan, rng.normal(size=N)),
    "missing integers": lambda rng: pd.array(
        np.where(rng.random(N) < 0.3, None, rng.integers(0, 9, N)), dtype="Int64"
    ),
    "booleans": lambda rng: rng.random(N) < 0.3,
    "categories": lambda rng: rng.choice(CATEGORIES, N).astype(object),
    "missing categories": lambda rng: np.where(
        rng.random(N) < 0.3, None, rng.choice(list("uv"), N)
    ),
}
CATEGORIES = ["x", "it's", 'q"', "n\nl", "é<b>", "a\\b", "1", " and not ", "x) (gain 3", "none"]
# Some read as other things of a tree.
NAMES = [
    "a", "b[0]", "c > 1", "it's", 'd"', "e<f>", "g=h", "i\\j", "k is 'x'", "é", "not z",
    "q (gain 1)",
    "label", "label[-1]", "outside", "outside[-1]", "future0", "two\nlines", "not\ta",
]  # fmt: skip


def parsed(text):
    """Return a tree of (test, share of missing values, passed, failed), or a leaf."""
    lines = iter(text.split("\n")[1:])

    def node(depth, test=None):
        prefix = "|   " * depth + "|--- "
        line = next(lines)
        assert line.startswith(prefix)
        line = line.removeprefix(prefix)
        leaf = re.fullmatch(r"([+-]\d+\.\d+) \(weight [^ ]*, [^ ]*%\)", line)
        if leaf:
            return float(leaf[1])
        test, share = re.fullmatch(r"(.*) \(gain [^;()]*(?:; missing: (.*)%)?\)", line).groups()
        passed = node(depth + 1)
        assert next(lines).startswith(f"{prefix}not {test}")
        return test, share and float(share) / 100, passed, node(depth + 1)

    tree = node(0)
    assert next(lines, None) is None
    return tree


def holds(test, row, t, labels):
    """Whether a test holds at a position of a table; None if its value is missing."""
    before = re.fullmatch(r"label\[-1\] is (.*)", test)
    if before:
        return before[1] == ("none" if t == 0 else repr(labels[t - 1]))
    end = re.fullmatch(r"outside\[([+-]\d+)\]", test)
    if end:
        return not 0 <= t + int(end[1]) < N
    written = {repr(name): name for name in row} | {name: name for name in row}
    tests = (
        (name, re.fullmatch(r"(?:\[([+-]?\d+)\])?( is | > | <= |$)(.*)", test.removeprefix(text)))
        for text, name in sorted(written.items(), key=lambda item: -len(item[0]))
        if test.startswith(text)
    )
    name, match = next((name, match) for name, match in tests if match)
    position = t + int(match[1] or 0)
    if not 0 <= position < N:
        return False
    value, how = row[name][position], match[2].strip()
    if match[3] == "missing":
        return value is None
    if value is None:
        return None
    if how == "is":
        return value == ast.literal_eval(match[3])
    if how:
        threshold = float(match[3])
        return value > threshold if how == ">" else value <= threshold
    return bool(value)


def value_of(tree, *position):
    if isinstance(tree, float):
        return tree
    test, share, passed, failed = tree
    found = holds(test, *position)
    if found is None:
        return share * value_of(passed, *position) + (1 - share) * value_of(failed, *position)
    return value_of(passed if found else failed, *position)


def scores_of(model, x, y):
    """Scores of all labels at each position after the labels y; centered."""
    data = CheckedData.of(model, [x], [y], None, None)
    sequences, chain = data.chain_sequences(), fitted_model(model).chain
    with Threads(1) as threads:
        table = chain.scores(sequences, threads)
    n_labels = len(model.classes_)
    contexts = true_contexts(sequences.offsets, data.chain_codes(), n_labels, chain.order)[1]
    scores = np.take_along_axis(table, contexts[None, :, None], axis=2)[:, :, 0].T
    return scores - scores.mean(axis=1, keepdims=True)


def plain(column):
    values = column.tolist()
    return [None if pd.isna(value) else value for value in values]


@pytest.mark.parametrize("seed", sweep(range(60), 24))
def test_printed_trees_have_the_scores_of_the_model(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(KINDS), rng.integers(1, 5))
    names = rng.choice(NAMES, len(kinds), replace=False).tolist()
    X = [
        pd.DataFrame({name: KINDS[kind](rng) for name, kind in zip(names, kinds, strict=True)})
        for _ in range(6)
    ]
    y = [rng.choice(["A", "B", "it's"], N) for _ in X]
    settings = {
        "max_iter": 3, "early_stopping": False, "min_samples_leaf": 1, "max_leaf_nodes": 20,
        "window": [0, 1, (2, 0), (0, 1)][seed % 4], "l2_regularization": 0.1,
        "missing": ["weighting", "weighting-only"][seed // 2 % 2],
    }  # fmt: skip
    model = [
        TreeCRF(init="zero", **settings),
        TreeMEMM(**settings),
        SlidingWindowClassifier(**settings),
    ][seed % 3]
    given = [x.astype(object).where(x.notna(), None).to_dict("records") for x in X]
    model.fit(X if seed % 5 else given, y)
    classes = model.classes_.tolist()
    trees = [
        [parsed(export_text(model, i, label, decimals=16)) for label in classes]
        for i in range(model._forest.n_iter)
    ]
    for x, labels in zip(X[:2], y, strict=False):
        row = {name: plain(x[name]) for name in names}
        printed = np.array(
            [
                [sum(value_of(of[k], row, t, labels.tolist()) for of in trees) for k in range(3)]
                for t in range(N)
            ]
        )
        printed -= printed.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(printed, scores_of(model, x, labels), atol=1e-4)


def doubtful():
    """Tables in which a column is what the previous label and the end of a sequence are called."""
    rng = np.random.default_rng(0)
    labels = [np.array(["A", "B"])[np.cumsum(rng.random(30) < 0.3) % 2] for _ in range(8)]
    X = [
        pd.DataFrame({
            "label": np.where(rng.random(30) < 0.2, "A", y), "outside": rng.random(30) < 0.5,
            "label[-1]": rng.normal(size=30), "future0": rng.normal(size=30),
            "two\nlines": rng.normal(size=30), "not z": rng.random(30) < 0.5, "z": rng.random(30),
        })
        for y in labels
    ]  # fmt: skip
    return X, labels


def test_names_that_mean_something_else_are_in_quotes():
    X, y = doubtful()
    settings = {"max_iter": 20, "min_samples_leaf": 1, "max_leaf_nodes": 20, "window": 1}
    model = TreeCRF(init="zero", early_stopping=False, **settings).fit(X, y)
    text = "\n".join(export_text(model, i) for i in range(20))
    tests = [line.partition("--- ")[2] for line in text.split("\n") if "--- " in line]
    assert any(test.startswith("label[-1] is 'A'") for test in tests)
    assert any(test.startswith("'label'[0] is 'A'") for test in tests)
    assert any(test.startswith(r"'two\nlines'[") for test in tests)
    flat = flatten(model)
    rules = [str(rule) for rule in strongest_rules(model, n_rules=1000)]
    graphs = [export_graphviz(model, i) for i in range(20)]
    for texts in (tests, rules, graphs, flat.get_feature_names_out().tolist()):
        joined = "\n".join(texts)
        assert "'label'[0] is 'A'" in joined
        assert not re.search(r"(?<![\w'])(label\[0\]|label\[\+|label\[-1\]\[|outside\[0\])", joined)
    features = {t["feature"] for c in json.loads(flat.to_json())["conjunctions"] for t in c["tests"]
                if "feature" in t}  # fmt: skip
    assert features <= set(X[0])
    linear = LinearCRF(window=1).fit(X, y)
    for one in (model, flat, linear):
        names = contributions(one, X[:1], y[:1]).feature_names.tolist()
        assert len(set(names)) == len(names)
        descriptions = explain(one, X[0], 5, y[0]).descriptions.tolist()
        assert sum(text.startswith("label[-1] = ") for text in descriptions) == 1
    attributes = linear.get_attribute_names().tolist()
    assert len(set(attributes)) == len(attributes)
    assert {"'outside'[+1]", "outside[+1]", "two\nlines[0]", "'label'[-1] is 'A'"} <= {*attributes}


def test_names_of_dicts_stay_as_they_are_without_a_window():
    rows = [[{"label": "A", "outside": 1.0, "not z": 1.0, "w=\xa0": 1.0}, {"z": 1.0}]] * 3
    names = LinearCRF().fit(rows, [["A", "B"]] * 3).get_attribute_names().tolist()
    assert names == ["label is 'A'", "not z", "outside", "w=\xa0", "z"]


def test_shares_of_missing_values_have_the_decimal_places_of_percentages():
    rng = np.random.default_rng(0)
    X = [np.where(rng.random((40, 1)) < 0.1, np.nan, rng.normal(size=(40, 1))) for _ in range(5)]
    y = [(x[:, 0] > 1).astype(int) for x in X]
    model = TreeMEMM(max_iter=1, missing="weighting-only", early_stopping=False).fit(X, y)
    (share,) = {float(s) for s in model._forest.trees[0]["share"][:1]}
    for decimals in (0, 1, 3):
        text = np.format_float_positional(100 * share, decimals, trim="-")
        assert f"missing: {text}%" in export_text(model, 0, 0, decimals=decimals)
        assert f"missing: {text}%" in export_graphviz(model, 0, 0, decimals=decimals)
