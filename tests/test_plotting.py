"""Pictures of models."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from treecrf import FutureFeatureMEMM
from treecrf.datasets import make_future_bags
from treecrf.plotting import plot_future_features

X, Y = make_future_bags("or", n_sequences=60, random_state=0)


def test_a_picture_shows_instances_and_bags():
    pytest.importorskip("matplotlib").use("agg")
    memm = FutureFeatureMEMM(order=0, bag_size=6, max_iter=20, random_state=0).fit(X, Y)
    ax = plot_future_features(memm, X[0])
    shown = ax.images[0].get_array()
    n = len(memm.future_features_)
    assert shown.shape == (2 * n, 30)
    np.testing.assert_array_equal(shown[:2], memm.future_values(X[:1])[0][:, 0].T)
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["instance 0", "bag 0"]
    assert plot_future_features(memm, X[1], ax=ax) is ax


def test_what_cannot_be_drawn(monkeypatch):
    memm = FutureFeatureMEMM(order=0, max_future_features=0, max_iter=2).fit(X, Y)
    pytest.importorskip("matplotlib").use("agg")
    with pytest.raises(ValueError, match="the model has discovered no features"):
        plot_future_features(memm, X[0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install \"treecrf\[plot\]\""):
        plot_future_features(memm, X[0])
