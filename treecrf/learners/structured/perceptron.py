"""The structured perceptron."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from treecrf.learners.base.history import History
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.learners.structured._sequential import AttributeRows, LabeledChains, Updates
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
from treecrf.utils.validation import Interval, documented_as


@documented_as(LinearCRF, without=["loss_", "train_score_", "validation_score_"])
@dataclass(kw_only=True, eq=False, repr=False)
class StructuredPerceptron(LinearSequenceClassifier):
    """Averaged structured perceptron.

    Scores are those of `LinearCRF`. Training decodes one sequence after another by the Viterbi
    algorithm. Where the predicted labels are wrong, it adds the features of the true labels to the
    weights, and subtracts those of the predicted labels. The model is the mean of the weights after
    each sequence.

    Training is faster than for any other linear model, and there is no regularization to tune. The
    predictions are often nearly as good as those of `LinearCRF`, but the probabilities are
    unreliable.

    Parameters
    ----------
    max_iter : int, default=10
        Maximum number of epochs (passes over the training sequences). Training also ends after an
        epoch without a mistake.
    average : bool, default=True
        Whether the model uses the mean of the weights after each sequence instead of the last
        weights.
    shuffle : bool, default=True
        Whether to shuffle the sequences before each epoch.
    early_stopping : bool, default=False
        Whether to stop when the accuracy of the validation sequences has not improved for
        ``n_iter_no_change`` epochs. The model keeps the weights of the best epoch.
    n_iter_no_change : int, default=5
        Number of epochs without improvement before training stops.
    decoding : {"marginal", "viterbi", "minimum_risk"}, default="viterbi"
        How `predict` chooses labels:

        - ``"marginal"``: the most probable label of each position.
        - ``"viterbi"``: the label sequence with the highest score.
        - ``"minimum_risk"``: the label with the lowest expected cost at each position.

        The notes explain the probabilities.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. The updates from a sequence are multiplied by the mean weight of its
        labels.
    n_jobs : int or None, default=None
        Number of threads for prediction. None is one thread, and -1 uses all processors. Training
        updates are sequential. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the sequences and of the choice of validation sequences.

    Attributes
    ----------
    n_iter_ : int
        Number of epochs; after early stopping, that of the best one.
    train_accuracy_ : float array of shape ``(n_iter_,)``
        Fraction of the training labels predicted correctly in each epoch. Each sequence is
        predicted just before its update.
    validation_accuracy_ : float array of shape ``(n_iter_,)``
        Fraction of the validation labels predicted correctly after each epoch. Empty without
        validation sequences.

    See Also
    --------
    StructuredSVM : Maximizes the margin. Its objective has a unique minimum.
    LinearCRF : The same scores, trained to predict probabilities.

    Notes
    -----
    Training does not aim at probabilities. `predict_proba` treats scores as logarithms: the
    probability of a label sequence is proportional to the exponential of its score. The sequence
    with the highest score is therefore the most probable one. The scale of the scores, however,
    depends on the arbitrary length of the updates, and probabilities are usually far too close to 0
    and 1.

    The mean of the weights is accumulated lazily: each update is also stored multiplied by the
    number of sequences seen before it. The cost of an update is therefore proportional to the
    number of its features, not to the number of all weights.

    References
    ----------
    .. [1] M. Collins, "Discriminative training methods for hidden Markov models: theory and
       experiments with perceptron algorithms", EMNLP 2002.
    .. [2] Y. Freund, R. E. Schapire, "Large margin classification using the perceptron algorithm",
       Machine Learning 37, 1999. The mean of the weights.

    Examples
    --------
    >>> from treecrf import StructuredPerceptron
    >>> perceptron = StructuredPerceptron(window=(1, 0), random_state=0)
    >>> perceptron = perceptron.fit(["abab", "ba"], ["xyxy", "yx"])
    >>> perceptron.predict(["ab"])[0].tolist()
    ['x', 'y']
    >>> perceptron.n_iter_, perceptron.train_accuracy_.tolist()
    (2, [0.6666666666666666, 1.0])
    """

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "shuffle": ["boolean"],
    }
    _results: ClassVar[tuple[str, ...]] = ("n_iter_", "train_accuracy_", "validation_accuracy_")

    window: Window = 0
    attributes: Any = None
    transition_features: bool = False
    max_iter: int = 10
    average: bool = True
    shuffle: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    min_count: int = 1
    missing: Literal["indicator", "impute"] = "indicator"
    standardize: bool = True
    categorical_features: CategoricalFeatures = "from_dtype"
    decoding: Decoding = "viterbi"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    class_weight: ClassWeight = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        history = run.history
        lengths = np.diff(data.offsets)
        validation = None if held_out is None else partial(accuracy, held_out)
        # The updates of the weights, each times the number of sequences seen before it.
        late = data.layout.weights()
        n_seen = 0
        rows = AttributeRows(data.table, data.layout.width)
        updates = Updates(rows, LabeledChains(data), start, late)
        run.start()
        for n_iter in range(1, self.max_iter + 1):
            order = np.arange(len(lengths))
            if self.shuffle:
                order = run.rng.permutation(len(lengths))
            n_wrong = np.zeros(len(lengths), dtype=np.int64)
            for burst in data.bursts(order):
                updates.run(burst, data.weights, n_seen, n_wrong)
                n_seen += len(burst)
            history.train.append(data.mean(lengths - n_wrong))
            if self.average:
                model = data.layout.weights(start.vector - late.vector / n_seen)
            else:
                model = start.copy()
            run.record(model, validation and validation(model))

            def state(model: Weights = model, n_iter: int = n_iter) -> tuple[Weights, dict]:
                return model, _results(history, n_iter)

            stops = run.stops_after(n_iter, history.latest("accuracy"), state)
            if stops or history.train[-1] == 1:
                break
        return run.best, _results(history, history.index_to_keep(run.stopping) + 1)

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> StructuredPerceptron:
        super()._restore(values, arrays)
        model_file.check_counts(self.n_iter_)
        model_file.check_series(self.train_accuracy_, self.n_iter_)
        if len(self.validation_accuracy_):
            model_file.check_series(self.validation_accuracy_, self.n_iter_)
        else:
            model_file.check_series(self.validation_accuracy_, 0)
        return self


def _results(history: History, n_iter: int) -> dict:
    """Return the fitted attributes of the first epochs."""
    return {
        "n_iter_": n_iter,
        "train_accuracy_": np.array(history.train[:n_iter]),
        "validation_accuracy_": np.array(history.validation[:n_iter]),
    }


def accuracy(data: TrainingData, weights: Weights) -> float:
    """Compute the accuracy of Viterbi's algorithm, with the weights of the sequences."""
    codes, _ = data.lattice(weights).best()
    n_correct = np.add.reduceat(codes == data.codes, data.offsets[:-1], dtype=np.int64)
    return data.mean(n_correct)
