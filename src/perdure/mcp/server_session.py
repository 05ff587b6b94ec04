"""The connections of a process to one MCP server: opened when they are first needed, opened anew after they broke, closed at the end.

A server acts with the secrets that it was given, so a connection is used only by calls that have the same secrets as the one that opened it. Calls of other
tenants or definitions, and calls after a secret has changed, use connections of their own. Only a few that are not in use stay open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perdure.core.errors import MissingExtra
from perdure.definitions.kinds.http.http_client import http_client
from perdure.mcp.asked_models import AskedModel, SampledAnswer, SamplingRefused
from perdure.mcp.elicited_approvals import Answer, Asked, Question
from perdure.mcp.server_configs import SIGN_IN_S, McpServer, with_secrets

logger = logging.getLogger("perdure.mcp")

CONNECT_S = 30.0
SUMMARY_CHARACTERS_MAX = 300
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
"""How long a server that can't be reached is left alone: doubled with each failure in a row."""

LOGS = Path(".perdure/mcp")
"""Where what programs write to standard error is kept, a file for each server."""

UNUSED_CONNECTIONS_MAX = 8
"""How many connections to one server stay open without a call; those whose last call began the longest ago are closed."""

LOOK_S = 0.5
"""How often a call that waits for people or a model looks whether its execution still wants it."""

T = TypeVar("T")
Progress = Callable[[float, float | None, str | None], Any]


class ServerUnavailable(Exception):
    """The server can't be reached, so the tool was certainly not called. The step is retried by its policy."""

    code = "mcp_unavailable"


class AnswerLost(Exception):
    """The connection broke, the time was over, or the answer could not be read: it is not known whether the tool has done its work."""

    code = "mcp_answer_lost"


class _OpenCall:
    """A call that waits for its answer, whom its server may ask meanwhile, people or a model, and the clock, which stands still while they are asked."""

    def __init__(self, people: Asked | None, model: AskedModel | None, clock: asyncio.Timeout) -> None:
        self.people, self.model, self._clock = people, model, clock
        self._left_s = 0.0
        self._asking: dict[asyncio.Future[Any], None] = {}
        self._is_over = False

    @property
    def tenant(self) -> str | None:
        """The tenant of the call; None if nobody can be asked for it."""
        asked = self.people or self.model
        return None if asked is None else asked.tenant

    async def ask(self, question: Question) -> Answer:
        """Asks people; when the call ends meanwhile, nobody answers."""
        if self.people is None or self._is_over:
            return Answer("decline")
        with self._standing_still(self.people.ask(question)) as asking:
            await self._until_answered(asking, self.people)
            return Answer("cancel") if asking.cancelled() else asking.result()

    async def sample(self, asked: Mapping[str, Any]) -> SampledAnswer:
        """Asks the model.

        Raises:
            SamplingRefused: there is no answer, or the call has ended meanwhile.
        """
        if self.model is None or self._is_over:
            raise SamplingRefused("there is no call for which a model may be asked")
        with self._standing_still(self.model.ask(asked)) as asking:
            await self._until_answered(asking, self.model)
            if asking.cancelled():
                raise SamplingRefused("the call has ended")
            return asking.result()

    async def _until_answered(self, asking: asyncio.Future[Any], asked: Asked | AskedModel) -> None:
        """Waits for an answer, or until the execution no longer waits for the call; then `asking` is cancelled."""
        while not (await asyncio.wait((asking,), timeout=LOOK_S))[0]:
            if asked.is_over:
                _ = asking.cancel()
                if self.people is not None:
                    await self.people.withdraw()

    @contextmanager
    def _standing_still(self, asked: Coroutine[Any, Any, T]) -> Iterator[asyncio.Future[T]]:
        """Begins to ask, and stops the clock until nobody is asked any more."""
        now_s = asyncio.get_running_loop().time
        if not self._asking:
            self._left_s = (self._clock.when() or 0.0) - now_s()
            self._clock.reschedule(None)
        asking = asyncio.ensure_future(asked)
        self._asking[asking] = None
        try:
            yield asking
        finally:
            _ = asking.cancel()
            del self._asking[asking]
            if not self._asking and not self._is_over:
                self._clock.reschedule(now_s() + self._left_s)

    async def end(self) -> None:
        """Lets nobody be asked any more."""
        self._is_over = True
        for asking in self._asking:
            _ = asking.cancel()
        if self.people is not None:
            await self.people.withdraw()


class _Connection:
    """A connection that was opened with one set of secrets. Each has its own pause after a failure, and its own calls of which the server may ask something."""

    def __init__(self, server: McpServer, secrets: Mapping[str, str], *, opens_browser: bool) -> None:
        self.server, self.users = server, 0
        self._secrets, self._opens_browser = secrets, opens_browser
        self._client: Any = None
        self._open_calls: list[_OpenCall] = []
        self._opening = asyncio.Lock()
        self._failures, self._not_before_s = 0, 0.0

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: Progress, people: Asked | None, model: AskedModel | None) -> dict[str, Any]:
        """See `ServerSession.call`."""
        client = await self.opened()
        from mcp.shared.exceptions import MCPError  # imported here, as everything of the library, because most processes call no tool
        from mcp_types import CONNECTION_CLOSED

        try:
            async with asyncio.timeout(self.server.timeout_s) as clock:
                open_call = _OpenCall(people, model, clock)
                self._open_calls.append(open_call)
                try:
                    answer = await client.call_tool_mcp(tool, dict(arguments), progress_handler=progress)
                finally:
                    self._open_calls.remove(open_call)
                    await open_call.end()
        except TimeoutError as error:
            raise AnswerLost(f"{self.server.name} did not answer to {tool} within {self.server.timeout_s:g} s") from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self._drop(client)
                raise AnswerLost(self._why_ended(client) or f"{self.server.name} ended while {tool} was called") from error
            return {"isError": True, "content": [{"type": "text", "text": error.error.message}]}
        except ValueError as error:  # what the library raises about an answer that is not one of the protocol
            raise AnswerLost(f"what {self.server.name} answered to {tool} is no result of a tool: {_summary(error)[:SUMMARY_CHARACTERS_MAX]}") from error
        except (OSError, RuntimeError, EOFError) as error:
            await self._drop(client)
            raise AnswerLost(f"the connection to {self.server.name} broke while {tool} was called: {error}") from error
        found: dict[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found

    async def tools(self) -> list[dict[str, Any]]:
        """See `ServerSession.tools`."""
        client = await self.opened()
        try:
            listed = await asyncio.wait_for(client.list_tools(), CONNECT_S)
        except Exception as error:  # a server may answer anything, and the library raises what its parts raise
            await self._drop(client)
            raise ServerUnavailable(f"{self.server.name} did not list its tools: {_summary(error)}") from error
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]

    async def aclose(self) -> None:
        """Ends the connection, and with it the program."""
        if self._client is not None:
            await self._drop(self._client)

    async def opened(self) -> Any:
        """Returns the client of the library. It is connected anew if the connection broke.

        Raises:
            ServerUnavailable: the server can't be reached.
        """
        async with self._opening:
            if self._client is not None and self._client.is_connected():
                return self._client
            self._client = None
            if (left_s := self._not_before_s - time.monotonic()) > 0:
                raise ServerUnavailable(f"{self.server.name} could not be reached, and is tried again in {left_s:.1f} s")
            try:
                asked = self._asked if self.server.elicitation.is_allowed else None
                sampled = None if self.server.sampling is None else self._sampled
                limit_s = CONNECT_S + (SIGN_IN_S if self._opens_browser else 0.0)
                client = _new_client(self.server, self._secrets, asked, sampled, limit_s, opens_browser=self._opens_browser)
                await asyncio.wait_for(client.__aenter__(), limit_s)
            except MissingExtra:
                raise
            except Exception as error:  # beginning a program or a connection may fail in any way
                self._failures += 1
                self._not_before_s = time.monotonic() + min(PAUSE_S * 2 ** (self._failures - 1), PAUSE_S_MAX)
                raise ServerUnavailable(f"the MCP server {self.server.name} can't be reached: {_summary(error)}{self._hint()}") from error
            self._failures = 0
            self._client = client
            return client

    async def _asked(self, message: str, _: Any, params: Any, __: Any) -> Any:
        """Answers what the server asks people."""
        from fastmcp.client.elicitation import ElicitResult

        if (open_call := self._asking_call()) is None:
            return ElicitResult(action="decline")
        form = getattr(params, "requested_schema", None)
        question = Question(message, form if isinstance(form, Mapping) and form.get("properties") else None, str(getattr(params, "url", "") or ""))
        answer = await open_call.ask(question)
        return ElicitResult(action=answer.action, content=answer.content)

    async def _sampled(self, _: Any, params: Any, __: Any) -> Any:
        """Answers what the server asks a model."""
        from mcp_types import CreateMessageResult, TextContent

        if (open_call := self._asking_call()) is None:
            raise SamplingRefused("it is not known for which call a model is asked; call one tool at a time")
        answer = await open_call.sample(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text=answer.text), model=answer.model, stop_reason=answer.stop_reason)

    def _asking_call(self) -> _OpenCall | None:
        """Returns a call for which the server may ask now. It does not say for which it asks: while calls of several tenants are open, it may be for any of
        them, so nobody is asked and none is charged.
        """
        if len({one.tenant for one in self._open_calls}) == 1:
            return self._open_calls[0]
        logger.warning("the MCP server %s asks something, and it is not known for which call; it is refused", self.server.name)
        return None

    def _why_ended(self, client: Any) -> str:
        reason = getattr(client.transport, "end_reason", "")
        return f"{self.server.name} was ended: {reason}" if reason else ""

    def _hint(self) -> str:
        return f" (what it printed is in {LOGS / f'{self.server.name}.log'})" if self.server.transport == "stdio" else ""

    async def _drop(self, client: Any) -> None:
        """Closes a connection that is not used any more."""
        if self._client is client:
            self._client = None
        try:
            await asyncio.wait_for(client.close(), CONNECT_S)
        except Exception as error:  # it is closed as well as it can be
            logger.warning("the connection to the MCP server %s did not close: %s", self.server.name, _summary(error))


class ServerSession:
    """The connections of a process to one server, one for each set of secrets; calls run side by side."""

    def __init__(self, server: McpServer, *, opens_browser: bool = False) -> None:
        self.server = server
        self._opens_browser = opens_browser
        self._connections: dict[frozenset[tuple[str, str]], _Connection] = {}
        self._closings: set[asyncio.Task[None]] = set()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        secrets: Mapping[str, str],
        progress: Progress,
        people: Asked | None = None,
        model: AskedModel | None = None,
    ) -> dict[str, Any]:
        """Calls a tool, and returns its answer as JSON of the protocol. What the server asks meanwhile is for `people`, or for the `model`; without them, it is
        declined.

        Raises:
            ServerUnavailable: the server can't be reached.
            AnswerLost: there was no answer.
        """
        with self._connection(secrets) as connection:
            return await connection.call(tool, arguments, progress, people, model)

    async def tools(self, secrets: Mapping[str, str]) -> list[dict[str, Any]]:
        """Lists the tools of the server, as JSON of the protocol.

        Raises:
            ServerUnavailable: the server can't be reached.
        """
        with self._connection(secrets) as connection:
            return await connection.tools()

    @asynccontextmanager
    async def client(self, secrets: Mapping[str, str]) -> AsyncIterator[Any]:
        """Yields the client of the library for requests that are no calls of tools. It is not closed meanwhile.

        Raises:
            ServerUnavailable: the server can't be reached.
        """
        with self._connection(secrets) as connection:
            yield await connection.opened()

    async def aclose(self) -> None:
        """Ends all connections, and with them the programs."""
        connections = list(self._connections.values())
        self._connections.clear()
        _ = await asyncio.gather(*(one.aclose() for one in connections), *self._closings)

    @contextmanager
    def _connection(self, secrets: Mapping[str, str]) -> Iterator[_Connection]:
        key = frozenset(secrets.items())
        connection = self._connections.pop(key, None) or _Connection(self.server, secrets, opens_browser=self._opens_browser)
        self._connections[key] = connection  # the order is that of the last use
        connection.users += 1
        try:
            yield connection
        finally:
            connection.users -= 1
            self._close_unused()

    def _close_unused(self) -> None:
        for key in [key for key, one in self._connections.items() if not one.users][:-UNUSED_CONNECTIONS_MAX]:
            closing = asyncio.create_task(self._connections.pop(key).aclose())
            self._closings.add(closing)
            closing.add_done_callback(self._closings.discard)


def _new_client(
    server: McpServer,
    secrets: Mapping[str, str],
    asked: Callable[..., Any] | None,
    sampled: Callable[..., Any] | None,
    limit_s: float,
    *,
    opens_browser: bool,
) -> Any:
    try:
        from fastmcp import Client
        from fastmcp.client.transports import SSETransport, StreamableHttpTransport

        from perdure.mcp.program_transport import ANSWER_BYTES_MAX, ProgramTransport
        from perdure.mcp.server_sign_in import auth_of
    except ImportError as error:
        raise MissingExtra("tools of MCP servers", "fastmcp", "mcp") from error
    if server.transport == "stdio":
        LOGS.mkdir(parents=True, exist_ok=True)
        environment = with_secrets(server.env, secrets)
        transport: Any = ProgramTransport([server.command, *server.args], environment, server.cwd, LOGS / f"{server.name}.log")
    elif server.transport == "sse":
        transport = SSETransport(server.url, headers=with_secrets(server.headers, secrets), httpx_client_factory=partial(_http_client, server.url))
    else:
        auth = None if server.auth is None else auth_of(server, server.auth, secrets, LOGS, opens_browser=opens_browser)
        clients = partial(_http_client, "" if auth else server.url)  # who signs in asks other servers as well
        transport = StreamableHttpTransport(server.url, with_secrets(server.headers, secrets), auth, clients, max_sse_event_size=ANSWER_BYTES_MAX)
    return Client(transport, name=server.name, init_timeout=limit_s, elicitation_handler=asked, sampling_handler=sampled)


def _http_client(url: str, **given: Any) -> Any:
    """Returns a client of HTTP with the limits that the library of the protocol has."""
    from httpx2 import Timeout

    return http_client(url, **{"timeout": Timeout(30.0, read=300.0), "follow_redirects": True, **given})


def _summary(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
