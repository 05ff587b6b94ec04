"""What a step may know of itself while it runs."""

import contextvars
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class StepInfo:
    """What a step may know of itself. `key` is the same in every try: the idempotency key for the outside world."""

    key: str
    attempt: int


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
