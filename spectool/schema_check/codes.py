"""Which rule a structural fault belongs to, and at which key a rule's finding is to be shown.

The same fault carries the same code here and in `validate`: a mask token that is no number is MSK001 in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spectool.formats.faults import Fault, Path
from spectool.formats.lookup import MISSING, lookup

FORMAT = "SCH002"
LAYER = "transformer_layer_config"
TOKENS = "speculators_config.proposal_methods.0.speculative_tokens"
VERIFIER = "speculators_config.verifier.name_or_path"

# Dotted key without list indices -> code, or code per kind of fault.
_CODES: dict[str, str | dict[str, str]] = {
    "speculators_model_type": {"choice": "CFG001", "": "CFG003"},
    "model_type": "CFG002",
    "mask_token_id": {"range": "MSK002", "": "MSK001"},
    "aux_hidden_state_layer_ids": {"doubled": "AUX003", "": "AUX002"},
    "eagle_aux_hidden_state_layer_ids": {"doubled": "AUX003", "": "AUX002"},
    "sample_from_anchor": "SLT003",
    "sliding_window_non_causal": "ATT001",
    "norm_before_residual": "NRM001",
    "norm_before_fc": "NRM001",
    "fc_norm": "NRM001",
    "markov_rank": "HED002",
    "markov_head_type": "HED001",
    "enable_confidence_head": "HED003",
    "confidence_head_with_markov": "HED003",
    "block_size": "CFG003",
    "draft_vocab_size": "CFG003",
    "target_hidden_size": "CFG003",
    "speculators_config": "CFG006",
    "speculators_config.proposal_methods": "CFG006",
    "speculators_config.proposal_methods.speculative_tokens": {"range": "SLT002", "missing": "CFG006", "": "CFG003"},
    "speculators_config.verifier": "CFG006",
    "speculators_config.verifier.name_or_path": "CFG006",
    LAYER: "CFG003",
    f"{LAYER}.layer_types": "ATT002",
    f"{LAYER}.sliding_window": "ATT002",
    f"{LAYER}.is_causal": "ATT001",
    f"{LAYER}.dflash_config": "ATT001",
    f"{LAYER}.rope_parameters": "ROP001",
    f"{LAYER}.rope_scaling": "ROP001",
    f"{LAYER}.rope_theta": "ROP001",
    f"{LAYER}.partial_rotary_factor": "ROP001",
    f"{LAYER}.is_neox_style": "ROP001",
    f"{LAYER}.attention_bias": "BIA001",
    f"{LAYER}.mlp_bias": "BIA001",
    f"{LAYER}.add_swa_attention_sink_bias": "BIA001",
    f"{LAYER}.mask_token_id": "MSK004",
    f"{LAYER}.fc_norm": "NRM001",
    f"{LAYER}.num_aux_hidden_states": "AUX004",
    f"{LAYER}.logit_scale": "EMB001",
}
_LAYER_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "hidden_act",
    "rms_norm_eps",
    "max_position_embeddings",
    "model_type",
)
_CODES |= {f"{LAYER}.{name}": "CFG003" for name in _LAYER_SIZES}
# `validate` measures them on tensors, and then sees what vLLM would build without the key.

# Code -> keys it may be about. The one the message names is shown, else the first that is there, else the first.
_KEYS: dict[str, tuple[str, ...]] = {
    "AUX": ("aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids"),
    "AUX004": (f"{LAYER}.num_aux_hidden_states",),
    "ATT001": (f"{LAYER}.is_causal", "sliding_window_non_causal", f"{LAYER}.layer_types"),
    "ATT002": (f"{LAYER}.sliding_window", f"{LAYER}.layer_types"),
    "BIA001": (f"{LAYER}.attention_bias", f"{LAYER}.mlp_bias"),
    "CFG001": ("speculators_model_type",),
    "CFG002": ("model_type",),
    "CFG006": (TOKENS, VERIFIER),
    "EMB001": (f"{LAYER}.logit_scale",),
    "HED001": ("markov_head_type",),
    "HED002": ("markov_rank", "markov_head_type"),
    "HED003": ("enable_confidence_head", "confidence_head_with_markov"),
    "HED005": ("confidence_head_with_markov",),
    "HED004": ("markov_rank",),
    "MSK": ("mask_token_id",),
    "MSK004": (f"{LAYER}.mask_token_id",),
    "NRM001": (
        "norm_before_residual",
        "norm_before_fc",
        "fc_norm",
        f"{LAYER}.rms_norm_eps",
        f"{LAYER}.hidden_act",
        f"{LAYER}.model_type",
    ),
    "ROP": (f"{LAYER}.rope_parameters", f"{LAYER}.rope_theta", f"{LAYER}.rope_scaling"),
    "SLT001": ("sample_from_anchor",),
    "SLT002": (TOKENS,),
    "SLT003": ("sample_from_anchor",),
    "VER005": (VERIFIER,),
    "VOC002": ("draft_vocab_size",),
}
# Words of a message that stand for a key.
_WORDS = {
    "q/k norm": f"{LAYER}.model_type",
    "qk norm": f"{LAYER}.model_type",
    "rms norm eps": f"{LAYER}.rms_norm_eps",
    "activation": f"{LAYER}.hidden_act",
    "rope.theta": f"{LAYER}.rope_parameters.rope_theta",
    "partial_rotary_factor": f"{LAYER}.rope_parameters.partial_rotary_factor",
    "dims rotated": f"{LAYER}.rope_parameters.partial_rotary_factor",
    "window": f"{LAYER}.sliding_window",
    "speculative_tokens": TOKENS,
}


def code_of(fault: Fault) -> str:
    """Return the rule of a structural fault."""
    names = [part for part in fault.path if isinstance(part, str)]
    if fault.path and isinstance(fault.path[-1], int) and names[-1].endswith("aux_hidden_state_layer_ids"):
        # One id of the list: a negative one is a layer that does not exist.
        return "AUX001" if fault.kind == "range" else "AUX002"
    while names:
        code = _CODES.get(".".join(names))
        if isinstance(code, str):
            return code
        if code is not None:
            return code.get(fault.kind, code[""])
        if names[0] != LAYER or names[1:2] not in (["rope_parameters"], ["rope_scaling"]):
            break
        names.pop()
    return FORMAT


def key_of(code: str, message: str, config: Mapping[str, Any]) -> Path:
    """Return the key at which a rule's finding is shown."""
    candidates = [*_KEYS.get(code, ()), *_KEYS.get(code[:3], ())]
    for word, dotted in _WORDS.items():
        if word in message and (dotted in candidates or not candidates or code.startswith("ROP")):
            return _path(dotted)
    plain = message.replace(" ", "_")
    named = [key for key in candidates if key.rpartition(".")[2] in plain]
    there = [key for key in candidates if lookup(config, key) is not MISSING]
    for dotted in (*named, *there, *candidates[:1]):
        return _path(dotted)
    for dotted in re.findall(r"[a-z][a-z0-9_.]*_[a-z0-9_.]+", message):
        for prefix in ("", f"{LAYER}."):
            path = _path(prefix + dotted.rstrip("."))
            if prefix + dotted in _CODES or (path[0] in config and not prefix):
                return path
    return ()


def _path(dotted: str) -> Path:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
