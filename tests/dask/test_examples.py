"""The scripts of the guide run from start to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.exhaustive


def run(name):
    path = [sys.executable, "-W", "ignore", str(EXAMPLES / name)]
    return subprocess.run(path, capture_output=True, text=True, check=True, timeout=110).stdout


def test_cluster():
    assert "The model of one process is the same." in run("dask_cluster.py")


def test_spark():
    pytest.importorskip("pyspark")
    assert "Spark and pandas give the same labels." in run("spark_prediction.py")
