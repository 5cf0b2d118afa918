"""Check one Speculators config: its structure, then the rules on the folder it promises, then what is merely odd."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from spectool.engine.facts import EngineFacts
from spectool.errors import RefusedError
from spectool.formats.faults import Path, spell
from spectool.formats.lookup import lookup
from spectool.formats.speculators.parse import MODELS, Faulty, ParsedConfig, parse_speculators
from spectool.rules.registry import rules, run_rules
from spectool.schema_check.codes import LAYER, code_of, key_of
from spectool.schema_check.promise import can_be_promised, promised
from spectool.schema_check.record import Remark

# Rules about tensors: a folder without real ones has nothing to say on them.
_OF_TENSORS = ("TEN", "LAY001", "LAY002", "LAY003", "MSK003", "QNT002", "QNT003", "VOC003")


def check_config(config: Mapping[str, Any], settings: Mapping[str, Any], facts: EngineFacts) -> list[Remark]:
    """Return every remark on a config of one of the three methods, errors first."""
    parsed = parse_speculators(config)
    remarks = list(_structural(parsed) if isinstance(parsed, Faulty) else _oddities(parsed, config))
    method = parsed.method
    if method is not None and can_be_promised(config):
        said = {remark.code for remark in remarks if remark.severity == "error"}
        remarks += [remark for remark in _semantic(config, settings, facts) if remark.code not in said]
        # A nested rope is one fault, not one unknown key per layer type besides.
        if any(remark.code == "ROP001" for remark in remarks):
            remarks = [item for item in remarks if item.code != "SCH001" or item.path[:2] != (LAYER, "rope_parameters")]
    order = ("error", "warning", "note")
    return sorted(remarks, key=lambda remark: order.index(remark.severity))


def _structural(parsed: Faulty) -> Iterator[Remark]:
    for fault in parsed.faults:
        rule = rules()[code_of(fault)]
        yield Remark(fault.path, rule.code, "error", fault.message, rule.fix)


def _semantic(config: Mapping[str, Any], settings: Mapping[str, Any], facts: EngineFacts) -> Iterator[Remark]:
    try:
        context = promised(config, settings, facts)
    except RefusedError as error:
        code = error.code or "CFG001"
        yield Remark(key_of(code, error.message, config), code, "error", error.message, error.hint or rules()[code].fix)
        return
    findings, _ = run_rules(context, skip=_OF_TENSORS)
    for finding in findings:
        path = key_of(finding.code, finding.message, config)
        fix = _fix(finding.code, config) or finding.fix
        yield Remark(path, finding.code, finding.severity, finding.message, fix)
    if any(finding.severity == "error" for finding in findings):
        return
    for assumption in context.reading.assumptions:
        if assumption.field == "slots":
            fix = f"Write sample_from_anchor: {str(assumption.value == 'anchor-first').lower()}."
            yield Remark(("sample_from_anchor",), "SLT001", "note", assumption.why, fix)


def _fix(code: str, config: Mapping[str, Any]) -> str | None:
    """Say what to write, where the config alone settles it; None: the rule's own advice."""
    method = config.get("speculators_model_type")
    ids = config.get("eagle_aux_hidden_state_layer_ids")
    if code == "AUX004" and method == "peagle" and isinstance(ids, list):
        count = len(ids)
        return f"Write num_aux_hidden_states: {count} inside transformer_layer_config; vLLM's Llama class assumes 3."
    kinds = config[LAYER].get("layer_types")
    if code == "ATT001" and method == "dflash" and isinstance(kinds, list) and any(kind != kinds[0] for kind in kinds):
        return (
            "One flag of Speculators dflash speaks for all layers and cannot say this. Serve the producer's own "
            "layout, or let `spectool convert` carry it in another kind."
        )
    if code == "ATT001" and method == "dspark" and config.get("sliding_window_non_causal") is True:
        return (
            "Write is_causal: false inside transformer_layer_config: vLLM drops sliding_window_non_causal for DSpark."
        )
    return None


def _oddities(parsed: ParsedConfig, config: Mapping[str, Any]) -> Iterator[Remark]:
    """Yield what neither side trips over when it serves, but a reviewer wants to see."""
    for path in parsed.decimals:
        value = config_value(config, path)
        message = f"{spell(path)} is {value}, a decimal where vLLM needs a whole number"
        yield Remark(path, "CFG003", "error", message, f"Write {int(value)}.")
    for path in parsed.unknown:
        yield Remark(path, "SCH001", "note", f"{spell(path)} is a key nobody is known to read", _advice(parsed, path))
    part = config["speculators_config"]
    if part.get("algorithm", parsed.method) != parsed.method:
        message = f"speculators_config.algorithm is {part['algorithm']!r}, speculators_model_type {parsed.method!r}"
        yield _loader(("speculators_config", "algorithm"), message, f"Write {parsed.method}.")
    kinds = [item.get("proposal_type", "greedy") for item in part["proposal_methods"]]
    stated = part.get("default_proposal_method", kinds[0])
    if stated not in kinds:
        message = f"default_proposal_method is {stated!r}, the proposals are {', '.join(kinds)}"
        yield _loader(("speculators_config", "default_proposal_method"), message, f"Write {kinds[0]}.")
    if parsed.method == "peagle" and config.get("norm_before_fc") is True and config.get("fc_norm") is True:
        yield _loader(("fc_norm",), "norm_before_fc and fc_norm are both true", "Keep the one that was trained.")


def _loader(path: Path, message: str, fix: str) -> Remark:
    return Remark(path, "SCH003", "warning", message, fix)


def _advice(parsed: ParsedConfig, path: Path) -> str:
    """Offer the key that was probably meant."""
    known = set(MODELS[parsed.method].model_fields)
    if path[0] == LAYER:
        known |= set(type(getattr(parsed.model, LAYER)).model_fields)
    near = difflib.get_close_matches(str(path[-1]), sorted(known), n=1, cutoff=0.85)
    return f"Did you mean {near[0]}?" if near else "It is kept. Remove it if it means nothing."


def config_value(config: Mapping[str, Any], path: Path) -> Any:
    """Return the value at a path."""
    return lookup(config, ".".join(map(str, path)))
