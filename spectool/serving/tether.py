"""Replace this process by an engine that gets SIGTERM when spectool dies. Run as a file, on Linux only.

A spectool that is killed (`kill -9`, out of memory) cannot stop its engine; the kernel can, if the engine asked for it.
The wish survives exec, so a script between them asks: doing it in a fork of a threaded program is not safe.

    python tether.py PARENT_PID PROGRAM ARGUMENT ...
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, argv: list[str]) -> None:
    """Ask for the signal, then become the engine."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the wish
        sys.exit(128 + signal.SIGTERM)
    try:
        os.execv(argv[0], argv)  # noqa: S606 - no shell is meant
    except OSError as error:
        sys.stderr.write(f"cannot run {argv[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
