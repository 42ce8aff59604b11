"""Classes by name, whose modules are imported when a class is looked up."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any


class ImportedClasses(Mapping[str, type]):
    """Classes by short names, from the module and the name of each."""

    def __init__(self, places: dict[str, tuple[str, str]]):
        self._places = places

    def renamed(self, names: dict[str, str]) -> ImportedClasses:
        """Return some of the classes by other names; ``names`` has the present name of each."""
        return ImportedClasses({name: self._places[present] for name, present in names.items()})

    def __getitem__(self, name: str) -> type:
        module, class_name = self._places[name]
        return getattr(importlib.import_module(module), class_name)

    def __contains__(self, name: Any) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
