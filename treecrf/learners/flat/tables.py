"""Contents of flat forests as text and tables: names, weights, columns, JSON."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.names import conjunction, name_of_labels, points_down
from treecrf.encoding.plan import BOUNDARY
from treecrf.trees.conjunctions import WeightedConjunctions, bits_of


class FlatTables:
    """The conjunctions, contexts and weights of a flat forest, as text and arrays.

    Parameters
    ----------
    flat : WeightedConjunctions
    encoder : Encoder
        The encoder of the columns that are tested.
    classes : array (n_labels,)
    backward : bool
        Whether the chain starts at the end of the sequences, so that its offsets are reversed.
    """

    def __init__(
        self, flat: WeightedConjunctions, encoder: Encoder, classes: np.ndarray, backward: bool
    ):
        self.flat = flat
        self.encoder = encoder
        self.classes = classes
        self.side = -1 if backward else 1

    # Names

    @cached_property
    def names(self) -> list[str]:
        """Unique names of the conjunctions."""
        names = [conjunction(self.encoder, self.tests_of(k)) for k in range(len(self.flat))]
        # Thresholds that differ only in the last digits have the same name.
        counts: Counter[str] = Counter()
        for k, name in enumerate(names):
            counts[name] += 1
            if counts[name] > 1:
                names[k] = f"{name} ({counts[name]})"
        return names

    def tests_of(self, k: int) -> list[tuple[tuple[int, int, int], bool]]:
        """Return the tests of a conjunction, at offsets in reading direction."""
        tests = self.flat.tests_of(k)
        return [((column, self.side * o, value), holds) for (column, o, value), holds in tests]

    @cached_property
    def contexts(self) -> list[str]:
        """Names of the sets of contexts."""
        return [self._context(mask) for mask in self.flat.masks]

    def _context(self, mask: np.ndarray) -> str:
        conditions = [
            name_of_labels(self.classes, lag, bits_of(here), backward=self.side < 0)
            for lag, here in enumerate(mask, 1)
            if not here.all()
        ]
        return " and ".join(conditions) or "anything"

    # Arrays

    def weights(self) -> np.ndarray:
        """Return weights of shape (n_conjunctions, n_labels + 1, n_labels), for orders 0 and 1."""
        flat, n = self.flat, len(self.classes)
        out = np.zeros((len(flat), n + 1, n))
        for of_set, previous in enumerate(self._previous()):
            chosen = np.flatnonzero(flat.sets == of_set)
            rows, labels = flat.conjunctions[chosen], flat.labels[chosen]
            for u in np.flatnonzero(previous):
                out[rows, u, labels] += flat.weights[chosen]
        return out

    def sparse_weights(self) -> sparse.csr_array:
        """Return weights (n_conjunctions, (n_labels + 1) * n_labels), by previous label first."""
        flat, n = self.flat, len(self.classes)
        previous = self._previous()[flat.sets]
        entry, u = np.nonzero(previous)
        indices = flat.conjunctions[entry], u * n + flat.labels[entry]
        shape = (len(flat), (n + 1) * n)
        return sparse.csr_array(sparse.coo_array((flat.weights[entry], indices), shape=shape))

    def _previous(self) -> np.ndarray:
        """Return the previous labels in each set of contexts, the last for none, as a mask."""
        masks = self.flat.masks
        if masks.shape[1] > 1:
            raise ValueError(
                f"the model is of order {masks.shape[1]}; weights of pairs of labels need order 0 "
                "or 1"
            )
        return masks[:, 0] if masks.shape[1] else np.ones((len(masks), masks.shape[2]), dtype=bool)

    # Tables

    def columns(self) -> dict[str, list]:
        """Return the columns with one row per weight: conjunction, context, label, weight."""
        flat = self.flat
        return {
            "conjunction": [self.names[k] for k in flat.conjunctions],
            "context": [self.contexts[k] for k in flat.sets],
            "label": self.classes[flat.labels].tolist(),
            "weight": flat.weights.tolist(),
        }

    def plain(self) -> dict[str, Any]:
        """Return all contents as values that JSON supports."""
        flat, classes = self.flat, self.classes.tolist()
        symbols = [*classes, None]
        sets = [[[symbols[i] for i in np.flatnonzero(lag)] for lag in mask] for mask in flat.masks]
        return {
            "classes": classes,
            "order": flat.masks.shape[1],
            "direction": "left-to-right" if self.side == 1 else "right-to-left",
            "conjunctions": [
                {"name": name, "tests": [self._plain_test(*test) for test in self.tests_of(k)]}
                for k, name in enumerate(self.names)
            ],
            "contexts": [
                {"name": name, "previous": lags}
                for name, lags in zip(self.contexts, sets, strict=True)
            ],
            "weights": [
                {"conjunction": k, "context": c, "label": classes[v], "weight": w}
                for k, c, v, w in zip(
                    flat.conjunctions.tolist(), flat.sets.tolist(), flat.labels.tolist(),
                    flat.weights.tolist(), strict=True,
                )
            ],
        }  # fmt: skip

    def _plain_test(self, test: tuple[int, int, int], holds: bool) -> dict[str, Any]:
        column, offset, value = test
        if column == BOUNDARY:
            return {"outside": offset, "holds": holds}
        learned, encoder = self.encoder.columns[column], self.encoder
        plain = self._plain_column(column) | {"offset": offset, "holds": holds}
        if learned.kind == "boolean" or "missing" in plain:
            return plain
        below = points_down(encoder, column, value)
        how = "is" if learned.kind == "category" else "at_most" if below else "above"
        return plain | {how: learned.values[value].item()}

    def _plain_column(self, column: int) -> dict[str, Any]:
        kind, index = self.encoder.origin_of(column)
        if kind == DERIVED:
            return {"future": index}
        feature = index if self.encoder.names is None else self.encoder.names[index]
        return {"feature": feature} | ({"missing": True} if kind == INDICATOR_COLUMN else {})


def frame_of(columns: dict[str, list], backend: Any) -> Any:
    """Convert columns to a data frame of pandas, polars or pyarrow."""
    import narwhals.stable.v2 as narwhals

    try:
        return narwhals.from_dict(columns, backend=backend).to_native()
    except ModuleNotFoundError as error:
        name = error.name
        raise ImportError(f"backend={backend!r} needs {name}: pip install {name}") from error
