"""Bundling of exclusive columns into codes, the storage in which trees grow on sparse input.

Columns of which at most one is true at any position, such as the indicators of a category, share
one byte instead of taking a list entry each (exclusive feature bundling: Ke and others, "LightGBM",
2017). New sequences may violate the exclusion, so prediction keeps the lists. The tests of a tree
have the same meaning in both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import CODES, LISTS, MAX_CODES, Plan

MAX_BUNDLES = 32
# The fullest columns come first; the others would not fill a bundle.
MAX_TRIED = 2 * MAX_BUNDLES * MAX_CODES
# A bundle whose code is mostly 0 is slower than the lists.
MIN_FILL = 0.5


def bundle(encoder: Encoder, encoded: EncodedSequences) -> tuple[Plan, EncodedSequences]:
    """Move exclusive columns without missing values from the lists to codes."""
    plan = encoder.plan
    starts, postings = encoded.postings()
    free = (plan.storage == LISTS) & encoder.has_one_id() & ~plan.has_missing
    columns = np.flatnonzero(free)
    counts = np.diff(starts)[plan.slots[columns]]
    fullest = np.argsort(-counts, kind="stable")[:MAX_TRIED]
    columns = columns[fullest[counts[fullest] > 0]]
    rows = [postings[starts[i] : starts[i + 1]] for i in plan.slots[columns]]
    codes, members = _pack(columns, rows, len(encoded.codes))
    filled = (codes != 0).sum(axis=0) >= MIN_FILL * encoded.n_positions
    kept = [k for k in np.flatnonzero(filled) if len(members[k]) > 1]
    if not kept:
        return plan, encoded
    return _move(plan, encoded, codes[:, kept], [members[k] for k in kept])


def _pack(
    columns: np.ndarray, rows: list[np.ndarray], n_rows: int
) -> tuple[np.ndarray, list[list[int]]]:
    """Put each column into the first bundle that has no value in its rows."""
    codes = np.zeros((n_rows, MAX_BUNDLES if len(columns) else 0), dtype=np.uint8)
    members: list[list[int]] = [[] for _ in range(codes.shape[1])]
    room = np.ones(codes.shape[1], dtype=bool)
    for j, here in zip(columns.tolist(), rows, strict=True):
        free = np.flatnonzero(room & ~codes[here].any(axis=0))
        if len(free):
            k = int(free[0])
            members[k].append(j)
            codes[here, k] = len(members[k])
            room[k] = len(members[k]) < MAX_CODES
    return codes, members


def _move(
    plan: Plan, encoded: EncodedSequences, codes: np.ndarray, members: list[list[int]]
) -> tuple[Plan, EncodedSequences]:
    """Store the members of bundles as codes, and remove them from the lists."""
    storage, slots, first_codes = plan.storage.copy(), plan.slots.copy(), plan.first_codes.copy()
    missing_ids = plan.missing_ids.copy()
    listed = np.ones(plan.n_all_ids, dtype=bool)
    for k, bundled in enumerate(members):
        listed[slots[bundled]] = listed[missing_ids[bundled]] = False
        missing_ids[bundled] = -1
        storage[bundled] = CODES
        slots[bundled] = len(plan.n_codes) + k
        first_codes[bundled] = 1 + np.arange(len(bundled))
    new_ids = np.cumsum(listed) - listed
    in_lists = storage == LISTS
    slots[in_lists] = new_ids[slots[in_lists]]
    in_need = missing_ids >= 0
    missing_ids[in_need] = new_ids[missing_ids[in_need]]
    kept = listed[encoded.list_ids]
    n_kept = np.append(0, np.cumsum(kept))
    moved = replace(
        plan,
        storage=storage,
        slots=slots,
        first_codes=first_codes,
        n_codes=np.append(plan.n_codes, [len(bundled) + 1 for bundled in members]),
        missing_ids=missing_ids,
        n_ids=int(listed[: plan.n_ids].sum()),
    )
    return moved, replace(
        encoded,
        codes=np.ascontiguousarray(np.hstack([encoded.codes, codes])),
        list_starts=n_kept[encoded.list_starts],
        list_ids=new_ids[encoded.list_ids[kept]].astype(np.int32),
        n_ids=moved.n_all_ids,
    )
