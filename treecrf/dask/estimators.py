"""Estimators that train on a Dask cluster, with the parameters of the local ones."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from dask import delayed
from distributed import Client, default_client
from distributed.protocol import pickle
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from treecrf.dask.cluster import PREFIX, Cluster
from treecrf.dask.partitions import local_partitions, require_memory_of_workers
from treecrf.dask.sources import (
    DISTRIBUTED,
    EXPECTED,
    described_type,
    files_of,
    form_of,
    is_path,
    is_table,
    raw_partitions,
    read_parquet,
    refuse_other_collections,
    require_column,
)
from treecrf.inputs.column_names import ColumnNames
from treecrf.inputs.columns import order_of
from treecrf.inputs.data_warnings import warn_of_columns_in_use
from treecrf.inputs.dataset import RawData, named
from treecrf.inputs.forms import is_frame
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import closest_name, column_names
from treecrf.learners.base.callbacks import as_callbacks
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.learner import reading_rules
from treecrf.learners.base.opening import VALIDATION_DATA
from treecrf.learners.base.predictor import accuracy_of
from treecrf.learners.base.reading import read_training
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.engines import trains_on_partitions
from treecrf.learners.boosted.training import train
from treecrf.learners.large.partitioned import UnreadPartitions
from treecrf.learners.local.memm import TreeMEMM
from treecrf.learners.local.windows import SlidingWindowClassifier
from treecrf.utils.validation import documented, documented_as, warn_without_effect


def predicted(model: Any, method: str, X: Any, options: dict) -> Any:
    """Return the predictions of a method of a fitted local model, as `DaskMixin` does.

    The model is a task, so that it is sent once to each worker.
    """
    names = inspect.signature(getattr(model, method)).parameters.keys() - {"X"}
    for name in options:
        if name not in names:
            raise TypeError(f"{method} has no argument {name!r}{closest_name(name, sorted(names))}")
    pickled = pickle.dumps(model)
    token = hashlib.blake2b(pickled, digest_size=8).hexdigest()
    task = delayed(pickle.loads)(pickled, dask_key_name=f"{PREFIX}model-{token}")
    form = form_of(X)
    if form == "parts":
        return [_predict_partition(part, task, method, options) for part in X]
    if form == "bag":
        return X.map_partitions(predict_sequences, task, method, options)
    if form != "frame":
        from dask import dataframe

        X = dataframe.from_map(read_frame, files_of(X))
    # Columns are checked before anything is computed.
    expected = getattr(model, "feature_names_in_", None)
    names = column_names(X._meta)
    if expected is not None and all(isinstance(name, str) for name in names):
        features = tuple(name for name in names if name in expected)
        order_of(features, tuple(expected), "X", "the training data")
    _check_groups(model, X, options)
    if options.get("n_best", 1) != 1:
        raise ValueError(f"n_best={options['n_best']!r}; expected 1 for a dask data frame")
    meta = _as_frame(model, method, None, _empty(model, method), None)
    return X.map_partitions(predict_frame, task, method, options, meta=meta, enforce_metadata=False)


def _check_groups(model: Any, X: Any, options: dict) -> None:
    """Raise an error unless the sequences of a data frame are defined by a column."""
    for name in ("allowed", "known", "init_score", "lengths"):
        if options.get(name) is not None:
            raise TypeError(
                f"{name} has values for positions or sequences, which is not supported for a dask "
                "data frame; pass a bag or delayed objects, or call the method of to_local() on "
                "each partition"
            )
    groups = options.get("groups")
    if groups is None:
        groups = fitted_model(model).predictor.columns.group
    if not isinstance(groups, str):
        given = "not given" if groups is None else f"of type {type(groups).__name__}"
        raise TypeError(f"groups is {given}; expected the name of the column of groups")
    require_column(X._meta, groups, "groups")


def read_frame(file: Any) -> Any:
    """Read a Parquet file as a data frame of pandas without an index.

    `fit` reads tables of pyarrow, in which an index with a name is a column.
    """
    return read_parquet(file).to_pandas(ignore_metadata=True)


@delayed
def _predict_partition(part: Any, model: Any, method: str, options: dict) -> Any:
    return getattr(model, method)(part, **options)


def predict_sequences(items: Any, model: Any, method: str, options: dict) -> list:
    """Return a prediction for each sequence of a partition of a bag."""
    items = list(items)
    if not items:
        return []
    result = getattr(model, method)(items, **options)
    if method == "decode":
        return list(zip(*result, strict=True))
    return list(result)


def predict_frame(frame: Any, model: Any, method: str, options: dict) -> Any:
    """Return predictions for a partition of a data frame, with its index."""
    if not len(frame):
        return _as_frame(model, method, frame.index, _empty(model, method), None)
    result = getattr(model, method)(frame, **options)
    lengths = None
    if method == "decode":
        predictor = fitted_model(model).predictor
        segmentation = predictor.segmentation(
            frame, options.get("lengths"), options.get("groups"), may_be_empty=False
        )
        lengths = np.diff(predictor.checked(frame, segmentation).offsets)
    return _as_frame(model, method, frame.index, result, lengths)


def _empty(model: Any, method: str) -> Any:
    """Return the predictions for a table without rows."""
    labels = model.classes_[:0]
    if method == "predict_proba":
        return np.zeros((0, len(model.classes_)))
    return (labels, np.zeros(0)) if method == "decode" else labels


def _as_frame(model: Any, method: str, index: Any, result: Any, lengths: Any) -> Any:
    """Return predictions for a long table as a series or a data frame."""
    import pandas as pd

    # The type does not depend on the labels that are in the result.
    dtype = pd.Series(model.classes_).dtype
    if method == "predict":
        name = fitted_model(model).predictor.columns.label or "label"
        return pd.Series(result, index=index, dtype=dtype, name=name)
    if method == "predict_proba":
        # Parquet has strings as names only.
        return pd.DataFrame(
            result, index=index, columns=[str(label) for label in model.classes_.tolist()]
        )
    labels, values = result
    values = values if lengths is None else np.repeat(values, lengths)
    columns = {"label": pd.Series(labels, index=index, dtype=dtype), "log_probability": values}
    return pd.DataFrame(columns, index=index)


def count_correct(raw: RawData, model: Any) -> tuple[float, float, int, int]:
    """Count the labels of a partition; see `Predictor.count_correct`."""
    if not len(raw.X):
        return 0.0, 0.0, 0, 0
    predictor = fitted_model(model).predictor
    segmentation = raw.segmentation
    if not segmentation.is_long:
        segmentation = predictor.segmentation(raw.X, None, None)
    raw = replace(raw, segmentation=replace(segmentation, may_be_empty=True))
    with named(raw.place):
        return predictor.count_correct(raw)


# What follows the first line of each class's docstring.
DOCUMENTATION = """

With the same ``random_state``, the model is equal, to the bit, to a `LOCAL` trained on all data in
one place. The numbers of workers, partitions and threads do not matter. `fit` has an example.

Parameters
----------
Running

n_jobs : int or None, default=None
    Number of threads of each worker. None is all threads that Dask gives it, and -1 all processors.
    The result does not depend on it.
client : distributed.Client or None, default=None
    Client of the cluster that trains the model. None is the client that was created last.

See Also
--------
treecrf.LOCAL : The estimator for local data.
"""
# What the docstrings of all predictions say.
OF_PREDICTIONS = {
    "raises": """Raises
        ------
        NotFittedError
            If the model has not been fitted.
        TypeError, ValueError
            If X is a single delayed object or future, or another collection of Dask, or a data
            frame that lacks columns of the training data, or an argument is not supported.
            Partitions raise the errors of the local method when they are computed."""
}


class DaskMixin:
    """Training and prediction on a Dask cluster.

    It precedes the local class among the bases of an estimator, whose constructor takes the same
    parameters and a client.
    """

    _parameter_constraints: ClassVar[dict]
    _local_class: ClassVar[type[BoostedSequenceClassifier]]
    client: Client | None

    def __init_subclass__(cls) -> None:
        """Derive the constructor and the documentation from the local class."""
        super().__init_subclass__()
        local = next(base for base in cls.__bases__ if not issubclass(base, DaskMixin))
        cls._local_class = local
        cls._parameter_constraints = local._parameter_constraints | {"client": "no_validation"}
        cls.__init__ = _constructor(local)
        if cls.__doc__ is not None:  # as it is in python -OO
            cls.__doc__ += DOCUMENTATION.replace("LOCAL", local.__name__)
        documented_as(local)(cls)

    # Training

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        fold_groups: Any = None,
        sample_weight_val: Any = None,
        groups_val: Any = None,
        callbacks: Iterable[Callable[..., Any]] | None = None,
        **unsupported: Any,
    ) -> Self:
        """Fit the model to labeled sequences on the workers of a cluster.

        With the same ``random_state``, the model is equal, to the bit, to the model of the local
        estimator on all data. The data are read twice. All positions of a sequence must be in one
        partition.

        Parameters
        ----------
        X : dask data frame, dask bag, list of delayed objects or futures, or path
            The sequences, in one of these forms:

            - A data frame with the columns ``y`` and ``groups``.
            - A bag of pairs (X, y) of a sequence and its labels, or a bag of sequences.
            - A list of delayed objects or futures, one for each partition, with a pair (X, y) as
              the local ``fit`` takes it, or with X alone.
            - A path, a URL, a folder or a pattern of Parquet files that all workers can read. Each
              file is a partition.
        y : str, or a collection with the partitions of X, optional
            Name of the column of labels, or the labels of the partitions of X. It is not needed if
            X holds pairs.
        X_val, y_val : optional
            Validation data, in one of these forms, or as the local ``fit`` takes them.
        sample_weight : str, or a collection with the partitions of X, optional
            Name of the column of weights, or the weights of the sequences in each partition.
            Alternatively, bags and delayed objects hold triples (X, y, sample_weight).
        groups : str, or a collection with the partitions of X, optional
            Name of the column with the sequence that each position belongs to, for data frames.
        fold_groups : str, or a collection with the partitions of X, optional
            Name of the column with the group of each sequence, such as a person, or the groups of
            the sequences in each partition, as in the local ``fit``. A group may be in several
            partitions.
        sample_weight_val, groups_val : optional
            Weights and groups of ``X_val`` and ``y_val``. The default of ``groups_val`` is
            ``groups`` if it is the name of a column of ``X_val``. Sequences in a list have no
            groups.
        callbacks : list of callables, optional
            Functions that are called after each iteration, as in the local ``fit``. They are called
            in this process.
        **unsupported
            The other arguments of the local ``fit`` raise a TypeError.

        Returns
        -------
        self : object
            The fitted estimator. If fitting fails or is interrupted, it remains unchanged.

        Raises
        ------
        ValueError, TypeError
            If a parameter, a sequence or a label sequence is invalid, or a sequence is in several
            partitions. The message names the partition, or its file.
        FileNotFoundError
            If no file has the path, or matches the pattern.
        MemoryError
            If the data would not fit in the memory of the workers.
        WorkersLostError
            If more workers are lost than can be replaced, or all of them.
        RuntimeError
            If the versions of treecrf or NumPy on the workers differ from those of this process.

        Examples
        --------
        >>> import pandas as pd
        >>> from dask import dataframe as dd
        >>> from distributed import Client
        >>> from treecrf.dask import DaskTreeCRF
        >>> table = pd.DataFrame({
        ...     "letter": list("bananacabana"),
        ...     "kind": list("cv" * 6),
        ...     "word": [0] * 6 + [1] * 6,
        ... })
        >>> frame = dd.from_pandas(table, npartitions=1)
        >>> client = Client(processes=False, n_workers=1, dashboard_address=None)
        >>> crf = DaskTreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(frame, "kind", groups="word")
        >>> "".join(crf.predict(frame).compute())
        'cvcvcvcvcvcv'
        >>> crf.to_local()
        TreeCRF(l2_regularization=1.0, max_iter=5, window=1)
        >>> client.close()
        """
        local = self.to_local()
        self._check_fit(local, X, unsupported)
        warn_without_effect(local, local._needed, X_val is not None)
        columns = {k: v for k, v in (("y", y), ("groups", groups)) if form_of(v) == "series"}
        if form_of(X) == "frame":
            warn_of_columns_in_use(X._meta, columns)
        if groups_val is None and isinstance(groups, str) and _has_groups(X_val, y_val, X, groups):
            groups_val = groups
        label = y
        if "y" in columns:
            label = y.name
        passed = label, groups, None, fold_groups
        names = [value if isinstance(value, str) else None for value in passed]
        with Cluster(self._client()) as cluster:
            raws = raw_partitions(cluster, X, y, groups, sample_weight, fold_groups=fold_groups)
            partitions = UnreadPartitions(raws)
            validation = _validation(cluster, X_val, y_val, groups_val, sample_weight_val)
            spec = local._spec()
            data = read_training(reading_rules(local), partitions, validation)
            if trains_on_partitions(spec, data):
                require_memory_of_workers(cluster, spec, data)
            trained = train(spec, data, as_callbacks(callbacks), local._copy_of)
        fitted = local._attributes_of(trained) | {"_n_unlabeled": data.n_unlabeled}
        fitted |= {"_columns": ColumnNames(*names)}
        # A single assignment: an interrupt leaves either the old results or all of the new ones.
        self.__dict__ = vars(local._fitted_copy(fitted)) | {"client": self.client}
        return self

    def _check_fit(self, local: BoostedSequenceClassifier, X: Any, unsupported: dict) -> None:
        """Raise an error for data, parameters and arguments that a cluster does not support."""
        name = self._local_class.__name__
        if unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit does not support {' or '.join(unsupported)}; "
                f"{name}.fit may, on local data"
            )
        self._validate_params()
        if form_of(X) not in ("frame", "bag", "parts") and not is_path(X):
            raise TypeError(f"X is {described_type(X)}; {EXPECTED}. {name} fits local data")
        if not local._takes_parts:
            raise ValueError(f"estimator={self.estimator!r}; expected None on a cluster")

    def _client(self) -> Client:
        if self.client is None:
            try:
                return default_client()
            except ValueError as error:
                raise ValueError(
                    "there is no Dask client; make one with distributed.Client, or pass client"
                ) from error
        if not isinstance(self.client, Client):
            raise TypeError(
                f"client is of type {type(self.client).__name__}; expected distributed.Client"
            )
        return self.client

    # Conversion

    def to_local(self) -> BoostedSequenceClassifier:
        """Return the local estimator with the same parameters, fitted if this one is.

        Returns
        -------
        TreeCRF, TreeMEMM or SlidingWindowClassifier
            The local estimator. It shares the trees with this one, and does not refer to the
            cluster.
        """
        local = self._local_class.__new__(self._local_class)
        local.__dict__ = self.__getstate__()
        del local.__dict__["client"]
        return local

    @classmethod
    def from_local(cls, local: BoostedSequenceClassifier, client: Client | None = None) -> Self:
        """Return an estimator with the parameters and the trees of a local one.

        Use it to continue training on a cluster: with ``warm_start=True``, `fit` adds iterations to
        the model, for example to one that `treecrf.callbacks.Checkpoint` has saved.

        Parameters
        ----------
        local : TreeCRF, TreeMEMM or SlidingWindowClassifier
            The local estimator, of the class that `to_local` returns.
        client : distributed.Client or None, default=None
            Client of the cluster. None is the client that was created last.

        Returns
        -------
        DaskTreeCRF, DaskTreeMEMM or DaskSlidingWindowClassifier
            An estimator of this class, fitted if ``local`` is. It shares the trees with ``local``.

        Raises
        ------
        TypeError
            If ``local`` is of another class.
        """
        if type(local) is not cls._local_class:
            raise TypeError(
                f"local is of type {type(local).__name__}; expected {cls._local_class.__name__}"
            )
        estimator = cls.__new__(cls)
        estimator.__dict__ = local.__getstate__() | {"client": client}
        return estimator

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model to a file, as the local estimator does.

        `treecrf.load` returns the local estimator. `from_local` makes an estimator for the cluster
        of it.

        Parameters
        ----------
        path : path-like
            File to write, conventionally with the extension ``.treecrf``.
        """
        self.to_local().save(path)

    def __getstate__(self) -> dict:
        # A client is a connection of this process.
        return super().__getstate__() | {"client": None}

    def __sklearn_clone__(self) -> Self:
        return type(self).from_local(clone(self.to_local()), self.client)

    # Prediction

    @documented(OF_PREDICTIONS)
    def predict(self, X: Any, **options: Any) -> Any:
        """Predict the label of every position.

        Parameters
        ----------
        X : dask data frame, dask bag, list of delayed objects or futures, or path
            Sequences, as in `fit`. The items of a bag are sequences. All positions of a sequence
            are in one partition. For local data, this process computes the results.
        **options
            Arguments of the local ``predict``.

        Returns
        -------
        dask series, dask bag, or list of delayed objects
            Labels in the partitions of X, which are not computed yet. A series has the index of
            the data frame, and the name of the column of labels in training, or ``label`` if it
            had none. A bag has one array for each sequence.

        $raises
        """
        return self._predicted("predict", X, options)

    @documented(OF_PREDICTIONS)
    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Predict the probability of every label at every position, given the whole sequence.

        Parameters
        ----------
        X : dask data frame, dask bag, list of delayed objects or futures, or path
            Sequences, as in `predict`.
        **options
            Arguments of the local ``predict_proba``.

        Returns
        -------
        dask data frame, dask bag, or list of delayed objects
            Marginal probabilities in the partitions of X, which are not computed yet. A data frame
            has the index of X and a column for each of ``classes_``, whose name is the label as a
            string.

        $raises
        """
        return self._predicted("predict_proba", X, options)

    @documented(OF_PREDICTIONS)
    def decode(self, X: Any, n_best: int = 1, **options: Any) -> Any:
        """Find the most probable label sequences and their log-probabilities.

        Parameters
        ----------
        X : dask data frame, dask bag, list of delayed objects or futures, or path
            Sequences, as in `predict`.
        n_best : int, default=1
            Number of label sequences for each sequence. It must be 1 for data frames.
        **options
            Other arguments of the local ``decode``.

        Returns
        -------
        dask data frame, dask bag, or list of delayed objects
            Labels and log-probabilities in the partitions of X, which are not computed yet. A data
            frame has the index of X, and the columns ``label`` and ``log_probability`` (of the
            whole sequence). A bag has a pair of labels and log-probability for each sequence. A
            delayed object is the result of the local ``decode``.

        $raises
        """
        return self._predicted("decode", X, {"n_best": n_best} | options)

    def _predicted(self, method: str, X: Any, options: dict) -> Any:
        check_is_fitted(self, "classes_")
        refuse_other_collections(X)
        if not form_of(X) and not is_table(X):
            return getattr(self.to_local(), method)(X, **options)
        return predicted(self.to_local(), method, X, options)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> float:
        """Compute the accuracy: the fraction of labels that are predicted correctly.

        Parameters
        ----------
        X : dask data frame, dask bag, list of delayed objects or futures, or path
            Sequences, as in `fit`.
        y : str, or a collection with the partitions of X, optional
            True labels, as in `fit`. Positions whose label is unknown are ignored. The default for
            data frames and files is the column that held the labels in training.
        sample_weight : str, or a collection with the partitions of X, optional
            Weights, as in `fit`.
        groups : str, or a collection with the partitions of X, optional
            Sequence that each position belongs to, as in `fit`. The default for data frames and
            files is the column in training.

        Returns
        -------
        float
            Accuracy, from 0 to 1.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data.
        """
        check_is_fitted(self, "classes_")
        refuse_other_collections(X)
        if not form_of(X) and not is_path(X):
            return self.to_local().score(X, y, sample_weight, groups=groups)
        if form_of(X) == "frame" or is_path(X):
            groups = self._columns.group if groups is None else groups
            y = self._columns.label if y is None else y
        with Cluster(self._client()) as cluster:
            raw = raw_partitions(cluster, X, y, groups, sample_weight)
            counts = raw.map(count_correct, self.to_local())
        return accuracy_of(counts)


def _validation(
    cluster: Cluster, X: Any, y: Any, groups: Any, sample_weight: Any
) -> UnreadPartitions | None:
    """Return the validation data, which may be local; None if there are none."""
    if (X is None) != (y is None) and form_of(X) not in DISTRIBUTED:
        given, missing = ("y_val", "X_val") if X is None else ("X_val", "y_val")
        raise ValueError(f"{given} is given without {missing}; pass both or neither")
    if X is None:
        return None
    refuse_other_collections(X, "X_val")
    if form_of(X) or is_table(X):
        raws = raw_partitions(cluster, X, y, groups, sample_weight, "_val")
    else:
        raw = RawData(X, y, Segmentation(None, groups), sample_weight)
        raws = local_partitions(cluster, [raw])
    return UnreadPartitions(raws, VALIDATION_DATA)


def _has_groups(X_val: Any, y_val: Any, X: Any, name: str) -> bool:
    """Return whether validation data have the column of the groups of the training data."""
    form = form_of(X_val)
    if form == "parts":
        return form_of(X) == "parts" or isinstance(y_val, str)
    if form or not is_frame(X_val):
        return form in ("frame", "series") or is_table(X_val)
    return name in column_names(X_val)


def _constructor(local: type) -> Callable[..., None]:
    """Return a constructor with the parameters of a local estimator, and a client."""
    signature = inspect.signature(local.__init__)

    @functools.wraps(local.__init__)
    def __init__(self: Any, *, client: Any = None, **parameters: Any) -> None:
        for name in parameters:
            if name not in signature.parameters:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
                )
        local.__init__(self, **parameters)
        self.client = client

    parameter = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    __init__.__signature__ = signature.replace(
        parameters=[*signature.parameters.values(), parameter]
    )
    del __init__.__wrapped__
    return __init__


class DaskTreeCRF(DaskMixin, TreeCRF):
    """Conditional random field trained by gradient tree boosting on a Dask cluster."""


class DaskTreeMEMM(DaskMixin, TreeMEMM):
    """Maximum-entropy Markov model trained by gradient tree boosting on a Dask cluster."""


class DaskSlidingWindowClassifier(DaskMixin, SlidingWindowClassifier):
    """Sliding window classifier with boosted trees, trained on a Dask cluster."""
