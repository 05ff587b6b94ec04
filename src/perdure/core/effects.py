"""Derives the messages to send from the log, as a pure function.

They are part of the commit of the event that causes them, and a receiver ignores a second copy. So after queues are lost, sending
`outstanding_messages` of each open execution again loses nothing and repeats nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any

from perdure.core import envelopes, messages
from perdure.core import events as e
from perdure.core.attributes import index_attributes
from perdure.core.envelopes import Ack, NewExecution
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Outcome, SendOperation, SpawnOperation
from perdure.core.paths import UNDO, Key, Path, QueueAddress, idempotency_key, path_text
from perdure.core.pinned_calls import Hosting
from perdure.core.program import program_name
from perdure.core.traversal import blob_references
from perdure.core.values import ENCODED_NONE, Value

Effect = envelopes.OutgoingMessage | Ack


def effects_of(execution: Execution, event: e.Event) -> Iterable[Effect]:
    """Returns what `event`, which is not folded into `execution` yet, makes necessary: messages to send, and work to take back from its queue."""
    rule = _EFFECT_RULES.get(type(event))
    return () if rule is None else rule(execution, event)


def outstanding_messages(execution: Execution, answered: AbstractSet[Path] = frozenset()) -> Iterator[envelopes.OutgoingMessage]:
    """Returns the messages that must exist because of the open operations.

    A call that a holder performs itself needs none, and neither does an operation whose answer is in the mailbox already (`answered`).
    """
    for path, pending in execution.open.items():
        match pending.op:
            case _ if path in answered:
                continue
            case CallOperation() as op if pending.by is None and pending.state == "waiting" and pending.grace_until_s is None:
                yield _work_message(execution, path, op, pending.attempt, pending.progress)
            case SpawnOperation() as op if path[0] == UNDO:
                yield _undo_message(execution.key, path, op)
            case SpawnOperation() as op:
                yield _start_message(execution, path, op)


def _effects_of_opened(execution: Execution, event: e.OpenedEvent) -> Iterable[Effect]:
    path, op = event.path, event.op
    match op:
        case CallOperation() if event.by is None and not execution.recalled_results.recalls(path, op):
            return (_work_message(execution, path, op, 1, ENCODED_NONE),)
        case SpawnOperation() if path[0] == UNDO:
            return (_undo_message(execution.key, path, op),)
        case SpawnOperation() if (event.number or op.awaited) and not execution.recalled_results.recalls(path, op):
            return (_start_message(execution, path, op),)
        case SendOperation() if event.number:
            return (_signal_message(execution.key, op, event.number),)
    return ()


def _effects_of_attempt(execution: Execution, event: e.AttemptStartedEvent) -> Iterable[Effect]:
    pending = execution.open[event.path]
    op = pending.op
    return (_work_message(execution, event.path, op, event.attempt, pending.progress),) if event.by is None and isinstance(op, CallOperation) else ()


def _effects_of_dropped(execution: Execution, event: e.DroppedEvent) -> Iterable[Effect]:
    pending = execution.open.get(event.path)
    return () if pending is None else _take_back(execution.key, pending, event.until_s is not None)


def _effects_of_attempt_end(execution: Execution, event: e.SettledEvent | e.RetryingEvent | e.InterruptedEvent) -> Iterable[Effect]:
    """Takes back an attempt that ended without an answer; the work of one that was answered is gone already."""
    pending = execution.open.get(event.path)
    return () if pending is None or pending.by is not None or not isinstance(pending.op, CallOperation) else _take_back(execution.key, pending)


def _effects_of_watched(execution: Execution, event: e.WatchedEvent) -> Iterable[Effect]:
    return () if execution.ended is None else (_settle_message(execution.key, event.parent, execution.ended.outcome),)


def _effects_of_ended(execution: Execution, event: e.EndedEvent) -> Iterable[Effect]:
    if execution.ended is not None:  # its failure was discarded, and the parents have that failure already
        return
    yield from (_settle_message(execution.key, parent, event.outcome) for parent in execution.watchers)
    for pending in execution.open.values():
        yield from _take_back(execution.key, pending)


_EFFECT_RULES: dict[type, Callable[[Execution, Any], Iterable[Effect]]] = {
    e.OpenedEvent: _effects_of_opened,
    e.AttemptStartedEvent: _effects_of_attempt,
    e.DroppedEvent: _effects_of_dropped,
    e.SettledEvent: _effects_of_attempt_end,
    e.RetryingEvent: _effects_of_attempt_end,
    e.InterruptedEvent: _effects_of_attempt_end,
    e.WatchedEvent: _effects_of_watched,
    e.EndedEvent: _effects_of_ended,
}


def _work_key(key: Key, path: Path, attempt: int) -> str:
    return f"{idempotency_key(key, path)}:{attempt}"


def _work_message(execution: Execution, path: Path, op: CallOperation, attempt: int, progress: Value) -> envelopes.OutgoingMessage:
    key = execution.key
    about = (op.target, idempotency_key(key, path), op.args, op.timeout_s, op.idempotent)
    further = (op.heartbeat_s, op.secrets, execution.grace_of(op), execution.carried, op.retry.errors)
    work = messages.TaskMessage(key, path, attempt, *about, progress, *further)
    return envelopes.OutgoingMessage(
        QueueAddress(key.tenant, op.queue), _work_key(key, path, attempt), messages.encode_message(work), lane=op.lane, priority=op.priority
    )


def _child_key(key: Key, op: SpawnOperation) -> Key:
    return Key(key.tenant, op.workflow, op.id)


def _undo_message(key: Key, path: Path, op: SpawnOperation) -> envelopes.OutgoingMessage:
    undo = messages.UndoMessage(f"its parent {key} is undone", messages.Parent(key, path))
    return envelopes.OutgoingMessage(_child_key(key, op), f"undo:{idempotency_key(key, path)}", messages.encode_message(undo))


def _start_message(execution: Execution, path: Path, op: SpawnOperation) -> envelopes.OutgoingMessage:
    key = execution.key
    parent = messages.Parent(key, path, execution.reopened) if op.awaited else None
    opens = NewExecution(program_name(op.program or op.workflow, op.version), execution.root, op.queue, op.lane, op.priority, index_attributes(op.attributes))
    family = (parent, op.deadline_s, key, execution.depth + 1)
    own = (op.attributes, op.definition, op.grace_s, execution.carried)
    hosting = Hosting(op.program, execution.calls) if op.program else None
    start = messages.StartMessage(op.version, op.input, _child_seed(key, path), *family, None, None, *own, hosting)
    refers = blob_references(op.input, op.definition, hosting)
    return envelopes.OutgoingMessage(_child_key(key, op), f"start:{idempotency_key(key, path)}", messages.encode_message(start), opens=opens, refers=refers)


def _child_seed(key: Key, path: Path) -> int:
    """Derives the seed of a child from its parent and path, so that deciding stays pure."""
    return int.from_bytes(sha256(idempotency_key(key, path).encode()).digest()[:8], "big") >> 1


def _signal_message(key: Key, op: SendOperation, number: int) -> envelopes.OutgoingMessage:
    signal = messages.SignalMessage(op.name, op.body, "", key, number)
    return envelopes.OutgoingMessage(op.to, f"signal:{key}:{number}", messages.encode_message(signal), refers=blob_references(op.body))


def _settle_message(child: Key, parent: messages.Parent, outcome: Outcome) -> envelopes.OutgoingMessage:
    settle = messages.SettleMessage(parent.path, 1, outcome)
    return envelopes.OutgoingMessage(parent.key, f"settle:{path_text(parent.path)}", messages.encode_message(settle), refers=blob_references(outcome))


def _take_back(key: Key, pending: PendingOperation, in_grace: bool = False) -> Iterator[Effect]:
    match pending.op:
        case CallOperation() as op if pending.state == "waiting" and pending.grace_until_s is None:
            answer = messages.attempt_answer_key(pending.path, pending.attempt) if op.transaction else ""
            unleased = _lost_message(key, pending) if in_grace else None
            yield Ack(QueueAddress(key.tenant, op.queue), _work_key(key, pending.path, pending.attempt), answer, unleased=unleased)
        case SpawnOperation() as op if op.awaited and pending.path[0] != UNDO:
            unwatch = messages.UnwatchMessage(messages.Parent(key, pending.path), op.on_cancel)
            yield envelopes.OutgoingMessage(_child_key(key, op), f"unwatch:{idempotency_key(key, pending.path)}", messages.encode_message(unwatch))


def _lost_message(key: Key, pending: PendingOperation) -> envelopes.OutgoingMessage:
    """Returns the message that tells the execution that work was taken back before a worker leased it."""
    lost = messages.LostMessage(pending.path, pending.attempt, 0, begun=False)
    return envelopes.OutgoingMessage(key, f"lost:{path_text(pending.path)}:{pending.attempt}", messages.encode_message(lost))
