"""Budgets that the agents of one family of executions share: what each has spent is in one record, and a model call is counted there before it is sent.

The record is changed by comparing versions, so two agents never count the same call that is left. `calls` therefore holds exactly; tokens and dollars are known
only afterwards, so what is in flight when the limit is reached may exceed it: one call of each agent. What an agent has spent is set, not added, so a call that
is repeated after a crash counts once.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.step_environment import StepInfo, current_resources, step_info
from perdure.core.errors import Fatal, StoreUnavailable
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.definitions.kinds.agents.agent_task import Budget, SpentBudget, check_budget
from perdure.stores.protocol import HeadFilter, Post, Store
from perdure.stores.records import RecordChange, RecordKey, Stale

logger = logging.getLogger("perdure.shared_budget")

SHARED_BUDGET = "shared_budget"
"""The kind of these records."""

KEPT_S = 92 * 86_400.0
CHANGES_MAX = 100
"""How often a change is made again because another agent came between its read and its post."""

PAUSE_S = 0.02


class SharedSpending(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each agent has spent, by its execution; a call in flight counts as a call already."""

    agents: dict[str, SpentBudget] = {}

    def total(self, but: str) -> SpentBudget:
        """What all agents together have spent, without one of them."""
        spent = SpentBudget()
        for name, one in self.agents.items():
            if name != but:
                spent = spent.together(one)
        return spent


@asynccontextmanager
async def shared_call(budget: Budget, own: SpentBudget, times: int) -> AsyncIterator[Callable[[SpentBudget], None]]:
    """Counts one model call for the duration of the context, in which the caller says what it has spent after it. Without an answer, the call does not count.

    `own` is what this agent has spent before, and `times` how often it was granted the budget.

    Raises:
        Fatal: the budget is used up; the type of the error names the limit.
    """
    info, store = step_info(), current_resources.get().store
    if store is None:
        raise Fatal(f"the budget {budget.shared!r} can't be shared: this process has no store")
    record = _Record(store, info, await _key(store, info, budget.shared))
    after = [own]
    await record.set(msgspec.structs.replace(own, calls=own.calls + 1), lambda others: check_budget(budget, others.together(own), times))
    try:
        yield lambda spent: after.append(spent)
    finally:
        try:
            await record.set(after[-1], lambda others: None)
        except StoreUnavailable as error:  # the answer is worth more; the next call of this agent sets what it has spent
            logger.warning("what %s has spent of the shared budget %s could not be recorded: %s. Its next call records it", info.key, budget.shared, error)


async def _key(store: Store, info: StepInfo, name: str) -> RecordKey:
    (head,) = await store.heads(HeadFilter(keys=(info.execution,), limit=1))
    root = sha256(f"{head.root.workflow}\0{head.root.id}".encode()).hexdigest()[:32]
    return RecordKey(info.execution.tenant, SHARED_BUDGET, f"{root}/{name}")


class _Record:
    def __init__(self, store: Store, info: StepInfo, key: RecordKey) -> None:
        self._store, self._key, self._agent = store, key, f"{info.execution.workflow}/{info.execution.id}"

    async def set(self, own: SpentBudget, check: Callable[[SpentBudget], Any]) -> None:
        """Writes what this agent has spent, after a look at what the others have."""
        for _ in range(CHANGES_MAX):
            found = await self._store.record(self._key)
            spending = SharedSpending() if found is None else msgspec.msgpack.decode(decode_record_value(found.value), type=SharedSpending)
            check(spending.total(self._agent))
            value = encode_record_value(msgspec.msgpack.encode(SharedSpending({**spending.agents, self._agent: own})))
            expires_at_s = (await self._store.store_time()).now_s + KEPT_S
            change = RecordChange(self._key, 0 if found is None else found.version, value, expires_at_s=expires_at_s)
            (answer,) = await self._store.commit([Post(records=(change,))])
            if not isinstance(answer, Stale):
                return
            await asyncio.sleep(PAUSE_S * random.random())
        raise StoreUnavailable(f"the shared budget {self._key.key} is changed by too many agents at once")
