"""The contents of a model as `Tagger.info` returns them, and as the text of CRFsuite's dump."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np


class ParsedDump:
    """The contents of a model, as `Tagger.info` returns them.

    Attributes
    ----------
    header : dict of str
        Numbers of labels, of attributes and of weights, and the size of the model file.
    labels, attributes : dict of str to str
        The number of each label, and of each attribute with a weight other than 0. Models of trees
        have all attributes of the training data.
    transitions : dict of (str, str) to float
        Nonzero weights by (previous label, label).
    state_features : dict of (str, str) to float
        Nonzero weights by (attribute, label).

    Raises
    ------
    TypeError
        When ``transitions`` or ``state_features`` of a model of trees is read, which has no such
        weights.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from treecrf.crfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "places.treecrf")
    >>> trainer.train(path)
    >>> with Tagger().open(path) as tagger:
    ...     contents = tagger.info()
    >>> {name: round(weight, 2) for name, weight in contents.state_features.items()}
    {('word:Rome', 'PLACE'): 0.2, ('word:to', 'O'): 0.2}
    """

    def __init__(self, model: Any, size: int):
        self._model = model
        self._size = size

    @cached_property
    def header(self) -> dict[str, str]:
        """The numbers of labels, attributes and weights, and the size of the file."""
        counts = {
            "size": self._size,
            "num_features": self._n_weights,
            "num_labels": len(self.labels),
            "num_attrs": len(self.attributes),
        }
        return {name: str(count) for name, count in counts.items()}

    @cached_property
    def labels(self) -> dict[str, str]:
        """The number of each label."""
        return _numbered(map(str, self._model.classes_.tolist()))

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The number of each attribute of the model."""
        names = self._model.feature_names_in_
        if self._is_linear:
            used = (self._model.state_weights_ != 0).any(axis=1)
            names = np.asarray(self._model.get_attribute_names())[used]
        return _numbered(map(str, names))

    @cached_property
    def transitions(self) -> dict[tuple[str, str], float]:
        """The weights of labels after labels."""
        self._require_weights("transitions")
        weights = self._model.transition_features_
        return {(str(u), str(v)): weight for (u, v), weight in weights.items()}

    @cached_property
    def state_features(self) -> dict[tuple[str, str], float]:
        """The weights of attributes and labels."""
        self._require_weights("state_features")
        weights = self._model.state_features_
        return {(name, str(label)): weight for (name, label), weight in weights.items()}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text that CRFsuite writes of a model."""
        yield from _section("FILEHEADER", (f"  {k}: {v}" for k, v in self.header.items()))
        for name, numbers in {"LABELS": self.labels, "ATTRIBUTES": self.attributes}.items():
            yield from _section(name, (f"  {number:>5}: {k}" for k, number in numbers.items()))
        weights = {"TRANSITIONS": (1, self.transitions), "STATE_FEATURES": (0, self.state_features)}
        for name, (kind, features) in weights.items():
            lines = (f"  ({kind}) {a} --> {b}: {w:f}" for (a, b), w in features.items())
            yield from _section(name, lines)

    @property
    def _is_linear(self) -> bool:
        return hasattr(self._model, "state_features_")

    @property
    def _n_weights(self) -> int:
        return len(self.state_features) + len(self.transitions) if self._is_linear else 0

    def _require_weights(self, name: str) -> None:
        if not self._is_linear:
            kind = type(self._model).__name__
            raise TypeError(
                f"{name}: a {kind} has no weights of attributes; see treecrf.inspection for what "
                "it has learned"
            )


def _numbered(names: Any) -> dict[str, str]:
    return {name: str(number) for number, name in enumerate(names)}


def _section(name: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{name} = {{"
    yield from lines
    yield "}"
    yield ""
