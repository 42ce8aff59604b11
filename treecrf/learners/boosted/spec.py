"""Settings of boosting as a value, which training reads in place of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.start import LinearStart
from treecrf.learners.boosted.tree_constraints import read_constraints
from treecrf.learners.iterations import History, Stopping
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth

# Bounds the leaf values of Newton steps, which can be far too large if the curvature is small.
MAX_NEWTON_STEP = 4.0


@dataclass(frozen=True)
class Trained:
    """Result of training, or of the iterations so far."""

    classes: np.ndarray
    seed: int
    encoder: Encoder
    forest: Forest
    start: LinearStart | None  # model whose scores the trees are added to
    history: History

    def __str__(self) -> str:
        n_iter = self.forest.n_iter
        trees = f"{n_iter} iteration{'s' * (n_iter != 1)} of trees"
        return trees if self.start is None else f"{trees}, added to {self.start.estimator}"

    def kept(self, stopping: Stopping | None) -> Trained:
        """Return the best iteration if there is early stopping, else the last."""
        if stopping is None or not self.history.validation:
            return self
        n_kept = self.history.best()
        return replace(self, forest=self.forest.copy(n_kept), history=self.history.until(n_kept))


@dataclass(frozen=True)
class BoostingSpec:
    """Settings of boosting; they never change, and can be sent to other processes.

    Where the names are the same, they are parameters of the estimator.
    """

    name: str  # of the estimator
    value_name: str  # name of the objective in the progress display
    kind: ChainKind
    window: tuple[int, int]
    starts: list  # to choose from, see `treecrf.learners.boosted.start`
    linear: dict[str, Any]  # parameters of a linear model to start from
    scoring: Any  # a result of `scoring_of`
    # Predicts validation sequences as `base.predicted_by`; None if ``scoring`` does not need it.
    predict: Callable[..., np.ndarray] | None
    max_iter: int
    max_leaf_nodes: int
    max_depth: int | None
    l2_regularization: float
    learning_rate: float
    min_gain: float
    min_samples_leaf: int
    max_features: float
    max_features_per_tree: float
    subsample: float
    sampling: Any
    max_examples: int | None
    max_bins: int
    missing: str
    monotonic_cst: Any
    interaction_cst: Any
    early_stopping: bool | str
    validation_fraction: float
    n_iter_no_change: int
    tol: float
    warm_start: bool
    class_weight: dict | str | None
    n_jobs: int | None
    verbose: int

    @property
    def holds_out(self) -> bool:
        """Whether early stopping needs validation data, which are otherwise held out."""
        return self.early_stopping not in (False, "auto")

    def stopping(self) -> Stopping | None:
        """Return the rule of early stopping, if it is enabled."""
        return Stopping(self.n_iter_no_change, self.tol) if self.early_stopping else None

    def encoder(self) -> Encoder:
        """Return an encoder that has not learned from data yet."""
        return Encoder(self.window, self.max_bins, self.missing)

    def growth(self, encoder: Encoder, classes: np.ndarray, seed: int) -> Growth:
        """Return the settings of the growth of trees."""
        monotonic, interactions, constraints = self.monotonic_cst, self.interaction_cst, None
        if monotonic is not None or interactions is not None:
            constraints = read_constraints(monotonic, interactions, encoder, classes)
        return Growth(
            max_leaf_nodes=self.max_leaf_nodes,
            l2_regularization=self.l2_regularization,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            min_gain=self.min_gain,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_features_per_tree=self.max_features_per_tree,
            subsample=self.subsample,
            max_leaf_value=MAX_NEWTON_STEP if self.kind.has_curvature else np.inf,
            seed=seed,
            constraints=constraints,
        )
