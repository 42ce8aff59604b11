"""The distribution over label sequences: its scores, its entropy, and its two best sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice
from treecrf.inputs.offsets import positions_in_sequences, split_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import check_model
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.predictor import Predictor, results_per_sequence
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    FloatArray,
    GroupsLike,
    LengthsLike,
    MasksLike,
    ScoresLike,
    SequencesLike,
)


class SequenceScores(NamedTuple):
    """The scores of a sequence, from `sequence_scores`.

    This is a named tuple. The score of a label sequence is the sum of its entries in ``state`` and
    ``transitions``.

    Attributes
    ----------
    state : float64 array of shape (n_positions, n_classes)
        Scores of labels at positions. Those of the first label include what the model adds at the
        start.
    transitions : float64 array
        Scores of labels after labels. The shape depends on the model:

        - (n_classes, n_classes), if they are the same at all positions. Entry ``[u, v]`` is for
          label v after label u.
        - (n_positions - 1, n_classes, n_classes), if they depend on the position. Entry ``[t, u,
          v]`` is for label u at position t and label v at position t + 1.
        - (n_positions - 1, n_classes, ..., n_classes), with ``order`` m > 1. There is an axis for
          each of the labels at positions t + 1 - m to t + 1, or t to t + m if the chain is
          ``"right-to-left"``. Labels beyond the ends of the sequence do not matter: all entries
          along their axes are equal.
    log_partition : float
        log Z, the logarithm of the sum over all label sequences of the exponential of their score.

    See Also
    --------
    sequence_scores : Compute the scores.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import sequence_scores
    >>> crf = LinearCRF(window=1).fit(["banana", "cabana"], ["cvcvcv"] * 2)
    >>> scores = sequence_scores(crf, ["nab"])[0]
    >>> scores.state.shape, scores.transitions.shape
    ((3, 2), (2, 2))
    """

    state: FloatArray
    transitions: FloatArray
    log_partition: float


def sequence_scores(
    model: Any,
    X: SequencesLike,
    *,
    allowed: MasksLike = None,
    known: MasksLike = None,
    init_score: ScoresLike = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> list[SequenceScores]:
    """Return the scores of labels that a model computes, for your own inference.

    The score of a label sequence is the sum of its entries in ``state`` and ``transitions``. If you
    subtract log Z, you get the log-probability that ``predict_log_likelihood`` returns. Such scores
    are also called potentials or logits.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf without a beam.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
        Labels that are possible at each position, as in `treecrf.TreeCRF.predict`. The others have
        the score minus infinity, and so have labels that the parameter ``transitions`` forbids.
    known : list of lists of labels, default=None
        Labels that are already known, with None at all other positions, as in
        `treecrf.TreeCRF.predict`.
    init_score : list of array-like of shape (n_positions, n_classes), default=None
        Scores that are added to those of the model, as in `treecrf.TreeCRF.predict`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    list of SequenceScores
        For each sequence, a named tuple of ``state``, ``transitions``, and ``log_partition``. What
        they contain depends on the model:

        - Linear models, hidden Markov models, trees with constant transitions, and models of order
          0 have one matrix of transitions for all positions.
        - Other trees have scores of pairs of labels at each position. All scores but those of first
          labels are in ``transitions``.
        - Local models, such as `treecrf.TreeMEMM`, have log-probabilities of labels given the
          labels before.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not a classifier of treecrf, or X does not match the training data.
    ValueError
        If the model has a beam, or as in `treecrf.TreeCRF.predict`.
    MemoryError
        If the scores of all contexts do not fit in memory.

    See Also
    --------
    transition_weights : The weights of labels after labels alone.
    transition_scores : Mean scores of labels after labels.
    sequence_entropy : How uncertain a model is of whole sequences.

    Examples
    --------
    The scores of the label sequence *cvc* add up to its log-probability plus log Z:

    >>> from treecrf import LinearCRF
    >>> from treecrf.inspection import sequence_scores
    >>> crf = LinearCRF(window=1).fit(["banana", "cabana"], ["cvcvcv"] * 2)
    >>> state, transitions, log_partition = sequence_scores(crf, ["nab"])[0]
    >>> state.shape, transitions.shape
    ((3, 2), (2, 2))
    >>> c, v = 0, 1  # indices in crf.classes_
    >>> score = state[0, c] + state[1, v] + state[2, c]
    >>> score += transitions[c, v] + transitions[v, c]
    >>> log_p = crf.predict_log_likelihood(["nab"], ["cvc"])[0]
    >>> bool(abs(score - log_partition - log_p) < 1e-9)
    True
    """
    predictor, masks, sequences = _read(model, X, allowed, known, init_score, lengths, groups)
    n_labels = len(predictor.chain.classes)
    empty = SequenceScores(np.zeros((0, n_labels)), np.zeros((n_labels, n_labels)), 0.0)
    return results_per_sequence(
        sequences, lambda batch: _batch_scores(predictor, batch, masks), empty
    )


def _batch_scores(
    predictor: Predictor, batch: Sequences, masks: np.ndarray | None
) -> list[SequenceScores]:
    """Return the scores of each sequence of a batch, in the direction of the input."""
    chain = predictor.chain
    offsets = batch.offsets
    constraints = chain.constraints(offsets, masks)
    with Threads(predictor.n_jobs) as threads:
        lattice = _whole(chain, chain.lattice(batch, constraints, threads))
        factors = chain.factors(batch, threads)
        log_partitions = lattice.log_partitions().tolist()
    if factors is not None:
        state, transitions = _constrained(*factors, constraints, offsets)
    elif chain.order == 0:
        n_labels = len(chain.classes)
        state = lattice.table()[:, :, 0].T
        transitions = np.zeros((n_labels, n_labels))
    else:
        state, transitions = _state_and_transitions(lattice.table(), offsets, chain.order)
    if transitions.ndim == 2:
        tables = [transitions] * (len(offsets) - 1)
    else:
        # Nothing precedes the first position of a sequence.
        tables = [table[1:] for table in split_sequences(transitions, offsets)]
    states = split_sequences(state, offsets)
    if chain.is_backward:
        states = [table[::-1] for table in states]
        tables = list(map(_reversed, tables))
    return list(map(SequenceScores, states, tables, log_partitions))


def sequence_entropy(
    model: Any,
    X: SequencesLike,
    *,
    allowed: MasksLike = None,
    known: MasksLike = None,
    init_score: ScoresLike = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> FloatArray:
    """Return the entropy of the label sequences: how uncertain a model is of whole sequences.

    The entropy is -sum P(y | X) log P(y | X) over all label sequences y. It is computed exactly,
    without listing them [1]_. It is at most the sum of the entropies of the single labels, because
    labels depend on each other. To compare sequences of different lengths, divide by the number of
    positions.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf without a beam.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
        Labels that are possible at each position, as in `treecrf.TreeCRF.predict`. The entropy is
        then that of the remaining label sequences, given that one of them is true.
    known : list of lists of labels, default=None
        Labels that are already known, with None at all other positions, as in
        `treecrf.TreeCRF.predict`.
    init_score : list of array-like of shape (n_positions, n_classes), default=None
        Scores that are added to those of the model, as in `treecrf.TreeCRF.predict`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    float64 array of shape (n_sequences,)
        Entropies in nats. They are 0 if one label sequence is certain and for empty sequences, and
        n log K if all K labels are equally likely at n positions.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not a classifier of treecrf, or X does not match the training data.
    ValueError
        If the model has a beam, or as in `treecrf.TreeCRF.predict`.

    See Also
    --------
    sequence_margin : How far the most probable label sequence is ahead of the next one.

    References
    ----------
    .. [1] G. Mann, A. McCallum, "Efficient computation of entropy gradient for semi-supervised
       conditional random fields", NAACL 2007.

    Examples
    --------
    The model is less certain of a word with new letters. Known labels reduce the entropy:

    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import sequence_entropy
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> sequence_entropy(crf, ["nab", "axy"]).round(2)
    array([0.93, 1.58])
    >>> sequence_entropy(crf, ["axy"], known=[["c", "v", None]]).round(2)
    array([0.46])
    """
    predictor, masks, sequences = _read(model, X, allowed, known, init_score, lengths, groups)

    def entropies(lattice: Lattice, _: np.ndarray | None) -> list[float]:
        return _whole(predictor.chain, lattice).entropies().tolist()

    return np.array(predictor.results(sequences, masks, entropies, 0.0))


def sequence_margin(
    model: Any,
    X: SequencesLike,
    *,
    allowed: MasksLike = None,
    known: MasksLike = None,
    init_score: ScoresLike = None,
    lengths: LengthsLike = None,
    groups: GroupsLike = None,
) -> FloatArray:
    """Return how far the most probable label sequence is ahead of the next one.

    The margin is log P(best | X) - log P(second best | X), the difference of their scores. If it is
    small, another label sequence is nearly as probable.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf. With a beam, only the label sequences that it keeps are compared.
    X : list of sequences, or one long table
        Sequences in the form of the training data, as in `treecrf.TreeCRF.predict`.
    allowed : list of bool arrays of shape (n_positions, n_classes), or of lists, default=None
        Labels that are possible at each position, as in `treecrf.TreeCRF.predict`.
    known : list of lists of labels, default=None
        Labels that are already known, with None at all other positions, as in
        `treecrf.TreeCRF.predict`.
    init_score : list of array-like of shape (n_positions, n_classes), default=None
        Scores that are added to those of the model, as in `treecrf.TreeCRF.predict`.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if X is a long table.
    groups : array-like of shape (n_positions,) or str, default=None
        Sequence of each position, if X is a long table, or the name of the data frame column that
        holds it. For details, see `treecrf.TreeCRF.predict`.

    Returns
    -------
    float64 array of shape (n_sequences,)
        Differences of log-probabilities in nats, at least 0. They are infinite where only one label
        sequence is possible, as for an empty sequence.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not a classifier of treecrf, or X does not match the training data.
    ValueError
        As in `treecrf.TreeCRF.predict`.

    See Also
    --------
    sequence_entropy : The entropy of all label sequences.
    treecrf.TreeCRF.decode : The best label sequences and their log-probabilities.

    Examples
    --------
    A margin of m means that the best label sequence is exp(m) times as probable as the next one:

    >>> from treecrf import TreeCRF
    >>> from treecrf.inspection import sequence_margin
    >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
    >>> sequence_margin(crf, ["nab", "axy"]).round(2)
    array([1.59, 1.25])
    """
    predictor, masks, sequences = _read(model, X, allowed, known, init_score, lengths, groups)
    _, log_p = predictor.n_best(sequences, masks, 2)
    return np.array([best[0] - best[1] if len(best) > 1 else np.inf for best in log_p])


def _read(
    model: Any,
    X: SequencesLike,
    allowed: MasksLike,
    known: MasksLike,
    init_score: ScoresLike,
    lengths: LengthsLike,
    groups: GroupsLike,
) -> tuple[Any, np.ndarray | None, Sequences]:
    """Read sequences as ``predict`` does; return the predictor, masks and sequences."""
    check_model(model)
    predictor = fitted_model(model).predictor
    segmentation = predictor.segmentation(X, lengths, groups)
    sequences, masks = predictor.read(X, segmentation, allowed, known, init_score)
    return predictor, masks, sequences


def _whole(chain: FittedChain, lattice: Any) -> Lattice:
    """Return a lattice of all contexts; ValueError for a beam."""
    if not isinstance(lattice, Lattice):
        raise ValueError(
            f"beam_width={chain.beam.width}: scores of all label sequences need all contexts; "
            "expected no beam"
        )
    return lattice


# Arrays of scores


def _state_and_transitions(
    table: np.ndarray, offsets: np.ndarray, order: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of first labels, and of labels after labels at all positions.

    In the table, the last axis numbers the contexts: the nearest previous label is the lowest
    digit. Positions with fewer previous labels use the first contexts only.
    """
    n_labels, n, n_contexts = table.shape
    by_position = table.transpose(1, 2, 0)
    depth = np.minimum(positions_in_sequences(offsets), order)
    contexts = np.arange(n_contexts) % n_labels ** depth[:, np.newaxis]
    transitions = np.take_along_axis(by_position, contexts[:, :, np.newaxis], axis=1)
    state = np.zeros((n, n_labels))
    first = depth == 0
    state[first] = by_position[first, 0]
    return state, transitions.reshape(n, *(n_labels,) * (order + 1))


def _constrained(
    state: np.ndarray, transitions: np.ndarray, constraints: Constraints, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores with those of first labels in the state, and forbidden ones at -inf."""
    state = state.copy()
    after = transitions[:-1].copy()
    state[offsets[:-1]] += transitions[-1]
    if constraints.follows is not None:
        after[~constraints.follows[:-1]] = -np.inf
        state[offsets[:-1]] += np.where(constraints.follows[-1], 0.0, -np.inf)
    if constraints.allowed is not None:
        state[~constraints.allowed] = -np.inf
    return state, after


def _reversed(transitions: np.ndarray) -> np.ndarray:
    """Return transitions of the chain in the direction of the input."""
    if transitions.ndim == 2:
        return transitions.T
    return transitions.transpose(0, *range(transitions.ndim - 1, 0, -1))[::-1]
