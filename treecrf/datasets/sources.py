"""Functions that fetch or generate data: parameters that they share, and places of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

from sklearn.utils import Bunch

from treecrf.utils.validation import Interval, documented, validate_params

SIZE = [Interval(Integral, 1, None, closed="left")]
# What the docstrings of all functions that fetch data say, and of all that generate them.
FETCHED = {
    "home": """The default is the environment variable ``TREECRF_DATA``. Without either, each
        file is downloaded once and cached, which needs ``pip install "treecrf[datasets]"``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.""",
    "returns": """Returns
    -------
    Bunch, or (list, list)
        The data, with these attributes:
""",
    "raises": """Raises
    ------
    OSError
        If a file is not in the folder or cannot be downloaded. The message explains what to do.
    ValueError
        If a file does not have the expected format. The message says where.
    ImportError
        If a library is required but not installed. The message names it.""",
}
GENERATED = {
    "raises": """Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or has the wrong type (scikit-learn's
        ``InvalidParameterError``, which is both).""",
}


def fetching(**constraints: list) -> Callable:
    """Check the parameters of a function that fetches data, the shared ones and its own."""
    shared = {"data_home": [str, os.PathLike, None], "return_X_y": ["boolean"]}
    return _checked(shared | constraints, FETCHED)


def generating(**constraints: list) -> Callable:
    """Check the parameters of a function that generates data, the shared ones and its own."""
    shared = {"n_sequences": SIZE, "length": SIZE, "random_state": ["random_state"]}
    return _checked(shared | constraints, GENERATED)


def _checked(constraints: dict[str, list], parts: dict[str, str]) -> Callable:
    check = validate_params(constraints, prefer_skip_nested_validation=True)
    return lambda function: check(documented(parts)(function))


FOLDER_VARIABLE = "TREECRF_DATA"

_GITHUB = "https://raw.githubusercontent.com"
_CONLL = f"{_GITHUB}/teropa/nlp/f89bc5a15b516208de1cfe2abe9692b7ed9a43e2/resources/corpora"
_PAPERS = (
    f"{_GITHUB}/haifengl/smile/aabe6ceb6673c3b688518ff13e7f1b3422b75112"
    "/base/src/test/resources/data/sequence"
)
_OCCUPANCY = f"{_GITHUB}/LuisM78/Occupancy-detection-data/ba2b1d7b53a71292ff61b867d3e16f0e539c7eb6"
# Addresses of the folders. Each names a commit, so that its content never changes.
_FOLDERS = {
    "conll2000": f"{_CONLL}/conll2000",
    "conll2002": f"{_CONLL}/conll2002",
    "hyphen": _PAPERS,
    "nettalk": f"{_GITHUB}/yamato796/nettalk/6f15f80248a5481d2d7a3b028e70b5c1e321d51f",
    "occupancy": _OCCUPANCY,
    "protein": _PAPERS,
}
# As sha256sum prints them.
_CHECKSUMS = """
82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea  conll2000/train.txt
73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628  conll2000/test.txt
a20d95cab7d88a19a86f8c1ad6329325c99fbd9529ed978cbd7e31d4b01b4008  conll2002/esp.train
85c17793b77881c53d19017d9d0f1e6fb98b7ddcab54a5f24b05ed1793103c87  conll2002/esp.testa
1f8f7a392c6d4979a5592a5794eed43d7869b46da6851bbcde99714149f1d016  conll2002/esp.testb
fc78495fffdc58af1d460e7c4495ed66dab75b5452c0373fa71db36ad73889ea  hyphen/sparse.hyphen.6.train
df44971920be5e81219640163bab9657db39ceae54eebd4a99f50609bd354d85  hyphen/sparse.hyphen.6.test
ef4ca3fb591ccccddd7d4236f0e4f12fe07dc404ea25e6c9ccee16771ae75f18  nettalk/nettalk.data
b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56  occupancy/datatraining.txt
1b92c7c1b2838963464fa891a610cf3c5db4becb7189189b29b330107a584c7f  occupancy/datatest.txt
d026d1bd5aeccd4aff4f3b3710d48e40613bd5fc370db7e61bbdcaa50d985095  occupancy/datatest2.txt
0f572b17b3d0653bc8abef5f5df640bafb73673768f8023b2f714ac7e8b0b586  protein/sparse.protein.11.train
aa5d559fb07cbe93377943a4fcc3fd1b2bebd61aa78bc550318735f4dff6bb55  protein/sparse.protein.11.test
"""


class Download(NamedTuple):
    """An address, and the SHA-256 of its content."""

    url: str
    sha256: str


DOWNLOADS = {
    f"{folder}/{file}": Download(f"{_FOLDERS[folder]}/{file}", checksum)
    for checksum, folder, file in map(re.compile("[ /]+").split, _CHECKSUMS.split("\n")[1:-1])
}


def data_folder(data_home: str | os.PathLike | None) -> Path | None:
    """Return the folder given by the argument or the environment, if any."""
    folder = data_home
    if data_home is None:
        folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder)
    return None


def locate(name: str, data_home: str | os.PathLike | None = None) -> Path:
    """Find one of the `DOWNLOADS` in the user's folder, or else download it once and cache it."""
    folder = data_folder(data_home)
    if folder is None:
        return _downloaded(name)
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; download it from {DOWNLOADS[name].url}")
    return path


def _downloaded(name: str) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f'downloading needs pooch: pip install "treecrf[datasets]"; {_by_hand(name)}'
        ) from error
    url, checksum = DOWNLOADS[name]
    path = Path(pooch.os_cache("treecrf"), name)
    try:
        return Path(pooch.retrieve(url, f"sha256:{checksum}", path.name, path.parent))
    except (OSError, ValueError) as error:
        raise OSError(f"the download failed: {error}; {_by_hand(name)}") from error


def _by_hand(name: str) -> str:
    return (
        f"or download {DOWNLOADS[name].url} yourself, save it in a folder as {name}, and pass the "
        f"folder as data_home= or in the environment variable {FOLDER_VARIABLE}"
    )


def labeled(data: list, target: list, return_X_y: bool, **fields: object) -> Bunch | tuple:
    """Build the result of a fetch function: two lists, or a Bunch with further fields."""
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, **fields)
