"""The estimators by name, so that a saved model finds its class."""

from __future__ import annotations

from os import PathLike

from treecrf import io
from treecrf.classifier import SequenceClassifier
from treecrf.crf import TreeCRF
from treecrf.flat import FlatModel
from treecrf.future import FutureFeatureMEMM
from treecrf.hmm import HMMClassifier
from treecrf.linear import LinearCRF
from treecrf.max_margin import StructuredSVM
from treecrf.memm import TreeMEMM
from treecrf.perceptron import StructuredPerceptron
from treecrf.sequence_boosting import SequenceBoostingClassifier
from treecrf.window import RecurrentSlidingWindowClassifier, SlidingWindowClassifier

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
    values, arrays = io.read(path)
    with io.misfits(path):
        name = values["class"]
        if name not in CLASSES:
            raise io.ModelFileError(f"{path}: a model of the unknown class {name!r}")
        estimator = CLASSES[name](**io.restored_parameters(values["parameters"]))
        return estimator._restore(values, arrays)
