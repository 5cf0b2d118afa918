"""Write a drafter in the Speculators format that vLLM loads.

Sources: what Speculators 0.9.0 saves, and what vLLM 0.32 and 0.33 read
(`transformers_utils/configs/speculators/algos.py`). Keys are written explicitly wherever the two sides' defaults
differ (`sample_from_anchor`, the confidence flags, `norm_before_residual`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spectool.dialects.heads import MARKOV
from spectool.dialects.record import Reading
from spectool.dialects.view import TensorHeader, View
from spectool.drafter.model import ZERO, Drafter, Markov, Method
from spectool.errors import RefusedError
from spectool.formats.verifier import VerifierView
from spectool.tensors.columns import order_of, plan_tensors
from spectool.tensors.quantised import quantised_modules, stem
from spectool.writers.carrier import RANK, reasons, zero_head
from spectool.writers.decoder import transformer_layer
from spectool.writers.embedding import masked_embedding, scaled_embedding
from spectool.writers.plan import OutputPlan, PlannedTensor

SPECULATORS_VERSION = "0.9.0"
CLASSES = {"peagle": "PEagleDraftModel", "dflash": "DFlashDraftModel", "dspark": "DSparkDraftModel"}
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def write_speculators(
    view: View,
    reading: Reading,
    *,
    verifier: VerifierView | None,
    verifier_name: str,
    verifier_tensors: Mapping[str, TensorHeader] | None = None,
) -> OutputPlan:
    """Plan the Speculators folder of a drafter.

    Args:
        view: the source folder.
        reading: its trainer's reading, without open questions.
        verifier: for `verifier.architectures` and the length of a drafter that states none.
        verifier_name: what goes into `verifier.name_or_path`.
        verifier_tensors: the verifier's headers, for a drafter that was trained on its scaled embedding.

    Raises:
        RefusedError: Speculators cannot hold this drafter exactly.

    """
    drafter = reading.drafter
    carried = reasons(drafter)
    kind: Method = "dspark" if carried else drafter.method
    _refuse_inexact(drafter, kind, view)
    # vLLM sorts the aux layers; fc's column blocks must move with them.
    ordered = replace(drafter, aux_layers=tuple(sorted(drafter.aux_layers or ())))
    tensors, dropped = plan_tensors(view, reading, order_of(drafter.aux_layers or ()), mask_row=True)
    fields, settled = {"peagle": _peagle, "dflash": _dflash, "dspark": _dspark}[kind](ordered)
    layer, settled_rope = transformer_layer(ordered, verifier, view)
    layer |= fields.pop("transformer_layer_config", {})
    size = drafter.dimensions
    packed = quantised_modules(view)
    floats = [item.dtype for item in tensors if item.dtype in DTYPES and stem(item.source) not in packed]
    dtype = max(sorted(set(floats)), key=floats.count) if floats else "BF16"
    notes = []
    if drafter.embedding_scale != 1.0:
        tensors = (*tensors, scaled_embedding(view, ordered, verifier_tensors))
        notes.append(f"embed_tokens is the verifier's, times {drafter.embedding_scale:g}: vLLM shares the unscaled one")
        ordered = replace(ordered, embedding_scale=1.0)
    masked = masked_embedding(view, reading, verifier_tensors)
    if masked is not None:
        tensors = (*tensors, masked)
        notes.append(f"embed_tokens is the verifier's, with the drafter's own row for the mask token {masked.row}")
    if kind == "dspark" and drafter.markov is None:
        tensors = (*tensors, *zero_head(size, dtype))
        notes += carried
    config = {
        "architectures": [CLASSES[kind]],
        **fields,
        "draft_vocab_size": size.draft_vocab_size,
        "dtype": DTYPES[dtype],
        "mask_token_id": drafter.mask_token_id,
        "speculators_config": _speculators_config(drafter, kind, verifier, verifier_name),
        "speculators_model_type": kind,
        "speculators_version": SPECULATORS_VERSION,
        "target_hidden_size": None if size.target_hidden_size == size.hidden_size else size.target_hidden_size,
        "tie_word_embeddings": False,
        "transformer_layer_config": dict(sorted(layer.items())),
    }
    if packed:
        _require_as_they_are(tensors, packed, carried, view)
        config["quantization_config"] = view.config["quantization_config"]
        notes.append(f"{len(packed)} quantised modules and quantization_config are carried as they are")
    if drafter.aux_layers != ordered.aux_layers:
        notes.append("aux layers are sorted, and fc's column blocks with them: vLLM sorts the ids")
    return OutputPlan(
        drafter=ordered,
        config=dict(sorted(config.items())),
        tensors=tuple(sorted(tensors, key=lambda item: item.name)),
        dropped=dropped,
        settled={**settled, **settled_rope},
        notes=tuple(notes),
        carrier=bool(carried),
        known_zeros=frozenset(item.name for item in tensors if item.name in MARKOV and view.is_zero(item.source)),
    )


def _refuse_inexact(drafter: Drafter, kind: Method, view: View) -> None:
    if len({item.window for item in drafter.attention} - {None}) > 1:
        raise RefusedError(f"{view.name} has layers with different windows, Speculators has one", code="ATT001")
    if {(item.window is not None, item.causal) for item in drafter.attention} >= {(True, False), (False, True)}:
        message = "has bidirectional sliding layers beside causal full ones; vLLM has one flag, or the opposite default"
        raise RefusedError(f"{view.name} {message}", code="ATT001")
    # A Markov bias is multiplied by logit_scale too (vLLM 0.33 markov_bias uses the same logits processor).
    if drafter.logit_scale != 1.0 and not (kind == "dflash" or drafter.headless):
        raise RefusedError(
            f"{view.name} was trained with logit scale {drafter.logit_scale:g}, which vLLM would apply to the Markov "
            "bias as well",
            hint="Serve it with an engine that scales the base logits alone (SGLang).",
            code="EMB001",
        )


def _require_as_they_are(
    tensors: Iterable[PlannedTensor], packed: set[str], carried: Sequence[str], view: View
) -> None:
    """Refuse a plan that changes a quantised module, or the class that reads its settings (`tensors.quantised`)."""
    changed = [item for item in tensors if stem(item.source) in packed and not _as_it_is(item, view)]
    if changed or carried:
        what = (
            f"{changed[0].source} would be renamed or changed"
            if changed
            else f"another class would run it: {carried[0]}"
        )
        raise RefusedError(f"{view.name}: the weights are quantised, and {what}", code="QNT001")


def _as_it_is(item: PlannedTensor, view: View) -> bool:
    same = (item.name, item.shape) == (item.source, view.tensors[item.source].shape)
    return same and item.order is None and item.data is None and item.origin == "source" and item.scale == 1.0


def _speculators_config(
    drafter: Drafter, kind: Method, verifier: VerifierView | None, verifier_name: str
) -> dict[str, Any]:
    return {
        "algorithm": kind,
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
    layer = fields["transformer_layer_config"]
    layer["is_causal"] = causal
    if drafter.sinks:
        # vLLM writes a dflash_config of its own over this place, and then falls back to this key.
        layer["add_swa_attention_sink_bias"] = True
    return fields, settled


def _dspark(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    fields, settled = _block(drafter)
    markov = drafter.markov or Markov(ZERO, RANK)
    kinds = {(item.window is not None, item.causal) for item in drafter.attention}
    free = (True, False) in kinds  # sliding and bidirectional
    fields |= {
        "confidence_head_with_markov": drafter.confidence is not None and drafter.confidence.with_markov,
        "enable_confidence_head": drafter.confidence is not None,
        "markov_head_type": "vanilla" if markov.kind == ZERO else markov.kind,
        "markov_rank": markov.rank,
        "sliding_window_non_causal": free,
    }
    own: dict[str, Any] = {}
    if free or (False, True) in kinds:
        # vLLM drops the flag above for DSpark; inside the decoder's configuration it is read: is_causal from 0.28 on,
        # dflash_config.causal before.
        own["causal"] = all(item.causal for item in drafter.attention)
        fields["transformer_layer_config"]["is_causal"] = own["causal"]
    if drafter.sinks:
        own["attention_sink_bias"] = True
    if drafter.value_scale != 1.0:
        own["attention_value_scale"] = drafter.value_scale
    if own:
        fields["transformer_layer_config"]["dflash_config"] = own
    return fields, settled


def _block(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    fields: dict[str, Any] = {
        "aux_hidden_state_layer_ids": list(drafter.aux_layers or ()),
        "block_size": drafter.block_size,
        "sample_from_anchor": drafter.slots == "anchor-first",
        "transformer_layer_config": {} if drafter.logit_scale == 1.0 else {"logit_scale": drafter.logit_scale},
    }
    settled: dict[str, Any] = {}
    if any(item.window is None and item.causal for item in drafter.attention):
        settled["causal"] = True  # Speculators' trainer knows no causal full-attention layer
    # Nor these factors, which vLLM reads inside the decoder's configuration.
    scales = {"logit_scale": drafter.logit_scale, "value_scale": drafter.value_scale}
    settled |= {name: value for name, value in scales.items() if value != 1.0}
    return fields, settled


def planned_names(plan: OutputPlan) -> Mapping[str, str]:
    """Return output tensor -> source tensor, for display."""
    return {item.name: item.source for item in plan.tensors}
