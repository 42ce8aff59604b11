"""Sequence labeling with gradient-boosted trees in conditional random fields, and related models.

The estimators are attributes of this package. The sub-packages `treecrf.datasets`,
`treecrf.inspection`, `treecrf.metrics` and `treecrf.plotting` are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from treecrf._version import __version__
from treecrf.learners.boosted.average import average
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.memm import TreeMEMM
from treecrf.learners.boosted.recurrent import RecurrentSlidingWindowClassifier
from treecrf.learners.boosted.window import SlidingWindowClassifier
from treecrf.learners.flat.model import FlatModel, flatten
from treecrf.learners.flat.pruning import Pruned
from treecrf.learners.future.features import FutureFeature
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.learners.future.transformer import FutureFeatures
from treecrf.learners.hmm import HMMClassifier
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.registry import load
from treecrf.learners.stream import Stream
from treecrf.learners.structured.max_margin.classifier import StructuredSVM
from treecrf.learners.structured.perceptron import StructuredPerceptron
from treecrf.learners.structured.sequence_boosting.classifier import (
    ChosenFeature,
    SequenceBoostingClassifier,
)
from treecrf.utils.model_file import ModelFileError

if TYPE_CHECKING:
    from treecrf import callbacks, datasets, inspection, metrics, plotting

__all__ = [
    "ChosenFeature",
    "FlatModel",
    "FutureFeature",
    "FutureFeatureMEMM",
    "FutureFeatures",
    "HMMClassifier",
    "LinearCRF",
    "ModelFileError",
    "Pruned",
    "RecurrentSlidingWindowClassifier",
    "SequenceBoostingClassifier",
    "SlidingWindowClassifier",
    "Stream",
    "StructuredPerceptron",
    "StructuredSVM",
    "TreeCRF",
    "TreeMEMM",
    "__version__",
    "average",
    "callbacks",
    "datasets",
    "flatten",
    "inspection",
    "load",
    "metrics",
    "plotting",
]

_LAZY = ("callbacks", "datasets", "inspection", "metrics", "plotting")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
