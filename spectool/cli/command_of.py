"""From what the user names to the command of an engine; `serve` and `probe` share it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spectool.cli.options import parse_settings
from spectool.report.plain import tell

if TYPE_CHECKING:
    from spectool.engine.ask import Engine
    from spectool.formats.profile import Profile
    from spectool.planning.command import Flag
    from spectool.planning.launch import LaunchPlan
    from spectool.serving.acceptance import Expected


def describe_pair(
    drafter: str, verifier: str | None, settings: list[str] | None, extra: list[str], *, force: bool
) -> Any:
    """Ask what the drafter is, and refuse one with errors.

    A number of tokens in the user's `--speculative-config` answers the question for it, as `--set` would.

    Raises:
        RefusedError: it has findings of severity error, and force is off.

    """
    from dataclasses import replace

    from spectool.checking import describe  # not api: it imports converting as well
    from spectool.errors import RefusedError
    from spectool.planning import flags
    from spectool.planning.command import take_speculative

    answers = parse_settings(settings)
    speculative, _ = take_speculative(extra)
    count = (speculative or {}).get("num_speculative_tokens")
    if isinstance(count, int):
        answers.setdefault("speculative_tokens", count)
    own = _at_revision(verifier, flags.value_of(extra, "--revision"))
    pair = describe(drafter, own or verifier, answers)
    if own is not None:
        pair = replace(pair, verifier=own)  # a revision of the user's own stays as it was given
    errors = errors_of(pair)
    for found in errors:
        tell(f"error {found.code}: {found.message}")
        if getattr(found, "fix", None):
            tell(f"  fix: {found.fix}")
    if errors and not force:
        raise RefusedError(
            f"{drafter} has {len(errors)} error{'' if len(errors) == 1 else 's'}, so no engine was started",
            hint="spectool validate shows both sides of each; --force starts it all the same.",
        )
    return pair


def _at_revision(verifier: str | None, revision: str | None) -> str | None:
    """Return a repository at the user's `--revision`, or at the one it is named with; None without that flag."""
    from spectool.hub.reference import reference

    ref = reference(verifier) if verifier is not None and revision is not None else None
    return f"{ref.repo}@{ref.revision or revision}" if ref is not None else None


def _read_already(pair: Any) -> Any:
    """Return the inspection of a described pair; None where the drafter alone names its verifier: it was not read."""
    return pair.found if pair.found is not None and pair.found.verifier is not None else None


def errors_of(pair: Any) -> list[Any]:
    """Return the findings of severity error."""
    return [found for found in pair.findings if getattr(found.severity, "value", found.severity) == "error"]


def check_launch(
    pair: Any,
    settings: list[str] | None,
    parts: Sequence[Flag],
    engine: Engine | None,
    release: str | None,
    *,
    force: bool,
) -> list[str]:
    """Run the rules of `spectool validate` over the whole command, for the engine found; the user's flags are checked.

    Returns:
        Warnings and notes about the launch, for people.

    Raises:
        RefusedError: a rule says error, and force is off.

    """
    from spectool.checking import validate  # not api: it imports converting as well
    from spectool.engine.choice import Choice, choose
    from spectool.engine.facts import nearest_facts
    from spectool.errors import RefusedError

    if engine is not None:
        choice = Choice(nearest_facts(engine.version), engine.version, engine)
    else:
        choice = choose(f"vllm=={release}" if release is not None else None)
    words = [word for part in parts[1:] for word in part.argv]
    report = validate(
        str(pair.drafter),
        verifier=str(pair.verifier),
        settings=parse_settings(settings) | {"speculative_tokens": int(pair.speculative_tokens)},
        engine=choice,
        launch=words,
        found=_read_already(pair),
    )
    said = {(item.code, item.message) for item in pair.findings}
    fresh = [item for item in report.findings if (item.code, item.message) not in said]
    wrong = [item for item in fresh if item.severity == "error"]
    for item in wrong:
        tell(f"error {item.code}: {item.message}")
        if item.fix:
            tell(f"  fix: {item.fix}")
    if wrong and not force:
        raise RefusedError(
            f"this launch has {len(wrong)} error{'' if len(wrong) == 1 else 's'}, so no engine was started",
            hint=f"spectool rule {wrong[0].code} explains; --force starts it all the same.",
        )
    return [f"{item.severity} {item.code}: {item.message}" for item in fresh if item.severity != "error"]


def speaks_of_newest(engine: Engine | None, release: str | None) -> bool:
    """Say whether the release that will run is the one `describe` spoke of already."""
    from spectool.engine.facts import engine_facts, nearest_facts

    newest = engine_facts(None).version
    if engine is not None:
        return nearest_facts(engine.version).version == newest
    return release is None or engine_facts(release).version == newest


def defaults_of(verifier: str) -> dict[str, Any]:
    """Return a verifier folder's generation_config.json; empty where there is none that can be read."""
    import json
    from pathlib import Path

    from spectool.checkpoint.folder import MAX_JSON_BYTES
    from spectool.checkpoint.small_file import read_small
    from spectool.errors import SourceError

    try:
        found = json.loads(read_small(Path(verifier) / "generation_config.json", MAX_JSON_BYTES))
    except (SourceError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def named_gpus(gpus: str | None, gpu_file: str | None) -> str | None:
    """Return `NAME:COUNT` of what the user named: with the cards of a file, or `auto` for those of this machine.

    The file is the one named, else `gpu-file` of the configuration.
    """
    if gpus is None and gpu_file is None:
        return None
    from pathlib import Path

    from spectool.configuration.find import load_configuration
    from spectool.own_gpus import AUTO, read_gpu_file, this_machine

    if gpu_file is None:
        found = load_configuration(None, Path.cwd())
        if found is not None and found[1].gpu_file is not None:
            gpu_file = str(found[0].parent / found[1].gpu_file)
    if gpu_file is not None:
        read_gpu_file(gpu_file)
    if gpus != AUTO:
        return gpus
    here = this_machine()
    return f"{here.gpu.name}:{here.count}"


def find(engine_python: str | None, *, required: bool) -> Engine | None:
    """Find the engine; without one, a dry run still shows the command for an engine elsewhere.

    Raises:
        EngineMissingError: none was found and one is required, or was named.

    """
    from spectool.engine.ask import find_engine
    from spectool.engine.locate import VARIABLE
    from spectool.errors import EngineMissingError

    try:
        return find_engine(engine_python)
    except EngineMissingError as error:
        if required or engine_python or os.environ.get(VARIABLE):
            raise
        tell(f"note: {error.message}; the command is for an engine elsewhere")
        return None


def plan_for_gpus(
    engine: Engine | None,
    pair: Any,
    gpus: str | None,
    settings: list[str] | None,
    extra: list[str],
    file_keys: dict[str, str],
    release: str | None = None,
    *,
    workload: str | None = None,
    expected: Expected | None = None,
    profile: Profile | None = None,
) -> LaunchPlan | None:
    """Plan the launch on the GPUs, if any, for the engine found, the release named, or the newest one known."""
    if gpus is None:
        return None
    from spectool.launch_plan import plan_for
    from spectool.planning.command import take_speculative

    own, rest = take_speculative(extra)
    return plan_for(
        str(pair.drafter),
        str(pair.verifier),
        gpus,
        settings=parse_settings(settings) | {"speculative_tokens": int(pair.speculative_tokens)},
        extra=rest,
        file_keys=file_keys,
        k=(own or {}).get("num_speculative_tokens"),
        engine=engine.version if engine is not None else release,
        workload=workload,
        expected=(expected.length, expected.source) if expected is not None else None,
        profile=profile,
        found=_read_already(pair),
        speculative=own,
    )


def flags_for(
    engine: Engine | None, pair: Any, extra: list[str], *, drafting: bool = True, planned: Sequence[Flag] = ()
) -> list[Flag]:
    """Return the parts of the command for a described pair, with or without its drafter."""
    from spectool.planning.command import serve_flags, speculative_config, take_speculative

    if not drafting:
        return serve_flags(engine, str(pair.verifier), None, take_speculative(extra)[1], planned)
    speculative = speculative_config(str(pair.method), str(pair.drafter), int(pair.speculative_tokens))
    return serve_flags(engine, str(pair.verifier), speculative, extra, planned)


def read_config_file(extra: list[str]) -> dict[str, str]:
    """Return the top-level keys of the user's `--config` file.

    Raises:
        SourceError: it cannot be read.
        UsageError: vLLM would not read it, or it sets the model or speculative decoding.

    """
    from spectool.planning.command import refuse_config_file
    from spectool.planning.flag_file import file_name, keys_of, read_file

    name = file_name(extra)
    if name is None:
        return {}
    keys = keys_of(read_file(name))
    refuse_config_file(keys, name)
    return keys


def plain_command(engine: Engine | None, pair: Any, extra: list[str], plan: LaunchPlan | None) -> list[str]:
    """Return the same command without the drafter; what was planned for both fits the verifier alone too."""
    planned = plan.flags if plan is not None else ()
    # Refused without a drafter (vllm/config/vllm.py).
    words = [word for word in extra if not word.startswith("--per-request-spec-decode-metrics=")]
    if "--per-request-spec-decode-metrics" in words:
        at = words.index("--per-request-spec-decode-metrics")
        del words[at : at + 2]
    plain = flags_for(engine, pair, words, drafting=False, planned=planned)
    return [word for part in plain for word in part.argv]
