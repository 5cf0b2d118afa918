"""`spectool.api`: what people build on. A name that goes missing here is a broken promise."""

from __future__ import annotations

import inspect

import pytest

from spectool import api

PROMISED = {
    "DEFAULT_SHARD_BYTES",
    "ConversionPlan",
    "Description",
    "Inspection",
    "Report",
    "convert",
    "describe",
    "inspect",
    "plan_conversion",
    "plan_replay",
    "validate",
    "verify",
}


def test_what_was_promised_is_there() -> None:
    assert set(api.__all__) >= PROMISED


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_it_is_documented_and_typed(name: str) -> None:
    thing = getattr(api, name)
    if name == "DEFAULT_SHARD_BYTES":
        assert thing == 5 * 10**9
        return
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not inspect.Signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}({parameter.name})"
    else:
        assert thing.__annotations__  # as written: what they name may be imported for checkers only
