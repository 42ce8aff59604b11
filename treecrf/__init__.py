"""Sequence labelling with boosted trees: conditional random fields for structured data."""

from treecrf._version import __version__
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.memm import TreeMEMM
from treecrf.learners.boosted.window import (
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
)
from treecrf.learners.flat.model import FlatModel, flatten
from treecrf.learners.future.features import FutureFeature
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.learners.future.transformer import FutureFeatures
from treecrf.learners.hmm import HMMClassifier
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.registry import load
from treecrf.learners.structured.max_margin.classifier import StructuredSVM
from treecrf.learners.structured.perceptron import StructuredPerceptron
from treecrf.learners.structured.sequence_boosting.classifier import SequenceBoostingClassifier
from treecrf.utils.model_file import ModelFileError

__all__ = [
    "FlatModel",
    "FutureFeature",
    "FutureFeatureMEMM",
    "FutureFeatures",
    "HMMClassifier",
    "LinearCRF",
    "ModelFileError",
    "RecurrentSlidingWindowClassifier",
    "SequenceBoostingClassifier",
    "SlidingWindowClassifier",
    "StructuredPerceptron",
    "StructuredSVM",
    "TreeCRF",
    "TreeMEMM",
    "__version__",
    "flatten",
    "load",
]
