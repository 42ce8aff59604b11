"""Tables of CSV and Parquet files as sequences and labels."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from treecrf.cli.files.data import NO_SEQUENCES, FileData, FileText, ModelInput, Reading
from treecrf.inputs.csv_types import AS_TEXT, AS_WHOLE, ArrowConverter, KindFinder
from treecrf.inputs.dataset import ColumnNames
from treecrf.inputs.schema import KINDS
from treecrf.inputs.stored_tables import copied_columns, read_stored
from treecrf.inputs.table_sources import TableFile
from treecrf.inputs.values import short_list

# Maximum number of columns that an error message lists.
MAX_COLUMNS = 30
# Characters that separate columns in files named .csv, and how they are written as an option.
OTHER_SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}


def read_table(file: TableFile, reading: Reading, model: ModelInput | None) -> FileData:
    """Read a table in two passes, of which the first finds the kinds of columns.

    With a model, the model determines the kinds; columns are matched by name, and others are
    ignored. The message of an error states which column is missing or invalid.
    """
    reading = _with_columns_of(model, file, reading)
    converter = ArrowConverter(reading.missing)
    features = _features(file, reading, model)
    label = reading.label if reading.with_labels else None
    kinds = _kinds(file, converter, features, reading, model)
    stored = read_stored(file, converter, kinds, features, label, reading.group)
    if stored.sequences is None and not reading.may_be_empty:
        raise ValueError(f"{file.name}: the table has no rows")
    return FileData(
        stored.sequences or NO_SEQUENCES,
        stored.labels,
        stored.groups,
        is_table=True,
        columns=ColumnNames(reading.label, reading.group),
        missing_label=stored.missing_label,
        text=FileText(file.names, lambda chosen: copied_columns(file, converter, chosen)),
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
    _require_columns(file, [name for name in named if name is not None])
    if reading.label is not None and reading.label == reading.group:
        raise ValueError(f"--label and --group both name {reading.label!r}; expected two columns")
    others = {reading.label, reading.group, *reading.drop}
    if model is not None and model.schema.names is not None:
        _require_columns(file, model.schema.names)
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


def _require_columns(file: TableFile, names: Iterable[str]) -> None:
    known = set(file.names)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, file.names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{file.name}: there is no column {name!r}; {hint}{_columns(file)}")


def _columns(file: TableFile) -> str:
    if len(file.names) == 1:
        for separator, option in OTHER_SEPARATORS.items():
            if separator in file.names[0]:
                return f"the only column is {file.names[0]!r}; try --separator '{option}'"
    return f"the columns are: {short_list(file.names, MAX_COLUMNS)}"


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
        return KindFinder(converter, features, categories).read(file)
    kinds = {}
    for j, name in enumerate(features):
        kind = KINDS[model.schema.kinds[j]]
        if kind == "category":
            kind = AS_WHOLE if model.schema.categories[j].dtype.kind == "i" else AS_TEXT
        kinds[name] = kind
    if reading.label is not None:
        kinds[reading.label] = AS_TEXT if model.classes.dtype.kind == "U" else AS_WHOLE
    return kinds
