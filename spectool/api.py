"""spectool as a library: the verbs of the command line, without printing.

plan = plan_conversion("folder", verifier="Qwen/Qwen3-8B")
convert(plan, Path("out"))
report = validate("out", verifier="folder-of-the-verifier")
"""

from __future__ import annotations

from spectool.checking import Description, Report, describe, validate
from spectool.conversion import DEFAULT_SHARD_BYTES, ConversionPlan, convert, plan_conversion
from spectool.inspection import Inspection, inspect

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
    "validate",
]
