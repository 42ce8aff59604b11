"""Transformers that compute features of sequences.

Use them like transformers of scikit-learn, alone or in a pipeline. Transformers of numbers take the
same lists of sequences and long tables as the estimators. :doc:`/guide/rolling_features` explains
how to choose features. Transformers of text read the templates of other programs, as described in
:doc:`/guide/from_crfsuite`.
"""

from treecrf.preprocessing.rolling import RollingFeatures
from treecrf.preprocessing.scaling import SequenceScaler
from treecrf.preprocessing.streams import PipelineStream, TransformerStream
from treecrf.preprocessing.templates import AttributeStream, AttributeTemplates

__all__ = [
    "AttributeStream",
    "AttributeTemplates",
    "PipelineStream",
    "RollingFeatures",
    "SequenceScaler",
    "TransformerStream",
]
