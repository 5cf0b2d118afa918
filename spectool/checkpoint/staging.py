"""A folder that appears whole or not at all.

It is filled under a hidden name beside its place, `.NAME.spectool-partial-XXXXXXXX`, and renamed when complete. Each
run holds a lock on its staging folder, which the kernel releases however the run ends; a staging folder of the same
NAME that nobody has locked was left by a killed run, and the next one removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Self

from spectool.checkpoint.libc import exchange
from spectool.errors import OutputError

_ATTEMPTS = 100  # each lost to another run that cleans up, in the moment between two calls


class Staging:
    """The hidden folder. Use it as a context: leaving it without `publish` removes it.

    Args:
        out: the folder to be, absolute; its missing parents are created on entry and removed when nothing is published.
        overwrite: whether `out` may exist, as an empty folder or one with a config.json.

    Raises:
        OutputError: `out` exists (on entry and again when publishing), or no staging folder can be made.

    """

    def __init__(self, out: Path, *, overwrite: bool) -> None:
        self.out = out
        self._overwrite = overwrite
        self._made: list[Path] = []
        self._lock = -1
        self.path = out

    def __enter__(self) -> Self:
        parent = self.out.parent
        try:
            _remove_leftovers(self.out)
            check_out(self.out, overwrite=self._overwrite)
            self._make_parents(parent)
            self.path, self._lock = _make_locked(self.out)
        except OSError as error:
            self._remove_parents()
            raise OutputError(f"{parent}: cannot be written: {error.strerror or error}") from error
        except BaseException:
            self._remove_parents()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)  # after publishing: the folder that was replaced, or nothing
        os.close(self._lock)
        self._remove_parents()

    def publish(self) -> None:
        """Put the complete folder in its place and make that last: fsync folder, rename, fsync parent.

        Raises:
            OutputError: `out` came into being meanwhile.
            OSError: the file system refused.

        """
        os.fsync(self._lock)
        check_out(self.out, overwrite=self._overwrite)
        if not os.path.lexists(self.out):
            os.rename(self.path, self.out)  # noqa: PTH104  # one place for all renames; tests record them
        elif not exchange(self.path, self.out):
            self._replace()
        for folder in [self.out.parent, *(made.parent for made in self._made)]:
            _fsync_folder(folder)
        self._made = []

    def _replace(self) -> None:
        """Replace `out` where the file system cannot exchange two folders: aside, in place, or back again."""
        aside = self.out.with_name(f".{self.out.name}.spectool-replaced-{secrets.token_hex(4)}")
        fd = _open_folder(self.out)
        try:
            _lock(fd)  # so that no other run takes it for a leftover
            os.rename(self.out, aside)  # noqa: PTH104 - as above: tests record renames in one place
            try:
                os.rename(self.path, self.out)  # noqa: PTH104 - as above: tests record renames in one place
            except BaseException:
                os.rename(aside, self.out)  # noqa: PTH104 - as above: tests record renames in one place
                raise
            shutil.rmtree(aside, ignore_errors=True)
        finally:
            os.close(fd)

    def _make_parents(self, parent: Path) -> None:
        missing: list[Path] = []
        while not parent.exists():
            missing.append(parent)
            parent = parent.parent
        for folder in reversed(missing):
            with suppress(FileExistsError):
                folder.mkdir()
                self._made.append(folder)

    def _remove_parents(self) -> None:
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()


def check_out(out: Path, *, overwrite: bool) -> None:
    """Raise `OutputError` unless a folder may be put at `out`."""
    if out.is_symlink():
        raise OutputError(f"{out}: is a symlink", hint="Name the folder itself, or a new one.")
    if not os.path.lexists(out):
        return
    if not out.is_dir():
        raise OutputError(f"{out}: exists and is a file", hint="Name a folder that does not exist yet.")
    if not overwrite:
        raise OutputError(
            f"{out}: exists already", hint="Name another folder, remove this one, or replace it with --force."
        )
    with os.scandir(out) as entries:
        names = {entry.name for entry in entries}
    if names and "config.json" not in names:
        raise OutputError(
            f"{out}: holds {len(names)} entries and no config.json, so it is no checkpoint and will not be replaced",
            hint="Remove it yourself if that is what you want.",
        )


def _make_locked(out: Path) -> tuple[Path, int]:
    """Make a staging folder and lock it; returns the path and the descriptor that holds the lock."""
    for _ in range(_ATTEMPTS):
        path = out.with_name(f".{out.name}.spectool-partial-{secrets.token_hex(4)}")
        with suppress(FileExistsError):
            # Not mkdtemp: its 0700 would stay on the output. mkdir leaves the mode to the umask.
            path.mkdir()
            # Between mkdir and lock, another run's clean-up may take the folder for a leftover.
            with suppress(FileNotFoundError):
                fd = _open_folder(path)
                if _lock(fd) is not False and path.exists():
                    return path, fd
                os.close(fd)
    raise OutputError(f"{out.parent}: no folder made here stays", hint="Is something removing new folders?")


def _lock(fd: int) -> bool | None:
    """Lock an open folder; False when another process has, None when the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_leftovers(out: Path) -> None:
    if not out.parent.is_dir():
        return
    pattern = re.compile(re.escape(f".{out.name}.spectool-") + r"(partial|replaced)-[0-9a-f]{8}")
    with os.scandir(out.parent) as entries:
        matches = [match for entry in entries if (match := pattern.fullmatch(entry.name))]
    for match in matches:
        path = out.with_name(match.string)
        try:
            fd = _open_folder(path)
        except OSError:  # gone, no folder, or not ours
            continue
        try:
            if not _lock(fd):  # without locks nobody can tell a leftover from a running neighbour
                continue
            if match[1] == "replaced" and not os.path.lexists(out):
                # Killed between two renames: this is the folder the user had.
                os.rename(path, out)  # noqa: PTH104 - as above: tests record renames in one place
            else:
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _fsync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # a parent may be a symlink
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
