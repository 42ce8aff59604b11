"""Whether the parts of a saved model fit together.

A checksum tells a damaged file; these checks tell a file that was made up. The compiled kernels
trust what they are given, so nothing reaches them that could make them read astray.
"""

from __future__ import annotations

import numpy as np

from treecrf.encoding.columns import BOOLEAN, CATEGORY, KINDS, Columns
from treecrf.encoding.encoder import BITS, CODES, LISTS, METHODS, NOWHERE, Encoder
from treecrf.encoding.imputation import FILLED, Imputation
from treecrf.inputs.sequences import Trained


def check_classes(classes: np.ndarray) -> None:
    """Raise ValueError unless these are sorted, distinct labels."""
    require(classes.dtype.kind in "biuU" and _is_ascending(classes), "labels")
    require(len(classes) > 1, "labels")


def check_counts(*counts: int) -> None:
    """Raise ValueError unless these are integers that the kernels can hold."""
    require(all(map(_is_count, counts)), "numbers")


def check_history(n_iter: int, training: np.ndarray, validation: np.ndarray) -> None:
    """Raise ValueError unless each iteration has its scores, or all have none in validation."""
    require(training.dtype.kind == validation.dtype.kind == "f", "scores")
    require(training.shape == (n_iter + 1,), "scores")
    require(validation.shape in ((0,), training.shape), "scores")


def check_series(array: np.ndarray, n: int, kind: str = "f") -> None:
    """Raise ValueError unless this holds n numbers of a kind."""
    require(array.shape == (n,) and array.dtype.kind == kind, "results")


def check_result(value: object) -> None:
    """Raise ValueError unless this is a finite number, or a row of numbers, none infinite."""
    array = np.asarray(value)
    require(array.ndim <= 1 and array.dtype.kind in "if", "results")
    require(not np.isinf(array).any() and (array.ndim > 0 or not np.isnan(array)), "results")


def check_encoder(encoder: Encoder) -> None:
    """Raise ValueError unless the columns are possible and the plan has a place for each."""
    plan, n = encoder.plan, len(encoder.columns)
    require(encoder.form in ("symbols", "table"), "form")
    n_features = encoder.n_features
    require(n > 0 and (encoder.form == "table" or n_features == 1), "columns")
    require(encoder.names is None or _are_names(encoder.names, n_features), "names")
    _check_filling(encoder)
    require(len(encoder.window) == 2 and all(_is_count(w) for w in encoder.window), "window")
    _check_columns(encoder.columns, encoder.form)
    for array in (plan.storage, plan.slots, plan.first_codes, plan.zeros):
        require(array.shape == (n,) and array.dtype.kind == "i", "plan")
    require(plan.has_missing.shape == (n,) and plan.has_missing.dtype == bool, "plan")
    require(plan.n_codes.ndim == 1 and plan.n_codes.dtype.kind == "i", "plan")
    require(_is_count(plan.n_bits) and _is_count(plan.n_ids), "plan")
    _check_slots(encoder)


def _check_filling(encoder: Encoder) -> None:
    require(encoder.missing in METHODS, "missing values")
    filling = encoder.filling
    require((filling is not None) == (encoder.missing in FILLED), "missing values")
    if filling is not None:
        check_filling(filling, len(filling.values))
        require(len(filling.sources) == len(encoder.columns), "missing values")


def check_filling(filling: Imputation, n_features: int) -> None:
    """Raise ValueError unless there is a number for each feature."""
    values = filling.values
    require(values.shape == (n_features,) and values.dtype == np.float64, "missing values")
    require(np.isfinite(values).all(), "missing values")
    check_places(filling.told, n_features, "missing values")


def check_places(places: np.ndarray, n: int, what: str) -> None:
    """Raise ValueError unless these are places among n things."""
    require(places.ndim == 1 and places.dtype.kind == "i", what)
    require(((places >= 0) & (places < n)).all(), what)


def check_trained(trained: Trained) -> None:
    """Raise ValueError unless these are possible columns."""
    n, kinds = trained.n_features, trained.kinds
    require(trained.form in ("symbols", "table"), "form")
    check_counts(n)
    require(n > 0 and (trained.form == "table" or n == 1), "columns")
    require(trained.names is None or _are_names(trained.names, n), "names")
    require(kinds.shape == (n,) and kinds.dtype == np.uint8, "columns")
    require((kinds < len(KINDS)).all(), "columns")
    require(trained.form == "table" or kinds[0] == CATEGORY, "columns")
    for values in trained.categories.values():
        require(_is_ascending(values) and values.dtype.kind in "iU", "categories")


def _check_columns(columns: Columns, form: str) -> None:
    kinds, sizes = columns.kinds, columns.sizes
    require(kinds.ndim == 1 and kinds.dtype == np.uint8 and (kinds < len(KINDS)).all(), "columns")
    require(sizes.shape == kinds.shape and sizes.dtype.kind == "i", "columns")
    require((sizes >= 0).all() and (sizes[kinds == BOOLEAN] == 0).all(), "columns")
    require(columns.starts[-1] == len(columns.thresholds), "columns")
    require(columns.is_category[:1].all() or form != "symbols", "columns")
    for j, values in columns.categories.items():
        require(_is_ascending(values) and len(values) == sizes[j], "categories")
        require(values.dtype.kind in "iU", "categories")
    thresholds = columns.thresholds
    require(thresholds.ndim == 1 and np.isfinite(thresholds).all(), "thresholds")
    of_column = np.repeat(np.arange(len(columns)), np.diff(columns.starts))
    falls = thresholds[1:] <= thresholds[:-1]
    require(not (falls & (of_column[1:] == of_column[:-1])).any(), "thresholds")


def _check_slots(encoder: Encoder) -> None:
    plan = encoder.plan
    n_tests, is_category = encoder.columns.n_tests, encoder.columns.is_category
    require(np.isin(plan.storage, (CODES, BITS, LISTS, NOWHERE)).all(), "plan")
    require((plan.slots >= 0).all() and (plan.zeros >= 0).all(), "plan")
    coded = plan.storage == CODES
    require((plan.slots[coded] < len(plan.n_codes)).all(), "plan")
    require((n_tests[coded] + 2 <= 256).all(), "plan")
    require((plan.first_codes == (coded & is_category)).all(), "plan")
    require((plan.slots[plan.storage == BITS] < plan.n_bits).all(), "plan")
    listed = plan.storage == LISTS
    n_ids = n_tests + (~is_category & ~encoder.has_one_id())
    require((plan.slots[listed] + n_ids[listed] <= plan.n_ids).all(), "plan")
    has_boundary = len(plan.n_codes) > 0 and not (plan.slots[coded] == 0).any()
    require(has_boundary or not encoder.has_boundary_code(), "plan")


def check_hidden_markov(
    symbols: np.ndarray, emissions: np.ndarray, transitions: list[np.ndarray], n_labels: int
) -> None:
    """Raise ValueError unless the symbols are sorted and the tables fit them and the labels."""
    require(symbols.dtype.kind in "iU" and _is_ascending(symbols), "symbols")
    require(len(symbols) > 0, "symbols")
    require(len(transitions) > 0, "order")
    _check_log_probabilities(emissions, (n_labels, len(symbols) + 1))
    for depth, table in enumerate(transitions):
        _check_log_probabilities(table, (n_labels,) * (depth + 1))


def _check_log_probabilities(table: np.ndarray, shape: tuple[int, ...]) -> None:
    """Distributions along the last axis, without zeros."""
    require(table.shape == shape and table.dtype == np.float64, "probabilities")
    require(np.isfinite(table).all() and (table <= 0).all(), "probabilities")
    require(np.allclose(np.exp(table).sum(axis=-1), 1.0), "probabilities")


def _are_names(names: tuple, n: int) -> bool:
    """Whether these are names of n columns, each its own."""
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names) == n


def _is_ascending(values: np.ndarray) -> bool:
    return values.ndim == 1 and bool((values[1:] > values[:-1]).all())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def require(condition: bool, what: str) -> None:
    """Raise ValueError unless a condition holds of some parts of a model."""
    if not condition:
        raise ValueError(f"its {what} are not those of a model")
