"""Model files of CRFsuite: written by it, and written here byte by byte."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest

from treecrf.crfsuite.crfsuite_files import estimator_of, labeler_of
from treecrf.utils.model_file import ModelFileError

LABELS = ["b", "a"]
ATTRIBUTES = ["word=z", "é", ""]
# Kind, attribute or label before, label, weight.
FEATURES = [(0, 0, 0, 1.5), (0, 2, 1, -0.25), (0, 1, 1, 2.0), (1, 0, 1, 0.75), (1, 1, 1, -1.0)]


def database(names):
    """Names with their numbers, behind hash tables that the reader does not need."""
    places = []
    records = b""
    start = 24 + 256 * 8
    for number, name in enumerate(names):
        places.append(start + len(records))
        key = name.encode() + b"\0"
        records += struct.pack("<2I", number, len(key)) + key
    table = start + len(records)
    size = table + 4 * len(places)
    head = struct.pack("<4s5I", b"CQDB", size, 0, 0x62445371, len(places), table)
    return head + bytes(256 * 8) + records + struct.pack(f"<{len(places)}I", *places)


def model_file(labels=LABELS, attributes=ATTRIBUTES, features=FEATURES, version=100):
    chunk = struct.pack("<4s2I", b"FEAT", 12 + 20 * len(features), len(features))
    chunk += b"".join(struct.pack("<3Id", *feature) for feature in features)
    parts = [chunk, database(labels), database(attributes)]
    places = 48 + np.cumsum([0, *map(len, parts)])
    counts = (len(features), len(labels), len(attributes))
    head = struct.pack(
        "<4sI4s9I", b"lCRF", places[-1], b"FOMC", version, *counts, *places[:3], 0, 0
    )
    return head + b"".join(parts)


def test_weights_are_those_of_the_file():
    model = estimator_of(model_file(), "model")
    assert model.classes_.tolist() == ["a", "b"]
    assert model.state_features_ == {("word=z", "b"): 1.5, ("", "a"): -0.25, ("é", "a"): 2.0}
    assert model.transition_features_ == {("b", "a"): 0.75, ("a", "a"): -1.0}
    assert not model.start_weights_.any()
    labeler = labeler_of(model_file(), "model")
    assert labeler.predict([[["word=z"]]])[0].tolist() == ["b"]
    score = np.exp([2.0 * 1.5, 0.0])
    proba = model.predict_proba([[{"word=z": 2.0}]])[0][0]
    assert proba.tolist() == pytest.approx((score[::-1] / score.sum()).tolist())


@pytest.mark.parametrize("c1", [0.0, 0.2])
def test_files_that_crfsuite_writes(c1, data, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": c1})
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(tmp_path / "model"))
    peer = pycrfsuite.Tagger()
    peer.open(str(tmp_path / "model"))
    model = estimator_of((tmp_path / "model").read_bytes(), "model")
    info = peer.info()
    assert model.state_features_ == pytest.approx(info.state_features, abs=1e-6)
    assert model.transition_features_ == pytest.approx(info.transitions, abs=1e-6)
    probabilities = model.predict_proba(data[0])
    for xseq, labels, proba in zip(data[0], model.predict(data[0]), probabilities, strict=True):
        assert peer.tag(xseq) == labels.tolist()
        for t in range(len(xseq)):
            expected = [peer.marginal(label, t) for label in model.classes_]
            assert proba[t].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "content",
    [
        model_file()[:30],
        model_file()[:-1],
        model_file() + b"\0",
        model_file(labels=["a", "a"]),
        model_file(features=[(2, 0, 0, 1.0)]),
        model_file(features=[(0, 3, 0, 1.0)]),
        model_file(features=[(1, 0, 2, 1.0)]),
        model_file(features=[(0, 0, 0, float("nan"))]),
        model_file(features=[(0, 0, 0, float("inf"))]),
        model_file().replace(b"CQDB", b"CQDX"),
        model_file().replace("é".encode(), b"\xff\xff"),
    ],
)
def test_damaged_files_are_refused(content):
    with pytest.raises(ModelFileError, match="places"):
        estimator_of(content, "places")


def test_any_changed_byte_is_read_or_refused():
    """Nothing else happens: no other error, and no access beyond the content."""
    content = model_file()
    rng = np.random.default_rng(0)
    interesting = np.r_[0:160, len(content) - 2 * 40 : len(content)]
    for i in [*interesting, *rng.integers(len(content), size=100)]:
        changed = bytearray(content)
        changed[i] ^= int(rng.integers(1, 256))
        with contextlib.suppress(ModelFileError):
            estimator_of(bytes(changed), "model")
