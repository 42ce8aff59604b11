"""Scores of linear models, and data to train them on.

Scores are sums of attributes times weights; the gradient is their transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import WeightedMean
from treecrf.encoding.encoded import RowLayout, rows_of_positions
from treecrf.inputs.offsets import runs
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear import _linear
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.attributes import Attributes
from treecrf.learners.linear.model import WeightLayout, Weights
from treecrf.utils.threads import PARTS_PER_THREAD, Threads

# Sequences and attributes are processed in parts of about this many positions or values. The size
# does not depend on the number of threads, and so neither do sums over the parts.
PART_POSITIONS = 4096

# Kernels take this many positions at a time; between two calls, training can be interrupted.
BURST_POSITIONS = 1 << 16

# Number of entries from which threads divide the attributes among themselves.
N_SAMPLES = 4096

# Start of each row's entries (or each column's), and the indices and values of the entries; None if
# all values are 1.
SparseArrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]


@dataclass
class AttributeMatrix:
    """Attributes of sequences: one row per position, and boundary rows between and around them.

    With a window there is one more attribute, "outside", the last one. Boundary rows have only this
    attribute. The window of a position is therefore the range of rows around its own row.
    """

    layout: RowLayout
    by_row: SparseArrays
    n_attributes: int  # including "outside"

    @classmethod
    def of(cls, attributes: Attributes, sequences: Sequences) -> AttributeMatrix:
        """Make the rows; raises ValueError if a source's rows have another shape than it says."""
        rows, offsets = attributes.rows(sequences), sequences.offsets
        # Kernels do not check bounds.
        if rows.shape != (offsets[-1], attributes.n_attributes):
            raise ValueError(
                f"{type(attributes).__name__} returns rows of shape {rows.shape}; expected "
                f"({offsets[-1]}, {attributes.n_attributes})"
            )
        layout = RowLayout(offsets, tuple(attributes.window))
        if not any(layout.window):
            return cls(layout, _entries(rows.indptr, rows.indices, rows.data), rows.shape[1])
        return cls(layout, _with_boundary_rows(rows, layout), rows.shape[1] + 1)

    def __post_init__(self) -> None:
        self.offsets, self.window = self.layout.offsets, self.layout.window
        self.first_rows, self.n_rows = self.layout.first_rows, len(self.by_row[0]) - 1
        self.n_offsets, self.n_positions = sum(self.window) + 1, int(self.offsets[-1])

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The rows as a matrix, float64 CSR array (n_rows, n_attributes)."""
        starts, indices, _ = self.by_row
        shape = self.n_rows, self.n_attributes
        return sparse.csr_array((self.values, indices, starts), shape=shape)

    @property
    def values(self) -> np.ndarray:
        """The values of the entries of ``by_row``, also if all are 1."""
        _, indices, values = self.by_row
        return np.ones(len(indices)) if values is None else values

    @property
    def numbers_in_window(self) -> float:
        """Mean number of values in a window other than 0 and 1."""
        values = self.by_row[2]
        n_numbers = 0 if values is None else np.count_nonzero(values != 1)
        return n_numbers * self.n_offsets / self.n_positions

    @cached_property
    def by_attribute(self) -> SparseArrays:
        """The entries of each attribute, with ascending rows."""
        starts, indices, values = self.by_row
        are_ones = values is None
        shape = self.n_rows, self.n_attributes
        values = np.ones(len(indices), dtype=bool) if are_ones else values
        columns = sparse.csc_array(sparse.csr_array((values, indices, starts), shape=shape))
        return _entries(columns.indptr, columns.indices, None if are_ones else columns.data)

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """Ranges of sequences that threads work on."""
        return list(runs(self.offsets, PART_POSITIONS))

    def within(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets and first rows of some sequences, counted from the first of them."""
        offsets, first_rows = self.offsets[first : last + 1], self.first_rows[first:last]
        return offsets - offsets[0], first_rows - first_rows[0]

    def part_of(self, of_positions: np.ndarray, k: int) -> np.ndarray:
        """Return the rows of part k, given those of all positions; boundary rows are 0."""
        rows = rows_of_positions(*self.within(*self.parts[k]))
        part = np.zeros((rows[-1] + 1, of_positions.shape[1]))
        part[rows] = of_positions[slice(*self.offsets[list(self.parts[k])])]
        return part


def _entries(starts: np.ndarray, indices: np.ndarray, values: np.ndarray | None) -> SparseArrays:
    """Convert the arrays of a sparse matrix to the dtypes that kernels take."""
    starts, indices = starts.astype(np.int64, copy=False), indices.astype(np.int32, copy=False)
    if values is None or (values == 1).all():
        return starts, indices, None
    return starts, indices, np.ascontiguousarray(values, dtype=np.float64)


def _with_boundary_rows(rows: sparse.csr_array, layout: RowLayout) -> SparseArrays:
    """Return the entries of all rows; boundary rows have "outside"."""
    position_rows = layout.rows
    is_boundary = np.ones(layout.n_rows, dtype=bool)
    is_boundary[position_rows] = False
    counts = np.ones(layout.n_rows, dtype=np.int64)
    counts[position_rows] = np.diff(rows.indptr)
    starts = np.zeros(layout.n_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    of_positions = np.repeat(~is_boundary, counts)
    attributes = np.full(starts[-1], rows.shape[1], dtype=np.int32)
    attributes[of_positions] = rows.indices
    values = np.ones(starts[-1], dtype=rows.dtype)
    values[of_positions] = rows.data
    return _entries(starts, attributes, values)


@dataclass
class LinearScores:
    """Scores of sequences as a linear function of the weights, and its transpose.

    Results do not depend on the number of threads.
    """

    table: AttributeMatrix
    layout: WeightLayout
    threads: Threads

    # Scores of labels after labels

    def scores(self, weights: Weights) -> np.ndarray:
        """Compute the scores of pairs of labels, float64 array (n_labels, n_positions, n_labels).

        ``[v, t, u]`` is for label v at position t after label u; at first positions only
        ``[v, t, 0]`` is used.
        """
        table, n_labels = self.table, self.layout.n_labels
        out = np.empty((n_labels, table.n_positions, n_labels))

        def fill(part: tuple[int, int]) -> None:
            rows = self.part_rows(weights, *part)
            _linear.chain_scores(
                rows, weights.transitions, table.offsets, table.first_rows, part, out
            )

        self.threads.map(fill, table.parts)
        return out

    def state_scores(self, weights: Weights) -> np.ndarray:
        """Compute the scores of labels without those of pairs, float64 (n_positions, n_labels)."""
        table = self.table
        out = np.empty((table.n_positions, self.layout.n_labels))

        def fill(part: tuple[int, int]) -> None:
            positions = slice(*table.offsets[list(part)])
            rows = self.part_rows(weights, *part)
            out[positions] = rows[rows_of_positions(*table.within(*part))]

        self.threads.map(fill, table.parts)
        return out

    def gradient(self, residuals: np.ndarray) -> Weights:
        """Convert derivatives with respect to the scores to those with respect to the weights."""
        table, width = self.table, self.layout.width
        return self.gradient_of_rows(
            lambda k, transitions: _linear.chain_residuals(
                residuals, table.offsets, table.first_rows, table.parts[k], width, transitions
            )
        )

    # Scores of labels in rows, without the transitions

    def part_rows(self, weights: Weights, first: int, last: int) -> np.ndarray:
        """Compute the scores of some sequences, in an array that starts with their first row."""
        table, start = self.table, int(self.table.first_rows[first])
        length = table.offsets[last] - table.offsets[last - 1]
        stop = int(table.first_rows[last - 1] + length)
        rows = np.empty((stop - start, self.layout.width))
        _linear.score_rows(table.by_row, table.window, weights.attributes, start, stop, rows)
        return rows

    def gradient_of_rows(self, derivatives: Callable[[int, np.ndarray], np.ndarray]) -> Weights:
        """Compute the derivatives with respect to the weights, a few parts at a time.

        ``derivatives(k, transitions)`` returns those with respect to the scores of the rows of part
        k, 0 for boundary rows, and may write those with respect to the transitions.
        """
        table, layout, out = self.table, self.layout, self.layout.weights()
        transitions = np.zeros((len(table.parts), layout.n_labels + 1, layout.n_labels))
        # Each thread adds to attributes of its own, which have about the same number of entries.
        n, (_, indices, _) = self.threads.n_threads, table.by_row
        sample = np.sort(indices[:: 1 + len(indices) // N_SAMPLES]) if n > 1 else []
        cuts = [int(sample[len(sample) * i // n]) for i in range(1, n)] if len(sample) else []
        firsts = [int(table.first_rows[first]) for first, _ in table.parts]
        at_once = PARTS_PER_THREAD * n if n > 1 else 1
        for k in range(0, len(firsts), at_once):
            some = range(len(firsts))[k : k + at_once]
            found = self.threads.map(lambda k: (firsts[k], derivatives(k, transitions[k])), some)
            add = partial(_linear.add_gradient, table.by_row, table.window, found, out.attributes)
            self.threads.map(add, pairwise([0, *cuts, table.n_attributes]))
        out.transitions[:] = transitions.sum(axis=0)
        return out


@dataclass
class TrainingData(LinearScores):
    """Training or validation data of a linear learner."""

    codes: np.ndarray
    classes: np.ndarray
    constraints: Constraints  # the scores of all other labels must be minus infinity
    # Of each sequence: the mean over its positions of sample weight times weight of the label.
    weights: np.ndarray
    sample_weights: np.ndarray | None = None  # of each position, for reported scores
    candidates: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.offsets = self.table.offsets
        self.mean = WeightedMean(self.sample_weights, self.offsets)

    @property
    def masks(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The allowed labels, and the candidates, as bytes for kernels."""
        masks = self.constraints.allowed, self.candidates
        allowed, candidates = (
            None if mask is None else np.ascontiguousarray(mask).view(np.uint8) for mask in masks
        )
        return allowed, candidates

    def repeated_weights(self) -> np.ndarray | None:
        """Return the weight in training of the sequence of each position; None for ones."""
        if (self.weights == 1).all():
            return None
        return np.repeat(self.weights, np.diff(self.offsets))

    def lattice(self, weights: Weights) -> Lattice:
        """Return the lattice of all sequences under the constraints."""
        scores = self.scores(weights)
        self.constraints.forbid(scores, self.offsets)
        return Lattice(scores, self.offsets, 1, self.threads)

    def bursts(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Cut an order of sequences into parts that kernels process without interruption."""
        lengths = np.append(0, np.cumsum(np.diff(self.offsets)[order]))
        for first, last in runs(lengths, BURST_POSITIONS):
            yield order[first:last]


def scores_of_rows(rows: np.ndarray, transitions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the scores of pairs of labels, given a row for each position and the transitions."""
    n_labels, starts = transitions.shape[1], offsets[:-1]
    out = np.empty((n_labels, len(rows), n_labels))
    _linear.chain_scores(rows, transitions, offsets, starts, (0, len(starts)), out)
    return out


@dataclass(frozen=True)
class RowsLattice:
    """The part of a `StateLattice` that labels short sequences, whose scores have been computed."""

    rows: np.ndarray  # float64 (n_positions, n_labels): scores without transitions
    offsets: np.ndarray
    transitions: np.ndarray

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        rows, starts = self.rows.copy(), self.offsets[:-1]
        StateChains(self.offsets, starts).marginals(rows, self.transitions, 0, len(starts))
        return rows

    def best_codes(self) -> np.ndarray:
        """Return the codes of the best label sequence of each sequence."""
        scores = scores_of_rows(self.rows, self.transitions, self.offsets)
        return Lattice(scores, self.offsets, order=1, threads=Threads(1)).best_codes()


class StateLattice(Lattice):
    """A lattice of a model without transition features, with faster inference.

    Most predictions need the probabilities of labels only, and these do not need the scores of all
    pairs of labels at all positions, which everything else computes.
    """

    order = 1

    def __init__(self, linear: LinearScores, weights: Weights):
        offsets, threads = linear.table.offsets, linear.threads
        vars(self).update(linear=linear, weights=weights, offsets=offsets, threads=threads)

    @cached_property
    def scores(self) -> np.ndarray:
        """The scores of all pairs of labels."""
        return self.linear.scores(self.weights)

    def marginals(self) -> np.ndarray:
        """Return P(label) at every position, (n_positions, n_labels)."""
        table = self.linear.table
        out = np.empty((table.n_positions, self.linear.layout.n_labels))

        def fill(part: tuple[int, int]) -> None:
            first, last = part
            rows, layout = self.linear.part_rows(self.weights, *part), table.within(*part)
            StateChains(*layout).marginals(rows, self.weights.transitions, 0, last - first)
            out[self.offsets[first] : self.offsets[last]] = rows[rows_of_positions(*layout)]

        self.threads.map(fill, table.parts)
        return out

    def log_likelihoods(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of a label sequence for each sequence."""
        table, out = self.linear.table, np.empty(len(self.offsets) - 1)

        def fill(part: tuple[int, int]) -> None:
            first, last = part
            rows = self.linear.part_rows(self.weights, *part)
            of_part = codes[self.offsets[first] : self.offsets[last]]
            chains = StateChains(*table.within(*part), of_part)
            chains.log_likelihoods(rows, self.weights.transitions, 0, last - first, out[first:last])

        self.threads.map(fill, table.parts)
        return out

    def n_best(self, n: int) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the codes and log-probabilities of the n best label sequences of each sequence."""
        paths = Lattice(self.scores, self.offsets, self.order, self.threads).n_best(n)
        # The same numbers as from `log_likelihoods`: large scores round differently there.
        best = self.log_likelihoods(np.concatenate([codes[0] for codes, _ in paths]))
        return [
            (codes, values + (value - values[0]))
            for (codes, values), value in zip(paths, best, strict=True)
        ]
