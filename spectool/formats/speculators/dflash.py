"""Speculators `dflash` (DFlash): a block of mask tokens, filled in one pass. Written since 0.5."""

from __future__ import annotations

from typing import Literal

from spectool.formats.speculators.common import SpeculatorConfig
from spectool.formats.speculators.fields import LayerIds, Size, TokenId, Whole, key
from spectool.formats.speculators.layer import BlockLayerConfig


class BlockConfig(SpeculatorConfig):
    """What DFlash and DSpark share."""

    transformer_layer_config: BlockLayerConfig = key("The drafter's decoder, in full: vLLM adds no defaults.")
    aux_hidden_state_layer_ids: LayerIds = key(
        "Verifier layers whose input feeds fc (0: the embedding, n: after the last), ascending: vLLM sorts them. "
        "One more than z-lab's and DeepSpec's target_layer_ids.",
        examples=[[2, 10, 18, 26, 34]],
    )
    mask_token_id: TokenId = key(
        "Token in the slots to be predicted, a row of the verifier's embedding; chosen at training time.",
        examples=[151669],
    )
    block_size: Size = key(
        "Slots of one block.", default=8, vllm="not needed", read="0.25 to 0.33 (DSpark)", examples=[8, 16]
    )
    draft_vocab_size: Size | None = key(
        "Rows of the drafter's head; smaller than the vocabulary when the file has d2t.",
        default=32000,
        vllm="vocab_size",
        examples=[32000, 151936],
    )
    target_hidden_size: Size | None = key(
        "Width of the verifier's hidden state, where it is not the drafter's.", default=None, vllm=None
    )


class DFlashConfig(BlockConfig):
    """A DFlash drafter in Speculators format."""

    speculators_model_type: Literal["dflash"] = key("The method.")
    sample_from_anchor: bool = key(
        "False: slot 0 is given and K is block_size - 1. vLLM's DFlash refuses true.",
        default=False,
        vllm=False,
        written="0.7 to 0.9",
        read="0.27 to 0.33",
    )
    sliding_window_non_causal: bool = key(
        "To the trainer: sliding layers attend in both directions, full ones always do. To vLLM since 0.26: false "
        "makes every layer causal, full ones too. Drafters with full-attention layers need true.",
        default=False,
        vllm=True,
        written="0.6 to 0.9",
        read="0.26 to 0.33",
    )
    max_anchors: Whole | None = key("Training only.", default=None, written="0.5 to 0.6", read=None)
