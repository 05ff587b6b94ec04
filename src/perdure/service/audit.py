"""Audit entries: who did what to which record, execution, queue or secret, in the commit that did it.

`AuditedStore` wraps a store for one call of an operation by one caller, and adds an entry to each post that changes something. An entry has names and
versions, and never a value. What is no post (limits of queues, secrets, removal of logs and large values) can't carry a record: there the entry is durable
before the change, or together with it. It says what was asked, also if the change then failed.

Starts, signals and the answers of steps have no entry, since the log of the execution has them. Entries are only added, and expire.
"""

import copy
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

import msgspec

from perdure.core import messages
from perdure.core.attribute_filter import attribute_conditions
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import ProgrammingError
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Address, Key
from perdure.service.access_records import AUDIT_ENTRIES, AuditEntry, AuditTarget
from perdure.service.callers import Caller
from perdure.service.known_records import KINDS_BY_NAME
from perdure.service.store_access import StoreAccess
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.blob_store import BLOB_SWEEP
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.month_removal import MONTH_REMOVAL
from perdure.stores.move_mark import MOVE_MARK
from perdure.stores.protocol import ChangeAnswer, Commit, Post, QueueLimits, ReadOnlyStore, Store
from perdure.stores.records import RecordChange
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import PartName

T = TypeVar("T")

AUDIT_KEPT_S = 90 * 86_400.0
"""How long an entry is kept, unless the service is set up otherwise."""
INDEXED_BYTES_MAX = 1024
TARGETS_MAX = 50
"""How many targets are in one entry; of more, the number is."""

LOGGED_MESSAGES = (messages.StartMessage, messages.SignalMessage, messages.SettleMessage, messages.ProgressMessage)
"""Messages that have no entry, but for those to approvals: the log of the execution has them, under the name of the person where there is one."""

_LATEST_US = 10**16  # in the year 2286


class ListedEntry(msgspec.Struct, frozen=True):
    """An entry and its id."""

    id: str
    entry: AuditEntry


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on entries, all of which must hold: the caller, the name of the operation, the execution (``workflow/id``, percent-encoded)."""

    subject: str | None = None
    operation: str | None = None
    execution: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """A page of entries, newest first. The next one begins behind `next` (None: this was the last)."""

    items: list[ListedEntry]
    next: str | None = None


def execution_text(key: Key) -> str:
    """An execution of a known tenant as text: workflow and id, percent-encoded."""
    return f"{quote(key.workflow, safe='')}/{quote(key.id, safe='')}"


def _indexed(text: str) -> str:
    """What an entry is found by: the text, or the hash of one that an index of a database would not take."""
    return text if len(text.encode()) <= INDEXED_BYTES_MAX else f"sha256:{sha256(text.encode()).hexdigest()}"


async def list_entries(store: ReadOnlyStore, tenant: str, which: AuditFilter, limit: int = 100, after: str | None = None) -> AuditPage:
    """Lists the entries of a tenant, newest first, in pages of up to `limit`.

    Raises:
        BadValue: `after` is not the `next` of a page.
    """
    wanted = ((name, getattr(which, name)) for name in ("execution", "operation", "subject"))
    where = attribute_conditions({name: _indexed(value) for name, value in wanted if value is not None})
    found, following = await AUDIT_ENTRIES.page_behind(store, tenant, limit, after, where)
    return AuditPage([ListedEntry(one.key, one.value) for one in found], following)


class AuditedBy(NamedTuple):
    """Who calls an operation: the caller, the name of the operation, the network address that the request came from, and how long entries are kept."""

    caller: Caller
    operation: str
    address: str = ""
    kept_s: float = AUDIT_KEPT_S


def audited_access(access: StoreAccess, by: AuditedBy) -> StoreAccess:
    """The same access, with the same caches, through a store that adds the entries of one call. It is not to be closed."""
    audited = copy.copy(access)
    audited.store = AuditedStore(access.store, by)
    return audited


class AuditedStore(ForwardingStore):
    """A `Store` that adds an entry to each post, in the tenant of the caller, so that a post with records of another tenant is refused as a whole.

    Methods without an entry read, or serve engines. Transactions of users are not among its parts.
    """

    def __init__(self, inner: Store, by: AuditedBy) -> None:
        super().__init__(inner)
        self._by, self._entries = by, count()

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. Commits, which carry no records, have entries together, in posts before them.

        Raises:
            ProgrammingError: a post changes an audit entry.
        """
        if not any(map(_concerns_audit, changes)):
            return await self.inner.commit(changes)  # such as a start: it costs no more than without an audit
        at_s = (await self.inner.store_time()).now_s
        logs = [AuditTarget("execution", execution_text(one.key), "removed" if one.forgets else one.status) for one in changes if isinstance(one, Commit)]
        before = [Post(records=(self._entry(at_s, logs[first : first + TARGETS_MAX]),)) for first in range(0, len(logs), TARGETS_MAX)]
        answers = await self.inner.commit([*before, *(self._with_entry(one, at_s) for one in changes)])
        return answers[len(before) :]

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self.enter(AuditTarget("queue", queue, "unlimited" if limits is None else "limited"))
        await self.inner.limit(queue, limits, tenant)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        await self.enter(AuditTarget("store", "epoch", "raised"))
        return await self.inner.raise_epoch()

    # Parts and entries.

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. Parts that change what people ask for add entries as well."""
        part = self.inner.part(name) if name in _PARTS else None
        return None if part is None else cast(T, _AuditedPart(part, _PARTS[name], self.enter))

    async def enter(self, target: AuditTarget) -> None:
        """Makes an entry durable by itself, before a change that is no post."""
        at_s = (await self.inner.store_time()).now_s
        _ = await self.inner.commit([Post(records=(self._entry(at_s, [target]),))])

    def _with_entry(self, change: Commit | Post, at_s: float) -> Commit | Post:
        if isinstance(change, Commit):
            return change
        if any(one.key.kind == AUDIT_ENTRIES.name for one in change.records):
            raise ProgrammingError("audit entries are only added, by AuditedStore; no operation changes them")
        targets = [*_targets(change)]
        return msgspec.structs.replace(change, records=(*change.records, self._entry(at_s, targets))) if targets else change

    def _entry(self, at_s: float, targets: Sequence[AuditTarget]) -> RecordChange:
        """An entry, under a key by which the newest comes first in a list; of one call, in the opposite order of its posts."""
        caller, operation, address, kept_s = self._by
        key = f"{_LATEST_US - round(at_s * 1e6):017}-{999_999 - next(self._entries):06}-{secrets.token_hex(8)}"
        shown = tuple(targets[:TARGETS_MAX])
        entry = AuditEntry(at_s=at_s, subject=caller.subject, operation=operation, address=address, targets=shown, more=len(targets) - len(shown))
        attributes: dict[str, str | list[str]] = {
            "execution": [_indexed(one.key) for one in shown if one.kind == "execution"],
            "operation": operation,
            "subject": _indexed(caller.subject),
        }
        return AUDIT_ENTRIES.change(caller.tenant, key, 0, entry, attributes, expires_at_s=at_s + kept_s)


class PartChange(NamedTuple):
    """A method of a part that changes something: the kind of its target, the change, and the argument with the key of it, if there is one."""

    kind: str
    change: str
    argument: int | None = None


_PARTS: dict[PartName[Any], dict[str, PartChange]] = {
    VAULT: {"keep": PartChange("secret", "set", 1), "drop": PartChange("secret", "removed", 1)},
    MONTH_REMOVAL: {"remove_months": PartChange("store", "months removed")},
    BLOB_REMOVAL: {"remove": PartChange("store", "large values removed")},
    BLOB_SWEEP: {"sweep": PartChange("store", "large values removed")},
    MOVE_MARK: {"replace": PartChange("store", "move mark set")},
    CHANGE_FEED: {"restore": PartChange("store", "restored")},
}


class _AuditedPart:
    """A part of a store, with an entry before each call of a method that changes something."""

    def __init__(self, part: Any, changing: dict[str, PartChange], enter: Callable[[AuditTarget], Awaitable[None]]) -> None:
        self._part, self._changing, self._enter = part, changing, enter

    def __getattr__(self, name: str) -> Any:
        method, change = getattr(self._part, name), self._changing.get(name)
        if change is None:
            return method

        async def entered(*args: Any, **kwargs: Any) -> Any:
            key = "" if change.argument is None else str(args[change.argument])
            await self._enter(AuditTarget(change.kind, key, change.change))
            return await method(*args, **kwargs)

        return entered


def _concerns_audit(change: Commit | Post) -> bool:
    """Whether a change gets an entry, or is refused since it would change one."""
    return isinstance(change, Commit) or any(one.key.kind == AUDIT_ENTRIES.name for one in change.records) or any(True for _ in _targets(change))


def _targets(post: Post) -> Iterable[AuditTarget]:
    for record in post.records:
        if _is_audited(record.key.kind) and (record.value is not None or record.version):  # else it only makes sure that there is none
            yield AuditTarget(record.key.kind, record.key.key, _change_of(record), 0 if record.value is None else record.version + 1)
    for send in post.messages:
        if (name := _message_name(send)) is not None:
            yield _addressed(send.to, name)
    for ack in post.acks:
        yield _addressed(ack.to, "message withdrawn")


def _is_audited(kind: str) -> bool:
    """Is true of kinds whose changes have an entry: of kinds of other packages, all have."""
    return kind not in KINDS_BY_NAME or KINDS_BY_NAME[kind].audited


def _change_of(record: RecordChange) -> str:
    if record.value is None:
        return "removed"
    return "changed" if record.version else "created"


def _message_name(send: OutgoingMessage) -> str | None:
    """The name of a message; None if it has no entry.

    Of the messages of programs, those by which an approval is decided or delegated have one: the log has the person, and the entry who gave it for them.
    """
    message = messages.decode_message_or_task(send.body)
    if isinstance(message, messages.SignalMessage) and isinstance(send.to, Key) and send.to.workflow == APPROVAL_WORKFLOW:
        return message.name
    return None if isinstance(message, LOGGED_MESSAGES) else str(message.__struct_config__.tag)


def _addressed(to: Address, change: str) -> AuditTarget:
    return AuditTarget("execution", execution_text(to), change) if isinstance(to, Key) else AuditTarget("queue", str(to), change)
