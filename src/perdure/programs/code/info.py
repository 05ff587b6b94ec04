"""What a step may know of itself while it runs, and say of how far it is."""

import contextvars
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.core import limits, values
from perdure.core.errors import TooLarge
from perdure.core.masks import NO_MASK, Find, Mask, nothing
from perdure.core.paths import Key, Path, idempotency_key
from perdure.core.values import NOTHING, Blob, Value


class StepLife:
    """What a step has beside what is known of it: somebody who hears its heart beat, whether it is still wanted, whether the log is to keep what it said
    last even if it ends well, and the secrets that it is given: their `places` in its named arguments, what `find`s them by name, and the `mask` that
    hides them in what it says. Its function has `begun`, at `began_s` of the monotonic clock: a pause of the process before that takes nothing of its time.
    One that is `over` does not begin."""

    __slots__ = ("beat", "began_s", "begun", "find", "keeps", "mask", "over", "places")

    def __init__(self, beat: Callable[[bytes], None], places: tuple[str, ...] = (), find: Find = nothing) -> None:
        self.beat = beat
        self.began_s = 0.0
        self.begun = False
        self.keeps = False
        self.over = False
        self.places, self.find = places, find
        self.mask = NO_MASK


class StepInfo(msgspec.Struct, frozen=True, gc=False):
    """What a step may know of itself: whose operation it is, the number of its try, interrupted ones included, and how long that may take."""

    execution: Key
    path: Path
    attempt: int
    reported: Value = NOTHING
    life: StepLife | None = None
    timeout_s: float | None = None

    @property
    def key(self) -> str:
        """The idempotency key for the outside world: the same in every try, and no other operation's."""
        return idempotency_key(self.execution, self.path)

    @property
    def progress(self) -> Any:
        """What the last try said of how far it was, as plain data; None if it said nothing."""
        return None if self.reported == NOTHING or isinstance(self.reported, Blob) else values.decode(self.reported, Any, "the progress of step", self.path)

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more; for steps in threads, which can't be interrupted: look at it now and then, and return."""
        return self.life is not None and self.life.over

    def begin(self, now_s: float) -> bool:
        """Begin to call the function, unless nobody wants the result any more."""
        if self.life is None:
            return True
        self.life.begun = not self.life.over
        self.life.began_s = now_s
        return self.life.begun

    @property
    def mask(self) -> Mask:
        """What hides the secrets that it was given: whoever cuts or passes on what others say hides them there first. What the step returns or raises,
        says of its progress or logs is hidden by itself."""
        return NO_MASK if self.life is None else self.life.mask

    def secret(self, name: str) -> str | None:
        """A secret of where the step runs, by its name; None if there is none. From then on it is hidden in what the step says.

        It may block, so an async step calls it in a thread.
        """
        found = None if self.life is None else self.life.find(name)
        if found is not None and self.life is not None:
            self.life.mask |= Mask((found,))
        return found

    def heartbeat(self, progress: Any = None, *, keep: bool = False) -> None:
        """Say that the step is alive, and how far it is; the next try, should there be one, finds it in `progress`. From any thread.

        It is durable a second later at most. What is said more often than once a second is not all kept, only the latest; nor is what was said just before
        the step has ended well, unless with `keep`.

        Raises:
            Unencodable, TooLarge: the progress can't be kept; it is meant to be small.
        """
        raw = self.mask.value(values.encode(progress, "the progress of step", self.path))
        if len(raw) >= limits.BLOB_BYTES_MIN:
            raise TooLarge("the progress of a step", len(raw), limits.BLOB_BYTES_MIN)
        if self.life is not None:
            self.life.keeps = self.life.keeps or keep
            self.life.beat(raw)


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
