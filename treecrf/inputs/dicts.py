"""Lists of dicts, one per position as in CRFsuite: a sparse table with one column per key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, compress
from operator import ne
from typing import Any, NoReturn

import numpy as np

from treecrf.inputs._dicts import BEYOND, BOOLEANS, NUMBERS, OTHER, STRINGS, Entries, count_entries
from treecrf.inputs.columns import (
    ColumnReader,
    ColumnSpecs,
    ColumnValues,
    sparse_table_of,
    table_of,
)
from treecrf.inputs.data_warnings import warn_of_mixture, warn_of_other_kinds
from treecrf.inputs.nested import Flattener, flat_rows, flattener_of, split_keys
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import LongSequences
from treecrf.inputs.values import (
    UNSEEN,
    find_missing,
    floats_of_codes,
    is_nan,
    is_number,
    ranked,
    refuse_infinite,
    short_repr,
    stands_for_missing,
)
from treecrf.utils.scipy_sparse import sparse

# Types of the attributes of one position, if they have no values.
ROWS = (list, tuple, set, frozenset)


def read_attributes(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Convert lists of collections of strings to sequences; see `read_dicts`."""
    dicts = [[dict.fromkeys(row, True) for row in item] for item in items]
    for item, item_dicts in zip(items, dicts, strict=True):
        if any(map(ne, map(len, item), map(len, item_dicts))):  # some attributes occur twice
            return read_dicts(items, segmentation, schema, categorical)
    return read_dicts(dicts, segmentation, schema, categorical)


def read_dicts(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Convert lists of dicts, or one long list, to sequences; unknown keys are ignored.

    A key that a dict lacks is 0, or missing if the schema says so.
    """
    rows = list(chain.from_iterable(items))
    offsets = segmentation.item_offsets(list(map(len, items)))
    if schema is None:
        rows, entries = _entries_of_training(rows, offsets, categorical)
    elif schema.names is None:
        raise ValueError("X holds dicts, but the columns of the training data have no names")
    else:
        rows, entries = _entries_of_model(rows, offsets, schema)
    names = tuple(entries.index)
    are_attributes = schema is not None and schema.takes_attributes
    specs = ColumnSpecs(names, len(names), schema, categorical, are_attributes)
    kinds, by_reader = _classify(entries, specs)
    vectors = _vectors_of(rows, names, schema, by_reader, specs, offsets)
    if schema is None:
        categories = _sort_categories(entries, np.flatnonzero((kinds == CATEGORY) & ~by_reader))
    else:
        categories = dict(schema.categories)
    for j, entry_indices in _entries_of(entries, by_reader):
        positions = np.searchsorted(entries.starts, entry_indices, side="right") - 1
        values = [rows[t][names[j]] for t in positions.tolist()]
        if are_attributes:
            fits = _fitting(values, schema, j)
            entries.values[entry_indices[~fits]] = 0.0
            values = list(compress(values, fits))
            entry_indices = entry_indices[fits]
            positions = positions[fits]
        column = _read_column(specs.reader(j, offsets, positions), values)
        entries.values[entry_indices] = column.data
        kinds[j] = column.kind
        if column.kind == CATEGORY:
            categories[j] = column.values
    if schema is not None and schema.absent_is_missing:
        columns = _with_missing(entries, vectors, schema, kinds)
        return table_of(columns, offsets, names)
    table = _table_of_entries(entries, (len(rows), len(names)))
    if vectors and schema is None:
        table, names, kinds, categories = _with_names(vectors, table, names, kinds, categories)
    index = {}
    if vectors:
        index = {name: j for j, name in enumerate(names)}
    for key_vectors in vectors:
        table = key_vectors.added_to(table, np.array([index[name] for name in key_vectors.names]))
    return sparse_table_of(table, offsets, names, kinds, dict(sorted(categories.items())))


def _fitting(values: list, schema: InputSchema, j: int) -> np.ndarray:
    """Mark the values whose kind is that of the column in training; others are no attributes."""
    if schema.kinds[j] != CATEGORY or not len(schema.categories[j]):
        return np.ones(len(values), dtype=bool)
    are_strings = schema.categories[j].dtype.kind == "U"
    unfit = {
        kind
        for kind in set(map(type, values))
        if issubclass(kind, str) != are_strings
        and (issubclass(kind, (str, Decimal)) or is_number(kind))
    }
    fits = np.array([type(v) not in unfit or is_nan(v) for v in values], dtype=bool)
    if not fits.all():
        warn_of_other_kinds()
    return fits


def _read_column(reader: ColumnReader, values: list) -> ColumnValues:
    """Read the values of one key: numbers, or the codes of a category as floats."""
    reader.add_objects(values)
    column = reader.finish()
    if column.kind == CATEGORY:
        return replace(column, data=floats_of_codes(column.data))
    return column


def _table_of_entries(entries: Entries, shape: tuple[int, int]) -> sparse.csr_array:
    """Return the values of keys as a sparse table."""
    # SciPy uses one dtype for starts and columns, the wider one.
    dtype = np.int64
    if entries.starts[-1] < 1 << 31:
        dtype = np.int32
    starts = entries.starts.astype(dtype)
    return sparse.csr_array((entries.values, entries.columns, starts), shape=shape)


def _entries_of_model(
    rows: list, offsets: np.ndarray, schema: InputSchema
) -> tuple[list[dict], Entries]:
    """Read the entries of the columns of a model; return them with rows that are flat dicts."""
    known = schema.names, schema.known_strings, schema.prefixes
    n_entries = count_entries(rows)
    if n_entries >= 0:
        entries = Entries(rows, n_entries, *known)
        if not entries.is_nested and not (_has_strings(entries) & (schema.kinds != CATEGORY)).any():
            return rows, entries
    flattener = flattener_of(schema)
    rows = flat_rows(rows, offsets, flattener)
    if flattener.has_other_kind:
        warn_of_other_kinds()
    return rows, Entries(rows, count_entries(rows), *known)


def _entries_of_training(
    rows: list, offsets: np.ndarray, categorical: Any
) -> tuple[list[dict], Entries]:
    """Read the entries of all keys, sorted; return them with rows that are flat dicts."""
    flat = rows
    n_entries = count_entries(rows)
    entries = None
    if n_entries >= 0:
        entries = Entries(rows, n_entries)
    if entries is None or entries.is_nested:
        flat, entries = _read_flat(rows, offsets, Flattener())
    if isinstance(categorical, str) and _has_strings(entries).any():
        strings, others = _strings_and_others(flat, entries)
        split = split_keys(strings, others)
        if split:
            warn_of_mixture(entries, split)
            flat, entries = _read_flat(rows, offsets, Flattener(split, split - others))
    _refuse_other_keys(entries.other_key, offsets)
    entries.renumber(_sorted_keys(list(entries.index)))
    return flat, entries


def _read_flat(rows: list, offsets: np.ndarray, flattener: Flattener) -> tuple[list[dict], Entries]:
    """Make rows flat and read their entries."""
    rows = flat_rows(rows, offsets, flattener)
    _refuse_other_keys(flattener.other_key, offsets)
    return rows, Entries(rows, count_entries(rows))


def _strings_and_others(
    rows: list[dict], entries: Entries
) -> tuple[dict[str, list[str]], set[str]]:
    """Return the strings of each key that has some, and the keys that have numbers."""
    keys = list(entries.index)
    flags = entries.flags
    is_number = (flags & (BOOLEANS | NUMBERS)) > 0
    for j in np.flatnonzero((flags & OTHER > 0) & ~is_number).tolist():
        is_number[j] = any(_is_number(row.get(keys[j])) for row in rows)
    strings = {keys[j]: entries.codes[j].strings for j in np.flatnonzero(_has_strings(entries))}
    return strings, {keys[j] for j in np.flatnonzero(is_number).tolist()}


def _is_number(value: Any) -> bool:
    """Return whether a value of a key is neither a string, nor missing, nor a vector."""
    return not (isinstance(value, str) or is_vector(value) or find_missing([value]) is not None)


def _has_strings(entries: Entries) -> np.ndarray:
    """Mark the columns that hold strings."""
    return (entries.flags & STRINGS) > 0


def _with_missing(
    entries: Entries, vectors: list[Vectors], schema: InputSchema, kinds: np.ndarray
) -> list[ColumnValues]:
    """Return the columns of dicts, in which the values of absent keys are missing."""
    n_rows = len(entries.starts) - 1
    starts = entries.starts
    # In Fortran order, because columns are read one by one.
    table = np.full((n_rows, schema.n_features), np.nan, order="F")
    table[np.repeat(np.arange(n_rows), np.diff(starts)), entries.columns] = entries.values
    for key_vectors in vectors:
        key_vectors.write_to(table, schema.vectors[key_vectors.key])
    columns = []
    for j, column in enumerate(table.T):
        if schema.kinds[j] == CATEGORY:
            codes = np.where(column == 0, UNSEEN, np.nan_to_num(column)).astype(np.int32)
            columns.append(ColumnValues(CATEGORY, codes, schema.categories[j]))
        else:
            columns.append(ColumnValues(int(kinds[j]), column))
    return columns


def _vectors_of(
    rows: list[dict],
    names: tuple[str, ...],
    schema: InputSchema | None,
    by_reader: np.ndarray,
    specs: ColumnSpecs,
    offsets: np.ndarray,
) -> list[Vectors]:
    """Read the vectors of all keys that hold some; other readers leave out their columns."""
    index = {names[j]: j for j in np.flatnonzero(by_reader).tolist()}
    widths = dict.fromkeys(index, 0)
    if schema is not None:
        widths = {key: len(columns) for key, columns in schema.vectors.items()}
    vectors = []
    for key, width in widths.items():
        values = (row[key] for row in rows if row.get(key) is not None)
        if not is_vector(next(values, None)):
            continue
        if key in index:
            by_reader[index[key]] = False
            if schema is None and specs.is_category[index[key]]:
                raise ValueError(f"categorical_features: {key!r} holds vectors, which are numbers")
        vectors.append(Vectors.of(rows, key, offsets, width))
    return vectors


def _with_names(
    vectors: list[Vectors],
    table: sparse.csr_array,
    names: tuple[str, ...],
    kinds: np.ndarray,
    categories: dict[int, np.ndarray],
) -> tuple[sparse.csr_array, tuple[str, ...], np.ndarray, dict[int, np.ndarray]]:
    """Replace the columns of vectors by columns of their values, all sorted by name."""
    keys = {key_vectors.key for key_vectors in vectors}
    old = [j for j, name in enumerate(names) if name not in keys]
    all_names = {names[j] for j in old}.union(*(key_vectors.names for key_vectors in vectors))
    index = {name: j for j, name in enumerate(sorted(all_names))}
    new = np.array([index[names[j]] for j in old], dtype=np.intp)
    others = sparse.csc_array(table)[:, old].tocoo()
    shape = table.shape[0], len(index)
    table = sparse.csr_array((others.data, (others.row, new[others.col])), shape=shape)
    new_kinds = np.full(len(index), NUMBER, dtype=np.uint8)
    new_kinds[new] = kinds[old]
    categories = {index[names[j]]: categories[j] for j in old if j in categories}
    return table, tuple(index), new_kinds, categories


def _refuse_other_keys(other_key: tuple[int, Any] | None, offsets: np.ndarray) -> None:
    """Raise TypeError if a key, given with its position, is not a string."""
    if other_key is not None:
        t, key = other_key
        raise TypeError(
            f"{position_name(t, offsets)}: the key {short_repr(key)} is of type "
            f"{type(key).__name__}; expected strings"
        )


def _sorted_keys(keys: list[str]) -> np.ndarray:
    """Return the indices that sort the keys."""
    if not keys:
        raise ValueError("the sequences have 0 features: all positions are empty")
    return np.array(sorted(range(len(keys)), key=keys.__getitem__))


def _classify(entries: Entries, specs: ColumnSpecs) -> tuple[np.ndarray, np.ndarray]:
    """Determine the kinds of columns, and mark those with values that need a `ColumnReader`."""
    flags = entries.flags
    is_new = not entries.is_fixed
    is_not_category = ~specs.is_category & specs.are_fixed
    strings = (flags & STRINGS) > 0
    others = (flags & OTHER) > 0
    numbers = (flags & (BOOLEANS | NUMBERS)) > 0
    is_coded = np.array([codes is not None for codes in entries.codes], dtype=bool)
    by_reader = others | (strings & (numbers | is_not_category | ~is_coded))
    by_reader |= (numbers & specs.is_category) | (specs.is_boolean & ((flags & BEYOND) > 0))
    for j in np.flatnonzero(strings & ~by_reader & is_new):
        by_reader[j] = "\0" in "".join(entries.codes[j].strings)
    kinds = np.where((flags & NUMBERS) > 0, NUMBER, BOOLEAN).astype(np.uint8)
    kinds[~numbers] = np.where(is_not_category, NUMBER, CATEGORY)[~numbers]
    return kinds, by_reader


def _sort_categories(entries: Entries, columns: np.ndarray) -> dict[int, np.ndarray]:
    """Replace the codes of strings by their ranks; return the sorted strings of each column."""
    categories = {}
    firsts = np.full(len(entries.codes), -1)
    ranks = [np.zeros(0)]
    n = 0
    for j in columns.tolist():
        codes = entries.codes[j]
        strings, order = ranked([] if codes is None else codes.strings)
        categories[j] = np.array(strings, dtype=np.str_)
        ranks.append(order[1:].astype(np.float64))
        firsts[j] = n
        n += len(strings)
    entries.recode(firsts, np.concatenate(ranks))
    return categories


def _entries_of(entries: Entries, chosen: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the chosen columns, and the indices of their entries."""
    if not chosen.any():
        return
    chosen_entries = np.flatnonzero(chosen[entries.columns])
    columns = entries.columns[chosen_entries]
    chosen_entries = chosen_entries[np.argsort(columns, kind="stable")]
    starts = offsets_of(np.bincount(columns, minlength=len(chosen)))
    for j in np.flatnonzero(chosen).tolist():
        yield j, chosen_entries[starts[j] : starts[j + 1]]


# Vectors, such as embeddings: numbers with the names ``key[0]``, ``key[1]``, ...


def is_vector(value: Any) -> bool:
    """Return whether a value is a list or an array of values."""
    is_array = hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0
    return is_array or isinstance(value, (list, tuple))


@dataclass(frozen=True)
class Vectors:
    """The vectors of one key: their positions, and a row of numbers for each."""

    key: str
    positions: np.ndarray
    values: np.ndarray  # float64 (n_vectors, width)

    @classmethod
    def of(cls, rows: list[dict], key: str, offsets: np.ndarray, width: int = 0) -> Vectors:
        """Read the vectors of a key; None is a vector of missing values.

        ``width`` is the width in training, or 0. Errors if the widths differ, or some values are
        not vectors of finite numbers.
        """
        positions = np.array([t for t, row in enumerate(rows) if key in row], dtype=np.int64)
        vectors = [rows[t][key] for t in positions.tolist()]
        is_present = np.array([vector is not None for vector in vectors], dtype=bool)
        present = [vector for vector in vectors if vector is not None]

        def where(i: int) -> str:
            t = int(positions[is_present][i])
            return f"{position_name(t, offsets)}, key {key!r}"

        table = _table(present)
        if table is None or (width and table.shape[1] != width):
            _refuse_first(present, where, width)
        values = np.full((len(vectors), width or table.shape[1]), np.nan)
        refuse_infinite(table, lambda i: where(i // values.shape[1]))
        values[is_present] = table
        return cls(key, positions, values)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the values."""
        return [f"{self.key}[{i}]" for i in range(self.values.shape[1])]

    def added_to(self, table: sparse.csr_array, columns: np.ndarray) -> sparse.csr_array:
        """Add the values to columns of a table, which has none of its own there."""
        holds_vectors = np.zeros(table.shape[1], dtype=bool)
        holds_vectors[columns] = True
        if holds_vectors[table.indices].any():
            j = int(table.indices[holds_vectors[table.indices]][0])
            self._refuse_key(columns.tolist().index(j))
        counts = np.zeros(table.shape[0] + 1, dtype=np.int64)
        counts[self.positions + 1] = len(columns)
        order = np.argsort(columns)
        indices = np.tile(columns[order].astype(np.int32), len(self.positions))
        values = self.values[:, order].ravel()
        return table + sparse.csr_array((values, indices, np.cumsum(counts)), shape=table.shape)

    def write_to(self, table: np.ndarray, columns: np.ndarray) -> None:
        """Write the values to columns of an array, which has none of its own there."""
        for i, j in enumerate(columns.tolist()):
            if not np.isnan(table[:, j]).all():
                self._refuse_key(i)
            table[self.positions, j] = self.values[:, i]

    def _refuse_key(self, i: int) -> NoReturn:
        raise ValueError(
            f"some dicts have the key {self.names[i]!r}, which is the name of a value of the "
            f"vectors of {self.key!r}"
        )


def _table(vectors: list) -> np.ndarray | None:
    """Return vectors as rows of numbers; None if they are not, or their widths differ."""
    if not all(map(is_vector, vectors)):
        return None
    if not vectors:
        return np.zeros((0, 0))
    try:
        table = np.asarray(vectors)
    except ValueError:
        return None
    if table.ndim != 2 or not table.shape[1] or table.dtype.kind not in "biufO":
        return None
    kinds = ()
    if table.dtype.kind == "O":
        kinds = set(map(type, table.flat))
    are_numbers = all(is_number(kind) or stands_for_missing(kind) for kind in kinds)
    if are_numbers:
        return table.astype(np.float64)
    return None


def _refuse_first(vectors: list, where: Any, width: int) -> None:
    """Raise an error about the first vector that does not fit."""
    before = "in training"
    if not width:
        before = f"at {where(0)}"
    for i, vector in enumerate(vectors):
        if not is_vector(vector):
            raise TypeError(
                f"{where(i)}: {short_repr(vector)} is of type {type(vector).__name__}; expected a "
                "vector of numbers, as at other positions"
            )
        table = _table([vector])
        if table is None:
            raise ValueError(
                f"{where(i)}: {short_repr(vector)} is not a vector of numbers; expected a list or "
                "a 1-D array of at least one number"
            )
        n = table.shape[1]
        if width and n != width:
            raise ValueError(
                f"{where(i)}: a vector of {n} values, but {width} {before}; expected vectors of "
                "the same width"
            )
        width = n
