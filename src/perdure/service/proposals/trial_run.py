"""Runs a definition in memory and in virtual time, on what an execution of another version has recorded.

The decisions are those of an engine: `decide` is pure, and what it opens is answered from the record instead of being performed. Messages arrive when they
arrived then, timers fire as the time comes, and no operation is performed. At the first operation without an answer, the run stops: what would follow is
not known.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import Any, NamedTuple

from perdure.code.approval_requests import ApprovalVerdict
from perdure.code.declarations import Step
from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.decision import DecisionContext, decide
from perdure.core.errors import PerdureError, StoreUnavailable
from perdure.core.execution import Execution
from perdure.core.messages import ExecutionMessage
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Outcome, ReceiveOperation, SleepOperation, SpawnOperation, Success, awaits_approval
from perdure.core.paths import Path
from perdure.core.pinned_calls import Hosting
from perdure.core.program import CATALOG_PROGRAM
from perdure.core.time_bounds import TimeBounds
from perdure.definitions.format.model import verbs_by_name
from perdure.definitions.graph.graph_verbs import new_graph_program
from perdure.definitions.graph.graph_workflow import WALK_VERSION, DefinitionRelease, GraphWorkflow
from perdure.definitions.graph.ir import IR, GraphNode
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.runtime.blob_loader import BlobCache, run_with_blobs
from perdure.service.proposals.recorded_answers import RecordedAnswers, place_of

DECISIONS_MAX = 10_000
"""How many messages and timers one run handles. What takes more may have no end."""

DECISIONS_AT_ONCE = 20

TIMED_SHARE = 0.999
"""An answer arrives within this share of the time that an attempt has: it did not time out when it was recorded."""

LATER_BY_S, LATER_SHARE = 0.001, 0.01
"""By how much longer than it was recorded a call may stay unanswered before its answer counts as missing."""


class UnansweredUntil(NamedTuple):
    """That the operation at `path`, whose result was not waited for when it was recorded, might be answered from now on."""

    path: Path


class RecordedMessage(NamedTuple):
    """That a message arrives, as it has arrived when it was recorded."""

    event: e.MessageArrivedEvent


class UnknownStep(NamedTuple):
    """The step from which on nothing is known (empty: the execution as a whole), and why."""

    step: str
    why: str


class TriedDefinition(NamedTuple):
    """A definition to run: its release, its intermediate form, what it may call, with bytes by hash, and values of steps that have no record."""

    release: DefinitionRelease
    ir: IR
    hosting: Hosting
    blobs: Mapping[str, bytes]
    mocks: Mapping[str, Any]


class RecordedRun(NamedTuple):
    """An execution that was recorded: its log, what that folds to, and the answers in it."""

    events: Sequence[e.Event]
    execution: Execution
    answers: RecordedAnswers


class TrialKinds(Mapping[str, Kind]):
    """The kinds of a run in which nothing is performed: those that are installed here, and those whose results were recorded elsewhere."""

    def __init__(self, recorded: frozenset[str]) -> None:
        self._installed, self._recorded = KindRegistry(), recorded

    def __getitem__(self, name: str) -> Kind:
        try:
            kind = self._installed[name]
        except (KeyError, PerdureError):  # it is not here, or an optional library of it is not
            if name not in self._recorded:
                raise KeyError(name) from None
            kind = Kind(name, _refuse)
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self._recorded or name in self._installed

    def __iter__(self) -> Iterator[str]:
        return iter(self._installed)

    def __len__(self) -> int:
        return len(self._installed)


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("a trial performs nothing, and was asked to perform a step")


class TrialRun:
    """One run. After `run`, `unknown` says from where on it is not known (None: it has ended), and `events` is its log."""

    def __init__(self, tried: TriedDefinition, recorded: RecordedRun, payloads: BlobCache) -> None:
        self._tried, self._recorded, self._payloads = tried, recorded, payloads
        key = recorded.execution.key
        agent = recorded.answers.agent or f"{CATALOG_PROGRAM}.agent"
        kinds = TrialKinds(recorded.answers.kinds)
        undoing = (node.undo.tool for node in tried.ir.nodes if node.undo is not None)
        tools: dict[str, Step[Any, Any, Any]] = {name: Step(_refuse, name=name) for name in (*recorded.answers.targets, *undoing) if name not in kinds}
        self._program = new_graph_program(GraphWorkflow(CATALOG_PROGRAM, kinds=kinds, tools=tools, agent=agent), key)
        self._nodes: dict[str, GraphNode] = {node.id: node for node in tried.ir.nodes}
        self._due: list[tuple[float, int, ExecutionMessage | RecordedMessage | UnansweredUntil]] = []
        self._numbers, self._message_numbers = count(), count(1)
        self.execution, self.events = Execution(key), list[e.Event]()
        self.blobs = dict(tried.blobs)
        self.unknown: UnknownStep | None = None

    async def run(self, until_s: float = math.inf) -> None:
        """Runs until the execution has ended, or nothing more is known; up to the time `until_s` of the monotonic clock.

        Raises:
            StoreUnavailable: a recorded value can't be read at present.
        """
        try:
            await self._run(until_s)
        except StoreUnavailable:
            raise  # it says nothing about the document
        except PerdureError as error:
            self.unknown = UnknownStep("", f"it can't be run here: {error}")
        finally:
            self._program.close()

    async def _run(self, until_s: float) -> None:
        started = self._recorded.execution.started
        assert started is not None, "an execution that has begun"
        release = self._tried.release
        for event in self._recorded.events:
            if isinstance(event, e.MessageArrivedEvent):
                self._schedule(event.at_s, RecordedMessage(event))
        first = messages.StartMessage(
            version=WALK_VERSION,
            input=started.input,
            seed=started.seed,
            deadline_s=release.deadline_s,
            depth=started.depth,
            attributes=started.attributes,
            definition=release.raw,
            grace_s=release.grace_s,
            hosting=self._tried.hosting,
        )
        await self._take(first, started.at_s)
        for number in range(DECISIONS_MAX):
            if self.execution.ended is not None or self.unknown is not None:
                return
            if number % DECISIONS_AT_ONCE == 0:
                if monotonic() >= until_s:
                    self.unknown = UnknownStep("", "the trial took too long")
                    return
                await asyncio.sleep(0)  # others of this process go on
            await self._advance()
        self.unknown = self.unknown or UnknownStep("", f"it takes more than {DECISIONS_MAX:,} answers and timers")

    async def _advance(self) -> None:
        """Handles what comes next: an answer, a message, or a timer."""
        wake_s = self.execution.wake_at()
        if self._due and (wake_s is None or self._due[0][0] <= wake_s):
            at_s, _, message = heappop(self._due)
            if isinstance(message, UnansweredUntil):
                if (pending := self.execution.open.get(message.path)) is not None:
                    await self._stop_at(pending)
            elif isinstance(message, RecordedMessage):
                event = message.event
                await self._deliver(messages.SignalMessage(event.name, event.body, event.key, event.sender, event.sent), max(at_s, self.execution.now_s))
            elif not isinstance(message, messages.PresetMessage) or message.path in self.execution.open:  # else nothing waits for it any more
                await self._take(message, max(at_s, self.execution.now_s))
        elif (waiting := self._unanswered(wake_s)) is not None:
            await self._stop_at(waiting)
        elif wake_s is None:
            detail = () if self.execution.parked is None else self.execution.parked.detail
            self.unknown = UnknownStep("", f"it needs attention: {'; '.join(detail)}")
        else:
            await self._take(messages.TickMessage(), wake_s)

    def _unanswered(self, wake_s: float | None) -> PendingOperation | None:
        """The operation that would have been answered next, and of which the record says nothing; None if something else comes before that.

        A message that did not come may have come after the end of the record, and a call whose result nothing waited for has a result.
        """
        if wake_s is None:
            return next((one for one in self.execution.open.values() if not isinstance(one.op, SleepOperation)), None)
        timer = self.execution.opened.due_first()
        if timer is None or timer.due_at_s != wake_s or isinstance(timer.op, SleepOperation):
            return None
        return timer if isinstance(timer.op, CallOperation) or wake_s > self._recorded.execution.now_s else None

    async def _stop_at(self, waiting: PendingOperation) -> None:
        """Gives a wait for a message the value of the user, or stops."""
        step = place_of(waiting.path, self._nodes).step
        if not isinstance(waiting.op, ReceiveOperation):
            self.unknown = UnknownStep(step, "the recorded execution did not wait for its result")
        elif step in self._tried.mocks:
            body = values.encode(self._tried.mocks[step], f"the message for {step}")
            await self._deliver(messages.SignalMessage(waiting.op.names[0], body), self.execution.now_s)
        else:
            self.unknown = UnknownStep(step, "it waits for a message that was not recorded")

    def _schedule(self, at_s: float, message: ExecutionMessage | RecordedMessage | UnansweredUntil) -> None:
        heappush(self._due, (at_s, next(self._numbers), message))

    async def _deliver(self, message: messages.SignalMessage, now_s: float) -> None:
        """Puts a message for the program into the mailbox, under the next number."""
        await self._take(message, now_s, next(self._message_numbers))

    async def _take(self, message: ExecutionMessage, now_s: float, number: int = 0) -> None:
        """Decides on one message, and schedules the answers to what that opens."""
        deciding = decide(self.execution, message, self._program, TimeBounds.exactly(now_s), DecisionContext("trial"), number)
        decision = await run_with_blobs(self._payloads, deciding, self.blobs)
        self.blobs |= decision.blobs
        self.events += decision.events
        for event in decision.events:
            if self.unknown is None and isinstance(event, e.OpenedEvent) and event.path in self.execution.open:
                await self._answer(event.path, event.op)

    async def _answer(self, path: Path, op: Any) -> None:
        """Schedules the recorded answer to an operation, or else the value that the user gives."""
        if not isinstance(op, CallOperation | SpawnOperation):
            return
        place = place_of(path, self._nodes)
        node = self._nodes.get(place.step)
        found = await self._recorded.answers.take(place, path, op, node, self._tried.ir)
        if not isinstance(found, str) and found.is_lost:
            # Something else decided meanwhile. It had no answer until then; what it would have had later is not known.
            self._schedule(self.execution.now_s + found.took_s * (1 + LATER_SHARE) + LATER_BY_S, UnansweredUntil(path))
            return
        if not isinstance(found, str):
            after_s = min([found.took_s, *(TIMED_SHARE * limit for limit in _limits_s(op))])
            self._schedule(self.execution.now_s + after_s, messages.PresetMessage(path, found.outcome))
        elif place.step in self._tried.mocks and not place.undo:
            self._schedule(self.execution.now_s, messages.PresetMessage(path, self._mocked(op, node, place.step)))
        else:
            self.unknown = UnknownStep(place.step, found)

    def _mocked(self, op: CallOperation | SpawnOperation, node: GraphNode | None, step: str) -> Outcome:
        """The outcome of a step that has the value that the user gives."""
        value = self._tried.mocks[step]
        encode = partial(values.encode, what=f"the value for {step}")
        if awaits_approval(op):
            return Success(encode(ApprovalVerdict(bool(value), False, (), self.execution.now_s)), "approved" if value else "rejected")
        field = "" if node is None or isinstance(op, CallOperation) else verbs_by_name()[node.kind].child_output
        return Success(encode({field: value} if field else value))


def _limits_s(op: CallOperation | SpawnOperation) -> list[float]:
    """How long an attempt may take, or be silent."""
    given = (op.timeout_s, op.heartbeat_s) if isinstance(op, CallOperation) else ()
    return [one for one in given if one is not None]
