"""Sequence labelling with boosted trees: conditional random fields for structured data."""

from treecrf._version import __version__
from treecrf.crf import TreeCRF
from treecrf.flat import FlatModel, flatten
from treecrf.future import FutureFeatureMEMM
from treecrf.future_features import FutureFeature
from treecrf.future_transformer import FutureFeatures
from treecrf.hmm import HMMClassifier
from treecrf.io import ModelFileError
from treecrf.memm import TreeMEMM
from treecrf.models import load
from treecrf.window import RecurrentSlidingWindowClassifier, SlidingWindowClassifier

__all__ = [
    "FlatModel",
    "FutureFeature",
    "FutureFeatureMEMM",
    "FutureFeatures",
    "HMMClassifier",
    "ModelFileError",
    "RecurrentSlidingWindowClassifier",
    "SlidingWindowClassifier",
    "TreeCRF",
    "TreeMEMM",
    "__version__",
    "flatten",
    "load",
]
