from __future__ import annotations

import pytest

from spectool.errors import QuestionError, UsageError
from spectool.formats.deployment import Deployment
from spectool.planning.gpus import catalogue, parse_gpus


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("a100-80gb:1", "a100-80gb", 1),
        ("a100-80gb", "a100-80gb", 1),
        ("A100-SXM-80GB:8", "a100-80gb", 8),
        ("NVIDIA A100-SXM4-80GB:2", "a100-80gb", 2),
        ("h200:4", "h200-141gb", 4),
        ("RTX 4090", "rtx-4090", 1),
    ],
)
def test_a_name_and_a_count(text: str, name: str, count: int) -> None:
    found = parse_gpus(text)
    assert (found.gpu.name, found.count) == (name, count)


def test_a_name_without_its_size_is_a_question_with_every_value() -> None:
    with pytest.raises(QuestionError) as caught:
        parse_gpus("a100:2")
    assert caught.value.exit_code == 2
    assert caught.value.hint is not None
    assert "a100-40gb:2 or a100-80gb:2" in caught.value.hint
    assert "39.49 GiB" in caught.value.message


def test_an_unknown_name_offers_near_ones() -> None:
    with pytest.raises(UsageError, match="knows no such GPU") as caught:
        parse_gpus("h100-80g:2")
    assert "h100-80gb" in (caught.value.hint or "")
    assert (caught.value.hint or "").endswith("--gpu-file FILE.")


def test_a_count_before_the_name_is_turned_round() -> None:
    with pytest.raises(UsageError) as caught:
        parse_gpus("2xa100-80gb")
    assert caught.value.hint == "The name comes first: --gpus a100-80gb:2."


@pytest.mark.parametrize("text", ["a100-80gb:0", "a100-80gb:x", ":2", "a100-80gb:2:2", ""])
def test_malformed(text: str) -> None:
    with pytest.raises(UsageError, match="write NAME:COUNT"):
        parse_gpus(text)


def test_names_are_unique_sourced_and_fit_the_deployment_file() -> None:
    names = [name for gpu in catalogue() for name in (gpu.name, *gpu.aliases)]
    assert len(set(names)) == len(names)
    for gpu in catalogue():
        assert gpu.memory_from
        assert 16 < gpu.memory_gib < 300
        assert Deployment(deployment_version=1, drafter="d", gpus=f"{gpu.name}:1").gpus
