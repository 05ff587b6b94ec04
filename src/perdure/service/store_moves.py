"""Moves a store to another database while engines work, with a short switch at the end.

Each state of a move is recorded in the stores themselves, as a mark that makes a store refuse changes (`perdure.stores.move_mark`):

    FROM        TO
    in use      copy      pages are copied; FROM is used as before, TO refuses work. This may last for days.
    draining    copy      FROM lets no process join or renew its lease. Engines end what they have begun, and stop.
    closed      copy      FROM refuses all changes. The last ones are copied, and everything that changed is verified.
    closed      in use    The switch: one transaction of TO removes its mark, if it is still the mark of this run.
    moved       in use    FROM names TO to whoever still wants to change it.

So no state has both in use, and an interruption leaves one of these states. From the first three, the move can be completed or taken back; after the switch
it can be completed only. A run takes over from an earlier one by replacing the mark of TO by its own; what the earlier one still does then fails.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import uuid4

import msgspec

from perdure.core.errors import BadValue, MoveRefused
from perdure.runtime.holder import decode_process_info
from perdure.service.store_comparison import ComparedCounts, CopyVerification, StoreComparer, StoreDifference
from perdure.service.store_copies import CopyResult, StoreCopier, check_empty, marker_of, stored_position
from perdure.stores.move_mark import MOVE_MARK, MoveMark, MoveStage, StoreMove
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import HolderStatus, Store

CLOCK_AHEAD_MAX_S = 60.0
"""By how much the clock of TO may be ahead of FROM's: timers of the executions that are moved end that much too early."""

HOLDER_POLL_S = 0.1
"""How often it is read whether processes still work on a store that is being drained."""


class MovedStore(NamedTuple):
    """One side of a move: the store, and its URL without a password."""

    store: Store
    name: str


class MoveReport(msgspec.Struct, frozen=True):
    """What a run has done. Without `switched`, TO is a copy that refuses work; with it, executions go on there.

    `clock_ahead_s` says by how much the clock of TO is ahead of FROM's. `drained_s` is how long engines took to end, and `closed_s` how long no change was
    possible on either side. `differences` are what the verification has found; the switch was then not made.
    """

    copied: CopyResult
    switched: bool
    clock_ahead_s: float
    verified: ComparedCounts | None = None
    drained_s: float = 0.0
    closed_s: float = 0.0
    interrupted: tuple[str, ...] = ()
    differences: tuple[StoreDifference, ...] = ()


class MoveProgress(NamedTuple):
    """Where the progress of a move is told: `counted` things of a phase, and `told` sentences for people."""

    counted: Callable[[int], object] = lambda _: None
    told: Callable[[str], object] = lambda _: None


class StoreMover:
    """Moves the executions of one store to another. `codec` decodes payloads for the verification, where they are encoded."""

    def __init__(self, source: MovedStore, target: MovedStore, codec: PayloadCodec | None = None, progress: MoveProgress | None = None) -> None:
        self._source, self._target, self._codec = source, target, codec
        self._progress = progress or MoveProgress()
        self._run = uuid4().hex
        self._waited_for: Sequence[str] = ()
        self._marks = mark_of(source, "FROM"), mark_of(target, "TO")
        self._copier = StoreCopier(source.store, target.store, source.name, self._progress.counted)
        self._copy_mark = self._move("copy", source)

    def _move(self, stage: MoveStage, other: MovedStore) -> StoreMove:
        return StoreMove(stage, other.name, self._run)

    async def copy(self) -> MoveReport:
        """Brings TO up to date, as a copy that refuses work. It may be repeated, and continues where the last run was.

        Raises:
            BadValue: a store can't be moved, or can't be moved to.
            MoveRefused: FROM was moved already, or TO has something of its own or belongs to another move, or another run has taken over.
        """
        ahead_s = await self._begin()
        await self._catch_up()
        return MoveReport(self._copier.result((await self._target.store.store_time()).epoch), False, ahead_s)

    async def clone(self) -> MoveReport:
        """Brings TO up to date and puts it into use in a new epoch, while FROM goes on as well: executions in progress go on in both.

        Raises:
            BadValue, MoveRefused: see `copy`.
        """
        ahead_s = await self._begin()
        await self._catch_up()
        epoch = await self._target.store.raise_epoch()
        await self._replace(self._marks[1], self._copy_mark, None)
        await self._copier.forget_position()
        return MoveReport(self._copier.result(epoch), False, ahead_s)

    async def switch(self, drain_s: float = 60.0) -> MoveReport:
        """Brings TO up to date, has engines of FROM end for up to `drain_s`, closes FROM, verifies everything and puts TO into use.

        If the verification finds a difference, FROM is put into use again.

        Raises:
            BadValue, MoveRefused: see `copy`.
        """
        if await self._is_switched():
            return await self._complete(MoveReport(self._copier.result((await self._target.store.store_time()).epoch), True, 0.0))
        ahead_s = await self._begin()
        if ahead_s > CLOCK_AHEAD_MAX_S:
            raise MoveRefused(
                f"the clock of TO is {ahead_s:,.0f} s ahead of FROM's, and timers would end that much too early; set the clocks (NTP), or wait, then switch"
            )
        await self._catch_up()
        comparer = StoreComparer(self._source.store, self._target.store, ("FROM", "TO"), self._codec)
        verification = CopyVerification(comparer, self._target.store, self._copier.marker)
        await verification.begin()
        self._tell("verifying the copy while FROM is in use")
        await verification.advance(self._progress.counted)
        await self._catch_up()
        await verification.advance(self._progress.counted)
        drained_s = await self._drain(drain_s)
        return await self._close(verification, comparer, MoveReport(self._copier.result(0), False, ahead_s, comparer.counts, drained_s))

    async def undo(self) -> None:
        """Takes the move back: FROM is in use again, without a change feed. TO stays a copy that refuses work, from which a later move may go on.

        Raises:
            BadValue: a store can't be moved.
            MoveRefused: the switch was made already, or there is no move to take back.
        """
        source, target = self._marks
        before, copy = await source.read(), await target.read()
        if copy is not None and (copy.stage, copy.other) == ("copy", self._source.name):
            await self._replace(target, copy, self._copy_mark)
        elif before is None or before.stage == "moved" or copy is not None or await self._target.store.heads():
            raise MoveRefused(
                f"there is no move from {self._source.name} to {self._target.name} that could be taken back: "
                "TO is in use. To move back, copy it to an empty database"
            )
        if before is not None and before.other == self._target.name:
            await self._replace(source, before, None)
        await self._copier.feed.end_feed()

    def _tell(self, sentence: str, living: Sequence[str] = ()) -> None:
        """Tells people what goes on: of processes that are waited for once, until others are."""
        if not living or self._waited_for != living:
            self._waited_for = living
            self._progress.told(f"{sentence}: {', '.join(living)}" if living else sentence)

    # The states of a move, in their order.

    async def _begin(self) -> float:
        """Checks both sides, and makes TO a copy of this run. Returns by how much the clock of TO is ahead."""
        source, target = self._marks
        before, copy = await source.read(), await target.read()
        _check_source(before, self._target.name)
        if copy is not None and (copy.stage, copy.other) != ("copy", self._source.name):
            raise MoveRefused(f"TO can't be copied to: {copy.refusal}")
        await self._replace(target, copy, self._copy_mark)
        if copy is None:
            await self._check_unused()
        await self._copier.into.end_feed()  # of a verification that was interrupted
        await self._copier.begin()
        asked = [(await side.store.store_time()).now_s for side in (self._source, self._target)]
        return asked[1] - asked[0]

    async def _check_unused(self) -> None:
        """Checks that nobody uses TO, which refuses changes already; otherwise it can be used as before."""
        try:
            await check_empty(self._target.store)
            if living := await living_holders(self._target.store):
                raise MoveRefused(f"TO is in use by {', '.join(living)}. Stop what works on it")
        except MoveRefused:
            await self._replace(self._marks[1], self._copy_mark, None)
            raise

    async def _catch_up(self) -> None:
        """Copies pages until FROM has less to copy than a page."""
        await self._copy_until_caught_up()
        await self._copier.copy_secrets()

    async def _copy_until_caught_up(self) -> None:
        while True:
            await self._check_run()
            if not await self._copier.copy_page():
                return

    async def _check_run(self) -> None:
        if await self._marks[1].read() != self._copy_mark:
            raise _taken_over()

    async def _replace(self, mark: MoveMark, expected: StoreMove | None, move: StoreMove | None) -> None:
        if not await mark.replace(expected, move):
            raise _taken_over()

    async def _drain(self, drain_s: float) -> float:
        """Has the processes of FROM end what they have begun and leave, for up to `drain_s`, while the copy goes on. Returns how long that took."""
        began_s = time.monotonic()
        before = await self._marks[0].read()
        if before is not None and before.stage == "closed":  # by an earlier run
            return 0.0
        await self._set_source_stage("draining")
        while (living := await living_holders(self._source.store)) and (left_s := began_s + drain_s - time.monotonic()) > 0:
            self._tell(f"waiting up to {left_s:.0f} s for these processes to end what they have begun", living)
            await self._copy_until_caught_up()
            await asyncio.sleep(HOLDER_POLL_S)
        return time.monotonic() - began_s

    async def _set_source_stage(self, stage: MoveStage) -> None:
        source = self._marks[0]
        before = await source.read()
        _check_source(before, self._target.name)
        await self._replace(source, before, self._move(stage, self._target))

    async def _close(self, verification: CopyVerification, comparer: StoreComparer, report: MoveReport) -> MoveReport:
        """Closes FROM, copies and verifies the rest, and switches."""
        began_s = time.monotonic()
        await self._set_source_stage("closed")
        interrupted = tuple(await living_holders(self._source.store))
        await self._catch_up()
        differences = tuple(await verification.complete(self._copier.queues, self._progress.counted))
        await verification.end()
        if differences:
            await self._replace(self._marks[0], await self._marks[0].read(), None)
            return msgspec.structs.replace(report, differences=differences, closed_s=time.monotonic() - began_s)
        while living := await living_holders(self._source.store):  # they learn of the move by their leases, which they can't renew
            self._tell("the switch waits until the leases of these processes, which have not ended, have run out", living)
            await asyncio.sleep(HOLDER_POLL_S)
        await self._copier.into.restore([self._copier.mark(self._copier.position, complete=True)])
        epoch = await self._target.store.raise_epoch()
        await self._replace(self._marks[1], self._copy_mark, None)
        closed_s = time.monotonic() - began_s
        changes = {"copied": self._copier.result(epoch), "verified": comparer.counts, "interrupted": interrupted}
        return await self._complete(msgspec.structs.replace(report, switched=True, closed_s=closed_s, **changes))

    async def _is_switched(self) -> bool:
        """Whether an earlier run was interrupted after its switch."""
        source, target = self._marks
        before = await source.read()
        if before is None or before.other != self._target.name or before.stage not in ("closed", "moved") or await target.read() is not None:
            return False
        position = await stored_position(self._target.store, marker_of(self._source.name))
        return before.stage == "moved" or (position is not None and position.complete)

    async def _complete(self, report: MoveReport) -> MoveReport:
        """Has FROM say where its executions are, and removes what was kept for the move."""
        source = self._marks[0]
        await self._replace(source, await source.read(), self._move("moved", self._target))
        await self._copier.forget_position()
        return report


def mark_of(side: MovedStore, name: str) -> MoveMark:
    """Returns the move mark of a store.

    Raises:
        BadValue: it has none.
    """
    mark = side.store.part(MOVE_MARK)
    if mark is None:
        raise BadValue(name, side.name, "a store that can refuse changes, so that executions never go on in both: a file or Postgres. Or copy --independent")
    return mark


async def living_holders(store: Store) -> list[str]:
    """Returns the processes that hold leases: what they are, and where."""
    return [_holder_text(lease) for lease in await store.leases() if lease.alive]


def _holder_text(lease: HolderStatus) -> str:
    info = decode_process_info(lease.about)
    return lease.holder if info is None else f"{info.kind} {info.pid} on {info.host}"


def _check_source(before: StoreMove | None, target_name: str) -> None:
    if before is not None and (before.stage not in ("draining", "closed") or before.other != target_name):
        raise MoveRefused(f"FROM can't be copied: {before.refusal}")


def _taken_over() -> MoveRefused:
    return MoveRefused("another perdure db copy of these databases has taken over; wait for its end, or end it and run this again")
