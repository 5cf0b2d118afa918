"""`transformer_layer_config`: the drafter's decoder, in the words of transformers' Llama and Qwen3 configurations.

vLLM takes this object verbatim as the configuration of the draft model: it fills in no class defaults, and keys that
transformers does not know (`is_causal`, `dflash_config`) reach the model. The trainer's defaults are transformers'
`Qwen3Config` (5.x).
"""

from __future__ import annotations

from typing import Any, Literal

from spectool.formats.speculators.fields import (
    Finite,
    Fraction,
    LayerCount,
    NotNegative,
    Part,
    Positive,
    Size,
    TokenId,
    Whole,
    key,
)

LayerType = Literal["full_attention", "sliding_attention"]


class Rope(Part):
    """Rotary position embedding, one flat object. vLLM refuses the form that is nested per layer type."""

    rope_type: str = key(
        "Kind of scaling.", default="default", vllm="default", examples=["default", "llama3", "yarn", "linear"]
    )
    rope_theta: Positive = key(
        "Base of the rotation. Without it vLLM assumes 1000000 for DFlash and DSpark.",
        default=10000.0,
        vllm=1000000.0,
        examples=[1000000.0],
    )
    partial_rotary_factor: Fraction = key(
        "Share of each head that is rotated. The trainers' Qwen3 rotary embedding ignores it and rotates whole heads, "
        "vLLM obeys it: a value inherited from the verifier makes acceptance collapse.",
        default=1.0,
        vllm=1.0,
        examples=[1.0],
    )
    factor: Positive | None = key("Scaling factor of linear, dynamic, yarn and llama3.", default=None, vllm=None)
    original_max_position_embeddings: Size | None = key(
        "Length before scaling (yarn, llama3).", default=None, vllm=None, examples=[4096]
    )
    attention_factor: Positive | None = key("Amplitude (yarn).", default=None, vllm=None)
    beta_fast: Positive | None = key("yarn's upper bound of the ramp.", default=None, vllm=None)
    beta_slow: Positive | None = key("yarn's lower bound of the ramp.", default=None, vllm=None)
    mscale: Finite | None = key("yarn's amplitude of the queries; since vLLM 0.30.", default=None, vllm=None)
    mscale_all_dim: Finite | None = key("yarn's amplitude of all; since vLLM 0.30.", default=None, vllm=None)
    low_freq_factor: Positive | None = key("llama3's low frequencies.", default=None, vllm=None)
    high_freq_factor: Positive | None = key("llama3's high frequencies.", default=None, vllm=None)
    rope_dim: Size | None = key("Rotated dimensions; overrides the share.", default=None, vllm=None, written=None)
    type: str | None = key("rope_type, as transformers before 4.43 spelled it.", default=None, vllm=None, written=None)


class LayerConfig(Part):
    """Sizes, rope and attention of the drafter's decoder layers."""

    hidden_size: Size = key("Width of the drafter's hidden state.", examples=[4096])
    intermediate_size: Size = key("Width of the MLP.", examples=[12288])
    num_hidden_layers: LayerCount = key("Number of draft layers.", examples=[5])
    num_attention_heads: Size = key("Query heads.", examples=[32])
    num_key_value_heads: Size | None = key(
        "Key and value heads. Absent: as many as query heads.", default=None, vllm=None, examples=[8]
    )
    head_dim: Size | None = key(
        "Size of one head; write it, since it need not be hidden_size / heads.",
        default=128,
        vllm="hidden_size / num_attention_heads",
        examples=[128],
    )
    vocab_size: Size = key("The verifier's vocabulary, padding included: rows of the embedding.", examples=[151936])
    hidden_act: Literal["silu"] = key("Activation of the MLP; vLLM implements silu.", examples=["silu"])
    rms_norm_eps: Positive = key("Epsilon of the norms.", examples=[1e-06])
    max_position_embeddings: Size | None = key("Longest position.", default=32768, vllm=8192, examples=[40960])
    layer_types: list[LayerType] | None = key(
        "One entry per layer. Sliding layers are causal inside the block, full ones are not (DFlash, DSpark).",
        default=None,
        vllm="full_attention for every layer",
        read="0.25 to 0.33",
        examples=[["full_attention", "full_attention"]],
    )
    sliding_window: Size | None = key(
        "Window of the sliding layers in tokens; needed as soon as layer_types names one.",
        default=None,
        vllm=None,
        read="0.25 to 0.33",
        examples=[2048],
    )
    use_sliding_window: bool | None = key(
        "transformers' switch: when it is not true, Qwen3Config forgets the window.", default=False, read=None
    )
    max_window_layers: Whole | None = key("Qwen3Config's older way to choose layers.", default=28, read=None)
    attention_bias: bool = key("Biases on q, k, v and o projections.", default=False, vllm=False)
    mlp_bias: bool = key("Biases in the MLP (Llama layers only).", default=False, vllm=False)
    rope_parameters: Rope | None = key("Rope as transformers 5 writes it.", default=None, vllm=None)
    rope_theta: Positive | None = key("Rope base as transformers 4 wrote it.", default=None, vllm=None)
    rope_scaling: Rope | None = key("Rope scaling as transformers 4 wrote it.", default=None, vllm=None)
    partial_rotary_factor: Fraction | None = key(
        "Share of each head that is rotated, as transformers 4 wrote it.", default=None, vllm=None
    )
    is_neox_style: bool | None = key(
        "False: interleaved rope, as LFM2 and GLM drafters have it.",
        default=None,
        vllm=True,
        written=None,
        read="0.28 to 0.33",
    )
    is_causal: bool | None = key(
        "Causality inside the block for all layers; overrules layer_types and every other flag (DFlash, DSpark).",
        default=None,
        vllm=None,
        written=None,
        read="0.28 to 0.33",
    )
    logit_scale: Positive | None = key("Factor on the logits.", default=None, vllm=1.0, written=None)
    add_swa_attention_sink_bias: bool | None = key(
        "The layers have attention_sink_bias tensors.", default=None, vllm=False, written=None, read="0.25 to 0.33"
    )
    mask_token_id: TokenId | None = key(
        "Never write it here: vLLM lets it win over the top-level key (P-EAGLE).",
        default=None,
        vllm=None,
        written=None,
    )
    dflash_config: dict[str, Any] | None = key(
        "vLLM's own options (use_swa, causal, attention_value_scale). Kept for DSpark, overwritten for DFlash.",
        default=None,
        vllm=None,
        written=None,
        read="0.25 to 0.33",
    )
    tie_word_embeddings: bool | None = key(
        "Must be false: drafters have their own head or borrow one.", default=False, vllm=False
    )
    attention_dropout: NotNegative | None = key("Training only.", default=0.0, read=None)
    initializer_range: NotNegative | None = key("Training only.", default=0.02, read=None)
    use_cache: bool | None = key("transformers' generation only.", default=True, read=None)
    pretraining_tp: Whole | None = key("Unused.", default=1, read=None)
    bos_token_id: Any = key("Unused by drafters.", default=None, read=None)
    eos_token_id: Any = key("Unused by drafters.", default=None, read=None)
    pad_token_id: Any = key("Unused by drafters.", default=None, read=None)
    architectures: list[str] | None = key("Unused: vLLM sets its own class.", default=None, read=None)
    dtype: str | None = key("Unused here; the top-level key counts.", default=None, read=None)
    torch_dtype: str | None = key("dtype, as transformers 4 spelled it.", default=None, read=None)
    transformers_version: str | None = key("The release that wrote the object.", default=None, read=None)


class BlockLayerConfig(LayerConfig):
    """Decoder of a DFlash or DSpark drafter: always Qwen3 layers in vLLM."""

    model_type: str = key("qwen3, the only layers vLLM builds.", default="qwen3", read=None, examples=["qwen3"])
    num_key_value_heads: Size = key("Key and value heads.", examples=[8])
    max_position_embeddings: Size = key("Longest position.", examples=[40960])


class EagleLayerConfig(LayerConfig):
    """Decoder of a P-EAGLE drafter: Llama or Qwen3 layers, the latter with q/k norms."""

    model_type: Literal["llama", "qwen3"] = key(
        "llama or qwen3; write it, the two sides disagree on its absence.", default="qwen3", vllm="llama"
    )
    num_aux_hidden_states: Size | None = key(
        "Number of aux layers. vLLM's Llama class takes 3 unless it stands here, whatever the list of ids says.",
        default=None,
        vllm=3,
        written=None,
        examples=[4],
    )
    fc_norm: bool | None = key(
        "Repeat the top-level fc_norm here: vLLM does not forward it for P-EAGLE.",
        default=None,
        vllm=False,
        written=None,
    )
    norm_output: bool | None = key("Without effect in one-pass drafting.", default=None, vllm=False, written=None)
