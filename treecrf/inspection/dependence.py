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
from treecrf.encoding.encoded import chained
from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.names import bracketed, feature_names
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import BOOLEAN, CATEGORY, NUMBER, InputSchema, Sequences
from treecrf.inputs.values import as_list
from treecrf.inspection.fitted import (
    CheckedData,
    ReplacedSequences,
    check_model,
    column_values,
    feature_index,
    integer_between,
    window_of,
)
from treecrf.inspection.scores import MAX_BYTES
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.chains import ForestChain, require_table
from treecrf.learners.flat.model import FlatAttributes
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.contributions import without_feature
from treecrf.trees.forest import TEST
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import check_positive

RESPONSES = ("probability", "score")
# By default, the most frequent values of a category, and at least so many of a number, unless X has
# fewer.
N_FREQUENT = 20
N_SPREAD = 50
# Values of a number lie between these quantiles by default. If there may only be some, at most this
# fraction of them is next to thresholds.
QUANTILES = (0.05, 0.95)
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
    of every position [1]_. The means are over the positions at which the offset lies inside the
    sequence; the others keep their scores.

    Parameters
    ----------
    model : fitted classifier
        A classifier with boosted trees, a flat model of one, or a linear model; with
        ``offset=None``, any classifier of treecrf.
    X : list of sequences, or one long table
        As in the model's ``predict``.
    feature : str or int
        Name or index of the feature.
    offset : int or None, default=0
        Offset in the window, to the right. None stands for all offsets: the feature has the value
        at all positions of all sequences.
    values : list, optional
        Values of the feature. By default, the 20 most frequent ones in X for a category. For a
        number, those in X if there are few, and otherwise evenly spaced values from the 5 % to the
        95 % quantile; also the values on both sides of all thresholds at which trees change the
        score. Unless the model consists of trees alone, there are evenly spaced values between few
        as well.
    n_values : int, optional
        Maximum number of values, unless they are given. If a number has too many thresholds, some
        are chosen, which takes less time.
    response : {"probability", "score"}, default="probability"
        Marginal probabilities, or scores given the predicted labels before each position, as in
        `contributions`.
    lengths, groups : optional
        As in the model's ``predict``.

    Returns
    -------
    Bunch
        With these attributes:

        - grid_values : array (n_values,);
        - average : float array (n_values, n_labels);
        - labels : array (n_labels,);
        - feature_name : str, with the offset;
        - is_number : bool, whether the feature is a number;
        - has_all_steps : bool, whether the values of a number include both sides of each threshold
          between them, so that straight lines from value to value follow the model. False for
          windows of other estimators, whose thresholds are not known;
        - response : str.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has neither trees nor weights of a window's attributes, unless the offset is
        None.
    ValueError
        If X does not match the training data, the feature, the offset or a value does not exist in
        the model, no sequence reaches to the offset, or a parameter is invalid.

    Notes
    -----
    In a conditional random field, the value changes the scores at all positions, hence
    probabilities change through transitions too. Discovered features of a
    `treecrf.FutureFeatureMEMM` keep their values, unless the offset is None.

    References
    ----------
    .. [1] J. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import partial_dependence
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.random((20, 2)) for _ in range(30)]
    >>> y = [(table[:, 1] > 0.5).astype(int) for table in X]
    >>> crf = TreeCRF(max_iter=50, early_stopping=False).fit(X, y)
    >>> partial_dependence(crf, X, 1, values=[0.2, 0.8]).average.round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_model(model)
    if response not in RESPONSES:
        raise ValueError(f"response={response!r}; expected 'probability' or 'score'")
    data = CheckedData.of(model, X, None, lengths, groups)
    sequences = data.chain_sequences()
    codes = data.chain_codes() if response == "score" else None
    chain = fitted_model(model).chain
    schema, at = chain.schema, ""
    sequences = sequences.for_model(schema)
    names = feature_names(schema)
    j = feature_index(feature, names, "feature=")
    if offset is not None:
        left, right = window_of(model)
        what = ", the window of the model, or None"
        offset = integer_between("offset", offset, -left, right, what)
        at = bracketed(offset) if left or right else ""
        offset = -offset if chain.is_backward else offset
    steps = Steps.of(model, j, offset)
    if values is not None:
        items = as_list(values, "values", "values of the feature")
        values = [_checked_value(schema, j, names[j], value) for value in items]
    else:
        if n_values is not None:
            check_positive("n_values", n_values)
        if schema.kinds[j] == BOOLEAN:
            values = [False, True]
        elif schema.kinds[j] == CATEGORY:
            n_frequent = int(n_values or N_FREQUENT)
            values = _most_frequent(sequences, j, schema.categories[j], n_frequent)
        else:
            values = _spread(sequences, j, n_values, steps)
        if not values:
            raise ValueError(f"no value of {names[j]} in X occurs in the training data")
    is_number = bool(schema.kinds[j] == NUMBER)
    first = np.arange(len(values))
    which = np.arange(len(values))
    if is_number and steps.is_constant_between:
        bins = np.searchsorted(steps.thresholds, values, side="left")
        _, first, which = np.unique(bins, return_index=True, return_inverse=True)
    scores = [_scores_with(model, j, offset, values[i]) for i in first]
    return Bunch(
        grid_values=np.array(values),
        average=_means(model, (sequences, codes), offset, scores)[which],
        labels=model.classes_,
        feature_name=names[j] + at,
        is_number=is_number,
        has_all_steps=is_number and steps.are_followed_by(values),
        response=response,
    )


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
    distinct, counts = np.unique(column_values(sequences, j), return_counts=True)
    if sequences.form != "symbols":
        # Categories are counted from 1; 0 stands for unknown ones.
        known = distinct > 0
        distinct, counts = categories[distinct[known].astype(np.intp) - 1], counts[known]
    in_training = np.isin(distinct, categories)
    distinct, counts = distinct[in_training], counts[in_training]
    return np.sort(distinct[np.argsort(-counts, kind="stable")[:n_values]]).tolist()


def _spread(sequences: Sequences, j: int, n_values: int | None, steps: Steps) -> list:
    """Choose values of a number so that lines between them follow a function with jumps.

    If ``n_values`` is given, they follow it as well as so many can. Otherwise, there are evenly
    spaced ones between few values of a function that is curved.
    """
    column = column_values(sequences, j)
    column = column[~np.isnan(column.astype(np.float64))]
    distinct = np.unique(column)
    if not len(distinct):
        return []
    ends = distinct[[0, -1]]
    if len(distinct) > (n_values or N_FREQUENT):
        quantiles = np.quantile(column, QUANTILES)
        ends = quantiles if quantiles[0] < quantiles[1] else ends
    jumps = steps.thresholds
    jumps = jumps[(jumps >= ends[0]) & (jumps < ends[1])]
    n_others = N_SPREAD
    if n_values is not None:
        jumps = _some_jumps(jumps, int(AT_THRESHOLDS * (n_values - 1)) // 2)
        n_others = int(n_values) - 2 * len(jumps)
    others = np.linspace(*ends, n_others) if len(distinct) > n_others else distinct
    if n_values is None and not steps.is_constant_between:
        others = np.append(others, np.linspace(*ends, n_others))
    # A test is true above its threshold.
    return np.unique(np.concatenate([others, jumps, np.nextafter(jumps, np.inf)])).tolist()


def _some_jumps(jumps: np.ndarray, n: int) -> np.ndarray:
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

    thresholds: np.ndarray  # sorted; the left ends of the intervals above them are not part of them
    are_all: bool  # whether there are no other jumps
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
        low, high = min(values), max(values)
        inside = self.thresholds[(self.thresholds >= low) & (self.thresholds < high)]
        both = np.append(inside, np.nextafter(inside, np.inf))
        return self.are_all and bool(np.isin(both, np.asarray(values, dtype=float)).all())


def _thresholds(model: SequenceClassifier, feature: int, offset: int | None) -> np.ndarray:
    """Return the distinct thresholds of trees for a feature at an offset, or at all offsets."""
    chain = fitted_model(model).chain
    encoder, packed = chain.encoder, chain.forest.pack()
    inner = packed["true_child"] >= 0
    columns, offsets, tests = (
        np.append(packed[name][inner], packed[f"surrogate_{name}"]).astype(np.intp) for name in TEST
    )
    thresholds = [np.zeros(0)]
    for column, is_indicator in _columns_of(encoder, feature):
        learned = encoder.columns[column]
        if learned.kind != "number" or is_indicator:
            continue
        if offset is None and encoder.n_derived:
            # Discovered features have trees of their own.
            thresholds.append(learned.values)
        else:
            at_offset = (columns == column) & (True if offset is None else offsets == offset)
            at_offset &= tests != MISSING
            thresholds.append(learned.values[np.unique(tests[at_offset])])
    return np.unique(np.concatenate(thresholds))


def _columns_of(encoder: Encoder, feature: int) -> list[tuple[int, bool]]:
    """Return the columns of a feature, and whether they mark its missing values."""
    origins = [encoder.origin_of(column) for column in range(len(encoder.columns))]
    return [
        (column, kind == INDICATOR_COLUMN)
        for column, (kind, j) in enumerate(origins)
        if kind != DERIVED and j == feature
    ]


def _scores_with(model: SequenceClassifier, feature: int, offset: int | None, value: Any) -> Scores:
    """Return the scores if the feature has a value at an offset in the window, or everywhere."""
    chain = fitted_model(model).chain
    schema = chain.schema
    if schema.form == "symbols":
        code, row = value, np.array([value])
    else:
        code = value
        if schema.kinds[feature] == CATEGORY:
            code = schema.categories[feature].tolist().index(value) + 1.0
        row = np.zeros((1, schema.n_features))
        row[0, feature] = code

    def replaced(part: Sequences) -> Sequences:
        column = np.array([code] * part.n_positions)
        if part.form != "symbols" and part.kinds is not None:
            column = column.astype(np.float64)
        dtype = np.result_type(part.dtype, column)
        return replace(ReplacedSequences.of(part, feature, column), dtype=dtype)

    def everywhere(part: Sequences, threads: Threads) -> np.ndarray:
        return chain.scores(replaced(part), threads)

    if offset is None:
        return everywhere
    changed, labels, pairs = chain, None, None
    if isinstance(model, LinearSequenceClassifier):
        rest, labels, pairs = without_feature(model, feature, offset, row)
        changed = fitted_model(rest).chain
    elif isinstance(chain, ForestChain) and chain.start is not None:
        start, labels, pairs = without_feature(chain.start, feature, offset, row)
        changed = replace(chain, start=start)

    def at_offset(part: Sequences, threads: Threads) -> np.ndarray:
        if isinstance(chain, ForestChain):
            result = _tree_scores(changed, part, replaced(part), offset, threads)
        else:
            result = changed.scores(part, threads)
        inside, is_first = _inside(part.offsets, offset), positions_in_sequences(part.offsets) == 0
        if pairs is not None:
            result[:, inside] += labels[:, None, None]
            if pairs.any():
                result[:, inside & ~is_first] += pairs.T[:, None]
        if not inside.all():
            result[:, ~inside] = chain.scores(part, threads)[:, ~inside]
        return result

    return at_offset


def _tree_scores(
    chain: ForestChain, part: Sequences, replaced: Sequences, offset: int, threads: Threads
) -> np.ndarray:
    """Compute scores for which each window has the values of ``replaced`` at one offset.

    Each position gets a window of its own. Discovered features keep their values.
    """
    encoder, n = chain.encoder, part.n_positions
    require_table(chain, part)
    encoded = encoder.encode(part, threads)
    others = getattr(encoder, "base", encoder).encode(replaced, threads)
    codes = encoded.codes.copy()
    codes[:, : others.codes.shape[1]] = others.codes
    both = chained([encoded, replace(others, codes=codes, has_missing=encoded.has_missing)])
    values = np.ones(len(both.list_ids), dtype=bool), both.list_ids, both.list_starts
    lists = sparse.csr_array(values, shape=(len(both.codes), both.n_ids))
    left, right = encoder.window
    start, depth = chain.start_table(part, threads), encoded.depth_of(chain.order)
    n_bytes = n * (left + 1 + right) * (codes.shape[1] + encoded.bits.shape[1])
    scores = []
    for some in np.array_split(np.arange(n), min(n, 1 + n_bytes // PIECE_BYTES)):
        rows = both.row_of_position[some, None] + np.arange(-left, right + 1)
        if -left <= offset <= right:  # it may only be in the window of the linear start
            rows[:, left + offset] += len(codes)
        ids = lists[rows.ravel()]
        windows = replace(
            encoded,
            row_of_position=(left + rows.shape[1] * np.arange(len(some))).astype(np.int32),
            codes=both.codes[rows.ravel()],
            bits=both.bits[rows.ravel()],
            list_starts=ids.indptr.astype(np.int64),
            list_ids=ids.indices.astype(np.int32),
        )
        given = None if start is None else np.ascontiguousarray(start[:, some])
        arguments = {"start": given, "depth": depth[some]}
        scores.append(chain.forest.scores(encoder, windows, threads, **arguments))
    return np.concatenate(scores, axis=1)


def _inside(offsets: np.ndarray, offset: int | None) -> np.ndarray:
    """Mark the positions at which an offset lies inside the sequence."""
    reached = positions_in_sequences(offsets) + (offset or 0)
    return (reached >= 0) & (reached < np.repeat(np.diff(offsets), np.diff(offsets)))


def _means(
    model: SequenceClassifier,
    data: tuple[Sequences, np.ndarray | None],
    offset: int | None,
    scores: list[Scores],
) -> np.ndarray:
    """Compute the mean probabilities, or scores given labels, of each point and label."""
    sequences, codes = data
    chain = fitted_model(model).chain
    n_labels, order = len(model.classes_), chain.order
    totals, n = np.zeros((len(scores), n_labels)), 0
    with Threads(model.n_jobs) as threads:
        for first, last in runs_of_tables(sequences.offsets, n_labels, order, MAX_BYTES):
            part = sequences.take(np.arange(first, last))
            positions = slice(int(sequences.offsets[first]), int(sequences.offsets[last]))
            inside = _inside(part.offsets, offset)
            n += int(inside.sum())
            for total, scores_of in zip(totals, scores, strict=True):
                table = scores_of(part, threads)
                if codes is None:
                    constraints = chain.constraints(part.offsets)
                    lattice = chain.constrained(table, part.offsets, constraints, threads)
                    rows = lattice.marginals()
                else:
                    # Scores after the labels before each position.
                    contexts = true_contexts(part.offsets, codes[positions], n_labels, order)[1]
                    rows = np.take_along_axis(table, contexts[None, :, None], axis=2)[:, :, 0].T
                total += rows[inside].sum(axis=0)
    if not n:
        raise ValueError(f"no sequence of X reaches to offset {offset} from any of its positions")
    return totals / n
