"""Quantise the example drafters, so that vLLM's CPU build can load what a test converts."""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterable

from mutations import Change, Config, Tensors

DECODER = r"layers\.\d+\.(self_attn|mlp)\.\w+_proj"


def modules(tensors: Iterable[str], which: str = DECODER) -> set[str]:
    """Return the linear modules whose name matches."""
    return {name.removesuffix(".weight") for name in tensors if re.search(which, name) and name.endswith(".weight")}


def fp8(which: str = DECODER) -> Change:
    """Store modules in float8 (e4m3), one scale each, as FP8 checkpoints of vLLM's method `fp8` do."""

    def change(config: Config, tensors: Tensors) -> None:
        config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
        for module in modules(tensors, which):
            _, shape, data = tensors[f"{module}.weight"]
            values = memoryview(data).cast("H")
            floats = {value: struct.unpack("<f", struct.pack("<I", value << 16))[0] for value in set(values)}
            scale = max(map(abs, floats.values())) / 448
            codes = {value: e4m3(number / scale) for value, number in floats.items()}
            tensors[f"{module}.weight"] = ("F8_E4M3", shape, bytes(codes[value] for value in values))
            tensors[f"{module}.weight_scale"] = ("F32", (1,), struct.pack("<f", scale))

    return change


def e4m3(value: float) -> int:
    """Return the nearest float8 e4m3 of a number within its range (448)."""
    size = abs(value)
    above = min(bisect.bisect_left(_MAGNITUDES, size), 0x7E)
    below = max(above - 1, 0)
    nearest = above if _MAGNITUDES[above] - size <= size - _MAGNITUDES[below] else below
    return nearest | (0x80 if value < 0 else 0)


_MAGNITUDES = [
    (code & 7) / 8 * 2**-6 if code < 8 else (1 + (code & 7) / 8) * 2.0 ** ((code >> 3) - 7) for code in range(0x7F)
]


def int8(which: str = DECODER) -> Change:
    """Store modules in int8 with a scale per row and dynamic activations, as compressed-tensors' W8A8 does."""

    def change(config: Config, tensors: Tensors) -> None:
        values = {"num_bits": 8, "type": "int", "symmetric": True}
        group = {
            "targets": ["Linear"],
            "weights": {**values, "strategy": "channel", "dynamic": False},
            "input_activations": {**values, "strategy": "token", "dynamic": True},
        }
        config["quantization_config"] = {
            "quant_method": "compressed-tensors",
            "format": "int-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": group},
            "ignore": ["lm_head", "re:.*fc$", "re:.*markov_head.*", "re:.*confidence_head.*"],
        }
        for module in modules(tensors, which):
            _, (rows, columns), data = tensors[f"{module}.weight"]
            words = memoryview(data).cast("H")
            floats = {word: struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in set(words)}
            codes, scales = bytearray(), bytearray()
            for row in range(rows):
                line = [floats[word] for word in words[row * columns : (row + 1) * columns]]
                scale = (max(map(abs, line)) or 1.0) / 127
                scales += struct.pack("<f", scale)
                codes += bytes(round(number / scale) & 0xFF for number in line)
            tensors[f"{module}.weight"] = ("I8", (rows, columns), bytes(codes))
            tensors[f"{module}.weight_scale"] = ("F32", (rows, 1), bytes(scales))

    return change
