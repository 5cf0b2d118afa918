"""P-EAGLE as vLLM runs it: `method: eagle3` with `parallel_drafting`, on model runner V1."""

from __future__ import annotations

from spectool.drafter.model import Drafter
from spectool.engine.reading import decoder
from spectool.engine.reading.common import (
    Request,
    aux_layers,
    default_aux_layers,
    layer_ids,
    mask_token,
    refuse_multimodal_rope,
    refuse_without_aux,
)
from spectool.engine.reading.flat import Flat, is_speculators
from spectool.engine.reading.record import EngineRefusedError, Refusal


def read_peagle(request: Request) -> Drafter:
    """Read as `llama_eagle3.py` or `qwen3_eagle3.py` do; the aux layers as `v1/worker/gpu_model_runner.py` does."""
    view, flat, facts = request.view, request.flat, request.facts
    eagle = flat.get("eagle_config") or {}
    qwen = _class(request) == "qwen3"
    aux = _aux(request, eagle)
    _refuse_quoted_mask_token(flat)
    count = flat.get("num_aux_hidden_states")
    if qwen:
        count = flat.get("num_aux_layers", count) or len(flat.get("eagle_aux_hidden_state_layer_ids") or []) or None
    count = count or len(eagle.get("eagle_aux_hidden_state_layer_ids") or []) or 3
    sizes = decoder.dimensions(flat, block=False)
    decoder.activation(flat)
    refuse_multimodal_rope(request)
    refuse_without_aux(eagle)
    shape = view.tensors["fc.weight"].shape if "fc.weight" in view.tensors else ()
    width = shape[-1] if shape else None
    if width is not None and count * sizes.target_hidden_size != width:
        message = f"vLLM builds fc for {count} aux layers of {sizes.target_hidden_size}, the file's fc reads {width}"
        request.refusals.append(Refusal("AUX004", message))
    return Drafter(
        method="peagle",
        aux_layers=aux,
        slots=None,
        block_size=None,
        speculative_tokens=request.tokens,
        mask_token_id=mask_token(request, runner_v1=True),
        dimensions=sizes,
        attention=decoder.llama_attention(flat, sizes.num_layers),
        rope=decoder.rope(flat, sizes.head_dim, 10_000.0, facts),
        qk_norm=qwen,
        rms_norm_eps=decoder.epsilon(flat),
        norm_before_residual=bool(flat.get("norm_before_residual", False)),
        norm_before_fc=bool(eagle.get("norm_before_fc", flat.get("norm_before_fc", False))),
        fc_norm=bool(flat.get("fc_norm", False)),
        attention_bias=bool(flat.get("attention_bias", False)),
        mlp_bias=bool(flat.get("mlp_bias", False)) and not qwen,
        logit_scale=float(flat.get("logit_scale", 1.0)),
        max_position_embeddings=flat.get("max_position_embeddings"),
    )


def _refuse_quoted_mask_token(flat: Flat) -> None:
    """Raise for a mask token that is a string: unlike V2, model runner V1 hands it to the kernel as it stands."""
    for key in ("mask_token_id", "pard_token", "ptd_token_id"):
        if flat.get(key) is not None:
            if isinstance(flat[key], str):
                raise EngineRefusedError("MSK001", f"{key} is {flat[key]!r}, a string, which fails at the first draft")
            return


def _class(request: Request) -> str:
    names = request.flat.get("architectures") or []
    name = names[0] if names else ""
    if is_speculators(request.view.config):
        return "qwen3" if "Qwen3" in name else "llama"
    # EAGLEConfig prefixes "Eagle3" unless the name begins or ends with it; the result must be registered.
    final = name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"
    classes = {"Eagle3LlamaForCausalLM": "llama", "LlamaForCausalLMEagle3": "llama"}
    if request.has("peagle_qwen3"):
        classes["Eagle3Qwen3ForCausalLM"] = "qwen3"
    if final not in classes:
        raise EngineRefusedError("CFG004", f"architectures {names} becomes {final}, which it does not know")
    return classes[final]


def _aux(request: Request, eagle: Flat) -> tuple[int, ...] | None:
    nested = eagle.get("eagle_aux_hidden_state_layer_ids")
    if nested and request.has("eagle_config_aux"):
        return tuple(sorted(set(layer_ids(nested))))
    stated = aux_layers(request)
    if stated is not None or request.verifier is None:
        return stated
    return default_aux_layers(request.verifier)
