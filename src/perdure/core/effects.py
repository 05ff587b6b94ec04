"""Effects: what must be sent because of what was decided. A pure function of the log.

They travel in the commit of the event that causes them (what leaves its reach, by way of the store's outbox), and whoever gets
one twice ignores the second.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any

from perdure.core import events as e
from perdure.core import mail, messages
from perdure.core.attributes import indexed
from perdure.core.execution import Execution
from perdure.core.mail import Ack, Opening
from perdure.core.ops import Call, Outcome, Send, Spawn
from perdure.core.paths import UNDO, Key, Path, Queue, idempotency_key, text
from perdure.core.program import program_name
from perdure.core.promise import Promise
from perdure.core.values import NOTHING, Value
from perdure.core.walk import references

Effect = mail.Send | Ack


def effects(execution: Execution, event: e.Event) -> Iterable[Effect]:
    """What `event`, about to be folded into `execution`, makes necessary: sends, and work to be taken back from its queue."""
    rule = _RULES.get(type(event))
    return () if rule is None else rule(execution, event)


def outstanding(execution: Execution, answered: AbstractSet[Path] = frozenset()) -> Iterator[mail.Send]:
    """What must be on its way because of what is open: when it is lost, sending it again loses nothing, and repeats nothing.

    A call that some holder performs itself has nothing on its way, nor has what was `answered`.
    """
    for path, promise in execution.open.items():
        match promise.op:
            case _ if path in answered:
                continue
            case Call() as op if promise.by is None and promise.state == "waiting" and promise.grace_until_s is None:
                yield _work(execution, path, op, promise.attempt, promise.progress)
            case Spawn() as op if path[0] == UNDO:
                yield _undo(execution.key, path, op)
            case Spawn() as op:
                yield _start(execution, path, op)


def _opened(execution: Execution, event: e.Opened) -> Iterable[Effect]:
    path, op = event.path, event.op
    match op:
        case Call() if event.by is None and not execution.memo.recalls(path, op):
            return (_work(execution, path, op, 1, NOTHING),)
        case Spawn() if path[0] == UNDO:
            return (_undo(execution.key, path, op),)
        case Spawn() if (event.number or op.awaited) and not execution.memo.recalls(path, op):
            return (_start(execution, path, op),)
        case Send() if event.number:
            return (_signal(execution.key, op, event.number),)
    return ()


def _tried(execution: Execution, event: e.Tried) -> Iterable[Effect]:
    promise = execution.open[event.path]
    op = promise.op
    return (_work(execution, event.path, op, event.attempt, promise.progress),) if event.by is None and isinstance(op, Call) else ()


def _dropped(execution: Execution, event: e.Dropped) -> Iterable[Effect]:
    promise = execution.open.get(event.path)
    return () if promise is None else _take_back(execution.key, promise, event.until_s is not None)


def _over(execution: Execution, event: e.Settled | e.Retrying | e.Interrupted) -> Iterable[Effect]:
    """A try that is over without an answer is not to be done any more; one that was answered is gone already."""
    promise = execution.open.get(event.path)
    return () if promise is None or promise.by is not None or not isinstance(promise.op, Call) else _take_back(execution.key, promise)


def _watched(execution: Execution, event: e.Watched) -> Iterable[Effect]:
    return () if execution.ended is None else (_answer(execution.key, event.parent, execution.ended.outcome),)


def _ended(execution: Execution, event: e.Ended) -> Iterable[Effect]:
    if execution.ended is not None:  # its failure was discarded, and whoever waited was told of that
        return
    yield from (_answer(execution.key, parent, event.outcome) for parent in execution.watchers)
    for promise in execution.open.values():
        yield from _take_back(execution.key, promise)


_RULES: dict[type, Callable[[Execution, Any], Iterable[Effect]]] = {
    e.Opened: _opened,
    e.Tried: _tried,
    e.Dropped: _dropped,
    e.Settled: _over,
    e.Retrying: _over,
    e.Interrupted: _over,
    e.Watched: _watched,
    e.Ended: _ended,
}


def _work_key(key: Key, path: Path, attempt: int) -> str:
    return f"{idempotency_key(key, path)}:{attempt}"


def _work(execution: Execution, path: Path, op: Call, attempt: int, progress: Value) -> mail.Send:
    key = execution.key
    about = (op.target, idempotency_key(key, path), op.args, op.timeout_s, op.idempotent)
    work = messages.Work(key, path, attempt, *about, progress, op.heartbeat_s, op.secrets, execution.grace_of(op))
    return mail.Send(Queue(key.tenant, op.queue), _work_key(key, path, attempt), messages.encode(work), lane=op.lane, priority=op.priority)


def _child(key: Key, op: Spawn) -> Key:
    return Key(key.tenant, op.workflow, op.id)


def _undo(key: Key, path: Path, op: Spawn) -> mail.Send:
    undo = messages.Undo(f"its parent {key} is undone", messages.Parent(key, path))
    return mail.Send(_child(key, op), f"undo:{idempotency_key(key, path)}", messages.encode(undo))


def _start(execution: Execution, path: Path, op: Spawn) -> mail.Send:
    key = execution.key
    parent = messages.Parent(key, path, execution.reopened) if op.awaited else None
    opens = Opening(program_name(op.workflow, op.version), execution.root, op.queue, op.lane, op.priority, indexed(op.attributes))
    start = messages.Start(
        op.version, op.input, _seed(key, path), parent, op.deadline_s, key, execution.depth + 1, None, None, op.attributes, op.definition, op.grace_s
    )
    refers = references(op.input, op.definition)
    return mail.Send(_child(key, op), f"start:{idempotency_key(key, path)}", messages.encode(start), opens=opens, refers=refers)


def _seed(key: Key, path: Path) -> int:
    """A seed that follows from who starts the child, so that deciding stays pure."""
    return int.from_bytes(sha256(idempotency_key(key, path).encode()).digest()[:8], "big") >> 1


def _signal(key: Key, op: Send, number: int) -> mail.Send:
    signal = messages.Signal(op.name, op.body, "", key, number)
    return mail.Send(op.to, f"signal:{key}:{number}", messages.encode(signal), refers=references(op.body))


def _answer(child: Key, parent: messages.Parent, outcome: Outcome) -> mail.Send:
    settle = messages.Settle(parent.path, 1, outcome)
    return mail.Send(parent.key, f"settle:{text(parent.path)}", messages.encode(settle), refers=references(outcome))


def _take_back(key: Key, promise: Promise, in_grace: bool = False) -> Iterator[Effect]:
    match promise.op:
        case Call() as op if promise.state == "waiting" and promise.grace_until_s is None:
            answer = messages.answer_key(promise.path, promise.attempt) if op.transaction else ""
            unleased = _not_begun(key, promise) if in_grace else None
            yield Ack(Queue(key.tenant, op.queue), _work_key(key, promise.path, promise.attempt), answer, unleased=unleased)
        case Spawn() as op if op.awaited and promise.path[0] != UNDO:
            leave = messages.Leave(messages.Parent(key, promise.path), op.on_cancel)
            yield mail.Send(_child(key, op), f"leave:{idempotency_key(key, promise.path)}", messages.encode(leave))


def _not_begun(key: Key, promise: Promise) -> mail.Send:
    """What the execution is sent when work is taken back that nobody had leased."""
    lost = messages.Lost(promise.path, promise.attempt, 0, begun=False)
    return mail.Send(key, f"lost:{text(promise.path)}:{promise.attempt}", messages.encode(lost))
