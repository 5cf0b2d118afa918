"""What all methods share: the request, the mask token, the aux layers."""

from __future__ import annotations

from dataclasses import dataclass

from spectool.dialects.view import View
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.flat import Flat
from spectool.engine.reading.record import EngineRefusedError, Refusal
from spectool.formats.lookup import MISSING, is_int
from spectool.formats.verifier import VerifierView

_SECTIONS = ("mrope_section", "xdrope_section")


@dataclass(frozen=True)
class Request:
    """A folder to be read as a release runs it. `refusals` collects what does not end the reading."""

    view: View
    flat: Flat
    facts: EngineFacts
    verifier: VerifierView | None
    tokens: int | None
    refusals: list[Refusal]

    def has(self, feature: str) -> bool:
        """Whether the release has a feature of `data/vllm-features.toml`."""
        return feature in self.facts.features


def mask_token(request: Request, *, runner_v1: bool) -> int:
    """Return the mask token. Source: vLLM 0.33 `v1/worker/gpu/spec_decode/utils.py`, get_parallel_drafting_token_id."""
    flat, own = request.flat, request.flat.get("dflash_config") or {}
    candidates = [own.get("mask_token_id", MISSING)]
    keys: tuple[str, ...] = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")
    if runner_v1 and not request.has("top_level_mask_token"):
        keys = keys[2:]
    candidates += [flat.get(key, MISSING) for key in keys]
    for value in candidates:
        if value is not MISSING and value is not None:
            return int(value)
    raise EngineRefusedError("MSK001", "no mask token: vLLM raises 'Model config must specify ... mask_token_id'")


def refuse_multimodal_rope(request: Request) -> None:
    """Note what model runner V1 raises about in parallel drafting: rope by sections, as multimodal verifiers have it.

    Source: vLLM 0.32 `v1/spec_decode/llm_base_proposer.py` _raise_if_mrope, `transformers_utils/config.py` uses_mrope.
    """
    flat = request.flat
    parameters = flat.get("rope_parameters") or flat.get("rope_scaling")
    for holder in (parameters, flat):
        if isinstance(holder, dict) and any(isinstance(holder.get(key), list) for key in _SECTIONS):
            message = "mrope_section in its rope: 'parallel drafting does not support M-RoPE yet'"
            request.refusals.append(Refusal("ROP001", message))
            return


def refuse_without_aux(drafter_config: Flat) -> None:
    """Raise where the draft class is told to read no aux layers: it then has no fc, and its loader wants one.

    Source: vLLM 0.32 `models/{llama_eagle3,qwen3_eagle3,qwen3_dflash}.py`, use_aux_hidden_state.
    """
    if not drafter_config.get("use_aux_hidden_state", True):
        raise EngineRefusedError("AUX002", "use_aux_hidden_state is false: vLLM builds no fc, and stops")


def layer_ids(value: object) -> tuple[int, ...]:
    """Return a list of layer ids, or raise what vLLM would trip over."""
    if not isinstance(value, list | tuple) or not all(is_int(item) for item in value):
        raise EngineRefusedError("AUX002", f"aux layer ids are {value!r}")
    return tuple(value)


def aux_layers(request: Request, *, runner_v1: bool = False) -> tuple[int, ...] | None:
    """Return input ids, sorted and without doubles, as vLLM captures them (`models/interfaces.py`).

    Model runner V1 does not look at `target_layer_ids` at the top (`v1/worker/gpu_model_runner.py`,
    `_get_eagle3_aux_layers_from_config`); without ids the class of the verifier says which layers.
    """
    flat = request.flat
    ids = flat.get("eagle_aux_hidden_state_layer_ids")
    if not ids:
        shift = 1 if request.has("native_aux_shift") else 0
        ids = [item + shift for item in layer_ids((flat.get("dflash_config") or {}).get("target_layer_ids") or [])]
    if not ids and not runner_v1:
        ids = [item + 1 for item in layer_ids(flat.get("target_layer_ids") or [])]
    return tuple(sorted(set(layer_ids(ids)))) or None


def default_aux_layers(verifier: VerifierView) -> tuple[int, ...]:
    """Return the layers that a verifier's class captures where the drafter names none (`models/interfaces.py`)."""
    layers = verifier.num_hidden_layers
    return tuple(sorted({2, layers // 2, layers - 3}))
