"""Folds of cross-validation: which sequences are held out.

A fold holds out whole sequences, or with ``fold_groups`` whole groups of them, such as all
sequences of a person. Only where sequences are too few, or one of them is most of the data, are
long ones cut into blocks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from treecrf.chains.transitions import Transitions
from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    fold_groups_of,
    group_keys,
)

# With more training positions, a sample of the sequences is enough to choose by.
MAX_POSITIONS = 100_000
# With the default parameters, nothing is random.
SEED = 0
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
# With fewer sequences, or if one of them has more than this fraction of all positions, long ones
# are cut into blocks. A block is easier to label than another sequence: parts of the same sequence
# are among the training data.
MIN_SEQUENCES = 4
MAX_FRACTION = 1 / 2
# Sequences with more positions than a fold holds out are then cut into blocks of this fraction of
# all positions, within these lengths; there are always enough of them for the folds.
BLOCK_FRACTION = 1 / 20
MIN_BLOCK = 50
MAX_BLOCK = 500


@dataclass(frozen=True)
class Units:
    """What folds hold out as a whole: sequences, groups of sequences, or blocks of sequences."""

    keys: np.ndarray  # uint64 (n_units,); they depend on the content of the sequences only
    numbers: np.ndarray  # int64 (n_sequences,): unit of each sequence
    sizes: np.ndarray  # int64 (n_units,): number of positions
    has_label: np.ndarray  # bool (n_units, n_labels): whether the label occurs in the unit

    @classmethod
    def of(cls, data: LabeledSequences, seed: int, n_labels: int) -> Units:
        """Find the units of some sequences."""
        keys, numbers = group_keys(data.hashes(seed), [fold_groups_of(data)])
        sizes = np.bincount(numbers, np.diff(data.sequences.offsets), len(keys))
        has_label = np.zeros((len(keys), n_labels), dtype=bool)
        has_label[np.repeat(numbers, np.diff(data.sequences.offsets)), data.codes] = True
        return cls(keys, numbers, sizes.astype(np.int64), has_label)

    def __len__(self) -> int:
        return len(self.keys)

    def parts(self, n_parts: int) -> np.ndarray:
        """Divide the units among parts with about the same number of positions.

        Returns the part of each unit; int64 (n_units,). The largest units come first, each in the
        smallest part so far. A unit that alone has a label is in no part, -1, unless most units do:
        no fold should lack a label in training.
        """
        alone = (self.has_label & (self.has_label.sum(axis=0) == 1)).any(axis=1)
        if 2 * alone.sum() > len(self):
            alone[:] = False
        parts = np.full(len(self), -1)
        heap = [(0, part) for part in range(n_parts)]
        for unit in np.lexsort((self.keys, -self.sizes)).tolist():
            if not alone[unit]:
                n_positions, part = heapq.heappop(heap)
                parts[unit] = part
                heapq.heappush(heap, (n_positions + int(self.sizes[unit]), part))
        return self._with_labels_spread(parts, n_parts)

    def _with_labels_spread(self, parts: np.ndarray, n_parts: int) -> np.ndarray:
        """Move the smallest unit of a label to the next part, if all its units are in one."""
        order = np.lexsort((self.keys, self.sizes))
        # Labels have an order that does not depend on their names.
        sums = [self.keys[holds].sum() for holds in self.has_label.T]
        for label in np.argsort(sums, kind="stable").tolist():
            holders = order[self.has_label[order, label]]
            own = np.unique(parts[holders])
            if len(holders) > 1 and len(own) == 1 and own[0] >= 0:
                parts[holders[0]] = (own[0] + 1) % n_parts
        return parts


def make_folds(data: TrainingInput, rules: Transitions | None = None) -> list[TrainingInput]:
    """Return the training data of each fold, the other sequences being held out.

    The folds depend on the content of the sequences, not on their order. Their list is empty if
    there is too little data.
    """
    n_positions = len(data.training.codes)
    if n_positions < MIN_POSITIONS:
        return []
    n_labels = len(data.classes)
    training = data.training
    units = Units.of(training, data.seed, n_labels)
    are_blocks = need_blocks(training)
    for n_held_out in held_out_sizes(n_positions):
        n_parts = round(n_positions / n_held_out)
        if are_blocks:
            training = in_blocks(data.training, n_positions, n_parts, rules)
            units = Units.of(training, data.seed, n_labels)
        if len(units) >= ENOUGH_SEQUENCES * n_parts:
            break
    if len(units) < 2:
        return []

    n_parts = min(n_parts, len(units))
    n_enough = -(-ENOUGH_SEQUENCES * n_parts // len(units))
    part_of_sequence = units.parts(n_parts)[units.numbers]
    folds = []
    for fold in range(min(n_enough, n_parts)):
        is_held_out = part_of_sequence == fold
        if not is_held_out.any():
            continue
        others, held_out = training.parted(is_held_out)
        if others.sequences.are_symbols and not len(others.sequences.symbols()):
            return []
        folds.append(replace(data, training=others, held_out=held_out))
    return folds


def sample_for_folds(
    data: LabeledSequences, n_positions: int, seed: int, rules: Transitions | None = None
) -> LabeledSequences:
    """Sample about this number of positions to make folds of, in blocks of long sequences.

    The blocks of a sequence stay together in folds, unless there are too few sequences.
    """
    if data.fold_groups is None and not need_blocks(data):
        lengths = np.diff(data.sequences.offsets)
        data = replace(data, fold_groups=np.repeat(data.hashes(seed), lengths))
    return in_blocks(data, n_positions, N_FOLDS, rules).at_random(n_positions, seed)


def need_blocks(data: LabeledSequences) -> bool:
    """Return whether sequences cannot be held out as a whole, and are cut into blocks.

    Groups of them always are held out as a whole.
    """
    if data.fold_groups is not None:
        return False
    lengths = np.diff(data.sequences.offsets)
    return len(lengths) < MIN_SEQUENCES or lengths.max() > MAX_FRACTION * lengths.sum()


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
