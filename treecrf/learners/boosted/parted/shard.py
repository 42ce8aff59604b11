"""Shards: parts of the data with their scores, to which trees are added and examples drawn.

An iteration of sampled training needs one exchange. Each shard adds the latest trees to its scores
and draws examples. They are joined in one place, where trees grow on them, see `booster`. The state
of a shard is a function of its parts and of the first iterations of the forest. Every step says
which iterations it expects, so a step can be repeated, and a shard that was lost can be made again
from its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.sampled import Sampling
from treecrf.trees.growing.growth import Growth


@dataclass(frozen=True)
class ShardSetup:
    """Everything but the data that shards and the growth of trees depend on; it never changes.

    Attributes
    ----------
    estimator : BoostedSequenceClassifier
        Parameters, not fitted.
    classes : array (n_labels,)
        The sorted labels.
    encoder : Encoder
    growth : Growth
    sampling : Sampling
    totals : Totals
        Sums over all parts.
    """

    estimator: Any
    classes: np.ndarray
    encoder: Encoder
    growth: Growth
    sampling: Sampling
    totals: Totals


@dataclass(frozen=True)
class Totals:
    """Sums over the positions of all parts."""


@dataclass(frozen=True)
class DrawRequest:
    """Which examples a shard draws.

    Attributes
    ----------
    mu : float
        Examples with residuals of this size are all kept, smaller ones with a probability
        proportional to them.
    floor : float
        Probability that an example of weight 1 without a residual is kept.
    last_chosen : int or None
        Sequences whose hash in this iteration is larger are not in its subsample.
    """

    mu: float
    floor: float
    last_chosen: int | None


@dataclass(frozen=True)
class Step:
    """A step of training; every shard carries out the same one.

    Attributes
    ----------
    first, n_iter : int
        A shard has at least the iterations before ``first``. Its results are those under the first
        ``n_iter`` iterations.
    trees : dict of arrays
        Iterations ``first`` to ``n_iter - 1``, as from `Forest.pack`.
    request : DrawRequest or None
        The examples that iteration ``n_iter`` grows on; None if no trees grow.
    learning_rate : float
        Factor of the leaf values of the trees that grow.
    wants_value, wants_validation : bool
        Whether to compute the value of the objective, and of the validation data.
    """

    first: int
    n_iter: int
    trees: dict[str, np.ndarray]
    request: DrawRequest | None
    learning_rate: float
    wants_value: bool = False
    wants_validation: bool = False


@dataclass(frozen=True)
class Behind:
    """Answer of a shard that lacks trees: it has this number of iterations."""

    n_iter: int


@dataclass(frozen=True)
class Drawn:
    """Answer of a shard to a step: arrays that are cheap to pickle."""


class Shard:
    """Parts of the data with scores, in one process.

    The object can be pickled and copied. Its methods may be called from several threads.

    Parameters
    ----------
    setup : ShardSetup
    parts : dict of EncodedPart
        By their numbers among all parts.
    n_threads : int, default=1
    """

    def __init__(self, setup: ShardSetup, parts: dict[int, Any], n_threads: int = 1):
        self.setup = setup
        self.parts = parts
        self.n_threads = n_threads
        self.n_iter = 0

    def run(self, step: Step) -> Drawn | Behind:
        """Add the trees that are new, and draw examples; a repeated step has the same result."""
        raise NotImplementedError
