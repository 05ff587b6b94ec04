"""Renders proposals as text: a list of them, and one with its diff."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell, fact_lines
from perdure.service.proposals.proposal_details import ProposalDetails, ProposalSummary
from perdure.service.proposals.proposal_trials import ExecutionTrial, TrialReport

VALUE_COLUMNS = 80
_DIFF_STYLES = {"+": "good", "-": "bad", "~": "warn"}
_VERDICT_STYLES = {"same": "good", "differs": "warn", "unknown": "dim"}
_STATUS_STYLES = {"applied": "good", "rejected": "dim", "failed": "bad", "approved": "live"}


def proposal_table(found: Sequence[ProposalSummary]) -> TextTable:
    """Proposals, a row each."""
    return TextTable(("ID", "WORKFLOW", "STATUS", "BY", "WIDENS", "NOTE"), tuple(_row(one) for one in found))


def _row(one: ProposalSummary) -> tuple[TextCell, ...]:
    status = TextCell(status_text(one), "dim" if one.expired else _STATUS_STYLES.get(one.status, ""))
    return cell(one.id, "strong"), cell(one.slug), status, cell(one.proposed_by), TextCell(", ".join(one.widens_rights), "warn"), cell(one.note)


def status_text(one: ProposalSummary) -> str:
    """The status of a proposal, and whether it has expired."""
    return f"{one.status}, expired" if one.expired else one.status


def proposal_lines(one: ProposalDetails) -> Iterator[Sequence[TextCell]]:
    """A proposal: what is known of it, and what it changes."""
    yield cell(one.id, "strong"), cell(f"for {one.slug}")
    about = [
        ("status", status_text(one)),
        ("failure", one.failure),
        ("widens", f"{', '.join(one.widens_rights)}; an admin has to review it" if one.widens_rights else ""),
        ("base", one.base_workflow_hash or "none: it is a new definition"),
        ("proposes", one.workflow_hash),
        ("by", " for ".join((one.proposed_by, *one.on_behalf_of)) + f", {terminal_text.utc_time(one.created_at_s)} UTC"),
        ("written", f"by the model {one.model}" if one.model else ""),
        ("note", one.note),
        ("expires", f"{terminal_text.utc_time(one.expires_at_s)} UTC" if one.status in ("pending", "approved") else ""),
        ("reviewed", _done(one.reviewed_by, one.reviewed_at_s, one.review_notes)),
        ("applied", _done(one.applied_by, one.applied_at_s, f"version {one.applied_version}")),
    ]
    yield from fact_lines(about, 8)
    yield ()
    for line in one.diff_text.splitlines():
        yield (cell(line, _DIFF_STYLES.get(line[:1], "")),)


def _done(by: str | None, at_s: float | None, more: str) -> str:
    if by is None or at_s is None:
        return ""
    return f"{terminal_text.utc_time(at_s)} UTC by {by}{f': {more}' if more else ''}"


def trial_lines(found: TrialReport) -> Iterator[Sequence[TextCell]]:
    """A trial: an execution a line, below it what differs, and the counts."""
    for one in found.items:
        yield (TextCell(f"{one.verdict:<7}", _VERDICT_STYLES[one.verdict]), cell(terminal_text.execution_name(one.key)))
        for line in _differences(one):
            yield (cell(f"  {line}"),)
    yield (TextCell(f"{found.same} same, {found.differing} differ, {found.unknown} unknown"),)


def _differences(one: ExecutionTrial) -> Iterator[str]:
    if one.why:
        yield f"unknown from {one.unknown_from}: {one.why}" if one.unknown_from else one.why
    if one.not_run:
        yield f"not run: {', '.join(one.not_run)}"
    if one.also_run:
        yield f"also run: {', '.join(one.also_run)}"
    for step, differs in one.results.items():
        yield f"{step}: {_json(differs.before)} -> {_json(differs.after)}"
    for what, found in (("status", one.status), ("result", one.result)):
        if found is not None:
            yield f"{what}: {_json(found.before)} -> {_json(found.after)}"


def _json(value: object) -> str:
    return terminal_text.truncate(json.dumps(value, ensure_ascii=False, default=str), VALUE_COLUMNS)
