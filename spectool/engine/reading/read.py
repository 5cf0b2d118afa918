"""The engine's reading: what vLLM would run, given a folder and the verifier beside it.

Proved against the engine itself in `tests/engine`; the sources of each part stand in its module.
"""

from __future__ import annotations

from dataclasses import replace

from spectool.dialects.view import View
from spectool.drafter.model import Confidence, Drafter, Markov, Method
from spectool.engine.facts import EngineFacts
from spectool.engine.reading import decoder
from spectool.engine.reading.flat import Flat, flat_config, is_speculators
from spectool.engine.reading.record import EngineReading, EngineRefusedError, Refusal
from spectool.formats.lookup import MISSING, is_int, lookup
from spectool.formats.verifier import VerifierView


def read_engine(
    view: View, method: Method, facts: EngineFacts, *, verifier: VerifierView | None = None, tokens: int | None = None
) -> EngineReading:
    """Read a drafter folder as vLLM does when it is served with the right method.

    Args:
        view: the folder.
        method: what it is served as; `peagle` stands for `method: eagle3` with `parallel_drafting`.
        facts: the vLLM release.
        verifier: for the default aux layers.
        tokens: K as it will be given on the command line, for layouts that do not store it.

    """
    refusals: list[Refusal] = []
    try:
        flat = flat_config(view.config)
        read = {"peagle": _peagle, "dflash": _dflash, "dspark": _dspark}[method]
        drafter = read(view, flat, verifier, refusals, _tokens(view, tokens))
    except EngineRefusedError as error:
        return EngineReading(facts.version, None, (*refusals, error.refusal))
    except (TypeError, ValueError, AttributeError) as error:
        # A value of a type vLLM's own code would trip over as well; which line it is does not matter.
        return EngineReading(facts.version, None, (*refusals, Refusal("CFG003", f"a value of the wrong type: {error}")))
    return EngineReading(facts.version, drafter, tuple(refusals))


def _tokens(view: View, given: int | None) -> int | None:
    stated = lookup(view.config, "speculators_config.proposal_methods.0.speculative_tokens")
    return given if given is not None else (stated if is_int(stated) else None)


def _mask_token(flat: Flat) -> int:
    """Return the mask token. Source: vLLM 0.33 `v1/worker/gpu/spec_decode/utils.py`, get_parallel_drafting_token_id."""
    own = flat.get("dflash_config") or {}
    candidates = [own.get("mask_token_id", MISSING)]
    candidates += [
        flat.get(key, MISSING) for key in ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")
    ]
    for value in candidates:
        if value is not MISSING and value is not None:
            return int(value)
    raise EngineRefusedError("MSK001", "no mask token: vLLM raises 'Model config must specify ... mask_token_id'")


def _ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not all(is_int(item) for item in value):
        raise EngineRefusedError("AUX002", f"aux layer ids are {value!r}")
    return tuple(value)


def _aux_layers(flat: Flat) -> tuple[int, ...] | None:
    """Return input ids, sorted and without doubles, as vLLM captures them (`models/interfaces.py`)."""
    ids = flat.get("eagle_aux_hidden_state_layer_ids")
    if not ids:
        ids = [item + 1 for item in _ids((flat.get("dflash_config") or {}).get("target_layer_ids") or [])]
    if not ids:
        ids = [item + 1 for item in _ids(flat.get("target_layer_ids") or [])]
    return tuple(sorted(set(_ids(ids)))) or None


def _dflash(
    view: View, flat: Flat, verifier: VerifierView | None, refusals: list[Refusal], tokens: int | None
) -> Drafter:
    own = flat.get("dflash_config") or {}
    if own.get("sample_from_anchor"):
        refusals.append(
            Refusal(
                "SLT001", "vLLM's DFlash never samples from the anchor slot: the V2 runner raises, V1 ignores the key"
            )
        )
    return _qwen3_block(view, "dflash", flat, "bonus-anchor", tokens)


def _dspark(
    view: View, flat: Flat, verifier: VerifierView | None, refusals: list[Refusal], tokens: int | None
) -> Drafter:
    first = flat.get("sample_from_anchor", True)
    drafter = _qwen3_block(view, "dspark", flat, "anchor-first" if first else "bonus-anchor", tokens)
    rank = flat.get("markov_rank")
    if not is_int(rank) or rank < 1:
        raise EngineRefusedError("HED002", f"markov_rank is {rank!r}: vLLM cannot build the Markov head")
    confidence = None
    if flat.get("enable_confidence_head", False) and any(name.startswith("confidence_head") for name in view.tensors):
        confidence = Confidence(bool(flat.get("confidence_head_with_markov", False)))
    # vLLM builds the vanilla head whatever markov_head_type says.
    return replace(drafter, markov=Markov("vanilla", int(rank)), confidence=confidence)


def _qwen3_block(view: View, method: Method, flat: Flat, slots: str, tokens: int | None) -> Drafter:
    own = flat.get("dflash_config") or {}
    sizes = decoder.dimensions(flat, None)
    if flat.get("hidden_act") != "silu":
        raise EngineRefusedError("CFG003", f"hidden_act is {flat.get('hidden_act')!r}, vLLM takes silu only")
    block = flat.get("block_size", view.config.get("block_size", own.get("block_size")))
    return Drafter(
        method=method,
        aux_layers=_aux_layers(flat),
        slots="anchor-first" if slots == "anchor-first" else "bonus-anchor",
        block_size=block if is_int(block) else None,
        speculative_tokens=tokens,
        mask_token_id=_mask_token(flat),
        dimensions=sizes,
        attention=decoder.dflash_attention(flat, sizes.num_layers),
        # set_default_rope_theta: a Speculators folder without a base gets 1000000.
        rope=decoder.rope(flat, sizes.head_dim, 1_000_000.0),
        qk_norm=True,
        rms_norm_eps=decoder.epsilon(flat),
        attention_bias=bool(flat.get("attention_bias", False)),
        sinks=bool(own.get("attention_sink_bias", flat.get("add_swa_attention_sink_bias", False))),
        logit_scale=float(flat.get("logit_scale", 1.0)),
        value_scale=float(own.get("attention_value_scale") or 1.0),
        max_position_embeddings=flat.get("max_position_embeddings"),
    )


def _peagle(
    view: View, flat: Flat, verifier: VerifierView | None, refusals: list[Refusal], tokens: int | None
) -> Drafter:
    """Read as `llama_eagle3.py` or `qwen3_eagle3.py` do; the aux layers as model runner V1 does."""
    eagle = flat.get("eagle_config") or {}
    qwen = _peagle_class(view, flat) == "qwen3"
    aux = _peagle_aux_layers(flat, eagle, verifier)
    _refuse_quoted_mask_token(flat)
    count = flat.get("num_aux_hidden_states")
    if qwen:
        count = flat.get("num_aux_layers", count) or len(flat.get("eagle_aux_hidden_state_layer_ids") or []) or None
    count = count or len(eagle.get("eagle_aux_hidden_state_layer_ids") or []) or 3
    sizes = decoder.dimensions(flat, None)
    width = (
        view.tensors["fc.weight"].shape[-1] if "fc.weight" in view.tensors and view.tensors["fc.weight"].shape else None
    )
    if width is not None and count * sizes.target_hidden_size != width:
        message = f"vLLM builds fc for {count} aux layers of {sizes.target_hidden_size}, the file's fc reads {width}"
        refusals.append(Refusal("AUX004", message))
    return Drafter(
        method="peagle",
        aux_layers=aux,
        slots=None,
        block_size=None,
        speculative_tokens=tokens,
        mask_token_id=_mask_token(flat),
        dimensions=sizes,
        attention=decoder.llama_attention(flat, sizes.num_layers),
        rope=decoder.rope(flat, sizes.head_dim, 10_000.0),
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


def _peagle_class(view: View, flat: Flat) -> str:
    names = flat.get("architectures") or []
    name = names[0] if names else ""
    if is_speculators(view.config):
        return "qwen3" if "Qwen3" in name else "llama"
    # EAGLEConfig prefixes "Eagle3" unless the name begins or ends with it; the result must be registered.
    final = name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"
    classes = {"Eagle3LlamaForCausalLM": "llama", "LlamaForCausalLMEagle3": "llama", "Eagle3Qwen3ForCausalLM": "qwen3"}
    if final not in classes:
        raise EngineRefusedError("CFG004", f"architectures {names} becomes {final}, which vLLM does not know")
    return classes[final]


def _peagle_aux_layers(flat: Flat, eagle: Flat, verifier: VerifierView | None) -> tuple[int, ...] | None:
    nested = eagle.get("eagle_aux_hidden_state_layer_ids")
    if nested:
        return tuple(sorted(set(_ids(nested))))
    stated = _aux_layers(flat)
    if stated is not None or verifier is None:
        return stated
    layers = verifier.num_hidden_layers
    return tuple(sorted({2, layers // 2, layers - 3}))
