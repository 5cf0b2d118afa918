"""SLT: which slots of the block predict, and how many tokens one pass proposes."""

from __future__ import annotations

from collections.abc import Iterator

from spectool.formats.lookup import is_int, lookup
from spectool.rules.context import Context
from spectool.rules.helpers import differs, engine_refuses
from spectool.rules.registry import Abstain, Hit, rule

_DSPARK = "vLLM 0.33 v1/worker/gpu/spec_decode/dspark/speculator.py"


@rule(
    "SLT001",
    "slot-layout-differs",
    scope="engine",
    methods=("dflash", "dspark"),
    summary="vLLM would read the block's slots in another layout than they were trained in.",
    why=(
        "Nothing in the tensors tells anchor-first from bonus-anchor. The wrong one shifts every draft by a position: "
        "acceptance length near 1, no error. Absent, sample_from_anchor means true to Speculators and false to vLLM."
    ),
    fix=(
        "Write sample_from_anchor explicitly: true when speculative_tokens equals block_size, false when "
        "it is one less."
    ),
    references=("github.com/vllm-project/vllm issue 56792", _DSPARK),
)
def layout_differs(context: Context) -> Iterator[Hit]:
    """Fires when the two readings name different layouts, or vLLM refuses the one that is written."""
    refusals = list(engine_refuses(context, "SLT001"))
    yield from refusals
    if not refusals:
        yield from differs(context, "slots", "the block's slots are read in another layout")


@rule(
    "SLT002",
    "tokens-beyond-block",
    summary="K is larger than the block the drafter was trained on.",
    why="vLLM does not check it: positions beyond the block were never trained and are drafted all the same.",
    fix="Lower speculative_tokens to what the block holds.",
    references=(
        "vLLM 0.33 config/speculative.py: no check of K against block_size",
        "github.com/vllm-project/vllm pull 41834",
    ),
)
def beyond_block(context: Context) -> Iterator[Hit | Abstain]:
    """Compares K with the block's slots, for layouts that say how large the block is."""
    tokens, most = context.tokens or context.drafter.speculative_tokens, context.drafter.most_tokens
    if tokens is None:
        yield Abstain("K (--set speculative_tokens=N)")
    elif tokens < 1:
        yield Hit(f"speculative_tokens is {tokens}")
    elif most is not None and tokens > most and not _contradicts(context):
        block = context.drafter.block_size
        yield Hit(
            f"speculative_tokens {tokens} is beyond the {most} a block of {block} holds",
            f"Lower speculative_tokens to {most}." if most > 0 else None,
        )


@rule(
    "SLT003",
    "anchor-flag-contradicts-tokens",
    methods=("dspark",),
    summary="sample_from_anchor says one layout, speculative_tokens the other.",
    why="With the bonus-anchor layout the last of block_size tokens does not exist; one of the two keys is wrong.",
    fix="Set sample_from_anchor to true if every slot was trained to predict, else lower speculative_tokens by one.",
    references=("github.com/vllm-project/speculators pull 760",),
)
def flag_contradicts(context: Context) -> Iterator[Hit]:
    """Fires when the file states bonus-anchor and K equals the block."""
    for gap in context.gaps("slots"):
        yield Hit(gap.detail)
    if _contradicts(context):
        block = context.drafter.block_size
        yield Hit(f"sample_from_anchor is false, so a block of {block} holds {(block or 1) - 1} tokens, not {block}")


@rule(
    "SLT004",
    "tokens-one-below-the-block",
    severity="note",
    methods=("dspark",),
    summary="Every slot predicts, and the file asks for one token less than the block holds.",
    why=(
        "Converters wrote one less than the block, as bonus-anchor drafters need, for anchor-first ones too: a token "
        "per round is given away. Or the flag is wrong, and the drafts are shifted by a position."
    ),
    fix="Ask the publisher: with sample_from_anchor true speculative_tokens may be the block; else the flag is false.",
    references=("github.com/vllm-project/speculators pull 737",),
)
def one_below(context: Context) -> Iterator[Hit]:
    """Fires for a Speculators file that states the flag and K."""
    stated = lookup(context.view.config, "speculators_config.proposal_methods.0.speculative_tokens")
    block = context.drafter.block_size
    if context.view.config.get("sample_from_anchor") is True and block is not None and stated == block - 1:
        yield Hit(
            f"sample_from_anchor is true, a block of {block} holds {block} tokens, and the file asks for {stated}"
        )


@rule(
    "SLT005",
    "tokens-beyond-trained-depth",
    scope="launch",
    severity="warning",
    methods=("peagle",),
    summary="The launch drafts more tokens than the file says were trained.",
    why="P-EAGLE has no block: vLLM drafts any number of positions, and those beyond the trained depth are guesses.",
    fix="Lower num_speculative_tokens to the file's.",
    references=("Speculators 0.9.0 speculators/models/peagle: num_depths",),
)
def beyond_depth(context: Context) -> Iterator[Hit]:
    """Compares the launch's K with the file's."""
    config, given = context.view.config, context.launched.tokens
    keys = ("speculators_config.proposal_methods.0.speculative_tokens", "num_depths", "para_depths", "para_num")
    stated = [value for value in (lookup(config, key) for key in keys) if is_int(value)]
    if given is not None and stated and given > max(stated):
        yield Hit(f"num_speculative_tokens {given}, and the drafter was trained for {max(stated)}")


def _contradicts(context: Context) -> bool:
    drafter, evidence = context.drafter, context.reading.evidence.get("slots")
    stated = evidence is not None and evidence.where == "sample_from_anchor" and drafter.method == "dspark"
    return stated and drafter.slots == "bonus-anchor" and drafter.speculative_tokens == drafter.block_size
