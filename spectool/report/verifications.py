"""What `convert --verify` found, for people."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from spectool.record.verify import Verification
from spectool.report.plans import size_text


def print_verification(found: Verification, folder: str, console: Console) -> None:
    """Print every problem, or what was proved."""
    for problem in found.problems:
        console.print(f"[red]{problem.kind}[/] {escape(problem.name)}: {escape(problem.detail)}")
    for note in found.notes:
        console.print(f"[dim]{escape(note)}[/]")
    if found.problems or found.record is None:
        console.print(f"[bold]{escape(folder)}[/] is not what its record says")
        return
    record = found.record
    origin = record.source.repository or record.source.name
    commit = f"@{record.source.commit}" if record.source.commit else ""
    console.print(
        f"[bold]{escape(folder)}[/]: {found.files} files, {size_text(found.nbytes)}, {len(record.tensors)} tensors are "
        f"as recorded; made of {escape(origin)}{escape(commit)} with {escape(record.dialect.name)}"
    )
    console.print(
        "[dim]the record is not signed: --replay RECORD repeats the conversion and proves where it comes from[/]"
    )
