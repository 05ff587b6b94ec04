"""A recording on an engine in this process, with tools that are functions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from perdure.code.declarations import Retry, Step
from perdure.core.paths import Key
from perdure.operations import on_recordings
from perdure.recording import recording_requests
from perdure.recording.recording_messages import CallRequest, RecordingOrder, ToolAnswer, ToolCallFailed
from perdure.recording.recording_requests import CallResult, recording_key
from perdure.recording.recording_view import RecordingView
from perdure.recording.recording_workflow import recording_workflow
from perdure.recording.tool_values import value_of_answer
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Store


class Recorder:
    """A recording, and what its tools were called with."""

    def __init__(self, access: StoreAccess, engine: Engine, key: Key) -> None:
        self.access, self.engine, self.key = access, engine, key
        self.forwarded: list[tuple[str, dict[str, Any]]] = []

    async def call(self, tool: str, id: str | None = None, **arguments: Any) -> Any:
        """Calls a tool; returns the value of its answer, or the failure."""
        found = await self.result(tool, id, **arguments)
        return found.answer if isinstance(found.answer, ToolCallFailed) else value_of_answer(found.answer)

    async def result(self, tool: str, id: str | None = None, **arguments: Any) -> CallResult:
        request = CallRequest(id=id or uuid4().hex, tool=f"shop.{tool}", arguments=arguments)
        return await recording_requests.call_tool(self.access, self.key, request, is_new=id is None)

    async def read(self) -> RecordingView:
        return await recording_requests.read_recording(self.access, self.key)

    def tool(self, name: str) -> Step[..., Any, Any] | None:
        """The tools of the recording: `get_user` has a result at once, `wait` after a while, `nest` a deep one, and `pay` fails."""
        tools: dict[str, Callable[..., Awaitable[ToolAnswer]]] = {
            "get_user": self._get_user,
            "pay": self._pay,
            "wait": self._wait,
            "echo": self._echo,
            "nest": self._nest,
        }
        fn = tools.get(name.partition(".")[2])
        return None if fn is None else Step(fn, name=name, retry=Retry(max=1), idempotent=False, raises=(ToolCallFailed,))

    async def _get_user(self, **arguments: Any) -> ToolAnswer:
        self.forwarded.append(("get_user", arguments))
        return ToolAnswer([{"type": "text", "text": "Ada"}], {"id": 42, "name": "@ada", "tags": ["a", "b"]})

    async def _echo(self, **arguments: Any) -> ToolAnswer:
        self.forwarded.append(("echo", arguments))
        return ToolAnswer([{"type": "text", "text": str(arguments.get("text", "said"))}])

    async def _nest(self, levels: int) -> ToolAnswer:
        value: Any = "x"
        for _ in range(levels):
            value = [value]
        return ToolAnswer([], {"nested": value})

    async def _pay(self, **arguments: Any) -> ToolAnswer:
        self.forwarded.append(("pay", arguments))
        raise ToolCallFailed("no money", {"isError": True, "content": [{"type": "text", "text": "no money"}]})

    async def _wait(self, **arguments: Any) -> ToolAnswer:
        self.forwarded.append(("wait", arguments))
        await asyncio.sleep(arguments.get("s", 0.05))
        return ToolAnswer([{"type": "text", "text": "waited"}])


@asynccontextmanager
async def recorder(store: Store | None = None, recording: str = "s1", order: RecordingOrder | None = None, **engine: Any) -> AsyncIterator[Recorder]:
    """A recording, which is begun unless it is there."""
    found = store or MemoryStore()
    holder: list[Recorder] = []

    def find(name: str, _: str) -> Step[..., Any, Any] | None:
        return holder[0].tool(name)

    code = recording_workflow(find)
    one = Engine(found, [code], **engine)
    running = await begin_engine(one)
    try:
        holder.append(Recorder(StoreAccess(found, one), one, recording_key("default", recording)))
        wanted = order or RecordingOrder()
        _ = await on_recordings.start(holder[0].access, "default", recording, wanted.title, input=wanted.input)
        yield holder[0]
    finally:
        one.stop()
        await running
