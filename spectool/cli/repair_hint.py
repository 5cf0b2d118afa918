"""The command that repairs what `validate` found, where a repair is certain."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands stay cheap to import
    from spectool.api import Report


def tell_repair(report: Report, answers: Mapping[str, Any], verifier: str | None) -> None:
    """Name the command on standard error; nothing where no repair answers a finding."""
    from spectool.errors import SpectoolError
    from spectool.report.plain import tell
    from spectool.upgrade.upgrade import plan_upgrade

    found = {finding.code for finding in report.findings}
    if not found or not report.folder.is_dir():
        return
    try:
        upgrade = plan_upgrade(report.folder, settings=answers, verifier=verifier, engine=report.engine)
    except SpectoolError:
        return  # another layout, or a repair that would change what the trainer meant
    codes = [code for code in dict.fromkeys(repair.code for repair in upgrade.repairs) if code in found]
    if codes:
        named = ["--verifier", verifier] if verifier else []
        words = shlex.join(["spectool", "schema", "upgrade", str(report.folder), "--write", *named])
        tell(f"next: {words}  (repairs {', '.join(codes)})")
