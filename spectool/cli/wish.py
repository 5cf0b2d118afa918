"""What the user wants served, from options or from a deployment file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectool.checking import Description
    from spectool.formats.deployment import Deployment
    from spectool.serving.acceptance import Expected


@dataclass(frozen=True)
class Wish:
    """What the user wants served, from options or from a deployment file.

    `release` is the vLLM a deployment file is meant for; `deployment` the rest of the file.
    """

    drafter: str
    verifier: str | None
    settings: list[str] | None
    gpus: str | None
    extra: list[str]
    deployment: Deployment | None = None

    @property
    def release(self) -> str | None:
        """The vLLM release that a deployment file names."""
        named = self.deployment.engine if self.deployment is not None else None
        return named.removeprefix("vllm==") if named is not None else None

    def expected(self, given: float | None) -> Expected | None:
        """Return what the check compares with: the option's figure, or the file's."""
        file = self.deployment.expect if self.deployment is not None else None
        if given is None and file is None:
            return None
        from spectool.serving.acceptance import Expected  # which can ask a server: a dry run needs none of that

        if given is not None:
            return Expected(given, "--expect")
        return Expected(file.acceptance_length, "the deployment file") if file is not None else None

    def named(self, pair: Description) -> tuple[str, ...]:
        """Return the names under which somebody may have published figures of the drafter."""
        folder = (pair.found.view.name,) if pair.found is not None else ()
        return (*folder, self.drafter.partition("@")[0])

    def environment(self) -> dict[str, str]:
        """Return the engine's variables: ours, and those of the file.

        Raises:
            UsageError: a secret's variable is not set.

        """
        from spectool.errors import UsageError

        found = dict(os.environ)
        if self.deployment is None:
            return found
        found.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(self.deployment.start_seconds))
        if self.deployment.cache is not None and self.deployment.cache.startswith("/"):
            found["HF_HOME"] = self.deployment.cache
        for name, source in self.deployment.secrets.items():
            variable = source.removeprefix("env:") if source.startswith("env:") else name
            if not os.environ.get(variable):
                raise UsageError(f"{variable} is not set: the deployment file takes {name} from it")
            found[name] = os.environ[variable]
        return found | self.deployment.env


def wish_of(drafter: str, verifier: str | None, settings: list[str] | None, gpus: str | None, extra: list[str]) -> Wish:
    """Read the deployment file if one is named; options and flags on the command line win over it."""
    from spectool.deployment import is_deployment, read_deployment, vllm_words
    from spectool.planning import flags
    from spectool.planning.command import SERVED_NAME
    from spectool.planning.parser import spelled_out
    from spectool.planning.parser import table as known_flags

    extra = spelled_out(extra, known_flags())
    if not is_deployment(drafter):
        return Wish(drafter, verifier, settings, gpus, list(extra))
    file = read_deployment(drafter)
    own = {text.partition("=")[0] for text in settings or []}
    answers = [f"{key}={_spelled(value)}" for key, value in file.settings.items() if key not in own]
    given = {flag.name.removeprefix("--") for flag in flags.given(extra)}
    table = {key: value for key, value in file.vllm.items() if not {key, f"no-{key}"} & given}
    words = vllm_words(table)
    if file.served_name is not None and not flags.has(extra, SERVED_NAME):
        words += vllm_words({SERVED_NAME.removeprefix("--"): file.served_name})
    return Wish(
        drafter=file.drafter,
        verifier=verifier or file.verifier,
        settings=[*answers, *(settings or [])],
        gpus=gpus or file.gpus,
        extra=[*words, *extra],
        deployment=file,
    )


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
