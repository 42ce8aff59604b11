"""Files of C code that label sequences as a fitted model does."""

from __future__ import annotations

import os
import re
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treecrf._version import __version__
from treecrf.export.c_text import (
    array_of_blocks,
    array_of_strings,
    arrays_of,
    macros_of,
)
from treecrf.export.columns import LabelerColumns
from treecrf.export.linear import (
    ValueWeights,
    is_number_added,
    scale_tables,
    weights_of_linear,
    weights_of_symbols,
)
from treecrf.export.parts import Parts, parts_of
from treecrf.export.strings import encoded, string_tables
from treecrf.export.tables import Tables
from treecrf.export.transitions import transition_tables
from treecrf.export.trees import ForestTables
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.utils.model_file import replace_file

TEMPLATES = Path(__file__).parent / "templates"
# Beginning of all files that `export_c` has written.
MARK = "/* Written by treecrf "
# Names that functions and macros may begin with.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Values of ``decoding``, in the order of their numbers in the template.
DECODINGS = ("marginal", "viterbi", "minimum_risk", "greedy")
# Largest numbers that linear models, and all others, take.
MAX_LINEAR = 1e100
MAX_FLOAT = float(np.finfo(np.float64).max)
# Constants of the template that only some models define.
DEFAULTS = dict.fromkeys(
    (
        "HAS_LINEAR", "HAS_LINEAR_FILLS", "HAS_RANGES", "HAS_RULES", "HAS_SCALES", "HAS_SETS",
        "HAS_TRANSITIONS", "HAS_TREES", "HAS_TREE_FILLS", "IS_MULTI_OUTPUT", "N_TESTS",
    ),
    0,
) | {"MAX_VISITS": 1, "TRANSITIONS_ARE_NEAR": 1}  # fmt: skip


def export_c(
    model: SequenceClassifier, path: str | PathLike[str], *, name: str | None = None
) -> None:
    """Write a fitted model as C code that labels sequences, without dependencies.

    The code is C99. It uses only ``<math.h>`` and ``<string.h>``, allocates no memory, and writes
    to no global variable. The header describes its functions. Labels and probabilities are those of
    ``predict`` and ``predict_proba`` of the model. :doc:`/guide/c_export` shows how to call the
    code from C and from other languages.

    Parameters
    ----------
    model : estimator
        A fitted model of trees, a linear model, or a hidden Markov model. The code labels sequences
        by its parameters of prediction, such as ``decoding``.
    path : str or path-like
        File to write, with the extension ``.c``. The header is written beside it, with the
        extension ``.h``. Existing files are replaced only if this function has written them, or if
        they are empty.
    name : str, default=None
        Beginning of the names of functions and, in upper case, of macros. By default, this is the
        name of the file without its extension.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    NotImplementedError
        If C code does not support the model: one with a beam, a kernel, transition features, or an
        estimator of rows. The message says what to do.
    ValueError
        If the extension or the name is invalid, or a file exists that was not written by this
        function.
    OSError
        If a file cannot be written.

    See Also
    --------
    load : Load a saved model in Python.
    treecrf.runtime.load : The same without scikit-learn.

    Examples
    --------
    >>> import pathlib, tempfile, treecrf
    >>> crf = treecrf.LinearCRF().fit(["abab", "ba"], ["xyxy", "yx"])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "letters.c"
    >>> treecrf.export_c(crf, path)
    >>> sorted(file.name for file in path.parent.iterdir())
    ['letters.c', 'letters.h']
    >>> function = "int letters_predict(void *workspace, int32_t *labels)"
    >>> function in path.read_text()
    True
    """
    check_is_fitted(model, "classes_")
    source = Path(os.fsdecode(path))
    if source.suffix != ".c":
        raise ValueError(f"{source}: expected a file with the extension .c")
    if name is None:
        name = source.stem
    if not NAME.fullmatch(name):
        raise ValueError(
            f"name={name!r}; expected a letter, followed by letters, digits and underscores"
        )
    header = source.with_suffix(".h")
    texts = c_code(parts_of(model), name, header.name)
    files = (source, header)
    for file in files:
        _refuse_others(file)
    for file, text in zip(files, texts, strict=True):
        replace_file(file, text.encode())


def _refuse_others(file: Path) -> None:
    """Raise ValueError if a file exists that was not written by `export_c`."""
    if not file.is_file():
        return
    with open(file, "rb") as opened:
        beginning = opened.read(len(MARK))
    if beginning and beginning != MARK.encode():
        raise ValueError(
            f"{file}: the file exists and was not written by export_c; it is not overwritten"
        )


# Text


def c_code(parts: Parts, name: str, header: str) -> tuple[str, str]:
    """Return the texts of the source and of the header, which has this file name."""
    columns, tables = tables_of(parts)
    strings, blocks = string_tables(columns)
    texts = [
        macros_of(tables | strings),
        array_of_strings(
            f"const char *const {name}_labels[{len(parts.classes)}]",
            [encoded(str(label)) for label in parts.classes.tolist()],
        ),
        arrays_of(tables | strings),
    ]
    if blocks:
        size = int(strings.constants["BLOCK_OF_CHARACTERS"])
        texts.append(array_of_blocks("characters", blocks, size))
    sizes = {
        "N_LABELS": len(parts.classes),
        "N_COLUMNS": len(columns.chosen),
        "ORDER": parts.order,
    }
    declared = Tables({f"{name.upper()}_{size}": n for size, n in sizes.items()})
    title = f"{MARK}{__version__} from a {parts.name}. */\n"
    return (
        title + filled("labeler.c", name, header, "tables", "\n\n".join(texts)),
        title + filled("labeler.h", name, header, "constants", macros_of(declared)),
    )


def filled(template: str, name: str, header: str, place: str, text: str) -> str:
    """Return a template with another name of the labeler, and with text in its place."""
    code = (TEMPLATES / template).read_text(encoding="utf-8")
    code = code.replace('#include "labeler.h"', f'#include "{header}"')
    code = re.sub(r"\blabeler_", f"{name}_", code)
    code = re.sub(r"\bLABELER_", f"{name.upper()}_", code)
    before, after = code.split(f"/* @{place}@ */")
    return before + text + after


# Tables


def tables_of(parts: Parts) -> tuple[LabelerColumns, Tables]:
    """Return the columns of a labeler, and all tables but those of strings."""
    scores = parts.scores
    forest = None if scores.trees is None else ForestTables(*scores.trees)
    weights = _weights_of(parts)
    used = [] if forest is None else [forest.tests.values]
    if weights is not None:
        used = [*used, weights.values]
    columns = LabelerColumns.of(parts.schema, used)
    visits_all = scores.linear is not None and is_number_added(scores.linear.attributes)
    tables = Tables(dict(DEFAULTS)) | columns.tables(visits_all)
    if forest is not None:
        tables |= forest.tables(columns, parts.name)
    if weights is not None:
        tables |= weights.tables(columns)
    if scores.linear is not None:
        tables |= scale_tables(scores.linear.attributes, columns)
    has_table = bool(tables.constants["HAS_SETS"]) or (scores.is_local and parts.order > 0)
    return columns, tables | _settings(parts, has_table) | transition_tables(parts, has_table)


def _weights_of(parts: Parts) -> ValueWeights | None:
    """Return the weights of values, of a linear model or of symbols, other than 0."""
    if parts.scores.linear is not None:
        return weights_of_linear(parts.scores.linear, parts.schema).useful()
    if parts.scores.by_symbol is not None:
        return weights_of_symbols(parts.scores.by_symbol).useful()
    return None


def _settings(parts: Parts, has_table: bool) -> Tables:
    """Return what follows from the kind of the model and from its parameters."""
    decoding = parts.decoding
    if decoding == "greedy" and parts.order == 0:
        decoding = "viterbi"  # which is the best label at each position, too
    linear = parts.scores.linear
    is_limited = linear is not None and not linear.attributes.is_cut
    constants = {
        "N_CONTEXTS": len(parts.classes) ** parts.order,
        "HAS_TABLE": int(has_table),
        "IS_LOCAL": int(parts.scores.is_local and parts.order > 0),
        "IS_BACKWARD": int(parts.is_backward),
        "ROUNDS_LINEAR": int(parts.scores.rounds_linear),
        "LIMIT": MAX_LINEAR if is_limited else MAX_FLOAT,
        "DECODING": DECODINGS.index(decoding),
    }
    arrays = {"costs": parts.costs} if decoding == "minimum_risk" else {}
    return Tables(constants, arrays)
