"""Carries values of the caller's context to the code and the steps of an execution: they are recorded when it starts, and are the same after a recovery.

A carrier is declared once, when its module is imported. Each start asks all carriers of its process for their values; wherever code of the execution runs, the
carriers that are declared there get them back. A child carries what its parent carries.
"""

from collections.abc import Callable
from contextvars import ContextVar
from inspect import currentframe
from typing import Any, NamedTuple, TypeVar

from perdure.code.declarations import checked_name
from perdure.core import values
from perdure.core.carried import CARRIED_BYTES_MAX, Carried
from perdure.core.errors import BadName, BadValue, TooLarge

T = TypeVar("T")
MISSING: Any = object()


class Carrier(NamedTuple):
    """Where a value comes from, of which type it is, and what sets it. `capture` returns `MISSING` if there is nothing to carry."""

    capture: Callable[[], Any]
    kind: Any
    restore: Callable[[Any], object]
    module: str


_CARRIERS: dict[str, Carrier] = {}
"""The carriers of this process, by the names under which their values are recorded."""


def carry(variable: ContextVar[T], kind: Any = Any, *, name: str | None = None) -> ContextVar[T]:
    """Lets executions carry the value of a context variable from the start to their code, steps and children: ``user = carry(ContextVar("user"), str)``.

    The value that the variable has where `start` or `run` is called is recorded, if it has been set; `kind` is its type, as in a type hint. It is recorded
    under the name of the variable, or `name`, which must not change while executions are in progress. Returns the variable.

    Raises:
        BadName: the name is invalid, or another module carries something under it.
        BadValue: this is no context variable.
    """
    if not isinstance(variable, ContextVar):
        raise BadValue("carry(variable)", variable, "a ContextVar; carry_by(name, capture, restore) carries anything else")
    _declare(variable.name if name is None else name, Carrier(lambda: variable.get(MISSING), kind, variable.set, _module_of_caller()))
    return variable


def carry_by(name: str, capture: Callable[[], Any], restore: Callable[[Any], object], kind: Any = Any) -> None:
    """Lets executions carry what `capture` returns where they are started. `restore` is called with it before each attempt of a step and before their code.

    Nothing is recorded if `capture` returns None. What `restore` sets must be context variables, which end with the attempt. For structlog::

        carry_by("structlog", lambda: get_contextvars() or None, lambda found: bind_contextvars(**found))

    Raises:
        BadName: the name is invalid, or another module carries something under it.
    """

    def captured() -> Any:
        found = capture()
        return MISSING if found is None else found

    _declare(name, Carrier(captured, kind, restore, _module_of_caller()))


def captured_context() -> Carried:
    """The values of the present context, encoded, to be recorded with a start.

    Raises:
        Unencodable: a value has no encoding.
        TooLarge: together they are larger than `CARRIED_BYTES_MAX`.
    """
    if not _CARRIERS:
        return ()
    found = {name: one.capture() for name, one in _CARRIERS.items()}
    encoded = tuple((name, values.encode(found[name], f"what is carried as {name}")) for name in sorted(found) if found[name] is not MISSING)
    size = sum(len(name.encode()) + len(value) for name, value in encoded)
    if size > CARRIED_BYTES_MAX:
        raise TooLarge("what an execution carries from its start", size, CARRIED_BYTES_MAX)
    return encoded


def restore_context(carried: Carried) -> None:
    """Sets in the present context what was recorded, as far as its carriers are declared in this process. The caller runs in a context of its own.

    Raises:
        Undecodable: a recorded value is not of the type that its carrier has by now.
    """
    for name, value in carried:
        if (carrier := _CARRIERS.get(name)) is not None:
            carrier.restore(values.decode(value, carrier.kind, f"what is carried as {name}"))


def _declare(name: str, carrier: Carrier) -> None:
    known = _CARRIERS.get(checked_name(name, "carrier"))
    if known is not None and known.module != carrier.module:
        raise BadName("carrier", name, f"the module {known.module} carries something under this name already. Give it another one")
    _CARRIERS[name] = carrier


def _module_of_caller() -> str:
    frame = currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return "" if caller is None else str(caller.f_globals.get("__name__", ""))
