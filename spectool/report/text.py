"""A report for people: what differs first, in ten seconds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from spectool.api import Report
from spectool.drafter.compare import unremarkable
from spectool.drafter.model import TITLES
from spectool.report.counts import is_clean, summary_text
from spectool.report.known import lines_about
from spectool.rules.registry import Finding, Unknown

# Always shown; of the other fields only those that differ, or that this drafter has.
MAIN = {"aux_layers", "slots", "mask_token_id", "attention", "rope", "dimensions"}
# How rules say that they look at the verifier.
_NEEDS_VERIFIER = ("(--verifier)", "(--verifier FOLDER with weights)")
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_report(report: Report, console: Console, *, quiet: bool = False) -> None:
    """Print a report."""
    title = f"{TITLES[report.method]}, {report.dialect}" if report.method else "not read"
    console.print(f"[bold]{escape(report.drafter)}[/]  {title}  for {escape(report.verifier or 'an unknown verifier')}")
    if report.rows and not quiet:
        console.print(readings_table(report))
    for finding in report.findings:
        console.print(finding_text(finding))
    if not quiet:
        if report.published is not None:
            for line in lines_about(report.published, commit=report.commit):
                console.print(f"[dim]{_line(line)}[/]")
        for field, value, why in report.assumptions:
            console.print(f"[dim]assumed[/] {field} = {_line(value)}: {_line(why)}")
        looks = report.published.looks_like if report.published is not None else ()
        for codes, missing in unchecked(report.unknowns, report.verifier, [item.verifier for item in looks]):
            console.print(f"[dim]not checked[/] {codes}: {_line(missing)}")
        for item in report.suppressed:
            finding = item.finding
            console.print(f"[dim]ignored[/] {finding.code} {_line(finding.message)} [dim]({_line(item.reason)})[/]")
    console.print(summary(report))


def readings_table(report: Report) -> Table:
    """Return *trained as* beside *the engine runs it as*, differing lines marked."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("trained as", overflow="fold")
    table.add_column(f"vLLM {report.engine} runs it as", overflow="fold")
    for row in report.rows:
        plain = unremarkable(row.field, row.trained) or row.field in {"method", "rms_norm_eps", "activation"}
        if row.equal and row.field not in MAIN and plain:
            continue
        style = "" if row.equal else "bold red"
        mark = "" if row.equal else "  <-- differs"
        table.add_row(
            row.label,
            Text(row.trained, style),
            Text(("same" if row.equal and row.run != "-" else row.run) + mark, style),
        )
    return table


def finding_text(finding: Finding) -> Group:
    """Return a finding as two lines: what, and what to do."""
    head = Text.assemble(
        (f"{finding.severity} ", STYLES[finding.severity]), (finding.code, "bold"), f" {_one_line(finding.message)}"
    )
    place = f"  ({finding.file}:{finding.line})" if finding.line else ""
    return Group(head, Text(f"      {finding.fix}{place}", "dim"))


def unchecked(
    unknowns: Sequence[Unknown], verifier: str | None, looks_like: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return the rules that could not say anything, and what they miss; those that miss the verifier in one line.

    Args:
        unknowns: what they said.
        verifier: the name that was given; None where none was.
        looks_like: verifiers of the published drafters that this one looks like.

    """
    wanting = [item.code for item in unknowns if item.missing.endswith(_NEEDS_VERIFIER)]
    if verifier is not None and "AUX001" not in wanting:  # its config.json was read; something else is missing
        return [(item.code, item.missing) for item in unknowns]
    told = [(item.code, item.missing) for item in unknowns if item.code not in wanting]
    missing = f"the verifier's config.json (--verifier {looks_like[0] if looks_like else 'FOLDER or org/name'})"
    if verifier is not None:  # the Hub is out of reach (`spectool.loading.load_verifier`)
        missing = f"{verifier} was not fetched before, and HF_HUB_OFFLINE is set"
    return [*told, *([(", ".join(dict.fromkeys(wanting)), missing)] if wanting else [])]


def _one_line(text: str) -> str:
    """Spell line breaks out: a name with one in it could write a verdict of its own."""
    return text.replace("\n", "\\n")


def _line(text: str) -> str:
    return escape(_one_line(text))


def summary(report: Report) -> str:
    """Return the last line."""
    text = escape(summary_text(report))
    return f"[green]clean[/]{text.removeprefix('clean')}" if is_clean(report) else text


def print_releases(reports: list[Report], good: list[bool], console: Console) -> None:
    """Print one line per vLLM release, oldest first, and from which one on all is well."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("vLLM", "", "why"):
        table.add_column(column, overflow="fold")
    for report, well in zip(reports, good, strict=True):
        worst = [finding for finding in report.findings if finding.severity != "note"]
        why = "; ".join(f"{finding.code} {finding.message}" for finding in worst)
        table.add_row(report.engine, Text("yes" if well else "no", "green" if well else "bold red"), Text(why))
    console.print(table)
    last_bad = max((place for place, well in enumerate(good) if not well), default=-1)
    if last_bad + 1 < len(good):
        console.print(f"from vLLM {reports[last_bad + 1].engine} on")
    elif not any(good):
        console.print("not with any of them")
    else:
        console.print(f"not with the newest of them; with vLLM {_spans([item.engine for item in reports], good)}")


def _spans(versions: list[str], good: list[bool]) -> str:
    """Return the stretches of releases that are right: `0.20.2 to 0.25.1, 0.28.0`."""
    spans: list[list[str]] = []
    for place, well in enumerate(good):
        if well and place and good[place - 1]:
            spans[-1].append(versions[place])
        elif well:
            spans.append([versions[place]])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)
