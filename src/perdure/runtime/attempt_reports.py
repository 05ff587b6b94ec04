"""Makes the messages with which attempts report to their execution: progress, at most once a second, and outcomes.

An outcome and the acknowledgement of its work are one post, and the first outcome that arrives counts.
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


class HeartbeatThrottle:
    """The heartbeats of one try, which may come from any thread; `tell` is called on the loop that they were made on."""

    __slots__ = ("_latest", "_loop", "_tell", "_timer", "_told_s")

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._latest: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told_s = -HEARTBEAT_INTERVAL_S

    def beat(self, progress: bytes) -> None:
        """Take what the step says."""
        self._latest = progress
        self._loop.call_soon_threadsafe(self._soon)

    def _soon(self) -> None:
        if self._timer is None and self._latest is not None:
            self._timer = self._loop.call_at(max(self._told_s + HEARTBEAT_INTERVAL_S, self._loop.time()), self.flush)

    def flush(self) -> None:
        """Tell what was not told yet."""
        latest = self.take()
        if latest is not None:
            self._told_s = self._loop.time()
            self._tell(latest)

    def take(self) -> bytes | None:
        """What was not told yet, and is not told later."""
        self.close()
        latest, self._latest = self._latest, None
        return latest

    def close(self) -> None:
        """Tell nothing more later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


TaskAnswer = SettleMessage | LostMessage


def decode_task(queued: QueuedMessage) -> TaskMessage:
    """The work in mail to a queue.

    Raises:
        LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read here.
    """
    work = messages.decode_message_or_task(queued.body)
    if not isinstance(work, TaskMessage):
        raise LogDamaged("it is no work")
    return work


def answer_of_given_up(work: TaskMessage, deliveries: int) -> TaskAnswer | None:
    """What is said of work that is not done, because of what became of those who had it before; None, if it is to be done."""
    if deliveries > limits.INTERRUPTIONS_MAX:
        return LostMessage(work.path, work.attempt, deliveries)
    if deliveries > 1 and not work.idempotent:
        why = "its worker is gone, and it is not declared idempotent, so it was not run again"
        return SettleMessage(work.path, work.attempt, Failure("interrupted", 1, ErrorInfo(error_codes.INTERRUPTED, why)))
    return None


def answer_of_not_begun(work: TaskMessage, deliveries: int) -> LostMessage:
    """What is said of work whose function was not called here, as nobody waits for it any more; who had it before may have called it."""
    return LostMessage(work.path, work.attempt, 0, begun=deliveries > 1)


def answer_of_outcome(work: TaskMessage, outcome: Outcome, blobs: dict[str, bytes]) -> SettleMessage:
    """The answer with an outcome, of which a large value is put among `blobs`."""
    light = Success(offload_if_large(outcome.value, blobs), outcome.port) if isinstance(outcome, Success) else outcome
    return SettleMessage(work.path, work.attempt, light)


def timeout_failure(work: TaskMessage) -> Failure:
    """The outcome of a try that has taken longer than it may."""
    return Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, f"no answer within {work.timeout_s:g} s"))


def answer_post(
    queued: QueuedMessage, work: TaskMessage, answer: TaskAnswer, epoch: int, unreported: bytes | None = None, blobs: dict[str, bytes] | None = None
) -> Post:
    """An answer on its way, behind what the try has said of how far it is and was not `untold` before."""
    send = OutgoingMessage(work.execution, attempt_answer_key(work.path, work.attempt), messages.encode_message(answer))
    sends = (send,) if unreported is None else (progress_message(work, unreported), send)
    return Post(epoch=epoch, messages=sends, acks=(Ack(queued.to, queued.key),), blobs=tuple((blobs or {}).items()))


def progress_message(work: TaskMessage, said: bytes) -> OutgoingMessage:
    """How far a try is, on its way to the execution."""
    return OutgoingMessage(
        work.execution, f"progress:{path_text(work.path)}:{work.attempt}:{uuid4().hex}", messages.encode_message(ProgressMessage(work.path, work.attempt, said))
    )
