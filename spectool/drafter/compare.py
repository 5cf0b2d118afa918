"""Put two readings of one drafter side by side: *trained as* against *the engine runs it as*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from spectool.drafter.model import Attention, Drafter

# Field -> what people call it, in the order they are shown. Fields not listed here change no output token:
# `max_position_embeddings` sizes a cache, and K is bounded rather than equal (rule SLT002).
LABELS: dict[str, str] = {
    "method": "method",
    "aux_layers": "aux layers (input ids)",
    "slots": "slot layout",
    "mask_token_id": "mask token",
    "attention": "attention",
    "rope": "rope",
    "dimensions": "dimensions",
    "qk_norm": "q/k norm",
    "norm_before_residual": "norm before residual",
    "norm_before_fc": "norm before fc",
    "fc_norm": "norm per aux layer",
    "rms_norm_eps": "rms norm eps",
    "activation": "activation",
    "attention_bias": "attention bias",
    "mlp_bias": "mlp bias",
    "sinks": "attention sinks",
    "embedding_scale": "embedding scale",
    "logit_scale": "logit scale",
    "value_scale": "value scale",
    "markov": "Markov head",
    "confidence": "confidence head",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison; `equal` is False where the two readings differ."""

    field: str
    label: str
    trained: str
    run: str
    equal: bool


def side_by_side(trained: Drafter, run: Drafter | None) -> tuple[Row, ...]:
    """Compare field by field. Without a `run` (the engine refuses the folder) every row counts as equal."""
    rows = []
    for field, label in LABELS.items():
        left = getattr(trained, field)
        right = left if run is None else getattr(run, field)
        equal = left == right or (run is not None and _same_drafts(field, trained, run))
        rows.append(Row(field, label, show(left), "-" if run is None else show(right), equal))
    return tuple(rows)


def _same_drafts(field: str, trained: Drafter, run: Drafter) -> bool:
    """Whether a field that is written in two ways drafts the same.

    DSpark is DFlash's decoder with two heads: without them (or with a Markov head of zeros) the method is a name only,
    and which slots are sampled stands in `slots`. That is what a carrier rests on.
    """
    return field in {"method", "markov"} and trained.headless and run.headless


def differences(trained: Drafter, run: Drafter) -> tuple[Row, ...]:
    """Return the rows in which the two readings differ, in display order."""
    return tuple(row for row in side_by_side(trained, run) if not row.equal)


def show(value: object) -> str:
    """Render a field's value in a few words."""
    match value:
        case None:
            return "-"
        case True:
            return "yes"
        case False:
            return "no"
        case float():
            return f"{value:g}"
        case tuple() if value and all(isinstance(item, Attention) for item in value):
            kinds = list(dict.fromkeys(str(item) for item in value))
            if len(kinds) == 1:
                return f"{len(value)} x {kinds[0]}"
            return "; ".join(f"{place}: {kind}" for place, kind in _spans([str(item) for item in value]))
        case tuple():
            return ", ".join(str(item) for item in value)
        case _:
            return str(value)


def unremarkable(field: str, shown: str) -> bool:
    """Say whether a shown value is that of a drafter that knows nothing of it: absent, off, or a scale of 1."""
    return shown in {"-", "no"} or (shown == "1" and field.endswith("_scale"))


def _spans(kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield layers that follow each other and attend alike: `0-4`, then what they do."""
    for kind, places in groupby(range(len(kinds)), key=kinds.__getitem__):
        first, *rest = places
        yield (f"{first}-{rest[-1]}" if rest else str(first)), kind
