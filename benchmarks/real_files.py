"""Downloads of the files that `real_sets.py` and `client_sets.py` read.

``real_files.sha256`` and ``client_files.sha256`` list them as ``sha256sum`` does, by paths
``owner/name/commit/path``. A file is downloaded once. ``sha256sum --check`` in the folder of the
data checks all of them.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pooch

CHECKSUMS = Path(__file__).with_name("real_files.sha256")
SOURCE = "https://raw.githubusercontent.com"


def fetch(
    repository: str, commit: str, folder: Path, source: str = SOURCE, checksums: Path = CHECKSUMS
) -> Path:
    """Return the folder with the listed files of a repository; download those that it lacks.

    Raises
    ------
    ValueError
        If the content of a file has not the listed checksum.
    """
    prefix = f"{repository}/{commit}/"
    for line in checksums.read_text().splitlines():
        checksum, path = line.split(maxsplit=1)
        if path.startswith(prefix):
            to = folder / path
            pooch.retrieve(f"{source}/{quote(path)}", f"sha256:{checksum}", to.name, to.parent)
    return folder / prefix
