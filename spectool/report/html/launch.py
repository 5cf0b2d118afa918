"""A launch plan as a page: the command with its reasons, memory by part, and what the cache holds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from spectool.drafter.model import TITLES
from spectool.planning.command import Flag
from spectool.planning.launch import LaunchPlan
from spectool.planning.memory import CASES, GIB, Memory
from spectool.planning.redact import redact_argv
from spectool.planning.render import as_shell
from spectool.planning.several import machines
from spectool.report.html.charts import COLOURS, SPARE, Span, range_chart, stacked_bar
from spectool.report.html.element import Child, h
from spectool.report.html.page import page, section, table
from spectool.report.speed import best_of, said_of, span_of
from spectool.speed.plan import SpeedPlan


def launch_html(title: str, parts: Sequence[Flag], plan: LaunchPlan | None, said: Sequence[str] = ()) -> str:
    """Return a command, and its plan if one was made, as a document.

    Args:
        title: names the drafter.
        parts: of the command.
        plan: on given GPUs.
        said: what the rules found, as lines.

    """
    return page(title, "spectool serve", _body(parts, plan, said))


def _body(parts: Sequence[Flag], plan: LaunchPlan | None, said: Sequence[str]) -> Iterator[Child]:
    if plan is not None:
        yield h(
            "p",
            f"{plan.gpus}, {plan.engine}: {TITLES[plan.method]}, K {plan.k}, tensor parallel {plan.tensor_parallel}; "
            f"model runner {plan.runner} ({plan.runner_reason})"
            + (f"; drafter's attention {plan.attention[0]} ({plan.attention[1]})" if plan.attention else ""),
        )
        if plan.unknown:
            yield h("p", f"{len(plan.unknown)} not known", class_="verdict warning", role="status")
    for heading, text in _commands(parts, plan):
        yield section(heading, h("pre", text, tabindex="0", aria_label=heading))
    if said:
        yield section("Findings", h("ul", [h("li", line) for line in said]))
    if plan is not None and plan.memory is not None:
        yield from _memory(plan, plan.memory)
    if plan is not None and plan.speed is not None:
        yield from _speed(plan.speed)
    rows = [
        (h("code", shlex.join(redact_argv(part.argv))), part.reason, h("code", part.source) if part.source else "")
        for part in parts
    ]
    if rows:
        yield section("Why each flag", table("Flags", ("flag", "why", "source"), rows))
    if plan is not None and (plan.notes or plan.unknown):
        notes = [("note", text) for text in plan.notes] + [("unknown", text) for text in plan.unknown]
        yield section("To know", table("Notes, and what is not known", ("kind", "what"), notes))


def _commands(parts: Sequence[Flag], plan: LaunchPlan | None) -> list[tuple[str, str]]:
    """Return the command with its heading; on several machines, what each runs."""
    if plan is None or plan.gpus.nodes == 1:
        return [("Command", as_shell(list(parts)))]
    return [
        (
            f"Command of {machine.title}",
            "\n".join([*map(shlex.join, machine.before), *([as_shell(machine.parts)] if machine.parts else [])]),
        )
        for machine in machines(parts, plan.gpus.nodes)
    ]


def _speed(speed: SpeedPlan) -> Iterator[Child]:
    """Draw the ranges if there are any, and say what they rest on."""
    measured = {(point.requests, point.k): point for point in speed.measured}
    ranges = {
        (row.requests, row.planned.k): row.planned
        for row in speed.rows
        if row.planned is not None and (row.requests, row.planned.k) not in measured
    }
    spans = []
    for load, k in sorted(ranges.keys() | measured.keys()):
        point = measured.get((load, k))
        found = ranges.get((load, k)) or (point.predicted if point is not None else None)
        value = point.speedup if point is not None else None
        ends = (found.low, found.centre, found.high) if found is not None else (value or 0.0,) * 3
        spans.append(Span(f"{load} at a time, K {k}", *ends, measured=value, predicted=found is not None))
    chart = range_chart("Speed over the verifier alone, 80 % range", spans, start=0.0, unit="x", mark=1.0)
    rows: list[tuple[Child, ...]] = [
        (
            f"{row.requests} at a time",
            h("td", span_of(row.planned) if row.planned is not None else "not predicted", class_="number"),
            h("td", f"{row.pays_from:.2f}", class_="number"),
            "" if row.planned is None or row.best is None else best_of(row.best, row.planned),
            *(h("td", span_of(other), class_="number") for other in row.others),
        )
        for row in speed.rows
    ]
    smaller = [f"with K {other.k}" for row in speed.rows[:1] for other in row.others]
    columns = ("requests", "80 % range", "tokens per round it takes", "best K", *smaller)
    yield section(
        "Speed",
        h("p", f"Not predicted: {speed.unknown}") if speed.unknown is not None else None,
        chart if spans else None,
        table("Speed over the verifier alone, and what it takes to be as fast", columns, rows) if rows else None,
        h("ul", [h("li", line) for line in said_of(speed)]),
    )


def _memory(plan: LaunchPlan, memory: Memory) -> Iterator[Child]:
    typical = memory.pool("typical")
    parts = [
        (line.label, line.nbytes / GIB, COLOURS[number % len(COLOURS)]) for number, line in enumerate(memory.lines)
    ]
    parts += [("overhead, usually", memory.overhead.typical / GIB, COLOURS[len(memory.lines) % len(COLOURS)])]
    if typical > 0:
        parts.append(("KV cache", typical / GIB, SPARE))
    rows: list[tuple[Child, ...]] = [
        ("vLLM may use", _gib(memory.budget), f"{memory.utilization:g} of {memory.total / GIB:.2f} GiB"),
        *((line.label, _gib(line.nbytes), line.source) for line in memory.lines),
        (
            "overhead, usually",
            _gib(memory.overhead.typical),
            f"from {_gib(memory.overhead.low)} to {_gib(memory.overhead.high)}: {memory.overhead.source}",
        ),
        ("left for the KV cache", _gib(typical), f"from {_gib(memory.pool('high'))} to {_gib(memory.pool('low'))}"),
    ]
    cells = [(what, h("td", size, class_="number"), where) for what, size, where in rows]
    yield section(
        "Memory on each GPU",
        stacked_bar("Memory by part, with the usual overhead", parts, "GiB"),
        table("GiB on each GPU", ("part", "GiB", "source"), cells),
    )
    if plan.capacities is not None:
        cache = [
            (
                f"{case} overhead",
                h("td", f"{plan.capacities[case].tokens:,}", class_="number"),
                h("td", f"{plan.capacities[case].concurrency:.2f}", class_="number"),
                "yes" if plan.capacities[case].fits else "no",
            )
            for case in CASES
        ]
        caption = f"Requests of {plan.length:,} tokens" if plan.length else "Requests"
        yield section("KV cache", table(caption, ("with", "tokens", "requests", "starts"), cache))


def _gib(nbytes: int) -> str:
    return f"{nbytes / GIB:.2f}"
