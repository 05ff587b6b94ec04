"""Advances one execution: decides on the messages it has received, commits the decision, and only then acts on it.

A failure on the way loses nothing: the state in memory is discarded, the log is read again, and the same messages are decided on again. If the commit
was durable after all, these messages are late, and late messages have no effect.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from itertools import chain

import msgspec

from perdure.core import log_format, messages
from perdure.core.attributes import IndexedAttributes, index_attributes
from perdure.core.compaction import compact_log, is_worth_compaction
from perdure.core.decision import DecisionContext, ExecutionDecision, decide
from perdure.core.envelopes import Ack
from perdure.core.error_text import safe_text
from perdure.core.errors import Diverged
from perdure.core.events import EndedEvent, Event, ParkedEvent, PatchedEvent, ReopenedEvent, ResumedEvent, StartedEvent, UndoingEvent
from perdure.core.execution import Execution
from perdure.core.program import program_name, program_requirements
from perdure.core.replay import replay_program
from perdure.core.values import Blob
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.requirements import capabilities_text, pinned_tool_versions
from perdure.runtime.blob_loader import run_with_blobs
from perdure.runtime.engine_services import EngineServices
from perdure.runtime.in_flight import act_on_events, end_stale_attempts
from perdure.runtime.resident_executions import ResidentExecution, UndecidedMessage
from perdure.runtime.workflow_programs import Workflow, explain_divergence, program_of
from perdure.stores.protocol import Commit, Committed, Conflict, Superseded

workflow_logger = logging.getLogger("perdure.workflow")
logger = logging.getLogger("perdure.engine")

NOTIFIED_EVENTS = frozenset((EndedEvent, ParkedEvent, ResumedEvent, ReopenedEvent, UndoingEvent))
"""The events of which clients that wait for an execution are notified."""


class LostRace(Exception):  # an expected outcome on its way to where it is handled
    """Another process has advanced the execution, so the decision is void.

    `unread_answers` are keys of messages that, if they have arrived, must be decided on first. `ours` says that this engine still holds the execution.
    """

    def __init__(self, ours: bool, unread_answers: tuple[str, ...] = ()) -> None:
        super().__init__("another process has advanced this execution")
        self.ours, self.unread_answers = ours, unread_answers


class LacksCapabilities(Exception):  # an expected outcome on its way to where it is handled
    """The execution needs capabilities that this engine lacks, so the decision is void."""

    def __init__(self, needs: frozenset[str], lacking: frozenset[str]) -> None:
        super().__init__(f"this engine has no {capabilities_text(lacking)}")
        self.needs, self.lacking = needs, lacking


class StoreEpochChanged(Exception):  # an expected outcome on its way to where it is handled
    """The store has begun a new epoch, so everything in memory is void."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"the store is in epoch {epoch}")
        self.epoch = epoch


async def advance_execution(engine: EngineServices, resident: ResidentExecution) -> None:
    """Decides on all messages received, commits, and acts on the decision.

    Raises:
        StoreError, LostRace, StoreEpochChanged, LacksCapabilities: nothing was acted upon, and the messages are again to be decided on.
    """
    batch: list[UndecidedMessage] = []
    try:
        if resident.execution is None:
            await restore_execution(engine, resident)
        while resident.undecided:
            batch.append(resident.undecided.popleft())
            if len(batch) == 1:
                decision = ExecutionDecision()
            await _decide(engine, resident, batch[-1], decision)
            if isinstance(batch[-1].message, messages.DivergeMessage):
                break  # the execution parks in a commit of its own: the next message may be the one that can't be handled
        if batch:
            _expect_capabilities(resident)
            asked_s = await _write(engine, resident, decision, tuple(ack for item in batch for ack in item.acks()))
            if not engine.held_since(asked_s):  # the answer took longer than the lease: another engine may have continued meanwhile
                raise LostRace(ours=True)
    except BaseException as error:
        resident.put_back(batch)
        if isinstance(error, LostRace) and error.ours and error.unread_answers:
            await _take_answers_in_hand(engine, resident, error.unread_answers)
        raise
    for item in batch:
        if item.queued is not None:
            resident.received_numbers.discard(item.queued.number)
            engine.settled_messages.add((resident.key, item.queued.number))
    if batch:
        _write_log_lines(decision)
        act_on_events(engine, resident, decision.events)
        await _compact(engine, resident)


def _expect_capabilities(resident: ResidentExecution) -> None:
    """Checks that this engine has the capabilities that the execution needs, whenever these may have changed."""
    execution, instance, workflow = resident.execution, resident.program, resident.workflow
    if execution is None or instance is None or execution.definition == resident.definition or (needs := instance.required) is None:
        return
    resident.needs = pinned_tool_versions(resident.needs, needs) if resident.needs else needs
    if isinstance(workflow, GraphWorkflow) and workflow.capabilities is not None and (lacking := resident.needs - workflow.capabilities):
        raise LacksCapabilities(resident.needs, lacking)
    resident.definition = execution.definition


def _workflow_of(engine: EngineServices, resident: ResidentExecution, events: Sequence[Event]) -> Workflow:
    """Returns the workflow that runs an execution: of several definitions of its name, the pinned one, with its own tools."""
    changes = (event.definition for event in reversed(events) if isinstance(event, StartedEvent) or (isinstance(event, PatchedEvent) and not event.refused))
    starts = (item.message.definition for item in resident.undecided if isinstance(item.message, messages.StartMessage))
    given = next(chain(changes, starts), None)
    sha256 = "" if given is None else given.sha256 if isinstance(given, Blob) else hashlib.sha256(given).hexdigest()
    return engine.releases.get((resident.key.workflow, sha256)) or engine.workflows[resident.key.workflow]


async def _take_answers_in_hand(engine: EngineServices, resident: ResidentExecution, keys: tuple[str, ...]) -> None:
    """Puts the answers of transactions before the messages whose decision would have dropped their calls."""
    for queued in await engine.store.messages(resident.key):
        if queued.key in keys:
            resident.put_first(UndecidedMessage(messages.decode_execution_message(queued.body), queued))


async def restore_execution(engine: EngineServices, resident: ResidentExecution) -> None:
    """Reads the log, folds it and replays the program; adds a message for each interrupted call."""
    found = await engine.store.read(resident.key) if resident.exists else None
    if found is not None and found.head.holder != engine.holder:
        raise LostRace(ours=False)
    resident.exists = found is not None
    resident.version = 0 if found is None else found.head.version
    resident.pinned, resident.attributes = ("", ()) if found is None else (found.head.program, found.head.attributes)
    resident.created_at_s = 0.0 if found is None else found.head.created_at_s
    resident.indexed = None
    resident.log_bytes = 0 if found is None else sum(map(len, found.payloads))
    events = [] if found is None else log_format.decode_rows(found.payloads)
    execution = Execution(resident.key, None if found is None else found.head.root)
    resident.needs = program_requirements(resident.pinned)
    workflow = resident.workflow = _workflow_of(engine, resident, events)
    instance = program_of(workflow, resident.key, engine.variables)
    if resident.defect:
        instance.refuse(Diverged((), (resident.defect,)))
    try:
        awake = any(isinstance(item.message, messages.UndoMessage) for item in resident.undecided)
        diverged = await run_with_blobs(engine.payloads, replay_program(execution, events, instance, awake))
    except BaseException:
        instance.close()
        raise
    resident.execution, resident.program = execution, instance
    if isinstance(diverged, Diverged) and execution.ended is None:
        diff = diverged.diff if resident.defect else await run_with_blobs(engine.payloads, explain_divergence(workflow, resident.key, events, diverged))
        instance.refuse(Diverged(diverged.path, diff))  # so that a retry without a change reports the same
        if execution.parked is None:
            resident.undecided.appendleft(UndecidedMessage(messages.DivergeMessage(diff)))
            return
    end_stale_attempts(resident, execution)
    answered = {
        (item.message.path, item.message.attempt) for item in resident.undecided if isinstance(item.message, messages.SettleMessage | messages.LostMessage)
    }
    for pending in reversed(execution.opened.performing()):
        running = resident.in_flight.get(pending.path)
        if (pending.path, pending.attempt) in answered:
            continue  # it was answered in a transaction before its process died, or given back by this engine
        if pending.by != engine.holder or running is None or running.attempt != pending.attempt:
            resident.undecided.appendleft(UndecidedMessage(messages.LostMessage(pending.path, pending.attempt)))


async def _decide(engine: EngineServices, resident: ResidentExecution, item: UndecidedMessage, total: ExecutionDecision) -> None:
    execution, instance = resident.execution, resident.program
    if execution is None or instance is None:
        raise LostRace(ours=True)  # it was evicted during the decision: read it again
    if isinstance(item.message, messages.UndoMessage) and execution.ended is not None and execution.removed is None and not instance.awake:
        raise LostRace(ours=True)  # it had ended when it was read, so its program was not replayed; undoing needs the program
    host = _decision_context(engine, resident, item.message)
    number = 0 if item.queued is None else item.queued.number
    now = engine.clock.now().not_before(resident.created_at_s)
    decision = await run_with_blobs(engine.payloads, decide(execution, item.message, instance, now, host, number), total.blobs)
    total.events += decision.events
    total.messages += decision.messages
    total.acks += decision.acks
    total.lines += decision.lines
    total.blobs.update(decision.blobs)


def _decision_context(engine: EngineServices, resident: ResidentExecution, message: messages.ExecutionMessage) -> DecisionContext:
    is_timed = bool(resident.step_controls) and isinstance(message, messages.TickMessage)
    young = frozenset(resident.young(asyncio.get_running_loop().time())) if is_timed else frozenset()
    if not resident.threads and not young:
        return engine.decision_context
    return msgspec.structs.replace(engine.decision_context, busy=frozenset(resident.threads), young=young)


async def _write(
    engine: EngineServices, resident: ResidentExecution, decision: ExecutionDecision, acks: tuple[Ack, ...], compacted: bytes | None = None
) -> float:
    """Commits a decision, and returns the time of the loop at which it asked the store."""
    execution = resident.execution
    if execution is None:
        raise LostRace(ours=True)  # it was evicted during the decision: read it again
    release, attributes = resident.is_releasable, _head_attributes(resident, execution)
    sends, given_up = decision.without_unsent_work()
    unless = _answers_not_taken(given_up, acks) if given_up else ()
    asked_s = asyncio.get_running_loop().time()
    change = Commit(
        key=resident.key,
        epoch=engine.epoch,
        holder=engine.holder,
        version=resident.version,
        program=_head_program(resident, execution),
        root=execution.root,
        creates=not resident.exists,
        created_at_s=execution.now_s if execution.started is None else execution.started.at_s,
        row=log_format.encode_row(decision.events) if decision.events else b"",
        count=len(decision.events),
        compacted=compacted,
        status=execution.status,
        wake_at_s=resident.wake_at(engine.clock, asked_s),
        ended_at_s=None if execution.ended is None else execution.ended.at_s,
        release=release,
        news=not NOTIFIED_EVENTS.isdisjoint(map(type, decision.events)),
        messages=sends,
        acks=(*given_up, *acks, *resident.postponing),
        blobs=tuple(decision.blobs.items()),
        attributes=None if attributes == resident.attributes else attributes,
        unless=unless,
    )
    claim_count = resident.claim_count
    (answer,) = await engine.store.commit([change])
    match answer:
        case Committed(version, now_s):
            engine.clock.take_answer(now_s, asked_s)
            resident.record_commit(change, version)
            resident.attributes, resident.indexed = attributes, execution.attributes
            if release and resident.claim_count != claim_count and not await _is_still_held(engine, resident):
                resident.drop_undecided()
        case Conflict(now):
            resident.exists = now is not None
            raise LostRace(now is not None and now.holder == engine.holder, unless)
        case Superseded(epoch):
            raise StoreEpochChanged(epoch)
    return asked_s


def _answers_not_taken(given_up: Sequence[Ack], acks: Sequence[Ack]) -> tuple[str, ...]:
    """Returns the keys of answers to dropped calls that may have arrived and are not acknowledged by this commit."""
    acknowledged = {ack.key for ack in acks}
    return tuple(ack.answer for ack in given_up if ack.answer and ack.answer not in acknowledged)


def _head_program(resident: ResidentExecution, execution: Execution) -> str:
    """Returns the program for the head. Until the execution has begun, it is the one that the head already has."""
    if execution.started is None:
        return resident.pinned or program_name(resident.key.workflow, 0)
    return program_name(resident.key.workflow, execution.started.version, resident.needs)


def _head_attributes(resident: ResidentExecution, execution: Execution) -> IndexedAttributes:
    """Returns the attributes for the head. Until the execution has begun, they are those of its start."""
    is_known = execution.started is None or execution.attributes is resident.indexed
    return resident.attributes if is_known else index_attributes(execution.attributes)


async def _is_still_held(engine: EngineServices, resident: ResidentExecution) -> bool:
    """Whether a claim that was answered during a release came after it, so that the execution is held: only the store knows.

    If a further claim is answered during the read, the answer may be older than that claim, so the store is asked again.
    """
    claim_count = None
    while claim_count != resident.claim_count:
        claim_count = resident.claim_count
        found = await engine.store.read(resident.key, after=resident.version)
        resident.held = found is not None and found.head.holder == engine.holder
    return resident.held


async def _compact(engine: EngineServices, resident: ResidentExecution) -> None:
    """Replaces the log by its compacted form when more than half of it is forgotten."""
    execution = resident.execution
    if execution is None or not is_worth_compaction(execution) or execution.logged_events < resident.compact_from:
        return
    found = await engine.store.read(resident.key)
    if found is None or found.head.version != resident.version:
        return
    result = compact_log(resident.key, found.payloads, resident.program is not None and resident.program.keeps_archives)
    if result is None:
        resident.compact_from = 2 * execution.logged_events  # without this, each commit would read the whole log for nothing
        logger.debug("could not compact the log of %s yet: its branches wait for each other in ways that the log does not show", resident.key)
        return
    await _write(engine, resident, ExecutionDecision(blobs=result.blobs), (), log_format.encode_row(result.events))
    execution.apply(result.snapshot)


def _write_log_lines(decision: ExecutionDecision) -> None:
    for line in decision.lines:
        fields = "".join(f" {name}={_safe_repr(value)}" for name, value in line.fields)
        workflow_logger.log(line.level, "%s%s", safe_text(lambda: str(line.text), "(no text)"), fields)  # noqa: B023  # it is called at once


def _safe_repr(value: object) -> str:
    return safe_text(lambda: repr(value), f"({type(value).__name__}, whose __repr__ failed)")
