"""Two calls of Linux that Python has no function for. Where one is missing the answer says so, and work goes on."""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_SYNC_FILE_RANGE_WRITE = 2


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where kernel, libc or file system cannot.

    Raises:
        OSError: it could, and refused.

    """
    import ctypes  # noqa: PLC0415  # costs start-up time that `--help` should not pay

    renameat2 = _function("renameat2")
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
        return False
    raise OSError(code, os.strerror(code), str(other))


def start_writeback(fd: int, start: int, nbytes: int) -> bool:
    """Ask the kernel to begin writing a range to the disk, without waiting for it; False where it cannot.

    It promises nothing (only fsync does), and is an error of nobody: a disk that fails says so at the fsync.
    """
    import ctypes  # noqa: PLC0415 - imported where needed: start-up stays quick

    sync_file_range = _function("sync_file_range")
    if sync_file_range is None:
        return False
    sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return bool(sync_file_range(fd, start, nbytes, _SYNC_FILE_RANGE_WRITE) == 0)


@cache
def _function(name: str) -> Any | None:
    import ctypes  # noqa: PLC0415 - imported where needed: start-up stays quick

    return getattr(ctypes.CDLL(None, use_errno=True), name, None)
