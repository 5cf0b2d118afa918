"""SCH: what `spectool schema check` says of files beyond the rules that `validate` shares.

These rules are decided in `spectool.schema_check`, on the text of one file; they never fire on a drafter folder.
"""

from __future__ import annotations

from collections.abc import Iterator

from spectool.rules.context import Context
from spectool.rules.registry import Hit, rule


@rule(
    "SCH001",
    "unknown-key",
    scope="file",
    severity="note",
    summary="A Speculators config has a key that no known version of Speculators or vLLM reads.",
    why="It may be a slip of the pen, whose right spelling then has its default.",
    fix="It is kept. Remove it if it means nothing.",
    references=("schemas/speculators-config.schema.json",),
)
def unknown_key(context: Context) -> Iterator[Hit]:
    """Never fires on a folder."""
    yield from ()


@rule(
    "SCH002",
    "file-format",
    scope="file",
    summary="A file does not fit its published format.",
    why="A reader would refuse it, or take it for something else.",
    fix="`spectool schema show NAME` says what is allowed.",
    references=("schemas/",),
)
def file_format(context: Context) -> Iterator[Hit]:
    """Never fires on a folder."""
    yield from ()


@rule(
    "SCH003",
    "trainer-refuses",
    scope="file",
    severity="warning",
    summary="vLLM serves the file, but Speculators itself would refuse to load it.",
    why="Training on, or converting with Speculators' own tools, fails.",
    fix="Correct the key named in the message.",
    references=(
        "Speculators 0.9.0 speculators/config.py check_default_proposal_method",
        "Speculators 0.9.0 speculators/models/eagle3/config.py: norm_before_fc and fc_norm exclude each other",
    ),
)
def trainer_refuses(context: Context) -> Iterator[Hit]:
    """Never fires on a folder."""
    yield from ()
