"""`spectool probe DRAFTER --sweep FOLDER`: measure K by load, and write the profile `spectool serve --profile` uses."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectool.formats.profile import Profile
    from spectool.speed.plan import SpeedPlan

PROFILE = "profile.json"


@dataclass(frozen=True)
class SweepOptions:
    """What the options of `probe` say about a sweep."""

    folder: Path
    prompts: Path | None
    ks: str | None
    loads: str
    acceptance: float | None
    most_points: int
    minutes: float
    max_tokens: int


def run_sweep(options: SweepOptions, drafter: str, pair: Any, engine: Any, extra: list[str], *, quiet: bool) -> Profile:
    """Measure, and write the profile.

    Raises:
        UsageError: prompts are missing, or an option makes no sense.
        CannotRunError, EngineMissingError: as `spectool.serving.bench.run`.

    """
    from spectool.cli.command_of import flags_for
    from spectool.errors import CannotRunError
    from spectool.formats.profile import Profile
    from spectool.planning import flags
    from spectool.planning.command import SPECULATIVE, pinned, served_name
    from spectool.serving import bench
    from spectool.serving.address import Address, free_port
    from spectool.serving.progress import Progress
    from spectool.speed import sweep as plan

    planned = int(pair.speculative_tokens)
    verifier = pinned(str(pair.verifier))[0]  # bench serve takes no revision
    texts = check_workload(options)
    ks = plan.counts(options.ks, "--sweep-k", 0) if options.ks else (0, planned // 2 or 1, planned)
    points = plan.points(ks, plan.counts(options.loads, "--sweep-requests", 1), planned, options.most_points)
    address = Address(port=free_port())
    served = [*extra, "--host", address.host, "--port", str(address.port)]

    def command(k: int) -> list[str]:
        if k == 0:
            return [word for part in flags_for(engine, pair, served, drafting=False) for word in part.argv]
        own = speculative_words(k, options.acceptance)
        return [word for part in flags_for(engine, pair, [*served, SPECULATIVE, own]) for word in part.argv]

    named = sorted({flag.name for flag in flags.given(extra)})
    workload = options.prompts.name if options.prompts is not None else "random tokens"
    about: dict[str, Any] = {
        "drafter": recorded_name(drafter),
        "verifier": recorded_name(verifier),
        "method": str(pair.method),
        "engine": f"{engine.distribution} {engine.version}",
        "device": ", ".join(engine.device_names[:1]) or engine.device,
        "workload": workload,
        "workload_sha256": None if texts is None else hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        "output_tokens": options.max_tokens,
        "synthetic_acceptance": options.acceptance,
    }
    job = bench.Sweep(
        command=command,
        points=points,
        address=address,
        model=served_name(command(0)),
        tokenizer=verifier,
        python=engine.python,
        prompts=texts,
        output_tokens=options.max_tokens,
        per_request=4,
        folder=options.folder,
        setting={**about, "flags": named, "launch_sha256": fingerprint([drafter, str(pair.verifier)], extra)},
        minutes=options.minutes,
        api_key=flags.value_of(extra, "--api-key") or os.environ.get("VLLM_API_KEY"),
    )
    with Progress(quiet=quiet) as progress:
        found = bench.run(job, progress)
    if not found:
        raise CannotRunError("no point was measured in the time given")
    profile = Profile(format="spectool profile 1", **about, points=tuple(found))
    bench.write_whole(options.folder / PROFILE, profile.model_dump_json(indent=1) + "\n")
    return profile


def recorded_name(source: str) -> str:
    """Return what a record calls a model: its Hub id, or the name of its folder, never a path."""
    folder = Path(source)
    return folder.resolve().name if folder.exists() else source


def fingerprint(sources: Sequence[str], extra: Sequence[str]) -> str:
    """Return a hash of what a launch consists of, to tell another one by: records hold no path and no secret."""
    from spectool.planning.redact import redact_argv

    where = [str(Path(source).resolve()) if Path(source).exists() else source for source in sources]
    return hashlib.sha256("\0".join([*where, *redact_argv(extra)]).encode(errors="surrogateescape")).hexdigest()


def check_workload(options: SweepOptions) -> list[str] | None:
    """Return the prompts; None where vLLM acts acceptance out, and random tokens do.

    Raises:
        SourceError: they cannot be read.
        UsageError: there are none, and acceptance was to be measured: random tokens show none worth knowing.

    """
    from spectool.errors import UsageError
    from spectool.serving.prompts import read_prompts

    if options.prompts is not None and options.prompts.name not in ("random", "random-mm"):
        return read_prompts(options.prompts)
    if options.acceptance is not None:
        return None
    raise UsageError(
        "a sweep needs prompts like those of your users: acceptance on random tokens says nothing about them",
        hint="Name them with --prompts FILE, or let vLLM act out an acceptance length with --acceptance LENGTH.",
    )


def speculative_words(k: int, acceptance: float | None) -> str:
    """Return the `--speculative-config` of one K; synthetic acceptance cannot be more than K + 1."""
    import json

    own: dict[str, Any] = {"num_speculative_tokens": k}
    if acceptance is not None:
        from spectool.speed.tokens import tokens_at

        own |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": min(acceptance, tokens_at(1, k))}
    return json.dumps(own)


def show_profile(profile: Profile, folder: Path, version: str, speed: SpeedPlan | None, *, as_json: bool) -> None:
    """Say what was measured, beside what is predicted on these GPUs, and what it means for serving."""
    from spectool.cli.output import print_json
    from spectool.report.plain import printable
    from spectool.report.speed import measured_lines
    from spectool.speed.profile import choose, plot, speedups

    if as_json:
        print_json(profile.model_dump(mode="json"))
        return
    if speed is not None:
        lines = measured_lines(speed)
    else:
        lines = plot({(load, k): x for load, by_k in speedups(profile).items() for k, x in by_k.items() if k}, {})
    try:
        choice = choose(profile, version)
    except ValueError as error:
        lines.append(str(error))
    else:
        lines += choice.reasons
    lines.append(f"{folder / PROFILE}: use it with spectool serve --profile")
    sys.stdout.write(printable("\n".join(lines) + "\n"))
