"""The window tests that some trees ask, and where their answers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import CODE_EQUAL, CODES, LISTED
from treecrf.trees.growing.window_tests import missing_values


@dataclass(frozen=True)
class DistinctTests:
    """Distinct questions to rows: the tests of nodes, those of surrogates alone, and gaps.

    A gap is the question whether a row misses a column. Tests of nodes are the first ``n_plain``;
    nothing else matters where no value is missing. ``gaps`` tells the gap of each test, -1 where
    nothing can be missing. Questions that read the same bytes stand together.

    Attributes
    ----------
    kinds, offsets, slots, lows, highs : int32 arrays (n,)
        As `treecrf.encoding.plan.Plan.lookups` gives them.
    gaps : int32 array (n,)
    n_plain : int
    by_id : int32 array (window width, n_ids)
        The question for one listed id at one offset, -1 where there is none.
    left : int
        Offset of the first row of ``by_id``, negated.
    """

    kinds: np.ndarray
    offsets: np.ndarray
    slots: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    gaps: np.ndarray
    n_plain: int
    by_id: np.ndarray
    left: int


def find_distinct_tests(
    nodes: np.ndarray, surrogates: np.ndarray, encoder: Encoder
) -> tuple[DistinctTests, np.ndarray, np.ndarray]:
    """Find what the tests of some nodes and of surrogates ask.

    Parameters
    ----------
    nodes, surrogates : int64 arrays (3, n)
        Columns, offsets and values of window tests.
    encoder : Encoder

    Returns
    -------
    asked : DistinctTests
    of_nodes, of_surrogates : int32 arrays (n,)
        The place of each test.
    """
    tests = np.hstack([nodes, surrogates])
    keys = _keys(tests[0], tests[1], encoder) * (1 << 32) + tests[2]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    columns, offsets, values = tests[:, first]
    is_plain = first < nodes.shape[1]
    kinds, slots, lows, highs = encoder.storage_of(columns, values)
    order = np.lexsort((lows, slots, kinds, offsets, ~is_plain))
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order))
    questions = np.stack([kinds, offsets, slots, lows, highs])[:, order]
    gaps, gap_of = _find_gaps(columns[order], offsets[order], encoder)
    questions = np.ascontiguousarray(np.hstack([questions, gaps]), dtype=np.int32)
    asked = DistinctTests(
        *questions,
        gaps=np.append(gap_of, np.full(gaps.shape[1], -1)).astype(np.int32),
        n_plain=int(is_plain.sum()),
        by_id=_by_id(questions, encoder),
        left=encoder.window[0],
    )
    return asked, places[which[: nodes.shape[1]]], places[which[nodes.shape[1] :]]


def _keys(columns: np.ndarray, offsets: np.ndarray, encoder: Encoder) -> np.ndarray:
    """A number for each column and offset."""
    left, right = encoder.window
    return (columns + 1) * (left + right + 1) + offsets + left


def _find_gaps(
    columns: np.ndarray, offsets: np.ndarray, encoder: Encoder
) -> tuple[np.ndarray, np.ndarray]:
    """The questions whether values are missing, and which of them belongs to each test."""
    gap_of = np.full(len(columns), -1)
    may_lack = missing_values(encoder.plan, columns) >= 0
    keys = _keys(columns, offsets, encoder)[may_lack]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    columns, offsets = columns[may_lack][first], offsets[may_lack][first]
    gap_of[may_lack] = len(gap_of) + which
    values = missing_values(encoder.plan, columns)
    in_codes = encoder.plan.storage[columns] == CODES
    kinds = np.where(in_codes, CODE_EQUAL, LISTED)
    slots = np.where(in_codes, encoder.plan.slots[columns], 0)
    return np.stack([kinds, offsets, slots, values, values + 1]), gap_of


def _by_id(questions: np.ndarray, encoder: Encoder) -> np.ndarray:
    kinds, offsets, _, lows, highs = questions
    n_ids = encoder.plan.n_all_ids if (kinds == LISTED).any() else 0
    table = np.full((sum(encoder.window) + 1, n_ids), -1, dtype=np.int32)
    one = np.flatnonzero((kinds == LISTED) & (highs == lows + 1))
    table[offsets[one] + encoder.window[0], lows[one]] = one
    return table
