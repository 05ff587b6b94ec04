"""Exports executions to a file and imports them elsewhere, whole or not at all. docs/reference/export.md describes the format.

A file ends with the SHA-256 of everything before it, so any changed byte is detected. A signed file also has an HMAC under a secret of the deployment.

Exporting changes nothing: the file holds an execution with its messages, the blobs that it refers to and, if requested, its children.

Imported executions continue from the state in the file. Attempts that were in flight count as interrupted. Nothing detects whether the original continues
too; if it does, everything after the export runs twice.
"""

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from hashlib import sha256
from uuid import uuid4

import msgspec

from perdure.code.declarations import checked_name
from perdure.code.operation_paths import reply_path
from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.attributes import index_attributes
from perdure.core.effects import outstanding_messages
from perdure.core.envelopes import OutgoingMessage, QueuedMessage
from perdure.core.errors import AlreadyExists, ExportRefused, LogDamaged, NotFound, StoreUnavailable
from perdure.core.execution import needs_holder
from perdure.core.failure_causes import failure_attributes
from perdure.core.mailbox import ReceivedMessage
from perdure.core.operations import KeepOperation, SpawnOperation
from perdure.core.paths import Key
from perdure.core.recalled import RecalledResult
from perdure.core.replay import fold_events
from perdure.core.traversal import ARCHIVE_SIZE, parts_of, referenced_blobs, rewrite_parts
from perdure.core.values import verified_payload
from perdure.service.log_archives import archived_rows
from perdure.service.signing_secrets import is_signed, signature
from perdure.stores.blob_marks import blob_removal_of
from perdure.stores.protocol import Commit, Conflict, HeadFilter, ReadOnlyStore, Store, StoredLog, StoreTime, Superseded

BUNDLE_MAGIC = b"\x89perdure\r\n"
"""The first bytes of a file. A program that treats it as text and changes line endings damages them, which is detected at once."""

BUNDLE_VERSION = 2
UNSIGNED, SIGNED = 0, 1
DIGEST_BYTES = 32
DOMAIN = b"perdure export"
_HEADER_BYTES = len(BUNDLE_MAGIC) + 2


class BundledMessage(msgspec.Struct, frozen=True):
    """A message that waited for the execution: its key, its encoded body, and its due time in seconds since 1970."""

    key: str
    body: bytes
    due_at_s: float


class BundledExecution(msgspec.Struct, frozen=True):
    """One execution: its key, the program of its head, its topmost ancestor, the rows of its log, and its messages, oldest first."""

    key: Key
    program: str
    root: Key
    version: int
    status: str
    rows: tuple[bytes, ...]
    messages: tuple[BundledMessage, ...]


class Bundle(msgspec.Struct, frozen=True):
    """The content of a file. The first execution is the exported one; the others are its descendants.

    `blobs` holds what they refer to, by hash; `removed` holds, for archives that were pruned before, when that was.
    """

    created_at_s: float
    executions: tuple[BundledExecution, ...]
    blobs: dict[str, bytes]
    removed: dict[str, float]


class BundleFile(msgspec.Struct, frozen=True):
    """A decoded file, whether it is signed with the secret of this deployment, and whether it has a signature at all."""

    bundle: Bundle
    signed: bool
    has_signature: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Bundle)


def encode_bundle(bundle: Bundle, secret: bytes) -> bytes:
    """Encodes a bundle as a file; signs it if a secret is given.

    Raises:
        BadValue: the secret is too short.
    """
    body = BUNDLE_MAGIC + bytes((BUNDLE_VERSION, SIGNED if secret else UNSIGNED)) + _encoder.encode(bundle)
    body += _signature(secret, body) if secret else b""
    return body + sha256(body).digest()


def decode_bundle(raw: bytes, secret: bytes) -> BundleFile:
    """Decodes and verifies a file.

    Raises:
        ExportRefused: it is not an export, has a later version, or is damaged.
        BadValue: the secret is too short.
    """
    if not raw.startswith(BUNDLE_MAGIC):
        raise ExportRefused("it does not begin as an export does; it is another file, or was changed in transit")
    if len(raw) < _HEADER_BYTES + DIGEST_BYTES or sha256(raw[:-DIGEST_BYTES]).digest() != raw[-DIGEST_BYTES:]:
        raise ExportRefused("it is damaged or was cut short; copy it again, or export anew")
    version, signing = raw[len(BUNDLE_MAGIC) : _HEADER_BYTES]
    if version != BUNDLE_VERSION or signing not in (UNSIGNED, SIGNED):
        advice = "upgrade perdure to read it" if version > BUNDLE_VERSION else "a development version wrote it; export it anew"
        raise ExportRefused(f"its format is version {version}, and this Perdure reads version {BUNDLE_VERSION}; {advice}")
    end = len(raw) - DIGEST_BYTES - (DIGEST_BYTES if signing == SIGNED else 0)
    try:
        bundle = _decoder.decode(raw[_HEADER_BYTES:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExportRefused(f"its content is invalid: {error}") from error
    if any(sha256(blob).hexdigest() != name for name, blob in bundle.blobs.items()) or not bundle.executions:
        raise ExportRefused("its content is invalid: a blob does not match its hash, or there is no execution")
    if secret and signing == SIGNED:
        _ = _signature(secret, raw[:end])  # says so if the secret is too short
    genuine = signing == SIGNED and is_signed(secret, DOMAIN, raw[:end], raw[end:-DIGEST_BYTES])
    return BundleFile(bundle, genuine, signing == SIGNED)


def _signature(secret: bytes, body: bytes) -> bytes:
    return signature(secret, DOMAIN, body, "exports")


EXPORT_ATTEMPTS_MAX = 20
"""How often an execution that changes during the export is read again."""


async def export_bundle(store: ReadOnlyStore, key: Key, children: bool = False) -> Bundle:
    """Exports an execution in its present state; with `children`, also its descendants.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: it cannot be read, or a blob is missing that was not pruned.
    """
    executions: dict[Key, BundledExecution] = {}
    blobs: dict[str, bytes] = {}
    removed: dict[str, float] = {}
    wanted = deque([key])
    while wanted:
        one = wanted.popleft()
        if one in executions or (found := await stored_contents(store, one)) is None:
            continue
        (head, rows), queued = (found[0].head, found[0].payloads), found[1]
        bundled = tuple(BundledMessage(message.key, message.body, message.due_at_s) for message in queued)
        executions[one] = BundledExecution(one, head.program, head.root, head.version, head.status, rows, bundled)
        events = log_format.decode_rows(rows)
        async for name, raw in read_blobs_with_archives(
            store, referenced_blobs((*events, *(messages.decode_message_or_task(message.body) for message in queued)))
        ):
            if raw is None and (at_s := await store.removed_at(name)) is not None:
                removed[name] = at_s
            else:
                blobs[name] = verified_payload(name, raw)
        wanted.extend(started_children(one, events) if children else ())
    if not executions:
        raise NotFound(key)
    return Bundle((await store.store_time()).now_s, tuple(executions.values()), blobs, removed)


def started_children(key: Key, events: Iterable[e.Event]) -> list[Key]:
    """The executions that one has started, each once."""
    spawns = (event.op for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, SpawnOperation))
    return list(dict.fromkeys(Key(key.tenant, spawn.workflow, spawn.id) for spawn in spawns))


async def stored_contents(store: ReadOnlyStore, key: Key) -> tuple[StoredLog, list[QueuedMessage]] | None:
    """Reads the log and the messages of an execution at one version.

    If the execution changes too often for that, a message may be missing that the log has received in the meantime; nothing is lost.
    """
    found = await store.read(key)
    queued: list[QueuedMessage] = []
    for _ in range(EXPORT_ATTEMPTS_MAX):
        if found is None:
            return None
        before, queued = found, await store.messages(key)
        found = await store.read(key)
        if found is not None and found.head.version == before.head.version:
            break
    return None if found is None else (found, queued)


async def read_blobs_with_archives(store: ReadOnlyStore, names: dict[str, int]) -> AsyncGenerator[tuple[str, bytes | None], None]:
    """Yields blobs by name, including what the archives among them refer to and the archives before these; None for a blob that is missing.

    Raises:
        LogDamaged: an archive cannot be read.
    """
    wanted, seen = deque(names.items()), set[str]()
    while wanted:
        name, size_bytes = wanted.popleft()
        if name in seen:
            continue
        seen.add(name)
        raw = await store.blob(name)
        yield name, raw
        if size_bytes == ARCHIVE_SIZE and raw is not None:
            wanted.extend(referenced_blobs(log_format.decode_rows(archived_rows(name, raw))).items())


WHY_PAUSED = "imported"
IMPORT_ATTEMPTS_MAX = 3
"""How often an import is repeated because the store has begun a new epoch."""


class ImportedExecution(msgspec.Struct, frozen=True):
    """An imported execution and its status."""

    key: Key
    status: str


def expect_signed(found: BundleFile, unsigned: bool) -> Bundle:
    """Returns the content of a file that is signed with the secret of this deployment; with `unsigned`, of any file.

    Raises:
        ExportRefused: it is not signed.
    """
    if not found.signed and not unsigned:
        raise ExportRefused("it is not signed with the PERDURE_SIGNING_SECRET of this deployment; pass --unsigned (unsigned=True) if you trust its source")
    return found.bundle


async def import_bundle(store: Store, bundle: Bundle, *, id: str | None = None, paused: bool = False) -> list[ImportedExecution]:
    """Creates the executions of a bundle in this store: the first under `id`, if one is given; with `paused`, all of them paused.

    Each is created by one commit, without a holder, and all by one call of the store. Messages that the logs imply, such as tasks for queues and starts of
    awaited children, are sent again.

    Raises:
        AlreadyExists: one of them exists here; nothing was changed.
        ExportRefused: a log in the bundle is invalid.
    """
    first = bundle.executions[0].key
    names = {} if id is None else {first: first._replace(id=checked_name(id, "id"))}
    keys = [names.get(one.key, one.key) for one in bundle.executions]
    for _ in range(IMPORT_ATTEMPTS_MAX):
        if taken := await store.heads(HeadFilter(keys=tuple(keys), limit=1)):
            raise AlreadyExists(taken[0].key)
        moment = await store.store_time()
        try:
            commits = [_import_commit(one, bundle, names, moment, paused) for one in bundle.executions]
        except (LogDamaged, KeyError, ValueError, IndexError) as error:
            raise ExportRefused(f"a log in it is invalid: {error!r}") from error
        if bundle.removed:
            await blob_removal_of(store).note(bundle.removed)
        answers = await store.commit(_with_blobs(commits, bundle.blobs))
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Conflict):
                raise AlreadyExists(commit.key)
        if not any(isinstance(answer, Superseded) for answer in answers):
            return [ImportedExecution(commit.key, commit.status) for commit in commits]
    raise StoreUnavailable("the import failed: the store began a new epoch during each attempt. Nothing was imported; run the import again")


def _with_blobs(commits: Sequence[Commit], blobs: Mapping[str, bytes]) -> list[Commit]:
    return [msgspec.structs.replace(commits[0], blobs=tuple(blobs.items())), *commits[1:]]


def _import_commit(one: BundledExecution, bundle: Bundle, names: Mapping[Key, Key], moment: StoreTime, paused: bool) -> Commit:
    """The commit that creates one execution: its log, with keys and message numbers replaced by those of this store, and its messages."""
    first = bundle.executions[0]
    key, rows = names.get(one.key, one.key), [log_format.decode_row(row) for row in one.rows]
    decoded = [messages.decode_execution_message(bundled.body) for bundled in one.messages]
    change = _Renumbering(names, 1 + max(_message_numbers([*decoded, *(event for row in rows for event in row)]), default=-1))
    rows = [[rewrite_parts(event, change) for event in row] for row in rows]
    compacted = next((row for row in reversed(rows) if isinstance(row[-1], e.SnapshotEvent)), None)
    behind = rows if compacted is None else rows[rows.index(compacted) + 1 :]
    events = [event for row in behind for event in row]
    root = names.get(first.key, first.key) if one.root == first.root else one.root
    execution = fold_events(key, (*(compacted or ()), *events), root)
    version = execution.version - len(events)
    if execution.version != one.version:
        raise LogDamaged(f"the log of {one.key} ends at version {execution.version}, but its head is at {one.version}")
    if paused and execution.ended is None and execution.parked is None:
        events.append(e.ParkedEvent("paused", max(moment.now_s, execution.now_s), (WHY_PAUSED,)))
        execution.apply(events[-1])
    attributes = (
        execution.attributes
        if execution.started is not None
        else next((message.attributes for message in decoded if isinstance(message, messages.StartMessage)), ())
    )
    answered = {message.path for message in decoded if isinstance(message, messages.SettleMessage)}
    sends = [
        OutgoingMessage(key, bundled.key, messages.encode_message(rewrite_parts(message, change)), bundled.due_at_s)
        for bundled, message in zip(one.messages, decoded, strict=True)
    ]
    return Commit(
        key=key,
        epoch=moment.epoch,
        holder=f"import-{uuid4().hex}",
        version=version,
        program=one.program,
        root=root,
        creates=True,
        created_at_s=next((event.at_s for event in (execution.started, execution.ended) if event is not None), None),
        row=log_format.encode_row(events) if events else b"",
        count=len(events),
        compacted=None if compacted is None else log_format.encode_row(compacted),
        status=execution.status,
        wake_at_s=moment.now_s if needs_holder(execution) else execution.wake_at(),
        ended_at_s=None if execution.ended is None else execution.ended.at_s,
        release=True,
        messages=(*sends, *(_without_opening(send, bundle, names) for send in outstanding_messages(execution, answered))),
        attributes=(*failure_attributes(execution), *index_attributes(attributes)),
    )


def _without_opening(send: OutgoingMessage, bundle: Bundle, names: Mapping[Key, Key]) -> OutgoingMessage:
    """Makes a start message that targets another execution of the bundle create nothing, since the bundle creates that one itself."""
    is_bundled = any(names.get(one.key, one.key) == send.to for one in bundle.executions)
    return msgspec.structs.replace(send, opens=None) if is_bundled else send


def _message_numbers(things: Iterable[e.Event | messages.ExecutionMessage]) -> Iterable[int]:
    """The message numbers of the other store that still occur in logs."""
    return (part.number for thing in things for part in parts_of(thing) if isinstance(part, e.MessageArrivedEvent | e.MessageRefusedEvent | ReceivedMessage))


class _Renumbering:
    """Replaces keys by those of this store, and moves the message numbers of the other store below all numbers that this store will give."""

    def __init__(self, names: Mapping[Key, Key], shift: int) -> None:
        self._names = names
        self._shift = max(shift, 0)

    def __call__(self, thing: object) -> object:
        match thing:
            case Key():
                return self._names.get(thing, thing)
            case e.MessageArrivedEvent(number) | e.MessageRefusedEvent(number) | ReceivedMessage(number) if self._shift:
                return msgspec.structs.replace(thing, number=number - self._shift)
            case e.ReceivedEvent(_, numbers) if self._shift:
                return msgspec.structs.replace(thing, numbers=tuple(number - self._shift for number in numbers))
            case e.OpenedEvent(path, KeepOperation(role="reply") as op) | RecalledResult(path, KeepOperation(role="reply") as op) if self._shift:
                number = int(op.label) - self._shift
                return msgspec.structs.replace(thing, path=reply_path(path[:-1], number), op=msgspec.structs.replace(op, label=str(number)))
        return thing
