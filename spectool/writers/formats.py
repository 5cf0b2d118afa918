"""The output formats by name, and which method each stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spectool.drafter.model import Method
from spectool.writers.deepspec import deepspec
from spectool.writers.layout import Layout, Subject
from spectool.writers.peagle import vllm_peagle
from spectool.writers.specforge import specforge_dspark, specforge_peagle
from spectool.writers.vllm import vllm_dflash, vllm_dspark
from spectool.writers.zlab import specforge_dflash, zlab

Writer = Callable[[Subject], Layout]
SPECULATORS = "speculators"


@dataclass(frozen=True, slots=True)
class Format:
    """An output format. `served`: vLLM's own reading is held against the trainer's before a byte is written."""

    name: str
    title: str
    for_whom: str
    served: bool
    writers: Mapping[Method, Writer] = field(default_factory=dict)


FORMATS: dict[str, Format] = {
    item.name: item
    for item in (
        Format(SPECULATORS, "Speculators", "vLLM, llama.cpp, mlx-dspark; Speculators' trainer", served=True),
        Format("zlab", "z-lab", "SGLang, llama.cpp, MLX, ExLlamaV3, vLLM", served=False, writers={"dflash": zlab}),
        Format("deepspec", "DeepSpec", "SGLang, TensorRT-LLM, vLLM", served=False, writers={"dspark": deepspec}),
        Format(
            "specforge",
            "SpecForge",
            "SGLang; SpecForge's trainer",
            served=False,
            writers={"dflash": specforge_dflash, "dspark": specforge_dspark, "peagle": specforge_peagle},
        ),
        Format(
            "vllm",
            "vLLM-native",
            "vLLM without Speculators keys",
            served=True,
            writers={"dflash": vllm_dflash, "dspark": vllm_dspark, "peagle": vllm_peagle},
        ),
    )
}
