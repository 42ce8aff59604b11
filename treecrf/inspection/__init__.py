"""What a trained model has learned, as numbers and as text.

`treecrf.plotting` draws it.
"""

from treecrf.inspection.export import export_graphviz, export_text
from treecrf.inspection.gain import gain_importance
from treecrf.inspection.permutation import permutation_importance
from treecrf.inspection.scores import likelihood_curve, transition_scores
from treecrf.inspection.strongest import Rule, strongest_rules

__all__ = [
    "Rule",
    "export_graphviz",
    "export_text",
    "gain_importance",
    "likelihood_curve",
    "permutation_importance",
    "strongest_rules",
    "transition_scores",
]
