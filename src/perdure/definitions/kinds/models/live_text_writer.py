"""Writes the live text of a step: what a model has answered so far, several times a second.

It is a help for readers and no part of the outcome: a store that can't take it for a while delays it, and the step goes on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.code.step_environment import StepInfo, current_resources, step_info
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import path_text
from perdure.stores.live_text_records import CHUNK_CHARACTERS, KEPT_S, LiveTextChunk, chunk_key, decode_chunk, encode_chunk
from perdure.stores.protocol import ChangeAnswer, Post, Store
from perdure.stores.records import RecordChange, RecordKey, Stale

logger = logging.getLogger("perdure.live_text")

FLUSH_S = 0.2
"""How often new text is written."""


@dataclasses.dataclass
class _Take:
    """A text since it was last begun anew, and how far it is written: `written` characters, the last chunk from `offset` on, as a record at `version`.

    `is_unsure`: the store did not answer a write of this chunk, so the record may be further than `version`.
    """

    number: int = 0
    text: str = ""
    written: int = 0
    offset: int = 0
    version: int = 0
    is_unsure: bool = False


class LiveTextWriter:
    """The text of one attempt of a step."""

    def __init__(self, store: Store, info: StepInfo) -> None:
        self._store, self._info = store, info
        self._take = _Take()
        self._expires_at_s: float | None = None
        self._is_over = False

    def write(self, text: str) -> None:
        """Adds text."""
        self._take.text += text

    def begin(self) -> None:
        """Begins the text anew, for another answer in the same attempt."""
        if self._take.text:
            self._take = _Take(self._take.number + 1)

    async def flush_repeatedly(self, ended: asyncio.Future[None]) -> None:
        """Writes what is new, until `ended` is done or another process writes the text of this attempt."""
        while not self._is_over:
            await asyncio.wait([ended], timeout=FLUSH_S)
            if ended.done():
                return
            await self.flush()

    async def flush(self, is_complete: bool = False) -> None:
        """Writes what is new."""
        take = self._take  # another one may begin during a write, which is of this one
        while not self._is_over:
            mask = self._info.mask  # the whole text is masked, since a secret may arrive in two pieces
            shown = mask.text(take.text) if is_complete else mask.growing(take.text)
            if take.written == len(shown) and not is_complete:
                return
            end = min(len(shown), take.offset + CHUNK_CHARACTERS)
            is_last = is_complete and end == len(shown)
            chunk = LiveTextChunk(path_text(self._info.path), self._info.attempt, take.number, take.offset, shown[take.offset : end], is_last)
            if not await self._put(take, chunk):
                return
            take.written, take.version = end, take.version + 1
            if end - take.offset == CHUNK_CHARACTERS and not is_last:
                take.offset, take.version = end, 0
            if end == len(shown):
                return

    async def _put(self, take: _Take, chunk: LiveTextChunk) -> bool:
        key = chunk_key(self._info.execution, chunk)
        try:
            answer = await self._change(key, take.version, chunk)
            if isinstance(answer, Stale) and await self._may_replace(take, key, chunk):
                take.version = answer.version
                answer = await self._change(key, take.version, chunk)
        except StoreUnavailable as error:
            take.is_unsure = True
            logger.info("the live text of %s could not be written: %s. It is written again soon", self._info.key, error)
            return False
        take.is_unsure, self._is_over = False, isinstance(answer, Stale)
        return not self._is_over

    async def _change(self, key: RecordKey, version: int, chunk: LiveTextChunk) -> ChangeAnswer:
        if self._expires_at_s is None:
            self._expires_at_s = (await self._store.store_time()).now_s + KEPT_S
        change = RecordChange(key, version, encode_chunk(chunk), expires_at_s=self._expires_at_s)
        (answer,) = await self._store.commit([Post(records=(change,))])
        return answer

    async def _may_replace(self, take: _Take, key: RecordKey, chunk: LiveTextChunk) -> bool:
        """Whether a record at another version than expected is none of another process: an execution that was removed has left it, or it is from a write
        that the store did not answer."""
        if not take.version:
            return True
        found = await self._store.record(key) if take.is_unsure else None
        return found is not None and chunk.text.startswith(decode_chunk(found.value).text)


@asynccontextmanager
async def live_text() -> AsyncIterator[LiveTextWriter | None]:
    """The live text of the running step for the duration of the context; None where there is no store to write it to."""
    try:
        info, store = step_info(), current_resources.get().store
    except LookupError:  # the request does not come from a step
        info, store = None, None
    if info is None or store is None:
        yield None
        return
    writer, ended = LiveTextWriter(store, info), asyncio.get_running_loop().create_future()
    flushing = asyncio.create_task(writer.flush_repeatedly(ended), name="live text")
    try:
        yield writer
    finally:
        ended.set_result(None)
        await asyncio.wait([flushing])  # not cancelled: whether a write was carried out would not be known
        await writer.flush(is_complete=True)
