"""CRFsuite's linear-chain model: which weights it has, and how its algorithms find them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from time import process_time
from typing import Any, ClassVar

import numpy as np

from treecrf.crfsuite.online import RULES, OnlineRule, Sequence
from treecrf.crfsuite.parameters import iteration_limit
from treecrf.crfsuite.training_log import Holdout, TrainLog
from treecrf.inputs.offsets import split_sequences
from treecrf.learners.linear._linear import dot
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.lbfgs import minimize
from treecrf.learners.linear.likelihoods import (
    Loss,
    StateLikelihood,
    sums_by_label,
    weight_scales,
)
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun

TITLES = {
    "lbfgs": "L-BFGS optimization",
    "l2sgd": "L-BFGS optimization of the objective of l2sgd",
    "averaged-perceptron": "Averaged perceptron",
    "passive-aggressive": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
}


@dataclass
class Settings:
    """How a model is trained."""

    algorithm: str
    # The values of the parameters.
    values: dict[str, Any]
    log: TrainLog
    # True labels of the holdout sequences that have positions; None without a holdout group.
    holdout: list[list[str]] | None
    begin: float = field(default_factory=process_time)


class ChainModel(LinearCRF):
    """A `LinearCRF` with the weights of CRFsuite's model, trained by one of its algorithms."""

    _settings: Settings
    _results: ClassVar[tuple[str, ...]] = LinearCRF._results

    @classmethod
    def of(cls, settings: Settings) -> ChainModel:
        """Make a model that is not fitted."""
        values = settings.values
        model = cls(
            l1_regularization=values.get("c1", 0.0),
            l2_regularization=values.get("c2", 0.0),
            max_iter=iteration_limit(values),
            all_possible_states=values["feature.possible_states"],
            all_possible_transitions=values["feature.possible_transitions"],
            start_weights=False,
            standardize=False,
            decoding="viterbi",
        )
        model._settings = settings
        return model

    def as_linear(self) -> LinearCRF:
        """Return the fitted model as a `LinearCRF`."""
        linear = LinearCRF(**self.get_params(deep=False))
        state = {name: value for name, value in vars(self).items() if name != "_settings"}
        vars(linear).update(state)
        return linear

    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        settings = self._settings
        log = settings.log
        training = ChainTraining(data, held_out, settings)
        log.features(len(training.free), process_time() - settings.begin)
        names = [name for name in settings.values if not name.startswith("feature.")]
        log.algorithm(TITLES[settings.algorithm], {name: settings.values[name] for name in names})
        settings.begin = process_time()
        if settings.algorithm in RULES:
            weights, results = training.run_online(RULES[settings.algorithm](settings.values))
        else:
            weights, results = training.minimize_loss(
                self.l1_regularization, self.l2_regularization
            )
        return weights, results | {"_penalty": self.l2_regularization}


class ChainTraining:
    """Training of the weights of features that occur often enough."""

    def __init__(self, data: TrainingData, held_out: TrainingData | None, settings: Settings):
        self.data = data
        self.held_out = held_out
        self.settings = settings
        self.values = settings.values
        self.max_iter = iteration_limit(settings.values)
        self.free = frequent_features(data, settings.values)
        self.train_score: list[float] = []

    # L-BFGS

    def minimize_loss(self, c1: float, c2: float) -> tuple[Weights, dict]:
        """Find the minimum of the penalized loss; return the weights and the fitted attributes."""
        scales = weight_scales(self.data, c2)[self.free]
        loss = TracedLoss(StateLikelihood(self.data), c2, self.free, scales)
        start = loss.variables(self.data.layout.weights())
        memory = self.values.get("num_memories", 6)
        losses: list[float] = []
        message = "L-BFGS resulted in convergence"
        began = process_time()
        for n_iter, (variables, value) in enumerate(
            minimize(loss, start, c1 * scales if c1 else None, max(1, memory))
        ):
            losses.append(value)
            self.train_score.append(loss.mean)
            if n_iter == 0:
                continue
            values = variables * scales
            error_norm = loss.error_norm(values, c1)
            now = process_time()
            fields = [
                f"Loss: {value:f}",
                f"Feature norm: {norm(values):f}",
                f"Error norm: {error_norm:f}",
                f"Active features: {np.count_nonzero(values)}",
                f"Line search trials: {loss.take_count()}",
                f"Seconds required for this iteration: {now - began:.3f}",
            ]
            began = now
            self.log_iteration(n_iter, fields, lambda: loss.weights(variables))  # noqa: B023
            stop = self.reason_to_stop(losses, error_norm, norm(values))
            if stop:
                message = f"L-BFGS {stop}"
                break
        self.end(message)
        return loss.weights(variables), self.results(losses[-1])

    def reason_to_stop(self, losses: list[float], error_norm: float, size: float) -> str:
        """Return why L-BFGS ends, by the rules of CRFsuite; empty if it goes on."""
        period = self.values["period"]
        if error_norm < self.values.get("epsilon", 0.0) * max(1.0, size):
            return "resulted in convergence"
        if 0 < period < len(losses):
            gain = losses[-1 - period] - losses[-1]
            if gain < self.values["delta"] * abs(losses[-1]):
                return "terminated with the stopping criteria"
        if len(losses) > self.max_iter:
            return "terminated with the maximum number of iterations"
        return ""

    # Online algorithms

    def run_online(self, rule: OnlineRule) -> tuple[Weights, dict]:
        """Pass over the sequences until their mean loss is small; return as `minimize_loss`."""
        data = self.data
        rng = np.random.default_rng(0)
        sequences = self.sequences
        message = "Terminated with the maximum number of iterations"
        likelihood = StateLikelihood(data)
        rule.start(data.layout.size)
        self.train_score.append(likelihood.mean(data.layout.weights()))
        for n_iter in range(1, self.max_iter + 1):
            began = process_time()
            losses = [rule.visit(sequences[i]) for i in rng.permutation(len(sequences)).tolist()]
            loss = math.fsum(losses)
            weights = data.layout.weights(rule.model())
            self.train_score.append(likelihood.mean(weights))
            fields = [
                f"Loss: {loss:f}",
                f"Feature norm: {norm(weights.vector):f}",
                f"Seconds required for this iteration: {process_time() - began:.3f}",
            ]
            self.log_iteration(n_iter, fields, lambda: weights)  # noqa: B023
            if loss / len(sequences) < rule.epsilon or loss == 0:
                message = "Terminated with the stopping criterion"
                break
        self.end(message)
        return weights, self.results(loss)

    @cached_property
    def sequences(self) -> list[Sequence]:
        """The sequences as online algorithms read them."""
        data = self.data
        starts, indices, _ = data.table.by_row
        is_free = np.zeros(data.layout.size, dtype=bool)
        is_free[self.free] = True
        return [
            Sequence(
                starts=starts[first : stop + 1] - starts[first],
                attributes=indices[starts[first] : starts[stop]].astype(np.int64),
                values=data.table.values[starts[first] : starts[stop]],
                codes=data.codes[first:stop].astype(np.int64),
                weight=float(data.weights[i]),
                layout=data.layout,
                is_free=is_free,
            )
            for i, (first, stop) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True))
        ]

    # Reports

    def log_iteration(self, number: int, fields: list[str], weights: Callable[[], Weights]) -> None:
        """Write an iteration to the log, with the performance on the holdout group."""
        holdout = None
        true = self.settings.holdout
        if self.held_out is not None and true is not None:
            codes = self.held_out.lattice(weights()).best_codes()
            found = split_sequences(self.held_out.classes[codes], self.held_out.offsets)
            holdout = Holdout(true, [labels.tolist() for labels in found])
        self.settings.log.iteration(number, fields, holdout)

    def end(self, message: str) -> None:
        """Write the end of training to the log."""
        self.settings.log.end(message, process_time() - self.settings.begin)

    def results(self, loss: float) -> dict:
        """Return the fitted attributes of a `LinearCRF`."""
        return {
            "n_iter_": len(self.train_score) - 1,
            "loss_": float(loss),
            "train_score_": np.array(self.train_score),
            "validation_score_": np.zeros(0),
        }


class TracedLoss(Loss):
    """A loss that knows its latest gradient, and counts evaluations."""

    count = 0

    def __call__(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        value, self.gradient = super().__call__(variables)
        self.count += 1
        return value, self.gradient

    def take_count(self) -> int:
        """Return the number of evaluations since the last call."""
        count = self.count
        self.count = 0
        return count

    def error_norm(self, values: np.ndarray, c1: float) -> float:
        """Return the norm of the gradient by the weights, with the L1 penalty."""
        gradient = self.gradient / self.scales
        if c1:
            at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - c1, 0.0)
            gradient = np.where(values == 0, at_zero, gradient + c1 * np.sign(values))
        return norm(gradient)


def norm(vector: np.ndarray) -> float:
    """Return the Euclidean norm."""
    return math.sqrt(dot(vector, vector))


def frequent_features(data: TrainingData, values: dict[str, Any]) -> np.ndarray:
    """Return the indices of the weights that CRFsuite's model has.

    It has a weight for an attribute and a label, or for two labels, if the sum of the attribute's
    values where it occurs with the label, or the number of times, is at least
    ``feature.minfreq``. Possible features that do not occur have a frequency of 0.
    """
    labels = np.zeros((len(data.codes), data.layout.n_labels))
    labels[np.arange(len(labels)), data.codes] = np.repeat(data.weights, np.diff(data.offsets))
    occurs = data.layout.weights(np.zeros(data.layout.size, dtype=bool))
    sums = data.layout.weights()
    sums.attributes[:] = sums_by_label(data, labels)
    occurs.attributes[:] = values["feature.possible_states"] or occurring_states(data)
    pairs = label_pairs(data)
    np.add.at(sums.transitions, pairs, labels.max(axis=1)[1:][pairs_exist(data)])
    occurs.transitions[pairs] = True
    occurs.transitions[:-1] |= values["feature.possible_transitions"]
    return np.flatnonzero(occurs.vector & (sums.vector >= values["feature.minfreq"]))


def occurring_states(data: TrainingData) -> np.ndarray:
    """Return which attributes and labels occur together, even with a value of 0."""
    starts, indices, _ = data.table.by_row
    occurs = data.layout.weights(np.zeros(data.layout.size, dtype=bool))
    occurs.attributes[indices, 0, np.repeat(data.codes, np.diff(starts))] = True
    return occurs.attributes


def pairs_exist(data: TrainingData) -> np.ndarray:
    """Return whether each position but the first follows another one of its sequence."""
    follows = np.ones(len(data.codes), dtype=bool)
    follows[data.offsets[:-1]] = False
    return follows[1:]


def label_pairs(data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of the labels that follow each other."""
    follows = pairs_exist(data)
    return data.codes[:-1][follows], data.codes[1:][follows]
