"""Queues as users declare them, with their limits. A declaration has no side effects; engines and clients write it to the store."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core.errors import BadValue

PER_TENANT = "tenant"
"""The value of `per_key` that means the tenant, and not an argument."""

LANE_CHARACTERS_MAX = 200


@dataclasses.dataclass(frozen=True)
class Rate:
    """A rate limit: at most `count` starts per `per`, evenly spaced; after a pause, up to `burst` of them at once."""

    count: int
    per: Duration = "1s"
    burst: int = 1

    @cached_property
    def interval_s(self) -> float:
        """The time from one start to the next."""
        whole_number(self.count, "Rate(count)")
        whole_number(self.burst, "Rate(burst)")
        per_s = duration_seconds(self.per, "Rate(per)")
        if per_s <= 0:
            raise BadValue("Rate(per)", self.per, "a duration above 0")
        return per_s / self.count


@dataclasses.dataclass(frozen=True)
class Queue:
    """A queue for executions that start and for calls: at most `concurrency` of each at a time over all processes, started at most at `rate`.

    An execution counts while it runs, not while it waits. `per_key` names the argument (or ``"tenant"``) whose value is the lane; lanes are served in turn,
    so that one customer with much work does not delay the others. `concurrency_per_key` limits each lane. With `priority`, higher ones come first. These
    limits hold until an operator or the code changes them.

    `worker_concurrency` limits how many calls of the queue one process performs at a time, besides the limits over all processes. It is not stored: it holds
    in the processes whose code declares it.

    Raises:
        BadValue: a limit is not valid.
    """

    name: str
    concurrency: int | None = None
    per_key: str | None = None
    concurrency_per_key: int | None = None
    rate: Rate | None = None
    priority: bool = False
    worker_concurrency: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise BadValue("Queue(name)", self.name, "a name")
        for what, limit in (
            ("concurrency", self.concurrency),
            ("concurrency_per_key", self.concurrency_per_key),
            ("worker_concurrency", self.worker_concurrency),
        ):
            if limit is not None:
                whole_number(limit, f"Queue({what})")
        if self.concurrency_per_key is not None and self.per_key is None:
            raise BadValue("Queue(concurrency_per_key)", self.concurrency_per_key, "accepted without per_key=, which names the key")
        _ = self.rate and self.rate.interval_s

    @property
    def is_limited(self) -> bool:
        """Whether the queue has any limit, so that an engine that serves it leaves its calls to the workers."""
        return any(limit is not None for limit in (self.concurrency, self.concurrency_per_key, self.rate, self.worker_concurrency))

    def lane(self, tenant: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], skip: int = 0) -> str:
        """Returns the lane of a call: the value of the argument that `per_key` names, as text. The first `skip` parameters are not the caller's.

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
        """Returns `priority` if the queue has priorities.

        Raises:
            BadValue: it has none.
        """
        if priority and not self.priority:
            raise BadValue("priority", priority, f"accepted by queue {self.name}; declare the queue with priority=True")
        return priority


def queue_of_executions(queue: str | Queue) -> tuple[str, Queue | None]:
    """Returns the name of a queue in which executions start, and the queue itself if it was declared.

    Raises:
        BadValue: the queue has a limit that applies to calls alone.
    """
    if isinstance(queue, Queue) and queue.worker_concurrency is not None:
        expected = "accepted by a queue of executions, which any engine may advance; limit them with concurrency=, or put the steps into a queue of their own"
        raise BadValue(f"Queue(worker_concurrency) of {queue.name}", queue.worker_concurrency, expected)
    return queue_name(queue)


def queue_name(queue: str | Queue) -> tuple[str, Queue | None]:
    """Returns the name of a queue, and the queue itself if it was declared."""
    return (queue.name, queue) if isinstance(queue, Queue) else (queue, None)
