"""Plots of models show the numbers of `treecrf.inspection`."""

from __future__ import annotations

import itertools
import sys
from itertools import pairwise, product
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from support.family import CORE, COUNTED, ESTIMATED, FAMILY, GROWN, every
from support.settings import FIXED
from support.sweeps import pairs

from treecrf import FutureFeatureMEMM, HMMClassifier, LinearCRF, TreeCRF, TreeMEMM
from treecrf.datasets import make_future_bags
from treecrf.inspection import (
    Explanation,
    Rule,
    explain,
    find_spans,
    gain_importance,
    likelihood_curve,
    partial_dependence,
    permutation_importance,
    strongest_rules,
    strongest_weights,
    transition_scores,
    transition_weights,
)
from treecrf.inspection.fitted import FittedTrees
from treecrf.learners.base.fitted import fitted_model
from treecrf.plotting import (
    highlight_text,
    plot_explanation,
    plot_future_features,
    plot_importance_map,
    plot_importances,
    plot_likelihood,
    plot_partial_dependence,
    plot_rules,
    plot_sequence,
    plot_transition_scores,
    plot_tree,
    plot_weights,
)
from treecrf.plotting.common import COLORS, OTHER_STYLE, line_style_of, style_of

plt = pytest.importorskip("matplotlib.pyplot")
to_rgb = pytest.importorskip("matplotlib.colors").to_rgb
plt.switch_backend("agg")

X, Y = make_future_bags("or", n_sequences=60, random_state=0)


@pytest.fixture(autouse=True)
def closed():
    """Check that every figure can be drawn without a warning, and close it."""
    plt.close("all")  # figures of examples in docstrings
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


def names_of(ticks) -> list[str]:
    return [tick.get_text() for tick in ticks]


def legend_of(ax) -> list[str]:
    return names_of(ax.get_legend().get_texts())


# Discovered features


def test_a_picture_shows_instances_and_bags():
    memm = FutureFeatureMEMM(
        order=0, bag_size=6, max_iter=20, max_future_features=1, random_state=0
    ).fit(X, Y)
    ax = plot_future_features(memm, X[0])
    shown = ax.images[0].get_array()
    n = len(memm.future_features_)
    assert shown.shape == (2 * n, 30)
    np.testing.assert_array_equal(shown[:2], memm.future_values(X[:1])[0][:, 0].T)
    assert names_of(ax.get_yticklabels())[:2] == ["instance 0", "bag 0"]
    assert plot_future_features(memm, X[1], ax=ax) is ax


def test_invalid_arguments_are_refused():
    memm = FutureFeatureMEMM(order=0, max_future_features=0, max_iter=2).fit(X, Y)
    with pytest.raises(ValueError, match="the model has discovered no features"):
        plot_future_features(memm, X[0])


# Importances


@every(GROWN, CORE)
def test_bars_of_gains(name, fitted):
    model = fitted(name)
    found = gain_importance(model, per_label=True)
    for source in (model, found):
        ax = plot_importances(source)
        widths = np.sum(np.reshape([bar.get_width() for bar in ax.patches], (-1, n_bars(ax))), 0)
        side = "+" if fitted_model(model).chain.is_backward else "-"
        expected = {"symbol": 1.0, "sequence ends": found.outside.sum()}
        before = found.labels_before.sum(axis=0)
        expected |= {f"label[{side}{lag}]": gain for lag, gain in enumerate(before, 1)}
        expected = {name: gain for name, gain in expected.items() if gain}
        assert dict(zip(names_of(ax.get_yticklabels()), widths, strict=True)) == pytest.approx(
            expected
        )
        assert ax.get_title() == f"importance by gain, {model._forest.n_iter} iterations"
    assert legend_of(ax) == ["x", "y", "z"]


def n_bars(ax) -> int:
    return len(ax.get_yticks())


def test_the_most_important_feature_is_on_top(tables):
    model = TreeCRF(max_iter=3, init="zero", window=0, constant_transitions=False).fit(*tables)
    found = gain_importance(model)
    ax = plot_importances(model, max_features=3)
    gains = dict(zip(found.feature_names, model.feature_importances_, strict=True))
    gains |= {"label[-1]": found.labels_before[0], "sequence ends": found.outside.sum()}
    names = sorted(gains, key=gains.get, reverse=True)[:3]
    assert names_of(ax.get_yticklabels()) == names
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([gains[n] for n in names])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert ax.get_xlabel() == "gain, relative to the sum of all features"
    parts = gain_importance(model, per_label=True)
    ax = plot_importances(parts)
    starts = np.array([bar.get_x() for bar in ax.patches]).reshape(3, -1)
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(3, -1)
    names = names_of(ax.get_yticklabels())
    for j, name in enumerate(parts.feature_names):
        row = parts.importances.sum(axis=2)[:, j]
        np.testing.assert_allclose(widths[:, names.index(name)], row)
    np.testing.assert_allclose(widths[:, names.index("label[-1]")], parts.labels_before[:, 0])
    np.testing.assert_allclose(starts, np.cumsum(widths, axis=0) - widths)
    colors = [bar.get_facecolor()[:3] for bar in ax.patches[:: len(names)]]
    assert colors == [rgb(k) for k in range(3)]


def rgb(k) -> tuple:
    from matplotlib.colors import to_rgb

    return to_rgb(COLORS[k])


@every(COUNTED | ESTIMATED)
def test_bars_of_permutations(name, fitted, letters):
    found = permutation_importance(fitted(name), *letters, random_state=0)
    ax = plot_importances(found)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(found.importances_mean)
    (segment,) = ax.collections[0].get_segments()
    low, high = segment[:, 0]
    mean, std = found.importances_mean[0], found.importances_std[0]
    assert (low, high) == pytest.approx((mean - std, mean + std))
    assert ax.get_xlabel() == "drop of score when shuffled"


@every(GROWN)
def test_a_map_of_offsets(name, fitted):
    model = fitted(name)
    found = gain_importance(model, per_label=True)
    bags = ["bags"] * bool(found.in_bags.any())
    order = found.labels_before.shape[1]
    lags = (
        np.arange(1, order + 1)
        if fitted_model(model).chain.is_backward
        else -np.arange(1, order + 1)
    )
    offsets = np.union1d(found.offsets, lags).tolist()
    of_window = [offsets.index(offset) for offset in found.offsets]
    of_lags = [offsets.index(lag) for lag in lags]
    for ax, tables in (
        (plot_importance_map(model), {key: found[key].sum(axis=0) for key in GAINS}),
        (plot_importance_map(found, label="y"), {key: found[key][1] for key in GAINS}),
    ):
        shown = ax.images[0].get_array()
        rows = dict(zip(names_of(ax.get_yticklabels()), shown, strict=True))
        np.testing.assert_allclose(rows["symbol"][of_window], tables["importances"][0])
        if bags:
            np.testing.assert_allclose(rows["symbol"][-1], tables["in_bags"][0])
        for name, key, columns in (
            ("previous labels", "labels_before", of_lags), ("sequence ends", "outside", of_window)
        ):  # fmt: skip
            assert (name in rows) == tables[key].any()
            if name in rows:
                np.testing.assert_allclose(rows[name][columns], tables[key])
        np.testing.assert_allclose(shown.sum(), sum(table.sum() for table in tables.values()))
        names = [f"{offset:+d}" if offset else "0" for offset in offsets]
        assert names_of(ax.get_xticklabels()) == [*names, *bags]
    title = ax.get_title().replace("\n", " ")
    assert title == f"label 'y', {model._forest.n_iter} iterations"
    labels = plot_importance_map(model, feature="symbol")
    shown = labels.images[0].get_array()[:, of_window]
    np.testing.assert_allclose(shown, found.importances[:, 0])
    assert names_of(labels.get_yticklabels()) == ["x", "y", "z"]
    assert labels.get_title().startswith("feature symbol, ")


GAINS = ("importances", "in_bags", "outside", "labels_before")


def test_scales_of_a_map(tables):
    model = TreeCRF(max_iter=3, window=1, **FIXED).fit(*tables)
    table = plot_importance_map(model, scale="linear").images[0].get_array()
    rows = plot_importance_map(model, scale="row").images[0]
    np.testing.assert_allclose(rows.get_array(), table / table.max(axis=1, keepdims=True))
    log = plot_importance_map(model, scale="log").images[0]
    np.testing.assert_array_equal(np.ma.getmaskarray(log.get_array()), table == 0)
    assert log.norm.vmax == table.max() and 0 < log.norm.vmin < table.max()
    brightness = log.to_rgba(log.get_array())[..., :3].sum(axis=-1)
    order = np.argsort(table[table > 0])
    assert (np.diff(brightness[table > 0][order]) >= -1e-6).all()
    with pytest.raises(ValueError, match="scale='sqrt'; expected 'log', 'linear' or 'row'"):
        plot_importance_map(model, scale="sqrt")


def test_a_map_shows_the_most_important_features(tables):
    X, y = ([np.concatenate(part)] for part in tables)  # one sequence, longer than the window
    model = TreeCRF(max_iter=3, window=20, init="zero").fit(X, y)
    ax = plot_importance_map(model, max_features=2)
    order = np.argsort(-model.feature_importances_)[:2]
    assert names_of(ax.get_yticklabels())[:2] == [f"x{j}" for j in order]
    found = gain_importance(model).importances[order]
    np.testing.assert_allclose(ax.images[0].get_array()[:2], found)
    assert names_of(ax.get_xticklabels())[:3] == ["-20", "-18", "-16"]
    ax.figure.canvas.draw()
    assert ax.get_yticklabels()[0].get_window_extent().x0 >= 0


def test_maps_that_cannot_be_drawn(trained, letters):
    for source, chosen, message in (
        (trained, {"label": "x", "feature": "symbol"}, "both label and feature are given"),
        (trained, {"feature": "x0"}, "feature='x0'; expected one of symbol"),
        (trained, {"label": "q"}, "label='q'; expected one of"),
        (gain_importance(trained), {"label": "x"}, r"use gain_importance\(per_label=True\)"),
    ):
        with pytest.raises(ValueError, match=message):
            plot_importance_map(source, **chosen)
    shuffled = permutation_importance(trained, *letters, n_repeats=1)
    with pytest.raises(TypeError, match=r"a Bunch of importances_mean, .* expected a fitted"):
        plot_importance_map(shuffled)


# Trees


@every(GROWN, CORE)
def test_a_tree_is_drawn_whole(name, fitted):
    model = fitted(name)
    for iteration, label, k in ((0, "x", 0), (-1, "z", 2)):
        tree = FittedTrees.of(model).forest.trees[3 * (iteration % model._forest.n_iter) + k]
        ax = plot_tree(model, iteration, label, max_depth=None, decimals=4)
        texts = names_of(ax.texts)
        leaves = tree["true_child"] < 0
        weights = [np.format_float_positional(w, 1, trim="-") for w in tree["weight"][leaves]]
        expected = [f"{v:+.4f} ({w})" for v, w in zip(tree["leaf"][leaves], weights, strict=True)]
        assert sorted(text for text in texts if text[0] in "+-") == sorted(expected)
        tests = [
            FittedTrees.of(model).name_of_test(
                *(int(tree[f][i]) for f in ("column", "offset", "value"))
            )
            for i in np.flatnonzero(~leaves)
        ]
        inner = [text for text in texts if text[0] not in "+-" and text not in ("yes", "no")]
        assert sorted(inner) == sorted(tests)
        assert len(ax.lines) == len(leaves) - 1


def test_a_large_tree_ends_where_a_page_does():
    rng = np.random.default_rng(0)
    X = [rng.random((200, 3)) for _ in range(5)]
    y = [np.digitize(x.sum(axis=1), [1.2, 1.5, 1.8]) for x in X]
    model = TreeCRF(max_iter=1, l2_regularization=0.1, **FIXED).fit(X, y)
    tree = FittedTrees.of(model).forest.trees[0]
    assert np.sum(tree["true_child"] < 0) > 32
    shown, whole = (
        names_of(plot_tree(model, **depth).texts) for depth in ({}, {"max_depth": None})
    )
    assert any(text.startswith("...") for text in shown) and len(shown) < 2 * 32 + 2
    assert not any(text.startswith("...") for text in whole) and len(whole) > len(shown)


def test_the_branch_that_passes_is_above_and_solid(trained):
    ax = plot_tree(trained, 0, "x")
    tree = trained._forest.trees[0]
    root, *_ = (text for text in ax.texts)
    first = [line for line in ax.lines if line.get_ydata()[0] == root.get_position()[1]]
    by_style = {line.get_linestyle(): line for line in first}
    assert by_style["-"].get_ydata()[-1] < root.get_position()[1] < by_style["--"].get_ydata()[-1]
    total = tree["weight"][0]
    for style, side in (("-", "true_child"), ("--", "false_child")):
        share = tree["weight"][tree[side][0]] / total
        assert by_style[style].get_linewidth() == pytest.approx(0.6 + 2.4 * np.sqrt(share))


def test_texts_of_a_tree_do_not_overlap():
    """Thirty leaves in a new figure, and in small axes."""
    rng = np.random.default_rng(0)
    words = [rng.choice(list("abcdefgh"), 30) for _ in range(40)]
    labels = [rng.choice(["B-NP", "I-NP", "O"], 30) for _ in words]
    settings = {"max_leaf_nodes": 30, "l2_regularization": 1.0, **FIXED}
    model = TreeCRF(window=2, max_iter=1, **settings).fit(words, labels)
    small = plt.subplots(figsize=(5, 4))[1]
    for ax in (plot_tree(model, max_depth=None), plot_tree(model, max_depth=None, ax=small)):
        assert sum("(" in text for text in names_of(ax.texts)) == 30
        ax.figure.canvas.draw()
        nodes = [text for text in ax.texts if text.get_text() not in ("yes", "no")]
        boxes = [text.get_window_extent() for text in nodes]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        frame = ax.figure.bbox
        assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_a_tree_is_cut_where_it_gets_too_deep(trained):
    ax = plot_tree(trained, 0, "x", max_depth=1)
    assert len([text for text in names_of(ax.texts) if "leaves" in text or "(" in text]) == 2
    assert names_of(plot_tree(trained, 0, max_depth=0).texts)[0].startswith("... ")


def test_a_tree_of_one_leaf():
    model = TreeCRF(min_gain=1e9, max_iter=1, second_order=False).fit(["ab"], ["xy"])
    assert names_of(plot_tree(model).texts) == ["+0.000 (3)"]


# Rules


@every(GROWN, CORE)
def test_bars_of_rules(name, fitted, letters):
    model = fitted(name)
    rules = strongest_rules(model, *letters, n_rules=7)
    ax = plot_rules(rules)
    values = [rule.value for rule in rules]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(values)
    written = [text.replace("\n", " ") for text in names_of(ax.get_yticklabels())]
    labels = {rule.label for rule in rules}
    for text, rule in zip(written, rules, strict=True):
        condition, _, label = text.partition(" → ")
        assert rule.condition.startswith(condition.removesuffix(" more").rsplit(" and ", 1)[0])
        assert label == (rule.label if len(labels) > 1 else "")
    assert names_of(ax.texts) == [f"{rule.share:.1%}" for rule in rules]
    assert legend_of(ax) == sorted(labels)
    colors = {rule.label: bar.get_facecolor() for rule, bar in zip(rules, ax.patches, strict=True)}
    assert len(set(colors.values())) == len(colors)
    by_model = plot_rules(model, n_rules=7)
    assert [bar.get_width() for bar in by_model.patches] == pytest.approx(values)
    assert not by_model.texts


def test_bars_of_rules_do_not_overlap(fitted):
    ax = plot_rules(fitted("CRF of order 2"), n_rules=15)
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    assert len(boxes) == 15
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert min(box.x0 for box in boxes) >= 0
    with pytest.raises(ValueError, match="there are no rules to show"):
        plot_rules([])


def test_conditions_of_rules_are_short_where_they_differ():
    parts = {"label": "x", "value": 1.0, "labels_before": ()}
    low = Rule(condition="a > 0.123456", short_condition="a > 0.123", **parts)
    high = Rule(condition="a > 0.123465", short_condition="a > 0.123", **parts)
    other = Rule(condition="b is '0.123456'", **parts)
    assert names_of(plot_rules([low, other]).get_yticklabels()) == ["a > 0.123", "b is '0.123456'"]
    # Rules of two models.
    exact = [low.condition, high.condition]
    assert names_of(plot_rules([low, high]).get_yticklabels()) == exact


# Scores


@every(FAMILY, CORE)
def test_a_table_of_transitions(name, fitted, letters):
    model, words = fitted(name), letters[0]
    found = transition_scores(model, words)
    order = fitted_model(model).chain.order
    table = found.scores.mean(axis=tuple(range(order - 1))) if order else found.scores[None]
    for ax in (plot_transition_scores(model, words), plot_transition_scores(found)):
        shown = ax.images[0].get_array()
        np.testing.assert_allclose(shown[-len(table) :], table)
        assert names_of(ax.get_xticklabels()) == ["x", "y", "z"]
        if order:
            np.testing.assert_allclose(shown[0], found.start)
            first, side = ("end", "after") if found.backward else ("start", "before")
            assert names_of(ax.get_yticklabels()) == [first, "x", "y", "z"]
            assert ax.get_ylabel() == f"label {side} it"
        else:
            assert names_of(ax.get_yticklabels()) == ["any"]
        written = [f"{value:.1f}" for value in shown.ravel()]
        assert names_of(ax.texts) == written


def test_impossible_transitions_are_hatched():
    words = [["a", "b", "c", "a"], ["c", "a", "b", "c"]] * 3
    tags = [["B-X", "I-X", "O", "B-X"], ["O", "B-X", "I-X", "O"]] * 3
    for order in (1, 2):
        ax = plot_transition_scores(TreeCRF(order=order, transitions="bio").fit(words, tags), words)
        places = {(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in ax.patches}
        assert places == {(1, 0), (1, 3)}  # I-X at the start and after O
        assert all(patch.get_hatch() for patch in ax.patches)
        assert ax.images[0].get_array().mask.sum() == 2


def test_numbers_of_something_else_are_refused(trained):
    found = gain_importance(trained)
    for plot, name in (
        (plot_transition_scores, "transition_scores"), (plot_likelihood, "likelihood_curve")
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"or the result of treecrf.inspection.{name}"):
            plot(found)
    with pytest.raises(TypeError, match=r"or the result of treecrf.inspection.gain_importance"):
        plot_importances(likelihood_curve(trained))


# Likelihoods


@every(GROWN, CORE)
def test_curves_of_likelihoods(name, fitted, letters):
    model = fitted(name)
    (line,) = plot_likelihood(model).lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(model.n_iter_ + 1))
    np.testing.assert_array_equal(line.get_ydata(), model.train_score_)
    ax = plot_likelihood(model, letters[0][:5], letters[1][:5])
    curve = likelihood_curve(model, letters[0][:5], letters[1][:5])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), curve.given)
    assert legend_of(ax) == ["training", "further data"]
    assert len(plot_likelihood(curve).lines) == 2


def test_the_best_iteration_is_marked(letters):
    words, y = letters
    model = TreeMEMM(max_iter=6, l2_regularization=0.0, window=2).fit(words, y, words[:4], y[:4])
    ax = plot_likelihood(model)
    best = int(model.validation_score_.argmax())
    assert legend_of(ax) == ["training", "validation", f"best: {best}"]
    (x,), (value,) = ax.lines[2].get_data()
    assert (x, value) == (best, model.validation_score_[best])


# Sequences


def strips_of(ax, n: int) -> dict[float, list]:
    """Colors of the strips at each position, by their lower end."""
    found: dict[float, list] = {}
    for strip in ax.collections:
        for path in strip.get_paths():
            box = path.get_extents()
            if box.y0 > 1:
                row = found.setdefault(round(box.y0, 2), [None] * n)
                for t in range(round(box.x0 + 0.5), round(box.x1 + 0.5)):
                    row[t] = tuple(strip.get_facecolor()[0][:3])
    return found


@every(FAMILY, CORE)
def test_a_sequence_with_its_labels(name, fitted, letters):
    model, word, labels = fitted(name), letters[0][0], letters[1][0]
    ax = plot_sequence(model, word, labels)
    predicted = model.predict([word])[0]
    strips, n = strips_of(ax, len(word)), len(word)
    assert sorted(strips) == [1.05, 1.19]
    assert strips[1.05] == [rgb("xyz".index(label)) for label in predicted]
    assert strips[1.19] == [rgb("xyz".index(label)) for label in labels]
    (wrong,) = ax.lines
    np.testing.assert_array_equal(wrong.get_xdata(), np.flatnonzero(predicted != [*labels]))
    assert names_of(ax.get_yticklabels()) == ["0", "0.5", "1", "predicted", "true", "wrong"]
    top = ax.child_axes[0]
    assert names_of(top.get_xticklabels()) == list(word)
    assert top.get_xticks().tolist() == list(range(n))


def test_areas_are_the_marginals(trained, letters):
    word = letters[0][1]
    proba = trained.predict_proba([word])[0]
    ax = plot_sequence(trained, word)
    bottoms = np.cumsum(proba, axis=1)
    for k, area in enumerate(ax.collections[:3]):
        (path,) = area.get_paths()
        for t in range(len(word)):
            inside = np.array([[t, bottoms[t, k] - proba[t, k] / 2]])
            assert path.contains_points(inside)[0] == (proba[t, k] > 1e-9)
            assert not path.contains_points([[t, bottoms[t, k] + 1e-6]])[0]
    assert legend_of(ax) == ["x", "y", "z"]
    assert names_of(ax.get_yticklabels()) == ["0", "0.5", "1", "predicted"]


@pytest.mark.parametrize("n_labels", [9, 40])
def test_labels_have_distinct_styles(n_labels):
    assert len({tuple(style_of(k).values()) for k in range(64)}) == 64
    rng = np.random.default_rng(0)
    y = [np.repeat(np.arange(n_labels), 3) for _ in range(4)]
    words = [rng.integers(0, 5, 3 * n_labels) for _ in y]
    ax = plot_sequence(HMMClassifier().fit(words, y), words[0], y[0], max_labels=n_labels)
    assert legend_of(ax) == [str(k) for k in range(n_labels)]
    ax.figure.canvas.draw()
    box, frame = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert box.y0 >= -1 and box.x1 <= frame.x1 + 1


def test_improbable_labels_are_others_if_they_can_be_seen():
    y = [["a"] * 400 + ["b"] + ["c"]] * 3
    words = [["s"] * 400 + ["t", "t"]] * 3
    model = HMMClassifier(order=0, laplace=1e-9).fit(words, y)
    assert legend_of(plot_sequence(model, ["s", "s"])) == ["a"]
    # Two labels that are both improbable are together more than that.
    y = [["a"] * 97 + ["b", "c"]] * 3
    model = HMMClassifier(order=0, laplace=1e-9).fit([["s"] * 99] * 3, y)
    assert legend_of(plot_sequence(model, ["s", "s"])) == ["a", "others"]


def test_symbols_are_words_numbers_or_given(letters, tables):
    words = [["the", "cat", "sat"]] * 3
    ax = plot_sequence(TreeCRF(max_iter=1).fit(words, ["xyx"] * 3), [None, "hippopotamuses", "sat"])
    assert names_of(ax.child_axes[0].get_xticklabels()) == ["", "hippopotamuses", "sat"]
    assert ax.child_axes[0].get_xticklabels()[1].get_rotation() == 90
    ax = plot_sequence(TreeCRF(max_iter=1).fit([[3, 4]] * 3, ["xy"] * 3), [4, 5])
    assert names_of(ax.child_axes[0].get_xticklabels()) == ["4", "5"]
    model = TreeCRF(max_iter=1).fit(*tables)
    assert not plot_sequence(model, tables[0][0]).child_axes
    names = [f"w{t}" for t in range(len(tables[0][0]))]
    ax = plot_sequence(model, tables[0][0], symbols=names)
    assert names_of(ax.child_axes[0].get_xticklabels()) == names
    with pytest.raises(ValueError, match=f"symbols has 1 items; expected {len(names)}"):
        plot_sequence(model, tables[0][0], symbols=["w"])


def test_long_sequences_have_no_symbols(trained):
    ax = plot_sequence(trained, "abcd" * 250)
    assert not ax.child_axes
    assert ax.figure.get_size_inches()[0] == 9


def test_labels_that_do_not_fit(trained):
    with pytest.raises(ValueError, match="sequence 0: 2 labels for 3 positions"):
        plot_sequence(trained, "abc", "xy")
    with pytest.raises(ValueError, match="label 'q' was not seen in training"):
        plot_sequence(trained, "abc", "xyq")


# Times, groups, and many labels


@pytest.fixture(scope="module")
def days():
    """A long table of two days with times, their labels, and a model."""
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2024-05-01", periods=48, freq="h", tz="Europe/Berlin", name="hour")
    load = np.random.default_rng(0).integers(10, size=48) / 10
    frame = pandas.DataFrame({"load": load, "day": times.day}, index=times)
    frame["state"] = np.where(load > 0.45, "on", "off")
    return frame, TreeCRF(max_iter=5, **FIXED).fit(frame, "state", groups="day")


def centers_of_strip(ax) -> np.ndarray:
    """Middle of the predicted labels, where each position is drawn."""
    edges = [path.get_extents() for strip in ax.collections[2:4] for path in strip.get_paths()]
    return np.array(sorted((box.x0, box.x1) for box in edges if box.y0 == pytest.approx(1.05)))


def test_a_group_of_a_long_table_has_its_times(days):
    from matplotlib.dates import date2num

    frame, model = days
    ax = plot_sequence(model, frame, "state", group=2)
    day = frame[frame.day == 2].drop(columns="day")
    assert ax.get_xlabel() == "hour"
    assert ax.get_xlim() == pytest.approx(date2num(day.index[[0, -1]]) + np.array([-1, 1]) / 48)
    assert ax.get_title() == "day 2: 0 of 24 predicted labels wrong"
    alone = plot_sequence(model, day, "state")
    assert alone.get_title() == "0 of 24 predicted labels wrong"
    for one, other in zip(ax.collections, alone.collections, strict=True):
        for a, b in zip(one.get_paths(), other.get_paths(), strict=True):
            np.testing.assert_array_equal(a.vertices, b.vertices)
    ax.figure.canvas.draw()
    assert [text for text in names_of(ax.get_xticklabels()) if ":" in text]
    states, groups, table = frame.pop("state"), frame.pop("day"), frame
    frame["day"], frame["state"] = groups, states
    by_text = plot_sequence(model, table[["load"]], states, groups=groups.tolist(), group="2")
    assert by_text.get_title() == "group 2: 0 of 24 predicted labels wrong"


def test_times_are_a_column_or_numbers(days):
    frame, model = days
    day = frame[frame.day == 1][["load"]]
    table = day.reset_index()
    ax = plot_sequence(model, table, times="hour")
    assert (ax.get_xlabel(), ax.get_title()) == ("hour", "labels predicted by TreeCRF")
    assert ax.get_xlim() == plot_sequence(model, day).get_xlim()
    feature = table[["load"]].assign(load=np.arange(24.0))
    assert plot_sequence(model, feature, times="load").get_xlim() == (-0.5, 23.5)
    ax = plot_sequence(model, day, times=np.arange(24) / 4)
    assert ax.get_xlabel() == "time"
    assert ax.get_xlim() == (-0.125, 5.875)
    for times in (
        table["hour"].to_numpy("datetime64[ns]"),
        table["hour"].dt.tz_localize(None).to_list(),
    ):
        assert len(plot_sequence(model, day, times=times).collections)


def test_a_gap_of_times_stays_empty(days):
    frame, model = days
    day = frame[frame.day == 1][["load"]].iloc[[0, 1, 2, 20, 21]]
    ax = plot_sequence(model, day, times=[0, 1, 2, 20, 21])
    spans = centers_of_strip(ax)
    assert spans[:, 0].min() == -0.5 and spans[:, 1].max() == 21.5
    assert not any(low < 11 < high for low, high in spans)
    for area in ax.collections[:2]:
        assert not area.get_paths()[0].contains_points([[11, 0.5], [11, 0.01]]).any()


def test_times_that_do_not_increase_are_positions(days):
    frame, model = days
    day = frame[frame.day == 1][["load"]]
    with pytest.warns(UserWarning, match="the time in the index of X goes back"):
        assert plot_sequence(model, day[::-1]).get_xlabel() == "position"
    for times, error in (
        ([*range(23), 5], "times: position 23 is not later than position 22"),
        ([1, 2], "x has 24 positions, times has 2"),
        ([None, *range(23)], "times: the time of position 0 is missing"),
        ("at", "times='at' is not a column of x; expected one of 'load'"),
    ):
        with pytest.raises(ValueError, match=error):
            plot_sequence(model, day, times=times)
    with pytest.raises(TypeError, match="times holds 'a' of type str; expected dates"):
        plot_sequence(model, day, times=["a"] * 24)


def test_groups_that_do_not_exist(days):
    frame, model = days
    with pytest.raises(ValueError, match="x holds 2 sequences; choose one of them, group= one of"):
        plot_sequence(model, frame, "state")
    with pytest.raises(ValueError, match="group=7 is not in column 'day'; expected one of 1, 2"):
        plot_sequence(model, frame, "state", group=7)
    with pytest.raises(ValueError, match="group=1 without groups"):
        plot_sequence(model, frame[["load"]], group=1)
    with pytest.raises(ValueError, match="x has 48 positions, y has 3"):
        plot_sequence(model, frame.drop(columns="state"), ["on"] * 3, group=1)


def test_the_most_probable_labels_have_colors():
    y = [np.repeat(np.arange(20), 3)] * 4
    model = HMMClassifier(laplace=1e-3).fit(y, y)
    ax = plot_sequence(model, [7] * 5 + [9] * 4 + [11] * 3, max_labels=2)
    assert legend_of(ax) == ["7", "9", "others"]
    colors = {strip.get_facecolor()[0][:3].tobytes() for strip in ax.collections[:2]}
    assert colors == {np.array(rgb(k)).tobytes() for k in (0, 1)}
    assert len(legend_of(plot_sequence(model, y[0]))) == 9
    for wrong in (0, 2.5, None):
        with pytest.raises(ValueError, match=r"max_labels=.*; expected a positive integer"):
            plot_sequence(model, [7], max_labels=wrong)


def test_long_names_are_cut():
    words = [["w" * 60, "of"]] * 3
    model = TreeCRF(max_iter=1, **FIXED).fit(words, [["l" * 60, "m"]] * 3)
    ax = plot_sequence(model, words[0])
    assert legend_of(ax) == ["l" * 39 + "…", "m"]
    assert names_of(ax.child_axes[0].get_xticklabels()) == ["w" * 15 + "…", "of"]
    ax.figure.canvas.draw()
    assert ax.get_window_extent().width > 0.3 * ax.figure.bbox.width


# What all share


def test_names_are_shown_literally():
    """Dollar signs are letters here, and an underscore hides nothing from a legend."""
    words = [["$", "a$", "_"]] * 5
    tags = [["_", "PRP$", "WP$"]] * 5
    model = TreeCRF(max_iter=2, l2_regularization=0.1).fit(words, tags)
    assert legend_of(plot_sequence(model, *words[:1], tags[0])) == ["PRP\\$", "WP\\$", " _"]
    for ax in (
        plot_rules(model),
        plot_tree(model, 0, "WP$"),
        plot_transition_scores(model, words),
        plot_explanation(model, words[0], 0, label="PRP$"),
        plot_partial_dependence(model, words, 0),
        plot_importances(gain_importance(model, per_label=True)),
    ):
        ax.figure.canvas.draw()
        every_text = [*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts]
        assert not any(text._preprocess_math(text.get_text())[1] is True for text in every_text)


PICTURES = {
    "importances": lambda model, ax: plot_importances(model, ax=ax),
    "importance map": lambda model, ax: plot_importance_map(model, ax=ax),
    "tree": lambda model, ax: plot_tree(model, ax=ax),
    "rules": lambda model, ax: plot_rules(model, ax=ax),
    "transition scores": lambda model, ax: plot_transition_scores(model, ["ab"], ax=ax),
    "likelihood": lambda model, ax: plot_likelihood(model, ax=ax),
    "sequence": lambda model, ax: plot_sequence(model, "ab", ax=ax),
    "explanation": lambda model, ax: plot_explanation(model, "ab", 1, ax=ax),
    "partial dependence": lambda model, ax: plot_partial_dependence(model, ["ab"], 0, ax=ax),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_axes_are_taken_and_returned(picture, trained):
    draw = PICTURES[picture]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
    assert draw(trained, right) is right
    assert right.has_data() and not left.has_data()
    assert draw(trained, None).figure is not figure
    for wrong, name in ((figure, "Figure"), ("axes", "str"), (np.array([left]), "ndarray")):
        with pytest.raises(TypeError, match=f"ax is of type {name}; expected matplotlib axes"):
            draw(trained, wrong)


def luminance(color):
    """Relative luminance, as in the guidelines for accessible pages."""
    parts = np.array(to_rgb(color))
    parts = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return parts @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("style", "picture"),
    pairs(
        product(["dark_background", "default", "Solarize_Light2"], [*PICTURES, "wrong labels"]),
        lambda style, picture: style == "dark_background" or picture == "wrong labels",
    ),
)
def test_marks_and_texts_stand_out_in_every_style(picture, style, trained):
    with plt.style.context(style):
        y = [trained.classes_[0]] * 8
        if picture == "wrong labels":
            ax = plot_sequence(trained, "abcdabcd", y)
            assert any(line.get_marker() == "v" and len(line.get_xdata()) for line in ax.lines)
        else:
            ax = PICTURES[picture](trained, None)
        face, ground = ax.get_facecolor(), ax.figure.get_facecolor()
        for text in [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()]:
            assert contrast(text.get_color(), ground) > 3
        # Numbers in cells have a color that fits each cell.
        for text in ax.texts if not ax.images else ():
            box = text.get_bbox_patch()
            behind = face if box is None or box.get_facecolor()[3] == 0 else box.get_facecolor()
            assert contrast(text.get_color(), behind) > 3
        colors = {to_rgb(color) for color in COLORS}
        for line in ax.lines:
            color = to_rgb(line.get_color())
            assert color in colors or contrast(color, face) > 3


def gray(color):
    """What a printer makes of a color, from 0 to 1."""
    return np.array(to_rgb(color)) @ [0.299, 0.587, 0.114]


def differ_in_gray(one, other, keys):
    """Whether two styles have another pattern, or grays that can be told apart side by side."""
    color = "facecolor" if "facecolor" in one else "color"
    return any(one[key] != other[key] for key in keys) or (
        abs(gray(one[color]) - gray(other[color])) > 0.12
    )


def test_labels_differ_in_gray():
    areas = [OTHER_STYLE, *map(style_of, range(16))]
    lines = [line_style_of(k) for k in range(8)]
    for styles, keys in ((areas, ("hatch",)), (lines, ("linestyle",))):
        for i, style in enumerate(styles):
            assert all(differ_in_gray(style, other, keys) for other in styles[:i])
    for style in areas[1:]:
        # Areas stand out from white and from black, and hatches from their area.
        assert min(contrast(style["facecolor"], ground) for ground in ("white", "black")) > 1.25
        if style["hatch"]:
            assert contrast(style["facecolor"], style["edgecolor"]) > 1.8
    for k in range(32):
        color = line_style_of(k)["color"]
        assert min(contrast(color, ground) for ground in ("white", "black")) > 2
    assert len({tuple(line_style_of(k).values()) for k in range(32)}) == 32


def test_contributions_that_raise_and_lower_differ_in_gray():
    names = np.array(["x0", "x1"], dtype=object)
    parts = {"base_values": np.zeros(1), "feature_names": names, "descriptions": names,
             "labels": np.array(["a"]), "label": "a", "position": 0}  # fmt: skip
    up, down = plot_explanation(Explanation(values=np.array([[2.0, -1.0]]), **parts)).patches
    assert gray(down.get_facecolor()[:3]) - gray(up.get_facecolor()[:3]) > 0.2


def test_colors_of_tables_are_ordered_in_gray(trained, letters):
    for ax in (
        plot_transition_scores(trained, letters[0]),
        plot_importance_map(trained),
        plot_importance_map(trained, scale="linear"),
    ):
        shades = [gray(color[:3]) for color in ax.images[0].cmap(np.linspace(0, 1, 50))]
        assert (np.diff(shades) > 0).all()


def test_cells_without_gain_are_hatched(tables):
    model = TreeCRF(max_iter=1, window=1, **FIXED).fit(*tables)
    ax = plot_importance_map(model)
    empty = np.argwhere(np.ma.getmaskarray(ax.images[0].get_array()))
    assert len(empty)
    places = {(patch.get_y() + 0.5, patch.get_x() + 0.5) for patch in ax.patches}
    assert places == set(map(tuple, empty.astype(float).tolist()))
    assert all(patch.get_hatch() for patch in ax.patches)


HOSTILE = ["$x$", "_a", "100%", "", "n" * 200, "two\nlines", " ", "\\frac", "{}"]
LABELS = HOSTILE + [f"label number {k}" for k in range(16)]


@pytest.fixture(scope="module")
def hostile():
    """A model whose features, categories and labels have names that are hard to draw."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        codes = rng.permutation(len(LABELS))
        values = {name: codes % (k + 2) + rng.random(25) for k, name in enumerate(HOSTILE[:3])}
        values["n" * 200] = [LABELS[code] for code in codes]
        X.append(pandas.DataFrame(values | {"two\nlines": rng.random(25) < 0.5}))
        y.append([LABELS[code] for code in codes])
    trees = TreeCRF(max_iter=2, init="zero", multi_strategy="one_output_per_tree").fit(X, y)
    return trees, LinearCRF().fit(X, y), X[:2], y[:2]


OF_HOSTILE = {
    "importances": lambda m, linear, X, y: plot_importances(gain_importance(m, per_label=True)),
    "permutation": lambda m, linear, X, y: plot_importances(
        permutation_importance(m, X, y, n_repeats=1)
    ),
    "map": lambda m, linear, X, y: plot_importance_map(m),
    "map of a feature": lambda m, linear, X, y: plot_importance_map(m, feature="$x$"),
    "rules": lambda m, linear, X, y: plot_rules(strongest_rules(m, X)),
    "weights": lambda m, linear, X, y: plot_weights(linear),
    "explanation": lambda m, linear, X, y: plot_explanation(m, X[0], 3, label="n" * 200),
    "dependence": lambda m, linear, X, y: plot_partial_dependence(m, X, "n" * 200, max_labels=25),
    "transitions": lambda m, linear, X, y: plot_transition_scores(m, X),
    "sequence": lambda m, linear, X, y: plot_sequence(m, X[0], y[0], max_labels=25),
    "tree": lambda m, linear, X, y: plot_tree(m, 0, ""),
}


@pytest.mark.parametrize("picture", OF_HOSTILE)
def test_names_that_are_hard_to_draw(picture, hostile):
    """All texts are within the figure, visible, and apart from each other."""
    ax = OF_HOSTILE[picture](*hostile)
    ax.figure.canvas.draw()
    frame = ax.figure.bbox.padded(2)
    legend = ax.get_legend()
    rows = ax.get_yticklabels() if picture != "tree" else []
    columns = ax.get_xticklabels() if picture in ("transitions", "dependence") else []
    entries = legend.get_texts() if legend else []
    for texts in (rows, columns, entries):
        assert all(text.get_text().strip() for text in texts)
        boxes = [text.get_window_extent() for text in texts]
        for box in boxes:
            assert frame.x0 <= box.x0 and box.x1 <= frame.x1
            assert frame.y0 <= box.y0 and box.y1 <= frame.y1
        # Lines of 25 texts may touch.
        cores = [box.expanded(0.5, 0.5) for box in boxes]
        assert not any(a.overlaps(b) for i, a in enumerate(cores) for b in cores[:i])
    assert ax.get_window_extent().width > 0.1 * ax.figure.bbox.width
    title = ax.title.get_window_extent()
    assert title.height < 0.4 * ax.figure.bbox.height


def test_labels_of_numpy_are_written_as_those_of_python(trained, letters):
    label, other = trained.classes_[:2]
    for ax in (
        plot_explanation(trained, letters[0][0], 1, label=label, against=other),
        plot_tree(trained, 0, label),
        plot_importance_map(trained, label=label),
    ):
        assert "np." not in ax.get_title() and repr(str(label)) in ax.get_title()


def test_percentages_of_rules_are_inside_the_axes():
    parts = {"labels_before": (), "share": 0.478}
    rules = [
        Rule(label=label, value=value, condition=f"a > {value}", **parts)
        for label, value in (("x", 0.4), ("y", -0.4), ("x", 0.1))
    ]
    ax = plot_rules(rules)
    ax.figure.canvas.draw()
    axes = ax.get_window_extent()
    for text in ax.texts:
        box = text.get_window_extent()
        assert axes.x0 <= box.x0 and box.x1 <= axes.x1


def test_contributions_below_one_percent_share_a_bar():
    names = np.array([f"x{k} = 1" for k in range(6)], dtype=object)
    parts = {"base_values": np.zeros(2), "feature_names": names, "descriptions": names,
             "labels": np.array(["a", "b"]), "label": "a", "position": 0}  # fmt: skip
    values = np.array([[2.0, -1.0, 0.02, 0.01, -0.01, 0.0]] * 2)
    ax = plot_explanation(Explanation(values=values, **parts))
    assert names_of(ax.get_yticklabels()) == ["base value", "x0 = 1", "x1 = 1", "3 others", "score"]
    # One alone would take no less room as a bar of others.
    ax = plot_explanation(Explanation(values=values[:, :1] * [1, 0.5, 0.001, 0, 0, 0], **parts))
    assert "x2 = 1" in names_of(ax.get_yticklabels())
    # Three digits of the largest sum, however small.
    ax = plot_explanation(Explanation(values=values * 1e-4, **parts))
    assert "+0.000200" in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("picture", PICTURES)
def test_models_are_fitted_before_they_are_drawn(picture):
    with pytest.raises(NotFittedError):
        PICTURES[picture](TreeCRF(), None)
    with pytest.raises(TypeError, match="model is of type str; expected a fitted classifier"):
        PICTURES[picture]("crf", None)
    assert not plt.get_fignums()


# Linear starts


@pytest.fixture(scope="module")
def started(letters):
    """A model of trees that are added to a linear model, and the same without trees."""
    settings = {"init": "linear", "window": 1, "max_iter": 3, **FIXED}
    model = TreeCRF(**settings).fit(*letters)
    return {"trees": model, "no trees": model.truncated(0)}


@pytest.mark.parametrize("name", ["trees", "no trees"])
def test_what_leaves_out_the_linear_start_warns(name, started):
    model = started[name]
    for draw in (plot_importances, plot_importance_map, plot_rules):
        with pytest.warns(UserWarning, match=r"a linear model, init_, and .* without it") as found:
            if draw is plot_rules and name == "no trees":
                with pytest.raises(ValueError, match="there are no rules to show"):
                    plot_rules(model)
                continue
            ax = draw(model)
        assert len(found) == 1
        assert ax.get_title().replace("\n", " ").endswith("without the linear start")
    for scale in ("log", "row"):
        with pytest.warns(UserWarning, match="gains describe the trees without it"):
            plot_importance_map(model, scale=scale)


def test_a_model_without_trees_has_no_tree(started):
    with pytest.raises(ValueError, match=r"the model has no trees.*weights of a linear start"):
        plot_tree(started["no trees"])
    with pytest.raises(TypeError, match=r"added to a linear model: pass model\.init_"):
        plot_weights(started["trees"])


@pytest.mark.parametrize("picture", PICTURES)
def test_the_missing_library_is_named(picture, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install \"treecrf\[plot\]\""):
        PICTURES[picture](trained, None)


# Explanations


def bars_of(ax) -> list[tuple[float, float]]:
    """Start and end of each bar."""
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]


@pytest.mark.parametrize("label", [None, "x"])
def test_bars_lead_from_the_base_value_to_the_score(label, trained, letters):
    x = letters[0][0]
    found = explain(trained, x, 2)
    k = found.labels.tolist().index(label or found.label)
    ax = plot_explanation(trained, x, 2, label=label)
    bars = bars_of(ax)
    assert bars[0][0] == pytest.approx(found.base_values[k])
    assert bars[-1][1] == pytest.approx(found.scores[k])
    assert [end for _, end in bars[:-1]] == pytest.approx([start for start, _ in bars[1:]])
    strongest = found.strongest(label)
    values = np.array([value for _, value in strongest])
    names = [name for name, _ in strongest]
    # Contributions below 1 % share a bar, unless there is only one.
    n_strong = np.count_nonzero(np.abs(values) >= 0.01 * np.abs(values).sum())
    if len(values) > n_strong + 1:
        names[n_strong:] = [f"{len(values) - n_strong} others"]
        values = np.append(values[:n_strong], values[n_strong:].sum())
    assert [end - start for start, end in bars] == pytest.approx(values)
    assert names_of(ax.get_yticklabels()) == ["base value", *names, "score"]
    assert ax.get_title() == f"score of {label or found.label!r} at position 2"
    numbers = [text.get_text() for text in ax.texts]
    assert float(numbers[0]) == pytest.approx(found.base_values[k], rel=0.5, abs=1e-6)
    assert float(numbers[-1]) == pytest.approx(found.scores[k], rel=0.01)
    low, high = ax.get_xlim()
    assert all(low < edge < high for bar in bars for edge in bar)


def test_explained_numbers_have_three_digits():
    names = np.array(["x0[-1]", "x0[0]", "x1", "x2", "x2[0] is missing", "x3"], dtype=object)
    values = [" = 0.016492", " = 1234.5", " = '0.123456'", " = 20180130", "", " = -1.6492e-08"]
    found = Explanation(
        base_values=np.zeros(1), values=np.arange(6.0, 0, -1)[None], feature_names=names,
        descriptions=names + np.array(values, dtype=object), labels=np.array(["a"]), label="a",
        position=0,
    )  # fmt: skip
    assert names_of(plot_explanation(found).get_yticklabels())[1:-1] == [
        "x0[-1] = 0.0165", "x0[0] = 1234", "x1 = '0.123456'", "x2 = 20180130", "x2[0] is missing",
        "x3 = -1.65e-08",
    ]  # fmt: skip


def test_the_difference_of_two_labels(trained, letters):
    found = explain(trained, letters[0][0], 2)
    ax = plot_explanation(found, label="x", against="z")
    bars = bars_of(ax)
    assert bars[0][0] == pytest.approx(found.base_values[0] - found.base_values[2])
    assert bars[-1][1] == pytest.approx(found.scores[0] - found.scores[2])
    assert ax.get_title() == "score of 'x' minus 'z' at position 2"
    with pytest.raises(ValueError, match="against='x' is the label itself"):
        plot_explanation(found, label="x", against="x")


def test_weak_contributions_share_a_bar(trained, letters):
    found = explain(trained, letters[0][0], 2)
    n = np.count_nonzero(found.values[found.labels.tolist().index(found.label)])
    ax = plot_explanation(found, max_features=1)
    assert names_of(ax.get_yticklabels())[2:] == [f"{n - 1} others", "score"]
    assert len(ax.patches) == 2


def test_a_score_without_contributions():
    model = TreeCRF(min_gain=1e9, max_iter=2).fit(["ab"], ["xy"])
    ax = plot_explanation(model, "ab", 0, ["x", "y"])
    assert names_of(ax.get_yticklabels()) == ["base value", "score"]
    assert not ax.patches


def test_explanations_need_a_sequence_and_a_position(trained):
    for arguments in ((), ("ab",)):
        with pytest.raises(ValueError, match="x or position is missing; pass a sequence and"):
            plot_explanation(trained, *arguments)


# Partial dependence


def test_bars_are_mean_probabilities(trained, letters):
    found = partial_dependence(trained, letters[0], "symbol", -1)
    ax = plot_partial_dependence(trained, letters[0], "symbol", -1, labels=["z", "x"])
    assert names_of(ax.get_xticklabels()) == list("abcd")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("symbol[-1]", "mean probability")
    assert legend_of(ax) == ["z", "x"]
    for bars, k in zip(ax.containers, (2, 0), strict=True):
        np.testing.assert_allclose([bar.get_height() for bar in bars], found.average[:, k])
        assert bars[0].get_facecolor()[:3] == to_rgb(COLORS[k])
    first, second = ax.containers
    np.testing.assert_allclose([bar.get_y() for bar in second], [bar.get_height() for bar in first])
    assert [bar.get_x() for bar in second] == [bar.get_x() for bar in first]


def test_bars_of_scores_stand_side_by_side(trained, letters):
    found = partial_dependence(trained, letters[0], "symbol", response="score")
    ax = plot_partial_dependence(found)
    assert len(ax.containers) == len(found.labels)
    for bars, average in zip(ax.containers, found.average.T, strict=True):
        np.testing.assert_allclose([bar.get_height() for bar in bars], average)
    edges = [(bars[0].get_x(), bars[0].get_x() + bars[0].get_width()) for bars in ax.containers]
    for (_, end), (start, _) in pairwise(edges):
        assert end == pytest.approx(start)


def test_lines_of_numbers(tables):
    model = TreeCRF(max_iter=3).fit(*tables)
    found = partial_dependence(model, tables[0], 1, values=[3, 0, 1], response="score")
    ax = plot_partial_dependence(found)
    for line, average in zip(ax.lines, found.average.T, strict=True):
        assert line.get_xdata().tolist() == [0, 1, 3]
        assert line.get_ydata().tolist() == average[[1, 2, 0]].tolist()
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", ":"]
    assert ax.get_ylabel() == "mean score"


def drawn_at(line, places):
    """Heights of a line at some places, as matplotlib draws it."""
    x, y = line.get_data()
    if line.get_drawstyle() == "steps-mid":
        middles = (x[1:] + x[:-1]) / 2
        return np.asarray(y)[np.searchsorted(middles, places)]
    return np.interp(places, x, y)


@pytest.mark.parametrize("init", ["zero", "linear"])
@pytest.mark.parametrize("offset", [0, None])
def test_lines_of_numbers_jump_where_trees_do(init, offset):
    rng = np.random.default_rng(0)
    X = [rng.normal(42, 5, (60, 2)) for _ in range(20)]
    y = [(np.sin(x[:, 0]) + rng.normal(0, 0.3, 60) > 0).astype(int) for x in X]
    model = TreeCRF(window=1, max_iter=20, init=init, early_stopping=False).fit(X, y)
    ax = plot_partial_dependence(model, X[:5], 0, offset)
    (low, high), lines = ax.lines[0].get_xdata()[[0, -1]], ax.lines
    assert len(lines[0].get_xdata()) > 100
    dense = np.linspace(low, high, 400)
    exact = partial_dependence(model, X[:5], 0, offset, values=dense).average
    for line, average in zip(lines, exact.T, strict=True):
        tolerance = 1e-12 if init == "zero" else 0.005
        np.testing.assert_allclose(drawn_at(line, dense), average, atol=tolerance)


def test_values_that_miss_steps_are_marked():
    rng = np.random.default_rng(0)
    X = [rng.random((30, 1)) for _ in range(20)]
    y = [(np.sin(20 * x[:, 0]) > 0).astype(int) for x in X]
    model = TreeCRF(max_iter=20, init="zero").fit(X, y)
    found = partial_dependence(model, X, 0, n_values=8)
    line = plot_partial_dependence(found).lines[0]
    assert (line.get_drawstyle(), line.get_marker()) == ("steps-mid", "o")
    assert line.get_ydata().tolist() == found.average[:, 0].tolist()
    line = plot_partial_dependence(model, X, 0).lines[0]
    assert (line.get_drawstyle(), line.get_marker()) == ("default", "None")


def test_many_labels_have_different_bars():
    words = [[f"w{i}" for i in range(20)]]
    model = TreeCRF(max_iter=1).fit(words, [[f"t{i:02}" for i in range(20)]])
    ax = plot_partial_dependence(model, words, 0, values=["w3", "w4"], max_labels=20)
    styles = {(bars[0].get_facecolor(), bars[0].get_hatch()) for bars in ax.containers}
    assert len(styles) == 20
    found = partial_dependence(model, words, 0, values=["w3", "w4"])
    ax = plot_partial_dependence(found, max_labels=2)
    changes = np.ptp(found.average, axis=0)
    best = np.sort(np.argsort(-changes, kind="stable")[:2])
    assert legend_of(ax) == found.labels[best].tolist()
    assert len(plot_partial_dependence(found).containers) == 8


@pytest.mark.parametrize("n", [5, 20, 30])
def test_names_below_bars_do_not_overlap(n):
    tags = [[f"N{i:02}" for i in range(n)]]
    model = TreeCRF(max_iter=1).fit(tags, [[f"label {i % 8}" for i in range(n)]])
    ax = plot_partial_dependence(model, tags, 0)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_labels_with_little_gain_are_others():
    words = [[f"w{i % 12}" for i in range(40)] for _ in range(3)]
    model = TreeCRF(max_iter=1, **FIXED).fit(
        words, [[w.replace("w", "t") for w in x] for x in words]
    )
    found = gain_importance(model, per_label=True)
    totals = found.importances.sum(axis=(1, 2)) + found.labels_before[:, 0]
    totals += found.outside.sum(axis=1)
    best = np.sort(np.argsort(-totals, kind="stable")[:3])
    ax = plot_importances(found, max_labels=3)
    assert legend_of(ax) == [*found.labels[best], "others"]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(totals.sum())
    ax = plot_importances(found)
    assert len(legend_of(ax)) == 9
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y0 >= 0


def test_partial_dependence_needs_sequences_and_a_feature(trained, letters):
    for arguments in ((), (letters[0],)):
        with pytest.raises(ValueError, match="X or feature is missing; pass sequences"):
            plot_partial_dependence(trained, *arguments)
    with pytest.raises(ValueError, match="label='q'"):
        plot_partial_dependence(trained, letters[0], 0, labels=["q"])


# Weights


def test_bars_of_weights(fitted):
    model = fitted("linear CRF")
    weights = strongest_weights(model, 9)
    for ax in (plot_weights(model, n_weights=9), plot_weights(weights)):
        assert [bar.get_width() for bar in ax.patches] == [weight.value for weight in weights]
        names = [f"{weight.condition} → {weight.label}" for weight in weights]
        assert names_of(ax.get_yticklabels()) == names
        assert legend_of(ax) == sorted({weight.label for weight in weights})
    ax = plot_weights(model, n_weights=2, label="y")
    assert legend_of(ax) == ["y"]
    assert not any("→" in name for name in names_of(ax.get_yticklabels()))
    with pytest.raises(ValueError, match="there are no weights other than 0 to show"):
        plot_weights([])


def test_transition_weights_need_no_sequences(fitted, trained):
    model = fitted("linear CRF")
    for ax in (plot_transition_scores(model), plot_transition_scores(transition_weights(model))):
        shown = ax.images[0].get_array()
        np.testing.assert_array_equal(shown[1:], model.transition_weights_)
        np.testing.assert_array_equal(shown[0], model.start_weights_)
    with pytest.raises(ValueError, match="X is missing; pass sequences"):
        plot_transition_scores(trained)


# Text in HTML


def parsed(text):
    """The element tree of a highlighted text, whose markup must be well-formed."""
    root = ElementTree.fromstring(text)
    assert text._repr_html_() == text
    return root, [(span.get("title"), "".join(span.itertext())) for span in root.iter("span")]


def test_highlighted_words():
    words = [["<Ada>", "Lovelace", "met", "Mary"], ["Mary", "met", "<Ada>"]]
    tags = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "B-PER"]]
    model = LinearCRF(l2_regularization=0.001).fit(words, tags)
    truth = ["B-PER", "O", "O", "B-PER"]
    root, spans = parsed(highlight_text(model, words[0], truth))
    assert "".join(root.itertext()) == "<Ada> Lovelace PER met Mary PER"
    first, *_ = find_spans(model, words[:1])
    assert spans == [
        (f"PER, probability {first.probability:.2f}", "<Ada> Lovelace PER"),
        ("true: O", "Lovelace"),
        ("PER, probability 1.00", "Mary PER"),
    ]
    numbers = HMMClassifier().fit([[1, 2], [2, 1]], [[0, 1], [1, 0]])
    root, _ = parsed(highlight_text(numbers, [1, 2, 2], symbols=["one", "two", "two"]))
    assert "".join(root.itertext()) == "one 0 two two 1"


def test_highlighted_characters():
    model = LinearCRF(l2_regularization=0.001).fit(["a&b", "b&a"], ["xyz", "zyx"])
    root, spans = parsed(highlight_text(model, "ab&\na"))
    assert "".join(root.itertext()) == "ab&\na\n\nx y z"
    assert [text for title, text in spans if title is None] == list("xyz")
    # Without colors, lines differ.
    styles = [span.get("style") for span in root.iter("span") if span.get("title") is None]
    kinds = [style.partition("border-top: ")[2].split()[1] for style in styles]
    assert kinds == ["solid", "dashed", "dotted"]


def test_highlighting_needs_texts():
    model = HMMClassifier().fit(["ab"], ["xy"])
    with pytest.raises(ValueError, match=r"^symbols has 1 items; expected 2"):
        highlight_text(model, "ab", symbols=["a"])
    table = LinearCRF().fit([[[0.0], [1.0]]], ["xy"])
    with pytest.raises(ValueError, match=r"^x holds no symbols; pass the text of each position"):
        highlight_text(table, [[0.0], [1.0]])
