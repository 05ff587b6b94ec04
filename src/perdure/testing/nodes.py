"""The syntax of the workflow programs that `programs` generates and runs, and `oracle` predicts: plain data, which msgspec writes as JSON and reads again."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

Form = Literal["plain", "declared", "named", "renamed"]
"""How a program writes a step: a plain function, a declared step, with a name in front, or `with_` other options."""

Json = Any
"""None, bool, int, float, str, list, or dict by str."""

ERRORS: dict[str, type[Exception]] = {"ValueError": ValueError, "RuntimeError": RuntimeError, "ConnectionError": ConnectionError}
"""What failing steps raise, by name."""


class Answers(msgspec.Struct, frozen=True, tag=True):
    """Fails with a ValueError the first `failures` times, then takes `duration_s` and returns `value`, with so much padding as a text."""

    value: Json = None
    failures: int = 0
    duration_s: float = 0.0
    padding_chars: int = 0


class Fails(msgspec.Struct, frozen=True, tag=True):
    """Fails in every try with one of `ERRORS`."""

    error: str = "ValueError"


class GivesUp(msgspec.Struct, frozen=True, tag=True):
    """Raises `Fatal`."""


class Hangs(msgspec.Struct, frozen=True, tag=True):
    """Never ends by itself."""


Behaviour = Answers | Fails | GivesUp | Hangs


class Step(msgspec.Struct, frozen=True, tag=True):
    """A step: `tries` None is the default retry, 3 tries. With `echo` it returns [value, turns that the innermost loop has done].

    `undo` says when it is undone, should the execution that it is in fail: once it is done, or also when that is in doubt.
    """

    name: str
    behaviour: Behaviour = Answers()
    form: Form = "plain"
    tries: int | None = None
    timeout_s: float | None = None
    sync: bool = False
    echo: bool = False
    undo: Literal["", "done", "in_doubt"] = ""


class Attempt(msgspec.Struct, frozen=True, tag=True):
    """A step whose failure is a value."""

    step: Step


class Sleep(msgspec.Struct, frozen=True, tag=True):
    """A sleep."""

    duration_s: float


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Waits for one message; `default` has one value or none."""

    message: str
    timeout_s: float | None = None
    default: tuple[Json, ...] = ()


class Gather(msgspec.Struct, frozen=True, tag=True):
    """Waits for several messages."""

    message: str
    limit: int
    timeout_s: float | None = None


class Send(msgspec.Struct, frozen=True, tag=True):
    """Sends a message to the own execution."""

    message: str
    body: Json = None


class Keep(msgspec.Struct, frozen=True, tag=True):
    """Keeps a value; making it is an effect."""

    name: str
    value: Json = None


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Sets the state `key` and attributes, which depend on those before, and emits the value."""

    key: str
    value: Json = None


class Raise(msgspec.Struct, frozen=True, tag=True):
    """The workflow's own code raises `Mishap`."""


class Approve(msgspec.Struct, frozen=True, tag=True):
    """Asks for an approval, which nobody gives: time decides."""

    title: str
    timeout_s: float
    approves: bool


class Gate(msgspec.Struct, frozen=True, tag=True):
    """Asks which way to go: the newest, as the code never changes."""

    name: str
    latest: int


class Join(msgspec.Struct, frozen=True, tag=True):
    """Branches side by side; with `catch`, JoinFailed is a value."""

    branches: "dict[str, Node]"
    catch: bool = True


class Map(msgspec.Struct, frozen=True, tag=True):
    """`body` for each item; messages within have the item's number in their name."""

    items: tuple[Json, ...]
    body: "Node"
    limit: int | None = None
    catch: bool = True


class Race(msgspec.Struct, frozen=True, tag=True):
    """Branches of which one returns, or all fail; with `catch`, RaceFailed is a value."""

    branches: "dict[str, Node]"
    catch: bool = True


class Loop(msgspec.Struct, frozen=True, tag=True):
    """So many turns of `body`. `options` are those of `ctx.loop`; the state counts the turns and has the last four values."""

    name: str
    turns: int
    body: "Node"
    options: dict[str, int] = {}


class Together(msgspec.Struct, frozen=True, tag=True):
    """Verbs under asyncio.gather."""

    nodes: tuple[Step | Sleep, ...]


class Call(msgspec.Struct, frozen=True, tag=True):
    """A child execution of the workflow called `name`, awaited; with `undo`, it is undone with the execution that calls it."""

    name: str
    body: "Node"
    undo: bool = False


class Sequence(msgspec.Struct, frozen=True, tag=True):
    """One after the other; what fails ends it."""

    nodes: "tuple[Node, ...]"


class Guard(msgspec.Struct, frozen=True, tag=True):
    """A try statement around `body`."""

    body: "Node"


Node = Step | Attempt | Sleep | Listen | Gather | Send | Keep | Tell | Raise | Approve | Gate | Join | Map | Race | Loop | Together | Call | Sequence | Guard


class Message(NamedTuple):
    """A message from outside, `at_s` seconds after the start; those at 0 are sent before the start. Of two with the same key one counts."""

    at_s: float
    name: str
    body: Json
    key: str


class Program(msgspec.Struct, frozen=True):
    """A workflow, and what is sent to it from outside, in order."""

    root: Node
    messages: tuple[Message, ...] = ()


class Mishap(Exception):
    """An error of the workflow's own code."""


def walk(node: Node) -> Iterator[Node]:
    """The node and all within it, the outer ones first."""
    yield node
    match node:
        case Attempt(inner) | Guard(inner) | Map(body=inner) | Loop(body=inner) | Call(body=inner):
            yield from walk(inner)
        case Sequence(nodes) | Together(nodes):
            for one in nodes:
                yield from walk(one)
        case Join(branches) | Race(branches):
            for one in branches.values():
                yield from walk(one)
