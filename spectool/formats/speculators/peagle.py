"""Speculators `peagle` (P-EAGLE): an EAGLE-3 head that predicts all positions in one pass. Written since 0.6."""

from __future__ import annotations

from typing import Literal

from spectool.formats.speculators.common import SpeculatorConfig
from spectool.formats.speculators.fields import Fraction, LayerIds, Size, TokenId, Whole, key
from spectool.formats.speculators.layer import EagleLayerConfig

_WRITTEN, _READ = "0.6 to 0.9", "0.22 to 0.33"


class PEagleConfig(SpeculatorConfig):
    """A P-EAGLE drafter in Speculators format. vLLM serves it as `eagle3` with `parallel_drafting`."""

    speculators_model_type: Literal["peagle"] = key("The method.", written=_WRITTEN, read=_READ)
    transformer_layer_config: EagleLayerConfig = key("The drafter's decoder.", written=_WRITTEN, read=_READ)
    mask_token_id: TokenId = key(
        "Token in the slots to be predicted, a row of the embedding; chosen at training time. Older vLLM and "
        "Amazon's files call it ptd_token_id or pard_token.",
        written=_WRITTEN,
        read=_READ,
        examples=[151669],
    )
    eagle_aux_hidden_state_layer_ids: LayerIds | None = key(
        "Verifier layers whose input feeds fc (0: the embedding, n: after the last), ascending. Absent, both sides "
        "take 2, n/2, n-3 of the verifier's n layers.",
        default=None,
        vllm=None,
        written=_WRITTEN,
        read=_READ,
        examples=[[2, 18, 33]],
    )
    draft_vocab_size: Size | None = key(
        "Rows of the drafter's head; smaller than the vocabulary when the file has d2t.",
        default=32000,
        vllm="vocab_size",
        written=_WRITTEN,
        read=_READ,
        examples=[151936],
    )
    target_hidden_size: Size | None = key(
        "Width of the verifier's hidden state, where it is not the drafter's.",
        default=None,
        vllm=None,
        written=_WRITTEN,
        read=_READ,
    )
    norm_before_residual: bool = key(
        "The residual is taken after the norm. No tensor shows it.",
        default=False,
        vllm=False,
        written=_WRITTEN,
        read=_READ,
    )
    norm_before_fc: bool = key(
        "One norm over all aux layers before fc (tensor input_norm). Excludes fc_norm.",
        default=False,
        vllm=False,
        written=_WRITTEN,
        read=_READ,
    )
    fc_norm: bool = key(
        "One norm per aux layer before fc (tensors fc_norm.N). vLLM does not forward it for P-EAGLE: repeat it inside "
        "transformer_layer_config.",
        default=False,
        written="0.7 to 0.9",
        read=None,
    )
    norm_output: bool = key(
        "EAGLE 3.1's feedback of normed states; without effect in one-pass drafting.",
        default=False,
        written="0.7 to 0.9",
        read=None,
    )
    embed_requires_grad: bool = key("The embedding was trained.", default=True, written=_WRITTEN, read=None)
    num_depths: Whole | None = key(
        "Depths trained at once; K should not exceed it.", default=None, written="0.6", read=None, examples=[8]
    )
    down_sample_ratio: Fraction | None = key("Training only.", default=None, written="0.6", read=None)
    down_sample_ratio_min: Fraction | None = key("Training only.", default=None, written="0.6", read=None)
