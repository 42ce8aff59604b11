"""Settings of boosting on samples."""

from __future__ import annotations

from dataclasses import dataclass

from treecrf.learners.boosted.spec import BoostingSetup
from treecrf.trees.forest import Forest


@dataclass(frozen=True)
class SampledSetup(BoostingSetup):
    """Everything but the data that shards and the growth of trees depend on; it never changes."""

    # Absolute residuals of at least this size are always sampled. It rises if there would be more
    # than ``max_examples``.
    threshold: float
    max_examples: int | None  # in an iteration, on average; None is no limit
    empty: Forest  # without trees
    n_sequences: int  # of the training data
    weight: float  # sum of the position weights of the training data
    halves_steps: bool  # whether steps that lower the objective are halved
    # Largest sample weights of the training and of the validation data; None if all are 1.
    largest_weights: tuple[float | None, float | None]

    @property
    def tested_labels(self) -> int:
        """Number of previous labels that trees may test: none with constant transitions."""
        if self.spec.kind.constant_transitions:
            return 0
        return self.empty.order
