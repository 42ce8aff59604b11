"""Plots of fitted models, drawn with matplotlib, which is imported when the first is drawn.

Each plot is a function ``plot_...``. Its first argument is a fitted model or a result of
`treecrf.inspection`, followed by data if needed. ``ax`` are the axes to draw on; by default a new
figure of suitable size is made. The axes are returned, and ``ax.figure`` is their figure. Get the
plotted numbers from `treecrf.inspection`. `highlight_text` writes HTML and needs no matplotlib.
"""

from treecrf.plotting.dependence import plot_partial_dependence
from treecrf.plotting.explanation import plot_explanation
from treecrf.plotting.importance import plot_importance_map, plot_importances
from treecrf.plotting.rules import plot_rules, plot_weights
from treecrf.plotting.scores import plot_likelihood, plot_transition_scores
from treecrf.plotting.sequence import plot_future_features, plot_sequence
from treecrf.plotting.text import highlight_text
from treecrf.plotting.tree import plot_tree

__all__ = [
    "highlight_text",
    "plot_explanation",
    "plot_future_features",
    "plot_importance_map",
    "plot_importances",
    "plot_likelihood",
    "plot_partial_dependence",
    "plot_rules",
    "plot_sequence",
    "plot_transition_scores",
    "plot_tree",
    "plot_weights",
]
