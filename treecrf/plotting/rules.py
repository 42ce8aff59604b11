"""The strongest rules, as bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inspection import Rule, strongest_rules
from treecrf.plotting.common import (
    COLORS,
    add_legend,
    axes_of,
    legend_inches,
    look_of,
    plain,
    pyplot,
)

LINE_INCHES = 0.155
CHARACTERS = 56
MAX_LINES = 4


def plot_rules(rules: Any, *, n_rules: int = 15, ax: Any = None) -> Any:
    """Show what rules add to the scores of labels, or take from them.

    Parameters
    ----------
    rules : fitted classifier or list of Rule
        A model with boosted trees, or what `treecrf.inspection.rules_rules` gives; if it was
        given data, how often each rule holds stands beside it.
    n_rules : int, default=15
        Most rules that are shown.
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
        If the model has no trees, there are no rules, or ``ax`` are no axes.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib").use("agg")
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5, max_leaf_nodes=3, l2_regularization=1.0).fit(X, y)
    >>> plot_rules(crf, n_rules=1).get_yticklabels()[0].get_text()
    "label[-1] is 'c' and symbol is 'a'"
    """
    pyplot()
    given = isinstance(rules, list) and all(isinstance(rule, Rule) for rule in rules)
    rules = (rules if given else strongest_rules(rules, n_rules=n_rules))[:n_rules]
    if not rules:
        raise ValueError("there are no rules to show")
    lines = [_lines(rule.condition) for rule in rules]
    labels = sorted({rule.label for rule in rules})
    centers, end = _centers([len(of_rule) for of_rule in lines])
    ax = axes_of(ax, (9, max(1 + LINE_INCHES * end, legend_inches(len(labels)))))
    looks = {label: look_of(k) for k, label in enumerate(labels)}
    for rule, center in zip(rules, centers, strict=True):
        ax.barh(center, rule.value, height=1.0, linewidth=0, **looks[rule.label])
    ax.axvline(0, color=COLORS[-1], linewidth=0.8)
    ax.set_yticks(centers, ["\n".join(map(plain, of_rule)) for of_rule in lines], fontsize=8)
    ax.set_ylim(end, 0)
    _tell_shares(ax, rules, centers)
    ax.set_xlabel("added to the score of the label")
    add_legend(ax, {str(label): look for label, look in looks.items()}, "label")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _lines(condition: str) -> list[str]:
    """A condition in lines that break between tests."""
    lines = [""]
    tests = condition.split(" and ")
    for k, test in enumerate(tests):
        told = test + " and " * (k < len(tests) - 1)
        if lines[-1] and len(lines[-1]) + len(test) > CHARACTERS:
            if len(lines) == MAX_LINES:
                return [*lines[:-1], f"{lines[-1]}{len(tests) - k} more"]
            lines.append("")
        lines[-1] += told
    return [line.strip() for line in lines]


def _centers(heights: list[int]) -> tuple[list[float], float]:
    """Where bars stand whose names have so many lines, and where the last one ends."""
    rooms = np.array(heights) + 0.6
    ends = np.cumsum(rooms)
    return (ends - rooms / 2).tolist(), float(ends[-1])


def _tell_shares(ax: Any, rules: list[Rule], centers: list[float]) -> None:
    for rule, center in zip(rules, centers, strict=True):
        if rule.share is not None:
            ax.annotate(
                f"{rule.share:.1%}",
                (rule.value, center),
                xytext=(4 if rule.value >= 0 else -4, 0),
                textcoords="offset points",
                ha="left" if rule.value >= 0 else "right",
                va="center",
                fontsize=7,
            )
    if any(rule.share is not None for rule in rules):
        ax.margins(x=0.12)
