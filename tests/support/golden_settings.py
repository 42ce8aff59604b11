"""Fits whose results are recorded: all learners, forms of input, and ways to train."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from support.golden_data import Data

import treecrf
from treecrf import HMMClassifier, LinearCRF, TreeCRF


class Fit(NamedTuple):
    """A model, the data, further arguments of ``fit``, and other ways to the same result."""

    model: Any
    data: str
    given: str = ""  # names in GIVEN
    ways: str = ""  # ways of `golden.fitted` that have the same results
    first: dict | None = None  # parameters of an earlier fit, for a warm start


# Further arguments


def _random(seed: int = 2) -> np.random.Generator:
    return np.random.default_rng(seed)


def _unknown(data: Data) -> dict:
    rng = _random()
    return {"y": [[None if rng.random() < 0.3 else v for v in labels] for labels in data.y]}


def _allowed(data: Data) -> dict:
    rng, classes = _random(), np.array(["M", "N", "P"])
    return {"allowed": [(rng.random((len(v), 3)) < 0.6) | (classes == np.array(v)[:, np.newaxis])
                        for v in data.y]}  # fmt: skip


def _without_steps(data: Data) -> dict:
    """Labels that follow `STEPS`."""
    joined = ["".join(labels) for labels in data.y]
    return {"y": [labels.replace("NP", "NM") for labels in joined]}


GIVEN = {
    "validation": lambda data: {"X_val": data.X_val, "y_val": data.y_val},
    "eval_set": lambda data: {"eval_set": [(data.X_val, data.y_val)] * 2},
    "weights": lambda data: {"sample_weight": _random().integers(1, 4, len(data.y)) / 2},
    "position_weights": lambda data: {
        "sample_weight": [_random(len(v)).integers(0, 3, len(v)) * 1.0 for v in data.y]
    },
    "init_score": lambda data: {"init_score": [_random().normal(size=(len(v), 3)) for v in data.y]},
    "unknown": _unknown,
    "allowed": _allowed,
    "steps": _without_steps,
}

# Models

TREES = {"window": 1, "max_iter": 4, "max_leaf_nodes": 8, "l2_regularization": 1.0,
         "early_stopping": False, "random_state": 0}  # fmt: skip


crf = partial(treecrf.TreeCRF, **TREES | {"init": "zero"})
memm = partial(treecrf.TreeMEMM, **TREES)
window = partial(treecrf.SlidingWindowClassifier, **TREES)
recurrent = partial(treecrf.RecurrentSlidingWindowClassifier, **TREES)
future = partial(treecrf.FutureFeatureMEMM, **TREES | {"bag_size": 3, "max_future_features": 1,
                                               "instance_max_iter": 3})  # fmt: skip

LISTS = "threads reversed memory+scratch"
SAME = "threads reversed"
TABLES = "csv csv+scratch parquet parquet+scratch memory+scratch dask-1 dask-2 dask-8"
SOME = "csv parquet+scratch memory+scratch dask-8"
SAMPLED = {"sampling": 0.1}
STOPS = {"max_iter": 30, "early_stopping": True, "n_iter_no_change": 2}
STEPS = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1]], dtype=bool)  # no P after N
MISSING = ("weighting", "surrogate", "impute", "indicator")

FITS = {
    # Forms of input
    **{f"TreeCRF, {kind}": Fit(crf(), kind, ways=LISTS)
       for kind in ("letters", "words", "numbers", "integers", "booleans", "sparse", "dicts",
                    "frames", "2-D letters")},
    **{f"TreeCRF on samples, {kind}": Fit(crf(**SAMPLED), kind, ways=LISTS)
       for kind in ("letters", "words", "numbers", "sparse", "dicts", "frames")},
    **{f"TreeCRF, gaps by {way}": Fit(crf(missing=way), "gaps", ways=LISTS) for way in MISSING},
    **{f"TreeCRF on samples, gaps by {way}": Fit(crf(missing=way, **SAMPLED), "frames")
       for way in MISSING},
    "TreeCRF, numbers as categories": Fit(crf(categorical_features=[0, 3]), "integers"),
    # Tables in memory, in files, and on Dask
    **{f"{make.func.__name__}, table{', samples' * bool(sampling)}":
       Fit(make(sampling=sampling), "table", ways=TABLES)
       for make in (crf, memm, window) for sampling in (None, 0.1)},
    "TreeCRF, table, stops": Fit(crf(**STOPS), "table", "validation", TABLES),
    **{f"TreeCRF, table, {name}{', samples' * bool(sampling)}": Fit(
        TreeCRF(**TREES | settings | {"sampling": sampling}), "table", ways=SOME)
       for name, settings in {
           "holds out": STOPS, "linear start": {"init": "linear", "missing": "impute"},
           "auto": {"max_iter": 8, "early_stopping": "auto"}}.items()
       for sampling in (None, 0.1)},
    "TreeCRF, table, weights of labels": Fit(
        crf(class_weight="balanced", missing="surrogate", subsample=0.6, **SAMPLED), "table",
        ways=TABLES),
    "recurrent, table": Fit(recurrent(), "table", ways="csv memory+scratch"),
    "LinearCRF, table": Fit(LinearCRF(window=1, max_iter=20), "table"),
    # Orders, beams and other scores
    **{f"TreeCRF of order {order}": Fit(crf(order=order), "letters", ways=SAME)
       for order in (0, 2, 3)},
    **{f"TreeCRF of order {order} on samples": Fit(crf(order=order, **SAMPLED), "numbers",
                                                   ways=LISTS) for order in (0, 2)},
    "TreeCRF in a beam": Fit(crf(order=2, beam_width=3), "letters", ways=SAME),
    "TreeCRF in a beam, numbers, forward-only": Fit(
        crf(order=2, beam_width=4, beam="forward-only", decoding="viterbi"), "numbers"),
    "TreeCRF with constant transitions": Fit(
        crf(constant_transitions=True, **SAMPLED), "words", "validation", LISTS),
    "TreeCRF with forbidden transitions": Fit(
        crf(transitions=STEPS, decoding="viterbi"), "letters", "steps", LISTS),
    "TreeCRF, allowed labels on samples": Fit(crf(**SAMPLED), "numbers", "allowed", LISTS),
    "TreeCRF, costs": Fit(crf(decoding="minimum_risk", cost_matrix={("N", "P"): 5.0}), "numbers"),
    # Objectives and steps
    **{f"TreeCRF, {objective}": Fit(crf(objective=objective), "numbers", "validation", SAME)
       for objective in ("exponential", "hamming_log", "hamming_exponential")},
    "TreeCRF, first order": Fit(crf(second_order=False, learning_rate=1.0), "numbers", ways=SAME),
    "TreeCRF, bound": Fit(crf(curvature="bound"), "letters", ways=SAME),
    "TreeCRF, diagonal": Fit(crf(curvature="diagonal", **SAMPLED), "letters", ways=SAME),
    "TreeCRF, pseudo-likelihood": Fit(crf(init="pseudo_likelihood"), "letters", ways=SAME),
    # Growth of trees
    "TreeCRF, monotonic": Fit(crf(monotonic_cst={0: {"P": 1}, 1: {"N": -1}}), "gaps", ways=SAME),
    "TreeCRF, interactions": Fit(crf(interaction_cst=[[0, 1], [2]]), "numbers", ways=SAME),
    "TreeCRF, pairs on samples": Fit(crf(interaction_cst="pairwise", **SAMPLED), "frames"),
    **{f"TreeCRF, random parts{name}": Fit(
        crf(subsample=0.6, max_features=0.5, max_features_per_tree=0.7, **sampling), "numbers",
        ways=LISTS) for name, sampling in {"": {}, " on samples": SAMPLED}.items()},
    "TreeCRF, small trees": Fit(
        crf(max_depth=2, min_gain=0.5, min_samples_leaf=5, max_bins=16), "numbers", ways=SAME),
    "TreeCRF, few examples": Fit(crf(max_examples=60, **SAMPLED), "numbers", ways=LISTS),
    "TreeCRF, few examples, first order": Fit(
        crf(max_examples=60, second_order=False, subsample=0.8, **SAMPLED), "numbers", ways=LISTS),
    # Weights and labels
    "TreeCRF, weights": Fit(crf(), "numbers", "weights", LISTS),
    "TreeCRF, position weights": Fit(crf(**SAMPLED), "numbers", "position_weights", LISTS),
    "TreeCRF, class weights": Fit(crf(class_weight={"N": 3.0, "P": 0.5}), "letters", "weights"),
    "TreeCRF, unknown labels": Fit(crf(), "letters", "unknown", LISTS),
    "TreeCRF, unknown labels on samples": Fit(crf(**SAMPLED), "numbers", "unknown weights", LISTS),
    "TreeCRF, scores to start from": Fit(crf(), "numbers", "init_score", SAME),
    # Early stopping and starts
    "TreeCRF with defaults": Fit(TreeCRF(max_iter=20, random_state=0), "numbers", ways=LISTS),
    "TreeCRF stops": Fit(crf(**STOPS), "numbers", "validation", LISTS),
    "TreeCRF stops by accuracy": Fit(crf(scoring="accuracy", **STOPS), "letters", ways=LISTS),
    "TreeCRF stops on samples": Fit(crf(**STOPS, **SAMPLED), "words", "weights", LISTS),
    "TreeCRF, evaluation sets": Fit(crf(scoring="token_f1_macro"), "letters", "eval_set"),
    "TreeCRF, warm start": Fit(crf(warm_start=True), "letters", first={"max_iter": 2}, ways=SAME),
    "TreeCRF, warm start on samples": Fit(
        crf(warm_start=True, subsample=0.7, **SAMPLED), "numbers", "validation", LISTS,
        {"max_iter": 2}),
    "TreeCRF, linear start": Fit(crf(init="linear"), "dicts", "validation", LISTS),
    "TreeCRF, linear start of one's own": Fit(
        crf(init=LinearCRF(window=1, l1_regularization=0.1, max_iter=30), **SAMPLED), "numbers",
        ways=LISTS),
    # Other models of trees
    **{f"TreeMEMM of order {order}": Fit(memm(order=order), "numbers", "validation", LISTS)
       for order in (0, 1, 2)},
    "TreeMEMM on samples, beam": Fit(
        memm(order=2, decoding="beam", beam_width=2, **SAMPLED), "letters", "weights", LISTS),
    "TreeMEMM stops, unknown labels": Fit(
        memm(missing="surrogate", **STOPS), "gaps", "unknown", SAME),
    "SlidingWindowClassifier": Fit(window(class_weight="balanced"), "words", ways=LISTS),
    "SlidingWindowClassifier on samples": Fit(window(**STOPS, **SAMPLED), "sparse", ways=LISTS),
    "SlidingWindowClassifier of a tree": Fit(
        window(DecisionTreeClassifier(max_depth=3, random_state=0)), "numbers", "weights"),
    "RecurrentSlidingWindowClassifier": Fit(
        recurrent(order=2, direction="right-to-left"), "letters", "validation", LISTS),
    "RecurrentSlidingWindowClassifier on samples": Fit(
        recurrent(decoding="viterbi", **SAMPLED), "numbers", ways=SAME),
    "RecurrentSlidingWindowClassifier of a regression": Fit(
        recurrent(LogisticRegression(tol=0.01), decoding="beam"), "letters"),
    "FutureFeatureMEMM": Fit(future(), "letters", "validation", SAME),
    "FutureFeatureMEMM, shared": Fit(
        future(multiclass="shared", bag_direction="both", refit=True, **STOPS), "numbers"),
    "FutureFeatures": Fit(
        make_pipeline(treecrf.FutureFeatures(future(order=0), append=True), crf()), "numbers"),
    "average": Fit([crf(random_state=i, subsample=0.5) for i in range(2)], "numbers"),
    # Linear models and the others
    **{f"LinearCRF, {kind}": Fit(LinearCRF(window=1, l2_regularization=0.3), kind, "validation")
       for kind in ("letters", "numbers", "sparse", "dicts", "frames")},
    "LinearCRF, transition features": Fit(LinearCRF(transition_features=True), "letters",
                                          "unknown weights"),
    "LinearCRF, few weights": Fit(LinearCRF(l1_regularization=1.0, missing="impute"), "gaps"),
    "LinearCRF by gradient steps": Fit(
        LinearCRF(solver="sgd", max_iter=5, random_state=0, early_stopping=True), "words"),
    "LinearCRF, single labels": Fit(LinearCRF(objective="hamming_log", max_iter=30), "numbers"),
    "LinearCRF, warm start": Fit(
        LinearCRF(warm_start=True, max_iter=9, class_weight="balanced"), "numbers",
        first={"max_iter": 4}),
    "StructuredPerceptron": Fit(treecrf.StructuredPerceptron(window=1, random_state=0), "dicts"),
    "StructuredPerceptron stops": Fit(
        treecrf.StructuredPerceptron(early_stopping=True, transition_features=True, random_state=0),
        "letters"),
    "StructuredSVM": Fit(treecrf.StructuredSVM(window=1, tol=0.05, random_state=0), "sparse"),
    "StructuredSVM with a kernel": Fit(
        treecrf.StructuredSVM(kernel="rbf", max_iter=30, tol=0.1, random_state=0), "numbers"),
    "SequenceBoostingClassifier": Fit(
        treecrf.SequenceBoostingClassifier(max_iter=20), "letters", "validation"),
    "SequenceBoostingClassifier by sequences": Fit(
        treecrf.SequenceBoostingClassifier(bound="sequence", line_search=True, max_iter=8,
                                   transition_features=True), "booleans"),
    **{f"HMMClassifier of order {order}": Fit(HMMClassifier(order=order), "letters", "unknown")
       for order in (0, 1, 2)},
    "PerSequence": Fit(make_pipeline(treecrf.PerSequence(StandardScaler()), crf()), "numbers"),
}  # fmt: skip
# Fits whose flat forms are recorded as well: they predict the same, and have files of their own.
FLAT = ("TreeCRF, letters", "TreeCRF, gaps by surrogate", "FutureFeatureMEMM")
# Beginnings of names of fits whose last bits depend on libraries: linear models and starts, models
# that call NumPy's exponentials and logarithms, and estimators of scikit-learn. All others have the
# same bits on all machines.
LIBRARIES = (
    "LinearCRF", "TreeCRF with defaults", "TreeCRF, linear start", "TreeCRF, table, linear start",
    "TreeCRF, table, auto", "FutureFeature", "Structured", "SequenceBoosting", "HMM", "PerSequence",
    "SlidingWindowClassifier of a tree", "RecurrentSlidingWindowClassifier of a regression",
)  # fmt: skip
