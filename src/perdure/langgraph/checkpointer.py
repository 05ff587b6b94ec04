"""The checkpointer that LangGraph calls, sync and async, on a database of its own or on that of an open App."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from perdure.app import App
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, WrongVerb
from perdure.langgraph.checkpoint_records import (
    CHECKPOINT,
    WRITE,
    CheckpointRecords,
    Place,
    StoredCheckpoint,
    StoredWrite,
    has_values,
    thread_prefix,
)
from perdure.loop_thread import LoopThread
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Store
from perdure.sync_client import Client

T = TypeVar("T")

DELTA_COUNTERS = "counters_since_delta_snapshot"
"""The metadata of a checkpoint that names the channels whose values are only partly in it: the rest is in what was written behind its ancestors."""


class Checkpointer(BaseCheckpointSaver[str]):
    """Keeps checkpoints of LangGraph in Perdure's database: ``builder.compile(checkpointer=Checkpointer("sqlite:///shop.db"))``.

    `db` is the URL of a database, by default that of `PERDURE_DB`, which is opened with the first use and closed by `close`; or an `App`, whose database is
    used as long as it is open. `codec` encodes what is stored, and by default follows from the environment, as for executions. `serde` is how LangGraph
    serializes values. A checkpoint is durable when `put` returns, and has all of its values or is not there. Several processes may use the same threads.

    On an App that is open by ``async with app:``, the async methods are used, on its event loop; otherwise sync and async ones, anywhere.

    Raises:
        BadValue: `db` is neither a URL nor an App, which has a codec of its own; or the tenant's name is invalid.
    """

    def __init__(
        self, db: str | App | None = None, *, tenant: str = DEFAULT_TENANT, codec: PayloadCodec | None = None, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        if db is not None and not isinstance(db, str | App):
            raise BadValue("Checkpointer(db)", db, "the URL of a database, such as sqlite:///shop.db, or an App")
        if isinstance(db, App) and codec is not None:
            raise BadValue("Checkpointer(codec)", codec, "left out here, since what is stored is encoded by the codec of the App: App(codec=...)")
        self._database: _OwnDatabase | _DatabaseOfApp = _DatabaseOfApp(db) if isinstance(db, App) else _OwnDatabase(db, codec)
        self._tenant = checked_name(tenant, "tenant")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database that was opened here. A later use opens it again; an App stays open."""
        self._database.close()

    # LangGraph calls these.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns the checkpoint of a config; without an id the newest of the namespace; None if there is none."""
        return await self._database.wait_for(self._get(config))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`."""
        return self._database.call(self._get(config))

    async def alist(
        self, config: RunnableConfig | None, *, filter: dict[str, Any] | None = None, before: RunnableConfig | None = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """Yields checkpoints, the newest first: of a namespace, of a thread, or all. They have all values of `filter` in their metadata."""
        found = await self._database.wait_for(self._list(config, filter, before, limit))
        for one in found:
            yield await self._database.wait_for(self._loaded(one))

    def list(
        self, config: RunnableConfig | None, *, filter: dict[str, Any] | None = None, before: RunnableConfig | None = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """See `alist`."""
        for one in self._database.call(self._list(config, filter, before, limit)):
            yield self._database.call(self._loaded(one))

    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> RunnableConfig:
        """Puts a checkpoint, which is durable when this returns; returns its config."""
        return await self._database.wait_for(self._put(config, checkpoint, metadata, new_versions))

    def put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> RunnableConfig:
        """See `aput`."""
        return self._database.call(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Puts what a task wrote behind a checkpoint. Repeated, it changes nothing, apart from special writes such as an error."""
        await self._database.wait_for(self._put_writes(config, writes, task_id, task_path))

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """See `aput_writes`."""
        self._database.call(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints of a thread, and what was written behind them."""
        await self._database.wait_for(self._delete_thread(thread_id))

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        self._database.call(self._delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, by `run_id` in their metadata. All checkpoints of the tenant are looked at."""
        await self._database.wait_for(self._delete_for_runs(run_ids))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `adelete_for_runs`."""
        self._database.call(self._delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints of a thread, and what was written behind them, to another one."""
        await self._database.wait_for(self._copy(source_thread_id, target_thread_id))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `acopy_thread`."""
        self._database.call(self._copy(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints of threads that are not the newest of their namespace; with the strategy ``delete``, these as well.

        Ancestors that the newest needs to rebuild its channels stay. Do not prune a thread while a graph runs in it.

        Raises:
            BadValue: the strategy is unknown.
        """
        await self._database.wait_for(self._prune(thread_ids, strategy))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `aprune`."""
        self._database.call(self._prune(thread_ids, strategy))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Returns the next version of a channel: a number and a random part, so that two runs which continue one checkpoint have different versions."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}.{random.getrandbits(60):016x}"

    # On the loop of the store.

    @property
    def _records(self) -> CheckpointRecords:
        return CheckpointRecords(self._database.store, self._tenant)

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await self._records.latest(_place_of(config))
        return None if found is None else await self._loaded(found)

    async def _list(
        self, config: RunnableConfig | None, conditions: dict[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> Collection[StoredCheckpoint]:
        prefix, bound = _prefix_of(config), None if before is None else get_checkpoint_id(before)
        is_one_list = config is not None and "checkpoint_ns" in config["configurable"]  # the keys of others begin with their namespaces
        found = list[StoredCheckpoint]()
        async for one in self._records.checkpoints(prefix, bound if is_one_list else None):
            if limit is not None and is_one_list and len(found) >= limit:
                break
            if (bound is None or one.id < bound) and (not conditions or has_values(self.serde.loads_typed(one.metadata), conditions)):
                found.append(one)
        found.sort(key=lambda one: one.id, reverse=True)
        return found[:limit]

    async def _loaded(self, one: StoredCheckpoint) -> CheckpointTuple:
        records, load = self._records, self.serde.loads_typed
        values = {channel: load(value) for channel, value in (await records.values(one)).items()}
        return CheckpointTuple(
            config=_config(one.place),
            checkpoint=cast(Checkpoint, {**load(one.checkpoint), "channel_values": values}),
            metadata=load(one.metadata),
            parent_config=_config(one.place._replace(id=one.parent)) if one.parent else None,
            pending_writes=[(write.task, write.channel, load(write.value)) for write in await records.writes(one.place)],
        )

    async def _put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> RunnableConfig:
        rest: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = rest.pop("channel_values")
        place, dump = _place_of(config)._replace(id=checkpoint["id"]), self.serde.dumps_typed
        described = get_checkpoint_metadata(config, metadata)
        versions = {channel: str(version) for channel, version in checkpoint["channel_versions"].items()}
        versions |= {channel: str(version) for channel, version in new_versions.items()}
        run = str(described.get("run_id", ""))
        stored = StoredCheckpoint(*place, get_checkpoint_id(config), run, dump(rest), dump(described), versions)
        await self._records.put(stored, {(channel, str(version)): dump(values[channel]) for channel, version in new_versions.items() if channel in values})
        return _config(place)

    async def _put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str) -> None:
        dump = self.serde.dumps_typed
        stored = [StoredWrite(task_id, WRITES_IDX_MAP.get(name, index), name, dump(value), task_path) for index, (name, value) in enumerate(writes)]
        await self._records.put_writes(_place_of(config), stored)

    async def _delete_thread(self, thread: str) -> None:
        await self._records.remove(thread_prefix(thread))

    async def _delete_for_runs(self, runs: Sequence[str]) -> None:
        wanted = set(runs)
        await self._delete([one async for one in self._records.checkpoints("") if one.run and one.run in wanted] if wanted else [])

    async def _delete(self, checkpoints: Sequence[StoredCheckpoint]) -> None:
        for one in checkpoints:
            await self._records.remove(one.place.prefix, (CHECKPOINT, WRITE))
        for place in {one.place._replace(id="") for one in checkpoints}:
            await self._records.remove_unused_values(place)

    async def _copy(self, source: str, target: str) -> None:
        if source != target:
            await self._records.copy(source, target)

    async def _prune(self, threads: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise BadValue("prune(strategy)", strategy, "keep_latest or delete")
        for thread in threads:
            if strategy == "delete":
                await self._delete_thread(thread)
                continue
            present = [one async for one in self._records.checkpoints(thread_prefix(thread))]
            newest = {one.namespace: one for one in sorted(present, key=lambda one: one.id)}
            kept = {one.place for last in newest.values() for one in await self._needed_by(last, {one.place: one for one in present})}
            await self._delete([one for one in present if one.place not in kept])

    async def _needed_by(self, last: StoredCheckpoint, present: Mapping[Place, StoredCheckpoint]) -> Sequence[StoredCheckpoint]:
        """Returns a checkpoint with the ancestors from which it rebuilds channels that have only changes in it."""
        needed, one = [last], last
        open_channels = set(self.serde.loads_typed(last.metadata).get(DELTA_COUNTERS) or ())
        while open_channels and one.parent and (parent := present.get(one.place._replace(id=one.parent))) is not None:
            needed.append(one := parent)
            open_channels -= (await self._records.values(one)).keys()
        return needed


def _place_of(config: RunnableConfig) -> Place:
    configurable = config["configurable"]
    return Place(str(configurable["thread_id"]), configurable.get("checkpoint_ns", ""), get_checkpoint_id(config) or "")


def _prefix_of(config: RunnableConfig | None) -> str:
    if config is None or "thread_id" not in config["configurable"]:
        return ""
    return _place_of(config).prefix if "checkpoint_ns" in config["configurable"] else thread_prefix(str(config["configurable"]["thread_id"]))


def _config(place: Place) -> RunnableConfig:
    return {"configurable": {"thread_id": place.thread, "checkpoint_ns": place.namespace, "checkpoint_id": place.id}}


class _OwnDatabase:
    """A database that a checkpointer opens for itself when it is first used, once in each process."""

    def __init__(self, url: str | None, codec: PayloadCodec | None) -> None:
        self._url, self._codec = url, codec
        self._opening = Lock()
        self._clients = dict[int, Client]()
        """The clients by process: a forked child keeps that of its parent, which must not be finalized there, and opens another one."""

    @property
    def store(self) -> Store:
        """The open store; on its loop."""
        return self._client()._inner._access.on_store("a checkpointer").store

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop of the store."""
        return self._client()._thread.call(work)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop of the store, for a caller on another one."""
        return await self._client()._thread.wait_for(work)

    def close(self) -> None:
        """Closes the database, if it is open."""
        with self._opening:
            client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def _client(self) -> Client:
        pid = os.getpid()
        if pid not in self._clients:
            with self._opening:
                if pid not in self._clients:
                    self._clients[pid] = Client(self._url, codec=self._codec)
        return self._clients[pid]


class _DatabaseOfApp:
    """The database of an App, as long as that is open."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def store(self) -> Store:
        """The store of the App; on its loop."""
        opened = self._app._expect_open("client", None)
        opened._expect_use("a checkpointer of the App")
        return opened.client._access.on_store("a checkpointer").store

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop of the App.

        Raises:
            WrongVerb: the App is open on an event loop, whose async methods must be used; or is not open.
        """
        if (thread := self._thread()) is None:
            work.close()
            raise WrongVerb("a sync method of a checkpointer was called, whose App is not open by `with app:`", "use `graph.ainvoke`, or `with app:`")
        return thread.call(work)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop of the App, which may be that of the caller."""
        thread = self._thread()
        return await (work if thread is None else thread.wait_for(work))

    def close(self) -> None:
        """Leaves the App open."""

    def _thread(self) -> LoopThread | None:
        return None if (opened := self._app._opened_here) is None else opened.thread
