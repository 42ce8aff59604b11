"""Parts of ``benchmarks/real.py``: divisions, smoothers, results, and downloads."""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pooch")
pytest.importorskip("requests")
FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.append(str(FOLDER))

import real_files  # noqa: E402
from real_results import Result, difference, result, table  # noqa: E402
from real_sequences import (  # noqa: E402
    TRAIN_ONLY,
    Examples,
    LabeledSequences,
    Predicted,
    divided,
    held_out,
)
from real_sets import SETS  # noqa: E402
from real_smoothing import (  # noqa: E402
    chain_probabilities,
    majority_filter,
    marginals,
    markov_chain,
    viterbi,
)

N_LABELS = 3


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def some_examples(rng, n=9, length=30):
    """Labels that persist, one column that shows them with noise; three sequences a person."""
    y = [np.repeat(rng.randint(N_LABELS, size=length // 5), 5) for _ in range(n)]
    X = [(labels[:, np.newaxis] + rng.normal(size=(length, 1))).astype("f4") for labels in y]
    return Examples(X, y, [f"p{i // 3}" for i in range(n)])


def test_persons_are_on_one_side_of_a_division(rng):
    data = some_examples(rng)
    part, rest = held_out(data)
    assert set(part.persons) | set(rest.persons) == set(data.persons)
    assert not set(part.persons) & set(rest.persons)


def test_folds_test_each_sequence_once_and_never_what_is_for_training_only():
    folds = [0, 1, TRAIN_ONLY, 0, 1]
    data = LabeledSequences([], [], [f"{i}/a" for i in range(5)], folds, [])
    assert divided(data, held_out=False) == [([1, 2, 4], [0, 3]), ([0, 2, 3], [1, 4])]
    inner = divided(data, held_out=True)
    assert sorted(i for _, test in inner for i in test) == [1, 2, 4]
    assert all(set(train) | set(test) == {1, 2, 4} for train, test in inner)


def test_chain_agrees_with_enumeration(rng):
    y = [rng.randint(N_LABELS, size=6) for _ in range(5)]
    start, transitions = chain_probabilities(y, N_LABELS)
    emissions = rng.rand(5, N_LABELS) + 0.1
    paths = list(itertools.product(range(N_LABELS), repeat=5))
    weights = np.array([
        start[path[0]] * transitions[path[:-1], path[1:]].prod()
        * emissions[np.arange(5), path].prod() for path in map(list, paths)
    ])  # fmt: skip
    assert tuple(viterbi(start, transitions, emissions)) == paths[weights.argmax()]
    is_label = np.array(paths)[:, :, np.newaxis] == np.arange(N_LABELS)
    expected = (weights[:, np.newaxis, np.newaxis] * is_label).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(marginals(start, transitions, emissions), expected)


@pytest.mark.parametrize("smoother", [majority_filter, markov_chain])
def test_smoothers_correct_noise(rng, smoother):
    data = some_examples(rng, n=30)
    probabilities = [0.6 * np.eye(N_LABELS)[labels] + 0.4 * rng.dirichlet(np.ones(N_LABELS), len(X))
                     for X, labels, _ in zip(*data, strict=True)]  # fmt: skip
    noisy = [np.where(rng.rand(len(p)) < 0.2, rng.randint(N_LABELS), p.argmax(1))
             for p in probabilities]  # fmt: skip
    predicted = Predicted(noisy, probabilities)
    found = smoother(data, data, predicted)(predicted)
    correct = [np.mean(np.concatenate(labels) == np.concatenate(data.y))
               for labels in (noisy, found.labels)]  # fmt: skip
    assert correct[1] > correct[0]


def test_a_filter_of_one_position_changes_nothing(rng):
    data = some_examples(rng)
    perfect = Predicted(data.y, [np.eye(N_LABELS)[labels] for labels in data.y])
    found = majority_filter(data, data, perfect)(perfect)
    assert all(map(np.array_equal, found.labels, data.y))


def test_results_agree_with_scikit_learn(rng):
    from sklearn.metrics import accuracy_score, f1_score, log_loss

    y = [rng.randint(N_LABELS, size=n) for n in (4, 7, 9)]
    probabilities = [rng.dirichlet(np.ones(N_LABELS), len(labels)) for labels in y]
    labels = [each.argmax(axis=1) for each in probabilities]
    found = result(y, Predicted(labels, probabilities), N_LABELS, 1.0, 2.0)
    true, predicted = np.concatenate(y), np.concatenate(labels)
    assert found.accuracy == pytest.approx(100 * accuracy_score(true, predicted))
    assert found.macro_f1 == pytest.approx(100 * f1_score(true, predicted, average="macro"))
    assert found.log_loss == pytest.approx(log_loss(true, np.concatenate(probabilities)))
    n_changes = [sum((np.diff(each) != 0).sum() for each in these) for these in (labels, y)]
    assert found.changes == pytest.approx(n_changes[0] / n_changes[1])


def test_error_of_a_difference_is_that_of_its_mean(rng):
    sums = rng.normal(size=400)
    mean, error = difference(sums, np.ones(400, dtype=int))
    assert mean == pytest.approx(sums.mean())
    assert error == pytest.approx(sums.std() / 20, rel=0.1)


def test_table_marks_the_best_and_what_is_as_good():
    def of(correct, losses):
        return Result([10] * 4, correct, losses, 1, 1, [[1]], 0.0, 0.0)

    results = {
        "best": of([9, 9, 9, 10], [1.0] * 4),
        "as good": of([10, 8, 9, 9], [2.0] * 4),
        "worse": of([1, 1, 2, 1], [1.0] * 4),
    }
    rows = table(results).split("\n")[2:]
    assert ["**" in row.split("|")[2] for row in rows] == [True, True, False]
    assert ["**" in row.split("|")[4] for row in rows] == [True, False, True]


def test_each_set_has_files_with_checksums():
    lines = [line.split(maxsplit=1) for line in real_files.CHECKSUMS.read_text().splitlines()]
    assert all(len(checksum) == 64 for checksum, _ in lines)
    listed = {tuple(path.split("/")[:3]) for _, path in lines}
    assert listed == {(*each.repository.split("/"), each.commit) for each in SETS.values()}


@pytest.fixture
def server(tmp_path):
    """Serve a folder with one file of a repository; return the address."""
    folder = tmp_path / "server"
    (folder / "owner/name/0f").mkdir(parents=True)
    (folder / "owner/name/0f/a b.csv").write_text("1,2\n")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("is_right", [True, False])
def test_downloads_are_checked(server, tmp_path, is_right):
    checksum = hashlib.sha256(b"1,2\n" if is_right else b"3,4\n").hexdigest()
    listed = tmp_path / "list"
    listed.write_text(f"{checksum}  owner/name/0f/a b.csv\n")
    if is_right:
        folder = real_files.fetch("owner/name", "0f", tmp_path / "data", server, listed)
        assert (folder / "a b.csv").read_text() == "1,2\n"
    else:
        with pytest.raises(ValueError, match="hash"):
            real_files.fetch("owner/name", "0f", tmp_path / "data", server, listed)
