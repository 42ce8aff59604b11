"""Samples of the examples that trees are fitted to, one list per label.

An example is a label at a position in a context. Its residual is the partial derivative of an
objective with respect to its score. See `_sampling` for how examples are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treecrf.chains.contexts import chains_of
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.likelihood import ExampleTable
from treecrf.chains.partial_labels import unknown_labels
from treecrf.chains.sampled import _samples, _sampling
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.hashing import mix
from treecrf.utils.threads import Threads

# Residuals of examples are multiples of this unit.
EXAMPLE_UNIT = 2.0**-24
# Sums of sizes are exact in this unit.
SUM_UNIT = 2.0**-30
# No example is kept for its residual at this threshold, whose square is finite.
KEEP_NONE = 1e100
# Lower bounds on the ratio of successive sizes: the initial guess, and the highest value used.
PROBABLE_DECREASE = 0.7
SLOWEST_DECREASE = 0.95
# First-order boosting: highest probability of keeping an example of weight 1 whose residual is 0.
FLOOR = 1 / 16
# In first order, the maximum number of examples that are kept only for their weight, relative to
# the number that may be kept for their residuals.
WEIGHT_FRACTION = 1 / 4
# Maximum sum of the absolute residuals of a position of weight 1.
MAX_RESIDUALS = 2.0


class ExampleList(NamedTuple):
    """Examples of a label, in the order of their positions and contexts."""

    positions: np.ndarray  # int32 (n,)
    contexts: np.ndarray  # int32 (n,)
    # uint8 (n, order), the label at each lag, the number of labels for none. If every position has
    # one given context, there are no columns.
    labels: np.ndarray
    values: np.ndarray  # float64 (n, 2), residuals and curvatures / probability of being kept
    counts: np.ndarray | None  # float64 (n,), number of examples that each one stands for
    sums: tuple[float, float, float]  # of the absolute residuals, curvatures and counts

    @property
    def residuals(self) -> np.ndarray:
        """Residuals, a view of ``values``."""
        return self.values[:, 0]

    @property
    def curvatures(self) -> np.ndarray:
        """Curvatures, a view of ``values``."""
        return self.values[:, 1]


class RawSample:
    """Examples that are not weighted yet, so that ``mu`` can still be increased."""

    def __init__(self, samples: list[_samples.Sample], mu: float, floor: float):
        self.samples = samples  # of consecutive runs of chains
        self.mu = mu
        self.floor = floor  # relative to mu

    def lists(
        self,
        mu: float,
        threads: Threads,
        unit: float = EXAMPLE_UNIT,
        counted: bool = False,
        release: bool = False,
    ) -> list[ExampleList]:
        """Return the weighted examples of each label, as if they were drawn with ``mu``.

        Their values and counts are rounded to multiples of ``unit``. ``release`` removes them from
        the samples, label by label, to save memory.
        """
        if mu < self.mu:
            raise ValueError(f"mu={mu}; expected at least {self.mu}, that of the draw")
        return threads.map(
            lambda label: ExampleList(
                *_samples.collect(self.samples, label, mu, self.floor * mu, unit, counted, release)
            ),
            range(self.samples[0].n_labels),
        )


def mu_for(mu: float, size: int, max_examples: int | None) -> float:
    """Raise mu until the expected number of examples is at most ``max_examples``.

    ``size`` is the sum of the absolute residuals of all examples, in units of 2**-30. In first
    order, examples that are kept for their weight alone do not count, see `floor_for`.
    """
    if max_examples is None:
        return mu
    return max(mu, size * SUM_UNIT / max_examples)


def floor_for(mu: float, max_examples: int | None, total: float, n_examples: int) -> float:
    """Return the probability that an example of weight 1 without a residual is kept.

    On average, at most a quarter as many examples are kept for their weight alone as can be for
    their residuals: ``max_examples``, or all that a threshold of ``mu`` admits. Otherwise they
    would be nearly all examples if labels are many, since most residuals are tiny. ``total`` is the
    sum of the weights of all positions, each of which has ``n_examples``.
    """
    if total == 0:
        return FLOOR
    most = MAX_RESIDUALS * total / mu
    if max_examples is not None:
        most = min(most, max_examples)
    return min(FLOOR, WEIGHT_FRACTION * most / (total * n_examples))


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


# Kernels compute the random numbers of so many contexts more.
PADDING = 64


class Sampler:
    """Samples examples; the result does not depend on the order of the sequences."""

    def __init__(
        self,
        offsets: np.ndarray,
        order: int,
        threads: Threads,
        keys: np.ndarray,
        label_ranks: np.ndarray | None = None,  # numbers of the labels in random choices
    ):
        self.order = order
        self.label_ranks = label_ranks
        self.chains = chains_of(offsets, order)
        self.threads = threads
        self.runs = threads.parts(self.chains)  # runs of chains that threads share
        self.keys = keys
        if not order:
            self.keys = mix(np.repeat(keys, np.diff(offsets)), positions_in_sequences(offsets))

    def _numbers(self, n_labels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of labels and of contexts in random choices."""
        ranks = self.label_ranks
        if ranks is None:
            ranks = np.arange(n_labels)
        return ranks.astype(np.uint32), context_ranks(ranks, order)


def context_ranks(label_numbers: np.ndarray, order: int) -> np.ndarray:
    """Number the contexts of each depth by numbers of labels; uint64 (order + 1, n_contexts).

    The same contexts have the same numbers if all labels are renamed. Rows are longer by some
    zeros, which kernels read.
    """
    n_labels = len(label_numbers)
    contexts = np.arange(n_labels**order)
    numbers = np.zeros((order + 1, len(contexts) + PADDING), dtype=np.uint64)
    for depth in range(1, order + 1):
        numbers[depth] = numbers[depth - 1]
        places = n_labels ** (depth - 1)
        lag_numbers = label_numbers[contexts // places % n_labels]
        numbers[depth, : len(contexts)] += (lag_numbers * places).astype(np.uint64)
    return numbers


class LikelihoodSampler(Sampler):
    """Samples the examples of the log-likelihood during forward-backward."""

    def __init__(
        self,
        offsets: np.ndarray,
        codes: np.ndarray,
        order: int,
        threads: Threads,
        keys: np.ndarray,
        bound_share: float | None = 1.0,  # see `_curvature`; None in first order
        candidates: np.ndarray | None = None,  # if given, scores are a `FactoredScores`
        label_ranks: np.ndarray | None = None,
    ):
        super().__init__(offsets, order, threads, keys, label_ranks)
        self.codes = codes
        self.candidates = candidates
        self.likelihoods = np.zeros(len(self.chains) - 1)
        unknown = None
        if candidates is not None:
            has_unknown = np.logical_or.reduceat(unknown_labels(candidates), self.chains[:-1])
            unknown = has_unknown.view(np.uint8)
        self._kernel = _sampling.LikelihoodKernel(
            self.chains,
            codes,
            self.keys,
            order,
            bound_share is not None,
            bound_share or 0.0,
            unknown,
        )

    def sample(
        self,
        scores: FactoredScores | np.ndarray,
        iteration: int,
        seed: int,
        mu: float,
        weights: np.ndarray | None = None,
        floor: float = 0.0,
    ) -> list[_samples.Sample]:
        """Draw the examples of each run of chains; sets ``likelihoods``.

        All examples are kept that have an absolute residual, multiplied by the weight of the
        position, of at least ``mu``. In first order, ``floor`` is the probability that an example
        of weight 1 without a residual is kept.
        """
        key = int(mix(seed, iteration))
        n_labels = scores.n_labels if isinstance(scores, FactoredScores) else len(scores)
        numbers = self._numbers(n_labels, self.order)
        restricted = None
        if self.candidates is not None:
            restricted = scores.restricted(self.candidates)
        return self.threads.map(
            lambda run: self._kernel.sample(
                scores, *run, key, numbers, mu, floor * mu, weights, self.likelihoods, restricted
            ),
            self.runs,
        )


class TableSampler(Sampler):
    """Samples the examples of objectives that compute tables of residuals."""

    def sample(
        self, examples: ExampleTable, iteration: int, seed: int, mu: float, floor: float = 0.0
    ) -> list[_samples.Sample]:
        """Draw the examples of each run of chains, as `LikelihoodSampler.sample`."""
        key = int(mix(seed, iteration))
        n_labels, _, n_contexts = examples.residuals.shape
        order = self.order
        if n_contexts != n_labels**order:  # every position has one given context
            order = 0
        table = examples.residuals, examples.curvature, examples.counts
        numbers = self._numbers(n_labels, order)
        return self.threads.map(
            lambda run: _sampling.sample_table(
                *table, order, self.chains, self.keys, *run, key, numbers, mu, floor * mu
            ),
            self.runs,
        )
