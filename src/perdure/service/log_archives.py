"""Reads archives, the parts of a log that compactions have replaced. Each archive names the one before it, so they are read newest first."""

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import LogDamaged, NotFound
from perdure.core.paths import Key, path_text
from perdure.core.replay import fold_events
from perdure.core.values import verified_payload
from perdure.stores.protocol import ReadOnlyStore

_rows: msgspec.msgpack.Decoder[list[bytes]] = msgspec.msgpack.Decoder(list[bytes])


class LogArchive(msgspec.Struct, frozen=True):
    """The part of a log that one compaction replaced. `name` is the SHA-256 of its bytes; times are seconds since 1970.

    `turns` has, by the path of each loop, the first and the last iteration that this compaction has forgotten. For a pruned archive only `turns` and the time
    of pruning are known, and `turns` includes those of the archives before it.
    """

    key: Key
    name: str
    archived_at_s: float
    turns: Mapping[str, tuple[int, int]]
    events: int = 0
    size_bytes: int = 0
    pruned_at_s: float | None = None

    @property
    def missing(self) -> bool:
        """Whether the archive is absent without a record that it was pruned."""
        return not self.size_bytes and self.pruned_at_s is None


class ArchiveContent(msgspec.Struct, frozen=True):
    """An archive with its events; no events if it is absent."""

    archive: LogArchive
    events: Sequence[e.Event]


def archived_rows(name: str, raw: bytes) -> list[bytes]:
    """Decodes the rows of a log that an archive holds.

    Raises:
        LogDamaged: it was altered, or is no archive.
    """
    try:
        return _rows.decode(verified_payload(name, raw))
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"an archive can't be read: {error}") from error


async def archives_of(store: ReadOnlyStore, key: Key) -> list[LogArchive]:
    """Lists the archives of an execution, newest first. The last may have been pruned.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: a part of it cannot be read.
    """
    found = await store.read(key)
    if found is None:
        raise NotFound(key)
    return [one.archive async for one in archive_contents(store, key, log_format.decode_rows(found.payloads))]


async def archive_contents(store: ReadOnlyStore, key: Key, events: Sequence[e.Event]) -> AsyncGenerator[ArchiveContent, None]:
    """Yields the archive that a log names, the one that this names, and so on, up to the first that is absent."""
    while (named := next((event for event in events if isinstance(event, e.SnapshotEvent)), None)) is not None and named.archive is not None:
        after = _forgotten(key, events)
        raw = await store.blob(named.archive)
        if raw is None:
            turns = {loop: (1, last) for loop, last in after.items()}
            yield ArchiveContent(LogArchive(key, named.archive, named.at_s, turns, pruned_at_s=await store.removed_at(named.archive)), ())
            return
        events = log_format.decode_rows(archived_rows(named.archive, raw))
        before = _forgotten(key, events)
        turns = {loop: (before.get(loop, 0) + 1, last) for loop, last in after.items() if last > before.get(loop, 0)}
        copied = next((number + 1 for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), 0)
        yield ArchiveContent(LogArchive(key, named.archive, named.at_s, turns, len(events) - copied, len(raw)), events)


def _forgotten(key: Key, events: Sequence[e.Event]) -> dict[str, int]:
    """How many iterations of each loop were forgotten where a log begins: by the compaction that it begins with, or in the execution that it forks."""
    end = next((number + 1 for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), None)
    if end is None:
        begins = next((event.fork.trimmed for event in events if isinstance(event, e.ForkedEvent)), ())
        return {path_text(loop): turns for loop, turns in begins}
    return {path_text(loop): turns for loop, turns in fold_events(key, events[:end]).trimmed.items() if turns}
