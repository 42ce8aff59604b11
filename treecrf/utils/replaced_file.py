"""Files that are replaced as a whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from os import PathLike

# Characters of a name that its temporary name repeats: names have at most 255 bytes.
MAX_REPEATED = 40


def replace_file(path: str | PathLike, content: bytes) -> None:
    """Write a file under a temporary name and rename it.

    A link stays and its target is replaced. The permissions of an existing file remain. Whatever
    happens, the path holds the old or the new content.

    Parameters
    ----------
    path : path-like
    content : bytes

    Raises
    ------
    OSError
        If the file cannot be written, or the path exists but is not a file, such as a device.
    """
    target = os.path.realpath(os.fsdecode(path))
    exists = _is_regular(target)
    # Neither process numbers nor times are unique: containers share folders, threads share numbers.
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f"{name[:MAX_REPEATED]}.{secrets.token_hex(8)}.tmp")
    with _removed_on_error(temporary):
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if exists:
            shutil.copymode(target, temporary)
        os.replace(temporary, target)


def _is_regular(path: str) -> bool:
    """Return whether a file exists; raises OSError if the path is not a regular file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return True


@contextlib.contextmanager
def _removed_on_error(path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
