"""Every convertible layout as a pair of folders for vLLM: what is compared (`arms`), on the example drafters' weights.

Where vLLM loads the layout as it stands, the source is one arm, the converted folder the other. Where it does not, or
reads it otherwise than it was trained, the first arm is the same weights in their canonical layout.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutations import MIXED, NATIVE, PAIRS, VERIFIER, Change, Config, Tensors, both, folder, nothing, put, without
from quantise import int8
from relabelled import CASES, K5, NAMED, NEMO, UNSHIPPED, keys, unshipped

from spectool import api

LAYER = "transformer_layer_config"
SINKS = b"\x80\x3f\x00\x3f\x00\xbf\x00\x40"  # bf16: 1, 0.5, -0.5, 2
SLIDING = keys(layer_types=["sliding_attention"] * 2, sliding_window=8, use_sliding_window=True)
CHOSEN = [token for token in range(512) if token % 4 != 3]
"""A reduced vocabulary of the examples' 512 tokens."""


@dataclass(frozen=True)
class Arms:
    """A layout: the example it is made of, how, and the first arm where that is not the source itself.

    `released`: the source is made from the converted example, as a file of the Speculators trainer.
    """

    dialect: str
    source: Change
    example: str
    canonical: Change | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    verifier: Change = nothing
    released: bool = False
    runner: str = "v2"
    tokens: int = 7

    @property
    def method(self) -> str:
        """The method of the example."""
        return self.dialect.partition("-")[0]


def own(**values: Any) -> Change:
    """Set keys of dflash_config."""
    return both(*(put(f"dflash_config.{key}", value) for key, value in values.items()))


def sinks(config: Config, tensors: Tensors) -> None:
    """One sink per head and layer."""
    for layer in range(2):
        tensors[f"layers.{layer}.self_attn.attention_sink_bias"] = ("BF16", (4,), SINKS)


def borrowed(*names: str) -> Change:
    """Ship the verifier's embedding or head."""

    def change(config: Config, tensors: Tensors) -> None:
        from checkpoints import read_back  # noqa: PLC0415 - of the verifier, once it is needed

        theirs = read_back(VERIFIER / "model.safetensors")
        for name in names:
            tensors[name] = theirs[name if name in theirs else f"model.{name}"]

    return change


def biases(config: Config, tensors: Tensors) -> None:
    """gpt-oss: biases on all four projections, its model_type, yarn by the older keys."""
    config |= {"model_type": "gpt_oss", "attention_bias": True, "rope_theta": 10000.0, "initial_context_length": 64}
    config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    del config["rope_parameters"]
    for name, (_, shape, _) in list(tensors.items()):
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight")):
            data = bytes((0, 0x3D, 0, 0xBD)) * (shape[0] // 2)  # bf16: 0.03125, -0.03125
            tensors[name.replace(".weight", ".bias")] = ("BF16", (shape[0],), data)


def unsorted(config: Config, tensors: Tensors) -> None:
    """The aux layers in descending order, and fc's column blocks with them: the same drafter."""
    config["dflash_config"]["target_layer_ids"].reverse()
    dtype, (rows, columns), data = tensors["fc.weight"]
    block = columns // 3 * 2
    lines = [data[row * columns * 2 : (row + 1) * columns * 2] for row in range(rows)]
    turned = b"".join(line[at : at + block] for line in lines for at in (2 * block, block, 0))
    tensors["fc.weight"] = (dtype, (rows, columns), turned)


def reduced(config: Config, tensors: Tensors) -> None:
    """Predict three of four tokens only: rows of the heads, and the map of what was chosen."""
    config["draft_vocab_size"] = len(CHOSEN)
    if "lm_head.weight" not in tensors:
        borrowed("lm_head.weight")(config, tensors)
    for name in ("lm_head.weight", "markov_head.markov_w2.weight"):
        if name in tensors:
            dtype, (_, width), data = tensors[name]
            rows = b"".join(data[row * width * 2 : (row + 1) * width * 2] for row in CHOSEN)
            tensors[name] = (dtype, (len(CHOSEN), width), rows)
    offsets = b"".join(struct.pack("<q", target - draft) for draft, target in enumerate(CHOSEN))
    mask = bytes(token % 4 != 3 for token in range(512))
    tensors |= {"d2t": ("I64", (len(CHOSEN),), offsets), "t2d": ("BOOL", (512,), mask)}


def qwen3_layers(config: Config, tensors: Tensors) -> None:
    """P-EAGLE's layers with q/k norms, all ones, in the layout of vLLM's Qwen3 class."""
    config |= {"model_type": "qwen3", "architectures": ["Eagle3Qwen3ForCausalLM"]}
    for layer in ("midlayer", "layers.1"):
        for part in "qk":
            tensors[f"{layer}.self_attn.{part}_norm.weight"] = ("BF16", (32,), b"\x80\x3f" * 32)


def deeper(config: Config, tensors: Tensors) -> None:
    """A verifier of eight layers, the last one three times, so that the default aux layers are 2, 4, 5."""
    config |= {"num_hidden_layers": 8, "layer_types": ["full_attention"] * 8}
    for name, item in list(tensors.items()):
        if name.startswith("model.layers.5."):
            tensors |= {name.replace(".5.", f".{layer}.", 1): item for layer in (6, 7)}


OWN = {"mask_token_id": 511, "target_layer_ids": [0, 2, 4], "attention_sink_bias": True, "causal": True}
USE_SWA = both(own(use_swa=True, swa_window_size=8, attention_sink_bias=True), sinks)
NEMOTRON_DFLASH = both(
    own(use_swa=True, swa_window_size=8, attention_sink_bias=True, causal=True),
    keys(has_embed_tokens=True, has_lm_head=False, eagle_aux_hidden_state_layer_ids=[1, 3, 5]),
    borrowed("embed_tokens.weight"),
    sinks,
)
NEMOTRON = both(
    SLIDING,
    keys(dspark_bonus_anchor=True, sample_from_anchor=False, eagle_aux_hidden_state_layer_ids=[1, 3, 5], block_size=8),
    put("dflash_config", {**OWN, "use_swa": True, "swa_window_size": 8, "sample_from_anchor": False}),
    without("lm_head.weight"),
    sinks,
)
DUAL = keys(
    speculators_model_type="dspark",
    aux_hidden_state_layer_ids=[1, 3, 5],
    sample_from_anchor=True,
    dspark_bonus_anchor=False,
)
NO_HEADS = both(
    put("enable_confidence_head", False), without("confidence_head.proj.weight", "confidence_head.proj.bias")
)
HEADLESS = both(
    NO_HEADS,
    keys(markov_rank=0, markov_head_type=..., confidence_head_with_markov=...),
    without("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"),
)


def zero_head(config: Config, tensors: Tensors) -> None:
    """What a missing Markov head is, in a layout whose loader wants one."""
    NO_HEADS(config, tensors)
    for name in ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"):
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, bytes(len(data)))


ZLAB, DEEPSPEC, PEAGLE = NATIVE["dflash"], NATIVE["dspark"], NATIVE["peagle"]
OLD_FLASH = keys(sliding_window_non_causal=..., sample_from_anchor=..., max_anchors=256, speculators_version=...)
V1 = {"runner": "v1"}
EAGLE = {"settings": K5, "runner": "v1", "tokens": 5}
FOREIGN = {
    name: Arms(
        name.partition(" ")[0],
        change if name not in UNSHIPPED else both(unshipped, change),
        NATIVE[method],
        unshipped if name in UNSHIPPED else nothing,
        settings,
        runner="v2" if method == "dspark" else "v1",
        tokens=5 if method == "peagle" else 7,
    )
    for name, (method, change, settings) in CASES.items()
    if name not in {"dflash-zlab nested", "dflash-muse"}  # below: vLLM loads them
}
ARMS: dict[str, Arms] = {
    "dflash-zlab": Arms("dflash-zlab", nothing, ZLAB, **V1),
    "dflash-zlab nested": Arms("dflash-zlab", CASES["dflash-zlab nested"][1], ZLAB, **V1),
    "dflash-zlab mixed layers": Arms("dflash-zlab", MIXED, ZLAB),
    "dflash-zlab all sliding (SpecForge)": Arms("dflash-zlab", SLIDING, ZLAB, **V1),
    "dflash-zlab gpt-oss": Arms("dflash-zlab", biases, ZLAB, **V1),
    "dflash-zlab interleaved rope": Arms("dflash-zlab", put("is_neox_style", False), ZLAB, **V1),
    "dflash-zlab causal (ModelOpt)": Arms("dflash-zlab", own(causal=True), ZLAB, **V1),
    "dflash-zlab last layer": Arms("dflash-zlab", own(target_layer_ids=[0, 2, 5]), ZLAB),
    "dflash-zlab unsorted layers": Arms("dflash-zlab", unsorted, ZLAB, nothing, **V1),
    "dflash-zlab INT8": Arms("dflash-zlab", int8(), ZLAB, **V1),
    "dflash-modelopt": Arms("dflash-modelopt", USE_SWA, ZLAB),
    "dflash-modelopt Nemotron": Arms("dflash-modelopt", NEMOTRON_DFLASH, ZLAB),
    "dflash-mimo": Arms("dflash-mimo", both(USE_SWA, own(attention_value_scale=0.612)), ZLAB),
    # vLLM puts Muse's own vocabulary where the file states none.
    "dflash-muse": Arms("dflash-muse", both(SLIDING, CASES["dflash-muse"][1], put("vocab_size", 512)), ZLAB),
    "dflash-speculators 0.5": Arms(
        "dflash-speculators", both(OLD_FLASH, put(f"{LAYER}.is_causal", ...)), ZLAB, released=True, **V1
    ),
    "dflash-speculators 0.6": Arms(
        "dflash-speculators",
        both(OLD_FLASH, put(f"{LAYER}.is_causal", ...), put("sliding_window_non_causal", False)),
        *(ZLAB, nothing),
        released=True,
        **V1,
    ),
    "dflash-speculators 0.9": Arms("dflash-speculators", reduced, ZLAB, released=True, **V1),
    "dspark-deepspec": Arms("dspark-deepspec", nothing, DEEPSPEC),
    "dspark-deepspec embedding's output": Arms("dspark-deepspec", put("target_layer_ids", [-1, 2, 4]), DEEPSPEC),
    "dspark-deepspec community": Arms("dspark-deepspec", unshipped, DEEPSPEC),
    "dspark-deepspec DFlash": Arms("dspark-deepspec", HEADLESS, DEEPSPEC, zero_head),
    "dspark-deepspec INT8": Arms("dspark-deepspec", int8(), DEEPSPEC),
    "dspark-nemotron": Arms("dspark-nemotron", NEMOTRON, DEEPSPEC),
    "dspark-dual": Arms("dspark-dual", DUAL, DEEPSPEC),
    "dspark-lfm2": Arms(
        "dspark-lfm2",
        both(
            unshipped,
            keys(architectures=["Lfm2DSparkDraftModel"], rope_is_neox_style=False),
            put("dflash_config", {"mask_token_id": 511, "target_layer_ids": [0, 2, 4], "num_target_layers": 6}),
            keys(mask_token_id=..., target_layer_ids=..., num_target_layers=...),
        ),
        DEEPSPEC,
        both(unshipped, put("is_neox_style", False)),
    ),
    "dspark-speculators early": Arms(
        "dspark-speculators", put("sample_from_anchor", ...), DEEPSPEC, nothing, released=True
    ),
    "dspark-speculators 0.7": Arms("dspark-speculators", nothing, DEEPSPEC, released=True),
    "dspark-speculators 0.9": Arms("dspark-speculators", reduced, DEEPSPEC, released=True),
    "peagle-vllm": Arms("peagle-vllm", nothing, PEAGLE, **EAGLE),
    "peagle-vllm Qwen3 layers": Arms("peagle-vllm", qwen3_layers, PEAGLE, **EAGLE),
    "peagle-vllm reduced": Arms("peagle-vllm", reduced, PEAGLE, **EAGLE),
    "peagle-nemo": Arms(
        "peagle-nemo",
        NEMO,
        PEAGLE,
        put("eagle_config.eagle_aux_hidden_state_layer_ids", [2, 4, 5]),
        verifier=deeper,
        runner="v1",
        tokens=5,
    ),
    "peagle-speculators prototype": Arms(
        "peagle-speculators",
        keys(ptd_token_id=511, mask_token_id=..., para_depths=5),
        *(PEAGLE, nothing),
        released=True,
        runner="v1",
        tokens=5,
    ),
    "peagle-speculators 0.9": Arms("peagle-speculators", reduced, PEAGLE, released=True, runner="v1", tokens=5),
    **FOREIGN,
}


@dataclass(frozen=True)
class Folders:
    """What the engine is given for a layout. `kind` is what the converted folder says it is."""

    verifier: Path
    first: Path
    converted: Path
    kind: str


def made(item: Arms, root: Path) -> Folders:
    """Write source, first arm and converted folder into an empty folder."""
    verifier = VERIFIER if item.verifier is nothing else folder(VERIFIER, root / "verifier", item.verifier)
    base = PAIRS / item.example
    if item.released:
        example = api.plan_conversion(
            str(base), verifier=str(verifier), settings={**NAMED, **(K5 if item.method == "peagle" else {})}
        )
        base = root / "example"
        api.convert(example, base)
    source = folder(base, root / "source", item.source)
    plan = api.plan_conversion(str(source), verifier=str(verifier), settings={**NAMED, **item.settings})
    found = plan.inspection.dialect.file.dialect
    assert found == item.dialect, f"{found} instead of {item.dialect}"
    api.convert(plan, root / "converted")
    first = source if item.canonical is None else folder(PAIRS / item.example, root / "canonical", item.canonical)
    return Folders(verifier, first, root / "converted", str(plan.output.config["speculators_model_type"]))
