"""Pipes: one child does many tasks, and speaks with this process in lines of JSON on its input and output. What it says to people goes to its standard error.

It begins with ``{"say": "ready"}``. It is told ``task``, ``cancel``, ``refused`` and ``stop``, and says ``heartbeat``, ``complete`` and ``fail``, each with the
lease. When it dies, what it had is interrupted, and it is started again, after a while that grows with each time. Lines on its output that do not begin with
``{`` are taken to be for people, too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from perdure.core import values
from perdure.core.errors import BadValue, ProgrammingError, StoreError, TooLarge
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.task_broker import TASK_WAIT_MAX_S, TASKS_PER_REQUEST_MAX, LeaseEnd, LeaseRequest, TaskBroker, TaskLease, TaskWorker
from perdure.supervision.child_process import ChildProcess
from perdure.tasks import worker_protocol
from perdure.tasks.child_command import LINE_BYTES_MAX, forward_lines

logger = logging.getLogger("perdure.tasks")

READY_S = 30.0
"""How long a child may take to be ready."""

CANCEL_S = 30.0
"""How long a child may go on with a task that nobody wants any more, before it is ended and started again."""

RESTART_MIN_S, RESTART_MAX_S = 0.1, 30.0
"""The shortest and the longest wait before a child that has died is started again; after one that has lived longer than that, the shortest."""

DRAIN_S = 1.0
"""How long what a child has said before it ended may take to be read, and its answers to be kept."""

CHUNK_BYTES = 1 << 16
MESSAGE_BYTES_MAX = VALUE_BYTES_MAX + 64 * 1024
"""The longest message: a value of the largest size, and what stands around it."""


class ReadyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The child is there for tasks: so many at a time."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=TASKS_PER_REQUEST_MAX)] = 1


class ChildProtocolError(Exception):  # ends one life of a child, and is logged
    """The child can't be spoken with any more, and why."""


class PipeWorker:
    """Does the tasks of `lender` by a child, until stopped."""

    def __init__(self, broker: TaskBroker, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.broker = broker
        self._command, self._environment = tuple(command), dict(environment)
        self._life: ChildSession | None = None

    async def ready(self) -> None:
        """Wait until it does tasks, as soon as the child is there for them."""
        await self.broker.joined.wait()

    async def run(self) -> None:
        """Have children do tasks until cancelled or stopped."""
        lending = asyncio.create_task(self.broker.run())
        living = asyncio.create_task(self._live(lending))
        try:
            _ = await asyncio.wait((lending, living), return_when=asyncio.FIRST_COMPLETED)
        finally:
            lending.cancel()
            living.cancel()
            ended = await asyncio.gather(lending, living, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return; what the child does may end within `grace_s`."""
        self.broker.stop(grace_s)
        if self._life is not None:
            self._life.wake()

    async def _live(self, lending: "asyncio.Task[None]") -> None:
        """Start one child after another."""
        loop, wait_s = asyncio.get_running_loop(), RESTART_MIN_S
        while not self.broker.stopping:
            began_s = loop.time()
            child = await ChildProcess.start(self._command, self._environment, piped=True)
            self._life = ChildSession(self.broker, child, Path(self._command[0]).name)
            why = await self._life.live()
            if self.broker.stopping:
                break
            wait_s = RESTART_MIN_S if loop.time() - began_s > RESTART_MAX_S else min(wait_s * 2, RESTART_MAX_S)
            logger.warning("%s %s; it is started again in %.2g s", self._command[0], why, wait_s)
            _ = await asyncio.wait((lending,), timeout=wait_s)
        _ = await asyncio.wait((lending,))


class ChildSession:
    """One child, from its start to its end. `loans` are the tasks that it has: also those that nobody wants any more, until it lets go of them."""

    def __init__(self, broker: TaskBroker, child: ChildProcess, name: str) -> None:
        self.broker, self.child = broker, child
        self.task_leases: dict[str, TaskLease] = {}
        self._task_worker = TaskWorker("", name)
        self._concurrency = 0
        self._changed = asyncio.Event()
        self._not_handed_over: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def live(self) -> str:
        """Have it do tasks until it ends, can't be spoken with, or nothing more is to be done; return how it has ended."""
        reading, complaining = asyncio.create_task(self._read()), asyncio.create_task(self._listen())
        exited = asyncio.create_task(self.child.process.wait())
        feeding = asyncio.create_task(self._feed())
        tasks: list[asyncio.Task[Any]] = [reading, complaining, exited, feeding]
        try:
            _ = await asyncio.wait((exited, feeding, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                _ = await asyncio.wait((reading, complaining), timeout=DRAIN_S)  # it may have answered with its last breath
                _ = await asyncio.wait((*self._answers, asyncio.create_task(asyncio.sleep(0))), timeout=DRAIN_S)
        finally:
            try:
                code = await self.child.end()
            finally:
                tasks += [*self._tasks, *self._answers]
                for task in tasks:
                    task.cancel()
                self.broker.give_back([self.task_leases[id] for id in self._not_handed_over if id in self.task_leases])
                self.broker.interrupt(self.task_leases.values())
                _ = await asyncio.gather(*tasks, return_exceptions=True)
        return self._broken.result() if self._broken.done() else f"has ended with exit code {code}"

    def wake(self) -> None:
        """Look whether there is something else to do."""
        self._changed.set()

    def broken(self, why: str) -> None:
        """It can't be gone on with."""
        if not self._broken.done():
            self._broken.set_result(why)

    # What it is told.

    async def _feed(self) -> None:
        """Give it tasks, as many at a time as it takes, until nothing more is lent; then wait for its answers."""
        try:
            async with asyncio.timeout(READY_S):
                while not self._concurrency:
                    await self._change()
        except TimeoutError:
            self.broken(f"has not said within {READY_S:g} s that it is ready")
        while not self.broker.stopping:
            if len(self.task_leases) >= self._concurrency:
                await self._change()
                continue
            wanted = LeaseRequest(self.broker.queues, limit=self._concurrency - len(self.task_leases), wait_s=TASK_WAIT_MAX_S, lease_s=None)
            task_leases = await self.broker.lease(self._task_worker, wanted)
            if isinstance(task_leases, LeaseEnd):
                break
            self.task_leases |= {task_lease.id: task_lease for task_lease in task_leases}
            self._not_handed_over |= {task_lease.id for task_lease in task_leases}
            for task_lease in task_leases:
                await self._hand_over(task_lease)
        await self._tell({"say": "stop"})
        while self.task_leases:
            await self._change()

    async def _hand_over(self, task_lease: TaskLease) -> None:
        """Give it a task, unless that can't be said in JSON."""
        self._not_handed_over.discard(task_lease.id)
        try:
            task = worker_protocol.leased_task(task_lease)
        except ProgrammingError as error:
            del self.task_leases[task_lease.id]
            self.broker.refuse(task_lease, error)
        else:
            self._spawn(self._watch(task_lease), self._tasks)
            await self._tell({"say": "task", **msgspec.to_builtins(task)})

    async def _watch(self, task_lease: TaskLease) -> None:
        """Tell it when nobody waits for a task any more; once that can't be answered either, it has to let go of it."""
        gone = await task_lease.cancelled
        if task_lease.id not in self.task_leases or gone.end == "answered":
            return
        self._spawn(self._tell({"say": "cancel", "lease": task_lease.id, "why": gone.why}), self._tasks)
        _ = await asyncio.gather(task_lease.ended, asyncio.sleep(CANCEL_S))
        if task_lease.id in self.task_leases:
            self.broken(f"went on for {CANCEL_S:g} s with a task that was cancelled")

    async def _tell(self, message: Mapping[str, Any]) -> None:
        """Tell it something, unless it does not listen any more, of which its end will tell."""
        writer = self.child.process.stdin
        if writer is not None and not writer.is_closing():
            writer.write(msgspec.json.encode(message) + b"\n")
            try:
                await writer.drain()
            except (BrokenPipeError, ConnectionResetError):
                writer.close()

    # What it says.

    async def _read(self) -> None:
        assert self.child.process.stdout is not None
        try:
            async for line in read_lines(self.child.process.stdout):
                if line.startswith(b"{"):
                    self._hear(line)
                elif line.strip():
                    self._for_people(line[:LINE_BYTES_MAX].decode("utf-8", "backslashreplace").rstrip())
        except ChildProtocolError as error:
            self.broken(str(error))

    async def _listen(self) -> None:
        assert self.child.process.stderr is not None
        await forward_lines(self.child.process.stderr, self._for_people)

    def _hidden(self, text: str) -> str:
        for task_lease in self.task_leases.values():
            text = task_lease.mask.text(text) if task_lease.mask else text
        return text

    def _for_people(self, line: str) -> None:
        logger.info("%s: %s", self._task_worker.name, self._hidden(line))

    def _hear(self, line: bytes) -> None:
        try:
            said = worker_protocol.decode_body(line, msgspec.json.Decoder(dict[str, Any]).decode, "a message")
            what, lease = said.pop("say", None), said.pop("lease", "")
            match what:
                case "ready":
                    self._concurrency = msgspec.convert(said, ReadyBody).concurrency
                    self._changed.set()
                case "heartbeat":
                    self._spawn(self._beat(lease, msgspec.convert(said, worker_protocol.HeartbeatBody)), self._tasks)
                case "complete":
                    self._spawn(self._answer(lease, msgspec.convert(said, worker_protocol.CompleteBody)), self._answers)
                case "fail":
                    self._spawn(self._answer(lease, msgspec.convert(said, worker_protocol.FailBody)), self._answers)
                case _:
                    raise BadValue("say", what, "ready, heartbeat, complete or fail")
        except (BadValue, msgspec.ValidationError) as error:
            raise ChildProtocolError(
                self._hidden(f"said what is no message of the protocol: {error}: {line[:200].decode('utf-8', 'backslashreplace')}")
            ) from error

    async def _beat(self, lease: str, beat: worker_protocol.HeartbeatBody) -> None:
        progress = None if beat.progress is msgspec.UNSET else values.encode(beat.progress, "the progress of a task")
        if progress is not None and len(progress) >= BLOB_BYTES_MIN:
            raise TooLarge("the progress of a task", len(progress), BLOB_BYTES_MIN)
        _ = await self.broker.heartbeat(self._task_worker, lease, progress)

    async def _answer(self, lease: str, said: worker_protocol.CompleteBody | worker_protocol.FailBody) -> None:
        """Take an answer. One that can't be kept is none, and the task has failed."""
        task_lease = self.task_leases.get(lease)
        try:
            if isinstance(said, worker_protocol.CompleteBody):
                value = values.encode(said.value, "the result of a task")
                gone = await self.broker.complete(self._task_worker, lease, value, worker_protocol.checked_port(said.port))
            else:
                gone = await self.broker.fail(self._task_worker, lease, said.error, retry=said.retry, after_s=said.after_s)
        except ProgrammingError as error:
            gone = LeaseEnd("answered", str(error))
            if task_lease is not None:
                self.broker.refuse(task_lease, error)
        except StoreError as error:
            gone = LeaseEnd("lost", str(error))
            if task_lease is not None:
                self.broker.interrupt([task_lease])
        self.task_leases.pop(lease, None)
        self.wake()
        if gone is not None:
            await self._tell({"say": "refused", "lease": lease, "why": gone.why})

    # Small things.

    async def _change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def _spawn(self, doing: Coroutine[Any, Any, None], among: "set[asyncio.Task[None]]") -> None:
        task = asyncio.create_task(doing)
        among.add(task)
        task.add_done_callback(among.discard)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken(f"said what could not be taken: {error}")


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, each as soon as it is whole; what stands behind the last is none.

    Raises:
        Broken: one is longer than any message.
    """
    rest, looked = bytearray(), 0
    while some := await stream.read(CHUNK_BYTES):
        rest += some
        while (at := rest.find(b"\n", looked)) >= 0:
            yield bytes(rest[:at])
            del rest[: at + 1]
            looked = 0
        looked = len(rest)
        if looked > MESSAGE_BYTES_MAX:
            raise ChildProtocolError(f"said a line of more than {MESSAGE_BYTES_MAX:,} bytes")
