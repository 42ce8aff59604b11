"""Everything public that takes a fitted model takes one of multi-output trees.

The results are those of the same model with a tree for each label, to the bit.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import matplotlib.figure
import matplotlib.text
import numpy as np
import pytest
from scipy import sparse
from support.forests import with_vector_leaves
from support.settings import PLAIN

import treecrf
from treecrf import SlidingWindowClassifier, TreeCRF, TreeMEMM, inspection, plotting
from treecrf.learners.base.fitted import fitted_model

SETTINGS = {"window": (1, 0), "max_iter": 5, "random_state": 0, "init": "zero", **PLAIN}
WITHOUT_INIT = {name: value for name, value in SETTINGS.items() if name != "init"}
MODELS = {
    "constant transitions": TreeCRF(constant_transitions=True, **SETTINGS),
    "constant transitions and a linear start": TreeCRF(
        constant_transitions=True, **SETTINGS | {"init": "linear"}
    ),
    "order 0": TreeCRF(order=0, **SETTINGS),
    "MEMM of order 0": TreeMEMM(order=0, **WITHOUT_INIT),
    "sliding window": SlidingWindowClassifier(**WITHOUT_INIT),
    "fitted": TreeCRF(order=0, multi_strategy="multi_output_tree", **SETTINGS),
    "fitted, Newton": TreeCRF(
        order=0, multi_strategy="multi_output_tree", **SETTINGS | {"second_order": True}
    ),
    "fitted, sliding window": SlidingWindowClassifier(
        multi_strategy="multi_output_tree", **WITHOUT_INIT
    ),
}
RNG = np.random.default_rng(0)
X = [np.round(RNG.normal(size=(n, 3)), 1) for n in [1, 7, 12, 3, 90, 5]]
CODES = [np.sum(x[:, :2] > [0, 0.3], axis=1) for x in X]
Y = [np.array(list("abc"))[codes] for codes in CODES]
NEW = [np.round(RNG.normal(size=(n, 3)), 1) for n in [2, 1, 80]]
GAPS = [np.where(RNG.random(x.shape) < 0.2, np.nan, x) for x in NEW]
Y_OF_GAPS = [np.array(list("abc"))[np.arange(len(x)) % 3] for x in GAPS]
# Methods that have no results of the trees.
NO_RESULTS = {
    "beam", "fit", "get_feature_names_out", "get_metadata_routing", "get_params", "set_params",
}  # fmt: skip


def models_of(name):
    """Return a model of multi-output trees, and one of a tree for each label."""
    model = copy.copy(MODELS[name]).fit([*X, *GAPS], [*Y, *Y_OF_GAPS])
    if not model._forest.is_multi_output:
        model._forest = with_random_vectors(model._forest)
    single = copy.copy(model)
    single._forest = model._forest.one_output_per_tree().copy()
    assert len(single._forest.trees) == 3 * len(model._forest.trees) == 3 * 5
    return model, single


def with_random_vectors(fitted):
    """Return a forest of some trees of another one, and its transitions, with random leaves."""
    has_transitions = fitted.transitions is not None
    forest = with_vector_leaves(fitted, 3, fitted.order, 1, 0.3, has_transitions)
    forest = forest.copy(fitted.n_iter)
    if has_transitions:
        forest.transitions = list(fitted.transitions)
    return forest


def saved(model, folder):
    """Return the model from its file."""
    model.save(folder / "model")
    return treecrf.load(folder / "model")


METHODS = {
    "decision_function": lambda model, _: model.decision_function(NEW),
    "decode": lambda model, _: [model.decode(NEW), model.decode(NEW, n_best=3)],
    "predict": lambda model, _: [model.predict(NEW), model.predict(NEW[:1]), model.predict(GAPS)],
    "predict_log_likelihood": lambda model, _: model.predict_log_likelihood(X, Y),
    "predict_pairwise_proba": lambda model, _: model.predict_pairwise_proba(NEW),
    "predict_proba": lambda model, _: [model.predict_proba(data) for data in (NEW, NEW[:2], GAPS)],
    "save": lambda model, folder: saved(model, folder).predict_proba(NEW),
    "score": lambda model, _: model.score(X, Y),
    "staged_predict_proba": lambda model, _: list(model.staged_predict_proba(NEW)),
    "stream": lambda model, _: streamed(model),
    "truncated": lambda model, _: model.truncated(2).predict_proba(NEW),
}


def streamed(model):
    """Return the probabilities of a stream."""
    stream = model.stream(lag=1)
    return [stream.push(row) for row in NEW[2]] + [stream.finish()]


INSPECTION = {
    "contributions": lambda model: inspection.contributions(model, NEW[:2]),
    "explain": lambda model: inspection.explain(model, NEW[2], 3),
    "export_graphviz": lambda model: inspection.export_graphviz(model, 2, "b"),
    "export_text": lambda model: [
        inspection.export_text(model, i, label) for i in range(5) for label in "abc"
    ],
    "gain_importance": lambda model: inspection.gain_importance(model)["importances"].shape,
    "likelihood_curve": lambda model: inspection.likelihood_curve(model, X, Y),
    "partial_dependence": lambda model: inspection.partial_dependence(model, NEW, 0),
    "permutation_importance": lambda model: inspection.permutation_importance(
        model, X, Y, n_repeats=1, random_state=0
    ),
    "sequence_entropy": lambda model: inspection.sequence_entropy(model, NEW),
    "sequence_margin": lambda model: inspection.sequence_margin(model, NEW),
    "sequence_scores": lambda model: inspection.sequence_scores(model, NEW),
    "strongest_rules": lambda model: inspection.strongest_rules(model, NEW),
    "transition_scores": lambda model: inspection.transition_scores(model, NEW),
    "transition_weights": lambda model: inspection.transition_weights(model),
    "find_spans": lambda model: inspection.find_spans(model, NEW, prefixes=False),
}
# Functions of linear models.
NO_TREES = {"strongest_weights"}
PLOTS = {
    "plot_explanation": lambda model, ax: plotting.plot_explanation(model, NEW[2], 3, ax=ax),
    "plot_importance_map": lambda model, ax: plotting.plot_importance_map(model, ax=ax),
    "plot_importances": lambda model, ax: plotting.plot_importances(model, ax=ax),
    "plot_likelihood": lambda model, ax: plotting.plot_likelihood(model, X, Y, ax=ax),
    "plot_partial_dependence": lambda model, ax: plotting.plot_partial_dependence(
        model, NEW, 0, ax=ax
    ),
    "plot_rules": lambda model, ax: plotting.plot_rules(model, ax=ax),
    "plot_sequence": lambda model, ax: plotting.plot_sequence(model, NEW[2], ax=ax),
    "plot_transition_scores": lambda model, ax: plotting.plot_transition_scores(model, NEW, ax=ax),
    "plot_tree": lambda model, ax: plotting.plot_tree(model, 1, "c", ax=ax),
}
NO_TREES_IN_PLOTS = {"highlight_text", "plot_future_features", "plot_weights"}
OTHERS = {
    "given scores": lambda model: model.predict_proba(
        NEW, init_score=[np.ones((len(x), 3)) for x in NEW]
    ),
    "copy": lambda model: copy.deepcopy(model).predict_proba(NEW),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)).predict_proba(NEW),
    "average": lambda model: treecrf.average([model, model.truncated(3)]).predict_proba(NEW),
    "flatten": lambda model: treecrf.flatten(model).predict_proba(NEW),
    "flat attributes": lambda model: treecrf.flatten(model).transform(NEW),
    "pruned": lambda model: treecrf.flatten(model).prune(0.1).predict_proba(NEW),
    "importances": lambda model: model.truncated(4).feature_importances_.shape,
    "tests": lambda model: inspection.gain_importance(model)["labels_before"],
}  # fmt: skip

# What some models refuse, whatever their trees.
MAY_BE_REFUSED = {"given scores", "transition_weights", "flatten", "flat attributes", "pruned"}


def plain(result):
    """Return values that `assert_equal` compares to the bit."""
    if sparse.issparse(result):
        return result.toarray()
    if dataclasses.is_dataclass(result):
        return {
            field.name: plain(getattr(result, field.name)) for field in dataclasses.fields(result)
        }
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [plain(item) for item in result]
    return result


def outcome(call, *arguments):
    """Return the result, or the error, of a call."""
    try:
        return plain(call(*arguments))
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_no_method_is_forgotten():
    for estimator in MODELS.values():
        methods = {
            name
            for name, _ in inspect.getmembers(type(estimator), inspect.isfunction)
            if not name.startswith(("_", "set_")) and name not in NO_RESULTS
        }
        assert methods <= METHODS.keys()
    assert {*INSPECTION, *NO_TREES} == functions_of(inspection)
    assert {*PLOTS, *NO_TREES_IN_PLOTS} == functions_of(plotting)


def functions_of(module):
    return {name for name in module.__all__ if inspect.isfunction(getattr(module, name))}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_a_tree_for_each_label(name, tmp_path):
    models = models_of(name)
    calls = {
        **{key: lambda model, call=call: call(model, tmp_path) for key, call in METHODS.items()},
        **INSPECTION,
        **OTHERS,
    }
    for key, call in calls.items():
        found, expected = (outcome(call, model) for model in models)
        np.testing.assert_equal(found, expected, err_msg=key)
        is_refused = isinstance(found, str) and "Error: " in found
        assert not is_refused or key in MAY_BE_REFUSED, (key, found)
    for key, plot in PLOTS.items():
        texts = [outcome(texts_of, plot, model) for model in models]
        assert texts[0] == texts[1], key
        assert len(texts[0]) > 3, (key, texts[0])


def texts_of(plot, model):
    """Return all texts of a plot."""
    figure = matplotlib.figure.Figure()
    plot(model, figure.add_subplot())
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


@pytest.mark.parametrize("name", MODELS)
def test_short_sequences_have_the_results_of_long_ones(name):
    model, _ = models_of(name)
    chain = fitted_model(model).predictor
    assert chain.short_model is not None
    long_way = copy.copy(model)
    fitted_model(long_way).predictor.short_model = None
    for data in (NEW[:2], NEW[:1], [x[:40] for x in NEW]):
        np.testing.assert_equal(model.predict_proba(data), long_way.predict_proba(data))
        np.testing.assert_equal(model.predict(data), long_way.predict(data))


def test_separate_gains_of_labels_are_refused():
    model, single = models_of("order 0")
    inspection.gain_importance(single, per_label=True)
    with pytest.raises(ValueError, match="per_label=True for a model of multi-output trees"):
        inspection.gain_importance(model, per_label=True)


def test_models_of_both_kinds_have_an_average():
    model, single = models_of("constant transitions")
    mean = treecrf.average([model, single])
    assert not mean._forest.is_multi_output
    np.testing.assert_equal(
        mean.predict_proba(NEW), treecrf.average([single, single]).predict_proba(NEW)
    )
    assert treecrf.average([model, model])._forest.is_multi_output
