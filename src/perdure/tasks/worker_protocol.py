"""The messages between the task broker and a worker, in JSON, for all transports. The guide is docs/guides/workers.md.

JSON has no bytes and no times: in arguments they become text (base64, RFC 3339), and keys of mappings are always text. A value that JSON can't express,
such as an infinite number, is refused, and the task fails.
"""

import math
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec

from perdure.code.exception_data import ExceptionData
from perdure.core import error_codes, limits, values
from perdure.core.errors import BadValue, ErrorInfo, Unencodable
from perdure.core.json_names import repeated_name
from perdure.core.paths import path_text
from perdure.runtime.task_broker import TASK_LEASE_MAX_S, TASK_LEASE_S, TASK_WAIT_MAX_S, TASKS_PER_REQUEST_MAX, TaskLease

T = TypeVar("T")

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
RESERVED_PORTS = ("error", "skipped")
"""Ports that only the engine itself uses."""


class LeaseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for tasks: the name of the worker, the queues (None: all that it may use), the largest number of tasks, how long it waits for the first, and
    how long a lease lasts without a heartbeat."""

    worker: _Name
    queues: Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=1000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=TASKS_PER_REQUEST_MAX)] = 1
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=TASK_WAIT_MAX_S)] = 0.0
    lease_s: Annotated[float, msgspec.Meta(ge=1, le=TASK_LEASE_MAX_S)] = TASK_LEASE_S


class HeartbeatBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A heartbeat of a worker, with its progress if it reports any."""

    progress: Any = msgspec.UNSET
    worker: str = ""


class CompleteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The completion of a task: its result, and the port by which a graph continues."""

    value: Any = None
    port: _Name = "success"
    worker: str = ""


class FailBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The failure of a task: the message and type of the error, and whether and after how long it may be retried. `data` are the arguments of the error."""

    message: Annotated[str, msgspec.Meta(max_length=100_000)]
    type: _Name = error_codes.TASK_FAILED
    retry: bool = True
    after_s: Annotated[float, msgspec.Meta(ge=0, le=365 * 86400.0)] | None = None
    data: Any = msgspec.UNSET
    worker: str = ""

    @property
    def error(self) -> ErrorInfo:
        """The error as the log of the execution stores it.

        Raises:
            Unencodable: the data can't be stored.
        """
        if self.data is msgspec.UNSET:
            return ErrorInfo(self.type, self.message)
        given = self.data if isinstance(self.data, list) else [self.data]
        return ErrorInfo(self.type, self.message, "", values.encode(ExceptionData(given, {}), "the data of an error"))


class TaskExecution(msgspec.Struct, frozen=True):
    """The execution that a task belongs to."""

    tenant: str
    workflow: str
    id: str


class LeasedTask(msgspec.Struct, frozen=True):
    """A leased task: its name and input, its idempotency key for other systems, and its time limits."""

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
    """Returns a lease as the message to its worker.

    Raises:
        Unencodable: the arguments hold a value that JSON can't express.
    """
    work, input = task_lease.work, task_lease.input
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
        json_value(input.args),
        json_value(input.named),
        json_value(input.progress),
        task_lease.lease_s if math.isfinite(task_lease.lease_s) else None,
        work.timeout_s,
        deadline,
    )


def json_value(value: Any) -> Any:
    """Converts a value to what JSON can express.

    Raises:
        Unencodable: JSON can't express it.
    """
    try:
        made = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable("the arguments of a task", type(value).__qualname__, f"JSON can't express it: {error}") from error
    left = [made]
    while left:
        match left.pop():
            case float() as number if not math.isfinite(number):
                raise Unencodable("the arguments of a task", "float", f"JSON can't express {number}")
            case list() as items:
                left += items
            case dict() as fields:
                left += fields.values()
    return made


def decode_body(raw: bytes, form: type[T], what: str) -> T:
    """Decodes a message of a worker.

    Raises:
        BadValue: it is not such a message, or an object in it has a name twice.
    """
    shown = raw[:200].decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(raw)
        message, name = msgspec.convert(value, form), repeated_name(raw, value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadValue(what, shown, f"JSON as the protocol defines it: {error}") from error
    if name is not None:
        raise BadValue(what, shown, f"JSON whose objects have each name once; {name[:100]!r} is given twice")
    return message


def checked_port(name: str) -> str:
    """Checks that a worker may use a port, and returns it.

    Raises:
        BadValue: the worker may not use it.
    """
    if name in RESERVED_PORTS or len(name.encode("utf-8", "replace")) > limits.NAME_BYTES_MAX:
        raise BadValue("port", name, f"a name of at most {limits.NAME_BYTES_MAX} bytes, and none of {', '.join(RESERVED_PORTS)}: fail the task instead")
    return name
