"""Standardization within the sequence."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from treecrf.preprocessing._windows import GrowingWindow, standardize
from treecrf.preprocessing.streams import TransformerStream
from treecrf.preprocessing.transformer import SequenceTransformer


class SequenceScaler(SequenceTransformer):
    """Standardize each column within its sequence.

    The sequences of different people, machines, or days may differ in level and spread, whatever
    their labels are. The z-score of a value is its distance from the mean of its own sequence, in
    standard deviations of the sequence. ``StandardScaler`` uses the mean and the deviation of all
    training data instead, which makes no difference to trees.

    Parameters
    ----------
    running : bool, default=False
        Whether the mean and the deviation are those of the positions so far, including the current
        one. A sequence can then be labeled while it is still arriving.
    columns : list of str or int, default=None
        Names or indices of the columns to standardize. None means all numbers and booleans.
    keep : bool, default=False
        Whether to keep these columns and append the z-scores, such as ``heat_zscore`` for
        ``heat``. If False, the z-scores replace them, and come after all other columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str
        Names of these columns, if they have names.

    See Also
    --------
    RollingFeatures : Differences and deviations over windows.

    Notes
    -----
    Missing values are skipped and remain missing. The standard deviation has the divisor n. Where
    it is 0, as in a column without changes and at the first value of a running one, the z-score is
    0.

    Examples
    --------
    >>> from treecrf.preprocessing import SequenceScaler
    >>> for sequence in SequenceScaler().fit_transform([[[1.0], [3.0]], [[70.0], [90.0]]]):
    ...     print(sequence.ravel())
    [-1.  1.]
    [-1.  1.]
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceTransformer._parameter_constraints,
        "running": ["boolean"],
    }

    def __init__(
        self, *, running: bool = False, columns: ArrayLike | None = None, keep: bool = False
    ):
        self.running = running
        self.columns = columns
        self.keep = keep

    def stream(self) -> TransformerStream:
        """Return a stream that standardizes a sequence online.

        Returns
        -------
        TransformerStream
            Its results are equal, to the bit, to those of `transform`.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.
        ValueError
            If ``running`` is False, because the mean of a sequence is not known before its end.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> stream = SequenceScaler(running=True).fit([[[1.0], [2.0]]]).stream()
        >>> [stream.push([value]).tolist() for value in (1.0, 3.0)]
        [[0.0], [1.0]]
        """
        return TransformerStream(self)

    def _names_of(self, name: str) -> list[str]:
        return [f"{name}_zscore" if self.keep else name]

    def _compute(self, table: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        result = np.empty_like(table)
        for j, values in enumerate(table.T):
            standardize(values, offsets, self.running, result[:, j])
        return result

    def _online(self) -> OnlineScores:
        if not self.running:
            raise ValueError(
                "running=False standardizes by the whole sequence, which a stream does not know; "
                "expected running=True"
            )
        return OnlineScores(len(self._chosen))


class OnlineScores:
    """The z-scores of a sequence of rows, one after another."""

    delay = 0

    def __init__(self, n_columns: int):
        self._windows = [GrowingWindow() for _ in range(n_columns)]

    def reset(self) -> None:
        """Start a new sequence."""
        for window in self._windows:
            window.reset()

    def push(self, row: np.ndarray) -> np.ndarray:
        """Add a row; return its z-scores."""
        return np.array(
            [window.push(value) for window, value in zip(self._windows, row, strict=True)]
        )
