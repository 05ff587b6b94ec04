"""Resources that are open: one of each in an engine or worker, opened when it is first needed, closed in reverse order at the end."""

import asyncio
import inspect
import logging
from contextlib import AsyncExitStack
from typing import Any

from perdure.programs.code.resources import Resource
from perdure.stores.base import Store

logger = logging.getLogger("perdure.engine")


class Resources:
    """What is open on one loop. Satisfies `perdure.programs.code.resources.Opened`."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._open: dict[Resource[Any], asyncio.Task[Any]] = {}
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, resource: Resource[Any]) -> Any:
        """What was opened, opened now if it was not yet; that it can't be is the failure of the step that asked, and the next one tries again."""
        self._loop = asyncio.get_running_loop()
        opening = self._open.get(resource)
        if opening is None:
            opening = self._open[resource] = asyncio.create_task(self._enter(resource))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._open.get(resource) is opening:
                del self._open[resource]
            raise

    def wait_for(self, resource: Resource[Any]) -> Any:
        """The same in a thread."""
        if self._loop is None:
            raise RuntimeError("no loop runs these resources")
        return asyncio.run_coroutine_threadsafe(self.get(resource), self._loop).result()

    def begin(self) -> None:
        """From now on, this is the loop on which they are opened."""
        self._loop = asyncio.get_running_loop()

    async def _enter(self, resource: Resource[Any]) -> Any:
        try:
            return await self._opened(resource)
        except (KeyboardInterrupt, SystemExit) as error:  # from a task, these would end the loop, and the engine with it
            raise RuntimeError(f"{type(error).__name__} while {resource.name} was opened") from error

    async def _opened(self, resource: Resource[Any]) -> Any:
        made = resource.opens()
        if hasattr(made, "__aenter__"):
            return await self._stack.enter_async_context(made)
        if hasattr(made, "__enter__"):
            return self._stack.enter_context(made)
        thing = await made if inspect.isawaitable(made) else made
        close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
        if callable(close):
            self._stack.push_async_callback(_closed, close)
        return thing

    async def close(self) -> None:
        """Close what is open, the last opened first. What can't be closed is reported, and keeps nothing else open."""
        self._open.clear()
        try:
            await self._stack.aclose()
        except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
            logger.exception("a resource could not be closed")


async def _closed(close: Any) -> None:
    result = close()
    if inspect.isawaitable(result):
        await result
