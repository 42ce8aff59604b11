"""The page of a report: a template, styles, a script, and the contents as JSON."""

from __future__ import annotations

import json
import math
from html import escape
from importlib.resources import files
from typing import Any

ASSETS = files("treecrf.reports") / "assets"


def page(contents: dict[str, Any], beginning: str) -> str:
    """Fill the template; the contents are data of the page and never markup."""
    parts = {
        "beginning": beginning,
        "title": escape(contents["title"]),
        "styles": _asset("report.css"),
        "script": _asset("report.js"),
        "contents": json_for_html(contents),
    }
    # The template is split first, so that a text of the user that looks like a place stays a text.
    pieces = _asset("report.html").split("$")
    return "".join(parts.get(piece, piece) for piece in pieces)


def json_for_html(contents: Any) -> str:
    """Write JSON that can stand in a script element: without NaN, and without the sign <."""
    text = json.dumps(_finite(contents), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, with None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
