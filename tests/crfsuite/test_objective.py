"""The objective is that of CRFsuite: the same weights, and the same minimum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from treecrf.crfsuite import CRF, Tagger, Trainer

# Settings that end at the minimum.
CONVERGED = {"delta": 1e-14, "epsilon": 1e-10, "max_iterations": 20_000}
OPTIONS = list(
    itertools.product((0.0, 0.3), (False, True), (False, True), (0.0, 2.0))
)  # c1, possible states, possible transitions, frequency


def trained(trainer_class, tagger_class, data, path, params, **options):
    trainer = trainer_class(verbose=False, params=params, **options)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(path))
    tagger = tagger_class()
    tagger.open(str(path))
    return trainer, tagger


@pytest.mark.parametrize(("c1", "states", "transitions", "frequency"), OPTIONS)
def test_weights_and_loss_are_those_of_crfsuite(c1, states, transitions, frequency, data, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    params = CONVERGED | {
        "c1": c1,
        "c2": 0.2,
        "feature.possible_states": states,
        "feature.possible_transitions": transitions,
        "feature.minfreq": frequency,
    }
    theirs, peer = trained(pycrfsuite.Trainer, pycrfsuite.Tagger, data, tmp_path / "1", params)
    ours, tagger = trained(Trainer, Tagger, data, tmp_path / "2", params)
    loss = theirs.logparser.last_iteration["loss"]
    assert ours.logparser.last_iteration["loss"] == pytest.approx(loss, rel=1e-6)
    n_features = theirs.logparser.featgen_num_features
    assert ours.logparser.featgen_num_features == n_features
    expected = peer.info()
    found = tagger.info()
    for name in ("state_features", "transitions"):
        weights = getattr(expected, name)
        own = getattr(found, name)
        for key in {*weights, *own}:
            assert own.get(key, 0.0) == pytest.approx(weights.get(key, 0.0), abs=1e-4)
    for xseq in data[0][:10]:
        assert tagger.tag(xseq) == peer.tag(xseq)
        for t, label in itertools.product(range(len(xseq)), tagger.labels()):
            assert tagger.marginal(label, t) == pytest.approx(peer.marginal(label, t), abs=1e-4)


def test_the_loss_is_what_it_says(data, tmp_path):
    """From the weights of the model, by all label sequences of each sequence."""
    params = {"c1": 0.1, "c2": 0.3}
    short = ([xseq[:3] for xseq in data[0]], [yseq[:3] for yseq in data[1]])
    trainer, tagger = trained(Trainer, Tagger, short, tmp_path / "model", params)
    info = tagger.info()
    weights = [*info.state_features.values(), *info.transitions.values()]
    loss = 0.1 * sum(map(abs, weights)) + 0.3 * sum(w * w for w in weights)

    def score(xseq, yseq):
        states = sum(
            value * info.state_features.get((name, label), 0.0)
            for item, label in zip(xseq, yseq, strict=True)
            for name, value in item.items()
        )
        pairs = itertools.pairwise(yseq)
        return states + sum(info.transitions.get(pair, 0.0) for pair in pairs)

    for xseq, yseq in zip(*short, strict=True):
        paths = itertools.product(tagger.labels(), repeat=len(yseq))
        total = math.log(sum(math.exp(score(xseq, path)) for path in paths))
        loss += total - score(xseq, yseq)
        tagger.set(xseq)
        assert tagger.probability(yseq) == pytest.approx(math.exp(score(xseq, yseq) - total))
    assert trainer.logparser.last_iteration["loss"] == pytest.approx(loss, rel=1e-5)


def test_a_weight_counts_as_repetition(data):
    def model_of(repeats, weight):
        trainer = Trainer(verbose=False, params=CONVERGED | {"feature.minfreq": 2})
        for i, (xseq, yseq) in enumerate(zip(*data, strict=True)):
            for _ in range(repeats if i == 3 else 1):
                trainer.append(xseq, yseq, weight=weight if i == 3 else 1.0)
        trainer.train("")
        return trainer.estimator_

    weighted = model_of(1, 5)
    repeated = model_of(5, 1)
    assert weighted.loss_ == pytest.approx(repeated.loss_, rel=1e-9)
    difference = weighted.state_weights_ - repeated.state_weights_
    assert np.abs(difference).max() < 1e-4


@pytest.mark.parametrize("algorithm", ["ap", "pa", "arow"])
def test_online_algorithms_learn_what_they_can(algorithm, words):
    trainer = Trainer(algorithm, verbose=False)
    for xseq, yseq in zip(*words, strict=True):
        trainer.append(xseq, yseq)
    trainer.train("")
    last = trainer.logparser.last_iteration
    assert last["num"] < 100
    assert last["loss"] == 0
    assert CRF(algorithm).fit(*words).predict(words[0]) == words[1]


def test_one_step_of_the_passive_aggressive_algorithm():
    """The first visit finds the first label everywhere; the step is as long as the margin needs."""
    trainer = Trainer("pa", verbose=False, params={"c": 10, "averaging": 0, "max_iterations": 1})
    trainer.append([{"x": 2.0}], ["b"])
    trainer.append([{"y": 1.0}], ["a"])
    trainer.train("")
    model = trainer.estimator_
    # The features of b are added and those of a are taken off: a square of 4, a margin of 1. The
    # weight (x, a) does not exist, as the attribute never occurs with the label.
    assert model.state_features_ == {("x", "b"): pytest.approx(0.5)}


def test_one_step_of_arow():
    trainer = Trainer(
        "arow", verbose=False, params={"gamma": 2, "variance": 3, "max_iterations": 1}
    )
    trainer.append([{"x": 2.0}], ["b"])
    trainer.append([{"y": 1.0}], ["a"])
    trainer.train("")
    # The spread is 2 + 4 * 3, and the loss the number of wrong labels.
    assert trainer.estimator_.state_features_ == {("x", "b"): pytest.approx(1 / 14 * 3 * 2)}


def test_weights_lengthen_the_steps_of_the_passive_aggressive_algorithm():
    trainer = Trainer("pa", verbose=False, params={"c": 10, "averaging": 0, "max_iterations": 1})
    trainer.append([{"x": 2.0}], ["b"], weight=3)
    trainer.append([{"y": 1.0}], ["a"])
    trainer.train("")
    # As in the test above, times the weight.
    assert trainer.estimator_.state_features_ == {("x", "b"): pytest.approx(0.5 * 3)}
