"""Partial dependence: mean probabilities or scores of labels as a function of a feature's value."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from treecrf.chains.contexts import true_contexts
from treecrf.chains.lattice import runs_of_tables
from treecrf.encoding.column_layout import MISSING
from treecrf.encoding.encoded import EncodedSequences, chained
from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.names import bracketed, feature_names
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import as_list
from treecrf.inspection.fitted import (
    CheckedData,
    ReplacedSequences,
    category_counts,
    check_model,
    column_values,
    feature_index,
    integer_between,
    window_of,
)
from treecrf.inspection.scores import MAX_BYTES
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.chains import ForestChain, require_table
from treecrf.learners.flat.model import FlatAttributes
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.contributions import model_with_weights, without_feature
from treecrf.trees.forest import TEST
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive

RESPONSES = ("probability", "score")
# By default, this many of the most frequent values of a category; a curve with more points is hard
# to read.
N_FREQUENT = 20
# By default, at least this many values of a number, unless X has fewer: lines between them look
# like a smooth curve.
N_SPREAD = 50
# Values of a number lie between these quantiles, because X says little about rarer ones.
QUANTILES = (0.05, 0.95)
# If the number of values is limited, at most this fraction of them is next to thresholds. The
# others are evenly spaced.
AT_THRESHOLDS = 0.8
# Windows of about this many bytes are made at a time.
PIECE_BYTES = 1 << 25

# A function of sequences that returns scores (n_labels, n_positions, n_contexts).
Scores = Callable[[Sequences, Threads], np.ndarray]


def partial_dependence(
    model: Any,
    X: SequencesLike,
    feature: str | int,
    offset: int | None = 0,
    *,
    values: Any = None,
    n_values: int | None = None,
    response: str = "probability",
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> Bunch:
    """Compute the mean probability or score of each label as a function of a feature's value.

    For each value, the model predicts as if the feature had this value at one offset of the window
    of every position [1]_. The results are averaged over the positions where this offset is inside
    the sequence. All other positions keep their scores.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees, a flat model of one, or a linear model. With
        ``offset=None``, any classifier of treecrf.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    feature : str or int
        Name or index of the feature.
    offset : int or None, default=0
        Offset in the window, in positions. Positive offsets are to the right. None stands for all
        offsets: the feature has the value at all positions of all sequences.
    values : list, default=None
        Values of the feature. By default, they depend on its kind:

        - for a category, the 20 most frequent ones in X;
        - for a boolean, False and True;
        - for a number, those in X if there are at most 50, or else 50 evenly spaced ones from the 5
          % to the 95 % quantile. The values on both sides of each threshold between them, at which
          trees change the score, are added. So are 50 evenly spaced values, if the model does not
          consist of trees alone.
    n_values : int, default=None
        Maximum number of values, if ``values`` is None. A small number saves time, but some of the
        thresholds of a number are then left out. By default, it is 20 for a category, and a number
        has no limit.
    response : {"probability", "score"}, default="probability"
        What is averaged:

        - ``"probability"``: the marginal probabilities of the labels;
        - ``"score"``: their scores given the predicted labels before each position, as in
          `contributions`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``grid_values`` : array of shape (n_values,). Values of the feature.
        - ``average`` : float64 array of shape (n_values, n_labels). Mean probability or score of
          each label for each value.
        - ``labels`` : array of shape (n_labels,). The labels, sorted.
        - ``feature_name`` : str. Name of the feature, with its offset.
        - ``is_number`` : bool. Whether the feature is a number.
        - ``has_all_steps`` : bool. Whether straight lines from value to value follow the model,
          because the values of a number include both sides of each threshold between them. It is
          False for window classifiers that wrap another estimator, whose thresholds are not known.
        - ``response`` : str. The parameter ``response``.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has neither trees nor weights of a window's attributes, unless ``offset`` is
        None.
    ValueError
        If X does not match the training data, the feature, the offset or a value does not exist in
        the model, no sequence reaches to the offset, or a parameter is invalid.

    See Also
    --------
    treecrf.plotting.plot_partial_dependence : Draw the result.
    explain : The effect of all features at one position.

    Notes
    -----
    In a conditional random field, the value changes the scores of all positions. Through the
    transitions, the probabilities at a position depend on these as well.

    The discovered features of a `treecrf.FutureFeatureMEMM` keep their values, unless ``offset`` is
    None.

    References
    ----------
    .. [1] J. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29, 2001.

    Examples
    --------
    The label is 1 if the feature with index 1 exceeds 0.5:

    >>> import numpy as np
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import partial_dependence
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.random((20, 2)) for _ in range(30)]
    >>> y = [(table[:, 1] > 0.5).astype(int) for table in X]
    >>> crf = TreeCRF(max_iter=50, early_stopping=False).fit(X, y)
    >>> found = partial_dependence(crf, X, 1, values=[0.2, 0.8])
    >>> found.feature_name, found.labels.tolist()
    ('x1', [0, 1])
    >>> found.average.round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    check_model(model)
    if response not in RESPONSES:
        raise ValueError(f"response={response!r}; expected 'probability' or 'score'")
    data = CheckedData.of(model, X, None, lengths, groups)
    sequences = data.chain_sequences()
    codes = data.chain_codes() if response == "score" else None
    chain = fitted_model(model).chain
    schema = chain.schema
    sequences = sequences.for_model(schema)
    names = feature_names(schema)
    j = feature_index(feature, names, "feature=")
    feature_name = names[j]
    if offset is not None:
        left, right = window_of(model)
        what = ", the window of the model, or None"
        offset = integer_between("offset", offset, -left, right, what)
        if left or right:
            feature_name += bracketed(offset)
        if chain.is_backward:
            offset = -offset
    steps = Steps.of(model, j, offset)
    if values is None:
        grid = _chosen_values(sequences, schema, j, n_values, steps)
    else:
        items = as_list(values, "values", "values of the feature")
        grid = [_checked_value(schema, j, names[j], value) for value in items]
    is_number = bool(schema.kinds[j] == NUMBER)
    distinct, index = _with_distinct_scores(grid, steps, is_number)
    scores = [_scores_with(model, j, offset, value) for value in distinct]
    return Bunch(
        grid_values=np.array(grid),
        average=_means(model, sequences, codes, offset, scores)[index],
        labels=model.classes_,
        feature_name=feature_name,
        is_number=is_number,
        has_all_steps=is_number and steps.are_followed_by(grid),
        response=response,
    )


# Values of the feature


def _chosen_values(
    sequences: Sequences, schema: InputSchema, j: int, n_values: int | None, steps: Steps
) -> list:
    """Choose values of a feature by the data; raises ValueError if none is in the training data."""
    if n_values is not None:
        check_positive("n_values", n_values)
    if schema.kinds[j] == BOOLEAN:
        return [False, True]
    if schema.kinds[j] == CATEGORY:
        n_frequent = int(n_values or N_FREQUENT)
        values = _most_frequent(sequences, j, schema.categories[j], n_frequent)
    else:
        values = _spread(sequences, j, n_values, steps)
    if not values:
        name = feature_names(schema)[j]
        raise ValueError(f"no value of {name} in X occurs in the training data")
    return values


def _with_distinct_scores(values: list, steps: Steps, is_number: bool) -> tuple[list, np.ndarray]:
    """Return the first value of each interval between steps, and the index of each value's own.

    If the scores are not constant between steps, each value is its own first one.
    """
    if not (is_number and steps.is_constant_between):
        return values, np.arange(len(values))
    bins = np.searchsorted(steps.thresholds, values, side="left")
    _, first, index = np.unique(bins, return_index=True, return_inverse=True)
    return [values[i] for i in first], index


def _checked_value(schema: InputSchema, j: int, name: str, value: Any) -> Any:
    """Check a value that the user passed."""
    if schema.kinds[j] == CATEGORY:
        categories = schema.categories[j].tolist()
        if value not in categories:
            raise ValueError(
                f"values: {value!r}; expected one of the {len(categories)} categories of "
                f"{name} in the training data"
            )
        return categories[categories.index(value)]
    is_boolean = schema.kinds[j] == BOOLEAN
    is_number = isinstance(value, (numbers.Real, np.bool_)) and np.isfinite(value)
    if not is_number or (is_boolean and value not in (0, 1)):
        kind = "booleans" if is_boolean else "finite numbers"
        raise ValueError(f"values: {value!r}; expected {kind}")
    return bool(value) if is_boolean else value


def _most_frequent(sequences: Sequences, j: int, categories: np.ndarray, n_values: int) -> list:
    """Choose the most frequent values of a category, in sorted order."""
    distinct, counts = category_counts(sequences, j, categories)
    by_frequency = np.argsort(-counts, kind="stable")
    return np.sort(distinct[by_frequency[:n_values]]).tolist()


def _spread(sequences: Sequences, j: int, n_values: int | None, steps: Steps) -> list:
    """Choose values of a number so that lines between them follow a function with jumps.

    If ``n_values`` is given, they follow it as well as this many can. Otherwise, if the function is
    curved between jumps, evenly spaced values are added where X has few.
    """
    column = column_values(sequences, j)
    column = column[~np.isnan(column.astype(np.float64))]
    distinct = np.unique(column)
    if not len(distinct):
        return []
    low = distinct[0]
    high = distinct[-1]
    if len(distinct) > (n_values or N_FREQUENT):
        quantiles = np.quantile(column, QUANTILES)
        if quantiles[0] < quantiles[1]:
            low, high = quantiles
    jumps = steps.thresholds
    jumps = jumps[(jumps >= low) & (jumps < high)]
    n_others = N_SPREAD
    if n_values is not None:
        jumps = _widest_jumps(jumps, int(AT_THRESHOLDS * (n_values - 1)) // 2)
        n_others = int(n_values) - 2 * len(jumps)
    others = distinct
    if len(distinct) > n_others:
        others = np.linspace(low, high, n_others)
    if n_values is None and not steps.is_constant_between:
        others = np.append(others, np.linspace(low, high, n_others))
    # A test is true above its threshold.
    return np.unique(np.concatenate([others, jumps, np.nextafter(jumps, np.inf)])).tolist()


def _widest_jumps(jumps: np.ndarray, n: int) -> np.ndarray:
    """Choose n of the jumps: both ends of the widest gaps, and evenly spaced ones in between."""
    if len(jumps) <= n:
        return jumps
    n_gaps = n // 3
    widest = np.argsort(-np.diff(jumps), kind="stable")[:n_gaps]
    evenly = np.linspace(0, len(jumps) - 1, n - 2 * n_gaps).astype(np.intp)
    return jumps[np.unique(np.concatenate([widest, widest + 1, evenly]))]


@dataclass(frozen=True)
class Steps:
    """Where the scores of a model jump, as a function of a number."""

    # Where the scores jump, sorted: they have one value up to a threshold, another one above it.
    thresholds: np.ndarray
    # Whether there are no other jumps.
    are_all: bool
    # Whether the scores do not change between the thresholds.
    is_constant_between: bool

    @classmethod
    def of(cls, model: SequenceClassifier, feature: int, offset: int | None) -> Steps:
        """Return the steps for a feature at an offset, or at all offsets."""
        if isinstance(model, LinearSequenceClassifier):
            attributes = fitted_model(model).chain.attributes
            if isinstance(attributes, FlatAttributes):
                return cls(_thresholds(attributes.flat, feature, offset), True, True)
            return cls(np.zeros(0), True, False)
        chain = fitted_model(model).chain
        if not isinstance(chain, ForestChain):
            return cls(np.zeros(0), False, False)
        return cls(_thresholds(model, feature, offset), True, chain.start is None)

    def are_followed_by(self, values: list) -> bool:
        """Return whether lines from value to value follow all steps."""
        is_inside = (self.thresholds >= min(values)) & (self.thresholds < max(values))
        inside = self.thresholds[is_inside]
        both_sides = np.append(inside, np.nextafter(inside, np.inf))
        return self.are_all and bool(np.isin(both_sides, np.asarray(values, dtype=float)).all())


def _thresholds(model: SequenceClassifier, feature: int, offset: int | None) -> np.ndarray:
    """Return the distinct thresholds of trees for a feature at an offset, or at all offsets."""
    chain = fitted_model(model).chain
    encoder = chain.encoder
    packed = chain.forest.pack()
    is_inner = packed["true_child"] >= 0
    columns, offsets, tests = (
        np.append(packed[name][is_inner], packed[f"surrogate_{name}"]).astype(np.intp)
        for name in TEST
    )
    thresholds = [np.zeros(0)]
    for column in _number_columns(encoder, feature):
        values = encoder.columns[column].values
        if offset is None and encoder.n_derived:
            # Discovered features have trees of their own.
            thresholds.append(values)
        else:
            is_tested = (columns == column) & (tests != MISSING)
            if offset is not None:
                is_tested &= offsets == offset
            thresholds.append(values[np.unique(tests[is_tested])])
    return np.unique(np.concatenate(thresholds))


def _number_columns(encoder: Encoder, feature: int) -> list[int]:
    """Return the columns with values of a feature, without marks of missing values."""
    numbers = []
    for column, learned in enumerate(encoder.columns):
        kind, j = encoder.origin_of(column)
        if learned.kind == "number" and kind not in (DERIVED, INDICATOR_COLUMN) and j == feature:
            numbers.append(column)
    return numbers


# Scores with values of the feature


def _scores_with(model: SequenceClassifier, feature: int, offset: int | None, value: Any) -> Scores:
    """Return the scores if the feature has a value at an offset in the window, or everywhere."""
    chain = fitted_model(model).chain
    code = _code_of_value(chain.schema, feature, value)

    def replaced(sequences: Sequences) -> Sequences:
        column = np.array([code] * sequences.n_positions)
        if sequences.form != "symbols" and sequences.kinds is not None:
            column = column.astype(np.float64)
        dtype = np.result_type(sequences.dtype, column)
        return replace(ReplacedSequences.of(sequences, feature, column), dtype=dtype)

    def everywhere(sequences: Sequences, threads: Threads) -> np.ndarray:
        return chain.scores(replaced(sequences), threads)

    if offset is None:
        return everywhere
    row = _row_with(chain.schema, feature, code)
    rest, label_scores, pair_scores = _without_linear_scores(model, feature, offset, row)

    def at_offset(sequences: Sequences, threads: Threads) -> np.ndarray:
        if isinstance(chain, ForestChain):
            scores = _tree_scores(rest, sequences, replaced(sequences), offset, threads)
        else:
            scores = rest.scores(sequences, threads)
        is_inside = _is_inside(sequences.offsets, offset)
        if pair_scores is not None:
            scores[:, is_inside] += label_scores[:, None, None]
            if pair_scores.any():
                is_later = positions_in_sequences(sequences.offsets) > 0
                scores[:, is_inside & is_later] += pair_scores.T[:, None]
        if not is_inside.all():
            scores[:, ~is_inside] = chain.scores(sequences, threads)[:, ~is_inside]
        return scores

    return at_offset


def _without_linear_scores(
    model: SequenceClassifier, feature: int, offset: int, row: np.ndarray
) -> tuple[FittedChain, np.ndarray | None, np.ndarray | None]:
    """Return the chain without linear scores of a feature at an offset, and these scores in a row.

    They are scores of labels, and of labels after labels; None without a linear model.
    """
    chain = fitted_model(model).chain
    if isinstance(model, LinearSequenceClassifier):
        linear = model_with_weights(model)
        rest, label_scores, pair_scores = without_feature(linear, feature, offset, row)
        return replace(chain, weights=rest.weights), label_scores, pair_scores
    if isinstance(chain, ForestChain) and chain.start is not None:
        start, label_scores, pair_scores = without_feature(chain.start, feature, offset, row)
        return replace(chain, start=start), label_scores, pair_scores
    return chain, None, None


def _code_of_value(schema: InputSchema, feature: int, value: Any) -> Any:
    """Return a value of a feature as it is in sequences; categories in tables have numbers."""
    if schema.form == "symbols" or schema.kinds[feature] != CATEGORY:
        return value
    return schema.categories[feature].tolist().index(value) + 1.0


def _row_with(schema: InputSchema, feature: int, code: Any) -> np.ndarray:
    """Return a row of input in which all features but one are 0."""
    if schema.form == "symbols":
        return np.array([code])
    row = np.zeros((1, schema.n_features))
    row[0, feature] = code
    return row


def _tree_scores(
    chain: ForestChain, sequences: Sequences, replaced: Sequences, offset: int, threads: Threads
) -> np.ndarray:
    """Compute scores for which each window has the values of ``replaced`` at one offset.

    Each position gets a window of its own. Discovered features keep their values.
    """
    encoder = chain.encoder
    require_table(chain, sequences)
    encoded = encoder.encode(sequences, threads)
    both = _chained_with_replaced(encoder, encoded, replaced, threads)
    n_rows = len(encoded.codes)
    start = chain.start_table(sequences, threads)
    depth = encoded.depth_of(chain.order)
    left, right = encoder.window
    n_positions = sequences.n_positions
    n_bytes = n_positions * (left + 1 + right) * (both.codes.shape[1] + both.bits.shape[1])
    n_blocks = min(n_positions, 1 + n_bytes // PIECE_BYTES)
    scores = []
    for block in np.array_split(np.arange(n_positions), n_blocks):
        rows = both.row_of_position[block, None] + np.arange(-left, right + 1)
        if -left <= offset <= right:  # it may only be in the window of the linear start
            rows[:, left + offset] += n_rows
        windows = _windows_of_their_own(encoded, both, rows, left)
        block_start = None if start is None else np.ascontiguousarray(start[:, block])
        scores.append(
            chain.forest.scores(encoder, windows, threads, start=block_start, depth=depth[block])
        )
    return np.concatenate(scores, axis=1)


def _chained_with_replaced(
    encoder: Encoder, encoded: EncodedSequences, replaced: Sequences, threads: Threads
) -> EncodedSequences:
    """Return the rows of sequences, followed by their rows with replaced values.

    Columns of discovered features, which follow those of the input, are not replaced.
    """
    base = getattr(encoder, "base", encoder)
    others = base.encode(replaced, threads)
    codes = encoded.codes.copy()
    codes[:, : others.codes.shape[1]] = others.codes
    return chained([encoded, replace(others, codes=codes, has_missing=encoded.has_missing)])


def _windows_of_their_own(
    encoded: EncodedSequences, both: EncodedSequences, rows: np.ndarray, left: int
) -> EncodedSequences:
    """Return positions that share no rows: each has copies of all rows of its window.

    ``rows`` are the indices of these rows in ``both``, (n_windows, n_offsets). The row of the
    position comes after ``left`` others.
    """
    n_windows, n_offsets = rows.shape
    copied = rows.ravel()
    marks = np.ones(len(both.list_ids), dtype=bool)
    lists = sparse.csr_array(
        (marks, both.list_ids, both.list_starts), shape=(len(both.codes), both.n_ids)
    )[copied]
    return replace(
        encoded,
        row_of_position=(left + n_offsets * np.arange(n_windows)).astype(np.int32),
        codes=both.codes[copied],
        bits=both.bits[copied],
        list_starts=lists.indptr.astype(np.int64),
        list_ids=lists.indices.astype(np.int32),
    )


def _is_inside(offsets: np.ndarray, offset: int | None) -> np.ndarray:
    """Mark the positions at which an offset lies inside the sequence."""
    reached = positions_in_sequences(offsets) + (offset or 0)
    return (reached >= 0) & (reached < np.repeat(np.diff(offsets), np.diff(offsets)))


def _means(
    model: SequenceClassifier,
    sequences: Sequences,
    codes: np.ndarray | None,
    offset: int | None,
    scores: list[Scores],
) -> np.ndarray:
    """Compute the mean probabilities, or scores given ``codes`` of labels; (n_points, n_labels)."""
    chain = fitted_model(model).chain
    n_labels = len(model.classes_)
    totals = np.zeros((len(scores), n_labels))
    n_inside = 0
    with Threads(model.n_jobs) as threads:
        for first, last in runs_of_tables(sequences.offsets, n_labels, chain.order, MAX_BYTES):
            run = sequences.take(np.arange(first, last))
            positions = slice(int(sequences.offsets[first]), int(sequences.offsets[last]))
            is_inside = _is_inside(run.offsets, offset)
            n_inside += int(is_inside.sum())
            for total, compute_scores in zip(totals, scores, strict=True):
                table = compute_scores(run, threads)
                if codes is None:
                    constraints = chain.constraints(run.offsets)
                    lattice = chain.constrained(table, run.offsets, constraints, threads)
                    rows = lattice.marginals()
                else:
                    rows = _scores_after(table, run.offsets, codes[positions], chain.order)
                total += rows[is_inside].sum(axis=0)
    if not n_inside:
        raise ValueError(f"no sequence of X reaches to offset {offset} from any of its positions")
    return totals / n_inside


def _scores_after(
    table: np.ndarray, offsets: np.ndarray, codes: np.ndarray, order: int
) -> np.ndarray:
    """Return the scores after the labels before each position; (n_positions, n_labels)."""
    _, contexts = true_contexts(offsets, codes, len(table), order)
    return np.take_along_axis(table, contexts[None, :, None], axis=2)[:, :, 0].T
