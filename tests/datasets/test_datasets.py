from functools import partial

import numpy as np
import pytest

from treecrf.datasets import make_block_hmm, make_future_bags, make_ring_hmm

KINDS = ("xor", "or", "extra")
GENERATORS = {
    "ring": make_ring_hmm,
    "block": make_block_hmm,
    **{kind: partial(make_future_bags, kind) for kind in KINDS},
}


def fractions(index, values, n_rows, n_columns):
    """Fraction of each value among the entries that have each index."""
    counts = np.zeros((n_rows, n_columns))
    np.add.at(counts, (index, values), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def transition_shares(y, n_states):
    before = np.concatenate([states[:-1] for states in y])
    after = np.concatenate([states[1:] for states in y])
    return fractions(before, after, n_states, n_states)


# All generators


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_fixes_the_data(name):
    X, y = GENERATORS[name](n_sequences=20, random_state=3)
    again = GENERATORS[name](n_sequences=20, random_state=np.random.RandomState(3))
    other = GENERATORS[name](n_sequences=20, random_state=4)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert not np.array_equal(X, other[0])
    assert not np.array_equal(y, other[1])


@pytest.mark.parametrize(("n", "length"), [(7, 11), (1, 1)])
@pytest.mark.parametrize("name", GENERATORS)
def test_sequences_have_the_requested_sizes(name, n, length):
    X, y = GENERATORS[name](n_sequences=n, length=length, random_state=0)
    assert isinstance(X, list)
    assert isinstance(y, list)
    assert len(X) == len(y) == n
    assert {len(x) for x in X} == {labels.size for labels in y} == {length}
    assert {labels.dtype.kind for labels in y} == {"i"}


@pytest.mark.parametrize(
    ("generator", "parameters", "message"),
    [
        (make_ring_hmm, {"p_next": 1.1}, r"'p_next'.*Got 1\.1"),
        (make_ring_hmm, {"p_symbol": -0.1}, r"'p_symbol'.*Got -0\.1"),
        (make_ring_hmm, {"n_states": 1}, "'n_states'.*Got 1"),
        (make_block_hmm, {"length": 0}, "'length'.*Got 0"),
        (make_block_hmm, {"block_size": 0}, "'block_size'.*Got 0"),
        (make_block_hmm, {"p_stay": "0.5"}, r"'p_stay'.*Got '0\.5'"),
        (make_block_hmm, {"p_block": 2}, "'p_block'.*Got 2"),
        (make_future_bags, {"kind": "and"}, "'kind'.*Got 'and'"),
        (make_future_bags, {"n_sequences": 2.5}, r"'n_sequences'.*Got 2\.5"),
        (make_future_bags, {"bag_size": 0}, "'bag_size'.*Got 0"),
        (make_future_bags, {"full_bags": "no"}, "'full_bags'.*Got 'no'"),
        (make_future_bags, {"random_state": "seed"}, "'random_state'.*Got 'seed'"),
    ],
)
def test_bad_parameters_are_named(generator, parameters, message):
    with pytest.raises(ValueError, match=message):
        generator(**parameters)


# Hidden Markov models


def test_ring_follows_its_probabilities():
    X, y = make_ring_hmm(n_sequences=3000, random_state=0)
    moves = np.full((10, 10), 0.3 / 9)
    shown = np.full((10, 10), 0.3 / 9)
    for state in range(10):
        moves[state, (state + 1) % 10] = 0.7
        shown[state, state] = 0.7
    np.testing.assert_allclose(transition_shares(y, 10), moves, atol=0.04)
    states = np.concatenate(y)
    np.testing.assert_allclose(fractions(states, np.concatenate(X), 10, 10), shown, atol=0.04)


def test_blocks_follow_their_probabilities():
    X, y = make_block_hmm(n_sequences=200, random_state=0)
    moves = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    shown = np.full((3, 24), 0.4 / 16)
    for state in range(3):
        shown[state, 8 * state : 8 * state + 8] = 0.6 / 8
    np.testing.assert_allclose(transition_shares(y, 3), moves, atol=0.03)
    states = np.concatenate(y)
    np.testing.assert_allclose(fractions(states, np.concatenate(X), 3, 24), shown, atol=0.015)


@pytest.mark.parametrize(("generator", "n_states"), [(make_ring_hmm, 10), (make_block_hmm, 3)])
def test_first_states_are_uniform(generator, n_states):
    y = generator(n_sequences=5000, length=1, random_state=0)[1]
    first = np.bincount(np.concatenate(y), minlength=n_states) / 5000
    np.testing.assert_allclose(first, 1 / n_states, atol=0.03)


# Future bags


def bag_label(x, t, bag_size):
    """Whether one of the next positions within the sequence has at most one of six bits."""
    return any(sum(map(int, bits[:6])) <= 1 for bits in x[t + 1 : t + 1 + bag_size])


def label(kind, bits, bag):
    n_true = sum(map(int, bits[:6]))
    if kind == "extra":
        return int([*bits[:6], bag].count(True) >= 4)
    local = n_true >= 4
    return int(local != bag) if kind == "xor" else int(local or bag)


@pytest.mark.parametrize("bag_size", [1, 6, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_bags_follow_the_definition(kind, bag_size):
    X, y = make_future_bags(kind, n_sequences=40, bag_size=bag_size, random_state=0)
    for x, labels in zip(X, y, strict=True):
        bits = x.tolist()
        expected = [label(kind, bits[t], bag_label(bits, t, bag_size)) for t in range(30)]
        assert labels.tolist() == expected


def bags_of_xor(X, y):
    """The bags' labels, laid open by the labels of the XOR problem."""
    local = np.array(X)[..., :6].sum(axis=-1) >= 4
    return np.array(y) != local


def test_full_bags_look_beyond_the_end():
    X, y = make_future_bags("xor", n_sequences=3000, full_bags=True, random_state=0)
    bags = bags_of_xor(X, y)
    positive = 1 - (57 / 64) ** 6
    np.testing.assert_allclose(bags.mean(axis=0), positive, atol=0.05)
    # A negative last bag has nothing positive beyond the end: earlier bags lie open.
    closed = [x.tolist() for x, last in zip(X, bags[:, -1], strict=True) if not last]
    expected = [[bag_label(bits, t, 6) for t in range(30)] for bits in closed]
    assert bags[~bags[:, -1]].tolist() == expected


def test_kinds_share_their_features_and_bags():
    made = {kind: make_future_bags(kind, n_sequences=30, random_state=5) for kind in KINDS}
    X, y = made["xor"]
    for kind in KINDS:
        np.testing.assert_array_equal(made[kind][0], X)
        for x, bags, labels in zip(X, bags_of_xor(X, y), made[kind][1], strict=True):
            assert labels.tolist() == [label(kind, *pair) for pair in zip(x, bags, strict=True)]


def test_features_are_fair_coins():
    X, _ = make_future_bags(random_state=0)
    assert X[0].dtype == bool
    bits = np.concatenate(X).astype(float)
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(np.cov(bits.T), np.eye(8) / 4, atol=0.02)
