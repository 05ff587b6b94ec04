"""Archives: what compactions of a log have replaced, where that is kept; one names the one before it, so they are read from the newest back."""

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
    """What one compaction has replaced: its `name` is the SHA-256 of its bytes. `turns` says of each loop, by its path, the first and the last turn that
    was forgotten then. Of one that was pruned, only that and when is known, and `turns` are also those of
    the archives before it. Times are seconds since 1970."""

    key: Key
    name: str
    archived_at_s: float
    turns: Mapping[str, tuple[int, int]]
    events: int = 0
    size_bytes: int = 0
    pruned_at_s: float | None = None

    @property
    def missing(self) -> bool:
        """Whether it is not there, though nothing says that it was pruned."""
        return not self.size_bytes and self.pruned_at_s is None


class ArchiveContent(msgspec.Struct, frozen=True):
    """An archive, with the events in it: none, if it is not there."""

    archive: LogArchive
    events: Sequence[e.Event]


def archived_rows(name: str, raw: bytes) -> list[bytes]:
    """The rows of a log that an archive holds.

    Raises:
        LogDamaged: it is not what it was, or no archive.
    """
    try:
        return _rows.decode(verified_payload(name, raw))
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"an archive can't be read: {error}") from error


async def archives_of(looking: ReadOnlyStore, key: Key) -> list[LogArchive]:
    """The archives of an execution, the newest first; the last may be one that was pruned.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: something of it can't be read.
    """
    found = await looking.read(key)
    if found is None:
        raise NotFound(key)
    return [one.archive async for one in archive_contents(looking, key, log_format.decode_rows(found.payloads))]


async def archive_contents(looking: ReadOnlyStore, key: Key, events: Sequence[e.Event]) -> AsyncGenerator[ArchiveContent, None]:
    """The archives that a log of these events names, and those that these name, up to the first that is not there."""
    while (named := next((event for event in events if isinstance(event, e.SnapshotEvent)), None)) is not None and named.archive is not None:
        after = _forgotten(key, events)
        raw = await looking.blob(named.archive)
        if raw is None:
            turns = {loop: (1, last) for loop, last in after.items()}
            yield ArchiveContent(LogArchive(key, named.archive, named.at_s, turns, pruned_at_s=await looking.removed_at(named.archive)), ())
            return
        events = log_format.decode_rows(archived_rows(named.archive, raw))
        before = _forgotten(key, events)
        turns = {loop: (before.get(loop, 0) + 1, last) for loop, last in after.items() if last > before.get(loop, 0)}
        copied = next((number + 1 for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), 0)
        yield ArchiveContent(LogArchive(key, named.archive, named.at_s, turns, len(events) - copied, len(raw)), events)


def _forgotten(key: Key, events: Sequence[e.Event]) -> dict[str, int]:
    """How many turns of each loop had been forgotten where a log begins: by the compaction that it begins with, or by what it is a fork of."""
    end = next((number + 1 for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), None)
    if end is None:
        begins = next((event.fork.trimmed for event in events if isinstance(event, e.ForkedEvent)), ())
        return {path_text(loop): turns for loop, turns in begins}
    return {path_text(loop): turns for loop, turns in fold_events(key, events[:end]).trimmed.items() if turns}
