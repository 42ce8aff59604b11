"""Parts of the data that are read one by one.

A part is read twice. Without a schema, it shows which columns, categories and labels it has. Then
all parts are read with the schema of all data (see `treecrf.inputs.merging`), as new data are for a
prediction, so that the values of a column have the same codes in all parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import ColumnValues
from treecrf.inputs.description import Description
from treecrf.inputs.dicts import (
    are_empty_rows,
    read_attribute_lists,
    read_dicts,
    widths_of_strings,
)
from treecrf.inputs.frames import column_of
from treecrf.inputs.labels import RawData, as_labels
from treecrf.inputs.reading import as_sequences, is_empty, is_empty_list
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.sequences import Sequences, codes_among
from treecrf.inputs.tables import table_of
from treecrf.inputs.values import short_repr
from treecrf.inputs.weights import read_weights

# A part of which all dicts, or all lists of attributes, are empty.
NO_COLUMNS = InputSchema("table", 0, (), np.zeros(0, dtype=np.uint8), {})


@dataclass(frozen=True)
class PartDescription:
    """Description of a part that has been read on its own.

    Attributes
    ----------
    place : str
        The part, for error messages.
    described : Description
    dtype : numpy dtype
        Common type of the values.
    has_values : bool array (n_features,)
        Columns of which not all values are missing.
    n_unlabeled : int
        Number of positions where any label is possible.
    labels : array
        The distinct labels, known or possible, sorted; empty if all are unknown.
    groups : uint64 array (n_sequences,) or None
        A hash of the name of each sequence, if the sequences are groups of a long table.
    kinds_of_groups : frozenset of str
        Kinds of these names.
    widths : frozenset of int
        Lengths of the lists of strings, if positions are such lists: rows of a table, or
        attributes.
    is_weighted, has_weight : bool
        Whether sample weights other than 1 are given, and whether any weight is positive.
    has_init_score : bool
    """

    place: str
    described: Description
    dtype: np.dtype
    has_values: np.ndarray
    n_unlabeled: int
    labels: np.ndarray
    groups: np.ndarray | None
    kinds_of_groups: frozenset[str]
    widths: frozenset[int]
    is_weighted: bool
    has_weight: bool
    has_init_score: bool


@contextmanager
def named(place: str) -> Iterator[None]:
    """Put the place of a part before the messages of errors in its values."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if not place:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}: {error}") from error


def describe_part(
    raw: RawData,
    categorical: Any,
    schema: InputSchema | None = None,
    as_attributes: bool = False,
) -> PartDescription | None:
    """Read a part and describe it; None if it has no sequences.

    Parameters
    ----------
    raw : RawData
    categorical : "from_dtype", None, or list
        The parameter ``categorical_features``.
    schema : InputSchema, optional
        Schema of an earlier model, which the part must match.
    as_attributes : bool, default=False
        Whether lists of strings are attributes, although all have one length in this part.
    """
    if _is_empty(raw):
        return None
    with named(raw.place):
        raw = raw.resolved()
        sequences = _read(raw, categorical, schema, as_attributes)
        labels = as_labels(raw.y, sequences.offsets, raw.segmentation)
        weights = read_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        groups = _groups_of(raw, sequences.offsets)
    present = [values for values in labels.present() if len(values)]
    return PartDescription(
        place=raw.place,
        described=Description.of(sequences),
        dtype=sequences.dtype,
        has_values=_find_values(sequences),
        n_unlabeled=labels.n_unlabeled,
        labels=np.unique(np.concatenate(present)) if present else np.zeros(0, dtype=bool),
        groups=None if groups is None else np.array([*map(_hash, groups)], dtype=np.uint64),
        kinds_of_groups=frozenset(map(_kind_of_group, groups or [])),
        widths=widths_of_strings(_listed(raw)),
        is_weighted=weights is not None and bool((weights != 1).any()),
        has_weight=weights is None or bool(weights.any()),
        has_init_score=raw.init_score is not None,
    )


def read_part(raw: RawData, described: Description) -> tuple[Sequences, RawData]:
    """Read the sequences of a part with the schema of all data.

    Returns
    -------
    sequences : Sequences
        Their categories and their form are those of all data.
    resolved : RawData
        The part with labels that are not the name of a column.
    """
    raw, schema = raw.resolved(), described.schema
    sequences = _read(raw, None, schema, False)
    if sequences.form == "symbols" and described.form == "dense":
        # Other parts have missing symbols.
        sequences = _as_categories(sequences, schema.categories[0])
    return sequences, raw


def _read(
    raw: RawData, categorical: Any, schema: InputSchema | None, as_attributes: bool
) -> Sequences:
    items = _listed(raw)
    if are_empty_rows(items):
        return read_dicts(_as_dicts(items), raw.segmentation, schema or NO_COLUMNS, None)
    if as_attributes and widths_of_strings(items):
        return read_attribute_lists(items, raw.segmentation, schema, categorical)
    return as_sequences(raw.X, schema, raw.segmentation, categorical)


def _as_dicts(items: list) -> list:
    """Return an empty dict for each position."""
    return [[{} for _ in item] for item in items]


def _listed(raw: RawData) -> list:
    """Return the items of X; one for a long table."""
    if raw.segmentation.is_long:
        return [raw.X]
    return raw.X if isinstance(raw.X, (list, tuple)) else []


def _is_empty(raw: RawData) -> bool:
    if not raw.segmentation.is_long:
        return is_empty_list(raw.X)
    return is_empty(raw.X)


def _as_categories(sequences: Sequences, symbols: np.ndarray) -> Sequences:
    """Convert symbols to a table of one category, the form of symbols of which some are missing."""
    pieces = []
    for _, _, piece in sequences.pieces():
        distinct, indices = np.unique(piece, return_inverse=True)
        pieces.append(codes_among(symbols, distinct)[1:].astype(np.int32)[indices])
    column = ColumnValues(CATEGORY, np.concatenate(pieces), symbols)
    return table_of([column], sequences.offsets, None, of_symbols=True)


def _find_values(sequences: Sequences) -> np.ndarray:
    """Mark the columns that hold any value."""
    found = np.zeros(sequences.n_features, dtype=bool)
    if sequences.form == "symbols":
        return ~found
    for _, _, piece in sequences.pieces():
        if sparse.issparse(piece):
            found[piece.indices[~np.isnan(piece.data)]] = True
        elif piece.dtype.kind == "f":
            found |= ~np.isnan(piece).all(axis=0)
        else:
            return ~np.zeros_like(found)
    return found


def _groups_of(raw: RawData, offsets: np.ndarray) -> list | None:
    """Return the name of each sequence, if there are names."""
    segmentation = raw.segmentation
    if segmentation.groups is None:
        return None
    groups = segmentation.groups
    if segmentation.column is not None:
        groups = column_of(raw.X, segmentation.column)
    groups = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
    return groups[offsets[:-1]].tolist()


def _hash(group: Any) -> int:
    """Hash the name of a group; the same in all processes."""
    if isinstance(group, float) and group.is_integer():
        group = int(group)
    text = f"{type(group).__name__} {group!r}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _kind_of_group(group: Any) -> str:
    """Return the kind of the name of a group; groups of different kinds are different."""
    kinds = {str: "strings", int: "numbers", float: "numbers"}
    return kinds.get(type(group), f"values of type {type(group).__name__}")


def group_of_hash(raw: RawData, hashed: int) -> str | None:
    """Write the group with this hash, if it is in a part."""
    if _is_empty(raw):
        return None
    raw = raw.resolved()
    offsets = as_sequences(raw.X, None, raw.segmentation).offsets
    groups = _groups_of(raw, offsets) or []
    return next((short_repr(group) for group in groups if _hash(group) == hashed), None)
