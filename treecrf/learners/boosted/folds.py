"""Folds of cross-validation: which sequences are held out, or which blocks of long ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treecrf.chains.constraints import Transitions
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput

# Each fold holds out 20 % of the positions, at most 3,000; from 60,000 positions on, 5 %.
N_FOLDS = 5
HELD_OUT_POSITIONS = 3_000
HELD_OUT_FRACTION = 1 / 20
# One fold is enough if it holds out so many positions and sequences. If 20 % are fewer positions,
# it may hold out more of them, up to one in three. More folds, or more positions, were hardly
# better on held-out data. With fewer sequences there are more folds, because the scores of a few
# sequences are mostly noise.
ENOUGH_POSITIONS = 600
MIN_ENOUGH_FOLDS = 3
ENOUGH_SEQUENCES = 10
# With fewer training positions, there are no folds.
MIN_POSITIONS = 50
# Sequences with more positions than a fold holds out are cut into blocks of this fraction of all
# positions, within these lengths; there are always enough of them for the folds.
BLOCK_FRACTION = 1 / 20
MIN_BLOCK = 50
MAX_BLOCK = 500


def make_folds(data: TrainingInput, rules: Transitions | None = None) -> list[TrainingInput]:
    """Return the training data of each fold, the other sequences being held out.

    The folds depend on the content of the sequences, not on their order. Their list is empty if
    there is too little data. Sequences that make up a large part of it are cut into blocks.
    """
    n_positions = len(data.training.codes)
    if n_positions < MIN_POSITIONS:
        return []
    for n_held_out in held_out_sizes(n_positions):
        n_parts = round(n_positions / n_held_out)
        training = in_blocks(data.training, n_positions, n_parts, rules)
        ranks = np.argsort(np.argsort(training.hashes(data.seed)))
        n_sequences = len(ranks)
        if n_sequences >= ENOUGH_SEQUENCES * n_parts:
            break
    if n_sequences < 2:
        return []

    n_parts = min(n_parts, n_sequences)
    n_enough = -(-ENOUGH_SEQUENCES * n_parts // n_sequences)
    folds = []
    for fold in range(min(n_enough, n_parts)):
        others, held_out = training.parted(ranks % n_parts == fold)
        if others.sequences.are_symbols and not len(others.sequences.symbols()):
            return []
        folds.append(replace(data, training=others, held_out=held_out))
    return folds


def held_out_sizes(n_positions: int) -> tuple[int, int]:
    """Return how many positions a fold holds out: if it is the only one, and if there are more."""
    most = max(HELD_OUT_POSITIONS, int(n_positions * HELD_OUT_FRACTION))
    size_of_several = min(n_positions // N_FOLDS, most)
    enough = min(ENOUGH_POSITIONS, n_positions // MIN_ENOUGH_FOLDS)
    return max(size_of_several, enough), size_of_several


def in_blocks(
    data: LabeledSequences, n_positions: int, n_parts: int, rules: Transitions | None = None
) -> LabeledSequences:
    """Cut sequences that are too long for ``n_parts`` parts of ``n_positions`` into blocks.

    A block is like a sequence: its first label has no previous one, and windows do not reach into
    its neighbors. Where the label before a cut may not come last, or the one after it may not come
    first, the cut is made at the next position where they may, if there is one in the block.
    """
    offsets = data.sequences.offsets
    lengths = np.diff(offsets)
    if lengths.max() * n_parts <= n_positions:
        return data
    min_block = min(MIN_BLOCK, n_positions // ENOUGH_SEQUENCES)
    size = int(np.clip(n_positions * BLOCK_FRACTION, min_block, MAX_BLOCK))
    n_blocks = np.maximum(lengths // size, 1)
    bounds = [
        start + np.arange(n) * length // n
        for start, length, n in zip(offsets[:-1], lengths, n_blocks, strict=True)
    ]
    bounds = np.append(np.concatenate(bounds), offsets[-1])
    cuts = possible_cuts(data, rules)
    return data.cut(np.unique(cuts[np.searchsorted(cuts, bounds)]))


def possible_cuts(data: LabeledSequences, rules: Transitions | None) -> np.ndarray:
    """Return the positions at which a sequence may begin, and the number of positions."""
    offsets = data.sequences.offsets
    is_possible = np.zeros(offsets[-1] + 1, dtype=bool)
    is_possible[1:-1] = rules is None or (
        rules.ends[data.codes[:-1]] & rules.follows[-1, data.codes[1:]]
    )
    is_possible[offsets] = True
    return np.flatnonzero(is_possible)
