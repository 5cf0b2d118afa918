"""Inspections, plans and results of a conversion, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spectool.api import ConversionPlan, Inspection
from spectool.checkpoint.entries import DTYPE_BITS
from spectool.checkpoint.writer import WrittenFile
from spectool.drafter.compare import LABELS, show, unremarkable
from spectool.drafter.model import TITLES
from spectool.report.text import finding_text, unchecked
from spectool.writers.formats import FORMATS
from spectool.writers.plan import Restore

LAYOUTS = {
    "native": "vLLM reads it",
    "speculators": "vLLM reads it",
    "foreign": "vLLM does not read it: convert it first",
}


def size_text(nbytes: int) -> str:
    """Return a size in decimal units, as the Hub shows it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


def print_inspection(found: Inspection, console: Console) -> None:
    """Print what a folder is."""
    reading, file = found.reading, found.dialect.file
    console.print(f"[bold]{escape(found.view.name)}[/]  {TITLES[file.method]}, {file.title} ({file.dialect})")
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # a key that is cut short could not be looked for
    unread = {gap.field for gap in reading.gaps}
    for field, label in LABELS.items():
        value = show(getattr(reading.drafter, field))
        if unremarkable(field, value) and field in unread:
            table.add_row(label, "[yellow]missing[/]", "")
        elif not unremarkable(field, value) and field != "method":
            where = reading.evidence[field].where if field in reading.evidence else ""
            table.add_row(label, escape(value), f"[dim]{escape(where)}[/]")
    table.add_row("block size", show(reading.drafter.block_size), "")
    table.add_row("K (tokens per pass)", show(reading.drafter.speculative_tokens), "")
    table.add_row("weights", f"{len(found.view.tensors)} tensors, {size_text(found.source.total_bytes)}", "")
    table.add_row("layout", LAYOUTS[file.layout], f"[dim]{file.evidence}[/]")
    console.print(table)
    for item in reading.assumptions:
        console.print(f"[dim]assumed[/] {item.field} = {escape(item.value)}: {escape(item.why)}")
    for gap in reading.gaps:
        console.print(f"[yellow]missing[/] {escape(gap.detail)}")
    for question in reading.questions:
        console.print(f"[yellow]open[/] {question.key}: {escape(question.why)} (--set {question.key}=...)")


def print_plan(plan: ConversionPlan, console: Console, *, brief: bool = False) -> None:
    """Print what a conversion will do; `brief` leaves out the tensors."""
    found, output = plan.inspection, plan.output
    title = f"{TITLES[found.reading.drafter.method]}, {found.dialect.file.title}"
    target = FORMATS[output.format]
    kind = output.config.get("speculators_model_type", TITLES[output.drafter.method])
    console.print(f"[bold]{escape(found.view.name)}[/]  {title} -> {target.title} {kind}")
    reader = f"vLLM {plan.facts.version}" if target.served else "the format's own dialect file"
    console.print(f"{reader} reads the planned folder as the drafter was trained")
    if not brief:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("tensor", "shape", "from", "operation"):
            table.add_column(column, overflow="fold")
        for item in output.tensors:
            table.add_row(
                item.name,
                "x".join(map(str, item.shape)),
                item.source if item.source != item.name else "",
                item.operation,
            )
        console.print(table)
    for name, why in output.dropped.items():
        console.print(f"dropped {escape(name)}: {escape(why)}{escape(_again(output.restore.get(name)))}")
    for assumed in found.reading.assumptions:
        console.print(f"assumed {assumed.field} = {escape(assumed.value)}: {escape(assumed.why)}")
    for note in output.notes:
        console.print(escape(note))
    for finding in plan.findings:
        console.print(finding_text(finding))
    for codes, missing in unchecked(plan.unknowns, found.verifier.name if found.verifier is not None else None):
        console.print(f"[dim]not checked[/] {codes}: {escape(missing)}")
    if not brief:
        bits = sum(math.prod(item.shape) * DTYPE_BITS[item.dtype] for item in output.tensors)
        tokens = found.reading.drafter.speculative_tokens
        console.print(f"nothing written: {len(output.tensors)} tensors, {size_text(bits // 8)}, K {tokens}")


def _again(restore: Restore | None) -> str:
    if restore is None:
        return ""
    return {
        "verifier": f" (restored from the verifier's {restore.name} by --verifier)",
        "zeros": " (made again where it is needed)",
        "computed": " (made again where it is needed)",
    }[restore.origin]


def print_written(plan: ConversionPlan, out: Path, files: Sequence[WrittenFile], console: Console) -> None:
    """Print what was written."""
    total = sum(item.nbytes for item in files)
    tokens = plan.inspection.reading.drafter.speculative_tokens
    console.print(f"wrote [bold]{escape(str(out))}[/]: {len(files)} files, {size_text(total)}, K {tokens}")
