"""Names of the columns of labels, groups and weights in training, and templates of a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from treecrf.utils.model_file import require


@dataclass(frozen=True)
class FileTemplates:
    """How the command line makes attributes of the columns of a text file."""

    # Arguments of `treecrf.preprocessing.AttributeTemplates`.
    templates: tuple[str, ...]
    syntax: str
    # Number of columns before the label.
    n_columns: int

    @classmethod
    def from_state(cls, values: Any) -> FileTemplates:
        """Restore the templates from a saved model; raises ValueError if they are not valid."""
        names = {"templates", "syntax", "n_columns"}
        require(isinstance(values, dict) and values.keys() == names, "templates")
        lines = values["templates"]
        require(isinstance(lines, list) and all(isinstance(x, str) for x in lines), "templates")
        require(isinstance(values["syntax"], str), "templates")
        require(type(values["n_columns"]) is int and values["n_columns"] > 0, "templates")
        return cls(tuple(lines), values["syntax"], values["n_columns"])


@dataclass(frozen=True)
class ColumnNames:
    """Names of the columns that are not features, if they have names.

    The groups may also be several columns, or levels of the index. Columns without names may become
    attributes by templates.
    """

    label: str | None = None
    group: str | tuple[str, ...] | None = None
    weight: str | None = None
    fold: str | None = None
    templates: FileTemplates | None = None

    @property
    def names(self) -> set[str]:
        """All names."""
        if isinstance(self.group, str):
            groups = [self.group]
        else:
            groups = self.group or ()
        return {*groups, self.label, self.weight, self.fold} - {None}

    def state(self) -> dict[str, Any]:
        """Return the names for a saved model, which may lack all but labels and groups."""
        optional = "weight", "fold", "templates"
        state = {name: value for name, value in vars(self).items() if name not in optional or value}
        if self.templates is not None:
            state["templates"] = asdict(self.templates)
        return state

    @classmethod
    def from_state(cls, values: Any) -> ColumnNames:
        """Restore the names from a saved model; raises ValueError if they are not valid."""
        require(isinstance(values, dict) and values.keys() <= vars(NO_NAMES).keys(), "column names")
        restored = dict(values)
        if isinstance(values.get("group"), list):
            restored["group"] = tuple(values["group"])
        if "templates" in values:
            restored["templates"] = FileTemplates.from_state(values["templates"])
        names = cls(**restored)
        require(isinstance(names.group, (str, tuple, type(None))), "column names")
        require(all(isinstance(name, str) for name in names.names), "column names")
        return names


# Labels and groups that have no names.
NO_NAMES = ColumnNames()
