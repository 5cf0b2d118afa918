"""One complete file per method, as today's writer would have it; the schemas show them, and tests check them."""

from __future__ import annotations

from typing import Any

_ROPE = {"rope_type": "default", "rope_theta": 1000000.0}


def _layer(layers: int, attention: str, **more: Any) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "layer_types": [attention] * layers,
        "max_position_embeddings": 40960,
        "model_type": "qwen3",
        "num_attention_heads": 32,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_parameters": dict(_ROPE),
        "tie_word_embeddings": False,
        "vocab_size": 151936,
        **more,
    }


def _part(method: str, tokens: int) -> dict[str, Any]:
    proposal = {
        "accept_tolerance": 0.0,
        "proposal_type": "greedy",
        "speculative_tokens": tokens,
        "verifier_accept_k": 1,
    }
    return {
        "algorithm": method,
        "default_proposal_method": "greedy",
        "proposal_methods": [proposal],
        "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-8B"},
    }


def _common(method: str, tokens: int) -> dict[str, Any]:
    return {
        "draft_vocab_size": 151936,
        "dtype": "bfloat16",
        "mask_token_id": 151669,
        "speculators_config": _part(method, tokens),
        "speculators_model_type": method,
        "speculators_version": "0.9.0",
        "target_hidden_size": None,
        "tie_word_embeddings": False,
    }


EXAMPLES: dict[str, dict[str, Any]] = {
    "peagle": {
        "architectures": ["PEagleDraftModel"],
        "eagle_aux_hidden_state_layer_ids": [2, 18, 33],
        "embed_requires_grad": True,
        "fc_norm": False,
        "norm_before_fc": False,
        "norm_before_residual": False,
        "norm_output": False,
        **_common("peagle", 7),
        "transformer_layer_config": _layer(4, "full_attention"),
    },
    "dflash": {
        "architectures": ["DFlashDraftModel"],
        "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
        "block_size": 8,
        "sample_from_anchor": False,
        "sliding_window_non_causal": True,
        **_common("dflash", 7),
        "transformer_layer_config": _layer(5, "full_attention", is_causal=False),
    },
    "dspark": {
        "architectures": ["DSparkDraftModel"],
        "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
        "block_size": 8,
        "confidence_head_with_markov": True,
        "enable_confidence_head": True,
        "markov_head_type": "vanilla",
        "markov_rank": 256,
        "sample_from_anchor": True,
        "sliding_window_non_causal": False,
        **_common("dspark", 8),
        "transformer_layer_config": _layer(5, "sliding_attention", sliding_window=2048, use_sliding_window=True),
    },
}
