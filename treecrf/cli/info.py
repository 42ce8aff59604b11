"""The command ``treecrf info``."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator

import numpy as np

from treecrf.cli.options import add_count, loaded_model
from treecrf.inputs.schema import KINDS
from treecrf.inputs.values import short_list
from treecrf.inspection import strongest_rules, strongest_weights
from treecrf.inspection.fitted import has_trees
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.base import LinearSequenceClassifier

DESCRIPTION = (
    "Show the contents of a model file: labels, parameters, likelihoods, the most important "
    "features, and the strongest rules or the strongest weights."
)
EXAMPLES = """\
examples:
  treecrf info m.treecrf
  treecrf info m.treecrf --features 5 --rules 50
"""
MAX_LABELS = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to a parser."""
    parser.add_argument("model", help="model file written by train; - is standard input")
    for option, n, text in (
        ("--features", 20, "number of features to list, the most important first"),
        ("--rules", 10, "number of rules to list, the strongest first"),
        ("--weights", 20, "number of weights of a linear model to list, the strongest first"),
    ):
        add_count(parser, option, n, text)


def run(options: argparse.Namespace) -> int:
    """Read the model and print its description."""
    model = loaded_model(options)
    schema = fitted_model(model).chain.schema
    for name, value in _summary(model):
        print(f"{name:<14} {value}")
    print("parameters")
    defaults = type(model)().get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        changed = ""
        if repr(value) != repr(defaults[name]):
            changed = f"  (default {defaults[name]!r})"
        print(f"  {name} = {value!r}{changed}")
    # As if none improved cross-validation.
    has_iterations = getattr(model, "n_iter_", None) != 0
    if has_iterations and hasattr(model, "feature_importances_"):
        print("feature importances")
        order = np.argsort(-model.feature_importances_, kind="stable")
        for j in order[: options.features]:
            print(f"  {model.feature_importances_[j]:.4f}  {schema.column(j)}")
    if has_iterations and has_trees(model) and options.rules > 0:
        print("strongest rules")
        with warnings.catch_warnings(action="ignore"):  # the weights of a linear start follow
            rules = strongest_rules(model, n_rules=options.rules)
        for rule in rules:
            print(f"  {rule}")
    # The weights of a linear model, or of the linear model that trees start from.
    linear = getattr(model, "init_", model)
    if options.weights > 0 and isinstance(linear, LinearSequenceClassifier):
        with contextlib.suppress(TypeError):  # a kernel has no weights
            weights = strongest_weights(linear, options.weights)
            start = "" if linear is model else " of the linear start"
            print(f"strongest weights{start}", *weights, sep="\n  ")
    return 0


def _summary(model: SequenceClassifier) -> Iterator[tuple[str, str]]:
    fitted = fitted_model(model)
    schema = fitted.chain.schema
    labels = model.classes_.tolist()
    kinds = schema.kinds
    counts = [f"{np.sum(kinds == k)} {name}" for k, name in enumerate(KINDS) if k in kinds]
    yield "class", type(model).__name__
    yield "labels", f"{len(labels)}: {short_list(list(map(str, labels)), MAX_LABELS)}"
    yield "features", f"{model.n_features_in_} ({', '.join(counts)})"
    yield "trained on", schema.form
    if fitted.n_unlabeled:
        yield "unlabeled", f"{fitted.n_unlabeled:,} of the training positions"
    columns = fitted.predictor.columns
    for name in ("label", "group", "weight", "fold"):
        column = getattr(columns, name)
        if column is not None:
            yield f"{name} column", column
    if columns.templates is not None:
        templates = columns.templates
        yield "templates", f"{len(templates.templates)} lines of {templates.syntax}"
    if hasattr(model, "init_"):
        yield "start", "none" if model.init_ is None else str(model.init_)
    if hasattr(model, "n_iter_"):
        yield "iterations", str(model.n_iter_)
    if hasattr(model, "train_score_"):
        yield "log-likelihood", f"{model.train_score_[-1]:.6f} per training position"
    if len(getattr(model, "validation_score_", ())):
        yield "validation", f"{model.validation_score_[-1]:.6f} per validation position"
