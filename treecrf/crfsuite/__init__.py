"""The interfaces of python-crfsuite and sklearn-crfsuite, on the estimators of treecrf.

A program that uses one of them switches by its import::

    from treecrf import crfsuite as pycrfsuite
    from treecrf import crfsuite as sklearn_crfsuite

Names, parameters, forms of items, logs and the objective are those of CRFsuite. With the parameter
``estimator``, the model is boosted trees or any other estimator of treecrf. Nothing is imported
before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treecrf.crfsuite import metrics as metrics
    from treecrf.crfsuite import scorers as scorers
    from treecrf.crfsuite.dump import ParsedDump as ParsedDump
    from treecrf.crfsuite.estimator import CRF as CRF
    from treecrf.crfsuite.items import ItemSequence as ItemSequence
    from treecrf.crfsuite.tagger import Tagger as Tagger
    from treecrf.crfsuite.trainer import LinePerIterationTrainer as LinePerIterationTrainer
    from treecrf.crfsuite.trainer import Trainer as Trainer
    from treecrf.crfsuite.training_log import TrainLogParser as TrainLogParser

# The version of CRFsuite whose objective, parameters and log these are.
CRFSUITE_VERSION = "0.12.2"

_SUB_MODULES = ("metrics", "scorers")
_HOMES = {
    "CRF": "estimator",
    "ItemSequence": "items",
    "LinePerIterationTrainer": "trainer",
    "ParsedDump": "dump",
    "Tagger": "tagger",
    "TrainLogParser": "training_log",
    "Trainer": "trainer",
}
__all__ = sorted([*_SUB_MODULES, *_HOMES, "CRFSUITE_VERSION"])


def __getattr__(name: str) -> Any:
    if name in _SUB_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
