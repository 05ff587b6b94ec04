"""Sets aside what can't be read, so that one damaged row or one message of a newer format stops neither a worker nor its neighbours.

Nothing is dropped. A message keeps its place and is delivered again after `QUARANTINE_RETRY_S`; an execution whose log can't be read needs attention, is held
by no engine and is retried after the same time. So an engine of a newer version continues it without help. If only the key of a payload is missing in this
process, another process may have it: the retry is after `SEALED_RETRY_S`, and the status of the execution does not change.
"""

import logging
from collections.abc import Iterable

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import SealedPayload, StoreError
from perdure.core.paths import Address
from perdure.stores.protocol import ChangeAnswer, Commit, Head, Store

QUARANTINE_RETRY_S = 300.0
"""After how many seconds data that could not be read are retried."""

SEALED_RETRY_S = 5.0
"""The same, where this process lacks the key or the codec of a payload."""

REPORTED_MAX = 10_000
"""How many reports are remembered, so that each is logged once."""


class QuarantineReports:
    """Logs each message or execution that is set aside once, however often it is retried."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._reported: dict[tuple[Address, str], None] = {}

    def report(self, address: Address, key: str, error: StoreError) -> None:
        """Logs that the message with this `key`, or for an empty key the log of the execution, can't be read."""
        if self._is_new(address, key):
            what = f"message {key} to {address}" if key else f"execution {address}"
            self._logger.error("%s can't be read and is set aside, to be tried again every %g s: %s", what, quarantine_retry_s(error), error)

    def incapable(self, address: Address, lacking: str) -> None:
        """Logs that an execution is left to engines that have the capabilities it needs."""
        if self._is_new(address, f"lacks {lacking}"):
            self._logger.warning("%s is left to other engines: this one has no %s", address, lacking)

    def _is_new(self, address: Address, key: str) -> bool:
        if (address, key) in self._reported:
            return False
        self._reported[address, key] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        return True


def quarantine_retry_s(error: StoreError) -> float:
    """Returns after how many seconds data that could not be read for this reason are retried."""
    return SEALED_RETRY_S if isinstance(error, SealedPayload) else QUARANTINE_RETRY_S


def postponement(queued: QueuedMessage, now_s: float, error: StoreError) -> Ack:
    """Returns the acknowledgement that postpones a message which can't be read."""
    return Ack(queued.to, queued.key, postpone_to_s=now_s + quarantine_retry_s(error))


async def release_execution(store: Store, holder: tuple[str, int], head: Head, postponing: Iterable[Ack], wake_at_s: float) -> ChangeAnswer:
    """Releases an execution that this engine can't advance, with the program and the status of `head`. Adds nothing to its log.

    Until `wake_at_s`, only messages wake it, except those that are postponed by `postponing`. `holder` is the name and the epoch of its holder. An
    execution that has ended stays ended.
    """
    has_ended = head.ended_at_s is not None
    change = Commit(
        key=head.key,
        epoch=holder[1],
        holder=holder[0],
        version=head.version,
        program=head.program,
        root=head.root,
        status=head.status,
        wake_at_s=None if has_ended else wake_at_s,
        ended_at_s=head.ended_at_s,
        release=True,
        news=head.status == "needs_attention",
        acks=tuple(postponing),
    )
    (answer,) = await store.commit([change])
    return answer
