"""Sequence labelling with boosted trees: conditional random fields for structured data."""

from treecrf._version import __version__
from treecrf.crf import TreeCRF
from treecrf.io import ModelFileError
from treecrf.models import load

__all__ = ["ModelFileError", "TreeCRF", "__version__", "load"]
