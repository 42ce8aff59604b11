"""Sequence labelling with boosted trees: conditional random fields for structured data."""

from treecrf._version import __version__
from treecrf.crf import TreeCRF
from treecrf.flat import FlatModel, flatten
from treecrf.future import FutureFeatureMEMM
from treecrf.future_features import FutureFeature
from treecrf.future_transformer import FutureFeatures
from treecrf.hmm import HMMClassifier
from treecrf.io import ModelFileError
from treecrf.linear import LinearCRF
from treecrf.max_margin import StructuredSVM
from treecrf.memm import TreeMEMM
from treecrf.models import load
from treecrf.perceptron import StructuredPerceptron
from treecrf.sequence_boosting import SequenceBoostingClassifier
from treecrf.window import RecurrentSlidingWindowClassifier, SlidingWindowClassifier

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
