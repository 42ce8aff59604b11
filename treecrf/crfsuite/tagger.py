"""Labels of single sequences by a model file, with the interface of python-crfsuite."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.crfsuite._items import AttributeWeights
from treecrf.crfsuite.items import attributes_in
from treecrf.inputs.schema import NUMBER
from treecrf.learners.linear.attributes import MAX_NUMBER
from treecrf.learners.linear.lattices import RowsLattice
from treecrf.runtime import load_for_labeling
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.crfsuite.dump import ParsedDump

# The first bytes of a model file of CRFsuite.
CRFSUITE_MAGIC = b"lCRF"


class Tagger:
    """Labels single sequences by a model, with the methods of python-crfsuite's ``Tagger``.

    It opens the files that `Trainer.train`, `CRF`, or the method ``save`` of an estimator that was
    trained on attributes has written. It also opens the model files of CRFsuite itself, with the
    same weights and labels.

    See Also
    --------
    Trainer : Train a model, and write it to a file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from treecrf.crfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "places.treecrf")
    >>> trainer.train(path)
    >>> tagger = Tagger()
    >>> with tagger.open(path):
    ...     tagger.tag([{"word": "Rome"}, {"word": "to"}])
    ...     round(tagger.probability(["PLACE", "O"]), 2)
    ...     round(tagger.marginal("PLACE", 0), 2)
    ['PLACE', 'O']
    0.28
    0.51
    """

    def __init__(self) -> None:
        self._model: FittedTagger | None = None
        # The content of the model file.
        self._content = b""

    # Models

    def open(self, name: str | os.PathLike[str]) -> contextlib.closing[Tagger]:
        """Open a model file.

        Parameters
        ----------
        name : path-like
            File to read.

        Returns
        -------
        context manager
            The tagger is closed when the ``with`` statement ends.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is not a model of treecrf or CRFsuite, or is damaged.
        """
        content = Path(name).read_bytes()
        if content.startswith(CRFSUITE_MAGIC):
            return self._open(_crfsuite_labeler(content, os.fspath(name)), content)
        return self._open(load_for_labeling(name), content)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open the content of a model file.

        Parameters
        ----------
        value : bytes
            Content of the file.

        Returns
        -------
        context manager
            The tagger is closed when the ``with`` statement ends.

        Raises
        ------
        ValueError
            As in `open`.
        """
        if value.startswith(CRFSUITE_MAGIC):
            return self._open(_crfsuite_labeler(value, "the model"), value)
        return self._open(_loaded(load_for_labeling, value), value)

    def _open(self, model: Any, content: bytes) -> contextlib.closing[Tagger]:
        self._model = FittedTagger(model)
        self._content = content
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._model = None

    def labels(self) -> list[str]:
        """Return the labels of the model.

        Returns
        -------
        list of str
            The labels, sorted.
        """
        return list(self._opened().labels)

    # Labels and probabilities

    def tag(self, xseq: Any = None) -> list[str]:
        """Find the most probable label sequence.

        Parameters
        ----------
        xseq : iterable of items or ItemSequence, optional
            The sequence, in a form that `ItemSequence` describes. It becomes the current sequence.
            The default is the current sequence.

        Returns
        -------
        list of str
            The label of each item.
        """
        model = self._opened()
        if xseq is not None:
            model.set(attributes_in(xseq))
        return model.best_labels()

    def set(self, xseq: Any) -> None:
        """Make a sequence the current one, to which the other methods refer.

        Parameters
        ----------
        xseq : iterable of items or ItemSequence
            The sequence, in a form that `ItemSequence` describes.
        """
        self._opened().set(attributes_in(xseq))

    def probability(self, yseq: Any) -> float:
        """Return the probability of a label sequence, given the current sequence.

        Parameters
        ----------
        yseq : iterable of str
            A label for each item.

        Returns
        -------
        float
            Probability, from 0 to 1.

        Raises
        ------
        ValueError
            If a label is unknown, or there are more or fewer labels than items.
        """
        return self._opened().probability(list(yseq))

    def marginal(self, y: str, pos: int) -> float:
        """Return the marginal probability of a label at an item of the current sequence.

        Parameters
        ----------
        y : str
            The label.
        pos : int
            Index of the item.

        Returns
        -------
        float
            Probability, from 0 to 1.

        Raises
        ------
        ValueError
            If the label is unknown, or there is no such item.
        """
        return self._opened().marginal(y, pos)

    def marginals(self) -> list[dict[str, float]]:
        """Return the marginal probabilities of all labels at all items of the current sequence.

        Returns
        -------
        list of dict
            For each item, the probabilities by label.
        """
        return self._opened().marginals()

    # Contents

    def info(self) -> ParsedDump:
        """Return the weights, the labels and the attributes of the model.

        Returns
        -------
        ParsedDump
            With the attributes ``transitions``, ``state_features``, ``labels``, ``attributes`` and
            ``header``.
        """
        if self._model is None:
            raise RuntimeError("the tagger is closed; open a model first")
        from treecrf.crfsuite.dump import ParsedDump

        return ParsedDump(_estimator_of(self._content), len(self._content))

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text, in the format of CRFsuite.

        Parameters
        ----------
        filename : path-like, optional
            File to write. By default, the text is printed.
        """
        text = "".join(f"{line}\n" for line in self.info().lines())
        if filename is None:
            sys.stdout.write(text)
        else:
            Path(filename).write_text(text, encoding="utf-8")

    def _opened(self) -> FittedTagger:
        if self._model is None:
            raise ValueError("the tagger has no model; open one first")
        return self._model


def _crfsuite_labeler(content: bytes, name: str) -> Any:
    """Return a labeler with the model in a file of CRFsuite."""
    from treecrf.crfsuite.crfsuite_files import labeler_of

    return labeler_of(content, name)


def _estimator_of(content: bytes) -> Any:
    """Return the estimator in a model file, which has names and weights of attributes."""
    if content.startswith(CRFSUITE_MAGIC):
        from treecrf.crfsuite.crfsuite_files import estimator_of

        return estimator_of(content, "the model")
    from treecrf.learners.registry import load

    return _loaded(load, content)


def _loaded(load: Callable[[Path], Any], content: bytes) -> Any:
    """Load the content of a model file of treecrf."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        return load(path)


class FittedTagger:
    """A fitted estimator that labels one sequence after another."""

    def __init__(self, model: Any):
        self.model = model
        self.labels = list(map(str, model.classes_.tolist()))
        self._codes = {label: code for code, label in enumerate(self.labels)}
        self._predictor = model._predictor()
        self._chain = self._predictor.chain
        if self._chain.schema.names is None:
            raise ValueError("the model was trained on columns without names, not on attributes")
        # Looked up once, because many sequences are short.
        self._weights = attribute_weights(self._chain)
        self._short_model = self._predictor.short_model
        self._max_positions = self._predictor.max_positions
        self._searches = self._chain.searches
        self._attributes: list[dict[str, float]] | None = None
        self._lattice: Any = None
        self._marginals: np.ndarray | None = None

    def set(self, attributes: list[dict[str, float]]) -> None:
        """Make a sequence the present one."""
        self._attributes = attributes
        self._lattice = None
        self._marginals = None

    def labels_of(self, attributes: list[dict[str, float]]) -> list[str]:
        """Return the most probable labels of a sequence."""
        self.set(attributes)
        return self.best_labels()

    def best_labels(self) -> list[str]:
        """Return the most probable labels of the present sequence."""
        attributes = self._present()
        if not attributes:
            return []
        if self._searches:
            return list(map(str, self.model.predict([attributes])[0].tolist()))
        codes = self._in_order(self._scored().best_codes())
        labels = self.labels
        return [labels[code] for code in codes.tolist()]

    def probability(self, labels: list[str]) -> float:
        """Return the probability of a label sequence."""
        n = len(self._present())
        if len(labels) != n:
            raise ValueError(f"yseq has {len(labels)} labels, the sequence {n} items")
        codes = np.array([self._code(label) for label in labels], dtype=np.int32)
        if n == 0:
            return 1.0
        return math.exp(self._scored().log_likelihoods(self._in_order(codes))[0])

    def marginal(self, label: str, position: int) -> float:
        """Return the marginal probability of a label at a position."""
        n = len(self._present())
        if not 0 <= position < n:
            raise ValueError(f"pos={position}; the sequence has {n} items")
        return float(self._marginal_table()[position, self._code(label)])

    def marginals(self) -> list[dict[str, float]]:
        """Return the marginal probabilities of all labels at all positions."""
        if not self._present():
            return []
        table = self._marginal_table()
        return [dict(zip(self.labels, row, strict=True)) for row in table.tolist()]

    def _marginal_table(self) -> np.ndarray:
        if self._marginals is None:
            self._marginals = self._in_order(self._scored().marginals())
        return self._marginals

    def _present(self) -> list[dict[str, float]]:
        if self._attributes is None:
            raise ValueError("there is no sequence; call set or tag with one first")
        return self._attributes

    def _code(self, label: str) -> int:
        if label not in self._codes:
            raise ValueError(f"label {label!r} is not in the model; see labels()")
        return self._codes[label]

    def _scored(self) -> Any:
        """Return the lattice of the present sequence, which has items."""
        if self._lattice is None and self._weights is not None:
            self._lattice = self._weighted(self._weights)
        if self._lattice is None:
            items = [self._present()]
            if self._short_model is not None:
                self._lattice = self._chain.quick_lattice(
                    items, self._short_model, self._max_positions
                )
            if self._lattice is None:
                self._lattice = self._read(items)
        return self._lattice

    def _weighted(self, weights: AttributeWeights) -> Any:
        """Return the lattice of a linear model; None if a value is too large."""
        rows = weights.scores(self._present())
        if rows is None:
            return None
        return RowsLattice(rows, np.array([0, len(rows)]), self._chain.weights.transitions)

    def _read(self, items: list) -> Any:
        """Return the lattice of a sequence that is not short; unknown attributes count nothing."""
        from treecrf.inputs.segmentation import Segmentation

        sequences = self._chain.read(items, Segmentation())
        if self._chain.is_backward:
            sequences = sequences.reversed()
        constraints = self._chain.constraints(sequences.offsets)
        return self._chain.lattice(sequences, constraints, Threads(1))

    def _in_order(self, results: np.ndarray) -> np.ndarray:
        """Convert results between the direction of the chain and that of the input."""
        return np.ascontiguousarray(results[::-1]) if self._chain.is_backward else results


def attribute_weights(chain: Any) -> AttributeWeights | None:
    """Return the weights of a linear model of attributes as they are; None for other models."""
    weights = getattr(chain, "weights", None)
    if weights is None or chain.transitions is not None or weights.layout.transition_features:
        return None
    source = chain.attributes
    if source.kind != "window" or any(source.window) or source.standardization is not None:
        return None
    names = source.names_at(0)
    if (source.schema.kinds != NUMBER).any() or not set(names) <= set(source.schema.names):
        return None
    return AttributeWeights(names, np.ascontiguousarray(weights.labels[:, 0]), MAX_NUMBER)
