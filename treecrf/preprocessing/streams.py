"""Online transformation of a sequence, and pipelines that label it while it arrives."""

from __future__ import annotations

import copy
import re
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.forms import is_frame
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.stream import Stream, copied_row
from treecrf.learners.per_sequence import PerSequence

if TYPE_CHECKING:
    from treecrf.preprocessing.transformer import SequenceTransformer


class TransformerStream:
    """Transforms a sequence online, one position after another.

    The method ``stream`` of a fitted transformer creates it, such as `RollingFeatures.stream`. Each
    call of `push` takes the same time on average, however long the sequence has become.

    Parameters
    ----------
    transformer : RollingFeatures or SequenceScaler
        A fitted transformer. The stream does not change if it is fitted again.

    Attributes
    ----------
    n_pushed : int
        Number of positions of the current sequence so far.
    delay : int
        Number of positions by which results lag behind: those to the right in the windows.

    See Also
    --------
    treecrf.stream : Label a sequence with a pipeline while it is still arriving.

    Examples
    --------
    >>> from treecrf.preprocessing import RollingFeatures
    >>> rolling = RollingFeatures(windows=3, statistics="mean", keep=False)
    >>> stream = rolling.fit([[[1.0], [2.0]]]).stream()
    >>> stream.delay
    1
    >>> [stream.push([value]) for value in (4.0, 6.0, 8.0)]
    [None, array([5.]), array([6.])]
    >>> stream.finish()
    [array([7.])]
    """

    def __init__(self, transformer: SequenceTransformer):
        check_is_fitted(transformer)
        transformer._check_parameters()
        self._transformer = copy.copy(transformer)
        self._names = transformer._new_names()
        self._online = transformer._online()
        self.delay = self._online.delay
        self.reset()

    def reset(self) -> TransformerStream:
        """Start a new sequence, and forget the current one.

        Returns
        -------
        self : TransformerStream
            The stream.
        """
        self.n_pushed = 0
        # The rows that have no results yet.
        self._rows: deque = deque()
        self._online.reset()
        return self

    def push(self, row: Any) -> Any:
        """Add a position to the sequence.

        Parameters
        ----------
        row : object
            One position of the input: a dict, or a 1-D array, sparse row or list of values.

        Returns
        -------
        object or None
            The transformed row of the position ``delay`` steps before, as a dict or an array. None
            for the first ``delay`` positions of a sequence.

        Raises
        ------
        ValueError, TypeError
            If the row does not match the data in `fit`. The stream then remains unchanged.
        """
        sequence = _sequence_of(row)
        numbers = self._read(sequence)
        self._rows.append(sequence)
        self.n_pushed += 1
        return self._result(self._online.push(numbers))

    def finish(self) -> list:
        """End the sequence, and start a new one.

        Returns
        -------
        list
            The transformed rows of the remaining positions, at most ``delay`` of them.
        """
        missing = np.full(len(self._transformer._chosen), np.nan)
        results = [self._result(self._online.push(missing)) for _ in range(self.delay)]
        self.reset()
        return [row for row in results if row is not None]

    def _read(self, sequence: Any) -> np.ndarray:
        """Check a row; return the numbers that features are computed of."""
        transformer = self._transformer
        try:
            sequences = transformer._read(
                [sequence], Segmentation(), transformer._schema, transformer._others
            )
            return transformer._numbers(sequences)[0]
        except (ValueError, TypeError) as error:
            message = re.sub(r"^sequence 0(, position 0)?", f"position {self.n_pushed}", str(error))
            raise type(error)(message) from None

    def _result(self, values: np.ndarray | None) -> Any:
        """Return the oldest row with its new values, if they are known."""
        if values is None:
            return None
        rows = self._transformer._with_values(self._rows.popleft(), values[np.newaxis], self._names)
        return rows.toarray()[0] if sparse.issparse(rows) else rows[0]


class PipelineStream:
    """Labels a sequence online with a pipeline, one position after another.

    `treecrf.stream` creates it. It has the methods of `treecrf.Stream`.

    Parameters
    ----------
    transformers : list of streams
        Streams of the transformers, in the order of the steps.
    model : treecrf.Stream
        Stream of the last step.

    Attributes
    ----------
    n_pushed : int
        Number of positions of the current sequence so far.
    delay : int
        Number of positions by which results lag behind: the sum of the delays of the steps.

    See Also
    --------
    treecrf.stream : Creates the stream of a pipeline, with an example.
    """

    def __init__(self, transformers: list, model: Stream):
        self._transformers = transformers
        self._model = model
        self.delay = sum(step.delay for step in (*transformers, model))
        self.n_pushed = 0

    def reset(self) -> PipelineStream:
        """Start a new sequence, and forget the current one.

        Returns
        -------
        self : PipelineStream
            The stream.
        """
        for step in (*self._transformers, self._model):
            step.reset()
        self.n_pushed = 0
        return self

    def push(self, row: Any) -> np.ndarray | None:
        """Add a position to the sequence.

        Parameters
        ----------
        row : object
            One position of the input of the pipeline: a dict, or a 1-D array or list of values.

        Returns
        -------
        float array of shape (n_classes,) or None
            Probabilities of the labels at the position ``delay`` steps before, given the input so
            far. None for the first ``delay`` positions of a sequence.

        Raises
        ------
        ValueError, TypeError
            If the row does not match the training data. If the first step refuses it, the stream
            remains unchanged.
        """
        probabilities = self._passed_on(row, 0)
        self.n_pushed += 1
        return probabilities

    def finish(self) -> list[np.ndarray]:
        """End the sequence, and start a new one.

        Returns
        -------
        list of float arrays of shape (n_classes,)
            Probabilities of the labels of the remaining positions, at most ``delay`` of them.
        """
        results = []
        for i, step in enumerate(self._transformers):
            results += [self._passed_on(row, i + 1) for row in step.finish()]
        results += self._model.finish()
        self.n_pushed = 0
        return [p for p in results if p is not None]

    def _passed_on(self, row: Any, first: int) -> np.ndarray | None:
        """Push a row through the steps from one on."""
        for step in self._transformers[first:]:
            row = step.push(row)
            if row is None:
                return None
        return self._model.push(row)


class RowStream:
    """Transforms one row after another with a transformer that treats each row alone."""

    delay = 0

    def __init__(self, transformer: Any):
        self._transformer = _of_tables(transformer)

    def reset(self) -> None:
        """Do nothing; no row depends on another one."""

    def push(self, row: Any) -> Any:
        """Return the transformed row."""
        table = _sequence_of(row)
        if hasattr(self._transformer, "feature_names_in_"):
            table = _one_row_frame(table, self._transformer.feature_names_in_)
        result = self._transformer.transform(table)
        if sparse.issparse(result):
            return result.toarray()[0]
        return _first_row(result) if is_frame(result) else result[0]

    def finish(self) -> list:
        """Return the rows that remain: none."""
        return []


def stream(model: Any, lag: int = 0) -> Stream | PipelineStream:
    """Label a sequence online with a fitted model or pipeline, while it is still arriving.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model with the method ``stream``, or a pipeline whose last step is such a model.
        The other steps of a pipeline can be:

        - transformers of `treecrf.preprocessing`;
        - transformers of scikit-learn that treat each row alone, such as ``StandardScaler``;
        - `PerSequence` with such a transformer of scikit-learn.
    lag : int, default=0
        Number of further positions to wait for before the probabilities of a position are computed.
        A larger lag makes them more accurate, and later.

    Returns
    -------
    Stream or PipelineStream
        A stream, whose methods ``push``, ``finish`` and ``reset`` are described in `Stream`. That
        of a pipeline takes rows as the first step does.

    Raises
    ------
    NotFittedError
        If the model or a step is not fitted.
    TypeError
        If a step cannot transform a sequence online.
    ValueError
        If a transformer or the model needs the whole sequence, or ``lag`` is not a nonnegative
        integer.

    See Also
    --------
    Stream : The methods of a stream.
    treecrf.preprocessing.RollingFeatures : Statistics of the latest positions.

    Examples
    --------
    A pipeline computes the mean of the last positions and labels each position as it arrives:

    >>> import numpy as np
    >>> import treecrf
    >>> from sklearn.pipeline import make_pipeline
    >>> from treecrf.preprocessing import RollingFeatures
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat(["on", "off", "on"], [9, 20, 6]) for _ in range(8)]
    >>> X = [50 * rng.random() + (labels == "on")[:, None] for labels in y]
    >>> rolling = RollingFeatures(windows=25, centered=False)
    >>> pipe = make_pipeline(rolling, treecrf.TreeCRF(max_iter=5)).fit(X, y)
    >>> stream = treecrf.stream(pipe)
    >>> [pipe.classes_[stream.push(row).argmax()].item() for row in X[0][7:11]]
    ['on', 'on', 'off', 'off']
    """
    if not isinstance(model, Pipeline):
        return model.stream(lag)
    *transformers, (_, last) = _steps_of(model)
    return PipelineStream([_stream_of(*named) for named in transformers], last.stream(lag))


def _steps_of(pipeline: Pipeline) -> list[tuple[str, Any]]:
    """Return the names and the steps of a pipeline, and of pipelines among its steps."""
    steps = []
    for name, step in pipeline.steps:
        if isinstance(step, Pipeline):
            steps += _steps_of(step)
        elif step not in (None, "passthrough"):
            steps.append((name, step))
    return steps


def _stream_of(name: str, step: Any) -> TransformerStream | RowStream:
    """Return the stream of a transformer; that of a model does not transform."""
    check_is_fitted(step)
    if hasattr(step, "stream") and not isinstance(step, SequenceClassifier):
        return step.stream()
    transformer = _of_tables(step)
    if not type(transformer).__module__.startswith("sklearn.") or _may_need_rows(transformer):
        raise TypeError(
            f"the step {name!r} is a {type(step).__name__}, which may need several rows at once; "
            "expected a transformer with the method stream, or one of scikit-learn that treats "
            "each row alone"
        )
    return RowStream(step)


def _may_need_rows(transformer: Any) -> bool:
    """Return whether a transformer of scikit-learn, or one inside, may use neighboring rows."""
    parts = [transformer, *transformer.get_params().values()]
    return any(isinstance(part, FunctionTransformer) or hasattr(part, "stream") for part in parts)


def _of_tables(step: Any) -> Any:
    """Return a transformer of tables: that of a `PerSequence`, or the step itself."""
    return step.transformer_ if isinstance(step, PerSequence) else step


def _sequence_of(row: Any) -> Any:
    """Return a sequence of a copy of one row."""
    row = copied_row(row)
    return row[np.newaxis] if isinstance(row, np.ndarray) else [row]


def _one_row_frame(table: Any, names: np.ndarray) -> Any:
    """Return a row of a dict or of values as a data frame of pandas."""
    import pandas as pd

    if isinstance(table[0], dict):
        return pd.DataFrame([[table[0].get(name) for name in names]], columns=list(names))
    return pd.DataFrame([list(table[0])], columns=list(names))


def _first_row(frame: Any) -> dict:
    """Return the first row of a data frame as a dict."""
    import narwhals.stable.v2 as narwhals

    return narwhals.from_native(frame, eager_only=True).rows(named=True)[0]
