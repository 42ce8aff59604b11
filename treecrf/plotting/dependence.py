"""Plot of the mean probability or score of each label by the value of a feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.inputs.values import as_list
from treecrf.inspection import partial_dependence
from treecrf.inspection.fitted import code_of
from treecrf.plotting.common import (
    COLORS,
    LEGEND_STYLE,
    abbreviated,
    axes_of,
    drawing,
    finish,
    legend_inches,
    legend_name,
    plain,
    result_of,
)
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive

MAX_CHARACTERS = 20
# Further labels repeat the colors with other lines and markers.
LINES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")


@drawing
def plot_partial_dependence(
    dependence: Any,
    X: SequencesLike | None = None,
    feature: str | int | None = None,
    offset: int | None = 0,
    *,
    labels: Any = None,
    max_labels: int = 8,
    values: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    ax: Any = None,
) -> Any:
    """Plot the mean probability or score of each label as a function of a feature's value.

    Numbers are drawn as lines, and the values of a category or a boolean as points.

    Parameters
    ----------
    dependence : fitted classifier or Bunch
        A model, or the result of `treecrf.inspection.partial_dependence`.
    X : sequences, optional
        Data to average over; required for a model.
    feature : str or int, optional
        Name or index of the feature; required for a model.
    offset : int or None, default=0
        Offset in the window, or None for all offsets.
    labels : list, optional
        Labels to show; by default those whose mean changes the most.
    max_labels : int, default=8
        Maximum number of labels, unless they are given.
    values : list, optional
        As in `treecrf.inspection.partial_dependence`.
    lengths, groups : optional
        As in the model's ``predict``.
    $ax

    $raises
        As `treecrf.inspection.partial_dependence`, if a label does not exist, or if ``ax`` is not
        an Axes object.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_partial_dependence
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> ax = plot_partial_dependence(crf, X, "symbol", -1)
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['a', 'b', 'c', 'm', 'n', 'p']
    """
    check_positive("max_labels", max_labels)
    if not isinstance(dependence, Bunch) and (X is None or feature is None):
        raise ValueError(
            "X or feature is missing; pass sequences to average over and a feature of the model"
        )
    data = {"values": values, "lengths": lengths, "groups": groups}
    result = result_of(partial_dependence, "grid_values", dependence, X, feature, offset, **data)
    if labels is None:
        changes = np.ptp(result.average, axis=0)
        codes = sorted(np.argsort(-changes, kind="stable")[:max_labels].tolist())
    else:
        codes = [code_of(result.labels, label) for label in as_list(labels, "labels", "labels")]
    values = result.grid_values
    n_ticks = 0 if result.is_number else len(values)
    ax = axes_of(ax, (max(6.4, 3.0 + 0.2 * n_ticks), max(3.8, 1 + legend_inches(len(codes)))))
    places = values if result.is_number else np.arange(len(values))
    for k in codes:
        style = _style(k, result.is_number)
        ax.plot(places, result.average[:, k], label=legend_name(result.labels[k]), **style)
    if not result.is_number:
        _name_values(ax, values.tolist())
    ax.set_xlabel(plain(result.feature_name))
    ax.set_ylabel(f"mean {result.response}")
    ax.legend(title="label", **LEGEND_STYLE)
    finish(ax, f"mean {result.response} of labels by {result.feature_name}")
    return ax


def _style(k: int, is_number: bool) -> dict[str, str]:
    """Return the style of label number k."""
    turn, color = k // len(COLORS), COLORS[k % len(COLORS)]
    if is_number:
        return {"color": color, "linestyle": LINES[turn % len(LINES)]}
    return {"color": color, "linestyle": "", "marker": MARKERS[turn % len(MARKERS)]}


def _name_values(ax: Any, values: list) -> None:
    names = [plain(abbreviated(value, MAX_CHARACTERS)) for value in values]
    long = max(map(len, names)) > 3 and len(names) > 8
    ax.set_xticks(range(len(names)), names, rotation=90 if long else 0)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    ax.set_axisbelow(True)
