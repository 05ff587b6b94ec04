"""A scripted program and a story around it: messages go in, and what was decided is folded, rebuilt and compared after each."""

from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

from perdure.core import envelopes, messages
from perdure.core import events as e
from perdure.core.decision import DecisionContext, ExecutionDecision, decide
from perdure.core.errors import Diverged, ErrorInfo
from perdure.core.execution import Execution, execution_facts
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import CallOperation, Failure, Operation, Success, is_same_operation
from perdure.core.paths import Key, Path, parse_path, path_text
from perdure.core.program import DropCommand, FinishCommand, LogCommand, OpenCommand, ProgramCommand, TrimCommand
from perdure.core.replay import LoadBlob, fold_events, replay_program
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.time_bounds import TimeBounds
from perdure.core.values import ENCODED_NONE, encode

T = TypeVar("T")
Script = Mapping[str, Sequence[ProgramCommand]]
"""What a program asks for, by what happens: ``start`` (a reopening too), ``cancel``, ``resume``, or the text of the path that settled."""

KEY = Key("acme", "order", "1")
OTHER = Key("acme", "audit", "7")
NOW_S = 1_000_000_000.0
HOST = DecisionContext("me", frozenset(("",)), {"order": 3})
DONE = FinishCommand("completed", Success())
FAILED = FinishCommand("failed", Failure("failed", 1, ErrorInfo("Error", "no")))


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

    def feed(self, execution: Execution, event: e.Event, recorded: ReplayCursor | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        if self._divergence is not None:
            raise self._divergence
        assert not self.closed
        self.fed.append(event)
        self.values.update(values)
        commands = self.script.get(_trigger(event), ())
        if recorded is None:
            return commands
        for command in commands:
            self._compare(command, recorded)
        return ()

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        return () if definition else ("it is empty",)

    def refuse(self, diverged: Diverged) -> None:
        self._divergence = diverged

    def close(self) -> None:
        self.closed = True

    def _compare(self, command: ProgramCommand, recorded: ReplayCursor) -> None:
        if isinstance(command, TrimCommand | LogCommand):
            return
        known_command = recorded.next()
        if known_command is not None:
            recorded.take()
        match command, known_command:
            case OpenCommand(path, op), e.OpenedEvent(known, known_op) if path == known and is_same_operation(known_op, op):
                return
            case DropCommand(path), e.DroppedEvent(known) if path == known:
                return
            case FinishCommand(), e.EndedEvent():
                return
            case asked, known_event:
                self._divergence = Diverged((), (f"remembered {known_event}, asked for {asked}",))
                raise self._divergence


def _trigger(event: e.Event) -> str:
    match event:
        case e.StartedEvent() | e.ReopenedEvent():
            return "start"
        case e.CancellingEvent():
            return "cancel"
        case e.StoppedEvent():
            return "stop"
        case e.ResumedEvent():
            return "resume"
        case e.SettledEvent(path) | e.ReceivedEvent(path) | e.RecalledEvent(path):
            return path_text(path)
        case e.IterationResumedEvent(path, turn):
            return f"{path_text(path)} turns to {turn}"
    raise AssertionError(f"a program was fed {event}")


class ScriptedExecution:
    """An execution of a scripted program. After each message: the fold of its log is the execution, and so is its replay. It is `now_s`, or so much
    earlier as the host is `unsure_s` of the time."""

    def __init__(self, script: Script, host: DecisionContext = HOST, blobs: Mapping[str, bytes] | None = None) -> None:
        self.script = script
        self.host = host
        self.execution = Execution(KEY)
        self.program = Scripted(script)
        self.now_s = NOW_S
        self.unsure_s = 0.0
        self.events: list[e.Event] = []
        self.blobs: dict[str, bytes] = dict(blobs or {})
        self.loaded: list[str] = []
        self.messages: list[envelopes.OutgoingMessage] = []
        self.acks: list[envelopes.Ack] = []
        self._mail = 0

    def say(self, message: ExecutionMessage, after_s: float = 0.0) -> list[e.Event]:
        """Let `message` arrive `after_s` later; return what happened."""
        return self.decide(message, after_s).events

    def decide(self, message: ExecutionMessage, after_s: float = 0.0) -> ExecutionDecision:
        """The same, with all of the decision."""
        self.now_s += after_s
        self._mail += 1
        deciding = decide(self.execution, message, self.program, TimeBounds(self.now_s - self.unsure_s, self.now_s), self.host, self._mail)
        decision, loaded = driven(deciding, self.blobs)
        self.loaded += loaded
        self.events += decision.events
        self.blobs |= decision.blobs
        self.messages += decision.messages
        self.acks += decision.acks
        assert execution_facts(fold_events(KEY, self.events)) == execution_facts(self.execution)
        if self.execution.parked is None:
            assert execution_facts(self.rebuilt().execution) == execution_facts(self.execution)
        return decision

    def begin(self, **fields: object) -> list[e.Event]:
        """Start it."""
        return self.say(messages.StartMessage(**fields))  # type: ignore[arg-type]  # the fields of Start

    def settle(self, shown: str, outcome: Success | Failure | None = None, attempt: int = 1) -> list[e.Event]:
        """Let the answer to a try arrive."""
        return self.say(messages.SettleMessage(parse_path(shown), attempt, outcome or Success()))

    def tick(self, after_s: float = 0.0) -> list[e.Event]:
        """Let time pass."""
        return self.say(messages.TickMessage(), after_s)

    def signal(self, name: str, body: object = None, **fields: object) -> list[e.Event]:
        """Let a message from outside arrive."""
        return self.say(messages.SignalMessage(name, encode(body, "body"), **fields))  # type: ignore[arg-type]  # the fields of Signal

    def rebuilt(self, script: Script | None = None) -> "ScriptedExecution":
        """A cold story of the same log, whose program must not diverge."""
        again, diverged = self.restored(script)
        assert diverged is None, diverged
        return again

    def restored(self, script: Script | None = None) -> "tuple[ScriptedExecution, Diverged | None]":
        """A cold story of the same log, and how its program diverged."""
        again = ScriptedExecution(self.script if script is None else script, self.host, self.blobs)
        diverged, again.loaded = driven(replay_program(again.execution, self.events, again.program), self.blobs)
        again.events, again.now_s, again._mail = list(self.events), self.now_s, self._mail
        return again, diverged

    @property
    def status(self) -> str:
        return self.execution.status

    @property
    def sent(self) -> list[object]:
        """What was sent so far, decoded."""
        return [messages.decode_message_or_task(send.body) for send in self.messages]


def driven(deciding: Generator[LoadBlob, bytes, T], blobs: Mapping[str, bytes]) -> tuple[T, list[str]]:
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
    return parse_path(shown)


def opens(shown: str, op: Operation | None = None) -> OpenCommand:
    """A request for an operation, by default a call."""
    return OpenCommand(parse_path(shown), CallOperation(parse_path(shown)[-1][0]) if op is None else op)  # type: ignore[index]  # the last segment is a name


def name_of(raw: bytes) -> str:
    """The name that a payload has as a blob."""
    return sha256(raw).hexdigest()


def value(size_bytes: int) -> bytes:
    """An encoded value of about this size."""
    return encode("x" * size_bytes, "value") if size_bytes else ENCODED_NONE
