"""What `validate` is told of the coming launch, made into what rules look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spectool.engine.choice import Choice
from spectool.errors import QuestionError, RefusedError, SpectoolError
from spectool.inspection import Inspection
from spectool.planning.gpus import parse_gpus
from spectool.planning.models import model_of
from spectool.rules.context import Context, PlanVerdict
from spectool.rules.launch import Launch, read_launch


def coming_launch(words: Sequence[str], gpus: str | None, choice: Choice) -> Launch:
    """Read a launch.

    Raises:
        UsageError: a flag's value cannot be read.
        QuestionError: the GPU's name is not clear.

    """
    triton = choice.installed.has_triton if choice.installed is not None else None
    named = parse_gpus(gpus) if gpus is not None else None
    return read_launch(words, gpus=named, triton=triton, version=choice.facts.version)


def with_launch(settings: Mapping[str, Any], launch: Launch) -> dict[str, Any]:
    """Return the answers with the launch's K, where it names one and no answer does."""
    return {**({"speculative_tokens": launch.tokens} if launch.tokens else {}), **settings}


def launched(
    context: Context,
    found: Inspection,
    launch: Launch,
    gpus: str | None,
    settings: Mapping[str, Any],
) -> Context:
    """Return the context with the launch, the verifier's sizes in it, and the planner to ask."""
    loaded = found.verifier
    if loaded is not None and loaded.opened is not None:
        launch = replace(launch, model=model_of(loaded.name, loaded.opened.config))
    plan = None
    if gpus is not None and loaded is not None:

        def plan() -> PlanVerdict:
            return _planned(found, launch, loaded.where, gpus, settings, context.facts.version)

    return replace(context, launch=launch, launched_plan=plan, tokens=launch.tokens or context.tokens)


def _planned(
    found: Inspection, launch: Launch, verifier: str, gpus: str, settings: Mapping[str, Any], version: str
) -> PlanVerdict:
    from spectool.launch_plan import plan_for  # noqa: PLC0415 - it imports this module's callers

    try:
        plan_for(
            str(found.source.origin or found.source.root),
            verifier,
            gpus,
            settings=settings,
            extra=launch.words,
            k=launch.tokens,
            engine=version,
            found=found,
            speculative=launch.speculative,
        )
    except RefusedError as error:
        return PlanVerdict(refused=error.message, hint=error.hint)
    except QuestionError as error:
        return PlanVerdict(unknown=error.message.splitlines()[-1].strip())
    except SpectoolError as error:
        return PlanVerdict(unknown=error.message)
    return PlanVerdict()
