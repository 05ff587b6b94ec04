"""Repeating: the same execution from an earlier step on, or another one made of it. What was reached is never changed, only taken over.

*retry* goes on in the same execution; *rerun* begins a new one with the same input; *fork* begins a new one with the results that are
earlier than a chosen step; *preset* gives a result in place of the work.
"""

import secrets
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import log, memo, messages, removal, values
from perdure.core.attributes import indexed
from perdure.core.copies import Fork
from perdure.core.errors import AlreadyThere, BadValue, HasEnded, NotFound, Removed
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.mail import Opening, Send
from perdure.core.ops import Err, Ok, Outcome, Receive
from perdure.core.paths import Key, Path, parse, text
from perdure.core.program import program_name
from perdure.core.turns import is_forgotten
from perdure.core.values import Value
from perdure.core.walk import references
from perdure.service.access import Access
from perdure.stores.base import Committed, Conflict, Post

SEED_BITS = 62


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """A new execution that is to be made of another: under which key, with another encoded input, in another version (0: the engine's), from which step on.

    Without a `seed`, a rerun draws its own."""

    key: Key
    input: bytes | None = None
    version: int | None = None
    from_step: str | None = None
    seed: int | None = None


async def read(access: Access, key: Key) -> Execution:
    """An execution as its log has it.

    Raises:
        NotFound: there is none.
        Removed: what it has done is not kept any more.
    """
    found = await access.store.read(key)
    if found is None:
        raise NotFound(key)
    execution = fold(key, log.decode_all(found.rows), found.head.root)
    if execution.removed is not None:
        raise Removed(key, removal.said(execution.removed))
    return execution


def place(execution: Execution, step: str | None) -> Path:
    """The path of a step that has begun, by its text; the empty path for none.

    Raises:
        BadValue: the execution has not come to such a step.
    """
    if step is None:
        return ()
    try:
        path = parse(step)
    except ValueError:
        path = ()
    if path in execution.settled and path:
        return path
    if path and is_forgotten(path, execution.trimmed):
        raise BadValue(
            "step", step, f"a step of a turn that {execution.key} has not forgotten: {_forgotten(execution)} are gone; begin behind them, or rerun it"
        )
    known = [text(one) for one in execution.settled]
    shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    raise BadValue("step", step, f"a step of {execution.key} that has settled: {shown or 'none has'}")


def _forgotten(execution: Execution) -> str:
    return ", ".join(f"turns 1–{turns:,} of {text(loop)}" for loop, turns in execution.trimmed.items() if turns)


async def fork(access: Access, origin: Key, wanted: Repeat) -> None:
    """Begin a new execution with what another had reached: all that succeeded or, with `from_step`, what was opened earlier than that.

    What is open in the other, and messages that it has not read, stay with it.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        BadValue: it has not come to the step.
        AlreadyThere: the new key is taken.
    """
    execution = await read(access, origin)
    started = _begun(execution)
    before = place(execution, wanted.from_step)
    copies = memo.copies(execution.memo.known, execution.settled, before)
    trimmed = tuple((path, turn) for path, turn in execution.trimmed.items())
    await _begin(access, execution, wanted, started, Fork(origin, execution.version, copies, trimmed))


async def rerun(access: Access, origin: Key, wanted: Repeat) -> None:
    """Begin a new execution with the input of another, and nothing else of it.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        AlreadyThere: the new key is taken.
    """
    execution = await read(access, origin)
    await _begin(access, execution, wanted, _begun(execution), None)


def _begun(execution: Execution) -> e.Started:
    if execution.started is None:
        raise NotFound(f"{execution.key}, as far as what it began with: it has not begun")
    return execution.started


async def _begin(access: Access, execution: Execution, wanted: Repeat, started: e.Started, copied: Fork | None) -> None:
    blobs: dict[str, bytes] = {}
    given: Value = started.input if wanted.input is None else values.offload(wanted.input, blobs)
    version = started.version if wanted.version is None else wanted.version
    deadline_s = None if started.deadline_at_s is None else started.deadline_at_s - started.at_s
    fresh = secrets.randbits(SEED_BITS) if wanted.seed is None else wanted.seed
    seed = started.seed if copied is not None else fresh  # what follows from chance stays as it is in a fork
    known = execution.attributes if copied is not None and copied.trimmed else started.attributes  # turns that are gone do not change them again
    definition = started.definition if copied is None else execution.definition
    begin = messages.Start(version, given, seed, None, deadline_s, fork=copied, attributes=known, definition=definition, grace_s=started.grace_s)
    opens = Opening(program_name(wanted.key.workflow, version), wanted.key, attributes=indexed(known))
    send = Send(wanted.key, "start", messages.encode(begin), 0.0, opens, refers=references(begin))
    (answer,) = await access.store.commit([Post(sends=(send,), blobs=tuple(blobs.items()))])
    if isinstance(answer, Conflict):  # since it was read, it was removed, and what it referred to with it
        raise NotFound(execution.key)
    if not isinstance(answer, Committed) or wanted.key not in answer.created:
        raise AlreadyThere(wanted.key)


async def preset(access: Access, key: Key, step: str, outcome: Outcome) -> None:
    """Give the outcome of a step: of one that is open, now; of one that is yet to come, or that failed with its execution, when it is asked for.

    Raises:
        NotFound, HasEnded: there is nothing to give it to.
        BadValue: the step has its result already, or is no step.
    """
    execution = await read(access, key)
    if execution.ended is not None and execution.ended.status != "failed":
        raise HasEnded(key, execution.ended.status, f"a result for {step}")
    try:
        path = parse(step)
    except ValueError:
        path = ()
    settled, promise = execution.settled.get(path), execution.open.get(path)
    failed = settled is not None and isinstance(settled.outcome, Err) and execution.ended is not None
    if not path or (settled is not None and not failed) or (promise is not None and isinstance(promise.op, Receive)):
        why = "is settled" if settled is not None else "waits for a message: send it" if path else "is no path"
        raise BadValue("step", step, f"one whose result can be given: it {why}")
    blobs: dict[str, bytes] = {}
    light = Ok(values.offload(outcome.value, blobs), outcome.port) if isinstance(outcome, Ok) else outcome
    body = messages.encode(messages.Preset(path, light))
    _ = await access.store.commit([Post(sends=(Send(key, f"preset:{step}:{secrets.token_hex(8)}", body),), blobs=tuple(blobs.items()))])


def encoded(value: Any, step: str) -> Ok:
    """The outcome of a step that somebody gives."""
    return Ok(values.encode(value, f"the result of {step}"))
