"""Damaged and forged model files: an error of one class, in bounded memory, or a usable model."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz.files import N_HEAD, content, damaged, run_file
from support.model_files import npy, sealed_archive, zipped
from support.sweeps import sweep

BLOCK = 40


@pytest.mark.parametrize("block", sweep(range(75), 2))
def test_damaged_files(block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        run_file(seed)


def test_cases_do_not_change():
    assert damaged(5) == damaged(5)


# Memory. The limits are those of docs/guide/saving.rst.

LOAD = """
import resource, sys, treecrf, treecrf.learners.registry
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[1]),) * 2)
for path in sys.argv[2:]:
    try:
        treecrf.load(path)
    except treecrf.ModelFileError as error:
        print("refused", error)
"""
MB = 1 << 20


def bomb(members: list[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO(content("CRF of order 1", "words")[N_HEAD:])
    with zipfile.ZipFile(file) as source:
        kept = [(n, source.read(n)) for n in source.namelist() if n not in dict(members)]
    return zipped([*kept, *members], compression=zipfile.ZIP_DEFLATED)


BOMBS = {
    "unknown member": lambda: [("more.npy", bytes(200 * MB))],
    "known member": lambda: [("forest.leaf.npy", npy(np.zeros(16 * MB)))],
    "largest known member": lambda: [("forest.leaf.npy", npy(np.zeros(15 * MB)))],
    "text": lambda: [("json.npy", npy(np.frombuffer(b"[" + b"[]," * MB, np.uint8)))],
    "largest text": lambda: [
        ("json.npy", npy(np.frombuffer(b'{"class": [' + b"[]," * (MB // 3) + b"0]}", np.uint8)))
    ],
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as on Linux")
def test_loading_takes_bounded_memory(tmp_path):
    paths = [tmp_path / name for name in BOMBS]
    for path in paths:
        path.write_bytes(sealed_archive(bomb(BOMBS[path.name]())))
    size = max(path.stat().st_size for path in paths)
    assert size < MB
    limit = 2 * (128 * MB + 100 * size)
    found = subprocess.run(
        [sys.executable, "-c", LOAD, str(limit), *paths],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("refused") == len(BOMBS)
