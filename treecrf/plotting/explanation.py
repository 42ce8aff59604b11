"""Waterfall plot of the contributions to the score of a label."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inspection import Explanation, explain
from treecrf.inspection.fitted import code_of
from treecrf.plotting.common import COLORS, axes_of, drawing, finish, name_rows, write_at_end
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike

BAR_INCHES = 0.3
RAISES, LOWERS = COLORS[0], COLORS[5]
# Room for the numbers on both sides, relative to the range of the sums.
MARGIN = 0.14


@drawing
def plot_explanation(
    explanation: Any,
    x: Any = None,
    position: int | None = None,
    y: LabelsLike | None = None,
    *,
    label: Any = None,
    against: Any = None,
    max_features: int = 12,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
    ax: Any = None,
) -> Any:
    """Plot the contributions to the score of a label at one position, as a waterfall.

    Bars lead from the base value, at the top, to the score of the label, at the bottom. The
    strongest contributions come first.

    Parameters
    ----------
    explanation : fitted classifier or Explanation
        A model, or the result of `treecrf.inspection.explain`.
    x : sequence or long table, optional
        As in `treecrf.inspection.explain`; required for a model.
    position : int, optional
        Position in the sequence, or row of the long table; required for a model.
    y : array-like of shape (n_positions,) or str, optional
        Labels of all positions, as in `treecrf.inspection.explain`; only for a model.
    label : str, int or bool, optional
        Label whose score is explained; by default, the label of the position.
    against : str, int or bool, optional
        If given, the difference between the scores of the two labels is explained.
    max_features : int, default=12
        Maximum number of features to show; the rest is shown as one bar.
    lengths, groups : optional
        As in the model's ``predict``; only for a model.
    $ax

    $raises
        As `treecrf.inspection.explain`, if a label does not exist or is compared with itself, or if
        ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_explanation
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> settings = dict(l2_regularization=1.0, second_order=False, learning_rate=1.0)
    >>> crf = TreeCRF(window=1, max_iter=5, **settings).fit(X, y)
    >>> ax = plot_explanation(crf, "nab", 1)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['base value', "label[-1] = 'c'", "symbol[-1] = 'n'", 'not outside[+1]', 'score']
    """
    if not isinstance(explanation, Explanation):
        if x is None or position is None:
            raise ValueError(
                "x or position is missing; pass a sequence and a position at which to explain the "
                "scores of the model"
            )
        explanation = explain(explanation, x, position, y, lengths=lengths, groups=groups)
    label = explanation.label if label is None else label
    base, values, names, title = _strongest(explanation, label, against, max_features)
    n_rows = len(values) + 2
    ax = axes_of(ax, (7.5, 0.8 + BAR_INCHES * n_rows))
    # Each bar starts where the one above it ends.
    sums = base + np.append(0.0, np.cumsum(values))
    colors = [RAISES if value >= 0 else LOWERS for value in values]
    ax.barh(np.arange(1, n_rows - 1), values, left=sums[:-1], height=0.7, color=colors)
    # Between rows, a line shows the sum so far.
    style = {"color": COLORS[-1], "linewidth": 0.8}
    ax.vlines(sums, np.arange(n_rows - 1), np.arange(1, n_rows), linestyle=":", **style)
    ax.plot(sums[[0, -1]], [0, n_rows - 1], "D", color=COLORS[-1], markersize=5)
    write_at_end(ax, f"{base:.2f}", (base, 0), 6, 8)
    for row, (end, value) in enumerate(zip(sums[1:], values, strict=True), 1):
        write_at_end(ax, f"{value:+.2f}", (end, row), 6 if value >= 0 else -6, 8)
    write_at_end(ax, f"{sums[-1]:.2f}", (sums[-1], n_rows - 1), 6, 8)
    name_rows(ax, ["base value", *names, "score"])
    margin = MARGIN * max(np.ptp(sums), abs(base), np.finfo(float).tiny)
    ax.set_xlim(sums.min() - margin, sums.max() + margin)
    ax.set_xlabel("score")
    ax.tick_params(axis="y", length=0)
    finish(ax, title, "left")
    return ax


def _strongest(
    explanation: Explanation, label: Any, against: Any, n: int
) -> tuple[float, np.ndarray, list[str], str]:
    """Return the base value, the strongest contributions with their names, and the title.

    They are those to a score, or to a difference of scores. The last one sums up the others.
    """
    k = code_of(explanation.labels, label)
    base, values = explanation.base_values[k], explanation.values[k]
    title = f"score of {label!r}"
    if against is not None:
        j = code_of(explanation.labels, against)
        if j == k:
            raise ValueError(f"against={against!r} is the label itself; expected another one")
        base, values = base - explanation.base_values[j], values - explanation.values[j]
        title += f" minus {against!r}"
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[values[order] != 0]
    shown, others = order[:n], order[n:]
    names, bars = explanation.descriptions[shown].tolist(), values[shown]
    if len(others):
        names, bars = [*names, f"{len(others)} others"], np.append(bars, values[others].sum())
    return float(base), bars, names, f"{title} at position {explanation.position}"
