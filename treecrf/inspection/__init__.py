"""Inspection of fitted models: importances, trees, rules, explanations, and scores.

All functions take a fitted model and return numbers or text. `treecrf.plotting` draws the results.
"""

from treecrf.inspection.dependence import partial_dependence
from treecrf.inspection.distribution import (
    SequenceScores,
    sequence_entropy,
    sequence_margin,
    sequence_scores,
)
from treecrf.inspection.explanation import Contributions, Explanation, contributions, explain
from treecrf.inspection.importance import gain_importance, permutation_importance
from treecrf.inspection.scores import (
    Weight,
    likelihood_curve,
    strongest_weights,
    transition_scores,
    transition_weights,
)
from treecrf.inspection.spans import Span, find_spans
from treecrf.inspection.trees import Rule, export_graphviz, export_text, strongest_rules

__all__ = [
    "Contributions",
    "Explanation",
    "Rule",
    "SequenceScores",
    "Span",
    "Weight",
    "contributions",
    "explain",
    "export_graphviz",
    "export_text",
    "find_spans",
    "gain_importance",
    "likelihood_curve",
    "partial_dependence",
    "permutation_importance",
    "sequence_entropy",
    "sequence_margin",
    "sequence_scores",
    "strongest_rules",
    "strongest_weights",
    "transition_scores",
    "transition_weights",
]
