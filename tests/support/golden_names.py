"""Signatures of all public names, and error messages that users meet."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask.dataframe
import numpy as np
import pandas as pd
from support.golden_fits import cluster

import treecrf
from treecrf import LinearCRF, TreeCRF
from treecrf.dask import DaskTreeCRF

MODULES = (
    "",
    "annotation",
    "callbacks",
    "crfsuite",
    "dask",
    "datasets",
    "inspection",
    "metrics",
    "papers",
    "plotting",
    "preprocessing",
    "runtime",
)


def public_objects() -> dict[str, Any]:
    """Return all public objects by their names, with that of their module."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"treecrf.{name}".rstrip("."))
        found |= {f"{module.__name__}.{key}": getattr(module, key) for key in module.__all__}
    return found


def signatures() -> dict[str, str]:
    """Return the parameters of public functions, classes and methods, and the type of others."""
    found = {}
    for name, value in public_objects().items():
        found[name] = _signature(value)
        if inspect.isclass(value):
            found |= {f"{name}.{key}": text for key, text in _members(value)}
    return found


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class that the package defines."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("treecrf.")]
    for name in sorted({key for base in own for key in vars(base) if not key.startswith("_")}):
        member = inspect.getattr_static(kind, name)
        # Of class methods, and of methods that only some instances have.
        member = getattr(member, "__func__", getattr(member, "fn", member))
        if isinstance(member, property):
            yield name, "property"
        elif inspect.isfunction(member):
            yield name, _signature(member)


def _signature(value: Any) -> str:
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return type(value).__name__
    signature = inspect.signature(value)
    empty = inspect.Parameter.empty
    parameters = [one.replace(annotation=empty) for one in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=empty))
    return re.sub(r" at 0x\w+", "", text)


# Error messages

X, Y = ["banana", "panama", "cabana"], ["cvcvcv", "cvcvcv", "cvcvcv"]
TABLE = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
FRAME = pd.DataFrame({"word": list("abcabc"), "tag": list("xyxyxy"), "doc": [1, 1, 2, 2, 3, 3]})
TAGGED = {"y": "tag", "groups": "doc"}
ENDLESS: dict = {}
ENDLESS["a"] = ENDLESS
Raises = Callable[[Path], Any]  # takes an empty folder


def fitted(X: Any = X, y: Any = Y, *args: Any, **given: Any) -> TreeCRF:
    return TreeCRF(max_iter=2, early_stopping=False).fit(X, y, *args, **given)


def fit(*args: Any, **given: Any) -> Raises:
    return lambda folder: fitted(*args, **given)


def in_parts(*args: Any, **given: Any) -> Raises:
    return lambda folder: fitted(*args, scratch=folder, **given)


def of_files(*contents: str, ending: str = "csv", **given: Any) -> Raises:
    def raises(folder: Path) -> None:
        for i, content in enumerate(contents):
            (folder / f"{i}.{ending}").write_text(content)
        fitted(sorted(folder.iterdir()), **TAGGED | given)

    return raises


def on_dask(*parts: pd.DataFrame, **given: Any) -> Raises:
    table = dask.dataframe.from_map(lambda part: part, parts, meta=parts[0][:0])
    return lambda folder: DaskTreeCRF(max_iter=2).fit(table, **TAGGED | given)


def setting(kind: type = TreeCRF, **parameters: Any) -> Raises:
    return lambda folder: kind(**{"max_iter": 2} | parameters).fit(X, Y)


def damaged(change: Callable[[bytes], bytes]) -> Raises:
    def raises(folder: Path) -> None:
        fitted().save(path := folder / "model.treecrf")
        path.write_bytes(change(path.read_bytes()))
        treecrf.load(path)

    return raises


ERRORS: dict[str, Raises] = {
    # X
    "one string": fit("banana"),
    "no sequences": fit([], []),
    "only empty sequences": fit(["", ""], ["", ""]),
    "mixed forms": fit(["ab", [[1.0], [2.0]]], ["xy", "xy"]),
    "different numbers of features": fit([[[1.0, 2.0]], [[1.0]]], ["x", "y"]),
    "infinite values": fit([[[np.inf], [1.0]]], ["xy"]),
    "too many dimensions": fit([np.zeros((2, 2, 2))], ["xy"]),
    "bytes": fit([b"ab"], ["xy"]),
    "mixed symbols": fit([["a", 1]], ["xy"]),
    "all symbols missing": fit([[None, None]], ["xy"]),
    "a dict with a list": fit([[{"a": [1]}, {"a": 2}]], ["xy"]),
    "a dict in itself": fit([[ENDLESS, {"a": 2}]], ["xy"]),
    "a set with two kinds": fit([[{"a": {"u"}}, {"a": {"u", 2}}]], ["xy"]),
    "frames with other columns": fit([FRAME[["word"]], FRAME[["doc"]]], ["xyxyxy", "xyxyxy"]),
    # y
    "fewer labels": fit(X, Y[:2]),
    "a short label sequence": fit(X, ["cv", *Y[1:]]),
    "one label": fit(X, ["cccccc"] * 3),
    "mixed labels": fit(X, [list("cvcvcv"), [1] * 6, [2] * 6]),
    "real labels": fit(X, [[0.5] * 6] * 3),
    "no known labels": fit(X, [None] * 3),
    "an empty set of labels": fit(X, [[set(), *"vcvcv"], *Y[1:]]),
    # Long tables
    "both lengths and groups": fit(FRAME, "tag", groups="doc", lengths=[6]),
    "neither lengths nor groups": fit(FRAME, "tag"),
    "wrong lengths": fit(np.zeros((6, 2)), list("xyxyxy"), lengths=[2, 3]),
    "groups that return": fit(np.zeros((6, 2)), list("xyxyxy"), groups=[1, 1, 2, 2, 1, 1]),
    "an unknown column of labels": fit(FRAME, "label", groups="doc"),
    "an unknown column of groups": fit(FRAME, "tag", groups="document"),
    # Other arguments
    "fewer weights": fit(sample_weight=[1.0]),
    "negative weights": fit(sample_weight=[1.0, -1.0, 1.0]),
    "weights of 0": fit(sample_weight=[0.0, 0.0, 0.0]),
    "X_val alone": fit(X, Y, X),
    "unseen validation labels": fit(X, Y, X, ["zzzzzz"] * 3),
    "allowed of another shape": fit(allowed=[np.ones((6, 3), dtype=bool)] * 3),
    "labels not allowed": fit(allowed=[np.tile([True, False], (6, 1))] * 3),
    "scores of another shape": fit(init_score=[np.zeros((6, 3))] * 3),
    # Parameters
    "a negative order": setting(order=-1),
    "a wide window": setting(window=(1, 2, 3)),
    "an unknown objective": setting(objective="hinge"),
    "a beam on samples": setting(beam_width=2, sampling=0.1),
    "a beam with an objective": setting(beam_width=2, objective="exponential"),
    "constant transitions of order 0": setting(constant_transitions=True, order=0),
    "a label without weight": setting(class_weight={"z": 1.0}),
    "wrong transitions": setting(transitions=np.ones((2, 3), dtype=bool)),
    "forbidden labels": setting(transitions=np.eye(2, dtype=bool)),
    "a scheme for other labels": setting(transitions="bio"),
    "monotonic symbols": setting(monotonic_cst={0: 1}),
    "a start of another kind": setting(init=treecrf.HMMClassifier()),
    "warm start with another order": lambda folder: fitted().set_params(
        warm_start=True, order=2, max_iter=4).fit(X, Y),
    "too many contexts": setting(order=60),
    "unknown labels of a perceptron": lambda folder: treecrf.StructuredPerceptron().fit(
        X, [None, *Y[1:]]),
    "numbers in an HMM": lambda folder: treecrf.HMMClassifier().fit(TABLE, ["xy", "y"]),
    "sgd with l1": setting(LinearCRF, solver="sgd", l1_regularization=1.0),
    # Prediction
    "unfitted": lambda folder: TreeCRF().predict(X),
    "another form": lambda folder: fitted().predict(TABLE),
    "other features": lambda folder: fitted(TABLE, ["xy", "y"]).predict([[[1.0, 2.0, 3.0]]]),
    "a missing column": lambda folder: fitted(FRAME, "tag", groups="doc").predict(
        FRAME[["tag", "doc"]]),
    "a column of another kind": lambda folder: fitted(FRAME, "tag", groups="doc").predict(
        FRAME.assign(word=1.5)),
    "unseen labels": lambda folder: fitted().predict_log_likelihood(X, ["zzzzzz"] * 3),
    "an unknown known label": lambda folder: fitted().predict(["ab"], known=[["z", None]]),
    "nothing allowed": lambda folder: fitted().predict(
        ["ab"], allowed=[np.zeros((2, 2), dtype=bool)]),
    # Files and other parts
    "no file": lambda folder: fitted(folder / "missing.csv", **TAGGED),
    "a pattern of no file": lambda folder: fitted(f"{folder}/*.csv", **TAGGED),
    "another ending": of_files("", ending="xyz"),
    "an empty CSV file": of_files(""),
    "a short row": of_files("word,doc,tag\na,1,x\nb,1\n"),
    "a damaged Parquet file": of_files("PAR1", ending="parquet"),
    "no column of labels": of_files("word,doc\na,1\nb,1\n"),
    "no column of groups": of_files("word,tag\na,x\nb,y\n"),
    "no groups of a file": of_files("word,doc,tag\na,1,x\nb,1,y\n", groups=None),
    "no features": of_files("doc,tag\n1,x\n1,y\n"),
    "one label in all files": of_files("word,doc,tag\na,1,x\n", "word,doc,tag\na,2,x\n"),
    "groups that return in a file": of_files("word,doc,tag\na,1,x\nb,2,y\nc,1,x\n"),
    "groups that return in another file": of_files(
        "word,doc,tag\na,1,x\nb,2,y\n", "word,doc,tag\na,3,x\nb,1,y\n"),
    "files of other columns": of_files("word,doc,tag\na,1,x\n", "name,doc,tag\na,2,y\n"),
    "infinite values in a file": of_files("n,doc,tag\n1.0,1,x\ninf,1,y\n"),
    "scratch of no folder": lambda folder: fitted(scratch=folder / "missing"),
    "scratch, a short label sequence": in_parts(X, ["cv", *Y[1:]]),
    "scratch, mixed forms": in_parts(["ab", [[1.0], [2.0]]], ["xy", "xy"]),
    "scratch, infinite values": in_parts([[[1.0]], [[np.inf]]], ["x", "y"]),
    "scratch, unseen validation labels": in_parts(X, Y, X, ["zzzzzz"] * 3),
    "scratch, fewer weights": in_parts(sample_weight=[1.0]),
    "Dask, data in memory": lambda folder: DaskTreeCRF().fit(FRAME, **TAGGED),
    "Dask, no such column": on_dask(FRAME[:2], FRAME[2:], y="label"),
    "Dask, one label": on_dask(FRAME[:1], FRAME[2:3]),
    "Dask, a group in two partitions": on_dask(FRAME[:3], FRAME[3:]),
    "Dask, partitions of other kinds": on_dask(FRAME[:2], FRAME[2:].assign(word=1.5)),
    # Model files
    "another file as model": damaged(lambda content: b"a,b\n"),
    "half a model file": damaged(lambda content: content[: len(content) // 2]),
    "a changed model file": damaged(lambda content: content[:-1] + bytes([content[-1] ^ 1])),
    "an empty model file": damaged(lambda content: b""),
}  # fmt: skip
# Errors whose reason is in the words of another library, after the file.
OF_OTHERS = ("an empty CSV file", "a short row", "a damaged Parquet file")


def messages() -> dict[str, str]:
    """Return the type and the text of each error, without the folder of the files."""
    with cluster():
        found = {name: _message(raises) for name, raises in ERRORS.items()}
    for name in OF_OTHERS:
        found[name] = ": ".join(found[name].split(": ")[:2])
    return found


def _message(raises: Raises) -> str:
    with TemporaryDirectory() as folder:
        try:
            raises(Path(folder))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".replace(folder, "<folder>")
            # scikit-learn lists the options of a parameter in any order.
            return re.sub(r"\{(.*?)\}", lambda match: _in_order(match[1]), text)
    return "no error"


def _in_order(options: str) -> str:
    return "{" + ", ".join(sorted(options.split(", "))) + "}"
