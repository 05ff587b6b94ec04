"""The connections of a Postgres store.

A store belongs to one event loop, the first that uses it, or the next one after that is closed. There it has a small pool, which grows when it is needed;
on the loop of another thread, each use opens a connection of its own. A connection whose state is unknown, after any failure, is closed and never used
again. After one was cut, those that are idle are replaced too, since they lead to the same server.

Behind a pooler in transaction mode, each transaction may run on another connection of the server. Statements are unnamed there, no setting of a session is
changed, and what differs from the defaults of the server is set within each transaction. A pooler shows by the number of the process at the server, which
differs from the one that the pooler has given.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from inspect import isawaitable
from itertools import count
from typing import Any, Literal, NamedTuple

from perdure.core.errors import BadValue, PerdureError, StoreError, StoreUnavailable
from perdure.stores.postgres.connection_settings import ConnectionSettings, ServerTarget
from perdure.stores.postgres.server_errors import NEXT_STEPS, driver, driver_errors, leaves_unknown_state, translated_error, translated_errors
from perdure.stores.postgres.statements import SQL, in_schema
from perdure.stores.postgres.store_rows import escaped_arguments, unescaped_row

Isolation = Literal["read_committed", "repeatable_read"]

VERSION_MIN = 15
"""The oldest major version of Postgres that is supported."""

STATEMENTS_MAX = 250
"""How many prepared statements a connection keeps."""

STEP_SPARES_MAX = 3
"""How many connections for transactions of steps are kept for reuse."""

IDLE_S = 300.0
"""After how long an idle connection is closed, when others come back."""

MARGIN_S = 5.0
"""How much later than the client the server ends a statement, so that the client says why."""

CLOSE_S = 5.0
"""How long closing waits for what is under way."""

Fetch = Callable[..., Awaitable[list[tuple[Any, ...]]]]


class PostgresServerFacts(NamedTuple):
    """What a store has to know about its server. `process` is the one behind the connection; `is_pooled` says that a pooler is in between."""

    process: int
    version_number: int
    version: str
    encoding: str
    in_recovery: bool
    read_only: bool
    synchronous_commit: str
    connections_max: int
    is_encrypted: bool
    role: str
    is_pooled: bool = False


class PostgresConnection:
    """One connection. Statements name the schema ``perdure``, in place of which that of the settings is used. Text may contain NUL, but not in arrays.

    `raw` is the connection of asyncpg. `session` are the settings that its session has beside the defaults of the server, and `local` those that each
    transaction needs, for lack of a session.
    """

    def __init__(self, raw: Any, schema: str, *, session: Mapping[str, str] | None, local: Mapping[str, str]) -> None:
        self.raw, self._schema, self._session, self._local = raw, schema, session, local
        self._statements: OrderedDict[str, Any] = OrderedDict()
        self._names = map("perdure_{}".format, count())
        self.idle_since_s = 0.0

    async def fetch(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Executes one statement, in one round trip but for its first time, and returns its rows."""
        if self._local and not self.raw.is_in_transaction():
            async with self.transaction():
                return await self.fetch(sql, *arguments)
        statement = self._statements.get(sql) or await self._prepare(sql)
        self._statements.move_to_end(sql)
        return [*map(unescaped_row, await statement.fetch(*escaped_arguments(arguments)))]

    async def execute(self, script: str) -> None:
        """Executes statements without arguments, in one round trip. Outside of a transaction they are one."""
        await self.raw.execute(in_schema(script, self._schema))

    async def begin(self, isolation: Isolation = "read_committed") -> Any:
        """Begins a transaction; returns that of asyncpg, which is to be awaited for `commit()` or `rollback()`."""
        transaction = self.raw.transaction(isolation=isolation)
        await transaction.start()
        if self._local:
            await self.raw.execute("; ".join(f"SET LOCAL {name} = '{value}'" for name, value in self._local.items()))
        return transaction

    @asynccontextmanager
    async def transaction(self, isolation: Isolation = "read_committed") -> AsyncIterator["PostgresConnection"]:
        """Runs a block in a transaction, which is committed at its end and rolled back if it fails."""
        transaction = await self.begin(isolation)
        try:
            yield self
        except Exception:  # a block that is cancelled may be in the middle of a statement; its connection is closed, which rolls back as well
            with suppress(*driver_errors()):
                await transaction.rollback()
            raise
        await transaction.commit()

    async def set_session(self) -> None:
        """Sets what differs from the defaults of the server in its session."""
        if self._session:
            statement = await self.raw.prepare(SQL.set_for_session, name="")
            await statement.fetch([*self._session], [*self._session.values()])

    async def reset(self) -> None:
        """Undoes what a user has changed in the session, if there is one."""
        if self._session is not None:
            await self.raw.reset(timeout=CLOSE_S)
            await self.set_session()

    async def end(self, *, orderly: bool) -> None:
        """Ends the connection; if `orderly`, the server is told."""
        try:
            if orderly:
                with suppress(*driver_errors()):  # all is done, and the server may be gone
                    await self.raw.close(timeout=CLOSE_S)
        finally:
            self.raw.terminate()

    async def _prepare(self, sql: str) -> Any:
        # Without a name, the server would parse and plan the statement each time. By itself asyncpg gives it one only if its own cache is in use.
        statement = await self.raw.prepare(in_schema(sql, self._schema), name="" if self._session is None else next(self._names))
        self._statements[sql] = statement
        if len(self._statements) > STATEMENTS_MAX:
            self._statements.popitem(last=False)
        return statement


class _Pool:
    """Connections of one kind on one loop: at most `size` at a time, of which at most `kept` are kept when they are idle."""

    def __init__(self, opened: Callable[[], Awaitable[PostgresConnection]], size: int, kept: int, full: str, timeout_s: float) -> None:
        self._opened, self.size, self._kept, self._full, self._timeout_s = opened, size, kept, full, timeout_s
        self._room = asyncio.Semaphore(size)
        self._idle: list[PostgresConnection] = []
        self._open: set[PostgresConnection] = set()
        self._closed = False

    async def take(self) -> PostgresConnection:
        """Takes a connection for exclusive use; `give_back` ends it."""
        if self._room.locked():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._room.acquire()
            except TimeoutError:
                raise StoreUnavailable(self._full) from None
        else:
            await self._room.acquire()  # it does not wait, so it needs no timer
        try:
            return await self._next()
        except BaseException:
            self._room.release()
            raise

    async def give_back(self, connection: PostgresConnection, error: BaseException | None) -> None:
        """Gives back a connection, after the error that its use has ended with, if any."""
        try:
            unharmed = error is None or (isinstance(error, Exception) and not leaves_unknown_state(error))
            await self._give_back(connection, unharmed and not connection.raw.is_closed() and not connection.raw.is_in_transaction())
        finally:
            self._room.release()

    async def _next(self) -> PostgresConnection:
        while self._idle:
            if not (connection := self._idle.pop()).raw.is_closed():
                return connection
            self._open.discard(connection)
        connection = await self._opened()
        self._open.add(connection)
        return connection

    async def _give_back(self, connection: PostgresConnection, unharmed: bool) -> None:
        if unharmed and not self._closed and len(self._idle) < self._kept:
            connection.idle_since_s = asyncio.get_running_loop().time()
            self._idle.append(connection)
            if self._idle[0].idle_since_s < connection.idle_since_s - IDLE_S:
                await self._close(self._idle.pop(0))
        elif unharmed:
            await self._close(connection)
        else:
            self._end(connection)

    async def _close(self, connection: PostgresConnection) -> None:
        with suppress(*driver_errors()):  # the server may be gone already
            await connection.raw.close(timeout=CLOSE_S)
        self._open.discard(connection)

    def _end(self, connection: PostgresConnection) -> None:
        self._open.discard(connection)
        connection.raw.terminate()

    def drop_idle(self) -> None:
        """Ends the connections that are idle."""
        while self._idle:
            self._end(self._idle.pop())

    async def close(self) -> None:
        """Closes all connections; waits a while for those that are in use."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                for _ in range(self.size):
                    await self._room.acquire()
        idle, self._idle = self._idle, []
        _ = await asyncio.gather(*map(self._close, idle))
        for connection in tuple(self._open):
            self._end(connection)


class _Home:
    """What a store has on its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, statements: _Pool, steps: _Pool) -> None:
        self.loop, self.statements, self.steps = loop, statements, steps
        self.is_prepared, self.preparing = False, asyncio.Lock()

    async def close(self) -> None:
        """Closes all connections."""
        await self.statements.close()
        await self.steps.close()

    def drop_idle(self) -> None:
        """Ends the connections that are idle."""
        self.statements.drop_idle()
        self.steps.drop_idle()


class _Connected:
    """The use of a connection: one for statements of the store, after `first` was awaited, or one `for_step`. (Generators would cost a tenth of a commit.)"""

    __slots__ = ("_connection", "_connections", "_first", "_for_step", "_home")

    def __init__(self, connections: "PostgresConnections", first: Callable[[], Awaitable[None]] | None = None, *, for_step: bool = False) -> None:
        self._connections, self._first, self._for_step = connections, first, for_step

    async def __aenter__(self) -> PostgresConnection:
        connections = self._connections
        if self._first is not None:
            await self._first()
        home = self._home = connections.home()
        try:
            if home is None:
                self._connection = await connections.open_main(for_step=self._for_step)
            else:
                self._connection = await self._pool(home).take()
                if not home.is_prepared and not self._for_step:
                    await self._prepare(home)
        except driver_errors() as error:
            raise self._translated(error) from error
        return self._connection

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._home is not None:
            await self._pool(self._home).give_back(self._connection, error)
        else:
            await self._connection.end(orderly=error is None)
        if error is not None and isinstance(error, driver_errors()):
            raise self._translated(error) from error

    def _pool(self, home: _Home) -> _Pool:
        return home.steps if self._for_step else home.statements

    async def _prepare(self, home: _Home) -> None:
        try:
            await self._connections.prepare_home(home, self._connection)
        except BaseException as error:
            await self._pool(home).give_back(self._connection, error)
            raise

    def _translated(self, error: Exception) -> Exception:
        """Returns the store error for one of the driver. If other connections to the same server share what it tells, those that are idle are closed."""
        if self._home is not None and leaves_unknown_state(error):
            self._home.drop_idle()
        return translated_error(error, self._connections.role())


class PostgresConnections:
    """The connections of a store with these `settings`. `prepare` is called with the first one on each loop, and makes sure that there are tables.

    Every method raises `StoreUnavailable` or another `StoreError` in place of the errors of asyncpg and of the network.

    Raises:
        MissingExtra: asyncpg is not installed.
    """

    def __init__(self, settings: ConnectionSettings, prepare: Callable[[PostgresConnection], Awaitable[None]]) -> None:
        self.settings, self._prepare, self._asyncpg = settings, prepare, driver()
        self._home: _Home | None = None
        self._facts: PostgresServerFacts | None = None
        self.is_closed = False

    def connected(self, first: Callable[[], Awaitable[None]] | None = None) -> AbstractAsyncContextManager[PostgresConnection]:
        """Returns a context manager that gives a connection for exclusive use, after `first` was awaited. Without a transaction, each statement is one."""
        return _Connected(self, first)

    @asynccontextmanager
    async def transaction(self, isolation: Isolation = "read_committed") -> AsyncIterator[PostgresConnection]:
        """Yields a connection in a transaction, which is committed at the end of the block and rolled back if that fails."""
        async with self.connected() as connection, connection.transaction(isolation):
            yield connection

    @asynccontextmanager
    async def step_connection(self) -> AsyncIterator[PostgresConnection]:
        """Yields a connection for the transaction of a step, with the settings that users expect."""
        home = self.home()
        await self.server()
        async with _Connected(self, for_step=True) as connection:
            yield connection
            if home is not None:
                with suppress(*driver_errors()):  # the transaction has ended; a failed reset only costs the connection
                    await connection.reset()

    @asynccontextmanager
    async def direct_connection(self) -> AsyncIterator[PostgresConnection]:
        """Yields a new connection that leads through no pooler, if one is configured: for notifications and migrations. It is closed at the end."""
        with translated_errors(self.role):
            async with self._opened_once(self.settings.direct) as connection:
                yield connection

    async def server(self) -> PostgresServerFacts:
        """Returns what is known about the server, as it was when a connection was opened last."""
        if self._facts is None:
            try:
                async with self.connected():
                    pass
            except StoreError:  # it may lack the tables
                if self._facts is None:
                    raise
        assert self._facts is not None
        return self._facts

    def role(self) -> str:
        """Returns the role of the store at the server, if it is known."""
        return self._facts.role if self._facts is not None else "of the store"

    @property
    def is_listening_possible(self) -> bool:
        """Whether notifications get through: there is no pooler in transaction mode in between, or another URL leads past it."""
        return self.settings.has_direct_url or not self._is_pooled

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop to which the store belongs; None before its first use."""
        return self._home.loop if self._home is not None else None

    def home(self) -> _Home | None:
        """Returns what the store has on the running loop; None if it belongs to another one.

        Raises:
            StoreUnavailable: the store has been closed.
        """
        if self.is_closed:
            raise StoreUnavailable("the store has been closed; open a new one")
        loop = asyncio.get_running_loop()
        if self._home is None or self._home.loop.is_closed():
            settings = self.settings
            full = f"all {{}} connections of this store have been in use for {settings.statement_timeout_s:g} s; look for slow statements, or raise {{}}"
            self._home = _Home(
                loop,
                _Pool(
                    lambda: self._open(settings.main),
                    settings.connections,
                    settings.connections,
                    full.format(settings.connections, "perdure_connections"),
                    settings.statement_timeout_s,
                ),
                _Pool(
                    lambda: self._open(settings.main, for_step=True),
                    settings.step_connections,
                    STEP_SPARES_MAX,
                    full.format(settings.step_connections, "perdure_step_connections"),
                    settings.statement_timeout_s,
                ),
            )
        return self._home if loop is self._home.loop else None

    async def close(self) -> None:
        """Closes all connections, after those that are in use."""
        self.is_closed = True
        home, self._home = self._home, None
        if home is None or not home.loop.is_running():
            return
        if home.loop is asyncio.get_running_loop():
            await home.close()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(home.close(), home.loop))

    @property
    def _is_pooled(self) -> bool:
        return self.settings.pooler == "transaction" or (self._facts is not None and self._facts.is_pooled)

    async def open_main(self, *, for_step: bool) -> PostgresConnection:
        """Opens a connection that belongs to its only user."""
        return await self._open(self.settings.main, for_step=for_step)

    async def prepare_home(self, home: _Home, connection: PostgresConnection) -> None:
        """Prepares the database with the first connection on a loop."""
        async with home.preparing:
            if not home.is_prepared:
                await self._prepare(connection)
                home.is_prepared = True

    @asynccontextmanager
    async def _opened_once(self, target: ServerTarget) -> AsyncIterator[PostgresConnection]:
        connection = await self._open(target)
        try:
            yield connection
        except BaseException:
            await connection.end(orderly=False)
            raise
        await connection.end(orderly=True)

    async def _open(self, target: ServerTarget, *, for_step: bool = False) -> PostgresConnection:
        """Opens a connection to the first server of a target that fits, and prepares it."""
        failure: Exception | None = None
        for server, attributes in target.attempts():
            try:
                raw = await self._connect(target, server, attributes, for_step)
            except (OSError, self._asyncpg.CannotConnectNowError) as error:
                failure = error
            except self._asyncpg.TargetServerAttributeNotMatched as error:
                failure = failure or error
            else:
                try:
                    return await self._prepared(raw, for_step, is_main=target is self.settings.main)
                except BaseException:
                    raw.terminate()
                    raise
        raise failure or StoreUnavailable(f"{target} names no server")

    async def _connect(self, target: ServerTarget, server: tuple[str | None, int], attributes: str, for_step: bool) -> Any:
        arguments = target.connect_arguments(server)
        if callable(given := arguments["password"]):
            arguments["password"] = await _called_password(given)
        # The cache of asyncpg serves the statements of users only; those of the store are kept by `PostgresConnection`.
        arguments["statement_cache_size"] = 100 if for_step and not self._is_pooled else 0
        arguments["command_timeout"] = None if for_step else self.settings.statement_timeout_s
        return await self._asyncpg.connect(**arguments, target_session_attrs=attributes, timeout=self.settings.connect_timeout_s)

    async def _prepared(self, raw: Any, for_step: bool, *, is_main: bool) -> PostgresConnection:
        """Checks the server behind a new connection, and sets what its session or each of its transactions needs."""
        settings = self.settings
        (row,) = await (await raw.prepare(SQL.server_facts, name="")).fetch()
        facts = PostgresServerFacts(*row)
        pooled = settings.pooler == "transaction" or (settings.pooler == "auto" and facts.process != raw.get_server_pid())
        facts = facts._replace(is_pooled=pooled)
        check_server(facts, settings)
        if is_main:
            self._facts = facts
        wanted = dict[str, str]()
        if facts.synchronous_commit != settings.synchronous_commit:
            wanted["synchronous_commit"] = settings.synchronous_commit
        if settings.read_only:
            wanted["transaction_read_only" if pooled else "default_transaction_read_only"] = "on"
        if pooled:
            return PostgresConnection(raw, settings.schema, session=None, local=wanted)
        if not for_step:
            limit_ms = str(round((settings.statement_timeout_s + MARGIN_S) * 1000))
            wanted |= {"statement_timeout": limit_ms, "idle_in_transaction_session_timeout": limit_ms, "jit": "off"}
        connection = PostgresConnection(raw, settings.schema, session=wanted, local={})
        await connection.set_session()
        return connection


def check_server(facts: PostgresServerFacts, settings: ConnectionSettings) -> None:
    """Checks that a store can be on this server.

    Raises:
        StoreError: it is too old, or the encoding of the database is not UTF8.
        StoreUnavailable: it can only be read, and the store is for writing.
    """
    if facts.version_number < VERSION_MIN * 10_000:
        raise StoreError(f"{settings} is Postgres {facts.version}; Perdure needs {VERSION_MIN} or later. Upgrade the server, or name another one")
    if facts.encoding != "UTF8":
        encoded = f"{settings} has the encoding {facts.encoding}; Perdure needs UTF8"
        raise StoreError(f"{encoded}. Make a database with createdb --encoding=UTF8 --template=template0")
    if (facts.in_recovery or facts.read_only) and not settings.read_only:
        raise StoreUnavailable(f"Postgres: {settings} is read-only; {NEXT_STEPS['25006']}")


async def _called_password(given: Callable[[], str | Awaitable[str]]) -> str:
    """Returns the password that the function `given` returns."""
    try:
        password = given()
        if isawaitable(password):
            password = await password
    except PerdureError:
        raise
    except Exception as error:  # anything that the user's function raises, whose text may hold what must not be shown
        raise StoreUnavailable(f"the function password= of the store raised {type(error).__name__}; see its cause") from error
    if not isinstance(password, str):
        raise BadValue("password=", "***", "", f"password=: the function returned {type(password).__name__}; it must return text, or an awaitable of it")
    return password
