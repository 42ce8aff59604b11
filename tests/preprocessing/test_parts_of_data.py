"""Files and partitions: the same features, and the same model, as of the table in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from treecrf import TreeCRF
from treecrf.preprocessing import RollingFeatures, SequenceScaler

pytest.importorskip("pyarrow")
SETTINGS = {"max_iter": 3, "early_stopping": False, "init": "zero", "random_state": 0}
TRANSFORMERS = [RollingFeatures(5), SequenceScaler(running=True, keep=True)]


def days(n: int = 8) -> list[pd.DataFrame]:
    """Make tables of days, some of them in one file."""
    rng = np.random.default_rng(0)
    return [
        pd.DataFrame({
            "day": k, "heat": rng.normal(size=20), "room": rng.choice(["attic", "bath"], 20),
            "state": rng.choice(["on", "off"], 20),
        })
        for k in range(n)
    ]  # fmt: skip


def write(parts: list[pd.DataFrame], folder) -> None:
    for k, part in enumerate(parts):
        part.to_parquet(folder / f"part-{k}.parquet", index=False)


@pytest.fixture(scope="module")
def parts():
    tables = days()
    return [pd.concat(tables[k : k + 2], ignore_index=True) for k in range(0, len(tables), 2)]


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_files_are_transformed_one_by_one(transformer, parts, tmp_path):
    table = pd.concat(parts, ignore_index=True)
    expected = transformer.fit_transform(table, "state", groups="day")
    transformer.fit(parts[0][:7], "state", groups="day")
    write([transformer.transform(part) for part in parts], tmp_path)
    found = TreeCRF(**SETTINGS).fit(tmp_path / "*.parquet", "state", groups="day")
    in_memory = TreeCRF(**SETTINGS).fit(expected, "state", groups="day")
    np.testing.assert_array_equal(found.predict_proba(expected), in_memory.predict_proba(expected))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_partitions_are_transformed_by_workers(transformer, parts, tmp_path):
    pytest.importorskip("distributed")
    from dask import dataframe as dd
    from distributed import Client

    from treecrf.dask import DaskTreeCRF

    table = pd.concat(parts, ignore_index=True)
    expected = transformer.fit_transform(table, "state", groups="day")
    write(parts, tmp_path)
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(processes=False, n_workers=2, **settings):
        frame = dd.read_parquet(tmp_path / "*.parquet", split_row_groups=False)
        transformer.fit(frame.get_partition(0).compute(), "state", groups="day")
        features = frame.map_partitions(transformer.transform)
        found = DaskTreeCRF(**SETTINGS).fit(features, "state", groups="day")
        labels = found.predict(features).compute()
        computed = features.compute().reset_index(drop=True)
    np.testing.assert_array_equal(
        computed[[*expected.columns]].drop(columns=["room", "state"]),
        expected.drop(columns=["room", "state"]),
    )
    in_memory = TreeCRF(**SETTINGS).fit(expected, "state", groups="day")
    np.testing.assert_array_equal(found.predict_proba(expected), in_memory.predict_proba(expected))
    np.testing.assert_array_equal(labels, in_memory.predict(expected))
