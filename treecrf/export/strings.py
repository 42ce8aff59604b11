"""Tables of strings: the names of columns and categories, in a hash table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.export.c_text import MAX_LITERAL
from treecrf.export.columns import LabelerColumns
from treecrf.export.tables import Tables

# Parameters of the hash function FNV-1a of 32 bits.
HASH_START = 2166136261
HASH_FACTOR = 16777619
HASH_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Entry:
    """A string of the hash table."""

    # Column of a category; the number of columns for the name of a column.
    owner: int
    # The string in UTF-8.
    text: bytes
    # What the labeler finds: the code of a category, or 1 plus the number of a column.
    code: int


def hash_of(owner: int, text: bytes) -> int:
    """Return the hash of a string as the labeler computes it."""
    value = ((HASH_START ^ owner) * HASH_FACTOR) & HASH_BITS
    for byte in text:
        value = ((value ^ byte) * HASH_FACTOR) & HASH_BITS
    return value ^ value >> 15


def string_entries(columns: LabelerColumns) -> list[Entry]:
    """Return the names of columns and the known categories; strings of C hold no NUL."""
    n = len(columns.chosen)
    entries = []
    if columns.schema.names is not None:
        names = [columns.schema.names[j] for j in columns.chosen]
        entries += [Entry(n, encoded(name), k + 1) for k, name in enumerate(names)]
    for k in np.flatnonzero(columns.is_category).tolist():
        entries += [Entry(k, encoded(text), code) for text, code in columns.categories(k)]
    return [entry for entry in entries if b"\0" not in entry.text]


def encoded(text: str) -> bytes:
    """Return a string in UTF-8; lone surrogates remain."""
    return str.__str__(text).encode("utf-8", "surrogatepass")


def string_tables(columns: LabelerColumns) -> tuple[Tables, list[list[bytes]]]:
    """Return the hash table, and the strings in blocks of characters."""
    entries = string_entries(columns)
    n_slots = 1
    while n_slots < 2 * len(entries):
        n_slots *= 2
    constants = {"N_STRINGS": len(entries), "N_SLOTS": n_slots}
    if not entries:
        return Tables(constants), []
    block_size = max([MAX_LITERAL, *(len(entry.text) + 1 for entry in entries)])
    starts, blocks = placed([entry.text for entry in entries], block_size)
    constants["BLOCK_OF_CHARACTERS"] = block_size
    arrays = {
        "slots": slots_of(entries, n_slots),
        "string_owners": np.array([entry.owner for entry in entries]),
        "string_codes": np.array([entry.code for entry in entries]),
        "string_starts": np.array(starts),
    }
    return Tables(constants, arrays), blocks


def slots_of(entries: list[Entry], n_slots: int) -> np.ndarray:
    """Return a hash table of a power of 2 slots: 1 plus the number of an entry, or 0."""
    slots = np.zeros(n_slots, dtype=np.int64)
    for number, entry in enumerate(entries, 1):
        place = hash_of(entry.owner, entry.text) % n_slots
        while slots[place]:
            place = (place + 1) % n_slots
        slots[place] = number
    return slots


def placed(texts: list[bytes], block_size: int) -> tuple[list[int], list[list[bytes]]]:
    """Put strings, each with a 0 at its end, into blocks; return where they start.

    Equal strings share a place.
    """
    starts: dict[bytes, int] = {}
    blocks: list[list[bytes]] = [[]]
    used = 0
    for text in texts:
        if text in starts:
            continue
        if used + len(text) + 1 > block_size:
            blocks.append([])
            used = 0
        starts[text] = (len(blocks) - 1) * block_size + used
        blocks[-1].append(text)
        used += len(text) + 1
    return [starts[text] for text in texts], blocks
