"""Maximum-entropy Markov models that discover features of the positions ahead."""

from __future__ import annotations

import numbers
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from treecrf import future_state
from treecrf.alternation import Alternation, Phase, Plan
from treecrf.bags import DIRECTIONS
from treecrf.base import Labeled, report_to
from treecrf.boosting import Booster, History, Validation
from treecrf.discovery import Search
from treecrf.encoding import Encoder
from treecrf.forest import Forest
from treecrf.future_encoding import FutureEncoder
from treecrf.memm import LocalClassifier
from treecrf.progress import Progress
from treecrf.threads import Threads

# What ``bag_size="auto"`` chooses from; None reaches to the end.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, None)


class FutureFeatureMEMM(LocalClassifier):
    """Maximum-entropy Markov model with features discovered in bags of future positions."""

    _parameter_constraints: ClassVar[dict] = {
        **LocalClassifier._parameter_constraints,
        "bag_size": [
            Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto", "to_end"})
        ],
        "bag_direction": [StrOptions(set(DIRECTIONS))],
        "max_future_features": [Interval(numbers.Integral, 0, None, closed="left")],
        "initial_score": [Interval(numbers.Real, -30, 30, closed="both")],
        "initial_effect": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_bins": [Interval(numbers.Integral, 2, 254, closed="both")],
        "instance_max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "instance_max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
        "instance_l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "multiclass": [StrOptions({"all", "best", "shared"})],
    }  # fmt: skip

    # There is no way back into the middle of the alternation.
    warm_start = False

    def __init__(
        self,
        *,
        order=1,
        window=0,
        bag_size="auto",
        bag_direction="future",
        max_future_features=10,
        initial_score=-5.0,
        initial_effect=0.2,
        n_bins=20,
        multiclass="all",
        max_iter=500,
        max_leaf_nodes=20,
        l2_regularization=40.0,
        learning_rate=1.0,
        second_order=False,
        instance_max_iter=20,
        instance_max_leaf_nodes=20,
        instance_l2_regularization=100.0,
        min_gain=0.0,
        min_samples_leaf=1,
        max_features=1.0,
        subsample=1.0,
        max_bins=255,
        missing="weighting",
        categorical_features="from_dtype",
        decoding="marginal",
        beam_width=10,
        cost_matrix=None,
        transitions=None,
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=5,
        tol=1e-4,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.order = order
        self.window = window
        self.bag_size = bag_size
        self.bag_direction = bag_direction
        self.max_future_features = max_future_features
        self.initial_score = initial_score
        self.initial_effect = initial_effect
        self.n_bins = n_bins
        self.multiclass = multiclass
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate
        self.second_order = second_order
        self.instance_max_iter = instance_max_iter
        self.instance_max_leaf_nodes = instance_max_leaf_nodes
        self.instance_l2_regularization = instance_l2_regularization
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.subsample = subsample
        self.max_bins = max_bins
        self.missing = missing
        self.categorical_features = categorical_features
        self.decoding = decoding
        self.beam_width = beam_width
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _boost(
        self,
        encoder: Encoder,
        forest: Forest,
        classes: np.ndarray,
        training: Labeled,
        held_out: Labeled | None,
        seed: int,
    ) -> tuple[Encoder, History]:
        most = (self.max_future_features + 1) * (self.max_iter + 1)
        with (
            Threads(self.n_jobs) as threads,
            Progress(self.verbose, 0, most, type(self).__name__) as progress,
        ):

            def start(encoder: FutureEncoder, forest: Forest) -> tuple[Booster, Validation | None]:
                return (
                    self._booster(encoder, forest, classes, training, seed, threads),
                    self._validation(encoder, classes, held_out, threads),
                )

            phase = Phase(self.max_iter, self._stopping())
            alternation = Alternation(self._plan(), phase, start, report_to(progress))
            state = alternation.run(encoder, forest)
        forest.trees[:] = state.forest.trees
        return state.encoder, state.history

    def _plan(self) -> Plan:
        sizes = {"auto": SIZES, "to_end": (None,)}.get(self.bag_size, (self.bag_size,))
        return Plan(
            sizes=sizes,
            direction=self.bag_direction,
            max_features=self.max_future_features,
            multiclass=self.multiclass,
            n_bins=self.n_bins,
            max_leaf_nodes=self.instance_max_leaf_nodes,
            l2_regularization=self.instance_l2_regularization,
            search=Search(self.initial_score, self.initial_effect, self.instance_max_iter),
        )

    def _encoder_state(self) -> tuple[dict, dict[str, np.ndarray]]:
        return future_state.state_of(self._encoder)

    def _restored_encoder(self, values: dict, arrays: dict[str, np.ndarray]) -> Encoder:
        base = super()._restored_encoder(values, arrays)
        return future_state.restored(base, values, arrays, len(self.classes_))
