"""Model files that CRFsuite has written: linear models with the same weights.

A file begins with a header of 12 fields: "lCRF", the size of the file, "FOMC", the version, the
numbers of features, labels and attributes, and the places of the features, of the databases of
label and attribute names, and of two indices that are not needed here. Numbers are little-endian.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from treecrf.encoding.imputation import Imputation
from treecrf.inputs.column_names import ColumnNames
from treecrf.inputs.schema import NUMBER, InputSchema
from treecrf.learners.base.predictor import Predictor
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.chain import LinearChain
from treecrf.learners.linear.model import LinearModel, WeightLayout, are_weights
from treecrf.runtime import Labeler
from treecrf.utils.model_file import as_model_file_error, require

if TYPE_CHECKING:
    from treecrf.learners.linear.crf import LinearCRF

MAGIC = b"lCRF"
HEADER = struct.Struct("<4sI4s9I")
CHUNK = struct.Struct("<4s2I")  # name, size, number of features
# Kind (0 with an attribute, 1 with the label before), that attribute or label, label, and weight.
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])
# A database: name, size, flags, mark of the byte order, number of names, place of the table with
# the place of each name. Places are counted from the start of the database.
DATABASE = struct.Struct("<4s5I")
RECORD = struct.Struct("<2I")  # number and size of a name, which follows and ends with a zero byte


def labeler_of(content: bytes, name: str) -> Labeler:
    """Return a labeler with the model in a file of CRFsuite; ModelFileError if it is damaged."""
    classes, model = contents_of(content, name)
    chain = LinearChain(
        schema=model.attributes.schema,
        classes=classes,
        order=1,
        transitions=None,
        attributes=model.attributes,
        weights=model.weights,
    )
    return Labeler(Predictor(chain, "LinearCRF", "viterbi", None, None, ColumnNames(), None))


def estimator_of(content: bytes, name: str) -> LinearCRF:
    """Return the model as a fitted estimator; errors as `labeler_of`."""
    from treecrf.learners.linear.crf import LinearCRF

    classes, model = contents_of(content, name)
    estimator = LinearCRF(
        standardize=False,
        start_weights=False,
        all_possible_states=False,
        all_possible_transitions=False,
        decoding="viterbi",
    )
    names = np.array(model.attributes.schema.names, dtype=object)
    vars(estimator).update(
        classes_=classes,
        n_features_in_=len(names),
        feature_names_in_=names,
        _attributes=model.attributes,
        _weights=model.weights,
    )
    return estimator


def contents_of(content: bytes, name: str) -> tuple[np.ndarray, LinearModel]:
    """Return the labels, sorted, and the weights in a file; errors as `labeler_of`."""
    with as_model_file_error(name):
        header = HEADER.unpack_from(content)
        require(header[0] == MAGIC and header[2] == b"FOMC" and header[1] == len(content), "header")
        n_labels, n_attributes, features_place, labels_place, attributes_place = header[5:10]
        labels = names_of_database(content, labels_place, n_labels)
        attributes = names_of_database(content, attributes_place, n_attributes)
        return model_of(labels, attributes, features_in(content, features_place))


def names_of_database(content: bytes, place: int, n: int) -> list[str]:
    """Return the first n names of a database, in the order of their numbers."""
    mark, _, _, _, n_known, table = DATABASE.unpack_from(content, place)
    require(mark == b"CQDB" and n <= n_known, "names")
    names = []
    for number, offset in enumerate(np.frombuffer(content, "<u4", n, place + table).tolist()):
        start = place + offset + RECORD.size
        known_number, size = RECORD.unpack_from(content, place + offset)
        require(known_number == number and 0 < size <= len(content) - start, "names")
        names.append(content[start : start + size - 1].decode("utf-8"))
    require(len(set(names)) == n, "names")
    return names


def features_in(content: bytes, place: int) -> np.ndarray:
    """Return the weights and what they are of, an array of `FEATURE`."""
    mark, _, n = CHUNK.unpack_from(content, place)
    require(mark == b"FEAT", "features")
    features = np.frombuffer(content, FEATURE, n, place + CHUNK.size)
    require(are_weights(features["weight"]) and bool((features["kind"] <= 1).all()), "features")
    return features


def model_of(
    labels: list[str], attributes: list[str], features: np.ndarray
) -> tuple[np.ndarray, LinearModel]:
    """Return the labels and the attributes in the order of their names, with their weights."""
    classes, label_codes = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    require(len(classes) == len(labels) > 0, "labels")
    names = sorted(attributes)
    columns = {name: column for column, name in enumerate(names)}
    codes = np.array([columns[name] for name in attributes], dtype=np.int64)
    weights = WeightLayout(len(names), 1, len(classes), transition_features=False).weights()
    states = features[features["kind"] == 0]
    pairs = features[features["kind"] == 1]
    weights.labels[codes[states["source"]], 0, label_codes[states["label"]]] = states["weight"]
    previous = label_codes[pairs["source"]]
    weights.transitions[previous, label_codes[pairs["label"]]] = pairs["weight"]
    return classes, LinearModel(attributes_named(names), weights)


def attributes_named(names: list[str]) -> WindowAttributes:
    """Return attributes that are numbers, and 0 where a dict lacks them."""
    n = len(names)
    kinds = np.full(n, NUMBER, dtype=np.uint8)
    source = WindowAttributes((0, 0), standardize=False)
    source.window = (0, 0)
    source.schema = InputSchema("table", n, tuple(names), kinds, {})
    source.imputation = Imputation(np.zeros(n), np.zeros(0, dtype=np.intp), None)
    source.kept = np.arange(n)
    return source
