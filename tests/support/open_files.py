"""Files that this process has open."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter

FOLDER = "/proc/self/fd"
# Clusters of other tests open these at any time: they watch processes, and lock their folders.
OF_CLUSTERS = re.compile(r"^/proc/|\.dirlock$")


def open_files(folder: str | os.PathLike = "/") -> Counter[str]:
    """Count how often each file of a folder is open, also if it is deleted.

    Files of earlier tests may be closed at any time, so that a test compares with ``<=``.
    """
    links = []
    for number in os.listdir(FOLDER):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"{FOLDER}/{number}"))
    inside = os.path.join(os.path.realpath(folder), "")
    return Counter(
        link for link in links if link.startswith(inside) and not OF_CLUSTERS.search(link)
    )
