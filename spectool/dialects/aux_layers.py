"""Which verifier layers feed the drafter, as input ids."""

from __future__ import annotations

from spectool.dialects.record import Gap, Question
from spectool.dialects.sources import Resolver
from spectool.formats.dialect import AuxLayers
from spectool.formats.lookup import MISSING, is_int, lookup
from spectool.formats.verifier import VerifierView


def read_aux_layers(source: AuxLayers, resolver: Resolver, verifier: VerifierView | None) -> tuple[int, ...] | None:
    """Return input ids in the file's order (the order of `fc`'s column blocks).

    An *output* id t (after layer t, -1: the embedding) becomes t + 1.
    """
    stated = resolver.value("aux_layers", source)
    if stated is None:
        return _default(source, resolver, verifier)
    if not isinstance(stated, list) or not stated or not all(is_int(item) for item in stated):
        where = resolver.evidence["aux_layers"].where
        resolver.gaps.append(Gap("aux_layers", "malformed", f"{where} is {stated!r}, not a list of layer ids"))
        return None
    _check_other(source, stated, resolver)
    convention = resolver.settings.get("aux_layer_convention", source.convention)
    return tuple(item + 1 if convention == "output" else item for item in stated)


def _check_other(source: AuxLayers, stated: list[int], resolver: Resolver) -> None:
    """Note a gap where a key in the other convention names other layers."""
    shift = 1 if source.convention == "output" else -1
    for path in source.other:
        theirs = lookup(resolver.config, path)
        if theirs is not MISSING and theirs != [item + shift for item in stated]:
            where = resolver.evidence["aux_layers"].where
            detail = f"{where} {stated} and {path} {theirs} name different layers (they should differ by one)"
            resolver.gaps.append(Gap("aux_layers", "conflict", detail))


def _default(source: AuxLayers, resolver: Resolver, verifier: VerifierView | None) -> tuple[int, ...] | None:
    if source.default != "eagle3-default":
        return None  # the resolver noted the gap
    if verifier is None:
        why = "the file names no aux layers; EAGLE-3's default (2, n/2, n-3) needs the verifier's number of layers"
        resolver.questions.append(Question("verifier", why))
        return None
    layers = verifier.num_hidden_layers
    ids = (2, layers // 2, layers - 3)
    # vLLM's own default: model_executor/models/interfaces.py, get_eagle3_default_aux_hidden_state_layers.
    why = f"no aux layers are written; trainers and vLLM use EAGLE-3's default for {layers} layers"
    resolver.assume("aux_layers", ", ".join(map(str, ids)), why)
    resolver.note("aux_layers", list(ids), "EAGLE-3 default")
    return ids
