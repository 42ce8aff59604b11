"""Groups of sequences that are held out together, such as the sequences of a person."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from treecrf.inputs.offsets import position_name
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import CategoryEncoder, as_list, find_missing, short_repr

EXPECTED = "the group of each sequence"


def read_fold_groups(
    fold_groups: Any, offsets: np.ndarray, segmentation: Segmentation
) -> np.ndarray | None:
    """Return a hash of the group of each position, uint64 (n_positions,); None without groups.

    The argument has a value for each sequence. It may also have values of the positions, for a long
    table or in a list for each sequence, which are the same in all of a sequence. Hashes of equal
    values are equal in all parts of the data.
    """
    if fold_groups is None:
        return None
    if isinstance(fold_groups, str):
        raise ValueError(
            f"fold_groups={fold_groups!r} names a column, but X is not a data frame; expected "
            f"{EXPECTED}"
        )
    if segmentation.is_long:
        values = _listed(fold_groups, "fold_groups")
        n_sequences = len(offsets) - 1
        if len(values) not in (n_sequences, int(offsets[-1])):
            raise ValueError(
                f"X has {n_sequences} sequences with {offsets[-1]} positions, fold_groups has "
                f"{len(values)} values; expected one per sequence or one per position"
            )
    else:
        values = _of_list(fold_groups, offsets)
    return _hashes(values, offsets)


def _of_list(fold_groups: Any, offsets: np.ndarray) -> list:
    """Return the values of all sequences of a list, or of all their positions."""
    lengths = np.diff(offsets).tolist()
    items = as_list(fold_groups, "fold_groups", EXPECTED)
    if len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, fold_groups has {len(items)}")
    if isinstance(items[0], (str, bytes)) or not hasattr(items[0], "__len__"):
        return _listed(fold_groups, "fold_groups")
    values = []
    for i, (item, length) in enumerate(zip(items, lengths, strict=True)):
        own = _listed(item, f"fold_groups: sequence {i}")
        if len(own) != length:
            raise ValueError(f"fold_groups: sequence {i} has {len(own)} values, X has {length}")
        values += own
    return values


def _listed(values: Any, where: str) -> list:
    """Return values as Python objects; TypeError unless they are in one dimension."""
    column = read_column(values)
    if column.values.ndim != 1:
        raise TypeError(
            f"{where} has {column.values.ndim} dimensions; expected a 1-D array with {EXPECTED}"
        )
    return column.array().tolist()


def _hashes(values: list, offsets: np.ndarray) -> np.ndarray:
    """Hash the value of each position, given the values of sequences or of positions."""
    is_by_sequence = len(values) == len(offsets) - 1
    missing = find_missing(values)
    if missing is not None:
        i = int(np.argmax(missing))
        where = f"sequence {i}" if is_by_sequence else position_name(i, offsets)
        raise ValueError(f"fold_groups is missing ({short_repr(values[i])}) for {where}")
    encoder = CategoryEncoder()
    try:
        codes = encoder.codes(values, len(values))
    except TypeError:
        raise TypeError(
            "fold_groups holds values that cannot be hashed, such as lists; expected strings or "
            "integers"
        ) from None
    if is_by_sequence:
        codes = np.repeat(codes, np.diff(offsets))
    else:
        _refuse_several(values, codes, offsets)
    hashes = [hash_of_group(value) for value in encoder.values]
    return np.array(hashes, dtype=np.uint64)[codes - 1]


def _refuse_several(values: list, codes: np.ndarray, offsets: np.ndarray) -> None:
    """Raise ValueError if a sequence has several groups."""
    first = np.repeat(offsets[:-1], np.diff(offsets))
    differ = codes != codes[first]
    if differ.any():
        t = int(np.argmax(differ))
        raise ValueError(
            f"fold_groups: {position_name(t, offsets)} has {short_repr(values[t])}, the first "
            f"position {short_repr(values[first[t]])}; expected one group for each sequence"
        )


def hash_of_group(group: Any) -> int:
    """Hash the name of a group, alike in all processes."""
    if isinstance(group, float) and group.is_integer():
        group = int(group)
    text = f"{type(group).__name__} {group!r}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
