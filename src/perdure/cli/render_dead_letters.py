"""Dead letters as tables: those that failed alike in a row, and the executions of one such group."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.cli import words
from perdure.cli.complaints import name
from perdure.cli.render import Cell, Table, cell, status
from perdure.core.paths import Key
from perdure.service.dead_letters import DeadLetter, DeadLetters


class Group(msgspec.Struct, frozen=True):
    """Executions that failed alike, with the latest of them for an example."""

    fingerprint: str
    workflow: str
    path: str
    type: str
    message: str
    count: int
    first_at_s: float
    last_at_s: float
    example: Key
    complete: bool = True
    reason: str = "failed"

    @classmethod
    def of(cls, group: DeadLetters) -> Group:
        """A group without its list of executions."""
        fields = {field: getattr(group, field) for field in cls.__struct_fields__ if field != "example"}
        return cls(**fields, example=group.letters[0].key)


def groups(found: Sequence[Group], now_s: float) -> Table:
    """Groups, a row each."""
    headers = ("FINGERPRINT", "COUNT", "WORKFLOW", "STEP", "REASON", "ERROR", "FIRST", "LAST", "EXAMPLE")
    return Table(headers, tuple(_group(one, now_s) for one in found))


def _group(one: Group, now_s: float) -> tuple[Cell, ...]:
    return (
        cell(one.fingerprint, "strong"),
        Cell(f"{one.count:,}{'' if one.complete else '+'}"),
        cell(one.workflow),
        cell(one.path),
        cell(one.reason),
        cell(_error(one.type, one.message), "bad"),
        Cell(words.ago(one.first_at_s, now_s)),
        Cell(words.ago(one.last_at_s, now_s)),
        cell(name(one.example)),
    )


def letters(found: Sequence[DeadLetter], now_s: float) -> Table:
    """The executions of a group, a row each."""
    headers = ("ID", "WORKFLOW", "STATUS", "SINCE", "STEP", "REASON", "TRIES", "ERROR")
    return Table(headers, tuple(_letter(one, now_s) for one in found))


def _letter(one: DeadLetter, now_s: float) -> tuple[Cell, ...]:
    error = cell(_error(one.type, one.message), "bad")
    return (
        cell(one.key.id, "strong"),
        cell(one.key.workflow),
        status(one.status),
        Cell(words.ago(one.at_s, now_s)),
        cell(one.path),
        cell(one.reason),
        Cell(str(one.tries or "")),
        error,
    )


def _error(kind: str, message: str) -> str:
    return f"{kind}: {words.cut(words.first_line(message), 100)}" if message else kind
