"""Tables of CSV and Parquet files as sequences and labels."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from treecrf.cli.files.columns import CategoryColumn, GroupColumn, LabelColumn, NumberColumn
from treecrf.cli.files.data import NO_SEQUENCES, FileData, FileText, ModelInput, Reading
from treecrf.cli.files.spool import Spool
from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.files.blocks import TableFile
from treecrf.inputs.files.kinds import BOOLEAN, NUMBER, TEXT, WHOLE, find_kinds
from treecrf.inputs.labels import ColumnNames
from treecrf.inputs.offsets import split
from treecrf.inputs.schema import KINDS
from treecrf.inputs.sequences import LongSequences
from treecrf.inputs.values import short_list

MAX_NAMES = 30
# Characters that separate columns in files named .csv, and how they are written as an option.
SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}


def read_table(file: TableFile, reading: Reading, model: ModelInput | None) -> FileData:
    """Read a table in two passes: the first determines the kinds of its columns.

    The second writes the values to a temporary file, from which they are read in pieces.

    Parameters
    ----------
    file : TableFile
    reading : Reading
    model : ModelInput, optional
        Requirements of a trained model. Columns are matched by name; others are ignored.

    Raises
    ------
    OSError, ValueError, TypeError
        If the file cannot be read, or a column is missing or invalid; the message states which.
    """
    reading = _with_columns_of(model, file, reading)
    converter = ArrowConverter(reading.missing)
    features = _features(file, reading, model)
    label_name = reading.label if reading.with_labels else None
    kinds = _kinds(file, converter, features, reading, model)
    columns = [_column(converter, kinds[name], name) for name in features]
    label = label_name and LabelColumn(converter, kinds[label_name], label_name)
    group = reading.group and GroupColumn(converter, reading.group)
    spool = Spool([column.dtype for column in columns])
    needed = dict.fromkeys([*features, *filter(None, (label_name, reading.group))])
    for block in file.blocks(list(needed)):
        row = spool.n_rows + file.first_row
        with file.problems():
            if label:
                label.add(block[label_name], row)
            if group:
                group.add(block[reading.group], row)
            values = [column.read(block[column.name], row) for column in columns]
        spool.append(values)
    found = FileData(
        NO_SEQUENCES,
        [] if label else None,
        list(group.starts) if group else None,
        is_table=True,
        columns=ColumnNames(reading.label, reading.group),
        text=FileText(file.names, lambda names: _copied(file, converter, names)),
    )
    if not spool.n_rows:
        if reading.may_be_empty:
            return found
        raise ValueError(f"{file.name}: the table has no rows")
    offsets = group.offsets(spool.n_rows) if group else np.array([0, spool.n_rows])
    with file.problems():
        return replace(
            found,
            sequences=_sequences(spool, columns, offsets),
            labels=split(label.labels(), offsets) if label else None,
            missing_label=label.missing if label else None,
        )


def _with_columns_of(model: ModelInput | None, file: TableFile, reading: Reading) -> Reading:
    """Return the options with the columns of the labels and groups that the model stores."""
    if model is None:
        return reading
    label, group = reading.label, reading.group
    if label is None and model.columns.label in _others(file, model):
        label = model.columns.label
    if group is None and not reading.no_group:
        group = model.columns.group
        if group is not None and group not in file.names:
            raise ValueError(
                f"{file.name}: there is no column {group!r}, which identified the sequences in "
                "training; specify another with --group, or --no-group if all rows are one "
                f"sequence; {_columns(file)}"
            )
    return replace(reading, label=label, group=group)


def _others(file: TableFile, model: ModelInput) -> set[str]:
    """Return the columns that are not features of the model."""
    return set(file.names) - set(model.schema.names or ())


def _features(file: TableFile, reading: Reading, model: ModelInput | None) -> list[str]:
    """Return the names of the columns that are features."""
    named = [reading.label, reading.group, *reading.drop, *reading.category]
    _check_names(file, [name for name in named if name is not None])
    if reading.label is not None and reading.label == reading.group:
        raise ValueError(f"--label and --group both name {reading.label!r}; expected two columns")
    others = {reading.label, reading.group, *reading.drop}
    if model is not None and model.schema.names is not None:
        _check_names(file, model.schema.names)
        if reading.label is not None and reading.label not in _others(file, model):
            stored = model.columns.label
            hint = "" if stored is None else f"; the labels of its training data were in {stored!r}"
            raise ValueError(f"--label names {reading.label!r}, a feature of the model{hint}")
        return list(model.schema.names)
    features = [name for name in file.names if name not in others]
    if model is not None and len(features) != model.schema.n_features:
        raise ValueError(
            f"{file.name}: {len(features)} columns are features; the model was trained with "
            f"{model.schema.n_features} features without names"
        )
    if not features:
        raise ValueError(f"{file.name}: no columns are left as features; {_columns(file)}")
    return features


def _copied(
    file: TableFile, converter: ArrowConverter, names: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield some columns of each row as text."""
    for block in file.blocks(list(dict.fromkeys(names))):
        columns = {name: converter.copied(array) for name, array in block.items()}
        yield from zip(*(columns[name] for name in names), strict=True)


def _check_names(file: TableFile, names: Iterable[str]) -> None:
    known = set(file.names)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, file.names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{file.name}: there is no column {name!r}; {hint}{_columns(file)}")


def _columns(file: TableFile) -> str:
    if len(file.names) == 1:
        for separator, option in SEPARATORS.items():
            if separator in file.names[0]:
                return f"the only column is {file.names[0]!r}; try --separator '{option}'"
    return f"the columns are: {short_list(file.names, MAX_NAMES)}"


def _kinds(
    file: TableFile,
    converter: ArrowConverter,
    features: list[str],
    reading: Reading,
    model: ModelInput | None,
) -> dict[str, str]:
    """Determine the kinds of the features and the label."""
    if model is None:
        categories = [*reading.category, *filter(None, [reading.label])]
        return find_kinds(file, converter, features, categories)
    kinds = {}
    for j, name in enumerate(features):
        kind = KINDS[model.schema.kinds[j]]
        if kind == "category":
            kind = WHOLE if model.schema.categories[j].dtype.kind == "i" else TEXT
        kinds[name] = kind
    if reading.label is not None:
        kinds[reading.label] = TEXT if model.classes.dtype.kind == "U" else WHOLE
    return kinds


def _column(converter: ArrowConverter, kind: str, name: str) -> NumberColumn | CategoryColumn:
    numeric = kind in (BOOLEAN, NUMBER)
    return (NumberColumn if numeric else CategoryColumn)(converter, kind, name)


def _sequences(
    spool: Spool, columns: list[NumberColumn | CategoryColumn], offsets: np.ndarray
) -> LongSequences:
    categories = {}
    for j, column in enumerate(columns):
        if isinstance(column, CategoryColumn):
            categories[j], ranks = column.sorted_values()
            spool.ranks[j] = np.where(ranks == 0, np.nan, ranks)
    return LongSequences.of(
        spool,
        offsets,
        form="dense",
        n_features=len(columns),
        dtype=np.dtype(np.float64),
        names=tuple(column.name for column in columns),
        kinds=np.array([KINDS.index(column.kind) for column in columns], dtype=np.uint8),
        categories=categories,
    )
