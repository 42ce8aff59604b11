"""What the scores of a fitted model consist of, if C code supports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.chains.constraints import Transitions
from treecrf.chains.transitions import as_transitions
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.schema import InputSchema
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.label_arguments import cost_table
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.model import LinearModel
from treecrf.trees.forest import Forest
from treecrf.utils.exact import LEAF_UNIT

# Maximum number of scores of a label in contexts: the tables of more would not compile in time.
MAX_CONTEXTS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Terms of the scores, which are added up; None stands for terms of 0."""

    # Sums of trees.
    trees: tuple[Forest, Encoder] | None = None
    # Attributes times weights, and weights of labels after labels.
    linear: LinearModel | None = None
    # Of each label for each symbol, for unknown symbols and for missing ones, float64
    # (n_symbols + 2, n_labels).
    by_symbol: np.ndarray | None = None
    # Of labels after contexts: for each number of previous labels, up to the order, an array
    # (n_contexts, n_labels).
    by_context: list[np.ndarray] | None = None
    # Whether those of attributes are rounded to multiples of the unit of leaf values.
    rounds_linear: bool = False
    # Whether the scores of a position are normalized in each context.
    is_local: bool = False


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A fitted model, as far as predictions depend on it."""

    # Name of the class of the estimator.
    name: str
    # Form and columns of the input.
    schema: InputSchema
    # The labels, sorted.
    classes: np.ndarray
    # Number of previous labels in a context.
    order: int
    # Whether the chain starts at the end of each sequence.
    is_backward: bool
    # Which labels may follow each other, in the direction of the chain; None for all.
    rules: Transitions | None
    # How labels are chosen, as the parameter of estimators.
    decoding: str
    # Cost of each predicted label for each true one, (n_labels, n_labels).
    costs: np.ndarray
    # The scores of labels.
    scores: Scores


def unsupported(name: str, what: str, instead: str) -> NotImplementedError:
    """Return the error for a model that C code does not support."""
    return NotImplementedError(f"{name} with {what} cannot be exported to C; {instead}")


def parts_of(model: SequenceClassifier) -> Parts:
    """Return the parts of a fitted model; NotImplementedError if C code does not support them."""
    name = type(model).__name__
    predictor = fitted_model(model).predictor
    chain = predictor.chain
    kind = type(chain).__name__
    if kind not in READERS:
        raise unsupported(name, *OTHER_KINDS.get(kind, (f"scores of a {kind}", SUPPORTED)))
    if predictor.decoding == "beam":
        raise unsupported(name, 'decoding="beam"', 'set decoding="viterbi" or "greedy"')
    n_labels = len(chain.classes)
    if n_labels**chain.order > MAX_CONTEXTS:
        raise unsupported(name, f"{n_labels}**{chain.order} contexts", "lower the order")
    scores = READERS[kind](chain, name)
    if scores.linear is not None:
        _check_linear(scores.linear, chain.schema, name)
    rules = as_transitions(chain.transitions, chain.classes, chain.order)
    if rules is not None and chain.is_backward:
        rules = rules.reversed()
    return Parts(
        name=name,
        schema=chain.schema,
        classes=chain.classes,
        order=chain.order,
        is_backward=chain.is_backward,
        rules=rules,
        decoding=predictor.decoding,
        costs=cost_table(predictor.cost_matrix, chain.classes),
        scores=scores,
    )


def _check_linear(linear: LinearModel, schema: InputSchema, name: str) -> None:
    """Refuse linear models of other attributes than the values of the input."""
    attributes = linear.attributes
    if type(attributes) is not WindowAttributes:
        raise unsupported(
            name, f"attributes of a {type(attributes).__name__}", "export the model they come from"
        )
    if linear.weights.layout.transition_features:
        raise unsupported(name, "transition_features", "set transition_features=False")
    own = attributes.schema.categories
    others = schema.categories
    is_same = own.keys() == others.keys()
    if not is_same or not all(np.array_equal(own[j], others[j]) for j in own):
        raise unsupported(name, "a start of other categories", 'fit with init="zero"')


# Kinds of chains


def _linear_scores(chain: Any, name: str) -> Scores:
    return Scores(linear=LinearModel(chain.attributes, chain.weights))


def _tree_scores(chain: Any, name: str) -> Scores:
    """Return trees, what they are added to, and constant transitions."""
    encoder = chain.encoder
    forest = chain.forest
    if type(encoder) is not Encoder:
        raise unsupported(name, "features of the future", "use a TreeMEMM or a TreeCRF")
    by_context = None
    if forest.transitions is not None:
        by_context = _constant_transitions(forest)
    trees = (forest, encoder) if forest.n_iter else None
    return Scores(trees=trees, linear=chain.start, rounds_linear=True, by_context=by_context)


def _constant_transitions(forest: Forest) -> list[np.ndarray]:
    sums = forest.sum_of_transitions((0, forest.n_iter)) * LEAF_UNIT
    return [sums[depth, :, : forest.n_labels**depth].T for depth in range(forest.order + 1)]


def _local_scores(chain: Any, name: str) -> Scores:
    return replace(_tree_scores(chain, name), is_local=True)


def _hidden_markov_scores(chain: Any, name: str) -> Scores:
    n_labels = len(chain.classes)
    by_symbol = np.pad(chain.symbol_log_p.T, [(0, 1), (0, 0)])
    by_context = [table.reshape(-1, n_labels) for table in chain.label_log_p]
    return Scores(by_symbol=by_symbol, by_context=by_context)


# By the names of classes of chains, so that variants need not be imported.
READERS: dict[str, Callable[[Any, str], Scores]] = {
    "LinearChain": _linear_scores,
    "ForestChain": _tree_scores,
    "FactoredChain": _tree_scores,
    "LocalForestChain": _local_scores,
    "HMMChain": _hidden_markov_scores,
}
SUPPORTED = "expected linear models, boosted trees without a beam, or a hidden Markov model"
# What others are, and what helps.
OTHER_KINDS = {
    "BeamChain": ("a beam", "set beam_width=None, if the number of contexts allows"),
    "KernelChain": ("a kernel", 'train with kernel="linear"'),
    "RowChain": ("an estimator of rows", "train without one, on boosted trees"),
}
