"""Renders proposals as text: a list of them, and one with its diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell
from perdure.service.proposals.proposal_details import ProposalDetails, ProposalSummary

_DIFF_STYLES = {"+": "good", "-": "bad", "~": "warn"}
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
        ("note", one.note),
        ("expires", f"{terminal_text.utc_time(one.expires_at_s)} UTC" if one.status in ("pending", "approved") else ""),
        ("reviewed", _done(one.reviewed_by, one.reviewed_at_s, one.review_notes)),
        ("applied", _done(one.applied_by, one.applied_at_s, f"version {one.applied_version}")),
    ]
    for what, text in about:
        if text:
            yield (TextCell(f"  {what:<8}"), cell(text))
    yield ()
    for line in one.diff_text.splitlines():
        yield (cell(line, _DIFF_STYLES.get(line[:1], "")),)


def _done(by: str | None, at_s: float | None, more: str) -> str:
    if by is None or at_s is None:
        return ""
    return f"{terminal_text.utc_time(at_s)} UTC by {by}{f': {more}' if more else ''}"
