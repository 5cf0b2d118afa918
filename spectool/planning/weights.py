"""Bytes of weights on one tensor-parallel rank, from the names, dtypes and shapes of a checkpoint's tensors.

Who is split (vLLM 0.33 `model_executor/models/*.py`): query, gate and up projections by rows, output and down
projections by columns, experts inside each expert and over the ranks of all copies (`parallel.Experts`), embedding and
output layer by vocabulary padded to a multiple of 64; key and value projections by heads, replicated where there are
fewer heads than ranks. Norms, routers, vision and audio towers and everything else are counted whole on every rank,
which can only be too much. Of a drafter, `fc` (ReplicatedLinear in qwen3_dflash.py, llama_eagle3.py), `markov_w1`
(nn.Embedding), `markov_w2` (`disable_tp=True`) and the confidence head (ReplicatedLinear) are whole on every rank
(qwen3_dspark.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Protocol

from spectool.planning.models import Model, UnknownError
from spectool.planning.parallel import SPLIT, Experts
from spectool.planning.shapes import verifier_shapes

_VOCAB_MULTIPLE = 64  # DEFAULT_VOCAB_PADDING_SIZE, layers/vocab_parallel_embedding.py
_VOCABULARY = re.compile(r"(^|\.)(embed_tokens|lm_head)\.weight$")
_KEY_VALUE = re.compile(r"\.(k_proj|v_proj)\.")
_ROWS = re.compile(
    r"\.(q_proj|gate_proj|up_proj|gate_up_proj|in_proj_\w+|conv1d)\.|\.experts\.|\.(A_log|dt_bias|sinks)$"
)
_COLUMNS = re.compile(r"\.(o_proj|down_proj|out_proj)\.(?!bias)")
_TOWER = re.compile(r"(^|\.)(vision_tower|visual|vision_model|audio_tower|embed_vision|embed_audio)\.")
_LAYER_OR_EXPERT = re.compile(r"\.\d+(?=\.)")  # not the digit of conv1d or t2d
# Multi-token-prediction layers load only where they draft; t2d and the verifier's copies are left out by vLLM.
_NOT_LOADED = re.compile(r"^mtp\.|(^|\.)t2d$|^verifier_(norm|lm_head)\.")


class Sized(Protocol):
    """A tensor as far as planning looks at it; a header's `TensorInfo` is one."""

    @property
    def name(self) -> str:
        """Its name in the checkpoint."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def nbytes(self) -> int:
        """Its bytes in the file."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is in no header, or counted otherwise than it lies there."""

    name: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one model.

    Bytes: `total` in the files, `rank` on one rank, `whole` the part of `rank` that every rank holds. `source` says
    where the sizes come from.
    """

    total: int
    rank: int
    whole: int
    source: str


def rank_weights(
    tensors: Iterable[Sized],
    ranks: int,
    kv_heads: int,
    source: str,
    *,
    tied: bool = False,
    doubled: frozenset[str] = frozenset(),
    experts: Experts = SPLIT,
) -> Weights:
    """Return what one of `ranks` ranks holds of these tensors.

    Args:
        tensors: of the checkpoint.
        ranks: the tensor-parallel size.
        kv_heads: of the model, to tell how key and value projections are split.
        source: where the tensors come from.
        tied: whether an output layer in the file is not loaded, since the embedding serves as one.
        doubled: names of tensors that are loaded twice.
        experts: how experts are spread.

    """
    total = rank = whole = 0
    for (name, shape, nbytes, twice), count in alike(tensors, doubled).items():
        total += nbytes * count
        if _NOT_LOADED.search(name) or (tied and name.startswith("lm_head.")):
            continue
        if ".experts." in name:
            split = Fraction(1, ranks * experts.copies)
            share = Fraction(experts.held(ranks), experts.whole) if experts.whole else split
        else:
            share = _share(name, shape, ranks, kv_heads)
        held = -(-nbytes * share.numerator // share.denominator) * (2 if twice else 1) * count
        rank += held
        if share == 1:
            whole += held
    return Weights(total, rank, whole if ranks > 1 else 0, source)


def alike(
    tensors: Iterable[Sized], marked: frozenset[str] = frozenset()
) -> Counter[tuple[str, tuple[int, ...], int, bool]]:
    """Return how often each kind of tensor occurs: of a mixture's 18,000 tensors some 20 differ.

    A kind is the name with 0 for each layer and expert, the shape, the bytes, and whether the name is in `marked`.
    """
    return Counter((_kind(item.name), item.shape, item.nbytes, item.name in marked) for item in tensors)


@lru_cache(maxsize=2**16)  # a plan asks for the same names at every number of ranks
def _kind(name: str) -> str:
    return _LAYER_OR_EXPERT.sub(".0", name)


def verifier_weights(
    model: Model,
    tensors: Iterable[Sized] | None,
    ranks: int,
    total: int | None = None,
    total_source: str = "",
    experts: Experts = SPLIT,
) -> Weights:
    """Return the verifier's weights on one rank.

    Args:
        model: from its config.
        tensors: from its headers, if there are weights.
        ranks: the tensor-parallel size.
        total: bytes of all its files from an index or a catalogue, where there are no headers. What it has beyond the
            language model (a vision tower) is counted whole on every rank.
        total_source: where `total` comes from.
        experts: how experts are spread.

    Raises:
        UnknownError: there are no headers and the family's tensors are not known.

    """
    if tensors is not None:
        found = list(tensors)
        names = {tensor.name for tensor in found}
        return rank_weights(
            found, ranks, model.kv_heads, "headers", tied=model.tied, doubled=_doubled(model, names), experts=experts
        )
    if "quantization_config" in model.config:
        raise UnknownError(f"{model.name} is quantised, and only the headers of its weights tell their size")
    shapes = verifier_shapes(model)
    counted = [Tensor(name, shape, 2 * prod(shape)) for name, shape in shapes.items()]
    source = f"parameters counted from {model.name}/config.json, 16 bits each"
    doubled = _doubled(model, set(shapes))
    weights = rank_weights(counted, ranks, model.kv_heads, source, tied=model.tied, doubled=doubled, experts=experts)
    if total is None:
        if "vision_config" in model.config:
            raise UnknownError(f"the size of {model.name}'s vision part; a folder with weights tells")
        return weights
    rest = total - weights.total
    if rest < 0:
        raise UnknownError(f"{total_source} says {total} bytes, fewer than the config's {weights.total}")
    return Weights(total, weights.rank + rest, weights.whole + (rest if ranks > 1 else 0), total_source)


def _share(name: str, shape: tuple[int, ...], ranks: int, kv_heads: int) -> Fraction:
    """Return which part of a tensor one rank holds."""
    name = name if name.startswith(".") else f".{name}"
    if ranks == 1 or _TOWER.search(name) or not shape:
        return Fraction(1)
    if _VOCABULARY.search(name):
        rows = shape[0]
        padded = -(-rows // _VOCAB_MULTIPLE) * _VOCAB_MULTIPLE
        return Fraction(-(-padded // ranks), rows)
    if _KEY_VALUE.search(name):
        return Fraction(max(1, kv_heads // ranks), kv_heads)
    if _ROWS.search(name) or _COLUMNS.search(name):
        return Fraction(1, ranks)
    return Fraction(1)


def _doubled(model: Model, names: set[str]) -> frozenset[str]:
    """Return the k_proj of layers without v_proj: Gemma 4 loads them as K and as V (gemma4.py, attention_k_eq_v)."""
    if not model.text.get("attention_k_eq_v"):
        return frozenset()
    keys = {name for name in names if ".k_proj." in name and not _TOWER.search(f".{name}")}
    return frozenset(name for name in keys if name.replace(".k_proj.", ".v_proj.") not in names)
