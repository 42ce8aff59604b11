"""The rounds of sequence boosting: choose a feature, change its weight, update the loss.

A feature is a sum over the positions with a label, or a pair of labels, of an attribute's values.
Each round takes the one with the smallest bound on the loss, which follows from how much larger or
smaller the feature can be for other label sequences than for the true one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import WeightedMean
from treecrf.inputs.offsets import offsets_of, positions_in_sequences, runs
from treecrf.learners.linear.lattices import pair_scores
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.structured import _sequence_boosting as kernel
from treecrf.learners.structured._sequence_boosting import EntryBounds
from treecrf.learners.structured._sequential import AttributeRows
from treecrf.utils.scipy_sparse import sparse

# Inference, and the search for entries of cells, take this many positions at a time.
RUN_POSITIONS = 1 << 14

# Exponents are at most this, so that bounds are finite.
MAX_EXPONENT = 700.0
# Bounds whose relative difference is smaller are equal but for rounding.
TIE = 1e-12

# Rounding errors of incrementally updated sums are relative to the loss at the start of the sums.
# The sums are recomputed when the logarithm of the loss has fallen by this much, and after this
# many rounds.
MAX_FALL = 10.0
MAX_ROUNDS = 200

# Below this logarithm the loss consists of rounding errors.
MIN_LOG_LOSS = -20.0

# Tolerance of the line search, relative to the maximum step.
STEP_TOLERANCE = 1e-2


class Occurrences(NamedTuple):
    """Positions and pieces with a feature."""

    # Positions that have the feature's attribute in their window; none for transitions.
    positions: np.ndarray
    # Values of the attribute at these positions.
    values: np.ndarray
    # Pieces whose scores depend on the feature.
    pieces: np.ndarray


class SequenceLosses:
    """Losses -log P(labels) of all sequences, or of pieces of up to ``max_length`` positions.

    Training treats pieces, the smallest number of about equal length, as sequences.
    """

    def __init__(self, data: TrainingData, weights: Weights, max_length: int | None = None):
        self.data = data
        lengths = np.diff(data.offsets)
        n_pieces = np.ones_like(lengths)
        if max_length is not None:
            n_pieces = -(-lengths // max_length)
        sequence = np.repeat(np.arange(len(lengths)), n_pieces)
        index = positions_in_sequences(np.append(0, np.cumsum(n_pieces)))
        starts = data.offsets[sequence] + index * lengths[sequence] // n_pieces[sequence]
        # Offsets and lengths of the pieces.
        self.offsets = np.append(starts, data.offsets[-1])
        self.lengths = np.diff(self.offsets)
        # Label before each piece, ``n_labels`` at the start of a sequence.
        self.before = data.codes[np.maximum(starts - 1, 0)].astype(np.int32)
        self.before[index == 0] = len(data.classes)
        self.log_weights = np.log(data.weights[sequence])
        # Piece of each position.
        self.piece_of = np.repeat(np.arange(len(self.before)), self.lengths)
        self._mean = WeightedMean(data.sample_weights, self.offsets)
        self.rows = data.table.layout.rows
        self.transitions = weights.transitions.copy()
        self.scores = data.state_scores(weights)
        self.losses = np.full(len(self.before), np.inf)
        self._position_of = np.full(data.table.n_rows, -1)
        self._position_of[self.rows] = np.arange(len(self.rows))
        self.update(self.all_pieces)

    @property
    def all_pieces(self) -> np.ndarray:
        """Indices of all pieces."""
        return np.arange(len(self.before))

    @property
    def mean_log_likelihood(self) -> float:
        """Mean of log P(labels) over the positions."""
        return -self._mean(self.losses)

    @property
    def log_value(self) -> float:
        """Logarithm of the weighted sum of 1 / P(labels) - 1."""
        terms = self.log_terms
        highest = terms.max()
        return float(highest + np.log(np.exp(terms - highest).sum()))

    @property
    def log_terms(self) -> np.ndarray:
        """Logarithms of the terms of that sum."""
        certainly = np.maximum(-np.expm1(-self.losses), np.finfo(float).tiny)
        return self.log_weights + self.losses + np.log(certainly)

    def update(self, chosen: np.ndarray) -> None:
        """Recompute the losses of some pieces."""
        for pieces in self.batches(chosen):
            lattice, positions = self._lattice(pieces)
            log_likelihoods = lattice.log_likelihoods(self.data.codes[positions])
            self.losses[pieces] = np.maximum(-log_likelihoods, 0.0)

    def batches(self, chosen: np.ndarray) -> list[np.ndarray]:
        """Divide some pieces into batches of a limited number of positions."""
        cuts = runs(offsets_of(self.lengths[chosen]), RUN_POSITIONS)
        return [chosen[first:last] for first, last in cuts]

    def _lattice(self, chosen: np.ndarray) -> tuple[Lattice, np.ndarray]:
        """Return the lattice of some pieces, given the labels before them, and their positions."""
        n = self.data.layout.n_labels
        constraints = self.data.constraints
        lengths = self.lengths[chosen]
        offsets = offsets_of(lengths)
        positions = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        rows = self.scores[positions]
        if constraints.allowed is not None:
            rows[:, :n][~constraints.allowed[positions]] = -np.inf
        transitions = constraints.limited(self.transitions)
        table = pair_scores(rows, transitions, offsets)
        # Scores of first positions depend on the label before the piece, if there is one.
        is_inner = self.before[chosen] < n
        starts = offsets[:-1][is_inner]
        before = self.before[chosen][is_inner]
        table[:, starts, 0] = (rows[starts, :n] + transitions[before]).T
        if rows.shape[1] > n:
            table[:, starts, 0] += rows[:, n:].reshape(-1, n, n)[starts, before].T
        return Lattice(table, offsets, 1, self.data.threads), positions

    # One feature

    def occurrences(self, feature: int) -> Occurrences:
        """Find the positions and pieces with a feature, by its index in the vector of weights."""
        layout = self.data.layout
        table = self.data.table
        if feature >= layout.n_attribute_weights:
            no_positions = np.zeros(0, dtype=np.int64)
            is_start = self.before == layout.n_labels
            # Whether a piece can have the transition.
            can_have = self.lengths > is_start
            if feature - layout.n_attribute_weights >= layout.n_labels**2:
                can_have = is_start
            return Occurrences(no_positions, np.zeros(0), np.flatnonzero(can_have))
        attribute, offset = divmod(feature // layout.width, layout.n_offsets)
        starts, rows, values = table.by_attribute
        entries = slice(starts[attribute], starts[attribute + 1])
        scored = rows[entries].astype(np.int64) + offset - table.window[1]
        is_row = (scored >= 0) & (scored < table.n_rows)
        positions = np.where(is_row, self._position_of[np.where(is_row, scored, 0)], -1)
        is_scored = positions >= 0
        positions = positions[is_scored]
        if values is None:
            values = np.ones(len(positions))
        else:
            values = values[entries][is_scored]
        return Occurrences(positions, values, np.unique(self.piece_of[positions]))

    def add(self, feature: int, step: float, where: Occurrences) -> None:
        """Change the weight of a feature without updating the losses."""
        layout = self.data.layout
        if feature >= layout.n_attribute_weights:
            self.transitions.reshape(-1)[feature - layout.n_attribute_weights] += step
        else:
            self.scores[where.positions, feature % layout.width] += step * where.values


class SequenceExponentialLoss(SequenceLosses):
    """The weighted sum of 1 / P(labels) - 1, and the expected labels.

    Residuals are expected minus true indicators of labels and pairs, (n_positions, width); pairs
    are those of transitions, summed over each piece, (n_pieces, n_labels + 1, n_labels). Changes
    are those in the latest inference. The values before and after have weight
    exp(loss + log_weight - level), with the loss before and after.
    """

    def __init__(self, data: TrainingData, weights: Weights, max_length: int | None):
        super().__init__(data, weights, max_length)
        n = data.layout.n_labels
        self.residuals = np.zeros(self.scores.shape)
        self.pairs = np.zeros((len(self.before), n + 1, n))
        self.changes = np.zeros_like(self.residuals)
        self.pair_changes = np.zeros_like(self.pairs)
        # Logarithm of the loss that changes of expectations are relative to.
        self.level = 0.0

    def reset(self) -> None:
        """Make the current loss the level; afterwards all pieces must be inferred again."""
        self.level = self.log_value
        self.losses[:] = np.inf

    def infer(self, chosen: np.ndarray) -> None:
        """Recompute the losses and the expectations of some pieces."""
        for pieces in self.batches(chosen):
            lattice, positions = self._lattice(pieces)
            codes = self.data.codes[positions]
            losses = np.maximum(-lattice.log_likelihoods(codes), 0.0)
            # Losses are infinite before the first inference after a reset.
            losses_before = np.where(np.isinf(self.losses[pieces]), -np.inf, self.losses[pieces])
            before = np.exp(losses_before + self.log_weights[pieces] - self.level)
            after = np.exp(losses + self.log_weights[pieces] - self.level)
            self.losses[pieces] = losses
            residuals, pairs = self._expected(lattice, codes, self.before[pieces])

            position_before = np.repeat(before, self.lengths[pieces])[:, np.newaxis]
            position_after = np.repeat(after, self.lengths[pieces])[:, np.newaxis]
            self.changes[positions] = (
                position_after * residuals - position_before * self.residuals[positions]
            )
            self.residuals[positions] = residuals

            pair_before = before[:, np.newaxis, np.newaxis]
            pair_after = after[:, np.newaxis, np.newaxis]
            self.pair_changes[pieces] = pair_after * pairs - pair_before * self.pairs[pieces]
            self.pairs[pieces] = pairs

    def _expected(
        self, lattice: Lattice, codes: np.ndarray, before: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals of some pieces, and those of transitions."""
        n = lattice.n_labels
        offsets = lattice.offsets
        starts = offsets[:-1]
        every = np.arange(len(codes))
        labels = lattice.marginals()
        pairs = lattice.pairwise()
        is_inner = before < n
        pairs[starts[is_inner], before[is_inner]] = labels[starts[is_inner]]

        # Expected transitions: a sum over the positions of each piece.
        sum_of_positions = sparse.csr_array((np.ones(len(codes)), every, offsets))
        summed = np.zeros((len(starts), n + 1, n))
        summed[:, :n] = (sum_of_positions @ pairs.reshape(len(codes), -1)).reshape(-1, n, n)
        summed[~is_inner, n] = labels[starts[~is_inner]]

        # Minus the true labels and transitions.
        previous = np.append(n, codes[:-1])
        previous[starts] = before
        pieces = np.repeat(every[: len(starts)], np.diff(offsets))
        np.subtract.at(summed, (pieces, previous, codes), 1.0)
        labels[every, codes] -= 1.0
        if self.scores.shape[1] > n:
            has_pair = previous < n
            pairs[every[has_pair], previous[has_pair], codes[has_pair]] -= 1.0
            labels = np.hstack([labels, pairs.reshape(len(codes), -1)])
        return labels, summed

    @property
    def scales(self) -> np.ndarray:
        """Factor of each piece from its residuals to its part of the mean under the loss."""
        return np.exp(self.losses + self.log_weights - self.log_value)

    @property
    def fractions(self) -> np.ndarray:
        """Fraction of the loss of each piece."""
        return np.exp(self.log_terms - self.log_value)


class FeatureStep(NamedTuple):
    """A feature and the step of its weight."""

    # Index of the feature in the vector of weights.
    feature: int
    # What is added to its weight.
    step: float
    # Upper bound on the loss afterwards, divided by the loss before.
    bound: float


@dataclass(frozen=True)
class CellEntries:
    """Occurrences of cells, attributes at an offset, in pieces; an entry is a cell in a piece."""

    # Piece of each entry. Entries are sorted by piece and then by cell.
    pieces: np.ndarray
    # Cell of each entry.
    cells: np.ndarray
    # Where each entry starts in ``positions``, and where the last one ends; n_entries + 1.
    starts: np.ndarray
    # Positions of the entries, ascending within an entry.
    positions: np.ndarray
    # Values of the attribute at these positions.
    values: np.ndarray

    @classmethod
    def of(cls, loss: SequenceExponentialLoss, first: int, last: int) -> CellEntries:
        """Find the entries of the pieces ``first`` to ``last - 1``."""
        offsets = loss.offsets
        positions, cells, values = cls._occurrences(loss, np.arange(offsets[first], offsets[last]))
        pieces = np.searchsorted(offsets, positions, side="right") - 1
        order = np.lexsort((positions, cells, pieces))
        positions = positions[order]
        cells = cells[order]
        values = values[order]
        pieces = pieces[order]
        is_first = np.ones(len(pieces), dtype=bool)
        is_first[1:] = (pieces[1:] != pieces[:-1]) | (cells[1:] != cells[:-1])
        starts = np.append(np.flatnonzero(is_first), len(pieces))
        values = values.astype(np.float64)
        return cls(pieces[is_first], cells[is_first], starts, positions, values)

    @staticmethod
    def _occurrences(
        loss: SequenceExponentialLoss, scored: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the positions, cells and values of the attributes in windows of positions."""
        table = loss.data.table
        left, right = table.window
        positions = []
        cells = []
        values = []
        for offset in range(-left, right + 1):
            attributes = table.matrix[loss.rows[scored] + offset].tocoo()
            positions.append(scored[attributes.row])
            cells.append(attributes.col.astype(np.int64) * table.n_offsets + right - offset)
            values.append(attributes.data)
        return np.concatenate(positions), np.concatenate(cells), np.concatenate(values)

    def intervals(self, loss: SequenceExponentialLoss) -> tuple[np.ndarray, np.ndarray]:
        """Compute the lows and highs of the features of each entry, (n_entries, width) each."""
        n = len(loss.data.classes)
        width = loss.data.layout.width
        lows = np.empty((len(self.cells), width))
        highs = np.empty((len(self.cells), width))
        codes = loss.data.codes
        extremes = kernel.extremes(self.starts, self.positions, self.values)
        observed = self._observed(codes[self.positions], self.values, n)
        highs[:, :n] = extremes[:, :1] - observed
        lows[:, :n] = extremes[:, 1:2] - observed
        if width > n:
            is_start = np.isin(self.positions, loss.data.offsets)
            values = np.where(is_start, 0.0, self.values)
            pairs = codes[self.positions - 1] * n + codes[self.positions]
            observed = self._observed(pairs, values, n * n)
            # A label can follow itself at all positions. Any other pair cannot occur at two
            # neighboring positions.
            is_same = np.eye(n, dtype=bool).ravel()
            extremes = kernel.extremes(self.starts, self.positions, values)
            highs[:, n:] = np.where(is_same, extremes[:, :1], extremes[:, 2:3]) - observed
            lows[:, n:] = np.where(is_same, extremes[:, 1:2], extremes[:, 3:]) - observed
        return lows, highs

    def _observed(self, columns: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
        """Return the features of the true labels, (n_entries, n)."""
        entry = np.repeat(np.arange(len(self.cells)), np.diff(self.starts))
        counts = np.bincount(entry * n + columns, values, minlength=len(self.cells) * n)
        return counts.reshape(-1, n)


def transition_intervals(loss: SequenceExponentialLoss) -> tuple[np.ndarray, np.ndarray]:
    """Compute the lows and highs of transitions, (n_pieces, n_labels + 1, n_labels) each."""
    codes = loss.data.codes
    n = len(loss.data.classes)
    before = np.append(n, codes[:-1])
    before[loss.offsets[:-1]] = loss.before
    transitions = (loss.piece_of * (n + 1) + before) * n + codes
    shape = (len(loss.before), n + 1, n)
    observed = np.bincount(transitions, minlength=np.prod(shape)).reshape(shape).astype(float)
    is_start = loss.before == n
    n_pairs = (loss.lengths - is_start)[:, np.newaxis, np.newaxis]
    highest = np.empty(shape)
    highest[:, :n] = np.where(np.eye(n, dtype=bool), n_pairs, (n_pairs + 1) // 2)
    highest[:, n] = is_start[:, np.newaxis]
    return -observed, highest - observed


class UnionBound:
    """Bounds with one interval for all pieces: equation 20 of Altun et al."""

    def __init__(self, loss: SequenceExponentialLoss, max_step: float):
        self.loss = loss
        self.max_step = max_step
        layout = loss.data.layout
        # The least and the greatest difference of each feature from the true label sequence.
        self.lows = layout.weights()
        self.highs = layout.weights()
        for first, last in runs(loss.offsets, RUN_POSITIONS):
            entries = CellEntries.of(loss, first, last)
            lows, highs = entries.intervals(loss)
            np.minimum.at(self._by_cell(self.lows), entries.cells, lows)
            np.maximum.at(self._by_cell(self.highs), entries.cells, highs)
        lows, highs = transition_intervals(loss)
        self.lows.transitions[:] = lows.min(axis=0)
        self.highs.transitions[:] = highs.max(axis=0)
        self._sums = layout.weights()
        first_rows = loss.rows[loss.offsets[:-1]]
        self._rows = AttributeRows(loss.data.table, layout.width, first_rows)

    @staticmethod
    def _by_cell(weights: Weights) -> np.ndarray:
        return weights.attributes.reshape(-1, weights.layout.width)

    def reset(self) -> None:
        """Prepare for an update of all pieces."""
        self._sums.vector[:] = 0.0

    def update(self, chosen: np.ndarray) -> None:
        """Process the latest inference of the loss, for some of the pieces."""
        loss = self.loss
        self._rows.collect_all(loss.offsets, chosen, loss.changes, self._sums.attributes)
        self._sums.transitions[:] += loss.pair_changes[chosen].sum(axis=0)

    def choose(self) -> FeatureStep:
        """Return the feature with the smallest bound."""
        low = self.lows.vector
        high = self.highs.vector
        means = self._sums.vector * np.exp(self.loss.level - self.loss.log_value)
        # A feature can occur more or less often in another label sequence than in the true one; the
        # exponential of a step times the difference lies below the line between both ends.
        with np.errstate(divide="ignore", invalid="ignore"):  # of features that never vary
            over = np.where(high > low, np.clip((means - low) / (high - low), 0.0, 1.0), 0.0)
            under = 1.0 - over
            steps = (np.log(-under * low) - np.log(over * high)) / (high - low)
        self._steps = np.nan_to_num(np.clip(steps, -self.max_step, self.max_step), nan=0.0)
        under_bounds = under * np.exp(np.minimum(self._steps * low, MAX_EXPONENT))
        over_bounds = over * np.exp(np.minimum(self._steps * high, MAX_EXPONENT))
        self._bounds = under_bounds + over_bounds
        best = _first_smallest(self._bounds)
        return FeatureStep(best, float(self._steps[best]), float(self._bounds[best]))


class SequenceBound:
    """Bounds with an interval for each piece: equation 17, minimized by Newton's method."""

    def __init__(self, loss: SequenceExponentialLoss, max_step: float):
        self.loss = loss
        self.max_step = max_step
        layout = loss.data.layout
        n_pieces = len(loss.before)
        entries = CellEntries.of(loss, 0, n_pieces)
        self._entries = entries
        # The values of each entry, by position.
        self._values = sparse.csr_array(
            (entries.values, entries.positions, entries.starts),
            shape=(len(entries.cells), len(loss.residuals)),
        )
        lows, highs = entries.intervals(loss)
        self._residuals = np.zeros_like(lows)
        n_cells = layout.n_attributes * layout.n_offsets
        by_cell = np.argsort(entries.cells, kind="stable")
        starts = np.searchsorted(entries.cells[by_cell], np.arange(n_cells + 1))
        self._cells = EntryBounds(starts, by_cell, entries.pieces, lows, highs, self._residuals)
        # The transitions from one label are a cell that every piece has.
        n = layout.n_labels
        n_rows = n + 1
        lows, highs = transition_intervals(loss)
        self._transitions = EntryBounds(
            n_pieces * np.arange(n_rows + 1),
            np.arange(n_pieces * n_rows).reshape(-1, n_rows).T.ravel(),
            np.repeat(np.arange(n_pieces), n_rows),
            lows.reshape(-1, n),
            highs.reshape(-1, n),
            loss.pairs.reshape(-1, n),
        )
        self._steps = layout.weights()
        self._bounds = layout.weights()

    def reset(self) -> None:
        """Prepare for an update of all pieces."""

    def update(self, chosen: np.ndarray) -> None:
        """Process the latest inference of the loss, for some of the pieces."""
        is_chosen = np.isin(self._entries.pieces, chosen)
        self._residuals[is_chosen] = self._values[is_chosen] @ self.loss.residuals

    def choose(self) -> FeatureStep:
        """Return the feature with the smallest bound."""
        layout = self._steps.layout
        threads = self.loss.data.threads
        by_piece = (self.loss.scales, self.loss.fractions)
        steps = self._steps.attributes.reshape(-1, layout.width)
        bounds = self._bounds.attributes.reshape(-1, layout.width)

        def minimize(cells: tuple[int, int]) -> None:
            first, last = cells
            self._cells.minimize(by_piece, self.max_step, first, last, steps, bounds)

        if len(self._entries.pieces):
            threads.map(minimize, threads.even_parts(len(steps)))
        self._transitions.minimize(
            by_piece,
            self.max_step,
            0,
            layout.n_labels + 1,
            self._steps.transitions,
            self._bounds.transitions,
        )
        best = _first_smallest(self._bounds.vector)
        return FeatureStep(best, float(self._steps.vector[best]), float(self._bounds.vector[best]))


def _first_smallest(bounds: np.ndarray) -> int:
    """Return the index of the smallest bound; ties go to the first."""
    return int(np.argmax(bounds <= bounds.min() * (1.0 + TIE)))


# Choosers of the feature with the smallest bound, by the parameter ``bound``.
BOUNDS = {"union": UnionBound, "sequence": SequenceBound}


class Rounds:
    """The rounds of boosting."""

    def __init__(
        self,
        data: TrainingData,
        start: Weights,
        bound: type[UnionBound | SequenceBound],
        max_step: float,
        piece_length: int | None,
    ):
        self.loss = SequenceExponentialLoss(data, start, piece_length)
        self.chooser = bound(self.loss, max_step)
        self._max_step = max_step
        # Number of rounds since all sums were computed.
        self._n_since = 0
        self._restart()

    def run(self, max_iter: int, tol: float, line_search: bool) -> Iterator[FeatureStep]:
        """Choose one feature per round until no bound guarantees a decrease by ``tol``."""
        for _ in range(max_iter):
            choice = self.chooser.choose()
            if not 1 - choice.bound > tol or self.loss.log_value < MIN_LOG_LOSS:
                return
            where = self.loss.occurrences(choice.feature)
            if line_search:
                choice = choice._replace(step=self._search(choice, where))
            self.loss.add(choice.feature, choice.step, where)
            self._update(where.pieces)
            yield choice

    def _update(self, chosen: np.ndarray) -> None:
        """Update loss and bounds after the scores of some pieces have changed."""
        self.loss.infer(chosen)
        self.chooser.update(chosen)
        self._n_since += 1
        fall = self.loss.level - self.loss.log_value
        if fall > MAX_FALL or self._n_since >= MAX_ROUNDS:
            self._restart()

    def _restart(self) -> None:
        """Recompute all sums."""
        self.loss.reset()
        self.chooser.reset()
        self.loss.infer(self.loss.all_pieces)
        self.chooser.update(self.loss.all_pieces)
        self._n_since = 0

    def _search(self, choice: FeatureStep, where: Occurrences) -> float:
        """Search the step with the lowest loss; keep the chosen one if none is better."""
        loss = self.loss
        losses = loss.losses.copy()
        latest = 0.0

        def value(step: float) -> float:
            nonlocal latest
            loss.add(choice.feature, step - latest, where)
            latest = step
            loss.update(where.pieces)
            return loss.log_value

        search = minimize_scalar(
            value, bounds=(-self._max_step, self._max_step), method="bounded",
            options={"xatol": STEP_TOLERANCE * self._max_step},
        )  # fmt: skip
        step = choice.step
        if search.fun < value(choice.step):
            step = float(search.x)
        loss.add(choice.feature, -latest, where)
        loss.losses[:] = losses
        return step
