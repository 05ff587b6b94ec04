"""Queues as users declare them: what may run at a time, of whom, and how fast. Declaring touches nothing; engines and clients tell the store."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core.errors import BadValue

PER_TENANT = "tenant"
"""The key that is nobody's argument: the tenant."""

LANE_CHARACTERS_MAX = 200


@dataclasses.dataclass(frozen=True)
class Rate:
    """So many beginnings per time, one after the other; up to `burst` of them at once, after a pause."""

    count: int
    per: Duration = "1s"
    burst: int = 1

    @cached_property
    def interval_s(self) -> float:
        """The time from one beginning to the next."""
        whole_number(self.count, "Rate(count)")
        whole_number(self.burst, "Rate(burst)")
        per_s = duration_seconds(self.per, "Rate(per)")
        if per_s <= 0:
            raise BadValue("Rate(per)", self.per, "a time that is not 0")
        return per_s / self.count


@dataclasses.dataclass(frozen=True)
class Queue:
    """A queue for executions that start and for calls: at most `concurrency` of each at a time over all processes, begun at most at `rate`.

    An execution takes a place while it runs, not while it waits. `per_key` names the argument (or ``"tenant"``) by whose value the queue is served in
    turns, so that one customer with much work does not hold up the others; `concurrency_per_key` bounds those of each. With `priority`, higher ones come
    first. These are the limits until somebody changes them, or until the code does.

    Raises:
        BadValue: a limit means nothing.
    """

    name: str
    concurrency: int | None = None
    per_key: str | None = None
    concurrency_per_key: int | None = None
    rate: Rate | None = None
    priority: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise BadValue("Queue(name)", self.name, "a name")
        for what, limit in (("concurrency", self.concurrency), ("concurrency_per_key", self.concurrency_per_key)):
            if limit is not None:
                whole_number(limit, f"Queue({what})")
        if self.concurrency_per_key is not None and self.per_key is None:
            raise BadValue("Queue(concurrency_per_key)", self.concurrency_per_key, "to be given without per_key, which says what the key is")
        _ = self.rate and self.rate.interval_s

    @property
    def is_limited(self) -> bool:
        """Whether it has any limit."""
        return self.concurrency is not None or self.concurrency_per_key is not None or self.rate is not None

    def lane(self, tenant: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], skip: int = 0) -> str:
        """The key of a call: the value of the argument that `per_key` names, as text; the first `skip` parameters are not the caller's.

        Raises:
            BadValue: the function has no such argument.
        """
        if self.per_key is None:
            return ""
        if self.per_key == PER_TENANT:
            return tenant
        try:
            bound = inspect.signature(fn).bind(*[None] * skip, *args, **kwargs)
            bound.apply_defaults()
            value = bound.arguments[self.per_key]
        except (TypeError, KeyError) as error:
            raise BadValue(f"Queue(per_key) of {self.name}", self.per_key, f"an argument of {getattr(fn, '__name__', fn)}: {error}") from error
        return str(value)[:LANE_CHARACTERS_MAX]

    def ranked(self, priority: int) -> int:
        """A priority, where there are any.

        Raises:
            BadValue: the queue has none.
        """
        if priority and not self.priority:
            raise BadValue("priority", priority, f"to be given for queue {self.name}, which is declared without priority=True")
        return priority


def queue_name(queue: str | Queue) -> tuple[str, Queue | None]:
    """The name of a queue, and the queue itself if it was declared."""
    return (queue.name, queue) if isinstance(queue, Queue) else (queue, None)
