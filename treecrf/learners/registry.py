"""All estimators by name, and `load`, which finds the class of a saved model.

Classes are imported when they are looked up, so that a model needs its own modules only.
"""

from __future__ import annotations

from os import PathLike

from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.saving import restored
from treecrf.utils import model_file
from treecrf.utils.imported_classes import ImportedClasses

# The classes of saved models.
CLASSES = ImportedClasses(
    {
        name: (f"treecrf.learners.{module}", name)
        for name, module in {
            "FlatModel": "flat.model",
            "FutureFeatureMEMM": "future.memm",
            "HMMClassifier": "hmm",
            "LinearCRF": "linear.crf",
            "RecurrentSlidingWindowClassifier": "local.windows",
            "SequenceBoostingClassifier": "structured.boosting",
            "SlidingWindowClassifier": "local.windows",
            "StructuredPerceptron": "structured.perceptron",
            "StructuredSVM": "structured.svm",
            "TreeCRF": "boosted.crf",
            "TreeMEMM": "local.memm",
        }.items()
    }
)
# The estimators that can be trained, by their names on the command line.
LEARNERS = CLASSES.renamed(
    {
        "crf": "TreeCRF",
        "memm": "TreeMEMM",
        "window": "SlidingWindowClassifier",
        "recurrent": "RecurrentSlidingWindowClassifier",
        "future": "FutureFeatureMEMM",
        "hmm": "HMMClassifier",
        "linear": "LinearCRF",
        "perceptron": "StructuredPerceptron",
        "svm": "StructuredSVM",
        "boosting": "SequenceBoostingClassifier",
    }
)


def load(path: str | PathLike[str]) -> SequenceClassifier:
    """Load a model that the method ``save`` has written.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator
        An estimator of the class that was saved, fitted and with the same parameters. Its
        predictions are those of the saved model, to the last bit.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ModelFileError
        If the file is not a saved model, is damaged or incomplete, or has a newer format version.

    See Also
    --------
    TreeCRF.save : Save a model.
    treecrf.runtime.load : Load a model for labeling only, without scikit-learn.
    export_c : Write a model as C code.

    Notes
    -----
    Unlike a pickle, a model file contains no code. Nothing in a file is ever executed.

    Examples
    --------
    >>> import pathlib, tempfile, treecrf
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
            unknown = model_file.shortened(repr(name))
            raise model_file.ModelFileError(f"{path}: a model of unknown class {unknown}")
        return restored(CLASSES[name], values, arrays)
