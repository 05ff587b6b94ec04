"""Renders deliveries of webhooks as text: a list of them, one with its body, and those that were rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell, fact_lines
from perdure.service.triggers.delivery_log import DeliveryDetails, DeliveryPage


def delivery_table(found: Sequence[DeliveryDetails]) -> TextTable:
    """Deliveries, a row each."""
    return TextTable(("ID", "RECEIVED (UTC)", "EVENT", "BYTES", "EXECUTION", "STATUS"), tuple(map(_row, found)))


def _row(one: DeliveryDetails) -> tuple[TextCell, ...]:
    execution = cell(f"{one.workflow_id}/{one.execution_id}")
    return (
        cell(one.id, "strong"),
        cell(terminal_text.utc_time(one.received_at_s)),
        cell(one.event),
        cell(f"{one.body_bytes:,}"),
        execution,
        cell(one.status or "removed"),
    )


def delivery_lines(one: DeliveryDetails) -> Iterator[Sequence[TextCell]]:
    """A delivery: what is known of it, its headers and its body."""
    yield cell(one.id, "strong"), cell(one.event)
    about = [
        ("received", f"{terminal_text.utc_time(one.received_at_s)} UTC from {one.address or 'an unknown address'}"),
        ("key", one.idempotency_key),
        ("request", f"{one.method}{f' ?{one.query}' if one.query else ''}"),
        ("secret", one.secret),
        ("body", f"{one.body_bytes:,} bytes, SHA-256 {one.body_sha256}"),
        ("started", f"{one.workflow_id}/{one.execution_id}, {one.status or 'removed'}"),
    ]
    yield from fact_lines(about, 8)
    yield ()
    for name, value in one.headers.items():
        yield (cell(f"{name}: {value}", "dim"),)
    yield ()
    shown = one.body if one.body is not None else "the body was too large to be kept"
    for line in shown.splitlines():
        yield (cell(line),)


def rejected_lines(page: DeliveryPage) -> Iterator[Sequence[TextCell]]:
    """What the answering process has rejected."""
    if page.rejected:
        yield (cell(f"{terminal_text.count(page.rejected, 'delivery', 'deliveries')} rejected since the server began; the last:", "warn"),)
    for one in page.last_rejected:
        yield cell(f"  {terminal_text.utc_time(one.received_at_s)}"), cell(str(one.status), "bad"), cell(f"{one.code}: {one.message}")
