"""Repeats executions: from an earlier step, or as new executions. Recorded outcomes are copied and never changed.

*retry* continues the same execution; *rerun* starts a new one with the same input; *fork* starts a new one with the outcomes from before a chosen step;
*preset* supplies the outcome of a step in place of performing it.
"""

import secrets
from typing import Any

import msgspec

from perdure.core import events, log_format, messages, recalled, values
from perdure.core import events as e
from perdure.core.attributes import index_attributes
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import AlreadyExists, BadValue, HasEnded, NotFound, Removed
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.operations import Failure, Outcome, ReceiveOperation, Success
from perdure.core.paths import Key, Path, parse_path, path_text
from perdure.core.pinned_calls import Hosting
from perdure.core.program import program_name
from perdure.core.recalled import ForkData
from perdure.core.replay import fold_events
from perdure.core.traversal import blob_references
from perdure.core.values import Value
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Committed, Conflict, Post

SEED_BITS = 62


class RerunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new execution made from another: its key, another encoded input, another version to pin (0: the engine's), and the step to begin from.

    Without a `seed`, a rerun draws its own.
    """

    key: Key
    input: bytes | None = None
    version: int | None = None
    from_step: str | None = None
    seed: int | None = None


async def read_execution(access: StoreAccess, key: Key) -> Execution:
    """Reads an execution and folds its log.

    Raises:
        NotFound: there is no such execution.
        Removed: only its tombstone is left.
    """
    found = await access.store.read(key)
    if found is None:
        raise NotFound(key)
    execution = fold_events(key, log_format.decode_rows(found.payloads), found.head.root)
    if execution.removed is not None:
        raise Removed(key, events.removal_text(execution.removed))
    return execution


def step_path(execution: Execution, step: str | None) -> Path:
    """Parses the path of a settled step; the empty path if `step` is None.

    Raises:
        BadValue: the execution has not reached such a step.
    """
    if step is None:
        return ()
    try:
        path = parse_path(step)
    except ValueError:
        path = ()
    if path in execution.settled and path:
        return path
    if path and is_in_trimmed_iteration(path, execution.trimmed):
        raise BadValue(
            "step", step, f"a step of an iteration that {execution.key} still has: {_forgotten(execution)} are forgotten; choose a later step, or rerun it"
        )
    known = [path_text(one) for one in execution.settled]
    shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    raise BadValue("step", step, f"a step of {execution.key} that has settled: {shown or 'none has'}")


def _forgotten(execution: Execution) -> str:
    return ", ".join(f"iterations 1–{turns:,} of {path_text(loop)}" for loop, turns in execution.trimmed.items() if turns)


async def fork_execution(access: StoreAccess, origin: Key, wanted: RerunRequest) -> None:
    """Starts a new execution with the outcomes of another: all successes or, with `from_step`, those opened before that step.

    Open operations and unread messages of the other execution are not copied.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        BadValue: it has not reached the step.
        AlreadyExists: the new key is taken.
    """
    execution = await read_execution(access, origin)
    started = started_event(execution)
    before = step_path(execution, wanted.from_step)
    copies = recalled.fork_results(execution.recalled_results.known, execution.settled, before)
    trimmed = tuple((path, turn) for path, turn in execution.trimmed.items())
    await _post_start(access, execution, wanted, started, ForkData(origin, execution.version, copies, trimmed))


async def rerun_execution(access: StoreAccess, origin: Key, wanted: RerunRequest) -> None:
    """Starts a new execution with the input of another and none of its outcomes.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        AlreadyExists: the new key is taken.
    """
    execution = await read_execution(access, origin)
    await _post_start(access, execution, wanted, started_event(execution), None)


def started_event(execution: Execution) -> e.StartedEvent:
    """The event with which an execution began.

    Raises:
        NotFound: it has not begun.
    """
    if execution.started is None:
        raise NotFound(
            execution.key,
            f"the execution {execution.key} can't be rerun: it has not started, so its input is not in its log. Wait until an engine has started it",
        )
    return execution.started


async def _post_start(access: StoreAccess, execution: Execution, wanted: RerunRequest, started: e.StartedEvent, copied: ForkData | None) -> None:
    blobs: dict[str, bytes] = {}
    given: Value = started.input if wanted.input is None else values.offload_if_large(wanted.input, blobs)
    version = started.version if wanted.version is None else wanted.version
    deadline_s = None if started.deadline_at_s is None else started.deadline_at_s - started.at_s
    fresh = secrets.randbits(SEED_BITS) if wanted.seed is None else wanted.seed
    seed = started.seed if copied is not None else fresh  # a fork keeps the seed, so that its random values are the same
    known = (
        execution.attributes if copied is not None and copied.trimmed else started.attributes
    )  # forgotten iterations, which are not replayed, may have changed them
    definition = started.definition if copied is None else execution.definition
    begin = messages.StartMessage(version, given, seed, None, deadline_s, fork=copied, attributes=known, definition=definition)
    hosting = Hosting(execution.program, execution.calls) if execution.program else None
    begin = msgspec.structs.replace(begin, grace_s=started.grace_s, carried=started.carried, hosting=hosting)
    opens = NewExecution(program_name(execution.program or wanted.key.workflow, version), wanted.key, attributes=index_attributes(known))
    send = OutgoingMessage(wanted.key, "start", messages.encode_message(begin), 0.0, opens, refers=blob_references(begin))
    (answer,) = await access.store.commit([Post(messages=(send,), blobs=tuple(blobs.items()))])
    if isinstance(answer, Conflict):  # the original and its blobs were removed after it was read
        raise NotFound(execution.key)
    if not isinstance(answer, Committed) or wanted.key not in answer.created:
        raise AlreadyExists(wanted.key)


async def preset_outcome(access: StoreAccess, key: Key, step: str, outcome: Outcome) -> None:
    """Supplies the outcome of a step: of an open one, now; of one that is still to come, or that failed with its execution, when it is asked for.

    Raises:
        NotFound, HasEnded: the execution takes no outcomes.
        BadValue: the step has an outcome already, or is no step.
    """
    path = await preset_path(access, key, step)
    blobs: dict[str, bytes] = {}
    light = Success(values.offload_if_large(outcome.value, blobs), outcome.port) if isinstance(outcome, Success) else outcome
    body = messages.encode_message(messages.PresetMessage(path, light))
    _ = await access.store.commit([Post(messages=(OutgoingMessage(key, f"preset:{step}:{secrets.token_hex(8)}", body),), blobs=tuple(blobs.items()))])


async def preset_path(access: StoreAccess, key: Key, step: str) -> Path:
    """The path of a step whose outcome can be supplied.

    Raises:
        NotFound, HasEnded: the execution takes no outcomes.
        BadValue: the step has an outcome already, or is no step.
    """
    execution = await read_execution(access, key)
    if execution.ended is not None and execution.ended.status != "failed":
        raise HasEnded(key, execution.ended.status, f"a result for {step}")
    try:
        path = parse_path(step)
    except ValueError:
        path = ()
    settled, pending = execution.settled.get(path), execution.open.get(path)
    failed = settled is not None and isinstance(settled.outcome, Failure) and execution.ended is not None
    if not path or (settled is not None and not failed) or (pending is not None and isinstance(pending.op, ReceiveOperation)):
        why = "is settled" if settled is not None else "waits for a message: send it" if path else "is no path"
        raise BadValue("step", step, f"one whose result can be given: it {why}")
    return path


def encode_outcome(value: Any, step: str) -> Success:
    """Encodes a value as the successful outcome of a step."""
    return Success(values.encode(value, f"the result of {step}"))
