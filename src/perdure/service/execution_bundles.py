"""A bundle: executions as a file that can be carried elsewhere, whole or not at all. See docs/reference/export.md for the format.

Its end is the SHA-256 of all before it, so a change of any byte is noticed; before that, if somebody signed it, stands a HMAC under
a secret, so that who has not got it can make none.

Exporting: an execution as it stands, with its mail, the blobs that it refers to and, if wanted, all below it. Nothing is changed.

Importing: executions from elsewhere go on here, from where they stood. What was being done there counts as interrupted.

Nothing tells whether the other goes on as well: what is imported runs a second time if it does, from where it was exported on.
"""

import hmac
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
from perdure.core.errors import AlreadyExists, BadValue, ExportRefused, LogDamaged, NotFound, StoreUnavailable
from perdure.core.execution import needs_holder
from perdure.core.mailbox import ReceivedMessage
from perdure.core.operations import KeepOperation, SpawnOperation
from perdure.core.paths import Key
from perdure.core.recalled import RecalledResult
from perdure.core.replay import fold_events
from perdure.core.traversal import ARCHIVE_SIZE, parts_of, referenced_blobs, rewrite_parts
from perdure.core.values import verified_payload
from perdure.service.log_archives import archived_rows
from perdure.stores.blob_marks import blob_removal_of
from perdure.stores.protocol import Commit, Conflict, HeadFilter, ReadOnlyStore, Store, StoredLog, StoreTime, Superseded

BUNDLE_MAGIC = b"\x89perdure\r\n"
"""How a file begins. What takes it for text, and changes the ends of its lines, is found out at once."""

BUNDLE_VERSION = 2
UNSIGNED, SIGNED = 0, 1
DIGEST_BYTES = 32
SECRET_BYTES_MIN = 16
_HEADER_BYTES = len(BUNDLE_MAGIC) + 2


class BundledMessage(msgspec.Struct, frozen=True):
    """A message that waited for the execution: its key, its encoded body, and when it is due in seconds since 1970."""

    key: str
    body: bytes
    due_at_s: float


class BundledExecution(msgspec.Struct, frozen=True):
    """An execution: whose, the program that its head names, the topmost ancestor, the rows of its log and its messages, oldest first."""

    key: Key
    program: str
    root: Key
    version: int
    status: str
    rows: tuple[bytes, ...]
    messages: tuple[BundledMessage, ...]


class Bundle(msgspec.Struct, frozen=True):
    """Executions, of which the first is the one that was asked for and the others are below it, and the blobs that they refer to, by hash; of archives
    that were pruned before, when that was."""

    created_at_s: float
    executions: tuple[BundledExecution, ...]
    blobs: dict[str, bytes]
    removed: dict[str, float]


class BundleFile(msgspec.Struct, frozen=True):
    """What a file holds, and whether somebody with the secret has signed it."""

    bundle: Bundle
    signed: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Bundle)


def encode_bundle(bundle: Bundle, secret: bytes) -> bytes:
    """The file of a bundle, signed if there is a secret.

    Raises:
        BadValue: the secret is too short.
    """
    body = BUNDLE_MAGIC + bytes((BUNDLE_VERSION, SIGNED if secret else UNSIGNED)) + _encoder.encode(bundle)
    body += _signature(secret, body) if secret else b""
    return body + sha256(body).digest()


def decode_bundle(raw: bytes, secret: bytes) -> BundleFile:
    """What a file holds.

    Raises:
        ExportRefused: it is no export, one of a later version, or damaged.
        BadValue: the secret is too short.
    """
    if not raw.startswith(BUNDLE_MAGIC):
        raise ExportRefused("it does not begin as one; it is another file, or was changed on its way")
    if len(raw) < _HEADER_BYTES + DIGEST_BYTES or sha256(raw[:-DIGEST_BYTES]).digest() != raw[-DIGEST_BYTES:]:
        raise ExportRefused("it is damaged or was cut short; copy it again, or export anew")
    version, signing = raw[len(BUNDLE_MAGIC) : _HEADER_BYTES]
    if version != BUNDLE_VERSION or signing not in (UNSIGNED, SIGNED):
        advice = "upgrade perdure to read it" if version > BUNDLE_VERSION else "a development version wrote it; export it anew"
        raise ExportRefused(f"it is of format {version}, and known here is {BUNDLE_VERSION}; {advice}")
    end = len(raw) - DIGEST_BYTES - (DIGEST_BYTES if signing == SIGNED else 0)
    try:
        bundle = _decoder.decode(raw[_HEADER_BYTES:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExportRefused(f"what it holds makes no sense: {error}") from error
    if any(sha256(blob).hexdigest() != name for name, blob in bundle.blobs.items()) or not bundle.executions:
        raise ExportRefused("what it holds makes no sense: its blobs are not what they are called, or it has no execution")
    genuine = signing == SIGNED and bool(secret) and hmac.compare_digest(_signature(secret, raw[:end]), raw[end:-DIGEST_BYTES])
    return BundleFile(bundle, genuine)


def _signature(secret: bytes, body: bytes) -> bytes:
    if len(secret) < SECRET_BYTES_MIN:
        raise BadValue("the secret of exports", f"{len(secret)} bytes", f"at least {SECRET_BYTES_MIN} bytes; set PERDURE_SIGNING_SECRET to a long random text")
    return hmac.digest(secret, b"perdure export\0" + body, sha256)


EXPORT_ATTEMPTS_MAX = 20
"""How often it is looked again at one that went on meanwhile."""


async def export_bundle(looking: ReadOnlyStore, key: Key, children: bool = False) -> Bundle:
    """An execution as it stands; with `children`, also those that it has started, those that they have started, and so on.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: it can't be read, or a blob is missing that was not pruned.
    """
    executions: dict[Key, BundledExecution] = {}
    blobs: dict[str, bytes] = {}
    removed: dict[str, float] = {}
    wanted = deque([key])
    while wanted:
        one = wanted.popleft()
        if one in executions or (found := await stored_contents(looking, one)) is None:
            continue
        (head, rows), mail = (found[0].head, found[0].payloads), found[1]
        letters = tuple(BundledMessage(letter.key, letter.body, letter.due_at_s) for letter in mail)
        executions[one] = BundledExecution(one, head.program, head.root, head.version, head.status, rows, letters)
        events = log_format.decode_rows(rows)
        async for name, raw in read_blobs_with_archives(
            looking, referenced_blobs((*events, *(messages.decode_message_or_task(letter.body) for letter in mail)))
        ):
            if raw is None and (at_s := await looking.removed_at(name)) is not None:
                removed[name] = at_s
            else:
                blobs[name] = verified_payload(name, raw)
        wanted.extend(started_children(one, events) if children else ())
    if not executions:
        raise NotFound(key)
    return Bundle((await looking.store_time()).now_s, tuple(executions.values()), blobs, removed)


def started_children(key: Key, events: Iterable[e.Event]) -> list[Key]:
    """The executions that one has started, each once."""
    spawns = (event.op for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, SpawnOperation))
    return list(dict.fromkeys(Key(key.tenant, spawn.workflow, spawn.id) for spawn in spawns))


async def stored_contents(looking: ReadOnlyStore, key: Key) -> tuple[StoredLog, list[QueuedMessage]] | None:
    """The log and the mail of an execution at one moment, or nearly so: then, what was in the mail and has been read since stands in the log."""
    found = await looking.read(key)
    mail: list[QueuedMessage] = []
    for _ in range(EXPORT_ATTEMPTS_MAX):
        if found is None:
            return None
        before, mail = found, await looking.messages(key)
        found = await looking.read(key)
        if found is not None and found.head.version == before.head.version:
            break
    return None if found is None else (found, mail)


async def read_blobs_with_archives(looking: ReadOnlyStore, names: dict[str, int]) -> AsyncGenerator[tuple[str, bytes | None], None]:
    """Blobs by name, those that the archives among them refer to, and the archives before these; None in place of what is missing.

    Raises:
        LogDamaged: an archive is none.
    """
    wanted, seen = deque(names.items()), set[str]()
    while wanted:
        name, size_bytes = wanted.popleft()
        if name in seen:
            continue
        seen.add(name)
        raw = await looking.blob(name)
        yield name, raw
        if size_bytes == ARCHIVE_SIZE and raw is not None:
            wanted.extend(referenced_blobs(log_format.decode_rows(archived_rows(name, raw))).items())


WHY_PAUSED = "imported"
IMPORT_ATTEMPTS_MAX = 3
"""How often it is begun anew when the store begins an epoch meanwhile."""


class ImportedExecution(msgspec.Struct, frozen=True):
    """An execution that is there now, and how it stands."""

    key: Key
    status: str


def expect_signed(found: BundleFile, unsigned: bool) -> Bundle:
    """What a file holds, if it was signed with the secret of this deployment, or if that does not matter.

    Raises:
        ExportRefused: it was not.
    """
    if not found.signed and not unsigned:
        raise ExportRefused(
            "it was not signed with the PERDURE_SIGNING_SECRET of this deployment; take it with --unsigned (unsigned=True) if you trust who made it"
        )
    return found.bundle


async def import_bundle(store: Store, bundle: Bundle, *, id: str | None = None, paused: bool = False) -> list[ImportedExecution]:
    """Have the executions of a bundle here; the first under another `id`, if one is given; `paused`, all of them until they are resumed.

    Each is made by one commit, held by nobody, and all of them by one call of the store. What the logs imply is sent anew: work that
    waited on queues, and the starts of awaited children.

    Raises:
        AlreadyExists: there is one of them here; nothing was changed.
        ExportRefused: a log in it makes no sense.
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
            raise ExportRefused(f"a log in it makes no sense: {error!r}") from error
        if bundle.removed:
            await blob_removal_of(store).note(bundle.removed)
        answers = await store.commit(_with_blobs(commits, bundle.blobs))
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Conflict):
                raise AlreadyExists(commit.key)
        if not any(isinstance(answer, Superseded) for answer in answers):
            return [ImportedExecution(commit.key, commit.status) for commit in commits]
    raise StoreUnavailable("the store begins one epoch after the other; nothing was imported, try again")


def _with_blobs(commits: Sequence[Commit], blobs: Mapping[str, bytes]) -> list[Commit]:
    return [msgspec.structs.replace(commits[0], blobs=tuple(blobs.items())), *commits[1:]]


def _import_commit(one: BundledExecution, bundle: Bundle, names: Mapping[Key, Key], moment: StoreTime, paused: bool) -> Commit:
    """What makes one execution: its log with what is known here by another name or number, and its mail."""
    first = bundle.executions[0]
    key, rows = names.get(one.key, one.key), [log_format.decode_row(row) for row in one.rows]
    letters = [messages.decode_execution_message(letter.body) for letter in one.messages]
    change = _Renumbering(names, 1 + max(_message_numbers([*letters, *(event for row in rows for event in row)]), default=-1))
    rows = [[rewrite_parts(event, change) for event in row] for row in rows]
    compacted = next((row for row in reversed(rows) if isinstance(row[-1], e.SnapshotEvent)), None)
    behind = rows if compacted is None else rows[rows.index(compacted) + 1 :]
    events = [event for row in behind for event in row]
    root = names.get(first.key, first.key) if one.root == first.root else one.root
    execution = fold_events(key, (*(compacted or ()), *events), root)
    version = execution.version - len(events)
    if execution.version != one.version:
        raise LogDamaged(f"the log of {one.key} goes to {execution.version}, and its head is at {one.version}")
    if paused and execution.ended is None and execution.parked is None:
        events.append(e.ParkedEvent("paused", max(moment.now_s, execution.now_s), (WHY_PAUSED,)))
        execution.apply(events[-1])
    attributes = (
        execution.attributes if execution.started is not None else next((said.attributes for said in letters if isinstance(said, messages.StartMessage)), ())
    )
    answered = {said.path for said in letters if isinstance(said, messages.SettleMessage)}
    sends = [
        OutgoingMessage(key, letter.key, messages.encode_message(rewrite_parts(said, change)), letter.due_at_s)
        for letter, said in zip(one.messages, letters, strict=True)
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
        attributes=index_attributes(attributes),
    )


def _without_opening(send: OutgoingMessage, bundle: Bundle, names: Mapping[Key, Key]) -> OutgoingMessage:
    """A start of what comes along opens nothing: the other does not have to wait for it."""
    comes_along = any(names.get(one.key, one.key) == send.to for one in bundle.executions)
    return msgspec.structs.replace(send, opens=None) if comes_along else send


def _message_numbers(things: Iterable[e.Event | messages.ExecutionMessage]) -> Iterable[int]:
    """The numbers that the mail of the other store had, as far as they matter still."""
    return (part.number for thing in things for part in parts_of(thing) if isinstance(part, e.MessageArrivedEvent | e.MessageRefusedEvent | ReceivedMessage))


class _Renumbering:
    """Names as they are here, and the numbers of mail put before all that the mail of this store will have."""

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
