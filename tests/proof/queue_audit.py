"""What is known of queues beside the store: their limits, who has leased which work, and how often that was handed over.

Counted is what the living hold, found anew at each claim; a claim that hands over anything of a queue must leave it within its limits.

The ledger of steps and of what undoes them, as they began in the world, against the log of their execution.

What the log says of a step once its execution has ended: that it has succeeded, that it failed, that it was abandoned in flight, or that it never began.
Whatever began in the world is one of the first three. What is to be undone of them follows, and that was undone, the last first, and nothing else was.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from perdure.core import events as e
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage, QueuedMessage
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure, Outcome, Success
from perdure.core.paths import UNDO, Key, Path, QueueAddress, path_text
from perdure.stores.protocol import Head, QueueLimits

TryKey = tuple[Key, Path, int]
"""A try of a call: of which execution, at which path, the how-manieth."""

SLACK = 1e-3
"""What a beginning may be early by, in intervals of a rate: times are fractions."""


class Handed(NamedTuple):
    """What a queue hands over: executions or work, in which lane, and whether for the first time."""

    queue: str
    what: str
    lane: str
    fresh: bool


class Leases:
    """The leases of a store. What is wrong with them goes to `complain`; `lives` says of a holder whether it is alive."""

    def __init__(self, complain: Callable[[str], None], lives: Callable[[str], bool]) -> None:
        self._complain, self._lives = complain, lives
        self._limits: dict[str, QueueLimits] = {}
        self._free_at_s: dict[tuple[str, str], float] = {}
        self._holders: dict[int, str] = {}
        self._loose: set[int] = set()
        self._numbers: dict[TryKey, int] = {}
        self.strays: set[TryKey] = set()
        self.handed: Counter[TryKey] = Counter()
        self.handed_to: Counter[tuple[TryKey, str]] = Counter()

    def limit(self, queue: str, limits: QueueLimits | None) -> None:
        """A queue has these limits from now on."""
        self._limits[queue] = limits or QueueLimits()

    def is_limited(self, queue: str) -> bool:
        """Whether a queue has been given limits."""
        return queue in self._limits

    def end(self, holder: str | None = None) -> None:
        """What a holder had leased is free, or with None what anybody had."""
        self._holders = {number: other for number, other in self._holders.items() if holder not in (None, other)}
        self._loose &= self._holders.keys()

    def revive(self, holder: str) -> None:
        """A dead holder is alive again: some of what it had leased may have been freed meanwhile, and is leased again."""
        self._loose.update(number for number, other in self._holders.items() if other == holder)

    def stray(self, sends: Iterable[OutgoingMessage]) -> None:
        """Work is sent outside of any decision, or to another reach: it may come when it was done, or when nobody wants it any more."""
        self.strays.update(_try(send.body) for send in sends if isinstance(send.to, QueueAddress))

    def again(self, call: tuple[Key, Path], tries: int) -> int:
        """How often the tries of a call were handed over to more than one."""
        return sum(max(0, self.handed[*call, attempt] - 1) for attempt in range(1, tries + 1))

    def over(self, number: int) -> None:
        """This work was answered, or taken back."""
        self._holders.pop(number, None)
        self._loose.discard(number)

    def holds(self, this: TryKey, holder: str) -> bool:
        """Whether a holder has the lease on a try, and lives."""
        return self._holders.get(self._numbers.get(this, 0)) == holder and self._lives(holder)

    def leased(self, work: Iterable[QueuedMessage], holder: str) -> list[Handed]:
        """Work is handed to a holder: to nobody while another lives who has it."""
        found = []
        for message in work:
            before, this = self._holders.get(message.number), _try(message.body)
            if before is not None and self._lives(before) and message.number not in self._loose:
                self._complain(f"{_named(this)} was taken from {before}, who is alive, and given to {holder}")
            self._holders[message.number] = holder
            self._loose.discard(message.number)
            self._numbers[this] = message.number
            self.handed[this] += 1
            self.handed_to[this, life(holder)] += 1
            found.append(Handed(_queue(message), "calls", message.lane, message.deliveries == 1))
        return found

    def check(self, handed: Iterable[Handed], heads: Iterable[Head], boxes: Mapping[str, Iterable[QueuedMessage]], now_s: float) -> None:
        """What has just been handed over is within the limits of its queue, and comes at its rate. `heads` and `boxes` are as they are now."""
        fresh = [one for one in handed if self.is_limited(one.queue)]
        if not fresh:
            return
        held = {"executions": self._held(heads), "calls": self._leased(boxes)}
        for queue, what, lane, begins in fresh:
            limits, mine = self._limits[queue], held[what]
            in_all, in_lane = sum(count for (name, _), count in mine.items() if name == queue), mine[queue, lane]
            if limits.concurrency is not None and in_all > limits.concurrency:
                self._complain(f"{in_all} {what} of queue {queue} are held, {limits.concurrency} may be")
            if limits.per_lane is not None and in_lane > limits.per_lane:
                self._complain(f"{in_lane} {what} of queue {queue} are held for {lane!r}, {limits.per_lane} may be")
            if begins and limits.interval_s > 0:
                self._begins(queue, what, limits, now_s)

    def _begins(self, queue: str, what: str, limits: QueueLimits, now_s: float) -> None:
        free_at_s = max(now_s, self._free_at_s.get((queue, what), now_s))
        if free_at_s - now_s > (limits.burst - 1 + SLACK) * limits.interval_s:
            self._complain(f"{what} of queue {queue} begin faster than one per {limits.interval_s:g} s: the next was due {free_at_s - now_s:g} s later")
        self._free_at_s[queue, what] = free_at_s + limits.interval_s

    def _held(self, heads: Iterable[Head]) -> Counter[tuple[str, str]]:
        return Counter((head.queue, head.lane) for head in heads if head.holder is not None and self._lives(head.holder))

    def _leased(self, boxes: Mapping[str, Iterable[QueuedMessage]]) -> Counter[tuple[str, str]]:
        living = (message for box in boxes.values() for message in box if (holder := self._holders.get(message.number)) is not None and self._lives(holder))
        return Counter((_queue(message), message.lane) for message in living)


def life(holder: str) -> str:
    """The process behind a holder, under whatever name it has come back: what it was given under one name it may begin as it takes the next."""
    return holder.partition("~")[0]


def _queue(message: QueuedMessage) -> str:
    assert isinstance(message.to, QueueAddress), "only work is leased"
    return message.to.name


def _try(body: bytes) -> TryKey:
    work = messages.decode_message_or_task(body)
    assert isinstance(work, messages.TaskMessage), "queues hold work"
    return work.execution, work.path, work.attempt


def _named(this: TryKey) -> str:
    key, path, attempt = this
    return f"{key}: {path_text(path)}, try {attempt}"


class StepAudit:
    """What the log of one execution says of its steps, in the life that it is in; forgotten turns of loops are kept."""

    def __init__(self) -> None:
        self._calls: dict[Path, CallOperation] = {}
        self._outcomes: dict[Path, Outcome | None] = {}
        self._was_parked = False

    def note(self, execution: Execution, event: e.Event) -> None:
        """Take down an event, already folded into `execution`."""
        match event:
            case e.OpenedEvent(path, CallOperation() as op):
                self._calls[path] = op
            case e.SettledEvent(path) | e.RecalledEvent(path) | e.DroppedEvent(path):
                self._settle(execution, path)
            case e.ParkedEvent():
                self._was_parked = True
            case e.ResumedEvent():
                self._was_parked = False
            case e.EndedEvent():
                for path in self._calls:
                    if path not in self._outcomes:
                        self._settle(execution, path)
            case e.ReopenedEvent():
                self._calls, self._outcomes, self._was_parked = {}, {}, False

    def _settle(self, execution: Execution, path: Path) -> None:
        if path in self._calls and path in execution.settled:
            self._outcomes[path] = execution.settled[path].outcome

    def differs(self, execution: Execution, undoes: bool, began: Callable[[Path], int], strays: Callable[[Path], int]) -> Iterator[str]:
        """What does not agree, now that it has ended: `began` says how many tries did in the world, `strays` how many of these may have been let loose when
        nobody wanted them any more; `undoes`, whether a failure is undone at all."""
        steps = {path: op for path, op in self._calls.items() if path[0] != UNDO}
        for path in steps:
            if path not in self._outcomes:
                yield f"{path_text(path)} is neither open nor settled"
            elif began(path) > strays(path) and _is_known_not_to_have_begun(self._outcomes[path]):
                yield f"{path_text(path)} began, and the log says that it never did"
        if self._was_parked:  # it was ended as it stood, perhaps in the midst of undoing
            return
        wanted = [path for path, outcome in reversed(self._outcomes.items()) if path in steps and _is_to_be_undone(steps[path], outcome)]
        wanted = wanted if _is_undone(execution, undoes) else []
        undone = [path[1:] for path in self._calls if path[0] == UNDO]
        if undone != wanted:
            yield f"undone was {[*map(path_text, undone)]}, to be undone was {[*map(path_text, wanted)]}"
        yield from (f"{path_text(path)} is undone by the log, and was not" for path in undone if not began((UNDO, *path)))


def _is_undone(execution: Execution, undoes: bool) -> bool:
    """Whether all that is to be undone was to be, as the execution ended: not if it has returned, had not begun, or is not to undo."""
    ended, cancelling = execution.ended, execution.cancelling
    if execution.completed is not None:
        return True
    if ended is None or ended.status == "completed":
        return False
    return undoes if cancelling is None else cancelling.undo


def _is_to_be_undone(op: CallOperation, outcome: Outcome | None) -> bool:
    if not op.undo or isinstance(outcome, Success):
        return bool(op.undo)
    return op.undo == "in_doubt" and not _is_known_not_to_have_begun(outcome)


def _is_known_not_to_have_begun(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failure) and outcome.kind == "cancelled" and not outcome.attempts
