"""Limits how many executions that people have started may be in progress: of each person, and of all together.

The limit of a person is an admission of the start itself, which the store counts in the same commit, so it holds however many starts come at once. That of all
people is counted before the start, so starts that come at the same time may exceed it by as many. Programs, triggers and children are not limited.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perdure.core.attribute_filter import Is, attribute_conditions
from perdure.core.attributes import sortable_bytes
from perdure.core.envelopes import OutgoingMessage, StartAdmission
from perdure.core.errors import TooManyActive
from perdure.core.paths import Key
from perdure.service.bulk_requests import UNENDED
from perdure.service.callers import SIGNED_IN, Caller
from perdure.service.execution_operations import INITIATOR_ATTRIBUTE
from perdure.service.store_access import StoreAccess
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.protocol import ChangeAnswer, Commit, HeadFilter, Post, Refused, Store

SHOWN_MAX = 5
"""How many of the executions in the way are named."""

OF_PEOPLE = (Is(">=", SIGNED_IN), Is("<", f"{SIGNED_IN}\U0010ffff"))
"""Initiators that are people: those of programs and triggers have other beginnings."""


class ActiveLimits(NamedTuple):
    """How many executions that people have started may be in progress: of each person, and in all (0: any number)."""

    per_person: int = 5
    in_all: int = 50


UNLIMITED_PEOPLE = ActiveLimits(0, 0)


def limited_access(access: StoreAccess, caller: Caller, limits: ActiveLimits) -> StoreAccess:
    """The access as a caller has it: of a person, with a store that holds their starts to the limits. It is not to be closed."""
    if not caller.is_person or limits == UNLIMITED_PEOPLE:
        return access
    limited = copy.copy(access)
    limited.store, limited.engine = LimitedStore(access.store, caller, limits), None  # an engine in this process would begin the execution without the store
    return limited


class LimitedStore(ForwardingStore):
    """A `Store` that holds the starts of one person to limits."""

    def __init__(self, inner: Store, caller: Caller, limits: ActiveLimits) -> None:
        super().__init__(inner)
        self._caller, self._limits = caller, limits

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`.

        Raises:
            TooManyActive: as many executions as the limits allow have not ended.
        """
        limited = [self._limited(one) if isinstance(one, Post) else one for one in changes]
        begun = [message for one in changes if isinstance(one, Post) for message in one.messages if _is_start_of_person(message)]
        if begun and self._limits.in_all and not await self._exist(begun):
            await self._expect_room(begun[0])
        answers = await self.inner.commit(limited)
        for answer in answers:
            if isinstance(answer, Refused) and begun and answer.admission.attribute == INITIATOR_ATTRIBUTE:
                most = self._limits.per_person
                raise TooManyActive(answer.key, INITIATOR_ATTRIBUTE, self._caller.subject, most, await self._active(self._caller.subject))
        return answers

    def _limited(self, post: Post) -> Post:
        if not self._limits.per_person or not any(map(_is_start_of_person, post.messages)):
            return post
        admission = StartAdmission(INITIATOR_ATTRIBUTE, sortable_bytes(self._caller.subject), self._limits.per_person)
        return msgspec.structs.replace(post, messages=tuple(_admitted(one, admission) for one in post.messages))

    async def _exist(self, starts: Sequence[OutgoingMessage]) -> bool:
        """Whether all of these were started before, so that this is a repetition."""
        keys = tuple(one.to for one in starts if isinstance(one.to, Key))
        return len(await self.inner.heads(HeadFilter(keys=keys, limit=len(keys)))) == len(keys)

    async def _expect_room(self, start: OutgoingMessage) -> None:
        most = self._limits.in_all
        where = attribute_conditions({INITIATOR_ATTRIBUTE: OF_PEOPLE})
        present = await self.inner.heads(HeadFilter(tenant=self._caller.tenant, statuses=frozenset(UNENDED), where=where, limit=most))
        if len(present) >= most:
            raise TooManyActive(start.to, INITIATOR_ATTRIBUTE, f"{SIGNED_IN}*", most, tuple(head.key for head in present[:SHOWN_MAX]))

    async def _active(self, subject: str) -> tuple[Key, ...]:
        where = attribute_conditions({INITIATOR_ATTRIBUTE: subject})
        found = await self.inner.heads(HeadFilter(tenant=self._caller.tenant, statuses=frozenset(UNENDED), where=where, limit=SHOWN_MAX))
        return tuple(head.key for head in found)


def _is_start_of_person(message: OutgoingMessage) -> bool:
    """Whether a message starts an execution that is no child, under the name of its initiator, and without an admission of its own."""
    opens = message.opens
    return opens is not None and opens.root == message.to and opens.admission is None and any(name == INITIATOR_ATTRIBUTE for name, _ in opens.attributes)


def _admitted(message: OutgoingMessage, admission: StartAdmission) -> OutgoingMessage:
    if message.opens is None or not _is_start_of_person(message):
        return message
    return msgspec.structs.replace(message, opens=msgspec.structs.replace(message.opens, admission=admission))
