"""The world of one conformance test: a store, its clock, and helpers for the operations that many tests need."""

from collections.abc import Iterable
from typing import Any

from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.protocol import ChangeAnswer, Claim, Claimed, Commit, Committed, Head, Post, Store

PROGRAM = "order"
NAMES = ["", "/", "a/b", "a%2Fb", "%", "\0", "a\0b", "a", "b", "A", "é", "e\u0301", "日本", "🐘", " ", "a ", '"', "'", "\\", '["a"]', "x" * 1024, "🐘" * 256]
"""Names that a store might confuse with each other or with names of its own."""


class Clock:
    """A clock that changes only by `advance`."""

    def __init__(self, now_s: float = 1_000_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Moves the time forward."""
        self.now_s += seconds


class StoreWorld:
    """A store and its clock. Messages have arrived when a call returns, even in another reach."""

    def __init__(self, store: Store, clock: Clock, epoch: int) -> None:
        self.store, self.clock, self.epoch = store, clock, epoch

    async def renew(self, *holders: str, lease_s: float = 60.0) -> None:
        """Renews the leases of `holders`."""
        for holder in holders:
            await self.store.renew(holder, lease_s)

    async def change(self, *changes: Commit | Post) -> list[ChangeAnswer]:
        """Commits `changes` in one batch, and relays what left its reach."""
        answers = await self.store.commit(changes)
        while await self.store.relay():
            pass
        return answers

    async def post(self, *sends: OutgoingMessage, acks: Iterable[Ack] = ()) -> Committed:
        """Posts each of `sends`, then each of `acks`."""
        answers = await self.change(*(Post(messages=(send,)) for send in sends), *(Post(epoch=self.epoch, acks=(ack,)) for ack in acks))
        assert all(isinstance(answer, Committed) for answer in answers)
        last = answers[-1]
        assert isinstance(last, Committed)
        return last

    async def commit(self, key: Key, version: int = 0, *, holder: str = "one", **fields: Any) -> ChangeAnswer:
        """Commits one event of the execution, unless `fields` say otherwise."""
        (answer,) = await self.change(self.decision(key, version, holder=holder, **fields))
        return answer

    def decision(self, key: Key, version: int = 0, *, holder: str = "one", **fields: Any) -> Commit:
        """Returns a commit of one event, unless `fields` say otherwise."""
        given: dict[str, Any] = {"epoch": self.epoch, "program": PROGRAM, "root": key, "row": f"row {version + 1}".encode(), "count": 1}
        return Commit(key=key, holder=holder, version=version, **given | fields)

    async def open(self, *keys: Key, program: str = PROGRAM, root: Key | None = None) -> None:
        """Creates an execution for each of `keys`, with one message, ``start``."""
        await self.post(*(start_message(key, program, root) for key in keys))

    async def parked(self, key: Key, *, holder: str = "one", **fields: Any) -> None:
        """Creates the execution of `key` at version 1, without messages and released; `holder` must be alive."""
        answer = await self.commit(key, holder=holder, creates=True, release=True, **fields)
        assert isinstance(answer, Committed)

    async def claim(self, holder: str = "one", *programs: str, queues: Iterable[str] = (), **fields: Any) -> Claimed:
        """Claims executions of `programs` (by default of ``order``) and tasks of `queues`."""
        given = {"epoch": self.epoch, **fields}
        return await self.store.claim(Claim(holder=holder, programs=frozenset(programs or (PROGRAM,)), queues=frozenset(queues), **given))

    async def claimed(self, holder: str = "one", *programs: str, **fields: Any) -> list[Key]:
        """Claims, and returns the keys of the executions."""
        return [assignment.head.key for assignment in (await self.claim(holder, *programs, **fields)).executions]

    async def work(self, holder: str = "one", *queues: str, **fields: Any) -> list[QueuedMessage]:
        """Claims, and returns the tasks of `queues` (by default of ``pay``)."""
        return list((await self.claim(holder, queues=queues or ("pay",), **fields)).work)

    async def head(self, key: Key) -> Head:
        """Returns the head of an existing execution."""
        log = await self.store.read(key)
        assert log is not None
        return log.head

    async def rows(self, key: Key, after: int = 0) -> list[bytes]:
        """Returns the log rows of an existing execution."""
        log = await self.store.read(key, after)
        assert log is not None
        return list(log.payloads)

    async def versions(self, key: Key, after: int = 0) -> list[int]:
        """Returns the version of each log row of an existing execution."""
        log = await self.store.read(key, after)
        assert log is not None
        return [row.version for row in log.rows]

    async def keys(self, to: Address) -> list[str]:
        """Returns the keys of the messages of an address."""
        return [message.key for message in await self.store.messages(to)]


def key(id: str = "1", tenant: str = "acme", workflow: str = "order") -> Key:
    """Returns the key of an execution."""
    return Key(tenant, workflow, id)


def queue(name: str = "pay", tenant: str = "acme") -> QueueAddress:
    """Returns the address of a queue."""
    return QueueAddress(tenant, name)


def plain_message(to: Address, key: str = "letter", *, due_at_s: float = 0.0, body: bytes = b"") -> OutgoingMessage:
    """Returns a message that creates no execution."""
    return OutgoingMessage(to, key, body or key.encode(), due_at_s)


def start_message(key: Key, program: str = PROGRAM, root: Key | None = None, attributes: IndexedAttributes = ()) -> OutgoingMessage:
    """Returns the message that starts an execution."""
    return OutgoingMessage(key, "start", b"start", opens=NewExecution(program, root or key, attributes=attributes))
