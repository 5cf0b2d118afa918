# ruff: noqa: E501 - lines of a page
"""The page of `spectool.api`: what is promised, and every name with its signature, from the code."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from typing import Any

NOTE = "<!-- Written by `python -m spectool.report.cli_page`. Do not edit by hand. -->"
# Handed on between the functions; what is inside them is spectool's own business.
OPAQUE = ("Inspection", "ConversionPlan", "Choice")

_PROMISE = """\
spectool as a library, and what of it stays the way it is. It is typed (`py.typed`); a type checker sees what this page shows.

```python
from pathlib import Path

from spectool import api
from spectool.errors import SpectoolError

try:
    plan = api.plan_conversion("DRAFTER", verifier="VERIFIER", settings={"verifier": "org/name"})
    api.convert(plan, Path("OUT"))
    report = api.validate("OUT", verifier="VERIFIER")
except SpectoolError as error:  # message, hint, exit_code
    raise SystemExit(f"{error.message} ({error.hint})") from error
errors = [finding for finding in report.findings if finding.severity == "error"]
```

## What is promised

| what | what stays |
|---|---|
| the names below | that they exist, their parameters by name, what they mean, the errors they raise; new parameters have defaults |
| the records below | their fields and the fields' types; new fields come last. `Inspection` and `ConversionPlan` are handed on: what is inside them may change, `--format json` shows it in a form that stays |
| `spectool.errors` | the tree, `message`, `hint`, `code` and `exit_code` |
| the command line ([Commands](cli.md)) | commands, options, their values and [exit codes](cli.md): 0, 1, 2 |
| `--format json`, `sarif`, `junit`, `github` | keys and their meaning; new keys may come. Where `spectool schema list` has a schema, the document fits it |
| files | a deployment file, configuration, dialect file, profile or `provenance.json` that one version takes, later ones take; those with a version number in them say when that ends |
| rule codes ([Rules](rules.md)) | a code keeps its meaning and its name, and is never used again for something else |

Not promised: modules and names that are not on this page, the text of messages and reports, the order of findings, which rules
there are and how severe they are (pin with `--select`, `--ignore` and `--fail-on`), predicted speed and memory, and that another
version of spectool writes the same bytes. One version does: the same input gives the same bytes.

## How it changes

Versions follow [Semantic Versioning](https://semver.org/spec/v2.0.0.html).

- **Before 1.0** a minor version (0.2) may change what is promised; `CHANGELOG.md` names it under "Changed" or "Removed", with
  what to write instead. A patch version (0.1.1) never does. Pin `spectool>=0.1,<0.2`.
- **From 1.0 on** only a major version does, and only after a minor version in which the old way works and warns: a
  `DeprecationWarning` in Python, a line on standard error from the command line, that names the new way.
- What is said of a vLLM release holds for the releases it names. A new release of vLLM is a minor version of spectool, and the
  newest known release, which is the default of `--engine`, moves with it.
- A fault is mended in any version: a drafter that was passed and should not have been may fail after an update.
"""


def text() -> str:
    """Return the page."""
    from spectool import api  # noqa: PLC0415 - it imports a lot

    things = {name: getattr(api, name) for name in api.__all__}
    functions = {name: thing for name, thing in things.items() if inspect.isfunction(thing)}
    records = {name: thing for name, thing in things.items() if inspect.isclass(thing)}
    lines = ["# Python API", "", NOTE, "", _PROMISE.rstrip(), "", "## Functions"]
    for name, function in functions.items():
        lines += ["", f"### {name}", "", "```python", _signature(name, function), "```", "", *_documented(function)]
    lines += ["", "## Records"]
    for name, record in records.items():
        lines += ["", f"### {name}", "", *_documented(record)]
        if name not in OPAQUE:
            fields = [f"    {key}: {_type(kind)}" for key, kind in inspect.get_annotations(record).items()]
            lines += ["", "```python", f"class {name}:", *fields, "```"]
    lines += ["", "## Values", ""]
    lines += [f"- `{name} = {thing!r}`" for name, thing in things.items() if name not in {**functions, **records}]
    return "\n".join(lines) + "\n"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    parts, keyword_only = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        given = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{parameter.name}: {_type(parameter.annotation)}{given}")
    inner = "".join(f"    {part},\n" for part in parts)
    return f"def {name}(\n{inner}) -> {_type(signature.return_annotation)}: ..."


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _default(value: Any) -> str:
    """Spell a default as it would be typed: a record with its own defaults is made anew."""
    if isinstance(value, str):
        return json.dumps(value)
    return f"{type(value).__name__}(...)" if dataclasses.is_dataclass(value) else repr(value)


def _documented(thing: Any) -> list[str]:
    """Return a docstring as Markdown: `Args:` and `Raises:` become lists."""
    lines: list[str] = []
    section = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if re.fullmatch(r"(Args|Raises|Attributes):", line):
            section = True
            lines += [f"**{line.rstrip(':')}**", ""]
        elif section and (found := re.fullmatch(r" {4}(\w+): (.*)", line)):
            lines.append(f"- `{found[1]}`: {found[2]}")
        elif section and line.startswith("        "):
            lines[-1] += f" {line.strip()}"
        else:
            section = section and not line.strip()
            lines.append(line)
    return lines
