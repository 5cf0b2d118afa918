"""How much a plan moves of a very large verifier: 118 shards, 37,000 tensors, 470 GB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import spectool
from loopback_hub import Content, LoopbackHub

from spectool.hub import mirror
from spectool.launch_plan import _verifier
from spectool.loading import load_verifier

SHARDS = 118
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1536,
    "intermediate_size": 12288,
    "tie_word_embeddings": False,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
}


def tensors() -> list[tuple[str, list[int]]]:
    """Names and shapes of a Qwen3 mixture of experts with 94 layers of 128 experts."""
    found: list[tuple[str, list[int]]] = [("model.embed_tokens.weight", [151936, 4096])]
    for layer in range(94):
        at = f"model.layers.{layer}"
        found += [
            (f"{at}.self_attn.{part}_proj.weight", [rows, columns])
            for part, rows, columns in (("q", 8192, 4096), ("k", 512, 4096), ("v", 512, 4096), ("o", 4096, 8192))
        ]
        found += [(f"{at}.self_attn.{part}_norm.weight", [128]) for part in "qk"]
        found += [(f"{at}.{part}_layernorm.weight", [4096]) for part in ("input", "post_attention")]
        found.append((f"{at}.mlp.gate.weight", [128, 4096]))
        for expert in range(128):
            for part, shape in (("gate", [1536, 4096]), ("up", [1536, 4096]), ("down", [4096, 1536])):
                found.append((f"{at}.mlp.experts.{expert}.{part}_proj.weight", shape))
    return [*found, ("model.norm.weight", [4096]), ("lm_head.weight", [151936, 4096])]


@pytest.fixture(scope="module")
def files() -> dict[str, Content | bytes]:
    every = tensors()
    assert len(every) == 36945
    per_shard = -(-len(every) // SHARDS)
    weight_map, total, result = {}, 0, {}
    for number in range(SHARDS):
        name = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        header, position = {}, 0
        for tensor, shape in every[number * per_shard : (number + 1) * per_shard]:
            nbytes = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [position, position + nbytes]}
            position += nbytes
            weight_map[tensor] = name
        text = json.dumps(header, separators=(",", ":")).encode()
        result[name] = Content(len(text).to_bytes(8, "little") + text, 8 + len(text) + position)
        total += position
    index = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2).encode()
    return {"config.json": json.dumps(CONFIG).encode(), "model.safetensors.index.json": index, **result}


def test_a_plan_stays_in_its_bound(files: dict[str, Content | bytes], hub: LoopbackHub, pairs: Path) -> None:
    hub.add("org/moe", files)
    index = files["model.safetensors.index.json"]
    assert isinstance(index, bytes)
    assert len(index) > 3_000_000

    loaded = load_verifier("org/moe")
    assert loaded.view is not None
    assert loaded.tensors is not None
    assert (loaded.name, loaded.view.num_hidden_layers) == ("org/moe", 94)
    assert loaded.tensors["lm_head.weight"].shape == (151936, 4096)

    name, _, known, total, source = _verifier("org/moe", loaded.opened)
    assert (name, known, source) == ("org/moe", None, "total_size in model.safetensors.index.json")
    assert total == 2 * sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for _, shape in tensors())

    hub.add_folder("org/drafter", pairs / "dflash-zlab")
    outcome = spectool("validate", "org/drafter", "--verifier", "org/moe")
    assert outcome.code == 1, outcome.err  # it drafts for another one
    assert "VER" in outcome.out

    assert hub.sent["weights"] == 0
    assert sum(hub.sent.values()) < len(index) + 2_000_000
    shards = {path for _, path, span, _ in hub.requests if span and path.startswith("GET /org/moe") and "-of-" in path}
    assert len(shards) == 2


def test_a_verifier_is_listed_without_its_weights(files: dict[str, Content | bytes], hub: LoopbackHub) -> None:
    hub.add("Qwen/Qwen3-235B-A22B", files)
    outcome = spectool("inspect", "Qwen/Qwen3-235B-A22B")
    assert outcome.code == 0, outcome.err
    assert hub.sent["weights"] == 0
    before = sum(hub.sent.values())
    mirror.forget()
    assert spectool("inspect", "Qwen/Qwen3-235B-A22B").code == 0
    assert sum(hub.sent.values()) - before == hub.sent["listing"] // 2  # nothing but who is main now
