"""What to do about tensors that are no part of a drafter: often they are, under another name or beside a flag."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from spectool.dialects.within import prefixes
from spectool.drafter.inventory import Expected
from spectool.rules.context import Context

_SHOWN = 2
# Tensors of P-EAGLE drafters with a flag, by canonical name. Biases are read off the tensors, whatever a flag says.
_FLAGS = (
    (re.compile(r"input_norm\.weight"), "norm_before_fc"),
    (re.compile(r"fc_norm\.\d+\.weight"), "fc_norm"),
)


def advice(
    context: Context, expected: Mapping[str, Expected], missing: Sequence[str], unknown: Sequence[str]
) -> str | None:
    """Return what the names and shapes of a folder's strangers suggest; None where they suggest nothing."""
    inside = sorted(prefixes(context.view))
    if "fc.weight" in missing and len(inside) == 1:
        return f"Its names begin with {inside[0]!r}: read them without it by --set tensors_under={inside[0]}"
    renamed = _renamed(context, expected, missing, unknown)
    if renamed:
        pairs = ", ".join(f"{name} could be the missing {wanted}" for name, wanted in renamed[:_SHOWN])
        return f"By its shape {pairs}: if so, rename it in the file."
    keys = [key for pattern, key in _FLAGS if any(pattern.fullmatch(name) for name in unknown)]
    if keys and context.method == "peagle":
        return f"Such tensors go with {' and '.join(f'`{key}: true`' for key in keys)}: write it if it was trained so."
    return None


def _renamed(
    context: Context, expected: Mapping[str, Expected], missing: Sequence[str], unknown: Sequence[str]
) -> list[tuple[str, str]]:
    """Pair unknown with missing tensors where the shape leaves one choice."""
    strange = {name: context.view.tensors[name].shape for name in unknown if name in context.view.tensors}
    wanted = {name: expected[name].shape for name in missing}
    have, need = Counter(strange.values()), Counter(wanted.values())
    return [
        (name, gone)
        for name, shape in strange.items()
        for gone, its in wanted.items()
        if shape == its and have[shape] == need[shape] == 1
    ]
