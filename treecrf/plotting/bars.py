"""Plots with bars: importances, rules, weights, and contributions to a score."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from treecrf.encoding.names import short_number
from treecrf.inspection import (
    Explanation,
    Rule,
    Weight,
    explain,
    gain_importance,
    strongest_rules,
    strongest_weights,
)
from treecrf.inspection.fitted import code_of, quoted_label
from treecrf.learners.base.fitted import fitted_model
from treecrf.plotting.common import (
    COLORS,
    OTHER_STYLE,
    abbreviated,
    add_legend,
    axes_of,
    draw_table,
    drawing,
    finish,
    hatch_cells,
    ink,
    legend_inches,
    legend_width,
    name_rows,
    name_text,
    one_line,
    plain,
    points_of,
    result_of,
    set_title,
    style_numbers,
    style_of,
    text_inches,
    write_at_end,
)
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike
from treecrf.utils.validation import check_positive

# Width of a figure of importances, least width of bars, and sizes of a bar and of a cell of a map.
WIDTH = 6.4
BARS_INCHES = 3.0
BAR_INCHES = 0.26
CELL_INCHES = 0.32
SCALES = ("log", "linear", "row")
# The logarithmic scale spans this factor.
SPAN = 1e3
ENDS = "sequence ends"
# Color of gains from previous labels and sequence ends.
BEYOND = "#9A9A9A"


@drawing
def plot_importances(
    importances: Any, *, max_features: int = 20, max_labels: int = 8, ax: Any = None
) -> Any:
    """Plot the importance of features as bars, the most important at the top.

    Gains of tests of previous labels and of the ends of sequences are shown as well, in gray and as
    fractions of the total gain of all features. The trees of a conditional random field often gain
    as much from previous labels as from all features together.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        What to plot:

        - a model with boosted trees: its importance by gain;
        - the result of `treecrf.inspection.gain_importance`. With ``per_label=True``, the gains
          have the colors of the labels;
        - the result of `treecrf.inspection.permutation_importance`, with standard deviations.
    max_features : int, default=20
        Maximum number of bars.
    max_labels : int, default=8
        Maximum number of labels with their own colors. These are the labels with the highest gains.
    $ax

    $raises
        If the model has no trees, a parameter is invalid, or ``ax`` is not an Axes object.

    See Also
    --------
    plot_importance_map : Importance at each offset of the window.
    treecrf.inspection.gain_importance : Importance by gain, as numbers.
    treecrf.inspection.permutation_importance : Importance on any data, as numbers.

    Examples
    --------
    The label follows the feature *x0*. The previous label, in gray, comes second:

    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_importances
    >>> X, y = [[[1, 0], [0, 1]], [[0, 1]]], ["xy", "y"]
    >>> crf = TreeCRF(
    ...     max_iter=5, l2_regularization=1.0, init="zero", early_stopping=False
    ... ).fit(X, y)
    >>> ax = plot_importances(crf)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['x0', 'label[-1]', 'x1']
    """
    check_positive("max_labels", max_labels)
    result = result_of(gain_importance, "importances", importances)
    if "importances_mean" in result:
        return _plot_permuted(result, max_features, ax)
    return _plot_gains(result, max_features, max_labels, ax)


def _plot_permuted(result: Bunch, max_features: int, ax: Any) -> Any:
    """Plot importances by permutation, with their spread."""
    means = result.importances_mean
    chosen = np.argsort(-means, kind="stable")[:max_features]
    names = result.feature_names[chosen].tolist()
    ax = axes_of(ax, (_width(names), 1.2 + BAR_INCHES * len(chosen)))
    spread = result.importances_std[chosen]
    ax.barh(range(len(chosen)), means[chosen], xerr=spread, color=COLORS[0], ecolor=ink())
    ax.axvline(0, color=ink(), linewidth=0.8)
    name_rows(ax, names)
    ax.set_xlabel("drop of score when shuffled")
    finish(ax, "importance by permutation")
    return ax


def _plot_gains(result: Bunch, max_features: int, max_labels: int, ax: Any) -> Any:
    """Plot importances by gain, of all labels or stacked by label."""
    # A row for each label, or one for all.
    features = np.atleast_2d(result.importances.sum(axis=-1) + result.in_bags)
    others, other_names = _beyond_features(result)
    table = np.concatenate([features, *others], axis=1)
    total = table.sum(axis=0)
    chosen = np.argsort(-total, kind="stable")[:max_features]
    names = np.append(result.feature_names, other_names)[chosen].tolist()
    height = 1.2 + BAR_INCHES * len(chosen)
    if len(table) == 1:
        ax = axes_of(ax, (_width(names), height))
        colors = np.where(chosen >= len(result.feature_names), BEYOND, COLORS[0])
        ax.barh(range(len(chosen)), total[chosen], color=colors, linewidth=0)
    else:
        shown, others = _ranked_labels(table[:, chosen], max_labels)
        height = max(height, 0.6 + legend_inches(len(shown) + (len(others) > 0)))
        ax = axes_of(ax, (_width(names, result.labels[shown].tolist()), height))
        _stack(ax, table[:, chosen], result.labels, shown, others)
    name_rows(ax, names)
    ax.set_xlim(0, None if total.any() else 1)
    ax.set_xlabel("gain, relative to the sum of all features")
    finish(ax, _title_of_gain(result))
    return ax


def _width(names: list[str], labels: Iterable[Any] = ()) -> float:
    """Return the width of a figure of bars with some names and a legend of labels."""
    return max(WIDTH, BARS_INCHES + text_inches(map(name_text, names)) + legend_width(labels))


def _beyond_features(gains: Bunch) -> tuple[list[np.ndarray], list[str]]:
    """Return gains of previous labels and of the ends of sequences, unless 0, with their names."""
    before = np.atleast_2d(gains.labels_before)
    tables = [*before.T[:, :, None], np.atleast_2d(gains.outside.sum(axis=-1)).reshape(-1, 1)]
    lags = np.arange(1, before.shape[1] + 1)
    offsets = lags if gains.backward else -lags
    names = [f"label[{offset:+d}]" for offset in offsets] + [ENDS]
    nonzero = [k for k, table in enumerate(tables) if table.any()]
    return [tables[k] for k in nonzero], [names[k] for k in nonzero]


def _title_of_gain(gains: Bunch, what: str = "importance by gain") -> str:
    start = ", without the linear start" if gains.linear_start else ""
    return f"{what}, {gains.n_iter} iteration{'s' * (gains.n_iter != 1)}{start}"


def _ranked_labels(table: np.ndarray, max_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the labels with the highest gains, and those of the others."""
    ranks = np.argsort(-table.sum(axis=1), kind="stable")
    return np.sort(ranks[:max_labels]), ranks[max_labels:]


def _stack(
    ax: Any, table: np.ndarray, labels: np.ndarray, shown: np.ndarray, others: np.ndarray
) -> None:
    """Draw stacked bars, with a section for each shown label, and one for all others."""
    numbers = style_numbers(shown, len(labels))
    styles = {str(labels[k]): style_of(int(j)) for k, j in zip(shown, numbers, strict=True)}
    table = np.concatenate([table[shown], table[others].sum(axis=0, keepdims=True)])
    starts = np.cumsum(table, axis=0) - table
    if len(others):
        styles["others"] = OTHER_STYLE
    for start, row, style in zip(starts, table, styles.values(), strict=False):
        ax.barh(range(len(row)), row, left=start, linewidth=0, **style)
    add_legend(ax, styles, "label")


@drawing
def plot_importance_map(
    importances: Any,
    *,
    label: Any = None,
    feature: str | None = None,
    scale: str = "log",
    max_features: int = 30,
    ax: Any = None,
) -> Any:
    """Plot the importance of features at each offset of the window, as a map.

    Rows are features and columns are offsets, of which 0 is the labeled position. The last rows are
    tests of previous labels and of the ends of sequences. Discovered features of a
    `treecrf.FutureFeatureMEMM`, which have no offset, are shown in a column ``bags``.

    Parameters
    ----------
    importances : fitted classifier or Bunch
        A model with boosted trees, or the result of `treecrf.inspection.gain_importance`.
    label : str, int or bool, default=None
        Label whose trees are shown. This needs a model, or a result with ``per_label=True``. By
        default, the trees of all labels are shown together.
    feature : str, default=None
        Name of the only feature to show. The rows are then labels, which also needs a model, or a
        result with ``per_label=True``. By default, all features are shown. Pass at most one of
        ``label`` and ``feature``.
    scale : {"log", "linear", "row"}, default="log"
        How gains are mapped to colors:

        - ``"log"``: by their logarithm, over a range of 1,000, which shows small gains next to
          large ones.
        - ``"linear"``: in proportion.
        - ``"row"``: in proportion to the largest gain of the row.
    max_features : int, default=30
        Maximum number of features to show, the most important at the top.
    $ax

    $raises
        If the model has no trees or no such label or feature, gains by label are needed but not
        given, both ``label`` and ``feature`` are given, the scale is invalid, or ``ax`` is not an
        Axes object.

    See Also
    --------
    plot_importances : Sums over all offsets, as bars.
    treecrf.inspection.gain_importance : The same as numbers.

    Examples
    --------
    Rows for the labels *c* and *v*, and columns for the offsets -1, 0, and 1:

    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_importance_map
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
    >>> ax = plot_importance_map(crf, feature="symbol")
    >>> ax.images[0].get_array().shape
    (2, 3)
    """
    if label is not None and feature is not None:
        raise ValueError("both label and feature are given; pass at most one of them")
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}; expected 'log', 'linear' or 'row'")
    per_label = label is not None or feature is not None
    gains = result_of(gain_importance, "offsets", importances, per_label=per_label)
    if per_label and gains.importances.ndim < 3:
        raise ValueError(
            "label and feature need gains by label; use gain_importance(per_label=True)"
        )
    table, rows, columns = _importance_table(gains, label, feature, max_features)
    rows = [name_text(row) for row in rows]
    width = max(3.0, 2.0 + text_inches(rows)) + CELL_INCHES * len(columns)
    ax = axes_of(ax, (width, max(2.4, 1.4 + CELL_INCHES * len(rows))))
    is_empty = table <= 0
    table, style = _colored(table, scale)
    whole = "row maximum" if scale == "row" else "gain"
    draw_table(ax, table, f"fraction of {whole}", **style)
    hatch_cells(ax, is_empty)
    ax.set_yticks(range(len(rows)), rows)
    step = 1 + (len(columns) - 1) // 25
    ax.set_xticks(range(0, len(columns), step), columns[::step])
    ax.set_xlabel("offset in the window")
    what = "all labels"
    if feature is not None:
        what = f"feature {abbreviated(feature)}"
    elif label is not None:
        what = f"label {abbreviated(quoted_label(gains.labels, label))}"
    set_title(ax, _title_of_gain(gains, what))
    return ax


def _colored(table: np.ndarray, scale: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Scale the gains; return them and the colors. Logarithms leave cells without gain empty."""
    from matplotlib.colors import LogNorm

    highest = table.max()
    bounds: dict[str, Any] = {"vmin": 0, "vmax": 1}
    if scale == "row":
        table = table / np.maximum(table.max(axis=1, keepdims=True), np.finfo(float).tiny)
    elif highest > 0 and scale == "linear":
        bounds = {"vmin": 0}
    elif highest > 0:
        lowest = max(table[table > 0].min(), highest / SPAN)
        bounds = {"norm": LogNorm(min(lowest, highest / 10), highest)}
    if scale == "log":
        table = np.ma.masked_less_equal(table, 0.0)
    return table, {"cmap": "cividis"} | bounds


def _importance_table(
    gains: Bunch, label: Any, feature: str | None, max_features: int
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return gains, and the names of the rows and of the columns."""
    offsets = gains.offsets
    lags = np.arange(1, gains.labels_before.shape[-1] + 1)
    label_offsets = lags if gains.backward else -lags
    columns = np.union1d(offsets, label_offsets if gains.labels_before.any() else [0])
    names = gains.feature_names.tolist()
    # The last column is for gains without an offset.
    features = np.zeros((*gains.importances.shape[:-1], len(columns) + 1))
    features[..., np.searchsorted(columns, offsets)] = gains.importances
    features[..., -1] = gains.in_bags
    if feature is not None:
        if feature not in names:
            raise ValueError(f"feature={feature!r}; expected one of {', '.join(names)}")
        table = features[:, names.index(feature)]
        rows = [str(label) for label in gains.labels]
    else:
        others = np.zeros((*features.shape[:-2], 2, features.shape[-1]))
        if gains.labels_before.any():
            others[..., 0, np.searchsorted(columns, label_offsets)] = gains.labels_before
        others[..., 1, np.searchsorted(columns, offsets)] = gains.outside
        features = _label_gains(features, gains.labels, label)
        others = _label_gains(others, gains.labels, label)
        chosen = np.argsort(-features.sum(axis=1), kind="stable")[:max_features]
        has_gains = others.any(axis=1)
        table = np.concatenate([features[chosen], others[has_gains]])
        other_names = np.array(["previous labels", ENDS])[has_gains].tolist()
        rows = [names[j] for j in chosen] + other_names
    headings = [f"{offset:+d}" if offset else "0" for offset in columns]
    if np.any(gains.in_bags):
        return table, rows, [*headings, "bags"]
    return table[:, :-1], rows, headings


def _label_gains(table: np.ndarray, labels: np.ndarray, label: Any) -> np.ndarray:
    """Return the gains of a label, or of all labels."""
    if table.ndim < 3:
        return table
    if label is None:
        return table.sum(axis=0)
    return table[code_of(labels, label)]


LINE_INCHES = 0.155
# Room on both sides of the bars for percentages.
SHARE_POINTS = 36
CHARACTERS = 56
MAX_LINES = 4
# Where a condition may be broken into lines.
BREAKS = re.compile(r"(?<= and )|(?<=, )")


@drawing
def plot_rules(rules: Any, *, n_rules: int = 15, ax: Any = None) -> Any:
    """Plot the effects of rules on the scores of labels, as bars.

    After an arrow, each condition is followed by the label of the rule, unless all rules have one
    label.

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

    See Also
    --------
    treecrf.inspection.strongest_rules : The same as text.
    plot_weights : The same for linear models.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_rules
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(max_iter=5, max_leaf_nodes=3, l2_regularization=1.0)
    >>> crf = crf.fit(X, y)
    >>> ax = plot_rules(crf, n_rules=1)
    >>> ax.get_yticklabels()[0].get_text()
    "label[-1] is 'c' and symbol is 'a'"
    """
    title = "strongest rules"
    if not _is_list_of(Rule, rules):
        model = rules
        rules = strongest_rules(model, n_rules=n_rules)
        fitted = fitted_model(model).chain
        n_iter = fitted.forest.n_iter
        title += f", {n_iter} iteration{'s' * (n_iter != 1)}"
        if fitted.start is not None:
            title += " without the linear start"
    rules = rules[:n_rules]
    if not rules:
        raise ValueError("there are no rules to show: no tree has a leaf other than 0")
    ax, centers = _draw(rules, ax, title)
    for rule, center in zip(rules, centers, strict=True):
        if rule.share is not None:
            distance = 4 if rule.value >= 0 else -4
            write_at_end(ax, f"{rule.share:.1%}", (rule.value, center), distance, 7)
    if any(rule.share is not None for rule in rules):
        bars = max(points_of(ax)[0] - 2 * SHARE_POINTS, SHARE_POINTS)
        ax.margins(x=SHARE_POINTS / bars)
    ax.set_xlabel("added to the score of the label")
    return ax


@drawing
def plot_weights(weights: Any, *, n_weights: int = 20, label: Any = None, ax: Any = None) -> Any:
    """Plot the strongest weights of a linear model, as bars.

    After an arrow, each condition is followed by the label of the weight, unless all weights have
    one label.

    Parameters
    ----------
    weights : fitted classifier or list of Weight
        A linear model, or the result of `treecrf.inspection.strongest_weights`.
    n_weights : int, default=20
        Maximum number of weights to show.
    label : str, int or bool, default=None
        Label of the weights, if a model is passed. By default, weights of all labels are shown.
    $ax

    $raises
        If the model is not linear or has no such label, there are no weights other than 0, or
        ``ax`` is not an Axes object.

    See Also
    --------
    treecrf.inspection.strongest_weights : The same as text.
    plot_transition_scores : All weights of labels after labels.
    plot_rules : The same for trees.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.plotting import plot_weights
    >>> crf = LinearCRF().fit(["banana", "panama", "cabana"], ["cvcvcv"] * 3)
    >>> ax = plot_weights(crf, n_weights=1)
    >>> ax.get_yticklabels()[0].get_text()
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
    labels = sorted({effect.label for effect in effects})
    conditions = [_lines(text) for text in _conditions_of(effects)]
    if len(labels) > 1:
        for lines, effect in zip(conditions, effects, strict=True):
            label = one_line(effect.label)
            if len(lines[-1]) + len(label) > CHARACTERS:
                lines.append("")
            lines[-1] += f" → {label}"
    heights = np.array([len(lines) for lines in conditions]) + 0.6
    ends = np.cumsum(heights)
    centers = ends - heights / 2
    width = BARS_INCHES + text_inches(chain(*conditions), 8) + legend_width(labels)
    height = max(1 + LINE_INCHES * ends[-1], legend_inches(len(labels)))
    ax = axes_of(ax, (max(7.5, width), height))
    styles = {label: style_of(k) for k, label in enumerate(labels)}
    for effect, center in zip(effects, centers, strict=True):
        ax.barh(center, effect.value, height=1.0, linewidth=0, **styles[effect.label])
    ax.axvline(0, color=ink(), linewidth=0.8)
    ax.set_yticks(centers, ["\n".join(map(plain, lines)) for lines in conditions], fontsize=8)
    ax.set_ylim(ends[-1], 0)
    add_legend(ax, {str(label): style for label, style in styles.items()}, "label")
    if len(labels) == 1:
        title += f", label {abbreviated(repr(labels[0]))}"
    finish(ax, title)
    return ax, centers


def _conditions_of(effects: list[Rule] | list[Weight]) -> list[str]:
    """Return the conditions of effects, in short if they differ all the same.

    Rules of one model differ; those of several models may not.
    """
    short = [getattr(effect, "short_condition", None) or effect.condition for effect in effects]
    labeled = Counter(zip([effect.label for effect in effects], short, strict=True))
    return [
        text if labeled[effect.label, text] == 1 else effect.condition
        for effect, text in zip(effects, short, strict=True)
    ]


def _lines(condition: str) -> list[str]:
    """Split a condition into lines, after tests and after listed values."""
    lines = [""]
    pieces = BREAKS.split(condition)
    for k, piece in enumerate(pieces):
        if lines[-1] and len(lines[-1]) + len(piece.strip()) > CHARACTERS:
            if len(lines) == MAX_LINES:
                return [*lines[:-1], f"{lines[-1]}... {len(pieces) - k} more"]
            lines.append("")
        test = piece.removesuffix(" and ")
        lines[-1] += abbreviated(test, CHARACTERS) + piece[len(test) :]
    return [line.strip() for line in lines]


STEP_INCHES = 0.3
# Colors of contributions that raise and that lower the score.
RAISES = COLORS[0]
LOWERS = COLORS[1]
# Room for the numbers on both sides, relative to the range of the sums.
MARGIN = 0.14
# Contributions below this fraction of the sum of their absolute values share one bar.
MIN_SHOWN = 0.01
# Numbers with a fraction; others are short enough, or names of categories.
FRACTION = re.compile(r"-?\d+(\.\d+|e[+-]\d+|\.\d+e[+-]\d+)")


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
    x : sequence or long table, default=None
        Input of the model, as in `treecrf.inspection.explain`. Required for a model.
    position : int, default=None
        Position in the sequence, or row of the long table. Required for a model.
    y : array-like of shape (n_positions,) or str, default=None
        Labels of all positions, as in `treecrf.inspection.explain`. Only for a model.
    label : str, int or bool, default=None
        Label whose score is explained. By default, this is the label of the position.
    against : str, int or bool, default=None
        A second label. If given, the difference between the scores of the two labels is explained.
    max_features : int, default=12
        Maximum number of features to show. One more bar shows the sum of all others, including
        those below 1 % of the sum of all absolute contributions.
    lengths, groups : optional
        Sequences of a long table, as in `treecrf.inspection.explain`. Only for a model.
    $ax

    $raises
        As `treecrf.inspection.explain`, if a label does not exist or is compared with itself, or if
        ``ax`` is not an Axes object.

    See Also
    --------
    treecrf.inspection.explain : The same as numbers and text.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.plotting import plot_explanation
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     window=1, max_iter=5, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
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
    if label is None:
        label = explanation.label
    base, values, names, title = _strongest(explanation, label, against, max_features)
    ax = axes_of(ax, (7.5, 0.8 + STEP_INCHES * (len(values) + 2)))
    # Each bar starts where the one above it ends.
    sums = base + np.append(0.0, np.cumsum(values))
    _draw_waterfall(ax, values, sums)
    name_rows(ax, ["base value", *names, "score"])
    margin = MARGIN * max(np.ptp(sums), abs(base), np.finfo(float).tiny)
    ax.set_xlim(sums.min() - margin, sums.max() + margin)
    ax.set_xlabel("score")
    ax.tick_params(axis="y", length=0)
    finish(ax, title, "left")
    return ax


def _draw_waterfall(ax: Any, values: np.ndarray, sums: np.ndarray) -> None:
    """Draw a bar for each value, from one sum to the next, and write the numbers."""
    last = len(values) + 1  # the row of the score
    colors = np.where(values >= 0, RAISES, LOWERS)
    ax.barh(np.arange(1, last), values, left=sums[:-1], height=0.7, color=colors)
    # Between rows, a line shows the sum so far.
    style = {"color": ink(), "linewidth": 0.8}
    ax.vlines(sums, np.arange(last), np.arange(1, last + 1), linestyle=":", **style)
    ax.plot(sums[[0, -1]], [0, last], "D", color=ink(), markersize=5)
    decimals = _decimals(sums)
    write_at_end(ax, f"{sums[0]:.{decimals}f}", (sums[0], 0), 6, 8)
    for row, (end, value) in enumerate(zip(sums[1:], values, strict=True), 1):
        # Without the sign of a number that is rounded to 0.
        text = f"{round(value, decimals) + 0.0:+.{decimals}f}"
        write_at_end(ax, text, (end, row), 6 if value >= 0 else -6, 8)
    write_at_end(ax, f"{sums[-1]:.{decimals}f}", (sums[-1], last), 6, 8)


def _decimals(sums: np.ndarray) -> int:
    """Return the number of decimal places that leaves the largest sum three digits, up to nine."""
    largest = np.abs(sums).max()
    if largest == 0:
        return 2
    return min(max(0, 2 - int(np.floor(np.log10(largest)))), 9)


def _strongest(
    explanation: Explanation, label: Any, against: Any, n: int
) -> tuple[float, np.ndarray, list[str], str]:
    """Return the base value, the strongest contributions with their names, and the title.

    They are those to a score, or to a difference of scores. The last one sums up the others.
    """
    k = code_of(explanation.labels, label)
    base = explanation.base_values[k]
    values = explanation.values[k]
    title = f"score of {abbreviated(quoted_label(explanation.labels, label))}"
    if against is not None:
        j = code_of(explanation.labels, against)
        if j == k:
            raise ValueError(f"against={against!r} is the label itself; expected another one")
        base = base - explanation.base_values[j]
        values = values - explanation.values[j]
        title += f" minus {abbreviated(quoted_label(explanation.labels, against))}"
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[values[order] != 0]
    n_strong = int(np.sum(np.abs(values) >= MIN_SHOWN * np.abs(values).sum()))
    # A single weak one takes no more room than a bar of others.
    if len(order) > n_strong + 1:
        n = min(n, n_strong)
    shown = order[:n]
    others = order[n:]
    names = [_short_description(explanation, j) for j in shown]
    bars = values[shown]
    if len(others):
        names.append(f"{len(others)} others")
        bars = np.append(bars, values[others].sum())
    return float(base), bars, names, f"{title} at position {explanation.position}"


def _short_description(explanation: Explanation, j: int) -> str:
    """Describe a feature with its value, a number of which has three digits."""
    description = explanation.descriptions[j]
    what = f"{explanation.feature_names[j]} = "
    value = description.removeprefix(what)
    if FRACTION.fullmatch(value):
        return what + short_number(float(value))
    return description
