"""Injects faults: a store that fails as stores and networks do, by seed, and processes that die or freeze between any two of its calls.

What a caller learns and what has happened may differ: a call may fail before it is made or after it has taken effect, its answer may be late, and a message
may arrive again, even long after it was handled. A `Gate` is between one process and the store. When the process is killed, nothing passes any more; a frozen
process waits, and continues as if nothing had happened.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NoReturn, TypeVar

import msgspec

from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.protocol import (
    ALL_HEADS,
    ChangeAnswer,
    Claim,
    Claimed,
    Commit,
    Committed,
    Head,
    HeadFilter,
    HolderStatus,
    NothingClaimed,
    Post,
    QueueLimits,
    QueueStatus,
    Store,
    StoredLog,
    StoreTime,
)
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import STORE_KIND, PartName

T = TypeVar("T")

RESENT_MAX = 64
"""How many of the latest messages may be sent again."""


class Faults(msgspec.Struct, frozen=True):
    """The likelihood of each fault, from 0 to 1, in one call of the store (`resend`: in one call that sends; `lose_notification`: of one notification;
    `tear`: in a commit of several changes, of which the store then makes only the first ones, as a store may that is not one database).

    Calls fail only if their name is in `failing`, or if that is empty.
    """

    fail_before: float = 0.0
    fail_after: float = 0.0
    failing: frozenset[str] = frozenset()
    delay: float = 0.0
    delay_max_s: float = 0.5
    tear: float = 0.0
    resend: float = 0.0
    resend_within_s: float = 600.0
    lose_notification: float = 0.0
    kill_before: float = 0.0
    kill_after: float = 0.0
    freeze: float = 0.0
    freeze_min_s: float = 1.0
    freeze_max_s: float = 12.0


SHORTEST_S = 1e-6
"""A shorter wait may round to none, since times are floats."""

NO_FAULTS = Faults()


class Killed(BaseException):
    """Raised in tasks of a killed process. No code may catch it."""

    def __init__(self) -> None:
        super().__init__("this process was killed; nothing that it does reaches the store any more")


class Gate:
    """Controls the calls of one process to the store.

    `on_kill` is called once, when the process is killed; `on_freeze` is called with the seconds of each freeze.
    """

    def __init__(self, on_kill: Callable[[], object] = lambda: None, on_freeze: Callable[[float], object] = lambda _: None) -> None:
        self.dead = False
        self._on_kill, self._on_freeze = on_kill, on_freeze
        self._thaws_at_s = 0.0

    @property
    def frozen(self) -> bool:
        """Whether the process is frozen."""
        return asyncio.get_running_loop().time() < self._thaws_at_s

    def kill(self) -> None:
        """Kills the process: from now on no call passes."""
        if not self.dead:
            self.dead = True
            self._on_kill()

    def freeze(self, duration_s: float) -> None:
        """Lets no call pass for so many seconds. A call that has reached the store takes effect, but its answer waits."""
        self._thaws_at_s = max(self._thaws_at_s, asyncio.get_running_loop().time() + duration_s)
        self._on_freeze(duration_s)

    def thaw(self) -> None:
        """Ends a freeze; calls that wait continue within a second."""
        self._thaws_at_s = 0.0

    async def passed(self) -> None:
        """Waits while the process is frozen.

        Raises:
            Killed: it is dead.
        """
        while not self.dead and (left_s := self._thaws_at_s - asyncio.get_running_loop().time()) > SHORTEST_S:  # noqa: ASYNC110  # it may be frozen for longer meanwhile
            await asyncio.sleep(min(left_s, 1.0))
        if self.dead:
            raise Killed


class FaultyStore:
    """A `Store` as one process sees it: `inner`, with `faults` drawn from `rng`. `counts` has how often each fault has happened.

    `faults` may be set at any time. All faults follow from `rng` and the loop, so a seed reproduces them.
    """

    def __init__(self, inner: Store, rng: Random, faults: Faults = NO_FAULTS, *, gate: Gate | None = None, counts: Counter[str] | None = None) -> None:
        self.inner = inner
        self.faults = faults
        self.gate = Gate() if gate is None else gate
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._rng = rng
        self._sent: deque[tuple[float, OutgoingMessage]] = deque(maxlen=RESENT_MAX)

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. Messages may be sent again, now or later."""

        async def ask() -> list[ChangeAnswer]:
            if len(changes) > 1 and self._happens("torn", self.faults.tear):
                await self.inner.commit(changes[: self._rng.randrange(len(changes))])
                raise StoreUnavailable("planted: the store failed in the middle of a batch")
            answers = await self.inner.commit(changes)
            now_s = asyncio.get_running_loop().time()
            for change, answer in zip(changes, answers, strict=True):
                if isinstance(answer, Committed):
                    self._sent.extend((now_s, send) for send in change.messages)
            if self._sent and self._happens("resend", self.faults.resend):
                await self._resend(now_s)
            return answers

        return await self._call("commit", ask)

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        return await self._call("claim", lambda: self.inner.claim(claim), NothingClaimed)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return await self._call("read", lambda: self.inner.read(key, after))

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return await self._call("heads", lambda: self.inner.heads(which))

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return await self._call("messages", lambda: self.inner.messages(to))

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return await self._call("are_queued", lambda: self.inner.are_queued(messages))

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return await self._call("record", lambda: self.inner.record(key))

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return await self._call("records", lambda: self.inner.records(which))

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self._call("store_time", self.inner.store_time)

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        return await self._call("renew", lambda: self.inner.renew(holder, lease_s, about))

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return await self._call("leases", self.inner.leases)

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        return await self._call("relay", lambda: self.inner.relay(limit))

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self._call("limit", lambda: self.inner.limit(queue, limits, tenant))

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await self._call("queues", self.inner.queues)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        return await self._call("drop_expired", lambda: self.inner.drop_expired(limit))

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        return await self._call("sweep_records", lambda: self.inner.drop_expired_records(limit))

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self._call("raise_epoch", self.inner.raise_epoch)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await self._call("blob", lambda: self.inner.blob(sha256))

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return await self._call("removed_at", lambda: self.inner.removed_at(sha256))

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`. Notifications may be lost."""

        return self.inner.on_wake(self._unreliable(notify))

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`. Notifications may be lost."""
        return self.inner.on_change(self._unreliable(notify))

    def _unreliable(self, notify: Callable[[], None]) -> Callable[[], None]:
        def perhaps() -> None:
            if not self.gate.dead and not self._happens("lost notification", self.faults.lose_notification):
                notify()

        return perhaps

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. Its kind, the vault and the removal of blobs are handed on without faults. Transactions, which would need their own, are hidden."""
        return self.inner.part(name) if name in (STORE_KIND, VAULT, BLOB_REMOVAL) else None

    async def close(self) -> None:
        """Does nothing: other processes share `inner`."""

    async def _call(self, name: str, ask: Callable[[], Awaitable[T]], unmade: type[StoreUnavailable] = StoreUnavailable) -> T:
        await self.gate.passed()
        fails = not self.faults.failing or name in self.faults.failing
        await self._trouble("before", self.faults.kill_before, self.faults.fail_before * fails, unmade)
        answer = await ask()
        await self._trouble("after", self.faults.kill_after, self.faults.fail_after * fails, StoreUnavailable)
        return answer

    async def _trouble(self, when: str, kill: float, fail: float, failure: type[StoreUnavailable]) -> None:
        """The faults that may happen before or after a call."""
        if self.faults is NO_FAULTS:
            return
        if self._happens(f"killed {when}", kill):
            self._die()
        if self._happens(f"frozen {when}", self.faults.freeze):
            self.gate.freeze(self._rng.uniform(self.faults.freeze_min_s, self.faults.freeze_max_s))
        if self._happens(f"delayed {when}", self.faults.delay):
            await asyncio.sleep(self._rng.uniform(0.0, self.faults.delay_max_s))
        await self.gate.passed()
        if self._happens(f"failed {when}", fail):
            raise failure(f"planted: the call failed {when} it took effect")

    def _die(self) -> NoReturn:
        self.gate.kill()
        raise Killed

    def _happens(self, fault: str, likelihood: float) -> bool:
        happens = likelihood > 0 and self._rng.random() < likelihood
        self.counts[fault] += happens
        return happens

    async def _resend(self, now_s: float) -> None:
        sent_at_s, send = self._rng.choice(self._sent)
        if now_s - sent_at_s <= self.faults.resend_within_s:
            await self.inner.commit([Post(messages=(send,))])
