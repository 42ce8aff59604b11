"""The public view of a fitted estimator, for all modules outside of its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecrf.learners.base.predictor import Predictor

if TYPE_CHECKING:
    from treecrf.learners.base.classifier import SequenceClassifier


@dataclass(frozen=True)
class FittedModel:
    """What an estimator has learned, with its present parameters of prediction."""

    # Reads sequences and labels of the user, and chooses labels.
    predictor: Predictor
    # Number of training positions without a label.
    n_unlabeled: int
    # Name of the objective that training maximized; see `treecrf.chains.objectives`.
    objective: str

    @property
    def chain(self) -> Any:
        """The scores of labels in context, a `FittedChain`.

        Chains of boosted trees have a ``forest``, its ``encoder`` and the linear model ``start``
        (or None); chains of linear models have ``attributes`` and ``weights``.
        """
        return self.predictor.chain


def fitted_model(estimator: SequenceClassifier) -> FittedModel:
    """Return what a fitted estimator has learned; raises NotFittedError."""
    return FittedModel(
        predictor=estimator._predictor(),
        n_unlabeled=estimator._n_unlabeled,
        objective=estimator._trained_objective,
    )
