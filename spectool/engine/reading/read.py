"""The engine's reading: what vLLM would run, given a folder and the verifier beside it.

Proved against the engine itself in `tests/engine`; the sources of each part stand in its module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from spectool.dialects.dimensions import LAYER
from spectool.dialects.heads import MARKOV
from spectool.dialects.view import View
from spectool.drafter.model import ZERO, Confidence, Drafter, Markov, Method, SlotLayout
from spectool.engine.facts import EngineFacts
from spectool.engine.reading import decoder
from spectool.engine.reading.common import (
    Request,
    aux_layers,
    default_aux_layers,
    mask_token,
    refuse_multimodal_rope,
    refuse_without_aux,
)
from spectool.engine.reading.flat import Flat, flat_config, is_speculators
from spectool.engine.reading.peagle import read_peagle
from spectool.engine.reading.record import EngineReading, EngineRefusedError, EngineUnknownError, Refusal
from spectool.formats.lookup import is_int, lookup
from spectool.formats.verifier import VerifierView
from spectool.resources import package_data


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
        flat = flat_config(view.config, facts)
        read = {"peagle": read_peagle, "dflash": _dflash, "dspark": _dspark}[method]
        drafter = read(Request(view, flat, facts, verifier, _tokens(view, tokens), refusals))
    except EngineUnknownError as error:
        return EngineReading(facts.version, None, tuple(refusals), str(error))
    except EngineRefusedError as error:
        return EngineReading(facts.version, None, (*refusals, error.refusal))
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        # A value of a type vLLM's own code would trip over as well; which line it is does not matter.
        return EngineReading(facts.version, None, (*refusals, Refusal("CFG003", f"a value of the wrong type: {error}")))
    refusals += _of_tensors(view, drafter, facts)
    return EngineReading(facts.version, drafter, tuple(refusals))


def _of_tensors(view: View, drafter: Drafter, facts: EngineFacts) -> Iterator[Refusal]:
    """Yield what vLLM raises about once it sees which tensors there are; each is explained by a rule of its own."""
    layers = {int(match[1]) for name in view.tensors if (match := LAYER.search(name))}
    beyond = sorted(layer for layer in layers if layer >= drafter.dimensions.num_layers)
    if beyond:
        yield Refusal(
            "LAY001", f"there is no module layers.{beyond[0]} in a drafter of {drafter.dimensions.num_layers}"
        )
    size = drafter.dimensions
    if drafter.method == "dspark" and size.draft_vocab_size < size.vocab_size:
        gone = [code for code, name in (("TEN001", "lm_head.weight"), ("VOC002", "d2t")) if not _has(view, name)]
        for code in gone if "dspark_reduced_checks" in facts.features else ():
            yield Refusal(code, "a DSpark checkpoint of a reduced vocabulary must include lm_head and d2t")


def _has(view: View, name: str) -> bool:
    return name in view.tensors or f"model.{name}" in view.tensors


def _tokens(view: View, given: int | None) -> int | None:
    stated = lookup(view.config, "speculators_config.proposal_methods.0.speculative_tokens")
    return given if given is not None else (stated if is_int(stated) else None)


def _dflash(request: Request) -> Drafter:
    if not request.has("speculators_dflash"):
        raise EngineRefusedError("ENG001", "it has no method dflash")
    _require_class(request, "dflash")
    own = _object(request.flat, "dflash_config")
    if own.get("sample_from_anchor") and request.has("dspark_anchor_flag"):
        message = "DFlash never samples from the anchor slot: model runner V2 raises, V1 ignores the key"
        request.refusals.append(Refusal("SLT001", message))
    if not request.has("dflash_runner_v2"):
        refuse_multimodal_rope(request)
    return _qwen3_block(request, "dflash", "bonus-anchor")


def _dspark(request: Request) -> Drafter:
    flat = request.flat
    if not request.has("speculators_dspark"):
        raise EngineRefusedError("ENG001", "it has no method dspark")
    _require_class(request, "dspark")
    if _object(flat, "dflash_config").get("sample_from_anchor") and request.has("dspark_anchor_flag"):
        # The speculator is a DFlash one at first, which raises before it reads its own key.
        message = "dflash_config.sample_from_anchor is true: its base class raises, whatever the key beside it says"
        request.refusals.append(Refusal("SLT001", message))
    first = flat.get("sample_from_anchor", True)
    drafter = _qwen3_block(request, "dspark", "anchor-first" if first else "bonus-anchor")
    rank = flat.get("markov_rank")
    heads = any(name.startswith("markov_head.") for name in request.view.tensors)
    if not is_int(rank) or rank < 0 or (rank == 0 and heads):
        raise EngineRefusedError("HED002", f"markov_rank is {rank!r}: vLLM cannot build the Markov head")
    confidence = None
    if flat.get("enable_confidence_head", False) and any(
        name.startswith("confidence_head") for name in request.view.tensors
    ):
        confidence = Confidence(bool(flat.get("confidence_head_with_markov", False)))
    # vLLM builds the vanilla head whatever markov_head_type says; one of zeros changes no logit.
    kind = ZERO if all(request.view.is_zero(name) for name in MARKOV) else "vanilla"
    return replace(drafter, markov=Markov(kind, int(rank)) if rank else None, confidence=confidence)


def _object(flat: Flat, key: str) -> Flat:
    """Return an object of the configuration; the class takes an absent one for empty, and null for a fault."""
    value = flat.get(key, {})
    if value is None:
        raise EngineRefusedError("CFG003", f"{key} is null, where the class expects an object (TypeError in vLLM)")
    return dict(value)


def _qwen3_block(request: Request, method: Method, slots: SlotLayout) -> Drafter:
    flat, facts = request.flat, request.facts
    own = _object(flat, "dflash_config")
    refuse_without_aux({**flat, **_object(flat, "eagle_config"), **own})
    sizes = decoder.dimensions(flat, block=True)
    decoder.activation(flat)
    block = flat.get("block_size", request.view.config.get("block_size", own.get("block_size")))
    return Drafter(
        method=method,
        aux_layers=_aux_layers(request, method),
        slots=slots,
        block_size=block if is_int(block) else None,
        speculative_tokens=request.tokens,
        mask_token_id=mask_token(request, runner_v1=False),
        dimensions=sizes,
        attention=decoder.dflash_attention(flat, sizes.num_layers, facts, dspark=method == "dspark"),
        # set_default_rope_theta: a Speculators folder without a base gets 1000000.
        rope=decoder.rope(flat, sizes.head_dim, 1_000_000.0, facts, interleaved=_verifiers_layout(request, method)),
        qk_norm=True,
        rms_norm_eps=decoder.epsilon(flat),
        attention_bias=bool(flat.get("attention_bias", False)),
        sinks=request.has("attention_sinks")
        and bool(own.get("attention_sink_bias", flat.get("add_swa_attention_sink_bias", False))),
        logit_scale=float(flat.get("logit_scale", 1.0)),
        value_scale=float(own.get("attention_value_scale") or 1.0) if request.has("value_scale") else 1.0,
        max_position_embeddings=flat.get("max_position_embeddings"),
    )


def _verifiers_layout(request: Request, method: Method) -> bool | None:
    """Return whether DFlash's rope is interleaved where the verifier decides (0.28 alone); None where it does not.

    Source: vLLM 0.28 `v1/spec_decode/dflash.py` load_model, `v1/worker/gpu/spec_decode/dflash/utils.py`.
    """
    verifier = request.verifier
    if method != "dflash" or not request.has("verifier_neox_style") or verifier is None or not verifier.architectures:
        return None
    document = json.loads(package_data("interleaved.json").read_text(encoding="utf-8"))
    return verifier.architectures[0] in document["architectures"]


def _aux_layers(request: Request, method: Method) -> tuple[int, ...] | None:
    """Return the aux layers; on releases whose DFlash runs on model runner V1 alone, what that one reads."""
    first = method == "dflash" and not request.has("dflash_runner_v2")
    stated = aux_layers(request, runner_v1=first)
    if stated is None and first and request.verifier is not None:
        return default_aux_layers(request.verifier)
    return stated


def _require_class(request: Request, method: Method) -> None:
    """Raise unless the release runs a native folder's architecture with the Qwen3 draft class.

    DFlash names are prefixed unless they begin or end with the word (`transformers_utils/configs/eagle.py`); any other
    DSpark name is taken for DeepSeek-V4's, whose weights no file has (`config/speculative.py`).
    """
    if is_speculators(request.view.config) and request.view.config.get("model_type") is None:
        return  # the translator names the class
    names = [str(name) for name in request.flat.get("architectures") or []]
    name = names[0] if names else ""
    if method == "dflash":
        final = name if name.startswith("DFlash") or name.endswith("DFlash") else f"DFlash{name}"
        if request.facts.draft_classes.get(final) != "qwen3_dflash":
            raise EngineRefusedError("CFG004", f"architectures {names} becomes {final}, which it does not know")
        return
    named = name == "DSparkDraftModel" and request.flat.get("model_type") == "qwen3"
    if named and request.has("dspark_by_model_type"):
        return
    if request.facts.draft_classes.get(name) != "qwen3_dspark":
        raise EngineRefusedError(
            "CFG004", f"architectures {names} is taken for DeepSeek-V4's DSpark, whose tensors differ"
        )
