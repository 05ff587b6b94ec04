"""Leases tasks to one child process, which exchanges lines of JSON with this process on its standard input and output, and logs on its standard error.

The child begins with ``{"say": "ready"}``. It receives ``task``, ``cancel``, ``refused`` and ``stop``, and sends ``heartbeat``, ``complete`` and ``fail``, each
with the lease. When it dies, its tasks are interrupted, and it is started again with exponential backoff. Lines on its output that do not begin with ``{`` are
log output as well.
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
"""How long a child may continue with a task that is no longer wanted, before it is ended and started again."""

RESTART_MIN_S, RESTART_MAX_S = 0.1, 30.0
"""The shortest and the longest wait before a dead child is started again. A child that has run longer than the longest wait resets the backoff."""

DRAIN_S = 1.0
"""How long reading the last output of a child, and storing its answers, may take after its end."""

CHUNK_BYTES = 1 << 16
MESSAGE_BYTES_MAX = VALUE_BYTES_MAX + 64 * 1024
"""The longest message: a value of the largest size, and the JSON around it."""


class ReadyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message of a child that it is ready for tasks, with how many it performs at a time."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=TASKS_PER_REQUEST_MAX)] = 1


class ChildProtocolError(Exception):  # ends one life of a child, and is logged
    """A violation of the protocol by the child, after which it is ended."""


class PipeWorker:
    """Performs the tasks of `broker` with a child process, until stopped."""

    def __init__(self, broker: TaskBroker, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.broker = broker
        self._command, self._environment = tuple(command), dict(environment)
        self._session: ChildSession | None = None

    async def ready(self) -> None:
        """Waits until the broker has joined the store. The child may become ready later."""
        await self.broker.joined.wait()

    async def run(self) -> None:
        """Runs a child, and starts it again when it ends, until cancelled or stopped."""
        broker_task = asyncio.create_task(self.broker.run())
        running = asyncio.create_task(self._run_children(broker_task))
        try:
            _ = await asyncio.wait((broker_task, running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            broker_task.cancel()
            running.cancel()
            ended = await asyncio.gather(broker_task, running, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. The tasks of the child may end within `grace_s`."""
        self.broker.stop(grace_s)
        if self._session is not None:
            self._session.wake()

    async def _run_children(self, broker_task: "asyncio.Task[None]") -> None:
        """Runs one child after another."""
        loop, wait_s = asyncio.get_running_loop(), RESTART_MIN_S
        while not self.broker.stopping:
            began_s = loop.time()
            child = await ChildProcess.start(self._command, self._environment, piped=True)
            self._session = ChildSession(self.broker, child, Path(self._command[0]).name)
            why = await self._session.run()
            if self.broker.stopping:
                break
            wait_s = RESTART_MIN_S if loop.time() - began_s > RESTART_MAX_S else min(wait_s * 2, RESTART_MAX_S)
            logger.warning("the program %s %s. Perdure starts it again in %.2g s", self._command[0], why, wait_s)
            _ = await asyncio.wait((broker_task,), timeout=wait_s)
        _ = await asyncio.wait((broker_task,))


class ChildSession:
    """One run of the child, from its start to its end. `task_leases` are its tasks, including cancelled ones that it has not answered yet."""

    def __init__(self, broker: TaskBroker, child: ChildProcess, name: str) -> None:
        self.broker, self.child = broker, child
        self.task_leases: dict[str, TaskLease] = {}
        self._task_worker = TaskWorker("", name)
        self._concurrency = 0
        self._changed = asyncio.Event()
        self._not_sent: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._end_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        """Gives the child tasks until it ends, violates the protocol, or the broker stops. Returns how the child has ended."""
        reading, logging_errors = asyncio.create_task(self._read()), asyncio.create_task(self._log_standard_error())
        exited = asyncio.create_task(self.child.process.wait())
        feeding = asyncio.create_task(self._feed())
        tasks: list[asyncio.Task[Any]] = [reading, logging_errors, exited, feeding]
        try:
            _ = await asyncio.wait((exited, feeding, self._end_reason), return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                _ = await asyncio.wait((reading, logging_errors), timeout=DRAIN_S)  # its last output may hold answers
                _ = await asyncio.wait((*self._answers, asyncio.create_task(asyncio.sleep(0))), timeout=DRAIN_S)
        finally:
            try:
                code = await self.child.end()
            finally:
                tasks += [*self._tasks, *self._answers]
                for task in tasks:
                    task.cancel()
                self.broker.give_back([self.task_leases[id] for id in self._not_sent if id in self.task_leases])
                self.broker.interrupt(self.task_leases.values())
                _ = await asyncio.gather(*tasks, return_exceptions=True)
        return self._end_reason.result() if self._end_reason.done() else f"has ended with exit code {code}"

    def wake(self) -> None:
        """Makes the session check again what there is to do."""
        self._changed.set()

    def end_session(self, why: str) -> None:
        """Ends the session, with a reason that completes a sentence about the program."""
        if not self._end_reason.done():
            self._end_reason.set_result(why)

    # Messages to the child.

    async def _feed(self) -> None:
        """Gives the child tasks up to its concurrency until the broker stops, and then waits for its answers."""
        try:
            async with asyncio.timeout(READY_S):
                while not self._concurrency:
                    await self._wait_for_change()
        except TimeoutError:
            self.end_session(f"did not report that it is ready within {READY_S:g} s")
        while not self.broker.stopping:
            if len(self.task_leases) >= self._concurrency:
                await self._wait_for_change()
                continue
            wanted = LeaseRequest(self.broker.served, limit=self._concurrency - len(self.task_leases), wait_s=TASK_WAIT_MAX_S, lease_s=None)
            task_leases = await self.broker.lease(self._task_worker, wanted)
            if isinstance(task_leases, LeaseEnd):
                break
            self.task_leases |= {task_lease.id: task_lease for task_lease in task_leases}
            self._not_sent |= {task_lease.id for task_lease in task_leases}
            for task_lease in task_leases:
                await self._send_task(task_lease)
        await self._send({"say": "stop"})
        while self.task_leases:
            await self._wait_for_change()

    async def _send_task(self, task_lease: TaskLease) -> None:
        """Sends the child a task, or refuses the task if JSON can't express it."""
        self._not_sent.discard(task_lease.id)
        try:
            task = worker_protocol.leased_task(task_lease)
        except ProgrammingError as error:
            del self.task_leases[task_lease.id]
            self.broker.refuse(task_lease, error)
        else:
            self._spawn(self._watch(task_lease), self._tasks)
            await self._send({"say": "task", **msgspec.to_builtins(task)})

    async def _watch(self, task_lease: TaskLease) -> None:
        """Sends the child a cancellation when a task is no longer wanted. If the child still has the task after its lease has ended, the session ends."""
        gone = await task_lease.cancelled
        if task_lease.id not in self.task_leases or gone.end == "answered":
            return
        self._spawn(self._send({"say": "cancel", "lease": task_lease.id, "why": gone.why}), self._tasks)
        _ = await asyncio.gather(task_lease.ended, asyncio.sleep(CANCEL_S))
        if task_lease.id in self.task_leases:
            self.end_session(f"continued for {CANCEL_S:g} s with a task that was cancelled")

    async def _send(self, message: Mapping[str, Any]) -> None:
        """Sends the child a message. If the child has closed its input, the message is dropped, because the end of the child follows."""
        writer = self.child.process.stdin
        if writer is not None and not writer.is_closing():
            writer.write(msgspec.json.encode(message) + b"\n")
            try:
                await writer.drain()
            except (BrokenPipeError, ConnectionResetError):
                writer.close()

    # Messages of the child.

    async def _read(self) -> None:
        assert self.child.process.stdout is not None
        try:
            async for line in read_lines(self.child.process.stdout):
                if line.startswith(b"{"):
                    self._handle(line)
                elif line.strip():
                    self._log(line[:LINE_BYTES_MAX].decode("utf-8", "backslashreplace").rstrip())
        except ChildProtocolError as error:
            self.end_session(str(error))

    async def _log_standard_error(self) -> None:
        assert self.child.process.stderr is not None
        await forward_lines(self.child.process.stderr, self._log)

    def _masked(self, text: str) -> str:
        for task_lease in self.task_leases.values():
            text = task_lease.mask.text(text) if task_lease.mask else text
        return text

    def _log(self, line: str) -> None:
        logger.info("%s: %s", self._task_worker.name, self._masked(line))

    def _handle(self, line: bytes) -> None:
        try:
            message = worker_protocol.decode_body(line, dict[str, Any], "a message")
            what, lease = message.pop("say", None), message.pop("lease", "")
            match what:
                case "ready":
                    self._concurrency = msgspec.convert(message, ReadyBody).concurrency
                    self._changed.set()
                case "heartbeat":
                    self._spawn(self._heartbeat(lease, msgspec.convert(message, worker_protocol.HeartbeatBody)), self._tasks)
                case "complete":
                    self._spawn(self._answer(lease, msgspec.convert(message, worker_protocol.CompleteBody)), self._answers)
                case "fail":
                    self._spawn(self._answer(lease, msgspec.convert(message, worker_protocol.FailBody)), self._answers)
                case _:
                    raise BadValue("say", what, "ready, heartbeat, complete or fail")
        except (BadValue, msgspec.ValidationError) as error:
            raise ChildProtocolError(
                self._masked(f"sent a line that is not a message of the protocol: {error}: {line[:200].decode('utf-8', 'backslashreplace')}")
            ) from error

    async def _heartbeat(self, lease: str, heartbeat: worker_protocol.HeartbeatBody) -> None:
        progress = None if heartbeat.progress is msgspec.UNSET else values.encode(heartbeat.progress, "the progress of a task")
        if progress is not None and len(progress) >= BLOB_BYTES_MIN:
            raise TooLarge("the progress of a task", len(progress), BLOB_BYTES_MIN)
        _ = await self.broker.heartbeat(self._task_worker, lease, progress)

    async def _answer(self, lease: str, message: worker_protocol.CompleteBody | worker_protocol.FailBody) -> None:
        """Stores an answer of the child. An answer that can't be stored fails the task."""
        task_lease = self.task_leases.get(lease)
        try:
            if isinstance(message, worker_protocol.CompleteBody):
                value = values.encode(message.value, "the result of a task")
                gone = await self.broker.complete(self._task_worker, lease, value, worker_protocol.checked_port(message.port))
            else:
                gone = await self.broker.fail(self._task_worker, lease, message.error, retry=message.retry, after_s=message.after_s)
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
            await self._send({"say": "refused", "lease": lease, "why": gone.why})

    async def _wait_for_change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    def _spawn(self, work: Coroutine[Any, Any, None], tasks: "set[asyncio.Task[None]]") -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.end_session(f"sent a message that could not be handled: {error}")


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yields the lines of a stream, each as soon as it is complete. Drops an incomplete line at the end.

    Raises:
        ChildProtocolError: a line is longer than any message.
    """
    rest, searched_bytes = bytearray(), 0
    while some := await stream.read(CHUNK_BYTES):
        rest += some
        while (at := rest.find(b"\n", searched_bytes)) >= 0:
            yield bytes(rest[:at])
            del rest[: at + 1]
            searched_bytes = 0
        searched_bytes = len(rest)
        if searched_bytes > MESSAGE_BYTES_MAX:
            raise ChildProtocolError(f"sent a line of more than {MESSAGE_BYTES_MAX:,} bytes")
