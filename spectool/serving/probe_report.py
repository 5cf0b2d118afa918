"""Judge what a probe measured, and say it: as text, as JSON, or as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectool.report.acceptance import bar_lines, positions_record
from spectool.report.html.acceptance import Measured as Page
from spectool.report.html.acceptance import acceptance_html
from spectool.serving import metrics
from spectool.serving.acceptance import BROKEN_LENGTH, Expected, judge
from spectool.serving.compare import NEAR_TIE, Difference
from spectool.serving.probe import Measured
from spectool.speed.positions import Positions

_SHOWN = 60


@dataclass(frozen=True)
class Problem:
    """Something that makes the probe fail.

    Attributes:
        code: stable name.
        message: for people.

    """

    code: str
    message: str


@dataclass(frozen=True)
class Subject:
    """What was measured, for the head of the report."""

    drafter: str
    verifier: str
    method: str
    speculative_tokens: int
    engine: str
    device: str
    max_tokens: int


def problems(measured: Measured) -> tuple[Problem, ...]:
    """Return what is wrong, worst first; near-ties are not."""
    found = []
    seen = measured.with_drafter.acceptance
    length = seen.acceptance_length if seen is not None else None
    if length is None:
        found.append(Problem("not-speculating", "not speculating: no drafts were made"))
    elif length < BROKEN_LENGTH:
        found.append(
            Problem(
                "broken-drafter",
                f"the drafter is broken: acceptance length {length:.3f} is below {BROKEN_LENGTH}, almost nothing it "
                "drafts is accepted. It was trained for another verifier, or loaded wrongly: run spectool validate",
            )
        )
    real = [parting for parting in measured.differences if not parting.is_near_tie]
    if real:
        worst = max((parting.gap for parting in real if parting.gap is not None), default=None)
        gap = "an unknown gap" if worst is None else f"gaps up to {worst:.2f} nats"
        found.append(
            Problem(
                "output-differs",
                f"{_count(len(real), 'output')} changed with the drafter by more than a near-tie ({gap}; "
                f"{NEAR_TIE} nats is the limit): speculation must not change greedy output",
            )
        )
    return tuple(found)


def as_json(
    subject: Subject, prompts: Sequence[str], measured: Measured, positions: Positions | None = None
) -> dict[str, Any]:
    """Return the report for programs."""
    seen = measured.with_drafter.acceptance or metrics.Snapshot()
    without, drafted = measured.without.tokens_per_second, measured.with_drafter.tokens_per_second
    found = problems(measured)
    return {
        "drafter": subject.drafter,
        "verifier": subject.verifier,
        "method": subject.method,
        "speculative_tokens": subject.speculative_tokens,
        "engine": subject.engine,
        "device": subject.device,
        "prompts": len(prompts),
        "max_tokens": subject.max_tokens,
        "acceptance": {
            "drafts": seen.drafts,
            "draft_tokens": seen.draft_tokens,
            "accepted": seen.accepted,
            "acceptance_length": seen.acceptance_length,
            "per_position": list(seen.rates),
            "expected_per_position": positions_record(positions),
        },
        "tokens_per_second": {"without": without, "with": drafted, "ratio": drafted / without if without else None},
        "outputs": {
            "equal": len(prompts) - len(measured.differences),
            "differing": [_difference(parting, prompts, measured.token_texts) for parting in measured.differences],
        },
        "problems": [{"code": problem.code, "message": problem.message} for problem in found],
        "ok": not found,
    }


def as_text(
    subject: Subject,
    prompts: Sequence[str],
    measured: Measured,
    positions: Positions | None = None,
    *,
    blocks: bool = False,
) -> str:
    """Return the report for people. `blocks`: bars of block characters, for a terminal."""
    seen = measured.with_drafter.acceptance
    without, drafted = measured.without.tokens_per_second, measured.with_drafter.tokens_per_second
    lines = [
        f"{subject.method}, {subject.speculative_tokens} tokens a round, {subject.engine} on {subject.device}",
        f"prompts: {len(prompts)}, {subject.max_tokens} tokens each, greedy",
        metrics.describe(seen),
        *bar_lines(seen.rates if seen is not None else (), positions, blocks=blocks),
        f"tokens/s: {without:.1f} without, {drafted:.1f} with the drafter ({drafted / without:.2f}x)"
        if without
        else "tokens/s: nothing was generated",
    ]
    if not measured.differences:
        lines.append(f"outputs: all {len(prompts)} equal")
    else:
        near = sum(parting.is_near_tie for parting in measured.differences)
        differ = len(measured.differences)
        lines.append(f"outputs: {len(prompts) - differ} equal, {differ} differ ({near} by a near-tie)")
        lines += [f"  {_line(parting, prompts, measured.token_texts)}" for parting in measured.differences]
    found = problems(measured)
    lines += [f"error: {problem.message}" for problem in found] or ["ok: it speculates, and the output is unchanged"]
    return "\n".join(lines)


def as_html(
    subject: Subject,
    prompts: Sequence[str],
    measured: Measured,
    expected: Expected | None,
    positions: Positions | None = None,
) -> str:
    """Return the report as a page."""
    without, drafted = measured.without.tokens_per_second, measured.with_drafter.tokens_per_second
    judged = judge(measured.with_drafter.acceptance, expected)
    equal = len(prompts) - len(measured.differences)
    lines = [f"{equal} of {len(prompts)} outputs are equal with and without the drafter"]
    lines += [_line(parting, prompts, measured.token_texts) for parting in measured.differences]
    return acceptance_html(
        Page(
            title=subject.drafter,
            facts=(
                ("verifier", subject.verifier),
                ("drafts", f"{subject.method}, {subject.speculative_tokens} tokens a round"),
                ("engine", f"{subject.engine} on {subject.device}"),
                ("prompts", f"{len(prompts)}, {subject.max_tokens} tokens each, greedy"),
                ("tokens/s", f"{without:.1f} without, {drafted:.1f} with the drafter"),
            ),
            verdict=judged.verdict,
            message=judged.text,
            seen=measured.with_drafter.acceptance,
            expected=positions,
            against="" if expected is None else expected.told,
            also=[*lines, *(f"error: {problem.message}" for problem in problems(measured))],
        )
    )


def _difference(parting: Difference, prompts: Sequence[str], texts: dict[int, str]) -> dict[str, Any]:
    def token(number: int | None) -> dict[str, Any] | None:
        return None if number is None else {"id": number, "text": texts.get(number)}

    return {
        "prompt": parting.prompt,
        "prompt_text": prompts[parting.prompt],
        "index": parting.index,
        "without": token(parting.without),
        "with": token(parting.with_drafter),
        "gap_nats": parting.gap,
        "near_tie": parting.is_near_tie,
    }


def _line(parting: Difference, prompts: Sequence[str], texts: dict[int, str]) -> str:
    def token(number: int | None) -> str:
        if number is None:
            return "the end"
        return f"{number} {texts[number]!r}" if number in texts else str(number)

    gap = "gap unknown" if parting.gap is None else f"gap {parting.gap:.3f} nats"
    kind = "near-tie" if parting.is_near_tie else "error"
    return (
        f"prompt {parting.prompt} ({prompts[parting.prompt][:_SHOWN]!r}), token {parting.index}: "
        f"{token(parting.without)} without, {token(parting.with_drafter)} with the drafter; {gap}: {kind}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
