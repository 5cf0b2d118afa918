"""Write YAML: keys in order, no aliases, comments on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def document(*documents: Any, comments: Sequence[str] = ()) -> str:
    """Return one or several YAML documents below comment lines."""
    import yaml  # noqa: PLC0415 - only who writes YAML pays for it

    class Dumper(yaml.SafeDumper):
        """Writes a value that stands twice twice."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - theirs
            super().increase_indent(flow=flow, indentless=False)

    head = "".join(f"# {line}\n" for line in comments)
    texts = [
        yaml.dump(item, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)
        for item in documents
    ]
    return head + "---\n".join(texts)
