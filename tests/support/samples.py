"""Samples of examples as tables, for tests of the samplers."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from treecrf.chains.contexts import true_contexts
from treecrf.chains.sampled.sampling import EXAMPLE_UNIT, FLOOR, RawSample
from treecrf.utils.threads import Threads

TINY = 2.0**-40  # as mu, keeps all examples
FIELDS = ["positions", "contexts", "labels", "values", "counts"]
Draw = namedtuple("Draw", "lists size")


def keys_of(offsets):
    return np.arange(1, len(offsets), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def floor_of(bound_share):
    """The probability that an example of weight 1 without a residual is kept."""
    return FLOOR if bound_share is None else 0.0


def draw(sampler, scores, iteration, seed, mu, *weights, floor=0.0):
    """Draw examples, and weight them."""
    samples = sampler.sample(scores, iteration, seed, mu, *weights, floor=floor)
    raw = RawSample(samples, mu, floor)
    return Draw(raw.lists(mu, Threads(None)), size_of(samples))


def size_of(samples):
    """The sum of the absolute residuals of all examples, in units."""
    return sum(sample.size for sample in samples)


def exists(parts):
    """Whether each position has each context; bool array (1, n_positions, n_contexts)."""
    codes = np.zeros(parts.n_positions, dtype=np.int64)
    depths, _ = true_contexts(parts.offsets, codes, parts.n_labels, parts.order)
    return (np.arange(parts.n_contexts) < parts.n_labels ** depths[:, None])[None]


def as_tables(lists, parts, field):
    """Tables of a field of the examples, 0 where there is none."""
    out = np.zeros((parts.n_labels, parts.n_positions, parts.n_contexts))
    for label, examples in enumerate(lists):
        out[label, examples.positions, examples.contexts] = getattr(examples, field)
    return out


def check_unbiased(draws, parts, tables, weights, mu, first_order):
    """Check that the means over many draws are those of all examples, within their deviation.

    ``tables`` are the residuals and curvatures of all examples, without weights.
    """
    residuals, curvatures = (table * weights[:, None] for table in tables)
    sizes = np.abs(residuals)
    if first_order:
        sizes = np.hypot(sizes, mu / 16 * weights[:, None] * exists(parts))
    q = np.minimum(sizes / mu, 1)
    for field, expected in ("residuals", residuals), ("curvatures", curvatures):
        found = np.mean([as_tables(lists, parts, field) for lists in draws], axis=0)
        error = np.abs(found - expected)
        # An example that is kept with probability q has a variance below its square / q.
        deviation = np.sqrt(expected**2 * (1 / np.maximum(q, 1e-12) - 1) / len(draws))
        assert (error <= 5 * deviation + EXAMPLE_UNIT).mean() > 0.99
        assert (error <= 7 * deviation + EXAMPLE_UNIT).all()


def check_same(one, other):
    for a, b in zip(one, other, strict=True):
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field), field)
