"""Explanation of the scores of labels at one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.names import label_or_none
from treecrf.encoding.plan import BOUNDARY
from treecrf.inputs.frames import label_column
from treecrf.inputs.sequences import BOOLEAN, CATEGORY, Sequences
from treecrf.inputs.values import is_frame
from treecrf.inspection.fitted import CheckedData, code_of, integer_between
from treecrf.inspection.score_contributions import ScoreExplainer
from treecrf.trees.forest import LABEL
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike

# Contributions that are listed in the text of an explanation.
N_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions to the scores of labels at one position.

    Attributes
    ----------
    base_values : float array (n_labels,)
        Expected score of each label.
    values : float array (n_labels, n_features)
        Contributions to the score of each label.
    feature_names : array of str (n_features,)
        Names, as in `Contributions`.
    descriptions : array of str (n_features,)
        Names with the values at this position, such as ``word[-1] = 'the'``.
    labels : array (n_labels,)
    label : str, int or bool
        The chosen label; by default, the predicted or given label of the position.
    position : int
    """

    base_values: np.ndarray
    values: np.ndarray
    feature_names: np.ndarray
    descriptions: np.ndarray
    labels: np.ndarray
    label: Any
    position: int

    @property
    def scores(self) -> np.ndarray:
        """Score of each label, the sum of its base value and its contributions."""
        return self.base_values + self.values.sum(axis=1)

    def strongest(self, label: Any = None, n: int = N_SHOWN) -> list[tuple[str, float]]:
        """Return the contributions with the largest absolute values.

        Parameters
        ----------
        label : str, int or bool, optional
            Label whose score is explained; by default, the label of the position.
        n : int, default=10
            Maximum number of contributions.

        Returns
        -------
        list of (str, float)
            Descriptions and contributions, the strongest first.

        Raises
        ------
        ValueError
            If there is no such label.
        """
        values = self.values[code_of(self.labels, self.label if label is None else label)]
        chosen = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(self.descriptions[j], float(values[j])) for j in chosen if values[j]]

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a row for each feature and a column for each label.

        The first row is the base value.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        table = np.vstack([self.base_values, self.values.T])
        return pd.DataFrame(table, index=["base value", *self.descriptions], columns=self.labels)

    def __repr__(self) -> str:
        return (
            f"Explanation(position={self.position}, label={self.label!r}, "
            f"{len(self.labels)} labels, {len(self.feature_names)} features)"
        )

    def __str__(self) -> str:
        k, strongest = code_of(self.labels, self.label), self.strongest()
        rest = self.values[k].sum() - sum(value for _, value in strongest)
        lines = [("base value", float(self.base_values[k])), *strongest]
        n_others = int(np.count_nonzero(self.values[k])) - len(strongest)
        if n_others:
            lines.append((f"{n_others} others", float(rest)))
        text = [f"{value:+8.3f}  {name}" for name, value in lines]
        total = f"{self.scores[k]:+8.3f}  score of {self.label!r} at position {self.position}"
        return "\n".join([*text, total])


def explain(
    model: Any,
    x: Any,
    position: int,
    y: LabelsLike | None = None,
    *,
    label: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Explanation:
    """Explain the scores of the labels at one position of a sequence.

    The score of a label, given the previous labels, is the sum of a base value and of contributions
    of the features at each offset of the window and of each previous label. The contributions are
    Shapley values; see `contributions` for their definition.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees, a flat model of one, or a linear model.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table as in the model's
        ``predict``.
    position : int
        Position in the sequence, or row of the long table; negative numbers count from the end.
    y : array-like of shape (n_positions,) or str, optional
        Labels of all positions, or the name of the data frame column with them, for the tests of
        previous labels; predicted by default.
    label : str, int or bool, optional
        If given, only the score of this label is explained.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    Explanation

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the scores of the model are not sums of trees or of weights of a window's attributes.
    ValueError
        If x does not match the training data, y does not match x, or the position or the label does
        not exist.

    See Also
    --------
    contributions : The same for all positions of many sequences.
    treecrf.plotting.plot_explanation : Plot an explanation.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import explain
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> settings = dict(l2_regularization=1.0, second_order=False, learning_rate=1.0)
    >>> crf = TreeCRF(window=1, max_iter=5, **settings).fit(X, y)
    >>> print(explain(crf, "nab", 1))
      +0.025  base value
      +0.883  label[-1] = 'c'
      +0.504  symbol[-1] = 'n'
      -0.013  not outside[+1]
      +1.399  score of 'v' at position 1
    """
    explainer = ScoreExplainer.of(model, label)
    if not model._predictor().segmentation(x, lengths, groups, may_be_empty=False).is_long:
        if is_frame(x) and isinstance(y, str):
            x, y = label_column(x, y, is_long=True)
        x, y = [x], None if y is None else [y]
    data = CheckedData.of(model, x, y, lengths, groups)
    n = data.sequences.n_positions
    what = f": the sequence has {n} positions"
    row = integer_between("position", position, -n, n - 1, what) % n
    i = int(np.searchsorted(data.sequences.offsets, row, side="right")) - 1
    first, last = data.sequences.offsets[i : i + 2].tolist()
    t = last - 1 - row if model._predictor().chain.is_backward else row - first
    data = data.sequence(i)
    sequences, codes = data.chain_sequences(), data.chain_codes()
    previous = explainer.labels_before(sequences, codes)
    values = explainer.values(sequences, previous, t)[0]
    rows, before = sequences.rows(0, 1), previous[:, t].tolist()
    described = [
        _described(explainer, feature, offset, sequences, rows, before, t)
        for feature, offset in explainer.players.pairs
    ]
    return Explanation(
        base_values=explainer.base_values,
        values=values,
        feature_names=explainer.names,
        descriptions=np.array(described, dtype=object),
        labels=model.classes_[explainer.codes],
        label=model.classes_[codes[t]].item() if label is None else label,
        position=row,
    )


def _described(
    explainer: ScoreExplainer,
    feature: int,
    offset: int,
    sequences: Sequences,
    rows: Any,
    before: list[int],
    position: int,
) -> str:
    """Name a player with its value at a position of one sequence, in the direction of the chain.

    ``rows`` are the values of the sequence, ``before`` the codes of the labels at each lag.
    """
    name = explainer.name_of(feature, offset)
    if feature == LABEL:
        return f"{name} = {label_or_none(explainer.model.classes_, before[offset - 1])}"
    t = position + offset
    is_outside = not 0 <= t < sequences.n_positions
    if feature == BOUNDARY:
        return name if is_outside else f"not {name}"
    if feature >= sequences.n_features:
        return name
    if is_outside:
        return f"{name} is outside"
    if sequences.form == "symbols":
        return f"{name} = {rows[t].item()!r}"
    value = rows[[t]].toarray()[0, feature] if sparse.issparse(rows) else rows[t, feature]
    if value != value:
        return f"{name} is missing"
    kind = sequences.column_kinds[feature]
    if kind == CATEGORY and not value:
        return f"{name} is new"
    if kind == CATEGORY:
        # Categories are counted from 1; 0 stands for unknown ones.
        return f"{name} = {sequences.categories[feature][int(value) - 1].item()!r}"
    return f"{name} = {bool(value)}" if kind == BOOLEAN else f"{name} = {value:.4g}"
