"""Label sequences: checked against their inputs and converted to codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from treecrf.inputs._dicts import are_plain
from treecrf.inputs.data_warnings import warn_of_missing_labels, warn_of_similar_labels
from treecrf.inputs.forms import is_frame
from treecrf.inputs.offsets import offsets_of, position_name, split_sequences
from treecrf.inputs.raw_column import RawColumn, read_column
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import (
    as_list,
    characters,
    plain_array,
    refuse_final_nul,
    short_list,
    short_repr,
    whole_numbers,
)

# Types of values that hold the possible labels of a position.
SETS = (set, frozenset)
KINDS_OF_LABELS = {"str": "strings", "number": "integers"}
# The label that neural networks of PyTorch leave out.
IGNORED = -100
NOWHERE = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class Labels:
    """Labels of some sequences, one sequence after another; some may be unknown."""

    values: np.ndarray  # strings, integers or booleans; a placeholder where the label is unknown
    offsets: np.ndarray
    # The positions where any label is possible, ascending.
    missing: np.ndarray = field(default_factory=lambda: NOWHERE)
    choices: dict[int, np.ndarray] = field(default_factory=dict)  # sorted, if several are possible

    @property
    def has_labels(self) -> bool:
        """Whether a label, or a set of labels, is known."""
        return len(self.missing) < len(self.values)

    @property
    def are_complete(self) -> bool:
        """Whether all labels are known."""
        return not len(self.missing) and not self.choices

    @property
    def n_unlabeled(self) -> int:
        """Number of positions where any label is possible."""
        return len(self.missing)

    @property
    def known(self) -> np.ndarray:
        """Where labels are known; bool array (n_positions,)."""
        known = np.ones(len(self.values), dtype=bool)
        known[self.missing] = known[list(self.choices)] = False
        return known

    def padding(self, present: np.ndarray) -> list:
        """Return the labels that are probably padding, among those present.

        These are a negative label, or a mark such as "<PAD>".
        They are at the ends of sequences only, except for -100, which libraries of neural networks
        also write between the labels. If several labels are negative, they are ordinary ones.
        """
        if present.dtype.kind == "U":
            marks = [label for label in present.tolist() if label.strip("<>[]").lower() == "pad"]
        else:
            marks = [label for label in present.tolist() if label < 0]
        if len(marks) != 1 or len(present) == 1:
            return []
        if marks == [IGNORED] or self._fills_ends(marks[0]):
            return marks
        return []

    def _fills_ends(self, label: Any) -> bool:
        """Return whether a label, at several positions, is followed by itself only."""
        is_here = self.values == label
        is_here[self.missing] = False
        ends = self.offsets[1:] - 1
        is_followed = np.append(is_here[1:], False)
        is_followed[ends[ends >= 0]] = True
        return not (is_here & ~is_followed).any() and int(is_here.sum()) > 1

    def present(self) -> list[np.ndarray]:
        """Return the labels that occur, as known or as possible ones: at least one array."""
        return [np.delete(self.values, self.missing), *self.choices.values()]

    def refuse_unknown(self, reason: str) -> None:
        """Raise ValueError for the first label that is unknown, if any."""
        if not self.are_complete:
            where = position_name(int(np.argmin(self.known)), self.offsets)
            raise ValueError(f"{where}: the label is unknown; {reason}")

    def complete(self) -> list[np.ndarray]:
        """Return the labels of each sequence; ValueError if one is unknown."""
        self.refuse_unknown("expected a label at every position")
        return split_sequences(self.values, self.offsets)

    def encoded(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the codes of the labels, 0 if unknown, and the candidates unless all are known."""
        if self.are_complete:
            return _codes_of(self.values, range(len(self.values)), self.offsets, classes), None
        known = np.flatnonzero(self.known)
        codes = np.zeros(len(self.values), dtype=np.int32)
        if len(known):
            codes[known] = _codes_of(self.values[known], known, self.offsets, classes)
        candidates = np.zeros((len(codes), len(classes)), dtype=bool)
        candidates[known, codes[known]] = candidates[self.missing] = True
        for position, labels in self.choices.items():
            possible = _codes_of(labels, [position] * len(labels), self.offsets, classes)
            candidates[position, possible] = True
        return codes, candidates


def as_labels(y: Any, offsets: np.ndarray, segmentation: Segmentation) -> Labels:
    """Check that ``y`` holds a label, or a mark of an unknown one, for every position."""
    if segmentation.is_long:
        labels = _join([_read_labels(y, "y")])
        if len(labels.values) != offsets[-1]:
            raise ValueError(f"X has {offsets[-1]} positions, y has {len(labels.values)}")
        return replace(labels, offsets=offsets)
    items = segmentation.items(y, offsets, "y", "label sequences")
    lengths = np.diff(offsets)
    strings = _strings_of_lists(items, lengths)
    if strings is not None:
        return Labels(strings, offsets)
    parts = [
        _nothing_known(length) if item is None else _read_labels(item, f"sequence {i}")
        for i, (item, length) in enumerate(zip(items, lengths.tolist(), strict=True))
    ]
    for i, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if len(part.values) != length:
            raise ValueError(f"sequence {i}: {len(part.values)} labels for {length} positions")
    return _join(parts)


def _strings_of_lists(items: Sequence, lengths: np.ndarray) -> np.ndarray | None:
    """Convert lists of strings, which takes longer one by one; None if any label is special."""
    are_lists = set(map(type, items)) == {list} and list(map(len, items)) == lengths.tolist()
    if not are_lists or not any(items) or not are_plain(items):
        return None
    return np.array(list(chain.from_iterable(items)), dtype=np.str_)


def count_labeled(y: Any, segmentation: Segmentation) -> int:
    """Count the positions of the sequences in which a label, or a set of labels, is known."""
    if not segmentation.is_long:
        items = enumerate(as_list(y, "y"))
        parts = [_read_labels(item, f"sequence {i}") for i, item in items if item is not None]
        return sum(len(part.values) for part in parts if part.has_labels)
    part = _read_labels(y, "y")
    offsets = segmentation.offsets(len(part.values), name="y")
    is_known = np.ones(len(part.values), dtype=bool)
    is_known[part.missing] = False
    known = np.logical_or.reduceat(is_known, offsets[:-1])
    return int(np.diff(offsets)[known].sum())


def _nothing_known(length: int) -> Labels:
    return Labels(np.zeros(length, dtype=bool), np.array([0, length]), np.arange(length))


def _read_labels(item: Any, where: str) -> Labels:
    """Convert the labels of one sequence; one label of a set is the true one."""
    if isinstance(item, str):
        return Labels(label_array(item, where), np.array([0, len(item)]))
    values, missing = _label_column(item, where)
    offsets = np.array([0, len(values)])
    choices = _find_choices(values, where)
    if missing is None and not choices:
        return Labels(_plain_labels(values, where), offsets)
    if missing is None:
        missing = np.zeros(len(values), dtype=bool)
    if missing.all():
        return _nothing_known(len(values))
    filled = values.copy()
    for t, labels in choices.items():
        filled[t] = labels[0].item()
    # Placeholders instead of a shorter array, so that errors count positions right.
    filled[missing] = _placeholder(filled[int(np.argmin(missing))])
    choices = {t: labels for t, labels in choices.items() if len(labels) > 1}
    return Labels(_plain_labels(filled, where), offsets, np.flatnonzero(missing), choices)


def _placeholder(label: Any) -> Any:
    """Return a label of the same type as another one."""
    if isinstance(label, str):
        return ""
    if isinstance(label, (bool, np.bool_)):
        return False
    return 0


def _find_choices(array: np.ndarray, where: str) -> dict[int, np.ndarray]:
    """Return the possible labels, sorted, of the positions with sets."""
    if array.dtype.kind != "O" or not any(issubclass(k, SETS) for k in set(map(type, array))):
        return {}
    choices = {}
    for t, labels in enumerate(array):
        if not isinstance(labels, SETS):
            continue
        if not labels:
            raise ValueError(f"{where}, position {t}: the set of labels is empty")
        try:
            choices[t] = np.unique(label_array(list(labels), where))
        except (ValueError, TypeError):
            raise TypeError(
                f"{where}, position {t}: {short_repr(labels)} holds values that are not labels; "
                "expected a set of strings or of integers"
            ) from None
    return choices


def _join(parts: list[Labels]) -> Labels:
    labeled = [part.values for part in parts if part.has_labels]
    if len({values.dtype.kind == "U" for values in labeled}) > 1:
        raise TypeError("y mixes strings and numbers; expected all strings or all integers")
    offsets = offsets_of([len(part.values) for part in parts])
    if labeled and all(part.are_complete for part in parts):
        return Labels(np.concatenate(labeled), offsets)
    # Placeholders must not widen the type of the labels.
    if labeled:
        kind = labeled[0].dtype
    else:
        kind = np.dtype(bool)
    values = [p.values if p.has_labels else np.zeros(len(p.values), kind) for p in parts]
    missing = [part.missing + start for part, start in zip(parts, offsets, strict=False)]
    choices = {
        int(start) + t: labels
        for start, part in zip(offsets[:-1], parts, strict=True)
        for t, labels in part.choices.items()
    }
    values = np.concatenate([np.zeros(0, dtype=kind), *values])
    return Labels(values, offsets, np.concatenate([NOWHERE, *missing]), choices)


def label_array(item: Any, where: str) -> np.ndarray:
    """Convert the labels of one sequence to a 1-D array of strings, integers or booleans."""
    if isinstance(item, str):
        refuse_final_nul(item, lambda t: f"{where}, position {t}: label {short_repr(item[t])}")
        return characters(item)
    if np.ma.is_masked(item):
        raise ValueError(f"{where}: labels are masked; expected a label at every position")
    return _plain_labels(_label_column(item, where).array(), where)


def _label_column(item: Any, where: str) -> RawColumn:
    """Read the labels of one sequence, of any type."""
    if isinstance(item, bytes):
        raise TypeError(f"{where}: labels are bytes; decode them to a string")
    column = read_column(item)
    values = column.values
    if values.ndim != 1:
        are_lists = values.ndim > 1 and values.size and values.dtype.kind == "O"
        mend = ""
        if are_lists:
            mend = _mend_of_lists(values[0])
        raise ValueError(f"{where}: labels have {values.ndim} dimensions; expected 1{mend}")
    if values.dtype.kind == "O" and {list, tuple} & set(map(type, values)):
        t = next(t for t, label in enumerate(values) if isinstance(label, (list, tuple)))
        kind = type(values[t]).__name__
        raise TypeError(
            f"{where}, position {t}: label {short_repr(values[t])} is of type {kind}; expected one "
            f"label{_mend_of_lists(values[t])}"
        )
    return column


def _mend_of_lists(labels: Any) -> str:
    """Return the end of an error message about a list of labels, if a set may be meant."""
    distinct = list(dict.fromkeys(v for v in labels if isinstance(v, (str, int))))
    example = f"{{{short_list(list(map(repr, distinct)))}}}"
    if distinct:
        return f", or a set of possible labels, such as {example}"
    return ""


def _plain_labels(array: np.ndarray, where: str) -> np.ndarray:
    array = plain_array(array, where, "label")
    if array.dtype.kind in "bU":
        return array
    return whole_numbers(array, where, "label")


def refuse_other_labels(
    table: Any, classes: np.ndarray, name: str, are_pairs: bool = False
) -> None:
    """Raise ValueError if a data frame has other columns than the labels, or in another order.

    Tables of labels are read by position. With ``are_pairs``, the rows are labels as well.
    """
    if not is_frame(table):
        return
    import narwhals.stable.v2 as narwhals  # here, because not every program has data frames

    _check_names(narwhals.from_native(table).columns, classes, f"the columns of {name}")
    if are_pairs and hasattr(table, "index"):
        # A row for the start of sequences may follow those of the labels.
        _check_names(list(table.index)[: len(classes)], classes, f"the rows of {name}")


def _check_names(names: list, classes: np.ndarray, what: str) -> None:
    names = list(map(str, names))
    labels = list(map(str, classes.tolist()))
    if names == labels or names == list(map(str, range(len(labels)))):
        return
    raise ValueError(
        f"{what} are {short_list(names)}; expected the labels {short_list(labels)} in this order, "
        "or an array"
    )


def label_kind(array: np.ndarray) -> str:
    """Return the kind of the labels in a result of `label_array`: "str" or "number"."""
    if array.dtype.kind == "U":
        return "str"
    return "number"


def encode_labels(arrays: list[np.ndarray], classes: np.ndarray) -> np.ndarray:
    """Return the codes of all labels, one sequence after another; ValueError if one is unseen."""
    offsets = offsets_of([len(array) for array in arrays])
    return _codes_of(np.concatenate(arrays), range(offsets[-1]), offsets, classes)


def _codes_of(
    labels: np.ndarray, positions: Sequence[int], offsets: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Return the codes of labels at some positions."""
    check_kind(labels, classes)
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    unseen = classes[codes] != labels
    if unseen.any():
        i = int(np.argmax(unseen))
        where = position_name(positions[i], offsets)
        raise ValueError(f"{where}: label {labels[i].item()!r} was not seen in training")
    return codes.astype(np.int32)


def check_kind(labels: np.ndarray, classes: np.ndarray) -> None:
    """Raise ValueError unless labels and classes are both strings, or both numbers."""
    if label_kind(labels) != label_kind(classes):
        kind = KINDS_OF_LABELS[label_kind(labels)]
        known_kind = KINDS_OF_LABELS[label_kind(classes)]
        raise ValueError(f"y holds {kind}, but the labels of the model are {known_kind}")


def find_classes(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the distinct labels in arrays, sorted; ValueError unless there are two."""
    classes = np.unique(np.concatenate(arrays or [np.zeros(0)]))
    if len(classes) < 2:
        problem = "no labels"
        if len(classes):
            problem = f"only the label {classes[0].item()!r}"
        raise ValueError(f"y holds {problem}; expected at least 2 different labels")
    warn_of_similar_labels(classes)
    warn_of_missing_labels(classes)
    return classes
