"""`spectool serve --profile FILE`: serve with the K that was measured best on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectool.errors import RefusedError, SourceError, UsageError
from spectool.report.plain import tell

if TYPE_CHECKING:
    from spectool.cli.wish import Wish
    from spectool.engine.ask import Engine
    from spectool.formats.profile import Profile
    from spectool.speed.plan import SpeedPlan

_MOST_BYTES = 1 << 20


def read_profile(path: Path) -> Profile:
    """Read a profile.

    Raises:
        SourceError: it cannot be read, or is no profile.

    """
    from pydantic import ValidationError

    from spectool.checkpoint.small_file import read_small
    from spectool.formats.profile import Profile

    content = read_small(path, _MOST_BYTES, pipes=True, what="no profile is")
    try:
        return Profile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SourceError(f"{path} is no spectool profile: {where + ': ' if where else ''}{first['msg']}") from None


def check_workload(workload: str | None, gpus: str | None) -> None:
    """Refuse a workload that nothing would be said about.

    Raises:
        UsageError: no GPUs are named, so no speed is predicted.

    """
    if workload is not None and gpus is None:
        raise UsageError("--workload goes with --gpus: it is for the speed range")


def speed_here(
    profile: Profile, engine: Engine, pair: Any, settings: list[str] | None, extra: list[str]
) -> SpeedPlan | None:
    """Return what is predicted on this machine's GPUs, beside what was measured; None where nothing can be planned."""
    from spectool.cli.command_of import plan_for_gpus, read_config_file
    from spectool.errors import SpectoolError
    from spectool.own_gpus import this_machine
    from spectool.planning.command import take_speculative
    from spectool.planning.own import own_flags

    try:
        keys = read_config_file(extra)
        own = own_flags(take_speculative(extra)[1], keys)
        # Without these flags vLLM runs on one GPU, however many there are.
        used = (own.tensor_parallel or 1) * (own.pipeline_parallel or 1) * (own.data_parallel or 1)
        gpus = f"{this_machine().gpu.name}:{used}"
        plan = plan_for_gpus(engine, pair, gpus, settings, extra, keys, profile=profile)
    except SpectoolError:
        return None
    return plan.speed if plan is not None else None


def with_profile(
    engine: Engine | None, extra: list[str], path: Path | None, wish: Wish, method: str
) -> tuple[Engine | None, list[str]]:
    """Return the engine and the user's flags, with the K of a profile; the user's own K wins over it."""
    if path is None:
        return engine, extra
    version = engine.version if engine is not None else wish.release
    return engine, measured_flags(extra, path, wish.drafter, method, version)


def measured_flags(extra: list[str], path: Path, drafter: str, method: str, version: str | None) -> list[str]:
    """Return the user's flags with the K of a profile.

    Args:
        extra: flags for vLLM.
        path: the profile.
        drafter: as the user names it.
        method: of the drafter.
        version: the vLLM release that will run; the profile's own where it is not known.

    Raises:
        RefusedError: it was measured that the drafter does not pay.
        SourceError: the profile cannot be read.
        UsageError: it is of another drafter, or no load was measured with and without it.

    """
    from spectool.planning.command import SPECULATIVE, take_speculative
    from spectool.planning.own import own_flags
    from spectool.report.plain import printable
    from spectool.speed.profile import choose

    profile = read_profile(path)
    if profile.method != method or _base(profile.drafter) != _base(drafter):
        raise UsageError(f"{path} was measured with {profile.drafter} ({profile.method}), not with {drafter}")
    own, rest = take_speculative(extra)
    release = version or profile.engine.rpartition(" ")[2]
    try:
        choice = choose(profile, release, own_flags(rest).data_parallel or 1)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", hint="spectool probe --sweep NEW-FOLDER measures it anew.") from None
    for reason in choice.reasons:
        sys.stderr.write(printable(f"profile: {reason}\n"))
    if profile.synthetic_acceptance is not None:
        tell(f"profile: for an acted acceptance length of {profile.synthetic_acceptance:g}")
    if choice.k == 0:
        raise RefusedError(
            "measured on this machine, the drafter makes the verifier slower",
            hint=f"Serve the verifier alone (vllm serve {profile.verifier}), or leave --profile out.",
        )
    found: dict[str, object] = {"num_speculative_tokens": choice.k}
    if choice.schedule:
        found["num_speculative_tokens_per_batch_size"] = [list(step) for step in choice.schedule]
    return [*rest, SPECULATIVE, json.dumps(found | (own or {}))]


def _base(name: str) -> str:
    return Path(name.partition("@")[0]).resolve().name if Path(name).exists() else name.partition("@")[0].split("/")[-1]
