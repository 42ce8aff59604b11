"""Printed thresholds separate the training values as the model does, in few digits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from support.model_files import read, sealed

import treecrf
from treecrf import TreeCRF, TreeMEMM, flatten
from treecrf.cli import main
from treecrf.encoding import learned_columns
from treecrf.encoding.names import number_text, short_thresholds, threshold_text
from treecrf.inspection import explain, export_graphviz, export_text, strongest_rules

SETTINGS = {"init": "zero", "early_stopping": False, "order": 0}
VALUES = {
    "dates": np.array([20180130, 20180131, 20180201, 20180301]),
    "seconds": 1764290000 + np.array([0, 1, 60, 61]),
    "milliseconds": 1764290000000 + np.array([0, 1, 7, 1000]),
    "cents": 12345678 + np.array([0.01, 0.02, 0.10, 0.99]),
    "latitudes": 52.52 + np.array([64, 65, 66, 700]) * 1e-7,
    "single precision": np.float32(52.52) + np.arange(4, dtype=np.float32) * np.float32(4e-6),
    "negative": -np.array([20180131, 20180130, 7000000.25, 1e-9]),
    "tiny": np.array([1.0, 1.0000001, 2.0, 2.0000001]) * 1e-300,
    "huge": np.array([1.0, 1.0000001, 1.5, 1.7]) * 1e308,
    "around zero": np.array([-1e-12, 0.0, 1e-12, 2e-12]),
    "neighbors": np.array([1 - 2**-53, 1.0, 1 + 2**-52, 1 + 2**-51]),
    "tenths": np.array([0.1, 0.2, 0.3, 0.4]),
    "large integers": 2**53 - np.arange(4.0),
}
TEST = re.compile(r"v(?:\[0\])? (<=|>) (-?[0-9][0-9.e+-]*)")
INTERVAL = re.compile(r"(-?[0-9][0-9.e+-]*) < v(?:\[0\])? <= (-?[0-9][0-9.e+-]*)")


def sequences_of(values: np.ndarray) -> tuple[list, list]:
    """Each value with a label of its own in turn, so that trees test all thresholds."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"v": np.repeat(values, 3)})
    return [table] * 6, [np.repeat(np.arange(len(values)) % 2, 3)] * 6


def thresholds_in(model: TreeCRF) -> np.ndarray:
    """Thresholds that trees test."""
    packed = model._forest.pack()
    inner = packed["true_child"] >= 0
    return np.unique(model._encoder.columns[0].values[packed["value"][inner]])


def outcomes(thresholds, values) -> set[tuple[bool, ...]]:
    return {tuple((np.asarray(values, float) > float(each)).tolist()) for each in thresholds}


def printed(model: TreeCRF, text: str) -> list[str]:
    found = [number for _, number in TEST.findall(text)]
    return found + [number for interval in INTERVAL.findall(text) for number in interval]


DOORS = {
    "text": lambda model, path: export_text(model, 0),
    "graph": lambda model, path: export_graphviz(model, 0),
    "rules": lambda model, path: "\n".join(rule.condition for rule in strongest_rules(model)),
    "flat names": lambda model, path: "\n".join(flatten(model).get_feature_names_out()),
    "flat json": lambda model, path: flatten(model).to_json(),
    "loaded": lambda model, path: export_text(saved(model, path), 0),
    "loaded flat": lambda model, path: "\n".join(
        saved(flatten(model), path).get_feature_names_out()
    ),
}


def saved(model, path):
    model.save(path / "m.treecrf")
    return treecrf.load(path / "m.treecrf")


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("door", DOORS)
def test_printed_thresholds_separate_the_training_values(kind, door, tmp_path):
    X, y = sequences_of(VALUES[kind])
    model = TreeCRF(max_iter=1, min_samples_leaf=1, **SETTINGS).fit(X, y)
    numbers = printed(model, DOORS[door](model, tmp_path))
    assert numbers
    assert outcomes(numbers, VALUES[kind]) == outcomes(thresholds_in(model), VALUES[kind])


@pytest.mark.parametrize("kind", VALUES)
def test_the_command_and_the_plots_print_the_same(kind, tmp_path, capsys):
    X, y = sequences_of(VALUES[kind])
    model = TreeCRF(max_iter=1, min_samples_leaf=1, **SETTINGS).fit(X, y)
    model.save(path := tmp_path / "m.treecrf")
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    rules = strongest_rules(model, n_rules=10)
    assert all(str(rule) in text for rule in rules)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    from treecrf.plotting import plot_rules, plot_tree

    drawn = plot_rules(rules)
    shown = [tick.get_text().replace("\n", " ") for tick in drawn.get_yticklabels()]
    assert [text.partition(" → ")[0].split() for text in shown] == [
        rule.short_condition.split() for rule in rules
    ]
    in_tree = [
        float(n) for t in plot_tree(model, label=0).texts for n in printed(model, t.get_text())
    ]
    exported = [float(n) for n in printed(model, export_text(model, 0, 0))]
    assert len(set(in_tree)) == len(set(exported))
    assert sorted(in_tree) == pytest.approx(sorted(exported)[::2], rel=0.006)
    pyplot.close("all")


def test_printed_thresholds_are_short():
    expected = {
        "dates": ["20180130.5", "20180166", "20180251"],
        "cents": ["12345678.015", "12345678.06", "12345678.5"],
        "tenths": ["0.15", "0.25", "0.35"],
        "latitudes": ["52.52000645", "52.52000655", "52.52004"],
    }
    for kind, texts in expected.items():
        X, y = sequences_of(VALUES[kind])
        encoder = TreeMEMM(max_iter=1, order=0).fit(X, y)._encoder
        assert [threshold_text(encoder, 0, k) for k in range(3)] == texts


def digits_of(text: str) -> int:
    """Significant digits of a number."""
    return len(text.partition("e")[0].replace(".", "").lstrip("-0"))


@pytest.mark.parametrize("kind", VALUES)
def test_short_thresholds_differ(kind):
    X, y = sequences_of(VALUES[kind])
    encoder = TreeMEMM(max_iter=1, order=0).fit(X, y)._encoder
    thresholds = encoder.columns[0].values
    codes = range(len(thresholds))
    texts = short_thresholds(encoder, [(0, 0, code) for code in codes])
    shown = [float(texts[0, code]) for code in codes]
    assert (np.diff(shown) > 0).all()
    for code in codes:
        (alone,) = short_thresholds(encoder, [(0, 0, code), (0, 1, code), (-1, 0, 0)]).values()
        assert float(alone) == pytest.approx(thresholds[code], rel=0.006)
        n_whole = len(alone.partition(".")[0].lstrip("-0")) if "e" not in alone else 0
        assert digits_of(alone) <= max(3, n_whole) or kind in ("huge", "neighbors")
        assert len(alone) <= len(texts[0, code])


def test_printed_rules_have_three_digits():
    rng = np.random.default_rng(0)
    X = [rng.random((60, 1)) / 7 for _ in range(5)]
    y = [(x[:, 0] > 0.0812345).astype(int) for x in X]
    model = TreeCRF(max_iter=1, max_leaf_nodes=2, **SETTINGS).fit(X, y)
    (threshold,) = thresholds_in(model)
    for rule in strongest_rules(model):
        assert re.search(r" > 0\.0[0-9]{3,}$", rule.condition)
        assert f"{rule}".endswith(f"x0 > {threshold:.3g}")


@pytest.mark.parametrize("seed", range(20))
def test_random_columns(seed):
    rng = np.random.default_rng(seed)
    exponent, n = rng.integers(-300, 300), rng.integers(2, 60)
    values = rng.normal(rng.choice([0, 1, 1e6]), rng.choice([1e-9, 1, 1e5]), (200, 3))
    values[:, 1] = rng.integers(-n, n, 200)
    values[:, 2] = np.round(values[:, 2], rng.integers(0, 8))
    values = np.array([10.0**exponent, 1, 1]) * values
    values[rng.random(values.shape) < 0.1] = np.nan
    X = [values[:100], values[100:]]
    if seed % 2:
        X = [sparse.csr_array(np.where(rng.random(x.shape) < 0.5, 0.0, x)) for x in X]
    encoder = TreeMEMM(max_iter=1, order=0).fit(X, [np.arange(100) % 2] * 2)._encoder
    table = np.vstack([x.toarray() if seed % 2 else x for x in X])
    for j in range(3):
        column, present = encoder.columns[j], table[~np.isnan(table[:, j]), j]
        texts = [threshold_text(encoder, j, k) for k in range(len(column.values))]
        assert len(set(texts)) == len(texts)
        for text, threshold in zip(texts, column.values, strict=True):
            assert ((present > float(text)) == (present > threshold)).all()
            assert len(text) <= len(repr(float(threshold)))


def test_thresholds_between_samples_separate_all_values(monkeypatch):
    monkeypatch.setattr(learned_columns, "MAX_SAMPLES", 300)
    values = np.random.default_rng(0).normal(size=(4000, 1))
    X = np.split(values, 40)
    encoder = TreeMEMM(max_iter=1, order=0).fit(X, [np.arange(100) % 2] * 40)._encoder
    column = encoder.columns[0]
    for k, threshold in enumerate(column.values):
        text = threshold_text(encoder, 0, k)
        assert ((values > float(text)) == (values > threshold)).all()
    # Most need fewer than the digits of the floats.
    assert np.mean([len(threshold_text(encoder, 0, k)) for k in range(len(column.values))]) < 10


def test_later_training_data_narrow_the_margins():
    X, y = [np.arange(0.0, 80, 10)[:, None]] * 5, [[0, 0, 0, 0, 1, 1, 1, 1]] * 5
    model = TreeMEMM(max_iter=1, order=0, warm_start=True, early_stopping=False).fit(X, y)
    before = model._encoder.columns[0].margins.copy()
    model.set_params(max_iter=2).fit([x + 4.9999 for x in X], y)
    column = model._encoder.columns[0]
    assert (column.margins < before).all()
    assert np.allclose(column.margins, 1e-4, atol=1e-6)


def test_models_without_margins_print_exact_thresholds(tmp_path):
    X, y = sequences_of(VALUES["cents"])
    model = TreeCRF(max_iter=1, min_samples_leaf=1, **SETTINGS).fit(X, y)
    model.save(path := tmp_path / "m.treecrf")
    values, arrays = read(path)
    earlier = {name: array for name, array in arrays.items() if not name.endswith(".margins")}
    assert len(earlier) == len(arrays) - 1
    path.write_bytes(sealed(values, earlier))
    loaded = treecrf.load(path)
    numbers = printed(loaded, export_text(loaded, 0))
    assert {float(number) for number in numbers} == set(thresholds_in(model))


@pytest.mark.parametrize("kind", VALUES)
def test_explained_values_pass_the_same_tests(kind):
    X, y = sequences_of(VALUES[kind])
    model = TreeCRF(max_iter=1, min_samples_leaf=1, **SETTINGS).fit(X, y)
    for t, value in enumerate(X[0]["v"].tolist()):
        (text,) = (each for each in explain(model, X[0], t).descriptions if each.startswith("v ="))
        shown = float(text.removeprefix("v = "))
        assert outcomes(thresholds_in(model), [shown]) == outcomes(thresholds_in(model), [value])


def test_names_of_flat_features_are_unique():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "a": rng.random(40), "a[-1]": rng.random(40), "a[-1] > 0": rng.random(40) < 0.5,
        "b": rng.choice(["x", "x' and b is 'y"], 40),
    })  # fmt: skip
    y = [rng.integers(0, 2, 40) for _ in range(5)]
    model = TreeCRF(window=1, max_iter=20, min_samples_leaf=1, **SETTINGS).fit([table] * 5, y)
    names = flatten(model).get_feature_names_out().tolist()
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("value", "tolerance", "text"),
    [
        (20180130.5, 0.25, "20180130.5"), (20180166.0, 17.0, "20180166"),
        (2345679.5, 1e5, "2345679"), (-2345679.5, 1e5, "-2345680"),
        (0.15000000000000002, 0.02, "0.15"), (0.016491823, 1e-5, "0.0165"),
        (0.1 + 0.2, 0.0, "0.30000000000000004"), (3.5, 2.0, "3.5"), (-0.0, 0.0, "0"),
        (1e300 / 3, 1e297, "3.33e+299"), (5e-324, 0.0, "5e-324"), (np.inf, 0.0, "inf"),
        (1e16 + 2, 0.0, "1.0000000000000002e+16"), (np.float32(0.1), 1e-8, "0.1"),
    ],
)  # fmt: skip
def test_number_text(value, tolerance, text):
    assert number_text(value, tolerance) == text
