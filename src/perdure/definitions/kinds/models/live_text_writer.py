"""Writes the live text of a step: what a model has answered so far, several times a second.

It is a help for readers and no part of the outcome: a store that can't take it for a while delays it, and the step goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.code.step_environment import StepInfo, current_resources, step_info
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import path_text
from perdure.stores.live_text_records import CHUNK_CHARACTERS, KEPT_S, LiveTextChunk, chunk_key, encode_chunk
from perdure.stores.protocol import Post, Store
from perdure.stores.records import RecordChange, Stale

logger = logging.getLogger("perdure.live_text")

FLUSH_S = 0.2
"""How often new text is written."""


class LiveTextWriter:
    """The text of one attempt of a step."""

    def __init__(self, store: Store, info: StepInfo, expires_at_s: float) -> None:
        self._store, self._info, self._expires_at_s = store, info, expires_at_s
        self._text, self._take, self._written, self._offset, self._version = "", 0, 0, 0, 0
        self._is_over = False

    def write(self, text: str) -> None:
        """Adds text."""
        self._text += text

    def begin(self) -> None:
        """Begins the text anew, for another answer in the same attempt."""
        if self._text:
            self._text, self._take, self._written, self._offset, self._version = "", self._take + 1, 0, 0, 0

    async def flush_repeatedly(self) -> None:
        """Writes what is new, until it is cancelled or another process writes the text of this attempt."""
        while not self._is_over:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self, is_complete: bool = False) -> None:
        """Writes what is new."""
        while not self._is_over:
            mask = self._info.mask  # the whole text is masked, since a secret may arrive in two pieces
            shown = mask.text(self._text) if is_complete else mask.growing(self._text)
            if self._written == len(shown) and not is_complete:
                return
            end = min(len(shown), self._offset + CHUNK_CHARACTERS)
            is_last = is_complete and end == len(shown)
            chunk = LiveTextChunk(path_text(self._info.path), self._info.attempt, self._take, self._offset, shown[self._offset : end], is_last)
            if not await self._put(chunk):
                return
            self._written, self._version = end, self._version + 1
            if end - self._offset == CHUNK_CHARACTERS and not is_last:
                self._offset, self._version = end, 0
            if end == len(shown):
                return

    async def _put(self, chunk: LiveTextChunk) -> bool:
        key, value = chunk_key(self._info.execution, chunk), encode_chunk(chunk)
        try:
            (answer,) = await self._store.commit([Post(records=(RecordChange(key, self._version, value, expires_at_s=self._expires_at_s),))])
            if isinstance(answer, Stale) and not self._version:  # what an execution that was removed has left
                self._version = answer.version
                (answer,) = await self._store.commit([Post(records=(RecordChange(key, self._version, value, expires_at_s=self._expires_at_s),))])
        except StoreUnavailable as error:
            logger.info("the live text of %s could not be written: %s. It is written again soon", self._info.key, error)
            return False
        self._is_over = isinstance(answer, Stale)
        return not self._is_over


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
    writer = LiveTextWriter(store, info, (await store.store_time()).now_s + KEPT_S)
    flushing = asyncio.create_task(writer.flush_repeatedly(), name="live text")
    try:
        yield writer
    finally:
        flushing.cancel()
        await asyncio.wait([flushing])
        await writer.flush(is_complete=True)
