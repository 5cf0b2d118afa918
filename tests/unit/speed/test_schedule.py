"""K by load, and who may choose it."""

import pytest

from spectool.speed.schedule import WORTH, schedule_of, settle, why_no_schedule


def test_steps_cover_every_batch_and_meet_at_the_geometric_mean() -> None:
    assert schedule_of({1: 7, 4: 7, 16: 3}) == ((1, 8, 7), (9, 4096, 3))


def test_equal_k_is_one_step() -> None:
    assert schedule_of({1: 5, 8: 5}) == ((1, 4096, 5),)


def test_k_moves_only_if_it_pays() -> None:
    barely = {1: {3: 1.0, 7: 2.0}, 8: {3: 2.0 * WORTH - 1e-9, 7: 2.0}}
    enough = {1: {3: 1.0, 7: 2.0}, 8: {3: 2.0 * WORTH, 7: 2.0}}
    assert settle(barely) == {1: 7, 8: 7}
    assert settle(enough) == {1: 7, 8: 3}


def test_of_equal_speeds_the_smaller_k_is_taken() -> None:
    assert settle({1: {0: 1.0, 3: 1.5, 5: 1.5}}) == {1: 3}


@pytest.mark.parametrize(
    ("method", "version", "copies", "why"),
    [
        ("dflash", "0.23.0", 1, "0.24"),
        ("dflash", "0.24.0", 1, None),
        ("dspark", "0.33.0", 2, "data parallelism"),
        ("peagle", "0.33.0", 1, "CUDA graphs"),
    ],
)
def test_where_vllm_follows_a_schedule(method: str, version: str, copies: int, why: str | None) -> None:
    found = why_no_schedule(method, version, copies)
    assert found is None if why is None else why in str(found)
