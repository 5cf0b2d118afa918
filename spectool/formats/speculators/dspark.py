"""Speculators `dspark` (DSpark): DFlash's backbone, a Markov head, a confidence head. Written since 0.7."""

from __future__ import annotations

from typing import Literal

from spectool.formats.speculators.dflash import BlockConfig
from spectool.formats.speculators.fields import Size, Whole, key

_WRITTEN, _READ = "0.7 to 0.9", "0.25 to 0.33"


class DSparkConfig(BlockConfig):
    """A DSpark drafter in Speculators format."""

    speculators_model_type: Literal["dspark"] = key("The method.", written=_WRITTEN, read=_READ)
    block_size: Size = key("Slots of one block.", default=8, vllm=None, written=_WRITTEN, read=_READ, examples=[7, 8])
    sample_from_anchor: bool = key(
        "True: every slot predicts, K is block_size. False: slot 0 is given, K is block_size - 1. Always write it: "
        "nothing else in the file tells the two apart, and the wrong one accepts next to nothing. Files older than the "
        "key (before July 2026) are false.",
        default=True,
        vllm=False,
        written=_WRITTEN,
        read="0.27 to 0.33",
    )
    sliding_window_non_causal: bool = key(
        "Sliding layers attend in both directions. vLLM drops it for DSpark: write transformer_layer_config.is_causal "
        "false beside it.",
        default=False,
        written=_WRITTEN,
        read=None,
    )
    markov_rank: Size = key(
        "Rank of the Markov head; Speculators also allows 0 (no head), with which vLLM fails at the first draft.",
        written=_WRITTEN,
        read=_READ,
        examples=[256],
    )
    markov_head_type: Literal["vanilla", "gated", "rnn"] = key(
        "vLLM implements vanilla and never looks at the key.",
        default="vanilla",
        written=_WRITTEN,
        read=None,
        examples=["vanilla"],
    )
    enable_confidence_head: bool = key(
        "The file has a confidence head. Always write it.", default=True, vllm=False, written=_WRITTEN, read=_READ
    )
    confidence_head_with_markov: bool = key(
        "The confidence head also reads the Markov embedding. Always write it.",
        default=True,
        vllm=False,
        written=_WRITTEN,
        read=_READ,
    )
    max_anchors: Whole | None = key("Training only.", default=None, written=None, read=None)
    use_aux_hidden_state: bool | None = key("True.", default=None, vllm=True, written=None, read=_READ)
    dspark_draft_topk: Size | None = key(
        "Without effect here: vLLM reads it inside transformer_layer_config.", default=None, written=None, read=None
    )
