"""The engine in a program: an `App` binds workflows, definitions, tools, queues, resources and a database, and runs an engine in this process.

`async with app:` runs the engine on the current event loop, where the verbs of the `App` are awaited. `with app as shop:` runs it on a thread of its own, and
`shop` has the same verbs, which are not awaited. The verbs are those of a client on the same open store, which hands starts to the engine directly.

A web server opens an App by `App.lifespan` (ASGI) or `App.background` (WSGI, Django), in each of its processes.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from inspect import isfunction
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar, overload

from perdure.async_client import AsyncClient, client_on
from perdure.async_handle import AsyncHandle, connection_of
from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow
from perdure.code.declarations import Step, checked_name
from perdure.code.declared_queues import Queue
from perdure.code.deterministic_loop import DeterministicLoop
from perdure.code.durations import Duration, duration_seconds
from perdure.code.step_environment import Resource
from perdure.core.errors import BadValue, StoreUnavailable, WrongVerb
from perdure.core.paths import Key
from perdure.definition_sources import DefinitionSource, load_definitions
from perdure.definition_workflow import Definition, Tools, deployment_with, tool_steps
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.graph.version_ranges import version_order
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.loop_thread import LoopThread
from perdure.notification_hook import hook_workflow
from perdure.prompt_workflow import prompt_workflow
from perdure.runtime.engine import Engine
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.runtime.local_engine import begin_engine
from perdure.runtime.observer import Observer
from perdure.runtime.outbox_relay import OutboxRelay
from perdure.runtime.registrations import declared_queues, worker_limits
from perdure.runtime.worker import Worker
from perdure.runtime.workflow_programs import Workflow as EngineWorkflow
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.service_workflows import engine_options
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.clock_watch import ClockWatch
from perdure.stores.configured_store import opened_store
from perdure.stores.encoded_store import codec_of
from perdure.stores.outbox import Outbox, OutboxTransactions
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Store
from perdure.sync_client import Client, client_on_thread
from perdure.sync_handle import Handle
from perdure.workflow_function import Workflow, by_their_own_name_first, related_workflows

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger("perdure.app")

OPENING_S_MAX = 20.0
"""How long `App.background` waits for its engine. It is called in requests, which may hold a transaction on the same database."""

HELD = (
    "something else holds the write lock of its database. If that is a transaction of this thread, open the App before it begins: "
    "call app.background() where the process starts, such as in wsgi.py"
)


class AppCode(NamedTuple):
    """The code of an `App`: its workflows with those that they can name, the steps that it performs from queues, and the declared queues."""

    workflows: tuple[Workflow[..., Any], ...]
    steps: tuple[Step[..., Any, Any], ...]
    queues: tuple[Queue, ...]


class App:
    """Workflows with an engine for them in this process: ``app = App([order, greet], definitions="flows/", db="sqlite:///shop.db")``.

    ``async with app:`` runs the engine on this event loop, ``with app as shop:`` on a thread of its own. At the end of the block nothing new begins, steps in
    flight may end within `grace`, and executions that have not ended continue in another process, or in the next one. ``perdure worker shop:app`` runs the
    same object.

    The engine knows the `workflows` and those that their functions can name. `definitions` are a directory, a glob, a file, a `Definition`, or a list of
    these; each may call all others and the workflows, and uses the `tools` (functions or steps) and the databases of `connections` as `deployment`,
    `policy` and `secrets` allow: see `Definition.of`. With definitions or tools, the engine also runs those of the catalog, which may use the same. This
    process performs the tasks of `queues`, with the steps that the workflows can name and `steps`.
    `resources` are opened with the App; others are opened when a step first asks for them.

    `db` is the URL of the database, or an open store, which stays open; by default `PERDURE_DB`, else ``.perdure/perdure.db``. `codec` encodes the payloads;
    by default it follows from the environment. With ``engine=False`` the App only starts executions, for engines in other processes. With an `outbox`, such as
    a `SqlalchemyOutbox`, starts and messages with ``connection=`` are written to a table of that database, in the transaction of the caller, and the engines
    of the App post them after its commit. With `tune_gc`, the garbage collector of this process runs more rarely as long as the App is open, as in
    ``perdure worker``. An `observer` is told what its engine and its worker do, such as that of ``perdure.observe.trace_setup.trace_observer()``.
    `on_notification` is a function, or a step, that receives notifications; see the method of this name.

    Files are read and the database is opened when the App is opened, not when it is made.

    Raises:
        BadValue: a workflow is not decorated, two workflows have one name, or an option is invalid.
    """

    def __init__(
        self,
        workflows: Iterable[Workflow[..., Any]] = (),
        *,
        definitions: DefinitionSource | Iterable[DefinitionSource] | None = None,
        tools: Tools | None = None,
        queues: Iterable[str | Queue] = (),
        steps: Iterable[Step[..., Any, Any]] = (),
        resources: Iterable[Resource[Any]] = (),
        db: str | Store | None = None,
        engine: bool = True,
        outbox: Outbox | None = None,
        codec: PayloadCodec | None = None,
        secrets: Mapping[str, str] | Callable[[str], str | None] | None = None,
        connections: Mapping[str, Any] | None = None,
        deployment: Deployment = NOTHING_MORE,
        policy: Policy | Mapping[str, Any] = NO_POLICY,
        grace: Duration = "30s",
        tune_gc: bool = False,
        observer: Observer | None = None,
        on_notification: Callable[..., Any] | None = None,
    ) -> None:
        self._listed = _checked_workflows(workflows)
        self._definitions = definitions
        self._definition_options: dict[str, Any] = {
            "tools": () if tools is None else tools,
            "secrets": secrets,
            "connections": connections,
            "deployment": deployment,
            "policy": policy,
        }
        self._queues = tuple(queues)
        self.queues = tuple(one.name if isinstance(one, Queue) else checked_name(one, "queue") for one in self._queues)
        self._steps, self._resources = tuple(steps), tuple(resources)
        if db is not None and not isinstance(db, str) and not hasattr(db, "heads"):
            raise BadValue("App(db=…)", db, "sqlite:///path/to/file.db, or a store")
        self.db, self.codec = db, codec
        self.engine = engine
        if outbox is not None and not isinstance(outbox, Outbox):
            raise BadValue("App(outbox=…)", outbox, "an Outbox, such as SqlalchemyOutbox(engine) or DjangoOutbox()")
        self.outbox = outbox
        self.grace_s = duration_seconds(grace, "grace")
        self.tune_gc, self.observer = tune_gc, observer
        self._lock = Lock()
        self._opened: _OpenApp | None = None
        self._pid = 0
        self._was_open = False
        if on_notification is not None:
            _ = self.on_notification(on_notification)

    def __repr__(self) -> str:
        return f"<App of {', '.join(one.code.name for one in self._listed) or 'definitions'}>"

    @cached_property
    def listed(self) -> tuple[Workflow[..., Any], ...]:
        """The workflows and definitions that the App was made with. The files of definitions are read at the first access.

        Raises:
            BadDefinition: a definition is not valid.
            BadValue: a file or directory has no definition, or two definitions have one name and version.
        """
        definitions = () if self._definitions is None else load_definitions(self._definitions, self._listed, self._definition_options)
        return (*self._listed, *definitions)

    @cached_property
    def code(self) -> AppCode:
        """The code that the engine and the worker of the App know.

        Raises:
            BadDefinition, BadValue: see `listed`; or two queues of one name are declared differently.
        """
        listed = self.listed
        known = {one.code.name: one for one in reversed(listed)}
        related = [other for one in listed for other in related_workflows(one) if known.setdefault(other.code.name, other) is other and other not in listed]
        workflows = tuple(dict.fromkeys([*listed, *related]))
        steps = {one.name: one for one in (*_steps_near(workflows), *self._steps)}
        declared = declared_queues([one.code for one in workflows], steps.values())
        return AppCode(workflows, tuple(steps.values()), tuple({one.name: one for one in (*declared, *_queues_of(self._queues))}.values()))

    def on_prompt(self, handler: F) -> F:
        """Registers a function, or a step, that receives the prompts of schedules with the target ``orchestrator``, each as a `Prompt`. Returns it.

        Raises:
            BadValue: the App has a handler already, or has been opened.
        """
        self._register("on_prompt", handler, prompt_workflow(handler))
        return handler

    def on_notification(self, function: F) -> F:
        """Registers a function, or a step, that receives the notifications of rules with the channel ``app``, each as an `AppNotification`. Returns it.

        Raises:
            BadValue: the App has such a function already, or has been opened.
        """
        self._register("on_notification", function, hook_workflow(function))
        return function

    def _register(self, name: str, function: object, receiver: Workflow[..., Any]) -> None:
        """Adds the workflow by which a function of the application receives something."""
        if "listed" in self.__dict__ or any(one.code.name == receiver.code.name for one in self._listed):
            raise BadValue(name, function, "registered once, before the App is opened")
        self._listed = (*self._listed, receiver)

    @property
    def hosting(self) -> tuple[Tools, Deployment, Policy]:
        """What definitions of the catalog may use in an engine of the App: its tools, what they may reach, and their policy."""
        own = self._definition_options
        secrets, policy = own["secrets"], own["policy"]
        find = secrets.get if isinstance(secrets, Mapping) else secrets
        return own["tools"], deployment_with(own["deployment"], find, own["connections"] or {}), policy if isinstance(policy, Policy) else Policy.read(policy)

    def _catalog_host(self) -> tuple[EngineWorkflow, ...]:
        """Returns what the engine needs to run definitions of the catalog as well; nothing for an App without definitions and without tools."""
        has_definitions = self._definitions is not None or any(isinstance(one, Definition) for one in self._listed)
        if not has_definitions and not self._definition_options["tools"]:
            return ()
        from perdure.definition_host import definition_host  # imported here, because most Apps have no definitions

        tools, deployment, policy = self.hosting
        steps: dict[str, Any] = {one.name: one for one in self.code.steps} | tool_steps(tools)
        calls = [one for one in self.code.workflows if not isinstance(one, Definition)]
        return definition_host(steps, calls=calls, deployment=deployment, policy=policy)

    def _override(self, deployment: Mapping[str, Any], **options: Any) -> None:
        """Replaces fields of the deployment and options of `Definition.of`. It must be called before the definitions are loaded."""
        own = self._definition_options["deployment"]
        self._definition_options |= {"deployment": replace(own, **deployment), **options}

    async def __aenter__(self) -> Self:
        await self._open(None)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        opened = self._opened
        if opened is None or opened.thread is not None or opened.loop is not asyncio.get_running_loop():
            raise WrongVerb("`async with app:` was left elsewhere than it was entered", "enter and leave it on one event loop")
        await self._close(error)

    def __enter__(self) -> SyncApp:
        _refuse_in_workflow("with app")
        return self._enter(None)

    def _enter(self, patience_s: float | None) -> SyncApp:
        thread = LoopThread("perdure-app")
        try:
            face = SyncApp(self, thread)
            thread.call_to_end(self._open(thread, patience_s))
        except BaseException as error:
            self._abandon(thread, error)
            raise
        return face

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        thread = None if self._opened is None else self._opened.thread
        if thread is None:
            raise WrongVerb("`with app:` was left, and was not entered", "use `async with app:` in a coroutine, and `with app as shop:` elsewhere")
        try:
            thread.call(self._close(error))
        except BaseException as interruption:
            self._abandon(thread, interruption)
            raise
        thread.close()

    def _abandon(self, thread: LoopThread, error: BaseException) -> None:
        """Ends the thread. If an interruption has come after the App was opened there, or before its close began, closes it first."""
        try:
            if (opened := self._opened_here) is not None and opened.thread is thread:
                thread.call(self._close(error))
        finally:
            thread.close()

    @asynccontextmanager
    async def lifespan(self, server: object = None) -> AsyncIterator[None]:
        """Keeps the App open while a server runs: ``FastAPI(lifespan=app.lifespan)``, and the same for Starlette; ``Litestar(lifespan=[app.lifespan])``.

        The `server`, which these frameworks pass, is not used. The engine runs on the server's event loop. When the server stops, steps in flight may end
        within `grace`, and what has not ended continues elsewhere.

        Raises:
            WrongVerb: the App is open in this process already.
        """
        async with self:
            yield

    def background(self) -> SyncApp:
        """Returns the sync face of the App, which runs on a thread of its own in this process: for Flask, Django and others without a place for a block.

        The first call opens the App, and later ones return at once, in any thread. It is closed at the end of the process, within `grace`. A forked process
        opens it for itself by its first call, and an App whose engine has failed is opened again. Within ``with app:`` it is the face of that block.

        Where the code that made an App is executed again, in a cell of a notebook or by a reload of its module, the new App takes the place of the old one
        on the same database, which is closed first.

        Raises:
            WrongVerb: the App is open on an event loop of this process, or this is called in a workflow.
            StoreError: the database can't be opened, or its write lock is held for too long, perhaps by a transaction of the caller.
        """
        if (face := self._face()) is not None:
            return face
        with _opening:
            return self._face() or self._open_in_background()

    def _face(self) -> SyncApp | None:
        """The sync face of the App, if a thread of this process runs it, and `background` need not open it again."""
        opened = self._opened_here
        if opened is None or opened.thread is None or (opened.failure is not None and self in _in_background):
            return None
        return SyncApp(self, opened.thread)

    def _open_in_background(self) -> SyncApp:
        _refuse_in_workflow("app.background")
        if self in _in_background:
            self._close_in_background()
        for other in [one for one in _in_background if self._replaces(one)]:
            other._close_in_background()
        face = self._enter(OPENING_S_MAX)
        if not _in_background:
            atexit.register(_close_all)
        _in_background.append(self)
        return face

    def _replaces(self, other: App) -> bool:
        """Returns whether this App was made because code that made the `other` one was executed again: a cell of a notebook, or a module that was reloaded."""
        if self.db != other.db:
            return False
        functions = {(one.code.fn.__module__, one.code.fn.__qualname__): one.code.fn for one in other.code.workflows if isfunction(one.code.fn)}
        same = [
            (fn, functions[place]) for one in self.code.workflows if isfunction(fn := one.code.fn) and (place := (fn.__module__, fn.__qualname__)) in functions
        ]
        return any(new is not old or (new.__module__ == "__main__" and _is_interactive()) for new, old in same)

    def _close_in_background(self) -> None:
        _in_background.remove(self)
        try:
            self.__exit__(None, None, None)
        except Exception as error:
            logger.warning("an App that ran in the background has ended with an error: %s", error)

    @property
    def is_open(self) -> bool:
        """Whether the App is open in this process."""
        return self._opened_here is not None

    @property
    def _opened_here(self) -> _OpenApp | None:
        """The open App; None if it is not open in this process."""
        return self._opened if self._pid == os.getpid() else None

    async def _open(self, thread: LoopThread | None, patience_s: float | None = None) -> None:
        _refuse_in_workflow("async with app")
        with self._lock:
            if self._pid == os.getpid():
                raise WrongVerb(
                    f"{self!r} was opened twice", "it is open in this process: use it where it was opened, or make another App on the same database"
                )
            if self._opened is not None:
                _inherited.append(self._opened)
            self._opened, self._pid = None, os.getpid()
        try:
            self._opened = await _OpenApp.open(self, thread, patience_s)
        except BaseException:
            self._pid = 0
            raise

    async def _close(self, error: BaseException | None) -> None:
        opened = self._opened
        assert opened is not None
        self._opened, self._was_open = None, True
        try:
            await opened.close(self.grace_s)
        finally:
            self._pid = 0
        if error is None and (failure := opened.failure) is not None:
            raise failure

    def _expect_open(self, verb: str, thread: LoopThread | None) -> _OpenApp:
        """Returns the open App, for a verb of the async face (without a thread) or of the sync one.

        Raises:
            WrongVerb: the App is not open here; the message says why and what to do.
        """
        what, opened = f"app.{verb}()", self._opened
        _refuse_in_workflow(what)
        if opened is not None and self._pid != os.getpid():
            raise WrongVerb(f"{what} was called in a forked process", "the App is open only in the process that it was forked from: open it here as well")
        if opened is not None and (opened.thread is thread or (thread is None and _is_running(opened.loop))):  # the latter: in an async step
            return opened
        if opened is not None and thread is None:
            raise WrongVerb(
                f"{what} was called within `with app as shop:`, or after `shop = app.background()`", f"use shop.{verb}(...), which does not need to be awaited"
            )
        state = "after the App was closed" if self._was_open else "before the App was opened"
        raise WrongVerb(
            f"{what} was called {state}",
            f"open it: `async with app:` and `await app.{verb}(...)`, or `with app as shop:` and `shop.{verb}(...)`; "
            "or, for all cells of a notebook, `shop = app.background()`",
        )

    def workflow(self, name: str) -> Workflow[..., Any] | NamedWorkflow:
        """Returns the workflow or definition of a name, to be started with options: ``app.start(app.workflow("order").with_(id="o1"), "o1", 500)``.

        A workflow or definition of this App comes first, the newest of several versions; otherwise it is one that an engine in another process may know.

        Raises:
            BadName: the name is invalid.
            BadDefinition, BadValue: the definitions of this App can't be loaded.
        """
        found = [one for one in self.listed if one.code.name == name]
        return max(found, key=_release_order) if found else NamedWorkflow(checked_name(name, "workflow"))

    @property
    def client(self) -> AsyncClient:
        """A client on the open store, for everything else: ``app.client.list(...)``, ``approve``, ``select``, ``upkeep``. It is closed with the App.

        Raises:
            WrongVerb: the App is not open here.
        """
        return self._expect_open("client", None).client

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, AsyncHandle[R]]: ...
    @overload
    def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, AsyncHandle[Any]]: ...
    def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, AsyncHandle[Any]]:
        """Starts an execution, as `AsyncClient.start` does; it is durable when this has been awaited. A workflow of this App begins in its engine at once.

        Raises:
            WrongVerb: the App is not open here, or an option has no effect or is among the arguments.
            BadValue, InputDiffers: see `AsyncClient.start`.
        """
        return self._expect_open("start", None).start("app.start", workflow, args, kwargs)

    @overload
    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    @overload
    def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]: ...
    def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Starts an execution and waits for its result, as `AsyncClient.run` does. If the wait is cancelled, the execution continues.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: it ended, or parked, without a result.
            WrongVerb: the App is not open here, or an option has no effect or is among the arguments.
            BadValue, InputDiffers: see `AsyncClient.start`.
        """
        return self._expect_open("run", None).run("app.run", workflow, args, kwargs)

    @overload
    def handle(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> Coroutine[Any, Any, AsyncHandle[R]]: ...
    @overload
    def handle(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> Coroutine[Any, Any, AsyncHandle[Any]]: ...
    def handle(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> Coroutine[Any, Any, AsyncHandle[Any]]:
        """Returns the handle of the execution with this id or key. Without a `workflow`, the id must be unique. The workflow need not be one of this App.

        Raises:
            NotFound: there is no such execution.
            Ambiguous: several workflows have an execution of this id.
            WrongVerb: the App is not open here.
        """
        return self._expect_open("handle", None).handle(id, workflow, tenant)


class SyncApp:
    """The sync face of an open `App`, which ``with app as shop:`` gives: the same verbs, which block and may be called from any thread."""

    def __init__(self, app: App, thread: LoopThread) -> None:
        self._app = app
        self._thread = thread

    def __repr__(self) -> str:
        return repr(self._app)

    def workflow(self, name: str) -> Workflow[..., Any] | NamedWorkflow:
        """Returns the workflow or definition of a name, to be started with options. See `App.workflow`."""
        return self._app.workflow(name)

    @property
    def client(self) -> Client:
        """A client on the open store, for everything else. See `App.client`."""
        return client_on_thread(self._thread, self._app._expect_open("client", self._thread).client)

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]: ...
    def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Starts an execution, which is durable when this returns. See `App.start`."""
        if connection_of(workflow) is not None:
            return self.client.start(workflow, *args, **kwargs)
        started = self._thread.call(self._app._expect_open("start", self._thread).start("app.start", workflow, args, kwargs))
        return Handle(self._thread, started)

    @overload
    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """Starts an execution and waits for its result. See `App.run`."""
        return self._thread.call(self._app._expect_open("run", self._thread).run("app.run", workflow, args, kwargs))

    @overload
    def handle(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> Handle[R]: ...
    @overload
    def handle(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> Handle[Any]: ...
    def handle(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> Handle[Any]:
        """Returns the handle of an execution. See `App.handle`."""
        return Handle(self._thread, self._thread.call(self._app._expect_open("handle", self._thread).handle(id, workflow, tenant)))


class _OpenApp:
    """An App that is open on one event loop: its store, engine, worker and client. `thread` runs the loop if the App was opened by ``with app as shop:``."""

    def __init__(self, app: App, thread: LoopThread | None, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self.thread = thread
        self.loop = loop
        self.failure: BaseException | None = None
        self._members: list[Engine | Worker | OutboxRelay | ClockWatch] = []
        self._running: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    @classmethod
    async def open(cls, app: App, thread: LoopThread | None, patience_s: float | None) -> _OpenApp:
        """Opens the store, and begins the engine and the worker; if that fails, or the engine takes longer than `patience_s`, closes them again."""
        opened = cls(app, thread, asyncio.get_running_loop())
        try:
            await opened._begin(patience_s)
        except BaseException:
            await opened.close(0.0)
            raise
        return opened

    async def _begin(self, patience_s: float | None) -> None:
        app = self._app
        code = app.code if app.engine else AppCode((), (), ())
        store = await self._stack.enter_async_context(opened_store(app.db, app.codec))
        self._stack.enter_context(relaxed_garbage_collection(app.tune_gc))
        engine = None
        if app.engine:
            secrets = secret_resolver_for(store)
            workflows = [*(one.code for one in code.workflows), *app._catalog_host()]
            direct = frozenset(app.queues) - worker_limits(code.queues).keys()
            shared: dict[str, Any] = {"declares": code.queues, "threaded": True, "secrets": secrets, "observer": app.observer}
            engine = Engine(store, workflows, queues=direct, **engine_options(store), **shared)
            try:
                async with asyncio.timeout(patience_s):
                    self._run(engine, await begin_engine(engine))
            except TimeoutError as error:
                raise StoreUnavailable(f"{app!r} was not opened within {patience_s:g} s, because {HELD}") from error
            if app.queues:
                worker = Worker(store, code.steps, queues=app.queues, **shared)
                self._run(worker, asyncio.create_task(worker.run(), name="perdure-worker"))
            for resource in app._resources:
                _ = await engine.resources.get(resource)
        outbox = None if app.outbox is None else OutboxTransactions(app.outbox, codec_of(store))
        if app.engine and outbox is not None:
            relay = OutboxRelay(outbox, store)
            self._run(relay, asyncio.create_task(relay.run(), name="perdure-outbox"))
        if app.engine:
            watch = ClockWatch(store, workflows)
            self._run(watch, asyncio.create_task(watch.run(), name="perdure-schedules"))
        access = StoreAccess(store, engine, outbox)
        self.client = client_on(access)
        self._stack.push_async_callback(access.aclose)

    def _run(self, member: Engine | Worker | OutboxRelay | ClockWatch, running: asyncio.Task[None]) -> None:
        self._members.append(member)
        self._running.append(running)
        running.add_done_callback(self._note_end)

    def _note_end(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None and self.failure is None:
            self.failure = error
            logger.error("the engine of an App has failed: %s. All waits for results fail; open the App again when the cause is removed", error)

    async def close(self, grace_s: float) -> None:
        """Stops engine and worker within the grace, and closes the store. A cancellation ends the grace."""
        cancelled: asyncio.CancelledError | None = None
        for member in self._members:
            member.stop(grace_s)
        while any(not one.done() for one in self._running):
            try:
                _ = await asyncio.wait(self._running)
            except asyncio.CancelledError as error:
                cancelled = error
                for member in self._members:
                    member.stop(0.0)
        await self._stack.aclose()
        if cancelled is not None:
            raise cancelled

    async def start(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncHandle[Any]:
        """See `App.start`."""
        self._expect_use(verb)
        return await self.client._start(verb, self._app.workflow(workflow) if isinstance(workflow, str) else workflow, args, kwargs)

    async def run(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `App.run`."""
        self._expect_use(verb)
        return await self.client._run(verb, self._app.workflow(workflow) if isinstance(workflow, str) else workflow, args, kwargs)

    async def handle(self, id: str | Key, workflow: Workflow[..., Any] | str | None, tenant: str) -> AsyncHandle[Any]:
        """See `App.handle`."""
        self._expect_use("app.handle")
        return await self.client.get(id, workflow, tenant=tenant)

    def _expect_use(self, verb: str) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise WrongVerb(
                f"{verb}() was called on another event loop", "await it on the loop that opened the App, or use `with app as shop:`, whose verbs work anywhere"
            )
        if self.failure is not None:
            raise self.failure


_inherited: list[_OpenApp] = []
"""Open Apps of the parent, in a forked child. They are kept here so that they are not finalized: their event loops share descriptors with the parent's."""


_in_background: list[App] = []
"""The Apps that `App.background` has opened in this process."""

_opening = Lock()


def _close_all() -> None:
    while _in_background:
        _in_background[-1]._close_in_background()


def _forget_background() -> None:
    """Lets a forked child open its Apps itself: the threads of the parent do not run there, and one of them may have held the lock."""
    global _opening  # a lock that another thread held when the process was forked is never released in the child
    _opening = Lock()
    _in_background.clear()


os.register_at_fork(after_in_child=_forget_background)


def _checked_workflows(workflows: Iterable[Workflow[..., Any]]) -> tuple[Workflow[..., Any], ...]:
    given = (workflows,) if isinstance(workflows, Workflow) else tuple(workflows)
    names: dict[str, Workflow[..., Any]] = {}
    for one in given:
        if not isinstance(one, Workflow):
            hint = "; decorate it with @workflow" if isfunction(one) else ""
            raise BadValue("App(workflows)", one, f"workflows, such as those that @workflow makes{hint}")
        if names.setdefault(one.code.name, one) is not one and not isinstance(one, Definition):
            raise BadValue("App(workflows)", one.code.name, "the name of one workflow; give the others another name with name=")
    return given


def _release_order(one: Workflow[..., Any]) -> Any:
    return version_order(one.ir.version) if isinstance(one, Definition) else (0, 0, 0, False)


def _steps_near(workflows: Iterable[Workflow[..., Any]]) -> list[Step[..., Any, Any]]:
    """Returns the steps in the modules of the functions of workflows; of several with one name, the last one counts."""
    modules = {id(names): names for one in workflows if (names := getattr(one.code.fn, "__globals__", None)) is not None}
    return [thing for names in modules.values() for thing in reversed(by_their_own_name_first(names)) if isinstance(thing, Step)]


def _queues_of(queues: Iterable[str | Queue]) -> list[Queue]:
    return [one for one in queues if isinstance(one, Queue)]


def _is_interactive() -> bool:
    """Returns whether this is a notebook or a prompt, where names are defined again and again."""
    return hasattr(sys, "ps1")


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the caller runs on this loop."""
    with suppress(RuntimeError):  # no event loop is running
        return asyncio.get_running_loop() is loop
    return False


def _refuse_in_workflow(what: str) -> None:
    with suppress(RuntimeError):  # no event loop is running
        if isinstance(asyncio.get_running_loop(), DeterministicLoop):
            raise WrongVerb(
                f"{what} was called inside a workflow", "run a child: `await ctx.call(workflow, ...)`, or `await ctx.start(workflow, ...)` to continue at once"
            )
