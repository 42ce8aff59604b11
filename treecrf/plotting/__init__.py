"""Plots of fitted models, drawn with matplotlib: ``pip install "treecrf[plot]"``.

The first argument of a function ``plot_...`` is a fitted model, followed by data if needed, or a
result of `treecrf.inspection`, which has the plotted numbers. Pass ``ax`` to draw on your own axes.
By default, a new figure of suitable size is made. The functions return the axes, and ``ax.figure``
is their figure.

`highlight_text` writes HTML and does not need matplotlib.
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
