"""Streams the live text of the steps of an execution: what they write before they have an outcome.

A reader that comes late, or comes back, gets what is there again; each piece says where in its text it belongs, so nothing appears twice.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator

import msgspec

from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.stores.live_text_records import LIVE_TEXT, LiveTextChunk, decode_chunk, execution_prefix
from perdure.stores.records import PagePosition, RecordFilter, record_position

POLL_S, IDLE_POLL_S = 0.1, 0.5
"""How often the store is asked while a text grows, and while none does: a model may think for minutes before it goes on."""

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
    """What a reader has of one path."""

    def __init__(self) -> None:
        self.attempt = self.take = -1
        self.length = 0
        self.is_complete = False

    def piece(self, chunk: LiveTextChunk, number: int) -> LiveText | None:
        """The piece of a chunk that the reader lacks, if any."""
        if (chunk.attempt, chunk.take) < (self.attempt, self.take):
            return None
        if (chunk.attempt, chunk.take) > (self.attempt, self.take):
            self.attempt, self.take, self.length, self.is_complete = chunk.attempt, chunk.take, 0, False
            if chunk.offset:  # what came before it has expired
                return None
        end = chunk.offset + len(chunk.text)
        if chunk.offset > self.length or (end <= self.length and (self.is_complete or not chunk.is_complete)):
            return None
        begin, self.length, self.is_complete = min(self.length, end), max(self.length, end), chunk.is_complete
        return LiveText(number, chunk.path, chunk.attempt, begin, chunk.text[begin - chunk.offset :], chunk.is_complete)


async def stream_live_text(access: StoreAccess, key: Key, after: int, follow: bool) -> AsyncGenerator[LiveText, None]:
    """Yields the live text of an execution: what there is, and with `follow` what comes, until the execution ends.

    Raises:
        NotFound: there is no such execution.
    """
    shown, number, silent_s = dict[str, _ShownText](), after + 1, IDLE_POLL_S
    while True:
        has_ended, grew = (await access.head(key)).ended_at_s is not None, False
        async for chunk in _chunks(access, key):
            piece = shown.setdefault(chunk.path, _ShownText()).piece(chunk, number + 1)
            if piece is not None:
                grew, number = True, piece.number
                yield piece
        if has_ended or not follow:
            return
        silent_s = 0.0 if grew else silent_s + POLL_S
        await asyncio.sleep(POLL_S if silent_s < IDLE_POLL_S else IDLE_POLL_S)


async def _chunks(access: StoreAccess, key: Key) -> AsyncGenerator[LiveTextChunk, None]:
    after: PagePosition | None = None
    while True:
        found = await access.store.records(RecordFilter(key.tenant, LIVE_TEXT, execution_prefix(key), after=after, limit=PAGE))
        for chunk in _latest([decode_chunk(one.value) for one in found]):
            yield chunk
        if len(found) < PAGE:
            return
        after = record_position(found[-1])


def _latest(chunks: list[LiveTextChunk]) -> Iterator[LiveTextChunk]:
    """The chunks without those of attempts that another one has followed, as a reader that comes late has no use for them."""
    last = {chunk.path: (chunk.attempt, chunk.take) for chunk in chunks}
    return (chunk for chunk in chunks if (chunk.attempt, chunk.take) == last[chunk.path])
