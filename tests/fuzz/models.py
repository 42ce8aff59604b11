"""Random estimators and data by seed, and properties of everything that they predict."""

from __future__ import annotations

import copy
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeClassifier

import treecrf
import treecrf.inspection
from treecrf.learners.registry import LEARNERS
from treecrf.utils.validation import Interval, StrOptions

PACKAGE = Path(treecrf.__file__).parent
# Errors that methods document; those of parameters come from scikit-learn.
DOCUMENTED = (ValueError, TypeError, MemoryError)
EXPLAINING = (PACKAGE, Path("_param_validation.py"), Path("validation.py"), Path("random.py"))
ITERATIONS = {"max_iter": 4, "instance_max_iter": 2, "max_future_features": 1, "bag_size": 4}
# Their values are drawn from the data, or have no effect on predictions.
OTHERS = {"cost_matrix", "transitions", "class_weight", "monotonic_cst", "interaction_cst",
          "estimator", "attributes", "init", "verbose", "warm_start", "n_jobs", "scoring",
          "random_state", "categorical_features", "window", "validation_fraction"}  # fmt: skip
GARBAGE = (None, "x", -1, 0, np.nan, np.inf, [], {}, [[]], 2**63, 10**400, "", b"a", (1, 2, 3), 1j)
HUGE = (1e15, 1e30, 1e150, 1e300)
EXACT = {"crf", "memm", "window", "recurrent", "future", "hmm"}
TOLERANCE = 1e-7


@dataclass
class Case:
    """A random estimator with data; ``is_extreme`` if rounding may show."""

    name: str
    model: Any
    X: Any
    y: list
    options: dict = field(default_factory=dict)
    is_extreme: bool = False
    is_wrapped: bool = False


def explained(error: BaseException) -> bool:
    """Return whether an error is documented and raised by the package, with a message."""
    if not isinstance(error, DOCUMENTED) or not str(error):
        return False
    raiser = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return raiser.is_relative_to(PACKAGE) or any(raiser.name == p.name for p in EXPLAINING)


# Data


def draw_numbers(rng, n: int, width: int) -> np.ndarray:
    table = rng.normal(size=(n, width))
    few = rng.integers(0, 3, (n, width))
    return np.where(rng.random(width) < 0.5, table, few)


def draw_sequence(rng, form: str, n: int, width: int) -> Any:
    """Draw a sequence of a form, mostly valid."""
    numbers = draw_numbers(rng, n, width)
    if form == "text":
        return "".join(rng.choice(list("abcd"), n))
    if form == "symbols":
        return rng.integers(0, 5, n)
    if form == "missing":
        numbers[rng.random(numbers.shape) < 0.3] = np.nan
    if form == "sparse":
        return sparse.csr_array(np.where(rng.random(numbers.shape) < 0.5, numbers, 0))
    if form in ("mixed", "dicts"):
        words = rng.choice(np.array(["u", "v", None], dtype=object), n)
        cells = zip(words.tolist(), numbers.tolist(), strict=True)
        rows = [[word, *row] for word, row in cells]
        if form == "mixed":
            return rows
        return [{f"c{j}": value for j, value in enumerate(row)} for row in rows]
    return numbers.astype({"numbers": float, "missing": float}.get(form, form))


FORMS = ("text", "symbols", "numbers", "missing", "sparse", "mixed", "dicts", "f4", "f2", "i1", "?")


def draw_data(rng) -> tuple[list, list, bool]:
    """Draw sequences, labels, and whether they hold extreme numbers."""
    form = rng.choice(FORMS)
    width = int(rng.integers(1, 4))
    lengths = rng.integers(1, 8, rng.integers(1, 7))
    X = [draw_sequence(rng, form, int(n), width) for n in lengths]
    is_extreme = form in ("numbers", "missing", "sparse") and rng.random() < 0.2
    if is_extreme:
        scale = rng.choice([*HUGE, 1e-300, 1.7e308])
        with np.errstate(over="ignore"):
            X = [x * np.where(rng.random(width) < 0.5, scale, 1.0) for x in X]
    labels = [["x", "y", "z", "w"], [3, -7, 2**60, 0], [False, True]][rng.integers(3)]
    labels = labels[: rng.integers(1 if rng.random() < 0.05 else 2, 5)]
    y = [[labels[i] for i in rng.integers(0, len(labels), n)] for n in lengths]
    return X, y, is_extreme


def draw_options(rng, y: list) -> tuple[dict, list]:
    """Draw optional arguments of fit, and labels of which some are unknown."""
    options: dict = {}
    if rng.random() < 0.2:
        options["sample_weight"] = [rng.choice([0.0, 0.5, 1, 3], len(t)) for t in y]
    if rng.random() < 0.15:
        y = [[None if rng.random() < 0.3 else label for label in t] for t in y]
    return options, y


# Parameters


def draw_real(rng, left: float, right: float) -> tuple[float, bool]:
    """Draw a number above a bound, and whether it is extreme."""
    if rng.random() < 0.1:
        value = float(rng.choice([1e-300, 1e6, 1e300, 1e18]))
        return (min(value, right), value > 1)
    return float(min(right, max(left, 0) + rng.choice([0.01, 0.3, 1, 5]))), False


def draw_value(rng, name: str, constraints: list) -> tuple[Any, bool]:
    """Draw a value that fulfills one of the constraints of a parameter."""
    constraint = constraints[rng.integers(len(constraints))]
    if isinstance(constraint, StrOptions):
        return str(rng.choice(sorted(constraint.options))), False
    if isinstance(constraint, Interval):
        left = -5 if constraint.left is None else constraint.left
        right = np.inf if constraint.right is None else constraint.right
        if constraint.type.__name__ == "Integral":
            top = ITERATIONS.get(name, 6)
            return int(min(right, rng.integers(left, max(left, top) + 1))), False
        return draw_real(rng, left, right)
    if constraint == "boolean":
        return bool(rng.random() < 0.5), False
    return None, False


def draw_special(rng, classes: list, width: int) -> dict:
    """Draw parameters that refer to labels and features."""
    n, out = len(classes), {}
    if rng.random() < 0.15:
        out["class_weight"] = {c: float(rng.choice([0.5, 1, 100])) for c in classes}
    if rng.random() < 0.1:
        out["cost_matrix"] = rng.integers(0, 5, (n, n)).tolist()
    if rng.random() < 0.15:
        allowed = rng.random((n + rng.integers(2), n)) < 0.8
        out["transitions"] = allowed | np.eye(*allowed.shape, dtype=bool)
    if rng.random() < 0.1:
        out["monotonic_cst"] = rng.integers(-1, 2, width).tolist()
    if rng.random() < 0.1:
        out["interaction_cst"] = str(rng.choice(["pairwise", "no_interactions"]))
    return out


def draw_model(rng, name: str, classes: list, width: int, hostile: float) -> tuple[Any, bool, bool]:
    """Draw an estimator, whether it has extreme parameters, and whether it wraps another."""
    kind = LEARNERS[name]
    defaults = kind().get_params()
    chosen = {"random_state": int(rng.integers(3)), "max_iter": int(rng.integers(1, 4)),
              "instance_max_iter": 2, "early_stopping": False, "init": "zero",
              "max_future_features": 1, "bag_size": int(rng.integers(1, 4)),
              "window": int(rng.integers(0, 3))}  # fmt: skip
    if name == "recurrent":
        chosen["window"] = (0, 1)
    is_extreme = False
    for parameter in sorted(defaults):
        constraints = kind._parameter_constraints.get(parameter)
        if parameter in OTHERS or not constraints or rng.random() > 0.2:
            continue
        chosen[parameter], extreme = draw_value(rng, parameter, constraints)
        is_extreme |= extreme
    chosen |= draw_special(rng, classes, width)
    if rng.random() < 0.1:
        chosen["init"] = "linear"
    is_wrapped = "estimator" in defaults and rng.random() < 0.15
    if is_wrapped:
        chosen["estimator"] = DecisionTreeClassifier(max_depth=2, random_state=0)
    if rng.random() < hostile:
        chosen[str(rng.choice(sorted(defaults)))] = GARBAGE[rng.integers(len(GARBAGE))]
    chosen = {name: value for name, value in chosen.items() if name in defaults}
    return kind().set_params(**chosen), is_extreme, is_wrapped


def draw_case(seed: int, hostile: float = 0.1) -> Case:
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(LEARNERS)))
    X, y, extreme_data = draw_data(rng)
    if name == "hmm" and rng.random() < 0.9:
        X, extreme_data = ["".join(rng.choice(list("abc"), len(t))) for t in y], False
    classes = sorted({label for t in y for label in t})
    width = X[0].shape[1] if hasattr(X[0], "shape") and X[0].ndim == 2 else 1
    model, extreme, is_wrapped = draw_model(rng, name, classes, width, hostile)
    options, y = draw_options(rng, y)
    if rng.random() < hostile:
        y = y[1:] if rng.random() < 0.5 else [t[:-1] for t in y]
    return Case(name, model, X, y, options, extreme or extreme_data, is_wrapped)


# Properties


def equal(ours: list, theirs: list, what: str) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other), what


def outputs(model: Any, X: Any, **options) -> list[np.ndarray]:
    """All predictions of all positions, to be compared to the last bit."""
    labels, log_p = model.decode(X, **options)
    found = labels, model.predict(X, **options), model.predict_proba(X, **options)
    return [log_p, *(np.concatenate(f) if isinstance(f, list) else f for f in found)]


def check_probabilities(case: Case, model: Any) -> None:
    proba = model.predict_proba(case.X)
    pairs = model.predict_pairwise_proba(case.X)
    labels, log_p = model.decode(case.X)
    for p, q, chosen in zip(proba, pairs, labels, strict=True):
        assert np.isfinite(p).all() and np.isfinite(q).all(), "probabilities are not finite"
        assert ((p >= 0) & (p <= 1 + TOLERANCE)).all(), "probabilities outside [0, 1]"
        assert q.shape == (len(p) - 1, *[p.shape[1]] * 2) and len(chosen) == len(p)
    assert not np.isnan(log_p).any(), "log-probabilities of NaN"
    if case.is_extreme:
        return
    for p, q in zip(proba, pairs, strict=True):
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=TOLERANCE)
        np.testing.assert_allclose(q.sum(axis=2), p[:-1], atol=TOLERANCE)
        np.testing.assert_allclose(q.sum(axis=1), p[1:], atol=TOLERANCE)
    found = model.predict_log_likelihood(case.X, labels)
    np.testing.assert_allclose(log_p, found, atol=TOLERANCE, err_msg="decode and likelihood")


def check_best(case: Case, model: Any) -> None:
    if case.is_extreme:
        return
    best, values = model.decode(case.X, n_best=4)
    first = model.decode(case.X)[1]
    for i, (ways, log_p) in enumerate(zip(best, values, strict=True)):
        assert (np.diff(log_p) <= TOLERANCE).all(), "n-best is not sorted"
        assert np.exp(log_p).sum() <= 1 + TOLERANCE, "n-best sums to more than 1"
        assert len({tuple(way.tolist()) for way in ways}) == len(ways), "n-best repeats"
        is_search = getattr(model, "decoding", "") in ("greedy", "beam") or (
            getattr(model, "beam_width", None) is not None and case.name == "crf"
        )
        if not is_search:
            assert first[i] >= log_p[0] - TOLERANCE, "Viterbi is below an n-best"
        for way, value in zip(ways, log_p, strict=True):
            found = model.predict_log_likelihood([case.X[i]], [way])
            np.testing.assert_allclose(value, found[0], atol=TOLERANCE, err_msg="n-best")


def check_forms(case: Case, model: Any, rng) -> None:
    """Threads, order of the sequences, long tables and copies do not change a bit."""
    expected = outputs(model, case.X)
    more = copy.copy(model).set_params(n_jobs=3)
    if not case.is_wrapped:
        equal(outputs(more, case.X), expected, "n_jobs changes predictions")
    equal(outputs(pickle.loads(pickle.dumps(model)), case.X), expected, "pickle")
    order = rng.permutation(len(case.X))
    if not case.is_wrapped:
        proba = model.predict_proba([case.X[i] for i in order])
        ours = model.predict_proba(case.X)
        equal(proba, [ours[i] for i in order], "the order of sequences changes predictions")
    lengths = [len(t) for t in case.y]
    if isinstance(case.X[0], np.ndarray) and not case.is_wrapped:
        table = np.concatenate(case.X)
        equal(outputs(model, table, lengths=lengths), expected, "a long table differs")
    if sparse.issparse(case.X[0]) and not case.is_wrapped:
        table = sparse.vstack(case.X, format="csr")
        equal(outputs(model, table, lengths=lengths), expected, "a long table differs")


def check_file(case: Case, model: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            model.save(path)
        except TypeError:
            assert case.is_wrapped, "not saved"
            return
        again = treecrf.load(path)
    equal(outputs(again, case.X), outputs(model, case.X), "the loaded model differs")


def check_fits(case: Case, model: Any, rng) -> None:
    """Threads, and for most learners the order of the sequences, do not change the model."""
    from sklearn.base import clone

    expected = outputs(model, case.X)
    if getattr(model, "random_state", 0) is None:
        return
    more = clone(case.model).set_params(n_jobs=3).fit(case.X, case.y, **case.options)
    equal(outputs(more, case.X), expected, "n_jobs changes the model")
    if case.name in EXACT and not case.is_wrapped and "sample_weight" not in case.options:
        order = rng.permutation(len(case.X))
        other = clone(case.model).fit([case.X[i] for i in order], [case.y[i] for i in order])
        equal(outputs(other, case.X), expected, "the order of sequences changes the model")


def check_flat(case: Case, model: Any) -> None:
    try:
        flat = treecrf.flatten(model)
    except (TypeError, ValueError) as error:
        assert explained(error), f"not explained: {error!r}"
        return
    for p, q in zip(flat.predict_proba(case.X), model.predict_proba(case.X), strict=True):
        np.testing.assert_allclose(p, q, atol=TOLERANCE, err_msg="the flat model differs")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        flat.save(path)
        equal(outputs(treecrf.load(path), case.X), outputs(flat, case.X), "the loaded flat model")
        calls = [
            flat.weights,
            flat.sparse_weights,
            flat.to_json,
            flat.to_frame,
            lambda: flat.to_frame("polars"),
            lambda: flat.to_npz(path, case.X),
            lambda: flat.to_npz(path, GARBAGE[len(case.X)]),
        ]
        check_calls(case, calls)


def check_given_labels(case: Case, model: Any, rng) -> None:
    """Allowed and known labels are respected, or refused if no label sequence is possible."""
    n = len(model.classes_)
    allowed = [rng.random((len(t), n)) < 0.8 for t in case.y]
    codes = [rng.integers(-2, n, len(t)) for t in case.y]
    known = [[None if c < 0 else model.classes_[c] for c in t] for t in codes]
    for options in ({"allowed": allowed}, {"known": known}, {"allowed": allowed, "known": known}):
        try:
            proba = model.predict_proba(case.X, **options)
            labels = model.predict(case.X, **options)
        except ValueError as error:
            assert explained(error), f"not explained: {error!r}"
            continue
        for p, mask, given, found in zip(proba, allowed, known, labels, strict=True):
            assert not case.is_extreme or np.isfinite(p).all()
            if not case.is_extreme:
                np.testing.assert_allclose(p.sum(axis=1), 1, atol=TOLERANCE)
            if "allowed" in options:
                assert (p[~mask] == 0).all(), "a label that is not allowed"
            if "known" in options:
                assert all(g in (None, f) for g, f in zip(given, found, strict=True)), "known"


def check_other_methods(case: Case, model: Any, rng) -> None:
    """All other public methods work, or raise explained errors."""
    garbage = GARBAGE[rng.integers(len(GARBAGE))]
    calls = [
        lambda: model.score(case.X, case.y),
        lambda: model.score(case.X, case.y, sample_weight=garbage),
        lambda: model.predict(garbage),
        lambda: model.predict_proba(case.X, allowed=garbage),
        lambda: model.predict_proba(case.X, known=garbage),
        lambda: model.predict(case.X, lengths=garbage),
        lambda: model.predict(case.X, groups=garbage),
        lambda: model.predict_log_likelihood(case.X, garbage),
        lambda: model.decode(case.X, n_best=garbage),
        lambda: model.predict_proba(case.X, init_score=garbage),
        lambda: model.get_feature_names_out(garbage),
        lambda: list(model.staged_predict_proba(case.X)),
        lambda: model.truncated(garbage),
        lambda: model.truncated(1).predict(case.X),
        lambda: model.stream(garbage),
        lambda: [model.stream().push(row) for row in case.X[0]],
        lambda: model.get_attribute_names(),
        lambda: (model.state_weights_, model.transition_weights_, model.start_weights_),
        lambda: model.get_chosen_features(),
        lambda: model.future_values(case.X),
    ]
    check_calls(case, calls)


def check_calls(case: Case, calls: list[Callable]) -> None:
    """Calls return, or raise explained errors."""
    for i, call in enumerate(calls):
        try:
            call()
        except AttributeError as error:
            assert "has no attribute" in str(error) or explained(error), f"call {i}: {error!r}"
        except Exception as error:
            assert explained(error) or case.is_wrapped, f"call {i}: {error!r}"


def check_inspection(case: Case, model: Any, rng) -> None:
    """All functions of `treecrf.inspection` work, or raise explained errors."""
    inspection, X, y = treecrf.inspection, case.X, case.y
    garbage = GARBAGE[rng.integers(len(GARBAGE))]
    label = model.classes_[rng.integers(len(model.classes_))]
    calls = [
        lambda: inspection.export_text(model, int(rng.integers(-2, 3)), label),
        lambda: inspection.export_text(model, garbage, garbage),
        lambda: inspection.export_graphviz(model, 0, garbage),
        lambda: inspection.gain_importance(model, per_label=bool(rng.integers(2))),
        lambda: inspection.permutation_importance(model, X, y, n_repeats=1, random_state=0),
        lambda: inspection.permutation_importance(model, X, y, features=garbage, n_repeats=1),
        lambda: inspection.partial_dependence(model, X, int(rng.integers(3)), n_values=3),
        lambda: inspection.partial_dependence(model, X, garbage, garbage, values=garbage),
        lambda: inspection.strongest_rules(model, X, y, n_rules=3),
        lambda: inspection.strongest_rules(model, n_rules=garbage, label=garbage),
        lambda: inspection.contributions(model, X, label=label),
        lambda: inspection.contributions(model, X, y),
        lambda: inspection.contributions(model, garbage),
        lambda: inspection.explain(model, X[0], 0, label=label),
        lambda: inspection.explain(model, X[0], garbage, garbage),
        lambda: inspection.transition_scores(model, X),
        lambda: inspection.likelihood_curve(model, X, y),
        lambda: inspection.likelihood_curve(model),
        lambda: inspection.strongest_weights(model, garbage),
        lambda: inspection.strongest_weights(model, 3, label=label),
        lambda: inspection.transition_weights(model),
    ]
    check_calls(case, calls)


CHECKS: tuple[Callable, ...] = (check_probabilities, check_best, check_file, check_flat)


def run_case(seed: int, hostile: float = 0.1) -> str:
    """Run a case; return "refused" or "checked".

    Raises
    ------
    AssertionError
        If an error is not documented, or a property does not hold.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        case = draw_case(seed, hostile)
        before = {k: copy.copy(v) for k, v in vars(case.model).items()}
        try:
            model = copy.deepcopy(case.model).fit(case.X, case.y, **case.options)
            model.predict_proba(case.X)
        except Exception as error:
            assert explained(error) or case.is_wrapped, f"not explained: {error!r}"
            assert vars(case.model).keys() == before.keys()
            return "refused"
        rng = np.random.default_rng(seed + 1)
        for check in CHECKS:
            check(case, model)
        check_given_labels(case, model, rng)
        check_other_methods(case, model, rng)
        check_inspection(case, model, rng)
        check_forms(case, model, rng)
        check_fits(case, model, rng)
        return "checked"
