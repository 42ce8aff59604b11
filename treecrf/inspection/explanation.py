"""Contributions of features and previous labels to scores, and the explanation of one position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.chains.contexts import check_label_codes, context_contributions, previous_labels
from treecrf.encoding.column_layout import BOUNDARY
from treecrf.encoding.names import bracketed, feature_in_test, label_or_none, value_text
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import label_column
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.schema import BOOLEAN, CATEGORY
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import CheckedData, check_model, code_of, integer_between, window_of
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.contributions import LinearExplainer, model_with_weights
from treecrf.trees.explain.shapley import ForestExplainer, Players
from treecrf.trees.forest import LABEL
from treecrf.utils.exact import LEAF_UNIT
from treecrf.utils.threads import Threads, check_memory, size_text
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """Contributions to the scores of labels at all positions, from `contributions`.

    Attributes
    ----------
    base_values : float64 array of shape (n_labels,)
        Expected score of each label if no feature and no previous label is known.
    values : list of float64 arrays of shape (n_positions, n_labels, n_features)
        Contributions, in an array for each sequence. For a long table, one array of all positions.
    feature_names : str array of shape (n_features,)
        Names such as ``word[-1]`` for the word before the position, ``label[-1]`` for the label
        before it, and ``outside[-1]`` for whether there is no position before it.
    labels : array of shape (n_labels,)
        The labels whose scores are explained: all labels of the model, or the chosen one.
    mean_absolute : float64 array of shape (n_labels, n_features)
        Mean of the absolute contributions over all positions, which measures how important the
        features are for the score of each label.

    See Also
    --------
    contributions : Compute the contributions.
    Explanation : Contributions at one position.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import contributions
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> found = contributions(LinearCRF(window=1).fit(X, y), X)
    >>> found.labels.tolist(), found.values[0].shape, found.mean_absolute.shape
    (['c', 'v'], (6, 2, 6), (2, 6))
    """

    base_values: np.ndarray
    values: Any
    feature_names: np.ndarray
    labels: np.ndarray

    def __repr__(self) -> str:
        return (
            f"Contributions({len(self._long())} positions, {len(self.labels)} labels, "
            f"{len(self.feature_names)} features)"
        )

    @property
    def mean_absolute(self) -> np.ndarray:
        """Mean absolute contribution of each feature to the score of each label.

        A float64 array of shape (n_labels, n_features), averaged over all positions. It measures
        how important the features are.
        """
        return np.abs(self._long()).mean(axis=0)

    def _long(self) -> np.ndarray:
        if isinstance(self.values, list):
            return np.concatenate(self.values)
        return self.values


def contributions(
    model: Any,
    X: SequencesLike,
    y: LabelsLike | None = None,
    *,
    label: Any = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Contributions:
    """Divide the scores of labels among the features and the previous labels.

    The score of a label at a position, given the previous labels, is the sum of a base value and of
    one contribution per feature at each offset of the window and per previous label. The
    contributions are Shapley values [1]_.

    In a conditional random field and in a maximum margin model, the scores are summed over the
    positions of a label sequence. In local models, the scores at a position are normalized to
    log-probabilities; the contributions are those to the scores before.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees, a flat model of one, or a linear model.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    y : list of array-like of shape (n_positions,), array-like or str, default=None
        Labels of X, for the contributions of previous labels. By default, these are the predicted
        labels.
    label : str, int or bool, default=None
        Label whose score is explained, which takes less time and memory than all labels. By
        default, the scores of all labels are explained.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Contributions
        The base values and the contributions to the score of each label at each position.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the scores of the model are not sums of trees or of weights of a window's attributes.
    ValueError
        If X does not match the training data, y does not match X, the model has no such label, or
        it has more than 255 labels.
    MemoryError
        If the contributions do not fit in memory.

    See Also
    --------
    explain : The same for one position, with descriptions of the values.
    permutation_importance : Importance of features for a score of the predictions.

    Notes
    -----
    The players are the features at each offset of the window, the ends of the sequence at each
    offset, and the previous label at each lag. The value of a coalition of players is the score if
    only the tests of these players are answered. At all other tests, a position goes to both
    children, weighted by their covers: the fractions of the training examples that went there [2]_.
    The base value is the value of the empty coalition.

    - **Missing values.** With ``missing="weighting"``, a position without a value goes to both
      children as well. A missing value therefore contributes only through tests of whether it is
      missing, and exactly 0 to trees without such tests. With ``"surrogate"``, a feature gets the
      contribution even if surrogates of its tests answer. With ``"impute"`` or ``"indicator"``, the
      imputed value or the indicator contributes.
    - **Rounding.** The model rounds the fractions of positions without a value to multiples of
      2**-16. Scores may therefore differ from the sum of the contributions by about 1e-5.
    - **Covers** are numbers of training examples times their weights, in steps of first and of
      second order. `export_text` prints them as fractions. Examples in which the value of a test
      was missing do not count. On samples (``sampling``), covers are estimates, and in second-order
      boosting they disregard the weights. Models that were saved by early versions keep their
      covers.
    - **Previous labels.** The examples of a conditional random field are positions in all contexts
      of previous labels. The base value is therefore a mean over all previous labels, not only over
      the likely ones.
    - **Linear models and linear starts.** A feature contributes the sum of its attributes times
      their weights, and the base value is the score if all attributes are 0. Weights of previous
      labels and constant transitions are relative to their mean over the previous labels. If the
      weight of an attribute depends on the previous label, the deviation from that mean is divided
      equally between the two.
    - **Forbidden labels.** Labels that the parameter ``transitions`` forbids have scores as if they
      were allowed.
    - **Initial scores** that were passed as ``init_score`` are not included. Pass the labels that
      were predicted with them as ``y``.

    References
    ----------
    .. [1] L. Shapley, "A value for n-person games", Contributions to the Theory of Games II,
       1953.
    .. [2] S. Lundberg et al., "From local explanations to global understanding with explainable AI
       for trees", Nature Machine Intelligence 2, 2020.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import contributions
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     window=1, max_iter=5, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> found = contributions(crf, X)
    >>> found
    Contributions(18 positions, 2 labels, 5 features)
    >>> found.values[0].shape
    (6, 2, 5)

    The importance of each feature for the label *v*, the second one:

    >>> for name, value in zip(found.feature_names, found.mean_absolute[1]):
    ...     print(f"{name:11}  {value:.2f}")
    symbol[-1]   0.36
    symbol[0]    0.00
    outside[-1]  0.00
    outside[+1]  0.01
    label[-1]    0.68
    """
    explainer = ScoreExplainer.of(model, label)
    data = CheckedData.of(model, X, y, lengths, groups)
    sequences = data.chain_sequences()
    previous = explainer.labels_before(sequences, data.chain_codes())
    values = explainer.values(sequences, previous)
    by_sequence = fitted_model(model).predictor.as_read(split_sequences(values, sequences.offsets))
    return Contributions(
        base_values=explainer.base_values,
        values=data.segmentation.join(by_sequence),
        feature_names=explainer.names,
        labels=model.classes_[explainer.codes],
    )


@dataclass(frozen=True)
class ScoreExplainer:
    """Explainer of the scores of a model, which may be sums of trees and of a linear model."""

    model: SequenceClassifier
    # Codes of the labels whose scores to explain.
    codes: list[int]
    # Explainers of the terms of the scores; None if there is no such term.
    trees: ForestExplainer | None
    linear: LinearExplainer | None
    # Constant scores by number of labels before, label and context; None if there are none.
    transitions: np.ndarray | None = None

    @classmethod
    def of(cls, model: Any, label: Any = None) -> ScoreExplainer:
        """Find what the scores of a model consist of; raises errors as `contributions`."""
        check_model(model)
        classes = model.classes_
        check_label_codes(len(classes), "explaining scores")
        if label is None:
            codes = list(range(len(classes)))
        else:
            codes = [code_of(classes, label)]
        window_of(model)  # raises TypeError for other models
        if isinstance(model, LinearSequenceClassifier):
            return cls(model, codes, None, LinearExplainer(model_with_weights(model), codes))
        chain = fitted_model(model).chain
        forest = chain.forest
        trees = ForestExplainer(forest, chain.encoder, codes)
        linear = None
        if chain.start is not None:
            linear = LinearExplainer(chain.start, codes)
        transitions = None
        if forest.transitions is not None:
            transitions = forest.sum_of_transitions((0, forest.n_iter)) * LEAF_UNIT
        return cls(model, codes, trees, linear, transitions)

    @property
    def chain(self) -> Any:
        """The chain of the model."""
        return fitted_model(self.model).chain

    @property
    def players(self) -> Players:
        """The players of the trees, of the linear model, and of constant transitions."""
        players = [term.players for term in (self.trees, self.linear) if term is not None]
        if self.transitions is not None:
            order = self.chain.order
            players.append(Players.from_pairs(np.full(order, LABEL), np.arange(1, order + 1)))
        if len(players) == 1:
            return players[0]
        return players[0].union(*players[1:])

    @property
    def base_values(self) -> np.ndarray:
        """Expected scores (n_codes,)."""
        terms = [term.base_values for term in (self.trees, self.linear) if term is not None]
        if self.transitions is not None:
            no_positions = np.zeros((self.chain.order, 0), dtype=np.uint8)
            means, _ = context_contributions(self.transitions, no_positions)
            terms.append(means[self.codes])
        return np.sum(terms, axis=0)

    @property
    def names(self) -> np.ndarray:
        """Names of the players, array of str objects."""
        return np.array([self.name_of(*player) for player in self.players.pairs], dtype=object)

    def name_of(self, feature: int, offset: int) -> str:
        """Name a player as in the names of tests."""
        chain = self.chain
        schema = chain.schema
        sign = -1 if chain.is_backward else 1
        if feature == LABEL:
            return f"label{bracketed(-sign * offset)}"
        if feature >= schema.n_features:
            return f"future{feature - schema.n_features}"
        at = bracketed(sign * offset) if any(window_of(self.model)) else ""
        if feature == BOUNDARY:
            return f"outside{at}"
        return feature_in_test(schema, feature, at)

    def labels_before(self, sequences: Sequences, codes: np.ndarray) -> np.ndarray:
        """Return the label at each lag before each position; uint8 array (order, n_positions)."""
        chain = self.chain
        return previous_labels(codes, sequences.offsets, len(chain.classes), chain.order)

    def values(
        self, sequences: Sequences, previous: np.ndarray, position: int | None = None
    ) -> np.ndarray:
        """Compute the contributions (n_positions, n_codes, n_players), or those at one position.

        The sequences and the labels before each position are in the direction of the chain.
        """
        n = sequences.n_positions if position is None else 1
        players = self.players
        values = _zeros(n, len(self.codes), len(players))
        if self.linear is not None:
            self.linear.add_contributions(sequences, previous, players, values, position)
        if position is not None:
            previous = np.ascontiguousarray(previous[:, [position]])
        with Threads(self.model.n_jobs) as threads:
            if self.trees is not None:
                encoded = self.trees.encoder.encode(sequences, threads)
                if position is not None:
                    rows = encoded.row_of_position[[position]]
                    encoded = replace(encoded, row_of_position=rows)
                self.trees.add_contributions(encoded, previous, players, values, threads)
        if self.transitions is not None:
            lags = np.arange(1, len(previous) + 1)
            columns = players.index_of(np.full(len(lags), LABEL), lags)
            _, lag_values = context_contributions(self.transitions, previous)
            values[:, :, columns] += lag_values[:, self.codes]
        return values


def _zeros(n_positions: int, n_labels: int, n_players: int) -> np.ndarray:
    """Return zeros of this shape; raises MemoryError if they do not fit in memory."""
    n_bytes = np.dtype(np.float64).itemsize * n_positions * n_labels * n_players
    check_memory(
        n_bytes,
        f"the contributions of {n_players} features to {n_labels} labels at {n_positions} "
        f"positions need {size_text(n_bytes)}: pass a label, or fewer sequences",
    )
    return np.zeros((n_positions, n_labels, n_players))


# Contributions that are listed in the text of an explanation.
N_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions to the scores of labels at one position, from `explain`.

    ``print(explanation)`` lists the strongest contributions to the score of ``label``.

    Attributes
    ----------
    base_values : float64 array of shape (n_labels,)
        Expected score of each label if no feature and no previous label is known.
    values : float64 array of shape (n_labels, n_features)
        Contributions to the score of each label.
    feature_names : str array of shape (n_features,)
        Names of the features at the offsets of the window and of the previous labels, as in
        `Contributions`.
    descriptions : str array of shape (n_features,)
        Names with the values at this position, such as ``word[-1] = 'the'``.
    labels : array of shape (n_labels,)
        The labels whose scores are explained: all labels of the model, or the chosen one.
    label : str, int or bool
        The chosen label. If none was chosen, the given or else the predicted label of the position.
    position : int
        The position in the sequence, or the row of the long table, counted from 0.
    scores : float64 array of shape (n_labels,)
        Score of each label: the sum of its base value and its contributions.

    See Also
    --------
    explain : Explain the scores at a position.
    treecrf.plotting.plot_explanation : Draw an explanation as a waterfall.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import explain
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     window=1, max_iter=5, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> explanation = explain(crf, "nab", 1)
    >>> explanation.label, explanation.labels.tolist()
    ('v', ['c', 'v'])
    >>> explanation.scores.round(2)
    array([-0.53,  1.4 ])
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
        """Score of each label: the sum of its base value and its contributions.

        A float64 array of shape (n_labels,).
        """
        return self.base_values + self.values.sum(axis=1)

    def strongest(self, label: Any = None, n: int = N_SHOWN) -> list[tuple[str, float]]:
        """Return the contributions with the largest absolute values.

        Parameters
        ----------
        label : str, int or bool, default=None
            Label whose score is explained. By default, this is the label of the position.
        n : int, default=10
            Maximum number of contributions.

        Returns
        -------
        list of (str, float)
            Descriptions and contributions other than 0, the strongest first.

        Raises
        ------
        ValueError
            If the label is not among those explained.

        Examples
        --------
        >>> from treecrf import LinearCRF
        >>> from treecrf.inspection import explain
        >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
        >>> crf = LinearCRF(window=1).fit(X, y)
        >>> for name, value in explain(crf, "nab", 1).strongest(n=2):
        ...     print(f"{value:.2f} {name}")
        0.51 label[-1] = 'c'
        0.39 symbol[0] = 'a'
        """
        if label is None:
            label = self.label
        values = self.values[code_of(self.labels, label)]
        chosen = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(self.descriptions[j], float(values[j])) for j in chosen if values[j]]

    def to_pandas(self) -> Any:
        """Return the explanation as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            A column for each label. The first row is the base value, and each of the others the
            contribution of a feature, whose description is the index.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from treecrf import LinearCRF
        >>> from treecrf.inspection import explain
        >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
        >>> crf = LinearCRF(window=1).fit(X, y)
        >>> explain(crf, "nab", 1).to_pandas().round(2).head(3)
                             c     v
        base value       -0.09  0.09
        symbol[-1] = 'n' -0.16  0.16
        symbol[0] = 'a'  -0.39  0.39
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
        k = code_of(self.labels, self.label)
        strongest = self.strongest()
        summands = [("base value", float(self.base_values[k])), *strongest]
        n_others = int(np.count_nonzero(self.values[k])) - len(strongest)
        if n_others:
            others = self.values[k].sum() - sum(value for _, value in strongest)
            summands.append((f"{n_others} others", float(others)))
        summands.append((f"score of {self.label!r} at position {self.position}", self.scores[k]))
        return "\n".join(f"{value:+8.3f}  {name}" for name, value in summands)


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

    The score of a label, given the previous labels, is the sum of a base value and of one
    contribution per feature at each offset of the window and per previous label. The contributions
    are Shapley values. The notes of `contributions` define them and name the source.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees, a flat model of one, or a linear model.
    x : sequence or long table
        One sequence, in a form that the model accepts. Or a long table, as in
        `treecrf.TreeCRF.predict`.
    position : int
        Position in the sequence, or row of the long table, from 0. Negative numbers count from the
        end.
    y : array-like of shape (n_positions,) or str, default=None
        Labels of all positions, for the contributions of previous labels, or the name of the data
        frame column that holds them. By default, these are the predicted labels.
    label : str, int or bool, default=None
        Label whose score is explained. By default, the scores of all labels are explained.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if x is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if x is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Explanation
        The base values and the contributions. Printed, it lists the strongest contributions to the
        score of the label of the position.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the scores of the model are not sums of trees or of weights of a window's attributes.
    ValueError
        If x does not match the training data, y does not match x, the position or the label does
        not exist, or the model has more than 255 labels.

    See Also
    --------
    contributions : The same for all positions of many sequences.
    treecrf.plotting.plot_explanation : Draw an explanation as a waterfall.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import explain
    >>> X, y = ["banana", "panama", "cabana"], ["cvcvcv"] * 3
    >>> crf = TreeCRF(
    ...     window=1, max_iter=5, l2_regularization=1.0,
    ...     second_order=False, learning_rate=1.0,
    ... ).fit(X, y)
    >>> print(explain(crf, "nab", 1))
      +0.025  base value
      +0.883  label[-1] = 'c'
      +0.504  symbol[-1] = 'n'
      -0.013  not outside[+1]
      +1.399  score of 'v' at position 1
    """
    explainer = ScoreExplainer.of(model, label)
    predictor = fitted_model(model).predictor
    if not predictor.segmentation(x, lengths, groups, may_be_empty=False).is_long:
        if is_frame(x) and isinstance(y, str):
            x, y = label_column(x, y, is_long=True)
        x = [x]
        y = None if y is None else [y]
    data = CheckedData.of(model, x, y, lengths, groups)
    n = data.sequences.n_positions
    what = f": the sequence has {n} positions"
    row = integer_between("position", position, -n, n - 1, what) % n
    return _explained_row(explainer, data, row, label)


def explained_rows(
    model: SequenceClassifier, sequences: Sequences, codes: np.ndarray, rows: np.ndarray
) -> list[Explanation]:
    """Explain the scores of all labels at some positions, given the labels of all positions.

    Sequences, codes and rows are in the direction of the input. Raises errors as `explain`.
    """
    explainer = ScoreExplainer.of(model)
    labels = split_sequences(model.classes_[codes], sequences.offsets)
    data = CheckedData(model, sequences, labels, Segmentation())
    return [_explained_row(explainer, data, row, None) for row in rows.tolist()]


def _explained_row(
    explainer: ScoreExplainer, data: CheckedData, row: int, label: Any
) -> Explanation:
    """Explain a position of all sequences, in the direction of the input."""
    i = int(np.searchsorted(data.sequences.offsets, row, side="right")) - 1
    first, last = data.sequences.offsets[i : i + 2].tolist()
    t = row - first
    if explainer.chain.is_backward:
        t = last - 1 - row
    return _explained(explainer, data.sequence(i), row, t, label)


def _explained(
    explainer: ScoreExplainer, data: CheckedData, row: int, t: int, label: Any
) -> Explanation:
    """Explain position ``t``, in the direction of the chain, of one sequence."""
    sequences = data.chain_sequences()
    codes = data.chain_codes()
    previous = explainer.labels_before(sequences, codes)
    input_rows = sequences.rows(0, 1)
    previous_codes = previous[:, t].tolist()
    descriptions = [
        _described(explainer, feature, offset, sequences, input_rows, previous_codes, t)
        for feature, offset in explainer.players.pairs
    ]
    classes = data.model.classes_
    if label is None:
        label = classes[codes[t]].item()
    return Explanation(
        base_values=explainer.base_values,
        values=explainer.values(sequences, previous, t)[0],
        feature_names=explainer.names,
        descriptions=np.array(descriptions, dtype=object),
        labels=classes[explainer.codes],
        label=label,
        position=row,
    )


def _described(
    explainer: ScoreExplainer,
    feature: int,
    offset: int,
    sequences: Sequences,
    rows: Any,
    previous_codes: list[int],
    position: int,
) -> str:
    """Name a player with its value at a position of one sequence, in the direction of the chain.

    ``rows`` are the values of the sequence. ``previous_codes`` are the codes of the labels at each
    lag before the position.
    """
    name = explainer.name_of(feature, offset)
    if feature == LABEL:
        return f"{name} = {label_or_none(explainer.model.classes_, previous_codes[offset - 1])}"
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
    if kind == BOOLEAN:
        return f"{name} = {bool(value)}"
    column = None if explainer.trees is None else explainer.trees.encoder.columns[feature]
    return f"{name} = {value_text(column, value)}"
