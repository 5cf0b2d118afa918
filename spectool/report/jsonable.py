"""The same records as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from spectool.api import ConversionPlan, Inspection, Report
from spectool.drafter.compare import LABELS, show
from spectool.report.known import published_json


def report_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON data."""
    return {
        "drafter": report.drafter,
        "verifier": report.verifier,
        "engine": f"vllm=={report.engine}",
        "dialect": report.dialect,
        "method": report.method,
        "readings": [asdict(row) for row in report.rows],
        "findings": [asdict(finding) for finding in report.findings],
        "suppressed": [asdict(item) for item in report.suppressed],
        "checked": list(report.checked),
        "unknown": [asdict(unknown) for unknown in report.unknowns],
        "assumptions": [{"field": field, "value": value, "why": why} for field, value, why in report.assumptions],
        "published": None if report.published is None else published_json(report.published),
    }


def inspection_json(found: Inspection) -> dict[str, Any]:
    """Return an inspection as JSON data."""
    reading = found.reading
    return {
        "drafter": found.view.name,
        "dialect": found.dialect.file.dialect,
        "title": found.dialect.file.title,
        "method": reading.drafter.method,
        "layout": found.dialect.file.layout,
        "speculative_tokens": reading.drafter.speculative_tokens,
        "block_size": reading.drafter.block_size,
        "fields": {field: show(getattr(reading.drafter, field)) for field in LABELS},
        "evidence": {name: item.where for name, item in sorted(reading.evidence.items())},
        "assumptions": [asdict(item) for item in reading.assumptions],
        "questions": [asdict(item) for item in reading.questions],
        "gaps": [asdict(item) for item in reading.gaps],
        "tensors": {
            "placed": len(reading.placements.placed),
            "dropped": dict(reading.placements.dropped),
            "unplaced": list(reading.placements.unplaced),
        },
        "total_bytes": found.source.total_bytes,
    }


def plan_json(plan: ConversionPlan) -> dict[str, Any]:
    """Return a conversion plan as JSON data."""
    return {
        "source": inspection_json(plan.inspection),
        "format": plan.output.format,
        "engine": f"vllm=={plan.facts.version}",
        "verifier": plan.verifier_name,
        "config": dict(plan.output.config),
        "tensors": [
            {
                "name": item.name,
                "dtype": item.dtype,
                "shape": list(item.shape),
                "source": item.source,
                "operation": item.operation,
            }
            for item in plan.output.tensors
        ],
        "dropped": dict(plan.output.dropped),
        "restore": {name: asdict(item) for name, item in sorted(plan.output.restore.items())},
        "settled": dict(plan.output.settled),
        "notes": list(plan.output.notes),
        "findings": [asdict(finding) for finding in plan.findings],
        "unknown": [asdict(unknown) for unknown in plan.unknowns],
    }
