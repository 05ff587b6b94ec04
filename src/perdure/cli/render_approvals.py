"""Approvals as a table, and one of them whole: what is asked, by which execution, of whom, until when, what was said, and the form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.cli import words
from perdure.cli.complaints import name
from perdure.cli.output import compact, document
from perdure.cli.render import Cell, Table, cell
from perdure.core.paths import Key
from perdure.service.approvals import Approval

KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "array": "list", "object": "object", "null": "null"}
"""What the types of JSON Schema are called."""


@dataclass(frozen=True)
class Field:
    """A field of a form: what it is called, what goes into it, and what holds if nothing is given (None: something must be)."""

    name: str
    kind: str
    default: str | None


def names(waiting: Sequence[Approval]) -> dict[Key, str]:
    """What each of all that wait is called: as short as the execution that asks, if that is waited for in one place only, else with that place."""
    asked = Counter(None if one.asked_by is None else one.asked_by.id for one in waiting)
    return {one.key: _short(one.asked_by) if one.asked_by is not None and asked[one.asked_by.id] == 1 else _own(one) for one in waiting}


def _short(key: Key) -> str:
    is_plain = key.id.isprintable() and key.id == key.id.strip() and key.id[0] not in "@-" and not {"/", "%"} & set(key.id)
    return key.id if is_plain else name(key)


def _own(one: Approval) -> str:
    return one.id if one.id.isprintable() and one.id == one.id.strip() and one.id[0] not in "@-" else name(one.key)


def table(listed: Sequence[Approval], called: Mapping[Key, str], now_s: float) -> Table:
    """Approvals, a row each."""
    headers = ("ID", "TITLE", "ASKED BY", "OF", "SINCE", "DUE", "VOTES")
    return Table(headers, tuple(_row(one, called.get(one.key, one.id), now_s) for one in listed))


def _row(one: Approval, called: str, now_s: float) -> tuple[Cell, ...]:
    return (
        cell(called, "strong"),
        cell(words.first_line(one.title)),
        cell("" if one.asked_by is None else name(one.asked_by)),
        cell(", ".join(one.assignees) or "anybody"),
        Cell(words.ago(one.asked_at_s, now_s)),
        Cell("" if one.due_at_s is None else words.ago(one.due_at_s, now_s), "warn" if one.due_at_s is not None and one.due_at_s <= now_s else ""),
        Cell(f"{sum(vote.approve for vote in one.votes)} of {one.quorum}"),
    )


def whole(one: Approval, called: str, now_s: float) -> Iterator[tuple[Cell, ...]]:
    """One approval, in lines; `called` is what it is decided by (empty: it does not wait any more)."""
    yield (cell(one.title, "strong"),)
    for what, text in _facts(one, called, now_s):
        yield (Cell(f"  {what:<9}", "dim"), cell(text))
    for vote in one.votes:
        said = f"{'for it' if vote.approve else 'against it'}: {vote.by}{f', {vote.comment}' if vote.comment else ''} (by {vote.means})"
        yield (Cell("  vote     ", "dim"), cell(said), Cell(words.ago(vote.at_s, now_s), "dim"))
    if one.details is not None:
        yield (Cell("  details  ", "dim"),)
        yield from ((cell(f"    {line}"),) for line in _lines(one.details))
    if one.form is not None:
        yield (Cell("  form     ", "dim"),)
        yield from _form(one.form)
    if called:
        yield (cell(f"perdure approve {_quoted(called)}{' -i KEY=VALUE' if fields(one.form) else ''}, or perdure reject {_quoted(called)}", "dim"),)


def _facts(one: Approval, called: str, now_s: float) -> Iterator[tuple[str, str]]:
    if one.asked_by is not None:
        yield "asked by", name(one.asked_by)
    if one.place:
        yield "place", one.place
    yield "of", ", ".join(one.assignees) or "anybody"
    yield "since", f"{words.when(one.asked_at_s)} UTC, {words.ago(one.asked_at_s, now_s)}"
    if one.due_at_s is not None:
        yield "due", f"{words.when(one.due_at_s)} UTC, {words.ago(one.due_at_s, now_s)}"
    if one.refused:
        yield "refused", one.refused
    yield "votes", f"{sum(vote.approve for vote in one.votes)} of {one.quorum}{'' if called else '; it does not wait any more'}"


def _lines(details: Any) -> list[str]:
    return details.splitlines() if isinstance(details, str) else document(details).splitlines()


def _form(form: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    found = fields(form)
    if not found:
        yield (cell(f"    {compact(form)}"),)
        return
    columns = max(words.width(one.name) for one in found)
    for one in found:
        yield (cell(f"    {one.name:<{columns}}"), cell(one.kind), Cell("" if one.default is None else words.clean(f"else {one.default}"), "dim"))


def fields(form: dict[str, Any] | None) -> list[Field]:
    """The fields of a form that is an object; of any other, none."""
    schema = _resolved(form or {}, form or {})
    properties = schema.get("properties")
    required = schema.get("required", ())
    if not isinstance(properties, dict):
        return []
    return [Field(title, _kind(_resolved(one, form or {})), _default(title, one, required)) for title, one in properties.items() if isinstance(one, dict)]


def _resolved(schema: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """What a reference refers to, in the form's own definitions."""
    reference = schema.get("$ref", "")
    found = form.get("$defs", {}).get(reference.removeprefix("#/$defs/")) if isinstance(reference, str) else None
    return found if isinstance(found, dict) else schema


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(one if isinstance(one, str) else compact(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    kind = schema.get("type")
    return KINDS.get(kind, kind) if isinstance(kind, str) else "anything"


def _default(title: str, schema: dict[str, Any], required: Sequence[str]) -> str | None:
    if title in required:
        return None
    return compact(schema["default"]) if "default" in schema else "nothing"


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
