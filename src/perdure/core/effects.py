"""Effects: what must be sent because of what was decided. A pure function of the log.

Because the outbox follows from the log, it can be rebuilt from the log: after losing every queue, resending the effects of
each open promise loses nothing, since whoever gets one twice ignores the second.
"""

from collections.abc import Iterator
from hashlib import sha256

from perdure.core import events as e
from perdure.core import mail, messages
from perdure.core.execution import Execution
from perdure.core.mail import Ack, Opening
from perdure.core.ops import Call, Outcome, Send, Spawn
from perdure.core.paths import Key, Path, Queue, idempotency_key, text
from perdure.core.program import program_name
from perdure.core.promise import Promise


def effects(execution: Execution, event: e.Event) -> Iterator[mail.Send | Ack]:
    """What `event`, about to be folded into `execution`, makes necessary: sends, and work to be taken back from its queue."""
    key = execution.key
    match event:
        case e.Opened(path, Call() | Spawn() as recalled) if execution.recalls(path, recalled):
            return
        case e.Opened(path, Call() as call, None):
            yield _work(key, path, call, 1)
        case e.Opened(path, Spawn() as spawn, _, number) if number or spawn.awaited:
            yield _start(execution, path, spawn)
        case e.Opened(_, Send() as send, _, number) if number:
            yield _signal(key, send, number)
        case e.Tried(path, attempt, _, None):
            retried = execution.open[path].op
            if isinstance(retried, Call):
                yield _work(key, path, retried, attempt)
        case e.Dropped(path) if path in execution.open:
            yield from _take_back(key, execution.open[path])
        case e.Watched(parent) if execution.ended is not None:
            yield _answer(key, parent, execution.ended.outcome)
        case e.Ended(_, outcome):
            yield from (_answer(key, parent, outcome) for parent in execution.watchers)
            for promise in execution.open.values():
                yield from _take_back(key, promise)


def resend(execution: Execution) -> Iterator[mail.Send]:
    """Everything that the open operations of an execution, or its end, wait for somebody to do; to be sent again after mail was lost."""
    for path, promise in execution.open.items():
        match promise.op:
            case Call() as op if promise.state == "waiting":
                yield _work(execution.key, path, op, promise.attempt)
            case Spawn() as op:
                yield _start(execution, path, op)
    if execution.ended is not None:
        yield from (_answer(execution.key, parent, execution.ended.outcome) for parent in execution.watchers)


def _work_key(key: Key, path: Path, attempt: int) -> str:
    return f"{idempotency_key(key, path)}:{attempt}"


def _work(key: Key, path: Path, op: Call, attempt: int) -> mail.Send:
    work = messages.Work(key, path, attempt, op.target, idempotency_key(key, path), op.args, op.timeout_s, op.idempotent)
    return mail.Send(Queue(key.tenant, op.queue), _work_key(key, path, attempt), messages.encode(work))


def _child(key: Key, op: Spawn) -> Key:
    return Key(key.tenant, op.workflow, op.id)


def _start(execution: Execution, path: Path, op: Spawn) -> mail.Send:
    key = execution.key
    parent = messages.Parent(key, path) if op.awaited else None
    opens = Opening(program_name(op.workflow, op.version), execution.root)
    start = messages.Start(op.version, op.input, _seed(key, path), parent, op.deadline_s)
    return mail.Send(_child(key, op), f"start:{idempotency_key(key, path)}", messages.encode(start), opens=opens)


def _seed(key: Key, path: Path) -> int:
    """A seed that follows from who starts the child, so that deciding stays pure."""
    return int.from_bytes(sha256(idempotency_key(key, path).encode()).digest()[:8], "big") >> 1


def _signal(key: Key, op: Send, number: int) -> mail.Send:
    signal = messages.Signal(op.name, op.body, "", key, number)
    return mail.Send(op.to, f"signal:{key}:{number}", messages.encode(signal))


def _answer(child: Key, parent: messages.Parent, outcome: Outcome) -> mail.Send:
    return mail.Send(parent.key, f"settle:{text(parent.path)}", messages.encode(messages.Settle(parent.path, 1, outcome)))


def _take_back(key: Key, promise: Promise) -> Iterator[mail.Send | Ack]:
    match promise.op:
        case Call() as op if promise.state == "waiting":
            yield Ack(Queue(key.tenant, op.queue), _work_key(key, promise.path, promise.attempt))
        case Spawn() as op if op.awaited:
            cancel = messages.Cancel(f"its parent {key} no longer waits for it")
            yield mail.Send(_child(key, op), f"cancel:{idempotency_key(key, promise.path)}", messages.encode(cancel))
