"""On a GPU: the converted folder drafts exactly as the native one, without and with CUDA graphs.

    make gpu ENGINE=/path/to/python                            (an interpreter in which a CUDA build of vLLM imports)
    python tests/gpu/compare.py --engine PYTHON --out FILE     (--mode eager, graphs or both; --jobs N)

What `tests/engine` asks the CPU build, asked again where drafters are served: real kernels, vLLM's own choice of
attention backend and model runner. Per pair native and converted run side by side on the same card; drafts, accepted
tokens per position and the text must be equal. The run without a drafter is compared token by token and only reported:
on a GPU the number of tokens verified at once changes rounding, so greedy text may part where two tokens tie.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from mutations import MIXED, PAIRS, VERIFIER, folder  # noqa: E402 - after the path is set
from oracle import Case, Verdict, acceptance_length, example_prompts, judge  # noqa: E402 - after the path is set

from spectool import api  # noqa: E402 - after the path is set

MAX_TOKENS = 96
FIGURES = ("drafts", "accepted", "accepted_per_pos", "digest")
PEAGLE = {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5}
SOURCES: dict[str, dict[str, Any]] = {
    "peagle-native": PEAGLE,
    "dflash-zlab": {"method": "dflash", "num_speculative_tokens": 7},
    "dspark-deepspec": {"method": "dspark", "num_speculative_tokens": 7},
    "dflash-mixed-layers": {"method": "dflash", "num_speculative_tokens": 7},
}


def prepare(root: Path) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Convert every source; return what to tell vLLM of (native, converted), by name."""
    found = {}
    for name, served in SOURCES.items():
        source = PAIRS / name
        if name == "dflash-mixed-layers":  # which Speculators `dflash` cannot hold: it is carried as `dspark`
            source = folder(PAIRS / "dflash-zlab", root / name, MIXED)
        settings = {"verifier": "spectool/tiny-verifier"}
        settings |= {"speculative_tokens": 5} if served is PEAGLE else {}
        plan = api.plan_conversion(str(source), verifier=str(VERIFIER), settings=settings)
        output = root / f"{name}-converted"
        api.convert(plan, output)
        method = str(plan.output.config["speculators_model_type"])
        found[name] = (
            {**served, "model": str(source)},
            {**served, "method": served["method"] if served is PEAGLE else method, "model": str(output)},
        )
    return found


def case(name: str, mode: str, speculative_config: dict[str, Any] | None) -> Case:
    """One run of the engine; the card is shared by several, so that each takes little of it."""
    engine = {"gpu_memory_utilization": 0.05, "enforce_eager": mode == "eager", "max_num_batched_tokens": 512}
    return {
        "id": name,
        "verifier": str(VERIFIER),
        "speculative_config": speculative_config,
        "runner": "gpu",
        "prompts": example_prompts(),
        "max_tokens": MAX_TOKENS,
        "keep_outputs": True,
        "engine_args": engine,
    }


def run_all(engine: str, mode: str, root: Path, jobs: int) -> dict[str, Verdict]:
    """Run every case in an oracle of its own, `jobs` at once."""
    cases = [case("none", mode, None)]
    for name, layouts in prepare(root).items():
        for layout, config in zip(("native", "converted"), layouts, strict=True):
            cases.append(case(f"{name} {layout}", mode, config))

    def one(entry: Case) -> dict[str, Verdict]:
        place = root / entry["id"].replace(" ", "-run-")
        place.mkdir()
        return judge(engine, [entry], place, timeout=400)

    found: dict[str, Verdict] = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for verdict in pool.map(one, cases):
            found |= verdict
    return found


def report(mode: str, verdicts: dict[str, Verdict]) -> tuple[list[dict[str, Any]], bool]:
    """Print one line a pair; return the records and whether every pair drafts alike."""
    none, records, good = verdicts["none"], [], True
    for name in SOURCES:
        native, converted = (verdicts[f"{name} {layout}"] for layout in ("native", "converted"))
        record: dict[str, Any] = {"pair": name, "mode": mode}
        if not (native["ok"] and converted["ok"]):
            record["failed"] = {
                layout: {"stage": verdict["stage"], "root": verdict["root"], "at": verdict["extra"].get("raised_at")}
                for layout, verdict in (("native", native), ("converted", converted))
                if not verdict["ok"]
            }
        else:
            record |= {layout: {key: verdict["extra"][key] for key in FIGURES}
                       for layout, verdict in (("native", native), ("converted", converted))}  # fmt: skip
            record["acceptance_length"] = round(acceptance_length(converted), 4)
            record["draft_class"] = converted["extra"].get("draft_class")
            record["missing_params"] = converted["missing_params"]
            record["as_without_drafter"] = same_text(converted, none) if none["ok"] else None
        record["equal"] = "failed" not in record and record["native"] == record["converted"]
        good &= record["equal"] and record["converted"]["accepted"] > 0
        records.append(record)
        print(f"{mode:7} {name:20}", summary(record))
    return records, good


def same_text(verdict: Verdict, none: Verdict) -> str:
    """Say how many of the outputs are those of the run without a drafter, whole."""
    pairs = list(zip(verdict["extra"]["outputs"], none["extra"]["outputs"], strict=True))
    return f"{sum(one == other for one, other in pairs)} of {len(pairs)}"


def summary(record: dict[str, Any]) -> str:
    if "failed" in record:
        return f"did not run: {record['failed']}"
    said = "equal" if record["equal"] else f"DIFFERS from native {record['native']}:"
    return f"{said} {record['converted']}, text as without a drafter: {record['as_without_drafter']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="an interpreter in which a CUDA build of vLLM imports")
    parser.add_argument("--mode", choices=("eager", "graphs", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=3, help="runs at once on the card (default 3)")
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    options = parser.parse_args()
    records, good = [], True
    for mode in ("eager", "graphs") if options.mode == "both" else (options.mode,):
        with tempfile.TemporaryDirectory() as place:
            found, equal = report(mode, run_all(options.engine, mode, Path(place), options.jobs))
        records += found
        good &= equal
    if options.out:
        options.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
