"""Names of the tagging schemes of spans, in any case."""

from __future__ import annotations

# Without IOE1: seqeval 1.2.2 misses one-label spans followed by another span of the same type.
SCHEMES = ("iob1", "iob2", "ioe2", "iobes", "bilou")
ALIASES = {"bio": "iob2", "bioes": "iobes"}
NAMES = (*SCHEMES, *ALIASES)


def scheme_named(name: str) -> str:
    """Return the scheme with a name, one of `SCHEMES`; ValueError if there is none."""
    lower = name.lower() if isinstance(name, str) else name
    if lower not in NAMES:
        raise ValueError(f"scheme={name!r}; expected None or one of {NAMES}")
    return ALIASES.get(lower, lower)
