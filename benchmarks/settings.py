"""Settings chosen by `tune.py`, stored in ``settings.json`` next to this file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("settings.json")
LEARNERS = ("first", "second")


def chosen(data: str, learner: str) -> dict[str, Any]:
    """Parameters of `TreeCRF` for a dataset and a learner, "first" or "second" order."""
    try:
        return _read()[data][learner]["parameters"]
    except KeyError:
        sys.exit(f"no settings for {data}, {learner} order: run tune.py --data {data}")


def write(data: str, learner: str, found: dict[str, Any]) -> None:
    """Store the result for a dataset and a learner, replacing the previous one."""
    everything = _read()
    everything.setdefault(data, {})[learner] = found
    PATH.write_text(json.dumps(everything, indent=2, sort_keys=True) + "\n")


def _read() -> dict[str, Any]:
    return json.loads(PATH.read_text()) if PATH.exists() else {}
