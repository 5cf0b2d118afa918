"""What vLLM makes of a command line: its own parser, EngineArgs, create_engine_config, and the checks with which
scheduler and worker begin. Nothing is loaded.

Used by engine_oracle.py for cases with `argv`. vLLM's CUDA platform class stands in for the CPU's, with a GPU that is
said to be there: what it checks in plain Python (graphs, ranks, backends, runner) is then checked as on such a GPU.
"""

import contextlib
import functools
import importlib
import os
import sys
import types

H100 = {"name": "NVIDIA H100 80GB HBM3", "capability": (9, 0), "gib": 80, "count": 8}


class Kernels(types.ModuleType):
    """A module of compiled kernels that a CPU build lacks: everything is there, and nothing is called."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: True


class Classes(types.ModuleType):
    """A module whose names are all classes, for annotations."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def stand_in() -> None:
    """Let vLLM believe in CUDA devices from now on. What it imports with kernels must be imported by then."""
    with contextlib.suppress(Exception):  # imports every quantisation there is, some of which ask for their kernels
        from vllm.model_executor.layers.quantization import get_quantization_config

        get_quantization_config("fp8")
    for name in ("vllm._C_stable_libtorch", "vllm.vllm_flash_attn"):
        sys.modules[name] = Kernels(name)
    from vllm.platforms import current_platform
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Pretended(NonNvmlCudaPlatform):
        gpu = H100

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
            return DeviceCapability(*cls.gpu["capability"])

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return cls.gpu["name"]

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return cls.gpu["gib"] << 30

        @classmethod
        def device_count(cls) -> int:
            return cls.gpu["count"]

        @classmethod
        def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
            return True

        @classmethod
        def import_kernels(cls) -> None:
            return None

    current_platform.__class__ = Pretended  # most modules hold this very object
    import vllm.v1.attention.backends.fa_utils

    importlib.reload(vllm.v1.attention.backends.fa_utils)  # it chose its kernels by the platform
    import_flashinfer()


def import_flashinfer() -> None:
    """Import vLLM's FlashInfer backend, which says in plain Python what it takes, without the package it would run.

    Everywhere else the package is missing, as it is.
    """
    from vllm.utils.flashinfer import has_flashinfer

    has_flashinfer()  # keeps its answer
    names = [f"flashinfer{part}" for part in ("", ".decode", ".prefill", ".utils")]
    sys.modules.update((name, Classes(name)) for name in names)
    try:
        importlib.import_module("vllm.v1.attention.backends.flashinfer")
    finally:
        for name in names:
            del sys.modules[name]


@functools.cache
def parser():
    """vLLM's own parser of `vllm serve`. Building it takes as long as all the rest, so children inherit it."""
    from vllm.entrypoints.cli.serve import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):
        def error(self, message: str) -> None:
            raise SystemExit(message)  # argparse would print it and exit with 2

    return make_arg_parser(Parser())


def parse(words: list[str]):
    """Read a command line as it follows `vllm serve`."""
    parsed = parser().parse_args(words)
    parsed.model = parsed.model_tag or parsed.model  # as `vllm serve` does
    return parsed


def configure(case: dict, send) -> None:
    """Go the way of `vllm serve` up to the point where workers would start, and a little on."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext

    os.environ.update(case.get("environment", {}))
    type(current_platform).gpu = {**H100, **case.get("gpu", {})}
    send({"stage": "parse"})
    parsed = parse(case["argv"])
    send({"extra": {"parsed": {key: getattr(parsed, key) for key in case.get("show", ())}}})
    if case.get("parse_only"):
        return
    send({"stage": "config"})
    config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(UsageContext.OPENAI_API_SERVER)
    send({"extra": {"config": resolved(config)}, "stage": "start"})
    start(config)


def start(config) -> None:
    """Ask vLLM's own functions what scheduler and worker ask them first: no device is needed for an answer."""
    from vllm.config import CUDAGraphMode, set_current_vllm_config
    from vllm.v1.attention.selector import get_attn_backend
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    speculative, graphs = config.speculative_config, config.compilation_config
    if schedule := speculative.num_speculative_tokens_per_batch_size:  # v1/core/sched/scheduler.py, __init__
        build_dynamic_sd_schedule_lookup(
            schedule, config.scheduler_config.max_num_seqs, speculative.num_speculative_tokens
        )
    full = graphs.cudagraph_mode.decode_mode() == CUDAGraphMode.FULL
    if full and not config.use_v2_model_runner:  # config/compilation.py, resolve_cudagraph_mode_and_sizes
        graphs.adjust_cudagraph_sizes_for_spec_decode(1 + speculative.num_speculative_tokens)
    draft = speculative.draft_model_config
    laid = speculative.apply_draft_overrides(config)
    named = speculative.attention_backend is not None or laid.cache_config.cache_dtype != "auto"
    if not named or speculative.enable_adaptive_verification:
        return  # vLLM's own choice, or one among graphs: both depend on kernels that are not here
    if speculative.method in ("dflash", "dspark"):  # v1/worker/gpu/spec_decode/dflash/utils.py
        laid.attention_config.use_non_causal, laid.attention_config.backend = True, speculative.attention_backend
    with set_current_vllm_config(laid):
        get_attn_backend(draft.get_head_size(), draft.dtype, laid.cache_config.cache_dtype)


def resolved(config) -> dict:
    speculative, draft = config.speculative_config, config.speculative_config.draft_parallel_config
    return {
        "method": speculative.method,
        "parallel_drafting": speculative.parallel_drafting,
        "num_speculative_tokens": speculative.num_speculative_tokens,
        "draft_tensor_parallel_size": draft.tensor_parallel_size,
        "draft_max_model_len": speculative.draft_model_config.max_model_len,
        "draft_dtype": str(speculative.draft_model_config.dtype),
        "schedule": speculative.num_speculative_tokens_per_batch_size,
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "max_model_len": config.model_config.max_model_len,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "max_num_scheduled_tokens": config.scheduler_config.max_num_scheduled_tokens,
        "async_scheduling": config.scheduler_config.async_scheduling,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "graphs": config.compilation_config.cudagraph_mode.name,
        "runner": "v2" if config.use_v2_model_runner else "v1",
    }
