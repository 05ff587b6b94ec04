"""The state of the system as the process that answers sees it: itself, its database and its clock, and how fast executions of a tenant begin and end."""

import platform
import time
from typing import Any

import msgspec

from perdure.service.execution_counts import newest_heads
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.server_description import ServerDescription
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter, Store
from perdure.stores.store_parts import STORE_KIND

RATE_S = 300.0
"""The time over which rates are counted."""

LOOKED_BACK_S = 3_600.0
"""Executions that were started longer ago are not looked at when ends are counted."""

SCANNED_MAX = 10_000


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """The database: its kind, its epoch, its time, and how long a read of that took. `clock_ahead_s` is by how much the clock of the answering process is ahead
    of it, which can't be known more exactly than `latency_s`.
    """

    kind: str
    epoch: int
    now_at_s: float
    latency_s: float
    clock_ahead_s: float


class ExecutionRates(msgspec.Struct, frozen=True, kw_only=True):
    """How many executions of the tenant, Perdure's own left out, were started and have ended within the last `over_s` seconds, counted in the index.

    Only those that were started within the last `looked_back_s` are looked at, so ends of older ones are not among them. `duration_s` is the mean time from the
    start to the end of those that have ended (None: none has). With `is_partial`, there were more than are looked at.
    """

    over_s: float
    looked_back_s: float
    started: int
    ended: int
    failed: int
    duration_s: float | None
    is_partial: bool


class SystemStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The process that answers, its database, and the rates of the tenant. `uptime_s` is None where there is no server: a client has the store open itself."""

    version: str
    python: str
    host: str
    started_at_s: float | None
    uptime_s: float | None
    roles: tuple[str, ...]
    settings: dict[str, Any]
    store: StoreState
    rates: ExecutionRates


async def system_status(access: StoreAccess, tenant: str, server: ServerDescription) -> SystemStatus:
    """Reads the state of the system."""
    return SystemStatus(
        version=server.version,
        python=platform.python_version(),
        host=platform.node(),
        started_at_s=server.started_at_s or None,
        uptime_s=max(time.time() - server.started_at_s, 0.0) if server.started_at_s else None,
        roles=server.roles,
        settings=server.settings,
        store=await _store_state(access.store),
        rates=await execution_rates(access, tenant),
    )


async def _store_state(store: Store) -> StoreState:
    began_s = time.monotonic()
    before_s = time.time()
    moment = await store.store_time()
    took_s = time.monotonic() - began_s
    return StoreState(
        kind=store.part(STORE_KIND) or "",
        epoch=moment.epoch,
        now_at_s=moment.now_s,
        latency_s=took_s,
        clock_ahead_s=round(before_s + took_s / 2 - moment.now_s, 6),
    )


async def execution_rates(access: StoreAccess, tenant: str) -> ExecutionRates:
    """Counts the starts and ends of executions within the last minutes."""
    now_s = (await access.store.store_time()).now_s
    found, is_partial = await newest_heads(access, HeadFilter(tenant=tenant, created_from_s=now_s - LOOKED_BACK_S), SCANNED_MAX)
    heads = [head for head in found if head.key.workflow not in INTERNAL_WORKFLOWS]
    since_s = now_s - RATE_S
    ended = [head for head in heads if head.ended_at_s is not None and head.ended_at_s >= since_s]
    return ExecutionRates(
        over_s=RATE_S,
        looked_back_s=now_s - found[-1].created_at_s if is_partial else LOOKED_BACK_S,
        started=sum(head.created_at_s >= since_s for head in heads),
        ended=len(ended),
        failed=sum(head.status == "failed" for head in ended),
        duration_s=_mean_duration(ended),
        is_partial=is_partial,
    )


def _mean_duration(ended: list[Head]) -> float | None:
    durations = [max(head.ended_at_s - head.created_at_s, 0.0) for head in ended if head.ended_at_s is not None]
    return sum(durations) / len(durations) if durations else None
