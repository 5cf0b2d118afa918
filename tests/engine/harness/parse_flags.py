"""Run by the engine: parse command lines from standard input with vLLM's own parser; start nothing.

In: a JSON list of argument lists, as they follow `vllm serve`. Out: a JSON list of the values vLLM takes.
"""

import json
import sys

from vllm.entrypoints.cli.serve import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

KEYS = (
    "model_tag", "speculative_config", "tensor_parallel_size", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "gpu_memory_utilization", "reasoning_parser", "served_model_name",
    "nnodes", "node_rank", "master_addr", "headless", "shutdown_timeout", "pipeline_parallel_size",
)

parser = make_arg_parser(FlexibleArgumentParser())
answers = []
for words in json.load(sys.stdin):
    parsed = parser.parse_args(words)
    answers.append({key: getattr(parsed, key) for key in KEYS})
print("ANSWER " + json.dumps(answers))
