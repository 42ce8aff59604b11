"""Streams against predictions of whole sequences, and of chains cut off at the latest position."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from support.family import PREDICTING, assert_equal_arrays, every, variant
from support.sweeps import pairs

from treecrf import FlatModel, FutureFeatureMEMM, HMMClassifier, LinearCRF, TreeCRF, TreeMEMM
from treecrf.chains.lattice import Lattice
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.future.features import FutureEncoder
from treecrf.utils.threads import Threads

QUERIES = ["abcabdcca?bb", "d", "ba?", "cdabba", "ab"]
REFUSED = "from their end|needs all contexts"
BIOES = ["B-P", "I-P", "E-P", "S-P", "O"]


def run(stream, x) -> tuple[list, list]:
    """Push all positions, and finish: the results of both."""
    pushed = [stream.push(row) for row in x]
    assert stream.n_pushed == len(x)
    assert [found is None for found in pushed] == [t < stream.delay for t in range(len(x))]
    last = stream.finish()
    assert len(last) == min(stream.delay, len(x))
    assert stream.n_pushed == 0
    return pushed, last


def cut_off(model, x, n: int) -> np.ndarray:
    """Marginals of the chain of the first n positions, whose scores are those of all of x."""
    threads = Threads(1)
    scores = fitted_model(model).chain.scores(
        fitted_model(model).predictor.sequences([x], Segmentation()), threads
    )
    scores = np.ascontiguousarray(scores[:, :n])
    rules = getattr(model, "transitions", None)
    if rules is not None:
        first = scores[:, 0, 0].copy()
        latest = np.arange(scores.shape[2]) % len(scores)
        scores[~np.repeat(rules[latest].T[:, None], n, axis=1)] = -np.inf
        scores[:, 0, 0] = np.where(rules[-1], first, -np.inf)
    scores = fitted_model(model).chain.normalized(scores, threads)
    return Lattice(scores, np.array([0, n]), fitted_model(model).chain.order, threads).marginals()


def assert_follows(model, x, lag: int) -> None:
    """Check all results for a sequence."""
    stream = model.stream(lag)
    pushed, last = run(stream, x)
    right = stream.delay - lag
    for t, found in enumerate(pushed):
        if found is not None:
            expected = cut_off(model, x, t - right + 1)[t - stream.delay]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    whole = model.predict_proba([x])[0]
    for found, expected in zip(reversed(last), reversed(whole), strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@every(PREDICTING)
def test_streams_agree_with_predictions(name, fitted):
    model = fitted(name)
    if fitted_model(model).chain.is_backward or getattr(model, "beam_width", None) == 10**6:
        with pytest.raises(ValueError, match=REFUSED):
            model.stream()
        return
    model = model._model if isinstance(model, FlatModel) else model
    for x, lag in itertools.product(QUERIES, (0, 1, 4, 100)):
        assert_follows(model, x, lag)


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_filtered_probabilities_are_those_of_the_sequence_so_far(kind, order, letters):
    """If the window has no positions to the right."""
    model = kind(order=order, window=(2, 0), max_iter=4, l2_regularization=1.0).fit(*letters)
    for x in QUERIES:
        stream = model.stream()
        for t, symbol in enumerate(x):
            expected = model.predict_proba([x[: t + 1]])[0][-1]
            np.testing.assert_allclose(stream.push(symbol), expected, rtol=1e-9)
        assert stream.finish() == []


FOLLOWS = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=bool)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM, LinearCRF])
def test_transitions(kind, order, letters):
    parameters = {} if kind is LinearCRF else {"order": order, "max_iter": 3}
    X = ["abcd" * 3, "dcba" * 2]
    y = ["yyxxxxzzzzzz", "yxxzzzzz"]
    model = kind(window=1, transitions=FOLLOWS, **parameters).fit(X, y)
    for x, lag in itertools.product(QUERIES, (0, 1, 4, 100)):
        assert_follows(model, x, lag)


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
def test_rules_for_the_end_apply_when_it_is_known(kind):
    rng = np.random.default_rng(0)
    X = ["abcde" * 2, "aaed", "de"]
    y = [BIOES * 2, ["B-P", "E-P", "O", "S-P"], ["O", "S-P"]]
    model = kind(window=(1, 0), transitions="bioes", max_iter=3).fit(X, y)
    for _ in range(10):
        x = "".join(rng.choice(list("abcde"), rng.integers(1, 9)))
        _, last = run(model.stream(100), x)
        np.testing.assert_allclose(last, model.predict_proba([x])[0], atol=1e-12)
        stream = model.stream(2)
        _, last = run(stream, x)
        if kind is TreeCRF:
            expected = model.predict_proba([x])[0][-len(last) :]
            np.testing.assert_allclose(last, expected, atol=1e-12)
        # A chunk may go on until the end is known.
        inside = model.classes_.tolist().index("I-P")
        assert model.stream().push("b")[inside] == 0 == last[-1][inside]


def test_sequences_without_allowed_labels():
    dead = np.array([[0, 0], [0, 0], [1, 0]], dtype=bool)
    model = TreeCRF(max_iter=1).fit(["ab", "b"], ["xy", "y"]).set_params(transitions=dead)
    for lag in (0, 1):
        stream = model.stream(lag)
        first = stream.push("a")
        for _ in range(2):
            with pytest.raises(ValueError, match="position 1: no label sequence is allowed"):
                stream.push("a")
            assert stream.n_pushed == 1
        last = stream.finish()
        assert [p.tolist() for p in [first, *last] if p is not None] == [[1.0, 0.0]]


@pytest.mark.parametrize("scale", [1, 500])
@pytest.mark.parametrize(("n_labels", "order"), [(2, 0), (2, 1), (2, 3), (3, 2)])
def test_any_scores(n_labels, order, scale):
    """Including scores so far apart that most contexts seem impossible for a while."""
    rng = np.random.default_rng(order)
    y = [np.arange(12) % n_labels]
    model = TreeCRF(order=order, max_iter=1).fit([np.arange(12)], y)
    table = rng.normal(size=(n_labels, 12, n_labels**order)) * scale

    def scores_of(sequences, threads):
        return np.ascontiguousarray(table[:, sequences.rows(0, 1)])

    chain = fitted_model(model).chain
    chain.scores = scores_of
    chain.scores_at = lambda sequences, t, threads: scores_of(sequences, threads)[:, t]
    for lag in (0, 2, 20):
        assert_follows(model, np.arange(12), lag)


# Forms of input

TOKENS = [["the", "a", "dog"], ["a", "cat", "x"], ["dog"]]
TABLES = [np.array([[0.5, 1.0], [2.0, np.nan], [1.0, 0.0]]), np.array([[3.0, 1.0], [0.1, 2.0]])]
FORMS = {
    "strings": TOKENS,
    "characters": ["abc", "ba", "d"],
    "integers": [[3, 4, 4], [5, 3], [9]],
    "missing symbols": [["a", None, "b"], ["b"], ["a", "a"]],
    "tables": TABLES,
    "booleans": [table > 1 for table in TABLES],
    "lists": [[["a", 1], ["b", 2.5], ["a", 0]], [["b", 0], ["c", 3]]],
    "sparse matrices": [sparse.csr_array(np.nan_to_num(table)) for table in TABLES],
    "dicts": [[{"w": "a", "n": 1}, {"w": "b"}, {"n": 2.0}], [{"w": "c", "n": 0.5}]],
}


@pytest.mark.parametrize(
    ("form", "missing"),
    pairs(
        itertools.product(FORMS, ["weighting", "surrogate", "impute", "indicator"]),
        lambda form, missing: missing == "weighting" or form == "tables",
    ),
)
def test_forms_of_rows(form, missing):
    X = FORMS[form]
    y = ["xyz"[: x.shape[0] if sparse.issparse(x) else len(x)] for x in X]
    model = TreeCRF(window=1, max_iter=3, l2_regularization=1.0, missing=missing).fit(X, y)
    for x, whole in zip(X, model.predict_proba(X), strict=True):
        rows = [x[[t]] for t in range(x.shape[0])] if sparse.issparse(x) else x
        np.testing.assert_allclose(run(model.stream(10), rows)[1], whole, atol=1e-12)


def test_bad_rows_leave_the_stream_unchanged():
    model = TreeCRF(window=1, max_iter=2).fit(TABLES, ["xyx", "yx"])
    stream = model.stream(1)
    for t, row in enumerate(TABLES[0]):
        for bad, message in (
            (np.ones(3), rf"^position {t}"),
            ([1.0, np.inf], rf"^position {t}, feature 1: inf"),
            ("a", r"^X holds symbols|position"),
        ):
            with pytest.raises((ValueError, TypeError), match=message):
                stream.push(bad)
        stream.push(row)
    assert len(stream.finish()) == 2


# Streams


def test_streams_are_independent(letters):
    model = TreeCRF(window=1, max_iter=3).fit(*letters)
    alone = [run(model.stream(2), x) for x in QUERIES]
    streams = [model.stream(2) for _ in QUERIES]
    found = [[] for _ in QUERIES]
    model.fit(["ab"], ["uv"])
    for t in range(max(map(len, QUERIES))):
        for x, stream, results in zip(QUERIES, streams, found, strict=True):
            if t < len(x):
                results.append(stream.push(x[t]))
    for (pushed, last), stream, results in zip(alone, streams, found, strict=True):
        assert_equal_arrays([*pushed, *last], [*results, *stream.finish()])
        # Finished and reset streams start again.
        stream.push("a")
        np.testing.assert_array_equal(run(stream.reset(), QUERIES[0])[1], alone[0][1])


def refilled(rows, kind):
    """Yield the same object again and again, with the values of the next row."""
    reused = np.zeros(2) if kind == "array" else {} if "dict" in kind else []
    vector = np.zeros(2)
    for row in rows.tolist():
        if kind == "array" or kind == "list":
            reused[:] = row
        elif kind == "dict":
            reused.update(zip("ab", row, strict=True))
        else:
            vector[:] = row
            reused["v"] = vector
        yield reused


@pytest.mark.parametrize("kind", ["array", "list", "dict", "dict of a vector"])
def test_rows_may_be_the_same_object_with_other_values(kind):
    rng = np.random.default_rng(0)
    y = [np.cumsum(rng.random(20) < 0.3) % 2 for _ in range(10)]
    X = [np.roll(labels, 2)[:, np.newaxis] + 0.1 * rng.normal(size=(20, 2)) for labels in y]
    forms = {
        "dict": lambda x: [dict(zip("ab", row, strict=True)) for row in x.tolist()],
        "dict of a vector": lambda x: [{"v": row} for row in x],
    }
    form = forms.get(kind, lambda x: x)
    model = TreeCRF(window=(3, 1), max_iter=5, early_stopping=False).fit(list(map(form, X)), y)
    stream = model.stream()
    expected = [*map(stream.push, form(X[0]))], stream.finish()
    found = [*map(stream.push, refilled(X[0], kind))], stream.finish()
    assert_equal_arrays(found[0][1:], expected[0][1:])
    assert_equal_arrays(found[1], expected[1])


def test_memory_does_not_grow(letters):
    model = TreeCRF(order=2, window=(3, 1), max_iter=2).fit(*letters)
    stream = model.stream(4)
    for t in range(50):
        stream.push("abcd"[t % 4])
        assert len(stream._rows) <= 4 and len(stream._scores) <= 4
        assert stream._message.shape <= (9,)


def test_bags_delay_the_result(letters):
    parameters = {"max_iter": 2, "early_stopping": False, "max_future_features": 1}
    model = FutureFeatureMEMM(bag_size=2, instance_max_iter=3, **parameters).fit(*letters)
    assert isinstance(model._encoder, FutureEncoder) and model._encoder.features
    assert model.stream(1).delay == 3
    model = FutureFeatureMEMM(bag_size="to_end", instance_max_iter=3, **parameters).fit(*letters)
    with pytest.raises(ValueError, match="unlimited bags"):
        model.stream()


def test_bad_arguments(letters):
    model = HMMClassifier().fit(*letters)
    for lag in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match="expected a nonnegative integer"):
            model.stream(lag)
    with pytest.raises(NotFittedError):
        TreeCRF().stream()
    beam = variant(TreeCRF(max_iter=1).fit(*letters), beam_width=2)
    with pytest.raises(ValueError, match="beam_width=2: a stream needs all contexts"):
        beam.stream()
