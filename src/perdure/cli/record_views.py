"""Renders records as text: approvals, dead letters, queues, archives, secrets and keys. No value of a secret is shown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.cli import terminal_text
from perdure.cli.output import compact_json, indented_json
from perdure.cli.plain_text import TextCell, TextTable, cell, status_cell
from perdure.cli.terminal_text import execution_name
from perdure.core.paths import Key
from perdure.service.access_keys import KeyDetails
from perdure.service.approvals import Approval
from perdure.service.blob_collection import CollectedBlobs
from perdure.service.dead_letter_groups import DeadLetter, DeadLetterGroup
from perdure.service.log_archives import LogArchive
from perdure.service.queue_details import QueueDetails
from perdure.stores.protocol import QueueLimits, QueueStatus

if TYPE_CHECKING:
    from perdure.definition_workflow import Definition
    from perdure.service.secrets.secret_list import ListedSecret
    from perdure.service.secrets.secret_resolver import SecretResolver


TYPE_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "array": "list", "object": "object", "null": "null"}
"""The names of the types of JSON Schema."""


@dataclass(frozen=True)
class FormField:
    """A field of a form: its name, its type, and its default (None: it is required)."""

    name: str
    kind: str
    default: str | None


def approval_names(waiting: Sequence[Approval]) -> dict[Key, str]:
    """The name of each waiting approval: the id of the execution that asks if it asks for one approval only, else the approval's own."""
    asked = Counter(None if one.requested_by is None else one.requested_by.id for one in waiting)
    return {one.key: _short(one.requested_by) if one.requested_by is not None and asked[one.requested_by.id] == 1 else _own(one) for one in waiting}


def _short(key: Key) -> str:
    is_plain = key.id.isprintable() and key.id == key.id.strip() and key.id[0] not in "@-" and not {"/", "%"} & set(key.id)
    return key.id if is_plain else execution_name(key)


def _own(one: Approval) -> str:
    return one.id if one.id.isprintable() and one.id == one.id.strip() and one.id[0] not in "@-" else execution_name(one.key)


def approval_table(listed: Sequence[Approval], called: Mapping[Key, str], now_s: float) -> TextTable:
    """Approvals, a row each."""
    headers = ("ID", "TITLE", "REQUESTED BY", "ASSIGNEES", "SINCE", "DUE", "VOTES")
    return TextTable(headers, tuple(_approval_row(one, called.get(one.key, one.id), now_s) for one in listed))


def _approval_row(one: Approval, called: str, now_s: float) -> tuple[TextCell, ...]:
    return (
        cell(called, "strong"),
        cell(terminal_text.first_line(one.title)),
        cell("" if one.requested_by is None else execution_name(one.requested_by)),
        cell(", ".join(one.assignees) or "anybody"),
        TextCell(terminal_text.relative_time(one.requested_at_s, now_s)),
        TextCell(
            "" if one.due_at_s is None else terminal_text.relative_time(one.due_at_s, now_s),
            "warn" if one.due_at_s is not None and one.due_at_s <= now_s else "",
        ),
        TextCell(f"{sum(vote.approve for vote in one.votes)} of {one.quorum}"),
    )


def approval_details(one: Approval, called: str, now_s: float) -> Iterator[tuple[TextCell, ...]]:
    """One approval, in lines; `called` is its name for `approve` (empty: it no longer waits)."""
    yield (cell(one.title, "strong"),)
    for what, text in _approval_facts(one, called, now_s):
        yield (TextCell(f"  {what:<11}", "dim"), cell(text))
    for vote in one.votes:
        said = f"{'for' if vote.approve else 'against'}: {vote.by}{f', {vote.comment}' if vote.comment else ''} (by {vote.means})"
        yield (TextCell("  vote       ", "dim"), cell(said), TextCell(terminal_text.relative_time(vote.at_s, now_s), "dim"))
    for passed in one.delegations:
        said = f"by {passed.by} to {passed.to}{f', {passed.note}' if passed.note else ''}"
        yield (TextCell("  delegated  ", "dim"), cell(said), TextCell(terminal_text.relative_time(passed.at_s, now_s), "dim"))
    if one.details is not None:
        yield (TextCell("  details    ", "dim"),)
        yield from ((cell(f"    {line}"),) for line in _detail_lines(one.details))
    if one.form is not None:
        yield (TextCell("  form       ", "dim"),)
        yield from _form_lines(one.form)
    if called:
        yield (cell(f"perdure approve {_quoted(called)}{' -i KEY=VALUE' if form_fields(one.form) else ''}, or perdure reject {_quoted(called)}", "dim"),)


def _approval_facts(one: Approval, called: str, now_s: float) -> Iterator[tuple[str, str]]:
    if one.requested_by is not None:
        yield "requested", f"by {execution_name(one.requested_by)}"
    if one.path:
        yield "path", one.path
    yield "assignees", ", ".join(one.assignees) or "anybody"
    yield "since", f"{terminal_text.utc_time(one.requested_at_s)} UTC, {terminal_text.relative_time(one.requested_at_s, now_s)}"
    if one.due_at_s is not None:
        yield "due", f"{terminal_text.utc_time(one.due_at_s)} UTC, {terminal_text.relative_time(one.due_at_s, now_s)}"
    if one.priority != "normal":
        yield "priority", one.priority
    if one.resource_type:
        yield "about", f"{one.resource_type} {one.resource_id}"
    if one.deeplink:
        yield "link", one.deeplink
    if one.refused:
        yield "refused", one.refused
    yield "votes", f"{sum(vote.approve for vote in one.votes)} of {one.quorum}{'' if called else '; it no longer waits'}"


def _detail_lines(details: Any) -> list[str]:
    return details.splitlines() if isinstance(details, str) else indented_json(details).splitlines()


def _form_lines(form: dict[str, Any]) -> Iterator[tuple[TextCell, ...]]:
    found = form_fields(form)
    if not found:
        yield (cell(f"    {compact_json(form)}"),)
        return
    columns = max(terminal_text.width(one.name) for one in found)
    for one in found:
        yield (cell(f"    {one.name:<{columns}}"), cell(one.kind), TextCell("" if one.default is None else terminal_text.clean(f"else {one.default}"), "dim"))


def form_fields(form: dict[str, Any] | None) -> list[FormField]:
    """The fields of a form that is an object; none for any other."""
    schema = _resolved(form or {}, form or {})
    properties = schema.get("properties")
    required = schema.get("required", ())
    if not isinstance(properties, dict):
        return []
    return [
        FormField(title, _type_name(_resolved(one, form or {})), _default(title, one, required)) for title, one in properties.items() if isinstance(one, dict)
    ]


def _resolved(schema: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """The target of a reference in the form's own definitions."""
    reference = schema.get("$ref", "")
    found = form.get("$defs", {}).get(reference.removeprefix("#/$defs/")) if isinstance(reference, str) else None
    return found if isinstance(found, dict) else schema


def _type_name(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(one if isinstance(one, str) else compact_json(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type_name(one) for one in schema["anyOf"])
    kind = schema.get("type")
    return TYPE_NAMES.get(kind, kind) if isinstance(kind, str) else "anything"


def _default(title: str, schema: dict[str, Any], required: Sequence[str]) -> str | None:
    if title in required:
        return None
    return compact_json(schema["default"]) if "default" in schema else "nothing"


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


class DeadLetterSummary(msgspec.Struct, frozen=True):
    """A group of dead letters with its most recent one as an example."""

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
    def of(cls, group: DeadLetterGroup) -> DeadLetterSummary:
        """A group without its list of executions."""
        fields = {field: getattr(group, field) for field in cls.__struct_fields__ if field != "example"}
        return cls(**fields, example=group.dead_letters[0].key)


def dead_letter_groups_table(found: Sequence[DeadLetterSummary], now_s: float) -> TextTable:
    """Groups, a row each."""
    headers = ("FINGERPRINT", "COUNT", "WORKFLOW", "STEP", "REASON", "ERROR", "FIRST", "LAST", "EXAMPLE")
    return TextTable(headers, tuple(_dead_letter_group_row(one, now_s) for one in found))


def _dead_letter_group_row(one: DeadLetterSummary, now_s: float) -> tuple[TextCell, ...]:
    return (
        cell(one.fingerprint, "strong"),
        TextCell(f"{one.count:,}{'' if one.complete else '+'}"),
        cell(one.workflow),
        cell(one.path),
        cell(one.reason),
        cell(_error_text(one.type, one.message), "bad"),
        TextCell(terminal_text.relative_time(one.first_at_s, now_s)),
        TextCell(terminal_text.relative_time(one.last_at_s, now_s)),
        cell(execution_name(one.example)),
    )


def dead_letter_table(found: Sequence[DeadLetter], now_s: float) -> TextTable:
    """The executions of a group, a row each."""
    headers = ("ID", "WORKFLOW", "STATUS", "SINCE", "STEP", "REASON", "ATTEMPTS", "ERROR")
    return TextTable(headers, tuple(_dead_letter_row(one, now_s) for one in found))


def _dead_letter_row(one: DeadLetter, now_s: float) -> tuple[TextCell, ...]:
    error = cell(_error_text(one.type, one.message), "bad")
    return (
        cell(one.key.id, "strong"),
        cell(one.key.workflow),
        status_cell(one.status),
        TextCell(terminal_text.relative_time(one.at_s, now_s)),
        cell(one.path),
        cell(one.reason),
        TextCell(str(one.attempts or "")),
        error,
    )


def _error_text(kind: str, message: str) -> str:
    return f"{kind}: {terminal_text.truncate(terminal_text.first_line(message), 100)}" if message else kind


def queue_table(queues: Sequence[QueueStatus | QueueDetails], now_s: float) -> TextTable:
    """Queues, a row each."""
    has_tenants = any(one.tenant is not None for one in queues)
    headers = ("QUEUE", *(("TENANT",) if has_tenants else ()), "CONCURRENCY", "PER KEY", "RATE", "EXECUTIONS", "CALLS")
    return TextTable(headers, tuple(_queue_row(one, has_tenants, now_s) for one in queues))


def _queue_row(one: QueueStatus | QueueDetails, has_tenants: bool, now_s: float) -> tuple[TextCell, ...]:
    tenant = TextCell("others", "dim") if one.tenant is None else cell(one.tenant)
    return (
        cell(one.name, "strong"),
        *((tenant,) if has_tenants else ()),
        _limit_cell(one.limits.concurrency),
        _limit_cell(one.limits.per_lane),
        TextCell(_rate_text(one.limits)),
        _load_cell(one.executions, one.executions_waiting),
        _load_cell(one.work, one.work_waiting, None if one.oldest_task_at_s is None else now_s - one.oldest_task_at_s),
    )


def _limit_cell(limit: int | None) -> TextCell:
    return TextCell("any", "dim") if limit is None else TextCell(str(limit))


def _rate_text(limits: QueueLimits) -> str:
    if limits.interval_s <= 0:
        return ""
    burst = f", {limits.burst} at once" if limits.burst > 1 else ""
    return f"one per {terminal_text.duration(limits.interval_s)}{burst}"


def _load_cell(held: int, waiting: int, longest_s: float | None = None) -> TextCell:
    longest = "" if longest_s is None else f", the longest for {terminal_text.duration(longest_s)}"
    return TextCell(f"{held} claimed, {waiting} waiting{longest}", "warn" if waiting and not held else "") if held or waiting else TextCell("none", "dim")


ARCHIVED_LOOPS_MAX = 5
"""The number of loops of which archived iterations are listed."""


def archive_table(found: Sequence[LogArchive]) -> TextTable:
    """Archives, a row each."""
    rows = tuple(
        (
            cell(f"{terminal_text.utc_time(one.archived_at_s)} UTC"),
            cell(archived_iterations(one)),
            TextCell(f"{one.events:,}" if one.size_bytes else ""),
            TextCell(terminal_text.size(one.size_bytes) if one.size_bytes else ""),
            _archive_state(one),
        )
        for one in found
    )
    return TextTable(("ARCHIVED", "ITERATIONS", "EVENTS", "SIZE", ""), rows)


def archived_iterations(one: LogArchive) -> str:
    """The iterations of each loop that are in an archive."""
    said = [f"{loop} {first:,}" + (f"–{last:,}" if last > first else "") for loop, (first, last) in one.turns.items()]
    return ", ".join(said[:ARCHIVED_LOOPS_MAX]) + (f" and {len(said) - ARCHIVED_LOOPS_MAX} more loops" if len(said) > ARCHIVED_LOOPS_MAX else "")


def _archive_state(one: LogArchive) -> TextCell:
    if one.missing:
        return TextCell("missing: restore the database from a backup", "bad")
    return TextCell("") if one.pruned_at_s is None else TextCell(f"archived and pruned at {terminal_text.utc_time(one.pruned_at_s)} UTC", "warn")


def pruning_summary(swept: CollectedBlobs, dry_run: bool) -> str:
    """The summary of a removal of archives, in words."""
    executions = len({one.key for one in swept.archives})
    done = "would be" if dry_run else "was" if len(swept.archives) == 1 else "were"
    of = f" of {terminal_text.count(executions, 'execution')}" if executions else ""
    values = f" with {terminal_text.count(swept.values, 'large value')} without other references" if swept.values else ""
    return f"{terminal_text.count(len(swept.archives), 'archive')}{of} {done} removed{values}: {terminal_text.size(swept.size_bytes)}"


class NeededSecret(msgspec.Struct, frozen=True):
    """A secret that a definition reads: the steps that read it, and the place where it would be found (None: nowhere), or why it can't be."""

    name: str
    steps: tuple[str, ...]
    place: str | None
    trouble: str = ""


async def needed_secrets(definition: Definition, resolver: SecretResolver, tenant: str) -> list[NeededSecret]:
    """The secrets that a definition reads, by name."""
    from perdure.service.definition_views import secrets_read_by as names

    reads = names(definition.ir, definition.read.canonical.get("triggers"))
    return [await asyncio.to_thread(_needed_secret, resolver, tenant, name, tuple(steps)) for name, steps in sorted(reads.items())]


def _needed_secret(resolver: SecretResolver, tenant: str, name: str, steps: tuple[str, ...]) -> NeededSecret:
    from perdure.core.errors import SealedSecret

    try:
        return NeededSecret(name, steps, next(iter(resolver.places(tenant, name)), None))
    except SealedSecret as sealed:
        return NeededSecret(name, steps, None, sealed.why)


def secret_table(found: Sequence[ListedSecret]) -> TextTable:
    """Secrets, a row each."""
    return TextTable(("NAME", "WHERE", "KEY", "SET"), tuple(_secret_row(one) for one in found))


def needed_secret_table(found: Sequence[NeededSecret]) -> TextTable:
    """Secrets, a row each."""
    return TextTable(("NAME", "WHERE", "STEPS"), tuple(_needed_secret_row(one) for one in found))


def _secret_row(one: ListedSecret) -> tuple[TextCell, ...]:
    return cell(one.name, "strong"), TextCell(one.place), cell(one.key_id or ""), TextCell("" if one.set_at_s is None else terminal_text.utc_time(one.set_at_s))


def _needed_secret_row(one: NeededSecret) -> tuple[TextCell, ...]:
    where = TextCell(one.place) if one.place is not None else cell(f"sealed: {one.trouble}" if one.trouble else "missing", "bad")
    return cell(one.name, "strong"), where, cell(", ".join(one.steps))


def key_table(found: Sequence[KeyDetails], now_s: float) -> TextTable:
    """Keys of the service, a row each."""
    return TextTable(("ID", "NAME", "ROLES", "QUEUES", "CREATED", "BY", "USED", "ENDS"), tuple(_key_row(one, now_s) for one in found))


def _key_row(one: KeyDetails, now_s: float) -> tuple[TextCell, ...]:
    ends = "" if one.expires_at_s is None else terminal_text.relative_time(one.expires_at_s, now_s)
    return (
        TextCell(one.id, "strong"),
        cell(one.name),
        cell(", ".join(one.roles)),
        cell("" if one.queues is None else ", ".join(one.queues)),
        TextCell(terminal_text.relative_time(one.created_at_s, now_s)),
        cell(one.created_by),
        TextCell("" if one.used_at_s is None else terminal_text.relative_time(one.used_at_s, now_s)),
        TextCell("revoked", "bad") if one.revoked_at_s is not None else TextCell(f"expired {ends}", "bad") if not one.secrets else TextCell(ends),
    )
