"""What a decision is made of: the host that makes it, and what comes of it."""

from collections.abc import Mapping

import msgspec

from perdure.core import events as e
from perdure.core import mail
from perdure.core.ops import Call
from perdure.core.paths import Path
from perdure.core.program import Say


class Host(msgspec.Struct, frozen=True):
    """Where the decision is made: who holds the execution, which queues it serves itself, and where its threads still run.

    A call on a queue that the host serves is performed by it, in the commit that opens it. `versions` are those in which it starts workflows
    whose version nobody pinned. `busy` are the paths at which an earlier try has not ended yet, so that no further one may begin; `young` those of
    tries that the host began so lately that their time is not over yet, whatever their execution expects.
    Of executions of the workflows in `archives`, what compaction replaces is kept.
    """

    holder: str
    queues: frozenset[str] = frozenset(("",))
    versions: Mapping[str, int] = msgspec.field(default_factory=dict)
    busy: frozenset[Path] = frozenset()
    archives: frozenset[str] = frozenset()
    young: frozenset[Path] = frozenset()

    def takes(self, op: Call) -> str | None:
        """The holder, if it performs the call itself."""
        return self.holder if op.queue in self.queues and not op.limited else None


class Decision(msgspec.Struct, gc=False):
    """What was decided: events to append, mail to send and work to take back, payloads to keep, lines to print once all is durable."""

    events: list[e.Event] = msgspec.field(default_factory=list)
    sends: list[mail.Send] = msgspec.field(default_factory=list)
    acks: list[mail.Ack] = msgspec.field(default_factory=list)
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict)
    lines: list[Say] = msgspec.field(default_factory=list)

    def mail(self) -> tuple[tuple[mail.Send, ...], tuple[mail.Ack, ...]]:
        """What is to be sent, and what to be taken back. Work that is sent and taken back in one commit is not sent at all: nobody has leased it."""
        if not self.sends:
            return (), tuple(self.acks)
        sends, acks = {(send.to, send.key): send for send in self.sends}, list[mail.Ack]()
        for ack in self.acks:
            if sends.pop((ack.to, ack.key), None) is None:
                acks.append(ack)
            elif ack.unleased is not None:
                sends[ack.unleased.to, ack.unleased.key] = ack.unleased
        return tuple(sends.values()), tuple(acks)
