"""Warnings about valid inputs that are probably not meant."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from treecrf.inputs._dicts import BEYOND, STRINGS, Entries, look_like_rows
from treecrf.inputs.columns import quoted
from treecrf.inputs.forms import are_dicts, is_frame
from treecrf.inputs.nested import flattener_of
from treecrf.inputs.offsets import position_name, split_sequences
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.sequences import (
    ColumnTable,
    Description,
    ListedSequences,
    LongSequences,
    Sequences,
)
from treecrf.inputs.unknown_values import warn_of_nothing_known
from treecrf.inputs.values import column_names, short_list, short_repr
from treecrf.utils.messages import warn
from treecrf.utils.scipy_sparse import sparse

# Columns with at most this many distinct values cause no warning of their number.
MAX_DISTINCT = 100
# Strings of whole numbers may be meant as categories if there are at most this many.
MAX_NUMERALS = 50
# What pandas and NumPy write if they convert missing values to text, and other words for them.
CONVERTED_WORDS = {"nan", "NaN", "<NA>", "NaT"}
MISSING_WORDS = {*CONVERTED_WORDS, "?", "N/A", "NA", "NULL", "None", "n/a", "null"}
# Labels that are numbers or booleans.
VALUE = re.compile(r"\s*([+-]?[0-9]+(\.[0-9]*)?|true|false)\s*", re.IGNORECASE)
# Number of values of a column that are examined, and the fraction that has to have a form.
SAMPLE = 100
FRACTION = 0.9
# Fraction of positions without labels up to which there is no warning.
MAX_UNLABELED = 0.5

# What to do with dates and times.
PARTS_OF_TIME = "leave it out, and add the parts that matter, such as the hour or the weekday"

# Values of columns in memory that look like dates and times and cause a warning; of files, columns
# of nothing else are refused, by the stricter patterns of `inputs/large/column_types.py`.
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?")
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?")
# Dates and times whose order is that of their texts.
_ORDERED_TIME = re.compile(r"\d{4}-\d\d(-\d\d)?([T ]\d\d:\d\d.*)?$|\d\d:\d\d(:\d\d.*)?$")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_NUMERAL = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")


class Doubt(NamedTuple):
    """Why a category is probably something else, and what to do about it."""

    text: str  # what the column holds
    remedy: str  # what to do about it, as an imperative
    mark: str | None = None  # a text among numbers, which may mark a missing value


def doubtful_columns(data: Sequences | Description) -> Iterator[tuple[int, Doubt]]:
    """Yield the indices of categories that are probably something else, and why."""
    if data.form == "symbols" or data.schema.form == "symbols":
        return
    n_positions = data.n_positions
    for j, values in data.schema.categories.items():
        n = len(values)
        doubt = None
        if values.dtype.kind == "U":
            doubt = _doubt_of_strings(values)
        if doubt is not None:
            yield j, doubt
        elif data.form == "dense" and n > max(n_positions / 2, MAX_DISTINCT):
            text = f"has {n:,} distinct values at {n_positions:,} positions"
            yield j, Doubt(text, "leave it out")


def _doubt_of_strings(values: np.ndarray) -> Doubt | None:
    """Return what is doubtful about the sorted values of a column of strings, if anything is."""
    n = len(values)
    # Some of the values, evenly spaced.
    sample = values[:: max(1, n // SAMPLE)].tolist()
    dates = list(filter(_DATE.fullmatch, sample))
    if dates and len(dates) >= FRACTION * len(sample):
        return Doubt(f"holds dates as strings, such as {dates[-1]!r}", PARTS_OF_TIME)
    if sample and all(map(_TIME.fullmatch, sample)):
        return Doubt(f"holds times as strings, such as {sample[-1]!r}", PARTS_OF_TIME)
    numerals = list(filter(_NUMERAL.fullmatch, sample))
    # Few strings of digits are more likely names of categories than measurements.
    are_numbers = n > MAX_NUMERALS or not all(map(_WHOLE.fullmatch, numerals))
    if numerals and len(numerals) >= FRACTION * len(sample) and are_numbers:
        return _doubt_of_numerals(values, numerals[-1])
    return None


def _doubt_of_numerals(values: np.ndarray, example: str) -> Doubt:
    mark = next((v for v in values.tolist() if not _NUMERAL.fullmatch(v)), None)
    text = f"holds {len(values):,} different strings that are numbers, such as {example!r}"
    if mark is not None:
        text = f"{text}, but not {short_repr(mark)}"
    if "," in example:
        return Doubt(text, "replace the decimal commas, and convert it to numbers", mark)
    if mark is None:
        return Doubt(text, "convert it to numbers, for example with pandas.to_numeric")
    remedy = (
        "if the last one marks a missing value, replace it by None, and convert the others to "
        "numbers"
    )
    return Doubt(text, remedy, mark)


def warn_of_columns(data: Sequences | Description, categorical_features: Any) -> None:
    """Warn of categories that are probably something else, unless the user has chosen them."""
    if not isinstance(categorical_features, str):
        return
    for j, doubt in doubtful_columns(data):
        warn(
            f"{data.schema.column(j)} {doubt.text}, and is used as a category; {doubt.remedy}, or "
            "list it in categorical_features"
        )


def warn_of_unlabeled(n_unlabeled: int, n_positions: int, use: str) -> None:
    """Warn if most labels are unknown, but not all; ``use`` says what the others are used for."""
    if n_positions > n_unlabeled > MAX_UNLABELED * n_positions:
        warn(
            f"y holds no label for {n_unlabeled:,} of {n_positions:,} positions, and {use} the "
            f"other {n_positions - n_unlabeled:,} only; if they should be known, check how X and y "
            "were joined"
        )


def warn_of_names(
    names: tuple[str, ...] | None, expected: tuple[str, ...] | None, estimator: str
) -> None:
    """Warn as scikit-learn does if only X or only the training data has names of features."""
    if (names is None) != (expected is None):
        if names is None:
            now = "does not have valid"
            before = "with"
        else:
            now = "has"
            before = "without"
        warn(
            f"X {now} feature names, but {estimator} was fitted {before} feature names; columns "
            "are matched by their order"
        )


def warn_of_columns_in_use(X: Any, others: dict[str, Any]) -> None:
    """Warn if the labels or the groups, by argument, are also a column of X, used as a feature."""
    for argument, values in others.items():
        name = getattr(values, "name", None)
        if is_frame(X) and isinstance(name, str) and name in column_names(X):
            warn(
                f"{argument} has the name of the column {name!r} of X, which is used as a feature; "
                f"pass {argument}={name!r} to leave it out"
            )


def warn_of_index(X: Any, others: dict[str, Any]) -> None:
    """Warn if the indices of pandas of X and of other arguments, by name, differ."""
    for name, other in others.items():
        pairs = [(X, other)]
        if isinstance(X, list) and isinstance(other, (list, tuple)) and len(X) == len(other):
            pairs = list(zip(X, other, strict=True))
        for i, pair in enumerate(pairs):
            one = getattr(pair[0], "index", None)
            two = getattr(pair[1], "index", None)
            if not all(hasattr(index, "equals") for index in (one, two)):
                continue
            if len(one) != len(two) or one.equals(two):
                continue
            # An index that only counts rows says little, unless the other one has the same values.
            counts = [hasattr(index, "step") and index.start == 0 for index in (one, two)]
            if not any(counts) or one.isin(two).all():
                where = ""
                if pair[0] is not X:
                    where = f"sequence {i}: "
                warn(
                    f"{where}the index of {name} differs from that of X, but rows are matched by "
                    f"their order; if they are not in the same order, pass {name}.loc[X.index]"
                )
                break


def warn_of_time(frames: list, offsets: np.ndarray) -> None:
    """Warn if the time in the index of pandas goes back within a sequence."""
    indices = [getattr(frame, "index", None) for frame in frames]
    if not any(map(may_go_back, indices)):
        return
    times = [_times_of(index) for index in indices]
    if any(values is None for values in times) or len({values.dtype.kind for values in times}) > 1:
        return
    joined = np.concatenate(times)
    back = (joined[1:] < joined[:-1]) & ~_are_missing(joined[1:])
    back &= ~np.concatenate([_key_changes(index) for index in indices])[1:]
    back[offsets[(offsets > 0) & (offsets < offsets[-1])] - 1] = False
    if back.any():
        t = int(np.argmax(back)) + 1
        warn(
            f"{position_name(t, offsets)}: the time in the index of X goes back; sort the rows of "
            "each sequence by time"
        )


def may_go_back(index: Any) -> bool:
    """Return whether an index of pandas is not in order; other objects are no indices."""
    return hasattr(index, "is_monotonic_increasing") and not index.is_monotonic_increasing


def _times_of(index: Any) -> np.ndarray | None:
    """Return what an index of pandas says of the order of its rows; None if it says nothing.

    These are the times of its last level: int64 with the smallest number for NaT, floats with NaN,
    or strings, "" if missing. Without several levels, numbers are times only if they have a name.
    """
    is_last_level = getattr(index, "nlevels", 1) > 1
    if is_last_level:
        index = index.get_level_values(-1)
    if hasattr(index, "asi8"):
        return index.asi8
    column = read_column(index)
    is_meant = is_last_level or getattr(index, "name", None) is not None
    if column.values.dtype.kind in "iuf":
        if is_meant:
            return _numbers_of(column.objects())
        return None
    texts = ["" if v is None else _text_of_time(v) for v in column.objects()]
    if all(text is not None and (not text or _ORDERED_TIME.match(text)) for text in texts):
        return np.array(texts, dtype=np.str_)
    are_numerals = all(
        text is not None and (not text or _NUMERAL.fullmatch(text)) for text in texts
    )
    if not is_meant or not are_numerals:
        return None
    return _numbers_of([text.replace(",", ".") or None for text in texts])


def _numbers_of(values: list) -> np.ndarray:
    return np.array([np.nan if value is None else float(value) for value in values])


def _text_of_time(value: Any) -> str | None:
    """Return a string, or a date as one whose order is that of time; None for other values."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, str):
        return value.strip()
    return None


def _are_missing(times: np.ndarray) -> np.ndarray:
    if times.dtype.kind == "U":
        return times == ""
    if times.dtype.kind == "f":
        return np.isnan(times)
    return times == np.iinfo(np.int64).min


def _key_changes(index: Any) -> np.ndarray:
    """Mark the rows whose levels before the last differ from those of the previous row."""
    changes = np.zeros(len(index), dtype=bool)
    if getattr(index, "nlevels", 1) == 1:
        return changes
    for codes in getattr(index, "codes", [])[:-1]:
        codes = np.asarray(codes)
        changes[1:] |= codes[1:] != codes[:-1]
    return changes


def warn_of_dropped_groups(n_dropped: int, n_rows: int, name: str) -> None:
    """Warn of rows that pandas leaves out of groups, because their key is missing."""
    if n_dropped:
        warn(
            f"{name} is grouped without {n_dropped:,} of {n_rows:,} rows, whose key is missing; "
            "fill in the keys, or group with dropna=False if these rows are a sequence"
        )


def warn_of_similar_labels(classes: np.ndarray) -> None:
    """Warn of labels that only differ in blanks or in how Unicode composes their characters."""
    if classes.dtype.kind != "U":
        return
    first: dict[str, str] = {}
    for label in classes.tolist():
        plain = "".join(unicodedata.normalize("NFC", label).split())
        other = first.setdefault(plain, label)
        if plain and other != label:
            warn(
                f"the labels {other!a} and {label!a} differ only in blanks or in the composition "
                "of characters, and are different labels; if they are meant as one, strip or "
                "normalize the labels"
            )


def warn_of_missing_labels(classes: np.ndarray) -> None:
    """Warn of labels that are words for a missing value.

    Programs that convert missing values to text write "nan" and the like. Words such as "NA" are
    suspicious if all other labels are numbers or booleans.
    """
    if classes.dtype.kind != "U":
        return
    labels = classes.tolist()
    others = [label for label in labels if label not in MISSING_WORDS]
    are_values = bool(others) and all(map(VALUE.fullmatch, others))
    words = MISSING_WORDS if are_values else CONVERTED_WORDS
    for label in filter(words.__contains__, labels):
        warn(
            f"y holds {label!r}, which is learned like all other labels; if it stands for an "
            "unknown label, pass None instead of it, or in a file an empty field"
        )


def warn_of_padding(labels: Iterable) -> None:
    """Warn of labels that are probably padding."""
    for label in labels:
        warn(
            f"y holds {label!r}, which looks like padding and is learned like all other labels; "
            "leave padding out of X and y, and pass None where a label is unknown"
        )


def warn_of_keys(X: Any, schema: InputSchema, ignored: set[str], is_long: bool) -> set[str]:
    """Warn if dicts have other keys than the data frames that a model was trained on.

    Keys that are ``ignored`` cause no warning. Returns those that did.
    """
    if not schema.absent_is_missing or not isinstance(X, (list, tuple, np.ndarray)):
        return set()
    items = X
    if is_long:
        items = [X]
    if not any(map(are_dicts, items)):
        return set()
    keys = dict.fromkeys(chain.from_iterable(chain.from_iterable(items)))
    present = {*keys, *ignored}
    for key, columns in schema.vectors.items():
        if key in keys:
            present.update(schema.names[j] for j in columns)
    lacking = [name for name in schema.names if name not in present]
    known = {*schema.names, *schema.vectors, *ignored}
    unknown = [key for key in keys if key not in known]
    if lacking:
        warn(
            f"X lacks {quoted(lacking)} of the training data: no dict has a value, and all are "
            "taken as missing"
        )
    if unknown:
        similar = _similar_name(unknown[0], lacking or schema.names)
        guess = ""
        if similar:
            guess = f"; did you mean {similar!r}?"
        warn(f"X has {_quoted_keys(unknown)}, not among the columns of the training data{guess}")
    return {*lacking, *unknown}


def _quoted_keys(keys: list) -> str:
    what = "the key" if len(keys) == 1 else "the keys"
    return f"{what} {short_list([short_repr(key) for key in keys])}"


def _similar_name(key: Any, names: Iterable[str]) -> str | None:
    """Return the most similar name, if there is one."""
    similar = []
    if isinstance(key, str):
        similar = get_close_matches(key, names, 1)
    if similar:
        return similar[0]
    return None


def warn_of_unknown(sequences: Sequences, schema: InputSchema, X: Any, is_long: bool) -> None:
    """Warn of a sequence that holds something, but nothing that occurred in training."""
    is_unknown = False
    if sequences.form == "symbols":
        is_unknown = _has_unknown_symbols(sequences, schema)
    elif sequences.form == "sparse" and sequences.names is not None:
        is_unknown = _has_unknown_dicts(sequences, schema, X, is_long)
    elif schema.is_categorical and sequences.form == "dense":
        is_unknown = _has_unknown_categories(sequences, schema)
    if is_unknown:
        warn_of_nothing_known(schema)


def _has_unknown_symbols(sequences: Sequences, schema: InputSchema) -> bool:
    known = schema.known_symbols
    if isinstance(sequences, ListedSequences):
        items = sequences.items
    else:
        items = split_sequences(sequences.table, sequences.offsets)
    for item in items:
        # Nearly always, the first symbol is known.
        if not len(item) or item[0] in known:
            continue
        if known.isdisjoint(item.tolist() if isinstance(item, np.ndarray) else item):
            return True
    return False


def _has_unknown_categories(sequences: Sequences, schema: InputSchema) -> bool:
    is_read = isinstance(sequences, LongSequences) and isinstance(sequences.table, ColumnTable)
    if not is_read or any(v is not schema.categories[j] for j, v in sequences.categories.items()):
        return False
    columns = sequences.table.columns
    offsets = sequences.offsets
    present = np.flatnonzero(offsets[1:] > offsets[:-1])
    known = np.zeros(len(present), dtype=bool)
    for codes in columns:
        known |= codes[offsets[present]] > 0
    for i in present[~known].tolist():
        rows = slice(offsets[i], offsets[i + 1])
        is_known = any((codes[rows] > 0).any() for codes in columns)
        if not is_known and any((codes[rows] < 0).any() for codes in columns):
            return True
    return False


def _has_unknown_dicts(sequences: Sequences, schema: InputSchema, X: Any, is_long: bool) -> bool:
    offsets = sequences.offsets
    table = sequences.table
    if not isinstance(X, (list, tuple, np.ndarray)) or not sparse.issparse(table):
        return False
    n_values = table.indptr[offsets[1:]] - table.indptr[offsets[:-1]]
    for i in np.flatnonzero(n_values == 0).tolist():
        rows = X[offsets[i] : offsets[i + 1]] if is_long else X[i]
        if _are_unknown(rows, schema):
            return True
    return False


def _are_unknown(rows: Any, schema: InputSchema) -> bool:
    """Return whether dicts, or lists of attributes, have attributes, none of them known."""
    index = schema.index
    n_attributes = 0
    for row in flattener_of(schema).rows(list(rows)):
        for key, value in row.items():
            j = index.get(key)
            is_category = j is not None and schema.kinds[j] == CATEGORY
            is_known = j is not None and not (is_category and value not in schema.categories[j])
            if is_known or key in schema.vectors:
                return False
            n_attributes += 1
    return n_attributes > 0


def warn_of_mixture(entries: Entries, split: Iterable[str]) -> None:
    """Warn of keys in training that have strings, and numbers other than 0 and 1."""
    for key in sorted(split):
        j = entries.index.get(key)
        if j is not None and entries.flags[j] & BEYOND and entries.flags[j] & STRINGS:
            string = min(entries.codes[j].strings)
            warn(
                f"the key {short_repr(key)} has numbers, but also strings, such as "
                f"{short_repr(string)}; each string is an attribute, such as "
                f"{short_repr(f'{key}:{string}')}, beside the number; if it marks a missing value, "
                "replace it by None"
            )


def warn_of_other_kinds() -> None:
    """Warn of values that are not of the kind of their key in training."""
    warn(
        "some keys of X have strings where the training data had numbers, or the reverse; these "
        "values are ignored, like all attributes that did not occur in training"
    )


def warn_of_places(items: list) -> None:
    """Warn of lists of strings in training that look like the rows of a table."""
    if look_like_rows(items):
        warn(
            "lists of strings are attributes, whose places do not matter, but here all have the "
            "same length, and some strings occur at different places; for the rows of a table, "
            "pass NumPy arrays or data frames; for attributes, pass sets"
        )
