"""Gates: how changed code goes on with executions that began before the change.

A version gate remembers which way an execution went. One that passed the place before there was a gate remembers none, and goes the
oldest way. What was removed from the code is still taken from the log where it is remembered.
"""

from typing import TYPE_CHECKING

from perdure.code.deterministic_loop import NumberedFuture
from perdure.core import values
from perdure.core.errors import BadValue, Evicted
from perdure.core.operations import CallOperation, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation, SpawnOperation
from perdure.core.paths import Path

if TYPE_CHECKING:
    from perdure.code.code_program import CodeProgram
    from perdure.core.operation_state import SettledOperation

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
"""What may be removed, and the operation that the log has of it."""


def version_at_gate(instance: "CodeProgram", path: Path, latest: int) -> int:
    """The way that the execution goes at this gate: what it remembers, the oldest if it passed here before there was a gate, else `latest`."""
    if instance.replaying and not instance.is_next(path):
        return OLDEST_VERSION
    known = instance.execution.recalled_results
    passed_before = bool(known) and path not in known.known  # reopened or forked, and still where it has been before
    kept = instance.remember(path, lambda: values.encode(OLDEST_VERSION if passed_before else latest, "version", path), role="version")
    way: int = instance.decode(kept, int, path)
    if way > latest:
        instance.differs(path, f"version {way}", f"version {latest} at most; it has been where newer code runs")
        raise Evicted
    return way


def removed_operation(instance: "CodeProgram", path: Path, kind: str) -> "NumberedFuture[SettledOperation] | None":
    """What is remembered at `path`, taken from the log: a future if it settles later, else None.

    Raises:
        BadValue: nothing of this kind can be removed.
    """
    if kind not in REMOVABLE_OPERATIONS:
        raise BadValue("removed(kind)", kind, f"one of {', '.join(REMOVABLE_OPERATIONS)}; a join, race, map or loop is gated by ctx.version")
    return instance.take_removed(path, REMOVABLE_OPERATIONS[kind])


def removed_step(*_: object, **__: object) -> None:
    """What a removed step does, should it be tried again."""
