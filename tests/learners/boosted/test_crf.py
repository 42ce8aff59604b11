"""Training of `TreeCRF`: likelihoods, early stopping, warm start, threads, seeds, parameters."""

from __future__ import annotations

import copy
import re
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from support.cases import STORAGES, random_sequences
from support.family import assert_equal_arrays
from support.settings import PLAIN
from support.sweeps import pairs

import treecrf
from treecrf import TreeCRF
from treecrf.chains.likelihood import LogLikelihood
from treecrf.inputs.dataset import as_sequences
from treecrf.learners.base import predictor
from treecrf.learners.base.fitted import fitted_model


def small(**parameters) -> TreeCRF:
    defaults = {"window": 1, "max_iter": 8, "l2_regularization": 1.0, "random_state": 0}
    return TreeCRF(**PLAIN | {"init": "zero"} | defaults | parameters)


def assert_same_model(a: TreeCRF, b: TreeCRF, X) -> None:
    """Check that two models agree to the last bit."""
    assert a.n_iter_ == b.n_iter_
    packed, other = a._state()[1], b._state()[1]
    assert packed.keys() == other.keys()
    for name in packed:
        np.testing.assert_array_equal(packed[name], other[name], err_msg=name)
    assert_equal_arrays(a.predict_proba(X), b.predict_proba(X))


def mean_log_likelihood(crf: TreeCRF, X, y) -> float:
    return crf.predict_log_likelihood(X, y).sum() / sum(map(len, y))


@pytest.mark.parametrize("decoding", ["viterbi", "marginal", "minimum_risk"])
@pytest.mark.parametrize(("order", "n_jobs"), [(0, 3), (1, 1), (2, 3)])
def test_predictions_do_not_depend_on_runs(order, decoding, n_jobs, letters, monkeypatch):
    X, y = letters
    crf = small(order=order, decoding=decoding, max_iter=5).fit(X, y)
    allowed = [
        np.tile(np.arange(len(crf.classes_)) < len(crf.classes_) - 1, (len(x), 1)) for x in X
    ]
    calls = [
        lambda: crf.predict(X),
        lambda: crf.predict(X, allowed=allowed),
        lambda: crf.predict_proba(X),
        lambda: crf.predict_pairwise_proba(X),
        lambda: [part for pair in crf.decode(X) for part in pair],
        lambda: [labels for found in crf.decode(X, n_best=3) for labels in found[0]],
    ]
    whole = [call() for call in calls]
    crf.set_params(n_jobs=n_jobs)
    lattices = []
    monkeypatch.setattr(predictor, "MIN_RUN", 1)
    monkeypatch.setattr(predictor, "MAX_BYTES", 1)
    monkeypatch.setattr(predictor, "RUN_BYTES", 2000)
    fitted_model(crf).predictor.short_model = None
    chain = fitted_model(crf).chain
    of_run = chain.lattice
    monkeypatch.setattr(chain, "lattice", lambda *args: lattices.append(0) or of_run(*args))
    for call, expected in zip(calls, whole, strict=True):
        before = len(lattices)
        assert_equal_arrays(call(), expected)
        assert len(lattices) > before + 1


# Likelihood and its history


@pytest.mark.parametrize(
    ("order", "l2"), pairs(product(range(5), [0.0, 0.1, 1.0, 10.0]), lambda order, l2: l2 < 1)
)
def test_newton_steps_never_lower_the_likelihood(order, l2):
    for seed in range(3):
        rng = np.random.default_rng([seed, order])
        K = rng.integers(2, 5 if order < 3 else 3)
        y = [rng.integers(0, K, n) for n in rng.integers(1, 15, 8)]
        X = [np.stack([rng.normal(size=len(v)) + v, rng.integers(0, 3, len(v))], 1) for v in y]
        crf = small(order=order, second_order=True, l2_regularization=l2, max_iter=20,
                    max_leaf_nodes=int(rng.integers(2, 30))).fit(X, y)  # fmt: skip
        # Near 0 nothing is left to gain and rounding shows.
        assert np.diff(crf.train_score_).min() > -1e-9


def persistent(n_labels: int, lengths: list[int]) -> tuple[list, list]:
    """Draw labels that rarely change, and two noisy measurements of each."""
    rng = np.random.default_rng(n_labels)
    y = []
    for n in lengths:
        drawn = rng.integers(n_labels, size=n)
        starts = np.where(rng.random(n) < 0.03, np.arange(n), 0)
        y.append(drawn[np.maximum.accumulate(starts)])
    return [v[:, None] + rng.normal(size=(len(v), 2)) for v in y], y


def last_score(X, y, **parameters) -> float:
    settings = {"second_order": True, "learning_rate": 0.3, "max_iter": 12} | parameters
    return small(**settings).fit(X, y).train_score_[-1]


FIRST_ORDER = {"second_order": False, "learning_rate": 1.0}


@pytest.mark.parametrize(("n_labels", "order"), [(2, 4), (4, 2), (4, 3)])
def test_higher_orders_train_as_well_where_labels_persist(n_labels, order):
    X, y = persistent(n_labels, [400] * 2)
    found = last_score(X, y, order=order, sampling=None)
    assert found > last_score(X, y) - 0.005
    assert found > last_score(X, y, order=order, **FIRST_ORDER) - 0.005


@pytest.mark.parametrize(("order", "beam"), [(2, "forward-only"), (3, "two-pass")])
def test_beams_train_as_well_where_labels_persist(order, beam):
    X, y = persistent(4, [400] * 2)
    found = last_score(X, y, order=order, beam_width=8, beam=beam)
    assert found > last_score(X, y) - 0.005
    assert found > last_score(X, y, order=order) - 0.02


@pytest.mark.parametrize("init", ["zero", "pseudo_likelihood"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_first_order_steps_raise_the_likelihood(order, init, letters, tables):
    for X, y in (letters, tables):
        crf = small(order=order, init=init, l2_regularization=5.0).fit(X, y)
        assert np.diff(crf.train_score_).min() > 0


def test_validation_needs_sequences_and_labels(letters):
    X, y = letters
    with pytest.raises(ValueError, match="X_val is given without y_val"):
        small().fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="y_val is given without X_val"):
        small().fit(X, y, y_val=y)
    with pytest.raises(ValueError, match=r"X.* has 24 sequences, y.* has 23"):
        small().fit(X, y, X, y[1:])


# Prediction


parameters = st.fixed_dictionaries(
    {},
    optional={
        "order": st.integers(0, 2),
        "window": st.one_of(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 2))),
        "max_leaf_nodes": st.integers(2, 50),
        "l2_regularization": st.floats(0, 100),
        "learning_rate": st.floats(0.01, 2),
        "second_order": st.booleans(),
        "min_gain": st.floats(0, 1),
        "min_samples_leaf": st.integers(1, 9),
        "max_features": st.floats(0.01, 1),
        "subsample": st.floats(0.01, 1),
        "max_bins": st.integers(2, 255),
        "init": st.sampled_from(["zero", "pseudo_likelihood"]),
        "early_stopping": st.booleans(),
        "class_weight": st.sampled_from([None, "balanced", {0: 3.0}]),
    },
)


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
@given(parameters, st.sampled_from(sorted(STORAGES)), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_properties_hold_for_all_parameters(parameters, kind, n_labels, seed):
    rng = np.random.default_rng(seed)
    lengths = [1, 2, *rng.integers(1, 40, 5)]
    X = random_sequences(kind, rng, lengths)
    y = [rng.integers(0, n_labels, n) for n in lengths]
    y[0], y[1] = [0], [1, 0]
    # Linear models refuse the largest numbers.
    parameters = {"init": "zero"} | parameters
    crf = TreeCRF(max_iter=4, random_state=seed, **parameters).fit(X, y)
    assert_same_model(crf, clone(crf).set_params(n_jobs=3).fit(X, y), X)
    queries = [*X, *random_sequences(kind, rng, [7, 1, 30], new=True)]
    probabilities = crf.predict_proba(queries)
    np.testing.assert_allclose(np.concatenate(probabilities).sum(axis=1), 1, atol=1e-12)
    labels, best = crf.decode(queries)
    np.testing.assert_allclose(crf.predict_log_likelihood(queries, labels), best, atol=1e-9)
    assert (best >= crf.predict_log_likelihood(queries, crf.predict(queries)) - 1e-9).all()
    for *_, last in [crf.staged_predict_proba(queries)] if crf.n_iter_ else []:
        for p, q in zip(last, probabilities, strict=True):
            np.testing.assert_allclose(p, q, atol=1e-12)


# Early stopping


def noisy(n: int, seed: int) -> tuple[list, list]:
    """Labels that one feature determines in part, so that long training overfits."""
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 2, 10) for _ in range(n)]
    return [0.5 * labels[:, None] + rng.normal(size=(10, 5)) for labels in y], y


@pytest.mark.parametrize("sampling", [None, 0.1])
@pytest.mark.parametrize("missing", ["weighting", "indicator"])
@pytest.mark.parametrize("form", ["symbols", "missing symbols", "dicts"])
def test_validation_scores_unseen_categories_like_prediction(form, missing, sampling, letters):
    """The letter d occurs in validation only, where it is not a missing one."""
    X, y = letters
    train, new, gone = [x.replace("d", "a") for x in X], X, [x.replace("d", "?") for x in X]
    if form == "missing symbols":
        train[0] = [None, *train[0][1:]]
    if form == "dicts":
        train, new, gone = ([[{"x": s} for s in x] for x in part] for part in (train, new, gone))
    settings = {"missing": missing, "sampling": sampling, "scoring": "loss"}
    crf = small(**settings).fit(train, y, new, y)
    assert crf.validation_score_[-1] == pytest.approx(mean_log_likelihood(crf, new, y), rel=1e-12)
    again = small(**settings).fit(train, y, gone, y)
    np.testing.assert_array_equal(crf.validation_score_, again.validation_score_)
    assert crf.validation_score_[-1] != pytest.approx(mean_log_likelihood(crf, train, y))


def test_early_stopping_may_keep_no_iteration(tmp_path):
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(20, 3)) for _ in range(8)], [rng.integers(0, 2, 20) for _ in range(8)]
    X_val, y_val = X, [1 - labels for labels in y]
    settings = {"early_stopping": True, "n_iter_no_change": 2, "constant_transitions": False}
    crf = small(**settings, scoring="loss").fit(X, y, X_val, y_val)
    assert crf.n_iter_ == 0
    assert crf.train_score_ == crf.validation_score_ == pytest.approx(-np.log(2))
    crf.save(tmp_path / "model")
    for model in (crf, treecrf.load(tmp_path / "model")):
        assert (np.concatenate(model.predict_proba(X)) == 0.5).all()
        assert list(model.staged_predict_proba(X)) == []
        np.testing.assert_array_equal(model.feature_importances_, 0)
    grown = crf.set_params(early_stopping=False, warm_start=True, max_iter=8).fit(X, y)
    np.testing.assert_array_equal(grown.train_score_, small().fit(X, y).train_score_)


def test_early_stopping_needs_training_sequences():
    with pytest.raises(ValueError, match="early stopping holds out 1 of 1 sequences"):
        small(early_stopping=True).fit(["ab"], ["xy"])


# Warm start


def test_a_warm_start_without_a_seed_stays_reproducible(tables):
    X, y = tables
    parts = small(max_iter=2, random_state=None, warm_start=True, subsample=0.5).fit(X, y)
    twin = copy.deepcopy(parts)
    for crf in (parts, twin):
        crf.set_params(max_iter=6).fit(X, y)
    assert_same_model(parts, twin, X)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": (1, 0)}, "has window=(1, 1), which cannot change to (1, 0)"),
        ({"constant_transitions": True}, "constant_transitions=False, which cannot change to True"),
        ({"max_iter": 7}, "warm start: max_iter=7 is less than the 8 iterations of the model"),
    ],
)
def test_a_warm_start_rejects_other_settings(changed, message, letters):
    crf = small(warm_start=True).fit(*letters)
    with pytest.raises(ValueError, match=re.escape(message)):
        crf.set_params(**changed).fit(*letters)


def test_a_warm_start_rejects_other_data(letters, tables):
    crf = small(warm_start=True).fit(*letters).set_params(max_iter=9)
    with pytest.raises(TypeError, match="X holds tables, but the model was trained on"):
        crf.fit(*tables)
    with pytest.raises(ValueError, match="sequence 0, position 1: label '!' was not seen in train"):
        crf.fit(["ab"], ["x!"])


# Threads and seeds do not change the result


@pytest.mark.parametrize("chance", [{"subsample": 0.5}, {"max_features": 0.3}])
def test_the_seed_decides(chance, tables):
    X, y = tables
    same, again, other = (small(random_state=s, **chance).fit(X, y) for s in (1, 1, 2))
    assert_same_model(same, again, X)
    assert (same.train_score_ != other.train_score_).any()
    drawn = np.random.RandomState(0)
    first, second = (small(random_state=drawn, **chance).fit(X, y) for _ in range(2))
    assert (first.train_score_ != second.train_score_).any()


def test_without_random_choices_the_seed_has_no_effect(tables):
    X, y = tables
    assert_same_model(*(small(random_state=s).fit(X, y) for s in (1, None)), X)


# Parameters that change what is learned


def test_subsample_leaves_sequences_out():
    X, y = ["a" * 10, "b" * 30], ["xy" * 5, "yx" * 15]
    crf = small(subsample=0.5, max_iter=12, window=0, order=0).fit(X, y)
    roots = [tree["weight"][0] for tree in crf._forest.trees]
    assert roots[::2] == roots[1::2]
    assert set(roots) == {10.0, 30.0}


def test_max_features_hides_features_at_random():
    rng = np.random.default_rng(0)
    X = [rng.random((40, 8)) < 0.5 for _ in range(10)]
    y = [table[:, 0].astype(int) for table in X]
    some = small(max_features=0.1, window=0, order=0, max_iter=20).fit(X, y)
    assert some.feature_importances_[0] > 0.5
    assert len({int(tree["column"][0]) for tree in some._forest.trees[::2]}) > 4
    assert small(window=0, order=0, max_iter=1).fit(X, y).feature_importances_[0] == 1


def test_class_weights_of_labels_that_do_not_occur(letters):
    X, y = letters
    weights = {"x": 2.0, "y": 1.0, "z": 3.0}
    more = small(class_weight=weights | {"?": 5.0}).fit(X, y)
    assert_same_model(small(class_weight=weights).fit(X, y), more, X)


def test_balanced_weights_where_only_held_out_sequences_have_a_label():
    X, y = noisy(10, 0)
    for i in range(len(y)):  # one of them is held out
        labels = [*y[:i], np.full_like(y[i], 7), *y[i + 1 :]]
        crf = small(class_weight="balanced", early_stopping=True, random_state=0).fit(X, labels)
        assert crf.classes_[-1] == 7
        assert np.isfinite(crf.train_score_).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"x": 0.0},
            "class_weight: 'x' has weight 0.0; expected a number from 1e-06 to 1e+06",
        ),
        ({"x": -1.0}, "class_weight: 'x' has weight -1.0; expected"),
        ({"x": np.nan}, "class_weight: 'x' has weight nan; expected"),
        ({"x": np.inf}, "class_weight: 'x' has weight inf; expected"),
        ({"x": 10**400}, "class_weight: 'x' has weight 1000"),
        ({"x": "a"}, "class_weight: 'x' has weight 'a'; expected a number"),
        ({"x": None}, "class_weight: 'x' has weight None; expected a number"),
        ({"x": 1.0, "y": 1.0, "z": 1.0, "?": 0.0}, "class_weight: '?' has weight 0.0"),
        ({"?": 2.0}, "class_weight has ['?'], but y holds only ['x', 'y', 'z']"),
        ({"x": 1.0, "y": 1.0, "?": 1.0, 3: 1}, "class_weight has ['?', 3], but y holds only ['x',"),
    ],
)
def test_bad_class_weights_are_rejected(weights, message, letters):
    with pytest.raises(ValueError, match=re.escape(message)):
        small(class_weight=weights).fit(*letters)


def test_pseudo_likelihood_changes_the_first_iterations(letters):
    X, y = letters
    inits = ("zero", "pseudo_likelihood")
    zero, pseudo = (small(init=init, max_iter=5).fit(X, y) for init in inits)
    assert (zero.train_score_[1:] != pseudo.train_score_[1:]).all()
    # Without neighbors, the pseudo-likelihood equals the likelihood.
    words, labels = ["a", "b", "c", "d"] * 5, ["x", "y", "z", "x"] * 5
    assert_same_model(*(small(init=init).fit(words, labels) for init in inits), words)


def test_leaves_and_gain_limit_the_trees(tables):
    X, y = tables
    sizes = {
        limit: max(len(tree["leaf"]) for tree in small(**{name: limit}).fit(X, y)._forest.trees)
        for name, limit in (("max_leaf_nodes", 4), ("min_gain", 1e9), ("min_samples_leaf", 10**9))
    }
    assert sizes == {4: 7, 1e9: 1}
    # A huge maximum, to leave the number of leaves unlimited, is common.
    assert small(max_leaf_nodes=10**12, max_iter=1).fit(X, y).n_iter_ == 1


def depth_of(tree, node=0):
    children = tree["true_child"][node], tree["false_child"][node]
    return 0 if children[0] < 0 else 1 + max(depth_of(tree, child) for child in children)


@pytest.mark.parametrize("sampling", [None, 0.1])
@pytest.mark.parametrize("max_depth", [1, 3, None, 10**12])
def test_depth_limits_the_trees(tables, max_depth, sampling):
    X, y = tables
    crf = small(max_depth=max_depth, sampling=sampling, l2_regularization=0.0).fit(X, y)
    depths = [depth_of(tree) for tree in crf._forest.trees]
    assert max(depths) == max_depth if max_depth in (1, 3) else max(depths) > 3


def test_bins_limit_the_thresholds(tables):
    X, y = tables
    crf = small(max_bins=2, window=0).fit(X, y)
    thresholds = {
        (int(c), int(v)) for tree in crf._forest.trees
        for c, v, child in zip(tree["column"], tree["value"], tree["true_child"], strict=True)
        if child >= 0 and c >= 0
    }  # fmt: skip
    assert thresholds <= {(0, 0), (1, 0), (2, 0)}


def test_a_window_can_be_a_list(letters):
    X, y = letters
    assert_same_model(small(window=[1, 1]).fit(X, y), small(window=1).fit(X, y), X)


def test_scores_too_large_for_memory_are_rejected():
    n = 200_000
    message = (
        "order=1 with 4096 labels and 200000 positions needs .* GB: .*set constant_transitions"
    )
    with pytest.raises(MemoryError, match=message):
        small(window=0).fit([np.zeros((n, 1))], [np.arange(n) % 4096])


@pytest.mark.parametrize("method", ["predict_proba", "decode", "staged_predict_proba"])
def test_prediction_checks_memory_first(method, trained, letters, monkeypatch):
    def refuse(n_labels, order, n_positions):
        raise MemoryError(f"{n_labels} labels, order {order}, {n_positions} positions")

    monkeypatch.setattr(treecrf.learners.boosted.chains, "require_memory", refuse)
    with pytest.raises(MemoryError, match="3 labels, order 1, 9003 positions"):
        list(getattr(trained, method)(["abc", "a" * 9000]))


# Failures during fit


@pytest.mark.parametrize("warm_start", [False, True])
def test_an_interrupted_fit_leaves_the_model_unchanged(warm_start, letters, monkeypatch):
    X, y = letters
    crf = small(max_iter=3, warm_start=warm_start, n_jobs=2).fit(X, y)
    proba, before = crf.predict_proba(X), vars(crf).copy()
    compute, calls = LogLikelihood._compute, count(1)

    def interrupted(*arguments):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return compute(*arguments)

    crf.set_params(max_iter=9)
    with monkeypatch.context() as patch:
        patch.setattr(LogLikelihood, "_compute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            crf.fit(X, y)
    assert all(value is before[name] for name, value in vars(crf).items() if name != "max_iter")
    assert_equal_arrays(crf.predict_proba(X), proba)
    assert_same_model(crf.fit(X, y), small(max_iter=9).fit(X, y), X)


def test_fit_changes_neither_parameters_nor_data(tables):
    X, y = tables
    kept = copy.deepcopy((X, y))
    crf = small(window=[1, 0], class_weight={0: 2.0}, max_iter=2)
    parameters = copy.deepcopy(crf.get_params())
    assert crf.fit(X, y) is crf
    crf.predict(X)
    assert crf.get_params() == parameters
    for ours, theirs in zip((X, y), kept, strict=True):
        assert_equal_arrays(ours, theirs)
    assert as_sequences(X).items[0] is X[0]
