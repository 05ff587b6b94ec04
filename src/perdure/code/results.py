"""What verbs return: outcomes as data, the winner of a race, a record of branches, a message that can be completed."""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from perdure.core.operations import Failure

T = TypeVar("T")


class Ok(msgspec.Struct, Generic[T], frozen=True):
    """A step that succeeded, as `ctx.attempt` returns it."""

    value: T


Err = Failure
"""A failure, as workflows see it: its kind, how many attempts were made, and the error."""

Attempt = Ok[T] | Err
"""What `ctx.attempt` returns: `Ok(value)`, or `Err(kind, attempts, error)` with kind exhausted, timeout, fatal or interrupted."""


class Won(msgspec.Struct, Generic[T], frozen=True):
    """The branch of a race that returned first, and what it returned."""

    name: str
    value: T = None  # type: ignore[assignment]  # so that `case Won("late")` and Won("late") read well


class Record(dict[str, Any]):
    """What the branches of a join returned, by name: ``record["user"]`` or ``record.user``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no branch {name!r}; there are {', '.join(self) or 'none'}") from None


class Message(Generic[T]):
    """A received message that stays its execution's until `complete` is called, which sends the reply to whoever asked."""

    __slots__ = ("_complete", "body", "name")

    def __init__(self, name: str, body: T, complete: Callable[[Any], None]) -> None:
        self.name = name
        self.body = body
        self._complete = complete

    def complete(self, reply: Any = None) -> None:
        """Answer the message; from the commit that this is part of on, it is dealt with.

        Raises:
            WrongVerb: it was completed before.
        """
        self._complete(reply)


Means = Literal["message", "api", "command", "link"]
"""How a vote reaches an approval: as a message to it, by a client, by a command, or by a signed link."""


class Vote(msgspec.Struct, frozen=True):
    """What a person says to an approval: for it or against it, with a comment and, for it, the form filled in.

    `at_s` is when it was taken, and `means` how it came.
    """

    by: str
    approve: bool
    comment: str = ""
    value: Any = None
    groups: tuple[str, ...] = ()
    at_s: float = 0.0
    means: Means = "message"


class Decision(msgspec.Struct, Generic[T], frozen=True):
    """How an approval was decided: the form as filled in, by whom it was decided last, when and by what means, and all that was said.

    `expired`: by time, not by a person; `means` is ``"timeout"`` then.
    """

    approved: bool
    value: T
    by: str = ""
    comment: str = ""
    votes: tuple[Vote, ...] = ()
    expired: bool = False
    at_s: float = 0.0
    means: Means | Literal["timeout"] = "message"

    def __bool__(self) -> bool:
        return self.approved


class PortResult(msgspec.Struct, frozen=True):
    """What a workflow returns that says by which port a graph goes on."""

    value: Any
    port: str
