"""A command whose usage errors are in plain words and say what to type next."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

# Typer checks values with pydantic, which begins its messages so.
_PYDANTICS = "Value error, "


class Command(TyperCommand):
    """A command of spectool. Where extra arguments are allowed, what follows `--` goes to vLLM."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; what is wrong with the words is told by Typer, after they were mended here."""
        words = list(args)  # the parser takes them out one by one
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer's usage errors have no public name. They are known by what they carry.
            message = getattr(error, "message", None)
            if isinstance(message, str):
                error.message = _mended(message, error, ctx, words)  # type: ignore[attr-defined]  # it has one, as read above
            raise


def _mended(message: str, error: Exception, ctx: Any, args: list[str]) -> str:
    option = getattr(error, "option_name", None)
    if message.startswith("No such option") and ctx.allow_extra_args and not getattr(error, "possibilities", None):
        given = next((word for word in args if word.partition("=")[0] == option), option)
        where = f"spectool {ctx.info_name} ... -- {given}"
        return f"{message.rstrip('.')}. Is it one of vLLM's? Those go last, after --: {where}"
    return message.removeprefix(_PYDANTICS)
