"""An `App` that is open in a world: the verbs of the App, called by the application under test, act on the world's store and engine, in virtual time."""

import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from perdure.app import App, SyncApp, _OpenApp
from perdure.async_client import client_on
from perdure.async_handle import AsyncHandle
from perdure.code.call_options import NamedWorkflow
from perdure.core.errors import WrongVerb
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.service.store_access import StoreAccess
from perdure.testing.virtual_time import VirtualLoop
from perdure.workflow_function import Workflow

T = TypeVar("T")


class AppWorld(Protocol):
    """The part of `perdure.testing.World` that an open App uses."""

    access: StoreAccess

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop of the world to its end."""

    def next_id(self, workflow: str) -> str:
        """Returns an id that no execution of the workflow has."""

    def seed_of(self, key: Key) -> int:
        """Returns the seed that an execution of this key starts with."""


class WorldThread(LoopThread):
    """Takes the place of the thread of an App: calls run on the loop of the world, in the thread of the test."""

    def __init__(self, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.closed = False
        self._on_world = call

    def _call(self, coroutine: Coroutine[Any, Any, T], _: float) -> T:
        """Runs a coroutine on the loop of the world; time passes until it ends."""
        result: T = self._on_world(coroutine)
        return result

    async def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Refuses: there is no second loop.

        Raises:
            WrongVerb: always.
        """
        coroutine.close()
        raise WrongVerb("an App in a world was awaited on another event loop", "run the caller by world.call(...)")

    def close(self) -> None:
        """Has no effect: the world closes its loop."""


class WorldApp(_OpenApp):
    """An App that is open on a world: no store, engine or worker of its own."""

    def __init__(self, app: App, world: AppWorld, loop: VirtualLoop) -> None:
        self.world_thread = WorldThread(world.call)
        super().__init__(app, self.world_thread, loop)
        self.client = client_on(world.access)
        self._world = world

    async def start(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncHandle[Any]:
        """See `App.start`. Ids and seeds are the same in every run of a test."""
        known, wanted, queue = self.client._request(verb, self._app.workflow(workflow) if isinstance(workflow, str) else workflow, args, kwargs)
        calling = (known.code if isinstance(known, Workflow) else known).calling
        key = wanted.key if calling.id is not None or calling.singleton else wanted.key._replace(id=self._world.next_id(wanted.key.workflow))
        return await self.client._begin(known, msgspec.structs.replace(wanted, key=key, seed=self._world.seed_of(key)), queue)

    async def run(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `App.run`."""
        return await (await self.start(verb, workflow, args, kwargs)).result()


def opened_in(app: App, world: AppWorld, loop: VirtualLoop) -> SyncApp:
    """Opens an App in a world, and returns its sync face.

    Raises:
        WrongVerb: it is open already.
    """
    if app._opened_here is not None:
        raise WrongVerb(f"{app!r} is open already", "open it in the world only: leave `with app:` out, and do not call app.background() before")
    app._opened, app._pid = (opened := WorldApp(app, world, loop)), os.getpid()
    return SyncApp(app, opened.world_thread)


def closed_in(app: App) -> None:
    """Closes an App that was opened in a world."""
    app._opened, app._pid, app._was_open = None, 0, True
