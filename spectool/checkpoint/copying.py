"""Fill one output file from front to back: copies in the kernel, transformed pieces of a few MiB.

Failures of the source are `SourceError`; an `OSError` that leaves this module is the output's (disk full, quota, ...).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from spectool.checkpoint.bf16 import map_bf16
from spectool.checkpoint.content import Content, FileRange, Inline, Overlaid, PermutedColumns, ScaledBF16, Zeros
from spectool.checkpoint.libc import start_writeback
from spectool.checkpoint.sources import Source, Sources

BUFFER_BYTES = 2**20
"""The one buffer of a run; what is transformed passes through it."""

BLOCK_BYTES = 2**16
"""A kernel copy is fast where source and output lie alike modulo this size, the kernel's own piece: measured on ext4
(Linux 6.18), a copy shifted by 8 bytes takes twice the time. `spectool.checkpoint.layout` pads headers to get there."""

PIECE_BYTES = 2**17
"""One read and write of the copy through the buffer. Measured: no slower than the kernel at this size if the output is
written in whole pieces, and half as fast from 512 KiB on, where a piece no longer stays in the processor's cache."""

KERNEL_BYTES = 2**24
"""One kernel copy: long enough to cost nothing, short enough that digest and disk follow at once. The disk is told to
begin after as much: left to itself it waits for the fsync, and has nothing to do while the processor copies."""

SCALE_BYTES = 2**18

# Only these are surely the output's failures. All others (no such call, two file systems, a special file, a bug of a
# network file system) mean that the kernel will not copy; the loop then shows whether reading or writing fails.
_OUTPUT_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Sink:
    """One output file being filled.

    Args:
        fd: the file, open for writing.
        sources: where contents are read from.
        buffer: `BUFFER_BYTES` bytes to work in.
        advanced: called with the number of bytes that the file has grown by.

    """

    def __init__(self, fd: int, sources: Sources, buffer: bytearray, advanced: Callable[[int], None]) -> None:
        self._fd = fd
        self._sources = sources
        self._buffer = memoryview(buffer)
        self._advanced = advanced
        self._position = 0
        self._on_its_way = 0

    def append(self, content: Content) -> None:
        """Write a content's bytes at the end of the file.

        Raises:
            SourceError: its source file cannot be read, is too short, or shrank.
            OSError: the output cannot be written.

        """
        if isinstance(content, Inline):
            self._write(memoryview(content.data))
        elif isinstance(content, Zeros):
            self._write_zeros(content.nbytes)
        else:
            source = self._sources.get(content.file)
            source.check_range(content.start, content.nbytes)
            if isinstance(content, FileRange):
                self._copy(source, content.start, content.nbytes)
            elif isinstance(content, PermutedColumns):
                self._permute(source, content)
            elif isinstance(content, Overlaid):
                self._copy(source, content.start, content.at)
                self._write(memoryview(content.data))
                done = content.at + len(content.data)
                self._copy(source, content.start + done, content.nbytes - done)
            else:
                self._scale(source, content)

    def _write(self, data: memoryview) -> None:
        while data:
            count = os.pwrite(self._fd, data[: self._piece(len(data))], self._position)
            self._moved(count)
            data = data[count:]

    def _piece(self, left: int) -> int:
        """Return how many bytes to write at once: up to the end of a whole piece of the output."""
        return min(left, PIECE_BYTES - self._position % PIECE_BYTES)

    def _moved(self, count: int) -> None:
        self._position += count
        whole = self._position - self._position % BLOCK_BYTES
        if whole - self._on_its_way >= KERNEL_BYTES:
            start_writeback(self._fd, self._on_its_way, whole - self._on_its_way)
            self._on_its_way = whole
        self._advanced(count)

    def _write_zeros(self, nbytes: int) -> None:
        self._buffer[: min(nbytes, BUFFER_BYTES)] = bytes(min(nbytes, BUFFER_BYTES))
        while nbytes:
            count = min(nbytes, BUFFER_BYTES)
            self._write(self._buffer[:count])
            nbytes -= count

    def _copy(self, source: Source, start: int, nbytes: int) -> None:
        end = start + nbytes
        while start < end:
            count = self._copy_in_kernel(source, start, end - start)
            if count == 0:
                # The kernel cannot do it well, or will not; or the source shrank, which reading finds out.
                count = self._piece(end - start)
                piece = self._buffer[:count]
                source.read_into(piece, start)
                self._write(piece)
            start += count

    def _copy_in_kernel(self, source: Source, start: int, nbytes: int) -> int:
        if start % BLOCK_BYTES or self._position % BLOCK_BYTES or nbytes < BLOCK_BYTES:
            return 0
        try:
            count = os.copy_file_range(source.fd, self._fd, min(nbytes, KERNEL_BYTES), start, self._position)
        except OSError as error:
            if error.errno in _OUTPUT_FULL:
                raise
            return 0
        if count:
            self._moved(count)
        return count

    def _permute(self, source: Source, content: PermutedColumns) -> None:
        block = content.block_bytes
        row_bytes = block * len(content.order)
        if not row_bytes:
            return
        rows_at_once = BUFFER_BYTES // (2 * row_bytes)
        if rows_at_once == 0:  # rows of more than 2 MiB: each block is worth a copy of its own
            for row in range(content.rows):
                for index in content.order:
                    self._copy(source, content.start + row * row_bytes + index * block, block)
            return
        half = BUFFER_BYTES // 2
        places = [(j * block, index * block) for j, index in enumerate(content.order)]
        for first in range(0, content.rows, rows_at_once):
            size = min(rows_at_once, content.rows - first) * row_bytes
            read, permuted = self._buffer[:size], self._buffer[half : half + size]
            source.read_into(read, content.start + first * row_bytes)
            for row in range(0, size, row_bytes):
                for to, origin in places:
                    permuted[row + to : row + to + block] = read[row + origin : row + origin + block]
            self._write(permuted)

    def _scale(self, source: Source, content: ScaledBF16) -> None:
        for done in range(0, content.nbytes, SCALE_BYTES):
            piece = self._buffer[: min(SCALE_BYTES, content.nbytes - done)]
            source.read_into(piece, content.start + done)
            self._write(memoryview(map_bf16(bytes(piece), content.table)))
