"""Memory that is kept after it was freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from treecrf.utils.threads import keeping_freed_memory, size_text

SCRIPT = """
import resource
import numpy as np
from treecrf.utils.threads import keeping_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(1 << 20, dtype=np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(page_faults())
with keeping_freed_memory():
    with keeping_freed_memory():
        pass
    print(page_faults())
print(page_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not the GNU C library")
def test_kept_memory_has_no_page_faults():
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True, text=True
    )
    before, keeping, after = map(int, result.stdout.split())
    pages = 100 * (1 << 20) // os.sysconf("SC_PAGESIZE")
    assert before > pages / 2
    assert keeping < pages / 10
    assert after > pages / 2


@pytest.mark.parametrize("value", [None, "", "-1", "many"])
def test_other_environments_are_left_alone(monkeypatch, value):
    monkeypatch.setattr("treecrf.utils.threads._mallopt", pytest.fail)
    if value is None:
        monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    else:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", value)
    with keeping_freed_memory():
        pass


def test_errors_end_it(monkeypatch):
    calls = []
    monkeypatch.setattr("treecrf.utils.threads._mallopt", lambda *values: calls.append(values))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "100000")
    with pytest.raises(KeyError), keeping_freed_memory():
        assert len(calls) == 2
        raise KeyError
    assert calls[2:] == [(-1, 65536), (-3, 100000)]


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [
        (0, "0 kB"),
        (7, "0.007 kB"),
        (123_456, "123 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (38_400_000, "38.4 MB"),
        (999_600_000, "1 GB"),
        (3.21e9, "3.21 GB"),
        (799_920e9, "799920 GB"),
    ],
)
def test_sizes_in_messages(n_bytes, expected):
    assert size_text(n_bytes) == expected
