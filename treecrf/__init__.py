"""Sequence labeling with gradient-boosted trees in conditional random fields, and related models.

The estimators are attributes of this package. They and the sub-packages, such as
`treecrf.metrics`, are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from treecrf._version import __version__ as __version__

try:
    import treecrf._cyutility  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"{__path__[0]} has no compiled modules; to import an installed treecrf, leave the folder "
        "of its sources, and to compile in this folder, run: pip install --editable ."
    ) from error

if TYPE_CHECKING:
    from treecrf import annotation as annotation
    from treecrf import callbacks as callbacks
    from treecrf import crfsuite as crfsuite
    from treecrf import datasets as datasets
    from treecrf import inspection as inspection
    from treecrf import metrics as metrics
    from treecrf import papers as papers
    from treecrf import plotting as plotting
    from treecrf import preprocessing as preprocessing
    from treecrf import runtime as runtime
    from treecrf.export.c_files import export_c as export_c
    from treecrf.inputs.dataset import split as split
    from treecrf.learners.base.stream import Stream as Stream
    from treecrf.learners.boosted.average import average as average
    from treecrf.learners.boosted.crf import TreeCRF as TreeCRF
    from treecrf.learners.flat.export import Pruned as Pruned
    from treecrf.learners.flat.model import FlatModel as FlatModel
    from treecrf.learners.flat.model import flatten as flatten
    from treecrf.learners.future.features import FutureFeature as FutureFeature
    from treecrf.learners.future.memm import FutureFeatureMEMM as FutureFeatureMEMM
    from treecrf.learners.future.memm import FutureFeatures as FutureFeatures
    from treecrf.learners.hmm import HMMClassifier as HMMClassifier
    from treecrf.learners.linear.crf import LinearCRF as LinearCRF
    from treecrf.learners.local.memm import TreeMEMM as TreeMEMM
    from treecrf.learners.local.windows import (
        RecurrentSlidingWindowClassifier as RecurrentSlidingWindowClassifier,
    )
    from treecrf.learners.local.windows import SlidingWindowClassifier as SlidingWindowClassifier
    from treecrf.learners.per_sequence import PerSequence as PerSequence
    from treecrf.learners.registry import load as load
    from treecrf.learners.structured.boosting import ChosenFeature as ChosenFeature
    from treecrf.learners.structured.boosting import (
        SequenceBoostingClassifier as SequenceBoostingClassifier,
    )
    from treecrf.learners.structured.perceptron import StructuredPerceptron as StructuredPerceptron
    from treecrf.learners.structured.svm import StructuredSVM as StructuredSVM
    from treecrf.preprocessing.streams import stream as stream
    from treecrf.reports.report import Report as Report
    from treecrf.reports.report import report as report
    from treecrf.utils.model_file import ModelFileError as ModelFileError

_SUB_PACKAGES = (
    "annotation",
    "callbacks",
    "crfsuite",
    "datasets",
    "inspection",
    "metrics",
    "papers",
    "plotting",
    "preprocessing",
    "runtime",
)
# The modules of all other names. They are imported when a name is first used, so that the command
# line starts at once.
_HOMES = {
    "ChosenFeature": "treecrf.learners.structured.boosting",
    "FlatModel": "treecrf.learners.flat.model",
    "FutureFeature": "treecrf.learners.future.features",
    "FutureFeatureMEMM": "treecrf.learners.future.memm",
    "FutureFeatures": "treecrf.learners.future.memm",
    "HMMClassifier": "treecrf.learners.hmm",
    "LinearCRF": "treecrf.learners.linear.crf",
    "ModelFileError": "treecrf.utils.model_file",
    "PerSequence": "treecrf.learners.per_sequence",
    "Pruned": "treecrf.learners.flat.export",
    "RecurrentSlidingWindowClassifier": "treecrf.learners.local.windows",
    "Report": "treecrf.reports.report",
    "SequenceBoostingClassifier": "treecrf.learners.structured.boosting",
    "SlidingWindowClassifier": "treecrf.learners.local.windows",
    "Stream": "treecrf.learners.base.stream",
    "StructuredPerceptron": "treecrf.learners.structured.perceptron",
    "StructuredSVM": "treecrf.learners.structured.svm",
    "TreeCRF": "treecrf.learners.boosted.crf",
    "TreeMEMM": "treecrf.learners.local.memm",
    "average": "treecrf.learners.boosted.average",
    "export_c": "treecrf.export.c_files",
    "flatten": "treecrf.learners.flat.model",
    "load": "treecrf.learners.registry",
    "report": "treecrf.reports.report",
    "split": "treecrf.inputs.dataset",
    "stream": "treecrf.preprocessing.streams",
}
__all__ = sorted([*_SUB_PACKAGES, *_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _SUB_PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
