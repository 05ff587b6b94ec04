"""Sets aside what can't be read, so that one damaged row or one message of a newer format stops neither a worker nor its neighbours.

Nothing is dropped. A message stays in its place and is delivered again after `RETRY_S`; an execution whose log can't be read needs attention, is held
by no engine and is tried again after the same time. So an engine that can read it, of a newer version or with the right key, goes on with it by itself.
"""

import logging
from collections.abc import Iterable, Sequence

from perdure.core.errors import LogDamaged, LogVersionUnsupported, SealedPayload, StoreError
from perdure.core.mail import Ack, Mail
from perdure.core.paths import Address
from perdure.stores.base import Answer, Commit, Head, Post, Store

RETRY_S = 300.0
"""After how many seconds what could not be read is tried again."""

REPORTED_MAX = 10_000
"""How many of the things that were set aside are remembered, so that each is logged once."""

UNREADABLE = (LogDamaged, LogVersionUnsupported, SealedPayload)
"""The errors that say that something stored can't be read here, while the store itself works."""


class Reports:
    """Logs each thing that is set aside once, however often it is tried again."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._reported: dict[tuple[Address, str], None] = {}

    def report(self, address: Address, key: str, error: StoreError) -> None:
        """Log that the mail with this `key`, or with an empty one the log of the execution, can't be read."""
        if (address, key) in self._reported:
            return
        self._reported[address, key] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        what = f"mail {key} to {address}" if key else f"execution {address}"
        self._logger.error("%s can't be read and is set aside, to be tried again every %g s: %s", what, RETRY_S, error)


def postponed(mail: Iterable[Mail], now_s: float) -> tuple[Ack, ...]:
    """What has each of these delivered again later."""
    return tuple(Ack(one.to, one.key, postpone_to_s=now_s + RETRY_S) for one in mail)


async def postpone(store: Store, epoch: int, mail: Sequence[Mail], now_s: float) -> Answer:
    """Have leased work delivered again later, to whoever can read it."""
    (answer,) = await store.commit([Post(epoch=epoch, acks=postponed(mail, now_s))])
    return answer


async def set_aside(store: Store, holder: str, epoch: int, head: Head, now_s: float) -> Answer:
    """Give back an execution whose log can't be read: it needs attention, and neither time nor the mail that is there wakes it before `RETRY_S` are over.

    An execution that has ended stays ended.
    """
    due = [one for one in await store.mail(head.key) if one.due_at_s <= now_s + RETRY_S]
    has_ended = head.ended_at_s is not None
    change = Commit(
        key=head.key,
        epoch=epoch,
        holder=holder,
        version=head.version,
        program=head.program,
        root=head.root,
        status=head.status if has_ended else "needs_attention",
        wake_at_s=None if has_ended else now_s + RETRY_S,
        ended_at_s=head.ended_at_s,
        release=True,
        news=True,
        acks=postponed(due, now_s),
    )
    (answer,) = await store.commit([change])
    return answer
