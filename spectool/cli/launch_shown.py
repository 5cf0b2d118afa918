"""How `spectool serve` shows a launch: the command, the plan behind it, and what the rules said."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectool.cli.options import PageFormat

if TYPE_CHECKING:
    from spectool.planning.command import Flag
    from spectool.planning.launch import LaunchPlan


def only_shown(form: PageFormat, *, dry_run: bool) -> None:
    """Refuse a format where the command is not what is printed.

    Raises:
        UsageError: it is run, or emitted.

    """
    if form is not PageFormat.text and not dry_run:
        from spectool.errors import UsageError

        raise UsageError(f"--format {form.value} goes with --dry-run: nothing else prints the command")


def show(
    title: str, parts: list[Flag], form: PageFormat, plan: LaunchPlan | None = None, said: Sequence[str] = ()
) -> None:
    """Print the command to stdout; as text, plan and reasons go to stderr, so that stdout can be pasted.

    `title` names the drafter, on a page.
    """
    import shlex

    from spectool.planning import render
    from spectool.planning.redact import redact_argv
    from spectool.planning.several import machines

    if form is PageFormat.json:
        from spectool.cli.output import print_json

        document = render.as_json(parts)
        document["findings"] = list(said)
        if plan is not None and plan.gpus.nodes > 1:
            document["machines"] = [
                {
                    "title": machine.title,
                    "before": [list(words) for words in machine.before],
                    "argv": redact_argv([word for part in machine.parts for word in part.argv]),
                }
                for machine in machines(parts, plan.gpus.nodes)
            ]
        if plan is not None:
            from spectool.report.serve_plan import launch_record

            document["plan"] = launch_record(plan)
        print_json(document)
        return
    if form is PageFormat.html:
        from spectool.cli.output import print_text
        from spectool.report.html.launch import launch_html

        print_text(launch_html(title, parts, plan, said))
        return
    if plan is not None and plan.gpus.nodes > 1:
        for machine in machines(parts, plan.gpus.nodes):
            sys.stdout.write(f"# {machine.title}\n")
            sys.stdout.write("".join(f"{shlex.join(words)}\n" for words in machine.before))
            sys.stdout.write(render.as_shell(machine.parts) + "\n" if machine.parts else "")
    else:
        sys.stdout.write(render.as_shell(parts) + "\n")
    sys.stdout.flush()
    explain(parts, plan, said)


def explain(parts: list[Flag], plan: LaunchPlan | None, said: Sequence[str]) -> None:
    """Say on stderr why each flag is there, what the plan found, and what the rules said."""
    from spectool.planning import render
    from spectool.report.plain import printable

    lines = render.reasons(parts)
    if plan is not None:
        from spectool.report.serve_plan import launch_text

        sys.stderr.write(printable(launch_text(plan, lines)))
        lines = []
    sys.stderr.write("".join(printable(f"{line}\n") for line in [*(f"  {line}" for line in lines), *said]))
