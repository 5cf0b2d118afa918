"""spectool as a library: the verbs of the command line, without printing.

plan = plan_conversion("folder", verifier="Qwen/Qwen3-8B")
convert(plan, Path("out"))
report = validate("out", verifier="folder-of-the-verifier")

What stands in `__all__` stays: from 1.0 on, a name is removed or a field of what it returns is changed only in a new
major version, after a minor version in which using it warns. Until then a minor version may change it, and CHANGELOG.md
says so. Everything else may change at any time. The errors raised are those of `spectool.errors`, under the same
promise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spectool.checking import Description, Report, describe, validate
from spectool.conversion import DEFAULT_SHARD_BYTES, ConversionPlan, convert, plan_conversion
from spectool.inspection import Inspection, inspect

if TYPE_CHECKING:
    from spectool.replaying import Verification

__all__ = [
    "DEFAULT_SHARD_BYTES",
    "ConversionPlan",
    "Description",
    "Inspection",
    "Report",
    "convert",
    "describe",
    "inspect",
    "plan_conversion",
    "plan_replay",
    "validate",
    "verify",
]


def plan_replay(record: str, source: str | None = None, verifier: str | None = None) -> ConversionPlan:
    """Plan a recorded conversion anew (`spectool.replaying.plan_replay`)."""
    from spectool import replaying  # noqa: PLC0415 - imported where needed: start-up stays quick

    return replaying.plan_replay(record, source, verifier)


def verify(folder: Path, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Prove an output against its record (`spectool.record.verify.verify`)."""
    from spectool import replaying  # noqa: PLC0415 - imported where needed: start-up stays quick

    return replaying.verify(folder, progress)
