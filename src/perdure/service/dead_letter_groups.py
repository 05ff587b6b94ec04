"""Groups dead letters: executions that have failed or need attention, grouped with those that failed alike, to be requeued or discarded.

The list follows from the logs; nothing else is stored. Failures are alike if they have the same fingerprint, which leaves out what differs between
executions, such as ids and numbers. An execution that is retried leaves the list, and so does one that is discarded: it is cancelled after its failure.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core import error_codes, values
from perdure.core.errors import UNREADABLE, AlreadyExists, BadValue, ErrorInfo, StoreError
from perdure.core.execution import Execution
from perdure.core.failure_causes import DEAD_STATUSES, failure_cause, fingerprint
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import Key, Path, parse_path, path_text
from perdure.runtime.workflow_programs import Workflow, encode_input
from perdure.service import execution_operations, execution_requests, queries, reruns
from perdure.service.execution_requests import ExecutionRequest
from perdure.service.queries import ExecutionFilter, ListedExecution
from perdure.service.reruns import RerunRequest, read_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter

DEAD_LETTERS_PER_PAGE = 500


class DeadLetter(msgspec.Struct, frozen=True):
    """One execution that has failed or needs attention: when, where (the path of the step, or empty) and with which error.

    `reason` is ``max_retries_exceeded``, ``timeout``, ``interrupted``, ``fatal`` (not retryable) or ``rollback`` for a step; the name of the exceeded limit
    (``exceeded_max_fanout``, ``exceeded_max_hops``, ``deadline_exceeded``, ...); the reason for attention; otherwise ``failed``. `attempts` counts the attempts
    of the step. `input` holds its arguments, by name or as a list.
    """

    key: Key
    status: str
    fingerprint: str
    path: str
    type: str
    message: str
    at_s: float
    reason: str = "failed"
    attempts: int = 0
    input: Any = None


class DeadLetterGroup(msgspec.Struct, frozen=True):
    """Executions that failed alike, newest first. If it is not `complete`, there are more dead letters than were read, and `count` is a lower bound."""

    fingerprint: str
    workflow: str
    path: str
    type: str
    message: str
    count: int
    first_at_s: float
    last_at_s: float
    dead_letters: tuple[DeadLetter, ...]
    complete: bool = True
    reason: str = "failed"


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects dead letters by workflow, id prefix, creation time and fingerprint (or its prefix). At most `limit` executions are read.

    `since` is a time, or a number of seconds before now.
    """

    tenant: str
    workflow: str | None = None
    id_prefix: str = ""
    since: float | datetime | None = None
    fingerprint: str = ""
    limit: int = 10_000


# Groups


async def group_dead_letters(access: StoreAccess, which: DeadLetterFilter) -> list[DeadLetterGroup]:
    """Groups the selected dead letters, the most recent failure first.

    Raises:
        BadValue: the filter has a fingerprint that no group has, or that several have.
    """
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    listed, complete = await _listed_summaries(access, which)
    for one in listed:
        dead = await read_dead_letter(access, one)
        if dead is not None and dead.fingerprint.startswith(which.fingerprint):
            found.setdefault((dead.fingerprint, dead.key.workflow), []).append(dead)
    grouped = sorted((_group(*name, letters, complete) for name, letters in found.items()), key=lambda group: -group.last_at_s)
    if which.fingerprint and len(grouped) != 1:
        fitting = ", ".join(group.fingerprint for group in grouped[:5])
        raise BadValue("fingerprint", which.fingerprint, f"one of those that dead letters have{f'; it fits {fitting}' if fitting else ''}")
    return grouped


def _group(name: str, workflow: str, letters: Sequence[DeadLetter], complete: bool) -> DeadLetterGroup:
    first = letters[0]
    newest = tuple(sorted(letters, key=lambda letter: -letter.at_s))
    return DeadLetterGroup(name, workflow, first.path, first.type, first.message, len(letters), newest[-1].at_s, newest[0].at_s, newest, complete, first.reason)


async def _listed_summaries(access: StoreAccess, which: DeadLetterFilter) -> tuple[list[ListedExecution], bool]:
    """The executions that the filter selects, newest first, up to its limit; and whether these are all."""
    found: list[ListedExecution] = []
    listed = ExecutionFilter(tenant=which.tenant, workflow=which.workflow, status=tuple(DEAD_STATUSES), id_prefix=which.id_prefix, since=which.since)
    while len(found) <= which.limit:
        asked = min(which.limit + 1 - len(found), DEAD_LETTERS_PER_PAGE)
        page = await queries.list_executions(access, listed, asked, queries.position_behind(found[-1] if found else None, listed))
        found += page
        if len(page) < asked:
            break
    return found[: which.limit], len(found) <= which.limit


async def read_dead_letter(access: StoreAccess, listed: ListedExecution) -> DeadLetter | None:
    """The dead letter of a listed execution; None if it is none, or none any more."""
    try:
        execution = await read_execution(access, listed.key)
        letter = dead_letter_of(execution)
        return letter if letter is None else msgspec.structs.replace(letter, input=await _input(access, execution, letter))
    except UNREADABLE as error:
        return _unreadable(listed, error)


def dead_letter_of(execution: Execution) -> DeadLetter | None:
    """The dead letter of an execution, without the input of its step; None if the execution is none."""
    cause = failure_cause(execution)
    if cause is None:
        return None
    path, error, at_s = cause
    reason = error.type if execution.parked is not None else _reason(execution, path, error)
    name, known = fingerprint(execution.key.workflow, path, error.type, error.message), execution.open.get(path) or execution.settled.get(path)
    attempts = known.attempt if known is not None and isinstance(known.op, CallOperation) else 0
    return DeadLetter(execution.key, execution.status, name, path_text(path), error.type, error.message, at_s, reason, attempts)


async def _input(access: StoreAccess, execution: Execution, letter: DeadLetter) -> Any:
    """The arguments of a dead letter's step, by name or as a list; None if it is not about a call."""
    path = parse_path(letter.path)
    known = execution.open.get(path) or execution.settled.get(path)
    if known is None or not isinstance(known.op, CallOperation):
        return None
    args, named = values.decode(await access.payload(known.op.args), tuple[list[Any], dict[str, Any]], f"the input of {letter.path}")
    return {"args": args, **named} if args and named else named or args


def step_name(path: str) -> str:
    """The name of the step that a path belongs to."""
    return next((segment[0] for segment in reversed(parse_path(path)) if isinstance(segment, tuple) and segment[1] > 0), "")


def _unreadable(listed: ListedExecution, error: StoreError) -> DeadLetter:
    """The dead letter of an execution whose log cannot be read."""
    name = fingerprint(listed.key.workflow, (), error_codes.error_code(type(error)), str(error))
    return DeadLetter(listed.key, listed.status, name, "", error_codes.error_code(type(error)), str(error), listed.ended_at_s or listed.created_at_s)


def _reason(execution: Execution, path: Path, error: ErrorInfo) -> str:
    if error.type.startswith("exceeded_") or error.type == error_codes.UNSAFE_LOOP:
        return error.type
    if error.type == error_codes.DEADLINE_EXCEEDED:
        return error_codes.DEADLINE_EXCEEDED
    known = execution.settled.get(path)
    kind = known.outcome.kind if known is not None and isinstance(known.outcome, Failure) else "failed"
    return "max_retries_exceeded" if kind == "exhausted" else kind


# Requeue and discard


async def requeue_dead_letter(
    access: StoreAccess,
    key: Key,
    reason: str = "",
    *,
    edits: Mapping[str, bytes] | None = None,
    version: int | None = None,
    code: Workflow | None = None,
    wait: bool = False,
) -> tuple[Key, int]:
    """Runs a dead letter again from what failed; with `edits` of its input or another `version` of the workflow, as a new execution from the beginning, and
    discards this one.

    Edits are encoded values, keyed by argument name, or by position from 1; `code` maps positions to names. The operation is idempotent: the same edits of the
    same execution start one new execution, even after this one has been discarded. Returns the key of the execution that continues, and the version after
    which to watch it.

    Raises:
        NotFound, BadValue: it is no dead letter, or the edits do not fit.
        NeedsAttention: with `wait`, it continued and is parked again.
    """
    is_new = bool(edits) or version is not None
    discarded = is_new and (await access.head(key)).status == "cancelled"
    if not discarded:
        await _expect_dead(access, key)
    if not is_new:
        return key, await execution_operations.retry_execution(access, key, reason, wait)
    raw = await _edited(access, key, edits or {}, code)
    told = raw if version is None else raw + f"@{version}".encode()
    wanted = RerunRequest(key=key._replace(id=f"{key.id}+{sha256(told).hexdigest()[:8]}"), input=raw, version=version)
    if discarded and await access.store.heads(HeadFilter(keys=(wanted.key,), limit=1)):
        return wanted.key, 0
    await _expect_dead(access, key)
    with suppress(AlreadyExists):  # an earlier call has started it, and was interrupted before the discard
        await reruns.rerun_execution(access, key, wanted)
    await execution_operations.discard_execution(access, key, "; ".join(filter(None, (reason, f"it was requeued as {wanted.key}"))), wait)
    return wanted.key, 0


async def discard_dead_letter(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Cancels a dead letter without running anything. Has no effect on one that was discarded before.

    Raises:
        NotFound, BadValue: it is no dead letter.
    """
    await execution_operations.post_request(access, discard_dead_letter_request(await access.head(key), reason), wait)


async def _expect_dead(access: StoreAccess, key: Key) -> None:
    _must_be_dead(await access.head(key))


def _must_be_dead(head: Head) -> None:
    if head.status not in DEAD_STATUSES:
        raise BadValue("dead letter", str(head.key), f"an execution that has failed or needs attention: it is {head.status}")


async def requeue_request(access: StoreAccess, head: Head, reason: str) -> ExecutionRequest:
    """A request to run a dead letter again from what failed.

    Raises:
        BadValue: it is no dead letter.
    """
    _must_be_dead(head)
    return await execution_requests.retry_request(access, head, reason)


def discard_dead_letter_request(head: Head, reason: str) -> ExecutionRequest | None:
    """A request to cancel a dead letter; None if it is cancelled already.

    Raises:
        BadValue: it is no dead letter.
    """
    if head.status == "cancelled":
        return None
    _must_be_dead(head)
    return execution_requests.discard_request(head, reason)


async def _edited(access: StoreAccess, key: Key, edits: Mapping[str, bytes], code: Workflow | None) -> bytes:
    """The encoded input of an execution with `edits` applied."""
    started = (await read_execution(access, key)).started
    if started is None:
        raise BadValue("edits", str(key), "an execution that has begun")
    args, kwargs = values.decode(await access.payload(started.input), tuple[list[Any], dict[str, Any]], f"the input of {key}")
    names = [] if code is None else execution_operations.positional_parameters(code)
    for name, raw in edits.items():
        value = values.decode(raw, Any, f"the argument {name}")
        number = int(name) if name.isdecimal() else names.index(name) + 1 if name in names else 0
        if 0 < number <= len(args):
            args[number - 1] = value
        elif name.isdecimal():
            raise BadValue("edits", name, f"the number of an argument that was given by position: there are {len(args)}")
        elif args and name not in kwargs and code is None:
            why = f"known by name: {key} was given {len(args)} by position; edit those by their numbers, from 1, or name its code"
            raise BadValue("the argument", name, why)
        else:
            kwargs[name] = value
    return encode_input(key.workflow if code is None else code, tuple(args), kwargs)
