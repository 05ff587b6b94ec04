"""The decision about one execution: it is made on the messages received, committed, and only then acted upon. `batch_runner` does this for many at once.

A failure on the way loses nothing: the state in memory is discarded, the log is read again, and the same messages are decided on again. If the commit
was durable after all, these messages are late, and late messages have no effect.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from perdure.core import log_format, messages
from perdure.core.attributes import IndexedAttributes, index_attributes, split_attributes
from perdure.core.compaction import CompactedLog, compact_log, is_worth_compaction
from perdure.core.decision import DecisionContext, DecisionGenerator, ExecutionDecision, decide
from perdure.core.envelopes import Ack
from perdure.core.error_text import safe_text
from perdure.core.errors import Diverged
from perdure.core.events import EndedEvent, Event, ParkedEvent, PatchedEvent, ReopenedEvent, ResumedEvent, StartedEvent, UndoingEvent
from perdure.core.execution import Execution
from perdure.core.failure_causes import failure_attributes
from perdure.core.paths import Key
from perdure.core.program import CATALOG_PROGRAM, execution_program, is_hosted, program_name, program_requirements
from perdure.core.replay import replay_program
from perdure.core.values import Blob
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.requirements import capabilities_text, pinned_tool_versions
from perdure.runtime.blob_loader import run_with_blobs
from perdure.runtime.engine_services import EngineServices
from perdure.runtime.in_flight import act_on_events, end_stale_attempts
from perdure.runtime.replies import is_reply
from perdure.runtime.resident_executions import PendingDecision, ResidentExecution, UndecidedMessage
from perdure.runtime.workflow_programs import Workflow, WorkflowProgram, explain_divergence, program_of
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Conflict, StoredLog, Superseded

workflow_logger = logging.getLogger("perdure.workflow")
logger = logging.getLogger("perdure.engine")

NOTIFIED_EVENTS = frozenset((EndedEvent, ParkedEvent, ResumedEvent, ReopenedEvent, UndoingEvent))
"""The events of which clients that wait for an execution are notified, besides replies to messages."""

DIRECT_NUMBERS_FROM = -(2**52)
"""From here on messages are numbered that did not come from the store: in the order of their arrival, and unlike any that the store gives."""


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


def decide_on_messages(engine: EngineServices, pending: PendingDecision) -> str | None:
    """Decides on the undecided messages; returns None when that is complete, or the SHA-256 of a blob that has to be loaded first.

    Raises:
        LostRace: the state is not one to decide on; it must be read again.
        Exception: whatever the program raised. State and program are ahead of the store and must be discarded.
    """
    resident = pending.resident
    while True:
        if pending.deciding is None:
            if pending.is_complete:
                return None
            pending.batch.append(item := resident.undecided.popleft())
            pending.deciding = _begin_decision(engine, resident, item)
        blob = _continue_decision(pending, pending.payload)
        while blob is not None:
            raw = pending.decision.blobs.get(blob)
            if raw is None:
                return blob
            blob = _continue_decision(pending, raw)


def _continue_decision(pending: PendingDecision, payload: bytes | None) -> str | None:
    """Continues the decision on one message; returns the blob that it needs, or None if it was made and added to the others."""
    assert pending.deciding is not None, "a decision has begun"
    try:
        wanted = pending.deciding.send(payload)  # type: ignore[arg-type]  # the first value that is sent to a generator is None
    except StopIteration as end:
        pending.deciding = pending.payload = None
        if len(pending.batch) > 1:
            pending.decision.add(end.value)
        else:
            pending.decision = end.value
        return None
    return wanted.blob.sha256


def commit_of(engine: EngineServices, resident: ResidentExecution, pending: PendingDecision, compacted: bytes | None = None) -> Commit:
    """Makes the commit of a decision. Claims that come after this are noticed by `may_be_held_again`.

    Raises:
        LacksCapabilities: the execution needs capabilities that this engine does not have.
        LostRace: the execution was evicted meanwhile.
    """
    execution, decision = resident.execution, pending.decision
    if execution is None:
        raise LostRace(ours=True)
    _expect_capabilities(resident)
    attributes = _head_attributes(resident, execution)
    sends, given_up = decision.without_unsent_work()
    if not decision.is_routine and engine.announcer is not None:
        sends += engine.announcer.messages(execution, decision.events, resident.version)
    acks = tuple(Ack(item.queued.to, item.queued.key) for item in pending.batch if item.queued is not None)
    resident.claims_before = resident.claim_count
    wake_at_s = resident.wake_at(engine.clock, asyncio.get_running_loop().time)
    resident.is_timeless = wake_at_s is None
    return Commit(
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
        wake_at_s=wake_at_s,
        ended_at_s=None if execution.ended is None else execution.ended.at_s,
        release=resident.is_releasable,
        news=not decision.is_routine and (not NOTIFIED_EVENTS.isdisjoint(map(type, decision.events)) or any(map(is_reply, decision.events))),
        messages=sends,
        acks=(*given_up, *acks, *resident.postponing),
        blobs=tuple(decision.blobs.items()),
        attributes=None if attributes == resident.attributes else attributes,
        unless=_answers_not_taken(given_up, acks) if given_up else (),
    )


def read_clock_of(engine: EngineServices, answers: Iterable[ChangeAnswer], asked_s: float) -> bool:
    """Takes the time of the store from its `answers` to one call, made at `asked_s` by the clock of the loop.

    Returns whether the engine has surely held its executions meanwhile. If the answers took longer than its lease, another engine may have continued them.
    """
    told_s = None
    for answer in answers:
        if isinstance(answer, Committed) and answer.now_s != told_s:
            engine.clock.take_answer(told_s := answer.now_s, asked_s)
    return engine.held_since(asked_s)


def record_answer(engine: EngineServices, resident: ResidentExecution, commit: Commit, answer: ChangeAnswer, is_surely_ours: bool) -> None:
    """Records the answer of the store. `is_surely_ours` is what `read_clock_of` has returned for it.

    Raises:
        LostRace, StoreEpochChanged: the decision is void, and nothing may be acted upon.
    """
    match answer:
        case Committed():
            resident.record_commit(commit, answer.version)
            if commit.attributes is not None:
                resident.attributes = commit.attributes
            resident.indexed = None if resident.execution is None else resident.execution.attributes
        case Conflict(now):
            resident.exists = now is not None
            raise LostRace(now is not None and now.holder == engine.holder, commit.unless)
        case Superseded(epoch):
            raise StoreEpochChanged(epoch)
    if not is_surely_ours:
        raise LostRace(ours=True)


def may_be_held_again(resident: ResidentExecution, commit: Commit) -> bool:
    """Whether a claim was answered while the commit released the execution. Only the store knows which came first."""
    return commit.release and resident.claim_count != resident.claims_before


def act_on_decision(engine: EngineServices, pending: PendingDecision) -> None:
    """Acts on a decision that is durable: removes its messages, writes the log lines, begins and ends attempts."""
    resident = pending.resident
    for item in pending.batch:
        if item.queued is not None:
            resident.received_numbers.discard(item.queued.number)
            engine.settled_messages.add((resident.key, item.queued.number))
    if pending.decision.lines:
        _write_log_lines(resident.key, pending.decision)
    if engine.observer is not None and resident.execution is not None:
        waited_s = asyncio.get_running_loop().time() - resident.claimed_at_s if resident.claimed_at_s else 0.0
        resident.claimed_at_s = 0.0
        engine.observer.decided(resident.execution, pending.decision.events, waited_s)
    if engine.replies:
        engine.replies.take(resident.key, pending.decision.events)
    act_on_events(engine, resident, pending.decision.events)


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
    """Returns the workflow that runs an execution: the host of definitions, if it is claimed by that name; of several definitions of its own name, the pinned
    one, with its own tools.
    """
    starts = [item.message for item in resident.undecided if isinstance(item.message, messages.StartMessage)]
    if is_hosted(resident.pinned) or any(one.hosting is not None for one in starts):
        return engine.workflows[CATALOG_PROGRAM]
    changes = (event.definition for event in reversed(events) if isinstance(event, StartedEvent) or (isinstance(event, PatchedEvent) and not event.refused))
    given = next(chain(changes, (one.definition for one in starts)), None)
    sha256 = "" if given is None else given.sha256 if isinstance(given, Blob) else hashlib.sha256(given).hexdigest()
    return engine.releases.get((resident.key.workflow, sha256)) or engine.workflows[resident.key.workflow]


async def take_unread_answers(engine: EngineServices, resident: ResidentExecution, keys: tuple[str, ...]) -> None:
    """Puts the answers of transactions before the messages whose decision would have dropped their calls."""
    for queued in await engine.store.messages(resident.key):
        if queued.key in keys:
            resident.put_first(UndecidedMessage(messages.decode_execution_message(queued.body), queued))


def _begin_restore(engine: EngineServices, resident: ResidentExecution, found: StoredLog | None) -> tuple[list[Event], Execution, WorkflowProgram]:
    """Takes over what the store has of an execution; returns its events, and the state and the program into which they are still to be fed."""
    resident.exists = found is not None
    resident.version = 0 if found is None else found.head.version
    resident.pinned, resident.attributes = ("", ()) if found is None else (found.head.program, found.head.attributes)
    resident.created_at_s = 0.0 if found is None else found.head.created_at_s
    resident.indexed, resident.is_timeless = None, False
    resident.log_bytes = 0 if found is None else sum(map(len, found.payloads))
    events = [] if found is None else log_format.decode_rows(found.payloads)
    execution = Execution(resident.key, None if found is None else found.head.root)
    resident.needs = program_requirements(resident.pinned)
    resident.workflow = _workflow_of(engine, resident, events)
    instance = program_of(resident.workflow, resident.key, engine.variables)
    if resident.defect:
        instance.refuse(Diverged((), (resident.defect,)))
    return events, execution, instance


def begin_unlogged(engine: EngineServices, resident: ResidentExecution) -> None:
    """Gives an execution that is not in the store a state and a program, as `restore_execution` does, without anything to wait for."""
    resident.claims_before = resident.claim_count
    _, resident.execution, resident.program = _begin_restore(engine, resident, None)
    end_stale_attempts(resident, resident.execution)


async def restore_execution(engine: EngineServices, resident: ResidentExecution) -> None:
    """Reads the log, folds it and replays the program; adds a message for each interrupted call."""
    resident.claims_before = resident.claim_count
    found = await engine.store.read(resident.key) if resident.exists else None
    if found is not None and found.head.holder != engine.holder:
        raise LostRace(ours=False)
    events, execution, instance = _begin_restore(engine, resident, found)
    try:
        awake = any(isinstance(item.message, messages.UndoMessage) for item in resident.undecided)
        diverged = await run_with_blobs(engine.payloads, replay_program(execution, events, instance, awake))
    except BaseException:
        instance.close()
        raise
    resident.execution, resident.program = execution, instance
    if isinstance(diverged, Diverged) and execution.ended is None:
        assert resident.workflow is not None, "its program was made from it"
        explaining = explain_divergence(resident.workflow, resident.key, events, diverged)
        diff = diverged.diff if resident.defect else await run_with_blobs(engine.payloads, explaining)
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
            begun = not engine.unbegun.includes(resident.key, (pending.by, pending.path, pending.attempt))
            resident.undecided.appendleft(UndecidedMessage(messages.LostMessage(pending.path, pending.attempt, times=int(begun), begun=begun)))


def _begin_decision(engine: EngineServices, resident: ResidentExecution, item: UndecidedMessage) -> DecisionGenerator:
    execution, program = resident.execution, resident.program
    if execution is None or program is None:
        raise LostRace(ours=True)  # it was evicted during the decision: read it again
    message = item.message
    if execution.ended is not None and isinstance(message, messages.UndoMessage) and execution.removed is None and not program.awake:
        raise LostRace(ours=True)  # it had ended when it was read, so its program was not replayed; undoing needs the program
    number = DIRECT_NUMBERS_FROM + execution.version if item.queued is None else item.queued.number
    now = engine.clock.now().not_before(resident.created_at_s)
    if isinstance(message, messages.StartMessage):
        message = _with_release(resident.workflow, message)
    return decide(execution, message, program, now, _decision_context(engine, resident, message), number)


def _with_release(workflow: Workflow | None, start: messages.StartMessage) -> messages.StartMessage:
    """Returns the start of a definition that was started by its name alone with the release that this engine has, which the execution then pins."""
    if start.definition is not None or not isinstance(workflow, GraphWorkflow) or workflow.release is None:
        return start
    deadline_s = workflow.deadline_s if start.deadline_s is None else start.deadline_s
    grace_s = workflow.grace_s if start.grace_s is None else start.grace_s
    return msgspec.structs.replace(start, definition=workflow.release.raw, deadline_s=deadline_s, grace_s=grace_s)


def _decision_context(engine: EngineServices, resident: ResidentExecution, message: messages.ExecutionMessage) -> DecisionContext:
    is_timed = bool(resident.step_controls) and isinstance(message, messages.TickMessage)
    if not resident.threads and not is_timed:
        return engine.decision_context
    young = frozenset(resident.young(asyncio.get_running_loop().time())) if is_timed else frozenset()
    return msgspec.structs.replace(engine.decision_context, busy=frozenset(resident.threads), young=young)


def _answers_not_taken(given_up: Sequence[Ack], acks: Sequence[Ack]) -> tuple[str, ...]:
    """Returns the keys of answers to dropped calls that may have arrived and are not acknowledged by this commit."""
    acknowledged = {ack.key for ack in acks}
    return tuple(ack.answer for ack in given_up if ack.answer and ack.answer not in acknowledged)


def _head_program(resident: ResidentExecution, execution: Execution) -> str:
    """Returns the program for the head. Until the execution has begun, it is the one that the head already has."""
    if execution.started is None:
        return resident.pinned or program_name(resident.key.workflow, 0)
    return execution_program(execution, resident.needs)


def _head_attributes(resident: ResidentExecution, execution: Execution) -> IndexedAttributes:
    """Returns the attributes for the head, and why it is dead, if it is. Until the execution has begun, they are those of its start."""
    is_known = execution.started is None or execution.attributes is resident.indexed
    if is_known and not resident.attributes and execution.ended is None and execution.parked is None:
        return ()
    given = split_attributes(resident.attributes)[1] if is_known else index_attributes(execution.attributes)
    return (*failure_attributes(execution), *given)


async def is_still_held(engine: EngineServices, resident: ResidentExecution) -> bool:
    """Whether a claim that was answered during a release came after it, so that the execution is held: only the store knows.

    If a further claim is answered during the read, the answer may be older than that claim, so the store is asked again.
    """
    claim_count = None
    while claim_count != resident.claim_count:
        claim_count = resident.claim_count
        found = await engine.store.read(resident.key, after=resident.version)
        resident.held = found is not None and found.head.holder == engine.holder
    return resident.held


def wants_compaction(resident: ResidentExecution) -> bool:
    """Whether more than half of the log is forgotten, so that it is worth replacing."""
    execution = resident.execution
    return execution is not None and is_worth_compaction(execution) and execution.logged_events >= resident.compact_from


async def compact_execution(engine: EngineServices, resident: ResidentExecution) -> None:
    """Replaces the log by its compacted form, in a commit of its own.

    Raises:
        StoreError, LostRace, StoreEpochChanged: nothing was replaced.
    """
    execution = resident.execution
    found = await engine.store.read(resident.key)
    if execution is None or execution is not resident.execution or found is None or found.head.version != resident.version:
        return
    result = compact_log(resident.key, found.payloads, resident.program is not None and resident.program.keeps_archives)
    if result is None or not await _replays_over(engine, resident, Execution(resident.key, execution.root), result):
        resident.compact_from = 2 * execution.logged_events  # without this, each commit would read the whole log for nothing
        logger.debug("could not compact the log of %s yet: what its branches wait for, or have begun, is not shown by the log alone", resident.key)
        return
    pending = PendingDecision(resident)
    pending.decision = ExecutionDecision(blobs=result.blobs)
    commit = commit_of(engine, resident, pending, log_format.encode_row(result.events))
    asked_s = asyncio.get_running_loop().time()
    (answer,) = await engine.store.commit([commit])
    record_answer(engine, resident, commit, answer, read_clock_of(engine, (answer,), asked_s))
    if may_be_held_again(resident, commit) and not await is_still_held(engine, resident):
        resident.drop_undecided()
    execution.apply(result.snapshot)


async def _replays_over(engine: EngineServices, resident: ResidentExecution, fresh: Execution, result: CompactedLog) -> bool:
    """Whether the program issues the same commands over a compacted log. It does not show which commands behind one event a dropped iteration caused."""
    assert resident.workflow is not None, "its program was made from it"
    instance = program_of(resident.workflow, resident.key, engine.variables)
    try:
        return await run_with_blobs(engine.payloads, replay_program(fresh, result.events, instance, awake=True), result.blobs) is None
    finally:
        instance.close()


def _write_log_lines(key: Key, decision: ExecutionDecision) -> None:
    for line in decision.lines:
        fields = "".join(f" {name}={_safe_repr(value)}" for name, value in line.fields)
        about = {"execution": key, "fields": dict(line.fields)}
        workflow_logger.log(line.level, "%s%s", safe_text(lambda: str(line.text), "(no text)"), fields, extra=about)  # noqa: B023  # it is called at once


def _safe_repr(value: object) -> str:
    return safe_text(lambda: repr(value), f"({type(value).__name__}, whose __repr__ failed)")
