"""Sparse matrices of scipy, which is imported when it is first needed.

The import takes longer than labeling a few sequences, and most input is not sparse.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazySparse(ModuleType):
    """The module ``scipy.sparse``, imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = getattr(importlib.import_module("scipy.sparse"), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "these sequences or this model need sparse matrices; install scipy", name="scipy"
            ) from error
        setattr(self, name, value)
        return value

    def issparse(self, value: Any) -> bool:
        """Return whether a value is a sparse matrix, of which there are none before the import."""
        module = sys.modules.get("scipy.sparse")
        return module is not None and module.issparse(value)


if TYPE_CHECKING:
    from scipy import sparse as sparse
else:
    sparse = LazySparse("sparse")
