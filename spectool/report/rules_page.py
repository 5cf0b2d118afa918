"""Write `docs/rules.md` from the registry: `python -m spectool.report.rules_page [FILE]`.

With `--check` nothing is written: the difference goes to standard output and the exit code is 1.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from spectool.drafter.model import METHODS, TITLES
from spectool.rules.registry import Rule, rules

HERE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
_HEAD = """# Rules

<!-- Written by `python -m spectool.report.rules_page` from the rules themselves. Do not edit by hand. -->

What `spectool validate` and `spectool schema check` can say. `spectool rule CODE` prints the same. Codes are never
reused.

An *error* makes the exit code 1; `--fail-on` moves the threshold. A rule that cannot be decided says which fact it
needs. `--select CODE,...` runs some rules only (`ATT` stands for all that begin so); `--ignore CODE=REASON` keeps a
rule's findings from counting, and reports show them with the reason. The same can stand in a file, `spectool.toml`, or
in `pyproject.toml` under `[tool.spectool]`:

```toml
fail-on = "warning"
engine = "vllm==0.33.0"
select = ["ATT", "ROP", "SLT001"]

[ignore]
VER005 = "we serve with the long form only"
```

The file is searched from the current directory upward, as far as the folder that holds `.git`; in one folder
`spectool.toml` wins. It is not searched from the drafter's folder, so that a published drafter cannot silence its own
findings. The command line wins over the file; reasons to ignore are added up. `--config FILE` names another file.
"""
_SCOPES = {
    "trained": "files and the trainer's reading",
    "engine": "what the engine makes of the folder as it is",
    "weights": "the tensors' values; runs with `--weights` only",
    "launch": "the flags of the launch; runs with flags after `--` only",
    "file": "the text of one file; `spectool schema check` only",
}


def page() -> str:
    """Return the whole page: a table, then one section per rule under an anchor of its code."""
    parts = [_HEAD, "| code | name | severity | what |", "|---|---|---|---|"]
    parts += [
        f"| [{item.code}](#{item.code.lower()}) | {item.name} | {item.severity} | {_cell(item.summary)} |"
        for item in rules().values()
    ]
    parts += [_section(item) for item in rules().values()]
    return "\n".join(parts) + "\n"


def _section(item: Rule) -> str:
    methods = "" if item.methods == METHODS else f"; {', '.join(TITLES[method] for method in item.methods)} only"
    lines = [
        f'\n<a id="{item.code.lower()}"></a>',
        f"## {item.code} {item.name}",
        f"\n*{item.severity.capitalize()}{methods}. Looks at {_SCOPES[item.scope]}.*",
        f"\n{item.summary}",
        f"\n**Why.** {item.why}",
        f"\n**Fix.** {item.fix}",
        "\n**References.** " + "; ".join(item.references),
    ]
    return "\n".join(_text(line) if not line.startswith("\n<a") else line for line in lines)


def _text(text: str) -> str:
    """Keep `<name>` from being read as markup outside of code."""
    pieces = text.split("`")
    return "`".join(piece if number % 2 else piece.replace("<", "&lt;") for number, piece in enumerate(pieces))


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    names = [item for item in arguments if not item.startswith("-")]
    if unknown := [item for item in arguments if item.startswith("-") and item != "--check"]:
        sys.stderr.write(f"error: unknown option {unknown[0]}\n")
        return 2
    path, new = Path(names[0]) if names else HERE, page()
    if "--check" not in arguments:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, encoding="utf-8")
        return 0
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old == new:
        return 0
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), "rules", lineterm="")
    sys.stdout.write("".join(f"{line}\n" for line in diff))
    sys.stderr.write(f"{path} is not what the rules say: run python -m spectool.report.rules_page\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
