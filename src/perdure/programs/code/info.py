"""What a step may know of itself while it runs."""

import contextvars

import msgspec

from perdure.core.paths import Key, Path, idempotency_key


class StepInfo(msgspec.Struct, frozen=True, gc=False):
    """What a step may know of itself: whose operation it is, and the number of its try, interrupted ones included."""

    execution: Key
    path: Path
    attempt: int

    @property
    def key(self) -> str:
        """The idempotency key for the outside world: the same in every try, and no other operation's."""
        return idempotency_key(self.execution, self.path)


running: contextvars.ContextVar[StepInfo] = contextvars.ContextVar("perdure_step")


def step_info() -> StepInfo:
    """What the running step may know of itself.

    Raises:
        LookupError: no step is running here.
    """
    try:
        return running.get()
    except LookupError:
        raise LookupError("step_info() is for the body of a step; none is running here") from None
