"""Gates: how changed code goes on with executions that began before the change.

A version gate remembers which way an execution went. One that passed the place before there was a gate remembers none, and goes the
oldest way. What was removed from the code is still taken from the log where it is remembered.
"""

from typing import TYPE_CHECKING

from perdure.core import values
from perdure.core.errors import BadValue, Evicted
from perdure.core.ops import Call, Keep, Op, Receive, Send, Sleep, Spawn
from perdure.core.paths import Path
from perdure.programs.code.scheduler import NumberedFuture

if TYPE_CHECKING:
    from perdure.core.promise import Settlement
    from perdure.programs.code.instance import Instance

OLDEST = 1

KINDS: dict[str, type[Op]] = {
    "step": Call,
    "sleep": Sleep,
    "listen": Receive,
    "call": Spawn,
    "start": Spawn,
    "send": Send,
    "keep": Keep,
    "set": Keep,
    "set_attributes": Keep,
    "emit": Keep,
    "commit": Keep,
    "version": Keep,
}
"""What may be removed, and the operation that the log has of it."""


def version(instance: "Instance", path: Path, latest: int) -> int:
    """The way that the execution goes at this gate: what it remembers, the oldest if it passed here before there was a gate, else `latest`."""
    if instance.replaying and not instance.is_next(path):
        return OLDEST
    known = instance.execution.memo
    passed_before = bool(known) and path not in known.known  # reopened or forked, and still where it has been before
    kept = instance.remember(path, lambda: values.encode(OLDEST if passed_before else latest, "version", path), role="version")
    way: int = instance.decode(kept, int, path)
    if way > latest:
        instance.differs(path, f"version {way}", f"version {latest} at most; it has been where newer code runs")
        raise Evicted
    return way


def removed(instance: "Instance", path: Path, kind: str) -> "NumberedFuture[Settlement] | None":
    """What is remembered at `path`, taken from the log: a future if it settles later, else None.

    Raises:
        BadValue: nothing of this kind can be removed.
    """
    if kind not in KINDS:
        raise BadValue("removed(kind)", kind, f"one of {', '.join(KINDS)}; a join, race, map or loop is gated by ctx.version")
    return instance.take_removed(path, KINDS[kind])


def nothing(*_: object, **__: object) -> None:
    """What a removed step does, should it be tried again."""
