"""The results of verbs: outcomes as data, the winner of a race, a record of branches, a message that can be completed."""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from perdure.core.operations import Failure

T = TypeVar("T")


class Ok(msgspec.Struct, Generic[T], frozen=True):
    """A step that succeeded, as `ctx.attempt` returns it."""

    value: T


Err = Failure
"""A failure as data: its kind, the number of attempts, and the error."""

Attempt = Ok[T] | Err
"""The result of `ctx.attempt`: `Ok(value)`, or `Err(kind, attempts, error)` with kind exhausted, timeout, fatal or interrupted."""


class Won(msgspec.Struct, Generic[T], frozen=True):
    """The branch of a race that returned first, and its value."""

    name: str
    value: T = None  # type: ignore[assignment]  # so that `case Won("late")` and Won("late") read well


class Record(dict[str, Any]):
    """The results of the branches of a join, by name: ``record["user"]`` or ``record.user``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no branch {name!r}; the branches are {', '.join(self) or 'none'}") from None


class Message(Generic[T]):
    """A received message that is not consumed until `complete` is called, which sends the reply to the sender."""

    __slots__ = ("_complete", "body", "name")

    def __init__(self, name: str, body: T, complete: Callable[[Any], None]) -> None:
        self.name = name
        self.body = body
        self._complete = complete

    def complete(self, reply: Any = None) -> None:
        """Replies to the message and consumes it, in one commit with what follows.

        Raises:
            WrongVerb: it was completed before.
        """
        self._complete(reply)


Means = Literal["message", "api", "command", "link"]
"""How a vote reached an approval: as a message, by a client, by a command, or by a signed link."""


class Vote(msgspec.Struct, frozen=True):
    """The vote of a person on an approval: in favour or against, with a comment and, if in favour, the filled-in form.

    `at_s` is when the vote was counted, and `means` how it arrived.
    """

    by: str
    approve: bool
    comment: str = ""
    value: Any = None
    groups: tuple[str, ...] = ()
    at_s: float = 0.0
    means: Means = "message"


class Decision(msgspec.Struct, Generic[T], frozen=True):
    """How an approval was decided: the filled-in form, the last person who decided, when and by what means, and all votes.

    With `expired`, the timeout decided and not a person; `means` is ``"timeout"`` then.
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
    """The result of a workflow that chooses the port by which a definition continues."""

    value: Any
    port: str
