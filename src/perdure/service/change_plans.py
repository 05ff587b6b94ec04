"""Plans: what a command would do to an execution, without doing it.

A plan is made by the code that acts. The request is built and checked as for the command itself, the decision is the one that an engine would make, on a copy
of the execution whose program stays silent, and messages to children are the effects of its events. What the workflow itself would do then (the undo handlers
of definitions, the code of a retried step) is not run, so it is not known.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from perdure.core import events as e
from perdure.core import log_format, messages, recalled
from perdure.core.decision import DecisionContext, decide
from perdure.core.effects import effects_of
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.messages import ExecutionMessage
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import Failure, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.time_bounds import TimeBounds
from perdure.core.undo_plan import UNDO_INPUT, UNDOABLE, operations_to_undo
from perdure.definitions.format import definition_diff
from perdure.definitions.graph.execution_view import problems_of_patch
from perdure.runtime.blob_loader import BlobCache, run_in_threads
from perdure.service import definition_patches, execution_requests, reruns
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess

PlannedVerb = Literal["cancel", "terminate", "pause", "resume", "undo", "retry", "rerun", "fork", "preset", "patch"]
"""The commands that have a plan."""

ChildEffect = Literal["cancelled", "terminated", "left to itself", "undone", "retried", "started"]


class PlannedChild(msgspec.Struct, frozen=True):
    """An execution that was started by the planned one, and what becomes of it. A child for which others wait as well goes on."""

    key: Key
    effect: ChildEffect


class ChangePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a command would do to an execution that is in `status`. Lists name operations by their paths.

    `has_effect` is false if an engine would ignore the command as things are. `reused` keep their results, `repeated` are performed again, `given` have
    the result that the command supplies, `undone` are undone in this order, `stopped` were open and are dropped, and `continued` are open and go on.
    `changes` are the differences between definitions, and `refused` the reasons why an engine would refuse a patch.
    """

    key: Key
    verb: PlannedVerb
    status: str
    has_effect: bool = True
    reused: list[str] = []
    repeated: list[str] = []
    given: list[str] = []
    undone: list[str] = []
    stopped: list[str] = []
    continued: list[str] = []
    children: list[PlannedChild] = []
    changes: list[str] = []
    refused: list[str] = []


class PlannedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command with the arguments that a plan depends on. Each is an argument of the command itself."""

    verb: PlannedVerb
    undo: bool = True
    from_step: str | None = None
    step: str = ""
    change: Any = None
    definition: bytes | None = None
    base: str = ""


async def plan_command(access: StoreAccess, key: Key, wanted: PlannedCommand) -> ChangePlan:
    """Plans a command.

    Raises:
        NotFound, Removed: there is no such execution, or only its tombstone is left.
        HasEnded, BadValue, BadDefinition: the command would be refused for the same reason.
    """
    if wanted.verb not in (known := get_args(PlannedVerb)):
        raise BadValue("verb", wanted.verb, f"one of {', '.join(known)}")
    if wanted.verb in ("rerun", "fork"):
        return await _plan_of_new(access, key, wanted)
    message = await _message(access, key, wanted)
    if message is None:  # it is cancelled already
        return ChangePlan(key=key, verb=wanted.verb, status=(await access.head(key)).status, has_effect=False)
    now_s = (await access.store.store_time()).now_s
    before, after = await read_execution(access, key), await read_execution(access, key)
    decided = _decided(after, message, now_s)
    plan = ChangePlan(key=key, verb=wanted.verb, status=before.status, has_effect=bool(decided))
    if isinstance(message, messages.PatchMessage):
        return await _plan_of_patch(access, before, decided, message, plan)
    return msgspec.structs.replace(plan, **_consequences(before, after, decided, message))


async def _message(access: StoreAccess, key: Key, wanted: PlannedCommand) -> ExecutionMessage | None:
    """The message of the command, made and checked as for the command itself."""
    head = await access.head(key)
    match wanted.verb:
        case "cancel":
            request = execution_requests.cancel_request(head, "", wanted.undo)
        case "terminate":
            request = execution_requests.terminate_request(head, "")
        case "pause":
            request = execution_requests.message_request(head, messages.PauseMessage(), "pause")
        case "resume":
            request = execution_requests.message_request(head, messages.ResumeMessage(), "resume")
        case "undo":
            request = await execution_requests.undo_request(access, head, "")
        case "retry":
            request = await execution_requests.retry_request(access, head, "", wanted.from_step)
        case "preset":
            return messages.PresetMessage(await reruns.preset_path(access, key, wanted.step), Success())
        case _:
            return await definition_patches.wanted_patch(access, key, wanted.change, wanted.definition, wanted.base)
    return None if request is None else request.message


class _SilentProgram:
    """A program that issues no commands: what it would do next is not part of a plan."""

    awake, keeps_archives = True, False

    def feed(self, *_: Any) -> tuple[()]:
        return ()

    def unfit(self, _: bytes) -> tuple[str, ...]:
        return ()

    def refuse(self, *_: Any) -> None:
        """Has nothing to refuse."""

    def close(self) -> None:
        """Has nothing to close."""


def _decided(execution: Execution, message: ExecutionMessage, now_s: float) -> list[e.Event]:
    """Returns the events that an engine would record for a message, and folds them into `execution`."""
    deciding = decide(execution, message, _SilentProgram(), TimeBounds.exactly(now_s), DecisionContext("a plan"))
    try:
        _ = next(deciding)
        while True:  # a large value is read for the program, which takes none
            _ = deciding.send(b"")
    except StopIteration as end:
        events: list[e.Event] = end.value.events
        return events


def _consequences(before: Execution, after: Execution, decided: Sequence[e.Event], message: ExecutionMessage) -> dict[str, Any]:
    opened = [path for path in before.open if _is_shown(path)]
    match message:
        case messages.CancelMessage() | messages.TerminateMessage() if decided:
            unwinds = any(isinstance(one, e.CancellingEvent) for one in decided)
            undone = _undone(before) if unwinds and isinstance(message, messages.CancelMessage) and message.undo else []
            left = [e.DroppedEvent(path) for path in opened] if unwinds else [one for one in decided if isinstance(one, e.EndedEvent)]
            return {"undone": _texts(undone), "stopped": _texts(opened), "children": _children(before, left, undone)}
        case messages.UndoMessage() if decided:
            return {"undone": _texts(_undone(before)), "children": _children(before, (), _undone(before))}
        case messages.RetryMessage() if before.ended is not None and decided:
            return _reopened(before, after.recalled_results.known.keys() | after.settled.keys())
        case messages.PresetMessage() if decided:
            return {"given": [path_text(message.path)], "continued": _texts(path for path in opened if path != message.path)}
    return {"reused": _texts(_shown(before.settled)), "continued": _texts(opened)}


def _reopened(before: Execution, kept: Collection[Path]) -> dict[str, Any]:
    repeated = [path for path in _shown(before.settled) if path not in kept]
    failed = [one.op for path in repeated if isinstance((one := before.settled[path]).outcome, Failure)]
    children = [PlannedChild(Key(before.key.tenant, op.workflow, op.id), "retried") for op in failed if isinstance(op, SpawnOperation)]
    return {"reused": _texts(path for path in _shown(before.settled) if path in kept), "repeated": _texts(repeated), "children": children}


def _undone(execution: Execution) -> list[Path]:
    return [path for path in operations_to_undo(execution.settled) if _is_shown(path)]


def _children(execution: Execution, left: Iterable[e.Event], undone: Iterable[Path]) -> list[PlannedChild]:
    """The children that receive a message because of these events, and those that are undone."""
    found: list[PlannedChild] = []
    for event in left:
        for send in effects_of(execution, event):
            if not isinstance(send, OutgoingMessage) or not isinstance(send.to, Key):
                continue
            told = messages.decode_message_or_task(send.body)
            if isinstance(told, messages.UnwatchMessage):
                found.append(PlannedChild(send.to, _LEFT[told.end]))
    for path in undone:
        known = execution.settled.get(path)
        if known is not None and isinstance(known.op, SpawnOperation):
            found.append(PlannedChild(Key(execution.key.tenant, known.op.workflow, known.op.id), "undone"))
    return found


_LEFT: Mapping[str, ChildEffect] = {"cancel": "cancelled", "terminate": "terminated", "detach": "left to itself"}


async def _plan_of_new(access: StoreAccess, key: Key, wanted: PlannedCommand) -> ChangePlan:
    """The plan of a rerun or a fork: what the new execution takes over. The old one stays as it is."""
    execution = await read_execution(access, key)
    _ = reruns.started_event(execution)
    copies: set[Path] = set()
    if wanted.verb == "fork":
        before = reruns.step_path(execution, wanted.from_step)
        copies = {one.path for one in recalled.fork_results(execution.recalled_results.known, execution.settled, before)}
    plan = _reopened(execution, copies) | {"children": []}  # the new execution has children of its own
    return ChangePlan(key=key, verb=wanted.verb, status=execution.status, **plan)


async def _plan_of_patch(access: StoreAccess, before: Execution, decided: Sequence[e.Event], message: messages.PatchMessage, plan: ChangePlan) -> ChangePlan:
    """The plan of a patch: what differs, and what does not fit that has begun. The reasons are those that an engine would find."""
    patched = next((one for one in decided if isinstance(one, e.PatchedEvent)), None)
    if patched is None:
        return plan
    _, present = await definition_patches.current_definition(access, before.key)
    changes = definition_diff.render_changes(definition_diff.definition_changes(msgspec.json.decode(present), msgspec.json.decode(message.definition)))
    refused = list(patched.refused)
    if not refused:
        found = await access.store.read(before.key)
        events = [] if found is None else log_format.decode_rows(found.payloads)
        refused = list(await run_in_threads(BlobCache(access.store), problems_of_patch(before.key, events, message.definition)))
    kept = {} if refused else {"reused": _texts(_shown(before.settled)), "continued": _texts(path for path in before.open if _is_shown(path))}
    return msgspec.structs.replace(plan, changes=changes.splitlines(), refused=refused, has_effect=not refused, **kept)


def _shown(settled: Mapping[Path, SettledOperation]) -> list[Path]:
    return [path for path in settled if _is_shown(path)]


def _is_shown(path: Path) -> bool:
    """Whether an operation is one of the workflow, and not a note that its undoing needs."""
    return path[0] != UNDO and path[-1] not in (UNDOABLE, UNDO_INPUT)


def _texts(paths: Iterable[Path]) -> list[str]:
    return [path_text(path) for path in paths]
