"""Transformers that compute features of sequences of numbers.

They are used like transformers of scikit-learn, and take the same lists of sequences and long
tables as the estimators. :doc:`/guide/rolling_features` explains how to choose features.
"""

from treecrf.preprocessing.rolling import RollingFeatures
from treecrf.preprocessing.scaling import SequenceScaler
from treecrf.preprocessing.streams import PipelineStream, TransformerStream

__all__ = ["PipelineStream", "RollingFeatures", "SequenceScaler", "TransformerStream"]
