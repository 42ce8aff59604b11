"""Synthetic problems: hidden Markov models, and labels that depend on a bag of future positions."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.utils import check_random_state

from treecrf.datasets.sources import SIZE, generating
from treecrf.utils.validation import Interval, StrOptions

_PROBABILITY = [Interval(Real, 0, 1, closed="both")]
_N_STATES = [Interval(Integral, 2, None, closed="left")]


@generating(n_states=_N_STATES, p_next=_PROBABILITY, p_symbol=_PROBABILITY)
def make_ring_hmm(
    *,
    n_sequences: int = 500,
    length: int = 10,
    n_states: int = 10,
    p_next: float = 0.7,
    p_symbol: float = 0.7,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sample sequences from a hidden Markov model whose states form a ring.

    Each state moves to the next one in the ring with probability ``p_next``. All other states,
    including itself, share the rest equally. Each state has its own symbol, which it emits with
    probability ``p_symbol``. The other symbols share the rest equally. The first state is uniformly
    distributed.

    The defaults give the training data of [1]_, section 3.2. It uses as many sequences for testing.

    Parameters
    ----------
    n_sequences : int, default=500
        Number of sequences.
    length : int, default=10
        Number of positions per sequence.
    n_states : int, default=10
        Number of states and of symbols, at least 2.
    p_next : float, default=0.7
        Probability of moving to the next state of the ring.
    p_symbol : float, default=0.7
        Probability that a state emits its own symbol.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices. The same seed gives the same data.

    Returns
    -------
    X : list of int arrays of shape (length,)
        Symbols, from 0 to ``n_states - 1``. Symbol ``i`` belongs to state ``i``.
    y : list of int arrays of shape (length,)
        States, from 0 to ``n_states - 1``.

    $raises

    References
    ----------
    .. [1] A. Ashenfelter, "Sequential Supervised Learning and Conditional Random Fields",
       Master's thesis, Oregon State University, 2003.

    Examples
    --------
    >>> from treecrf.datasets import make_ring_hmm
    >>> X, y = make_ring_hmm(n_sequences=2, length=6, random_state=0)
    >>> X[0].tolist(), y[0].tolist()
    ([5, 7, 2, 2, 0, 4], [5, 6, 7, 8, 9, 3])
    """
    states = np.eye(n_states, dtype=bool)
    transitions = _concentrated(np.roll(states, 1, axis=1), p_next)
    emissions = _concentrated(states, p_symbol)
    return _sample(transitions, emissions, n_sequences, length, random_state)


@generating(n_states=_N_STATES, block_size=SIZE, p_stay=_PROBABILITY, p_block=_PROBABILITY)
def make_block_hmm(
    *,
    n_sequences: int = 100,
    length: int = 100,
    n_states: int = 3,
    block_size: int = 8,
    p_stay: float = 0.6,
    p_block: float = 0.6,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sample sequences from a hidden Markov model whose states each prefer a block of symbols.

    Each state repeats with probability ``p_stay``. The other states share the rest equally. A state
    emits a symbol of its own block with probability ``p_block``, and otherwise a symbol of another
    block. The symbols within either group are equally likely. The first state is uniformly
    distributed.

    The defaults give the data with which section 3.5.3 of [1]_ measures training times.

    Parameters
    ----------
    n_sequences : int, default=100
        Number of sequences.
    length : int, default=100
        Number of positions per sequence. The dissertation also uses 10, 20, 40, 80, 160 and 320.
    n_states : int, default=3
        Number of states, at least 2.
    block_size : int, default=8
        Number of symbols in the block of a state.
    p_stay : float, default=0.6
        Probability of staying in a state.
    p_block : float, default=0.6
        Probability that a state emits a symbol of its own block.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices. The same seed gives the same data.

    Returns
    -------
    X : list of int arrays of shape (length,)
        Symbols, from 0 to ``n_states * block_size - 1``. The block of state ``i`` starts at
        ``i * block_size``.
    y : list of int arrays of shape (length,)
        States, from 0 to ``n_states - 1``.

    $raises

    References
    ----------
    .. [1] G. Hao, "Efficient Training and Feature Induction in Sequential Supervised Learning",
       PhD dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf.datasets import make_block_hmm
    >>> X, y = make_block_hmm(n_sequences=2, length=6, random_state=0)
    >>> X[0].tolist(), y[0].tolist()
    ([6, 15, 21, 9, 9, 4], [0, 2, 2, 1, 0, 0])
    """
    states = np.eye(n_states, dtype=bool)
    transitions = _concentrated(states, p_stay)
    emissions = _concentrated(np.repeat(states, block_size, axis=1), p_block)
    return _sample(transitions, emissions, n_sequences, length, random_state)


def _concentrated(favored: np.ndarray, p: float) -> np.ndarray:
    """Return rows of probabilities: favored entries share p evenly, the others the rest."""
    n_favored = favored.sum(axis=1, keepdims=True)
    n_others = favored.shape[1] - n_favored
    return np.where(favored, p / n_favored, (1 - p) / n_others)


def _sample(
    transitions: np.ndarray,
    emissions: np.ndarray,
    n_sequences: int,
    length: int,
    random_state: int | np.random.RandomState | None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sample symbols and states, with a uniformly distributed first state."""
    rng = check_random_state(random_state)
    states = np.empty((n_sequences, length), dtype=np.int64)
    states[:, 0] = rng.randint(len(transitions), size=n_sequences)
    for t in range(1, length):
        states[:, t] = _draw(transitions[states[:, t - 1]], rng)
    symbols = _draw(emissions[states], rng)
    return list(symbols), list(states)


def _draw(probabilities: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Sample an index from each distribution along the last axis."""
    # The last bound is left out because rounding may make it less than 1.
    bounds = probabilities.cumsum(axis=-1)[..., :-1]
    return (rng.random_sample((*bounds.shape[:-1], 1)) >= bounds).sum(axis=-1)


# Labels that depend on a bag of future positions

N_FEATURES = 8
# Only the first features affect the labels; the others are noise.
N_RELEVANT = 6

# Labels as functions of the number of true relevant features and of the label of the bag.
RULES = {
    "xor": lambda n_true, bag: (n_true >= 4) ^ bag,
    "or": lambda n_true, bag: (n_true >= 4) | bag,
    "extra": lambda n_true, bag: n_true + bag >= 4,
}


@generating(kind=[StrOptions(set(RULES))], bag_size=SIZE, full_bags=["boolean"])
def make_future_bags(
    kind: str = "xor",
    *,
    n_sequences: int = 400,
    length: int = 30,
    bag_size: int = 6,
    full_bags: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Make sequences whose labels depend on a bag of the positions that follow.

    Each position has eight boolean features, each true with probability 1/2. Only the first six
    matter. The bag of a position consists of the next ``bag_size`` positions. It is positive if at
    most one of the six features is true at any of them. For six positions, this has a probability
    of about one half. The label depends on the number of true features among the six at the
    position itself, and on its bag.

    The problems are those of [1]_, section 5.4.1, which uses 400 training, 200 validation, and 100
    test sequences.

    Parameters
    ----------
    kind : {"xor", "or", "extra"}, default="xor"
        Condition for the label 1:

        - ``"xor"``: either at least four of the six features are true, or the bag is positive, but
          not both;
        - ``"or"``: at least four of the six are true, or the bag is positive, or both;
        - ``"extra"``: at least four of seven are true: the six features and the bag.
    n_sequences : int, default=400
        Number of sequences.
    length : int, default=30
        Number of positions per sequence.
    bag_size : int, default=6
        Number of positions in a bag.
    full_bags : bool, default=False
        Whether bags extend beyond the end of the sequence, as if longer sequences had been labeled
        and then cut. If False, a bag ends with its sequence. The features are the same in both
        cases.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices. The same seed gives the same data, and the same features for
        every ``kind``.

    Returns
    -------
    X : list of bool arrays of shape (length, 8)
        Features.
    y : list of int arrays of shape (length,)
        Labels, 0 or 1.

    $raises

    Notes
    -----
    The dissertation does not define the bags of the last positions. One of its learners makes no
    errors, which would be impossible if bags extended beyond the visible features: 5 % of the
    labels of ``"xor"`` could then not be determined. The reported accuracies of its conditional
    random fields are matched best by sequences of 36 positions, in training and in prediction, of
    which the first 30 are scored, so that their bags are full and visible. With 30 positions,
    `treecrf.TreeCRF` is 2 to 4 points more accurate on ``"xor"`` than reported there, and with
    ``full_bags`` less accurate by as much.

    References
    ----------
    .. [1] G. Hao, "Efficient Training and Feature Induction in Sequential Supervised Learning",
       PhD dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf.datasets import make_future_bags
    >>> X, y = make_future_bags("or", n_sequences=2, length=9, random_state=3)
    >>> X[0].shape, y[0].tolist()
    ((9, 8), [1, 1, 0, 0, 0, 0, 1, 0, 1])
    """
    rng = check_random_state(random_state)
    features = rng.randint(2, size=(n_sequences, length + bag_size, N_FEATURES), dtype=bool)
    n_true = features[..., :N_RELEVANT].sum(axis=-1)
    positive = n_true <= 1
    if not full_bags:
        positive[:, length:] = False
    bags = sliding_window_view(positive[:, 1:], bag_size, axis=1).any(axis=-1)
    labels = RULES[kind](n_true[:, :length], bags)
    return list(features[:, :length].copy()), list(labels.astype(np.int64))
