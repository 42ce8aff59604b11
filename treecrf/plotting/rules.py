"""Plots of the strongest rules, and of the strongest weights of linear models, as bars."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from treecrf.inspection import Rule, Weight, strongest_rules, strongest_weights
from treecrf.plotting.common import (
    COLORS,
    abbreviated,
    add_legend,
    axes_of,
    drawing,
    finish,
    legend_inches,
    plain,
    style_of,
    write_at_end,
)

LINE_INCHES = 0.155
CHARACTERS = 56
MAX_LINES = 4
# Where a condition may be broken into lines.
BREAKS = re.compile(r"(?<= and )|(?<=, )")


@drawing
def plot_rules(rules: Any, *, n_rules: int = 15, ax: Any = None) -> Any:
    """Plot the effects of rules on the scores of labels.

    Parameters
    ----------
    rules : fitted classifier or list of Rule
        A model with boosted trees, or the result of `treecrf.inspection.strongest_rules`. If that
        was computed with data, the plot shows how often each rule holds.
    n_rules : int, default=15
        Maximum number of rules to show.
    $ax

    $raises
        If the model has no trees, there are no rules, or ``ax`` is not an Axes object.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5, max_leaf_nodes=3, l2_regularization=1.0).fit(X, y)
    >>> plot_rules(crf, n_rules=1).get_yticklabels()[0].get_text()
    "label[-1] is 'c' and symbol is 'a'"
    """
    title = "strongest rules"
    if not _is_list_of(Rule, rules):
        model, rules = rules, strongest_rules(rules, n_rules=n_rules)
        n_iter = model._forest.n_iter
        title += f", {n_iter} iteration{'s' * (n_iter != 1)}"
        title += " without the linear start" if model._start is not None else ""
    rules = rules[:n_rules]
    if not rules:
        raise ValueError("there are no rules to show: no tree has a leaf other than 0")
    ax, centers = _draw(rules, ax, title)
    for rule, center in zip(rules, centers, strict=True):
        if rule.share is not None:
            distance = 4 if rule.value >= 0 else -4
            write_at_end(ax, f"{rule.share:.1%}", (rule.value, center), distance, 7)
    if any(rule.share is not None for rule in rules):
        ax.margins(x=0.12)
    ax.set_xlabel("added to the score of the label")
    return ax


@drawing
def plot_weights(weights: Any, *, n_weights: int = 20, label: Any = None, ax: Any = None) -> Any:
    """Plot the strongest weights of a linear model.

    Parameters
    ----------
    weights : fitted classifier or list of Weight
        A linear model, or the result of `treecrf.inspection.strongest_weights`.
    n_weights : int, default=20
        Maximum number of weights to show.
    label : str, int or bool, optional
        If given, only weights for this label; for a model.
    $ax

    $raises
        If the model is not linear or has no such label, there are no weights other than 0, or
        ``ax`` is not an Axes object.

    See Also
    --------
    plot_transition_scores : Plots all weights of labels after labels.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.plotting import plot_weights
    >>> crf = LinearCRF().fit(["banana", "panama", "cabana"], ["cvcvcv"] * 3)
    >>> plot_weights(crf, n_weights=1).get_yticklabels()[0].get_text()
    "label[-1] is 'c'"
    """
    if not _is_list_of(Weight, weights):
        weights = strongest_weights(weights, n_weights, label=label)
    if not weights:
        raise ValueError("there are no weights other than 0 to show")
    ax, _ = _draw(weights[:n_weights], ax, "strongest weights")
    ax.set_xlabel("weight for the label")
    return ax


def _is_list_of(kind: type, items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, kind) for item in items)


def _draw(effects: list[Rule] | list[Weight], ax: Any, title: str) -> tuple[Any, np.ndarray]:
    """Draw a bar for each effect on a label; return the axes and the centers of the bars."""
    lines = [_lines(effect.condition) for effect in effects]
    rooms = np.array(list(map(len, lines))) + 0.6
    ends = np.cumsum(rooms)
    centers = ends - rooms / 2
    labels = sorted({effect.label for effect in effects})
    ax = axes_of(ax, (9, max(1 + LINE_INCHES * ends[-1], legend_inches(len(labels)))))
    styles = {label: style_of(k) for k, label in enumerate(labels)}
    for effect, center in zip(effects, centers, strict=True):
        ax.barh(center, effect.value, height=1.0, linewidth=0, **styles[effect.label])
    ax.axvline(0, color=COLORS[-1], linewidth=0.8)
    ax.set_yticks(centers, ["\n".join(map(plain, of_effect)) for of_effect in lines], fontsize=8)
    ax.set_ylim(ends[-1], 0)
    add_legend(ax, {str(label): style for label, style in styles.items()}, "label")
    finish(ax, f"{title}, label {labels[0]!r}" if len(labels) == 1 else title)
    return ax, centers


def _lines(condition: str) -> list[str]:
    """Split a condition into lines, after tests and after listed values."""
    lines, pieces = [""], BREAKS.split(condition)
    for k, piece in enumerate(pieces):
        if lines[-1] and len(lines[-1]) + len(piece.strip()) > CHARACTERS:
            if len(lines) == MAX_LINES:
                return [*lines[:-1], f"{lines[-1]}... {len(pieces) - k} more"]
            lines.append("")
        test = piece.removesuffix(" and ")
        lines[-1] += abbreviated(test, CHARACTERS) + piece[len(test) :]
    return [line.strip() for line in lines]
