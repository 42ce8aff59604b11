"""Keys of sequences: hashes of their content, which replace their numbers in random choices.

Sequences have the same keys in whatever order they are passed, so the random choices of training,
and with them the model, do not depend on that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.offsets import positions_in_sequences, runs
from treecrf.inputs.sequences import Sequences
from treecrf.utils.hashing import mix, ranks_of_equals

# Positions are hashed in runs of this size, so that intermediate results stay in the cache.
RUN_POSITIONS = 1 << 14


@dataclass(frozen=True)
class SequenceHashes:
    """Hashes of sequences."""

    content: np.ndarray  # uint64 (n_sequences,); equal for identical sequences
    # Hashes of numbers that order identical sequences. Either all parts of the data have them, or
    # no part does.
    ties: np.ndarray | None


def sequence_keys(
    encoded: EncodedSequences,
    codes: np.ndarray,
    *masks: np.ndarray | None,
    ties: Iterable[np.ndarray] = (),
) -> np.ndarray:
    """Compute a different key for each labeled sequence, from its content.

    ``masks`` mark allowed and possible labels. ``ties`` are numbers of the positions that order
    identical sequences, such as weights.
    """
    return keys_of([encoded_hashes(encoded, codes, *masks, ties=ties)])[0]


def encoded_hashes(
    encoded: EncodedSequences,
    codes: np.ndarray,
    *masks: np.ndarray | None,
    ties: Iterable[np.ndarray] = (),
    with_lists: bool | None = None,
) -> SequenceHashes:
    """Hash each labeled sequence, see `sequence_keys`; identical sequences have equal hashes.

    The hashes depend on whether any sequence lists an id. In a part of the data, ``with_lists``
    is True if this holds for any part.
    """
    if with_lists is None:
        with_lists = lists_ids(encoded)
    offsets, rows = encoded.offsets, encoded.row_of_position
    bounds = [(offsets[i], offsets[j]) for i, j in runs(offsets, RUN_POSITIONS)]
    pieces = ((i, j, _hash_rows(encoded, rows[i:j], with_lists)) for i, j in bounds)
    return _combined(pieces, offsets, codes, masks, ties)


def input_hashes(
    sequences: Sequences,
    codes: np.ndarray | None = None,
    *masks: np.ndarray | None,
    ties: Iterable[np.ndarray] = (),
) -> SequenceHashes:
    """Hash each sequence before it is encoded; the hashes of identical sequences are equal.

    They do not depend on how the values are stored, but differ from those of `encoded_hashes`.
    """
    pieces = ((start, stop, _hash_values(piece)) for start, stop, piece in sequences.pieces())
    return _combined(pieces, sequences.offsets, codes, masks, ties)


def keys_of(parts: list[SequenceHashes]) -> list[np.ndarray]:
    """Compute keys that are different in all parts: hashes, with the ranks of identical ones."""
    content = np.concatenate([hashes.content for hashes in parts])
    if parts[0].ties is None:
        keys = mix(content, ranks_of_equals(content))
    else:
        order = np.argsort(np.concatenate([hashes.ties for hashes in parts]), kind="stable")
        keys = np.empty_like(content)
        keys[order] = mix(content[order], ranks_of_equals(content[order]))
    return np.split(keys, np.cumsum([len(hashes.content) for hashes in parts])[:-1])


def _combined(
    pieces: Iterable[tuple[int, int, np.ndarray]],
    offsets: np.ndarray,
    codes: np.ndarray | None,
    masks: tuple[np.ndarray | None, ...],
    ties: Iterable[np.ndarray],
) -> SequenceHashes:
    """Hash sequences, given hashes of the positions of runs of them, and where these lie."""
    hashes, done = [], 0
    for start, stop, content in pieces:
        if codes is not None:
            # The label of each position, and its rows of the masks.
            of_labels = codes[start:stop]
            for mask in masks:
                if mask is not None:
                    packed = np.packbits(mask[start:stop], axis=1)
                    of_labels = mix(of_labels, _hash_bytes(packed))
            content = mix(content, of_labels)
        n = int(np.searchsorted(offsets, stop)) - done
        hashes.append(_hash_sequences(content, offsets[done : done + n + 1]))
        done += n
    # The numbers that order identical sequences.
    of_ties = [_hash_sequences(tie.view(np.uint64), offsets) for tie in ties]
    return SequenceHashes(np.concatenate(hashes), mix(*of_ties) if of_ties else None)


def _hash_sequences(of_positions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Combine the hashes of the positions of each sequence."""
    indices = positions_in_sequences(offsets - offsets[0])
    return _sum_runs(mix(of_positions, indices), offsets - offsets[0])


def lists_ids(encoded: EncodedSequences) -> bool:
    """Return whether any row lists an id."""
    return len(encoded.list_ids) > 0


def _hash_rows(encoded: EncodedSequences, rows: np.ndarray, with_lists: bool) -> np.ndarray:
    """Hash the codes, bits and lists of some rows."""
    stored = [table[rows] for table in (encoded.codes, encoded.bits) if table.shape[1]]
    hashes = _hash_bytes(np.hstack(stored)) if stored else np.zeros(len(rows), dtype=np.uint64)
    if not with_lists:
        return hashes
    first = int(rows.min())
    starts = encoded.list_starts[first : int(rows.max()) + 2]
    ids = encoded.list_ids[starts[0] : starts[-1]]
    return mix(hashes, _sum_runs(mix(ids), starts - starts[0])[rows - first])


def _hash_bytes(table: np.ndarray) -> np.ndarray:
    """Hash the rows of a table of bytes."""
    n_words = -(-table.shape[1] // 8)
    words = np.zeros((len(table), 8 * n_words), dtype=np.uint8)
    words[:, : table.shape[1]] = table
    return mix(n_words, *words.view("<u8").T)


def _hash_values(piece: Any) -> np.ndarray:
    """Hash each position: the sum of the hashes of its values and columns, except zeros."""
    if sparse.issparse(piece):
        entries = piece.tocsr()
        return _sum_runs(_hash_entries(entries.indices, entries.data), entries.indptr)
    if piece.dtype.kind == "U":
        # Strings end in zeros, and their width varies between pieces.
        piece = np.ascontiguousarray(piece).view(np.uint32).reshape(len(piece), -1)
    table = piece.reshape(len(piece), -1)
    return _hash_entries(np.arange(table.shape[1]), table).sum(axis=1, dtype=np.uint64)


def _hash_entries(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Hash values and their columns; 0 for zeros. All missing values of a column are equal."""
    values = values.astype(np.float64)
    values[np.isnan(values)] = np.nan
    return np.where(values == 0, np.uint64(0), mix(columns, values.view(np.uint64)))


def _sum_runs(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sum each run of hashes, modulo 2**64; runs may be empty."""
    sums = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=sums[1:])
    return sums[starts[1:]] - sums[starts[:-1]]
