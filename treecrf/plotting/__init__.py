"""Plots of fitted models, drawn with matplotlib, which is imported when the first is drawn.

Each plot is a function ``plot_...``. Its first argument is a fitted model or a result of
`treecrf.inspection`, followed by data if needed. ``ax`` are the axes to draw on; by default a new
figure of suitable size is made. The axes are returned, and ``ax.figure`` is their figure. Get the
plotted numbers from `treecrf.inspection`. `highlight_text` writes HTML and needs no matplotlib.
"""

from treecrf.plotting.bars import (
    plot_explanation,
    plot_importance_map,
    plot_importances,
    plot_rules,
    plot_weights,
)
from treecrf.plotting.scores import plot_likelihood, plot_partial_dependence, plot_transition_scores
from treecrf.plotting.sequence import highlight_text, plot_future_features, plot_sequence
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
