"""Values of a speculative configuration are read as vLLM's Pydantic reads them, and no further."""

from __future__ import annotations

import pytest

from spectool.planning.lax import read_lax
from spectool.rules.launch import read_launch


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("num_speculative_tokens", "7", 7),
        ("num_speculative_tokens", " 7.0 ", 7),
        ("num_speculative_tokens", 7.0, 7),
        ("num_speculative_tokens", True, 1),
        ("num_speculative_tokens", "7.", "7."),
        ("num_speculative_tokens", "7.5", "7.5"),
        ("num_speculative_tokens", 7.5, 7.5),
        ("num_speculative_tokens", None, None),
        ("max_model_len", "1e3", "1e3"),
        ("parallel_drafting", "Yes", True),
        ("parallel_drafting", 0, False),
        ("parallel_drafting", 2, 2),
        ("parallel_drafting", " true", " true"),
        ("synthetic_acceptance_length", "2.5", 2.5),
        ("synthetic_acceptance_length", "much", "much"),
        ("synthetic_acceptance_rates", ["0.5", 0.25], [0.5, 0.25]),
        ("num_speculative_tokens_per_batch_size", [["1", 8.0, 7], 3], [[1, 8, 7], 3]),
        ("method", "7", "7"),
    ],
)
def test_a_value(name: str, given: object, read: object) -> None:
    found = read_lax({name: given})[name]
    assert (found, type(found)) == (read, type(read))


def test_a_launch_has_them_read() -> None:
    assert read_launch(("-sc", '{"num_speculative_tokens": "7"}')).tokens == 7
