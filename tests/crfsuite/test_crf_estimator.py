"""The estimator in the form of sklearn-crfsuite."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import treecrf.crfsuite as sklearn_crfsuite
from treecrf import TreeCRF
from treecrf.crfsuite import CRF, Trainer, metrics, scorers


def test_parameters_are_those_of_sklearn_crfsuite():
    peer = pytest.importorskip("sklearn_crfsuite")
    expected = inspect.signature(peer.CRF.__init__).parameters
    own = inspect.signature(CRF.__init__).parameters
    assert list(own)[: len(expected)] == list(expected)
    assert {name: own[name].default for name in expected} == {
        name: parameter.default for name, parameter in expected.items()
    }


def test_labels_and_probabilities(words):
    crf = CRF(c2=0.1).fit(iter(words[0]), iter(words[1]))
    assert crf.predict(iter(words[0])) == words[1]
    assert crf.predict_single(words[0][0]) == words[1][0]
    assert crf.score(*words) == 1.0
    marginals = crf.predict_marginals(words[0])
    assert [len(items) for items in marginals] == [2, 1, 2]
    assert sum(marginals[0][1].values()) == pytest.approx(1.0)
    assert marginals[0] == crf.predict_marginals_single(words[0][0])
    assert crf.predict([[]]) == [[]]
    assert crf.predict_marginals([[]]) == [[]]


def test_contents(words):
    crf = CRF().fit(*words)
    assert crf.classes_ == ["O", "PLACE"]
    assert crf.attributes_ == sorted(crf.attributes_)
    assert crf.num_attributes_ == len(crf.attributes_) == 4
    assert crf.state_features_["word:Oslo", "PLACE"] > 0
    assert crf.transition_features_["O", "PLACE"] > 0
    assert crf.state_features_ is crf.state_features_
    assert crf.size_ > 1000
    assert crf.training_log_.last_iteration["loss"] == pytest.approx(crf.estimator_.loss_, abs=1e-6)


def test_before_the_fit(words):
    crf = CRF()
    for name in ("tagger_", "size_", "classes_", "attributes_", "state_features_", "training_log_"):
        assert getattr(crf, name) is None
    with pytest.raises(ValueError, match="not fitted"):
        crf.predict(words[0])


def test_a_failed_fit_changes_nothing(words):
    crf = CRF().fit(*words)
    before = crf.predict(words[0])
    with pytest.raises(TypeError, match="sequence 1: position 0: attribute 'a' has a value"):
        crf.fit([[["b"]], [{"a": None}]], [["x"], ["y"]])
    assert crf.predict(words[0]) == before
    with pytest.raises(ValueError, match="sequence 1: xseq has 1 items and yseq 2"):
        crf.fit([[["b"]], [["a"]]], [["x"], ["y", "z"]])
    with pytest.raises(ValueError, match="X_dev and y_dev"):
        crf.fit(*words, words[0])
    with pytest.raises(ValueError, match="zip"):
        crf.fit(words[0], words[1][:-1])
    with pytest.raises(ValueError, match="sample_weight has 1 weights"):
        crf.fit(*words, sample_weight=[1.0])


def test_dev_data_are_in_the_log(words):
    crf = CRF().fit(*words, words[0], words[1])
    assert crf.training_log_.last_iteration["item_accuracy_float"] == 1.0


def test_weights_change_what_is_learned():
    X = [[["a"]]] * 3
    y = [["x"], ["x"], ["z"]]
    assert CRF().fit(X, y).predict_single([["a"]]) == ["x"]
    assert CRF().fit(X, y, sample_weight=[1, 1, 10]).predict_single([["a"]]) == ["z"]


def test_files(words, tmp_path):
    path = str(tmp_path / "model")
    crf = CRF(model_filename=path).fit(*words)
    other = CRF(model_filename=path)
    assert other.predict(words[0]) == words[1]
    assert other.state_features_ == crf.state_features_
    assert crf.size_ == (tmp_path / "model").stat().st_size


def test_pickles_clones_and_model_selection(data):
    crf = CRF(max_iterations=20, verbose=False).fit(*data)
    loaded = pickle.loads(pickle.dumps(crf))
    assert loaded.predict(data[0]) == crf.predict(data[0])
    assert clone(crf).get_params() == crf.get_params()
    X = [list(xseq) for xseq in data[0]]
    scores = cross_val_score(CRF(max_iterations=5), X, data[1], cv=3, scoring=scorers.flat_accuracy)
    assert len(scores) == 3
    assert all(0 < score <= 1 for score in scores)


def test_trees_are_one_parameter(words):
    trees = TreeCRF(max_iter=30, min_samples_leaf=1)
    crf = CRF(estimator=trees).fit(*words)
    assert crf.predict(words[0]) == words[1]
    assert not hasattr(trees, "classes_")
    assert type(crf.estimator_) is TreeCRF
    assert clone(crf).set_params(estimator__max_iter=3).estimator.max_iter == 3
    loaded = pickle.loads(pickle.dumps(crf))
    assert loaded.predict_marginals(words[0]) == crf.predict_marginals(words[0])


def test_other_trainers(words):
    class Counting(Trainer):
        n_lines = 0

        def message(self, message):
            type(self).n_lines += 1
            super().message(message)

    CRF(trainer_cls=Counting).fit(*words)
    assert Counting.n_lines > 10


def test_metrics_are_those_of_sklearn_crfsuite():
    y_true = [["a", "b"], ["a"], ["c", "b"]]
    y_pred = [["a", "b"], ["b"], ["c", "c"]]
    arrays = [np.array(labels) for labels in y_pred]
    assert metrics.flat_accuracy_score(y_true, y_pred) == 3 / 5
    assert metrics.flat_f1_score(y_true, arrays, average="micro") == pytest.approx(3 / 5)
    assert metrics.flat_precision_score(y_true, y_pred, average="macro") == pytest.approx(2 / 3)
    assert metrics.flat_recall_score(y_true, y_pred, labels=["a"], average=None).tolist() == [0.5]
    assert metrics.flat_fbeta_score(y_true, y_pred, beta=1, average="macro") == pytest.approx(
        metrics.flat_f1_score(y_true, y_pred, average="macro")
    )
    assert "accuracy" in metrics.flat_classification_report(y_true, y_pred)
    assert metrics.sequence_accuracy_score(y_true, arrays) == 1 / 3
    assert metrics.sequence_accuracy_score([], []) == 0
    assert sklearn_crfsuite.metrics is metrics
