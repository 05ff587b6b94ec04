"""Idempotency keys of requests: what was answered to the first request with a key is kept, and answered to its repetitions.

The answer is a record, in the commit of what the operation changes. `HoldingStore` makes that possible: it holds the post of an operation until the answer is
known, tells the operation what the store would answer, and commits post and answer together. So a crash leaves both or neither. If the store answers
otherwise than was foretold, nothing was changed, and the operation is performed again without holding.

An operation that reads after its post, that waits, or that makes several commits can't be held. There the first post carries the record without an answer,
which is added at the end. Whoever repeats the request in between is told that it is under way, and after a crash that its answer is not known: the effect is
never doubled.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeVar, cast

import msgspec

from perdure.core import limits
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import AnswerUnknown, BadValue, IdempotencyKeyReused, RequestUnderWay
from perdure.core.paths import Key
from perdure.service.record_kinds import KeptValue, RecordKind
from perdure.service.store_access import StoreAccess
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, HeadFilter, Post, Store, has_admission
from perdure.stores.records import Stale
from perdure.stores.store_parts import PartName

T = TypeVar("T")

ANSWERS_KEPT_S = 86_400.0
"""How long an answer is kept."""

UNDER_WAY_S = 60.0
"""For how long a request that has changed something, and was not answered, counts as one that is under way in another process."""

ANSWER_BYTES_MAX = limits.RECORD_BYTES_MAX - 16 * 1024
"""The largest answer that is kept. To a repetition of a request with a larger one, its answer is not known."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class KeptAnswer(msgspec.Struct, frozen=True):
    """The answer to a request, whose hash is `request`. `status` is 0 until it is known; `why` says why the body was not kept."""

    request: bytes
    status: int = 0
    body: bytes = b""
    media_type: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    why: str = ""


KEPT_ANSWERS = RecordKind("idempotency key", KeptAnswer, audited=False, expires=True)
"""Answers by the hash of caller, operation and key."""


class KeyedRequest(NamedTuple):
    """A request with an idempotency key: who sends it, to which operation, the key, and the hash of all that it says."""

    tenant: str
    subject: str
    operation: str
    key: str
    request: bytes

    @property
    def record_key(self) -> str:
        """The key of its record."""
        return sha256(f"{self.subject}\0{self.operation}\0{self.key}".encode()).hexdigest()


def checked_key(text: str) -> str:
    """Returns an idempotency key.

    Raises:
        BadValue: it is not 1 to 255 visible characters of ASCII.
    """
    if not _KEY.fullmatch(text):
        raise BadValue("Idempotency-Key", text, "1 to 255 visible characters of ASCII, such as a UUID")
    return text


class ForetoldWrongly(Exception):  # an expected outcome, which only this module sees
    """The store has answered otherwise than was foretold. The record of the answer is at `version` (0: nothing was changed)."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version


class KeyTaken(Exception):  # the same
    """Another request with the key has changed something in the meantime; this one has changed nothing."""


class HoldingStore(ForwardingStore):
    """A store for one call of an operation, whose posts carry the record of its answer, which is at `version`. With `holds`, a post is held until `finish`."""

    def __init__(self, inner: Store, one: KeyedRequest, holds: bool, version: int = 0) -> None:
        super().__init__(inner)
        self._one, self._holds = one, holds
        self._held: tuple[Post, Committed] | None = None
        self._version, self._has_changed = version, version > 0

    async def before_call(self) -> None:
        """Commits what is held: the operation reads, and may read what it has changed."""
        if self._held is not None:
            await self._commit_held(KeptAnswer(self._one.request))

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        await self.before_call()
        if self._version or not any(map(self._can_carry, changes)):
            answers = await self.inner.commit(changes)
        elif len(changes) > 1:  # one of them could be carried out without the record, so it comes first
            await self._carry(Post(), KeptAnswer(self._one.request))
            answers = await self.inner.commit(changes)
        else:
            post = cast(Post, changes[0])
            if self._holds and (foretold := await self._foretell(post)) is not None:
                self._held = post, foretold
                return [foretold]
            answers = [await self._carry(post, KeptAnswer(self._one.request))]
        self._has_changed = self._has_changed or any(isinstance(answer, Committed) for answer in answers)
        return answers

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. What a part changes is in no post: the answer is kept after it, and from here on no post is held, which may have to come first."""
        assert self._held is None, "an operation asks for parts before it posts"
        found = self.inner.part(name)
        if found is not None:
            self._holds, self._has_changed = False, True
        return found

    async def finish(self, answer: KeptAnswer) -> None:
        """Makes the answer durable, together with what is held. Without any change there is nothing to keep: a repetition changes nothing either."""
        if self._held is not None:
            await self._commit_held(answer)
        elif self._has_changed:
            _ = await self._carry(Post(), answer)

    async def _commit_held(self, answer: KeptAnswer) -> None:
        assert self._held is not None, "called while a post is held"
        (post, foretold), self._held = self._held, None
        answered = await self._carry(post, answer)
        if not isinstance(answered, Committed) or answered.created != foretold.created:
            raise ForetoldWrongly(self._version)

    async def _carry(self, post: Post, answer: KeptAnswer) -> ChangeAnswer:
        one, now_s = self._one, (await self.inner.store_time()).now_s
        record = KEPT_ANSWERS.change(one.tenant, one.record_key, self._version, answer, expires_at_s=now_s + ANSWERS_KEPT_S)
        (answered,) = await self.inner.commit([msgspec.structs.replace(post, records=(*post.records, record))])
        if isinstance(answered, Stale) and answered.key == record.key:
            raise KeyTaken
        if isinstance(answered, Committed):
            self._has_changed, self._version = True, self._version + 1
        return answered

    def _can_carry(self, change: Commit | Post) -> bool:
        """Whether a change is a post that can have a record of the caller's tenant."""
        return isinstance(change, Post) and all(record.key.tenant == self._one.tenant for record in change.records)

    async def _foretell(self, post: Post) -> Committed | None:
        """What the store will answer to a post, unless something comes first; None for an admission, on which only the store can decide."""
        opened = tuple(dict.fromkeys(_opened(send) for send in post.messages if send.opens is not None))
        if has_admission(post):
            return None
        known = {head.key for head in await self.inner.heads(HeadFilter(keys=opened, limit=len(opened)))} if opened else set()
        return Committed(0, (await self.inner.store_time()).now_s, tuple(key for key in opened if key not in known))


def _opened(send: OutgoingMessage) -> Key:
    assert isinstance(send.to, Key), "only executions are created"
    return send.to


class IdempotentRequests:
    """Performs requests with idempotency keys on a store, each once."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._under_way: set[tuple[str, str]] = set()

    async def perform(self, one: KeyedRequest, holds: bool, perform: Callable[[StoreAccess], Awaitable[KeptAnswer]]) -> KeptAnswer:
        """Performs a request and keeps its answer, or returns the answer that is kept. `perform` returns the errors of the operation as answers, too.

        `holds` says that the operation does not wait for anything.

        Raises:
            IdempotencyKeyReused: the key was used for another request.
            RequestUnderWay: a request with the key is not answered yet.
            AnswerUnknown: one took effect, and its answer was not kept.
        """
        taken = (one.tenant, one.record_key)
        if taken in self._under_way:
            raise RequestUnderWay(one.key)
        self._under_way.add(taken)
        try:
            return await self._kept(one) or await self._performed(one, holds, perform)
        except KeyTaken:
            found = await self._kept(one)
            if found is None:
                raise RequestUnderWay(one.key) from None
            return found
        finally:
            self._under_way.discard(taken)

    async def _performed(self, one: KeyedRequest, holds: bool, perform: Callable[[StoreAccess], Awaitable[KeptAnswer]], version: int = 0) -> KeptAnswer:
        store = HoldingStore(self._access.store, one, holds, version)
        access = StoreAccess(store)
        try:
            answer = await perform(access)
            if answer.status < 500:  # else it is to be repeated: what is held was not changed
                await store.finish(_bounded(answer))
            return answer
        except ForetoldWrongly as wrong:
            return await self._performed(one, False, perform, wrong.version)
        finally:
            await access.aclose()

    async def _kept(self, one: KeyedRequest) -> KeptAnswer | None:
        found = await KEPT_ANSWERS.read(self._access.store, one.tenant, one.record_key)
        if found is None:
            return None
        if found.value.request != one.request:
            raise IdempotencyKeyReused(one.key)
        if found.value.why:
            raise AnswerUnknown(one.key, found.value.why)
        return found.value if found.value.status else await self._unanswered(one, found)

    async def _unanswered(self, one: KeyedRequest, found: KeptValue[KeptAnswer]) -> KeptAnswer:
        now_s = (await self._access.store.store_time()).now_s
        if now_s < found.changed_at_s + UNDER_WAY_S:
            raise RequestUnderWay(one.key)
        raise AnswerUnknown(one.key, "its process ended before the answer was kept")


def _bounded(answer: KeptAnswer) -> KeptAnswer:
    if len(answer.body) <= ANSWER_BYTES_MAX:
        return answer
    return msgspec.structs.replace(answer, body=b"", why=f"its answer has {len(answer.body):,} bytes, and at most {ANSWER_BYTES_MAX:,} are kept")
