"""Files that this process has open."""

from __future__ import annotations

import contextlib
import os
from collections import Counter

FOLDER = "/proc/self/fd"
# Clusters of other tests open these at any time: they watch processes, and lock their folders.
OF_CLUSTERS = ("/proc/", "dask-scratch-space", ".dirlock")


def open_files() -> Counter[str]:
    """Count how often each file is open, also if it is deleted; sockets and the like are no files.

    Files of earlier tests may be closed at any time, so that a test compares with ``<=``.
    """
    links = []
    for number in os.listdir(FOLDER):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"{FOLDER}/{number}"))
    return Counter(
        link
        for link in links
        if link.startswith("/") and not any(name in link for name in OF_CLUSTERS)
    )
