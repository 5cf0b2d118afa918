"""The example drafters' weights in the layouts vLLM does not load: names and keys change, the numbers do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutations import Change, Config, Tensors, both, put

NAMED = {"verifier": "spectool/tiny-verifier"}
K5 = {"speculative_tokens": 5}


def renamed(*pairs: tuple[str, str]) -> Change:
    """Rename tensors by prefix, first match wins."""

    def change(config: Config, tensors: Tensors) -> None:
        for name in list(tensors):
            for old, new in pairs:
                if name.startswith(old):
                    tensors[new + name.removeprefix(old)] = tensors.pop(name)
                    break

    return change


def moved(keys: tuple[str, ...], into: str) -> Change:
    """Move top-level keys into an object."""

    def change(config: Config, tensors: Tensors) -> None:
        config[into] = {**config.get(into, {}), **{key: config.pop(key) for key in keys if key in config}}

    return change


def hoisted(key: str) -> Change:
    """Move an object's keys to the top."""

    def change(config: Config, tensors: Tensors) -> None:
        config.update(config.pop(key))

    return change


def keys(**values: Any) -> Change:
    """Set top-level keys; `...` removes one."""
    return both(*(put(key, value) for key, value in values.items()))


def map_tensors(values: Callable[[int], int]) -> Change:
    """A full vocabulary's d2t and t2d."""

    def change(config: Config, tensors: Tensors) -> None:
        data = b"".join(values(row).to_bytes(8, "little", signed=True) for row in range(512))
        tensors |= {"d2t": ("I64", (512,), data), "t2d": ("BOOL", (512,), b"\1" * 512)}

    return change


HEADS = ("markov_rank", "markov_head_type", "enable_confidence_head", "confidence_head_with_markov")
WITHIN = ("mask_token_id", "target_layer_ids")
SPECFORGE = both(
    moved((*WITHIN, *HEADS), "dflash_config"),
    keys(architectures=["DSparkDraftModel"]),
    put("dflash_config.projector_type", "dspark"),
)

CASES: dict[str, tuple[str, Change, dict[str, Any]]] = {
    "dflash-zlab nested": ("dflash", moved(("block_size",), "dflash_config"), {}),
    "dflash-zlab of AngelSlim": ("dflash", keys(architectures=["QwenDFlashDraftModel"]), {}),
    "dflash-nemo": ("dflash", keys(architectures=["Qwen3DFlashDraftModel"]), {}),
    "dflash-torchspec": (
        "dflash",
        both(
            hoisted("dflash_config"),
            keys(model_type="dflash", target_num_hidden_layers=6, num_target_layers=3, head_dim=..., block_size=...),
            renamed(("fc.", "context_proj."), ("hidden_norm.", "context_norm."), ("norm.", "final_norm.")),
        ),
        {"block_size": 8},
    ),
    "dflash-verl": (
        "dflash",
        both(
            hoisted("dflash_config"),
            keys(model_type="dflash", target_num_hidden_layers=6, num_context_layers=3, head_dim=..., block_size=...),
            keys(rope_parameters=..., rope_theta=10000.0),
        ),
        {"block_size": 8},
    ),
    "dflash-muse": (
        "dflash",
        both(
            hoisted("dflash_config"),
            keys(architectures=["MuseGlimmerAssistantModel"], model_type="muse_glimmer_assistant", vocab_size=...),
            renamed(("fc.", "encoder.fc."), ("hidden_norm.", "encoder.output_norm_enc.")),
        ),
        {},
    ),
    "dspark-specforge": ("dspark", SPECFORGE, {}),
    "dspark-specforge early": (
        "dspark",
        both(SPECFORGE, renamed(("markov_head.", "logit_head.markov_head."), ("conf", "logit_head.conf"))),
        {},
    ),
    "dspark-modelopt": (
        "dspark",
        both(
            moved((*WITHIN, "markov_rank", "markov_head_type"), "dflash_config"),
            keys(architectures=["DFlashDraftModel"], enable_confidence_head=..., confidence_head_with_markov=...),
            put("dflash_config.projector_type", "dspark"),
            put("dflash_config.shift_label", True),
            put("dflash_config.use_confidence_head", True),
            renamed(("markov_head.", ""), ("confidence_head.proj.", "confidence_proj.")),
        ),
        {},
    ),
    "dspark-labelled": ("dspark", keys(architectures=["DFlashDraftModel"]), {"slot_layout": "anchor-first"}),
    "peagle-specforge": (
        "peagle",
        both(
            keys(architectures=["PEagleDraftModel"], ptd_token_id=...),
            put("eagle_config.eagle_aux_hidden_state_layer_ids", [0, 2, 4]),
            put("rope_parameters", {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0}),
            renamed(("midlayer.", "layers.0.")),
            map_tensors(lambda row: 0),
        ),
        {**K5, "mask_token_id": 511},
    ),
    "peagle-verl": (
        "peagle",
        both(
            keys(architectures=["LlamaForCausalLMPeagle"], model_type="llama_peagle", num_draft_layers=2, num_depths=5),
            keys(ptd_token_id=..., mask_token_id=511, eagle_aux_hidden_state_layer_ids=[1, 3, 5], eagle_config=...),
            renamed(("midlayer.", "layers.0.")),
            map_tensors(lambda row: row),
        ),
        {},
    ),
}


# Layouts that ship neither embedding nor head.
UNSHIPPED = {"dspark-specforge", "dspark-specforge early", "dspark-modelopt"}


def unshipped(config: Config, tensors: Tensors) -> None:
    for name in ("embed_tokens.weight", "lm_head.weight"):
        del tensors[name]


NEMO = both(
    keys(architectures=["LlamaEagle3DraftModel"], model_type="qwen3", parallel_drafting=True, num_depths=5),
    keys(ptd_token_id=..., mask_token_id=511, eagle_config=...),
    renamed(
        *(("midlayer.", "model.layers.0."), ("layers.", "model.layers."), ("embed", "model.embed")),
        *(("fc.", "model.fc."), ("norm.", "model.norm.")),
    ),
)
