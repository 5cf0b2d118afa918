"""Write a drafter in the Speculators format that vLLM loads.

Sources: what Speculators 0.9.0 saves, and what vLLM 0.32 and 0.33 read
(`transformers_utils/configs/speculators/algos.py`). Keys are written explicitly wherever the two sides' defaults
differ (`sample_from_anchor`, the confidence flags, `norm_before_residual`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectool.dialects.record import Reading
from spectool.dialects.view import View
from spectool.drafter.model import Drafter
from spectool.errors import RefusedError
from spectool.formats.verifier import VerifierView
from spectool.tensors.columns import order_of, plan_tensors
from spectool.writers.plan import OutputPlan

SPECULATORS_VERSION = "0.9.0"
CLASSES = {"peagle": "PEagleDraftModel", "dflash": "DFlashDraftModel", "dspark": "DSparkDraftModel"}
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def write_speculators(view: View, reading: Reading, *, verifier: VerifierView | None, verifier_name: str) -> OutputPlan:
    """Plan the Speculators folder of a drafter.

    Args:
        view: the source folder.
        reading: its trainer's reading, without open questions.
        verifier: for `verifier.architectures` and the length of a drafter that states none.
        verifier_name: what goes into `verifier.name_or_path`.

    Raises:
        RefusedError: Speculators cannot hold this drafter exactly.

    """
    drafter = reading.drafter
    _refuse_inexact(drafter, view)
    # vLLM sorts the aux layers; fc's column blocks must move with them.
    ordered = replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))
    tensors, dropped = plan_tensors(view, reading, order_of(drafter.aux_layers or ()))
    fields, settled = {"peagle": _peagle, "dflash": _dflash, "dspark": _dspark}[drafter.method](ordered)
    layer, settled_rope = _transformer_layer(ordered, verifier, view)
    layer |= fields.pop("transformer_layer_config", {})
    size = drafter.dimensions
    floats = [item.dtype for item in tensors if item.dtype in DTYPES]
    config = {
        "architectures": [CLASSES[drafter.method]],
        **fields,
        "draft_vocab_size": size.draft_vocab_size,
        "dtype": DTYPES[max(set(floats), key=floats.count)] if floats else "bfloat16",
        "mask_token_id": drafter.mask_token_id,
        "speculators_config": _speculators_config(drafter, verifier, verifier_name),
        "speculators_model_type": drafter.method,
        "speculators_version": SPECULATORS_VERSION,
        "target_hidden_size": None if size.target_hidden_size == size.hidden_size else size.target_hidden_size,
        "tie_word_embeddings": False,
        "transformer_layer_config": dict(sorted(layer.items())),
    }
    notes = []
    if drafter.aux_layers != ordered.aux_layers:
        notes.append("aux layers are sorted, and fc's column blocks with them: vLLM sorts the ids")
    return OutputPlan(dict(sorted(config.items())), tensors, dropped, {**settled, **settled_rope}, tuple(notes))


def _refuse_inexact(drafter: Drafter, view: View) -> None:
    windows = {item.window for item in drafter.attention}
    if drafter.method == "dflash" and len({item.causal for item in drafter.attention}) > 1:
        raise RefusedError(
            f"{view.name} mixes causal and bidirectional layers, which Speculators `dflash` has one flag for",
            hint="Serve the folder as it is: vLLM reads this layout natively (model runner V2).",
            code="ATT001",
        )
    if len(windows - {None}) > 1:
        raise RefusedError(f"{view.name} has layers with different windows, Speculators has one", code="ATT001")
    scales = {"embedding_scale": drafter.embedding_scale, "value_scale": drafter.value_scale}
    if drafter.method != "dflash":  # DFlash's logit_scale is read by vLLM; DSpark's would scale the Markov bias as well
        scales["logit_scale"] = drafter.logit_scale
    for name, value in scales.items():
        if value != 1.0:
            raise RefusedError(
                f"{view.name} was trained with {name.replace('_', ' ')} {value:g}, "
                "which spectool cannot carry into Speculators yet",
                hint="vLLM does not apply it natively either; serve with an engine that does.",
                code="EMB001",
            )


def _speculators_config(drafter: Drafter, verifier: VerifierView | None, verifier_name: str) -> dict[str, Any]:
    return {
        "algorithm": drafter.method,
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {
                "accept_tolerance": 0.0,
                "proposal_type": "greedy",
                "speculative_tokens": drafter.speculative_tokens,
                "verifier_accept_k": 1,
            }
        ],
        "verifier": {
            "architectures": list(verifier.architectures) if verifier is not None else [],
            "name_or_path": verifier_name,
        },
    }


def _transformer_layer(
    drafter: Drafter, verifier: VerifierView | None, view: View
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `transformer_layer_config`: vLLM fills in no defaults, so every size is written."""
    size, window = drafter.dimensions, next((item.window for item in drafter.attention if item.window), None)
    positions = drafter.max_position_embeddings or (verifier.max_position_embeddings if verifier else None)
    if positions is None:
        raise RefusedError(f"{view.name} states no max_position_embeddings, and no verifier does", code="CFG003")
    rope, settled = _rope(drafter)
    layer = {
        "attention_bias": drafter.attention_bias,
        "head_dim": size.head_dim,
        "hidden_act": drafter.activation,
        "hidden_size": size.hidden_size,
        "intermediate_size": size.intermediate_size,
        "layer_types": ["sliding_attention" if item.window else "full_attention" for item in drafter.attention],
        "max_position_embeddings": positions,
        "model_type": "qwen3" if drafter.qk_norm else "llama",
        "num_attention_heads": size.num_heads,
        "num_hidden_layers": size.num_layers,
        "num_key_value_heads": size.num_kv_heads,
        "rms_norm_eps": drafter.rms_norm_eps,
        "rope_parameters": rope,
        "sliding_window": window,
        "tie_word_embeddings": False,
        "use_sliding_window": window is not None,
        "vocab_size": size.vocab_size,
    }
    if not drafter.qk_norm:
        layer["mlp_bias"] = drafter.mlp_bias
    if drafter.rope is not None and drafter.rope.interleaved:
        layer["is_neox_style"] = False
    return layer, settled


def _rope(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    assert drafter.rope is not None  # noqa: S101 - a gap in it was refused before writing
    scaling = {key: list(value) if isinstance(value, tuple) else value for key, value in drafter.rope.scaling}
    rope: dict[str, Any] = {"rope_type": "default", **scaling, "rope_theta": drafter.rope.theta}
    settled: dict[str, Any] = {}
    if drafter.rope.rotary_dim != drafter.dimensions.head_dim:
        # vLLM obeys the key; Speculators' own rotary embedding would not, so the record says it was trained so.
        rope["partial_rotary_factor"] = drafter.rope.rotary_dim / drafter.dimensions.head_dim
        settled["rope.partial"] = rope["partial_rotary_factor"]
    return dict(sorted(rope.items())), settled


def _peagle(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    layer: dict[str, Any] = {}
    aux = list(drafter.aux_layers or ())
    if not drafter.qk_norm and len(aux) != 3:
        # vLLM's Llama class never looks at the list's length: llama_eagle3.py, num_aux_hidden_states.
        layer["num_aux_hidden_states"] = len(aux)
    if drafter.fc_norm:
        layer["fc_norm"] = True  # vLLM's translator forgets the top-level key for this method
    fields = {
        "eagle_aux_hidden_state_layer_ids": aux,
        "embed_requires_grad": True,
        "fc_norm": drafter.fc_norm,
        "norm_before_fc": drafter.norm_before_fc,
        "norm_before_residual": bool(drafter.norm_before_residual),
        "norm_output": False,
        "transformer_layer_config": layer,
    }
    return fields, {}


def _dflash(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    causal = all(item.causal for item in drafter.attention)
    fields, settled = _block(drafter)
    fields |= {"sliding_window_non_causal": not causal}
    # Both keys: vLLM 0.26 to 0.27 know only the first, from 0.28 on the second wins.
    fields["transformer_layer_config"]["is_causal"] = causal
    if drafter.logit_scale != 1.0:
        fields["transformer_layer_config"]["logit_scale"] = drafter.logit_scale
    return fields, settled


def _dspark(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    fields, settled = _block(drafter)
    markov = drafter.markov
    assert markov is not None  # noqa: S101 - a missing head was refused before writing
    kinds = {(item.window is not None, item.causal) for item in drafter.attention}
    free = (True, False) in kinds  # sliding and bidirectional
    fields |= {
        "confidence_head_with_markov": drafter.confidence is not None and drafter.confidence.with_markov,
        "enable_confidence_head": drafter.confidence is not None,
        "markov_head_type": markov.kind,
        "markov_rank": markov.rank,
        "sliding_window_non_causal": free,
    }
    if free or (False, True) in kinds:
        # vLLM drops the flag above for DSpark; inside the decoder's configuration it is read.
        fields["transformer_layer_config"]["is_causal"] = all(item.causal for item in drafter.attention)
    return fields, settled


def _block(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    fields: dict[str, Any] = {
        "aux_hidden_state_layer_ids": list(drafter.aux_layers or ()),
        "block_size": drafter.block_size,
        "sample_from_anchor": drafter.slots == "anchor-first",
        "transformer_layer_config": {},
    }
    settled: dict[str, Any] = {}
    if any(item.window is None and item.causal for item in drafter.attention):
        settled["causal"] = True  # Speculators' trainer knows no causal full-attention layer
    return fields, settled


def planned_names(plan: OutputPlan) -> Mapping[str, str]:
    """Return output tensor -> source tensor, for display."""
    return {item.name: item.source for item in plan.tensors}
