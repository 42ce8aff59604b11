"""Files are replaced as a whole, whoever writes them at the same time."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from treecrf.utils import model_file
from treecrf.utils.model_file import replace_file

posix = pytest.mark.skipif(os.name != "posix", reason="needs links, permissions and devices")


def test_temporary_files_of_others_do_not_matter(tmp_path, monkeypatch):
    """In containers, a process often has the number of one that was killed while saving."""
    path = tmp_path / "file"
    left = tmp_path / f"file.{os.getpid()}.tmp"
    left.write_bytes(b"half")
    replace_file(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert left.read_bytes() == b"half"


def test_threads_may_write_to_one_path(tmp_path):
    path, seen = tmp_path / "file", set()
    start = threading.Barrier(4)

    def write(k: int) -> None:
        start.wait()
        for _ in range(25):
            replace_file(path, bytes([k]) * 5000)
            seen.add(path.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert seen <= {bytes([k]) * 5000 for k in range(4)}
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_alone(step, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(model_file.os, step, fail)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_errors_name_the_file(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError) as error:
        replace_file(tmp_path / "missing" / "file", b"new")
    assert error.value.filename == str(tmp_path / "missing" / "file")

    def fail(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(model_file.os, "fsync", fail)
    with pytest.raises(OSError, match=re.escape(f"full: {str(tmp_path / 'file')!r}")):
        replace_file(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []


def test_long_names(tmp_path):
    path = tmp_path / ("\u00e9" * 127)
    replace_file(path, b"content")
    assert path.read_bytes() == b"content"


@posix
def test_permissions_stay(tmp_path):
    path = tmp_path / "file"
    replace_file(path, b"old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    for content in (b"old", b"new"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        replace_file(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content


@posix
def test_only_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, os.devnull):
        with pytest.raises(OSError, match="not a regular file"):
            replace_file(path, b"content")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path, b"content")
    assert os.listdir(tmp_path) == ["pipe"]
