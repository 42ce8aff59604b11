"""Labeling with saved models, quick to start and small: without scikit-learn, scipy and pandas.

`treecrf.load` restores an estimator, for which scikit-learn is imported. `load` of this module
restores only what predictions need. Its predictions are those of the estimator, to the last bit,
because the same code makes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from os import PathLike
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

from treecrf.inputs.column_names import ColumnNames
from treecrf.learners.base.predictor import Predictor
from treecrf.learners.base.saving import restored_parameters
from treecrf.utils import model_file

if TYPE_CHECKING:
    import numpy as np

    from treecrf.learners.base.stream import Stream
    from treecrf.utils.typing import GroupsLike, LengthsLike, MasksLike, SequencesLike

__all__ = ["Labeler", "load"]

# Values of ``decoding``; models that are normalized at each position have more.
DECODINGS = ("marginal", "viterbi", "minimum_risk")
LOCAL_DECODINGS = (*DECODINGS, "greedy", "beam")
# Of each class of saved models: the module with its ``restored_chain``, and values of ``decoding``.
CLASSES = {
    "HMMClassifier": ("hmm_chain", DECODINGS),
    "LinearCRF": ("linear.saved", DECODINGS),
    "RecurrentSlidingWindowClassifier": ("local.saved", LOCAL_DECODINGS),
    "SequenceBoostingClassifier": ("linear.saved", DECODINGS),
    "SlidingWindowClassifier": ("local.saved", LOCAL_DECODINGS),
    "StructuredPerceptron": ("linear.saved", DECODINGS),
    "StructuredSVM": ("linear.saved", DECODINGS),
    "TreeCRF": ("boosted.saved", DECODINGS),
    "TreeMEMM": ("local.saved", LOCAL_DECODINGS),
}
# Classes of saved models that only `treecrf.load` restores.
OTHER_CLASSES = ("FlatModel", "FutureFeatureMEMM")


def load(
    path: str | PathLike[str], *, decoding: str | None = None, n_jobs: int | None = None
) -> Labeler:
    """Load a saved model for labeling, without importing scikit-learn, scipy or pandas.

    Parameters
    ----------
    path : str or path-like
        File that the method ``save`` of an estimator has written.
    decoding : str, default=None
        How `Labeler.predict` chooses labels. By default, the parameter ``decoding`` of the
        estimator applies.
    n_jobs : int, default=None
        Number of threads. By default, the parameter ``n_jobs`` of the estimator applies. -1 uses
        all processors.

    Returns
    -------
    Labeler
        The model, with methods to label sequences.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ModelFileError
        If the file is not a saved model, is damaged or incomplete, or has a newer format version.
    TypeError
        If only `treecrf.load` can load the model: a `treecrf.FlatModel`, a
        `treecrf.FutureFeatureMEMM`, a `treecrf.StructuredSVM` with a kernel, or a linear model
        whose attributes are not those of a window.
    ValueError
        If ``decoding`` or ``n_jobs`` is not a value that the estimator takes.

    See Also
    --------
    treecrf.load : Load the estimator itself.
    treecrf.export_c : Write a model as C code.

    Notes
    -----
    Unlike a pickle, a model file contains no code. Nothing in a file is ever executed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from treecrf import LinearCRF, runtime
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
    >>> LinearCRF(window=1).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
    >>> labeler = runtime.load(path)
    >>> labeler.predict(["ab"])[0].tolist()
    ['x', 'y']
    """
    values, arrays = model_file.read(path)
    given = {"decoding": decoding, "n_jobs": n_jobs}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        with model_file.as_model_file_error(path):
            name = _class_of(values)
            parameters = restored_parameters(values["parameters"])
            _check_parameters(name, parameters)
        _check_parameters(name, given)
        with model_file.as_model_file_error(path):
            return Labeler(_restored_predictor(name, parameters | given, values, arrays))
    except model_file.NeedsEstimator as error:
        raise TypeError(f"{path}: {error}, which only treecrf.load supports") from None


def load_for_labeling(path: str | PathLike[str], **given: Any) -> Any:
    """Return a `Labeler`, or the estimator of a model that only `treecrf.load` supports.

    The arguments are those of `load`.
    """
    try:
        return load(path, **given)
    except TypeError:
        from treecrf.learners.registry import load as load_estimator

        estimator = load_estimator(path)
        return estimator.set_params(**given) if given else estimator


class Labeler:
    """A saved model that labels sequences, from `load`.

    Its methods are those of the estimator that was saved, with the same results to the last bit. A
    labeler never changes, and threads may share it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features. It is 1 for symbols.
    decoding : str
        How `predict` chooses labels.

    See Also
    --------
    load : Load a saved model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from treecrf import TreeCRF, runtime
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
    >>> TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
    >>> labeler = runtime.load(path, decoding="viterbi")
    >>> labeler.classes_.tolist()
    ['x', 'y']
    >>> labeler.decode(["ab"])[0][0].tolist()
    ['x', 'y']
    """

    def __init__(self, predictor: Predictor):
        self._fitted = predictor
        self.classes_ = predictor.chain.classes
        self.n_features_in_ = predictor.chain.schema.n_features
        self.decoding = predictor.decoding

    def __repr__(self) -> str:
        return f"<Labeler of a {self._fitted.name} with {len(self.classes_)} labels>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what the first prediction makes."""
        return vars(self) | {"_fitted": replace(self._fitted)}

    def _predictor(self) -> Predictor:
        """Return the model, as the method of estimators."""
        return self._fitted

    def predict(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Predict the label of every position.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
        allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
            Labels that are possible at each position, as in `treecrf.TreeCRF.predict`.
        known : list of lists of labels, default=None
            Labels that are already known, with None at all other positions, as in
            `treecrf.TreeCRF.predict`.
        lengths : array-like of int of shape (n_sequences,), default=None
            Number of positions of each sequence, if X is a long table.
        groups : array-like of shape (n_positions,) or str, default=None
            Sequence of each position, if X is a long table, or the name of the data frame column
            that holds it.

        Returns
        -------
        list of arrays of shape (n_positions,)
            Labels chosen by ``decoding``. For a long table, one array of all positions.

        Raises
        ------
        ValueError, TypeError
            If X does not match the training data, or no label sequence is possible. The message
            names the sequence and the reason.
        ModuleNotFoundError
            If X needs scipy or pandas, which is not installed.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from treecrf import TreeCRF, runtime
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
        >>> TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
        >>> labeler = runtime.load(path)
        >>> labeler.predict(["ab"], known=[["y", None]])[0].tolist()
        ['y', 'y']
        """
        return self._fitted.predict(_listed(X), allowed, known, None, lengths, groups)

    def predict_proba(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Predict the probability of every label at every position, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
        allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
            Labels that are possible at each position, as in `treecrf.TreeCRF.predict`.
        known : list of lists of labels, default=None
            Labels that are already known, with None at all other positions, as in
            `treecrf.TreeCRF.predict`.
        lengths : array-like of int of shape (n_sequences,), default=None
            Number of positions of each sequence, if X is a long table.
        groups : array-like of shape (n_positions,) or str, default=None
            Sequence of each position, if X is a long table, or the name of the data frame column
            that holds it.

        Returns
        -------
        list of float64 arrays of shape (n_positions, n_classes)
            Marginal probabilities, with columns in the order of ``classes_``. For a long table, one
            array of all positions.

        Raises
        ------
        ValueError, TypeError, ModuleNotFoundError
            As in `predict`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from treecrf import TreeCRF, runtime
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
        >>> TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
        >>> labeler = runtime.load(path)
        >>> labeler.predict_proba(["ab"])[0].shape
        (2, 2)
        """
        return self._fitted.predict_proba(_listed(X), allowed, known, None, lengths, groups)

    def decode(
        self,
        X: SequencesLike,
        n_best: int = 1,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> tuple[Any, Any]:
        """Find the most probable label sequences and their log-probabilities.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
        n_best : int, default=1
            Number of label sequences to return for each sequence.
        allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
            Labels that are possible at each position, as in `treecrf.TreeCRF.predict`.
        known : list of lists of labels, default=None
            Labels that are already known, with None at all other positions, as in
            `treecrf.TreeCRF.predict`.
        lengths : array-like of int of shape (n_sequences,), default=None
            Number of positions of each sequence, if X is a long table.
        groups : array-like of shape (n_positions,) or str, default=None
            Sequence of each position, if X is a long table, or the name of the data frame column
            that holds it.

        Returns
        -------
        labels : list of arrays of shape (n_positions,)
            The most probable label sequence of each sequence, as from `treecrf.TreeCRF.decode`. If
            ``n_best`` is greater than 1, a list of lists of arrays, the most probable first.
        log_probabilities : float64 array of shape (n_sequences,)
            Log-probabilities of these label sequences. If ``n_best`` is greater than 1, a list of
            arrays.

        Raises
        ------
        ValueError, TypeError, ModuleNotFoundError
            As in `predict`. ValueError also if ``n_best`` is not a positive integer.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from treecrf import TreeCRF, runtime
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
        >>> TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
        >>> labeler = runtime.load(path)
        >>> labels, log_probabilities = labeler.decode(["ab"], n_best=2)
        >>> [sequence.tolist() for sequence in labels[0]]
        [['x', 'y'], ['x', 'x']]
        """
        return self._fitted.decode(_listed(X), n_best, allowed, known, None, lengths, groups)

    def stream(self, lag: int = 0) -> Stream:
        """Label a sequence online, while it is still arriving.

        Parameters
        ----------
        lag : int, default=0
            Number of further positions to wait for before the probabilities of a position are
            computed. A larger lag makes them more accurate, and later.

        Returns
        -------
        Stream
            A stream, as from `treecrf.TreeCRF.stream`.

        Raises
        ------
        ValueError
            If ``lag`` is not a nonnegative integer, or the model needs whole sequences.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from treecrf import TreeCRF, runtime
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
        >>> TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]).save(path)
        >>> labeler = runtime.load(path)
        >>> stream = labeler.stream()
        >>> [labeler.classes_[stream.push(symbol).argmax()].item() for symbol in "ab"]
        ['x', 'y']
        """
        from treecrf.learners.base.stream import Stream

        return Stream(self, lag)


def _listed(X: Any) -> Any:
    """Return the sequences of a tuple or a generator as a list, which is read in less time."""
    return list(X) if isinstance(X, tuple | GeneratorType) else X


# Contents of files


def _class_of(values: Mapping[str, Any]) -> str:
    """Return the class of a saved model, which is one of `CLASSES`."""
    name = values["class"]
    if name in OTHER_CLASSES:
        raise model_file.NeedsEstimator(f"the model is a {name}")
    if name not in CLASSES:
        unknown = model_file.shortened(repr(name))
        raise ValueError(f"a model of unknown class {unknown}")
    return name


def _check_parameters(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if the estimator would refuse a parameter of prediction."""
    decodings = CLASSES[name][1]
    if parameters.get("decoding", decodings[0]) not in decodings:
        _refuse(parameters, "decoding", "one of " + ", ".join(map(repr, decodings)))
    n_jobs = parameters.get("n_jobs")
    if n_jobs is not None and (not _is_integer(n_jobs) or n_jobs == 0):
        _refuse(parameters, "n_jobs", "a number of threads, or -1")
    width = parameters.get("beam_width")
    if width is not None and (not _is_integer(width) or width < 1):
        _refuse(parameters, "beam_width", "a positive integer")
    if not isinstance(parameters.get("cost_matrix"), dict | tuple | None):
        _refuse(parameters, "cost_matrix", "a matrix or a dict")
    if not isinstance(parameters.get("transitions"), str | dict | tuple | None):
        _refuse(parameters, "transitions", "the name of a scheme, a matrix or a dict")


def _refuse(parameters: Mapping[str, Any], name: str, expected: str) -> NoReturn:
    raise ValueError(f"{name}={parameters[name]!r}; expected {expected}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _restored_predictor(
    name: str,
    parameters: Mapping[str, Any],
    values: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> Predictor:
    """Return the predictor of a saved model, given the parameters of its estimator."""
    module = importlib.import_module(f"treecrf.learners.{CLASSES[name][0]}")
    return Predictor(
        chain=module.restored_chain(parameters, values, arrays),
        name=name,
        decoding=parameters["decoding"],
        cost_matrix=parameters.get("cost_matrix"),
        n_jobs=parameters.get("n_jobs"),
        columns=ColumnNames.from_state(values.get("columns", {})),
        init_score_error=None,
    )
