"""Keys of sequences: hashes of their content, which replace their numbers in random choices.

Sequences have the same keys in whatever order they are passed, so the random choices of training,
and with them the model, do not depend on that order. Neither do the keys depend on how the data are
written: on the order of the columns, and on the names of columns, labels and categories. A label or
column is hashed by its fingerprint instead, which is a hash of where it occurs in all sequences and
with which values. A category has a fingerprint of its own.

Labels or columns that occur alike have equal fingerprints. If sequences differ in nothing else, the
hashes of their content are equal. Only such sequences are ordered by the numbers of labels and
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from treecrf.encoding._fingerprints import (
    add_by_index,
    add_dense,
    add_sparse,
    hash_dense,
    hash_positions,
    hash_sequences,
    hash_sparse,
)
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.symbols import CHARACTER, MAX_TABLE
from treecrf.utils.hashing import mix, ranks_of_equals
from treecrf.utils.partitions import InMemory, Partitions
from treecrf.utils.scipy_sparse import sparse

# What stands for a missing symbol among the hashes of symbols, and for no symbol at all.
MISSING_SYMBOL = 1
NO_SYMBOL = 0
# Hashes are multiplied by weights in this unit.
WEIGHT_UNITS = 1 << 16


@dataclass(frozen=True)
class Content:
    """Sequences, and what is known of their labels; None where nothing is."""

    sequences: Sequences
    codes: np.ndarray | None = None  # label of each position
    allowed: np.ndarray | None = None  # mask of the labels that are possible at each position
    candidates: np.ndarray | None = None  # mask of the labels that may be the true one
    # The last two order sequences whose content is otherwise the same.
    weights: np.ndarray | None = None  # of each position
    previous: np.ndarray | None = None  # codes of the labels that later ones depend on


@dataclass(frozen=True)
class Fingerprints:
    """Hashes of cells: of columns, of categories, or of symbols."""

    hashes: np.ndarray  # uint64
    # uint64, ascending: the symbols that are hashed; None for the cells of a table in their order.
    symbols: np.ndarray | None = None

    @classmethod
    def total(cls, parts: Iterable[Fingerprints]) -> Fingerprints:
        """Add up the hashes of parts of the sequences."""
        parts = list(parts)
        if parts[0].symbols is None:
            return cls(np.sum([part.hashes for part in parts], axis=0, dtype=np.uint64))
        symbols, indices = np.unique(
            np.concatenate([part.symbols for part in parts]), return_inverse=True
        )
        hashes = np.zeros(len(symbols), dtype=np.uint64)
        add_by_index(indices, np.concatenate([part.hashes for part in parts]), hashes)
        return cls(hashes, symbols)


@dataclass(frozen=True)
class SequenceHashes:
    """Hashes of sequences, uint64 arrays (n_sequences,)."""

    content: np.ndarray  # equal for sequences that are the same but for the names of anything
    ties: np.ndarray  # of the weights and the like
    written: np.ndarray  # of the content with the numbers of labels and columns


# Keys


def sequence_keys(content: Content) -> np.ndarray:
    """Compute a different key for each sequence, from its content; uint64 (n_sequences,)."""
    return keys_in(InMemory(content))[0]


def keys_in(partitions: Partitions) -> list[np.ndarray]:
    """Compute keys that are different in all parts, which are of type `Content`."""
    labels = label_hashes(partitions)
    cells = Fingerprints.total(partitions.map(cell_sums, labels))
    return partitions.derive(content_hashes, labels, cells).reduce(keys_of)


def keys_of(parts: list[SequenceHashes]) -> list[np.ndarray]:
    """Compute keys that are different in all parts: hashes, with the ranks of equal ones."""
    content, ties, written = (
        np.concatenate([getattr(hashes, name) for hashes in parts])
        for name in ("content", "ties", "written")
    )
    order = np.lexsort((written, ties))
    keys = np.empty_like(content)
    keys[order] = mix(content[order], ranks_of_equals(content[order]))
    return np.split(keys, np.cumsum([len(hashes.content) for hashes in parts])[:-1])


# Orders


def label_order(partitions: Partitions, n_labels: int) -> np.ndarray:
    """Order labels by their weighted fingerprints; int64 (n_labels,).

    The order does not depend on the names of labels, and neither do sums that are taken in it.
    Labels that occur alike stay in the order of their numbers.
    """
    found = label_hashes(partitions, is_weighted=True)
    hashes = np.zeros(max(n_labels, len(found)), dtype=np.uint64)
    hashes[: len(found)] = found
    return np.argsort(hashes[:n_labels], kind="stable")


def column_order(partitions: Partitions, schema: InputSchema) -> np.ndarray:
    """Order the columns of tables by their fingerprints; int64 (n_features,).

    The order does not depend on the order in which the columns are passed, except for columns that
    hold the same values.
    """
    if schema.n_features == 1:
        return np.zeros(1, dtype=np.int64)
    labels = label_hashes(partitions)
    cells = mix(Fingerprints.total(partitions.map(cell_sums, labels)).hashes)
    columns = np.add.reduceat(cells, CellTable(schema).starts[:-1], dtype=np.uint64)
    return np.argsort(columns, kind="stable")


# Labels


def label_sums(content: Content, is_weighted: bool = False) -> np.ndarray:
    """Hash where each label occurs, or is possible; uint64 array.

    The array has an item for each label up to the highest one that is found.
    """
    offsets = content.sequences.offsets
    lengths = np.repeat(np.diff(offsets), np.diff(offsets))
    hashes = mix(positions_in_sequences(offsets), lengths)
    if is_weighted:
        hashes *= weight_units(content, 0, len(hashes))
    if content.candidates is not None:
        # A label that is one of several possible ones differs from a label that is known.
        counts = content.candidates.sum(axis=1).astype(np.uint64)
        return _sums_where(content.candidates, hashes * counts)
    if content.codes is None:
        return np.zeros(0, dtype=np.uint64)
    n_labels = int(content.codes.max()) + 1
    if content.allowed is not None:
        n_labels = max(n_labels, content.allowed.shape[1])
    sums = np.zeros(n_labels, dtype=np.uint64)
    add_by_index(content.codes.astype(np.int64), hashes, sums)
    return sums


def _sums_where(marks: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Sum the hashes of the marked positions of each label."""
    return np.array([hashes[marked].sum(dtype=np.uint64) for marked in marks.T], np.uint64)


def label_hashes(partitions: Partitions, is_weighted: bool = False) -> np.ndarray:
    """Hash where each label occurs in all parts, which are of type `Content`; uint64 array."""
    return _added(partitions.map(label_sums, is_weighted))


def weight_units(content: Content, start: int, stop: int) -> np.ndarray | np.uint64:
    """Return weights of positions as whole numbers, by which hashes are multiplied.

    A position of weight 2 then counts as two positions.
    """
    if content.weights is None:
        return np.uint64(WEIGHT_UNITS)
    return np.rint(WEIGHT_UNITS * content.weights[start:stop]).astype(np.uint64)


def _added(parts: list[np.ndarray]) -> np.ndarray:
    """Add arrays, as if shorter ones ended in zeros; return their hashes."""
    total = np.zeros(max(map(len, parts)), dtype=np.uint64)
    for part in parts:
        total[: len(part)] += part
    return mix(total)


def _hash_labels(content: Content, labels: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Hash what is known of the labels from one position up to another, given their hashes."""
    if content.codes is None:
        return np.zeros(stop - start, dtype=np.uint64)
    if content.candidates is None:
        hashes = labels[content.codes[start:stop]]
    else:
        hashes = _sums_of_marked(content.candidates[start:stop], labels)
    if content.allowed is not None:
        hashes = hashes + _sums_of_marked(~content.allowed[start:stop], mix(labels))
    return hashes


def _sums_of_marked(marks: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Sum the hashes of the labels that are marked at each position."""
    return np.where(marks, hashes[: marks.shape[1]], np.uint64(0)).sum(axis=1, dtype=np.uint64)


# Cells


@dataclass(frozen=True)
class CellTable:
    """The cells of the columns of a table, one column after another."""

    sequences: Sequences | InputSchema

    @cached_property
    def n_categories(self) -> np.ndarray:
        """Number of categories of each column, int64 (n_features,); -1 for other columns."""
        counts = np.full(self.sequences.n_features, -1)
        for j, values in self.sequences.categories.items():
            counts[j] = len(values)
        return counts

    @cached_property
    def starts(self) -> np.ndarray:
        """First cell of each column, and the number of all; int64 (n_features + 1,)."""
        # The missing values of a column of categories are a cell as well.
        return np.append(0, np.cumsum(np.where(self.n_categories < 0, 1, self.n_categories + 1)))

    def add_to(self, sums: np.ndarray, piece: Any, salts: np.ndarray) -> None:
        """Add the hashes of values and the salts of their positions to the sums of cells."""
        arrays = (self.starts, self.n_categories, salts, sums)
        if sparse.issparse(piece):
            add_sparse(*entries_of(piece), *arrays)
        else:
            add_dense(dense_of(piece), *arrays)

    def hash_rows(self, piece: Any, cells: np.ndarray) -> np.ndarray:
        """Sum the hashes of the values of each row, given some hashes of each cell."""
        out = np.zeros((piece.shape[0], cells.shape[1]), dtype=np.uint64)
        arrays = (self.starts, self.n_categories, cells, out)
        if sparse.issparse(piece):
            hash_sparse(*entries_of(piece), *arrays)
        else:
            hash_dense(dense_of(piece), *arrays)
        return out


def cell_sums(content: Content, labels: np.ndarray) -> Fingerprints:
    """Hash where each cell occurs and with which values, given the hashes of labels.

    An occurrence is hashed with its position, and with all labels of its sequence.
    """
    sequences = content.sequences
    if consist_of_symbols(sequences):
        return Fingerprints.total(
            _symbol_sums(sequences, piece, salts) for piece, salts in salted_pieces(content, labels)
        )
    table = CellTable(sequences)
    sums = np.zeros(table.starts[-1], dtype=np.uint64)
    for piece, salts in salted_pieces(content, labels):
        table.add_to(sums, piece, salts)
    return Fingerprints(sums)


def _symbol_sums(sequences: Sequences, piece: np.ndarray, salts: np.ndarray) -> Fingerprints:
    """Hash where each symbol of a piece occurs."""
    symbols, indices = _symbols_in(sequences, piece)
    sums = np.zeros(len(symbols), dtype=np.uint64)
    add_by_index(indices, mix(salts), sums)
    occur = (sums != 0) & (symbols != NO_SYMBOL)
    return Fingerprints(sums[occur], symbols[occur])


def salted_pieces(content: Content, labels: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield pieces of the values, and a hash of each position with the labels of its sequence."""
    for start, offsets, piece in pieces_of(content.sequences):
        yield piece, position_salts(content, labels, start, offsets)


def position_salts(
    content: Content, labels: np.ndarray, start: int, offsets: np.ndarray
) -> np.ndarray:
    """Hash each position of a piece with the labels of its sequence."""
    hashes = _hash_labels(content, labels, start, start + int(offsets[-1]))
    salts = np.empty_like(hashes)
    hash_positions(_hash_sequences(hashes, offsets), offsets, salts)
    return salts


def pieces_of(sequences: Sequences) -> Iterator[tuple[int, np.ndarray, Any]]:
    """Yield pieces: first position, offsets of their sequences from there on, and values."""
    for start, stop, piece in sequences.pieces():
        first, last = np.searchsorted(sequences.offsets, [start, stop])
        yield start, sequences.offsets[first : last + 1] - start, piece


# Sequences


def content_hashes(content: Content, labels: np.ndarray, cells: Fingerprints) -> SequenceHashes:
    """Hash each sequence, given the hashes of labels and cells."""
    sequences = content.sequences
    table = CellTable(sequences)
    numbers = mix(np.arange(len(labels)))
    # Two hashes of each cell: by its fingerprint, and by its number.
    cell_hashes = np.stack([mix(cells.hashes), mix(np.arange(len(cells.hashes)))], axis=1)
    fingerprints = []
    written = []
    for start, offsets, piece in pieces_of(sequences):
        stop = start + int(offsets[-1])
        if cells.symbols is None:
            rows = table.hash_rows(piece, cell_hashes)
        else:
            rows = _hash_symbols(sequences, piece, cells)
        known = mix(rows[:, 0], _hash_labels(content, labels, start, stop))
        fingerprints.append(_hash_sequences(known, offsets))
        numbered = mix(rows[:, 1], _hash_labels(content, numbers, start, stop))
        written.append(_hash_sequences(numbered, offsets))
    return SequenceHashes(
        content=np.concatenate(fingerprints),
        ties=_hash_ties(content, labels),
        written=np.concatenate(written),
    )


def _hash_symbols(sequences: Sequences, piece: np.ndarray, cells: Fingerprints) -> np.ndarray:
    """Hash the symbol of each position, by its fingerprint and by its name."""
    symbols, indices = _symbols_in(sequences, piece)
    places = np.minimum(np.searchsorted(cells.symbols, symbols), len(cells.symbols) - 1)
    present = cells.symbols[places] == symbols
    hashes = np.where(present, mix(cells.hashes[places]), np.uint64(0))
    return np.stack([hashes, symbols], axis=1)[indices]


def _hash_ties(content: Content, labels: np.ndarray) -> np.ndarray:
    """Hash what orders sequences of the same content; 0 without it."""
    offsets = content.sequences.offsets
    scores = content.sequences.init_scores
    hashes = np.zeros(offsets[-1], dtype=np.uint64)
    if content.weights is not None:
        hashes = mix(hashes, _bits(content.weights))
    if content.previous is not None:
        hashes = mix(hashes, labels[content.previous])
    if scores is not None:
        score_hashes = mix(_bits(scores), labels[: scores.shape[1]])
        hashes = mix(hashes, score_hashes.sum(axis=1, dtype=np.uint64))
    return _hash_sequences(hashes, offsets)


def _hash_sequences(hashes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Combine the hashes of the positions of each sequence."""
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    hash_sequences(hashes, offsets, out)
    return out


# Values


def consist_of_symbols(sequences: Sequences) -> bool:
    """Return whether sequences consist of symbols, some of which may be missing."""
    return sequences.form == "symbols" or sequences.are_symbols


def _symbols_in(sequences: Sequences, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hashes of different symbols, ascending or not, and the index of each position."""
    if piece.ndim == 2:
        known = _hash_values(sequences.categories[0])
        symbols = np.concatenate([[NO_SYMBOL], known, [MISSING_SYMBOL]]).astype(np.uint64)
        return symbols, np.where(np.isnan(piece), len(known) + 1, piece)[:, 0].astype(np.int64)
    if piece.dtype == CHARACTER:
        points = np.ascontiguousarray(piece).view(np.uint32)
        if points.max() < MAX_TABLE:
            return mix(0, np.arange(points.max() + 1)), points.astype(np.int64)
    return np.unique(_hash_values(piece), return_inverse=True)


def _hash_values(values: np.ndarray) -> np.ndarray:
    """Hash strings or integers; equal strings of different widths have the same hash."""
    if values.dtype.kind != "U":
        return mix(0, values)
    points = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    hashes = mix(np.arange(points.shape[1]), points)
    # Strings end in zeros.
    return np.where(points == 0, np.uint64(0), hashes).sum(axis=1, dtype=np.uint64)


def entries_of(piece: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values of a sparse table, their columns, and where its rows begin."""
    table = piece.tocsr()
    return (
        table.data.astype(np.float64, copy=False),
        table.indices.astype(np.int64, copy=False),
        table.indptr.astype(np.int64, copy=False),
    )


def dense_of(piece: np.ndarray) -> np.ndarray:
    """Return a table as the kernels read it."""
    if piece.dtype.kind == "b":
        return piece.view(np.uint8)
    return piece.astype(np.float64, copy=False)


def _bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, as integers."""
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
