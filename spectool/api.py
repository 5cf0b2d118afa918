"""spectool as a library: the verbs of the command line, without printing.

plan = plan_conversion("folder", verifier="Qwen/Qwen3-8B")
convert(plan, Path("out"))
report = validate("out", verifier="folder-of-the-verifier")

What stands in `__all__` stays, and so do the fields of its records (but of `Inspection` and `ConversionPlan`, which are
only handed on): from 1.0 on, a name or a field is removed or changed only in a new major version, after a minor version
in which using it warns. Until then a minor version may change it, a patch version never does, and CHANGELOG.md says so.
Everything else may change at any time. The errors raised are those of `spectool.errors`, under the same promise. What
is promised of command line, JSON, files and rule codes stands in docs/api.md, which is written from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.checking import Description, Report, describe, validate
from spectool.checkpoint.writer import WrittenFile
from spectool.configuration.selection import Selection
from spectool.conversion import DEFAULT_SHARD_BYTES, ConversionPlan, convert, plan_conversion
from spectool.drafter.compare import Row
from spectool.inspection import Inspection, inspect
from spectool.rules.registry import Finding, Unknown

if TYPE_CHECKING:
    from spectool.record.verify import Problem, Verification

__all__ = [
    "DEFAULT_SHARD_BYTES",
    "ConversionPlan",
    "Description",
    "Finding",
    "Inspection",
    "Problem",
    "Report",
    "Row",
    "Selection",
    "Unknown",
    "Verification",
    "WrittenFile",
    "convert",
    "describe",
    "inspect",
    "plan_conversion",
    "plan_replay",
    "validate",
    "verify",
]


if not TYPE_CHECKING:  # for a type checker it would make every name there is

    def __getattr__(name: str) -> Any:
        """Import the records of `verify` when somebody asks for them: their module builds many models."""
        if name in {"Problem", "Verification"}:
            from spectool.record import verify as module  # noqa: PLC0415 - as said above

            return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def plan_replay(record: str, source: str | None = None, verifier: str | None = None) -> ConversionPlan:
    """Plan a recorded conversion anew (`spectool.replaying.plan_replay`)."""
    from spectool import replaying  # noqa: PLC0415 - imported where needed: start-up stays quick

    return replaying.plan_replay(record, source, verifier)


def verify(folder: Path, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Prove an output against its record (`spectool.record.verify.verify`)."""
    from spectool import replaying  # noqa: PLC0415 - imported where needed: start-up stays quick

    return replaying.verify(folder, progress)
