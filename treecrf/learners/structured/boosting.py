"""Boosting of label sequences, one feature per round."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.learners.structured.rounds import BOUNDS, FeatureStep, Rounds, SequenceLosses
from treecrf.utils import model_file
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    Decoding,
    RandomState,
    Transitions,
    Window,
)
from treecrf.utils.validation import Interval, StrOptions, documented_as

# Larger weights leave too few digits for differences between scores.
MAX_STEP = 1e6


class ChosenFeature(NamedTuple):
    """A feature that `SequenceBoostingClassifier` chose in a round, and the step of its weight.

    `SequenceBoostingClassifier.get_chosen_features` returns them.

    Attributes
    ----------
    attribute : str or None
        Name of the attribute, as from `SequenceBoostingClassifier.get_attribute_names`. None for a
        feature of labels alone.
    previous : label or None
        Previous label of the feature. None if the feature does not depend on it. If ``attribute``
        is None as well, the feature is that of the label at first positions.
    label : label
        Label whose score the feature changes.
    step : float
        Change of the weight in the round.
    """

    attribute: str | None
    previous: str | int | bool | None
    label: str | int | bool
    step: float


@documented_as(LinearCRF)
@dataclass(kw_only=True, eq=False, repr=False)
class SequenceBoostingClassifier(LinearSequenceClassifier):
    r"""Boosting of label sequences.

    Scores are those of `LinearCRF`, and each round changes a single weight. The number of rounds
    therefore limits the number of non-zero weights, and `get_chosen_features` lists the features in
    the order in which they were chosen.

    Training minimizes an exponential loss, the sum over the training sequences of
    :math:`1 / P(Y_i | X_i) - 1`. For every feature, a bound limits the loss after a step of its
    weight. Each round takes the feature with the smallest bound.

    Parameters
    ----------
    transition_features : bool, default=False
        Whether each attribute also forms features with pairs of previous label and label, in
        addition to those with labels.
    max_iter : int, default=1000
        Maximum number of rounds.
    bound : {"union", "sequence"}, default="union"
        How steps are bounded:

        - ``"union"`` bounds how much more often, and how much less often, a feature can occur in
          any wrong label sequence than in the true one, over all training sequences. The step has a
          closed form.
        - ``"sequence"`` bounds the same for each training sequence separately, and finds the step
          of every feature by a line search. Rounds take several times as long, but fewer are
          needed. The memory grows with the number of distinct attributes per sequence.
    line_search : bool, default=False
        Whether to take the step that lowers the loss the most, instead of the step from the bound.
        The feature is chosen by the bound in either case.
    max_step : float, default=1.0
        Maximum step of a weight in a round, at most 1e6. If a feature occurs only with true labels,
        the optimal step is infinite.
    piece_length : int or None, default=None
        Maximum length of the pieces, of about equal length, into which sequences are cut for
        training. The label before a piece is treated as known. Windows reach across the cuts. None
        keeps sequences whole. Values from 3 to 10 help if sequences are long or differ in length;
        see the notes.
    tol : float, default=1e-7
        Training ends when no bound guarantees that the loss falls by more than this fraction.
    early_stopping : bool, default=False
        Whether to stop when the likelihood of the validation sequences has not improved for
        ``n_iter_no_change`` rounds. The model keeps the weights of the best round.
    n_iter_no_change : int, default=100
        Number of rounds without improvement before training stops.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. Each sequence has the mean weight of its labels.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of validation sequences. Nothing else is random.

    Attributes
    ----------
    n_iter_ : int
        Number of rounds.
    features_ : int array of shape ``(n_iter_,)``
        Index, among all features, of the feature chosen in each round. `get_chosen_features`
        describes the features.
    steps_ : float array of shape ``(n_iter_,)``
        Change of the weight in each round.
    bounds_ : float array of shape ``(n_iter_,)``
        Bounds by which the features were chosen: upper bounds of the ratio of the loss after a
        round to the loss before it.
    loss_ : float array of shape ``(n_iter_ + 1,)``
        Logarithm of the loss before the first and after each round.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each round.
    validation_score_ : float array
        The same for the validation sequences. Empty without them.

    See Also
    --------
    LinearCRF : The same model, with all weights fitted jointly by maximum likelihood.
    TreeCRF : Boosting with trees, which combine attributes into features.
    ChosenFeature : Description of a feature.

    Notes
    -----
    Let :math:`u_{ik}(Y)` be the value of feature k for the labels Y minus its value for the true
    labels, each summed over the positions of sequence i. The ratio of the loss after a step
    :math:`\Delta` of the feature's weight to the loss before it is the mean of
    :math:`\exp(\Delta \, u_{ik}(Y))` over all wrong label sequences, weighted by their parts of the
    loss. The exponential is convex, so it lies below the straight line between its values at the
    smallest and the largest :math:`u_{ik}`, and its mean lies below that line at the mean of
    :math:`u_{ik}`. One forward-backward pass yields these means for all features. After a step,
    only the sequences with the chosen feature need another pass.

    The intervals cover all label sequences, including the true one with :math:`u = 0`. This widens
    them only for features whose attribute occurs at all positions of a sequence. For attributes of
    both signs and pairs of labels, intervals may be wider than necessary.

    All computations use logarithms, because :math:`1 / P` of a sequence of 1000 positions exceeds
    the floating-point range. Such a sequence dominates the loss until it is nearly correct, and
    steps are tiny because the bound has to hold for hundreds of changed labels at once. If
    sequences are long or differ in length, set ``piece_length`` to a value from 3 to 10. The
    authors of the method cut their sentences as well.

    References
    ----------
    .. [1] Y. Altun, T. Hofmann, M. Johnson, "Discriminative learning for label sequences via
       boosting", NIPS 2002. The bounds are their equations 17 and 20.
    .. [2] R. E. Schapire, Y. Singer, "Improved boosting algorithms using confidence-rated
       predictions", Machine Learning 37, 1999.

    Examples
    --------
    >>> from treecrf import SequenceBoostingClassifier
    >>> boosting = SequenceBoostingClassifier(max_iter=20).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> boosting.predict(["aab"])[0].tolist()
    ['x', 'x', 'y']
    >>> for feature in boosting.get_chosen_features()[:2]:
    ...     print(feature.attribute, feature.label, round(feature.step, 2))
    symbol is 'a' x 1.0
    symbol is 'b' x -1.0
    """

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "bound": [StrOptions(set(BOUNDS))],
        "line_search": ["boolean"],
        "max_step": [Interval(numbers.Real, 0, MAX_STEP, closed="right")],
        "piece_length": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
    }
    _results: ClassVar[tuple[str, ...]] = (
        "n_iter_", "features_", "steps_", "bounds_", "loss_", "train_score_", "validation_score_",
    )  # fmt: skip

    window: Window = 0
    attributes: Any = None
    transition_features: bool = False
    max_iter: int = 1000
    bound: Literal["union", "sequence"] = "union"
    line_search: bool = False
    max_step: float = 1.0
    piece_length: int | None = None
    tol: float = 1e-7
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 100
    min_count: int = 1
    missing: Literal["indicator", "impute"] = "indicator"
    standardize: bool = True
    categorical_features: CategoricalFeatures = "from_dtype"
    decoding: Decoding = "marginal"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        rounds = Rounds(data, start, BOUNDS[self.bound], self.max_step, self.piece_length)
        validation = None if held_out is None else SequenceLosses(held_out, start)
        choices: list[FeatureStep] = []

        def record() -> None:
            run.losses.append(rounds.loss.log_value)
            run.history.train.append(rounds.loss.mean_log_likelihood)
            if validation is not None:
                run.history.validation.append(validation.mean_log_likelihood)

        def state(n: int) -> tuple[Weights, dict]:
            weights = start.copy()
            for choice in choices[:n]:
                weights.vector[choice.feature] += choice.step
            results = _results(choices[:n]) | {"loss_": np.array(run.losses[: n + 1])}
            return weights, results | run.history.until(n).scores()

        record()
        run.start()
        for choice in rounds.run(self.max_iter, self.tol, self.line_search):
            choices.append(choice)
            if validation is not None:
                where = validation.occurrences(choice.feature)
                validation.add(choice.feature, choice.step, where)
                validation.update(where.pieces)
            record()
            shown = {"log loss": run.losses[-1]} | run.history.latest("log-likelihood")
            if run.stops_after(len(choices), shown, partial(state, len(choices))):
                break
        return state(run.history.index_to_keep(run.stopping))

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> SequenceBoostingClassifier:
        super()._restore(values, arrays)
        n = self.n_iter_
        model_file.check_counts(n)
        model_file.check_history(n, self.train_score_, self.validation_score_)
        model_file.check_series(self.features_, n, "i")
        model_file.check_indices(self.features_, self._weights.layout.size, "features")
        model_file.check_series(self.steps_, n)
        model_file.check_series(self.bounds_, n)
        model_file.check_series(self.loss_, n + 1)
        return self

    def get_chosen_features(self) -> list[ChosenFeature]:
        """Describe the features in the order in which they were chosen.

        Returns
        -------
        list of ChosenFeature
            A named tuple ``(attribute, previous, label, step)`` for each round. ``attribute`` is
            one of the names from `get_attribute_names`, or None for features of labels alone.
            ``previous`` is the previous label, or None for features that do not depend on it. If
            both are None, the feature is that of the label at first positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.

        Examples
        --------
        >>> from treecrf import SequenceBoostingClassifier
        >>> X, y = ["ab", "ba", "aa"], ["xy", "yx", "xx"]
        >>> boosting = SequenceBoostingClassifier(max_iter=1).fit(X, y)
        >>> boosting.get_chosen_features()
        [ChosenFeature(attribute="symbol is 'a'", previous=None, label='x', step=1.0)]
        """
        names = self.get_attribute_names()
        return [
            self._described(feature, step, names)
            for feature, step in zip(self.features_.tolist(), self.steps_.tolist(), strict=True)
        ]

    def _described(self, feature: int, step: float, names: np.ndarray) -> ChosenFeature:
        """Describe a feature, given by its index in the vector of weights."""
        layout = self._weights.layout
        n = layout.n_labels
        labels = [*self.classes_.tolist(), None]
        transition = feature - layout.n_attribute_weights
        if transition >= 0:
            return ChosenFeature(None, labels[transition // n], labels[transition % n], step)
        cell, column = divmod(feature, layout.width)
        attribute, k = divmod(cell, layout.n_offsets)
        offset = self._attributes.window[1] - k
        name = cell - k + layout.n_offsets - 1 - k
        if layout.n_offsets > 1 and attribute == layout.n_attributes - 1 and offset > 0:
            name -= 1  # a position is never outside its own sequence
        previous = None if column < n else labels[column // n - 1]
        return ChosenFeature(names[name], previous, labels[column % n], step)


def _results(choices: list[FeatureStep]) -> dict:
    """Return the fitted attributes of some rounds."""
    return {
        "n_iter_": len(choices),
        "features_": np.array([choice.feature for choice in choices], dtype=np.int64),
        "steps_": np.array([choice.step for choice in choices], dtype=np.float64),
        "bounds_": np.array([choice.bound for choice in choices], dtype=np.float64),
    }
