"""Attributes of columns, made by the feature templates of CRF++ or the patterns of Wapiti."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from treecrf.datasets.lines import Lines, TextSource
from treecrf.inputs.forms import describe, is_frame
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.values import short_repr
from treecrf.preprocessing.patterns import (
    SYNTAXES,
    Columns,
    ShiftedColumns,
    Template,
    parse,
)
from treecrf.utils.messages import warn
from treecrf.utils.validation import DocumentationLink, StrOptions

EXPECTED = "expected sequences of rows of strings: lists, dicts, 2-D arrays or data frames"


class AttributeTemplates(
    DocumentationLink, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    r"""Make attributes of columns with the templates of CRF++ or the patterns of Wapiti.

    A template describes an attribute of each position. For example, ``U05:%x[-1,0]/%x[0,0]`` is
    this text with the values of column 0 at the position before and at the position itself, as in
    ``U05:in/Rome``. The estimators take the results as sequences.

    Parameters
    ----------
    templates : str or list of str
        The templates, one in each line. `from_file` reads them from a file.
    syntax : {"crf++", "wapiti"}, default="crf++"
        The language of the templates. Patterns of Wapiti also have these macros:

        - ``%X`` is the value in lower case.
        - ``%t`` and ``%m`` are a test and a match of a regular expression.
        - Offsets such as ``@1`` and ``@-1`` count from the start and the end of a sequence.

    See Also
    --------
    treecrf.datasets.read_conll : Read columns from files.
    treecrf.LinearCRF : The model of CRF++ and Wapiti.

    Notes
    -----
    The attributes are those of the two programs, including the names ``_B-1`` or ``_x-1`` of the
    positions before a sequence, and ``_B+1`` or ``_x+1`` after it. Lower case and the classes of
    Wapiti's expressions are those of Unicode characters, whereas Wapiti itself reads bytes.

    Templates of pairs of labels without a macro, such as ``B``, make no attributes, because the
    models always have transitions. A template such as ``B01:%x[0,0]``, or a ``*`` pattern of
    Wapiti, has weights for its attribute with pairs of labels in these programs. Here, it makes
    attributes like other templates, and `fit` warns of it. In a `treecrf.TreeCRF`, trees test all
    attributes together with the previous label. In a `treecrf.LinearCRF`, attributes have weights
    for labels, and with ``transition_features=True``, all of them also have weights for pairs.

    An attribute that two templates make at the same position counts once.

    References
    ----------
    .. [1] T. Kudo, CRF++: Yet Another CRF toolkit,
       <https://taku910.github.io/crfpp/>.
    .. [2] T. Lavergne, O. Cappé, F. Yvon, "Practical very large scale CRFs",
       ACL 2010.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from treecrf import LinearCRF
    >>> from treecrf.preprocessing import AttributeTemplates
    >>> templates = AttributeTemplates(["U00:%x[-1,0]", "U01:%x[0,0]/%x[0,1]", "B"])
    >>> X = [[["He", "PRP"], ["ran", "VBD"]], [["Dogs", "NNS"], ["ran", "VBD"]]]
    >>> templates.transform(X[:1])
    [[{'U00:_B-1': True, 'U01:He/PRP': True}, {'U00:He': True, 'U01:ran/VBD': True}]]
    >>> pipe = make_pipeline(templates, LinearCRF()).fit(X, [["NP", "VP"], ["NP", "VP"]])
    >>> pipe.predict([[["Dogs", "NNS"], ["ran", "VBD"]]])[0].tolist()
    ['NP', 'VP']
    """

    _parameter_constraints: ClassVar[dict] = {
        "templates": [str, list, tuple],
        "syntax": [StrOptions(set(SYNTAXES))],
    }
    _doc_link_template = DocumentationLink._doc_link_template.replace(
        "treecrf.{", "treecrf.preprocessing.{"
    )

    def __init__(self, templates: str | Sequence[str], *, syntax: str = "crf++"):
        self.templates = templates
        self.syntax = syntax

    @classmethod
    def from_file(
        cls, file: TextSource, *, syntax: str = "crf++", encoding: str = "utf-8"
    ) -> AttributeTemplates:
        r"""Read the templates of a file.

        Parameters
        ----------
        file : path-like or file object
            File to read, with templates of CRF++ or patterns of Wapiti.
        syntax : {"crf++", "wapiti"}, default="crf++"
            The language of the file.
        encoding : str, default="utf-8"
            Encoding of the file.

        Returns
        -------
        AttributeTemplates
            A transformer with these templates.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If a line is not a template, or there is no template. The message names the file and the
            line.

        Examples
        --------
        >>> import io
        >>> from treecrf.preprocessing import AttributeTemplates
        >>> file = io.StringIO('# words\n*\nu:%X[0,0]\nu:caps=%t[0,0,"^\\u"]\n')
        >>> templates = AttributeTemplates.from_file(file, syntax="wapiti")
        >>> templates.transform([[["Ada"]]])
        [[{'*': True, 'u:ada': True, 'u:caps=true': True}]]
        """
        lines = Lines(file, encoding)
        made = cls(list(lines), syntax=syntax)
        made._validate_params()
        parse(made.templates, syntax, lines.name)
        return made

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the templates. Nothing is learned from data.

        Parameters
        ----------
        X : object, optional
            Ignored.
        y : object, optional
            Ignored.

        Returns
        -------
        self : object
            The transformer.

        Raises
        ------
        ValueError, TypeError
            If a template is invalid. The message names the line.

        Warns
        -----
        UserWarning
            If templates describe attributes of pairs of labels.
        """
        pairs = [template for template in self._parsed() if template.has_pairs]
        if pairs:
            more = f", the first of {len(pairs)}," if len(pairs) > 1 else ""
            warn(
                f"templates, line {pairs[0].number}: {pairs[0].line!r}{more} is about pairs of "
                "labels; its attributes are the same as those of other templates, which a "
                "LinearCRF weighs for pairs if transition_features=True"
            )
        return self

    def transform(self, X: Any) -> list[list[dict[str, bool]]]:
        r"""Make the attributes of sequences.

        Parameters
        ----------
        X : list of sequences
            Each sequence is a list of rows of strings, a list of dicts as from
            `treecrf.datasets.read_conll`, a 2-D array of strings, a data frame, or, for a single
            column, a list of strings. Columns count from 0, in the order of the dict or data frame.

        Returns
        -------
        list of lists of dict
            The attributes of each position, each with the value True.

        Raises
        ------
        ValueError, TypeError
            If a template is invalid or refers to a column that X does not have, or if X is not a
            list of sequences whose rows have the same number of strings. The message names the
            sequence and the position.

        Examples
        --------
        >>> from treecrf.preprocessing import AttributeTemplates
        >>> AttributeTemplates("U:%x[0,0]\nU:%x[1,0]").transform([["a", "b"]])
        [[{'U:a': True, 'U:b': True}, {'U:b': True, 'U:_B+1': True}]]
        """
        columns, offsets = columns_of(X)
        rows = zip(*self.expanded(columns, offsets), strict=True)
        attributes = [dict.fromkeys(row, True) for row in rows]
        return [attributes[a:b] for a, b in pairwise(offsets)]

    def expanded(self, columns: Columns, offsets: list[int]) -> list[list[str]]:
        """Return the attributes of all positions, by template.

        Parameters
        ----------
        columns : list of lists of str
            Values of each column at all positions, one sequence after another.
        offsets : list of int
            Sequence i has the positions from ``offsets[i]`` to ``offsets[i + 1]``.

        Returns
        -------
        list of lists of str
            For each template that makes attributes, the attribute of each position.
        """
        templates = [template for template in self._parsed() if template.has_attributes]
        if not offsets[-1]:
            return []
        for template in templates:
            column = max((macro.column for macro in template.macros), default=0)
            if column >= len(columns):
                raise ValueError(
                    f"templates, line {template.number}: {template.line!r} reads column {column}; "
                    f"the sequences have {len(columns)}, which count from 0"
                )
        language = SYNTAXES[self.syntax]
        table = ShiftedColumns(columns, offsets, language.before, language.after)
        return [template.attributes(table) for template in templates]

    def stream(self) -> AttributeStream:
        """Return a stream that makes the attributes of a sequence online.

        Returns
        -------
        AttributeStream
            Its results are those of `transform`. They are delayed by the largest offset to the
            right in the templates.

        Raises
        ------
        ValueError
            If a pattern counts from the start or the end of a sequence.

        Examples
        --------
        >>> from treecrf.preprocessing import AttributeTemplates
        >>> stream = AttributeTemplates("U:%x[0,0]/%x[1,0]").stream()
        >>> stream.push("a"), stream.push("b"), stream.finish()
        (None, {'U:a/b': True}, [{'U:b/_B+1': True}])
        """
        return AttributeStream(self)

    def _parsed(self) -> list[Template]:
        """Return the templates; raises an error if one of them, or a parameter, is invalid."""
        self._validate_params()
        if isinstance(self.templates, str):
            return _parse_once(tuple(self.templates.splitlines()), self.syntax)
        for line in self.templates:
            if not isinstance(line, str):
                raise TypeError(f"templates holds {short_repr(line)}; expected strings")
        return _parse_once(tuple(self.templates), self.syntax)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.dict = True
        tags.input_tags.three_d_array = True  # a list of arrays
        return tags


@lru_cache(maxsize=16)
def _parse_once(lines: tuple[str, ...], syntax: str) -> list[Template]:
    return parse(lines, syntax)


class AttributeStream:
    """Makes the attributes of a sequence online, one position after another.

    `AttributeTemplates.stream` creates it.

    Parameters
    ----------
    transformer : AttributeTemplates
        The templates.

    Attributes
    ----------
    n_pushed : int
        Number of positions of the current sequence so far.
    delay : int
        Number of positions by which results lag behind: the largest offset to the right in the
        templates.

    Examples
    --------
    >>> from treecrf.preprocessing import AttributeTemplates
    >>> stream = AttributeTemplates("U:%x[0,0]/%x[1,0]").stream()
    >>> stream.delay
    1
    >>> stream.push("a"), stream.push("b")
    (None, {'U:a/b': True})
    >>> stream.finish()
    [{'U:b/_B+1': True}]
    """

    def __init__(self, transformer: AttributeTemplates):
        macros = [macro for template in transformer._parsed() for macro in template.macros]
        for macro in macros:
            if macro.is_absolute:
                raise ValueError(
                    "a pattern with @ counts from the start or the end of a sequence, which a "
                    "stream does not know"
                )
        self._transformer = AttributeTemplates(transformer.templates, syntax=transformer.syntax)
        offsets = [macro.offset for macro in macros]
        self._n_before = max(0, *(-offset for offset in offsets), 0)
        self.delay = max(0, *offsets, 0)
        self.reset()

    def reset(self) -> AttributeStream:
        """Start a new sequence, and forget the current one.

        Returns
        -------
        self : AttributeStream
            The stream.
        """
        self.n_pushed = 0
        self._rows: deque = deque(maxlen=self._n_before + 1 + self.delay)
        return self

    def push(self, row: Any) -> dict[str, bool] | None:
        """Add a position to the sequence.

        Parameters
        ----------
        row : object
            One position of the input: a list or an array of strings, a dict, or a string.

        Returns
        -------
        dict or None
            The attributes of the position ``delay`` steps before. None for the first ``delay``
            positions of a sequence.

        Raises
        ------
        ValueError, TypeError
            If the row does not have the same number of strings as those before. The stream then
            remains unchanged.
        """
        rows = [*self._rows, row]
        try:
            columns_of([rows])
        except (ValueError, TypeError) as error:
            message = re.sub(r"^sequence 0, position \d+", f"position {self.n_pushed}", str(error))
            raise type(error)(message) from None
        self._rows.append(row)
        self.n_pushed += 1
        if self.n_pushed <= self.delay:
            return None
        return self._attributes(len(self._rows) - 1 - self.delay)

    def finish(self) -> list[dict[str, bool]]:
        """End the sequence, and start a new one.

        Returns
        -------
        list of dict
            The attributes of the remaining positions, at most ``delay`` of them.
        """
        n = len(self._rows)
        results = [self._attributes(t) for t in range(n - min(self.delay, self.n_pushed), n)]
        self.reset()
        return results

    def _attributes(self, t: int) -> dict[str, bool]:
        """Return the attributes at an index of the rows that are kept."""
        return self._transformer.transform([list(self._rows)])[0][t]


# Rows of strings


def columns_of(X: Any) -> tuple[list[list[str]], list[int]]:
    """Return the columns of all sequences, and the first position of each sequence."""
    if isinstance(X, (str, Mapping)) or is_frame(X) or not isinstance(X, Iterable):
        raise TypeError(f"X is {describe(X)}; expected a list of sequences; treecrf.split makes it")
    items = [_rows_of(item, f"sequence {i}") for i, item in enumerate(X)]
    offsets = offsets_of(list(map(len, items)))
    rows = [row for item in items for row in item]
    if not rows:
        return [], offsets.tolist()
    columns = _columns_of_rows(rows, offsets)
    for j, column in enumerate(columns):
        if set(map(type, column)) != {str}:
            columns[j] = _strings(column, j, offsets)
    return columns, offsets.tolist()


def _rows_of(item: Any, where: str) -> list:
    """Return the rows of a sequence: strings, dicts, or lists of values."""
    if is_frame(item):
        import narwhals.stable.v2 as narwhals

        return narwhals.from_native(item, eager_only=True).rows()
    if isinstance(item, np.ndarray):
        if item.ndim in (1, 2):
            return item.tolist()
    elif isinstance(item, (list, tuple)):
        return list(item)
    raise TypeError(f"{where} is {describe(item)}; {EXPECTED}")


def _columns_of_rows(rows: list, offsets: np.ndarray) -> list[list]:
    """Return the columns of rows; ValueError if a row has another number of values."""
    if all(isinstance(row, str) for row in rows):
        return [rows]
    if isinstance(rows[0], Mapping):
        rows = _values_of_dicts(rows, offsets)
    for t, row in enumerate(rows):
        if not isinstance(row, (list, tuple, np.ndarray)):
            raise TypeError(f"{position_name(t, offsets)} is {describe(row)}; {EXPECTED}")
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{position_name(t, offsets)} has {len(row)} columns; expected {len(rows[0])}, as "
                "at the first position"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _values_of_dicts(rows: list, offsets: np.ndarray) -> list[tuple]:
    """Return the values of dicts in the order of the keys of the first one."""
    keys = list(rows[0])
    values = []
    for t, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != rows[0].keys():
            found = f"the keys {list(row)}" if isinstance(row, Mapping) else describe(row)
            raise ValueError(
                f"{position_name(t, offsets)} has {found}; expected {keys}, as at the first "
                "position"
            )
        values.append(tuple(row[key] for key in keys))
    return values


def _strings(column: list, j: int, offsets: np.ndarray) -> list[str]:
    """Return a column as plain strings; TypeError if a value is something else."""
    for t, value in enumerate(column):
        if not isinstance(value, str):
            raise TypeError(
                f"{position_name(t, offsets)}, column {j}: {short_repr(value)} is of type "
                f"{type(value).__name__}; templates work on strings"
            )
    return [str.__str__(value) for value in column]
