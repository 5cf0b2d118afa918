# ruff: noqa: E501 - tables: one case, one line
"""Hold spectool against vLLM over hundreds of mutated pairs, and write the table of docs/conformance.md.

    make conformance          (.venv/bin/python tests/engine/conformance.py --engine .engine/bin/python)

Cases: every planted fault and near miss of tests/support/faults.py, boundaries.py and more_faults.py; every tensor of
every drafter left out once and made a row too long once; ranges of K, mask tokens, aux layers, rope bases and windows.
Faults that vLLM runs in silence (third_faults.py) are held by their drafts, beside those of the good pair.
Per case spectool says from config and headers whether vLLM runs the pair and as what; the engine (CPU build, a short
generation) then runs it. Launches (tests/support/launches.py, third_launches.py) go through vLLM's parser and configuration.
First the instrument is proved: for each field of a reading, a pair in which only that field differs must draft
otherwise, or show the field in what the engine reports.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from boundaries import BOUNDARIES  # noqa: E402 - after the path
from conformance_rules import asked_as_pair, rules_table  # noqa: E402 - after the path
from faults import CONVERTED_FAULTS, LAYER, NATIVE_FAULTS, NEAR_MISSES  # noqa: E402 - after the path
from launch_runs import Ran, run_launches, runs_table  # noqa: E402 - after the path
from launches import Said, hold, launches, launches_table  # noqa: E402 - after the path
from more_faults import MORE_FAULTS  # noqa: E402 - after the path
from mutations import NATIVE, PAIRS, VERIFIER, Change, both, folder, nothing, put, with_zeros, without  # noqa: E402 - after the path is set
from oracle import Verdict, example_prompts, judge  # noqa: E402 - after the path is set
from third_launches import third_launches  # noqa: E402 - after the path is set
from third_runs import Held, run_thirds, thirds_table  # noqa: E402 - after the path is set

from spectool import api  # noqa: E402 - after the path is set
from spectool.engine.facts import engine_facts  # noqa: E402 - after the path is set
from spectool.engine.reading.read import read_engine  # noqa: E402 - after the path is set
from spectool.errors import SpectoolError  # noqa: E402 - after the path is set
from spectool.loading import load_drafter, load_verifier  # noqa: E402 - after the path is set

VERSION = "0.32.0"
SERVED: dict[str, dict[str, Any]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True, "num_speculative_tokens": 5},
    "dflash": {"method": "dflash", "num_speculative_tokens": 7},
    "dspark": {"method": "dspark", "num_speculative_tokens": 7},
}
# Rules whose faults make the engine stop; all others are about what runs in silence.
STOPS = {
    *(
        "AUX001",
        "AUX002",
        "AUX003",
        "AUX004",
        "CFG001",
        "CFG002",
        "CFG003",
        "CFG004",
        "ENG001",
        "HED002",
        "HED005",
        "LAY002",
        "LAY003",
        "LAY004",
    ),
    *(
        "MSK001",
        "MSK002",
        "MSK003",
        "ROP001",
        "TEN002",
        "TEN003",
        "ATT002",
        "ATT003",
        "VER001",
        "VER003",
        "VER008",
        "VER009",
        "TEN005",
        "VOC004",
        "VOC001",
        "VOC003",
    ),
}


@dataclass(frozen=True)
class Pair:
    """One mutated pair. `kind` groups it in the table; `tokens` is K as served."""

    name: str
    kind: str
    method: str
    path: Path
    tokens: int
    verifier: Path = VERIFIER

    @property
    def runner(self) -> str:
        """The model runner that has this drafter: V1 refuses DSpark, and DFlash with layers of two kinds.

        Layers are taken from spectool's reading, since a config may leave them to its model_type.
        """
        if self.method != "dflash":
            return "v2" if self.method == "dspark" else "v1"
        try:
            _, view = load_drafter(str(self.path))
            drafter = read_engine(view, "dflash", engine_facts(VERSION)).drafter
        except SpectoolError:
            return "v1"
        windows = {layer.window is None for layer in drafter.attention} if drafter is not None else set()
        return "v2" if len(windows) > 1 else "v1"


def bases(root: Path) -> dict[tuple[str, str], Path]:
    """The good folders: native, and converted."""
    found = {("native", method): PAIRS / source for method, source in NATIVE.items()}
    for method, source in NATIVE.items():
        settings = {"verifier": "spectool/tiny-verifier", **({"speculative_tokens": 5} if method == "peagle" else {})}
        plan = api.plan_conversion(str(PAIRS / source), verifier=str(VERIFIER), settings=settings)
        api.convert(plan, root / f"converted-{method}")
        found["converted", method] = root / f"converted-{method}"
    return found


def mutations(base: dict[tuple[str, str], Path]) -> Iterator[tuple[str, str, str, str, Change, int | None]]:
    """Yield (kind, layout, method, name, change, K)."""
    for method, name, change, _ in NATIVE_FAULTS:
        yield "planted fault", "native", method, name, change, None
    for method, name, change, _ in CONVERTED_FAULTS:
        yield "planted fault", "converted", method, name, change, None
    for layout, method, name, change in NEAR_MISSES:
        yield "near miss", layout, method, name, change, None
    for number, item in enumerate(BOUNDARIES):
        if not asked_as_pair(item):
            continue
        yield "boundary, fault", item.layout, item.method, f"{number} {item.code} fault", item.fires, None
        yield "boundary, near miss", item.layout, item.method, f"{number} {item.code} near miss", item.misses, None
    for method in NATIVE:
        _, view = load_drafter(str(base["converted", method]))
        for tensor, header in view.tensors.items():
            yield "tensor left out", "converted", method, tensor, without(tensor), None
            if header.shape[0] > 1:
                longer = (header.shape[0] + 1, *header.shape[1:])
                yield "tensor a row too long", "converted", method, tensor, with_zeros(tensor, *longer), None
        for tokens in range(1, 10):
            yield "K", "converted", method, f"K {tokens}", nothing, tokens
    aux = {"dflash": "aux_hidden_state_layer_ids", "dspark": "aux_hidden_state_layer_ids",
           "peagle": "eagle_aux_hidden_state_layer_ids"}  # fmt: skip
    lists = (
        [1, 3, 5],
        [0, 3, 5],
        [1, 3, 6],
        [1, 3, 7],
        [5, 3, 1],
        [1, 1, 5],
        [1, 3],
        [1, 2, 3, 4],
        [-1, 3, 5],
        [2, 4, 6],
    )
    for method, key in aux.items():
        for ids in lists:
            yield "aux layers", "converted", method, str(ids), put(key, ids), None
        for token in (0, 1, 510, 511, 512, 513, 10_000, -1):
            yield "mask token", "converted", method, str(token), put("mask_token_id", token), None
        for theta in (1.0, 10_000, 1e6, 1e9):
            yield (
                "rope",
                "converted",
                method,
                f"theta {theta:g}",
                put(f"{LAYER}.rope_parameters.rope_theta", theta),
                None,
            )
        for partial in (0.25, 0.5, 1.0):
            change = put(f"{LAYER}.rope_parameters.partial_rotary_factor", partial)
            yield "rope", "converted", method, f"partial {partial:g}", change, None
        for window in (1, 16, 4096):
            swa = both(put(f"{LAYER}.layer_types", ["sliding_attention"] * 2), put(f"{LAYER}.sliding_window", window))
            yield "window", "converted", method, f"window {window}", swa, None


def plant(root: Path) -> list[Pair]:
    base = bases(root)
    pairs = []
    for number, (kind, layout, method, name, change, tokens) in enumerate(mutations(base)):
        path = folder(base[layout, method], root / str(number), change)
        served = tokens or SERVED[method]["num_speculative_tokens"]
        pairs.append(Pair(f"{kind}: {layout} {method}, {name}", kind, method, path, served))
    for number, (code, layout, method, name, change, of) in enumerate(MORE_FAULTS):
        path, verifier = base[layout, method], VERIFIER
        if of == "verifier":
            verifier = folder(VERIFIER, root / f"more-{number}", change)
        else:
            path = folder(path, root / f"more-{number}", change)
        served = SERVED[method]["num_speculative_tokens"]
        pairs.append(
            Pair(f"more faults: {layout} {method}, {code} {name}", "more faults", method, path, served, verifier)
        )
    return pairs


def ask(pairs: list[Pair], engine: str, root: Path, prompts: list[list[int]] | None, tokens: int) -> dict[str, Verdict]:
    """Run all pairs in the engine, the two model runners side by side."""

    def one(runner: str) -> dict[str, Verdict]:
        cases = []
        for pair in pairs:
            if pair.runner != runner:
                continue
            config = {**SERVED[pair.method], "num_speculative_tokens": pair.tokens, "model": str(pair.path)}
            case = {"id": pair.name, "verifier": str(pair.verifier), "speculative_config": config, "runner": runner}
            case |= {"engine_args": {"max_num_batched_tokens": 64}, "max_tokens": tokens}
            cases.append(case | ({"prompts": prompts} if prompts else {}))
        place = root / runner
        place.mkdir(exist_ok=True)
        return judge(engine, cases, place) if cases else {}

    with ThreadPoolExecutor(max_workers=2) as pool:
        first, second = pool.map(one, ("v1", "v2"))
    return first | second


@dataclass(frozen=True)
class Row:
    """What both said of one pair: errors as `codes`, `others` beside them. `wrong` is empty where they agree."""

    pair: Pair
    codes: frozenset[str]
    stage: str
    error: str
    wrong: str
    others: frozenset[str] = frozenset()


def compare(pair: Pair, verdict: Verdict) -> Row:
    settings = {"speculative_tokens": pair.tokens}
    try:
        report = api.validate(str(pair.path), verifier=str(pair.verifier), settings=settings, engine=VERSION)
    except SpectoolError as error:
        return Row(pair, frozenset(), verdict["stage"], "", f"spectool could not read it: {error.message}")
    codes = frozenset(finding.code for finding in report.findings if finding.severity == "error")
    stopped = not verdict["ok"]
    error = (verdict["root"] or "").splitlines()[0][:60] if stopped else ""
    others = frozenset(finding.code for finding in report.findings) - codes
    return Row(pair, codes, verdict["stage"], error, disagreement(pair, verdict, codes), others)


def disagreement(pair: Pair, verdict: Verdict, codes: frozenset[str]) -> str:
    """Return what the engine did otherwise than predicted; empty where they agree."""
    _, view = load_drafter(str(pair.path))
    loaded = load_verifier(str(pair.verifier)).view
    reading = read_engine(view, pair.method, engine_facts(VERSION), verifier=loaded)  # type: ignore[arg-type]  # the table holds plain str for the method
    if not verdict["ok"]:
        # A gated head by name runs as a vanilla one; its tensors have no module.
        gated = "HED001" in codes and "markov_head.gate_proj.weight" in view.tensors
        refused = {refusal.code for refusal in reading.refusals}
        return "" if codes & (STOPS | refused) or gated else f"stops at {verdict['stage']} unforeseen"
    if not codes and verdict["missing_params"]:
        return f"clean, but {verdict['missing_params'][0]} was never loaded"
    if reading.unknown:
        return ""  # spectool says that it does not know
    if reading.drafter is None:
        return "runs, though the reading refuses it"
    extra = verdict["extra"]
    if extra["taps"] != list(reading.drafter.aux_layers or ()):
        return f"captures {extra['taps']}"
    if extra["mask_token_id"] != reading.drafter.mask_token_id:
        return f"mask token {extra['mask_token_id']}"
    if extra["causal"] is not None and extra["causal"] != [layer.causal for layer in reading.drafter.attention]:
        return f"causal {extra['causal']}"
    return ""


# Field of a reading -> a change of the converted folder that flips it and nothing else.
FLIPS: list[tuple[str, str, Change]] = [
    ("aux_layers", "dflash", put("aux_hidden_state_layer_ids", [0, 2, 4])),
    ("slots", "dspark", put("sample_from_anchor", False)),
    ("mask_token_id", "dflash", put("mask_token_id", 0)),
    ("attention (causality)", "dflash", put(f"{LAYER}.is_causal", True)),
    ("attention (window)", "dflash", both(put(f"{LAYER}.layer_types", ["sliding_attention"] * 2), put(f"{LAYER}.sliding_window", 2))),
    ("rope (base)", "dflash", put(f"{LAYER}.rope_parameters.rope_theta", 1e6)),
    ("rope (rotated dimensions)", "dflash", put(f"{LAYER}.rope_parameters.partial_rotary_factor", 0.25)),
    ("rope (layout)", "dflash", put(f"{LAYER}.is_neox_style", False)),
    ("norm_before_residual", "peagle", put("norm_before_residual", True)),
    ("rms_norm_eps", "dflash", put(f"{LAYER}.rms_norm_eps", 1.0)),
    ("qk_norm", "peagle", put(f"{LAYER}.model_type", "qwen3")),
    ("markov", "dspark", with_zeros("markov_head.markov_w2.weight", 512, 32)),
]  # fmt: skip
NOT_PROVEN = {
    "confidence": "used by adaptive verification only, which needs GPU graphs",
    "attention_bias, mlp_bias, sinks, fc_norm, norm_before_fc": "the example drafters have none; shapes show them",
    "embedding_scale, value_scale": "not applied to the example drafters",
    "logit_scale": "scales base logits and Markov bias alike, which greedy drafting cannot show",
    "activation": "vLLM builds silu only",
}


def prove(engine: str, root: Path) -> list[tuple[str, str, str, str]]:
    """Return (field, method, good figures, flipped figures) for every flip."""
    base = bases(root)
    pairs = [
        Pair(f"good {method}", "", method, base["converted", method], SERVED[method]["num_speculative_tokens"])
        for method in NATIVE
    ]
    for number, (field, method, change) in enumerate(FLIPS):
        path = folder(base["converted", method], root / f"flip{number}", change)
        pairs.append(Pair(field, "", method, path, SERVED[method]["num_speculative_tokens"]))
    verdicts = ask(pairs, engine, root, example_prompts()[:4], 24)

    def figures(name: str) -> str:
        extra = verdicts[name]["extra"]
        return f"{extra.get('drafts')} drafts, {extra.get('accepted')} accepted"

    return [(field, method, figures(f"good {method}"), figures(field)) for field, method, _ in FLIPS]


def summary(rows: list[Row]) -> str:
    """Return the first lines of the page."""
    agreed = sum(not row.wrong for row in rows)
    silent = [row for row in rows if row.stage == "ok" and row.codes]
    errors = {row.error for row in rows if row.error}
    return (
        f"vLLM {VERSION} (CPU build), {len(rows)} mutated pairs: {agreed} as predicted, {len(rows) - agreed} not. "
        f"{sum(row.stage != 'ok' for row in rows)} stopped, with {len(errors)} distinct messages; "
        f"{len(silent)} ran on in silence with a fault that spectool names."
    )


def table(
    rows: list[Row], proof: list[tuple[str, str, str, str]], said: list[Said], ran: list[Ran], held: list[Held]
) -> str:
    """Return docs/conformance.md."""
    lines = [
        "# Agreement with the engine",
        "",
        "Generated by `make conformance`; do not edit.",
        "",
        summary(rows),
        "",
        "| kind | pairs | stop | run, faulty | run, clean | as predicted |",
        "|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(row.pair.kind for row in rows):
        mine = [row for row in rows if row.pair.kind == kind]
        stop = sum(row.stage != "ok" for row in mine)
        faulty = sum(row.stage == "ok" and bool(row.codes) for row in mine)
        good = sum(not row.wrong for row in mine)
        lines.append(f"| {kind} | {len(mine)} | {stop} | {faulty} | {len(mine) - stop - faulty} | {good} |")
    lines += ["", "## Not as predicted", ""]
    wrong = [(row.pair.name, row.wrong) for row in rows] + [(item.asked.name, item.wrong) for item in said]
    wrong += [(item.name, item.wrong) for item in ran] + [(item.item.name, item.wrong) for item in held]
    lines += [f"- {name}: {why}" for name, why in wrong if why] or ["None."]
    lines += thirds_table(held) + launches_table(said) + runs_table(ran)
    lines += rules_table(Counter(code for row in rows for code in row.codes | row.others), said, held)
    lines += [
        "",
        "## Is the instrument sharp enough?",
        "",
        "One field flipped, nothing else: does drafting change?",
        "",
    ]
    lines += ["| field | method | as trained | flipped | seen |", "|---|---|---|---|---|"]
    lines += [f"| {f} | {m} | {good} | {bad} | {'yes' if good != bad else '**no**'} |" for f, m, good, bad in proof]
    lines += ["", "Not proven here:", ""]
    lines += [f"- {field}: {why}" for field, why in NOT_PROVEN.items()]
    return "\n".join(lines) + "\n"


def few(pairs: list[Pair], engine: str, root: Path) -> list[Row]:
    """Run some pairs and print what both said, for looking into one."""
    verdicts = ask(pairs, engine, root, None, 4)
    rows = [compare(pair, verdicts[pair.name]) for pair in pairs]
    for row in rows:
        codes = ", ".join(sorted(row.codes)) or "clean"
        sys.stdout.write(f"{row.pair.name}: {row.stage} ({codes}; {row.error}) {row.wrong}\n")
    return rows


def ask_launches(engine: str, root: Path, only: str | None) -> tuple[list[Said], list[Ran]]:
    """Put the launches to both, and run those whose faults act after the configuration."""
    root.mkdir()
    asked = [item for item in launches(root) + third_launches(root) if only is None or only in item.name]
    verdicts = judge(engine, [item.case for item in asked], root) if asked else {}
    return [hold(item, verdicts[item.name]) for item in asked], run_launches(engine, root, only)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="the engine's interpreter")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "conformance.md")
    parser.add_argument("--only", metavar="TEXT", help="run what has this text in its name, and print it alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "pairs").mkdir()
        pairs = plant(root / "pairs")
        if options.only is None:
            (root / "proof").mkdir()
            proof = prove(options.engine, root / "proof")
            verdicts = ask(pairs, options.engine, root, None, 4)
            rows = [compare(pair, verdicts[pair.name]) for pair in pairs]
        else:
            rows = few([pair for pair in pairs if options.only in pair.name], options.engine, root)
        (root / "thirds").mkdir()
        held = run_thirds(options.engine, bases(root / "thirds"), root / "thirds", options.only)
        said, ran = ask_launches(options.engine, root / "launches", options.only)
    if options.only is None:
        options.out.write_text(table(rows, proof, said, ran, held), encoding="utf-8")
        sys.stdout.write(f"see {options.out}\n")
    for one in held if options.only is not None else ():
        sys.stdout.write(f"{one.item.name}: {one.stage} ({', '.join(sorted(one.codes)) or 'clean'}; {one.figures})\n")
    for item in said if options.only is not None else ():
        codes = ", ".join(sorted(item.codes)) or "clean"
        sys.stdout.write(f"{item.asked.name}: {item.stage} ({codes}; {item.error}) {item.later}\n")
    wrong = [f"{row.pair.name}: {row.wrong} ({', '.join(sorted(row.codes))}; {row.error})" for row in rows if row.wrong]
    wrong += [
        f"{item.asked.name}: {item.wrong} ({', '.join(sorted(item.codes))}; {item.error})"
        for item in said
        if item.wrong
    ]
    wrong += [f"{item.name}: {item.wrong}" for item in ran if item.wrong]
    wrong += [f"{item.item.name}: {item.wrong}" for item in held if item.wrong]
    total = len(rows) + len(said) + len(ran) + len(held)
    sys.stdout.write("".join(f"WRONG {line}\n" for line in wrong))
    sys.stdout.write(f"{total - len(wrong)} of {total} as predicted\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
