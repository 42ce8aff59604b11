"""Plot of discovered features in a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.plotting.common import axes_of, pyplot, set_title
from treecrf.plotting.one_sequence import OneSequence
from treecrf.utils.typing import GroupsLike


def plot_future_features(
    model: FutureFeatureMEMM,
    x: Any,
    *,
    groups: GroupsLike = None,
    group: Any = None,
    ax: Any = None,
) -> Any:
    """Plot where in a sequence the discovered features are active.

    Each feature has two rows: the probability that a position is a positive instance, and the
    probability that its bag contains one.

    Parameters
    ----------
    model : FutureFeatureMEMM
        A fitted model.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    groups, group : optional
        Sequence to plot of a long table, as in `plot_sequence`.
    ax : matplotlib axes, optional
        Axes to draw on; those of a new figure by default.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If the sequence does not match the training data, no features were discovered, the group
        does not exist or is not given, or ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM
    >>> from treecrf.datasets import make_future_bags
    >>> from treecrf.plotting import plot_future_features
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> memm = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    ... )
    >>> memm = memm.fit(X, y)
    >>> plot_future_features(memm, X[0]).get_xlabel()
    'position'
    """
    pyplot()
    one = OneSequence.of(model, x, None, None, groups, group)
    values = model.future_values([one.x])[0]
    if not values.size:
        raise ValueError("the model has discovered no features")
    n = values.shape[1]
    ax = axes_of(ax, (8, 1 + n / 2))
    rows = np.moveaxis(values, 0, -1).reshape(2 * n, -1)
    image = ax.imshow(rows, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    names = [f"{row} {k}" for k in range(n) for row in ("instance", "bag")]
    ax.set_yticks(range(2 * n), names)
    ax.set_xlabel("position")
    ax.figure.colorbar(image, ax=ax, label="probability")
    set_title(ax, f"{n} discovered feature{'s' * (n != 1)} at {len(values)} positions")
    return ax
