"""The papers' settings: they fit, and no size of the data changes the algorithm."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

import treecrf
from treecrf import FutureFeatureMEMM, SequenceBoostingClassifier, TreeCRF, papers
from treecrf.datasets import make_future_bags
from treecrf.learners.boosted.engines import sampling_threshold

# Each method with settings of some dataset or none, apart from the number of iterations.
BOOSTED = [
    ("TreeCRF", papers.TREECRF),
    ("TreeCRF", papers.TREECRF | papers.PROTEIN),
    ("TreeCRF", papers.TREECRF | papers.NETTALK),
    ("TreeCRF", papers.TREECRF | papers.HYPHENATION),
    ("TreeCRF", papers.TREECRF_ORIGINAL),
    ("TreeCRF", papers.TREECRF_ORIGINAL | papers.RING),
    ("TreeCRF", papers.TREECRF_2004),
    ("TreeMEMM", papers.TREEMEMM),
    ("SlidingWindowClassifier", papers.SLIDING_WINDOW),
    ("RecurrentSlidingWindowClassifier", papers.RECURRENT_SLIDING_WINDOW),
]


@pytest.fixture(scope="module")
def sequences():
    """Enough examples for samples by default: 60 labels, and their pairs, at 300 positions."""
    random = np.random.default_rng(0)
    y = [random.permutation(60) for _ in range(5)]
    return [labels // 3 for labels in y], y


@pytest.mark.parametrize(("name", "settings"), BOOSTED)
def test_large_data_are_not_sampled(name, settings, sequences):
    X, y = sequences
    fixed = settings | {"max_iter": 2}
    model = getattr(treecrf, name)(**fixed).fit(X, y)
    everything = getattr(treecrf, name)(**fixed | {"sampling": None}).fit(X, y)
    np.testing.assert_array_equal(model.train_score_, everything.train_score_)
    spec = model._spec()
    assert sampling_threshold(spec, 5, 10**9) is None


def test_the_default_samples_large_data(sequences):
    X, y = sequences
    fixed = papers.TREECRF | {"max_iter": 2}
    scores = [TreeCRF(**fixed | {"sampling": sampling}).fit(X, y).train_score_
              for sampling in (None, "auto")]  # fmt: skip
    assert scores[0][-1] != scores[1][-1]


def test_beams_of_many_labels(sequences):
    """Training and decoding of the thesis, with seven previous labels."""
    X, y = sequences
    settings = papers.TREECRF_ORIGINAL | papers.NETTALK_FULL | papers.BEAM_TRAINING
    crf = TreeCRF(**settings, max_iter=3).fit(X, y).set_params(**papers.BEAM_DECODING)
    assert (crf.beam_width, crf.order, crf.decoding) == (10, 7, "viterbi")
    assert np.mean(np.concatenate(crf.predict(X)) == np.concatenate(y)) > 0.3


@pytest.mark.parametrize(
    ("data", "accuracy"), [(papers.FUTURE_BAGS, 0.99), (papers.STRESSED_LETTERS, 0.75)]
)
def test_future_features(data, accuracy):
    """Published for the first: 100 %."""
    X, y = make_future_bags("or", n_sequences=250, random_state=0)
    memm = FutureFeatureMEMM(**papers.FUTURE_FEATURES | data, random_state=0)
    assert memm.fit(X[:200], y[:200]).score(X[200:], y[200:]) > accuracy


def test_sequence_boosting():
    booster = SequenceBoostingClassifier(**papers.SEQUENCE_BOOSTING, max_iter=20)
    booster.fit(["ab", "b", "ba"], ["xy", "y", "yx"])
    assert booster.score(["ab"], ["xy"]) == 1


def test_settings_are_read_only():
    for name in papers.__all__:
        settings = getattr(papers, name)
        assert isinstance(settings, MappingProxyType)
        with pytest.raises(TypeError, match="does not support item assignment"):
            settings["window"] = 1
