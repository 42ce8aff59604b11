"""Killed, interrupted and forked processes, full disks, and memory that must not grow."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.family import EXACT, every
from support.sweeps import sweep

import treecrf
from treecrf import TreeCRF

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
linux = pytest.mark.skipif(sys.platform != "linux", reason="forks and limits as on Linux")


def forked(function: Callable, *arguments: Any) -> multiprocessing.Process:
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def save_forever(model: TreeCRF, path: Path, started: Path) -> None:
    while True:
        model.save(path)
        started.touch()


@linux
@pytest.mark.parametrize("n", sweep([10, 100], 1))
def test_a_process_killed_while_saving_leaves_a_model(n, trained, letters, tmp_path):
    path, started, rng = tmp_path / "model", tmp_path / "started", np.random.default_rng(0)
    expected = np.concatenate(trained.predict_proba(letters[0]))
    for _ in range(n):
        process = forked(save_forever, trained, path, started)
        while not started.exists():
            time.sleep(0.001)
        time.sleep(rng.random() / 50)
        process.kill()
        process.join()
        started.unlink()
        again = treecrf.load(path)
        np.testing.assert_array_equal(np.concatenate(again.predict_proba(letters[0])), expected)
        again.save(path)


def save_to_full_disk(model: TreeCRF, path: Path) -> None:
    """Save with a limit on the size of files, which has the effect of a full disk."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in (0, 1, 100, 1000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match="File too large"):
            model.save(path)


@linux
def test_a_full_disk_leaves_the_old_model(trained, tmp_path):
    path = tmp_path / "model"
    trained.save(path)
    before = path.read_bytes()
    process = forked(save_to_full_disk, trained, path)
    process.join()
    assert process.exitcode == 0
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


INTERRUPTED = """
import signal, sys, threading, numpy as np
from treecrf import TreeCRF
rng = np.random.default_rng(0)
X = [rng.normal(size=(50, 4)) for _ in range(20)]
y = [(x[:, 0] > 0).astype(int) for x in X]
seconds, n_jobs = float(sys.argv[1]), int(sys.argv[2])
settings = dict(max_iter=1, early_stopping=False, random_state=0, n_jobs=n_jobs)
model = TreeCRF(**settings).fit(X, y)
before = np.concatenate(model.predict_proba(X))
model.set_params(max_iter=100_000)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    model.fit(X, y)
except KeyboardInterrupt:
    pass
after = np.concatenate(model.predict_proba(X))
again = np.concatenate(model.set_params(max_iter=1).fit(X, y).predict_proba(X))
assert (after == before).all() and (again == before).all()
assert threading.active_count() == 1, threading.enumerate()
print("unchanged")
"""


@pytest.mark.parametrize("n_jobs", sweep([3, 1], 1))
@pytest.mark.parametrize("seconds", sweep([0.3, *np.linspace(0.01, 1, 5)], 1))
def test_an_interrupt_leaves_the_estimator_as_it_was(seconds, n_jobs):
    command = [sys.executable, "-c", INTERRUPTED, str(seconds), str(n_jobs)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.stdout.strip() == "unchanged", found.stderr


@every(EXACT, {"CRF of order 1"})
def test_threads_may_share_a_model(name, fitted, letters):
    model = fitted(name)
    expected = np.concatenate(model.predict_proba(letters[0]))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.predict_proba(letters[0]), range(40)))
    for proba in found:
        np.testing.assert_array_equal(np.concatenate(proba), expected)


def _predict_and_fit(model: TreeCRF, letters: tuple, results: multiprocessing.SimpleQueue) -> None:
    model.set_params(n_jobs=2)
    results.put(np.concatenate(model.predict_proba(letters[0])))
    results.put(np.concatenate(model.fit(*letters).predict_proba(letters[0])))


@linux
@pytest.mark.parametrize("n", sweep([2, 20], 1))
def test_a_forked_process_predicts_and_fits(n, letters):
    model = TreeCRF(max_iter=2, random_state=0, n_jobs=2).fit(*letters)
    expected = np.concatenate(model.predict_proba(letters[0]))
    for _ in range(n):
        results = multiprocessing.get_context("fork").SimpleQueue()
        process = forked(_predict_and_fit, model, letters, results)
        for _ in range(2):
            np.testing.assert_array_equal(results.get(), expected)
        process.join(60)
        assert process.exitcode == 0
