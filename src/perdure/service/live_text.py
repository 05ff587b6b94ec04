"""Streams the live text of the steps of an execution: what they write before they have an outcome.

A reader that comes late, or comes back, gets what is there again; each piece says where in its text it belongs, so nothing appears twice.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator

import msgspec

from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.stores.live_text_records import CHUNK_CHARACTERS, LIVE_TEXT, LiveTextChunk, decode_chunk, execution_prefix, path_prefix
from perdure.stores.records import PagePosition, RecordFilter, record_position

POLL_S, IDLE_POLL_S = 0.1, 0.5
"""How often the store is asked for what is new of texts that grow, and for all texts: others may begin, and a model may think for minutes before it goes on."""

PAGE = 500


class LiveText(msgspec.Struct, frozen=True):
    """A piece of what an attempt of a step writes: `text` takes the place of everything from `offset` on in the text of `path`.

    At `offset` 0 the text begins anew: with another `attempt` if the one before was lost or has failed, so what it wrote does not count. `is_complete`: the
    attempt writes no more; its outcome follows in the log. Numbers only grow; a reader that comes back passes the last one as `after`.
    """

    number: int
    path: str
    attempt: int
    offset: int
    text: str
    is_complete: bool = False


class _ShownText:
    """What a reader has of one path. It has not grown for `silent_s`, and the records up to `behind` change no more."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.attempt = self.take = -1
        self.length = 0
        self.is_complete = False
        self.silent_s = IDLE_POLL_S
        self.behind: PagePosition | None = None

    def unread(self, execution: Key) -> RecordFilter:
        """The records of the path that the reader may lack: the last one that it has, which may have grown, and those that follow it."""
        return RecordFilter(execution.tenant, LIVE_TEXT, path_prefix(execution, self.path), after=self.behind, limit=PAGE)

    def piece(self, chunk: LiveTextChunk, position: PagePosition, number: int) -> LiveText | None:
        """The piece of a chunk, the record before `position`, that the reader lacks, if any."""
        if (chunk.attempt, chunk.take) < (self.attempt, self.take):
            return None
        if (chunk.attempt, chunk.take) > (self.attempt, self.take):
            self.attempt, self.take, self.length, self.is_complete = chunk.attempt, chunk.take, 0, False
            if chunk.offset:  # what came before it has expired
                return None
        end = chunk.offset + len(chunk.text)
        if chunk.offset > self.length or (end <= self.length and (self.is_complete or not chunk.is_complete)):
            return None
        self.silent_s = 0.0
        if len(chunk.text) == CHUNK_CHARACTERS:
            self.behind = position
        begin, self.length, self.is_complete = min(self.length, end), max(self.length, end), chunk.is_complete
        return LiveText(number, chunk.path, chunk.attempt, begin, chunk.text[begin - chunk.offset :], chunk.is_complete)


async def stream_live_text(access: StoreAccess, key: Key, after: int, follow: bool) -> AsyncGenerator[LiveText, None]:
    """Yields the live text of an execution: what there is, and with `follow` what comes, until the execution ends.

    Raises:
        NotFound: there is no such execution.
    """
    shown, number, whole_s = dict[str, _ShownText](), after + 1, 0.0
    everything = RecordFilter(key.tenant, LIVE_TEXT, execution_prefix(key), limit=PAGE)
    while True:
        has_ended, growing = (await access.head(key)).ended_at_s is not None, [text for text in shown.values() if text.silent_s < IDLE_POLL_S]
        is_whole = has_ended or not growing or whole_s >= IDLE_POLL_S
        whole_s = 0.0 if is_whole else whole_s + POLL_S
        for text in growing:
            text.silent_s += POLL_S
        for which in [everything] if is_whole else [text.unread(key) for text in growing]:
            async for position, chunk in _chunks(access, which):
                text = shown.setdefault(chunk.path, _ShownText(chunk.path))
                piece = text.piece(chunk, position, number + 1)
                if piece is not None:
                    number = piece.number
                    yield piece
        if has_ended or not follow:
            return
        await asyncio.sleep(POLL_S if any(text.silent_s < IDLE_POLL_S for text in shown.values()) else IDLE_POLL_S)


async def _chunks(access: StoreAccess, which: RecordFilter) -> AsyncGenerator[tuple[PagePosition, LiveTextChunk], None]:
    while True:
        found = await access.store.records(which)
        for one in _latest([(record_position(record), decode_chunk(record.value)) for record in found]):
            yield one
        if len(found) < which.limit:
            return
        which = msgspec.structs.replace(which, after=record_position(found[-1]))


def _latest(chunks: list[tuple[PagePosition, LiveTextChunk]]) -> Iterator[tuple[PagePosition, LiveTextChunk]]:
    """The chunks without those of attempts that another one has followed, as a reader that comes late has no use for them."""
    last = {chunk.path: (chunk.attempt, chunk.take) for _, chunk in chunks}
    return ((position, chunk) for position, chunk in chunks if (chunk.attempt, chunk.take) == last[chunk.path])
