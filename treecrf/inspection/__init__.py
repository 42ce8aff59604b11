"""Inspection of fitted models: importances, trees, rules, and scores, as numbers and text.

`treecrf.plotting` draws the results.
"""

from treecrf.inspection.dependence import partial_dependence
from treecrf.inspection.explanation import Explanation, explain
from treecrf.inspection.importance import gain_importance, permutation_importance
from treecrf.inspection.rules import Rule, strongest_rules
from treecrf.inspection.score_contributions import Contributions, contributions
from treecrf.inspection.scores import likelihood_curve, transition_scores
from treecrf.inspection.spans import Span, find_spans
from treecrf.inspection.trees import export_graphviz, export_text
from treecrf.inspection.weights import Weight, strongest_weights, transition_weights

__all__ = [
    "Contributions",
    "Explanation",
    "Rule",
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
    "strongest_rules",
    "strongest_weights",
    "transition_scores",
    "transition_weights",
]
