"""File names as other programs want them: below the repository's root where a file lies there, else in full.

The root is that of the checkout in GitHub Actions (`GITHUB_WORKSPACE`), otherwise the current directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

# Where people read a rule; one anchor per code, written by `spectool.report.rules_page`.
RULES_PAGE = "https://github.com/spectool/spectool/blob/main/docs/rules.md"
HOME = "https://github.com/spectool/spectool"


def rule_url(code: str) -> str:
    """Return the address of a rule's explanation."""
    return f"{RULES_PAGE}#{code.lower()}"


def shown(path: Path) -> str:
    """Return a path relative to the root, or the whole path of what lies elsewhere."""
    whole = Path(os.path.normpath(path.absolute()))
    root = _root()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else whole.as_posix()


def uri(path: Path) -> str:
    """Return the same as a URI reference; a name that is no UTF-8 keeps its bytes."""
    text = shown(path)
    quoted = quote(os.fsencode(text), safe="/")
    if text.startswith("/"):
        return f"file://{quoted}"
    # A colon in the first part would be taken for the end of a scheme; quote() has encoded it.
    return quoted


def _root() -> Path:
    here = Path.cwd()
    workspace = os.environ.get("GITHUB_WORKSPACE")
    return Path(workspace) if workspace and here.is_relative_to(workspace) else here
