"""Advancing one execution: messages in hand are decided on, committed together, and only then acted upon.

Whatever goes wrong on the way, nothing is lost: the warm state is thrown away, the log read again, and the messages in hand
delivered again; a decision that was durable already makes them late, and late messages do nothing.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from perdure.core import log, messages
from perdure.core.attributes import Indexed, indexed
from perdure.core.compact import compact, worth_it
from perdure.core.decide import decide
from perdure.core.decision import Decision, Host
from perdure.core.error_text import text_of
from perdure.core.errors import Diverged
from perdure.core.events import Ended, Event, Parked, Patched, Reopened, Resumed, Started, Undoing
from perdure.core.execution import Execution
from perdure.core.mail import Ack
from perdure.core.program import needs_of, program_name
from perdure.core.rebuild import rebuild
from perdure.core.values import Blob
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.needs import described, pinned
from perdure.programs.workflows import Workflow, explain, program
from perdure.runtime.driving import drive
from perdure.runtime.flights import act, end_stale
from perdure.runtime.warm import Item, Warm
from perdure.stores.base import Commit, Committed, Conflict, Superseded

if TYPE_CHECKING:
    from perdure.runtime.engine import Engine

lines = logging.getLogger("perdure.workflow")
logger = logging.getLogger("perdure.engine")

NEWS = frozenset((Ended, Parked, Resumed, Reopened, Undoing))
"""The events that people who wait for an execution want to hear of."""


class LostRace(Exception):  # an expected outcome on its way to where it is handled
    """Somebody else has advanced the execution; what was decided here is void. Mail that is `unheard` may be there, and is to be decided on first."""

    def __init__(self, ours: bool, unheard: tuple[str, ...] = ()) -> None:
        super().__init__("somebody else has advanced this execution")
        self.ours, self.unheard = ours, unheard


class Incapable(Exception):  # an expected outcome on its way to where it is handled
    """The execution needs capabilities that this engine has not; what was decided is void."""

    def __init__(self, needs: frozenset[str], lacking: frozenset[str]) -> None:
        super().__init__(f"this engine has no {described(lacking)}")
        self.needs, self.lacking = needs, lacking


class NewEpoch(Exception):  # an expected outcome on its way to where it is handled
    """The store has begun a new epoch; everything known of it is void."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"the store is in epoch {epoch}")
        self.epoch = epoch


async def advance(engine: "Engine", warm: Warm) -> None:
    """Decide on all messages in hand, commit, and act on what was decided.

    Raises:
        StoreError, LostRace, NewEpoch, Incapable: nothing was acted upon, and the messages are in hand again.
    """
    batch: list[Item] = []
    try:
        if warm.execution is None:
            await restore(engine, warm)
        while warm.undecided:
            batch.append(warm.undecided.popleft())
            if len(batch) == 1:
                decision = Decision()
            await _decide(engine, warm, batch[-1], decision)
            if isinstance(batch[-1].message, messages.Diverge):
                break  # parked in a commit of its own: the message behind it may be what can't be carried on
        if batch:
            _expect_capabilities(warm)
            asked_s = await _write(engine, warm, decision, tuple(ack for item in batch for ack in item.acks()))
            if not engine.held_since(asked_s):  # the answer took so long that others may have gone on meanwhile: what it was may be over
                raise LostRace(ours=True)
    except BaseException as error:
        warm.put_back(batch)
        if isinstance(error, LostRace) and error.ours and error.unheard:
            await _hear(engine, warm, error.unheard)
        raise
    for item in batch:
        if item.mail is not None:
            warm.in_hand.discard(item.mail.number)
            engine.settled_mail.add((warm.key, item.mail.number))
    if batch:
        _say(decision)
        act(engine, warm, decision.events)
        await _compact(engine, warm)


def _expect_capabilities(warm: Warm) -> None:
    """Find out what an execution needs, when that may have changed, and whether it is here."""
    execution, instance, workflow = warm.execution, warm.program, warm.workflow
    if execution is None or instance is None or execution.definition == warm.definition or (needs := instance.required) is None:
        return
    warm.needs = pinned(warm.needs, needs) if warm.needs else needs
    if isinstance(workflow, GraphWorkflow) and workflow.capabilities is not None and (lacking := warm.needs - workflow.capabilities):
        raise Incapable(warm.needs, lacking)
    warm.definition = execution.definition


def _workflow(engine: "Engine", warm: Warm, events: Sequence[Event]) -> Workflow:
    """What runs an execution: of several definitions of its name, the one that it goes by, with its own tools."""
    changes = (event.definition for event in reversed(events) if isinstance(event, Started) or (isinstance(event, Patched) and not event.refused))
    starts = (item.message.definition for item in warm.undecided if isinstance(item.message, messages.Start))
    given = next(chain(changes, starts), None)
    sha256 = "" if given is None else given.sha256 if isinstance(given, Blob) else hashlib.sha256(given).hexdigest()
    return engine.releases.get((warm.key.workflow, sha256)) or engine.workflows[warm.key.workflow]


async def _hear(engine: "Engine", warm: Warm, keys: tuple[str, ...]) -> None:
    """Take answers of transactions in hand, before what would have given them up."""
    for mail in await engine.store.mail(warm.key):
        if mail.key in keys:
            warm.put_first(Item(messages.decode_message(mail.body), mail))


async def restore(engine: "Engine", warm: Warm) -> None:
    """Read the log, fold it, replay the program; find out which calls were interrupted."""
    found = await engine.store.read(warm.key) if warm.exists else None
    if found is not None and found.head.holder != engine.holder:
        raise LostRace(ours=False)
    warm.exists = found is not None
    warm.version = 0 if found is None else found.head.version
    warm.pinned, warm.attributes = ("", ()) if found is None else (found.head.program, found.head.attributes)
    warm.created_at_s = 0.0 if found is None else found.head.created_at_s
    warm.indexed = None
    warm.log_bytes = 0 if found is None else sum(map(len, found.rows))
    events = [] if found is None else log.decode_all(found.rows)
    execution = Execution(warm.key, None if found is None else found.head.root)
    warm.needs = needs_of(warm.pinned)
    workflow = warm.workflow = _workflow(engine, warm, events)
    instance = program(workflow, warm.key, engine.variables)
    if warm.defect:
        instance.refuse(Diverged((), (warm.defect,)))
    try:
        awake = any(isinstance(item.message, messages.Undo) for item in warm.undecided)
        diverged = await drive(engine.payloads, rebuild(execution, events, instance, awake))
    except BaseException:
        instance.close()
        raise
    warm.execution, warm.program = execution, instance
    if isinstance(diverged, Diverged) and execution.ended is None:
        diff = diverged.diff if warm.defect else await drive(engine.payloads, explain(workflow, warm.key, events, diverged))
        instance.refuse(Diverged(diverged.path, diff))  # so that a retry in vain says the same
        if execution.parked is None:
            warm.undecided.appendleft(Item(messages.Diverge(diff)))
            return
    end_stale(warm, execution)
    told = {(item.message.path, item.message.attempt) for item in warm.undecided if isinstance(item.message, messages.Settle | messages.Lost)}
    for promise in reversed(execution.opened.performing()):
        flight = warm.flights.get(promise.path)
        if (promise.path, promise.attempt) in told:
            continue  # who performed it is gone, and had answered in a transaction; or it was given back here
        if promise.by != engine.holder or flight is None or flight.attempt != promise.attempt:
            warm.undecided.appendleft(Item(messages.Lost(promise.path, promise.attempt)))


async def _decide(engine: "Engine", warm: Warm, item: Item, total: Decision) -> None:
    execution, instance = warm.execution, warm.program
    if execution is None or instance is None:
        raise LostRace(ours=True)  # it left memory while this was being decided: it is read again
    if isinstance(item.message, messages.Undo) and execution.ended is not None and execution.removed is None and not instance.awake:
        raise LostRace(ours=True)  # it had ended when it was read, and its program was left asleep: once more
    host = _host(engine, warm, item.message)
    number = 0 if item.mail is None else item.mail.number
    now = engine.clock.now().not_before(warm.created_at_s)
    decision = await drive(engine.payloads, decide(execution, item.message, instance, now, host, number), total.blobs)
    total.events += decision.events
    total.sends += decision.sends
    total.acks += decision.acks
    total.lines += decision.lines
    total.blobs.update(decision.blobs)


def _host(engine: "Engine", warm: Warm, message: messages.Message) -> Host:
    is_timed = bool(warm.lives) and isinstance(message, messages.Tick)
    young = frozenset(warm.young(asyncio.get_running_loop().time())) if is_timed else frozenset()
    if not warm.threads and not young:
        return engine.host
    return msgspec.structs.replace(engine.host, busy=frozenset(warm.threads), young=young)


async def _write(engine: "Engine", warm: Warm, decision: Decision, acks: tuple[Ack, ...], compacted: bytes | None = None) -> float:
    """Commit a decision; return when the store was asked to, on the clock of the loop."""
    execution = warm.execution
    if execution is None:
        raise LostRace(ours=True)  # it left memory while this was being decided: it is read again
    release, attributes = warm.parks, _attributes(warm, execution)
    sends, given_up = decision.mail()
    unless = _unheard(given_up, acks) if given_up else ()
    asked_s = asyncio.get_running_loop().time()
    change = Commit(
        key=warm.key,
        epoch=engine.epoch,
        holder=engine.holder,
        version=warm.version,
        program=_program(warm, execution),
        root=execution.root,
        creates=not warm.exists,
        created_at_s=execution.now_s if execution.started is None else execution.started.at_s,
        row=log.encode(decision.events) if decision.events else b"",
        count=len(decision.events),
        compacted=compacted,
        status=execution.status,
        wake_at_s=warm.wake_at(engine.clock, asked_s),
        ended_at_s=None if execution.ended is None else execution.ended.at_s,
        release=release,
        news=not NEWS.isdisjoint(map(type, decision.events)),
        sends=sends,
        acks=(*given_up, *acks, *warm.postponing),
        blobs=tuple(decision.blobs.items()),
        attributes=None if attributes == warm.attributes else attributes,
        unless=unless,
    )
    taken, postponed = warm.taken, tuple(warm.postponing)
    (answer,) = await engine.store.commit([change])
    match answer:
        case Committed(version, now_s):
            engine.clock.take_answer(now_s, asked_s)
            warm.version, warm.exists, warm.held = version, True, not release
            if postponed:
                warm.postponing = [ack for ack in warm.postponing if ack not in postponed]
            warm.attributes, warm.indexed = attributes, execution.attributes
            if release and warm.taken != taken and not await _keeps(engine, warm):
                warm.drop_mail()
            warm.log_bytes = len(change.row) + (warm.log_bytes if compacted is None else len(compacted))
        case Conflict(now):
            warm.exists = now is not None
            raise LostRace(now is not None and now.holder == engine.holder, unless)
        case Superseded(epoch):
            raise NewEpoch(epoch)
    return asked_s


def _unheard(given_up: Sequence[Ack], acks: Sequence[Ack]) -> tuple[str, ...]:
    """The answers of what is given up that may be in the mail, and are not among what is acknowledged."""
    heard = {ack.key for ack in acks}
    return tuple(ack.answer for ack in given_up if ack.answer and ack.answer not in heard)


def _program(warm: Warm, execution: Execution) -> str:
    """What its head says that runs it: until it has begun, what it said before."""
    if execution.started is None:
        return warm.pinned or program_name(warm.key.workflow, 0)
    return program_name(warm.key.workflow, execution.started.version, warm.needs)


def _attributes(warm: Warm, execution: Execution) -> Indexed:
    """What the execution is to be found by: until it has begun, what whoever starts it has said."""
    is_known = execution.started is None or execution.attributes is warm.indexed
    return warm.attributes if is_known else indexed(execution.attributes)


async def _keeps(engine: "Engine", warm: Warm) -> bool:
    """Whether a claim that was answered during a release came after it, so that the execution is held: only the store knows.

    What it says is of before the next claim, if that was answered meanwhile.
    """
    taken = None
    while taken != warm.taken:
        taken = warm.taken
        found = await engine.store.read(warm.key, after=warm.version)
        warm.held = found is not None and found.head.holder == engine.holder
    return warm.held


async def _compact(engine: "Engine", warm: Warm) -> None:
    """Replace the log by its compacted form, when more of it is dead than alive."""
    execution = warm.execution
    if execution is None or not worth_it(execution) or execution.logged_events < warm.compact_from:
        return
    found = await engine.store.read(warm.key)
    if found is None or found.head.version != warm.version:
        return
    result = compact(warm.key, found.rows, warm.program is not None and warm.program.keeps_archives)
    if result is None:
        warm.compact_from = 2 * execution.logged_events  # reading the whole log at every commit would cost more the longer it is
        logger.debug("the log of %s can't be compacted at this point: its branches wait for each other outside of it", warm.key)
        return
    await _write(engine, warm, Decision(blobs=result.blobs), (), log.encode(result.events))
    execution.apply(result.snapshot)


def _say(decision: Decision) -> None:
    for line in decision.lines:
        fields = "".join(f" {name}={_shown(value)}" for name, value in line.fields)
        lines.log(line.level, "%s%s", text_of(lambda: str(line.text), "(no text)"), fields)  # noqa: B023  # it is called at once


def _shown(value: object) -> str:
    return text_of(lambda: repr(value), f"({type(value).__name__}, whose __repr__ failed)")
