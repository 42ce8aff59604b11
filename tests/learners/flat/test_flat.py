"""Flat models have the scores of their trees, and so have their parts in a naive evaluation."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from itertools import chain, product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from support.cases import (
    STORAGES,
    dense,
    pack,
    random_sequences,
)
from support.family import (
    FLAT,
    assert_equal_arrays,
    assert_predicts_the_same,
    every,
    scores_of,
)
from support.forests import Trained, Walker
from support.oracles import extended_contexts
from support.settings import PLAIN
from support.sweeps import pairs
from support.tree_oracle import meaning_of_tests, window_test_truth

import treecrf
from treecrf import (
    FlatModel,
    HMMClassifier,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    flatten,
)
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.flat.export import FlatForest, FlatTables
from treecrf.trees.explain.conjunctions import conjunctions_of, leaves_of, paths_of, window_literals
from treecrf.trees.forest import LABEL
from treecrf.utils.threads import Threads

SMALL = PLAIN | {
    "max_iter": 6, "max_leaf_nodes": 12, "l2_regularization": 1.0, "random_state": 0
}  # fmt: skip


def flat_scores(trained: Trained, sequences) -> np.ndarray:
    """Sums of the weights of the conjunctions that hold."""
    forest = FlatForest(trained.forest, trained.encoder)
    encoded = trained.encoder.encode(pack(sequences))
    flat, scores = forest.flat, trained.forest.zeros(encoded, None)
    with Threads(1) as threads:
        matrix = forest.matrix(encoded, threads)
    n_labels, order = len(scores), flat.masks.shape[1]
    for depth, c, symbols in extended_contexts(n_labels, order):
        fits = flat.masks[:, np.arange(order), np.array(symbols, int)].all(axis=1)[flat.sets]
        weights = np.zeros((len(flat), n_labels))
        np.add.at(weights, (flat.conjunctions, flat.labels), flat.weights * fits)
        here = encoded.depth_of(order) == depth
        scores[:, here, c] = (matrix[here] @ weights).T
    return scores


# Scores


@pytest.mark.parametrize(
    ("kind", "order", "window"),
    pairs(
        product(STORAGES, (0, 1, 2), ((0, 0), (2, 1), (0, 3))),
        lambda _, order, window: (order, window) == (1, (2, 1)),
    ),
)
def test_scores_are_those_of_the_trees(kind, order, window, few_codes):
    """New sequences hold unseen values; categories among them fail all tests."""
    trained = Trained(kind, order, order=order, window=window, n_labels=2 + order % 2)
    np.testing.assert_array_equal(flat_scores(trained, trained.sequences), trained.training_scores)
    new = random_sequences(kind, np.random.default_rng(5), [1, 30, 600, 2], new=True)
    np.testing.assert_array_equal(flat_scores(trained, new), trained.scores(new))


@every(FLAT)
def test_every_learner_predicts_the_same(name, fitted, letters):
    X, y = letters
    model, flat = fitted(name.removeprefix("flat ")), fitted(name)
    for sequences in (X, ["abca", "d", "ba?", "cd"]):
        np.testing.assert_array_equal(scores_of(flat, sequences), scores_of(model, sequences))
        assert_predicts_the_same(flat, model, sequences)
    assert flat.score(X, y) == model.score(X, y)
    assert (
        flat.get_params().items()
        >= {n: v for n, v in model.get_params().items() if n in flat.get_params()}.items()
    )


def test_parameters_of_prediction_can_be_changed(letters):
    X, y = letters
    model = TreeCRF(window=1, transitions=None, **SMALL).fit(X, y)
    follows = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=bool)
    costs = [[0, 5, 1], [1, 0, 1], [1, 1, 0]]
    for parameters in (
        {"decoding": "viterbi"}, {"transitions": follows}, {"n_jobs": 2},
        {"decoding": "minimum_risk", "cost_matrix": costs},
    ):  # fmt: skip
        flat = flatten(model).set_params(**parameters)
        assert_predicts_the_same(flat, copy.copy(model).set_params(**parameters), X)


# Conjunctions


def naive_truth(trained: Trained, tests) -> np.ndarray:
    columns, offsets, values = np.array(tests, dtype=int).reshape(-1, 3).T
    meanings = meaning_of_tests(trained.encoder, columns, offsets, values)
    return window_test_truth(dense(trained.sequences), meanings)


@pytest.mark.parametrize("kind", STORAGES)
def test_conjunctions_without_implied_tests_hold_where_their_paths_do(kind, few_codes):
    trained = Trained(kind, 0, window=(3, 2), max_leaf_nodes=40, n_iter=2)
    packed = trained.forest.pack()
    paths, n_leaves = paths_of(packed), len(leaves_of(packed))
    shorter = window_literals(paths, trained.encoder)
    assert len(shorter.leaf) < (paths.column != LABEL).sum()
    held = []
    for literals in (paths.take(paths.column != LABEL), shorter):
        tests = np.stack([literals.column, literals.offset, literals.value], axis=1)
        fits = naive_truth(trained, tests) == literals.holds[:, None]
        held.append([fits[literals.leaf == i].all(axis=0) for i in range(n_leaves)])
    np.testing.assert_array_equal(*held)


def test_equal_conjunctions_are_one():
    trained = Trained("letters", 1, n_iter=30, max_leaf_nodes=6)
    flat = conjunctions_of(trained.forest, trained.encoder)
    rows = [tuple(flat.tests_of(k)) for k in range(len(flat))]
    assert len(set(rows)) == len(rows) < len(flat.entry_of_leaf)
    keys = list(zip(flat.conjunctions, flat.sets, flat.labels, strict=True))
    assert keys == sorted(set(keys))
    packed = trained.forest.pack()
    leaves = packed["leaf"][leaves_of(packed)]
    for entry, weight in enumerate(flat.weights):
        assert weight == leaves[flat.entry_of_leaf == entry].sum()
    assert flat.masks[0].all()


def test_a_forest_in_several_runs_is_the_same(monkeypatch):
    trained = Trained("letters", 1, n_iter=9, order=2)
    whole = conjunctions_of(trained.forest, trained.encoder)
    monkeypatch.setattr("treecrf.trees.explain.conjunctions.MAX_LEAVES", 20)
    parts = conjunctions_of(trained.forest, trained.encoder)
    assert_equal_arrays(vars(whole).values(), vars(parts).values())


def test_a_forest_without_trees():
    trained = Trained("floats", 0, n_iter=0)
    assert len(conjunctions_of(trained.forest, trained.encoder)) == 0
    assert not flat_scores(trained, trained.sequences).any()


# The transformer


@pytest.mark.parametrize("kind", STORAGES)
def test_rows_mark_the_conjunctions_that_hold(kind, few_codes):
    trained = Trained(kind, 3, n_labels=3, window=(1, 2))
    forest = FlatForest(trained.forest, trained.encoder)
    for n_threads in (1, 2):
        with Threads(n_threads) as threads:
            matrix = forest.matrix(trained.encoded, threads)
        assert matrix.has_canonical_format
        for k in range(len(forest.flat)):
            tests = forest.flat.tests_of(k)
            truth = naive_truth(trained, [test for test, _ in tests])
            holds = (truth == np.array([h for _, h in tests])[:, None]).all(axis=0)
            np.testing.assert_array_equal(matrix[:, [k]].toarray()[:, 0], holds)


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("kind", ["letters", "mixture", "sparse"])
def test_parts_are_means_over_leaves(kind, missing):
    trained = Trained(kind, 3, rate=0.2, missing=missing, n_labels=3, max_leaf_nodes=6)
    forest = FlatForest(trained.forest, trained.encoder)
    of_leaf = forest.flat.conjunction_of_leaf
    expected = np.zeros((len(of_leaf), trained.encoded.n_positions))
    first = 0
    for tree in trained.forest.trees:
        walker = Walker(tree, trained.encoder, dense(trained.sequences))
        n = (tree["true_child"] < 0).sum()
        for t in range(trained.encoded.n_positions):
            expected[first : first + n, t] = parts_of_leaves(walker, t)
        first += n
    with Threads(1) as threads:
        matrix = forest.matrix(trained.encoded, threads).toarray()
    for k in range(len(forest.flat)):
        np.testing.assert_allclose(matrix[:, k], expected[of_leaf == k].mean(axis=0), atol=1e-12)


def test_rows_with_missing_values_at_a_high_order():
    """Rows do not enumerate contexts, of which there are too many here."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), 40)) for _ in range(5)]
    y = [x.replace("c", "a").replace("d", "b") for x in X]
    memm = TreeMEMM(order=30, window=1, max_iter=3, decoding="greedy", l2_regularization=1.0)
    flat = flatten(memm.fit(X, y))
    gapped = ["a", "b", None, "d"]
    assert_equal_arrays(flat.predict([gapped]), memm.predict([gapped]))
    rows, whole = (flat.transform([x])[0].toarray() for x in (gapped, "abcd"))
    np.testing.assert_array_equal(rows[0], whole[0])
    assert ((rows[2] > 0) & (rows[2] < 1)).any()


def parts_of_leaves(walker: Walker, t: int) -> list[float]:
    """The fraction of a position that reaches each leaf of a tree, for any previous labels."""
    tree = walker.tree
    parts = [1.0] + [0.0] * (len(tree["leaf"]) - 1)
    for node, child in enumerate(tree["true_child"]):
        if child < 0:
            continue
        part, other = parts[node], tree["false_child"][node]
        if tree["column"][node] == LABEL:
            parts[child] = parts[other] = part
            continue
        # `passes` evaluates window tests only.
        passing = part * walker.passes(node, t, None)
        if walker.missing[node, t] and part:
            share = tree["share"][node]
            follows = walker.follows_surrogates
            passing = part * walker.follow(node, t) if follows else _part_of(part, share)
        parts[child], parts[other] = passing, part - passing
    return [part for part, child in zip(parts, tree["true_child"], strict=True) if child < 0]


def _part_of(part: float, share: float) -> float:
    return np.floor(part * np.rint(share * 2**16) + 0.5) / 2**16


@pytest.mark.parametrize("name", ["CRF of order 0", "CRF of order 1", "MEMM of order 1",
                                  "sliding window", "recurrent window"])  # fmt: skip
def test_rows_times_weights_are_scores(name, fitted, letters):
    X, _ = letters
    flat = fitted(f"flat {name}")
    scores, offsets = scores_of(flat, X), fitted_model(flat).predictor.read(X)[0].offsets
    products = flat.matrix(X) @ flat.weights().reshape(flat.n_conjunctions_, -1)
    sparsely = (flat.matrix(X) @ flat.sparse_weights()).toarray()
    np.testing.assert_array_equal(sparsely, products)
    products = products.reshape(-1, 4, 3)
    for t, row in enumerate(products):
        if not fitted_model(flat).chain.order:
            np.testing.assert_array_equal(row, np.tile(scores[:, t, 0], (4, 1)))
        elif t in offsets:
            np.testing.assert_array_equal(row[3], scores[:, t, 0])
        else:
            np.testing.assert_array_equal(row[:3], scores[:, t].T)


def test_weights_are_for_one_previous_label(fitted):
    flat = fitted("flat CRF of order 2")
    for weights in (flat.weights, flat.sparse_weights):
        with pytest.raises(ValueError, match="the model is of order 2; weights of pairs"):
            weights()


def test_rows_of_lists_and_long_tables(letters):
    X, y = letters
    for model in (TreeCRF(window=1, **SMALL),
                  RecurrentSlidingWindowClassifier(window=(2, 0), direction="right-to-left",
                                                   **SMALL)):  # fmt: skip
        flat = flatten(model.fit(X, y))
        rows = flat.transform(X)
        assert [len(x) for x in X] == [r.shape[0] for r in rows]
        whole = sparse.vstack(rows).toarray()
        np.testing.assert_array_equal(flat.matrix(X).toarray(), whole)
        lengths = [len(x) for x in X]
        long = flat.transform("".join(X), lengths=lengths)
        np.testing.assert_array_equal(long.toarray(), whole)
        groups = np.repeat(np.arange(len(X)), lengths)
        np.testing.assert_array_equal(flat.matrix("".join(X), groups=groups).toarray(), whole)
        np.testing.assert_array_equal(flat.fit_transform(X)[1].toarray(), rows[1].toarray())
        for k, name in enumerate(flat.get_feature_names_out()):
            holds = [holds_naively(name, x, t) for x in X for t in range(len(x))]
            np.testing.assert_array_equal(whole[:, k], holds)


def holds_naively(name: str, x: str, t: int) -> bool:
    """Read the words: ``symbol[-2] not in ('a', 'b') and not symbol[0] is 'c' and outside[+1]``."""
    for test in [] if name == "anything" else name.split(" and "):
        what, _, letters = test.removeprefix("not ").partition("]")
        position = t + int(what.partition("[")[2])
        inside = 0 <= position < len(x)
        if letters.startswith(" not in "):
            if inside and repr(x[position]) in letters:
                return False
            continue
        truth = inside and x[position] == letters.removeprefix(" is ").strip("'")
        if what.startswith("outside"):
            truth = not inside
        if truth == test.startswith("not "):
            return False
    return True


def test_attributes_are_the_names_of_the_conjunctions_that_hold(letters):
    """As python-crfsuite takes them: a list of names for each position."""
    X, _ = letters
    flat = flatten(TreeCRF(window=1, **SMALL).fit(*letters))
    names, attributes = flat.get_feature_names_out(), flat.attributes(X)
    assert [len(x) for x in attributes] == [len(x) for x in X]
    rows = list(chain.from_iterable(attributes))
    for found, row in zip(rows, flat.matrix(X).toarray(), strict=True):
        assert sorted(found) == sorted(names[row > 0])
    assert flat.attributes("".join(X), lengths=[len(x) for x in X]) == rows


def test_python_crfsuite_takes_the_attributes(letters, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = letters
    flat = flatten(TreeCRF(window=1, **SMALL).fit(X, y))
    attributes = flat.attributes(X)
    rows = flat.matrix(X)
    assert len(list(chain.from_iterable(attributes))) == rows.shape[0]
    assert sum(len(here) for x in attributes for here in x) == rows.nnz
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(attributes, y, strict=True):
        trainer.append(x, list(labels))
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    found = "".join("".join(tagger.tag(x)) for x in attributes)
    assert np.mean(np.array(list(found)) == np.array(list("".join(y)))) > 0.85
    assert {name for name, _ in tagger.info().state_features} <= set(flat.get_feature_names_out())
    long = flat.attributes("".join(X), lengths=[len(x) for x in X])
    assert long == list(chain.from_iterable(attributes))


def test_names_of_close_thresholds_have_enough_digits():
    numbers = 1 + np.arange(12) * 1e-9
    X = [numbers[:, None]] * 3
    y = [np.arange(12) % 2] * 3
    crf = TreeCRF(order=0, max_iter=2, l2_regularization=0.0, max_bins=255)
    names = flatten(crf.fit(X, y)).get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    assert not any(name.endswith(")") for name in names)


# Exports


def scores_from_json(contents: dict, X: list) -> np.ndarray:
    """All scores of strings or tables, from the JSON only, in the direction of the chain."""
    n, step = len(contents["classes"]), 1 if contents["direction"] == "left-to-right" else -1
    rows = []
    for x in X:
        for t in range(len(x))[::step]:
            held = [
                all(passes(test, x, t) for test in c["tests"]) for c in contents["conjunctions"]
            ]
            behind = t if step == 1 else len(x) - 1 - t
            row = np.zeros((n, n ** contents["order"]))
            for depth, c, symbols in extended_contexts(n, contents["order"]):
                if depth != min(behind, contents["order"]):
                    continue
                before = [None if s == n else contents["classes"][s] for s in symbols]
                for weight in contents["weights"]:
                    lags = contents["contexts"][weight["context"]]["previous"]
                    fits = all(b in lag for b, lag in zip(before, lags, strict=True))
                    if held[weight["conjunction"]] and fits:
                        row[contents["classes"].index(weight["label"]), c] += weight["weight"]
            rows.append(row)
    return np.stack(rows, axis=1)


def passes(test: dict, x, t: int) -> bool:
    position = t + test.get("outside", test.get("offset"))
    inside = 0 <= position < len(x)
    if "outside" in test:
        return (not inside) == test["holds"]
    value = (
        x[position]
        if isinstance(x, str) and inside
        else x[position][test["feature"]]
        if inside
        else 0
    )
    if "is" in test:
        return (inside and value == test["is"]) == test["holds"]
    if "at_most" in test:
        return bool(inside and value <= test["at_most"]) == test["holds"]
    limit = test.get("above", 0)
    return bool(inside and value > limit) == test["holds"]


@pytest.mark.parametrize("name", ["CRF of order 0", "CRF of order 1", "MEMM of order 2",
                                  "sliding window", "recurrent window, backward"])  # fmt: skip
def test_json_contains_everything(name, fitted):
    flat = fitted(f"flat {name}")
    X = ["abca", "d", "dbbac"]
    contents = json.loads(flat.to_json())
    np.testing.assert_array_equal(scores_from_json(contents, X), scores_of(flat, X))
    assert [c["name"] for c in contents["conjunctions"]] == flat.get_feature_names_out().tolist()


def test_json_of_tables():
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 4, (9, 2)) / 2 for _ in range(8)]
    y = [(x[:, 0] > 0.5) * 1 + (x[:, 1] > 1) for x in X]
    below = [sparse.csr_array((x - 1) * (x > 0)) for x in X]
    for table in (X, [x > 0.5 for x in X], below):
        flat = flatten(TreeCRF(window=1, **SMALL).fit(table, y))
        contents = json.loads(flat.to_json())
        found = scores_from_json(contents, dense(table[:2]))
        np.testing.assert_array_equal(found, scores_of(flat, table[:2]))


def test_an_archive_holds_matrix_and_weights(letters):
    X, y = letters
    flat = flatten(TreeCRF(window=1, **SMALL).fit(X, y))
    file = io.BytesIO()
    flat.to_npz(file, "".join(X), lengths=[len(x) for x in X])
    matrix = sparse.load_npz(io.BytesIO(file.getvalue()))
    np.testing.assert_array_equal(matrix.toarray(), flat.matrix(X).toarray())
    archive = np.load(io.BytesIO(file.getvalue()))
    assert archive["names"].tolist() == flat.get_feature_names_out().tolist()
    assert archive["classes"].tolist() == ["x", "y", "z"]
    assert np.diff(archive["offsets"]).tolist() == [len(x) for x in X]
    dense_weights = np.zeros((matrix.shape[1], 4, 3))
    for conjunction, context, label, weight in zip(
        archive["weight_conjunctions"], archive["weight_contexts"], archive["weight_labels"],
        archive["weights"], strict=True,
    ):  # fmt: skip
        dense_weights[conjunction, archive["contexts"][context, 0], label] += weight
    np.testing.assert_array_equal(dense_weights, flat.weights())


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_lists_all_weights(backend, letters):
    pytest.importorskip(backend)
    X, y = letters
    flat = flatten(TreeCRF(window=1, **SMALL).fit(X, y))
    frame = flat.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    columns = {n: list(frame[n].to_pylist() if backend == "pyarrow" else frame[n])
               for n in ("conjunction", "context", "label", "weight")}  # fmt: skip
    assert len(columns["weight"]) == flat.n_weights_
    assert set(columns["conjunction"]) == set(flat.get_feature_names_out())
    assert set(columns["label"]) == set("xyz")
    assert sum(columns["weight"]) == pytest.approx(flat._flat.weights.sum())
    assert "label[-1] is 'x'" in columns["context"]
    assert {c.split("[")[0] for c in columns["context"]} <= {"anything", "label", "not label"}


@pytest.mark.exhaustive
def test_a_frame_without_its_library_is_an_error_with_advice():
    """In a process of its own, because narwhals may remember a library."""
    code = """
import sys
sys.modules["pandas"] = None
from treecrf import TreeMEMM, flatten
flatten(TreeMEMM(max_iter=2).fit(["ab"], ["xy"])).to_frame()
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    advice = "ImportError: backend='pandas' needs pandas: pip install pandas"
    assert process.stderr.splitlines()[-1] == advice


def test_names_of_contexts():
    trained = Trained("letters", 5, order=2, n_labels=3, n_iter=8, max_leaf_nodes=30)
    for backward, sides in ((False, ("[-1]", "[-2]")), (True, ("[+1]", "[+2]"))):
        flat = conjunctions_of(trained.forest, trained.encoder)
        tables = FlatTables(flat, trained.encoder, np.array(["p", "q", "r"]), backward)
        for words, mask in zip(tables.contexts, flat.masks, strict=True):
            found = np.ones_like(mask)
            for condition in words.split(" and ") if words != "anything" else []:
                lag = sides.index(condition.partition("label")[2][:4])
                named = [s in condition.partition("]")[2] for s in ("'p'", "'q'", "'r'", "none")]
                found[lag] = np.array(named) ^ condition.startswith("not ")
            np.testing.assert_array_equal(found, mask)


# Pruning


def largest_change(model, flat, X) -> float:
    return float(np.abs(scores_of(model, X) - scores_of(flat, X)).max())


@pytest.mark.parametrize("missing", ["weighting", "surrogate", "impute"])
def test_pruning_changes_no_score_by_more_than_its_bound(missing):
    rng = np.random.default_rng(3)
    y = [rng.integers(0, 3, n) for n in (30, 20, 50, 1)]
    X = [v[:, None] + rng.normal(size=(len(v), 3)) for v in y]
    for x in X:
        x[rng.random(x.shape) < 0.1] = np.nan
    crf = TreeCRF(window=1, missing=missing, **SMALL).fit(X, y)
    flat = flatten(crf)
    more = [np.where(rng.random((200, 3)) < 0.1, np.nan, rng.normal(size=(200, 3))) for _ in "ab"]
    before = 0
    for tolerance in (0.001, 0.01, 0.1, 0.5, 100.0):
        small = flat.prune(tolerance)
        pruned = small.pruned_
        assert pruned.score_change <= tolerance
        assert pruned.n_weights >= before
        before = pruned.n_weights
        assert flat.n_weights_ - small.n_weights_ == pruned.n_weights
        assert flat.n_conjunctions_ - small.n_conjunctions_ == pruned.n_conjunctions
        for sequences in (X, more):
            # Fractions of leaf values are rounded.
            assert largest_change(crf, small, sequences) <= pruned.score_change + 1e-9
        change = crf.predict_log_likelihood(X, y) - small.predict_log_likelihood(X, y)
        limit = pruned.log_probability_change * np.array([len(x) for x in X])
        assert (np.abs(change) <= limit + 1e-9).all()
        for p, q, x in zip(crf.predict_proba(X), small.predict_proba(X), X, strict=True):
            limit = pruned.log_probability_change * len(x)
            assert np.abs(np.log(p) - np.log(q)).max() <= limit + 1e-9
    assert small.n_weights_ == small.n_conjunctions_ == 0


def test_the_bound_is_that_of_the_worst_position():
    """Compares all possible inputs and all contexts, without the smallest weights."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ab"), 6)) for _ in range(60)]
    y = ["".join(rng.choice(list("xyz"), 6)) for _ in X]
    settings = PLAIN | {"max_iter": 1, "max_leaf_nodes": 20, "l2_regularization": 0.0}
    crf = TreeCRF(window=(1, 1), **settings).fit(X, y)
    every_input = [a + b + c for a in ("", "a", "b") for b in "ab" for c in ("", "a", "b")]
    flat = flatten(crf)
    sizes = np.sort(np.abs(flat._flat.weights))
    for tolerance in (sizes[len(sizes) // 3], sizes[-2]):
        small = flat.prune(float(tolerance))
        assert 0 < small.n_weights_ < flat.n_weights_
        # The bound of a single tree is the value of one leaf, which some position reaches.
        change = largest_change(crf, small, every_input)
        assert change == pytest.approx(small.pruned_.score_change, abs=1e-12)
        assert change <= tolerance


def test_pruning_twice_adds_up(letters):
    X, y = letters
    flat = flatten(TreeCRF(window=1, **SMALL).fit(X, y))
    once, more = flat.prune(0.05), flat.prune(0.05).prune(0.05)
    assert more.pruned_.n_weights >= once.pruned_.n_weights
    assert once.pruned_.score_change <= more.pruned_.score_change <= 0.1
    assert largest_change(flat, more, X) <= more.pruned_.score_change
    nothing = flat.prune(0)
    assert nothing.n_weights_ == flat.n_weights_
    assert nothing.pruned_ == flat.pruned_
    for tolerance in (-1, None, "a", np.nan):
        with pytest.raises(ValueError, match=r"tolerance=.*; expected a nonnegative number"):
            flat.prune(tolerance)


@every({"CRF in a beam of all contexts", "CRF of order 2", "future features of order 1"})
def test_every_learner_is_pruned(name, fitted, letters, tmp_path):
    X, _ = letters
    small = fitted(f"flat {name}").prune(0.3)
    assert small.pruned_.n_weights > 0
    assert largest_change(fitted(name), small, X) <= small.pruned_.score_change + 1e-12
    small.save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    assert_predicts_the_same(again, small, X)
    assert again.pruned_ == small.pruned_


# As an estimator


@every(FLAT)
def test_saved_flat_models_are_the_same(name, fitted, letters, tmp_path):
    X, _ = letters
    flat = fitted(name)
    flat.save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    assert type(again) is FlatModel
    assert_predicts_the_same(again, flat, X)
    assert again.to_json() == flat.to_json()
    assert again.get_params() == flat.get_params()
    assert vars(again).keys() == vars(flat).keys()


def test_clones_stay_trained(letters):
    X, y = letters
    flat = flatten(TreeCRF(**SMALL).fit(X, y))
    twin = clone(flat).set_params(decoding="viterbi")
    assert flat.decoding == "marginal"
    assert twin.fit(X, y) is twin
    assert_equal_arrays(twin.predict(X), flat.decode(X)[0])


def test_models_without_trees_are_refused(letters):
    X, y = letters
    with pytest.raises(NotFittedError):
        flatten(TreeCRF())
    with pytest.raises(TypeError, match=r"^model is a HMMClassifier; expected a model of boosted"):
        flatten(HMMClassifier().fit(X, y))
    window = SlidingWindowClassifier(LogisticRegression(tol=0.1)).fit(X, y)
    with pytest.raises(TypeError, match="SlidingWindowClassifier around LogisticRegression; expec"):
        flatten(window)
    for method in ("predict", "transform", "matrix", "attributes"):
        with pytest.raises(NotFittedError):
            getattr(FlatModel(), method)(X)
    for method in ("weights", "sparse_weights", "to_json", "to_frame", "get_feature_names_out",
                   "fit"):  # fmt: skip
        with pytest.raises(NotFittedError):
            getattr(FlatModel(), method)()


@pytest.mark.parametrize("multi_strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_constant_transitions_become_trees(order, multi_strategy, tmp_path):
    rng = np.random.default_rng(order)
    X = [rng.normal(size=(n, 3)) for n in (1, 2, 9, 30)]
    y = [np.array(list("abc"))[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)] for x in X]
    model = TreeCRF(
        order=order, constant_transitions=True, multi_strategy=multi_strategy, max_iter=4,
        early_stopping=False, init="linear", l2_regularization=1.0,
    ).fit(X, y)  # fmt: skip
    flat = flatten(model)
    expected = np.concatenate(model.predict_proba(X))
    np.testing.assert_allclose(np.concatenate(flat.predict_proba(X)), expected, atol=1e-12)
    flat.save(tmp_path / "flat")
    loaded = treecrf.load(tmp_path / "flat")
    assert loaded.to_frame().equals(flat.to_frame())
    np.testing.assert_allclose(np.concatenate(loaded.predict_proba(X)), expected, atol=1e-12)
    assert flat.prune(0.0).n_weights_ == flat.n_weights_
