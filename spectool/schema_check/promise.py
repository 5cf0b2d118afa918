"""The folder a config promises: perfect weights for what it says. What rules then find is the config's own fault.

That is how `schema check` and `validate` come to say the same: they run the same rules on the same two readings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectool.dialects.detect import detect
from spectool.dialects.read import read_drafter
from spectool.dialects.record import Reading
from spectool.dialects.view import Spec, View
from spectool.drafter.inventory import inventory
from spectool.drafter.model import Drafter
from spectool.engine.facts import EngineFacts
from spectool.engine.reading.read import read_engine
from spectool.formats.lookup import MISSING, is_int, lookup
from spectool.formats.speculators.fields import MOST, MOST_LAYERS
from spectool.rules.context import Context

LAYER = "transformer_layer_config"
# Readers measure the first layer and count the others: one tensor of each will do.
_REPEATED = re.compile(r"layers\.[1-9]\d*\.(?!input_layernorm)")


def can_be_promised(config: Mapping[str, Any]) -> bool:
    """Whether readers can be let loose on a config: a number of layers they can count to, sizes that are sizes."""
    layer = config.get(LAYER)
    if not isinstance(layer, Mapping):
        return False
    layers = layer.get("num_hidden_layers")
    return is_int(layers) and 1 <= layers <= MOST_LAYERS and not any(is_int(v) and v > MOST for v in layer.values())


def promised(config: Mapping[str, Any], settings: Mapping[str, Any], facts: EngineFacts) -> Context:
    """Return what rules look at, for a config with the weights it describes and no verifier.

    Raises:
        RefusedError: no dialect fits.

    """
    bare = View("config.json", config, {})
    dialect = detect(bare)
    drafter = _as_declared(read_drafter(bare, dialect, settings=settings).drafter, config)
    tensors = {
        name: Spec("I64" if name == "d2t" else "BF16", item.shape)
        for name, item in inventory(drafter).items()
        if not item.optional and not _REPEATED.match(name)
    }
    view = View("config.json", config, tensors)
    reading: Reading = read_drafter(view, dialect, settings=settings)
    tokens = reading.drafter.speculative_tokens
    engine = read_engine(view, reading.drafter.method, facts, tokens=tokens)
    return Context(
        view=view,
        reading=reading,
        engine=engine,
        facts=facts,
        verifier=None,
        verifier_tensors=None,
        tokens=tokens,
    )


def _as_declared(drafter: Drafter, config: Mapping[str, Any]) -> Drafter:
    """Take from the config what a trainer's reading measures on tensors."""
    layer = config[LAYER]
    # Speculators 0.7 and later take a decoder without model_type for Qwen3; vLLM takes it for Llama.
    qwen = layer.get("model_type", "qwen3") != "llama"
    sinks = lookup(layer, "dflash_config.attention_sink_bias")
    return replace(
        drafter,
        # EAGLE-3's default has three; which ones does not matter for shapes.
        aux_layers=drafter.aux_layers or (0, 1, 2),
        qk_norm=drafter.method != "peagle" or qwen,
        attention_bias=layer.get("attention_bias") is True,
        mlp_bias=layer.get("mlp_bias") is True and drafter.method == "peagle",
        sinks=(layer.get("add_swa_attention_sink_bias") if sinks is MISSING else sinks) is True
        and drafter.method != "peagle",
    )
