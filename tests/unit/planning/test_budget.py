from __future__ import annotations

import pytest

from spectool.drafter.model import Method, SlotLayout
from spectool.planning.budget import budget_faults, budget_notes, lookahead, plan_budget, release
from spectool.planning.gpus import gpu_named

NEW, OLD = release("0.33.0"), release("0.32.0")
A100 = gpu_named("a100-80gb")


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("a100-80gb", (2048, 256)),
        ("h100-80gb", (8192, 1024)),
        ("h200", (8192, 1024)),
        ("b200", (16384, 1024)),
        ("gb10", (2048, 256)),
        ("l40s", (2048, 256)),
    ],
)
def test_vllms_own_defaults(gpu: str, expected: tuple[int, int]) -> None:
    assert NEW.batch_defaults(gpu_named(gpu)) == expected


def test_a_gb10_was_a_large_gpu_before_033() -> None:
    assert OLD.batch_defaults(gpu_named("gb10")) == (8192, 1024)


@pytest.mark.parametrize(
    ("method", "slots", "expected"),
    [
        ("peagle", None, 7),
        ("dflash", "bonus-anchor", 8),
        ("dspark", "bonus-anchor", 8),
        ("dspark", "anchor-first", 7),
    ],
)
def test_lookahead(method: Method, slots: SlotLayout | None, expected: int) -> None:
    assert lookahead(method, 7, slots) == expected


@pytest.mark.parametrize(
    ("method", "facts", "per_request", "tokens"),
    [
        ("dflash", NEW, 8, 2048),
        ("dspark", NEW, 8, 2048),
        ("peagle", NEW, 14, 4096),  # K - 1 slots more for every request
        ("dflash", OLD, 15, 4096),  # 0.32 charges DFlash K slots, DSpark K - 1
        ("dspark", OLD, 14, 4096),
    ],
)
def test_all_sequences_can_decode_in_one_step(method: Method, facts: object, per_request: int, tokens: int) -> None:
    budget = plan_budget(facts, A100, method, 7, "bonus-anchor")  # type: ignore[arg-type]  # the table holds plain str for the method
    assert (budget.per_request, budget.batched_tokens, budget.sequences) == (per_request, tokens, 256)


def test_a_multimodal_item_must_fit_in_a_batch() -> None:
    assert plan_budget(NEW, A100, "dspark", 7, "bonus-anchor", floor=2496).batched_tokens == 3072


def test_the_users_figures_stay() -> None:
    budget = plan_budget(NEW, A100, "dflash", 7, "bonus-anchor", sequences=32, batched_tokens=100)
    assert (budget.sequences, budget.batched_tokens) == (32, 100)
    fewer = plan_budget(NEW, A100, "dflash", 7, "bonus-anchor", batched_tokens=512)
    assert fewer.sequences == 64


def test_what_vllm_refuses() -> None:
    def faults(tokens: int, sequences: int) -> list[str]:
        budget = plan_budget(NEW, A100, "dflash", 7, "bonus-anchor", sequences=sequences, batched_tokens=tokens)
        return budget_faults(budget, NEW, "dflash")

    assert faults(64, 8) == []
    assert "below max_num_seqs" in faults(64, 128)[0]
    assert "no room to draft" in faults(8, 1)[0]


@pytest.mark.parametrize(
    ("tokens", "fault", "note"),
    [
        (7, "no room to draft: dflash needs more than 7", None),
        (8, "starts and does not speculate", None),  # as seen with 0.32
        (9, None, "only 1 of 7 drafted tokens fit into a step"),
        (14, None, "only 6 of 7 drafted tokens fit into a step"),
        (15, None, "only 1 of 4 requests can decode in one step"),
    ],
)
def test_032_cuts_drafts_that_do_not_fit(tokens: int, fault: str | None, note: str | None) -> None:
    budget = plan_budget(OLD, A100, "dflash", 7, "bonus-anchor", sequences=4, batched_tokens=tokens)
    faults, notes = budget_faults(budget, OLD, "dflash"), budget_notes(budget, OLD, "dflash")
    assert [fault in item for item in faults] == [True] if fault is not None else faults == []
    if note:
        assert [note in item for item in notes] == [True]


def test_what_runs_but_costs() -> None:
    budget = plan_budget(NEW, gpu_named("h100-80gb"), "dflash", 15, "bonus-anchor", sequences=1024, batched_tokens=8192)
    assert "only 512 of 1024 requests at a time" in budget_notes(budget, NEW, "dflash")[0]
    peagle = plan_budget(NEW, A100, "peagle", 7, None, sequences=256, batched_tokens=2048)
    assert "only 146 of 256 requests can decode in one step" in budget_notes(peagle, NEW, "peagle")[0]
