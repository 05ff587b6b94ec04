"""Queues as a table."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.cli import words
from perdure.cli.render import Cell, Table, cell
from perdure.stores.base import Limits, QueueStand


def queues(stands: Sequence[QueueStand]) -> Table:
    """Queues, a row each."""
    headers = ("QUEUE", "AT A TIME", "OF A KEY", "RATE", "EXECUTIONS", "CALLS")
    return Table(headers, tuple(_queue(one) for one in stands))


def _queue(one: QueueStand) -> tuple[Cell, ...]:
    return (
        cell(one.name, "strong"),
        _limit(one.limits.concurrency),
        _limit(one.limits.per_lane),
        Cell(_rate(one.limits)),
        _crowd(one.executions, one.executions_waiting),
        _crowd(one.work, one.work_waiting),
    )


def _limit(limit: int | None) -> Cell:
    return Cell("any", "dim") if limit is None else Cell(str(limit))


def _rate(limits: Limits) -> str:
    if limits.interval_s <= 0:
        return ""
    burst = f", {limits.burst} at once" if limits.burst > 1 else ""
    return f"one per {words.duration(limits.interval_s)}{burst}"


def _crowd(held: int, waiting: int) -> Cell:
    return Cell(f"{held} held, {waiting} waiting", "warn" if waiting and not held else "") if held or waiting else Cell("none", "dim")
