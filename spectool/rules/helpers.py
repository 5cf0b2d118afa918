"""Shapes that several rules share."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.drafter.compare import differences
from spectool.engine.reading.read import read_engine
from spectool.rules.context import Context
from spectool.rules.registry import Hit

# How the planner's families are cached where a layer keeps a recurrent state (spectool/data/planning/models.json).
_RECURRENT = {"gated_delta_net", "mamba"}


def differs(context: Context, field: str, message: str, fix: str | None = None) -> Iterator[Hit]:
    """Yield a hit when the engine's reading differs in a field, with the release that mends it where one does.

    `{engine}` in the message is the release that is spoken about. `fix` is another advice than the rule's own.
    """
    row = context.differing.get(field)
    if row is None:
        return
    text = message.format(engine=context.facts.title)
    newer = agrees_from(context, field)
    if newer is not None:
        fix = f"Use vLLM {newer} or newer, which runs it as trained."
    yield Hit(f"{text}: trained as {row.trained}, {context.facts.title} runs {row.run}", fix, row.trained, row.run)


def agrees_from(context: Context, field: str) -> str | None:
    """Return the first release after the one spoken about from which on all known ones run a field as trained."""
    from spectool.engine.facts import engine_facts, known_versions  # noqa: PLC0415 - only with a difference

    versions = known_versions()
    if context.facts.version not in versions:
        return None
    found = None
    for version in reversed(versions[versions.index(context.facts.version) + 1 :]):
        reading = read_engine(
            context.view, context.method, engine_facts(version), verifier=context.verifier, tokens=context.tokens
        )
        if reading.drafter is None or any(row.field == field for row in differences(context.drafter, reading.drafter)):
            break
        found = version
    return found


def engine_refuses(context: Context, code: str) -> Iterator[Hit]:
    """Yield a hit per thing the engine trips over under this code."""
    for message in context.refused(code):
        yield Hit(f"{context.facts.title} refuses: {message}")


def release_of(version: str) -> tuple[int, int]:
    """Return major and minor of a release, for what no data file says of each."""
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor)


def disagreeing(context: Context, *names: str) -> Iterator[tuple[str, int, int]]:
    """Yield the sizes that config.json and the tensors give otherwise: name, declared, measured."""
    for name in names:
        declared = context.reading.declared.get(name)
        measured = getattr(context.drafter.dimensions, name)
        if declared is not None and measured and declared != measured:
            yield name, declared, measured


def recurrent(context: Context) -> bool:
    """Say whether the verifier has layers that keep a recurrent state."""
    model = context.launched.model
    return model is not None and model.family is not None and model.family.cache in _RECURRENT
