"""A scripted program and a story around it: messages go in, and what was decided is folded, rebuilt and compared after each."""

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

from perdure.core import events as e
from perdure.core import mail, messages
from perdure.core.decide import decide
from perdure.core.decision import Decision, Host
from perdure.core.errors import Diverged, ErrorInfo
from perdure.core.execution import Execution
from perdure.core.facts import facts
from perdure.core.folding import fold
from perdure.core.messages import Message
from perdure.core.ops import Call, Err, Ok, Op, same
from perdure.core.paths import Key, Path, parse, text
from perdure.core.program import Command, Drop, Finish, Open, Say, Trim
from perdure.core.rebuild import Load, rebuild
from perdure.core.time_bounds import TimeBounds
from perdure.core.values import NOTHING, encode

T = TypeVar("T")
Script = Mapping[str, Sequence[Command]]
"""What a program asks for, by what happens: ``start`` (a reopening too), ``cancel``, ``resume``, or the text of the path that settled."""

KEY = Key("acme", "order", "1")
OTHER = Key("acme", "audit", "7")
NOW_S = 1_000_000_000.0
HOST = Host("me", frozenset(("",)), {"order": 3})
DONE = Finish("completed", Ok())
FAILED = Finish("failed", Err("failed", 1, ErrorInfo("Error", "no")))


class Scripted:
    """A program that asks for what its script says. A full one: on replay it compares each request in its place, and closed it refuses."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.fed: list[e.Event] = []
        self.values: dict[str, bytes] = {}
        self.closed = False
        self._divergence: Diverged | None = None
        self.awake = True
        self.keeps_archives = False

    def feed(self, execution: Execution, event: e.Event, remembered: deque[e.Event] | None, values: Mapping[str, bytes]) -> Sequence[Command]:
        if self._divergence is not None:
            raise self._divergence
        assert not self.closed
        self.fed.append(event)
        self.values.update(values)
        commands = self.script.get(_trigger(event), ())
        if remembered is None:
            return commands
        for command in commands:
            self._compare(command, remembered)
        return ()

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        return () if definition else ("it is empty",)

    def refuse(self, diverged: Diverged) -> None:
        self._divergence = diverged

    def close(self) -> None:
        self.closed = True

    def _compare(self, command: Command, remembered: deque[e.Event]) -> None:
        while remembered and isinstance(remembered[0], e.Trimmed):
            remembered.popleft()
        if isinstance(command, Trim | Say):
            return
        match command, remembered.popleft() if remembered else None:
            case Open(path, op), e.Opened(known, known_op) if path == known and same(known_op, op):
                return
            case Drop(path), e.Dropped(known) if path == known:
                return
            case Finish(), e.Ended():
                return
            case asked, known_event:
                self._divergence = Diverged((), (f"remembered {known_event}, asked for {asked}",))
                raise self._divergence


def _trigger(event: e.Event) -> str:
    match event:
        case e.Started() | e.Reopened():
            return "start"
        case e.Cancelling():
            return "cancel"
        case e.Stopped():
            return "stop"
        case e.Resumed():
            return "resume"
        case e.Settled(path) | e.Received(path) | e.Recalled(path):
            return text(path)
        case e.Turned(path, turn):
            return f"{text(path)} turns to {turn}"
    raise AssertionError(f"a program was fed {event}")


class Story:
    """An execution of a scripted program. After each message: the fold of its log is the execution, and so is its replay. It is `now_s`, or so much
    earlier as the host is `unsure_s` of the time."""

    def __init__(self, script: Script, host: Host = HOST, blobs: Mapping[str, bytes] | None = None) -> None:
        self.script = script
        self.host = host
        self.execution = Execution(KEY)
        self.program = Scripted(script)
        self.now_s = NOW_S
        self.unsure_s = 0.0
        self.events: list[e.Event] = []
        self.blobs: dict[str, bytes] = dict(blobs or {})
        self.loaded: list[str] = []
        self.sends: list[mail.Send] = []
        self.acks: list[mail.Ack] = []
        self._mail = 0

    def say(self, message: Message, after_s: float = 0.0) -> list[e.Event]:
        """Let `message` arrive `after_s` later; return what happened."""
        return self.decide(message, after_s).events

    def decide(self, message: Message, after_s: float = 0.0) -> Decision:
        """The same, with all of the decision."""
        self.now_s += after_s
        self._mail += 1
        deciding = decide(self.execution, message, self.program, TimeBounds(self.now_s - self.unsure_s, self.now_s), self.host, self._mail)
        decision, loaded = driven(deciding, self.blobs)
        self.loaded += loaded
        self.events += decision.events
        self.blobs |= decision.blobs
        self.sends += decision.sends
        self.acks += decision.acks
        assert facts(fold(KEY, self.events)) == facts(self.execution)
        if self.execution.parked is None:
            assert facts(self.rebuilt().execution) == facts(self.execution)
        return decision

    def begin(self, **fields: object) -> list[e.Event]:
        """Start it."""
        return self.say(messages.Start(**fields))  # type: ignore[arg-type]  # the fields of Start

    def settle(self, shown: str, outcome: Ok | Err | None = None, attempt: int = 1) -> list[e.Event]:
        """Let the answer to a try arrive."""
        return self.say(messages.Settle(parse(shown), attempt, outcome or Ok()))

    def tick(self, after_s: float = 0.0) -> list[e.Event]:
        """Let time pass."""
        return self.say(messages.Tick(), after_s)

    def signal(self, name: str, body: object = None, **fields: object) -> list[e.Event]:
        """Let a message from outside arrive."""
        return self.say(messages.Signal(name, encode(body, "body"), **fields))  # type: ignore[arg-type]  # the fields of Signal

    def rebuilt(self, script: Script | None = None) -> "Story":
        """A cold story of the same log, whose program must not diverge."""
        again, diverged = self.cold(script)
        assert diverged is None, diverged
        return again

    def cold(self, script: Script | None = None) -> "tuple[Story, Diverged | None]":
        """A cold story of the same log, and how its program diverged."""
        again = Story(self.script if script is None else script, self.host, self.blobs)
        diverged, again.loaded = driven(rebuild(again.execution, self.events, again.program), self.blobs)
        again.events, again.now_s, again._mail = list(self.events), self.now_s, self._mail
        return again, diverged

    @property
    def status(self) -> str:
        return self.execution.status

    @property
    def sent(self) -> list[object]:
        """What was sent so far, decoded."""
        return [messages.decode(send.body) for send in self.sends]


def driven(deciding: Generator[Load, bytes, T], blobs: Mapping[str, bytes]) -> tuple[T, list[str]]:
    """Run a generator of the core to its end; return its result, and the blobs that it asked for."""
    loaded: list[str] = []
    answer: bytes | None = None
    while True:
        try:
            asked = deciding.send(answer)  # type: ignore[arg-type]  # the first is None by the rules of generators
        except StopIteration as end:
            return end.value, loaded
        loaded.append(asked.blob.sha256)
        answer = blobs[asked.blob.sha256]


def path(shown: str) -> Path:
    """A path, as its text."""
    return parse(shown)


def opens(shown: str, op: Op | None = None) -> Open:
    """A request for an operation, by default a call."""
    return Open(parse(shown), Call(parse(shown)[-1][0]) if op is None else op)  # type: ignore[index]  # the last segment is a name


def name_of(raw: bytes) -> str:
    """The name that a payload has as a blob."""
    return sha256(raw).hexdigest()


def value(size_bytes: int) -> bytes:
    """An encoded value of about this size."""
    return encode("x" * size_bytes, "value") if size_bytes else NOTHING
