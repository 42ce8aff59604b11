"""Samples of the examples that trees are fitted to, one list per label.

An example is a label at a position in a context. Its residual is the partial derivative of an
objective with respect to its score. See `_sampling` for how examples are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treecrf.chains import _sampling
from treecrf.chains.lattice import chains_of
from treecrf.chains.partial_labels import unknown_labels
from treecrf.chains.score_parts import ScoreParts
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.exact import exact_sum, rounded
from treecrf.utils.hashing import mix
from treecrf.utils.threads import Threads

# Residuals of examples are multiples of this unit.
EXAMPLE_UNIT = 2.0**-24
# Sums of sizes are exact in this unit.
SUM_UNIT = 2.0**-30
# No example is kept for its residual at this threshold, whose square is finite.
KEEP_NONE = 1e100
# Lower bounds on the ratio of successive sizes: the initial guess, and the highest value used.
PROBABLE_DECREASE, SLOWEST_DECREASE = 0.7, 0.95
# In first order, the size of an example without a residual, relative to mu, is at most this one.
FLOOR = 1 / 16
# In first order, the most examples that are kept for their weight alone, relative to the number
# that may be kept for their residuals.
WEIGHT_FRACTION = 1 / 4
# At least this number of examples takes megabytes before they are weighted.
MANY_EXAMPLES = 1 << 16
# Maximum sum of the absolute residuals of a position of weight 1.
MAX_RESIDUALS = 2.0


@dataclass(frozen=True)
class ExampleList:
    """Examples of a label, in the order of their positions and contexts."""

    positions: np.ndarray  # int32 (n,)
    contexts: np.ndarray  # int32 (n,)
    # uint8 (n, order), the label at each lag, the number of labels for none. If every position has
    # one given context, there are no columns.
    labels: np.ndarray
    values: np.ndarray  # float64 (n, 2), residuals and curvatures / probability of being kept
    counts: np.ndarray | None  # float64 (n,), number of examples that each one stands for

    @property
    def residuals(self) -> np.ndarray:
        """Residuals, a view of ``values``."""
        return self.values[:, 0]

    @property
    def curvatures(self) -> np.ndarray:
        """Curvatures, a view of ``values``."""
        return self.values[:, 1]


@dataclass(frozen=True)
class Draw:
    """Examples that were drawn at some scores."""

    lists: list[ExampleList]  # for each label
    mu: float  # residuals of this size and larger ones are all kept
    # Sum of the absolute residuals of all examples, in units of 2**-30. On average, at most
    # ``size / mu`` examples are kept; in first order, some more.
    size: int
    value: float = np.nan  # of the objective per position, if it was computed


@dataclass(frozen=True)
class ExampleTable:
    """All examples, before some are drawn."""

    residuals: np.ndarray  # with n_contexts = 1 and an order above 0, each position has one context
    curvature: np.ndarray | None = None
    counts: np.ndarray | None = None  # without a curvature, examples that a position counts as

    def weighted(self, weights: np.ndarray | None) -> ExampleTable:
        """Multiply the examples by weights of their positions; None stands for ones."""
        if weights is None:
            return self
        of_positions = weights[None, :, None]
        return ExampleTable(
            rounded(self.residuals * of_positions),
            None if self.curvature is None else rounded(self.curvature * of_positions),
            weights if self.counts is None else rounded(self.counts * weights, np.ceil),
        )

    def of_label(self, k: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return the residuals, the curvature and the counts for the tree of a label."""
        return (
            self.residuals[k],
            None if self.curvature is None else self.curvature[k],
            self.counts,
        )


class RawDraw:
    """Examples that are not weighted yet, so that ``mu`` can still be increased."""

    def __init__(self, samples: list[_sampling.Sample], mu: float, floor: float):
        self.samples = samples  # of consecutive parts of the sequences
        self.mu = mu
        self.floor = floor  # relative to mu
        self.size = sum(sample.size for sample in samples)

    def lists(
        self,
        mu: float,
        threads: Threads,
        unit: float = EXAMPLE_UNIT,
        counted: bool = False,
        release: bool = False,
    ) -> list[ExampleList]:
        """Return the weighted examples of each label, as if they were drawn with ``mu``.

        Their residuals and curvatures are rounded to multiples of ``unit``. ``release`` removes
        them from the samples, label by label, to save memory.
        """
        if mu < self.mu:
            raise ValueError(f"mu={mu}; expected at least {self.mu}, that of the draw")
        return threads.map(
            lambda label: ExampleList(
                *_sampling.collect(self.samples, label, mu, self.floor * mu, unit, counted, release)
            ),
            range(self.samples[0].n_labels),
        )


def mu_for(mu: float, size: int, max_examples: int | None) -> float:
    """Raise mu until the expected number of examples is at most ``max_examples``.

    ``size`` is that of a `Draw`. In first order, examples that are kept for their weight alone do
    not count, see `floor_for`.
    """
    return mu if max_examples is None else max(mu, size * SUM_UNIT / max_examples)


def floor_for(
    mu: float, max_examples: int | None, total: float, n_examples: int, floor: float = FLOOR
) -> float:
    """Return the probability that an example of weight 1 without a residual is kept.

    On average, at most a quarter as many examples are kept for their weight alone as can be for
    their residuals: ``max_examples``, or all that a threshold of ``mu`` admits. Otherwise they
    would be nearly all examples if labels are many, since most residuals are tiny. ``total`` is the
    sum of the weights of all positions, each of which has ``n_examples``.
    """
    if total == 0:
        return floor
    most = MAX_RESIDUALS * total / mu
    if max_examples is not None:
        most = min(most, max_examples)
    return min(floor, WEIGHT_FRACTION * most / (total * n_examples))


def guess_for(
    mu: float, size: int, max_examples: int | None, decrease: float = PROBABLE_DECREASE
) -> float:
    """Return a threshold that is probably below that of the next draw; ``size`` is the latest."""
    return max(mu, decrease * mu_for(mu, size, max_examples))


def probable_decrease(before: int, size: int) -> float:
    """Return a probable lower bound of the next size relative to the latest, given two sizes.

    Sizes decrease ever more slowly, as long as the learning rate stays the same.
    """
    if before == 0:
        return PROBABLE_DECREASE
    return min(SLOWEST_DECREASE, max(PROBABLE_DECREASE, (size / before) ** 2))


class Sampler:
    """Samples examples; the result does not depend on the order of the sequences."""

    def __init__(
        self,
        offsets: np.ndarray,
        order: int,
        threads: Threads,
        keys: np.ndarray,
        curved: bool,  # otherwise the curvature of an example is the weight of its position
        floor: float = FLOOR,  # see `floor_for`
    ):
        self.order = order
        self.n_positions = int(offsets[-1])
        self.chains = chains_of(offsets, order)
        self.threads = threads
        self.parts = threads.parts(self.chains)
        self.keys = keys if order else _keys_of_positions(keys, offsets)
        self.floor = 0.0 if curved else floor
        self._size: int | None = None

    def floor_for(
        self, mu: float, max_examples: int | None, weights: np.ndarray | None, n_examples: int
    ) -> float:
        """Return the probability that an example of weight 1 without a residual is kept."""
        if self.floor == 0:
            return self.floor
        total = self.n_positions if weights is None else exact_sum(weights)
        return floor_for(mu, max_examples, total, n_examples, self.floor)

    def _draw(
        self,
        sample: Callable[[float], list[_sampling.Sample]],
        floor: float,
        mu: float,
        max_examples: int | None,
        counted: bool,
    ) -> Draw:
        """Draw at most the expected number of examples, with a ``sample`` for each threshold."""
        raw, mu = self._draw_at_most(lambda mu: RawDraw(sample(mu), mu, floor), mu, max_examples)
        lists = raw.lists(mu, self.threads, counted=counted, release=True)
        if sum(len(examples.positions) for examples in lists) >= MANY_EXAMPLES:
            self.threads.release_memory()
        return Draw(lists, mu, raw.size)

    def _draw_at_most(
        self,
        draw: Callable[[float], RawDraw],
        mu: float,
        max_examples: int | None,
    ) -> tuple[RawDraw, float]:
        """Draw examples, and raise mu until the expected number is at most ``max_examples``.

        The threshold follows from the size of all examples, which is known only afterwards. To use
        little memory, the draw has a threshold that is probably below it. The result does not
        depend on this guess.
        """
        if max_examples is None:
            return draw(mu), mu
        if self._size is None:
            self._size = draw(KEEP_NONE).size
            guess = mu_for(mu, self._size, max_examples)
        else:
            guess = guess_for(mu, self._size, max_examples)
        raw = draw(guess)
        self._size = raw.size
        needed = mu_for(mu, raw.size, max_examples)
        return (raw if needed >= guess else draw(needed)), needed


class LikelihoodSampler(Sampler):
    """Examples of the log-likelihood, drawn during forward-backward."""

    def __init__(
        self,
        offsets: np.ndarray,
        codes: np.ndarray,
        order: int,
        threads: Threads,
        keys: np.ndarray,
        bound_share: float | None = 1.0,  # see `_curvature`; None in first order
        floor: float = FLOOR,
        candidates: np.ndarray | None = None,  # if given, scores are a `ScoreParts`
    ):
        super().__init__(offsets, order, threads, keys, bound_share is not None, floor)
        self.codes = codes
        self.candidates = candidates
        self.likelihoods = np.zeros(len(self.chains) - 1)
        unknown = None
        if candidates is not None:
            of_chains = np.logical_or.reduceat(unknown_labels(candidates), self.chains[:-1])
            unknown = of_chains.view(np.uint8)
        self._kernel = _sampling.LikelihoodKernel(
            self.chains,
            codes,
            self.keys,
            order,
            bound_share is not None,
            bound_share or 0.0,
            unknown,
        )

    def draw(
        self,
        scores: ScoreParts | np.ndarray,
        iteration: int,
        seed: int,
        mu: float,
        weights: np.ndarray | None = None,
        max_examples: int | None = None,
        counted: bool = False,
    ) -> Draw:
        """Draw examples at some scores: all with an absolute residual of at least ``mu``.

        ``weights`` of positions multiply the residuals. ``max_examples`` may increase ``mu``.
        """
        n_labels = scores.n_labels if isinstance(scores, ScoreParts) else len(scores)
        floor = self.floor_for(mu, max_examples, weights, n_labels ** (self.order + 1))
        draw = self._draw(
            lambda mu: self.sample(scores, iteration, seed, mu, weights, floor),
            floor,
            mu,
            max_examples,
            counted,
        )
        return replace(draw, value=exact_sum(self.likelihoods) / len(self.codes))

    def sample(
        self,
        scores: ScoreParts | np.ndarray,
        iteration: int,
        seed: int,
        mu: float,
        weights: np.ndarray | None = None,
        floor: float | None = None,
    ) -> list[_sampling.Sample]:
        """Draw the examples of each part of the sequences; sets ``likelihoods``."""
        key = int(mix(seed, iteration))
        floor = (self.floor if floor is None else floor) * mu
        restricted = None if self.candidates is None else scores.restricted(self.candidates)
        return self.threads.map(
            lambda part: self._kernel.sample(
                scores, *part, key, mu, floor, weights, self.likelihoods, restricted
            ),
            self.parts,
        )


class TableSampler(Sampler):
    """Samples the examples of objectives that compute tables of residuals."""

    def draw(
        self,
        examples: ExampleTable,
        iteration: int,
        seed: int,
        mu: float,
        max_examples: int | None = None,
        counted: bool = False,
    ) -> Draw:
        """Draw examples, as `LikelihoodSampler.draw`."""
        n_labels, _, n_contexts = examples.residuals.shape
        floor = self.floor_for(mu, max_examples, examples.counts, n_labels * n_contexts)
        return self._draw(
            lambda mu: self.sample(examples, iteration, seed, mu, floor),
            floor,
            mu,
            max_examples,
            counted,
        )

    def sample(
        self,
        examples: ExampleTable,
        iteration: int,
        seed: int,
        mu: float,
        floor: float | None = None,
    ) -> list[_sampling.Sample]:
        """Draw the examples of each part of the sequences."""
        key = int(mix(seed, iteration))
        n_labels, _, n_contexts = examples.residuals.shape
        order = self.order if n_contexts == n_labels**self.order else 0
        table = examples.residuals, examples.curvature, examples.counts
        floor = (self.floor if floor is None else floor) * mu
        return self.threads.map(
            lambda part: _sampling.sample_table(
                *table, order, self.chains, self.keys, *part, key, mu, floor
            ),
            self.parts,
        )


def _keys_of_positions(keys: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return mix(np.repeat(keys, np.diff(offsets)), positions_in_sequences(offsets))
