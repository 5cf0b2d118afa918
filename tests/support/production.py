"""The three production pairs as folders: quoted configs, headers of the right shapes, weights that are holes.

Safetensors files are sparse: 60 GB of weights take a few kilobytes of disk. What is inferred of the drafters stands in
`examples/production/*/pair.json`. Of the verifiers, the language model's tensors follow from the config (and add up to
the published size); gemma's vision tower is made up to the size of its vision_config.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from spectool.planning.models import model_of
from spectool.planning.shapes import verifier_shapes
from spectool.resources import package_data

Shapes = dict[str, tuple[int, ...]]
ROOT = Path(__file__).resolve().parents[2] / "examples" / "production"
NAMES = ("qwen3-8b-peagle", "qwen3-30b-a3b-dflash", "gemma-4-31b-dspark")
_SIZES = {"BF16": 2, "I64": 8, "BOOL": 1}


@dataclass(frozen=True)
class Production:
    """One pair on disk."""

    name: str
    record: Mapping[str, Any]
    drafter: Path
    verifier: Path

    @property
    def gpus(self) -> str:
        return str(self.record["gpus"])


def record_of(name: str) -> dict[str, Any]:
    """What is known of a pair."""
    return dict(json.loads((ROOT / name / "pair.json").read_text(encoding="utf-8")))


def make_production(name: str, folder: Path) -> Production:
    """Write both folders of a pair, named as on the Hub."""
    record = record_of(name)
    config = json.loads((ROOT / name / "config.json").read_text(encoding="utf-8"))
    drafter = folder / record["drafter"].rpartition("/")[2]
    write_folder(drafter, config, drafter_shapes(config), vocabulary_map(config))
    catalogued = verifier_document(record["verifier"])
    verifier = folder / record["verifier"].rpartition("/")[2]
    write_folder(verifier, catalogued["config"], all_verifier_shapes(catalogued["config"]), {})
    return Production(name, record, drafter, verifier)


def verifier_document(repo: str) -> dict[str, Any]:
    """The catalogue's entry of a verifier."""
    text = package_data("verifiers", f"{repo.replace('/', '--')}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def all_verifier_shapes(config: Mapping[str, Any]) -> Shapes:
    """Language model and vision tower."""
    shapes = verifier_shapes(model_of("verifier", config))
    vision = config.get("vision_config")
    return shapes | (dict(_vision(vision, config["text_config"]["hidden_size"])) if vision else {})


def _vision(vision: Mapping[str, Any], width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A tower of the size of gemma-4's: 0.576 B parameters, where the published files leave 0.575 B. Names made up."""
    hidden, mlp = vision["hidden_size"], vision["intermediate_size"]
    yield "model.vision_tower.patch_embedder.input_proj.weight", (hidden, 3 * vision["patch_size"] ** 2)
    yield (
        "model.vision_tower.patch_embedder.position_embedding_table",
        (2, vision["position_embedding_size"], hidden),
    )
    for index in range(vision["num_hidden_layers"]):
        prefix = f"model.vision_tower.encoder.layers.{index}"
        for part in "qkvo":
            yield f"{prefix}.self_attn.{part}_proj.weight", (hidden, hidden)
        for part in ("gate", "up"):
            yield f"{prefix}.mlp.{part}_proj.weight", (mlp, hidden)
        yield f"{prefix}.mlp.down_proj.weight", (hidden, mlp)
    yield "model.embed_vision.embedding_projection.weight", (width, hidden)


def drafter_shapes(config: Mapping[str, Any]) -> Shapes:
    """Every tensor of a Speculators drafter."""
    layer = config["transformer_layer_config"]
    method = config["speculators_model_type"]
    hidden, vocab, draft = layer["hidden_size"], layer["vocab_size"], config["draft_vocab_size"]
    taps = config.get("aux_hidden_state_layer_ids") or config["eagle_aux_hidden_state_layer_ids"]
    shapes: Shapes = {
        "embed_tokens.weight": (vocab, hidden),
        "lm_head.weight": (draft, hidden),
        "fc.weight": (hidden, len(taps) * hidden),
        "norm.weight": (hidden,),
    }
    if method == "peagle":
        shapes |= {"mask_hidden": (1, 1, len(taps) * hidden), "layers.0.hidden_norm.weight": (hidden,)}
    else:
        shapes["hidden_norm.weight"] = (hidden,)
    for index in range(layer["num_hidden_layers"]):
        width = 2 * hidden if method == "peagle" and index == 0 else hidden
        shapes |= _decoder_layer(f"layers.{index}", layer, width, qk_norm=method != "peagle")
    if method == "dspark":
        rank = config["markov_rank"]
        shapes["markov_head.markov_w1.weight"] = (vocab, rank)
        shapes["markov_head.markov_w2.weight"] = (draft, rank)
        shapes["confidence_head.proj.weight"] = (1, hidden + rank)
        shapes["confidence_head.proj.bias"] = (1,)
    if draft != vocab:
        shapes |= {"d2t": (draft,), "t2d": (vocab,)}
    return shapes


def _decoder_layer(prefix: str, layer: Mapping[str, Any], width: int, *, qk_norm: bool) -> Shapes:
    hidden, mlp, dim = layer["hidden_size"], layer["intermediate_size"], layer["head_dim"]
    queries, keys = layer["num_attention_heads"] * dim, layer["num_key_value_heads"] * dim
    shapes: Shapes = {
        f"{prefix}.self_attn.q_proj.weight": (queries, width),
        f"{prefix}.self_attn.k_proj.weight": (keys, width),
        f"{prefix}.self_attn.v_proj.weight": (keys, width),
        f"{prefix}.self_attn.o_proj.weight": (hidden, queries),
        f"{prefix}.mlp.gate_proj.weight": (mlp, hidden),
        f"{prefix}.mlp.up_proj.weight": (mlp, hidden),
        f"{prefix}.mlp.down_proj.weight": (hidden, mlp),
        f"{prefix}.input_layernorm.weight": (hidden,),
        f"{prefix}.post_attention_layernorm.weight": (hidden,),
    }
    if qk_norm:
        shapes |= {f"{prefix}.self_attn.{part}_norm.weight": (dim,) for part in "qk"}
    return shapes


def vocabulary_map(config: Mapping[str, Any]) -> dict[str, bytes]:
    """Bytes of a map that sends draft token i to token i: offsets of zero, which holes are, and the flags."""
    draft, vocab = config["draft_vocab_size"], config["transformer_layer_config"]["vocab_size"]
    return {} if draft == vocab else {"t2d": b"\x01" * draft}


def write_folder(root: Path, config: Mapping[str, Any], shapes: Shapes, content: Mapping[str, bytes]) -> Path:
    """Write config.json and one sparse model.safetensors; tensors that `content` does not name are zeros."""
    root.mkdir(parents=True)
    (root / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    starts, at = {}, 0
    for name, shape in shapes.items():
        dtype = {"d2t": "I64", "t2d": "BOOL"}.get(name, "BF16")
        size = prod(shape) * _SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        starts[name] = at
        at += size
    text = json.dumps(header).encode()
    with (root / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name, data in content.items():
            stream.seek(8 + len(text) + starts[name])
            stream.write(data)
        stream.truncate(8 + len(text) + at)
    return root
