"""Say what a probe of a running server found: as text, as JSON, or as a page."""

from __future__ import annotations

from typing import Any

from spectool.report.acceptance import bar_lines, positions_record
from spectool.report.html.acceptance import Measured, acceptance_html
from spectool.serving import metrics
from spectool.serving.acceptance import Expected, Judgement, Verdict, judge
from spectool.serving.remote import Remote
from spectool.speed.positions import Positions

_OWN = "its figures are of these requests alone (metrics.speculative_decoding of each answer)"
_HINT = "vllm serve --per-request-spec-decode-metrics summary tells them apart, from 0.30 on"


def verdict(found: Remote, expected: Expected | None) -> Judgement:
    """Judge the acceptance; a server that hides its counters and sends no figures is unknown, not broken."""
    if found.acceptance is None and found.others is None:
        return Judgement(Verdict.UNKNOWN, f"unknown: neither /metrics nor the answers tell; {_HINT}")
    return judge(found.acceptance, expected)


def basis(found: Remote) -> str:
    """Return whose requests the figures are of."""
    if found.per_request is not None:
        return _OWN
    if found.counters is None:
        return "there are no figures"
    if found.mixed:
        amount = "" if found.others is None else f" ({found.others} of {found.others + found.tokens} tokens)"
        return f"the counters are mixed: requests of others are in them{amount}; {_HINT}"
    return "its figures are the server's counters; nobody else's tokens were generated meanwhile"


def as_json(url: str, found: Remote, expected: Expected | None, positions: Positions | None = None) -> dict[str, Any]:
    """Return the report for programs."""
    judged = verdict(found, expected)
    seen = found.acceptance or metrics.Snapshot()
    source = "per-request" if found.per_request is not None else "counters" if found.counters is not None else None
    return {
        "url": url,
        "model": found.model,
        "version": found.version,
        "prompts": found.requests,
        "tokens": found.tokens,
        "tokens_per_second": found.tokens / found.seconds,
        "acceptance": {
            "source": source,
            "mixed": found.mixed,
            "tokens_of_others": found.others,
            "drafts": seen.drafts,
            "draft_tokens": seen.draft_tokens,
            "accepted": seen.accepted,
            "acceptance_length": seen.acceptance_length,
            "per_position": list(seen.rates),
        },
        "expected": None
        if expected is None
        else {
            "acceptance_length": expected.length,
            "source": expected.source,
            "binding": expected.binding,
            "per_position": positions_record(positions),
        },
        "verdict": judged.verdict.value,
        "message": judged.text,
        "ok": judged.verdict is not Verdict.UNKNOWN and not judged.fails,
    }


def as_text(
    url: str, found: Remote, expected: Expected | None, positions: Positions | None = None, *, blocks: bool = False
) -> str:
    """Return the report for people. `blocks`: bars of block characters, for a terminal."""
    version = f", vLLM {found.version}" if found.version else ""
    rates = found.acceptance.rates if found.acceptance is not None else ()
    return "\n".join(
        [
            f"{found.model} at {url}{version}",
            f"{found.requests} prompts, {found.tokens} tokens, {found.tokens / found.seconds:.1f} tokens/s",
            basis(found),
            *bar_lines(rates, positions, blocks=blocks),
            verdict(found, expected).text,
        ]
    )


def as_html(url: str, found: Remote, expected: Expected | None, positions: Positions | None = None) -> str:
    """Return the report as a page."""
    judged = verdict(found, expected)
    return acceptance_html(
        Measured(
            title=found.model,
            facts=(
                ("server", f"{url}, vLLM {found.version}" if found.version else url),
                ("prompts", f"{found.requests}, {found.tokens} tokens, {found.tokens / found.seconds:.1f} tokens/s"),
                ("whose requests", basis(found)),
            ),
            verdict=judged.verdict,
            message=judged.text,
            seen=found.acceptance,
            expected=positions,
            against="" if expected is None else expected.told,
        )
    )
