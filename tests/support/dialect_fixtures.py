"""A folder per dialect and generation, headers only: what each producer writes, in small numbers.

Keys and names follow `facts/{dflash,dspark,peagle}.md`; each entry names what is special about it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import drafters
from checkpoints import Tensors
from drafters import Size, Spec

from spectool.dialects.view import View
from spectool.formats.verifier import VerifierView

Shapes = dict[str, tuple[int, ...]]
NEMO_META = "eagle_meta.pt:selected_token"
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64, "use_sliding_window": True}
SLIDING = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 64}
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 64, "rope_theta": 150000.0}


@dataclass(frozen=True)
class Fixture:
    """A folder, the dialect it is, and what a conversion needs besides."""

    dialect: str
    view: View
    verifier: VerifierView
    settings: dict[str, Any] = field(default_factory=dict)
    verifier_tensors: dict[str, Spec] | None = None
    content: Tensors = field(default_factory=dict)
    """Tensors whose values matter, where weights are written: dtype, shape, bytes."""


def rebuilt(view: View, name: str, change: Callable[[dict[str, Any], Shapes], None], *files: str) -> View:
    """A view with config and shapes changed in place."""
    config = {key: dict(value) if isinstance(value, dict) else value for key, value in view.config.items()}
    shapes = {key: tuple(spec.shape) for key, spec in view.tensors.items()}
    change(config, shapes)
    dtypes = {"d2t": "I64", "t2d": "BOOL", f"{NEMO_META}_ids": "I64", f"{NEMO_META}_mask": "BOOL"}
    tensors = {key: Spec(dtypes.get(key, "BF16"), shape) for key, shape in shapes.items()}
    return View(name, config, tensors, side_files=files)


def rename(shapes: Shapes, *pairs: tuple[str, str]) -> None:
    """Rename tensors by prefix, first match wins."""
    for name in list(shapes):
        for old, new in pairs:
            if name.startswith(old):
                shapes[new + name.removeprefix(old)] = shapes.pop(name)
                break


def without(config: dict[str, Any], *keys: str) -> None:
    """Remove keys."""
    for key in keys:
        config.pop(key, None)


def sinks(shapes: Shapes, size: Size) -> None:
    """One sink per head and layer."""
    shapes |= {f"layers.{layer}.self_attn.attention_sink_bias": (size.heads,) for layer in range(size.layers)}


SIZE = Size()
# A reduced vocabulary: every other id of the verifier's, as offsets, as ids, and as a mask of all.
REDUCED = Size(draft_vocab=64)
CHOSEN = range(1, 128, 2)
T2D = ("BOOL", (128,), b"\0\1" * 64)
OFFSETS = ("I64", (64,), b"".join(struct.pack("<q", target - draft) for draft, target in enumerate(CHOSEN)))
IDS = ("I64", (64,), b"".join(struct.pack("<q", target) for target in CHOSEN))
FIRST = ("I64", (64,), b"".join(struct.pack("<q", target) for target in range(64)))
FIRST_T2D = ("BOOL", (128,), b"\1" * 64 + b"\0" * 64)


# --- DFlash


def _nested(config: dict[str, Any], shapes: Shapes) -> None:
    config["dflash_config"]["block_size"] = config.pop("block_size")


def _gpt_oss(config: dict[str, Any], shapes: Shapes) -> None:
    without(config, "rope_parameters")
    config |= {"model_type": "gpt_oss", "rope_theta": 150000.0, "initial_context_length": 64}
    config["rope_scaling"] = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 64}


def _kimi(config: dict[str, Any], shapes: Shapes) -> None:
    config["rope_parameters"] = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}


def _angelslim(config: dict[str, Any], shapes: Shapes) -> None:
    config |= {"architectures": ["QwenDFlashDraftModel"], "num_anchors": 512, "loss_decay_gamma": 7.0}


def _nemo(config: dict[str, Any], shapes: Shapes) -> None:
    config["architectures"] = ["Qwen3DFlashDraftModel"]


def _modelopt(config: dict[str, Any], shapes: Shapes) -> None:
    config["layer_types"] = ["full_attention"] * 2
    config["dflash_config"] |= {"causal": False, "use_swa": True, "swa_window_size": 32, "attention_sink_bias": True}
    sinks(shapes, SIZE)


def _modelopt_exported(config: dict[str, Any], shapes: Shapes) -> None:
    """With what ModelOpt's exporter adds for older readers: the rope at the top, window and sinks a second time."""
    _modelopt(config, shapes)
    without(config, "rope_parameters")
    config |= {"rope_theta": 10000.0, "rope_scaling": None, "sliding_window": 32, "attention_sink_bias": True}


def _nemotron_dflash(config: dict[str, Any], shapes: Shapes) -> None:
    _modelopt(config, shapes)
    config["dflash_config"] |= {"causal": True}
    config |= {"has_embed_tokens": True, "has_lm_head": False, "eagle_aux_hidden_state_layer_ids": [1, 3, 5]}
    shapes["embed_tokens.weight"] = (SIZE.vocab, SIZE.hidden)


def _mimo(config: dict[str, Any], shapes: Shapes) -> None:
    config["partial_rotary_factor"] = 0.5
    config["dflash_config"] |= {"use_swa": True, "swa_window_size": 32, "block_size": 8}
    config["dflash_config"] |= {"attention_value_scale": 0.612, "attention_sink_bias": True}
    sinks(shapes, SIZE)


def _mimo_mask(config: dict[str, Any], shapes: Shapes) -> None:
    """The row of the mask token in mask_embedding.pt, which is one tensor."""
    _mimo(config, shapes)
    shapes["mask_embedding.pt:"] = (SIZE.hidden,)


def _specforge_dflash(config: dict[str, Any], shapes: Shapes) -> None:
    """transformers 5 keys, mirrored for older readers."""
    config |= {"auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "rope_theta": SIZE.theta, "rope_scaling": None}


def _specforge_lfm2(config: dict[str, Any], shapes: Shapes) -> None:
    config["rope_is_neox_style"] = False


def _modelopt_plain(config: dict[str, Any], shapes: Shapes) -> None:
    """ModelOpt without windows and sinks: z-lab's keys, `causal`, and yarn under its older name."""
    without(config, "rope_parameters")
    config |= {"rope_theta": 10000.0, "initializer_range": 0.02, "torch_dtype": "bfloat16"}
    config["rope_scaling"] = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    config["dflash_config"]["causal"] = True


def _jetspec(config: dict[str, Any], shapes: Shapes) -> None:
    _nemo(config, shapes)
    config["dflash_config"]["causal"] = True


def _torchspec(config: dict[str, Any], shapes: Shapes) -> None:
    own = config.pop("dflash_config")
    without(config, "block_size", "head_dim")
    config |= {**own, "model_type": "dflash", "target_hidden_size": 32, "target_num_hidden_layers": 8}
    config["num_target_layers"] = 3  # the number of aux layers here
    rename(shapes, ("fc.", "context_proj."), ("hidden_norm.", "context_norm."), ("norm.", "final_norm."))
    shapes["embed_tokens.weight"] = (SIZE.vocab, SIZE.hidden)


def _verl_dflash(config: dict[str, Any], shapes: Shapes) -> None:
    own = config.pop("dflash_config")
    without(config, "block_size", "head_dim", "rope_parameters")
    config |= {**own, "model_type": "dflash", "target_hidden_size": 32, "target_num_hidden_layers": 8}
    config |= {"num_context_layers": 3, "rope_theta": 10000.0}
    shapes["embed_tokens.weight"] = (SIZE.vocab, SIZE.hidden)


def _muse(config: dict[str, Any], shapes: Shapes) -> None:
    config |= config.pop("dflash_config")
    without(config, "vocab_size", "hidden_act")
    config |= {"architectures": ["MuseGlimmerAssistantModel"], "model_type": "muse_glimmer_assistant", **SLIDING}
    rename(shapes, ("fc.", "encoder.fc."), ("hidden_norm.", "encoder.output_norm_enc."))


def zlab(name: str, change: Callable[[dict[str, Any], Shapes], None] | None = None, **size: Any) -> View:
    """A z-lab folder, changed."""
    return rebuilt(drafters.zlab(Size(**size)), name, change or (lambda config, shapes: None))


GEMMA_EMBEDDING = {"model.language_model.embed_tokens.weight": Spec("BF16", (128, 32))}
DFLASH: dict[str, Fixture] = {
    "dflash-zlab-early": Fixture("dflash-zlab", zlab("early"), drafters.verifier(SIZE)),
    "dflash-zlab-nested": Fixture("dflash-zlab", zlab("nested", _nested), drafters.verifier(SIZE)),
    "dflash-zlab-mixed": Fixture("dflash-zlab", zlab("mixed", _nested, extra=MIXED), drafters.verifier(SIZE)),
    "dflash-zlab-gptoss": Fixture("dflash-zlab", zlab("gptoss", _gpt_oss, biases=True), drafters.verifier(SIZE)),
    "dflash-zlab-kimi": Fixture(
        "dflash-zlab", zlab("kimi", _kimi), drafters.verifier(SIZE), {"rope.attention_factor": 1.0}
    ),
    "dflash-zlab-gemma": Fixture(
        "dflash-zlab",
        zlab("gemma", extra={**MIXED, "final_logit_softcapping": 30.0, "tie_word_embeddings": True}),
        drafters.verifier(SIZE, model_type="gemma4", architectures=["Gemma4ForConditionalGeneration"]),
        {"embedding_scale": 5.65625},
        verifier_tensors=GEMMA_EMBEDDING,
    ),
    "dflash-zlab-last-layer": Fixture("dflash-zlab", zlab("last", taps=(2, 8)), drafters.verifier(SIZE)),
    "dflash-zlab-unsorted": Fixture("dflash-zlab", zlab("unsorted", taps=(5, 1, 3)), drafters.verifier(SIZE)),
    "dflash-specforge": Fixture("dflash-zlab", zlab("specforge", _specforge_dflash), drafters.verifier(SIZE)),
    "dflash-specforge-lfm2": Fixture("dflash-zlab", zlab("lfm2", _specforge_lfm2), drafters.verifier(SIZE)),
    "dflash-specforge-sliding": Fixture("dflash-zlab", zlab("sliding", extra=SLIDING), drafters.verifier(SIZE)),
    "dflash-modelopt-plain": Fixture(
        "dflash-zlab", zlab("plain", _modelopt_plain, taps=(1, 5)), drafters.verifier(SIZE)
    ),
    "dflash-jetspec": Fixture("dflash-nemo", zlab("jetspec", _jetspec), drafters.verifier(SIZE)),
    "dflash-angelslim": Fixture("dflash-zlab", zlab("angelslim", _angelslim), drafters.verifier(SIZE)),
    "dflash-nemo": Fixture("dflash-nemo", zlab("nemo", _nemo), drafters.verifier(SIZE)),
    "dflash-modelopt": Fixture(
        "dflash-modelopt", zlab("modelopt", _modelopt_exported, taps=(1, 5)), drafters.verifier(SIZE)
    ),
    "dflash-nemotron": Fixture("dflash-modelopt", zlab("nemotron", _nemotron_dflash), drafters.verifier(SIZE)),
    "dflash-mimo": Fixture("dflash-mimo", zlab("mimo", _mimo), drafters.verifier(SIZE)),
    "dflash-mimo-mask": Fixture(
        "dflash-mimo",
        zlab("mimo", _mimo_mask),
        drafters.verifier(SIZE),
        verifier_tensors={"model.embed_tokens.weight": Spec("BF16", (128, 32))},
    ),
    "dflash-verl": Fixture("dflash-verl", zlab("verl", _verl_dflash), drafters.verifier(SIZE), {"block_size": 16}),
    "dflash-torchspec": Fixture(
        "dflash-torchspec", zlab("torchspec", _torchspec), drafters.verifier(SIZE), {"block_size": 16}
    ),
    "dflash-muse": Fixture("dflash-muse", zlab("muse", _muse), drafters.verifier(SIZE)),
}


# --- DSpark

HEADS = ("markov_rank", "markov_head_type", "enable_confidence_head", "confidence_head_with_markov")


def _bare(config: dict[str, Any], shapes: Shapes) -> None:
    without_tensors(shapes, "embed_tokens.weight", "lm_head.weight")


def without_tensors(shapes: Shapes, *names: str) -> None:
    """Remove tensors."""
    for name in names:
        del shapes[name]


def _headless(config: dict[str, Any], shapes: Shapes) -> None:
    without(config, "markov_head_type", "confidence_head_with_markov")
    config |= {"markov_rank": 0, "enable_confidence_head": False}
    without_tensors(shapes, *[name for name in shapes if name.startswith(("markov_head", "confidence_head"))])


def _plain_qwen35(config: dict[str, Any], shapes: Shapes) -> None:
    config |= {"architectures": ["Qwen35DSparkModel"], "model_type": "qwen3_5_text", "partial_rotary_factor": 0.25}


def _specforge(config: dict[str, Any], shapes: Shapes) -> None:
    own = {key: config.pop(key) for key in ("mask_token_id", "target_layer_ids", *HEADS)}
    config |= {"architectures": ["DSparkDraftModel"], "rope_parameters": YARN}
    config["dflash_config"] = {**own, "projector_type": "dspark", "attention_mode": "gqa"}
    _bare(config, shapes)


def _verl_dspark(config: dict[str, Any], shapes: Shapes) -> None:
    """SpecForge's architecture and tensors, with the keys at the top and a copy of the verifier's embedding."""
    without(config, "head_dim", "rope_parameters")
    config |= {"architectures": ["DSparkDraftModel"], "model_type": "dspark", "rope_theta": 10000.0}
    config |= {"target_hidden_size": 32, "target_num_hidden_layers": 8, "num_context_layers": 3}
    without_tensors(shapes, "lm_head.weight")


def _specforge_promoted(config: dict[str, Any], shapes: Shapes) -> None:
    _specforge(config, shapes)
    config |= {key: config["dflash_config"][key] for key in ("mask_token_id", "target_layer_ids", *HEADS)}


def _specforge_early(config: dict[str, Any], shapes: Shapes) -> None:
    _specforge(config, shapes)
    rename(shapes, ("markov_head.", "logit_head.markov_head."), ("confidence_head.", "logit_head.confidence_head."))


def _modelopt_dspark(config: dict[str, Any], shapes: Shapes) -> None:
    own = {key: config.pop(key) for key in ("mask_token_id", "target_layer_ids", "markov_rank", "markov_head_type")}
    without(config, *HEADS)
    config["architectures"] = ["DFlashDraftModel"]
    config["dflash_config"] = {**own, "projector_type": "dspark", "shift_label": True, "causal": False}
    config["dflash_config"] |= {"use_confidence_head": True}
    _bare(config, shapes)
    rename(shapes, ("markov_head.", ""), ("confidence_head.proj.", "confidence_proj."))


def _nemotron(config: dict[str, Any], shapes: Shapes) -> None:
    own = {"mask_token_id": 127, "target_layer_ids": [0, 2, 4], "use_swa": True, "swa_window_size": 32}
    config["dflash_config"] = {**own, "attention_sink_bias": True, "causal": True, "sample_from_anchor": False}
    config |= {"dspark_bonus_anchor": True, "sample_from_anchor": False, "pard_token": 127, "draft_vocab_size": None}
    config |= {**SLIDING, "sliding_window": 32, "use_sliding_window": True, "rope_parameters": None}
    config |= {"rope_theta": 10000.0, "eagle_aux_hidden_state_layer_ids": [1, 3, 5]}
    without(config, "enable_confidence_head", "confidence_head_with_markov")
    without_tensors(shapes, "lm_head.weight", "confidence_head.proj.weight", "confidence_head.proj.bias")
    sinks(shapes, SIZE)


def _lfm2(config: dict[str, Any], shapes: Shapes) -> None:
    own = {key: config.pop(key) for key in ("mask_token_id", "target_layer_ids", "num_target_layers")}
    config |= {"architectures": ["Lfm2DSparkDraftModel"], "dflash_config": own, "rope_is_neox_style": False}
    _bare(config, shapes)


def _dual(config: dict[str, Any], shapes: Shapes) -> None:
    config |= {"speculators_model_type": "dspark", "speculators_config": None, "sample_from_anchor": True}
    config |= {"aux_hidden_state_layer_ids": [1, 3, 5], "dspark_bonus_anchor": False}


def _labelled(config: dict[str, Any], shapes: Shapes) -> None:
    config["architectures"] = ["DFlashDraftModel"]


def deepspec(name: str, change: Callable[[dict[str, Any], Shapes], None] | None = None, **size: Any) -> View:
    """A DeepSpec folder, changed."""
    return rebuilt(drafters.deepspec(Size(**size)), name, change or (lambda config, shapes: None))


def _dspark(
    dialect: str, name: str, change: Callable[[dict[str, Any], Shapes], None] | None = None, **size: Any
) -> Fixture:
    return Fixture(f"dspark-{dialect}", deepspec(name, change, **size), drafters.verifier(SIZE))


DSPARK: dict[str, Fixture] = {
    "dspark-deepspec": _dspark("deepspec", "deepspec"),
    "dspark-deepspec-embedding-tap": _dspark("deepspec", "minus-one", taps=(0, 4, 6)),
    "dspark-deepspec-community": _dspark("deepspec", "community", _bare, block=15),
    "dspark-deepspec-dflash": _dspark("deepspec", "headless", _headless, block=7),
    "dspark-deepspec-qwen35": _dspark("deepspec", "qwen35", _plain_qwen35),
    "dspark-specforge": _dspark("specforge", "specforge", _specforge),
    "dspark-specforge-promoted": _dspark("specforge", "promoted", _specforge_promoted),
    "dspark-specforge-early": _dspark("specforge", "early", _specforge_early),
    "dspark-verl": _dspark("specforge", "verl", _verl_dspark),
    "dspark-modelopt": _dspark("modelopt", "modelopt", _modelopt_dspark, taps=(1, 5)),
    "dspark-nemotron": _dspark("nemotron", "nemotron", _nemotron),
    "dspark-lfm2": _dspark("lfm2", "lfm2", _lfm2, block=9),
    "dspark-dual": _dspark("dual", "dual", _dual),
    "dspark-labelled": Fixture(
        "dspark-labelled", deepspec("labelled", _labelled), drafters.verifier(SIZE), {"slot_layout": "bonus-anchor"}
    ),
}


# --- P-EAGLE


def _specforge_peagle(config: dict[str, Any], shapes: Shapes) -> None:
    without(config, "ptd_token_id", "eagle_config")
    config |= {"architectures": ["PEagleDraftModel"], "norm_before_residual": False, "rope_parameters": YARN}
    rename(shapes, ("midlayer.", "layers.0."))
    shapes |= {"d2t": (SIZE.vocab,), "t2d": (SIZE.vocab,)}
    shapes["mask_hidden"] = (1, 1, *shapes["mask_hidden"][1:])


def _llama3(config: dict[str, Any], shapes: Shapes) -> None:
    """Amazon's GPT-OSS drafters: Llama 3's rope, the mask token as a text in one reader's test."""
    low_high = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config["rope_scaling"] = {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 64, **low_high}
    config |= {"rope_theta": 500000.0, "ptd_token_id": "127"}
    without(config, "rope_parameters")


def _nemo_peagle(config: dict[str, Any], shapes: Shapes) -> None:
    without(config, "ptd_token_id", "eagle_config")
    config |= {"architectures": ["LlamaEagle3DraftModel"], "model_type": "gpt_oss", "parallel_drafting": True}
    config |= {"mask_token_id": 127, "num_depths": 6, "target_hidden_size": 32, "fc_norm": False, **MIXED}
    rename(shapes, ("midlayer.", "model.layers.0."), *((f"{part}.", f"model.{part}.") for part in ("layers", "fc")))
    rename(shapes, ("norm.", "model.norm."), ("embed_tokens.", "model.embed_tokens."))
    shapes["mask_hidden"] = (1, 1, *shapes["mask_hidden"][1:])


def _nemo_reduced(config: dict[str, Any], shapes: Shapes) -> None:
    _nemo_peagle(config, shapes)
    without(config, "layer_types")
    config |= {"model_type": "qwen3", "fc_norm": True}
    rename(shapes, ("fc_norm.", "model.fc_norm."))


def _nemo_meta(config: dict[str, Any], shapes: Shapes) -> None:
    """Before pull 2447: the map is in eagle_meta.pt alone."""
    _nemo_reduced(config, shapes)
    without_tensors(shapes, "d2t", "t2d")
    shapes |= {f"{NEMO_META}_ids": (64,), f"{NEMO_META}_mask": (128,)}


def _verl_reduced(config: dict[str, Any], shapes: Shapes) -> None:
    """Without a mapping file the first ids are used, and d2t holds them as they are."""
    _verl(config, shapes)
    shapes |= {"d2t": (64,)}


def _specforge_reduced(config: dict[str, Any], shapes: Shapes) -> None:
    _specforge_peagle(config, shapes)
    shapes |= {"d2t": (64,)}


def _verl(config: dict[str, Any], shapes: Shapes) -> None:
    without(config, "ptd_token_id", "eagle_config")
    config |= {"architectures": ["LlamaForCausalLMPeagle"], "model_type": "llama_peagle", "num_draft_layers": 2}
    config |= {"mask_token_id": 127, "num_depths": 6, "parallel_drafting": True, "num_aux_hidden_states": 3}
    rename(shapes, ("midlayer.", "layers.0."))
    shapes |= {"d2t": (SIZE.vocab,), "t2d": (SIZE.vocab,)}


def peagle(name: str, change: Callable[[dict[str, Any], Shapes], None] | None = None, **size: Any) -> View:
    """A native P-EAGLE folder, changed. Default aux layers of eight verifier layers are 2, 4, 5."""
    return rebuilt(drafters.peagle(Size(**size)), name, change or (lambda config, shapes: None))


def speculators_prototype(config: dict[str, Any], shapes: Shapes) -> None:
    """A Speculators P-EAGLE config as it was before its release."""
    mask = config.pop("mask_token_id")
    config |= {"ptd_token_id": mask, "para_depths": 5}
    del config["speculators_config"]["proposal_methods"]


K5 = {"speculative_tokens": 5}
PEAGLE: dict[str, Fixture] = {
    "peagle-vllm": Fixture("peagle-vllm", peagle("native"), drafters.verifier(SIZE), K5),
    "peagle-vllm-qwen3": Fixture("peagle-vllm", peagle("qwen3", qk_norm=True), drafters.verifier(SIZE), K5),
    "peagle-vllm-four": Fixture("peagle-vllm", peagle("four", taps=(1, 2, 4, 6)), drafters.verifier(SIZE), K5),
    "peagle-specforge": Fixture(
        "peagle-specforge",
        peagle("specforge", _specforge_peagle),
        drafters.verifier(SIZE),
        {**K5, "mask_token_id": 127},
    ),
    "peagle-nemo": Fixture("peagle-nemo", peagle("nemo", _nemo_peagle, biases=True), drafters.verifier(SIZE)),
    "peagle-verl": Fixture("peagle-verl", peagle("verl", _verl), drafters.verifier(SIZE)),
    "peagle-vllm-reduced": Fixture(
        "peagle-vllm",
        peagle("reduced", _llama3, draft_vocab=64),
        drafters.verifier(SIZE),
        K5,
        content={"d2t": OFFSETS, "t2d": T2D},
    ),
    "peagle-specforge-reduced": Fixture(
        "peagle-specforge",
        peagle("specforge", _specforge_reduced, draft_vocab=64),
        drafters.verifier(SIZE),
        {**K5, "mask_token_id": 127},
        content={"d2t": OFFSETS, "t2d": T2D},
    ),
    "peagle-nemo-reduced": Fixture(
        "peagle-nemo",
        peagle("nemo", _nemo_reduced, draft_vocab=64, fc_norm=True),
        drafters.verifier(SIZE),
        content={"d2t": OFFSETS, "t2d": T2D},
    ),
    "peagle-nemo-meta": Fixture(
        "peagle-nemo",
        peagle("nemo", _nemo_meta, draft_vocab=64, fc_norm=True),
        drafters.verifier(SIZE),
        content={f"{NEMO_META}_ids": IDS, f"{NEMO_META}_mask": T2D},
    ),
    "peagle-verl-reduced": Fixture(
        "peagle-verl",
        peagle("verl", _verl_reduced, draft_vocab=64),
        drafters.verifier(SIZE),
        content={"d2t": FIRST, "t2d": FIRST_T2D},
    ),
}


# --- Speculators: what its trainers wrote, by release

FLAT = ("architectures", "block_size", "dflash_config", "eagle_config", "mask_token_id", "ptd_token_id", *HEADS)
FLAT += ("num_target_layers", "target_layer_ids", "draft_vocab_size", "fc_norm")


CLASSES = {"peagle": "PEagleDraftModel", "dflash": "DFlashDraftModel", "dspark": "DSparkDraftModel"}


def speculators(view: View, kind: str, tokens: int, ids: str, size: Size, *gone: str, **top: Any) -> Fixture:
    """A folder's tensors with a Speculators config; `gone` are tensors that the release does not save.

    `frozen`, which is no key: the release saves the verifier's embedding and head as well.
    """
    frozen = top.pop("frozen", False)

    def change(config: dict[str, Any], shapes: Shapes) -> None:
        layer = {key: value for key, value in config.items() if key not in FLAT}
        config.clear()
        method = {"proposal_type": "greedy", "speculative_tokens": tokens, "verifier_accept_k": 1}
        config |= {"architectures": [CLASSES[kind]], "speculators_model_type": kind, ids: list(size.taps)}
        config |= {"transformer_layer_config": layer, "mask_token_id": size.mask, "block_size": size.block}
        config |= {"draft_vocab_size": size.draft_vocab, "tie_word_embeddings": False, "target_hidden_size": None}
        verifier = {"name_or_path": "org/verifier", "architectures": ["Qwen3ForCausalLM"]}
        config["speculators_config"] = {"algorithm": kind, "proposal_methods": [method], "verifier": verifier}
        config |= top
        if "ptd_token_id" in top:
            without(config, "mask_token_id")
        if kind == "peagle":
            without(config, "block_size")
            shapes["mask_hidden"] = (1, 1, *shapes["mask_hidden"][-1:])
        if frozen:
            shapes |= {"embed_tokens.weight": (size.vocab, 32), "lm_head.weight": (size.draft_vocab, 32)}
        rename(shapes, ("midlayer.", "layers.0."))
        if size.draft_vocab != size.vocab:
            shapes |= {"d2t": (size.draft_vocab,), "t2d": (size.vocab,), "lm_head.weight": (size.draft_vocab, 32)}
        without_tensors(shapes, *gone)
        if "markov_head.markov_w2.weight" in shapes:
            shapes["markov_head.markov_w2.weight"] = (size.draft_vocab, size.rank)

    content = {"d2t": OFFSETS, "t2d": T2D} if size.draft_vocab != size.vocab else {}
    changed = rebuilt(view, f"speculators-{kind}", change)
    theirs = {name: Spec("BF16", (128, 32)) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    return Fixture(
        f"{kind}-speculators",
        changed,
        drafters.verifier(SIZE),
        verifier_tensors=theirs if frozen else None,
        content=content,
    )


AUX, EAGLE_AUX = "aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids"
CONFIDENT = {"enable_confidence_head": True, "confidence_head_with_markov": True, "markov_rank": 4}
CONFIDENT |= {"markov_head_type": "vanilla"}
UNCHOSEN = {"norm_before_residual": True, "norm_before_fc": False, "fc_norm": False, "norm_output": False}
SPECULATORS: dict[str, Fixture] = {
    "dflash-speculators-050": speculators(drafters.zlab(SIZE), "dflash", 7, AUX, SIZE, max_anchors=256, frozen=True),
    "dflash-speculators-060": speculators(
        *(drafters.zlab(SIZE), "dflash", 7, AUX, SIZE), max_anchors=256, frozen=True, sliding_window_non_causal=False
    ),
    **{
        f"dflash-speculators-{release}": speculators(
            *(drafters.zlab(SIZE), "dflash", 7, AUX, SIZE),
            sliding_window_non_causal=False,
            sample_from_anchor=False,
            frozen=frozen,
        )
        for release, frozen in (("070", True), ("081", False))
    },
    "dflash-speculators-090": speculators(
        *(drafters.zlab(REDUCED), "dflash", 7, AUX, REDUCED),
        sliding_window_non_causal=False,
        sample_from_anchor=False,
        speculators_version="0.9.0",
    ),
    "dspark-speculators-early": speculators(  # before pull 760: no sample_from_anchor, K says which layout it is
        *(drafters.deepspec(SIZE), "dspark", 7, AUX, SIZE), **CONFIDENT
    ),
    "dspark-speculators-070": speculators(
        *(drafters.deepspec(SIZE), "dspark", 8, AUX, SIZE),
        **{**CONFIDENT, "sample_from_anchor": True, "sliding_window_non_causal": False},
    ),
    "dspark-speculators-081": speculators(
        *(drafters.deepspec(SIZE), "dspark", 8, AUX, SIZE, "embed_tokens.weight", "lm_head.weight"),
        **{**CONFIDENT, "sample_from_anchor": True, "sliding_window_non_causal": False},
    ),
    "dspark-speculators-090": speculators(
        *(drafters.deepspec(Size(draft_vocab=64, extra=SLIDING)), "dspark", 8, AUX, REDUCED, "embed_tokens.weight"),
        **{**CONFIDENT, "sample_from_anchor": True, "sliding_window_non_causal": True},
    ),
    "peagle-speculators-prototype": speculators(
        *(drafters.peagle(SIZE), "peagle", 5, EAGLE_AUX, SIZE), ptd_token_id=127, para_depths=5
    ),
    **{
        f"peagle-speculators-{release}": speculators(
            *(drafters.peagle(Size(qk_norm=True)), "peagle", 8, EAGLE_AUX, SIZE),
            **{**UNCHOSEN, "norm_before_residual": False},
        )
        for release in ("060", "070", "081")
    },
    "peagle-speculators-090": speculators(
        *(
            drafters.peagle(Size(draft_vocab=64, qk_norm=True)),
            "peagle",
            8,
            "eagle_aux_hidden_state_layer_ids",
            REDUCED,
        ),
        **UNCHOSEN,
    ),
}

ALL: dict[str, Fixture] = {**DFLASH, **DSPARK, **PEAGLE, **SPECULATORS}
