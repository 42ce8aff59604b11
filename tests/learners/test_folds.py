"""Folds: what they hold out, and what they keep together."""

from __future__ import annotations

import numpy as np
import pytest
from learners.boosted.test_selection import FAST, auto, contents, prepared

from treecrf import TreeCRF
from treecrf.learners.base import folds
from treecrf.learners.base.folds import N_FOLDS, make_folds, sample_for_folds


def numbered(lengths, seed=0, n_labels=2):
    """Sequences of numbers that are all different, with random labels."""
    rng = np.random.default_rng(seed)
    X = [np.column_stack([np.full(n, i), rng.normal(size=n)]) for i, n in enumerate(lengths)]
    return X, [rng.integers(0, n_labels, n) for n in lengths]


def numbers_in(data):
    """The numbers of the sequences that some data are from."""
    return set(data.sequences.rows(0, data.sequences.n_sequences)[:, 0].astype(int).tolist())


@pytest.mark.parametrize("lengths", [[400] * 4, [300, 200, 500, 400, 100], [1000, 900, 300, 90]])
def test_four_sequences_are_held_out_as_a_whole(lengths):
    parts = make_folds(prepared(auto(), *numbered(lengths)))
    assert len(parts) == min(N_FOLDS, len(lengths))
    for part in parts:
        assert not numbers_in(part.training) & numbers_in(part.held_out)
    assert set().union(*(numbers_in(part.held_out) for part in parts)) == {*range(len(lengths))}


@pytest.mark.parametrize("lengths", [[400] * 3, [400], [1000, 200, 300, 200, 100]])
def test_too_few_sequences_are_cut_into_blocks(lengths):
    parts = make_folds(prepared(auto(), *numbered(lengths)))
    assert len(parts) >= 3
    assert any(numbers_in(part.training) & numbers_in(part.held_out) for part in parts)


def test_folds_hold_out_about_the_same_number_of_positions():
    lengths = np.random.default_rng(0).integers(5, 150, 40)
    parts = make_folds(prepared(auto(), *numbered(lengths)))
    sizes = [len(part.held_out.codes) for part in parts]
    assert np.ptp(sizes) < 0.05 * np.mean(sizes)


def test_the_sequences_of_a_group_are_held_out_together():
    lengths = np.random.default_rng(0).integers(5, 40, 30)
    groups = np.arange(30) % 7
    parts = make_folds(prepared(auto(), *numbered(lengths), fold_groups=groups))
    assert len(parts) == N_FOLDS
    held_out = []
    for part in parts:
        ours = {*groups[[*numbers_in(part.held_out)]].tolist()}
        assert not ours & {*groups[[*numbers_in(part.training)]].tolist()}
        held_out += ours
    assert sorted(held_out) == [*range(7)]


def test_two_groups_are_not_cut():
    parts = make_folds(prepared(auto(), *numbered([300, 200]), fold_groups=["a", "b"]))
    assert [numbers_in(part.training) for part in parts] in ([{0}, {1}], [{1}, {0}])


def test_folds_do_not_depend_on_the_names_and_the_order_of_groups():
    X, y = numbered([30] * 20)
    groups = [i % 6 for i in range(20)]
    order = np.random.default_rng(0).permutation(20)
    renamed = ["zyxwvu"[groups[i]] for i in order]
    ours = make_folds(prepared(auto(), X, y, fold_groups=groups))
    other = ([X[i] for i in order], [y[i] for i in order])
    theirs = make_folds(prepared(auto(), *other, fold_groups=renamed))
    for one, another in zip(ours, theirs, strict=True):
        assert sorted(contents(one.held_out)) == sorted(contents(another.held_out))


def test_every_label_remains_in_training():
    X, y = numbered([40] * 12)
    y[3][5] = 2  # the only one
    y[7][5] = y[8][5] = 3
    y[0][:2] = y[1][:2] = y[2][:2] = 4
    for seed in range(10):
        data = prepared(auto(), [x + [0, seed] for x in X], y)
        for part in make_folds(data):
            assert {*part.training.codes.tolist()} == {0, 1, 2, 3, 4}
            assert 3 not in numbers_in(part.held_out)


def test_labels_that_each_have_one_sequence_cannot_remain():
    X, _ = numbered([40] * 6)
    y = [np.full(40, i) for i in range(6)]
    assert len(make_folds(prepared(auto(), X, y))) == N_FOLDS


def test_blocks_of_a_sequence_in_a_sample_stay_together(monkeypatch):
    monkeypatch.setattr(folds, "MAX_BLOCK", 50)
    data = prepared(auto(), *numbered([1000] * 6))
    sample = sample_for_folds(data.training, 1500, seed=0)
    assert sample.n_sequences > 6
    assert len(sample.codes) == pytest.approx(1500, abs=100)
    for part in make_folds(auto_part(data, sample)):
        assert not numbers_in(part.training) & numbers_in(part.held_out)


def auto_part(data, training):
    data.training = training
    return data


@pytest.mark.parametrize("early_stopping", ["auto", True])
def test_groups_choose_a_model_for_other_groups(early_stopping):
    # Each person has a code, from which its label follows: of no use for other persons.
    rng = np.random.default_rng(0)
    persons = np.arange(40) // 4
    X = [np.column_stack([np.full(20, persons[i]), rng.normal(size=20)]) for i in range(40)]
    y = [np.where(rng.random(20) < 0.9, persons[i] % 2, 1 - persons[i] % 2) for i in range(40)]
    settings = FAST | {"early_stopping": early_stopping, "init": "zero", "max_iter": 30}
    settings |= {"constant_transitions": False, "order": 1, "random_state": 0, "window": 0}
    without = TreeCRF(**settings).fit(X, y)
    with_groups = TreeCRF(**settings).fit(X, y, fold_groups=persons)
    assert max(without.validation_score_) > max(with_groups.validation_score_) + 0.02
