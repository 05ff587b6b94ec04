"""What is known of queues beside the store: their limits, who has leased which work, and how often that was handed over.

Counted is what the living hold, found anew at each claim; a claim that hands over anything of a queue must leave it within its limits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from perdure.core import messages
from perdure.core.mail import Mail, Send
from perdure.core.paths import Key, Path, Queue, text
from perdure.stores.base import Head, Limits

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
        self._limits: dict[str, Limits] = {}
        self._free_at_s: dict[tuple[str, str], float] = {}
        self._holders: dict[int, str] = {}
        self._numbers: dict[TryKey, int] = {}
        self.strays: set[TryKey] = set()
        self.handed: Counter[TryKey] = Counter()
        self.handed_to: Counter[tuple[TryKey, str]] = Counter()

    def limit(self, queue: str, limits: Limits | None) -> None:
        """A queue has these limits from now on."""
        self._limits[queue] = limits or Limits()

    def is_limited(self, queue: str) -> bool:
        """Whether a queue has been given limits."""
        return queue in self._limits

    def end(self, holder: str | None = None) -> None:
        """What a holder had leased is free, or with None what anybody had."""
        self._holders = {number: other for number, other in self._holders.items() if holder not in (None, other)}

    def stray(self, sends: Iterable[Send]) -> None:
        """Work is sent outside of any decision, or to another reach: it may come when it was done, or when nobody wants it any more."""
        self.strays.update(_try(send.body) for send in sends if isinstance(send.to, Queue))

    def again(self, call: tuple[Key, Path], tries: int) -> int:
        """How often the tries of a call were handed over to more than one."""
        return sum(max(0, self.handed[*call, attempt] - 1) for attempt in range(1, tries + 1))

    def over(self, number: int) -> None:
        """This work was answered, or taken back."""
        self._holders.pop(number, None)

    def holds(self, this: TryKey, holder: str) -> bool:
        """Whether a holder has the lease on a try, and lives."""
        return self._holders.get(self._numbers.get(this, 0)) == holder and self._lives(holder)

    def leased(self, work: Iterable[Mail], holder: str) -> list[Handed]:
        """Work is handed to a holder: to nobody while another lives who has it."""
        found = []
        for mail in work:
            before, this = self._holders.get(mail.number), _try(mail.body)
            if before is not None and self._lives(before):
                self._complain(f"{_named(this)} was taken from {before}, who is alive, and given to {holder}")
            self._holders[mail.number] = holder
            self._numbers[this] = mail.number
            self.handed[this] += 1
            self.handed_to[this, life(holder)] += 1
            found.append(Handed(_queue(mail), "calls", mail.lane, mail.deliveries == 1))
        return found

    def check(self, handed: Iterable[Handed], heads: Iterable[Head], boxes: Mapping[str, Iterable[Mail]], now_s: float) -> None:
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

    def _begins(self, queue: str, what: str, limits: Limits, now_s: float) -> None:
        free_at_s = max(now_s, self._free_at_s.get((queue, what), now_s))
        if free_at_s - now_s > (limits.burst - 1 + SLACK) * limits.interval_s:
            self._complain(f"{what} of queue {queue} begin faster than one per {limits.interval_s:g} s: the next was due {free_at_s - now_s:g} s later")
        self._free_at_s[queue, what] = free_at_s + limits.interval_s

    def _held(self, heads: Iterable[Head]) -> Counter[tuple[str, str]]:
        return Counter((head.queue, head.lane) for head in heads if head.holder is not None and self._lives(head.holder))

    def _leased(self, boxes: Mapping[str, Iterable[Mail]]) -> Counter[tuple[str, str]]:
        living = (mail for box in boxes.values() for mail in box if (holder := self._holders.get(mail.number)) is not None and self._lives(holder))
        return Counter((_queue(mail), mail.lane) for mail in living)


def life(holder: str) -> str:
    """The process behind a holder, under whatever name it has come back: what it was given under one name it may begin as it takes the next."""
    return holder.partition("~")[0]


def _queue(mail: Mail) -> str:
    assert isinstance(mail.to, Queue), "only work is leased"
    return mail.to.name


def _try(body: bytes) -> TryKey:
    work = messages.decode(body)
    assert isinstance(work, messages.Work), "queues hold work"
    return work.execution, work.path, work.attempt


def _named(this: TryKey) -> str:
    key, path, attempt = this
    return f"{key}: {text(path)}, try {attempt}"
