"""Run by the engine: start what a plan says on this GPU, and say what vLLM found there.

In: {argv: the words after `vllm serve`, timing: batch sizes to time decoding at, tokens: how many to decode,
synthetic: acceptance length to time with, or null}. Out: a line "ANSWER " and a JSON object: bytes as vLLM's worker
counts them, tokens of KV cache, seconds per decoding step. The engine runs in this process, without a server.

The verifier's weights are not read but made up (`--load-format dummy`); the drafter's are read, since what vLLM shares
between the two depends on them, and replaced by random ones before timing.
"""

import json
import os
import statistics
import sys
import time

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")

import torch
import vllm
from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.executor.uniproc_executor import UniProcExecutor


def main() -> None:
    question = json.load(sys.stdin)
    words = leave_out(question["argv"], {"--reasoning-parser"})  # it would ask for the tokenizer
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    parsed = parser.parse_args(["--model", words[0], *words[1:]])
    arguments = EngineArgs.from_cli_args(parsed)
    arguments.skip_tokenizer_init = True
    arguments.load_format = "dummy"
    if arguments.speculative_config is not None:
        arguments.speculative_config["draft_load_config"] = {"load_format": "auto"}
        if question["synthetic"]:
            arguments.speculative_config |= {
                "rejection_sample_method": "synthetic", "synthetic_acceptance_length": question["synthetic"]}
    started = time.monotonic()
    config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
    engine = LLMEngine(config, executor_class=UniProcExecutor, log_stats=True)
    answer = {"start_seconds": round(time.monotonic() - started, 1), **measured(engine, config)}
    print("ANSWER " + json.dumps(answer), flush=True)  # kept if the timing below fails
    randomise(engine)
    answer["decoding"] = [timed(engine, size, question["tokens"]) for size in question["timing"]]
    print("ANSWER " + json.dumps(answer), flush=True)
    os._exit(0)  # tearing an engine down takes long and changes no figure


def leave_out(words: list[str], flags: set[str]) -> list[str]:
    """Drop flags that take one value."""
    kept, at = [], 0
    while at < len(words):
        if words[at] in flags:
            at += 2
            continue
        kept.append(words[at])
        at += 1
    return kept


def measured(engine, config) -> dict:
    """The worker's own figures, in bytes; what a release does not record is null."""
    worker = engine.model_executor.driver_worker.worker
    runner, snapshot = worker.model_runner, worker.init_snapshot
    groups = getattr(runner, "kv_cache_config", None)
    return {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "vllm": vllm.__version__,
        "runner": type(runner).__module__,
        "attention": str(config.attention_config.backend),
        "compilation": str(config.compilation_config.mode),
        "cudagraphs": str(config.compilation_config.cudagraph_mode),
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "total": snapshot.total_memory,
        "free_at_start": snapshot.free_memory,
        "requested": worker.requested_memory,
        "weights": runner.model_memory_usage,
        "total_consumed": getattr(worker, "total_consumed", None),
        "non_torch": getattr(worker, "non_torch_memory", None),
        "peak_activation": getattr(worker, "peak_activation_memory", None),
        "cudagraph_estimate": getattr(worker, "cudagraph_memory_estimate", None),
        "kv_cache": worker.available_kv_cache_memory_bytes,
        "kv_cache_tokens": getattr(config.cache_config, "kv_cache_size_tokens", None),
        "concurrency": getattr(config.cache_config, "kv_cache_max_concurrency", None),
        "kv_cache_groups": len(groups.kv_cache_groups) if groups else None,
        "max_model_len": config.model_config.max_model_len,
        "used_now": torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0],
    }


def randomise(engine) -> None:
    """Fill every large parameter anew, in place: graphs keep its address, and zeros would be timed too well."""
    runner = engine.model_executor.driver_worker.worker.model_runner
    speculator = getattr(runner, "speculator", None) or getattr(runner, "drafter", None)
    draft = getattr(speculator, "model", None)
    for model in (runner.get_model(), *([draft] if isinstance(draft, torch.nn.Module) else [])):
        for parameter in model.parameters():
            if parameter.dim() > 1 and parameter.is_floating_point():
                parameter.data.uniform_(-0.02, 0.02)


def timed(engine, size: int, tokens: int) -> dict:
    """Decode `tokens` tokens for `size` requests of 64 prompt tokens; the median step once all of them decode."""
    sampling = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True, detokenize=False)
    for number in range(size):
        prompt = [(7 * number + 13 * at) % 1000 + 1000 for at in range(64)]
        engine.add_request(f"{size}-{number}", {"prompt_token_ids": prompt}, sampling)
    steps, begun, produced = [], time.perf_counter(), 0
    while engine.has_unfinished_requests():
        before = time.perf_counter()
        done = engine.step()
        steps.append(time.perf_counter() - before)
        produced += sum(len(item.outputs[0].token_ids) for item in done if item.finished)
    seconds = time.perf_counter() - begun
    middle = steps[len(steps) // 4 : -max(1, len(steps) // 4)]
    return {
        "requests": size,
        "tokens": produced,
        "steps": len(steps),
        "seconds": round(seconds, 4),
        "median_step_ms": round(1000 * statistics.median(middle), 3),
    }


if __name__ == "__main__":
    main()
