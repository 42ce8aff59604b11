"""Pictures of trained models; matplotlib is asked for when one is wanted.

Every picture is a function ``plot_...``. What it is of comes first, a fitted model or what
`treecrf.inspection` has computed of one, then data if it needs any. ``ax`` are the axes to draw on,
by default those of a new figure that is large enough; they are returned, and ``ax.figure`` is their
figure. The numbers are to be had from `treecrf.inspection`, so that there is nothing else to keep.
"""

from treecrf.plotting.future import plot_future_features
from treecrf.plotting.importance import plot_importance_map, plot_importances
from treecrf.plotting.rules import plot_rules
from treecrf.plotting.scores import plot_likelihood, plot_transition_scores
from treecrf.plotting.sequence import plot_sequence
from treecrf.plotting.tree import plot_tree

__all__ = [
    "plot_future_features",
    "plot_importance_map",
    "plot_importances",
    "plot_likelihood",
    "plot_rules",
    "plot_sequence",
    "plot_transition_scores",
    "plot_tree",
]
