"""Version gates: how changed code continues executions that began before the change.

A gate records which version an execution went through it with. An execution that passed the gate's place before the gate was written has
no such record, and continues with the oldest version. An operation that was removed from the code is still taken from the log where it is recorded.
"""

from asyncio import Future

from perdure.code.code_program import CodeProgram
from perdure.core import values
from perdure.core.errors import BadValue, Evicted
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation, SpawnOperation
from perdure.core.paths import Path

OLDEST_VERSION = 1

REMOVABLE_OPERATIONS: dict[str, type[Operation]] = {
    "step": CallOperation,
    "sleep": SleepOperation,
    "listen": ReceiveOperation,
    "call": SpawnOperation,
    "start": SpawnOperation,
    "send": SendOperation,
    "keep": KeepOperation,
    "set": KeepOperation,
    "set_attributes": KeepOperation,
    "emit": KeepOperation,
    "commit": KeepOperation,
    "version": KeepOperation,
}
"""The verbs that may be removed, and the kind of operation that the log has of each."""


def version_at_gate(program: CodeProgram, path: Path, latest: int) -> int:
    """Returns the version at this gate: the recorded one, the oldest if the execution passed here before there was a gate, else `latest`."""
    if program.replaying and not program.is_next(path):
        return OLDEST_VERSION
    known = program.execution.recalled_results
    passed_before = bool(known) and path not in known.known  # reopened or forked, and not yet past what it did before
    kept = program.remember(path, lambda: values.encode(OLDEST_VERSION if passed_before else latest, "version", path), role="version")
    way: int = program.decode(kept, int, path)
    if way > latest:
        program.differs(path, f"version {way}", f"version {latest} at most; newer code has run it")
        raise Evicted
    return way


def removed_operation(program: CodeProgram, path: Path, kind: str) -> Future[SettledOperation] | None:
    """Takes the recorded operation at `path` from the log; returns a future if it settles later, else None.

    Raises:
        BadValue: operations of this kind can't be removed.
    """
    if kind not in REMOVABLE_OPERATIONS:
        raise BadValue("removed(kind)", kind, f"one of {', '.join(REMOVABLE_OPERATIONS)}; a join, race, map or loop is gated by ctx.version")
    return program.take_removed(path, REMOVABLE_OPERATIONS[kind])
