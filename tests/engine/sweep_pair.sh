#!/bin/sh
# Sweep the DFlash example pair in the engine named first, and plan with what was measured: `make sweep`.
# Not a test: it starts an engine for each K, which takes minutes on a busy machine.
set -eu
out=${2:-build/sweep}
mkdir -p "$out"
printf '%s\n' "Once upon a time there was" "A server answers many requests" "The quick brown fox jumps over" > "$out/prompts.txt"
export VLLM_CPU_KVCACHE_SPACE=1
spectool=".venv/bin/python -m spectool"
$spectool probe examples/pairs/dflash-zlab --verifier examples/pairs/verifier --engine-python "$1" --sweep "$out/points" \
  --prompts "$out/prompts.txt" --sweep-k 0,3,7 --sweep-requests 1,4 --max-tokens 32 \
  -- --enforce-eager --max-model-len 512 --dtype bfloat16 --max-num-seqs 8
$spectool serve examples/pairs/dflash-zlab --verifier examples/pairs/verifier --engine-python "$1" --dry-run \
  --profile "$out/points/profile.json"
