"""What to do next where the operating system refused, and nobody nearer had a better word."""

from __future__ import annotations

import errno
import os

_STEPS = {
    errno.EACCES: "See whose it is and who may: ls -ld on it and on the folders above it.",
    errno.EPERM: "See whose it is and who may: ls -ld on it and on the folders above it.",
    errno.EROFS: "That file system is mounted read-only: name a folder on another one.",
    errno.ENOSPC: "Free some space (df -h), or name a folder on another file system.",
    errno.EDQUOT: "Your quota is used up: free some space (quota -s), or name a folder on another file system.",
    errno.EMFILE: "Allow more open files: ulimit -n 4096",
    errno.EIO: "The disk or the mount fails: look at dmesg, and copy the files elsewhere.",
    errno.ELOOP: "A link leads back to itself: ls -l shows where.",
    errno.ENAMETOOLONG: "Name it shorter.",
    errno.ENOTDIR: "A part of that path is a file.",
}


def next_step(message: str) -> str | None:
    """Return what to do about an error of the system that a message quotes; None where it quotes none that is known."""
    return next((step for number, step in _STEPS.items() if os.strerror(number) in message), None)
