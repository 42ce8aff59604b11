"""Settings of boosting as values, which training reads in place of an estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.history import History, Stopping
from treecrf.learners.base.validation_metrics import NEG_LOG_LOSS
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.training_scores import TrainingScores
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.start import rounded_linear
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings

# ``max_leaf_nodes="auto"``: the numbers of leaves to choose from. Conjunctions of categories, such
# as characters of a text, are many and rare: on most held-out data of this kind, trees with many
# leaves and a weak penalty were better, and needed fewer iterations.
SMALL = 64
LARGE = 1024
PENALTY_SHARE_OF_LARGE = 0.25
# With fewer training positions, they were no better.
MIN_POSITIONS_OF_LARGE = 8 * LARGE
# Each leaf has a histogram while a tree grows. With more values than this at the offsets of the
# window, those of large trees would take more than half a gigabyte.
MAX_VALUES_OF_LARGE = 1 << 15


def penalty_of_large(l2_regularization: float) -> float:
    """Return the part of the penalty of leaves that counts in large trees.

    Their leaves have less weight.
    """
    return PENALTY_SHARE_OF_LARGE * l2_regularization


@dataclass(frozen=True)
class Trained:
    """Result of training, or of the iterations so far."""

    classes: np.ndarray  # the distinct labels, sorted
    seed: int  # of all random choices; continued training needs it
    encoder: Encoder  # makes the bins that the trees test
    forest: Forest  # trees of all iterations
    start: LinearCRF | None  # model whose scores the trees are added to
    history: History  # objective after each iteration
    max_leaf_nodes: int  # of each tree
    temperature: float = 1.0  # that all scores were divided by after training

    def __str__(self) -> str:
        n_iter = self.forest.n_iter
        trees = f"{n_iter} iteration{'s' * (n_iter != 1)} of trees"
        if self.forest.is_multi_output:
            trees = f"{trees} for all labels"
        if self.forest.transitions is not None:
            trees = f"{trees} with constant transitions"
        if self.start is not None:
            trees = f"{trees}, added to {self.start}"
        return trees if self.temperature == 1 else f"{trees}, at temperature {self.temperature:.3g}"

    def until(self, n_iter: int) -> Trained:
        """Return the first iterations."""
        if self.forest.n_iter <= n_iter:
            return self
        return replace(self, forest=self.forest.copy(n_iter), history=self.history.until(n_iter))

    def divided(self, temperature: float) -> Trained:
        """Return the model with all scores divided by a temperature; the history is as before."""
        if temperature == 1:
            return self
        start = self.start
        if start is not None:
            start = rounded_linear(start, 1 / temperature)
        forest = self.forest.divided(temperature)
        return replace(self, forest=forest, start=start, temperature=temperature)


class ValidationDecoder(Protocol):
    """Predicts validation sequences as the estimator does, for a ``scoring`` that needs it."""

    def predict(
        self, trained: Trained, scores: TrainingScores, data: EncodedPart, n_jobs: int | None
    ) -> np.ndarray:
        """Return codes of labels, or the probabilities of all labels, at all positions."""
        raise NotImplementedError


@dataclass(frozen=True)
class Variant:
    """One of the models that held-out data choose from."""

    start: Any  # an item of ``BoostingSpec.starts``
    kind: ChainKind  # an item of ``BoostingSpec.kinds``
    multi_output: bool = False  # an item of ``BoostingSpec.multi_outputs``
    window: tuple[int, int] = (0, 0)  # an item of ``BoostingSpec.windows``
    max_leaf_nodes: int = SMALL  # an item of ``BoostingSpec.leaves``


@dataclass(frozen=True)
class BoostingSpec:
    """Settings of boosting; they never change, and can be sent to other processes.

    Where the names are the same, they are parameters of the estimator.
    """

    name: str  # of the estimator
    value_name: str  # name of the objective in the progress display
    kind: ChainKind  # that is chosen, or that of a model without a choice
    kinds: tuple[ChainKind, ...]  # to choose from
    window: tuple[int, int]  # that is chosen, or the first one to choose from
    windows: tuple[tuple[int, int], ...]  # to choose from, ascending
    starts: list  # to choose from; see `make_start`
    linear: dict[str, Any]  # parameters of a linear model to start from
    scoring: Any  # a result of `resolved_scoring`
    decoder: ValidationDecoder | None  # None if ``scoring`` follows from the scores
    max_iter: int  # the most, if held-out data end training
    n_iter_unstopped: int  # number of iterations if nothing ends training
    tree_settings: TreeSettings  # without seed and constraints, which depend on the data
    # Whether an iteration has one tree for all labels: what is chosen, or first to choose from.
    multi_output: bool
    multi_outputs: tuple[bool, ...]  # to choose from
    leaves: tuple[int, ...]  # maximum numbers of leaves to choose from, ascending
    sampling: Any
    max_examples: int | str | None
    max_bins: int | str
    missing: str
    monotonic_cst: Any
    interaction_cst: Any
    early_stopping: bool | str
    calibration: str | None
    stopping: Stopping | None  # rule of early stopping, if it is enabled
    warm_start: bool
    class_weight: dict | str | None
    n_jobs: int | None
    verbose: int

    def new_encoder(self) -> Encoder:
        """Return an encoder that has not learned the columns yet."""
        return Encoder(self.window, self.max_bins, self.missing, self.tree_settings.most_leaves)

    @property
    def is_calibrated(self) -> bool:
        """Whether cross-validation chooses a temperature, at which it compares log losses."""
        has_marginals = self.scoring == NEG_LOG_LOSS and self.decoder is None
        return self.calibration is not None and has_marginals

    @property
    def has_own_limit(self) -> bool:
        """Whether early stopping ends by the limit of ``max_iter="auto"`` at the latest."""
        return self.max_iter != self.n_iter_unstopped

    @property
    def n_variants(self) -> int:
        """Number of models to choose from."""
        n_models = len(self.starts) * len(self.kinds) * len(self.multi_outputs)
        return n_models * len(self.windows) * len(self.leaves)

    def within(self, window: tuple[int, int]) -> BoostingSpec:
        """Return the settings with a window that was chosen, for the trees and for the start."""
        if self.windows == (window,):
            return self
        linear = self.linear | {"window": window}
        return replace(self, window=window, windows=(window,), linear=linear)

    def with_leaves(self, max_leaf_nodes: int) -> BoostingSpec:
        """Return the settings with a number of leaves that was chosen."""
        if self.leaves == (max_leaf_nodes,):
            return self
        trees = replace(self.tree_settings, max_leaf_nodes=max_leaf_nodes)
        if max_leaf_nodes != self.leaves[0]:
            trees = replace(trees, l2_regularization=penalty_of_large(trees.l2_regularization))
        return replace(self, leaves=(max_leaf_nodes,), tree_settings=trees)

    def first_variant(self, start: Any, kind: ChainKind) -> Variant:
        """Return the variant of a start and a kind of chains that comes first otherwise."""
        return Variant(start, kind, self.multi_output, self.window, self.leaves[0])

    def of(self, variant: Variant) -> BoostingSpec:
        """Return the settings with a variant that was chosen."""
        return replace(
            self.within(variant.window).with_leaves(variant.max_leaf_nodes),
            starts=[variant.start],
            kind=variant.kind,
            kinds=(variant.kind,),
            multi_output=variant.multi_output,
            multi_outputs=(variant.multi_output,),
        )


@dataclass(frozen=True)
class BoostingSetup:
    """Everything but the data that scores and the growth of trees depend on; it never changes."""

    spec: BoostingSpec
    classes: np.ndarray
    encoder: Encoder
    tree_settings: TreeSettings  # with the seed and the constraints on the trees

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.classes)
