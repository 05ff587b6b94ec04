"""Runs engines inside the calling process, and waits there for the end of executions. `greet.run()` and `App` use it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from uuid import uuid4

from perdure.code.declared_queues import Queue
from perdure.core import messages
from perdure.core.carried import Carried
from perdure.core.envelopes import OutgoingMessage
from perdure.core.events import ParkedEvent
from perdure.core.paths import Key
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.engine import Engine
from perdure.runtime.execution_results import Ending, last_lifecycle_event, result_of_ended, wait_for_result
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.configured_store import open_store
from perdure.stores.protocol import Post, Store


@asynccontextmanager
async def local_engine(
    workflows: Iterable[Workflow],
    url: str | None = None,
    roots: Iterable[Key] | None = None,
    declares: Iterable[Queue] = (),
    secrets: Callable[[Store], SecretSource] | None = None,
) -> AsyncIterator[Engine]:
    """Runs an engine on the store of `url` until the block is left. Executions that have not ended by then continue when they are run again.

    `secrets` makes the source of secrets from the store, which may hold a vault.
    """
    store = open_store(url)
    try:
        engine = Engine(store, workflows, roots=roots, declares=declares, threaded=True, secrets=None if secrets is None else secrets(store))
        running = await begin_engine(engine)
        try:
            yield engine
        finally:
            engine.stop()
            await running
    finally:
        await store.close()


async def begin_engine(engine: Engine) -> "asyncio.Task[None]":
    """Runs an engine as a task, and waits until it has joined the store. If this raises (it failed, or the wait was cancelled), it has ended."""
    running = asyncio.create_task(engine.run(), name="perdure-engine")
    joined = asyncio.create_task(engine.ready())
    try:
        _ = await asyncio.wait((running, joined), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        if not joined.done():
            running.cancel()  # it may wait for the store for ever
        engine.stop()
        _ = await asyncio.wait((running,))
        raise
    finally:
        joined.cancel()
    if running.done():
        await running  # raises why it failed
    return running


async def resume_if_diverged(engine: Engine, key: Key) -> int:
    """Retries an execution that was parked by a divergence. Returns the version from which to watch it (0: from its start).

    An execution that was parked for another reason stays parked: continuing may do harm again, so a person decides that. The decision on the
    message checks the reason once more, because the execution may be parked for another one in the meantime.
    """
    found = await engine.store.read(key, after=sys.maxsize)
    if found is None or found.head.status != "needs_attention":
        return 0
    turn = await last_lifecycle_event(engine.store, found.head)
    if not isinstance(turn, ParkedEvent) or turn.reason != "diverged":
        return 0
    retry = messages.encode_message(messages.RetryMessage("run again", parked="diverged"))
    _ = await engine.store.commit([Post(messages=(OutgoingMessage(key, f"retry:{uuid4().hex}", retry),))])
    return found.head.version


async def run_to_end(engine: Engine, key: Key, value: bytes, workflow: Workflow | None = None, carried: Carried = ()) -> bytes:
    """Starts an execution with an encoded input, or continues the one that has this key; waits for its end and returns its encoded result.

    `workflow` is the workflow to start, in case the engine knows another one of its name.

    Raises:
        UnknownWorkflow: this engine does not know the workflow.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: see `wait_for_end`.
    """
    ending = engine.ending(key)
    if not await engine.start(key, value, workflow, carried):
        await engine.claim_now()  # so that the engine holds it, if it is ready, before its status is read
        return await wait_for_end(engine, key, await resume_if_diverged(engine, key))
    ended = await asyncio.shield(ending)  # this engine advances it from its start to its end, so the store need not be watched
    return await (wait_for_end(engine, key) if ended is None else result_of_ended(engine.store, key, ended))


async def wait_for_end(engine: Engine, key: Key, after: int = 0, *, through_pauses: bool = False, ending: Ending | None = None) -> bytes:
    """Waits for the end of an execution and returns its encoded result. Events up to version `after` are ignored.

    If this engine holds the execution, the store is not polled. `ending` is the next end in this engine, if the execution is known to be there.
    Any process may advance the execution. If this engine fails, the wait fails with the same error.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how it ended.
        NeedsAttention: it is parked.
    """
    if ending is None and engine.holds(key):
        ending = engine.ending(key)
    if ending is not None and (ended := await asyncio.shield(ending)) is not None:
        return await result_of_ended(engine.store, key, ended)
    waiting = asyncio.create_task(wait_for_result(engine.watch, engine.store, key, after, through_pauses=through_pauses))
    try:
        while True:
            ending = engine.ending(key)
            _ = await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and (ended := ending.result()) is not None:
                return await result_of_ended(engine.store, key, ended)
            if waiting.done():
                return await waiting
    finally:
        waiting.cancel()
