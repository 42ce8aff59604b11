"""Fixtures shared by all tests: small synthetic sequences, fitted models, the data folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.base import clone
from support.collecting import announce_collection
from support.family import FAMILY, FLAT
from support.settings import PLAIN

import treecrf
import treecrf.encoding.column_layout
from treecrf import TreeCRF, flatten

# They have no examples, and their names are equal.
collect_ignore_glob = ["*conftest.py"]

# Plots, also those of examples in docstrings, need no screen.
os.environ["MPLBACKEND"] = "agg"
# Processes that tests start import the same package, and not one in their folder.
PATHS = [str(Path(treecrf.__file__).parents[1]), os.environ.get("PYTHONPATH")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, PATHS))
os.environ["PYTHONSAFEPATH"] = "1"

# The same examples in every run and no deadlines, so that tests do not fail on slow machines.
settings.register_profile("exhaustive", deadline=None, derandomize=True)
settings.register_profile("fast", settings.get_profile("exhaustive"), max_examples=20)


def pytest_configure(config):
    """Draw fewer examples if exhaustive tests are deselected, and do not collect in silence."""
    announce_collection(config)
    fast = config.option.markexpr == "not exhaustive"
    settings.load_profile("fast" if fast else "exhaustive")


def pytest_runtest_setup(item):
    """Build fixtures from the same random numbers, whichever test is the first to use them."""
    seed_estimators()


def pytest_runtest_call(item):
    """Start each test from the same random numbers, whatever ran before it."""
    seed_estimators()


def seed_estimators():
    """Seed the generator that estimators with ``random_state=None`` draw from."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def few_codes(monkeypatch):
    """Store categories with more than five values in lists, like those with hundreds of words.

    Symbols are stored in lists if there are more than four.
    """
    monkeypatch.setattr(treecrf.encoding.column_layout, "MAX_CODES", 5)


@pytest.fixture
def interrupts():
    """Handle SIGINT, which processes in the background may ignore, and those they start."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture(scope="session")
def letters():
    """Strings and labels; a label depends on the letter and on the previous label."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), rng.integers(4, 13))) for _ in range(24)]
    return X, [_label_letters(word, rng) for word in X]


def _label_letters(word: str, rng: np.random.Generator) -> str:
    labels = ""
    for letter in word:
        follows = labels[-1:] or "x"
        label = {"a": "x", "b": "y", "c": "z", "d": follows}[letter]
        labels += rng.choice(list("xyz")) if rng.random() < 0.1 else label
    return labels


@pytest.fixture(scope="session")
def tables():
    """Tables of three features with labels 0, 1, 2; the second feature is the informative one."""
    rng = np.random.default_rng(1)
    y = [np.sort(rng.integers(0, 3, rng.integers(4, 13))) for _ in range(24)]
    X = [rng.normal(size=(len(labels), 3)) for labels in y]
    for table, labels in zip(X, y, strict=True):
        table[:, 1] += labels
    return X, y


@pytest.fixture(scope="session")
def noisy():
    """Sequences whose labels are hard to predict, so that long training overfits."""
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, 10) for _ in range(30)]
    return [0.5 * labels[:, None] + rng.normal(size=(10, 5)) for labels in y], y


@pytest.fixture(scope="session")
def trained(letters):
    """A model fitted to the letters. It is shared, so tests must not change it."""
    return TreeCRF(window=1, max_iter=8, l2_regularization=1.0, random_state=0, **PLAIN).fit(
        *letters
    )


@pytest.fixture(scope="session")
def fitted(letters):
    """Models of all learners by name, fitted on first use. Tests must not change them."""
    models = {}

    def get(name):
        if name not in models and name in FLAT:
            models[name] = flatten(get(name.removeprefix("flat ")))
        if name not in models:
            models[name] = clone(FAMILY[name]).fit(*letters)
        return models[name]

    return get


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the published datasets."""
    path = os.environ.get("TREECRF_DATA")
    if not path:
        pytest.skip("TREECRF_DATA, the folder of the published datasets, is not set")
    return Path(path)
