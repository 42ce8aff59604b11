"""Online transformation and labeling: equal, to the bit, to those of whole sequences."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    FutureFeatures,
    LinearCRF,
    PerSequence,
    TreeCRF,
    flatten,
)
from treecrf.preprocessing import RollingFeatures, SequenceScaler
from treecrf.preprocessing._windows import STATISTICS

EVERYTHING = [*STATISTICS, "since_true", "since_change"]


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1, 1e9, 0] + [1e9, 0, 0.1]
    x[rng.random((n, 3)) < 0.2] = np.nan
    return x


def pushed(stream, sequence) -> list:
    """Push all rows, end the sequence, and return the results of all positions."""
    found = [stream.push(row) for row in sequence]
    assert all(row is None for row in found[: stream.delay])
    assert all(row is not None for row in found[stream.delay :])
    return [row for row in found if row is not None] + stream.finish()


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("windows", [2, [3], [4, 11], [50, 5, 6]])
def test_rows_are_those_of_the_whole_sequence(windows, centered, keep):
    rolling = RollingFeatures(windows, EVERYTHING, centered=centered, keep=keep)
    X = [rows(n, seed) for seed, n in enumerate((1, 3, 40, 77, 2))]
    expected = rolling.fit_transform(X)
    stream = rolling.stream()
    assert stream.delay == ((max(np.atleast_1d(windows)) - 1) // 2 if centered else 0)
    rolling.set_params(windows=9, keep=True).fit(X)  # which does not change the stream
    for x, table in zip(X, expected, strict=True):
        np.testing.assert_array_equal(np.array(pushed(stream, x)), table)
        assert stream.n_pushed == 0
    assert stream.finish() == []


def test_running_scores_are_those_of_the_whole_sequence():
    scaler = SequenceScaler(running=True)
    X = [rows(50, 0), rows(20, 1)]
    expected = scaler.fit_transform(X)
    stream = scaler.stream()
    for x, table in zip(X, expected, strict=True):
        np.testing.assert_array_equal(np.array(pushed(stream, x)), table)
    with pytest.raises(ValueError, match="running=False standardizes by the whole sequence"):
        SequenceScaler().fit(X).stream()


def test_a_reset_starts_a_new_sequence():
    rolling = RollingFeatures(5, EVERYTHING)
    expected = rolling.fit_transform([rows(20, 0)])[0]
    stream = rolling.stream()
    for row in rows(7, 1):
        stream.push(row)
    np.testing.assert_array_equal(np.array(pushed(stream.reset(), rows(20, 0))), expected)


def test_rows_of_all_forms():
    x = rows(9, 0)
    frame = pd.DataFrame(x, columns=["heat", "flow", "light"]).assign(room="attic")
    rolling = RollingFeatures(3, "mean", centered=False).fit([frame])
    expected = rolling.transform([frame])[0]
    stream = rolling.stream()
    for t, row in enumerate(frame.to_dict("records")):
        assert repr(stream.push(row)) == repr(expected.iloc[t].to_dict())
    stream.reset()
    for t, row in enumerate(frame.to_numpy(object).tolist()):
        found = stream.push(row)
        assert [str(v) for v in found] == [str(v) for v in expected.iloc[t].tolist()]


def test_a_row_may_be_used_again():
    rolling = RollingFeatures(5, "mean", keep=False)
    x = rows(20, 0)
    expected = rolling.fit_transform([x])[0]
    stream = rolling.stream()
    buffer = np.empty(3)
    found = []
    for row in x:
        buffer[:] = row
        found.append(stream.push(buffer))
    np.testing.assert_array_equal(np.array(found[2:]), expected[:-2])


def test_invalid_rows_change_nothing():
    rolling = RollingFeatures(5, "mean")
    x = rows(20, 0)
    expected = rolling.fit_transform([x])[0]
    stream = rolling.stream()
    found = []
    for t, row in enumerate(x):
        found.append(stream.push(row))
        with pytest.raises(ValueError, match=f"position {t + 1}, feature 1: inf is infinite"):
            stream.push([0, np.inf, 0])
        with pytest.raises(ValueError, match=f"position {t + 1} has 2 features"):
            stream.push([0, 1])
    np.testing.assert_array_equal(np.array(found[2:]), expected[:-2])
    with pytest.raises(NotFittedError):
        RollingFeatures().stream()


# Pipelines


def labeled(n: int = 10) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    y = [np.where(np.cumsum(rng.random(40) < 0.1) % 2, "on", "off") for _ in range(n)]
    X = [rng.random(2) * 100 + (labels == "on")[:, None] + rng.normal(0, 0.3, (40, 2))
         for labels in y]  # fmt: skip
    return X, y


CRF = TreeCRF(max_iter=5, early_stopping=False, init="zero", window=(1, 0))
STEPS = [
    [RollingFeatures([5, 15], centered=False)],
    [RollingFeatures([5, 15])],
    [SequenceScaler(running=True, keep=True), RollingFeatures(3), "passthrough",
     RollingFeatures(4, "slope", centered=False)],
    [PerSequence(StandardScaler()), RollingFeatures(3)],
]  # fmt: skip


@pytest.mark.parametrize("steps", STEPS)
def test_pipelines_label_as_their_model_does(steps):
    X, y = labeled()
    pipe = make_pipeline(*steps, CRF).fit(X, y)
    expected = pipe[-1].stream()
    stream = treecrf.stream(pipe)
    assert stream.delay == sum(
        getattr(step, "stream", lambda: RollingFeatures([], "since_true").fit(X).stream())().delay
        for _, step in pipe.steps
        if step != "passthrough"
    )
    for x in X[:3]:
        np.testing.assert_array_equal(
            np.array(pushed(stream, x)), np.array(pushed(expected, pipe[:-1].transform([x])[0]))
        )
    # At the end of a sequence, the last probabilities are those of the whole sequence.
    last = pushed(treecrf.stream(pipe, lag=3), X[0])[-1]
    np.testing.assert_allclose(last, pipe.predict_proba(X[:1])[0][-1])


def test_pipelines_of_frames_take_dicts():
    X, y = labeled()
    frames = [pd.DataFrame(x, columns=["heat", "flow"]).assign(
        room=np.where(x[:, 0] > 50, "attic", "bath")) for x in X]  # fmt: skip
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["room"]), remainder="passthrough"
    )
    steps = [RollingFeatures(5, centered=False), PerSequence(encoder)]
    pipe = make_pipeline(*steps, CRF).fit(frames, y)
    expected = pushed(pipe[-1].stream(), pipe[:-1].transform(frames[:1])[0].to_dict("records"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pushed(treecrf.stream(pipe), frames[0].to_dict("records"))
    np.testing.assert_array_equal(np.array(found), np.array(expected))


def test_long_tables_with_transformers_of_rows():
    X, y = labeled()
    lengths = list(map(len, X))
    pipe = make_pipeline(StandardScaler(), LinearCRF())
    pipe.fit(np.concatenate(X), np.concatenate(y), linearcrf__lengths=lengths)
    expected = pushed(pipe[-1].stream(), pipe[0].transform(X[0]))
    np.testing.assert_allclose(
        np.array(pushed(treecrf.stream(pipe), X[0])), np.array(expected), rtol=1e-12
    )


def test_models_have_streams_as_well():
    X, y = labeled()
    model = clone(CRF).fit(X, y)
    assert isinstance(treecrf.stream(model, 2), treecrf.Stream)
    assert treecrf.stream(model, lag=2).delay == 2


@pytest.mark.parametrize(
    "step",
    [
        PerSequence(FunctionTransformer()),
        PerSequence(make_pipeline(StandardScaler(), FunctionTransformer())),
        PerSequence(make_column_transformer((FunctionTransformer(), [0]))),
        make_union(RollingFeatures(5), SequenceScaler(running=True)),
        FutureFeatures(FutureFeatureMEMM(order=0, max_iter=2, max_future_features=1), append=True),
        flatten(CRF.fit(*labeled())),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_may_need_several_rows_are_refused(step):
    X, y = labeled()
    steps = [("first", step.fit(X, y)), ("crf", clone(CRF).fit(X, y))]
    message = f"the step 'first' is a {type(step).__name__}, which may need several rows at once"
    with pytest.raises(TypeError, match=message):
        treecrf.stream(Pipeline(steps))


def test_pipelines_may_be_steps_of_pipelines():
    X, y = labeled()
    steps = [SequenceScaler(running=True), RollingFeatures(5)]
    plain = make_pipeline(*steps, CRF).fit(X, y)
    nested = make_pipeline(make_pipeline(*steps), make_pipeline("passthrough", CRF)).fit(X, y)
    np.testing.assert_array_equal(
        np.array(pushed(treecrf.stream(nested), X[0])),
        np.array(pushed(treecrf.stream(plain), X[0])),
    )


def test_unfitted_pipelines_are_refused():
    with pytest.raises(NotFittedError):
        treecrf.stream(make_pipeline(RollingFeatures(), CRF))
    with pytest.raises(NotFittedError):
        treecrf.stream(make_pipeline(PerSequence(StandardScaler()), CRF))
    check_is_fitted(RollingFeatures().fit([rows(3, 0)]))
