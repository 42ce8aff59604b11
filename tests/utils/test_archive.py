"""Archives of arrays: small files do not take much memory, and damaged ones raise known errors."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from support.model_files import npy, sealed_archive, zipped

import treecrf
from treecrf import ModelFileError, TreeCRF
from treecrf.utils import model_file
from treecrf.utils.model_file import CHECKSUM_BYTES, MAGIC, VERSION_BYTES, Archive, packed

ARRAYS = {
    "numbers": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "text": np.array(["", "longer", "\U0001f600"]),
    "empty": np.zeros((0, 4), dtype=bool),
    "scalar": np.float64(3.0),
    "big": np.arange(3, dtype=">i4"),
}
N_HEAD = len(MAGIC) + CHECKSUM_BYTES + VERSION_BYTES


def npy_with_header(description: str, data: bytes = b"") -> bytes:
    text = description.encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


@pytest.fixture(scope="module")
def content(letters, tmp_path_factory) -> bytes:
    """Archive of a small model."""
    path = tmp_path_factory.mktemp("saved") / "model"
    TreeCRF(window=1, max_iter=2, max_leaf_nodes=4).fit(*letters).save(path)
    return path.read_bytes()[N_HEAD:]


def load(content: bytes, folder) -> object:
    path = folder / "model"
    path.write_bytes(sealed_archive(content))
    return treecrf.load(path)


@pytest.mark.parametrize("write", [packed, lambda arrays: zipped(
    [(f"{name}.npy", npy(array)) for name, array in arrays.items()])])  # fmt: skip
def test_arrays_are_read_as_written(write):
    found = Archive(write(ARRAYS))
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.asarray(array).dtype.newbyteorder("=")
        assert found[name].flags.writeable


@pytest.mark.parametrize("array", [
    np.array([None]), np.array([b"a"]), np.zeros(2, "M8[D]"), np.zeros(2, dtype=[("a", float)]),
])  # fmt: skip
def test_other_types_are_not_written(array):
    with pytest.raises(ValueError, match="'a' holds values of type"):
        packed({"a": array})


def test_what_compresses_too_well_is_not_compressed(monkeypatch):
    monkeypatch.setattr(model_file, "MAX_BYTES", 20_000)
    arrays = {"zeros": np.zeros(100_000)}
    content = packed(arrays)
    assert len(content) > arrays["zeros"].nbytes
    np.testing.assert_array_equal(Archive(content)["zeros"], arrays["zeros"])


def test_bombs_are_refused(content, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "MAX_BYTES", 10**6)
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as target:
        target.writestr("more.npy", bytes(5 * 10**6))
    assert file.tell() < 30_000
    with pytest.raises(ModelFileError, match="too much memory for the size of the file"):
        load(file.getvalue(), tmp_path)


def test_members_that_are_not_of_the_model_are_not_read(content, tmp_path):
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as target:
        for name in ("more.npy", "forest.more.npy", "../../etc/passwd", "json"):
            target.writestr(name, b"\x93NUMPY garbage")
    load(file.getvalue(), tmp_path).predict(["abc"])


def npy_of(shape: str, data: bytes = b"", dtype: str = "<f8") -> bytes:
    return npy_with_header(
        f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}", data
    )


HEADERS = {
    "8 TB": npy_of("(1000000000000,)"),
    "negative": npy_of("(-1, -1)", bytes(8)),
    "empty text": npy_of("(1000000000000,)", dtype="<U0"),
    "long text": npy_of("(1,)", dtype="<U999999999"),
    "no type": npy_of("(3,)", bytes(21), dtype="<f7"),
    "long shape": npy_of("(" + "9" * 5000 + ",)"),
    "axes": npy_of("(" + "1," * 70 + ")", bytes(8)),
    "too few": npy_of("(3,)", bytes(16)),
    "too many": npy_of("(3,)", bytes(32)),
    "nested": npy_with_header("-" * 9000 + "1"),
    "parentheses": npy_with_header("(" * 9000),
    "long": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100),
    "version": b"\x93NUMPY\x03\x00" + npy(np.zeros(3))[8:],
    "records": npy(np.zeros(3, dtype=[("a", float)])),
    "booleans": npy_of("(3,)", b"\2\3\4", "|b1"),
    "characters": npy_of("(1,)", b"\xff" * 4, "<U1"),
    "nothing": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_do_not_fit_are_refused(name, tmp_path):
    content = zipped([("json.npy", HEADERS[name])])
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            load(content, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def changed(content: bytes, name: bytes, local: int, central: int, value: bytes) -> bytes:
    """Replace a field in both headers of a member."""
    out = bytearray(content)
    for mark, size, at in ((b"PK\x03\x04", 30, local), (b"PK\x01\x02", 46, central)):
        start = -1
        while out[start + size : start + size + len(name)] != name or start < 0:
            start = out.index(mark, start + 1)
        out[start + at : start + at + len(value)] = value
    return bytes(out)


FIELDS = {
    "method 99": (8, 10, struct.pack("<H", 99)),
    "bzip2": (8, 10, struct.pack("<H", zipfile.ZIP_BZIP2)),
    "lzma": (8, 10, struct.pack("<H", zipfile.ZIP_LZMA)),
    "stored": (8, 10, struct.pack("<H", zipfile.ZIP_STORED)),
    "encrypted": (6, 8, struct.pack("<H", 0x1)),
    "strongly encrypted": (6, 8, struct.pack("<H", 0x41)),
    "patched": (6, 8, struct.pack("<H", 0x20)),
    "checksum": (14, 16, b"\1\2\3\4"),
    "size": (22, 24, struct.pack("<I", 50)),
    "version": (4, 6, struct.pack("<H", 90)),
}


@pytest.mark.parametrize("field", FIELDS)
def test_members_of_other_kinds_are_refused(field, content, tmp_path):
    damaged = changed(content, b"classes.npy", *FIELDS[field])
    assert damaged != content
    with pytest.raises(ModelFileError):
        load(damaged, tmp_path)


def test_damaged_data_is_refused(content, tmp_path):
    start = content.index(b"json.npy") + 30
    for data in (b"\xff" * 20, bytes(20)):
        with pytest.raises(ModelFileError):
            load(content[:start] + data + content[start + 20 :], tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_the_same_name_are_refused(content, tmp_path):
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as target:
        target.writestr("classes.npy", npy(np.array(["q", "r", "s"])))
    with pytest.raises(ModelFileError, match="two members have the same name"):
        load(file.getvalue(), tmp_path)


def test_messages_do_not_repeat_the_contents(content, tmp_path):
    for name in ("class", "objective"):
        text = ('{"%s": "%s"}' % (name, "x" * 10**5)).encode()  # noqa: UP031
        with pytest.raises(ModelFileError) as refused:
            load(zipped([("json.npy", npy(np.frombuffer(text, np.uint8)))]), tmp_path)
        assert len(str(refused.value)) < 1000
