"""Launches of `launch_faults`, put to spectool and to vLLM's own parser and configuration (harness/launch_oracle.py).

The law both are held to: where vLLM stops, spectool must have named an error with that cause; where it goes on, every
error spectool names must be one that acts later, and the table `LATER` says when and how that was seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boundaries import BOUNDARIES
from launch_faults import LAUNCHES, Row
from mutations import NATIVE, PAIRS, VERIFIER, folder, nothing
from oracle import Case, Verdict

from spectool import api
from spectool.planning.gpus import parse_gpus
from spectool.rules.registry import Finding, rules

VERSION = "0.32.0"
SERVED: dict[str, dict[str, Any]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5},
    "dflash": {"method": "dflash", "num_speculative_tokens": 7},
    "dspark": {"method": "dspark", "num_speculative_tokens": 7},
}

# What vLLM says where it stops for a rule's cause, at its parser, its configuration, or the first checks of a start.
STOPS = {
    "PAR001": r"must be divisible by (tensor parallel size|dcp_size)|Decode context parallelism for GQA|"
    r"exceeds the maximum supported value|query heads per KV head",
    "PAR002": r"cannot be other value than 1",
    "PAR005": r"[Ww]orld size",
    "PAR007": r"data_parallel_size_local|external data parallel|data-parallel launch options",
    "RUN001": r"Model Runner V1 does not support",
    "RUN002": r"Model Runner V2 does not yet support",
    "RUN003": r"Model Runner V1 does not support|requires Model Runner V2",
    "RUN005": r"invalid literal for int",
    "RUN006": r"Microbatching|dual batch overlap",
    "QNT001": r"[Uu]nknown quantization method",
    "QNT002": r"quant_method",
    "VER008": r"Cannot find any of",
    "SPC001": r"Unexpected keyword argument|not a valid argument",
    "SPC002": r"Input should be 'ngram'|are not supported for now",
    "SPC003": r"num_speculative_tokens|greater than 0|valid integer",
    "SPC004": r"max_model_len",
    "SPC005": r"synthetic_acceptance|Input should be 'standard'",
    "SPC006": r"dspark_draft_topk|use_heterogeneous_vocab",
    "SPC007": r"mutually exclusive",
    "ADV001": r"Adaptive verification|adaptive draft verification|fixed verification|Batch-sharded sampling",
    "ADV004": r"[Bb]atch-size range|must be >= 0|Field required|valid (tuple|list)",
    "BUD001": r"max_num_batched_tokens",
    "BUD005": r"max_cudagraph_capture_size|cudagraph (size|capture)|cudagraph_capture_sizes",
    "BUD006": r"long_prefill_token_threshold",
    "FLG001": r"unrecognized arguments|ambiguous option",
    "FLG002": r"invalid|expected (one|at least one) argument|Input should|[Uu]nexpected keyword|ignored explicit|"
    r"Unknown (attention backend|quantization)|cannot be converted|Reasoning parser|choose from|less than|"
    r"^.?'[A-Z_0-9]+'",
    "FLG005": r"mutually exclusive",
    "SPC008": r"Input should be|valid (integer|string|boolean|number|dictionary)|Unknown (quantization|attention)|"
    r"^.?'[A-Z_0-9]+'|without speculative model|Invalid repository",
    "FEA007": r"kv_role|Unsupported connector|Connector name",
    "ADV003": r"disable_padded_drafter_batch",
    "LEN002": r"max_model_len",
    "FEA001": r"Fast prefill",
    "FEA002": r"[Ww]atermark|Field required",
    "BKD001": r"non-causal attention not supported",
    "PAR006": r"[Ee]xpert|EPLB|MoE",
    "BKD004": r"No valid attention backend|is not valid for this configuration",
    "BKD002": r"kv_cache_dtype not supported|No valid attention backend",
}

# (rule, what spectool says, when it acts, how that was seen): vLLM's configuration takes these.
LATER: list[tuple[str, str, str, str]] = [
    (
        "PAR001",
        r"^(?!.*does not divide the \w+'s heads \().*(width|MLP|kv heads)",
        "load",
        "an assertion of the split layer; needs ranks",
    ),
    ("PAR003", r"", "load, or the first step", "needs stages"),
    ("PAR005", r"x [2-9]\d* copies", "load", "each copy counts its own ranks; the second finds no GPU"),
    ("QNT001", r"MLX", "load", "needs a GPU's kernels"),
    (
        "QNT002",
        r"there are no settings|no tensor is quantised|have no scale|stops without it",
        "load, or silent",
        "needs a GPU's kernels",
    ),
    ("VER008", r"max_window_layers", "load", "run here"),
    ("RUN003", r"--logits-processors", "load", "run here"),
    ("RUN004", r"", "silent, or a stop at fc: other aux layers", "run here"),
    ("SPC002", r"parallel_drafting is not true", "silent: drafts token by token", "run here"),
    ("SPC002", r"takes this path for draft_model", "silent: acceptance length 1", "run here"),
    ("ADV001", r": (graphs of|\w+ on compute capability)", "graph capture", "needs a GPU"),
    ("ADV001", r"use_local_argmax_reduction", "load", "with graphs only: needs a GPU"),
    ("ADV002", r"", "load", "run here"),
    ("ADV003", r"", "load", "run here"),
    ("ADV004", r"is not used", "silent: the schedule is dropped", "asked here"),
    ("FLG003", r"", "silent: the file is never opened", "asked here"),
    ("FLG004", r"", "silent: the whole value is dropped", "asked here"),
    ("BUD001", r"leaves no room to verify", "silent: nothing is drafted", "run here"),
    ("BUD004", r"", "memory profile", "needs a GPU"),
]


# What no launch can ask here, by what the launch's words have in them.
OUT_OF_REACH = {
    "MoRIIOConnector": "its package msgpack is not part of the CPU build",
    "NixlConnector": "it imports compiled kernels",
    "ROCM_AITER_FA": "it imports ROCm's libraries, which abort the process where there are none",
}


@dataclass(frozen=True)
class Asked:
    """One launch for both. `fires`: whether the row's rule must speak at the release it is written for."""

    name: str
    code: str
    fires: bool
    method: str
    drafter: Path
    verifier: Path
    words: tuple[str, ...]
    gpus: str | None
    case: Case


def compose(method: str, words: Sequence[str], drafter: Path, place: Path) -> tuple[list[str], dict[str, str]]:
    """Return flags and environment as a user of vLLM would write them, with the drafter in the configuration.

    A `model` of the words is a name vLLM is to guess from: it becomes a link of that name, in `place`, to the drafter.
    """
    rest, environment = list(words), {}
    while rest and re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", rest[0]):
        name, _, value = rest.pop(0).partition("=")
        environment[name] = value
    given: dict[str, Any] = {}
    if "--speculative-config" in rest:
        index = rest.index("--speculative-config")
        given = json.loads(rest[index + 1])
        del rest[index : index + 2]
    served = {**SERVED[method], "model": str(drafter)}
    if "model" in given:
        link = place / Path(given["model"]).name
        link.symlink_to(drafter)
        served = {"model": str(link)}
    shorts = {word.partition("=")[0] for word in rest if word.startswith("--spec-")}
    for flag, key in (("--spec-tokens", "num_speculative_tokens"), ("--spec-method", "method")):
        if flag in shorts:
            served.pop(key, None)  # vLLM wants it once: a key of the words is twice where the rule says so
    keys = {**served, **{name: value for name, value in given.items() if name != "model"}}
    return ["--speculative-config", json.dumps(keys), *rest], environment


def ask_all(rows: Iterable[tuple[int, Row]], root: Path) -> list[Asked]:
    """Lay out both launches of each row that speaks of the release asked or a newer one."""
    asked = []
    for number, (code, method, fires, misses, of_verifier, of_drafter, gpus, engine) in rows:
        if engine not in (VERSION, "0.33.0"):
            continue
        place = root / str(number)
        drafter, verifier = PAIRS / NATIVE[method], VERIFIER
        if of_drafter is not nothing:
            drafter = folder(drafter, place / "drafter", of_drafter)
        if of_verifier is not nothing:
            verifier = folder(VERIFIER, place / "verifier", of_verifier)
        for kind, words in (("fires", fires), ("near miss", misses)):
            if any(name in word for name in OUT_OF_REACH for word in words):
                continue
            (place / kind[0]).mkdir(parents=True)
            flags, environment = compose(method, words, drafter, place / kind[0])
            name = f"launch: {number} {code} {method}, {kind}"
            case: Case = {"id": name, "argv": [str(verifier), *flags], "environment": environment}
            if gpus is not None:
                given = parse_gpus(gpus)
                capability, gib = list(given.gpu.compute_capability), int(given.gpu.memory_gib)
                case["gpu"] = {"count": given.per_node, "name": given.gpu.name, "capability": capability, "gib": gib}
            asked.append(Asked(name, code, kind == "fires", method, drafter, verifier, words, gpus, case))
    return asked


def quantised(root: Path) -> list[Asked]:
    """Quantised drafters, fault and near miss: the CPU has no kernels for them, but vLLM's configuration reads them."""
    asked = []
    for number, item in enumerate(BOUNDARIES):
        if not item.code.startswith("QNT") or item.of != "drafter" or item.engine != ("0.33.0", "0.33.0"):
            continue
        if item.layout != "native":
            continue
        for kind, change in (("fires", item.fires), ("near miss", item.misses)):
            place = root / f"quantised-{number}{kind[0]}"
            drafter = folder(PAIRS / NATIVE[item.method], place / "d", change)
            flags, _ = compose(item.method, (), drafter, place)
            name = f"launch: {number} {item.code} {item.method} on disk, {kind}"
            case: Case = {"id": name, "argv": [str(VERIFIER), *flags]}
            asked.append(Asked(name, item.code, kind == "fires", item.method, drafter, VERIFIER, (), None, case))
    return asked


def launches(root: Path, only: Sequence[str] | None = None) -> list[Asked]:
    """Return every launch, or those of some rules, with folders under `root`."""
    rows = [(number, row) for number, row in enumerate(LAUNCHES) if only is None or row[0] in only]
    return ask_all(rows, root) + (quantised(root) if only is None else [])


@dataclass(frozen=True)
class Said:
    """What both said of a launch. `wrong` is empty where they agree; `later` says when an error acts that is one."""

    asked: Asked
    codes: frozenset[str]
    others: frozenset[str]
    stage: str
    error: str
    later: str
    wrong: str


def _later(finding: Finding) -> str:
    """When a fault acts that vLLM's configuration takes, and how that was seen; empty where the table has it not."""
    for code, text, when, how in LATER:
        if code == finding.code and re.search(text, finding.message):
            return f"{when} ({how})"
    return ""


def hold(asked: Asked, verdict: Verdict) -> Said:
    """Hold spectool's findings on a launch against the engine's verdict."""
    settings = {"speculative_tokens": 5} if asked.method == "peagle" else None
    report = api.validate(
        str(asked.drafter),
        verifier=str(asked.verifier),
        settings=settings,
        engine=VERSION,
        launch=asked.words,
        gpus=asked.gpus,
    )
    # What the pair itself is refused for, at load, is held elsewhere (conformance.py).
    errors = [
        item
        for item in report.findings
        if item.severity == "error" and (rules()[item.code].scope == "launch" or item.code in STOPS)
    ]
    codes = frozenset(finding.code for finding in errors)
    said = "" if verdict["ok"] else f"{verdict['root']} {verdict['error']}"
    later, wrong = "", ""
    if not verdict["ok"]:
        if not any(code in STOPS and re.search(STOPS[code], said) for code in codes):
            wrong = f"stops at {verdict['stage']}{', for another cause' if codes else ' unforeseen'}"
    else:
        for finding in errors:
            when = _later(finding)
            later = later or when
            if not when:
                wrong = f"goes on, though {finding.code}: {finding.message}"
    unknown = {unknown.code for unknown in report.unknowns}
    if not wrong and asked.fires and asked.code not in codes | {finding.code for finding in report.findings} | unknown:
        wrong = f"{asked.code} is silent"
    others = frozenset(finding.code for finding in report.findings) - codes
    return Said(asked, codes, others, verdict["stage"], said.splitlines()[0][:90] if said else "", later, wrong)


def launches_table(said: Sequence[Said]) -> list[str]:
    """Return the section of docs/conformance.md about launches."""
    wrong = sum(bool(item.wrong) for item in said)
    stops = {item.error for item in said if item.error}
    counts = (
        f"{len(said)} command lines, each through vLLM's own parser, `create_engine_config` and the checks with which "
        f"scheduler and worker begin: {len(said) - wrong} as predicted, {wrong} not. "
        f"{sum(item.stage != 'ok' for item in said)} stopped, with {len(stops)} distinct messages."
    )
    how = (
        "A GPU is pretended (compute capability 9.0; eight of them, or as many as the launch is given): vLLM's CUDA "
        "platform class answers, and no kernel is called. A near miss differs from its fault in one value."
    )
    lines = ["", "## Launches", "", counts, how, ""]
    lines.append("| rule | faults | near misses | vLLM stops | goes on; the fault acts later | as predicted |")
    lines.append("|---|---|---|---|---|---|")
    for code in sorted({item.asked.code for item in said}):
        mine = [item for item in said if item.asked.code == code]
        fires = [item for item in mine if item.asked.fires]
        stop = sum(item.stage != "ok" for item in fires)
        later = "; ".join(dict.fromkeys(item.later for item in fires if item.later))
        if not later and stop < len(fires) and not any(code in item.codes for item in fires):
            later = "no error: " + rules()[code].severity
        good = sum(not item.wrong for item in mine)
        lines.append(f"| {code} | {len(fires)} | {len(mine) - len(fires)} | {stop} | {later} | {good} |")
    return lines
