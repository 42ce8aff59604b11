"""The estimators by name, so that a saved model finds its class."""

from __future__ import annotations

from os import PathLike

from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.memm import TreeMEMM
from treecrf.learners.boosted.window import (
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
)
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.flat.model import FlatModel
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.learners.hmm import HMMClassifier
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.structured.max_margin.classifier import StructuredSVM
from treecrf.learners.structured.perceptron import StructuredPerceptron
from treecrf.learners.structured.sequence_boosting.classifier import SequenceBoostingClassifier
from treecrf.utils import model_file

CLASSES: dict[str, type[SequenceClassifier]] = {
    kind.__name__: kind
    for kind in (
        FlatModel,
        FutureFeatureMEMM,
        HMMClassifier,
        LinearCRF,
        RecurrentSlidingWindowClassifier,
        SequenceBoostingClassifier,
        SlidingWindowClassifier,
        StructuredPerceptron,
        StructuredSVM,
        TreeCRF,
        TreeMEMM,
    )
}


def load(path: str | PathLike) -> SequenceClassifier:
    """Read a model that its ``save`` method has written.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
        Of the class that was saved, with its parameters; predicts the same to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is not a saved model, is damaged or incomplete, or is of a newer version. Such
        a file is never executed.

    Examples
    --------
    >>> import tempfile, pathlib, treecrf
    >>> crf = treecrf.TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
    >>> crf.save(path)
    >>> treecrf.load(path).predict(["ab"])[0].tolist()
    ['x', 'y']
    """
    values, arrays = model_file.read(path)
    with model_file.as_model_file_error(path):
        name = values["class"]
        if name not in CLASSES:
            raise model_file.ModelFileError(f"{path}: a model of the unknown class {name!r}")
        estimator = CLASSES[name](**model_file.restored_parameters(values["parameters"]))
        return estimator._restore(values, arrays)
