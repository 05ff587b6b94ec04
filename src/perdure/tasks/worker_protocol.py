"""Messages: what a lender and a worker say to each other, in JSON, whatever carries it. The guide is docs/guides/workers.md.

JSON has no bytes and no times: where arguments have them, they are text (base64, RFC 3339), and keys of mappings are always text. What no JSON
can say (an infinite number) is refused, and the task fails.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec

from perdure.code.exception_data import ExceptionData
from perdure.core import error_codes, limits, values
from perdure.core.errors import BadValue, ErrorInfo, Unencodable
from perdure.core.paths import path_text
from perdure.runtime.task_broker import TASK_LEASE_MAX_S, TASK_LEASE_S, TASK_WAIT_MAX_S, TASKS_PER_REQUEST_MAX, TaskLease

T = TypeVar("T")

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
RESERVED_PORTS = ("error", "skipped")
"""Ports by which only the engine itself leaves a step."""


class LeaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker asks for tasks: who it is, of which queues (None: of all that it may have), how many at most, how long it waits for a first, and for how
    long it may be silent."""

    worker: _Name
    queues: Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=1000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=TASKS_PER_REQUEST_MAX)] = 1
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=TASK_WAIT_MAX_S)] = 0.0
    lease_s: Annotated[float, msgspec.Meta(ge=1, le=TASK_LEASE_MAX_S)] = TASK_LEASE_S


class HeartbeatBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker is alive, and says how far it is, if it does."""

    progress: Any = msgspec.UNSET
    worker: str = ""


class CompleteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task is done: its result, and the port by which a graph goes on."""

    value: Any = None
    port: _Name = "success"
    worker: str = ""


class FailBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task has failed: of which type the error is, what it says, and whether, and after how long, it may be tried again. `data` are its arguments."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)]
    type: _Name = error_codes.TASK_FAILED
    retry: bool = True
    after_s: Annotated[float, msgspec.Meta(ge=0, le=365 * 86400.0)] | None = None
    data: Any = msgspec.UNSET
    worker: str = ""

    @property
    def error(self) -> ErrorInfo:
        """It, as an execution keeps it.

        Raises:
            Unencodable: the data can't be kept.
        """
        if self.data is msgspec.UNSET:
            return ErrorInfo(self.type, self.message)
        given = self.data if isinstance(self.data, list) else [self.data]
        return ErrorInfo(self.type, self.message, "", values.encode(ExceptionData(given, {}), "the data of an error"))


class TaskExecution(msgspec.Struct, frozen=True):
    """Whose task it is."""

    tenant: str
    workflow: str
    id: str


class LeasedTask(msgspec.Struct, frozen=True):
    """A task that is lent: what is to be done with what, under which key for the outside world, and what bounds it."""

    lease: str
    task: str
    queue: str
    attempt: int
    key: str
    execution: TaskExecution
    path: str
    args: list[Any]
    input: dict[str, Any]
    progress: Any
    lease_s: float | None
    timeout_s: float | None
    deadline: str | None


def leased_task(task_lease: TaskLease) -> LeasedTask:
    """What a worker is told of a loan.

    Raises:
        Unencodable: its arguments hold something that JSON can't say.
    """
    work, given = task_lease.work, task_lease.input
    deadline = (
        None
        if task_lease.until_store_s is None
        else datetime.fromtimestamp(task_lease.until_store_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    return LeasedTask(
        task_lease.id,
        work.target,
        str(task_lease.queued.to[1]),
        work.attempt,
        work.key,
        TaskExecution(*work.execution),
        path_text(work.path),
        json_value(given.args),
        json_value(given.named),
        json_value(given.progress),
        task_lease.lease_s if math.isfinite(task_lease.lease_s) else None,
        work.timeout_s,
        deadline,
    )


def json_value(value: Any) -> Any:
    """A value as JSON has it.

    Raises:
        Unencodable: no JSON can say it.
    """
    try:
        made = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable("the arguments of a task", type(value).__qualname__, f"no JSON can say it: {error}") from error
    left = [made]
    while left:
        match left.pop():
            case float() as number if not math.isfinite(number):
                raise Unencodable("the arguments of a task", "float", f"no JSON can say {number}")
            case list() as items:
                left += items
            case dict() as fields:
                left += fields.values()
    return made


def decode_body(raw: bytes, decode: Callable[[bytes], T], what: str) -> T:
    """A message that somebody else has written.

    Raises:
        BadValue: it is none.
    """
    try:
        return decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = raw[:200].decode("utf-8", "replace")
        raise BadValue(what, shown, f"JSON as the protocol has it: {error}") from error


def checked_port(name: str) -> str:
    """A port by which a worker may leave a task.

    Raises:
        BadValue: it may not.
    """
    if name in RESERVED_PORTS or len(name.encode("utf-8", "replace")) > limits.NAME_BYTES_MAX:
        raise BadValue("port", name, f"a name of at most {limits.NAME_BYTES_MAX} bytes, and none of {', '.join(RESERVED_PORTS)}: fail the task instead")
    return name
