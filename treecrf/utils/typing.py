"""Types of arguments and results of the public API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray


class HasColumns(Protocol):
    """A data frame."""

    @property
    def columns(self) -> Any:
        """Names of the columns, or the columns themselves."""


class HasShape(Protocol):
    """A sparse matrix, or an array."""

    @property
    def shape(self) -> Any:
        """Numbers of rows and columns."""


class HasBatches(Protocol):
    """A dataset of Arrow."""

    def to_batches(self) -> Any:
        """Return record batches."""


# Input
SequencesLike = Iterable[Any] | HasColumns | HasShape
TablesLike = SequencesLike | PathLike[str] | HasBatches
LabelsLike = Iterable[Any]
LengthsLike = ArrayLike | None
GroupsLike = ArrayLike | None
WeightsLike = Iterable[Any] | None
MasksLike = Iterable[Any] | None
ScoresLike = Iterable[Any] | None

# Output
LabelArray = NDArray[Any]
FloatArray = NDArray[np.float64]

# Parameters of estimators
CategoricalFeatures = ArrayLike | None
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
CostMatrix = ArrayLike | Mapping[tuple[Any, Any], float] | None
EarlyStopping = bool | Literal["auto"]
InteractionCst = Literal["pairwise", "no_interactions"] | Iterable[Iterable[Any]] | None
Missing = Literal["weighting", "weighting-only", "surrogate", "impute", "indicator"]
MonotonicCst = ArrayLike | Mapping[Any, Any] | None
MultiStrategy = Literal["auto", "one_output_per_tree", "multi_output_tree"]
ObjectiveName = Literal["log", "exponential", "hamming_log", "hamming_exponential"]
ObjectiveLike = ObjectiveName | Callable[[np.ndarray, np.ndarray], tuple[ArrayLike, ArrayLike]]
RandomState = int | np.random.RandomState | None
Scoring = str | Callable[..., float]
Transitions = ArrayLike | None
Window = int | tuple[int, int] | Sequence[int]
Decoding = Literal["marginal", "viterbi", "minimum_risk"]
LocalDecoding = Literal["marginal", "viterbi", "minimum_risk", "greedy", "beam"]


class OfList(TypedDict, total=False):
    """Options of predictions for a list of sequences."""

    allowed: MasksLike
    known: MasksLike
    init_score: ScoresLike
    lengths: None
    groups: None


class OfTable(TypedDict, total=False):
    """Options of predictions for a long table."""

    allowed: MasksLike
    known: MasksLike
    init_score: ScoresLike
    lengths: LengthsLike
    groups: GroupsLike
