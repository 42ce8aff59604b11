"""Output of a training run: a bar, lines without tqdm, or nothing."""

from __future__ import annotations

import sys

import pytest

from treecrf import LinearCRF, TreeCRF
from treecrf.utils.messages import Progress


def test_silence(letters, capfd):
    TreeCRF(max_iter=2, verbose=0).fit(*letters).predict(letters[0])
    assert capfd.readouterr() == ("", "")


def test_a_bar_with_the_likelihood(letters, capfd):
    pytest.importorskip("tqdm")
    crf = TreeCRF(max_iter=3, verbose=1).fit(*letters)
    out, shown = capfd.readouterr()
    assert out == ""
    assert "TreeCRF: 100%" in shown and "3/3" in shown
    # tqdm 4.66.0 omits the zero.
    assert f"log-likelihood={crf.train_score_[2]:.3g}" in shown.replace("=-.", "=-0.")


def test_a_bar_with_the_validation_likelihood(letters, capfd):
    pytest.importorskip("tqdm")
    X, y = letters
    crf = TreeCRF(max_iter=3, verbose=1).fit(X, y, X[:4], y[:4])
    shown = capfd.readouterr().err.replace("=-.", "=-0.")
    assert f"validation={crf.validation_score_[-1]:.3g}" in shown


@pytest.mark.parametrize("init", ["zero", LinearCRF(window=1)])
def test_the_last_line_states_the_start_and_the_iterations(init, letters, capfd):
    TreeCRF(max_iter=3, verbose=1, early_stopping=False, init=init).fit(*letters)
    start = "" if init == "zero" else ", added to LinearCRF(window=1)"
    assert capfd.readouterr().err.endswith(f"TreeCRF: 3 iterations of trees{start}\n")


def test_a_bar_continues_after_a_warm_start(letters, capfd):
    pytest.importorskip("tqdm")
    crf = TreeCRF(max_iter=2, warm_start=True).fit(*letters)
    crf.set_params(max_iter=5, verbose=1).fit(*letters)
    shown = capfd.readouterr().err
    assert "2/5" in shown and "5/5" in shown
    assert "0/5" not in shown


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


def test_lines_without_tqdm(letters, capfd, no_tqdm):
    X, y = letters
    settings = {"max_iter": 4, "init": "zero", "window": 0, "constant_transitions": False}
    crf = TreeCRF(verbose=1, **settings).fit(X, y, X[:4], y[:4])
    out, shown = capfd.readouterr()
    assert out == ""
    assert shown.endswith(
        f"TreeCRF: iteration 4 of 4, log-likelihood {crf.train_score_[3]:.4f}, "
        f"validation {crf.validation_score_[4]:.4f}\nTreeCRF: 4 iterations of trees\n"
    )


def test_lines_are_seconds_apart(capfd, no_tqdm, monkeypatch):
    now = 10.0
    monkeypatch.setattr("treecrf.utils.messages.time.monotonic", lambda: now)
    with Progress(1, 0, 100, "Model") as progress:
        for n, seconds in enumerate([0.0, 1.0, 1.5, 0.5, 1.4], start=1):
            now += seconds
            progress.update(n, {"value": n / 2})
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"Model: iteration {n} of 100, value {n / 2:.4f}" for n in (1, 3)]


def test_an_error_closes_the_bar(capfd):
    pytest.importorskip("tqdm")
    with pytest.raises(KeyboardInterrupt), Progress(1, 0, 10, "Model") as progress:
        progress.update(3, {"value": 0.5})
        raise KeyboardInterrupt
    assert "3/10" in capfd.readouterr().err
    assert progress._bar.disable  # closed
