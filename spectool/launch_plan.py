"""Plan a launch from what a user names: open both models, then let `spectool.planning` decide.

plan = plan_for("drafter-folder", "verifier-folder", "a100-80gb:2")
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spectool.checkpoint.entries import TensorInfo
from spectool.checkpoint.folder import INDEX_NAME, Checkpoint, read_json
from spectool.engine.facts import engine_facts
from spectool.engine.reading.read import read_engine
from spectool.errors import SourceError, UsageError
from spectool.formats.lookup import is_int, lookup
from spectool.inspection import Inspection, inspect
from spectool.loading import hub_id, open_verifier
from spectool.planning.budget import Release, planned_releases, release
from spectool.planning.fit import Subject
from spectool.planning.gpus import parse_gpus
from spectool.planning.launch import LaunchPlan, plan_launch
from spectool.planning.models import model_of
from spectool.planning.own import own_flags
from spectool.planning.weights import Sized, Tensor
from spectool.resources import package_data
from spectool.rules.launch import read_launch
from spectool.speed.adaptive import adaptive
from spectool.speed.plan import speed_plan
from spectool.speed.published import Tokens, given

if TYPE_CHECKING:
    from spectool.formats.profile import Profile


def plan_for(
    drafter: str,
    verifier: str,
    gpus: str,
    *,
    settings: Mapping[str, Any] | None = None,
    extra: Sequence[str] = (),
    file_keys: Mapping[str, str] | None = None,
    k: int | None = None,
    engine: str | None = None,
    workload: str | None = None,
    expected: tuple[float, str] | None = None,
    profile: Profile | None = None,
    found: Inspection | None = None,
    speculative: Mapping[str, Any] | None = None,
) -> LaunchPlan:
    """Plan a launch.

    Args:
        drafter: its folder.
        verifier: its folder or Hub id; without a network, a Hub id whose config spectool has a copy of.
        gpus: `NAME:COUNT`.
        settings: answers as `--set` takes them.
        extra: the user's own vLLM flags.
        file_keys: top-level keys of the user's `--config` file.
        k: tokens to draft; the drafter's own number where none is given.
        engine: the vLLM release to plan for; the newest known one where none is given.
        workload: what the requests are about (`spectool.speed.published.WORKLOADS`), for the speed range.
        expected: tokens per round and where they come from, for the range; they win over measured and published ones.
        profile: what was measured, for the range and beside it.
        found: the drafter and this verifier, where they were read with these settings already.
        speculative: the user's own keys of the speculative configuration.

    Raises:
        SourceError: a folder cannot be read, or nothing is known of the verifier.
        QuestionError: the GPU's name, or the drafter, leaves something open.
        UsageError: the GPU, the release, a flag or the expected tokens per round make no sense.
        RefusedError: it cannot start.

    """
    chosen = parse_gpus(gpus)
    found = found or inspect(drafter, verifier=verifier, settings=settings)
    found.reading.require_answers()
    facts = release_for(engine)
    tokens = k or found.reading.drafter.speculative_tokens or 0
    subject = _subject(found, verifier, tokens, facts)
    own = own_flags(extra, file_keys, speculative, facts.version)
    plan = plan_launch(subject, chosen, own, facts)
    names = (found.view.name, drafter.partition("@")[0])
    speed = speed_plan(
        subject,
        chosen.gpu,
        plan.tensor_parallel,
        own,
        facts.version,
        names,
        looks_like=[item.drafter for item in found.published.looks_like],
        workload=workload,
        tokens=expected_tokens(*expected, tokens) if expected is not None else None,
        profile=profile,
        most=plan.budget.sequences,
    )
    judged = adaptive(
        engine_facts(facts.version),
        subject.drafter,
        subject.model,
        chosen.gpu.compute_capability,
        read_launch(extra),
        measured=profile is not None,
    )
    return replace(plan, speed=replace(speed, adaptive=judged))


def expected_tokens(length: float, source: str, k: int) -> Tokens:
    """Return tokens per round that somebody expects.

    Raises:
        UsageError: `k` drafts cannot give them.

    """
    try:
        return given(length, k, f"{source} at K = {k}")
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None


def release_for(engine: str | None) -> Release:
    """Return the planner's facts of a release.

    Raises:
        UsageError: it has none.

    """
    planned = planned_releases()
    version = engine_facts(engine or planned[-1]).version
    if version not in planned:
        raise UsageError(
            f"spectool cannot plan for vLLM {version}: its budget rules are not recorded",
            hint=f"It plans for {', '.join(planned)}; leave --gpus out to serve without a plan.",
        )
    return release(version)


def _subject(found: Inspection, verifier: str, tokens: int, facts: Release) -> Subject:
    source = found.source
    reading = found.reading
    view = found.verifier.view if found.verifier else None
    run = read_engine(
        found.view, reading.drafter.method, engine_facts(facts.version), verifier=view, tokens=tokens
    ).drafter
    # The caches are those of the drafter as the engine runs it, which validate holds against the trainer's reading.
    drafter = replace(run or reading.drafter, method=reading.drafter.method)
    recorded = (reading.verifier_name,) if reading.verifier_name else ()
    opened = found.verifier.opened if found.verifier is not None else open_verifier(verifier)
    name, config, tensors, total, total_source = _verifier(verifier, opened)
    return Subject(
        model=model_of(name, config),
        drafter=drafter,
        drafter_name=found.view.name,
        drafter_tensors=[_narrow(tensor) for tensor in source.tensors.values()],
        k=tokens,
        tensors=tensors,
        total=total,
        total_source=total_source,
        other_names=recorded,
    )


def _narrow(tensor: TensorInfo) -> Sized:
    """Count a float32 draft tensor as vLLM loads it: in the verifier's 16 bits."""
    return Tensor(tensor.name, tensor.shape, tensor.nbytes // 2) if tensor.dtype == "F32" else tensor


def _verifier(
    verifier: str, checkpoint: Checkpoint | None
) -> tuple[str, Mapping[str, Any], list[Sized] | None, int | None, str]:
    """Return a verifier's name, config, tensors if there are headers, and total size with its source."""
    repo = hub_id(verifier)
    if checkpoint is None:
        return _catalogued(repo or verifier)
    name = repo or checkpoint.root.resolve().name
    if checkpoint.tensors and not checkpoint.some:
        return name, checkpoint.config, list(checkpoint.tensors.values()), None, ""
    index = checkpoint.root / INDEX_NAME
    if index.is_file():
        size = lookup(read_json(index)[0], "metadata.total_size")
        if is_int(size):
            return name, checkpoint.config, None, size, f"total_size in {INDEX_NAME}"
    return name, checkpoint.config, None, None, ""


def _catalogued(repo: str) -> tuple[str, Mapping[str, Any], None, int, str]:
    file = package_data("verifiers", f"{repo.replace('/', '--')}.json")
    if not file.is_file():
        raise SourceError(
            f"planning needs the config.json of {repo}, and spectool has no copy of it",
            hint=f"Unset HF_HUB_OFFLINE, or hf download {repo} config.json model.safetensors.index.json --local-dir "
            f"{repo.rpartition('/')[2]}, and name that folder as --verifier.",
        )
    document = json.loads(file.read_text(encoding="utf-8"))
    weights = document["weights"]
    return repo, document["config"], None, weights["total_size"], weights["source"]
