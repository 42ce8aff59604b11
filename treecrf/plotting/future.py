"""Discovered features, as they fire in a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.plotting.common import axes_of, pyplot


def plot_future_features(model: FutureFeatureMEMM, x: Any, *, ax: Any = None) -> Any:
    """Show where in a sequence discovered features fire.

    Two rows for each feature: how probable it is that a position is a positive instance, and that
    its bag holds one.

    Parameters
    ----------
    model : FutureFeatureMEMM
        A fitted model.
    x : sequence
        One sequence, as the model takes them.
    ax : matplotlib axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    NotFittedError
        Before the model's `fit`.
    ValueError, TypeError
        If the sequence is not like the training data, nothing was discovered, or ``ax`` are no
        axes.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib").use("agg")
    >>> from treecrf import FutureFeatureMEMM
    >>> from treecrf.datasets import make_future_bags
    >>> from treecrf.plotting import plot_future_features
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> memm = FutureFeatureMEMM(order=0, bag_size=6, max_iter=20, random_state=0).fit(X, y)
    >>> plot_future_features(memm, X[0]).get_xlabel()
    'position'
    """
    pyplot()
    fired = model.future_values([x])[0]
    if not fired.size:
        raise ValueError("the model has discovered no features")
    n = fired.shape[1]
    ax = axes_of(ax, (8, 1 + n / 2))
    rows = np.moveaxis(fired, 0, -1).reshape(2 * n, -1)
    image = ax.imshow(rows, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    names = [f"{what} {k}" for k in range(n) for what in ("instance", "bag")]
    ax.set_yticks(range(2 * n), names)
    ax.set_xlabel("position")
    ax.figure.colorbar(image, ax=ax, label="probability")
    return ax
