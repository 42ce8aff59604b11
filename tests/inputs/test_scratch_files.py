"""Arrays and objects in temporary files."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from support.open_files import open_files

from treecrf.inputs.large import scratch as module
from treecrf.inputs.large.scratch import Scratch
from treecrf.utils.allocation import pickled, relocated


@dataclass(frozen=True)
class Item:
    name: str
    large: np.ndarray
    others: dict


def test_allocated_arrays_are_zeros_that_can_be_written(tmp_path):
    scratch = Scratch(tmp_path)
    shapes = [(3, 5), 7, (0, 4), (2, 300, 1000)]
    arrays = [scratch.allocate(shape, np.int32) for shape in shapes]
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.zeros(shapes[i], np.int32), strict=True)
        array += i + 1
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.full(shapes[i], i + 1, np.int32), strict=True)
        assert array.ctypes.data % module.ALIGNMENT == 0 or not array.size
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_many_arrays_take_few_open_files(tmp_path):
    before = open_files()
    scratch = Scratch(tmp_path)
    arrays = [scratch.allocate(1000) for _ in range(2000)]
    stored = scratch.store(np.zeros(1000) for _ in range(2000))
    assert 0 < (open_files() - before).total() < 12
    del scratch, arrays, stored
    assert open_files() <= before


def test_objects_are_stored_with_their_arrays(tmp_path):
    rng = np.random.default_rng(0)
    items = [
        Item(f"item {i}", rng.normal(size=(100, 10 + i)), {
            "small": rng.normal(size=3),
            "columns": np.asfortranarray(rng.integers(0, 9, (2000, 3))),
            "strided": rng.normal(size=(2000, 4))[::2, 1:3],
            "repeated": np.broadcast_to(np.float64(2.5), 10**9),
            "strings": np.array(["a", "bcd"] * 3000),
            "objects": [None, "x"],
            "empty": np.zeros((0, 5)),
        })
        for i in range(3)
    ]  # fmt: skip
    stored = Scratch(tmp_path).store(iter(items))
    for item, kept in zip(items, stored, strict=True):
        loaded = kept()
        assert (loaded.name, loaded.others["objects"]) == (item.name, [None, "x"])
        np.testing.assert_array_equal(loaded.large, item.large, strict=True)
        assert not loaded.large.flags.writeable
        assert loaded.others["columns"].flags.f_contiguous
        repeated = loaded.others.pop("repeated")
        assert (repeated.shape, repeated.strides, repeated[0]) == ((10**9,), (0,), 2.5)
        for name in ("small", "columns", "strided", "strings", "empty"):
            np.testing.assert_array_equal(loaded.others[name], item.others[name], strict=True)


def test_objects_are_relocated(tmp_path):
    item = {"a": np.arange(5000.0), "b": np.arange(3), "c": np.array(["x", "yz"] * 2000)}
    scratch = Scratch(tmp_path)
    copied = relocated(item, scratch.allocate)
    for name, array in item.items():
        np.testing.assert_array_equal(copied[name], array, strict=True)
        assert not np.shares_memory(copied[name], array)
    copied["a"] += 1


def test_large_arrays_are_no_part_of_the_pickle():
    header, buffers = pickled({"a": np.zeros(10**5), "b": np.zeros(3)})
    assert len(header) < 1000
    assert [buffer.nbytes for buffer in buffers] == [8 * 10**5]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder for temporary files.*nowhere"):
        Scratch(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="expected a folder for temporary files"):
        Scratch(__file__)


def test_a_folder_that_is_not_writable_is_an_error_at_once(tmp_path, monkeypatch):
    # Root may write to all folders.
    monkeypatch.setattr(os, "access", lambda folder, mode: not mode & os.W_OK)
    with pytest.raises(PermissionError, match="for temporary files is not writable"):
        Scratch(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_with_numbers(tmp_path, monkeypatch, code):
    def full(file, n_bytes):
        raise OSError(code, "full")

    monkeypatch.setattr(module, "_fill", full)
    match = r"temporary files need 1,000,000 more bytes, but [\d,]+ are free: '.*'"
    with pytest.raises(OSError, match=match) as caught:
        Scratch(tmp_path).allocate(10**6, np.int8)
    assert (caught.value.errno, caught.value.filename) == (code, str(tmp_path))


def test_other_errors_of_the_system_are_not_changed(tmp_path, monkeypatch):
    def broken(file, n_bytes):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(module, "_fill", broken)
    with pytest.raises(OSError, match="broken"):
        Scratch(tmp_path).store([np.zeros(10**4)])


def test_a_file_is_as_large_as_needed_if_there_is_little_space(tmp_path, monkeypatch):
    sizes, fill = [], module._fill

    def little(file, n_bytes):
        sizes.append(n_bytes)
        if n_bytes > 10**6:
            raise OSError(errno.ENOSPC, "full")
        fill(file, n_bytes)

    monkeypatch.setattr(module, "_fill", little)
    array = Scratch(tmp_path).allocate(1000, np.int64)
    array += 1
    assert sizes == [module.MIN_FILE_BYTES, 8000]


@pytest.mark.parametrize("support", ["no call", "not by this file system"])
def test_space_is_reserved_without_the_call_of_the_system(tmp_path, monkeypatch, support):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    if support == "no call":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    array = Scratch(tmp_path).allocate(3 * 10**6, np.int8)
    assert not array.any()
    array += 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of resources")
def test_a_limit_on_the_size_of_files_is_an_error_not_the_end(tmp_path):
    code = (
        "import resource, sys, numpy as np\n"
        "from treecrf.inputs.large.scratch import Scratch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "Scratch(sys.argv[1]).allocate(1 << 19, np.int8)[:] = 1\n"
        "try:\n"
        "    Scratch(sys.argv[1]).store([np.ones(1 << 20)])\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "8,388,608 more bytes exceed the maximum size of a temporary file" in ended.stdout
