"""Producers' folders, each by its producer's conventions: the trained drafter.

Written from what the producers' code does (named at each function), and from nothing of spectool: no dialect file is
read, no module imported. Two readers that share a mistake prove nothing. `answers` holds what a producer keeps out of
its files: training arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from folders import Folder, Verifier
from forward import Drafter, Layer, Rope, llama3, plain, yarn, yarn_amplitude

Answers = dict[str, Any]
Read = Callable[[Folder, Verifier, Answers], Drafter]


# --- What all of them share: Hugging Face decoders


def head_size(config: dict[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def hf_rope(config: dict[str, Any], answers: Answers, **forced: Any) -> Rope:
    """Rope of transformers' Qwen3 and Llama (modeling_rope_utils): whole heads, whatever partial_rotary_factor says.

    Yarn's amplitude: `attention_factor`, else the ratio of the two mscales, else 0.1 ln(factor) + 1.
    """
    keys = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(keys.get("rope_theta") or config["rope_theta"])
    width = int(forced.get("width", head_size(config)))
    kind = forced.get("kind") or keys.get("rope_type") or keys.get("type") or "default"
    interleaved = bool(forced.get("interleaved", False))
    if kind == "default":
        return Rope(plain(theta, width), 1.0, interleaved)
    factor, length = keys["factor"], keys["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = keys["low_freq_factor"], keys["high_freq_factor"]
        return Rope(llama3(theta, width, factor, low, high, length), 1.0, interleaved)
    assert kind == "yarn"
    amplitude = answers.get("rope.attention_factor", keys.get("attention_factor"))
    if amplitude is None and keys.get("mscale") and keys.get("mscale_all_dim"):
        amplitude = yarn_amplitude(factor, keys["mscale"]) / yarn_amplitude(factor, keys["mscale_all_dim"])
    amplitude = yarn_amplitude(factor) if amplitude is None else float(amplitude)
    frequencies = yarn(theta, width, factor, length, keys.get("beta_fast") or 32.0, keys.get("beta_slow") or 1.0)
    return Rope(frequencies, amplitude, interleaved)


def sizes(folder: Folder) -> dict[str, Any]:
    config = folder.config
    return {
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": head_size(config),
        "epsilon": config["rms_norm_eps"],
    }


def layers(folder: Folder, windows: list[tuple[int | None, bool]], prefix: str = "layers.") -> list[Layer]:
    """One layer per entry of `windows`: its width (None: all) and whether it is causal."""
    return [Layer(folder.inside(f"{prefix}{index}."), *window) for index, window in enumerate(windows)]


def by_type(config: dict[str, Any], full: bool, sliding: bool) -> list[tuple[int | None, bool]]:
    """Windows by `layer_types`; `full` and `sliding`: whether such layers are causal."""
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    return [(config["sliding_window"], sliding) if kind == "sliding_attention" else (None, full) for kind in kinds]


def after(ids: list[int]) -> list[int]:
    """Layer *outputs*: hidden_states[id + 1] (z-lab extract_context_feature and all that copy it; -1: embedding)."""
    return [index + 1 for index in ids]


# --- DFlash


def dflash(folder: Folder, verifier: Verifier, answers: Answers, **given: Any) -> Drafter:
    """z-lab's model.py (2026-04-26, dflash 0.1.0) and what SpecForge and AngelSlim export in its layout.

    Keys of dflash_config before top-level ones. Slot 0 holds the accepted token and predicts nothing. Embedding and
    head are modules of the verifier, called with its own scaling. Full layers see the whole block, sliding ones are
    causal; a top-level `is_causal` speaks for all layers. A soft cap of the logits changes no draft and is left out.
    """
    config, tensors = folder.config, folder.tensors
    own = {**config, **config.get("dflash_config", {})}
    windows = given.pop("windows", None) or by_type(config, full=False, sliding=True)
    if "is_causal" in config:
        windows = [(window, bool(config["is_causal"])) for window, _ in windows]
    rope = given.pop("rope", None) or hf_rope(config, answers)
    stored = {"fc": tensors.get("fc.weight"), "norm": tensors.get("norm.weight")}
    stored["hidden_norm"] = tensors.get("hidden_norm.weight")
    block = own.get("block_size") or answers["block_size"]
    return Drafter(
        **{
            **sizes(folder),
            **stored,
            "taps": after(own["target_layer_ids"]),
            "layers": layers(folder, windows),
            "rope": rope,
            "embedding": verifier.embedded().double(),
            "head": verifier.head.double(),
            "mask_token": own.get("mask_token_id"),
            "block": block,
            "skip": 1,
            **given,
        }
    )


def nemo_dflash(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """nemo_automodel 0.7.0 components/speculative: z-lab's layout; JetSpec is causal and says so in dflash_config."""
    causal = bool(folder.config["dflash_config"].get("causal", answers.get("causal", False)))
    return dflash(folder, verifier, answers, windows=by_type(folder.config, full=causal, sliding=True))


def modelopt_dflash(folder: Folder, verifier: Verifier, answers: Answers, **given: Any) -> Drafter:
    """nvidia-modelopt 0.47.0 hf_spec_export.py DFlashExporter.

    `use_swa` gives every layer a window of `swa_window_size`, `causal` speaks for all layers (absent: not causal).
    Nemotron's drafters ship an embedding of their own.
    """
    config, own = folder.config, folder.config["dflash_config"]
    windows = by_type(config, full=False, sliding=True)
    if own.get("use_swa"):
        windows = [(own["swa_window_size"], False)] * config["num_hidden_layers"]
    if "causal" in own:
        windows = [(window, bool(own["causal"])) for window, _ in windows]
    if "embed_tokens.weight" in folder.tensors:
        given["embedding"] = folder.tensors["embed_tokens.weight"]
    return dflash(folder, verifier, answers, windows=windows, **given)


def mimo(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """MiMo-V2.5 (vllm pull 46104): ModelOpt's keys, the first half of each head rotated, values scaled."""
    config = folder.config
    width = int(head_size(config) * config.get("partial_rotary_factor", 1.0))
    scale = config["dflash_config"].get("attention_value_scale", 1.0)
    rope = hf_rope(config, answers, width=width)
    row = folder.tensors.get("mask_embedding.pt:")
    return modelopt_dflash(folder, verifier, answers, rope=rope, value_scale=scale, mask_row=row)


def torchspec(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """TorchSpec torchspec/models/draft/dflash.py: own names for the tensors beside the layers, a frozen embedding."""
    named = {"fc": "context_proj", "hidden_norm": "context_norm", "norm": "final_norm", "embedding": "embed_tokens"}
    parts = {field: folder.tensors[f"{name}.weight"] for field, name in named.items()}
    return dflash(folder, verifier, answers, **parts)


def verl_dflash(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """verl-SpeCo verl_speco/models/dflash: the usual names, a frozen embedding saved beside them."""
    return dflash(folder, verifier, answers, embedding=folder.tensors["embed_tokens.weight"])


def muse(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """Muse Glimmer's assistant: an `encoder`, windows both ways, the verifier's raw embedding rows."""
    parts = {"fc": "encoder.fc", "hidden_norm": "encoder.output_norm_enc"}
    given = {field: folder.tensors[f"{name}.weight"] for field, name in parts.items()}
    windows = by_type(folder.config, full=False, sliding=False)
    return dflash(folder, verifier, answers, windows=windows, embedding=verifier.embedding.double(), **given)


# --- DSpark


def dspark(folder: Folder, verifier: Verifier, answers: Answers, **given: Any) -> Drafter:
    """DeepSpec modeling/dspark (and NeMo Automodel's Qwen3DSparkModel): every slot predicts the token after its own.

    Keys at the top. The Markov head adds W2 W1[last token] to the logits; a rank of 0 means there is none. Embedding
    and head are saved with the drafter, or are the verifier's.
    """
    config, tensors = folder.config, folder.tensors
    prefix = given.pop("heads_prefix", "")
    names = given.pop("names", {"markov": "markov_head.markov_w{}", "confidence": "confidence_head.proj"})
    own = given.pop("keys", config)
    markov = None
    if own.get("markov_rank"):
        markov = tuple(tensors[f"{prefix}{names['markov'].format(part)}.weight"] for part in (1, 2))
    confidence = None
    if own.get("enable_confidence_head"):
        weight, bias = (tensors[f"{prefix}{names['confidence']}.{part}"] for part in ("weight", "bias"))
        confidence = (weight, bias, bool(own.get("confidence_head_with_markov", False)))
    shipped = {"embedding": "embed_tokens.weight", "head": "lm_head.weight"}
    parts = {field: tensors[name] for field, name in shipped.items() if name in tensors}
    return dflash(
        folder,
        verifier,
        answers,
        **{
            **parts,
            "skip": 0,
            "taps": after(own["target_layer_ids"]),
            "mask_token": own["mask_token_id"],
            "markov": markov,
            "confidence": confidence,
            **given,
        },
    )


def specforge_dspark(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """specforge 0.2.0 modeling/draft/{dflash,dspark}.py: keys in dflash_config, trained yarn, at first `logit_head.`"""
    early = any(name.startswith("logit_head.") for name in folder.tensors)
    return dspark(
        folder, verifier, answers, keys=folder.config["dflash_config"], heads_prefix="logit_head." if early else ""
    )


def modelopt_dspark(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """nvidia-modelopt 0.47.0 DSparkExporter: heads at the root, `shift_label`, confidence with W1's row."""
    own = dict(folder.config["dflash_config"])
    own |= {"enable_confidence_head": own.get("use_confidence_head"), "confidence_head_with_markov": True}
    windows = [(window, bool(own["causal"])) for window, _ in by_type(folder.config, full=False, sliding=True)]
    if own.get("use_swa"):
        windows = [(own["swa_window_size"], causal) for _, causal in windows]
    names = {"markov": "markov_w{}", "confidence": "confidence_proj"}
    skip = 0 if own["shift_label"] else 1
    return dspark(folder, verifier, answers, keys=own, names=names, windows=windows, skip=skip)


def nemotron_dspark(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """Nemotron-3.5-Lightning's DSpark: slot 0 is given (`dspark_bonus_anchor`), one causal window, sinks."""
    own = folder.config["dflash_config"]
    windows = [(own["swa_window_size"], bool(own["causal"]))] * folder.config["num_hidden_layers"]
    return dspark(folder, verifier, answers, windows=windows, skip=1 if folder.config["dspark_bonus_anchor"] else 0)


def lfm2(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """LFM2.5 (sglang 0.5.23 models/dspark.py): taps and mask in dflash_config, pairs of neighbours are rotated."""
    config = folder.config
    rope = hf_rope(config, answers, interleaved=config.get("rope_is_neox_style") is False)
    return dspark(folder, verifier, answers, keys={**config, **config["dflash_config"]}, rope=rope)


def labelled(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """Forks of DeepSpec that say DFlashDraftModel; which slots predict is known to whoever trained it."""
    return dspark(folder, verifier, answers, skip=1 if answers["slot_layout"] == "bonus-anchor" else 0)


def dual(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """vime's files: the flat copy, with the slot layout named."""
    return dspark(folder, verifier, answers, skip=0 if folder.config["sample_from_anchor"] else 1)


# --- P-EAGLE


def peagle(folder: Folder, verifier: Verifier, answers: Answers, **given: Any) -> Drafter:
    """Amazon's checkpoints as vLLM and NKIPY read them: layer ids are boundaries, the raw hidden state is the residual.

    `midlayer` is layer 0. `d2t` holds offsets. Layers attend causally, over everything. K is on the model card.
    """
    config, tensors = folder.config, folder.tensors
    stack = layers(folder, [(None, True)] * config["num_hidden_layers"], given.pop("prefix", "layers."))
    if any(name.startswith("midlayer.") for name in tensors):
        stack[0] = Layer(folder.inside("midlayer."), None, causal=True)
    root = given.pop("root", "")
    count = len(tensors["lm_head.weight"])
    offsets = given.pop("d2t", tensors.get("d2t"))
    taps = given.pop("taps", None) or config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    norms = [tensors[f"{root}fc_norm.{index}.weight"] for index in range(len(taps))] if config.get("fc_norm") else []
    return Drafter(
        **{
            **sizes(folder),
            "taps": taps,
            "layers": stack,
            "rope": given.pop("rope", None) or hf_rope(config, answers),
            "embedding": tensors[f"{root}embed_tokens.weight"],
            "head": tensors["lm_head.weight"],
            "norm": tensors[f"{root}norm.weight"],
            "fc": tensors[f"{root}fc.weight"],
            "mask_token": int(config.get("ptd_token_id", config.get("mask_token_id", -1))),
            "mask_hidden": tensors["mask_hidden"],
            "fc_norms": norms,
            "depth": config.get("num_depths") or answers.get("speculative_tokens", 0),
            "targets": torch.arange(count) + offsets if offsets is not None else None,
            "norm_before_residual": bool(config.get("norm_before_residual", False)),
            **given,
        }
    )


def specforge_peagle(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """specforge 0.2.0 modeling/draft/peagle.py: layer outputs 1, n/2 - 1, n - 4, and rope by its base alone."""
    depth = verifier.layers
    ids = folder.config.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids", [1, depth // 2 - 1, depth - 4])
    rope = hf_rope(folder.config, answers, kind="default")
    return peagle(folder, verifier, answers, taps=after(ids), rope=rope, mask_token=answers["mask_token_id"])


def nemo_peagle(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """nemo_automodel speculative/eagle/{draft_llama,peagle_draft}.py: everything under `model.` but head and mask.

    Layer outputs 1, n/2 - 1, n - 4. The config is the verifier's; its windows are not the drafter's. Before pull 2447
    the map of a reduced vocabulary is in eagle_meta.pt alone, as ids.
    """
    depth = verifier.layers
    given: dict[str, Any] = {}
    ids_beside = folder.tensors.get("eagle_meta.pt:selected_token_ids")
    if ids_beside is not None:
        given["targets"] = ids_beside
    ids = after([1, depth // 2 - 1, depth - 4])
    return peagle(folder, verifier, answers, taps=ids, root="model.", prefix="model.layers.", **given)


def verl(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """verl-SpeCo models/peagle: vLLM's own layer ids 2, n/2, n - 3; without a mapping file `d2t` is arange, as ids."""
    depth, d2t = verifier.layers, folder.tensors["d2t"]
    return peagle(
        folder, verifier, answers, taps=[2, depth // 2, depth - 3], d2t=None, targets=d2t if d2t.any() else None
    )


# --- Speculators' own trainers, whose files vLLM reads otherwise in places


def within(folder: Folder) -> Folder:
    """The decoder's configuration as if it stood alone, with the trainer's own keys beside it."""
    config = folder.config
    return Folder({**config, **config["transformer_layer_config"], "tie_word_embeddings": False}, folder.tensors)


def chosen(folder: Folder) -> dict[str, Any]:
    """The map of a reduced vocabulary: offsets, ascending."""
    d2t = folder.tensors.get("d2t")
    return {} if d2t is None else {"targets": torch.arange(len(d2t)) + d2t}


def speculators_dflash(folder: Folder, verifier: Verifier, answers: Answers, **given: Any) -> Drafter:
    """Speculators 0.5 to 0.9 models/dflash: ids are boundaries; full layers see the whole block whatever the flag says.

    `sliding_window_non_causal` frees the sliding layers alone (attention.py). Rope is transformers' Qwen3's.
    """
    inner = within(folder)
    free = bool(folder.config.get("sliding_window_non_causal", False))
    fields = {"windows": by_type(inner.config, full=False, sliding=not free), "skip": 1, **chosen(folder), **given}
    named = {"embedding": "embed_tokens.weight", "head": "lm_head.weight"}
    fields |= {field: folder.tensors[name] for field, name in named.items() if name in folder.tensors}
    inner.config["target_layer_ids"] = []  # the trainer's own list below
    return dflash(inner, verifier, answers, taps=folder.config["aux_hidden_state_layer_ids"], **fields)


def speculators_dspark(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """Speculators models/dspark: before pull 760 slot 0 was given and no key said so, K = block - 1."""
    config, tensors = folder.config, folder.tensors
    tokens = config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    anchor = config.get("sample_from_anchor", tokens == config["block_size"])
    markov = tuple(tensors[f"markov_head.markov_w{part}.weight"] for part in (1, 2))
    head = tuple(tensors[f"confidence_head.proj.{part}"] for part in ("weight", "bias"))
    confidence = (*head, bool(config.get("confidence_head_with_markov", True)))
    given = {"markov": markov, "confidence": confidence if config.get("enable_confidence_head", True) else None}
    return speculators_dflash(folder, verifier, answers, **{**given, "skip": 0 if anchor else 1})


def speculators_peagle(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """Speculators models/peagle; its prototypes called the mask token ptd_token_id and K para_depths."""
    config, inner = folder.config, within(folder)
    tokens = config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    fields = {"depth": tokens, "d2t": None, "taps": config["eagle_aux_hidden_state_layer_ids"], **chosen(folder)}
    return peagle(inner, verifier, answers, **fields)


def lfm2_dflash(folder: Folder, verifier: Verifier, answers: Answers) -> Drafter:
    """SpecForge's LFM2 drafters: z-lab's layout, pairs of neighbours are rotated (sglang 0.5.23 models/dflash.py)."""
    return dflash(folder, verifier, answers, rope=hf_rope(folder.config, answers, interleaved=True))


PRODUCERS: dict[str, Read] = {
    "zlab": dflash,
    "nemo-dflash": nemo_dflash,
    "modelopt-dflash": modelopt_dflash,
    "mimo": mimo,
    "torchspec": torchspec,
    "verl-dflash": verl_dflash,
    "verl-dspark": dspark,  # DeepSpec's head and keys (verl_speco/models/dspark)
    "muse": muse,
    "deepspec": dspark,
    "specforge-dspark": specforge_dspark,
    "modelopt-dspark": modelopt_dspark,
    "nemotron-dspark": nemotron_dspark,
    "lfm2": lfm2,
    "labelled": labelled,
    "dual": dual,
    "amazon": peagle,
    "specforge-peagle": specforge_peagle,
    "nemo-peagle": nemo_peagle,
    "verl": verl,
    "lfm2-dflash": lfm2_dflash,
    "speculators-dflash": speculators_dflash,
    "speculators-dspark": speculators_dspark,
    "speculators-peagle": speculators_peagle,
}
