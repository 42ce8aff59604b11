"""The tagger: models, label sequences and probabilities."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
)
from treecrf.crfsuite import ItemSequence, Tagger, Trainer


@pytest.fixture
def path(data, tmp_path):
    trainer = Trainer(verbose=False)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    return str(tmp_path / "model")


@pytest.fixture
def tagger(path):
    tagger = Tagger()
    tagger.open(path)
    return tagger


def test_labels_are_those_of_the_estimator(data, tagger, path):
    model = tagger._model.model
    assert tagger.labels() == model.classes_.tolist()
    for xseq, labels in zip(data[0], model.predict(data[0]), strict=True):
        assert tagger.tag(xseq) == labels.tolist()
        assert tagger.tag(ItemSequence(xseq)) == labels.tolist()
        assert tagger.tag() == labels.tolist()


def test_probabilities_sum_to_one(data, tagger):
    xseq = [{"a1": 1.0, "a2": -0.5}, {"a3": 1.0}, {}]
    tagger.set(xseq)
    paths = list(itertools.product(tagger.labels(), repeat=3))
    probabilities = {path: tagger.probability(path) for path in paths}
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert tuple(tagger.tag()) == max(probabilities, key=probabilities.get)
    for t, label in itertools.product(range(3), tagger.labels()):
        total = sum(p for path, p in probabilities.items() if path[t] == label)
        assert tagger.marginal(label, t) == pytest.approx(total)
    assert tagger.marginals()[1][label] == tagger.marginal(label, 1)


@pytest.mark.parametrize(
    "trees",
    [
        TreeCRF(max_iter=5, random_state=0),
        TreeCRF(max_iter=5, order=2, early_stopping=False),
        TreeMEMM(max_iter=5, random_state=0),
    ],
)
def test_trees_have_the_labels_and_probabilities_of_their_estimator(trees, data, tmp_path):
    trainer = Trainer(verbose=False, estimator=trees)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    tagger = Tagger()
    tagger.open(str(tmp_path / "model"))
    labels, _ = trainer.estimator_.decode(data[0])
    for i, xseq in enumerate(data[0]):
        assert tagger.tag(xseq) == labels[i].tolist()
        log_p = trainer.estimator_.predict_log_likelihood([xseq], [data[1][i]])
        assert tagger.probability(data[1][i]) == pytest.approx(np.exp(log_p[0]))
        proba = trainer.estimator_.predict_proba([xseq])[0]
        table = [[tagger.marginal(label, t) for label in tagger.labels()] for t in range(len(xseq))]
        assert np.allclose(table, proba)


@pytest.mark.parametrize("direction", ["left-to-right", "right-to-left"])
def test_windows_in_either_direction(direction, data, tmp_path):
    windows = RecurrentSlidingWindowClassifier(max_iter=5, direction=direction)
    trainer = Trainer(verbose=False, estimator=windows)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    tagger = Tagger()
    tagger.open(str(tmp_path / "model"))
    predicted = [labels.tolist() for labels in trainer.estimator_.predict(data[0])]
    assert [tagger.tag(xseq) for xseq in data[0]] == predicted
    log_p = trainer.estimator_.predict_log_likelihood(*data)
    for i, (xseq, yseq) in enumerate(zip(*data, strict=True)):
        tagger.set(xseq)
        assert tagger.probability(yseq) == pytest.approx(np.exp(log_p[i]))


def test_long_sequences_wide_items_and_unknown_attributes(data, tagger):
    X, _ = data
    long = [item for xseq in X for item in xseq] * 3
    wide = [{f"a{i}": 1.0 for i in range(500)}, {"a1": 1.0}]
    model = tagger._model.model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tagger.tag(long)) == len(long)
        assert tagger.tag([{"never seen": 1.0}, {"a1": 1.0}])
        assert tagger.tag(wide)
        assert tagger.tag([]) == []
        assert tagger.probability([]) == 1.0
        tagger.set([{"never seen": 1.0}])
        marginals = tagger.marginals()[0]
    # Without attributes, and labels before and after, all labels are equally probable.
    assert list(marginals.values()) == pytest.approx([1 / len(marginals)] * len(marginals))
    assert tagger.tag(long) == model.predict([long])[0].tolist()
    assert tagger.tag(wide) == model.predict([wide])[0].tolist()


def test_sums_are_those_of_other_ways_to_read(data, tagger):
    """The weights of names give what reading sequences gives, up to rounding errors."""
    model = tagger._model
    assert model._weights is not None
    for xseq in [*data[0], [{"a1": 1e90}, {"a2": -0.0, "unknown": 3.0}]]:
        model.set(ItemSequence(xseq).items())
        rows = model._weights.scores(ItemSequence(xseq).items())
        slow = model._read([ItemSequence(xseq).items()])
        assert np.allclose(slow.function.state_scores(slow.weights), rows, rtol=1e-12)
    with pytest.raises(ValueError, match="1e\\+300 is too large"):
        tagger.tag([{"a1": 1e300}])
    with pytest.raises(ValueError, match="infinite"):
        tagger.tag([{"a1": float("inf")}])


def test_context_managers_close(path):
    tagger = Tagger()
    with tagger.open(path) as opened:
        assert opened is tagger
        assert opened.labels()
    with pytest.raises(ValueError, match="no model"):
        tagger.labels()
    with pytest.raises(ValueError, match="no model"):
        tagger.tag([["a"]])
    with pytest.raises(RuntimeError, match="closed"):
        tagger.info()


def test_models_in_memory(path, tagger, data):
    with open(path, "rb") as file:
        content = file.read()
    other = Tagger()
    other.open_inmemory(content)
    assert [other.tag(xseq) for xseq in data[0]] == [tagger.tag(xseq) for xseq in data[0]]
    assert other.info().header == tagger.info().header
    with pytest.raises(ValueError, match="damaged"):
        other.open_inmemory(content[:-1])


def test_models_of_crfsuite_are_read(data, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    peer = pycrfsuite.Tagger()
    peer.open(str(tmp_path / "model"))
    tagger = Tagger()
    tagger.open(str(tmp_path / "model"))
    assert sorted(peer.labels()) == tagger.labels()
    assert [tagger.tag(xseq) for xseq in data[0]] == [peer.tag(xseq) for xseq in data[0]]
    assert tagger.info().transitions == pytest.approx(peer.info().transitions, abs=1e-6)
    tagger.open_inmemory((tmp_path / "model").read_bytes())
    assert tagger.probability(tagger.tag(data[0][0])) == pytest.approx(
        peer.probability(peer.tag(data[0][0]))
    )


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"lCRF" + bytes(100))
    with pytest.raises(ValueError, match=r"old: .*header"):
        Tagger().open(str(path))
    with pytest.raises(ValueError, match="header"):
        Tagger().open_inmemory(path.read_bytes())
    with pytest.raises(FileNotFoundError):
        Tagger().open(str(tmp_path / "none"))
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="not a treecrf model"):
        Tagger().open(str(path))


def test_invalid_questions(tagger):
    with pytest.raises(ValueError, match="there is no sequence"):
        tagger.tag()
    tagger.set([["a1"]])
    with pytest.raises(ValueError, match="label 'x' is not in the model"):
        tagger.marginal("x", 0)
    with pytest.raises(ValueError, match="pos=1; the sequence has 1 items"):
        tagger.marginal("label0", 1)
    with pytest.raises(ValueError, match="yseq has 2 labels, the sequence 1 items"):
        tagger.probability(["label0", "label1"])


def test_other_models_need_names_of_attributes(tmp_path):
    LinearCRF().fit(["ab"], ["xy"]).save(tmp_path / "model")
    with pytest.raises(ValueError, match="columns without names"):
        Tagger().open(tmp_path / "model")


def test_other_estimators(words, tmp_path):
    for estimator in (StructuredPerceptron(), LinearCRF(l2_regularization=0.1)):
        trainer = Trainer(verbose=False, estimator=estimator)
        for xseq, yseq in zip(*words, strict=True):
            trainer.append(xseq, yseq)
        trainer.train(str(tmp_path / "model"))
        tagger = Tagger()
        tagger.open(str(tmp_path / "model"))
        assert tagger.tag(words[0][0]) == words[1][0]


def test_contents_and_their_text(tagger, tmp_path, capsys):
    info = tagger.info()
    model = info._model
    assert info.state_features == model.state_features_
    assert info.transitions == model.transition_features_
    assert set(info.attributes) == {name for name, _ in info.state_features}
    assert info.header["num_labels"] == str(len(info.labels))
    tagger.dump(tmp_path / "text")
    tagger.dump()
    text = (tmp_path / "text").read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    (name, label), weight = next(iter(info.state_features.items()))
    assert f"  (0) {name} --> {label}: {weight:f}\n" in text
    assert "TRANSITIONS = {\n" in text


def test_models_of_trees_have_no_weights(words, tmp_path):
    trainer = Trainer(verbose=False, estimator=TreeCRF(max_iter=2))
    for xseq, yseq in zip(*words, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    tagger = Tagger()
    tagger.open(str(tmp_path / "model"))
    info = tagger.info()
    assert set(info.attributes) == {"word:to", "word:Rome", "word:Oslo", "word:in"}
    with pytest.raises(TypeError, match="a TreeCRF has no weights of attributes"):
        info.state_features  # noqa: B018


def test_a_tagger_imports_neither_scikit_learn_nor_scipy(words, tmp_path):
    trainer = Trainer(verbose=False)
    for xseq, yseq in zip(*words, strict=True):
        trainer.append(xseq, yseq)
    path = str(tmp_path / "model")
    trainer.train(path)
    code = (
        "import sys; from treecrf.crfsuite import Tagger; tagger = Tagger(); "
        f"tagger.open({path!r}); tagger.tag({words[0][0]!r}); tagger.marginals(); "
        "assert not {'sklearn', 'scipy', 'joblib', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
