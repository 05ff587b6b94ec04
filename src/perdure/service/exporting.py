"""Exporting: an execution as it stands, with its mail, the blobs that it refers to and, if wanted, all below it. Nothing is changed."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable

from perdure.core import events as e
from perdure.core import log, messages
from perdure.core.errors import NotFound
from perdure.core.mail import Mail
from perdure.core.ops import Spawn
from perdure.core.paths import Key
from perdure.core.values import intact
from perdure.core.walk import ARCHIVE, blobs_of
from perdure.service.archives import rows_of
from perdure.service.bundle import Bundle, Exported, Message
from perdure.stores.base import Log
from perdure.stores.looking import Looking

TRIES_MAX = 20
"""How often it is looked again at one that went on meanwhile."""


async def export(looking: Looking, key: Key, children: bool = False) -> Bundle:
    """An execution as it stands; with `children`, also those that it has started, those that they have started, and so on.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: it can't be read, or a blob is missing that was not pruned.
    """
    executions: dict[Key, Exported] = {}
    blobs: dict[str, bytes] = {}
    removed: dict[str, float] = {}
    wanted = deque([key])
    while wanted:
        one = wanted.popleft()
        if one in executions or (found := await contents(looking, one)) is None:
            continue
        (head, rows), mail = (found[0].head, found[0].rows), found[1]
        letters = tuple(Message(letter.key, letter.body, letter.due_at_s) for letter in mail)
        executions[one] = Exported(one, head.program, head.root, head.version, head.status, rows, letters)
        events = log.decode_all(rows)
        async for name, raw in referred(looking, blobs_of((*events, *(messages.decode(letter.body) for letter in mail)))):
            if raw is None and (at_s := await looking.removed_at(name)) is not None:
                removed[name] = at_s
            else:
                blobs[name] = intact(name, raw)
        wanted.extend(started(one, events) if children else ())
    if not executions:
        raise NotFound(key)
    return Bundle((await looking.moment()).now_s, tuple(executions.values()), blobs, removed)


def started(key: Key, events: Iterable[e.Event]) -> list[Key]:
    """The executions that one has started, each once."""
    spawns = (event.op for event in events if isinstance(event, e.Opened) and isinstance(event.op, Spawn))
    return list(dict.fromkeys(Key(key.tenant, spawn.workflow, spawn.id) for spawn in spawns))


async def contents(looking: Looking, key: Key) -> tuple[Log, list[Mail]] | None:
    """The log and the mail of an execution at one moment, or nearly so: then, what was in the mail and has been read since stands in the log."""
    found = await looking.read(key)
    mail: list[Mail] = []
    for _ in range(TRIES_MAX):
        if found is None:
            return None
        before, mail = found, await looking.mail(key)
        found = await looking.read(key)
        if found is not None and found.head.version == before.head.version:
            break
    return None if found is None else (found, mail)


async def referred(looking: Looking, names: dict[str, int]) -> AsyncGenerator[tuple[str, bytes | None], None]:
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
        if size_bytes == ARCHIVE and raw is not None:
            wanted.extend(blobs_of(log.decode_all(rows_of(name, raw))).items())
