"""The trainer: parameters, data, logs and models."""

from __future__ import annotations

import warnings

import pytest

import treecrf
from treecrf import TreeCRF
from treecrf.crfsuite import LinePerIterationTrainer, Tagger, Trainer

ALGORITHMS = ["lbfgs", "l2sgd", "ap", "pa", "arow"]


def appended(data, *arguments, **options):
    trainer = Trainer(*arguments, verbose=False, **options)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    return trainer


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_parameters_and_defaults_are_those_of_python_crfsuite(algorithm):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    peer = pycrfsuite.Trainer(algorithm)
    trainer = Trainer(algorithm)
    assert sorted(trainer.params()) == sorted(peer.params())
    assert trainer.get_params() == pytest.approx(peer.get_params())
    assert all(trainer.help(name) for name in trainer.params())


def test_parameters_are_set_by_value_or_text():
    trainer = Trainer(params={"c1": "0.5", "feature.possible_states": 1})
    trainer.set("max_iterations", 5.0)
    trainer.set("feature.possible_transitions", True)
    assert trainer.get("c1") == 0.5
    assert trainer.get("feature.possible_states") is True
    assert trainer.get("max_iterations") == 5
    trainer.select("l2sgd")
    assert "c1" not in trainer.params()
    assert trainer.get("feature.possible_states") is False


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("c3", 1, "lbfgs has no parameter 'c3'; expected one of"),
        ("variance", 1, "lbfgs has no parameter 'variance'"),
        ("c2", -1, "c2=-1; expected a finite number"),
        ("c2", "much", "c2='much'; expected a finite number"),
        ("max_iterations", 2.5, "max_iterations=2.5; expected an integer"),
        ("linesearch", "Newton", "linesearch='Newton'; expected one of MoreThuente"),
        ("feature.minfreq", float("nan"), "expected a number"),
    ],
)
def test_other_parameters_are_refused(name, value, message):
    trainer = Trainer()
    before = trainer.get_params()
    with pytest.raises(ValueError, match=message):
        trainer.set(name, value)
    assert trainer.get_params() == before


def test_parameters_without_effect_say_so():
    with pytest.warns(UserWarning, match="max_linesearch=5 has no effect"):
        Trainer(params={"max_linesearch": 5})
    assert "no effect" in Trainer().help("max_linesearch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trainer(params={"max_linesearch": 20, "num_memories": 3})


def test_parameters_of_another_estimator_say_so(words):
    trainer = appended(words, params={"c1": 0.1}, estimator=TreeCRF(max_iter=2))
    with pytest.warns(UserWarning, match="c1: no effect with estimator=TreeCRF"):
        trainer.train("")


def test_unknown_algorithms_are_refused():
    with pytest.raises(ValueError, match="algorithm='svm', type='crf1d'; expected one of lbfgs"):
        Trainer("svm")
    with pytest.raises(ValueError, match="type='crf2d'"):
        Trainer().select("lbfgs", "crf2d")


@pytest.mark.parametrize(
    ("xseq", "yseq", "options", "error", "message"),
    [
        ([["a"]], ["x", "y"], {}, ValueError, "xseq has 1 items and yseq 2 labels"),
        ([["a"]], [1], {}, TypeError, "the label 1 is of type int"),
        ([{"a": float("nan")}], ["x"], {}, ValueError, "position 0: attribute 'a' is nan"),
        ([["a"]], ["x"], {"weight": -1}, ValueError, "weight=-1"),
    ],
)
def test_invalid_sequences_are_refused(xseq, yseq, options, error, message, words):
    trainer = appended(words)
    with pytest.raises(error, match=message):
        trainer.append(xseq, yseq, **options)
    trainer.train("")
    assert trainer.estimator_.classes_.tolist() == ["O", "PLACE"]


def test_training_needs_sequences(tmp_path):
    trainer = Trainer(verbose=False)
    trainer.append([], [])
    with pytest.raises(ValueError, match="there are no training sequences"):
        trainer.train(str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_sequences_can_be_cleared(words):
    trainer = appended(words)
    trainer.clear()
    trainer.append([["a"], ["b"]], ["x", "y"])
    trainer.train("")
    assert trainer.estimator_.classes_.tolist() == ["x", "y"]


def test_models_are_files_of_treecrf(words, tmp_path):
    path = tmp_path / "model"
    appended(words).train(path)
    model = treecrf.load(path)
    assert type(model) is treecrf.LinearCRF
    assert model.decoding == "viterbi"
    assert model.start_weights_.tolist() == [0.0, 0.0]
    assert ("O", "PLACE") in model.transition_features_
    assert ("PLACE", "PLACE") not in model.transition_features_


def test_trees_are_one_parameter(words, tmp_path):
    trainer = appended(words, estimator=TreeCRF(max_iter=20, min_samples_leaf=1))
    trainer.train(str(tmp_path / "model"))
    assert type(trainer.estimator_) is TreeCRF
    tagger = Tagger()
    with tagger.open(str(tmp_path / "model")):
        assert [tagger.tag(xseq) for xseq in words[0]] == words[1]
        tagger.set(words[0][0])
        assert tagger.probability(words[1][0]) > 0.4


def test_a_holdout_group_is_not_trained_on(data):
    X, y = data
    trainer = Trainer(verbose=False)
    for i, (xseq, yseq) in enumerate(zip(X, y, strict=True)):
        trainer.append(xseq, yseq, group=i % 3)
    # A label and an attribute that no other group has.
    trainer.append([{"new": 1.0, "a1": 1.0}], ["unseen"], group=2)
    trainer.train("", holdout=2)
    without = Trainer(verbose=False)
    for i, (xseq, yseq) in enumerate(zip(X, y, strict=True)):
        if i % 3 != 2:
            without.append(xseq, yseq)
    without.train("")
    assert trainer.estimator_.state_features_ == without.estimator_.state_features_
    last = trainer.logparser.last_iteration
    held_out = [*zip(X[2::3], y[2::3], strict=True), ([{"new": 1.0, "a1": 1.0}], ["unseen"])]
    predicted = trainer.estimator_.predict([xseq for xseq, _ in held_out])
    true = [yseq for _, yseq in held_out]
    n_right = sum(
        a == b for p, t in zip(predicted, true, strict=True) for a, b in zip(p, t, strict=True)
    )
    assert last["item_accuracy_float"] == pytest.approx(n_right / sum(map(len, true)))
    whole = [p.tolist() == t for p, t in zip(predicted, true, strict=True)]
    assert last["instance_accuracy_float"] == pytest.approx(sum(whole) / len(whole))
    assert last["scores"]["unseen"].match == 0
    assert last["scores"]["unseen"].ref == 1


def test_the_log_has_the_numbers_of_training(data, capsys):
    trainer = Trainer(params={"c1": 0.2})
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train("")
    log = trainer.logparser
    model = trainer.estimator_
    weights = [*model.state_features_.values(), *model.transition_features_.values()]
    last = log.last_iteration
    assert last["num"] == len(log.iterations) == model.n_iter_
    assert last["loss"] == pytest.approx(model.loss_, abs=1e-6)
    assert last["active_features"] == len(weights)
    assert last["feature_norm"] == pytest.approx(sum(w * w for w in weights) ** 0.5, abs=1e-6)
    assert log.featgen_num_features >= len(weights)
    assert min(log.featgen_seconds, log.training_seconds, log.storing_seconds) >= 0
    losses = [iteration["loss"] for iteration in log.iterations]
    assert losses == sorted(losses, reverse=True)
    printed = capsys.readouterr().out
    assert printed == "".join(log.log)
    assert "type: CRF1d\n" in log.log
    assert log.events[0][0] == "start"
    assert [event for event, _, _ in log.events[-2:]] == ["optimization_end", "end"]


def test_a_line_for_each_iteration(data, capsys):
    trainer = LinePerIterationTrainer()
    for i, (xseq, yseq) in enumerate(zip(*data, strict=True)):
        trainer.append(xseq, yseq, i % 2)
    trainer.train("", holdout=1)
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if line.startswith("Iter ")]
    assert len(lines) == len(trainer.logparser.iterations)
    assert f"{trainer.logparser.last_iteration['loss']:.2f}" in lines[-1]
    assert any(line.startswith("label1 ") for line in printed)


def test_subclasses_may_override_messages_and_leave_out_the_constructor(words):
    class Silent(Trainer):
        def __init__(self):
            self.messages = []

        def message(self, message):
            self.messages.append(message)

    trainer = Silent()
    trainer.append(words[0][0], words[1][0])
    trainer.train("")
    assert "L-BFGS optimization\n" in trainer.messages


def test_iterations_end_at_the_limit(data):
    trainer = appended(data, params={"max_iterations": 3})
    trainer.train("")
    assert trainer.logparser.last_iteration["num"] == 3
    assert any("maximum number of iterations" in line for line in trainer.logparser.log)


def test_one_label_is_not_enough():
    trainer = Trainer(verbose=False)
    trainer.append([["a"], ["b"]], ["x", "x"])
    with pytest.raises(ValueError, match="only the label 'x'; expected at least 2"):
        trainer.train("")
