"""Claims about requests with idempotency keys: each takes effect once, wherever a process dies, and its repetition is given the first answer."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure.core.errors import AlreadyExists, AnswerUnknown, BadValue, IdempotencyKeyReused, PerdureError, RequestUnderWay
from perdure.core.paths import Key
from perdure.operations import on_catalog, on_execution_changes
from perdure.service import idempotency
from perdure.service.idempotency import ANSWER_BYTES_MAX, ANSWERS_KEPT_S, IdempotentRequests, KeptAnswer, KeyedRequest, checked_key
from perdure.service.store_access import StoreAccess
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Post, Store
from perdure.stores.sqlite.store import SqliteStore
from tests.service.catalog_documents import document

T = "default"
ONE = Key(T, "calc", "one")
Perform = Callable[[StoreAccess], Awaitable[KeptAnswer]]


def keyed(key: str = "k1", request: bytes = b"r", subject: str = "key:1") -> KeyedRequest:
    return KeyedRequest(T, subject, "an operation", key, request)


def answered(operation: Callable[..., Awaitable[Any]], *args: Any, request: bytes = b"r") -> Perform:
    """Performs an operation, and answers what it returned or raised as text."""

    async def perform(access: StoreAccess) -> KeptAnswer:
        try:
            return KeptAnswer(request, 200, repr(await operation(access, *args)).encode())
        except PerdureError as error:
            return KeptAnswer(request, 409, error.code.encode())

    return perform


async def send(access: StoreAccess) -> str:
    """Sends a message under a key of its own."""
    await on_execution_changes.send(access, ONE, "named", b"\xc0", None, True)
    return "sent"


async def send_and_look(access: StoreAccess) -> int:
    """Sends a message, and reads it."""
    await send(access)
    return len(await access.store.messages(ONE))


async def send_twice(access: StoreAccess) -> str:
    """Sends two messages, in two commits."""
    await send(access)
    return await send(access)


async def send_many(access: StoreAccess) -> str:
    """Sends two messages in two posts of one commit."""
    kept: list[Commit | Post] = []

    class Gathering(ForwardingStore):
        async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
            kept.extend(changes)
            return []

    await send_twice(StoreAccess(Gathering(access.store)))
    _ = await access.store.commit(kept)
    return "sent both"


async def create(access: StoreAccess) -> str:
    """Creates a definition of the catalog."""
    return (await on_catalog.create(access, T, document(1), "ada")).version


async def do_nothing(access: StoreAccess) -> str:
    """Commits no change at all, as a command for executions that need none does."""
    assert await access.store.commit([]) == []
    return "nothing"


async def fail(access: StoreAccess) -> None:
    """Finds out that nothing can be done."""
    raise AlreadyExists(ONE)


async def sent(store: Store) -> int:
    return len(await store.messages(ONE))


async def versions(store: Store) -> int:
    try:
        return len((await on_catalog.history(StoreAccess(store), T, "invoice")).items)
    except PerdureError:
        return 0


class Case(NamedTuple):
    """An operation, whether its post is held, its effect, how much of that one call has, and whether a repetition always knows the answer."""

    operation: Callable[[StoreAccess], Awaitable[Any]]
    holds: bool
    effect: Callable[[Store], Awaitable[int]]
    once: int = 1
    is_known: bool = True


CASES = [
    Case(send, True, sent),
    Case(create, True, versions),
    Case(send, False, sent, is_known=False),
    Case(send_and_look, True, sent, is_known=False),
    Case(send_twice, True, sent, 2, is_known=False),
    Case(send_many, True, sent, 2, is_known=False),
]


@pytest.fixture
def requests(access: StoreAccess) -> IdempotentRequests:
    return IdempotentRequests(access)


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.operation.__name__}-{'held' if one.holds else 'at once'}")
async def test_a_repetition_is_given_the_first_answer_and_has_no_effect(access: StoreAccess, case: Case) -> None:
    answers = [await IdempotentRequests(access).perform(keyed(), case.holds, answered(case.operation)) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and answers[0].status == 200
    assert await case.effect(access.store) == case.once


async def test_another_caller_or_another_key_is_another_request(access: StoreAccess, requests: IdempotentRequests) -> None:
    for one in (keyed(), keyed(subject="key:2"), keyed("k2")):
        await requests.perform(one, True, answered(send))
    assert await sent(access.store) == 3


async def test_a_key_names_one_request(access: StoreAccess, requests: IdempotentRequests) -> None:
    await requests.perform(keyed(), True, answered(send))
    with pytest.raises(IdempotencyKeyReused, match="'k1' was used for a request that says something else"):
        await requests.perform(keyed(request=b"other"), True, answered(send))
    assert await sent(access.store) == 1


async def test_an_answer_without_an_effect_is_not_kept(access: StoreAccess, requests: IdempotentRequests) -> None:
    assert (await requests.perform(keyed(), True, answered(do_nothing))).body == b"'nothing'"
    assert (await requests.perform(keyed(), True, answered(send))).body == b"'sent'"


async def test_an_error_before_any_effect_is_not_kept(access: StoreAccess, requests: IdempotentRequests) -> None:
    assert (await requests.perform(keyed(), True, answered(fail))).body == b"already_exists"
    assert (await requests.perform(keyed(), True, answered(send))).status == 200


async def test_an_error_after_an_effect_is_kept_with_it(access: StoreAccess, requests: IdempotentRequests) -> None:
    async def send_and_fail(access: StoreAccess) -> None:
        await send(access)
        await fail(access)

    for _ in range(2):
        assert (await requests.perform(keyed(), True, answered(send_and_fail))).body == b"already_exists"
    assert await sent(access.store) == 1


async def test_a_server_error_is_not_an_answer(access: StoreAccess, requests: IdempotentRequests) -> None:
    async def unavailable(access: StoreAccess) -> KeptAnswer:
        await send(access)
        return KeptAnswer(b"r", 503)

    assert (await requests.perform(keyed(), True, unavailable)).status == 503
    assert await sent(access.store) == 0, "what was held was not changed"
    assert (await requests.perform(keyed(), True, answered(send))).status == 200


async def test_a_request_under_way_is_not_performed_again_in_this_process_or_another(access: StoreAccess, requests: IdempotentRequests) -> None:
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def slow(access: StoreAccess) -> None:
        await send_and_look(access)
        has_begun.set()
        await may_end.wait()

    first = asyncio.create_task(requests.perform(keyed(), True, answered(slow)))
    await has_begun.wait()
    for other in (requests, IdempotentRequests(access)):
        with pytest.raises(RequestUnderWay):
            await other.perform(keyed(), True, answered(send))
    may_end.set()
    assert await first == await requests.perform(keyed(), True, answered(send))
    assert await sent(access.store) == 1


async def test_of_two_processes_that_perform_one_request_at_once_one_has_an_effect(access: StoreAccess) -> None:
    both = asyncio.Barrier(2)

    async def together(access: StoreAccess) -> str:
        await both.wait()
        return await send(access)

    first, second = await asyncio.gather(*(IdempotentRequests(access).perform(keyed(), True, answered(together)) for _ in range(2)))
    assert first == second and await sent(access.store) == 1


async def test_what_comes_before_a_held_post_is_seen_when_the_operation_is_performed_again(access: StoreAccess) -> None:
    """The slug is taken while the creation of a definition is held: it was foretold to succeed, and the answer is that it did not."""
    calls = 0

    async def create_late(view: StoreAccess) -> str:
        nonlocal calls
        calls += 1
        made = await create(view)
        if calls == 1:
            await create(access)
        return made

    for _ in range(2):
        assert (await IdempotentRequests(access).perform(keyed(), True, answered(create_late))).body == b"already_exists"
        assert await versions(access.store) == 1
    assert calls == 3, "twice for the first request, of which nothing is kept since nothing was changed"


class Died(BaseException):
    """The process died."""


class DyingStore(ForwardingStore):
    """A store whose process dies before or after the commit of a number."""

    def __init__(self, inner: Store, number: int, is_after: bool) -> None:
        super().__init__(inner)
        self._number, self._is_after, self.commits = number, is_after, 0

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        self.commits += 1
        if self.commits == self._number and not self._is_after:
            raise Died
        answers = await self.inner.commit(changes)
        if self.commits == self._number:
            raise Died
        return answers


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.operation.__name__}-{'held' if one.holds else 'at once'}")
async def test_wherever_a_process_dies_a_repetition_doubles_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "UNDER_WAY_S", -1.0)
    unknown = 0
    for number, is_after in ((number, is_after) for number in itertools.count(1) for is_after in (False, True)):
        store = MemoryStore()
        dying = DyingStore(store, number, is_after)
        try:
            await IdempotentRequests(StoreAccess(dying)).perform(keyed(), case.holds, answered(case.operation))
        except Died:
            before = await case.effect(store)
        else:
            break
        try:
            answer = await IdempotentRequests(StoreAccess(store)).perform(keyed(), case.holds, answered(case.operation))
        except AnswerUnknown:
            unknown += 1
            assert await case.effect(store) == before, "a request whose answer is not known is not performed again"
        else:
            assert answer.status == 200 and await case.effect(store) == case.once
    assert number > 1 and (unknown == 0) == case.is_known


DYING = """
import asyncio, os, signal, sys
from perdure.service.idempotency import IdempotentRequests
from perdure.service.store_access import StoreAccess
from perdure.stores.sqlite.store import SqliteStore
from tests.service.test_idempotency import answered, keyed, send, send_and_look

async def die(access):
    await (send if sys.argv[2] == "held" else send_and_look)(access)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(IdempotentRequests(StoreAccess(SqliteStore(sys.argv[1]))).perform(keyed(), True, answered(die)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "before"), [("held", 0), ("carried", 1)])
async def test_a_process_that_is_killed_between_its_effect_and_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, before: int) -> None:
    path = tmp_path / "killed.db"
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", DYING, str(path), how], timeout=60, cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    store = SqliteStore(path)
    assert await sent(store) == before
    requests = IdempotentRequests(StoreAccess(store))
    if how == "held":
        assert (await requests.perform(keyed(), True, answered(send))).status == 200
    else:
        with pytest.raises(RequestUnderWay):
            await requests.perform(keyed(), True, answered(send))
        monkeypatch.setattr(idempotency, "UNDER_WAY_S", -1.0)
        with pytest.raises(AnswerUnknown, match="took effect, and its process ended"):
            await requests.perform(keyed(), True, answered(send))
    assert await sent(store) == 1
    await store.close()


async def test_an_answer_expires() -> None:
    now = [1000.0]
    store = MemoryStore(clock=lambda: now[0])
    requests = IdempotentRequests(StoreAccess(store))
    await requests.perform(keyed(), True, answered(send))
    now[0] += ANSWERS_KEPT_S - 1
    await requests.perform(keyed(), True, answered(send))
    assert await sent(store) == 1
    now[0] += 1
    await requests.perform(keyed(), True, answered(send))
    assert await sent(store) == 2


async def test_of_an_answer_that_is_too_large_only_the_effect_is_kept(access: StoreAccess, requests: IdempotentRequests) -> None:
    async def large(access: StoreAccess) -> KeptAnswer:
        await send(access)
        return KeptAnswer(b"r", 200, bytes(ANSWER_BYTES_MAX + 1))

    assert len((await requests.perform(keyed(), True, large)).body) == ANSWER_BYTES_MAX + 1
    with pytest.raises(AnswerUnknown, match="bytes, and at most"):
        await requests.perform(keyed(), True, large)
    assert await sent(access.store) == 1


@pytest.mark.parametrize("text", ["", "a b", "ä", "x" * 256, "a\x00"])
def test_a_key_is_visible_ascii(text: str) -> None:
    with pytest.raises(BadValue, match="Idempotency-Key"):
        checked_key(text)
