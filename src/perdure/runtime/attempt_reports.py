"""Makes the messages with which attempts report to their execution: progress, at most once a second, and outcomes.

An outcome and the acknowledgement of its task are one post, and the first outcome that arrives counts.
"""

import asyncio
from collections.abc import Callable
from uuid import uuid4

from perdure.core import error_codes, limits, messages
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.errors import ErrorInfo, LogDamaged
from perdure.core.messages import LostMessage, ProgressMessage, SettleMessage, TaskMessage, attempt_answer_key
from perdure.core.operations import Failure, Outcome, Success
from perdure.core.paths import path_text
from perdure.core.values import offload_if_large
from perdure.stores.protocol import Post

HEARTBEAT_INTERVAL_S = 1.0
"""The shortest time between two reports of one attempt."""


class HeartbeatThrottle:
    """Limits the heartbeats of one attempt to one report a second, with the latest progress.

    `beat` may be called from any thread; `report` is called on the loop on which the object was created.
    """

    __slots__ = ("_latest", "_loop", "_report", "_reported_s", "_timer")

    def __init__(self, report: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._report = report
        self._latest: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reported_s = -HEARTBEAT_INTERVAL_S

    def beat(self, progress: bytes) -> None:
        """Takes the progress of the step, and schedules its report."""
        self._latest = progress
        self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        if self._timer is None and self._latest is not None:
            self._timer = self._loop.call_at(max(self._reported_s + HEARTBEAT_INTERVAL_S, self._loop.time()), self.flush)

    def flush(self) -> None:
        """Reports the latest progress now, unless it was reported already."""
        latest = self.take()
        if latest is not None:
            self._reported_s = self._loop.time()
            self._report(latest)

    def take(self) -> bytes | None:
        """Returns the progress that was not reported yet, and does not report it later."""
        self.close()
        latest, self._latest = self._latest, None
        return latest

    def close(self) -> None:
        """Cancels the scheduled report."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


TaskAnswer = SettleMessage | LostMessage


def decode_task(queued: QueuedMessage) -> TaskMessage:
    """Decodes the task in a message of a queue.

    Raises:
        LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read here.
    """
    work = messages.decode_message_or_task(queued.body)
    if not isinstance(work, TaskMessage):
        raise LogDamaged("it is no task")
    return work


def answer_of_given_up(work: TaskMessage, deliveries: int) -> TaskAnswer | None:
    """Returns the answer to a task that is not performed because earlier workers died with it; None if it may be performed."""
    if deliveries > limits.INTERRUPTIONS_MAX:
        return LostMessage(work.path, work.attempt, deliveries)
    if deliveries > 1 and not work.idempotent:
        why = "its worker is gone, and the step is not declared idempotent, so it was not run again"
        return SettleMessage(work.path, work.attempt, Failure("interrupted", 1, ErrorInfo(error_codes.INTERRUPTED, why)))
    return None


def answer_of_not_begun(work: TaskMessage, deliveries: int) -> LostMessage:
    """Returns the answer to a task that was cancelled before its function was called here. An earlier worker may have called it."""
    return LostMessage(work.path, work.attempt, 0, begun=deliveries > 1)


def answer_of_outcome(work: TaskMessage, outcome: Outcome, blobs: dict[str, bytes]) -> SettleMessage:
    """Returns the answer with an outcome. A large value is moved to `blobs`."""
    small = Success(offload_if_large(outcome.value, blobs), outcome.port) if isinstance(outcome, Success) else outcome
    return SettleMessage(work.path, work.attempt, small)


def timeout_failure(work: TaskMessage) -> Failure:
    """Returns the outcome of an attempt that has exceeded its timeout."""
    return Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, f"no answer within {work.timeout_s:g} s"))


def answer_post(
    queued: QueuedMessage, work: TaskMessage, answer: TaskAnswer, epoch: int, unreported: bytes | None = None, blobs: dict[str, bytes] | None = None
) -> Post:
    """Returns the post of an answer, after the progress that is still `unreported`."""
    send = OutgoingMessage(work.execution, attempt_answer_key(work.path, work.attempt), messages.encode_message(answer))
    sends = (send,) if unreported is None else (progress_message(work, unreported), send)
    return Post(epoch=epoch, messages=sends, acks=(Ack(queued.to, queued.key),), blobs=tuple((blobs or {}).items()))


def progress_message(work: TaskMessage, progress: bytes) -> OutgoingMessage:
    """Returns the message that reports the progress of an attempt to its execution."""
    return OutgoingMessage(
        work.execution,
        f"progress:{path_text(work.path)}:{work.attempt}:{uuid4().hex}",
        messages.encode_message(ProgressMessage(work.path, work.attempt, progress)),
    )
