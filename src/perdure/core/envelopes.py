"""Messages as the store sees them: addressed, keyed and numbered, with a body that it does not read."""

import msgspec

from perdure.core.attributes import IndexedAttributes
from perdure.core.paths import Address, Key


class NewExecution(msgspec.Struct, frozen=True, gc=False):
    """The head of an execution that a message creates if there is none yet.

    `program` is as `perdure.core.program.program_name` makes it, ``order@2`` or, unpinned, ``order@``; `root` is the topmost
    ancestor, by which an engine can restrict itself to one family of executions. With a `queue`, claims hand it out in the order of its `lane` and
    within the limits of the queue, until it ends. Queries find it by its `attributes`.
    """

    program: str
    root: Key
    queue: str = ""
    lane: str = ""
    priority: int = 0
    attributes: IndexedAttributes = ()


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A message to send. A second message with the same key to the same address has no effect.

    It may be delivered from `due_at_s` on, by the clock of the store (0: at once). With `opens`, the store makes a head if the address has none. Work for a
    queue has its `lane` and its `priority` there. `refers` lists the blobs that the body refers to and that the store has already; a blob may be stored
    under one of several names.
    """

    to: Address
    key: str
    body: bytes
    due_at_s: float = 0.0
    opens: NewExecution | None = None
    lane: str = ""
    priority: int = 0
    refers: tuple[tuple[str, ...], ...] = ()


class QueuedMessage(msgspec.Struct, frozen=True, gc=False):
    """A stored message. The store numbers messages in order of arrival, and delivers them to an execution in this order.

    `deliveries` counts how often it was handed to a worker, this time included (0 for a message to an execution).
    """

    number: int
    to: Address
    key: str
    body: bytes
    due_at_s: float
    deliveries: int = 0
    lane: str = ""
    priority: int = 0


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Acknowledges a message, which removes it from the store; acknowledging one that is gone has no effect.

    When a task is taken back that a worker may be performing in a transaction, `answer` is the key of the message that would have settled it. With
    `postpone_to_s` the message stays in its place without a holder and is due again at that time of the store. `unleased` is sent if the message was
    there and had not been leased.
    """

    to: Address
    key: str
    answer: str = ""
    postpone_to_s: float | None = None
    unleased: OutgoingMessage | None = None
