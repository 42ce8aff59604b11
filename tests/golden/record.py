"""Record what the tests in this folder compare with: ``python tests/golden/record.py``.

It rewrites ``fits.json`` and ``names.json``; one of these names as an argument chooses it.
``limits.json``, the exceptions from rules about names, is edited by hand.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

FOLDER = Path(__file__).parent


def fits() -> dict:
    from support.golden_fits import arithmetic, cluster, results
    from support.golden_settings import FITS

    with cluster():
        return {"arithmetic": arithmetic()} | {name: results(name)["memory"] for name in FITS}


def names() -> dict:
    from support.golden_names import messages, signatures

    return {"signatures": signatures(), "messages": messages()}


if __name__ == "__main__":
    sys.path[:0] = [str(FOLDER.parents[1]), str(FOLDER.parent)]
    warnings.simplefilter("ignore")
    for record in (fits, names):
        if record.__name__ in (sys.argv[1:] or ["fits", "names"]):
            text = json.dumps(record(), indent=1, ensure_ascii=False)
            (FOLDER / f"{record.__name__}.json").write_text(text + "\n", encoding="utf-8")
