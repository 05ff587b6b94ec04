"""Queries: what people ask about executions and about who works on them. Nothing is changed here."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from urllib.parse import unquote

import msgspec

from perdure.core import attributes, values, views
from perdure.core import execution as folded
from perdure.core.attributes import AttributeValue
from perdure.core.errors import Ambiguous, BadValue, NotFound
from perdure.core.execution import Execution
from perdure.core.ops import APPROVAL, COMPOSITE, Receive, Spawn
from perdure.core.paths import Key, text
from perdure.core.program import base
from perdure.core.where import Where, conditions
from perdure.programs.code.durations import Duration, seconds, whole
from perdure.runtime import presence
from perdure.runtime.endings import ENDED
from perdure.service import pending_votes
from perdure.service.access import Access
from perdure.service.blockers import living, missing_engine, missing_worker
from perdure.service.fold import Fold
from perdure.service.paging import pages
from perdure.stores.base import Filter, Head, Lease

STATUSES: tuple[str, ...] = get_args(folded.Status)
TEXT_BYTES_MAX = 16 * 1024
CANDIDATES_MAX = 5
"""How many executions an error lists that may be meant."""


class Listed(msgspec.Struct, frozen=True):
    """One execution in a list. `version` counts its events; `workflow_version` is 0 while none is pinned; at `due_at_s` it goes on by itself; by its
    `attributes` it is found."""

    key: Key
    status: str
    workflow_version: int
    version: int
    created_at_s: float
    ended_at_s: float | None
    due_at_s: float | None
    holder: str | None
    attributes: dict[str, AttributeValue] = {}


INTERNAL = (APPROVAL, COMPOSITE)
"""Perdure's own workflows, whose executions are listed only where they are asked for."""


class Status(msgspec.Struct, frozen=True):
    """How one execution stands; `why`, in a sentence. Times are seconds since 1970; `version` is the number of its last event; `definition` is the hash of
    the one by which it goes on, if it is not of code; `forgotten` says of each loop, by its path, how many of its first turns are forgotten; `unread` counts
    the messages by name that have arrived and that nothing waits for; `decided`: its approvals are, which takes effect when an engine runs; `archived`:
    forgotten turns were archived, and, if all of them were pruned since, when that was."""

    key: Key
    status: str
    why: str
    workflow_version: int
    version: int
    created_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    deadline_at_s: float | None
    due_at_s: float | None
    open: int
    settled: int
    emitted: int
    attributes: dict[str, AttributeValue] = {}
    definition: str = ""
    forgotten: dict[str, int] = {}
    unread: dict[str, int] = {}
    decided: bool = False
    archived: bool = False
    archives_pruned_at_s: float | None = None


class EngineView(msgspec.Struct, frozen=True):
    """Who works on a store: what it said of itself (nothing: empty), how many executions and pieces of work it holds, and whether it lives."""

    name: str
    kind: str
    host: str
    pid: int
    programs: list[str]
    queues: list[str]
    started_at_s: float | None
    executions: int
    work: int
    alive: bool


# one execution


async def summary(access: Access, key: Key) -> Listed:
    """What a list says of an execution, from its head alone.

    Raises:
        NotFound: there is no such execution.
    """
    return _listed(await access.head(key))


async def status(access: Access, fold: Fold) -> Status:
    """How an execution stands, by its log up to now: why it waits, what is open and settled and what is unread follow from nothing less.

    Raises:
        NotFound: there is no such execution.
    """
    execution = await fold.refresh()
    head, started = fold.head, execution.started
    if head is None:
        raise NotFound(execution.key)
    decided = execution.status == "waiting_approval" and await pending_votes.are_decided(access, _asked(execution))
    why = await _why(access, head, execution)
    return Status(
        head.key,
        execution.status,
        f"the decision is recorded, and takes effect when an engine runs; {why}" if decided else why,
        _pinned(head),
        execution.version,
        head.created_at_s,
        None if started is None else started.at_s,
        None if execution.ended is None else execution.ended.at_s,
        execution.deadline_at_s,
        _due_at_s(head),
        len(execution.open),
        len(execution.settled),
        execution.emitted,
        attributes.shown(head.attributes),
        "" if execution.definition is None else f"sha256:{execution.definition.sha256}",
        {text(path): before for path, before in execution.trimmed.items() if before},
        _unread(execution),
        decided,
        execution.archive is not None,
        None if execution.archive is None else await access.store.removed_at(execution.archive),
    )


def _asked(execution: Execution) -> list[Key]:
    """The approvals that it waits for."""
    children = (promise.op for promise in execution.open.values() if isinstance(promise.op, Spawn) and promise.op.workflow == APPROVAL)
    return [Key(execution.key.tenant, APPROVAL, child.id) for child in children]


def _unread(execution: Execution) -> dict[str, int]:
    awaited = {name for promise in execution.open.values() if isinstance(promise.op, Receive) for name in promise.op.names}
    return dict(Counter(letter.name for letter in execution.mailbox.letters.values() if letter.name not in awaited))


async def _why(access: Access, head: Head, execution: Execution) -> str:
    if execution.ended is not None or execution.parked is not None:
        return views.why(execution)
    due_at_s = _due_at_s(head)
    if execution.started is None and due_at_s is not None and due_at_s > (await access.store.moment()).now_s:
        return f"it starts at {datetime.fromtimestamp(due_at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    holders = await living(access.store)
    if holders is None:
        return views.why(execution)
    if engine := missing_engine(head, holders):
        return f"{engine}; {views.why(execution)}"
    worker = missing_worker(head, execution, holders)
    return f"{views.why(execution)}; {worker}" if worker else views.why(execution)


async def state(access: Access, fold: Fold, key: str | None, default: Any) -> Any:
    """What a workflow has set under `key` (`default`, if nothing), or all of it.

    Raises:
        NotFound: there is no such execution.
    """
    execution = await fold.refresh()
    wanted = execution.state if key is None else {key: execution.state[key]} if key in execution.state else {}
    found = {name: values.decode(await access.payload(value), Any, f"the value of {name}") for name, value in wanted.items()}
    return found if key is None else found.get(key, default)


# many

HEADS_AT_A_TIME = 100
"""How many heads are read at least where some may be left out."""


async def listing(
    access: Access,
    *,
    tenant: str,
    workflow: str | None,
    status: str | Iterable[str] | None,
    id_prefix: str,
    since: Duration | datetime | None,
    limit: int,
    older_than: Key | None,
    where: Where | None = None,
    internal: bool = False,
) -> list[Listed]:
    """The executions that fit all that is asked for, newest first. `since` is a time with its zone, or so long ago.

    Perdure's own executions, such as those of approvals, are left out, unless `internal` ones are asked for, or their `workflow` is.

    Raises:
        BadValue, BadName: something that is asked for makes no sense.
        NotFound: there is no execution `older_than`.
    """
    if not isinstance(id_prefix, str):
        raise BadValue("id_prefix", id_prefix, "text")
    if older_than is not None:
        if not isinstance(older_than, Key):
            raise BadValue("older_than", older_than, "the key of an execution, such as the last one of a list")
        _ = await access.head(older_than)
    which = Filter(
        tenant=tenant,
        workflow=workflow,
        statuses=checked_statuses(status),
        id_prefix=id_prefix,
        created_from_s=await _since_s(access, since),
        older_than=older_than,
        limit=whole(limit, "limit"),
        where=conditions(where),
    )
    return [_listed(head) for head in await _heads(access, which, internal)]


async def _heads(access: Access, which: Filter, internal: bool) -> list[Head]:
    """The heads that are meant; of Perdure's own executions, only if they are asked for."""
    if internal or which.workflow is not None:
        return await access.store.heads(which)
    found, left = list[Head](), msgspec.structs.replace(which, limit=max(which.limit, HEADS_AT_A_TIME))
    while True:
        page = await access.store.heads(left)
        found += [head for head in page if head.key.workflow not in INTERNAL]
        if len(page) < left.limit or len(found) >= which.limit:
            return found[: which.limit]
        left = msgspec.structs.replace(left, older_than=page[-1].key)


def checked_statuses(wanted: str | Iterable[str] | None) -> frozenset[str] | None:
    """The statuses that are meant; None means any.

    Raises:
        BadValue: one of them is none.
    """
    if wanted is None:
        return None
    found = frozenset((wanted,) if isinstance(wanted, str) else wanted)
    for one in found:
        if one not in STATUSES:
            raise BadValue("status", one, f"one of {', '.join(STATUSES)}")
    return found


async def _since_s(access: Access, since: Duration | datetime | None) -> float | None:
    if since is None:
        return None
    if not isinstance(since, datetime):
        return (await access.store.moment()).now_s - seconds(since, "since")
    if since.tzinfo is None:
        raise BadValue("since", since, "a time with its zone, such as datetime.now(UTC) - timedelta(hours=1), or a duration")
    return since.timestamp()


async def engines(access: Access) -> list[EngineView]:
    """Who works on the store: those that live, and the dead that hold something still."""
    return [_engine(lease) for lease in await access.store.leases()]


# finding one


async def find(access: Access, text: str, tenant: str) -> Key:
    """Which execution `text` means, by the first of these of which there is any: a key as it is shown, ``@latest`` or ``@failed``, an id or
    ``workflow/id``, the beginning of one of these.

    Raises:
        NotFound: it means none.
        Ambiguous: it means several.
    """
    if text in ("@latest", "@failed"):
        failed = frozenset(("failed",)) if text == "@failed" else None
        found = [head.key for head in await _heads(access, Filter(tenant=tenant, statuses=failed, limit=1), internal=False)]
        return _only(text, found)
    if not _is_text(text):
        raise BadValue("execution", text, "an id or the beginning of one, workflow/id, @latest or @failed")
    if (shown := _as_shown(text)) is not None and (found := await _existing(access, [shown])):
        return found[0]
    whole_ids, begun = await of_id(access, tenant, text)
    named = _as_named(tenant, text)
    if exact := list(dict.fromkeys((*whole_ids, *await _existing(access, named)))):
        return _only(text, exact)
    for key in named:
        which = Filter(tenant=key.tenant, workflow=key.workflow, id_prefix=key.id, limit=CANDIDATES_MAX + 1)
        begun += [head.key for head in await access.store.heads(which)]
    return _only(text, list(dict.fromkeys(begun)))


async def by_id(access: Access, tenant: str, id: str) -> Key:
    """The only execution of this id.

    Raises:
        NotFound, Ambiguous: there is none, or several workflows have one.
    """
    exact, _ = await of_id(access, tenant, id)
    return _only(id, exact)


def _is_text(text: object) -> bool:
    try:
        return isinstance(text, str) and 1 <= len(text.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _only(text: str, found: Sequence[Key]) -> Key:
    if not found:
        raise NotFound(text)
    if len(found) > 1:
        raise Ambiguous(text, found[:CANDIDATES_MAX], more=len(found) > CANDIDATES_MAX)
    return found[0]


async def of_id(access: Access, tenant: str, id: str) -> tuple[list[Key], list[Key]]:
    """The executions of this id, and some whose id begins so."""
    exact, begun = list[Key](), list[Key]()
    async for key in _keys(access, Filter(tenant=tenant, id_prefix=id)):
        if key.id == id:
            exact.append(key)
        elif len(begun) <= CANDIDATES_MAX:
            begun.append(key)
    return exact, begun


async def _keys(access: Access, which: Filter) -> AsyncIterator[Key]:
    async for page in pages(access.store, which):
        for head in page:
            yield head.key


async def _existing(access: Access, keys: Sequence[Key]) -> list[Key]:
    return [head.key for head in await access.store.heads(Filter(keys=tuple(keys), limit=len(keys)))] if keys else []


def _as_shown(text: str) -> Key | None:
    """The key that is shown as `text`."""
    parts = [unquote(part) for part in text.split("/")]
    if len(parts) != 3:
        return None
    key = Key(parts[0], parts[1], parts[2])
    return key if str(key) == text else None


def _as_named(tenant: str, text: str) -> list[Key]:
    """The keys that ``workflow/id`` may mean, where either may contain a slash, or be written as keys are shown."""
    splits = [(text[:at], text[at + 1 :]) for at, character in enumerate(text) if character == "/"]
    pairs = [*splits, *((unquote(workflow), unquote(id)) for workflow, id in splits)]
    return list(dict.fromkeys(Key(tenant, workflow, id) for workflow, id in pairs if workflow and id))


# as people see it


def _listed(head: Head) -> Listed:
    due_at_s = None if head.status in ENDED else _due_at_s(head)
    return Listed(
        head.key, head.status, _pinned(head), head.version, head.created_at_s, head.ended_at_s, due_at_s, head.holder, attributes.shown(head.attributes)
    )


def _pinned(head: Head) -> int:
    version = base(head.program).rpartition("@")[2]
    return int(version) if version.isascii() and version.isdigit() else 0


def _due_at_s(head: Head) -> float | None:
    return min((at_s for at_s in (head.wake_at_s, head.mail_at_s) if at_s is not None), default=None)


def _engine(lease: Lease) -> EngineView:
    said = presence.decode(lease.about)
    if said is None:
        return EngineView(lease.holder, "", "", 0, [], [], None, lease.executions, lease.work, lease.alive)
    return EngineView(lease.holder, said.kind, said.host, said.pid, said.programs, said.queues, said.started_at_s, lease.executions, lease.work, lease.alive)
