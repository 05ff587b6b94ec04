"""The syntax of the workflow programs that `programs` generates and runs, and `oracle` predicts: plain data, which msgspec writes as JSON and reads again."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

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

    `undo` says when it is undone, should the execution that it is in fail: once it is done, or also when that is in doubt. In a `queue`,
    workers do it. In flight at the end, it has `grace_s`, or the usual time.
    """

    name: str
    behaviour: Behaviour = Answers()
    form: Form = "plain"
    tries: int | None = None
    timeout_s: float | None = None
    sync: bool = False
    echo: bool = False
    undo: Literal["", "done", "in_doubt"] = ""
    queue: str = ""
    priority: int = 0
    grace_s: float | None = None


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


class Changed(msgspec.Struct, frozen=True, tag=True):
    """Code that deploys have changed: the way w runs `ways[w - 1]`, and code of deploy d knows the ways up to d + 1. That of deploy 0 goes the
    first one without asking. What a way returns is not looked at, and none fails.
    """

    name: str
    ways: "tuple[Node, ...]"


class Removed(msgspec.Struct, frozen=True, tag=True):
    """A verb that code has before deploy `by`, and not any more from then on. What it returns is not looked at, and it does not fail."""

    verb: "Verb"
    by: int = 1


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
    """A child execution of the workflow called `name`, awaited; with `undo`, it is undone with the execution that calls it. It may begin in a `queue`. One
    with a deadline waits for what never comes.
    """

    name: str
    body: "Node"
    undo: bool = False
    queue: str = ""
    priority: int = 0
    deadline_s: float | None = None


class Beside(msgspec.Struct, frozen=True, tag=True):
    """`body`, with `steps` begun beside it that nobody awaits: they are in flight as it ends, or have ended well before."""

    steps: tuple[Step, ...]
    body: "Node"


class Stubborn(msgspec.Struct, frozen=True, tag=True):
    """Waits for ever, and goes on with that when it is cancelled."""


class Sequence(msgspec.Struct, frozen=True, tag=True):
    """One after the other; what fails ends it. Nothing is put between the nodes of one that is `fixed`, as what comes of it depends on their order."""

    nodes: "tuple[Node, ...]"
    fixed: bool = False


class Guard(msgspec.Struct, frozen=True, tag=True):
    """A try statement around `body`."""

    body: "Node"


Verb = Step | Sleep | Listen | Keep | Call
"""What may be removed."""

Leaf = Step | Attempt | Sleep | Listen | Gather | Send | Keep | Tell | Raise | Approve | Gate | Stubborn
Node = Leaf | Changed | Removed | Join | Map | Race | Loop | Together | Call | Beside | Sequence | Guard


class Message(NamedTuple):
    """A message from outside, `at_s` seconds after the start; those at 0 are sent before the start. Of two with the same key one counts."""

    at_s: float
    name: str
    body: Json
    key: str


class Line(msgspec.Struct, frozen=True):
    """A queue with priorities, and perhaps limits: at a time, of each key (the turns that a step or child is told), one per so many seconds."""

    name: str
    concurrency: int | None = None
    per_key: int | None = None
    interval_s: float | None = None
    burst: int = 1

    @property
    def is_limited(self) -> bool:
        """Whether it has any limit."""
        return self.concurrency is not None or self.per_key is not None or self.interval_s is not None


class Program(msgspec.Struct, frozen=True):
    """A workflow, what is sent to it from outside, in order, and the queue in which it begins."""

    root: Node
    messages: tuple[Message, ...] = ()
    queue: str = ""


class Mishap(Exception):
    """An error of the workflow's own code."""


def walk(node: Node) -> Iterator[Node]:
    """The node and all within it, the outer ones first."""
    yield node
    match node:
        case Attempt(inner) | Guard(inner) | Map(body=inner) | Loop(body=inner) | Call(body=inner) | Removed(inner):
            yield from walk(inner)
        case Sequence(nodes) | Together(nodes) | Changed(ways=nodes):
            for one in nodes:
                yield from walk(one)
        case Beside(steps, body):
            for one in (*steps, body):
                yield from walk(one)
        case Join(branches) | Race(branches):
            for one in branches.values():
                yield from walk(one)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` made to it and to all within it, the inner ones first."""

    def again(inner: Any) -> Any:
        return rebuilt(inner, change)

    match node:
        case Attempt(step):
            node = Attempt(again(step))
        case Removed(verb):
            node = replace(node, verb=again(verb))
        case Guard(body) | Map(body=body) | Loop(body=body) | Call(body=body):
            node = replace(node, body=again(body))
        case Sequence(nodes) | Together(nodes):
            node = replace(node, nodes=tuple(map(again, nodes)))
        case Changed(ways=ways):
            node = replace(node, ways=tuple(map(again, ways)))
        case Beside(steps, body):
            node = Beside(tuple(map(again, steps)), again(body))
        case Join(branches) | Race(branches):
            node = replace(node, branches={name: again(body) for name, body in branches.items()})
    return change(node)
